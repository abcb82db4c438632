"""What the figures of reaction networks show, of datasets small enough to be written down."""

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import ergode
from ergode import plots


@pytest.fixture
def ax():
    return Figure().subplots()


def test_realizations_are_steps_of_those_that_ended_well(ax):
    amount = np.arange(24).reshape(4, 3, 2)
    runs = xarray.Dataset(
        {
            "amount": (("replicate", "time", "species"), amount),
            "status": ("replicate", [0, 0, 9, 0]),
        },
        coords={"time": [0.0, 1.0, 2.0], "species": ["X", "Y"]},
    )
    plots.realizations(runs, species=["Y"], ax=ax)
    assert [line.get_ydata().tolist() for line in ax.lines] == amount[[0, 1, 3], :, 1].tolist()
    assert {line.get_drawstyle() for line in ax.lines} == {"steps-post"}
    with pytest.raises(ergode.PlanError, match="no species 'Z'; it has X, Y"):
        plots.realizations(runs, species=["Z"])


def test_statistics_are_a_mean_with_a_band(ax):
    statistics = xarray.Dataset(
        {
            "mean": (("time", "species"), [[4.0], [6.0]]),
            "variance": (("time", "species"), [[1.0], [4.0]]),
        },
        coords={"time": [0.0, 1.0], "species": ["X"]},
    )
    plots.realizations(statistics, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [4.0, 6.0])
    band = ax.collections[0].get_paths()[0].vertices
    assert {(0.0, 3.0), (0.0, 5.0), (1.0, 4.0), (1.0, 8.0)} <= set(map(tuple, band.tolist()))
    swept = statistics.expand_dims(rate=[1.0, 2.0])
    with pytest.raises(ergode.PlanError, match="swept over rate; select one point"):
        plots.realizations(swept)


def test_a_histogram_is_a_density_whatever_its_bins(ax):
    histogram = xarray.Dataset(
        {"histogram": (("time", "species", "bin"), [[[0, 4, 0]], [[1, 2, 1]]])},
        coords={"time": [0.0, 1.0], "species": ["X"], "bin": [0, 5, 10]},
    )
    plots.amounts(histogram, species="X", ax=ax)
    assert [bar.get_height() for bar in ax.patches] == [0.05, 0.1, 0.05]
    assert [bar.get_width() for bar in ax.patches] == [5, 5, 5]
    early = plots.amounts(histogram, species="X", time=0.0, ax=Figure().subplots())
    assert [bar.get_height() for bar in early.patches] == [0.0, 0.2, 0.0]
    with pytest.raises(ergode.PlanError, match="no time 0.2; the nearest is 0"):
        plots.amounts(histogram, species="X", time=0.2)
    with pytest.raises(ergode.PlanError, match="output='histogram'"):
        plots.amounts(histogram.drop_vars("histogram"), species="X")
