"""The entry: branches of equilibria and cycles, and curves of bifurcations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ergode.core import results
from ergode.core.arguments import (
    as_numbers,
    choice,
    did_you_mean,
    integer,
    number,
    refuse_idle,
)
from ergode.core.errors import ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.core.results import SWEPT, Variable
from ergode.core.stopwatch import Stopwatch
from ergode.models.fields.vector_field import VectorField, check_field
from ergode.models.sweep import lay_out, refuse_reserved

if TYPE_CHECKING:
    import xarray

Kind = Literal["equilibria", "cycles", "folds", "hopf", "doublings", "tori"]
_IN_TWO = ("folds", "hopf", "doublings", "tori")
_POINT = "point"

results.register(
    "trajectories",
    "branches",
    [
        Variable(name, (SWEPT, *dims), kind, unit, meaning, optional)
        for name, dims, kind, unit, meaning, optional in (
            ("state", ("variable",), "floating", "1", "state of an equilibrium", True),
            ("lowest", ("variable",), "floating", "1", "minimum over a cycle", True),
            ("highest", ("variable",), "floating", "1", "maximum over a cycle", True),
            ("period", (), "floating", "time", "period of a cycle", True),
            ("cycle", ("node", "variable"), "floating", "1", "state of a cycle at a node", True),
            ("cycle_time", ("node",), "floating", "time", "time of a node of a cycle", True),
            ("stable", (), "bool_", "1", "whether the solution is stable", False),
            ("unstable_count", (), "integer", "1", "unstable directions", False),
            (
                "eigenvalue", ("number", "part"), "floating", "1/time",
                "eigenvalue, or characteristic root, of an equilibrium", True,
            ),
            ("multiplier", ("number", "part"), "floating", "1", "Floquet multiplier", True),
            ("angle", (), "floating", "rad", "angle of the multipliers of a torus", True),
            ("frequency", (), "floating", "1/time", "angular frequency of a Hopf point", True),
            (
                "lyapunov_coefficient", (), "floating", "1",
                "first Lyapunov coefficient of a Hopf point", True,
            ),
        )
    ],
    coords=["special", "arclength", _POINT],
)  # fmt: skip


@recorded({})
def branch(
    field: VectorField,
    *,
    start: Mapping[str, float] | xarray.Dataset,
    vary: Mapping[str, tuple[float, float]],
    parameters: Mapping[str, float] | None = None,
    kind: Kind = "equilibria",
    at: str | int | None = None,
    max_points: int | None = None,
    max_step: float = 0.03,
    longest_period: float | None = None,
) -> xarray.Dataset:
    """Follow equilibria, cycles or their bifurcations while parameters vary: continuation.

    Solutions are followed by pseudo-arclength in both directions, through folds, whether they are
    stable or not. Special points are located, and further branches start there.

    Parameters
    ----------
    field : VectorField
        Equations of named variables, without noise, that do not depend on time. Delays are
        parameters. SymPy derives the equations; if it cannot, differences of sixth order replace
        the derivatives.
    start : mapping of str to float, or xarray.Dataset
        Where the branch begins: a guess of an equilibrium, a value for each variable; or an earlier
        branch, with `at`; or a single trajectory of `integrate` that ends on an equilibrium or, for
        ``kind="cycles"``, on a cycle, with its last two periods at 20 or more times each.
    vary : mapping of str to (float, float)
        The parameter that varies, and its bounds; for bifurcations two parameters.
    parameters : mapping of str to float, optional
        Values of all parameters at the start. An earlier branch has them.
    kind : {"equilibria", "cycles", "folds", "hopf", "doublings", "tori"}
        What to follow. Folds are those of cycles if the start is a cycle, else those of equilibria.
        Period doublings and torus bifurcations start at cycles, Hopf points at equilibria.
    at : str or int, optional
        The point of an earlier branch: the name of a special point, such as ``"hopf-1"``, or the
        number of a point. Cycles start at a Hopf point, and bifurcations at one of their kind. At
        ``"branch-1"`` the other branch starts if the same parameter varies. At ``"doubling-1"``
        cycles of twice the period start.
    max_points : int, optional
        Largest number of points in a direction; the default is 400, with a warning if the branch
        ends so.
    max_step : float
        Largest step, relative to the range of the parameter, the sizes of the variables and the
        period.
    longest_period : float, optional
        Cycles, and curves of their bifurcations, end at this period [time]; the default is 50 times
        the first one. Cycles whose period grows without bound, near a homoclinic orbit, end so.

    Returns
    -------
    xarray.Dataset
        The varied parameters have a value for each ``point`` of the branch, in order along it.
        ``special`` has the names of special points: ``fold-1``, ``hopf-1``, ``branch-1``,
        ``doubling-1``, ``torus-1``, ``bound-1`` (end of the range), ``long-period-1``; in two
        parameters ``cusp-1``, ``bogdanov-takens-1``, ``bautin-1`` (a generalised Hopf point),
        ``zero-hopf-1`` and ``double-hopf-1``, and of cycles ``generalised-doubling-1``,
        ``fold-flip-1``, ``1:1-resonance-1`` to ``1:4-resonance-1``, ``fold-torus-1``,
        ``flip-torus-1`` and ``double-torus-1``; "" for all other points.

        - Equilibria have state(point, variable) and eigenvalue(point, number, part) [1/time], the
          rightmost first; delay equations have the 12 rightmost characteristic roots, or more if
          more are unstable, and NaN where there are fewer.
        - Cycles have lowest and highest(point, variable), period(point),
          cycle(point, node, variable) at the times cycle_time(point, node), and
          multiplier(point, number, part), the largest first. One of them is 1, up to the error of
          the mesh. So do folds, period doublings and tori of cycles; tori have angle(point) [rad],
          that of their multipliers.
        - All have stable(point) and unstable_count(point), which leave out the directions of a
          bifurcation. At Hopf points, frequency(point) and lyapunov_coefficient(point)
          [1/state^2], which is negative if cycles appear stable, that is supercritical; NaN
          elsewhere. It is that of Kuznetsov, over twice the frequency.

        The attributes ``first_end`` and ``last_end`` say why the branch ends.

    Raises
    ------
    ModelError
        A name or a point is unknown, or a value is not a number.
    PlanError
        The field has noise, depends on time, or has delays that depend on the state; there is no
        solution near the start; a start does not fit the kind; an option has no effect.

    Warns
    -----
    AccuracyWarning
        Unstable characteristic roots of a delay equation could not be counted; or a branch ended
        by the default of `max_points`.
    FailureWarning
        Newton's method failed at the end of the branch.

    References
    ----------
    E. J. Doedel, H. B. Keller, J.-P. Kernevez, Int. J. Bifurcation Chaos 1, 493 and 745 (1991);
    Y. A. Kuznetsov, "Elements of Applied Bifurcation Theory" (2004); K. Engelborghs, T. Luzyanina,
    K. J. in 't Hout, D. Roose, SIAM J. Sci. Comput. 22, 1593 (2001), for delays; W. Govaerts,
    Y. A. Kuznetsov, A. Dhooge, SIAM J. Sci. Comput. 27, 231 (2005), for bifurcations of cycles.

    Examples
    --------
    >>> import ergode
    >>> field = ergode.field_from_equations(
    ...     {"x": "A - (B + 1) * x + x**2 * y", "y": "B * x - x**2 * y"}
    ... )
    >>> rest = ergode.trajectories.branch(
    ...     field, start={"x": 1, "y": 1}, parameters={"A": 1, "B": 1}, vary={"B": (0.5, 3)}
    ... )
    >>> [str(name) for name in rest["special"].values if name]
    ['bound-1', 'hopf-1', 'bound-2']
    >>> round(rest["B"][rest["special"] == "hopf-1"].item(), 9)
    2.0
    >>> cycles = ergode.trajectories.branch(
    ...     field, start=rest, at="hopf-1", kind="cycles", vary={"B": (0.5, 3)}
    ... )
    >>> bool(cycles["stable"].all())
    True
    """
    import xarray

    stopwatch = Stopwatch()
    _check_model(field)
    choice("kind", kind, get_args(Kind))
    if max_points is not None:
        integer("max_points", max_points, 1, 1_000_000)
    number("max_step", max_step, above=0)
    free, bounds = _free(field, vary, 2 if kind in _IN_TWO else 1)
    dataset = start if isinstance(start, xarray.Dataset) else None
    earlier = dataset if dataset is not None and "varied" in dataset.attrs else None
    refuse_idle(at=(at is not None and earlier is None, "start is not a branch"))
    has_period = kind in ("cycles", "doublings", "tori") or (
        kind == "folds" and earlier is not None and "cycle" in earlier
    )
    refuse_idle(longest_period=(
        longest_period is not None and not has_period, "only cycles have a period"
    ))  # fmt: skip
    if longest_period is not None:
        number("longest_period", longest_period, above=0)
    guess: dict[str, Any]
    given: Any = {} if parameters is None else parameters
    place = 0
    if earlier is not None:
        refuse_idle(parameters=(parameters is not None, "the branch has their values"))
        place = _place_of(earlier, at)
        if earlier.attrs.get("model_digest") != field.digest:
            raise PlanError("the branch of the start is one of another field")
        known = _parameters_at(earlier, place, field.parameters)
        given = dict(zip(field.parameters, known, strict=True))
        guess = dict.fromkeys(field.variables, 0.0)
    else:
        guess = _last_state(field, dataset) if dataset is not None else _guess(start)
    taken = results.names("trajectories", "branches")
    layout = lay_out(
        {"start": field.variables, "parameters": field.parameters},
        {"start": guess, "parameters": given}, reserved=taken,
    )  # fmt: skip
    if layout.dims:
        raise PlanError("a branch has one start; expected a number for each name, not an array")
    refuse_reserved(dict.fromkeys(field.parameters), taken, numbers=True)
    values = np.array([float(layout.rows[name][0]) for name in field.parameters])
    _check_range(field, values, free, bounds)
    # SciPy's matrices are imported with the first branch.
    from ergode.trajectories.continuation.run import Call, run

    state = np.array([float(layout.rows[name][0]) for name in field.variables])
    call = Call(field, kind, free, bounds, values, state, dataset, earlier, place, longest_period)
    return run(call, max_points, float(max_step), stopwatch)


def _check_model(field: VectorField) -> None:
    check_field(field)
    field.refuse_arrays("a branch")
    field.refuse_inputs("a branch")
    if field.diffusion is not None:
        raise PlanError("a branch is for fields without noise; this field has a diffusion")
    if field.state_dependent:
        raise PlanError("a branch is for delays that are parameters; this field has one that "
                        "depends on the state")  # fmt: skip
    if field.is_neutral:
        raise PlanError("a branch is for fields without delayed derivatives")


def _free(field: VectorField, vary: Any, count: int) -> tuple[list[str], np.ndarray]:
    """The varied parameters and their bounds, [parameter, 2]."""
    if not isinstance(vary, Mapping):
        raise ModelError(
            f"vary is {vary!r}; expected the name of a parameter with its bounds, such as "
            f"{{'{field.parameters[0] if field.parameters else 'mu'}': (0, 1)}}"
        )
    if len(vary) != count:
        what = "one parameter" if count == 1 else "two parameters, for a curve of bifurcations"
        raise ModelError(f"vary has {len(vary)} parameters; expected {what}")
    bounds = []
    for name, pair in vary.items():
        if name not in field.parameters:
            raise ModelError(
                f"vary names the parameter {name!r}, which the field does not have; it has "
                f"{', '.join(field.parameters) or 'none'}{did_you_mean(name, field.parameters)}"
            )
        ends = as_numbers(pair)
        if ends is None or ends.shape != (2,) or not np.all(np.isfinite(ends)):
            raise ModelError(f"bounds of '{name}' are {pair!r}; expected two finite numbers")
        if not ends[0] < ends[1]:
            raise ModelError(f"bounds of '{name}' are {pair!r}; expected the smaller one first")
        bounds.append(ends)
    return [str(name) for name in vary], np.array(bounds)


def _check_range(
    field: VectorField, values: np.ndarray, free: list[str], bounds: np.ndarray
) -> None:
    known = dict(zip(field.parameters, values, strict=True))
    for name, (low, high) in zip(free, bounds, strict=True):
        slack = 1e-9 * (high - low)
        if not low - slack <= known[name] <= high + slack:
            raise PlanError(
                f"'{name}' is {known[name]:g} at the start; expected a value between its bounds, "
                f"{low:g} and {high:g}"
            )
    lowest = known | {name: low for name, (low, _) in zip(free, bounds, strict=True)}
    for _, delay in field.delays:
        if lowest[str(delay)] < 0:
            raise PlanError(f"delay '{delay}' becomes {lowest[str(delay)]:g}; expected 0 or more")


def _place_of(start: xarray.Dataset, at: Any) -> int:
    """The number of a point of an earlier branch."""
    names = [str(name) for name in np.atleast_1d(start["special"].values)]
    listed = ", ".join(name for name in names if name) or "none"
    if start["special"].ndim != 1:
        raise PlanError("the branch of the start is a single point; give the branch, and at=")
    if at is None:
        raise PlanError(f"at is missing: the point of the branch; its special points are {listed}")
    if isinstance(at, str):
        if at not in names or not at:
            raise ModelError(
                f"at is {at!r}; the special points of the branch are {listed}"
                f"{did_you_mean(at, [name for name in names if name])}"
            )
        return names.index(at)
    return integer("at", at, 0, len(names) - 1)


def _guess(start: Any) -> dict[str, Any]:
    if not isinstance(start, Mapping):
        raise ModelError(
            f"start is {type(start).__name__}; expected a value for each variable, a branch, or a "
            "trajectory of integrate"
        )
    return dict(start)


def _last_state(field: VectorField, start: xarray.Dataset) -> dict[str, Any]:
    """The last state of a trajectory."""
    if "state" not in start or start["state"].dims != ("time", "variable"):
        raise PlanError(
            "the start has no variable 'state' of one trajectory; expected a branch, or a "
            "trajectory of integrate that is not swept"
        )
    names = [str(name) for name in start["variable"].values]
    if names != list(field.variables):
        raise PlanError(
            f"the trajectory of the start has the variables {', '.join(names)}; expected "
            f"{', '.join(field.variables)}"
        )
    last = start["state"].values[-1]
    if not np.all(np.isfinite(last)):
        raise PlanError("the trajectory of the start did not reach its last time")
    return dict(zip(names, map(float, last), strict=True))


def _parameters_at(dataset: xarray.Dataset, k: int, names: Sequence[str]) -> np.ndarray:
    """All parameters at a point of an earlier branch."""
    rows = [np.asarray(dataset[name].values, float) for name in names]
    return np.array([row[k] if row.ndim else row for row in rows], float)
