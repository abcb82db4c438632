"""Where branches begin: a guess, a simulated cycle, or a point of an earlier branch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.errors import PlanError
from ergode.trajectories.continuation import bifurcations_of_cycles
from ergode.trajectories.continuation.bifurcations import Folds, Hopfs
from ergode.trajectories.continuation.cycles import Cycles
from ergode.trajectories.continuation.equations import Equations
from ergode.trajectories.continuation.equilibria import (
    Equilibria,
    Scales,
    hopf_vectors,
    is_hopf,
    linear_at,
    lyapunov_coefficient,
)
from ergode.trajectories.continuation.follow import (
    Curve,
    Factors,
    Point,
    newton,
    other_direction,
    with_tangent,
)
from ergode.trajectories.continuation.mesh import DEGREE, Mesh

if TYPE_CHECKING:
    import xarray

_CORRECTIONS = 40  # Newton iterations for a first point
_BESIDE = 1e-2  # how far a first point may be from the given parameter, relative to its range
_MOST_REPEATS, _REPEATED = 8, 1e-4  # passes of a cycle in a period, and their difference
_USUAL_LONGEST = 50  # longest period, in first periods


@dataclass(frozen=True)
class Task:
    """What to follow: equations, parameters, and the free ones with their bounds."""

    equations: Equations
    parameters: np.ndarray
    free: list[int]
    bounds: np.ndarray
    longest: float | None

    @property
    def first(self) -> int:
        """The free parameter of a branch with one."""
        return self.free[0]


@dataclass
class Start:
    """A curve, its first point, and the directions in which to follow it."""

    curve: Any
    points: list[Point]  # the first point, with one tangent for each direction


def of_equilibrium(task: Task, guess: np.ndarray, known: np.ndarray) -> Start:
    """Start at the equilibrium near a guess; `known` are sizes that variables have elsewhere."""
    equations, width = task.equations, float(task.bounds[0, 1] - task.bounds[0, 0])
    sizes = np.maximum(np.abs(guess), known)
    sizes = np.where(sizes > 0, sizes, _first_steps(task, guess))
    curve = Equilibria(equations, task.parameters, task.first, task.bounds, Scales(sizes))
    u = np.append(guess, task.parameters[task.first])
    u = _solved(curve, u, "equilibrium")
    # A variable that is zero at the start, up to rounding, has the size to which the parameter
    # moves it, or that of the terms that are not linear.
    values = np.abs(u[:-1])
    values = np.maximum(np.where(values > 1e-9 * np.abs(guess), values, 0.0), known)
    reach = _reach(replace(task, parameters=curve.split(u)[1]), u[:-1])
    values = np.where(values < 1e-6 * reach, 0.1 * reach, values)
    if not values.any():
        values = np.abs(guess)
    curve.scales = Scales(values)
    tangent = _first_tangent(curve, u)
    if tangent[-1] > 1e-3 * curve.sizes(u)[-1]:
        change = np.abs(tangent[:-1] / tangent[-1]) * width
        curve.scales = Scales(np.where(values < 1e-3 * change, 0.1 * change, values))
    return _both_ways(curve, Point(u, _first_tangent(curve, u)))


def _first_steps(task: Task, guess: np.ndarray) -> np.ndarray:
    """How far a step of Newton moves each variable: the unit of one that begins at zero."""
    w = task.equations.at_rest(guess)
    total = linear_at(task.equations, w, task.parameters).total
    slopes = task.equations.slopes(w[:, None], task.parameters)[:, 0]
    with np.errstate(all="ignore"):
        try:
            steps = np.abs(np.linalg.solve(total, slopes))
        except np.linalg.LinAlgError:
            return np.zeros(guess.size)
    return np.where(np.isfinite(steps), steps, 0.0)


def of_branch_point(
    task: Task, state: np.ndarray, direction: np.ndarray | None, known: np.ndarray
) -> Start:
    """Start on the other branch of equilibria through a branch point."""
    sizes = np.maximum(np.maximum(np.abs(state), known), _reach(task, state))
    curve = Equilibria(task.equations, task.parameters, task.first, task.bounds, Scales(sizes))
    u = np.append(state, task.parameters[task.first])
    return _switched(curve, Point(u, np.zeros(u.size)), direction)


def _reach(task: Task, state: np.ndarray) -> np.ndarray:
    """How far an equilibrium, or a branch that crosses it, goes over the parameter's range.

    Along the null vector of the Jacobian, or the vector nearest to one, the normal form balances
    terms of the parameter with those of the state.
    """
    equations, p = task.equations, task.parameters
    width = float(task.bounds[0, 1] - task.bounds[0, 0])
    w = equations.at_rest(state)
    total = linear_at(equations, w, p).total
    if not np.all(np.isfinite(total)):
        return np.zeros(state.size)
    lefts, singular, rights = np.linalg.svd(total)
    v, left = rights[-1], lefts[:, -1]

    along = equations.at_rest(v)
    other = p.copy()
    other[task.first] += 1e-6 * width
    mixed = abs(left @ (linear_at(equations, w, other).total - total) @ v) / 1e-6
    forced = abs(left @ equations.by_parameter(w[:, None], p, task.first)[:, 0]) * width
    square = equations.second(w, p, along, along)
    # The other directions follow; the null vector itself is left out of the inverse.
    regular = singular[:-1] > 1e-12 * singular[0]
    parts = lefts[:, :-1].T @ square
    bent = -(rights[:-1].T @ np.divide(parts, singular[:-1], np.zeros_like(parts), where=regular))
    cubic = equations.third(w, p, along, along, along)
    cubic = cubic + 3 * equations.second(w, p, along, equations.at_rest(bent))
    second, third = abs(left @ square) / 2, abs(left @ cubic) / 6
    found = 0.0
    with np.errstate(all="ignore"):
        for one in (
            [mixed / second, (mixed / third) ** 0.5],
            [forced / singular[-1], (forced / second) ** 0.5, (forced / third) ** (1 / 3)],
        ):
            usable = [float(value) for value in one if np.isfinite(value)]
            found = max(found, min(usable, default=0.0))
    return np.asarray(np.abs(v) * found)


def of_hopf(task: Task, state: np.ndarray, frequency: float, known: np.ndarray) -> Start:
    """Start with the cycles of a Hopf point; `known` are sizes that variables have elsewhere."""
    equations, p = task.equations, task.parameters
    w = equations.at_rest(state)
    q = hopf_vectors(linear_at(equations, w, p), frequency)[0]
    values = np.abs(state)
    size = _amplitude(task, w, frequency) * np.abs(q)
    values = np.where(values > 1e-9 * np.maximum(known, values.max(initial=0.0)), values, size)
    mesh = Mesh.uniform()
    u = np.concatenate([np.tile(state, mesh.nodes.size), [2 * np.pi / frequency, p[task.first]]])
    wave = (np.exp(2j * np.pi * mesh.nodes)[:, None] * q).real
    curve = _cycles(task, Scales(values), float(u[-2]))
    point = Point(u, np.concatenate([wave.ravel(), [0.0, 0.0]]), mesh, label="hopf", switched=True)
    curve.begin(point, wave)
    point.tangent /= np.linalg.norm(point.tangent / curve.sizes(u))
    curve.describe(point, None)
    return Start(curve, [point])


def _amplitude(task: Task, w: np.ndarray, frequency: float) -> float:
    """Size of the cycles at the far end of the parameter's range, by the normal form."""
    equations, p, free = task.equations, task.parameters, task.first
    width = float(task.bounds[0, 1] - task.bounds[0, 0])
    coefficients = [abs(lyapunov_coefficient(equations, w, p, frequency))]
    # It may vanish at the point itself, as it does for van der Pol's equation.
    for way in (-0.05, 0.05):
        beside = p.copy()
        beside[free] += way * width
        coefficients.append(abs(lyapunov_coefficient(equations, w, beside, frequency)))
    coefficient = np.nanmax(coefficients)
    linear = linear_at(equations, w, p)
    q, adjoint = hopf_vectors(linear, frequency)
    other = p.copy()
    step = 1e-6 * width
    other[free] += step
    change = linear_at(equations, w, other).characteristic(1j * frequency)
    slope = (adjoint @ (linear.characteristic(1j * frequency) - change) @ q).real / step
    found = np.sqrt(abs(slope) * width / (frequency * coefficient + 1e-300))
    return float(found) if np.isfinite(found) and 0 < found < 1e150 else 1.0


def of_cycle(
    task: Task, mesh: Mesh, values: np.ndarray, period: float, known: Any = None,
    *, is_exact: bool = True,
) -> Start:  # fmt: skip
    """Start at a cycle, given by its values at the nodes of a mesh."""
    curve = _cycles(task, Scales(np.abs(values).max(axis=0)), period)
    u = np.concatenate([values.ravel(), [period, task.parameters[task.first]]])
    point = Point(u, np.zeros(u.size), mesh)
    curve.begin(point, values)
    for _ in range(1 if is_exact else 3):
        point.u = _solved(curve, point.u, "cycle")
        if np.ptp(curve.profile(point.u), axis=0).max() < 1e-6 * curve.scales.values.max():
            raise PlanError(
                "the start of the cycle leads to an equilibrium; give a trajectory that is closer "
                "to the cycle, or a Hopf point"
            )
        point = curve.adapt(point)
    point.u = _solved(curve, point.u, "cycle")
    if not is_exact and (parts := _repeats(point.mesh, curve.profile(point.u))) > 1:
        # The simulation, which still nears its cycle, has another period best.
        ends = point.mesh.ends * parts
        once = Mesh(np.append(ends[ends < 0.999], 1.0))
        values = point.mesh.interpolated(curve.profile(point.u), once.nodes / parts)
        return of_cycle(task, once, values, float(point.u[-2]) / parts, is_exact=False)
    point.tangent = _first_tangent(curve, point.u, known)
    return _both_ways(curve, point)


def _repeats(mesh: Mesh, values: np.ndarray) -> int:
    """How many times a solution passes its cycle in its period."""
    sizes = np.ptp(values, axis=0)
    sizes[sizes == 0] = 1.0
    for parts in range(_MOST_REPEATS, 1, -1):
        later = mesh.interpolated(values, (mesh.nodes + 1 / parts) % 1.0)
        if (np.abs(later - values) / sizes).max() < _REPEATED:
            return parts
    return 1


def of_cycle_switch(
    task: Task, mesh: Mesh, values: np.ndarray, period: float, known: np.ndarray | None,
    *, is_doubled: bool,
) -> Start:  # fmt: skip
    """Start on the other branch of cycles through a branch point or a period doubling."""
    free = task.parameters[task.first]
    if is_doubled:
        mesh = Mesh(np.concatenate([mesh.ends / 2, 0.5 + mesh.ends[1:] / 2]))
        values, period = np.concatenate([values, values[1:]]), 2 * period
        if known is not None:
            shape = known[:-2].reshape(-1, values.shape[1])
            known = np.concatenate(
                [np.concatenate([shape, shape[1:]]).ravel(), [2 * known[-2], known[-1]]]
            )
    curve = _cycles(task, Scales(np.abs(values).max(axis=0)), period)
    u = np.concatenate([values.ravel(), [period, free]])
    point = Point(u, np.zeros(u.size), mesh)
    curve.begin(point, values)
    found = _switched(curve, point, known)
    if is_doubled:  # the other direction is the same cycle, shifted by half its period
        found.points = [replace(found.points[0], label="")]
    return found


def of_fold(task: Task, state: np.ndarray, known: np.ndarray) -> Start:
    """Start at a fold, to follow it in two parameters."""
    scales = Scales(np.maximum(np.abs(state), known))
    curve = Folds(task.equations, task.parameters, task.free, task.bounds, scales)
    return _in_two(curve, curve.start(state), "fold")


def of_hopf_in_two(task: Task, state: np.ndarray, frequency: float, known: np.ndarray) -> Start:
    """Start at a Hopf or Bogdanov-Takens point, to follow Hopf points in two parameters."""
    scales = Scales(np.maximum(np.abs(state), known))
    curve = Hopfs(task.equations, task.parameters, task.free, task.bounds, scales)
    found = _in_two(curve, curve.start(state, frequency), "Hopf point")
    if frequency == 0:  # they begin at a Bogdanov-Takens point
        found.points = [one for one in found.points if one.tangent[-3] > 0]
        found.points[0].label = "bogdanov-takens"
    return found


def of_cycle_bifurcation(
    task: Task, kind: str, mesh: Mesh, values: np.ndarray, period: float, angle: float
) -> Start:
    """Start with folds, period doublings or tori of cycles, at a cycle that is nearly one."""
    curve = bifurcations_of_cycles.KINDS[kind](
        task.equations, task.parameters, task.free, task.bounds,
        Scales(np.abs(values).max(axis=0)), _longest(task, period),
    )  # fmt: skip
    more = [angle][: curve.others]
    u = np.concatenate([values.ravel(), more, [period], task.parameters[task.free]])
    point = Point(u, np.zeros(u.size), mesh)
    for _ in range(2):  # the borders are those of the cycle itself in the end
        curve.begin(point, values)
        row = _first_tangent(curve, point.u) / curve.sizes(point.u) ** 2
        solved = newton(curve, point.u, row, float(row @ point.u), _CORRECTIONS)
        if solved is None:
            what = {"folds": "fold", "doublings": "period doubling", "tori": "torus bifurcation"}
            raise PlanError(f"the start is no {what[kind]} of cycles at these parameters")
        point = replace(point, u=solved[0])
    curve.begin(point, curve.profile(point.u))
    point.tangent = _first_tangent(curve, point.u)
    return _both_ways(curve, point)


def _in_two(curve: Any, u: np.ndarray, what: str) -> Start:
    sizes = curve.sizes(u)
    tangent = _null_vector(curve, u)
    row = tangent / sizes**2
    solved = newton(curve, u, row, row @ u, _CORRECTIONS)
    if solved is None:
        raise PlanError(f"the start is no {what} at these parameters")
    return _both_ways(curve, Point(solved[0], _null_vector(curve, solved[0])))


def _null_vector(curve: Curve, u: np.ndarray) -> np.ndarray:
    sizes = curve.sizes(u)
    found = np.linalg.svd(curve.system(u)[1] * sizes)[2][-1] * sizes
    return np.asarray(found / np.linalg.norm(found / sizes))


def _cycles(task: Task, scales: Scales, period: float) -> Cycles:
    longest = _longest(task, period)
    return Cycles(task.equations, task.parameters, task.free, task.bounds, scales, longest)


def _longest(task: Task, period: float) -> float:
    longest = _USUAL_LONGEST * period if task.longest is None else task.longest
    if period >= longest:
        raise PlanError(
            f"longest_period is {longest:g}, and the period at the start is {period:g}; expected a "
            "longer one"
        )
    return longest


def _solved(curve: Any, u: np.ndarray, what: str) -> np.ndarray:
    """The solution near a guess, at the given parameter; near a fold at a parameter beside it."""
    row = np.zeros(u.size)
    row[-1] = 1.0
    found = newton(curve, u, row, float(u[-1]), _CORRECTIONS)
    if found is not None:
        return found[0]
    row = _first_tangent(curve, u) / curve.sizes(u) ** 2
    found = newton(curve, u, row, float(row @ u), _CORRECTIONS)
    low, high = curve.bounds[0]
    if (
        found is not None
        and low <= found[0][-1] <= high
        and abs(found[0][-1] - u[-1]) < _BESIDE * (high - low)
    ):
        return found[0]
    field = curve.equations.field
    values = zip(field.parameters, curve.parameters, strict=True)
    place = ", ".join(f"{name} = {value:g}" for name, value in values)
    if isinstance(curve, Equilibria):
        residual, jacobian = curve.system(u)
        own = jacobian[:, :-1] * curve.sizes(u)[:-1]
        singular = np.linalg.svd(own, compute_uv=False) if np.isfinite(own).all() else np.ones(1)
        if singular[-1] <= 1e-10 * singular[0]:
            is_one = np.abs(residual).max() <= 1e-9 * singular[0]
            raise PlanError(
                f"the start {'is an equilibrium' if is_one else 'has no equilibrium nearby'} at "
                f"{place}, and the Jacobian is singular there: either the equations conserve a "
                "quantity, and a variable has to be eliminated by it, or branches meet at the "
                "start; give a start beside it"
            )
    raise PlanError(
        f"no {what} was found near the start at {place}; give a start that is nearer, such as the "
        "last state of a simulation"
    )


def _first_tangent(curve: Any, u: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """The tangent at a first point, with the parameter growing."""
    sizes = curve.sizes(u)
    _, jacobian = curve.system(u)
    if isinstance(jacobian, np.ndarray):
        tangent = (
            _null_vector(curve, u)
            if np.all(np.isfinite(jacobian))
            else np.eye(1, u.size, u.size - 1)[0]
        )
    else:
        rows = [] if known is None else [known / sizes**2]
        rows += [np.eye(1, u.size, u.size - k)[0] / sizes[-k] for k in (1, 2)]
        tangent = np.full(u.size, np.nan)
        for row in rows:
            try:
                tangent = Factors(jacobian, row, sizes).tangent()
            except RuntimeError:
                continue
            if np.all(np.isfinite(tangent)):
                break
    return tangent if tangent[-1] >= 0 else -tangent


def _both_ways(curve: Any, point: Point) -> Start:
    if curve.parameter_count == 1 and abs(point.tangent[-1] / curve.sizes(point.u)[-1]) < 1e-7:
        point.label = "fold"
    points = []
    for way in (1.0, -1.0):
        one = replace(point, tangent=way * point.tangent, facts={})
        one = with_tangent(curve, one, one.tangent) or one
        curve.describe(one, None)
        if isinstance(curve, Equilibria) and is_hopf(one.facts["spectrum"]):
            one.label = "hopf"
        points.append(one)
    return Start(curve, points)


def _switched(curve: Any, point: Point, known: np.ndarray | None) -> Start:
    sizes = curve.sizes(point.u)
    tangent = _first_tangent(curve, point.u) if known is None else known
    point.tangent = tangent / np.linalg.norm(tangent / sizes)
    direction = other_direction(curve, point)
    if direction is None or not np.all(np.isfinite(direction)):
        raise PlanError("no other branch was found at the branch point")
    points = []
    for way in (1.0, -1.0):
        one = replace(point, tangent=way * direction, switched=True, label="branch", facts={})
        curve.describe(one, None)
        points.append(one)
    return Start(curve, points)


def nodes_of(dataset: xarray.Dataset, k: int) -> tuple[Mesh, np.ndarray, float]:
    """Mesh, values and period of a cycle of an earlier branch."""
    period = float(dataset["period"].values[k])
    places = dataset["cycle_time"].values[k]
    kept = np.isfinite(places)
    ends = places[kept][::DEGREE] / period
    ends[-1] = 1.0
    return Mesh(ends), np.array(dataset["cycle"].values[k][kept]), period


def tangent_between(
    dataset: xarray.Dataset, k: int, free: str, mesh: Mesh | None
) -> np.ndarray | None:
    """The direction of an earlier branch at a point, from its neighbours; None at its end."""
    count = dataset.sizes["point"]
    first, last = max(k - 1, 0), min(k + 1, count - 1)
    if first == last:
        return None
    values = dataset[free].values
    change = [values[last] - values[first]]
    if mesh is None:
        states = dataset["state"].values
        return np.append(states[last] - states[first], change)
    ends = []
    for one in (first, last):
        other, nodes, period = nodes_of(dataset, one)
        ends.append((other.interpolated(nodes, mesh.nodes), period))
    return np.concatenate([(ends[1][0] - ends[0][0]).ravel(), [ends[1][1] - ends[0][1]], change])
