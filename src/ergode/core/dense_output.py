"""States at any time, from the interpolating polynomials of the steps."""

from __future__ import annotations

import numpy as np
import xarray
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers
from ergode.core.errors import ErgodeError


def solution(dataset: xarray.Dataset, t: ArrayLike) -> xarray.DataArray:
    """States at times `t` (see `Accessor.solution`)."""
    if "step_coefficient" not in dataset:
        raise ErgodeError("this Dataset has no dense output; integrate with dense_output=True")
    times = _times_within(dataset, t)
    grid = dataset["time"].values
    sign = -1.0 if grid[-1] < grid[0] else 1.0
    swept = [str(dim) for dim in dataset["step_size"].dims if dim != "step"]
    inner = ("step", "power", "variable")
    if not {*inner} <= {*dataset["step_coefficient"].dims}:
        raise ErgodeError("steps or variables were selected; call solution(t) first, then select")

    def values(name: str, *dims: str) -> np.ndarray:
        array = dataset[name].transpose(*swept, *dims).values
        return array.reshape(-1, *array.shape[len(swept) :])

    ends, lengths = sign * values("step_time", "step"), values("step_size", "step")
    states, rows = values("step_state", "step", "variable"), values("step_coefficient", *inner)
    sizes, shape = rows.shape[1:], [dataset.sizes[dim] for dim in swept]
    # In the precision of the ends: the last time of a run is then the end of its last step.
    asked = (sign * times.ravel()).astype(ends.dtype)
    found = np.full((len(rows), asked.size, sizes[2]), np.nan, rows.dtype)
    for me in range(len(rows)):
        # Steps that are not there have NaN for an end, which is after all others.
        last = int(np.isfinite(ends[me]).sum()) - 1
        number = np.searchsorted(ends[me, : last + 1], asked)
        here = np.flatnonzero((number <= last) & (number > 0))
        n = number[here]
        x = ((asked[here] - ends[me, n - 1]) / lengths[me, n])[:, None]
        moved = np.zeros((here.size, sizes[2]))
        for m in reversed(range(sizes[1])):
            moved = x * (moved + rows[me, n, m])
        found[me, here] = states[me, n - 1] + moved
        begin = number == 0
        found[me, begin] = states[me, 0]
    coords = {
        name: one for name, one in dataset.coords.items() if {*one.dims} <= {*swept, "variable"}
    }
    result = xarray.DataArray(
        found.reshape(*shape, asked.size, sizes[2]), dims=(*swept, "time", "variable"),
        coords={**coords, "time": times.ravel()}, name="state",
    )  # fmt: skip
    return result if times.ndim else result.isel(time=0)


def _times_within(dataset: xarray.Dataset, t: ArrayLike) -> np.ndarray:
    """Times of the run.

    Raises
    ------
    ErgodeError
        They are no numbers, or outside of it.
    """
    times = as_numbers(t)
    if times is None or times.ndim > 1:
        raise ErgodeError(f"t is {t!r}; expected a number or a list of numbers")
    begin, end = np.sort(dataset["time"].values[[0, -1]])
    beyond = np.flatnonzero(~((begin <= np.atleast_1d(times)) & (np.atleast_1d(times) <= end)))
    if beyond.size:
        first = np.atleast_1d(times)[beyond[0]]
        raise ErgodeError(f"t is {first:g}; expected times from {begin:g} to {end:g}")
    return times
