"""Spread of numbers over replicates, zones or parameters, in reports; failed ones are omitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ergode.core.status import Status, has_failed
from ergode.models.sweep import Grid

if TYPE_CHECKING:
    import xarray


def usable(dataset: xarray.Dataset) -> xarray.Dataset:
    """The replicates (zones, trajectories) that did not fail.

    With several such dims (a sweep with replicates), failed ones become missing values.
    """
    if "status" not in dataset:
        return dataset
    bad = dataset["status"].copy(data=has_failed(dataset["status"].values))
    if bad.ndim == 1:
        return dataset.isel({bad.dims[0]: np.flatnonzero(~bad.values)})
    if not bad.any():
        return dataset
    each = [name for name, value in dataset.data_vars.items() if set(bad.dims) <= set(value.dims)]
    return dataset.assign({name: dataset[name].where(~bad) for name in each if name != "status"})


def is_swept(options: Mapping[str, Any]) -> bool:
    """Whether arguments of an engine define several points of a sweep."""
    grids = (value for value in options.values() if isinstance(value, Grid))
    return any(np.ndim(values) > 0 for one in grids for values in one.values())


def shortfall(dataset: xarray.Dataset) -> dict[str, float]:
    """Number of failed replicates and of replicates not run, if any; empty for densities."""
    if "status" not in dataset or "time_reached" in dataset:
        return {}
    codes = dataset["status"].values
    missing = int((codes == Status.NOT_RUN).sum())
    failed = int(has_failed(codes).sum()) - missing
    counts = {"failed": failed, "not run": missing}
    return {f"{name}, left out": float(n) for name, n in counts.items() if n}


def average(values: npt.ArrayLike) -> float:
    """The mean of the values that are not missing; NaN if all are missing."""
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    return float(known.mean()) if known.size else float("nan")


def spread(values: npt.ArrayLike) -> float | dict[str, float]:
    """A single number unchanged; else the median and the middle 95 %, without missing values."""
    found = np.asarray(values, float)
    if found.size == 1:
        return found.item()
    known = found[~np.isnan(found)]
    low, median, high = np.quantile(known, (0.025, 0.5, 0.975)) if known.size else [np.nan] * 3
    return {"median": float(median), "low": float(low), "high": float(high)}


def replicates_text(options: Mapping[str, Any]) -> str:
    """The number of replicates of a call, or the first and the last, for the terminal."""
    given = options.get("replicates", 1)
    return f"{given.start:,} to {given.stop - 1:,}" if isinstance(given, range) else f"{given:,}"
