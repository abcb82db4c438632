"""Many filters at once: each with a prior, measured values, or parameters of its own."""

import math

import numpy as np
import pytest
from density_cases import LINEAR, first, on_plane

import ergode
from ergode.core.errors import ModelError, PlanError
from ergode.density import views

VALUES = dict(zip("abcdef", (0, 1, -1, -0.5, 0, 0), strict=True))
DEVICES = pytest.mark.parametrize("device", ["cpu:2", pytest.param("cuda", marks=pytest.mark.cuda)])


def run(prior, measurements, parameters=VALUES, **options):
    settings = {"times": [0, 0.4, 0.8], "width": 0.15, "threshold": 1e-7} | options
    return ergode.density.propagate(
        LINEAR, prior, measurements=measurements, parameters=parameters, **settings
    )


@DEVICES
def test_each_is_what_it_is_alone(device):
    """Priors of their own place, shape and grid; own values and variances; and parameters."""
    means = np.array([[1.0, 0.0], [-7.0, 3.0], [0.5, 0.5]])
    covariances = np.array([np.diag([0.3, 0.3]), np.diag([0.1, 0.4]), [[0.2, 0.1], [0.1, 0.3]]])
    values, variances = np.array([[0.7], [-2.0], [0.1]]), np.array([[[0.2]], [[0.1]], [[0.3]]])
    pushes = [-0.5, 0.0, 0.3]
    options = {"device": device, "width": None, "axes": "principal"}
    together = run(
        ergode.Gaussian(means, covariances),
        [
            ergode.Measurement(0.4, first, values, variances),
            ergode.Measurement(0.4, first, 0.2, 2.0),
        ],
        VALUES | {"e": pushes}, keep="all", **options,
    )  # fmt: skip
    assert together["mean"].dims == ("trajectory", "time", "variable")
    assert together["e"].values.tolist() == pushes
    for k in range(3):
        alone = run(
            ergode.Gaussian(means[k], covariances[k]),
            [
                ergode.Measurement(0.4, first, values[k], variances[k]),
                ergode.Measurement(0.4, first, 0.2, 2.0),
            ],
            VALUES | {"e": pushes[k]}, **options,
        )  # fmt: skip
        own = together.isel(trajectory=k)
        for name in alone.data_vars:
            if "cell" not in alone[name].dims and name != "cell_start":
                assert np.array_equal(own[name], alone[name], equal_nan=True), name
        for index in range(3):
            cells, expected = (views.cells_at(one, index=index) for one in (own, alone))
            assert cells.equals(expected)


def test_lists_are_crossed_with_grids():
    """What runs side by side is one dim; a grid of parameters is another."""
    priors = [
        ergode.Gaussian([1.0, 0.0], [0.3, 0.3]),
        ergode.Mixture([1, 1], [ergode.Gaussian([k, 0.0], [0.2, 0.2]) for k in (-1.0, 1.0)]),
    ]
    found = run(
        priors, ergode.Measurement(0.4, first, [[0.1], [0.9]], 0.5),
        ergode.grid(**VALUES | {"d": [-0.5, -1.0]}), device="cpu:2",
    )  # fmt: skip
    assert found["log_evidence"].dims == ("d", "trajectory", "measurement")
    alone = run(
        priors[1], ergode.Measurement(0.4, first, 0.9, 0.5), VALUES | {"d": -1.0}, device="cpu:1"
    )
    assert np.array_equal(found["covariance"].isel(d=1, trajectory=1), alone["covariance"])
    assert float(found["log_evidence"][1, 1, 0]) == float(alone["log_evidence"][0])
    with pytest.raises(PlanError, match=r"choose one, as by isel\(d=0, trajectory=0\)"):
        views.cells_at(found)
    with pytest.raises(PlanError, match="were not kept"):
        views.cells_at(found.isel(d=0, trajectory=0))


def test_an_impossible_measurement_ends_one_of_them():
    """What would come after it is missing; the others go on."""
    prior = ergode.Gaussian([1.0, 0.0], [0.3, 0.3])
    values = [[0.5], [1e200], [0.7]]
    with pytest.warns(RuntimeWarning, match="1 of 3 densities ended at time 0.4: the measurement"):
        found = run(
            prior, ergode.Measurement(0.4, first, values, 1e-2), device="cpu:2", keep="last"
        )
    assert found["time_reached"].values.tolist() == [0.8, 0.4, 0.8]
    assert found["status"].values.tolist() == [0, ergode.Status.IMPOSSIBLE, 0]
    before = run(prior, [], times=[0, 0.4], device="cpu:2")
    assert np.array_equal(found["prior_mean"][1, 0], before["mean"][-1])
    assert np.isnan(found["mean"][1, 1:]).all() and np.isneginf(found["log_evidence"][1, 0])
    assert np.isnan(found["unreliable_from"][1])
    assert np.isfinite(found["mean"][[0, 2]]).all()


def up_to_two(t, y, p):
    return (math.sqrt(2.0 - y[0]),)


def test_a_field_that_is_not_finite_ends_the_run():
    prior = ergode.Gaussian([0.0], [0.01])
    with pytest.warns(RuntimeWarning, match="not a finite number in the cell at"):
        found = ergode.density.propagate(
            ergode.VectorField(up_to_two, ["y"]), prior, times=[0, 0.1, 4], device="cpu:1",
            scheme="split",
        )  # fmt: skip
    assert found["status"] == ergode.Status.NOT_FINITE
    assert found["status"].attrs["flag_meanings"].split()[3] == "not_finite"
    assert 0.1 < float(found["time_reached"]) < 4


def test_by_name():
    one = ergode.Gaussian({"y": [1.0, 2.0], "x": -1.0}, {"x": 0.1, "y": [0.4, 0.5]})
    found = on_plane(np.zeros((2, 2)), (0, 0), one, [0], width=0.1, threshold=1e-7)
    assert np.allclose(found["mean"][:, 0], [(-1, 1), (-1, 2)], atol=1e-6)
    assert np.allclose(found["covariance"][:, 0, 1, 1], [0.4, 0.5], rtol=0.01)


MEANS = [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("prior", "value", "parameters", "message"),
    [
        (ergode.Gaussian(MEANS, [1, 1]), [[0.0]] * 3, {}, "has 3 values and 'prior' has 2"),
        (ergode.Gaussian(MEANS, [1, 1]), 0.0, {"e": [1, 2, 3]}, "'e' has 3 values and 'prior'"),
        ([ergode.Gaussian(MEANS, [1, 1])], 0.0, {}, r"prior\[0\] is several priors"),
        ([], 0.0, {}, "prior is list; expected Gaussian"),
        (["x"], 0.0, {}, r"prior\[0\] is str"),
    ],
)
def test_lengths_that_differ(prior, value, parameters, message):
    with pytest.raises(ModelError, match=message):
        run(prior, ergode.Measurement(0.4, first, value, 1.0), VALUES | parameters, device="cpu")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ergode.Gaussian(MEANS, np.ones((3, 2, 2))), "need a first axis of equal length"),
        (lambda: ergode.Gaussian([MEANS], [1, 1]), "need a first axis"),
        (lambda: ergode.Gaussian(np.zeros((0, 2)), [1, 1]), "is empty; expected one row or more"),
        (lambda: ergode.Gaussian({"x": [1, 2], "y": [1, 2, 3]}, {"x": 1, "y": 1}), "one length"),
        (lambda: ergode.Measurement(0.0, first, [[0.0]] * 2, np.ones((3, 1, 1))), "3 covariances"),
    ],
)
def test_several_that_do_not_match(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_particles_take_one_at_a_time():
    with pytest.raises(ModelError, match="particles take one at a time"):
        ergode.particles.propagate(
            LINEAR, ergode.Gaussian(MEANS, [1, 1]), times=[0, 1], parameters=VALUES
        )
