"""Backward differentiation formulas by the text of their kernels, run as Python."""

import math

import numpy as np
import pytest

from ergode.core.group import ONE
from ergode.core.math import nordsieck


@pytest.mark.parametrize("evenly", [True, False])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_order_of_convergence(order, evenly, monkeypatch):
    """Of y' = -2 (y - cos t) - sin t, whose solution is cos t, in steps of any length."""
    monkeypatch.setattr(nordsieck, "share", lambda group, first, stop: range(first, stop))
    monkeypatch.setattr(nordsieck, "barrier", lambda group: None)

    def worst(count):
        lengths = 1 + (0.0 if evenly else 0.3) * np.sin(40 * np.arange(count) / count)
        lengths *= 6.0 / lengths.sum()
        history, gain, past = np.zeros((6, 1)), np.zeros(7), np.full(7, lengths[0])
        for j in range(order + 1):
            slope = math.cos(j * math.pi / 2)
            history[j] = lengths[0] ** j * slope / math.factorial(j)
        t, most = 0.0, 0.0
        for k, h in enumerate(lengths):
            nordsieck.rescale(history, order, h / lengths[max(k - 1, 0)], ONE)
            t += h
            nordsieck.predict(history, order, ONE)
            nordsieck.put_coefficients(gain, past, order, h)
            y, moved = history[:2, 0]
            miss = h * (-2 * (y - math.cos(t)) - math.sin(t)) - moved
            history[: order + 1, 0] += gain[: order + 1] * miss / (gain[1] + 2 * h)
            nordsieck.keep_length(past, order, h, k + 1)
            most = max(most, abs(history[0, 0] - math.cos(t)))
        return most

    assert abs(np.log2(worst(120) / worst(240)) - order) < 0.15
