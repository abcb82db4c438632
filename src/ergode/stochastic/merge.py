"""Outputs that sum over realizations, from parts of an ensemble: sums of integers are exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import results
from ergode.core.calls import parts
from ergode.core.calls.divide import Merge
from ergode.core.errors import PlanError
from ergode.core.results.statistics import ExactSums

if TYPE_CHECKING:
    import xarray

_OF_REALIZATIONS = ["status", "firing_count"]
_LARGEST = 2.0**53  # whole numbers up to it are exact where missing values make them float64


def merge_of(arguments: Mapping[str, Any]) -> Merge | None:
    """How the output of a call is made of parts, if they are not joined.

    Raises a PlanError if it is made of real numbers, whose sums depend on the parts; or it numbers
    the firings of all realizations.
    """
    output = arguments["output"]
    if output == "events":
        raise PlanError(
            "output='events' numbers the firings of all replicates, which parts do not determine; "
            "executor, store, chunk and several devices are for outputs with the dim replicate"
        )
    if output == "histogram":
        return Merge({}, _histogram)
    if output != "statistics":
        return None
    network = arguments["network"]
    real = {
        "rules": getattr(network, "rules", None),
        "rate rules": getattr(network, "rate_rules", None),
        "continuous species": getattr(network, "continuous", None),
        "'langevin'": arguments["method"] == "langevin",
    }
    what = next((name for name, found in real.items() if found), None)
    if what is not None:
        raise PlanError(
            f"output='statistics' of {what} sums real numbers, which depends on the parts; "
            "executor, store, chunk and several devices need output='trajectories'"
        )
    return Merge({"output": "sums"}, _statistics)


def merge_of_space(arguments: Mapping[str, Any]) -> Merge | None:
    """As `merge_of`, for realizations in space."""
    if arguments["output"] != "statistics":
        return None
    return Merge({"output": "trajectories"}, _statistics_of_space)


def merge_of_rules(arguments: Mapping[str, Any]) -> Merge | None:
    """As `merge_of`, for realizations of rules.

    Raises a PlanError if the output is made of real numbers.
    """
    if arguments["output"] == "statistics":
        raise PlanError(
            "output='statistics' of rules sums real numbers, which depends on the parts; executor, "
            "store, chunk and several devices need output='trajectories'"
        )
    return None


def _statistics(found: Iterable[xarray.Dataset], replicates: int) -> xarray.Dataset:
    """Means and variances from the exact sums of parts."""
    ended: list[xarray.Dataset] = []
    for part in found:
        like = part["sum"]
        if not ended:
            sums, count = ExactSums(like.shape), np.zeros(like.shape[:-1], np.int64)
        sums.add(*(part[name].values for name in ("sum", "squares_low", "squares_high")))
        count += part["count"].values
        ended.append(part[_OF_REALIZATIONS].load())
    together = ended[0] if len(ended) == 1 else parts.concat(ended)
    values = moments(sums, count) | {"count": count}
    return _dataset("statistics", values, like, together, _before(like, "time")[0])


def _statistics_of_space(found: Iterable[xarray.Dataset], replicates: int) -> xarray.Dataset:
    """Means and variances from the amounts of parts."""
    ended: list[xarray.Dataset] = []
    for part in found:
        amounts = part["amount"]
        swept, sizes = _before(amounts, parts.REPLICATE)
        values = amounts.values
        if values.dtype.kind == "f" and np.nanmax(np.abs(values), initial=0.0) >= _LARGEST:
            raise PlanError("amounts of failed realizations exceed 2^53; use output='trajectories'")
        whole = np.moveaxis(np.nan_to_num(values), len(sizes), 0)
        shape = (*sizes, values.shape[len(sizes) + 1])  # of points and times
        if not ended:
            sums, count = ExactSums(whole.shape[1:]), np.zeros(shape, np.int64)
        sums.add_values(whole)
        # A realization reaches a time with all its amounts, or with none.
        first: Any = (..., *[0] * (values.ndim - len(sizes) - 2))
        count += (~np.isnan(values[first])).sum(axis=len(sizes))
        ended.append(part[_OF_REALIZATIONS].load())
    together = ended[0] if len(ended) == 1 else parts.concat(ended)
    values_of = moments(sums, count) | {"count": count}
    places = [str(dim) for dim in amounts.dims[len(swept) + 3 :]]
    return _dataset("space-statistics", values_of, amounts, together, swept, places)


def moments(sums: ExactSums, count: np.ndarray) -> dict[str, np.ndarray]:
    """Means and variances [point, time, ...] of `count` [point, time] numbers each."""
    each = count.reshape(*count.shape, *[1] * (sums.sums.ndim - count.ndim))
    return {"mean": sums.mean(each), "variance": sums.variance(each)}


def _histogram(found: Iterable[xarray.Dataset], replicates: int) -> xarray.Dataset:
    """Sums of the histograms of parts; without `bins`, parts have bins up to their largest."""
    ended: list[xarray.Dataset] = []
    total: dict[str, np.ndarray] = {}
    widest: xarray.DataArray | None = None
    for part in found:
        own = part["histogram"].load()
        if widest is None or own.sizes["bin"] > widest.sizes["bin"]:
            widest = own
        width = widest.sizes["bin"]
        counts = {name: part[name].values for name in ("below", "above")}
        counts["histogram"] = _widened(own.values, width)
        if total:
            total["histogram"] = _widened(total["histogram"], width)
        total = {name: one + total.get(name, 0) for name, one in counts.items()}
        ended.append(part[_OF_REALIZATIONS].load())
    together = ended[0] if len(ended) == 1 else parts.concat(ended)
    assert widest is not None
    swept, _ = _before(widest, "time")
    return _dataset("histogram", total, widest, together, swept)


def _widened(counts: np.ndarray, width: int) -> np.ndarray:
    missing = [(0, 0)] * (counts.ndim - 1) + [(0, width - counts.shape[-1])]
    return np.pad(counts, missing)


def _before(array: xarray.DataArray, dim: str) -> tuple[list[str], tuple[int, ...]]:
    """The swept dims of an array, which precede `dim`, and their sizes."""
    swept = [str(name) for name in array.dims[: array.dims.index(dim)]]
    return swept, array.shape[: len(swept)]


def _dataset(
    output: str, values: Mapping[str, Any], like: xarray.DataArray, ended: xarray.Dataset,
    swept: Sequence[str], places: Sequence[str] = (),
) -> xarray.Dataset:  # fmt: skip
    coords = {
        str(name): one.values if one.dims in ((), (name,)) else (one.dims[0], one.values)
        for name, one in (dict(like.coords) | dict(ended.coords)).items()
    }
    values = {**values, **{name: ended[name].values for name in _OF_REALIZATIONS}}
    return results.dataset(
        "stochastic", output, values, coords=coords, attrs=ended.attrs, swept=swept,
        places=places, has_warned=True,
    )  # fmt: skip
