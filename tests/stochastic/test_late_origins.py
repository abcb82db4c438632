"""Times that are far from zero, such as seconds since 1970, where a rounding is 2e-7."""

import numpy as np
import pytest
from scipy import stats

import ergode


@pytest.mark.parametrize("method", ["rejection-bounds", "hybrid"])
def test_a_delay_beside_a_rate_that_depends_on_time(method):
    """Poisson amounts: products come out at times that are roundings from a window's end.

    It never returned. The mean is that of the equation x' = 20 - 0.4 (1 + 0.5 sin t) x.
    """
    origin = 1.7e9
    network = ergode.ReactionNetwork(
        {"X": 0},
        [
            ergode.Reaction("0 -> X", rate_constant=20.0, delay=1.5),
            ergode.Reaction("X -> 0", rate=f"0.4*X*(1 + 0.5*sin(time - {origin!r}))"),
        ],
    )
    count = 400
    found = ergode.stochastic.simulate(
        network, times=[origin, origin + 10], replicates=count, seed=1, method=method,
        device="cpu", max_firings=100_000,
    )  # fmt: skip
    assert (found["status"] == 0).all()
    t = np.linspace(0, 10, 100_001)
    lost = 0.4 * t - 0.2 * np.cos(t)
    known = np.trapezoid(np.where(t >= 1.5, 20 * np.exp(lost - lost[-1]), 0.0), t)
    last = found["amount"].isel(time=-1).values
    assert abs(last.mean() - known) < stats.norm.isf(1e-7) * np.sqrt(known / count)
