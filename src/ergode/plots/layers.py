"""What figures of densities share: their layers (times or results), colours, ticks and legends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import names_in
from ergode.core.errors import PlanError
from ergode.core.inputs.result import inputs
from ergode.plots.frame import COLOURS

if TYPE_CHECKING:
    import xarray

    from ergode.density.smooth import Smooth

PROBABILITIES = (0.997, 0.95, 0.683)
"""Of three, two and one standard deviations of a Gaussian in one variable."""

_TAIL = 2e-4  # probability beyond each end of an axis
_ROOM = 0.04  # of an axis, beyond each end


@dataclass(frozen=True)
class Layer:
    """One density of a figure."""

    label: str
    color: Any
    names: tuple[str, ...]
    marginal: Callable[..., Smooth]  # of a list of names, with the options of `smooth`


def layers_of(
    results: Any, time: float | Sequence[float] | None, color: str | Sequence[str] | None
) -> list[Layer]:
    """The layers of one result at one or several times, or of several results at one time."""
    if isinstance(results, Mapping) and not hasattr(results, "data_vars"):
        return _of_results(results, time, color)
    if not hasattr(results, "data_vars"):
        raise PlanError(
            f"expected a dataset, or a mapping from labels to datasets; found a "
            f"{type(results).__name__}"
        )
    try:
        times = [None] if time is None else np.atleast_1d(np.asarray(time, float)).tolist()
    except (TypeError, ValueError):
        times = [[]]
    if any(isinstance(one, list) for one in times):
        raise PlanError(f"time is {time!r}; expected a number or a list of numbers")
    if not times:
        raise PlanError("time is empty; expected one time or more")
    colours = _colours(len(times), color)
    digits = _digits(times) if len(times) > 1 else 0
    made = []
    for one, colour in zip(times, colours, strict=True):
        label = f"{one:.{digits}g}" if len(times) > 1 else ""
        made.append(_layer(results, one, label, colour, ()))
    return made


def _digits(times: Sequence[Any]) -> int:
    """Significant digits that tell the times apart: three or more."""
    known = set(times)
    return next((n for n in range(3, 17) if len({f"{t:.{n}g}" for t in known}) == len(known)), 17)


def _of_results(results: Mapping[str, Any], time: Any, color: Any) -> list[Layer]:
    if not results:
        raise PlanError("there are no results to draw; expected one or more")
    if np.ndim(time) > 0:
        raise PlanError("several results and several times are given; expected several of one only")
    named = [one for one in results.values() if hasattr(one, "data_vars")]
    known = tuple(map(str, named[0]["variable"].values)) if named else ()
    colours = _colours(len(results), color)
    made = [
        _layer(one, time, str(label), colour, known)
        for (label, one), colour in zip(results.items(), colours, strict=True)
    ]
    for layer in made:
        if set(layer.names) != set(made[0].names):
            raise PlanError(
                f"'{layer.label}' has the variables {', '.join(layer.names)}, and "
                f"'{made[0].label}' has {', '.join(made[0].names)}; expected the same"
            )
    return made


def _colours(count: int, color: str | Sequence[str] | None) -> list[Any]:
    """A colour for each layer."""
    if color is None and count > len(COLOURS):
        from matplotlib import colormaps

        return [colormaps["viridis"](part) for part in np.linspace(0, 0.92, count)]
    given = COLOURS if color is None else [color] if isinstance(color, str) else list(color)
    if len(given) < count:
        raise PlanError(f"color has {len(given)} entries, and {count} densities are drawn")
    return list(given[:count])


def _layer(result: Any, time: Any, label: str, color: Any, known: tuple[str, ...]) -> Layer:
    if not hasattr(result, "data_vars"):
        points = np.asarray(result, float)
        if points.ndim != 2 or points.shape[1] != len(known):
            raise PlanError(
                f"'{label}' has shape {points.shape}; expected [point_count, {len(known)}], a "
                "column for each variable of the first dataset"
            )
        return _of_points(points, np.ones(len(points)), label, color, known)
    names = tuple(str(name) for name in result["variable"].values)
    if "particle" in result:
        return _of_points(*_particles_at(result, time), label, color, names)
    from ergode.density import views

    cells = views.cells_at(result, time)
    periods = periods_of(result)
    if periods is not None:
        mean = result["mean"].sel(time=cells["time"]).values
        cells = cells.assign(
            point=(cells["point"].dims, _near(cells["point"].values, mean, periods))
        )

    scattered = views.is_scattered(cells)

    def marginal(chosen: Sequence[str], **options: Any) -> Smooth:
        own = None if periods is None else periods[[names.index(name) for name in chosen]]
        return views.smooth_marginal(cells, chosen, scattered=scattered, periods=own, **options)

    return Layer(label, color, names, marginal)


def periods_of(dataset: xarray.Dataset) -> np.ndarray | None:
    """Period of each variable of a density, 0 if it has none; None if none has one."""
    given = inputs(dataset).get("periodic") if "inputs" in dataset.attrs else None
    if not given:
        return None
    return np.array([given.get(str(name), 0.0) for name in dataset["variable"].values])


def _near(points: np.ndarray, mean: np.ndarray, periods: np.ndarray) -> np.ndarray:
    """Points within half a period of the mean."""
    one = np.where(periods > 0, periods, 1.0)
    turns = np.where(periods > 0, np.rint((points - mean) / one), 0.0)
    return np.asarray(points - turns * one)


def _particles_at(result: xarray.Dataset, time: float | None) -> tuple[np.ndarray, np.ndarray]:
    if result["particle"].ndim != 3:
        dim = result["particle"].dims[0]
        raise PlanError(f"the dataset has several densities; choose one, as by isel({dim}=0)")
    kept = np.asarray(result["kept"].values, float)
    at = kept.size - 1 if time is None else int(np.abs(kept - time).argmin())
    if time is not None and not np.isclose(kept[at], time, rtol=1e-9):
        raise PlanError(
            f"the particles of time {time:g} were not kept; call propagate with keep='all'"
        )
    return result["particle"].values[at], result["weight"].values[at]


def _of_points(
    points: np.ndarray, weight: np.ndarray, label: str, color: Any, names: tuple[str, ...]
) -> Layer:
    """The layer of weighted points, in cells as wide as Scott's rule has its kernels."""
    from ergode.density.smooth import smooth

    good = np.isfinite(points).all(axis=1) & (weight > 0)
    points, weight = points[good], weight[good]
    if not len(points):
        raise PlanError(f"there are no points with weight to draw of '{label or 'the dataset'}'")
    weight = weight / weight.sum()
    count = 1.0 / float(weight @ weight)
    deviation = np.sqrt(np.maximum(weight @ (points - weight @ points) ** 2, 0.0))
    least = np.maximum(1e-9 * np.abs(points).max(axis=0), np.finfo(float).tiny * 1e16)
    deviation = np.maximum(deviation, least)

    def marginal(chosen: Sequence[str], **options: Any) -> Smooth:
        columns = [names.index(name) for name in chosen]
        width = deviation[columns] * math.sqrt(3) * count ** (-1 / (len(columns) + 4))
        return smooth(points[:, columns], weight, width, **options)

    return Layer(label, color, names, marginal)


def chosen_of(layers: Sequence[Layer], variables: Iterable[str] | None, most: int) -> list[str]:
    """The variables to draw: those that are given, or the first of the densities."""
    known = layers[0].names
    found = names_in("variable", known[:most] if variables is None else variables, known)
    if not found:
        raise PlanError(f"variables is empty; expected some of {', '.join(known)}")
    return found


def check_units(units: Any, names: Sequence[str]) -> None:
    """Refuse units that are no mapping from variables, or "time", to texts."""
    if units is not None and not isinstance(units, Mapping):
        raise PlanError(f"units is {units!r}; expected a mapping, such as {{'{names[0]}': 'km'}}")
    names_in("unit", list(units or ()), [*names, "time"])


def extent(layers: Sequence[Layer], name: str) -> tuple[float, float]:
    """Ends of an axis that shows nearly all of every layer."""
    ends = []
    for layer in layers:
        curve = layer.marginal([name])
        held = np.cumsum(curve.density) / curve.density.sum()
        ends.append(np.interp([_TAIL, 1 - _TAIL], held, curve.axes[0]))
    low, high = np.min(ends), np.max(ends)
    room = _ROOM * (high - low)
    return float(low - room), float(high + room)


def write_axis(axis: Any, limits: Sequence[float], name: str, units: Any, count: int = 4) -> None:
    """Ticks with short numbers on an axis, and its label; what all ticks share is in the label."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    offset, power = _short(*limits)
    axis.set_major_locator(MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{round((value - offset) / 10.0**power, 6) + 0.0:g}")
    )
    shift = f" {'−' if offset > 0 else '+'} {abs(offset):.12g}" if offset else ""
    unit = str((units or {}).get(name, ""))
    parts = ([f"$10^{{{power}}}$"] if power else []) + ([unit] if unit else [])
    axis.set_label_text(f"{name}{shift}" + (f" [{' '.join(parts)}]" if parts else ""))


def _short(low: float, high: float) -> tuple[float, int]:
    """What to subtract from numbers of an axis, and the power of ten to divide them by."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return 0.0, 0
    digit = math.floor(math.log10(span))
    offset = 0.0
    if max(abs(low), abs(high)) > 200 * span:
        offset = round(0.5 * (low + high), max(-digit, -300))
    power = math.floor(math.log10(max(abs(low - offset), abs(high - offset))))
    return offset, power if power < -2 or power > 3 else 0


def legend_of(layers: Sequence[Layer], units: Any = None) -> dict[str, Any]:
    """Handles of a legend of all layers, and its title; empty for a single unnamed one."""
    from matplotlib.patches import Patch

    if len(layers) == 1 and not layers[0].label:
        return {}
    times = all(_is_number(layer.label) for layer in layers)
    unit = (units or {}).get("time", "")
    title = (f"time [{unit}]" if unit else "time") if times else None
    handles = [
        Patch(facecolor=layer.color, alpha=0.7, label=layer.label, linewidth=0) for layer in layers
    ]
    return {"handles": handles, "title": title, "frameon": False}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_probabilities(probabilities: Sequence[float]) -> list[float]:
    """Probabilities of regions, the largest first."""
    found = sorted(np.atleast_1d(np.asarray(probabilities, float)).tolist(), reverse=True)
    if not found or not all(0 < one < 1 for one in found):
        raise PlanError(f"probabilities is {probabilities!r}; expected numbers between 0 and 1")
    return found
