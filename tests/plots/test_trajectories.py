import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import ergode
from ergode.plots import fitted, trajectories


def rotation(t, y, p):
    return -p[0] * y[1], p[0] * y[0]


@pytest.fixture(scope="module")
def result():
    return ergode.trajectories.integrate(
        ergode.VectorField(rotation, ["x", "y"], ["frequency"]), times=np.linspace(0, 6, 61),
        initial={"x": 1.0, "y": 0.0}, parameters=ergode.grid(frequency=[1.0, 2.0]), step=0.05,
        device="cpu",
    )  # fmt: skip


def test_time_series(result):
    ax = trajectories(result)
    assert len(ax.lines) == 4
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["x", "y"]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), result["state"][0, :, 0])
    one = trajectories(result, variables=["y"])
    assert one.get_ylabel() == "y"
    np.testing.assert_array_equal(one.lines[1].get_ydata(), result["state"][1, :, 1])
    told = [text.get_text() for text in one.get_legend().get_texts()]
    assert told == ["frequency 1", "frequency 2"]
    assert one.lines[0].get_color() != one.lines[1].get_color()


def test_a_selection_of_one_is_drawn(result):
    one = trajectories(result.sel(variable="y"))
    assert one.get_ylabel() == "y" and len(one.lines) == 2
    np.testing.assert_array_equal(one.lines[1].get_ydata(), result["state"][1, :, 1])
    with pytest.raises(ergode.PlanError, match="a single time"):
        trajectories(result.isel(time=-1))


def test_phase_portrait(result):
    ax = trajectories(result, phase=("y", "x"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("y", "x")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), result["state"][0, :, 1])


def test_what_ended_badly_is_left_out(result):
    bad = result.copy(deep=True)
    bad["status"][0] = 3
    assert len(trajectories(bad, variables=["x"]).lines) == 1
    bad["status"][:] = 3
    with pytest.raises(ergode.PlanError, match="no trajectory of the dataset ended well"):
        trajectories(bad)


def test_bad_input_is_an_error(result):
    with pytest.raises(ergode.PlanError, match="no variable 'z'; it has x, y"):
        trajectories(result, variables=["z"])
    with pytest.raises(ergode.PlanError, match="no variable 'state'"):
        trajectories(result.drop_vars("state"))


def test_bands_are_quantiles(result):
    ax = trajectories(result, variables=["y"], bands=True)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), result["state"][:, :, 1].mean("frequency"))
    assert len(ax.collections) == 2
    with pytest.raises(ergode.PlanError, match="bands has no effect"):
        trajectories(result, phase=("x", "y"), bands=True)


def test_a_fit_has_data_curves_and_residuals():
    values = np.array([[1.0, 0.5, 0.2], [2.0, np.nan, 0.4]])
    dims = ("trajectory", "time", "variable")
    found = xarray.Dataset(
        {
            "state": (dims, np.stack([values * 0 + 1, values], axis=-1)),
            "measured": (dims, np.stack([values, values * np.nan], axis=-1)),
            "residual": (dims, np.stack([values - 1, values * np.nan], axis=-1)),
        },
        coords={"time": [1900.0, 1905.0, 1910.0], "variable": ["x", "z"]},
        attrs={"time_unit": "years"},
    )
    above, below = fitted(found, figure=Figure()).axes
    np.testing.assert_array_equal(above.lines[1].get_ydata(), values[0])
    np.testing.assert_array_equal(below.lines[1].get_ydata(), values[1] - 1)
    assert below.get_xlabel() == "time [years]"
    ticks = below.get_xticks()
    np.testing.assert_array_equal(ticks, ticks.round())
    with pytest.raises(ergode.PlanError, match="plots.fitted"):
        trajectories(found)
    with pytest.raises(ergode.PlanError, match="has no residuals"):
        fitted(found[["state"]])
