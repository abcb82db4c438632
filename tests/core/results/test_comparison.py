"""Paired differences: against plain sums over replicates."""

import numpy as np
import pytest
import xarray

import ergode


def result(seed=1, shift=0.0, replicates=8, **attrs):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(replicates, 3, 2)) + shift
    return xarray.Dataset(
        {
            "count": (("replicate", "time", "compartment"), values, {"long_name": "nodes"}),
            "status": ("replicate", np.zeros(replicates, np.uint8)),
        },
        coords={"time": [0.0, 1.0, 2.0], "compartment": ["S", "I"],
                "replicate": np.arange(replicates)},
        attrs={"seed": "1", "method": "sellke", "precision": "float32", **attrs},
    )  # fmt: skip


def test_differences_are_those_of_pairs():
    base, others = result(), {"one": result(2), "two": result(3, shift=5.0)}
    found = ergode.compare(base, others, quantiles=[0.1, 0.5, 0.9])
    assert found["count"].dims == ("scenario", "time", "compartment")
    for name, other in others.items():
        pairs = other["count"].values - base["count"].values
        mine = found.sel(scenario=name)
        np.testing.assert_allclose(mine["count"], pairs.mean(axis=0))
        np.testing.assert_allclose(
            mine["count_error"], pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))
        )
        levels = mine["count_quantile"].transpose("level", ...)
        np.testing.assert_allclose(levels, np.quantile(pairs, [0.1, 0.5, 0.9], axis=0))
    assert found["count"].attrs["long_name"] == "difference in nodes"
    assert found.attrs["replicates"] == 8


def test_common_random_numbers_leave_a_small_error():
    base = result()
    found = ergode.compare(base, {"more": base.assign(count=base["count"] + 1.0)})
    np.testing.assert_allclose(found["count"], 1.0)
    np.testing.assert_allclose(found["count_error"], 0.0, atol=1e-15)


def test_points_of_a_sweep_are_scenarios():
    points = xarray.concat([result(2), result(3)], "rate").assign_coords(rate=[0.1, 0.2])
    points.attrs = result().attrs
    found = ergode.compare(result(), points)
    named = ergode.compare(result(), {"0.1": result(2), "0.2": result(3)})
    assert found["count"].dims == ("rate", "time", "compartment")
    np.testing.assert_allclose(found["count"], named["count"])


def test_failed_replicates_are_left_out():
    other = result(2)
    other["status"][3] = int(ergode.Status.NOT_RUN)
    pairs = (result(2)["count"] - result()["count"]).values
    found = ergode.compare(result(), {"one": other})["count"].values[0]
    np.testing.assert_allclose(found, np.delete(pairs, 3, axis=0).mean(axis=0))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (result(seed=2, method="first-passage"), "interventions=()"),
        (result(2).assign_attrs(seed="2"), "give both the same seed"),
        (result(2, replicates=5), "replicate"),
        (result(2).assign_coords(time=[0.0, 1.0, 3.0]), "other values of 'time'"),
        (result(2).mean("replicate"), "no dim 'replicate'"),
        (result(2)[["status"]], "no variable with replicates"),
        (3.0, "expected an xarray.Dataset"),
    ],
)
def test_results_that_are_no_pairs_are_refused(other, message):
    with pytest.raises(ergode.PlanError, match=message.replace("(", r"\(").replace(")", r"\)")):
        ergode.compare(result(), {"one": other})


def test_nothing_to_compare_is_refused():
    with pytest.raises(ergode.PlanError, match="empty"):
        ergode.compare(result(), {})
    with pytest.raises(ergode.PlanError, match="between 0 and 1"):
        ergode.compare(result(), {"one": result()}, quantiles=[2.0])


def test_runs_with_dates_are_compared_in_days():
    dates = np.datetime64("2025-03-01") + np.arange(3)
    base, other = (result(seed).assign_coords(date=("time", dates)) for seed in (1, 2))
    assert ergode.compare(base, other).attrs["time_unit"] == "days"


def test_tallies_in_common_are_compared():
    """Scenarios have other measures; a result without any tally in common has the rest."""

    def counted(names, value):
        measures = ("replicate", "tally"), np.full((8, len(names)), value)
        return result().assign(measures=measures).assign_coords(tally=names)

    base = counted(["tests", "doses"], 1.0)
    found = ergode.compare(base, counted(["doses", "beds"], 4.0))
    assert found["tally"].values.tolist() == ["doses"] and found["measures"].values.tolist() == [
        3.0
    ]
    assert "measures" not in ergode.compare(base, counted(["beds"], 4.0))
