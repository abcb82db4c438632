import numpy as np
import pytest

from ergode.runfile.spread import spread


def test_one_number_is_itself():
    assert spread(3) == 3.0
    assert spread([0.25]) == 0.25


def test_several_have_a_median_and_a_middle():
    found = spread(np.arange(1001.0)[::-1])
    assert found == pytest.approx({"median": 500, "low": 25, "high": 975})


def test_what_is_not_known_does_not_count():
    assert spread([np.nan, 1, 1, 2])["median"] == 1
    assert np.isnan(spread([np.nan, np.nan])["low"])
