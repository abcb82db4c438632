"""Reactors with flow: a continuously stirred tank, and a tube with plug flow.

In a tank mass flows in at the rate m / tau, where m is the mass in the reactor and tau the
residence time, and the mixture flows out at the same rate. With the amounts Y of the mass that was
there at first,

    dY_i/dt = (reactions) + (Y_in,i - Y_i) / tau,
    C dT/dt = -sum of e_i dY_i/dt + (H_in - sum of h_i(T) Y_i) / tau,

where Y_in are the amounts of an equal mass of the inflow and H_in is its enthalpy at its own
temperature. At constant volume C is the heat capacity at constant volume and e_i are the internal
energies u_i: the mixture that flows out takes the enthalpy h_i = u_i + R T with it. At constant
pressure C is the heat capacity at constant pressure and e_i = h_i.

If the flows differ, the mass is m = m_0 (1 + g t) with g = (1 - out / in) / tau, and tau is m_0
over the flow in. With amounts Y of the mass m_0, the equations above have tau (1 + g t) for tau,
whatever flows out. At constant volume the density grows as m does, which works on the gas as a
compression does: dU/dt has also n R T d(ln m)/dt (see `compression`).

In plug flow a mass of the mixture moves along a tube as a closed zone at constant pressure does in
time: dz = u dt, where the velocity u = u_0 rho_0 / rho follows from the conservation of mass. The
variables are integrated over z, and so is the time since the inlet.

R. J. Kee, M. E. Coltrin, P. Glarborg, "Chemically Reacting Flow" (2003), sections 16.2 and 16.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.errors import ModelError
from ergode.kinetics.compositions import by_zone, check_signs, composition_of, molar_masses
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.over_time import OR_OVER_TIME, Trajectory, changes, cut, linear_at
from ergode.kinetics.physics.energy import enthalpies
from ergode.kinetics.tables import FIXED, PLUG, PRESSURE, STIRRED
from ergode.models.reactions.network import ReactionNetwork


class Given(NamedTuple):
    """What a reactor needs to know of its zones."""

    by_mass: bool  # whether amounts are given by mass
    heating: int  # `FIXED`, `VOLUME` or `PRESSURE`
    isothermal: bool


_FED = "temperature of the inflow"
_BALANCED = 1e-9  # difference of the flows into a tank and out of it, relative


def _rows_at(name: str, value: Any, times: np.ndarray) -> np.ndarray:
    """Values of what flows in at these times, shape [1 or zone_count, time_count].

    Raises a ModelError if one is no number, negative or not finite.
    """
    if isinstance(value, Trajectory):
        rows = linear_at(times, value.times, np.atleast_2d(value.values))
    else:
        try:
            rows = np.array([[float(value(float(t))) for t in times]])
        except (TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"{name} as a function of time: {error}; expected a number") from None
    check_signs(name, rows, may_vanish=name != _FED)
    return rows


@dataclass(frozen=True, eq=False)
class StirredTank:
    """A continuously stirred tank reactor, in which as much mass flows in as flows out, or not.

    Parameters
    ----------
    inflow : mapping of str to float, array_like of shape [zone_count], Trajectory, or function
        What flows in. Of molecules only ratios matter: of moles, or of masses if the zones have a
        `density`. Of other species, concentrations; boundary species keep their amounts. A
        `Trajectory` or a function of time, which returns one number, changes an amount in time.
    residence_time : float or array_like of shape [zone_count]
        Mass in the reactor at first over mass flow in [s, or the unit of time of the coefficients].
    temperature : float, array_like of shape [zone_count], Trajectory, or function, optional
        Of the inflow [K]; for zones that heat themselves. It may change in time, too.
    outflow_ratio : float or array_like of shape [zone_count]
        Mass flow out over mass flow in: 0 fills the tank (semi-batch, fed-batch), and more than 1
        empties it, which must not be over before the run is. Molecules at constant volume become
        denser as mass gathers. The volume of molecules at constant pressure, and of species without
        NASA polynomials, grows with the mass. In tanks in series it is 1.
    tank_count : int
        Number of tanks in series. Zones are then tanks: the first `tank_count` zones are a chain,
        the next ones another, and what flows out of a tank flows into the next one. All else is by
        zone, so tanks may differ; `inflow` and `temperature` are those of the first tank, one value
        for each chain. Nothing changes in time.
    flow_ratio : Trajectory or function, optional
        The mass flow in over time, over that of `residence_time`: 0 or more. What flows out is
        `outflow_ratio` times as much. Not for tanks in series.
    flows : sequence of (from, to, flow), optional
        Mass flows between tanks that branch or flow back, in any unit: from ``"in"`` or a tank to
        a tank or ``"out"``; tanks are numbered from 0. As much flows out of each tank as into it.
        Zones are then the tanks of one network after another. `residence_time` is the mass in a
        tank over all flows into it. `inflow` and `temperature` are what comes from outside, one
        value for all or one for each tank; in tanks without a flow from ``"in"`` they have no
        effect. By ``"bdf"``.

    Examples
    --------
    >>> import ergode
    >>> decay = ergode.ReactionNetwork({"A": 0}, [ergode.Reaction("A -> 0", rate_constant=3.0)])
    >>> tank = ergode.kinetics.StirredTank({"A": 2.0}, residence_time=1.0)
    >>> found = ergode.kinetics.integrate(decay, times=[0, 100], reactor=tank, device="cpu")
    >>> float(found["concentration"][0, -1, 0].round(6))  # 2 / (1 + 3)
    0.5
    >>> three = ergode.kinetics.StirredTank({"A": 2.0}, residence_time=1.0, tank_count=3)
    >>> found = ergode.kinetics.integrate(decay, times=[0, 100], reactor=three, device="cpu")
    >>> found["concentration"][:, -1, 0].values.round(5).tolist()  # 2 / 4, 2 / 4^2, 2 / 4^3
    [0.5, 0.125, 0.03125]

    Half of what leaves the second tank flows back to the first one.

    >>> loop = ergode.kinetics.StirredTank(
    ...     {"A": 2.0}, [0.25, 0.5],
    ...     flows=[("in", 0, 1.0), (0, 1, 2.0), (1, 0, 1.0), (1, "out", 1.0)],
    ... )
    >>> found = ergode.kinetics.integrate(decay, times=[0, 100], reactor=loop, device="cpu")
    >>> found["concentration"][:, -1, 0].values.round(5).tolist()
    [0.64516, 0.25806]
    """

    inflow: Mapping[str, Any]
    residence_time: np.ndarray
    temperature: Any
    outflow_ratio: np.ndarray
    tank_count: int
    flow_ratio: Any
    flows: tuple[tuple[Any, Any, float], ...] | None
    flow = STIRRED

    def __init__(
        self,
        inflow: Mapping[str, Any],
        residence_time: ArrayLike,
        temperature: Any = None,
        outflow_ratio: ArrayLike = 1.0,
        tank_count: int = 1,
        flow_ratio: Any = None,
        flows: Sequence[tuple[str | int, str | int, float]] | None = None,
    ) -> None:
        if not isinstance(inflow, Mapping) or not inflow:
            raise ModelError(f"inflow is {inflow!r}; expected amounts by name of the species")
        object.__setattr__(self, "inflow", dict(inflow))
        object.__setattr__(self, "residence_time", _positive("residence_time", residence_time))
        hot = temperature
        if hot is not None and not changes(hot):
            hot = by_zone(_FED, hot, OR_OVER_TIME)
            check_signs(_FED, hot)
        if flow_ratio is not None and not changes(flow_ratio):
            raise ModelError(
                f"flow_ratio is {flow_ratio!r}; expected a Trajectory or a function of time. A "
                "constant flow is the residence_time"
            )
        object.__setattr__(self, "flow_ratio", flow_ratio)
        object.__setattr__(self, "temperature", hot)
        ratio = by_zone("outflow_ratio", outflow_ratio)
        check_signs("outflow_ratio", ratio, may_vanish=True)
        object.__setattr__(self, "outflow_ratio", ratio)
        whole = isinstance(tank_count, int | np.integer) and not isinstance(tank_count, bool)
        if not whole or tank_count < 1:
            raise ModelError(f"tank_count is {tank_count!r}; expected a whole number, 1 or more")
        tanks = int(tank_count)
        known = None
        if flows is not None:
            known = flows_of(flows)
            tanks = len(shares_of(known)[0])
            if tank_count not in (1, tanks):
                raise ModelError(f"tank_count is {tank_count}, and flows has {tanks} tanks")
        object.__setattr__(self, "flows", known)
        object.__setattr__(self, "tank_count", tanks)
        if tanks > 1 and (ratio != 1.0).any():
            raise ModelError(
                f"outflow_ratio is {ratio[ratio != 1.0][0]:g}, and tank_count {tanks}; of "
                "connected tanks as much flows out as in: expected an outflow_ratio of 1"
            )

        if tanks > 1 and self.changes:
            name = next(iter(self._over_time))
            raise ModelError(
                f"{name} changes in time, and tank_count is {tanks}; expected constant flows into "
                "connected tanks"
            )

    @property
    def _over_time(self) -> dict[str, Any]:
        """What changes in time, by name."""
        every = {f"inflow '{name}'": value for name, value in self.inflow.items()}
        every |= {_FED: self.temperature, "flow_ratio": self.flow_ratio}
        return {name: value for name, value in every.items() if changes(value)}

    @property
    def changes(self) -> bool:
        """Whether what flows in changes in time."""
        return bool(self._over_time)

    def knots(self, grid: np.ndarray) -> list[np.ndarray]:
        """Times of the points of what changes, within those of the grid."""
        given = [v.times for v in self._over_time.values() if isinstance(v, Trajectory)]
        return [one[(one > grid[0]) & (one < grid[-1])] for one in given]

    def at(self, times: np.ndarray, zones: int = 1) -> StirredTank:
        """The tank at these times, each a zone: all times of the first zone, then others."""

        def fixed(name: str, value: Any) -> Any:
            if value is None:
                return None
            rows = _rows_at(name, value, times) if changes(value) else np.ravel(value)[:, None]
            if rows.size == 1:
                return rows.ravel()
            return np.array(np.broadcast_to(rows, (zones, times.size))).ravel()

        inflow = {name: fixed(f"inflow '{name}'", value) for name, value in self.inflow.items()}
        return StirredTank(inflow, 1.0, fixed(_FED, self.temperature))

    def at_first(self, times: np.ndarray) -> StirredTank:
        """The tank of constant values that it is at the first of the times."""
        still = self.at(times, max(self.sizes.values()))
        return StirredTank(still.inflow, self.residence_time, still.temperature, self.outflow_ratio)

    def flow_at(self, times: np.ndarray) -> np.ndarray:
        """The mass flow in over that of the residence time, shape [1 or zone_count, time_count]."""
        if self.flow_ratio is None:
            return np.ones((1, times.size))
        return _rows_at("flow_ratio", self.flow_ratio, times)

    @property
    def growth(self) -> np.ndarray:
        """Change of the mass over the mass at first [1/s], shape [1] or [zone_count]."""
        return (1.0 - self.outflow_ratio) / self.residence_time

    def mass(self, times: np.ndarray) -> np.ndarray:
        """Mass over that at the first time, shape [1 or zone_count, time_count].

        Raises a ModelError if it vanishes.
        """
        found = 1.0 + self.growth[:, None] * (times - times[0])
        self.check_mass(times, found)
        return found

    def check_mass(self, times: np.ndarray, mass: np.ndarray) -> None:
        """Check the mass over that at the first time, shape [1 or zone_count, time_count]."""
        if not (mass > 0.0).all():
            zone = int(np.argmin(mass.min(axis=1)))
            empty = np.interp(0.0, mass[zone, ::-1], times[::-1])
            raise ModelError(
                f"the tank of zone {zone} is empty at the time {empty:.6g}, as more flows out than "
                "in; expected an earlier end, or a smaller outflow_ratio"
            )

    @property
    def _each(self) -> int:
        """Tanks for each value of the inflow, if there are several values."""
        return self.tank_count if self.flows is None else 1

    @property
    def sizes(self) -> dict[str, int]:
        """Number of values by the name of what has them."""
        each = self._each
        of_tanks = f" (in the {each} tanks of each chain)" if each > 1 else ""

        def several(value: Any) -> int:
            if isinstance(value, Trajectory):
                return len(np.atleast_2d(value.values))
            return np.size(value) * each if np.size(value) > 1 else 1

        found = {f"inflow '{name}'{of_tanks}": several(v) for name, v in self.inflow.items()}
        found["residence_time"] = self.residence_time.size
        found["outflow_ratio"] = self.outflow_ratio.size
        if self.temperature is not None:
            found[f"temperature of the inflow{of_tanks}"] = several(self.temperature)
        if self.flow_ratio is not None:
            found["flow_ratio"] = several(self.flow_ratio)
        return found

    def part(self, start: int, stop: int) -> StirredTank:
        """The reactors of some of the zones."""
        part = partial(cut, start=start, stop=stop)
        inflow = {name: part(value) for name, value in self.inflow.items()}
        return StirredTank(
            inflow, part(self.residence_time), part(self.temperature), part(self.outflow_ratio),
            self.tank_count, part(self.flow_ratio), self.flows,
        )  # fmt: skip

    def rows(
        self, network: ReactionNetwork, mechanism: Mechanism, amounts: np.ndarray, given: Given
    ) -> np.ndarray:
        """What kernels know of the inflow (see `ConditionHistory.inflow`).

        Raises
        ------
        ModelError
            A species is unknown, the inflow is empty, or its temperature is missing or has no
            effect.
        """
        if mechanism.nuclear:
            raise ModelError("reactor is for molecules and other species; the network has nuclei")
        count = amounts.shape[1]
        flowing = np.zeros_like(amounts)
        tanks = self.tank_count
        for i, row in composition_of(network, self.inflow, "inflow").items():
            if network.species[i].boundary:
                raise ModelError(
                    f"inflow has the species '{network.species[i].name}', whose amount is fixed"
                )
            flowing[:, i] = np.repeat(row, self._each) if row.size > 1 else row
        feed, between = shares_of(self.flows or _series(tanks))
        fed = np.tile(feed, len(amounts) // tanks)
        ratio, contents = np.ones(len(amounts)), np.ones(len(amounts))
        if mechanism.molecular:
            mass = molar_masses(network)
            contents = weighted(amounts, mass)
            ratio[1:] = contents[1:] / contents[:-1]
            if given.by_mass:
                flowing /= mass
            total = weighted(flowing, mass)
            total[fed == 0.0] = np.inf
            empty = np.flatnonzero(~(total > 0.0))
            if empty.size:
                raise ModelError(
                    f"inflow is empty in zone {empty[0]}; expected at least one species"
                )
            flowing *= (contents / total)[:, None]
        fixed = [one.boundary for one in network.species]
        flowing[:, fixed] = amounts[:, fixed]  # they neither flow in nor out
        if tanks > 1:
            _check_fixed(network, amounts, ratio, tanks)
        heats = given.heating != FIXED and not given.isothermal
        if heats and self.temperature is None:
            raise ModelError(
                "the inflow has no temperature; zones that heat themselves need it [K]"
            )
        if not heats and self.temperature is not None:
            raise ModelError(
                "the inflow has a temperature, which has no effect on a given temperature; leave "
                "it out"
            )
        rows = np.zeros((len(amounts), count + 3 + len(mechanism.invariants)))
        rows[:, :count] = flowing
        if self.temperature is not None:
            hot = self.temperature
            hot = np.repeat(hot, self._each) if hot.size > 1 else hot
            every = enthalpies(mechanism.thermo.polynomials, hot)
            rows[:, count] = (flowing * every).sum(axis=1)
        rows[:, count + 1] = 1.0 / self.residence_time
        for k, weights in enumerate(mechanism.invariants):
            rows[:, count + 2 + k] = weighted(flowing, weights)
        rows[:, -1] = self.growth
        if tanks == 1:
            return rows
        by_chain = contents.reshape(-1, tanks)
        parts = between * (by_chain[:, :, None] / by_chain[:, None, :])
        return np.c_[rows, parts.reshape(-1, tanks), fed]


@dataclass(frozen=True, eq=False)
class PlugFlow:
    """Steady flow through a tube of constant width, without diffusion (see `plug_flow`).

    Parameters
    ----------
    velocity : float or array_like of shape [zone_count]
        At the inlet [cm/s].
    """

    velocity: np.ndarray
    flow = PLUG

    def __init__(self, velocity: ArrayLike) -> None:
        object.__setattr__(self, "velocity", _positive("velocity", velocity))

    @property
    def sizes(self) -> dict[str, int]:
        """Number of values by the name of what has them."""
        return {"velocity": self.velocity.size}

    def part(self, start: int, stop: int) -> PlugFlow:
        """The flow of some of the zones."""
        return PlugFlow(self.velocity[start:stop] if self.velocity.size > 1 else self.velocity)

    def rows(
        self, network: ReactionNetwork, mechanism: Mechanism, amounts: np.ndarray, given: Given
    ) -> np.ndarray:
        """What kernels know of the flow (see `ConditionHistory.inflow`).

        Raises
        ------
        ModelError
            The zones are not molecules at constant pressure.
        """
        if not mechanism.molecular or given.heating != PRESSURE:
            raise ModelError("plug flow is for molecules at constant pressure")
        return np.ascontiguousarray(
            np.broadcast_to(1.0 / self.velocity[:, None], (len(amounts), 1))
        )


def _check_fixed(
    network: ReactionNetwork, amounts: np.ndarray, ratio: np.ndarray, tanks: int
) -> None:
    """Check that species whose amount is fixed have one amount in all tanks of a chain.

    `ratio` is the mass of each tank over that of the tank before.
    """
    for i, one in enumerate(network.species):
        if one.boundary:
            off = np.abs(amounts[1:, i] - ratio[1:] * amounts[:-1, i]) > 1e-12 * amounts[1:, i]
            off[tanks - 1 :: tanks] = False  # from chain to chain
            if off.any():
                raise ModelError(
                    f"the amount of '{one.name}', which is fixed, differs between the tanks "
                    f"{np.argmax(off)} and {np.argmax(off) + 1} of a chain; expected one amount"
                )


IN, OUT = "in", "out"


def _series(tanks: int) -> tuple[tuple[Any, Any, float], ...]:
    """The flows of tanks in series."""
    ends = [IN, *range(tanks), OUT]
    return tuple((a, b, 1.0) for a, b in itertools.pairwise(ends))


def flows_of(given: Any) -> tuple[tuple[Any, Any, float], ...]:
    """Checked mass flows between tanks.

    Raises a ModelError if one is no flow between tanks, or more or less flows out of a tank than
    into it.
    """
    found = []
    for one in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(one, list | tuple) or len(one) != 3:
            raise ModelError(f"flows has {one!r}; expected (from, to, flow), as (0, 1, 2.5)")
        begin, end, flow = one
        for name, outside, place in ((begin, IN, "from"), (end, OUT, "to")):
            whole = isinstance(name, int | np.integer) and not isinstance(name, bool)
            if not (name == outside if isinstance(name, str) else whole and name >= 0):
                raise ModelError(
                    f"flows has {tuple(one)!r}, {place} {name!r}; expected the number of a tank, "
                    f"or {outside!r}"
                )
        if begin == end:
            raise ModelError(f"flows has {tuple(one)!r}, from a tank to itself; leave it out")
        amount = by_zone("flow", flow)
        check_signs("flow", amount)
        found.append((begin, end, float(amount[0])))
    tanks = 1 + max((int(k) for one in found for k in one[:2] if not isinstance(k, str)), default=0)
    into, out = np.zeros(tanks), np.zeros(tanks)
    for begin, end, flow in found:
        if begin != IN:
            out[begin] += flow
        if end != OUT:
            into[end] += flow
    if not any(begin == IN for begin, _, _ in found):
        raise ModelError("flows has none from 'in'; expected at least one from outside into a tank")
    for k in range(tanks):
        if not abs(into[k] - out[k]) <= _BALANCED * into[k]:
            raise ModelError(
                f"flows of {into[k]:g} go into tank {k}, and of {out[k]:g} out of it; expected as "
                "much out as in"
            )
    return tuple(found)


def shares_of(flows: Sequence[tuple[Any, Any, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the flow into each tank: from outside [tank], and from others [to, from]."""
    tanks = 1 + max(int(k) for one in flows for k in one[:2] if not isinstance(k, str))
    feed, weights = np.zeros(tanks), np.zeros((tanks, tanks))
    for begin, end, flow in flows:
        if begin == IN:
            feed[end] += flow
        elif end != OUT:
            weights[end, begin] += flow
    total = feed + weights.sum(axis=1)
    return feed / total, weights / total[:, None]


def weighted(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums of each row; their rounding does not depend on the number of rows."""
    return np.asarray((rows * weights).sum(axis=1))


def _positive(name: str, given: Any) -> np.ndarray:
    found = by_zone(name, given)
    check_signs(name, found)
    return found
