import numpy as np
import pytest

import ergode
from ergode.plots import trajectories


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
