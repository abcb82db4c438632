"""Implicit methods where fast variables follow others: states within steps, events, observables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trajectories_slaved as slaved
from fresh import fresh_seeds
from trajectories_options import DEVICES

from ergode.trajectories.methods import METHODS
from ergode.trajectories.steppers import stepper

# Options, and the error of states that they allow: that of a few tolerances.
METHODS_OF_NAMED = {
    "rodas5p": ({"rtol": 1e-6, "atol": 1e-7}, 3e-5),
    "radau5": ({"rtol": 1e-6, "atol": 1e-7}, 3e-5),
    "rosenbrock23": ({"rtol": 1e-5, "atol": 1e-6}, 1e-3),
}
METHODS_OF_ARRAYS = {
    "rodas5p": METHODS_OF_NAMED["rodas5p"], "rodas5p-krylov": METHODS_OF_NAMED["rodas5p"],
    "rosenbrock23": METHODS_OF_NAMED["rosenbrock23"], "bdf": ({"rtol": 1e-7, "atol": 1e-8}, 3e-5),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("watched", [False, True])
def test_random_slaved_variables(watched, device):
    """Named, and of arrays: a loop on the host, and kernels for several trajectories."""
    wrong = slaved.compare(0, METHODS_OF_NAMED, device, arrays=False, count=3, watched=watched)
    for count in (1, 3):
        wrong += slaved.compare(
            0, METHODS_OF_ARRAYS, device, arrays=True, count=count, watched=watched
        )
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_random_slaved_variables_for_long(device):
    wrong = []
    for seed in fresh_seeds(0.1):
        name = str(np.random.default_rng(seed).choice(list(METHODS_OF_ARRAYS)))
        options = {name: METHODS_OF_ARRAYS[name]}
        sizes = {"slow": seed % 3, "fast": 1 + seed % 2, "watched": seed % 2 == 0}
        if name in METHODS_OF_NAMED:
            wrong += slaved.compare(seed, options, device, arrays=False, count=3, **sizes)
        wrong += slaved.compare(seed, options, device, arrays=True, count=1 + seed % 3, **sizes)
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["rodas5p", "radau5"])
def test_dense_output_that_is_not_checked_is_noticed(name, monkeypatch, nothing_compiled):
    known = METHODS[name]
    broken = replace(known, bindings={**known.bindings, stepper.PROBES: ()})
    monkeypatch.setitem(METHODS, name, broken)
    options = {name: METHODS_OF_NAMED[name]}
    for watched in (False, True):  # slow variables would shorten steps
        assert slaved.compare(
            0, options, "cpu", arrays=False, count=3, watched=watched, slow=0, fast=1
        )
