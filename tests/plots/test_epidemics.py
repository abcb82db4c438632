import numpy as np
import pytest
import xarray
from matplotlib import image
from matplotlib.figure import Figure

import ergode
from ergode import plots


@pytest.fixture
def ax():
    return Figure().subplots()


def test_lines_are_medians_with_two_bands_each(counts, ax):
    assert plots.epidemic_curves(counts, ax=ax) is ax
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines) == ["S", "E", "I", "R"]
    median = counts["count"].sel(compartment="I").median("replicate")
    np.testing.assert_array_equal(lines["I"].get_ydata(), median)
    assert len(ax.collections) == 8
    assert len({line.get_color() for line in ax.lines}) == 4
    assert ax.get_legend().get_title().get_text() == "median, 50 % and 95 % of 12 replicates"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["S", "E", "I", "R"]


def test_statistics_give_the_same_figure_as_counts(model, contacts, counts, ax):
    statistics = ergode.epidemics.simulate(
        model, contacts, initial={"I": 5}, times=range(61), replicates=12, seed=1, device="cpu",
        output="statistics",
    )  # fmt: skip
    plots.epidemic_curves(statistics, ax=ax)
    other = plots.epidemic_curves(counts, ax=Figure().subplots())
    for one, two in zip(ax.lines, other.lines, strict=True):
        np.testing.assert_allclose(one.get_ydata(), two.get_ydata())
    assert ax.get_legend().get_title().get_text() == other.get_legend().get_title().get_text()


def test_an_axis_of_dates(model, contacts, ax):
    counts = ergode.epidemics.simulate(
        model, contacts, initial={"I": 5}, times=range(61), origin="2026-03-01", device="cpu"
    )
    plots.epidemic_curves(counts, ax=ax)
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == "date"
    assert {"Mar", "Apr"} <= {label.get_text() for label in ax.get_xticklabels()}


def test_levels_in_any_order_and_without_median(ax):
    curves = np.array([[[9.0], [9.0]], [[1.0], [2.0]]])  # level 0.9 before level 0.1
    statistics = xarray.Dataset(
        {
            "mean": (("time", "compartment"), [[5.0], [6.0]]),
            "quantile": (("level", "time", "compartment"), curves),
        },
        coords={"time": [0.0, 1.0], "compartment": ["I"], "level": [0.9, 0.1]},
        attrs={"replicates": 40},
    )
    plots.epidemic_curves(statistics, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [5.0, 6.0])
    assert len(ax.collections) == 1
    assert ax.get_legend().get_title().get_text() == "mean, 80 % of 40 replicates"


def test_one_replicate_has_no_bands(counts, ax):
    plots.epidemic_curves(counts.isel(replicate=[3]), ax=ax)
    np.testing.assert_array_equal(ax.lines[2].get_ydata(), counts["count"][3, :, 2])
    assert len(ax.collections) == 0


def test_failed_replicates_are_left_out(counts, ax):
    bad = counts.copy(deep=True)
    bad["count"][0] = 10**6
    bad["status"][0] = 3
    plots.epidemic_curves(bad, ax=ax)
    assert max(line.get_ydata().max() for line in ax.lines) <= 500
    bad["status"][:] = 3
    with pytest.raises(ergode.PlanError, match="no finished replicate"):
        plots.epidemic_curves(bad, ax=ax)


def test_chosen_compartments_keep_their_colours(counts, ax):
    plots.epidemic_curves(counts, ax=ax)
    other = plots.epidemic_curves(counts, compartments=["R", "I"], ax=Figure().subplots())
    assert [line.get_label() for line in other.lines] == ["R", "I"]
    assert other.lines[1].get_color() == ax.lines[2].get_color()


def test_unusual_compartments_have_colours_of_their_own(ax):
    names = ["S", "I", "I2", "ward", "ICU", "R"]
    dataset = xarray.Dataset(
        {"count": (("replicate", "time", "compartment"), np.ones((2, 3, 6), "int32"))},
        coords={"time": [0.0, 1.0, 2.0], "compartment": names},
    )
    plots.epidemic_curves(dataset, ax=ax)
    assert len({line.get_color() for line in ax.lines}) == 6


def test_no_two_of_many_compartments_look_alike(ax):
    names = ["S", "E", "I", "R", *(f"X{k}" for k in range(26))]
    dataset = xarray.Dataset(
        {"count": (("replicate", "time", "compartment"), np.ones((2, 3, 30), "int32"))},
        coords={"time": [0.0, 1.0, 2.0], "compartment": names},
    )
    plots.epidemic_curves(dataset, ax=ax)
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 30


def test_a_selection_of_one_is_drawn(counts, ax):
    plots.epidemic_curves(counts.isel(replicate=[0]).sel(compartment=["I"]), ax=ax)
    one = counts.isel(replicate=0).sel(compartment="I")
    other = plots.epidemic_curves(one, ax=Figure().subplots())
    assert [line.get_label() for line in other.lines] == ["I"]
    np.testing.assert_array_equal(other.lines[0].get_ydata(), ax.lines[0].get_ydata())
    with pytest.raises(ergode.PlanError, match="a single time"):
        plots.epidemic_curves(counts.isel(time=-1))


def test_unit_of_time_is_on_the_axis(counts, ax):
    plots.epidemic_curves(counts, ax=ax)
    assert ax.get_xlabel() == "time"
    counts = counts.copy()
    counts["time"].attrs["units"] = "days"
    assert plots.epidemic_curves(counts, ax=ax).get_xlabel() == "time [days]"


def test_what_cannot_be_drawn_is_an_error(counts):
    with pytest.raises(ergode.PlanError, match="no compartment 'Q'; it has S, E, I, R"):
        plots.epidemic_curves(counts, compartments=["Q"])
    with pytest.raises(ergode.PlanError, match="no curves"):
        plots.epidemic_curves(counts.drop_vars("count"))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_figure_is_written_whole(counts, tmp_path, suffix):
    path = plots.save_epidemic_curves(counts, tmp_path / f"curves{suffix}", title="A title")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    if suffix == ".png":
        pixels = image.imread(path)
        assert pixels.shape[1] > 800
        assert pixels[..., :3].min() < 0.2 < 0.99 < pixels[..., :3].max()


def test_figure_that_cannot_be_written_is_an_error(counts, tmp_path):
    with pytest.raises(ergode.PlanError, match="ends in .png, .svg or .pdf"):
        plots.save_epidemic_curves(counts, tmp_path / "curves.doc")
    with pytest.raises(ergode.PlanError, match="does not exist"):
        plots.save_epidemic_curves(counts, tmp_path / "nowhere" / "curves.png")


def test_strata_are_drawn_as_one(counts):
    halves = counts[["count"]].expand_dims(stratum=["a", "b"], axis=-1)
    line = ergode.plots.epidemic_curves(halves).lines[0].get_ydata()
    whole = ergode.plots.epidemic_curves(counts).lines[0].get_ydata()
    np.testing.assert_allclose(line, 2 * whole)
