"""What contradicts itself, or is below what numbers can do, is refused; what failed is missing."""

import functools
import math

import numpy as np
import pytest

import ergode
from ergode.core.status import Status
from ergode.trajectories import Mean, ZeroCrossing, integrate, lyapunov_spectrum
from ergode.trajectories.events import check_events


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
        ({"max_steps": 0}, "max_steps is 0"),
    ],
)
def test_exponents_that_cannot_be(options, said):
    with pytest.raises(ergode.PlanError, match=said):
        lyapunov_spectrum(DECAY, initial={"y": 1.0}, device="cpu", **{"duration": 5.0, **options})


def test_exponents_with_noise_are_refused():
    """The noise was ignored: dx = x/2 dt + 2 x dW has the exponent -1.5, and +0.5 came out."""
    noisy = ergode.field_from_equations({"x": "x / 2"}, diffusion={"x": "2 * x"})
    with pytest.raises(ergode.PlanError, match="without noise"):
        lyapunov_spectrum(noisy, initial={"x": 1.0}, duration=5.0, device="cpu")


def test_exponents_need_the_steps_that_they_are_given():
    def saddle(t, y, p):  # as in the example of `lyapunov_spectrum`
        return p[0] * y[0], -2.0 * y[1]

    field = ergode.VectorField(saddle, ["x", "y"], ["rate"])
    with pytest.warns(ergode.FailureWarning, match="max_steps"):
        found = lyapunov_spectrum(
            field, initial={"x": 1.0, "y": 1.0}, parameters={"rate": -1.0}, duration=200.0,
            max_steps=40, device="cpu",
        )  # fmt: skip
    assert int(found["status"]) == Status.TOO_MANY_STEPS


def half_root(t, y, p):
    return math.sqrt(y[0] - 0.5)


def test_an_event_that_is_not_a_number_is_a_failure():
    """It was counted zero times, and the trajectories were done."""
    with pytest.warns(ergode.FailureWarning, match="2 of 3"):
        result = integrate(
            DECAY, times=[0.0, 1.0], initial={"y": [2.0, 0.6, 0.25]}, device="cpu",
            events=[ZeroCrossing(half_root)],
        )  # fmt: skip
    assert result["status"].values.tolist() == [0, Status.NOT_FINITE, Status.NOT_FINITE]
    assert np.isnan(result["event_count"].values.ravel()).tolist() == [False, True, True]


def test_an_event_has_no_index_beyond_the_variables():
    with pytest.raises(ergode.ModelError, match=r"uses y\[1\], but there is 1 variable"):
        integrate(
            DECAY, times=[0, 1], initial={"y": 1}, device="cpu",
            events=[ZeroCrossing(lambda t, y, p: y[1])],
        )  # fmt: skip


@pytest.mark.parametrize("options", [{"initial": {"y": 1e39}}, {"times": [0.0, 1e39]}])
def test_numbers_that_a_precision_does_not_hold_are_refused(options):
    """They became infinite, with a warning of NumPy's."""
    given = {"initial": {"y": 1.0}, "times": [0.0, 1.0], **options}
    with pytest.raises(ergode.PlanError, match="is 1e[+]39; float32 holds numbers up to 3.4e[+]38"):
        integrate(DECAY, device="cpu", precision="float32", **given)


def test_what_failed_is_neither_counted_nor_observed():
    field = ergode.VectorField(explosion, ["y"])
    with pytest.warns(ergode.FailureWarning, match="1 of 2"):
        result = integrate(
            field, times=[0.0, 0.5, 3.0], initial={"y": [0.1, 1.0]}, device="cpu",
            events=[ZeroCrossing(low)], observables=[Mean("y")], method="tsit5",
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


def late_logarithm(t, y, p):
    return math.log(max(t - p[0], 0.0)) + 1.0


def test_an_event_that_is_always_infinite_is_a_failure():
    """It was counted zero times, and the trajectories were done; infinite for a while it may be."""
    field = ergode.VectorField(lambda t, y, p: (0.0 * y[0],), ["y"], ["begin"])
    with pytest.warns(ergode.FailureWarning, match="1 of 2"):
        result = integrate(
            field, times=[0.0, 2.0], initial={"y": 2.0}, parameters={"begin": [0.5, 3.0]},
            device="cpu", events=[ZeroCrossing(late_logarithm)],
        )  # fmt: skip
    assert result["status"].values.tolist() == [Status.DONE, Status.NOT_FINITE]
    assert result["event_time"].values[0, 0, 0] == pytest.approx(0.5 + math.exp(-1.0), rel=1e-9)


def above(y):
    return y > 0.5


def two_returns(t, y, p):
    if y[0] > 0.5:
        return 1.0
    return 0.0


def by_name(t, y, p):
    inside = above(y[0]) and t < 3.0
    return SCALE * inside


SCALE = -3.0


@pytest.mark.parametrize(
    "function",
    [
        lambda t, y, p: y[0] > 0.5,
        lambda t, y, p: y[0] > 0.2 and not t > 3.0,
        lambda t, y, p: float(y[0] > 0.5),
        lambda t, y, p: 1.0 if y[0] > 0.5 else 0.0,
        lambda t, y, p: 1.0 * (y[0] > 0.5),
        lambda t, y, p: abs(2 * (y[0] > 0.5) - 2 * (t > 1.0)),
        two_returns,
        by_name,
    ],
)
def test_a_condition_is_no_function_of_an_event(function):
    """It is zero on one side, so that crossings upwards were lost; products and calls hide none."""
    with pytest.raises(ergode.ModelError, match="returns a condition, .* a - b instead of a > b"):
        integrate(
            DECAY, times=[0, 1], initial={"y": 1}, device="cpu", events=[ZeroCrossing(function)]
        )


@pytest.mark.parametrize(
    "function",
    [
        lambda t, y, p: 2.0 * (y[0] > 0.5) - 1.0,
        lambda t, y, p: 1.0 if y[0] > 0.5 else -1.0,
        lambda t, y, p: (y[0] > 0.5) * (y[0] - 0.7),
        lambda t, y, p: y[0] - (0.5 if t > 1.0 else 0.7),
    ],
)
def test_what_changes_its_sign_is_no_condition(function):
    check_events([ZeroCrossing(function)], DECAY)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"step": 1e-300}, r"a step of 1e-300 takes 1e\+300 steps"),
        ({"step": 5e-324}, "a step of 4.94066e-324 takes inf steps"),
        ({"times": [-1.7e308, 1.7e308]}, "float64 does not hold the difference"),
        (
            {"times": [1e9, 1e9 + 1.0], "precision": "float32"},
            r"times\[0\] = 1000000000.0 and times\[1\] = 1000000001.0 are the same",
        ),
    ],
)
def test_settings_that_no_number_can_hold_are_refused(options, said):
    """Some were errors of Python's, and times that are one number in float32 lost their states."""
    with pytest.raises(ergode.ErgodeError, match=said):
        integrate(DECAY, **{"times": [0.0, 1.0], "initial": {"y": 1.0}, "device": "cpu", **options})


def test_delays_next_to_nothing_are_refused():
    field = ergode.VectorField(lambda t, y, yd, p: (-yd[0],), ["y"], ["tau"], [("y", "tau")])
    with pytest.raises(ergode.PlanError, match="takes inf steps"):
        integrate(
            field, times=[0.0, 1.0], initial={"y": 1.0}, parameters={"tau": 5e-324}, device="cpu"
        )


def test_times_far_from_zero_keep_the_tolerance():
    """The end of a step was rounded, its size was not: an error of 2e-4 at a tolerance of 1e-6."""
    found = integrate(DECAY, times=[1e12, 1e12 + 1.0], initial={"y": 1.0}, device="cpu")
    np.testing.assert_allclose(found["state"].values[-1, 0], math.exp(-1.0), rtol=1e-5)


@pytest.mark.parametrize("options", [{"max_step": math.inf}, {"atol": 5e-324}])
def test_settings_of_no_bound(options):
    found = integrate(DECAY, times=[0.0, 1.0], initial={"y": 0.0}, device="cpu", **options)
    assert found["status"] == Status.DONE
    assert found["state"].values[-1, 0] == 0.0


def test_a_function_that_reads_beyond_a_tuple_is_named():
    def beyond(t, y, p, table=(1.0, 2.0)):
        return (y[len(table)],)

    field = ergode.VectorField(functools.partial(beyond, table=(1.0, 2.0)), ["y"])
    with pytest.raises(ergode.ModelError, match="the field of 'beyond'.* beyond the end of a tup"):
        integrate(field, times=[0.0, 1.0], initial={"y": 1.0}, device="cpu")


def test_a_function_that_returns_a_part_of_an_array_is_named():
    def tail(y):
        return y[1:]

    field = ergode.VectorField(
        component=lambda i, t, y, p: tail(y)[0] - y[i], variables=("y", 3)
    )  # fmt: skip
    with pytest.raises(ergode.ModelError, match="returns a part of an array; let it return elem"):
        integrate(field, times=[0.0, 1.0], initial={"y": 1.0}, device="cpu")


def test_data_of_a_field_are_in_the_range_of_its_precision():
    field = ergode.VectorField(
        component=lambda i, t, y, p, c: c.A[i] - y[i], variables=("y", 2),
        constants={"A": [1.0, 1e39]},
    )  # fmt: skip
    with pytest.raises(ergode.PlanError, match=r"constant 'A' is 1e\+39; float32 holds"):
        integrate(field, times=[0.0, 1.0], initial={"y": 1.0}, device="cpu", precision="float32")
