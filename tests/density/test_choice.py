"""The scheme that ``"auto"`` is, and why; what it chooses is a whole result."""

import numpy as np
import pytest
from density_cases import LINEAR, ROTATION, first

import ergode

PRIOR = ergode.Gaussian([10.0, 0.0], [0.01, 0.01])
PAIR = ergode.Mixture([1, 2], [PRIOR, ergode.Gaussian([9.0, 0.0], [0.01, 0.01])])
CUBE = ergode.VectorField(lambda t, y, p: (y[0] ** 3,), ["x"])
POLE = ergode.VectorField(lambda t, y, p: (1.0 / (y[0] - p[0]) ** 2,), ["x"], ["place"])


def run(prior=PRIOR, **options):
    settings = {"device": "cpu:1", "times": [0.0, 1.0], "parameters": ROTATION} | options
    return ergode.density.propagate(LINEAR, prior, **settings)


def inside(y, t, p):
    return (100.0 - y[0] * y[0],)


def seen(time, count=1):
    return ergode.Measurement(time, first, np.full((count, 1), 10.0), 1.0)


@pytest.mark.parametrize(
    ("options", "scheme", "why"),
    [
        ({}, "flow", "no noise, no walls"),
        ({"retained": 0.999, "precision": "float32"}, "flow", "no noise"),
        ({"prior": PAIR}, "flow", "no noise"),
        ({"axes": "principal"}, "flow", "no noise"),
        ({"width": 0.1}, "split", "width given"),
        ({"threshold": 1e-5, "max_cells": 10**6}, "split", "threshold, max_cells given"),
        ({"scale_threshold": False}, "split", "scale_threshold given"),
        (  # with noise, and so with the kernel of edges
            {"region": inside, "process_noise": [1e-6, 1e-6]},
            "split",
            "region or a conserved quantity",
        ),
        ({"prior": ergode.Samples(np.eye(2) + 9.0)}, "split", "neither a Gaussian nor a mixture"),
    ],
)
def test_the_choice_and_its_reason(options, scheme, why):
    found = run(times=[0.0, 0.01], **options)
    assert found.attrs["method"] == scheme and why in found.attrs["method_reason"]


def test_a_bank_with_many_measured_values_gets_a_grid():
    for count, scheme in ((3, "flow"), (51, "split")):
        found = run(
            [PRIOR] * count, times=[0.0, 0.01],
            measurements=[seen(0.005, count), seen(0.01, count)],
        )  # fmt: skip
        assert found.attrs["method"] == scheme
    assert "102 measured values, more than 100" in found.attrs["method_reason"]


def test_an_orbit_far_from_its_centre_keeps_its_width():
    found = run()
    assert np.allclose(found["mean"][-1], [10.0, 0.0], atol=2e-4)
    assert np.allclose(found["covariance"][-1], 0.01 * np.eye(2), atol=1e-5)
    cells = ergode.density.cells_at(found)
    assert float(cells["mass"].sum()) == pytest.approx(1.0)
    assert ergode.density.credible_region(cells, 0.9) is not None


def test_parts_of_a_bank_have_the_choice_of_the_whole(tmp_path):
    """102 values of all densities are many, and those of a part are few."""
    priors = [ergode.Gaussian([10.0 + 0.01 * k, 0.0], [0.01, 0.01]) for k in range(4)]
    seen_ = [ergode.Measurement(0.5, first, [[-9.9], [-10.0], [-10.1], [-10.2]], 0.01)]
    whole = run(priors, measurements=seen_, keep="all")
    parts = run(priors, measurements=seen_, keep="all", chunk=2, store=tmp_path / "run.zarr")
    assert parts.attrs["method"] == "flow"
    for name in ("mean", "covariance", "log_evidence", "mass", "coordinate", "mean_error"):
        assert np.array_equal(whole[name].values, parts[name].values, equal_nan=True)
    many = [PRIOR] * 51
    twice = [seen(0.005, 51), seen(0.01, 51)]
    divided = run(many, times=[0.0, 0.01], measurements=twice, chunk=40)
    assert divided.attrs["method"] == "split"


def test_mass_at_solutions_that_become_infinite_is_told():
    """And where it is little, as at a pole that solutions pass, the rest is right."""
    for field, parameters in ((CUBE, {}), (POLE, {"place": 0.25})):
        with pytest.warns(ergode.AccuracyWarning, match="solutions become infinite"):
            found = ergode.density.propagate(
                field, ergode.Gaussian([0.25], [1.0]), times=[0.0, 1.0], parameters=parameters,
                device="cpu:1",
            )  # fmt: skip
        assert (found["unreliable_from"] == 1.0) == (field is CUBE)
    # x(1) = 0.25 + cbrt((x(0) - 0.25)^3 + 3)
    mean, deviation = float(found["mean"][1, 0]), float(found["covariance"][1, 0, 0]) ** 0.5
    assert mean == pytest.approx(1.51361, abs=0.008)
    assert deviation == pytest.approx(0.82969, abs=0.008)
