"""Measurements: numbers that a filter needs of them, and what cannot be."""

import numpy as np
import pytest
from scipy import stats

import ergode
from ergode.core.errors import ModelError
from ergode.models.estimation.estimation import estimation
from ergode.models.estimation.likelihood import numbers_of


def first(y, t, p):
    return (y[0],)


def both(y, t, p):
    return (y[0], y[1])


def test_numbers_make_the_likelihood_of_scipy():
    covariance = np.array([[0.5, 0.1], [0.1, 0.3]])
    measurement = ergode.Measurement(1.0, both, [1.0, 2.0], covariance)
    value, precision, constant = numbers_of(measurement, np.array([0, 0, 0]))
    y = np.array([0.3, 2.5])
    away = value[2] - y
    found = constant[2] - 0.5 * away @ precision[2] @ away
    assert found == pytest.approx(stats.multivariate_normal(y, covariance).logpdf([1.0, 2.0]))


def test_each_density_its_own_values():
    measurement = ergode.Measurement(1.0, first, [[1.0], [2.0], [3.0]], [[[1.0]], [[4.0]], [[9.0]]])
    value, precision, _ = numbers_of(measurement, np.array([2, 0]))
    assert value.ravel().tolist() == [3.0, 1.0]
    np.testing.assert_allclose(precision.ravel(), [1 / 9, 1.0])
    assert measurement.side_by_side == 3


def test_measurements_are_taken_in_the_order_of_time():
    field = ergode.VectorField(damped, variables=["x", "y"])
    prior = ergode.Gaussian([0.0, 0.0], [1.0, 1.0])
    late, early = (ergode.Measurement(t, first, 0.0, 1.0) for t in (2.0, 1.0))
    found = estimation(field, prior, [0.0, 3.0], [late, early], None, reserved=())
    assert found.measurements == [early, late]
    assert found.values.shape == (1, 0)
    with pytest.raises(ModelError, match=r"measurements\[0\] is at time 5"):
        late_one = ergode.Measurement(5.0, first, 0.0, 1.0)
        estimation(field, prior, [0.0, 3.0], [late_one], None, reserved=())
    with pytest.raises(ModelError, match="expected a VectorField"):
        estimation(first, prior, [0.0, 3.0], [], None, reserved=())


def test_a_time_beyond_the_end_by_a_rounding_is_the_end():
    late = 0.1 + 0.2 + 0.3
    assert late > 0.6
    field = ergode.VectorField(damped, variables=["x", "y"])
    prior = ergode.Gaussian([0.0, 0.0], [1.0, 1.0])
    seen, pushed = ergode.Measurement(late, first, 0.0, 1.0), ergode.Maneuver(late, [0.1, 0.0])
    found = estimation(field, prior, [0.0, 0.6], seen, None, pushed, reserved=())
    assert [one.time for one in (*found.measurements, *found.maneuvers)] == [0.6, 0.6]
    with pytest.raises(ModelError, match=r"is at time 0\.600001; expected one from 0 to 0\.6, the"):
        beyond = ergode.Measurement(0.600001, first, 0.0, 1.0)
        estimation(field, prior, [0.0, 0.6], beyond, None, reserved=())


def damped(t, y, p):
    return -y[0], -y[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "noon"}, "time of a measurement"), ({"time": np.inf}, "finite number"),
        ({"value": []}, "value of a measurement"), ({"value": [np.nan]}, "value of a measurement"),
        ({"covariance": -1.0}, "positive definite"), ({"value": None}, "needs h, value"),
        ({"angles": [1]}, "angles"), ({"likelihood": first}, "has a likelihood and h"),
        ({"value": [[1.0], [2.0]], "covariance": [[[1.0]]] * 3}, "2 values and 3 covariances"),
    ],
)  # fmt: skip
def test_what_is_no_measurement(options, message):
    given = {"time": 1.0, "h": first, "value": 1.0, "covariance": 1.0} | options
    with pytest.raises(ModelError, match=message):
        ergode.Measurement(**given)


@pytest.mark.parametrize(
    ("h", "message"),
    [
        (lambda t, y, p: (y[0],), r"^h is <lambda>\(t, y, p\); expected <lambda>\(y, t, p\)$"),
        (lambda y, t, p: y[0], r"returns y\[0\]; expected a tuple, \(y\[0\],\)$"),
        (lambda y, t, p: (y[0], t), r"there are too many; expected \(component 0,\)$"),
    ],
)
def test_a_function_of_another_form_is_refused_before_a_run(h, message):
    with pytest.raises(ModelError, match=message):
        ergode.Measurement(1.0, h, 1.0, 1.0).check(1, 0)
