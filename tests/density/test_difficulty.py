"""Fields that a grid cannot follow end with their cause, and long runs are announced."""

import warnings

import numpy as np
import pytest
from density_cases import on_plane

import ergode

POLE = ergode.VectorField(lambda t, y, p: (1.0 / (y[0] - p[0]) ** 2,), ["x"], ["place"])
# With the parameter of the other field, and so with its kernels.
CUBE = ergode.VectorField(lambda t, y, p: (y[0] ** 3,), ["x"], ["place"])


def run(field, prior, times, **options):
    return ergode.density.propagate(
        field, prior, times=times, device="cpu:1", scheme="split", **options
    )


@pytest.mark.slow
def test_a_field_that_grows_without_bound_is_not_called_a_small_lattice():
    with pytest.warns(ergode.FailureWarning, match="the field grows without bound") as caught:
        found = run(
            CUBE, ergode.Gaussian([0.25], [1.0]), [0.0, 1.0], parameters={"place": 0.0}
        )  # fmt: skip
    assert "use larger widths" not in str(caught[0].message)
    assert found["status"] == ergode.Status.OUT_OF_LATTICE
    assert 0 < float(found["time_reached"]) < 0.5


@pytest.mark.parametrize("place", [0.25, np.nextafter(0.25, 1), 0.25 + 1e-9])
def test_a_field_that_is_infinite_inside_the_prior_is_named(place):
    """On the face of a cell, and next to it, where it is finite and has no use."""
    with pytest.raises(ergode.ErgodeError, match=r"(not a finite number|nearly infinite) in the"):
        run(POLE, ergode.Gaussian([0.0], [1.0]), [0.0, 1.0], parameters={"place": place})


def test_the_others_of_a_bank_go_on():
    with pytest.warns(ergode.FailureWarning, match="1 of 2 densities .*nearly infinite"):
        found = run(
            POLE, ergode.Gaussian([0.0], [1.0]), [0.0, 0.1],
            parameters={"place": [20.0, 0.25 + 1e-9]},
        )  # fmt: skip
    assert found["status"].values.tolist() == [0, ergode.Status.NOT_FINITE]
    assert np.isfinite(found["mean"].values[0]).all()


def test_a_run_of_minutes_is_announced_before_it_begins():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ergode.PerformanceWarning)
        with pytest.raises(ergode.PerformanceWarning, match=r"or [0-9]+ minutes"):
            on_plane(
                [[0.0, -1.0], [1.0, 0.0]], [0.0, 0.0], ergode.Gaussian([0, 0], [1, 1]), [0, 1e6],
                width=0.06,
            )  # fmt: skip


def test_a_usual_run_announces_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ergode.PerformanceWarning)
        on_plane(np.zeros((2, 2)), [1.0, 0.0], ergode.Gaussian([0, 0], [1, 1]), [0, 1])
