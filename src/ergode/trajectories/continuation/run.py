"""A branch from its start to its Dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import results
from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, FailureWarning, PlanError
from ergode.core.stopwatch import Stopwatch
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.continuation import starts
from ergode.trajectories.continuation.equations import Equations
from ergode.trajectories.continuation.equilibria import lyapunov_coefficient, nearest_pair
from ergode.trajectories.continuation.follow import (
    CLOSED,
    FAILED,
    MOST,
    UNRESOLVED,
    Limits,
    Point,
    follow,
)
from ergode.trajectories.continuation.simulated import simulated_cycle
from ergode.trajectories.continuation.starts import Start, Task

if TYPE_CHECKING:
    import xarray

_POINT = "point"
_USUAL_MOST = 400  # points in a direction
_TURN = 1e-9  # least change of a parameter beside a fold, relative to its range
# Curves in two parameters, and the points of cycles where they begin.
_OF_CYCLES = {
    "folds": ("fold", "fold-flip"), "doublings": ("doubling", "fold-flip"), "tori": ("torus",),
}  # fmt: skip
_CHANGES = {"fold": 1, "branch": 1, "doubling": 1, "torus": 2}  # unstable directions at a point


@dataclass(frozen=True)
class Call:
    """The checked arguments of `branch`."""

    field: VectorField
    kind: str
    free: list[str]  # the varied parameters
    bounds: np.ndarray  # [parameter, 2]
    parameters: np.ndarray
    state: np.ndarray  # a guess
    trajectory: xarray.Dataset | None  # a simulation that ends on a cycle
    earlier: xarray.Dataset | None  # the branch on which this one begins
    place: int  # and its point
    longest_period: float | None


def run(
    call: Call, max_points: int | None, max_step: float, stopwatch: Stopwatch
) -> xarray.Dataset:
    """Follow the branch in all its directions."""
    field = call.field
    equations = Equations(field)
    free = [field.parameters.index(one) for one in call.free]
    task = Task(equations, call.parameters, free, call.bounds, call.longest_period)
    with np.errstate(all="ignore"):  # numbers that are not finite end a step, and are told
        if call.earlier is not None:
            begun = _from_branch(task, call.earlier, call.place, call.kind, call.free)
        else:
            begun = _from_state(task, call.trajectory, call.state, call.kind)
        points, reasons = _followed(begun, Limits(max_points or _USUAL_MOST, max_step))
    if max_points is None and MOST in reasons:
        warn(
            f"a branch ended after {_USUAL_MOST} points, the default of max_points: the rest of "
            "it is missing; give a larger max_points or max_step",
            AccuracyWarning,
        )
    doubtful = sum(not point.facts.get("counted", True) for point in points)
    if doubtful:
        warn(
            f"characteristic roots of {doubtful} of {len(points)} points could not be counted, "
            "since delays are too long for the rates: unstable_count may be too small there, and "
            "Hopf points may be missing",
            AccuracyWarning,
        )
    if len(free) == 1:
        points = _without_rounding(points, call.bounds[0])
    if call.kind == "cycles":
        _tell_changes(points, call.free[0])
    attrs = results.provenance(
        stopwatch, engine="trajectories", kind=call.kind, varied=call.free,
        model_digest=field.digest, first_end=reasons[0], last_end=reasons[1],
        derivatives=equations.kind,
    )  # fmt: skip
    return _dataset(begun.curve, points, call.kind, call.free, attrs)


def _from_state(
    task: Task, trajectory: xarray.Dataset | None, state: np.ndarray, kind: str
) -> Start:
    if kind == "equilibria":
        return starts.of_equilibrium(task, state, np.zeros(state.size))
    if kind == "cycles":
        if trajectory is None:
            raise PlanError(
                "cycles start at a Hopf point of a branch, with at=, or from a trajectory of "
                "integrate; a state is not enough"
            )
        times = np.asarray(trajectory["time"].values, float)
        slopes = partial(task.equations.slopes, p=task.parameters)
        found = simulated_cycle(
            times, trajectory["state"].values, None if task.equations.delay_count else slopes
        )
        return starts.of_cycle(task, *found, is_exact=False)
    raise PlanError(f"{kind} start at a point of a branch; give the branch as start, and at=")


def _from_branch(task: Task, start: xarray.Dataset, k: int, kind: str, free: list[str]) -> Start:
    label = str(start["special"].values[k]).rsplit("-", 1)[0]
    before = start.attrs["kind"]
    is_same = list(np.atleast_1d(start.attrs["varied"])) == free
    if "cycle" in start:
        found = starts.nodes_of(start, k)
        if kind in _OF_CYCLES:
            angle = _angle_at(start, k, kind, label)
            return starts.of_cycle_bifurcation(task, kind, *found, angle)
        if kind != "cycles":
            raise PlanError(f"the start is a branch of cycles; {kind} start at equilibria")
        known = starts.tangent_between(start, k, free[0], found[0]) if is_same else None
        if label == "hopf" and np.ptp(found[1], axis=0).max() == 0:
            sizes = np.abs(start["highest"].values).max(axis=0)
            return starts.of_hopf(task, found[1][0], 2 * np.pi / found[2], sizes)
        if label == "doubling" or (label == "branch" and is_same):
            return starts.of_cycle_switch(task, *found, known, is_doubled=label == "doubling")
        begun = starts.of_cycle(task, *found, known)
        if label == "long-period":  # the parameter stands still there, but does not turn
            for one in begun.points:
                one.label = ""
        return begun
    if kind in ("doublings", "tori"):
        raise PlanError(f"{kind} start at cycles; the start is a branch of {before}")
    state = np.array(start["state"].values[k])
    sizes = np.abs(start["state"].values).max(axis=0)
    if kind == "equilibria":
        if label == "branch" and is_same:
            direction = starts.tangent_between(start, k, free[0], None)
            return starts.of_branch_point(task, state, direction, sizes)
        return starts.of_equilibrium(task, state, sizes)
    if kind == "folds":
        if before != "folds" and label not in ("fold", "bogdanov-takens"):
            raise PlanError(_other(start, k, "folds", "fold-1"))
        return starts.of_fold(task, state, sizes)
    if kind == "hopf" and label == "bogdanov-takens":
        return starts.of_hopf_in_two(task, state, 0.0, sizes)
    if before != "hopf" and label != "hopf":
        raise PlanError(_other(start, k, "cycles" if kind == "cycles" else "Hopf points", "hopf-1"))
    frequency = float(start["frequency"].values[k])
    if label == "bogdanov-takens":  # where the frequency is zero
        raise PlanError(_other(start, k, "cycles" if kind == "cycles" else "Hopf points", "hopf-1"))
    if kind == "cycles":
        return starts.of_hopf(task, state, frequency, sizes)
    return starts.of_hopf_in_two(task, state, frequency, sizes)


def _angle_at(start: xarray.Dataset, k: int, kind: str, label: str) -> float:
    """The angle of the multipliers of a torus bifurcation; for others, whether it is one."""
    if start.attrs["kind"] != kind and label not in _OF_CYCLES[kind]:
        raise PlanError(_other(start, k, f"{kind} of cycles", f"{_OF_CYCLES[kind][0]}-1"))
    if kind != "tori":
        return 0.0
    if "angle" in start:
        return float(start["angle"].values[k])
    real, imaginary = start["multiplier"].values[k].T
    pairs = (real + 1j * imaginary)[imaginary > 0]
    return float(np.angle(pairs[np.abs(np.abs(pairs) - 1).argmin()]))


def _other(start: xarray.Dataset, k: int, what: str, such: str) -> str:
    name = str(start["special"].values[k])
    return (
        f"{what} start at a point such as '{such}', and at= is "
        f"{repr(name) if name else f'point {k}, which is not special'}"
    )


def _followed(begun: Start, limits: Limits) -> tuple[list[Point], list[str]]:
    """Points in order along the branch, and why its two ends are there."""
    sides: list[list[Point]] = []
    reasons: list[str] = []
    for one in begun.points:
        begun.curve.resume(one)
        points, why = follow(begun.curve, one, limits)
        sides.append(points)
        reasons.append(why)
        if why in (FAILED, UNRESOLVED):
            warn(f"a branch ended after {len(points)} points: {why}", FailureWarning)
        if why == CLOSED:
            break
    first = begun.points[0]
    if first.switched and sides[0]:
        first.facts["unstable"] = sides[0][0].facts["unstable"]
    if len(begun.points) > 1 and begun.points[1].label and not first.label:
        first.label = begun.points[1].label
    back = [replace(one, arclength=-one.arclength) for one in sides[1]] if len(sides) > 1 else []
    begins = reasons[1] if len(reasons) > 1 else "The branch begins here."
    return [*back[::-1], first, *sides[0]], [begins, reasons[0]]


def _without_rounding(points: list[Point], bounds: np.ndarray) -> list[Point]:
    """The points without folds beside which the parameter changes by rounding only."""
    turns = [0, *(k for k, one in enumerate(points) if one.label == "fold"), len(points) - 1]
    error = max(one.facts.get("error", 0.0) for one in points)
    least = max(_TURN * float(bounds[1] - bounds[0]), 2 * error)
    kept = list(turns)
    while len(kept) > 2:
        changes = np.abs(np.diff([points[k].u[-1] for k in kept]))
        j = int(changes.argmin())
        if changes[j] > least:
            break
        # A rise and a fall by rounding go together, except at the ends of the branch.
        del kept[max(j, 1) : min(j + 2, len(kept) - 1)]
    values = [points[k].u[-1] for k in kept]
    rises = np.diff(values) > 0
    kept = [k for j, k in enumerate(kept) if j in (0, len(kept) - 1) or rises[j - 1] != rises[j]]
    dropped = set(turns) - set(kept) - {0, len(points) - 1}
    for end, beside in ((kept[0], kept[1]), (kept[-1], kept[-2])):
        if points[end].label == "fold" and abs(points[end].u[-1] - points[beside].u[-1]) <= least:
            points[end].label = ""
    points = [one for k, one in enumerate(points) if k not in dropped]
    for k in [k for k, one in enumerate(points) if one.label == "fold"][::-1]:
        _place_by_stability(points, k, least)
    return points


def _place_by_stability(points: list[Point], k: int, least: float) -> None:
    """Move a fold among points of the same parameter to where the stability changes."""
    flat = [k]
    for way in (-1, 1):
        j = k + way
        while 0 <= j < len(points) and abs(points[j].u[-1] - points[k].u[-1]) < least:
            flat.append(j)
            j += way
    flat.sort()
    plain = [j for j in flat if not points[j].label]
    for one, other in zip(plain[:-1], plain[1:], strict=True):
        if points[one].facts["unstable"] != points[other].facts["unstable"]:
            if other == one + 1:
                points[one] = replace(points[one], label="fold")
                if 0 < k < len(points) - 1:
                    del points[k]
                else:
                    points[k].label = ""
            return


def _tell_changes(points: list[Point], name: str) -> None:
    """Warn of changes of stability without a special point that explains them."""
    places, allowed = [], 0
    last: Point | None = None
    for one in points:
        if one.label in _CHANGES:
            allowed += _CHANGES[one.label]
        elif one.label != "hopf":  # where a cycle shrinks, a second multiplier is 1
            if last is not None:
                change = abs(one.facts["unstable"] - last.facts["unstable"])
                if change > allowed + one.facts["unsure"] + last.facts["unsure"]:
                    places.append(f"{last.u[-1]:.9g} and {one.u[-1]:.9g}")
            last, allowed = one, 0
    if places:
        warn(
            "the stability of the cycles changes without a located special point, where "
            f"{name} is between {'; '.join(places[:5])}{'; ...' if places[5:] else ''}. "
            "A smaller max_step may locate it",
            FailureWarning,
        )


def _dataset(
    curve: Any, points: list[Point], kind: str, free: list[str], attrs: dict[str, Any]
) -> xarray.Dataset:
    field = curve.equations.field
    size, count = len(field.variables), len(points)
    numbers: dict[str, int] = {}
    special = []
    for point in points:
        if point.label:
            numbers[point.label] = numbers.get(point.label, 0) + 1
        special.append(f"{point.label}-{numbers[point.label]}" if point.label else "")
    unstable = np.array([point.facts["unstable"] for point in points], np.int64)
    values: dict[str, Any] = {"stable": unstable == 0, "unstable_count": unstable}
    spectra = [point.facts["spectrum"] for point in points]
    rows = np.full((count, max(map(len, spectra)), 2), np.nan)
    for row, one in zip(rows, spectra, strict=True):
        row[: len(one), 0], row[: len(one), 1] = one.real, one.imag
    if points[0].mesh is not None:
        values["multiplier"] = rows
        values["period"] = np.array([curve.period(point.u) for point in points])
        if kind == "tori":
            values["angle"] = np.array([curve.angle(point.u) for point in points])
        profiles = [curve.profile(point.u) for point in points]
        most = max(len(one) for one in profiles)
        values["cycle"] = np.full((count, most, size), np.nan)
        values["cycle_time"] = np.full((count, most), np.nan)
        for k, (point, one) in enumerate(zip(points, profiles, strict=True)):
            values["cycle"][k, : len(one)] = one
            values["cycle_time"][k, : len(one)] = point.mesh.nodes * values["period"][k]
        ends = [point.mesh.extremes(one) for point, one in zip(points, profiles, strict=True)]
        values["lowest"], values["highest"] = np.swapaxes(np.array(ends), 0, 1)
    else:
        values["eigenvalue"] = rows
        values["state"] = np.array([point.u[:size] for point in points])
        if kind != "folds":
            frequency = np.full(count, np.nan)
            coefficient = np.full(count, np.nan)
            for k, point in enumerate(points):
                if kind == "hopf":
                    frequency[k] = max(point.facts["square"], 0.0) ** 0.5
                    coefficient[k] = point.facts["coefficient"]
                elif point.label == "hopf":
                    frequency[k] = nearest_pair(point.facts["spectrum"]).imag
                    w, p = curve.split(point.u)
                    coefficient[k] = lyapunov_coefficient(curve.equations, w, p, frequency[k])
            values |= {"frequency": frequency, "lyapunov_coefficient": coefficient}
    coords: dict[str, Any] = {
        name: (_POINT, np.array([point.u[k - len(free)] for point in points]))
        if (k := free.index(name) if name in free else -1) >= 0
        else float(value)
        for name, value in zip(field.parameters, curve.parameters, strict=True)
    }
    coords |= {
        "special": (_POINT, np.array(special, np.str_)),
        "arclength": (_POINT, np.array([point.arclength for point in points])),
        "variable": list(field.variables),
        "part": ["real", "imaginary"],
    }
    return results.dataset(
        "trajectories", "branches", values, coords=coords, attrs=attrs, swept=(_POINT,)
    )
