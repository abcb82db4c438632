import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import ergode
from ergode import plots


def comparison(count, times=11, quantiles=(0.025, 0.25, 0.5, 0.75, 0.975)):
    rng = np.random.default_rng(0)
    time = np.linspace(0, 100, times)

    def one(k):
        walks = rng.normal(size=(40, times)).cumsum(axis=1) * 20 - 3 * k * time
        return xarray.Dataset(
            {"cases": (("replicate", "time"), walks, {"long_name": "cumulative infections"})},
            coords={"time": time},
        )

    scenarios = {f"tests {k} a day": one(k) for k in range(count)}
    return ergode.compare(one(0), scenarios, quantiles=quantiles)


@pytest.mark.parametrize("count", [1, 4, 12])
def test_a_panel_for_each_scenario(count):
    found = comparison(count)
    figure = plots.scenario_differences(found, "cases", figure=Figure())
    assert len(figure.axes) == count
    for number, ax in enumerate(figure.axes):
        median = found["cases_quantile"].sel(level=0.5).isel(scenario=number)
        np.testing.assert_allclose(ax.lines[1].get_ydata(), median)
        assert len(ax.collections) == 2
        assert ax.get_title(loc="left") == f"tests {number} a day"
        assert ax.get_ylim() == figure.axes[0].get_ylim()
    assert figure.get_supylabel().startswith("difference in cumulative infections")
    assert figure.get_suptitle().endswith("median, 50 % and 95 % of 40 pairs of replicates")


def test_a_row_for_each_scenario_without_time():
    figure = plots.scenario_differences(comparison(12), "cases", time=100.0, figure=Figure())
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        f"tests {k} a day" for k in range(12)
    ]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first is on top


def test_points_of_a_sweep_are_panels():
    points = comparison(4)
    names = {"scenario": [0.1, 0.2, 0.3, 0.4]}
    figure = plots.scenario_differences(
        points.assign_coords(names).rename(scenario="rate"), "cases", figure=Figure()
    )
    assert figure.axes[0].get_title(loc="left") == "rate 0.1"


def test_refusals():
    with pytest.raises(ergode.PlanError, match="no variable 'count'; it has cases"):
        plots.scenario_differences(comparison(2), "count")
    with pytest.raises(ergode.PlanError, match="13 scenarios; choose at most 12"):
        plots.scenario_differences(comparison(13), "cases")
    with pytest.raises(ergode.PlanError, match="pair of quantiles"):
        plots.scenario_differences(comparison(2, quantiles=[0.5]), "cases")
    both = comparison(2).expand_dims(compartment=["S", "I"])
    with pytest.raises(ergode.PlanError, match="several values of compartment"):
        plots.scenario_differences(both, "cases")
