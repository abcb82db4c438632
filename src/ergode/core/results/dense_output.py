"""States at any time, from the interpolating polynomials of the steps."""

from __future__ import annotations

import numpy as np
import xarray
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers, within_rounding
from ergode.core.errors import ErgodeError

ALL = "step_coefficient"  # of named variables; that of an array x is step_coefficient_x


def solution(dataset: xarray.Dataset, t: ArrayLike) -> xarray.DataArray | xarray.Dataset:
    """States at times `t` (see `Accessor.solution`)."""
    if ALL in dataset:
        return _solution_of(dataset, t, "state")
    arrays = [str(name)[len(ALL) + 1 :] for name in dataset if str(name).startswith(f"{ALL}_")]
    if not arrays:
        raise ErgodeError("this Dataset has no dense output; integrate with dense_output=True")
    return xarray.Dataset({name: _solution_of(dataset, t, name) for name in arrays})


def _solution_of(dataset: xarray.Dataset, t: ArrayLike, name: str) -> xarray.DataArray:
    """States of all named variables, or of one array."""
    coefficients = dataset[ALL if ALL in dataset else f"{ALL}_{name}"]
    times = _times_within(dataset, t)
    grid = dataset["time"].values
    sign = -1.0 if grid[-1] < grid[0] else 1.0
    swept = [str(dim) for dim in dataset["step_size"].dims if dim != "step"]
    ended = dataset[f"step_{name}"]
    of_state = [str(dim) for dim in ended.dims if dim not in (*swept, "step")]
    if name == "state":
        of_state = ["variable"]
    inner = ("step", "power", *of_state)
    if not {*inner} <= {*coefficients.dims}:
        raise ErgodeError("steps or variables were selected; call solution(t) first, then select")

    def values(array: xarray.DataArray, *dims: str) -> np.ndarray:
        found = array.transpose(*swept, *dims).values
        return found.reshape(-1, *found.shape[len(swept) :])

    ends, lengths = (
        sign * values(dataset["step_time"], "step"),
        values(dataset["step_size"], "step"),
    )
    states = values(ended, "step", *of_state)
    rows = values(coefficients, *inner)
    lengths_of_state = states.shape[2:]
    states = states.reshape(*states.shape[:2], -1)
    rows = rows.reshape(*rows.shape[:3], -1)
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
    coords = {key: one for key, one in dataset.coords.items() if {*one.dims} <= {*swept, *of_state}}
    result = xarray.DataArray(
        found.reshape(*shape, asked.size, *lengths_of_state), dims=(*swept, "time", *of_state),
        coords={**coords, "time": times.ravel()}, name=name,
    )  # fmt: skip
    return result if times.ndim else result.isel(time=0)


def _times_within(dataset: xarray.Dataset, t: ArrayLike) -> np.ndarray:
    """Times of the run.

    Raises an ErgodeError if they are no numbers, or outside of it.
    """
    times = as_numbers(t)
    if times is None or times.ndim > 1:
        raise ErgodeError(f"t is {t!r}; expected a number or a list of numbers")
    begin, end = np.sort(dataset["time"].values[[0, -1]])
    times = within_rounding(times, begin, end)
    beyond = np.flatnonzero(~((begin <= np.atleast_1d(times)) & (np.atleast_1d(times) <= end)))
    if beyond.size:
        first = np.atleast_1d(times)[beyond[0]]
        raise ErgodeError(f"t is {first:.12g}; expected times from {begin:.12g} to {end:.12g}")
    return times
