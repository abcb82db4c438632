"""Bifurcation diagrams of branches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import names_in
from ergode.core.errors import PlanError
from ergode.plots.frame import COLOURS, new_axes, quiet, time_label

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

_SOLUTIONS = ("equilibria", "cycles")
_EQUILIBRIA, _CYCLES, _CURVES = "#222222", COLOURS[0], COLOURS[:4]
# Marker and name of each kind of special point; ends of a range have none.
_SPECIAL = {
    "fold": ("s", "fold"),
    "hopf": ("o", "Hopf point"),
    "branch": ("D", "branch point"),
    "doubling": ("^", "period doubling"),
    "torus": ("v", "torus bifurcation"),
    "long-period": ("X", "long period"),
    "cusp": ("*", "cusp"),
    "bogdanov-takens": ("P", "Bogdanov-Takens point"),
    "bautin": ("h", "Bautin point"),
    "zero-hopf": ("<", "zero-Hopf point"),
    "double-hopf": (">", "double Hopf point"),
    "generalised-doubling": ("d", "generalised period doubling"),
    "fold-flip": ("p", "fold-flip point"),
    "1:1-resonance": ("$1$", "resonance 1:1"),
    "1:2-resonance": ("$2$", "resonance 1:2"),
    "1:3-resonance": ("$3$", "resonance 1:3"),
    "1:4-resonance": ("$4$", "resonance 1:4"),
    "fold-torus": ("8", "fold and torus"),
    "flip-torus": ("H", "doubling and torus"),
    "double-torus": ("x", "double torus"),
}
# Name and colour of each kind of curve in two parameters.
_KINDS = {
    "folds": ("folds", 0), "hopf": ("Hopf points", 2), "doublings": ("period doublings", 1),
    "tori": ("torus bifurcations", 3),
}  # fmt: skip
_LARGER = {"*": 11, "P": 8, "X": 7, "h": 7}  # sizes of markers with thin parts


def branches(
    dataset: xarray.Dataset | Sequence[xarray.Dataset],
    *,
    variable: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw branches over their parameter: a bifurcation diagram.

    Stable solutions are solid, unstable ones dashed. Equilibria are black; the minimum and the
    maximum of cycles are blue. Special points have markers. Curves of bifurcations are
    drawn in the plane of their two parameters.

    Parameters
    ----------
    dataset : xarray.Dataset or sequence of xarray.Dataset
        From `ergode.trajectories.branch`: branches that vary one parameter, or curves that vary
        the same two.
    variable : str, optional
        Variable on the vertical axis; the first if not given; or ``"period"``, of cycles. Curves in
        two parameters have none.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    PlanError
        A dataset is not from `branch`, varies other parameters than the first one, or has no such
        variable; or `ax` are no axes.

    Examples
    --------
    >>> import ergode
    >>> field = ergode.field_from_equations({"x": "mu + x**2"})
    >>> branch = ergode.trajectories.branch(
    ...     field, start={"x": -1}, parameters={"mu": -1}, vary={"mu": (-2, 1)}
    ... )
    >>> from ergode.plots import branches
    >>> branches(branch).get_xlabel()
    'mu'
    """
    import xarray
    from matplotlib.axes import Axes

    if not isinstance(dataset, Iterable):
        raise PlanError(
            f"dataset is {type(dataset).__name__}; expected a branch from trajectories.branch, or "
            "several"
        )
    many = [dataset] if isinstance(dataset, xarray.Dataset) else list(dataset)
    if not many:
        raise PlanError("there are no branches to draw; expected one or more")
    for one in many:
        if (
            not isinstance(one, xarray.Dataset)
            or "varied" not in one.attrs
            or "point" not in one.dims
        ):
            raise PlanError("the dataset has no branch; expected one from trajectories.branch")
        if "variable" not in one.dims:
            raise PlanError(
                "the dataset has one variable of a branch only; give it whole, and variable="
            )
    if ax is not None and not isinstance(ax, Axes):
        raise PlanError(f"ax is {ax!r}; expected axes of Matplotlib")
    varied = _varied(many[0])
    for one in many:
        if _varied(one) != varied:
            raise PlanError(
                f"a branch varies {', '.join(_varied(one))} and the first one "
                f"{', '.join(varied)}; draw branches of the same parameters"
            )
    ax = quiet(new_axes() if ax is None else ax)
    marks: dict[str, list[tuple[float, float]]] = {}
    if len(varied) == 2:
        if variable is not None:
            raise PlanError("variable has no effect: the curves are in the plane of two parameters")
        _draw_curves(ax, many, varied, marks)
    else:
        _draw_branches(ax, many, varied[0], variable, marks)
    for kind, places in marks.items():
        marker, name = _SPECIAL[kind]
        x, y = np.array(places).T
        ax.plot(
            x, y, linestyle="none", marker=marker, label=name, color=COLOURS[1],
            markersize=_LARGER.get(marker, 6),
            markeredgecolor="white", markeredgewidth=0.7, zorder=5,
        )  # fmt: skip
    handles, labels = ax.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda k: _order(labels[k]))
    ax.legend([handles[k] for k in order], [labels[k] for k in order], frameon=False)
    return ax


def _order(label: str) -> int:
    """Place in the legend."""
    listed = [
        *(f"{one} {what}" for what in _SOLUTIONS for one in ("stable", "unstable")),
        "folds", "folds of cycles", *(name for name, _ in list(_KINDS.values())[1:]),
        *(name for _, name in _SPECIAL.values()),
    ]  # fmt: skip
    return listed.index(label) if label in listed else len(listed)


def _varied(dataset: xarray.Dataset) -> list[str]:
    return [str(name) for name in np.atleast_1d(dataset.attrs["varied"])]


def _draw_branches(
    ax: Axes, many: Sequence[xarray.Dataset], parameter: str, variable: str | None, marks: Any
) -> None:
    known = [str(name) for name in many[0]["variable"].values]
    is_period = variable == "period"
    if is_period:
        many = [one for one in many if "period" in one]
        if not many:
            raise PlanError("no branch has a period; expected branches of cycles")
    else:
        variable = names_in("variable", variable or known[:1], known)[0]
    labelled: set[str] = set()
    for one in many:
        is_cycles = "period" in one
        if is_period:
            rows = [one["period"].values]
        elif is_cycles:
            rows = [one[name].sel(variable=variable).values for name in ("lowest", "highest")]
        else:
            rows = [one["state"].sel(variable=variable).values]
        x, stable = one[parameter].values, one["stable"].values
        special = [_kind(name) for name in one["special"].values]
        what = "cycles" if is_cycles else "equilibria"
        for row in rows:
            for is_stable, part in _parts(stable, special):
                label = f"{'stable' if is_stable else 'unstable'} {what}"
                ax.plot(
                    *_smooth(x, row, part), color=_CYCLES if is_cycles else _EQUILIBRIA,
                    linewidth=1.6 if is_stable else 1.1, label=None if label in labelled else label,
                    linestyle="-" if is_stable else (0, (4, 2)),
                )  # fmt: skip
                labelled.add(label)
        for k in range(len(special)):
            if special[k] in _SPECIAL:
                marks.setdefault(special[k], []).extend(
                    (float(x[k]), float(row[k])) for row in rows
                )
    ax.set_xlabel(parameter)
    ax.set_ylabel(time_label(many[0], what="period") if is_period else variable or "")


def _smooth(x: np.ndarray, y: np.ndarray, part: slice) -> tuple[np.ndarray, np.ndarray]:
    """A part of a curve through points, with eight pieces between two of them.

    Both coordinates are monotone cubic functions of the length of the chords (F. N. Fritsch, R. E.
    Carlson, SIAM J. Numer. Anal. 17, 238 (1980)): the curve has no corners and no overshoot.
    """
    from scipy.interpolate import PchipInterpolator

    rows = np.array([x, y], float)
    size = np.ptp(rows, axis=1, keepdims=True)
    chords = np.hypot(*(np.diff(rows) / np.where(size > 0, size, 1.0)))
    if len(x) < 3 or not (chords > 0).all():
        return x[part], y[part]
    along = np.append(0.0, np.cumsum(chords))
    places = np.arange(8 * (part.stop - 1 - part.start) + 1) / 8 + part.start
    fine = PchipInterpolator(along, rows, axis=1)(np.interp(places, np.arange(len(x)), along))
    return fine[0], fine[1]


def _parts(stable: np.ndarray, special: Sequence[str]) -> list[tuple[bool, slice]]:
    """Runs of points of one stability; they share the special point between them.

    Between two points where neither is special, the later one decides.
    """
    count = len(stable)
    if count == 1:
        return [(bool(stable[0]), slice(0, 1))]
    of_segment = [
        bool(stable[k]) if special[k + 1] and not special[k] else bool(stable[k + 1])
        for k in range(count - 1)
    ]
    parts, begin = [], 0
    for k in range(1, count):
        if k == count - 1 or of_segment[k] != of_segment[begin]:
            parts.append((of_segment[begin], slice(begin, k + 1)))
            begin = k
    return parts


def _draw_curves(
    ax: Axes, many: Sequence[xarray.Dataset], varied: Sequence[str], marks: Any
) -> None:
    labelled: set[str] = set()
    for one in many:
        x, y = (one[name].values for name in varied)
        kind = str(one.attrs["kind"])
        is_cycles = "cycle" in one
        name, colour = _KINDS[kind]
        name = "folds of cycles" if is_cycles and kind == "folds" else name
        ax.plot(
            x, y, color=_CURVES[colour], linewidth=1.6, linestyle="--" if is_cycles else "-",
            label=None if name in labelled else name,
        )  # fmt: skip
        labelled.add(name)
        for k, special in enumerate(one["special"].values):
            if _kind(special) in _SPECIAL:
                marks.setdefault(_kind(special), []).append((float(x[k]), float(y[k])))
    ax.set_xlabel(varied[0])
    ax.set_ylabel(varied[1])


def _kind(name: Any) -> str:
    return str(name).rsplit("-", 1)[0]
