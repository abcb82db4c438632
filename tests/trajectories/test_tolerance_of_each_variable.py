"""Tests of an absolute tolerance for each variable: what is refused, and how."""

import numpy as np
import pytest

import ergode
from ergode.core.errors import PlanError
from ergode.trajectories.tolerances import check_tolerances


def _decay(t, y, p):
    return (-y[0], -y[1])


FIELD = ergode.VectorField(_decay, ["a", "b"])


@pytest.mark.parametrize("atol", [(1e-6, 1e-7), np.array([1e-6, 1e-7]), {"a": 1e-6, "b": 1e-7}])
def test_every_variable_has_its_own(atol):
    np.testing.assert_array_equal(
        check_tolerances(None, atol, None, "float64", FIELD)[1], [1e-6, 1e-7]
    )


@pytest.mark.parametrize("atol", [1e-6, np.float64(1e-6), np.array(1e-6)])
def test_one_number_stays_one_number(atol):
    assert check_tolerances(None, atol, None, "float64", FIELD)[1] == 1e-6


@pytest.mark.parametrize(
    ("atol", "message"),
    [
        ([1e-6], r"atol has shape \(1,\)"),
        ([[1], [1, 2]], "atol is .*; expected positive numbers"),
        ([1e-6, float("nan")], "atol of 'b' is"),
        ([1e-6, 0], "atol of 'b' is 0"),
        ({"a": -1}, "atol of 'a' is -1"),
        ({"a": True}, "atol of 'a' is True"),
        ({"c": 1e-6}, "'c', which is no variable; the field has a, b"),
    ],
)
def test_what_is_no_tolerance_is_refused(atol, message):
    with pytest.raises(PlanError, match=message):
        check_tolerances(None, atol, None, "float64", FIELD)


def _damped(t, y, p):
    return (y[1], -y[0] - 0.1 * y[1])


def _diffusion(i, t, y, p):
    return y[i - 1] - 2.0 * y[i] + y[(i + 1) % len(y)]


SMALL = ergode.VectorField(_damped, ["x", "v"])
RING = ergode.VectorField(component=_diffusion, variables=("x", 12))
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", ["tsit5", "rodas5p", "rk4"])
def test_equal_ones_are_one_number(method, device):
    """To the last bit, in every engine that has tolerances."""
    cases = [(SMALL, {"x": np.linspace(0.5, 1, 5), "v": 0.0}, 2),
             (RING, {"x": np.sin(np.arange(12.0))}, 12)]  # fmt: skip
    for field, start, size in cases:
        if method == "rodas5p" and field is RING and device != "cpu":
            continue
        one, each = (
            ergode.trajectories.integrate(
                field, times=[0, 1, 2], initial=start, method=method, rtol=1e-5, atol=atol,
                device=device,
            )
            for atol in (1e-7, np.full(size, 1e-7))
        )  # fmt: skip
        name = "state" if field is SMALL else "x"
        np.testing.assert_array_equal(each[name], one[name])
        assert np.all(each.attrs.get("step_count", 0) == one.attrs.get("step_count", 0))


@pytest.mark.parametrize("device", DEVICES)
def test_the_strictest_one_counts(device):
    """Where one variable is asked for to 1e-12, its error is; where none is, errors are large."""
    errors = []
    for atol in ({"x": 1e-12, "v": 1e-12}, {"x": 1e-12, "v": 1e3}, {"x": 1e-3, "v": 1e-3}):
        found = ergode.trajectories.integrate(
            SMALL, times=[0.0, 10.0], initial={"x": 1.0, "v": 0.0}, rtol=1e-14, atol=atol,
            method="tsit5", device=device,
        )  # fmt: skip
        w = np.sqrt(1 - 0.05**2)
        exact = np.exp(-0.5) * (np.cos(10 * w) + 0.05 / w * np.sin(10 * w))
        errors.append(abs(float(found["state"][-1, 0]) - exact))
    assert errors[0] < 1e-10 and errors[1] < 1e-9 and errors[2] > 1e-6
