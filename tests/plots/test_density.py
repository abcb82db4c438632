"""Figures of densities over time: the jump of a measurement, on both of its sides."""

import numpy as np
import pytest
from PIL import Image

import ergode


@pytest.fixture(scope="module")
def measured():
    """A density that stays where it is, measured at a reported time and between two of them."""

    def place(y, t, p):
        return (y[0],)

    seen = [ergode.Measurement(1.0, place, 1.0, 0.25), ergode.Measurement(1.5, place, 0.5, 0.25)]
    return ergode.density.propagate(
        ergode.fields.rotation(), ergode.Gaussian([0.0, 0.0], [0.25, 0.25]), times=[0, 1, 2],
        parameters={"rate": 0.0}, measurements=seen, width=0.1, threshold=1e-8, device="cpu:1",
    )  # fmt: skip


def test_lines_jump_at_a_measurement(measured):
    """Vertically: nothing is known of the measurement before its time."""
    ax = ergode.plots.density_over_time(measured, "x")
    low, high, mean = ax.lines[:3]
    for line in (low, high, mean):
        assert line.get_xdata().tolist() == [0, 1, 1, 1.5, 2]
    assert np.allclose(mean.get_ydata(), [0, 0, 0.5, 0.5, 0.5], atol=1e-3)
    deviation = np.sqrt([0.25, 0.25, 0.125, 0.125, 0.25 / 3])
    half = 0.5 * (high.get_ydata() - low.get_ydata())
    assert np.allclose(half, 1.96 * deviation, rtol=0.03)


def test_a_column_begins_at_the_measurement_that_made_it(measured):
    ax = ergode.plots.density_over_time(measured)
    (mesh,) = (one for one in ax.collections if hasattr(one, "get_coordinates"))
    assert mesh.get_coordinates()[0, :, 0].tolist() == [-0.5, 1, 1.5, 2.5]


def test_a_strip_of_bands_jumps_as_well(measured):
    (mean,) = (
        one for one in ergode.plots.density_strip(measured).lines if len(one.get_xdata()) > 2
    )
    assert mean.get_xdata().tolist() == [0, 1, 1, 1.5, 2]


def test_a_movie_has_a_frame_for_each_time(measured, tmp_path):
    pytest.importorskip("skimage")
    path = ergode.plots.animate_density(measured, tmp_path / "x.gif")
    with Image.open(path) as image:
        assert image.n_frames == measured.sizes["time"]
    with pytest.raises(ergode.PlanError, match="exists"):
        ergode.plots.animate_density(measured, path)
    with pytest.raises(ergode.PlanError, match="expected two of x, y"):
        ergode.plots.animate_density(measured, tmp_path / "y.gif", variables=["x"])
