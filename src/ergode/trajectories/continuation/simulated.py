"""The last period of a simulated cycle, as a guess for collocation.

The period begins and ends where a variable passes a level in one direction. Of all variables,
levels and earlier passes, that one counts whose period repeats the trajectory best; of several that
do so equally well, the shortest.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np

from ergode.core.errors import PlanError
from ergode.trajectories.continuation.mesh import Mesh

Path = Callable[[np.ndarray], np.ndarray]
Slopes = Callable[[np.ndarray], np.ndarray]  # of states [variable, point]
_LEVELS = (0.5, 0.3, 0.7)  # parts of a variable's range
_PASSES = 40  # earlier passes of a level that are compared
_COMPARED = 200  # times at which two periods are compared
_RETURN = 0.1  # largest difference between periods, relative to the range
_EQUALLY = 3.0  # errors within this factor of the least one are equal
_EXACT = 1e-4  # and errors below this one
_INTERVALS = 200
_NEEDS = "the last two periods of the cycle, at 20 or more times each"


def simulated_cycle(
    times: np.ndarray, states: np.ndarray, slopes: Slopes | None
) -> tuple[Mesh, np.ndarray, float]:
    """The last period of a trajectory, as values at the nodes of a mesh.

    `slopes` are the equations without delays, of several states. By them the trajectory goes on for
    two periods, so that it is known between its times, however fast it is there.

    Raises a PlanError if the trajectory does not repeat itself.
    """
    from scipy.interpolate import Akima1DInterpolator, CubicHermiteSpline

    steps = np.diff(times)
    sparse = np.flatnonzero(steps > 10 * steps[-1]) if steps.size else steps
    if sparse.size:  # before the last times, a transient
        times, states = times[sparse[-1] + 1 :], states[sparse[-1] + 1 :]
    if times.size < 20:
        raise PlanError(f"the start has {times.size} times after its transient; expected {_NEEDS}")
    ranges = np.ptp(states, axis=0)
    ranges = np.maximum(ranges, 1e-4 * np.abs(states).max(axis=0))
    ranges[ranges == 0] = 1.0
    path = Akima1DInterpolator(times, states / ranges, method="makima")
    found = _best(path, times, states / ranges)
    if slopes is not None:
        span = 2.2 * (found[2] - found[1]) if found else 2.2 * float(times[-1] - times[0])
        further = _further(slopes, states[-1], span, ranges)
        if further is not None:
            times, states = further
            changes = slopes(states.T).T / ranges
            fine = CubicHermiteSpline(times, states / ranges, changes)
            if better := _best(fine, times, states / ranges):
                found, path = better, fine
    if found is None:
        raise PlanError(
            "the trajectory of the start does not repeat itself; integrate until it is on the "
            f"cycle, with {_NEEDS}"
        )
    _, begin, end = found
    mesh = _mesh(path, times, begin, end)
    values = path(begin + mesh.nodes * (end - begin))
    values += (mesh.nodes - 0.5)[:, None] * (values[0] - values[-1])
    return mesh, values * ranges, end - begin


def _further(
    slopes: Slopes, state: np.ndarray, span: float, ranges: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Times and states of the trajectory from a state on, at all steps of the integrator."""
    from scipy.integrate import solve_ivp

    with warnings.catch_warnings(action="ignore"):  # a failure leaves the given trajectory
        solved = solve_ivp(
            lambda t, x: slopes(x[:, None])[:, 0], (0.0, span), state, "LSODA", rtol=1e-8,
            atol=1e-9 * ranges, max_step=span / 200,
        )  # fmt: skip
    usable = solved.success and np.all(np.isfinite(solved.y))
    return (solved.t, solved.y.T) if usable else None


def _best(path: Path, times: np.ndarray, states: np.ndarray) -> tuple[float, float, float] | None:
    """Error, begin and end of the period that repeats best; states have the range 1."""
    found = list(_returns(path, times, states))
    least = min((one[0] for one in found), default=np.inf)
    if not least < _RETURN:
        return None
    usable = [one for one in found if one[0] <= max(_EQUALLY * least, _EXACT)]
    return min(usable, key=lambda one: one[2] - one[1])


def _returns(
    path: Path, times: np.ndarray, states: np.ndarray
) -> Iterator[tuple[float, float, float]]:
    """Error, begin and end of all periods between two passes of a level; states of range 1."""
    lowest, spans = states.min(axis=0), np.ptp(states, axis=0)
    for variable in map(int, np.flatnonzero(spans > 0.5)):
        for part in _LEVELS:
            level = lowest[variable] + part * spans[variable]
            for way in (1.0, -1.0):
                passes = _passes(path, times, way * (states[:, variable] - level), variable, level)
                for begin in passes[-2 : -2 - _PASSES : -1]:
                    yield _error(path, times[0], begin, passes[-1]), begin, passes[-1]


def _passes(
    path: Path, times: np.ndarray, above: np.ndarray, variable: int,
    level: float,
) -> list[float]:  # fmt: skip
    """Times at which a variable passes a level, to where `above` is positive."""
    from scipy.optimize import brentq

    def distance(t: float) -> float:
        return float(path(np.array([t]))[0, variable] - level)

    return [
        float(times[k + 1]) if above[k + 1] == 0 else brentq(distance, times[k], times[k + 1])
        for k in np.flatnonzero((above[:-1] < 0) & (above[1:] >= 0))
    ]


def _error(path: Path, first: float, begin: float, end: float) -> float:
    """How much the trajectory before `end` differs from that before `begin`."""
    back = np.linspace(0.0, min(end - begin, begin - first), _COMPARED)
    return float(np.sqrt(((path(end - back) - path(begin - back)) ** 2).mean()))


def _mesh(path: Path, times: np.ndarray, begin: float, end: float) -> Mesh:
    """A mesh whose intervals have equal lengths of the path, and no more than the mean time."""
    inner = times[(times > begin) & (times < end)]
    fine = np.unique(np.concatenate([[begin, end], inner, np.linspace(begin, end, 2000)]))
    lengths = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(path(fine), axis=0), axis=1)))
    parts = (lengths / lengths[-1] + (fine - begin) / (end - begin)) / 2
    ends = np.interp(np.linspace(0.0, 1.0, _INTERVALS + 1), parts, (fine - begin) / (end - begin))
    ends[0], ends[-1] = 0.0, 1.0
    return Mesh(ends)
