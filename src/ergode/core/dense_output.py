"""States between the ends of steps, by the polynomials that a result has of them."""

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
    coefficients = dataset["step_coefficient"]
    *swept, step, power, variable = coefficients.dims
    shape, sizes = coefficients.shape[: len(swept)], coefficients.shape[-3:]
    ends = sign * dataset["step_time"].values.reshape(-1, sizes[0])
    lengths = dataset["step_size"].values.reshape(-1, sizes[0])
    states = dataset["step_state"].values.reshape(-1, sizes[0], sizes[2])
    rows = coefficients.values.reshape(-1, *sizes)
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
        name: one for name, one in dataset.coords.items() if {*one.dims} <= {*swept, variable}
    }
    result = xarray.DataArray(
        found.reshape(*shape, asked.size, sizes[2]), dims=(*swept, "time", variable),
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
