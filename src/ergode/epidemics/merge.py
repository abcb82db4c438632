"""Statistics over replicates, from parts of an ensemble: the counts of each part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from ergode.core import results
from ergode.core.calls import parts
from ergode.core.calls.divide import Merge
from ergode.core.results.statistics import CountStatistics
from ergode.core.status import Status
from ergode.epidemics.outputs import levels_of, values_of
from ergode.epidemics.scenario import Include

if TYPE_CHECKING:
    import xarray


def merge_of(arguments: Mapping[str, Any]) -> Merge | None:
    """How the output of a call is made of parts, if they are not joined."""
    if arguments["output"] != "statistics":
        return None

    levels = levels_of(arguments["quantiles"])

    def join(found: Iterable[xarray.Dataset], replicates: int) -> xarray.Dataset:
        return _statistics(found, replicates, levels)

    return Merge({"output": "counts", "quantiles": None}, join)


def _statistics(
    found: Iterable[xarray.Dataset], replicates: int, levels: list[float]
) -> xarray.Dataset:
    """Means, variances and quantiles; sums of integers are exact in any parts."""
    ended: list[xarray.Dataset] = []
    each: dict[str, list[CountStatistics]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for part in found:
        counts = part["count"]
        swept = [str(dim) for dim in counts.dims[: counts.dims.index(parts.REPLICATE)]]
        sizes = counts.shape[: len(swept)]
        points = int(np.prod(sizes, dtype=int))
        for name in ("count", *(name for name in get_args(Include) if name in part)):
            values = part[name].values
            shape = shapes[name] = values.shape[len(swept) + 1 :]
            columns = int(np.prod(shape[1:]))
            if name not in each:
                most = int(part.attrs["node_count"]) if name == "count" else replicates
                sizes_of = (replicates, shape[0], columns, most)
                each[name] = [CountStatistics(*sizes_of) for _ in range(points)]
            by_point = values.reshape(points, -1, shape[0], columns)
            ends = part["status"].values.reshape(points, -1)
            for statistics, own, end in zip(each[name], by_point, ends, strict=True):
                whole = end == Status.DONE
                statistics.add(own if whole.all() else own[whole].astype(np.int64))
        ended.append(part[["status"]].load())
    whole = ended[0] if len(ended) == 1 else parts.concat(ended)
    values = {"status": whole["status"].values}
    for name, of_points in each.items():
        values |= values_of(of_points, levels, sizes, shapes[name], name)
    coords = {
        str(name): one.values if one.dims in ((), (name,)) else (one.dims[0], one.values)
        for name, one in (dict(part.coords) | dict(whole.coords)).items()
        if name != parts.REPLICATE
    }
    return results.dataset(
        "epidemics", "statistics", values, coords={**coords, "level": levels},
        attrs=whole.attrs, swept=swept, has_warned=True,
        strata=[str(dim) for dim in counts.dims if dim == "stratum"],
    )  # fmt: skip
