"""Measurements that some densities of a bank have, and others have not."""

import numpy as np
import pytest
from density_cases import LINEAR

import ergode

NAN = float("nan")
VALUES = dict(zip("abcdef", (-0.3, -2.0, 1.5, 0.1, 0.0, 0.0), strict=True))
PRIOR = ergode.Gaussian([1.0, 0.5], [1.0, 0.5])
NOISE = np.array([[0.1, 0.03], [0.03, 0.2]])
CALLS = {
    "split": lambda prior, **named: grid_or_flow(prior, scheme="split", **named),
    "flow": lambda prior, **named: grid_or_flow(prior, scheme="flow", **named),
    "flow with noise": lambda prior, **named: grid_or_flow(
        prior, scheme="flow", process_noise=[0.1, 0.1], **named
    ),
    "kalman": lambda prior, **named: ergode.particles.unscented_kalman(
        LINEAR, prior, times=[0.0, 1.0], parameters=VALUES, device="cpu:1", **named
    ),
}  # fmt: skip


def both(y, t, p):
    return y[0], y[0] + y[1]


def first(y, t, p):
    return (y[0],)


def last(y, t, p):
    return (y[0] + y[1],)


def unmoved(y, t, p):
    return (0.0 * y[0],)


def grid_or_flow(prior, **named):
    return ergode.density.propagate(
        LINEAR, prior, times=[0.0, 1.0], parameters=VALUES, device="cpu:1", keep="none", **named
    )


@pytest.mark.parametrize("name", CALLS)
def test_a_density_without_a_value_is_as_if_nothing_had_been_measured(name):
    """Of four densities one has both components, two have one, and the last has none."""
    rows = [[0.4, 0.7], [0.4, NAN], [NAN, 0.7], [NAN, NAN]]
    call = CALLS[name]
    found = call([PRIOR] * 4, measurements=[ergode.Measurement(0.5, both, rows, NOISE)])
    alone = [
        [ergode.Measurement(0.5, both, rows[0], NOISE)],
        [ergode.Measurement(0.5, first, 0.4, 0.1)], [ergode.Measurement(0.5, last, 0.7, 0.2)],
        # A grid ends a step at the time of a measurement.
        [ergode.Measurement(0.5, likelihood=unmoved)] if name == "split" else [],
    ]  # fmt: skip
    for which, measurements in enumerate(alone):
        one = call(PRIOR, measurements=measurements)
        evidence = float(one["log_evidence"][0]) if measurements else 0.0
        assert float(found["log_evidence"][which, 0]) == pytest.approx(evidence, abs=1e-9)
        assert np.allclose(found["mean"][which, -1], one["mean"][-1], atol=1e-9)
        assert np.allclose(found["covariance"][which, -1], one["covariance"][-1], atol=1e-9)


def test_a_single_density_without_a_value_is_refused():
    with pytest.raises(ergode.ModelError, match="finite numbers.*NaN there is not measured"):
        ergode.Measurement(0.5, both, [0.4, NAN], NOISE)
    with pytest.raises(ergode.ModelError, match="finite numbers"):
        ergode.Measurement(0.5, both, [[0.4, np.inf]], NOISE)
