"""Small pictures of a result for a notebook: curves over time, or histograms of draws, as SVG.

Colours are those of the text around them, so they suit light and dark pages.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ergode.core.notebook import Markup

if TYPE_CHECKING:
    import xarray

_WIDTH, _HEIGHT = 160, 34  # pixels
_CURVES, _MEMBERS, _POINTS, _BINS = 8, 200, 80, 24
_LABELS = ("compartment", "species", "variable")
_TIMES = ("time", "interval")
# Of several variables, the one that is drawn: what a model's states are called.
_USUAL = (
    "count", "amount", "state", "mean", "concentration", "mass_fraction", "abundance", "cases",
)  # fmt: skip


def sparklines(dataset: xarray.Dataset) -> list[tuple[str, str, Markup]]:
    """Names, ranges of values and pictures of what a result contains; empty if there is none."""
    return list(_histograms(dataset) if "draw" in dataset.dims else _curves(dataset))


def _curves(dataset: xarray.Dataset) -> Iterator[tuple[str, str, Markup]]:
    numbers = {
        str(name): one for name, one in dataset.data_vars.items()
        if one.dtype.kind in "iuf" and any(dim in one.dims and one.sizes[dim] > 1 for dim in _TIMES)
    }  # fmt: skip
    name = next((one for one in (*_USUAL, *numbers) if one in numbers), None)
    if name is None:
        return
    whole = numbers[name]
    time = next(dim for dim in _TIMES if dim in whole.dims)
    array = whole.isel({time: _some(whole.sizes[time], _POINTS)})
    moments = np.asarray(array[time].values, np.float64)
    label = next((dim for dim in _LABELS if dim in array.dims), None)
    others = [dim for dim in array.dims if dim not in (time, label)]
    array = array.isel({dim: _some(array.sizes[dim], _MEMBERS) for dim in others})
    for k in range(min(array.sizes[label], _CURVES) if label else 1):
        one = array.isel({label: k}) if label else array
        rows = one.transpose(..., time).values.reshape(-1, moments.size)
        with warnings.catch_warnings():  # of times that no member reached
            warnings.simplefilter("ignore", RuntimeWarning)
            low, middle, high = np.nanquantile(rows[:_MEMBERS].astype(float), [0.05, 0.5, 0.95], 0)
        known = np.isfinite(moments) & np.isfinite(low) & np.isfinite(high)
        if known.sum() > 1:
            title = str(array[label].values[k]) if label and label in array.coords else name
            every = whole.isel({label: k}) if label else whole
            picture = _curve(title, moments[known], low[known], middle[known], high[known])
            yield title, _range(float(every.min()), float(every.max())), picture


def _curve(
    title: str, moments: np.ndarray, low: np.ndarray, middle: np.ndarray, high: np.ndarray
) -> Markup:
    """Picture of a median over time in its band."""
    least, most = float(low.min()), float(high.max())
    x = 1 + (_WIDTH - 2) * (moments - moments[0]) / (moments[-1] - moments[0])

    def y(values: np.ndarray) -> np.ndarray:
        share = (values - least) / (most - least) if most > least else np.full(values.size, 0.5)
        return np.asarray(_HEIGHT - 2 - (_HEIGHT - 4) * share)

    band = _path(np.append(x, x[::-1]), np.append(y(low), y(high)[::-1]))
    line = _path(x, y(middle))
    return _picture(
        f"{title} over time",
        f'<path d="{band}Z" fill="currentColor" fill-opacity=".2"/>'
        f'<path d="{line}" fill="none" stroke="currentColor" stroke-width="1.3"/>',
    )


def _histograms(dataset: xarray.Dataset) -> Iterator[tuple[str, str, Markup]]:
    for name, one in list(dataset.data_vars.items())[:_CURVES]:
        values = one.values.ravel()
        if one.dtype.kind not in "iuf" or "draw" not in one.dims:
            continue
        values = values[np.isfinite(values)].astype(float)
        if values.size < 2:
            continue
        counts, edges = np.histogram(values, _BINS)
        wide = (_WIDTH - 2) / _BINS
        tall = (_HEIGHT - 2) * counts / counts.max()
        bars = "".join(
            f"M{1 + k * wide:.1f} {_HEIGHT}v{-up:.1f}h{wide - 0.6:.1f}V{_HEIGHT}Z"
            for k, up in enumerate(tall) if up > 0
        )  # fmt: skip
        body = f'<path d="{bars}" fill="currentColor" fill-opacity=".55"/>'
        yield str(name), _range(edges[0], edges[-1]), _picture(f"histogram of {name}", body)


def _some(size: int, most: int) -> np.ndarray:
    """Numbers of at most so many elements, evenly spaced."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(int))


def _path(x: np.ndarray, y: np.ndarray) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _range(least: float, most: float) -> str:
    return f"{least:.4g} to {most:.4g}"


def _picture(title: str, body: str) -> Markup:
    return Markup(
        f'<svg role="img" aria-label="{escape(title)}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}">{body}</svg>'
    )
