"""What flows into a stirred tank while its composition, temperature or mass flow changes in time.

Tables have, at every knot, what flows in by mass: amounts, their enthalpy and their conserved sums;
the flow over the mass in the tank; and one over the mass. All are linear between knots, and
tabulated to a hundredth of the tolerance, relative to themselves and their largest values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ergode.core.errors import ModelError
from ergode.kinetics.compositions import molar_masses
from ergode.kinetics.compression import given_over_time, mass_over_time
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.over_time import Trajectory, linear_at, tabulated
from ergode.kinetics.reactors import Given, StirredTank, weighted
from ergode.models.reactions.network import ReactionNetwork

_SAMPLED = 257
FLOW_RATIO = "flow_ratio"


class Feed(NamedTuple):
    """Tables of an inflow."""

    times: np.ndarray  # [knot_count]
    # [1 or zone_count, column_count, knot_count]: amounts of a gram, or concentrations; enthalpy;
    # flow over that at first and over the mass; one over the mass; conserved sums.
    columns: np.ndarray
    mass: Callable[[np.ndarray], np.ndarray]  # over that at first, of times

    def on(self, times: np.ndarray) -> np.ndarray:
        """The columns at these times."""
        zones, count, knots = self.columns.shape
        rows = linear_at(times, self.times, self.columns.reshape(-1, knots))
        return rows.reshape(zones, count, times.size)


def feed_of(
    tank: StirredTank,
    network: ReactionNetwork,
    mechanism: Mechanism,
    grid: np.ndarray,
    rtol: float,
    given: Given,
) -> Feed:
    """The tables of a tank whose inflow changes.

    Raises a ModelError if a value is negative or not finite, the inflow is empty at some time, or
    the tank is.
    """
    species_count = len(network.species)
    own = "residence_time", "outflow_ratio"
    zones = max(n for name, n in tank.sizes.items() if tank.growth.any() or name not in own)
    one = np.ones((1, species_count))
    for species in network.species:
        if mechanism.molecular and species.boundary:
            raise ModelError(
                f"the inflow changes in time, and the amount of '{species.name}' is fixed; "
                "expected a constant inflow, or a gas without fixed amounts"
            )
    if mechanism.molecular:  # of a gram
        one = one / molar_masses(network) / species_count
    mass = _mass_of(tank, grid, rtol)

    def at(times: np.ndarray) -> np.ndarray:
        several = np.repeat(one, zones * times.size, axis=0)
        still = tank.at(times, zones)
        if mechanism.molecular:
            _check_empty(still, times)
        rows = still.rows(network, mechanism, several, given)
        rows = rows.reshape(zones, times.size, -1)
        inverse = np.broadcast_to(1.0 / mass(times), (zones, times.size))
        flow = np.broadcast_to(tank.flow_at(times), (zones, times.size)) * inverse
        found = np.concatenate(
            [
                rows[:, :, : species_count + 1], flow[:, :, None], inverse[:, :, None],
                rows[:, :, species_count + 2 : -1],
            ],
            axis=2,
        )  # fmt: skip
        return found.transpose(0, 2, 1).reshape(-1, times.size)

    span = np.linspace(grid[0], grid[-1], _SAMPLED)
    least = np.abs(at(span)).max(axis=1)
    points = np.unique(np.concatenate([grid, *tank.knots(grid)]))
    times, rows = tabulated("inflow", at, points, 0.01 * rtol, least, together=True)
    return Feed(times, rows.reshape(zones, -1, times.size), mass)


def _check_empty(still: StirredTank, times: np.ndarray) -> None:
    """Check that something flows in at all times, which are the zones of the tank."""
    empty = np.flatnonzero(~(np.sum(np.broadcast_arrays(*still.inflow.values()), axis=0) > 0.0))
    if empty.size:
        raise ModelError(
            f"inflow is empty at the time {times[empty[0] % times.size]:g}; expected at least one "
            "species, and a flow_ratio of 0 where nothing flows in"
        )


def mass_of(
    tank: StirredTank, feed: Feed | None, grid: np.ndarray, rtol: float, dilates: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables of the mass in a tank over that at first: times, values and, if it `dilates`, slopes.

    Slopes are those of the logarithm, where the density of molecules follows the mass.
    """
    if feed is None or tank.flow_ratio is None:
        ends, mass = grid[[0, -1]], tank.mass(grid)[:, [0, -1]]
        return mass_over_time(ends, mass, rtol) if dilates else (ends, mass, np.zeros(1))
    found = feed.mass
    if dilates:
        return given_over_time("mass", lambda t: found(np.array([t]))[:, 0], grid, rtol)
    return feed.times, found(feed.times), np.zeros(1)


def _mass_of(
    tank: StirredTank, grid: np.ndarray, rtol: float
) -> Callable[[np.ndarray], np.ndarray]:
    """The mass over that at first, as a function of times."""
    flow, first, last = tank.flow_ratio, grid[0], grid[-1]
    if not tank.growth.any():
        return lambda times: np.ones((1, times.size))
    if flow is None:
        found = _linear(tank, first)
    else:
        if isinstance(flow, Trajectory):
            inside = flow.times[(flow.times > first) & (flow.times < last)]
            knots = np.concatenate([[first], inside, [last]])
            rows = linear_at(knots, flow.times, np.atleast_2d(flow.values))
        else:
            knots, rows = tabulated(FLOW_RATIO, lambda t: flow(t) + 1.0, grid, 0.01 * rtol)
            rows = rows - 1.0
        steps = 0.5 * (rows[:, 1:] + rows[:, :-1]) * np.diff(knots)
        sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(steps, axis=1)], axis=1)

        def found(times: np.ndarray) -> np.ndarray:
            below = np.clip(np.searchsorted(knots, times, side="right") - 1, 0, knots.size - 2)
            since = times - knots[below]
            slope = (rows[:, below + 1] - rows[:, below]) / (knots[below + 1] - knots[below])
            passed = sums[:, below] + since * (rows[:, below] + 0.5 * slope * since)
            return np.asarray(1.0 + tank.growth[:, None] * passed)

    tank.check_mass(grid, found(grid))
    return found


def _linear(tank: StirredTank, first: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda times: np.asarray(1.0 + tank.growth[:, None] * (times - first))


def feed_rows(
    feed: Feed, network: ReactionNetwork, mechanism: Mechanism, times: np.ndarray,
    amounts: np.ndarray, rows: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """What kernels know of the inflow (see `ConditionHistory.inflow` and `ConditionHistory.feed`).

    Parameters
    ----------
    amounts : ndarray, shape [zone_count, species_count]
        In the zones at first.
    rows : ndarray
        Of `StirredTank.rows`, at the first time.
    """
    zones, species_count = amounts.shape
    own = feed.on(times)
    columns = np.array(np.broadcast_to(own, (zones, *own.shape[1:])))
    flow, inverse = species_count + 1, species_count + 2
    if mechanism.molecular:
        scale = weighted(amounts, molar_masses(network))[:, None, None]
        scaled = np.r_[0 : species_count + 1, inverse + 1 : columns.shape[1]]
        columns[:, scaled] *= scale
    columns[:, flow] *= rows[:, flow, None]
    fixed = [one.boundary for one in network.species]
    columns[:, :species_count][:, fixed] = amounts[:, fixed, None]
    if any(fixed):
        columns[:, inverse + 1 :] = mechanism.invariants @ columns[:, :species_count]
    largest = np.abs(columns).max(axis=2, keepdims=True)
    rows = np.c_[rows, columns[:, flow, 0], columns[:, inverse, 0]]
    rows[:, :species_count] = largest[:, :species_count, 0]  # for tolerances; kernels write it
    table = np.concatenate([columns, largest], axis=2).reshape(zones, -1)
    return rows, np.ascontiguousarray(table)  # another order in memory is another kernel
