"""The page of a result: what was run and how, how well, its figure, and what it contains."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode import plots
from ergode.core.errors import ErgodeError
from ergode.core.inputs import ATTRIBUTE, inputs
from ergode.core.notebook import bytes_text
from ergode.core.status import Status, has_failed
from ergode.core.words import counted
from ergode.report.frame import Picture, framed, rows_of

if TYPE_CHECKING:
    import xarray

_HOW = (
    "method", "method_reason", "exact", "precision", "seed", "device", "device_model",
    "device_reason", "compile_seconds", "run_seconds", "wall_seconds", "model_digest",
)  # fmt: skip
_MOST = 400  # characters of an attribute


def report(dataset: xarray.Dataset, title: str) -> str:
    """The page of a result, as one HTML file without any other.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of an engine or of an analysis.
    title : str
        Heading, such as the name of its file.

    Returns
    -------
    str
        HTML. All names and texts of the result are escaped.
    """
    attrs = {str(name): _text(value) for name, value in dataset.attrs.items() if name != ATTRIBUTE}
    how = {name: attrs.pop(name) for name in _HOW if name in attrs}
    facts: dict[str, str] = {k: attrs.pop(k) for k in ("version", "created") if k in attrs}
    sizes = ", ".join(f"{dim} {size:,}" for dim, size in dataset.sizes.items())
    lead = (
        f"A result of {attrs.pop('engine', 'ergode')}: {sizes or 'one number for each variable'}."
    )
    sections = [
        _picture(dataset),
        _section("What was run", _inputs(dataset)),
        _section("How", _list(how)),
        _section("How well", _statuses(dataset) + _list(attrs)),
        _section("What it contains", _variables(dataset)),
    ]
    return framed(title, lead, "\n".join(filter(None, sections)), facts)


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{body}\n</section>" if body else ""


def _list(facts: Mapping[str, str]) -> str:
    return f"<dl>\n{rows_of(facts)}\n</dl>" if facts else ""


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    text = str(value.tolist() if isinstance(value, np.ndarray) else value)
    return text if len(text) <= _MOST else f"{text[:_MOST]} ..."


def _inputs(dataset: xarray.Dataset) -> str:
    if not isinstance(dataset.attrs.get(ATTRIBUTE), str):
        return ""
    return f"<pre><code>{html.escape(repr(inputs(dataset)))}</code></pre>"


def _statuses(dataset: xarray.Dataset) -> str:
    """How members ended, with the sentence of each status."""
    if "status" not in dataset:
        return ""
    values = np.asarray(dataset["status"].values).ravel()
    codes, counts = np.unique(values, return_counts=True)
    rows = "".join(
        f'<tr><th scope="row">{Status(code).name}</th>'
        f'<td class="number" data-column="members">{count:,}</td>'
        f"<td>{html.escape(Status(code).sentence)}</td></tr>"
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True)
    )
    failed = int(has_failed(values).sum())
    lost = f"{counted(failed, 'member')} of {values.size:,} failed." if failed else ""
    head = '<thead><tr><th scope="col">status</th><th scope="col" class="number">members</th>'
    return (
        f"<table>{head}<th></th></tr></thead><tbody>{rows}</tbody></table>"
        f"{f'<p>{lost}</p>' if lost else ''}"
    )


def _variables(dataset: xarray.Dataset) -> str:
    rows = []
    for name, one in dataset.variables.items():
        about = one.attrs.get("long_name", "")
        unit = one.attrs.get("units", "")
        rows.append(
            f'<tr><th scope="row">{html.escape(str(name))}</th>'
            f"<td>{html.escape(', '.join(map(str, one.dims)))}</td>"
            f"<td>{html.escape(str(about))}</td><td>{html.escape(str(unit))}</td></tr>"
        )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("variable", "dims", "", "unit"))
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f'<p class="remark">{bytes_text(dataset.nbytes)} in memory.</p>'
    )


def _picture(dataset: xarray.Dataset) -> str:
    """The figure that the engine's results have, if this one has what is drawn."""
    for name, options, caption in _figures(dataset):
        draw = _on(getattr(plots, name))
        try:
            return Picture.of(partial(draw, dataset, **options), caption).element()
        except (ErgodeError, KeyError, ValueError):  # it has not what this figure shows
            continue
    return ""


def _on(draw: Callable[..., Any]) -> Callable[..., Any]:
    """A plot function that takes its axes last."""
    return lambda dataset, ax, **options: draw(dataset, ax=ax, **options)


def _figures(dataset: xarray.Dataset) -> list[tuple[str, dict[str, Any], str]]:
    """Plot functions with options and captions, in the order in which they are tried."""
    names = dataset["species"].values.ravel() if "species" in dataset.coords else [""]
    species = str(names[0])
    figures: dict[str, list[tuple[str, dict[str, Any], str]]] = {
        "epidemics": [("epidemic_curves", {}, "Nodes in each compartment over time.")],
        "stochastic": [
            ("field", {"species": species}, f"Amounts of {species} in space."),
            ("realizations", {}, "Amounts over time: some realizations."),
            ("amounts", {"species": species}, f"The distribution of {species}."),
        ],
        "kinetics": [
            ("ignition_map", {}, "Ignition delays."),
            ("abundances", {"zone": 0}, "Abundances over time in the first zone."),
            ("abundances", {}, "Abundances over time."),
        ],
        "trajectories": [
            ("trajectories", {}, "Trajectories over time."),
            ("branches", {}, "Branches of equilibria and cycles."),
        ],
        "density": [
            ("density_strip", {}, "The density of the first variable over time."),
            ("density", {}, "The density at the last time."),
        ],
    }
    return figures.get(str(dataset.attrs.get("engine")), [])
