import numpy as np
import pytest
import xarray

from ergode.runfile.spread import average, shortfall, spread, usable


def test_one_number_is_itself():
    assert spread(3) == 3.0
    assert spread([0.25]) == 0.25


def test_several_have_a_median_and_a_middle():
    found = spread(np.arange(1001.0)[::-1])
    assert found == pytest.approx({"median": 500, "low": 25, "high": 975})


def test_what_is_not_known_does_not_count():
    assert spread([np.nan, 1, 1, 2])["median"] == 1
    assert np.isnan(spread([np.nan, np.nan])["low"])


def result(codes, values):
    return xarray.Dataset(
        {"status": (("replicate",), np.array(codes, np.uint8)), "x": (("replicate",), values)}
    )


def test_only_what_ended_well_is_counted():
    found = result([0, 5, 8, 2], [1.0, 100.0, 3.0, 100.0])
    assert usable(found)["x"].values.tolist() == [1.0, 3.0]
    assert shortfall(found) == {"failed, left out": 1, "not run, left out": 1}
    assert shortfall(result([0, 1], [1.0, 2.0])) == {}
    swept = xarray.Dataset(
        {
            "status": (("k", "replicate"), np.array([[0, 5], [0, 0]], np.uint8)),
            "x": (("k", "replicate"), [[1, 7], [3, 5]]),
        }
    )
    assert usable(swept)["x"].mean("replicate").values.tolist() == [1.0, 4.0]
    assert average(usable(swept)["x"]) == 3.0
    assert np.isnan(average([]))
