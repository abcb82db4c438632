"""Equations of state: internal energy and pressure of the matter in which nuclei burn.

An equation of state is two functions of temperature, density and the specific amounts n of nuclei
and e of electrons [mol/g]: the internal energy u [erg/g] without rest masses, and the pressure.
Derivatives are finite differences. At constant volume

    (du/dT) dT/dt = - sum of (m_i + du/dn + Z_i du/de) dY_i/dt

with m_i the mass excess of a nucleus [erg/mol]. At constant pressure the density follows from
temperature and amounts, and u + P / rho takes the place of u: with w = (du/drho - P / rho^2) /
(dP/drho), every derivative of u above becomes that of u less w times that of P.

``"ideal"`` has nuclei, electrons and radiation: u = 1.5 R T (n + e) + a T^4 / rho. ``"degenerate"``
has Chandrasekhar's cold electrons at any density. The thermal energy of electrons interpolates, by
a harmonic sum, between Sommerfeld's first term and a nondegenerate gas. There are no
electron-positron pairs. ``"helmholtz"`` has exact electrons, positrons, Coulomb corrections and
exact derivatives (see `helmholtz`).

S. Chandrasekhar: An Introduction to the Study of Stellar Structure (1939), chapter X;
R. Kippenhahn, A. Weigert, A. Weiss: Stellar Structure and Evolution, 2nd ed. (2012), chapter 15.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ergode.core import devices, kernels
from ergode.core.arguments import nearest
from ergode.core.calls.launch import warn
from ergode.core.compiler.language import UserFunction, no_unroll, noinline_cpu, option
from ergode.core.compiler.portable import HoldsFunctions
from ergode.core.errors import AccuracyWarning, ModelError
from ergode.core.math.elementary import exp, log
from ergode.kinetics.physics.electron_table import (
    DENSITIES,
    NO_TABLE,
    REST,
    TEMPERATURES,
    electron_table,
)
from ergode.kinetics.physics.helmholtz import helmholtz
from ergode.models.constants import AVOGADRO, COMPTON, GAS_CONSTANT, RADIATION

IDEAL, DEGENERATE, OTHER, HELMHOLTZ = 0, 1, 2, 3
_KNOWN = {"ideal": IDEAL, "degenerate": DEGENERATE, "helmholtz": HELMHOLTZ}
StateName = Literal["ideal", "degenerate", "helmholtz"]
"""The equations of state of nuclei."""
_GRAIN = 4096  # smallest number of pressures for a thread


@dataclass(frozen=True)
class EquationOfState(HoldsFunctions):
    """An equation of state by functions of the user.

    Parameters
    ----------
    energy : function
        ``energy(temperature, density, nuclei, electrons)`` returns the internal energy without
        rest masses [erg/g]. Its arguments are numbers: temperature [K], density [g/cm3], specific
        amounts of nuclei and of electrons [mol/g]. It may use arithmetic and `math`. It is
        compiled; global variables keep the values of the first use.
    pressure : function
        Returns the pressure [dyn/cm2], from the arguments of `energy`.

    Examples
    --------
    >>> import ergode
    >>> def energy(temperature, density, nuclei, electrons):
    ...     return 1.5 * 8.314e7 * temperature * (nuclei + electrons)
    >>> def pressure(temperature, density, nuclei, electrons):
    ...     return 8.314e7 * density * temperature * (nuclei + electrons)
    >>> gas = ergode.kinetics.EquationOfState(energy, pressure)
    """

    energy: Callable[..., Any]
    pressure: Callable[..., Any]


def bindings_of_energy(state: str | EquationOfState) -> dict[Any, Any]:
    """Bindings of kernels that need only the energy.

    Raises a ModelError if the equation of state is unknown.
    """
    if isinstance(state, EquationOfState):
        return {STATE: OTHER, other_energy: UserFunction(state.energy, ())}
    if not isinstance(state, str) or state not in _KNOWN:
        known = ", ".join(repr(name) for name in _KNOWN)
        raise ModelError(
            f"equation_of_state is {state!r}; expected {known} or an EquationOfState"
            f"{nearest(state, _KNOWN)}"
        )
    return {STATE: _KNOWN[state]}


def bindings_of_state(state: str | EquationOfState) -> dict[Any, Any]:
    """Bindings of kernels that need energy and pressure.

    Raises a ModelError if the equation of state is unknown.
    """
    return bindings_of_energy(state) | _bindings_of_pressure(state)


def _bindings_of_pressure(state: str | EquationOfState) -> dict[Any, Any]:
    if isinstance(state, EquationOfState):
        return {STATE: OTHER, other_pressure: UserFunction(state.pressure, ())}
    return {STATE: _KNOWN[state]}


def table_of(state: str | EquationOfState) -> np.ndarray:
    """The table that kernels with this equation of state read."""
    return electron_table() if state == "helmholtz" else NO_TABLE


def check_range(
    state: str | EquationOfState,
    temperature: np.ndarray,
    density: np.ndarray,
    electrons: np.ndarray,
) -> None:
    """Refuse conditions beyond the table of ``"helmholtz"``.

    Raises a ModelError if a temperature or an amount of electrons is not in the table.
    """
    if state != "helmholtz":
        return
    least, most = TEMPERATURES
    if temperature.size and not (temperature.min() >= least and temperature.max() <= most):
        bad = temperature[(temperature < least) | (temperature > most)]
        raise ModelError(
            f"temperature is {bad[0]:g} K; equation_of_state='helmholtz' goes from {least:g} to "
            f"{most:g} K"
        )
    amount = density * electrons
    if amount.size and not amount.max() <= DENSITIES[1]:
        raise ModelError(
            f"density times electron fraction is {amount.max():g} mol/cm3; "
            f"equation_of_state='helmholtz' goes up to {DENSITIES[1]:g} mol/cm3"
        )


def check_isobars(
    state: str | EquationOfState,
    temperature: np.ndarray,
    density: np.ndarray,
    nuclei: np.ndarray,
    electrons: np.ndarray,
) -> None:
    """Refuse zones at constant pressure whose density does not follow from the pressure.

    Raises a ModelError where radiation and pairs are all but 1e-6 of the pressure.
    """
    pressure, _ = matter_at(state, temperature, density, nuclei, electrons)
    more, _ = matter_at(state, temperature, density * (1.0 + _DENSER), nuclei, electrons)
    share = (more / pressure - 1.0) / _DENSER
    if not (share >= _LEAST_SHARE).all():
        zone = int(np.argmin(share))
        raise ModelError(
            f"heating is 'constant-pressure', but at {temperature[zone]:g} K and "
            f"{density[zone]:g} g/cm3 in zone {zone} radiation and pairs are the pressure, from "
            "which no density follows; use 'constant-volume'"
        )


def matter_at(
    state: str | EquationOfState,
    temperature: np.ndarray,
    density: np.ndarray,
    nuclei: np.ndarray,
    electrons: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Pressure [dyn/cm2] and internal energy [erg/g] of amounts of matter [mol/g]."""
    pressure, energy = np.empty(temperature.size), np.empty(temperature.size)
    devices.resolve("cpu").run(
        _matter_kernel(state), pressure.size, table_of(state), temperature.reshape(-1),
        density.reshape(-1), nuclei.reshape(-1), electrons.reshape(-1),
        pressure, energy, grain=_GRAIN,
    )  # fmt: skip
    return pressure.reshape(temperature.shape), energy.reshape(temperature.shape)


@lru_cache(maxsize=8)
def _matter_kernel(state: str | EquationOfState) -> kernels.Kernel:
    return kernels.for_each(_matter, bindings=bindings_of_state(state))


def densities_at_pressure(
    state: str | EquationOfState,
    temperature: np.ndarray,
    density: np.ndarray,
    nuclei: np.ndarray,
    electrons: np.ndarray,
    ratio: np.ndarray | None = None,
) -> np.ndarray:
    """Densities [zone, time] of zones that keep their first pressure [g/cm3].

    `density` is that of the first time, shape [zone]; the amounts of nuclei and of electrons
    [mol/g] have the shape [zone, time]. The pressure may be `ratio` [zone, time] times the first.
    """
    found = np.ones(temperature.shape) if ratio is None else np.array(ratio, np.float64)
    devices.resolve("cpu").run(
        _densities_kernel(state), len(found), table_of(state), temperature, density,
        nuclei, electrons, found,
    )  # fmt: skip
    return found


@lru_cache(maxsize=8)
def _densities_kernel(state: str | EquationOfState) -> kernels.Kernel:
    return kernels.for_each(_densities, bindings=_bindings_of_pressure(state))


_DENSER, _LEAST_SHARE = 1e-3, 1e-6
"""Relative increment of the density, and smallest d ln P / d ln rho of an isobar."""
_PAIRS_MATTER = 0.1
"""Share of pairs in the heat capacity above which a warning is given."""


def warn_of_pairs(
    state: str | EquationOfState,
    temperature: np.ndarray,
    density: np.ndarray,
    electrons: np.ndarray,
) -> None:
    """Warn where electron-positron pairs matter, which ``"degenerate"`` neglects.

    `electrons` is the specific amount of electrons [mol/g].
    """
    if state != "degenerate":
        return
    hot, dense, per_gram = np.broadcast_arrays(temperature, density, electrons)
    sound = np.isfinite(hot * dense * per_gram) & (hot > 0.0) & (dense > 0.0) & (per_gram > 0.0)
    share = np.zeros(hot.shape)
    share[sound] = share_of_pairs(hot[sound], dense[sound] * per_gram[sound])
    if (share > _PAIRS_MATTER).any():
        at = np.unravel_index(int(np.argmax(share)), share.shape)
        warn(
            f"equation_of_state='degenerate' has no electron-positron pairs, which matter at "
            f"{hot[at]:.3g} K and {dense[at]:.3g} g/cm3: heat capacities and temperatures are "
            "wrong there by tens of percent or more; use equation_of_state='helmholtz'",
            AccuracyWarning,
        )


def share_of_pairs(temperature: np.ndarray, per_volume: np.ndarray) -> np.ndarray:
    """Approximate share of pairs in the heat capacity of electrons, at densities [mol/cm3].

    Positrons are a nondegenerate gas. The chemical potential of electrons is the Fermi energy, or
    that of a nondegenerate gas if larger. A pair takes twice the rest energy.
    """
    from scipy.special import kve

    theta = temperature * GAS_CONSTANT / REST
    # Nondegenerate electrons at zero potential: (1 / pi^2) (m c / hbar)^3 theta K_2(1 / theta).
    alone = _COMPTON_DENSITY * theta * kve(2, 1.0 / theta) * np.exp(-1.0 / theta)
    momentum = _MOMENTUM * np.cbrt(per_volume)
    ratio = per_volume / (2.0 * np.maximum(alone, 1e-280))
    potential = np.maximum(theta * np.arcsinh(ratio), np.sqrt(1.0 + momentum**2))
    positrons = alone * np.exp(-potential / theta) / per_volume
    # Sommerfeld's heat capacity, or that of a nondegenerate gas.
    own = np.minimum(1.5, np.pi**2 * theta * np.sqrt(1.0 + momentum**2) / momentum**2)
    return np.asarray(positrons * (2.0 / theta + 3.0) ** 2 / own)


# --- device functions -----------------------------------------------------------------------------

STATE = option(IDEAL)
"""The equation of state."""

_COMPTON_DENSITY = 1.0 / (math.pi**2 * COMPTON**3 * AVOGADRO)  # (m c / hbar)^3 / pi^2 [mol/cm3]
_MOMENTUM = (3.0 / _COMPTON_DENSITY) ** (1.0 / 3.0)  # Fermi momentum [m c] at 1 mol/cm3
_STEP = 3e-5
_MOST_ITERATIONS = 60
_ROUNDING = 1e-14  # of a pressure


def ideal_energy(temperature, density, nuclei, electrons):
    """Nuclei, electrons and radiation [erg/g]."""
    t = temperature
    return 1.5 * GAS_CONSTANT * t * (nuclei + electrons) + RADIATION * t * t * t * t / density


def ideal_pressure(temperature, density, nuclei, electrons):
    """Nuclei, electrons and radiation [dyn/cm2]."""
    t = temperature
    gas = GAS_CONSTANT * t * (nuclei + electrons) * density
    return gas + RADIATION * t * t * t * t / 3.0


def _electrons(temperature, per_volume):
    """Cold and thermal energy per electron, over its rest energy, and squared Fermi momentum."""
    momentum = _MOMENTUM * exp(log(max(per_volume, 1e-30)) / 3.0)
    square = momentum * momentum
    root = (1.0 + square) ** 0.5
    if momentum < 0.02:
        cold = 0.3 * square * (1.0 - 5.0 / 28.0 * square)
    else:
        cold = momentum * (1.0 + 2.0 * square) * root - log(momentum + root)
        cold = 0.375 * cold / (square * momentum) - 1.0
    theta = temperature * GAS_CONSTANT / REST
    degenerate = 0.5 * 9.869604401089358 * theta * theta * root / square
    # From 3/2 (slow) to 3 (fast); the exact form is a quotient of Bessel functions.
    thin = theta * (1.5 + 1.5 * theta * (theta + 2.5) / (theta * theta + 3.2 * theta + 2.0))
    return cold, degenerate * thin / (degenerate + thin), square


def degenerate_energy(temperature, density, nuclei, electrons):
    """Nuclei, radiation and electrons that may be degenerate [erg/g]."""
    cold, hot, square = _electrons(temperature, density * electrons)
    t = temperature
    ions = 1.5 * GAS_CONSTANT * t * nuclei + RADIATION * t * t * t * t / density
    return ions + REST * electrons * (cold + hot)


def degenerate_pressure(temperature, density, nuclei, electrons):
    """Nuclei, radiation and electrons that may be degenerate [dyn/cm2]."""
    cold, hot, square = _electrons(temperature, density * electrons)
    t = temperature
    ions = GAS_CONSTANT * t * nuclei * density + RADIATION * t * t * t * t / 3.0
    # Cold: P = n (E_F) - u by the first law, with the kinetic Fermi energy.
    still = (1.0 + square) ** 0.5 - 1.0 - cold
    warm = hot * (1.0 + 1.0 / (1.0 + square)) / 3.0
    return ions + REST * electrons * density * (still + warm)


other_energy, other_pressure = option(ideal_energy), option(ideal_pressure)
"""Functions of the user."""


def internal_energy(table, temperature, density, nuclei, electrons):
    """Internal energy without rest masses [erg/g]."""
    if STATE == HELMHOLTZ:
        return helmholtz(table, temperature, density, nuclei, electrons, 1.0)[1]
    if STATE == IDEAL:
        return ideal_energy(temperature, density, nuclei, electrons)
    if STATE == DEGENERATE:
        return degenerate_energy(temperature, density, nuclei, electrons)
    return other_energy(temperature, density, nuclei, electrons)


def pressure_of(table, temperature, density, nuclei, electrons):
    """Pressure [dyn/cm2]."""
    if STATE == HELMHOLTZ:
        return helmholtz(table, temperature, density, nuclei, electrons, 1.0)[0]
    if STATE == IDEAL:
        return ideal_pressure(temperature, density, nuclei, electrons)
    if STATE == DEGENERATE:
        return degenerate_pressure(temperature, density, nuclei, electrons)
    return other_pressure(temperature, density, nuclei, electrons)


def _differences(of, table, temperature, density, nuclei, electrons):
    """Derivatives of a function by temperature, by nuclei and by electrons."""
    shift = _STEP * temperature
    above = of(table, temperature + shift, density, nuclei, electrons)
    below = of(table, temperature - shift, density, nuclei, electrons)
    by_temperature = (above - below) / (2.0 * shift)
    shift = _STEP * (nuclei + electrons)
    above = of(table, temperature, density, nuclei + shift, electrons)
    below = of(table, temperature, density, nuclei - shift, electrons)
    by_nuclei = (above - below) / (2.0 * shift)
    least = max(electrons - shift, 0.0)
    above = of(table, temperature, density, nuclei, electrons + shift)
    below = of(table, temperature, density, nuclei, least)
    return by_temperature, by_nuclei, (above - below) / (electrons + shift - least)


def _by_density(of, table, temperature, density, nuclei, electrons):
    """Derivative of a function by density."""
    shift = _STEP * density
    above = of(table, temperature, density + shift, nuclei, electrons)
    below = of(table, temperature, density - shift, nuclei, electrons)
    return (above - below) / (2.0 * shift)


def response(table, temperature, density, nuclei, electrons):
    """Heat capacity, energy per added mole of nuclei and of electrons, and energy.

    [erg/(g K)], [erg/mol], [erg/mol] and [erg/g]; at constant density.
    """
    if STATE == HELMHOLTZ:
        found = helmholtz(table, temperature, density, nuclei, electrons, 1.0)
        return found[3], found[5], found[6], found[1]
    energy = internal_energy(table, temperature, density, nuclei, electrons)
    found = _differences(internal_energy, table, temperature, density, nuclei, electrons)
    return found[0], found[1], found[2], energy


def expansion(table, temperature, density, nuclei, electrons):
    """Pressure, energy and derivatives.

    Those of the energy by temperature, density, nuclei and electrons, then those of the pressure.
    """
    if STATE == HELMHOLTZ:
        found = helmholtz(table, temperature, density, nuclei, electrons, 1.0)
        return (
            found[0], found[1], found[3], found[4], found[5], found[6], found[7], found[8],
            found[9], found[10],
        )  # fmt: skip
    heat = _differences(internal_energy, table, temperature, density, nuclei, electrons)
    push = _differences(pressure_of, table, temperature, density, nuclei, electrons)
    return (
        pressure_of(table, temperature, density, nuclei, electrons),
        internal_energy(table, temperature, density, nuclei, electrons),
        heat[0], _by_density(internal_energy, table, temperature, density, nuclei, electrons),
        heat[1], heat[2],
        push[0], _by_density(pressure_of, table, temperature, density, nuclei, electrons),
        push[1], push[2],
    )  # fmt: skip


def stiffness(table, temperature, density, nuclei, electrons):
    """(dP/drho)_T [erg/g]."""
    if STATE == HELMHOLTZ:
        return helmholtz(table, temperature, density, nuclei, electrons, 1.0)[8]
    return _by_density(pressure_of, table, temperature, density, nuclei, electrons)


@noinline_cpu
def response_at_pressure(table, temperature, density, nuclei, electrons):
    """As `response`, of the enthalpy; and d ln rho per added mole of both [g/mol]."""
    found = expansion(table, temperature, density, nuclei, electrons)
    pressure, energy, capacity, by_density, per_nucleus, per_electron = found[:6]
    work = (by_density - pressure / (density * density)) / found[7]
    return (
        capacity - work * found[6], per_nucleus - work * found[8], per_electron - work * found[9],
        energy + pressure / density, -found[8] / (density * found[7]),
        -found[9] / (density * found[7]),
    )  # fmt: skip


@noinline_cpu
def isobaric(table, pressure, enthalpy, nuclei, electrons, temperature, density):
    """Temperature [K] and density [g/cm3] of matter with a pressure and an enthalpy [erg/g].

    By Newton's method from those given; NaN if there are none.
    """
    t, rho = temperature, density
    for _ in no_unroll(range(_MOST_ITERATIONS)):
        found = expansion(table, t, rho, nuclei, electrons)
        push = (pressure - found[0]) / found[7]
        work = (found[3] - pressure / (rho * rho)) / found[7]
        missing = enthalpy - found[1] - pressure / rho - work * (pressure - found[0])
        hotter = missing / (found[2] - work * found[6])
        denser = (push - found[6] / found[7] * hotter) / rho
        hotter /= t
        if not (found[7] > 0.0 and abs(hotter) < math.inf and abs(denser) < math.inf):
            return math.nan, math.nan
        t *= exp(min(max(hotter, -1.0), 1.0))
        rho *= exp(min(max(denser, -1.0), 1.0))
        # The error of the next iterate is about the square of these steps.
        if abs(hotter) < 1e-8 and abs(denser) < 1e-8:
            return t, rho
    return math.nan, math.nan


@noinline_cpu
def density_at(table, pressure, temperature, nuclei, electrons, guess):
    """Density at which matter has a pressure [g/cm3], by Newton's method.

    NaN if no density has it.
    """
    density = guess
    for _ in no_unroll(range(_MOST_ITERATIONS)):
        missing = pressure - pressure_of(table, temperature, density, nuclei, electrons)
        slope = density * stiffness(table, temperature, density, nuclei, electrons)
        step = missing / slope
        if not (slope > 0.0 and abs(step) < math.inf):
            return math.nan
        density *= exp(min(max(step, -1.0), 1.0))
        # The error of the next iterate is the square of this step. Where radiation and pairs are
        # nearly all of the pressure, its rounding is a larger step.
        if abs(step) < 1e-8 or abs(missing) <= _ROUNDING * pressure:
            return density
    return math.nan


def _densities(place, table, temperature, start, nuclei, electrons, found):
    # A row is a zone. `found` has the pressure over that of the first time, then the density.
    n, e, rho = nuclei[place, 0], electrons[place, 0], start[place]
    kept = pressure_of(table, temperature[place, 0], rho, n, e)
    for k in range(temperature.shape[1]):
        n, e = nuclei[place, k], electrons[place, k]
        rho = density_at(table, kept * found[place, k], temperature[place, k], n, e, rho)
        found[place, k] = rho
        if not rho > 0.0:
            rho = start[place]


def _matter(place, table, temperature, density, nuclei, electrons, pressure, energy):
    t, rho, n, e = temperature[place], density[place], nuclei[place], electrons[place]
    pressure[place] = pressure_of(table, t, rho, n, e)
    energy[place] = internal_energy(table, t, rho, n, e)
