"""Tests of states between the ends of steps."""

import numpy as np
import pytest
import xarray

from ergode.core.errors import ErgodeError
from ergode.core.results.dense_output import solution


def _one_step(end, precision):
    """y = 1 + t / end: the step from 0 to `end`."""
    return xarray.Dataset(
        {
            "step_time": ("step", np.array([0, end], precision)),
            "step_size": ("step", np.array([np.nan, end], precision)),
            "step_state": (("step", "variable"), np.array([[1], [2]], precision)),
            "step_coefficient": (
                ("step", "power", "variable"),
                np.array([[[np.nan]], [[1]]], precision),
            ),
        },
        coords={"time": [0.0, end], "variable": ["y"]},
    )


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("end", [0.3, 0.7])  # in float32 one is above, one is below
def test_the_last_time_of_a_run_is_within_its_last_step(end, precision):
    found = solution(_one_step(end, precision), [0.0, end / 2, end])
    np.testing.assert_allclose(found.values.ravel(), [1.0, 1.5, 2.0], rtol=1e-6)


def test_a_time_beyond_the_end_by_a_rounding_is_the_end():
    found = solution(_one_step(0.6, "float64"), [-0.0, 0.1 + 0.2 + 0.3])
    assert 0.1 + 0.2 + 0.3 > 0.6
    assert found["time"].values.tolist() == [0.0, 0.6]
    assert found.values.ravel().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("t", [-0.1, 1.1, np.nan])
def test_a_time_outside_of_the_run_is_refused(t):
    with pytest.raises(ErgodeError, match="expected times from 0 to 1"):
        solution(_one_step(1.0, "float64"), t)
