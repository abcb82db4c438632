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
    assert [bar.get_x() for bar in ax.patches] == [-0.5, 4.5, 9.5]
    early = plots.amounts(histogram, species="X", time=0.0, ax=Figure().subplots())
    assert [bar.get_height() for bar in early.patches] == [0.0, 0.2, 0.0]
    with pytest.raises(ergode.PlanError, match="no time 0.2; the nearest is 0"):
        plots.amounts(histogram, species="X", time=0.2)
    with pytest.raises(ergode.PlanError, match="output='histogram'"):
        plots.amounts(histogram.drop_vars("histogram"), species="X")


def test_probabilities_are_a_line_over_the_bars(ax):
    exact = xarray.Dataset(
        {
            "probability": (("time", "species", "amount"), [[[0.0, 0.25, 0.75, 0.0]]]),
            "mean": (("time", "species"), [[1.75]]),
            "variance": (("time", "species"), [[0.1875]]),
        },
        coords={"time": [0.0], "species": ["X"], "amount": [0, 1, 3, 4]},
    )
    plots.amounts(exact, species="X", ax=ax)
    (line,) = ax.lines
    assert line.get_xdata().tolist() == [0, 1, 2, 3, 4]
    assert line.get_ydata().tolist() == [0.0, 0.25, 0.0, 0.75, 0.0]
    assert ax.get_xlabel() == "X [molecules]"
    plots.realizations(exact, ax=ax)


@pytest.fixture
def runs():
    amount = np.random.default_rng(3).integers(0, 9, (21, 4, 2))
    return xarray.Dataset(
        {
            "amount": (("replicate", "time", "species"), amount),
            "status": ("replicate", np.repeat([0, 9], [20, 1])),
        },
        coords={"time": np.arange(4.0), "species": ["X", "Y"]},
    )


def test_a_selection_of_one_is_drawn(runs, ax):
    runs = runs.assign_coords(replicate=np.arange(21))
    plots.realizations(runs.isel(replicate=2).sel(species="Y"), ax=ax)
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), runs["amount"].values[2, :, 1])


def test_a_mean_with_a_band_of_quantiles(runs, ax):
    plots.realizations(runs, species=["Y"], quantiles=(0.25, 0.75), ax=ax)
    rows = runs["amount"].values[:20, :, 1]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), rows.mean(axis=0))
    band = {tuple(point) for point in ax.collections[0].get_paths()[0].vertices}
    assert {(2.0, q) for q in np.quantile(rows[:, 2], [0.25, 0.75])} <= band
    for wrong in ((0.9, 0.1), (0.5,), "much", (0.1, 2.0)):
        with pytest.raises(ergode.PlanError, match="two of 0 to 1"):
            plots.realizations(runs, quantiles=wrong, ax=ax)


def test_a_phase_plane_of_realizations(runs, ax):
    plots.phase_plane(runs, x="Y", y="X", ax=ax)
    assert len(ax.lines) == 20
    np.testing.assert_array_equal(ax.lines[3].get_xdata(), runs["amount"][3, :, 1])
    np.testing.assert_array_equal(ax.lines[3].get_ydata(), runs["amount"][3, :, 0])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Y [molecules]", "X [molecules]")
    for options, message in (
        ({"x": "X", "y": "X"}, "both 'X'"),
        ({"x": "X", "y": "Z"}, "no species 'Z'"),
        ({"x": "X", "y": "Y", "time": 1.0}, "over all times"),
    ):
        with pytest.raises(ergode.PlanError, match=message):
            plots.phase_plane(runs, **options)


def test_a_phase_plane_of_probabilities(ax):
    states = np.array([[0, 0], [1, 0], [1, 2], [4, 1], [9, 9]])
    joint = np.array([[0.1, 0.2, 0.3, 0.4, 0.0]])
    exact = xarray.Dataset(
        {
            "joint_probability": (("time", "state"), joint),
            "state_amount": (("state", "species"), states),
        },
        coords={"time": [0.0], "species": ["X", "Y"]},
    )
    plots.phase_plane(exact, x="X", y="Y", ax=ax)
    shades = ax.collections[0].get_array().reshape(3, 5)  # Y up, X to the right
    expected = np.zeros((3, 5))
    expected[states[:4, 1], states[:4, 0]] = joint[0, :4]
    np.testing.assert_array_equal(shades, expected)


def test_autocorrelations_are_lines_with_their_errors(runs, ax):
    found = ergode.stochastic.autocorrelation(runs.isel(replicate=slice(20)))
    plots.autocorrelation(found, species=["Y"], ax=ax)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), found["autocorrelation"][1])
    assert ax.get_xlabel() == "lag"
    with pytest.raises(ergode.PlanError, match="no autocorrelation"):
        plots.autocorrelation(runs)
