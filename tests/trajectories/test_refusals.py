"""What contradicts itself, or is below what numbers can do, is refused; what failed is missing."""

import numpy as np
import pytest

import ergode
from ergode.core.status import Status
from ergode.trajectories import Mean, ZeroCrossing, integrate, lyapunov_spectrum


def decay(t, y, p):
    return (-y[0],)


def explosion(t, y, p):
    return (y[0] ** 2,)


def low(t, y, p):
    return y[0] - 0.5


DECAY = ergode.VectorField(decay, ["y"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rtol": 1e-17}, "rtol is 1e-17; expected at least 8.9e-16"),
        ({"rtol": 1e-7, "precision": "float32"}, "rtol is 1e-07; expected at least 4.8e-07"),
        ({"rtol": 2.0}, "rtol is 2"),
        ({"step": 0.1, "rtol": 1e-6}, "step is 0.1 and rtol 1e-06"),
        ({"step": 0.1, "atol": 1e-9}, "step is 0.1 and atol 1e-09"),
        ({"step": 0.1, "max_step": 0.1}, "step is 0.1 and max_step 0.1"),
    ],
)
def test_steps_and_tolerances_that_cannot_be(options, said):
    with pytest.raises(ergode.PlanError, match=said):
        integrate(DECAY, times=[0.0, 1.0], initial={"y": 1.0}, device="cpu", **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"step": 0.1}, "step is 0.1"),
        ({"rtol": 1e-17}, "rtol is 1e-17"),
        ({"duration": 0.0}, "duration is 0.0"),
        ({"transient": -1.0}, "transient is -1.0"),
    ],
)
def test_exponents_that_cannot_be(options, said):
    with pytest.raises(ergode.PlanError, match=said):
        lyapunov_spectrum(DECAY, initial={"y": 1.0}, device="cpu", **{"duration": 5.0, **options})


def test_what_failed_is_neither_counted_nor_observed():
    field = ergode.VectorField(explosion, ["y"])
    with pytest.warns(ergode.FailureWarning, match="1 of 2"):
        result = integrate(
            field, times=[0.0, 0.5, 3.0], initial={"y": [0.1, 1.0]}, device="cpu",
            events=[ZeroCrossing(low)], observables=[Mean("y")],
        )  # fmt: skip
    assert result["status"].values.tolist()[0] == Status.DONE
    assert result["status"].values.tolist()[1] != Status.DONE
    np.testing.assert_array_equal(result["event_count"].values[:, 0], [0.0, np.nan])
    assert np.isfinite(result["observed"].values[0, 0])
    assert np.isnan(result["observed"].values[1, 0])
    np.testing.assert_allclose(result["state"].values[1, :, 0], [1.0, 2.0, np.nan], rtol=1e-5)


def test_states_beyond_infinity_are_missing():
    field = ergode.VectorField(explosion, ["y"])
    with pytest.warns(ergode.FailureWarning):
        result = integrate(
            field, times=[0.0, 0.5, 3.0, 4.0], initial={"y": 1.0}, device="cpu", step=0.01
        )
    assert np.isnan(result["state"].values[2:]).all()


def test_exponents_of_what_failed_are_missing():
    field = ergode.VectorField(explosion, ["y"])
    with pytest.warns(ergode.FailureWarning):
        found = lyapunov_spectrum(field, initial={"y": [-1.0, 1.0]}, duration=2.0, device="cpu")
    assert np.isfinite(found["exponent"].values[0]).all()
    assert np.isnan(found["exponent"].values[1]).all()
    assert found["status"].values[1] != Status.DONE
