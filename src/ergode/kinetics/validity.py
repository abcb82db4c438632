"""Warnings where fits, formulas or tolerances do not hold.

Fits of REACLIB outside of their temperatures, NASA polynomials outside of theirs, weak screening in
strongly coupled matter, and traces below the absolute tolerance from which everything grows.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning
from ergode.core.words import counted
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.physics.screening import WEAK
from ergode.models.constants import AVOGADRO, BOLTZMANN, ELEMENTARY_CHARGE
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rates import (
    Photolysis,
    PowerLaw,
    Reaclib,
    TemperatureFit,
    ThreeBody,
)
from ergode.models.reactions.thermochemistry import Molecule

COLDEST, HOTTEST = 1e7, 1e10
"""Temperatures of the fits of REACLIB [K] (R. H. Cyburt et al., ApJS 189, 240 (2010))."""

_GROWN, _FAINT = 10.0, 1e-10  # a coefficient that is larger by this factor, and not negligible
_COUPLED = 0.5  # exponent of weak screening above which a rate is off by 20 % or more
_MUCH = 1e-3  # of all nuclei or molecules
_NEARLY = 0.01  # a temperature beyond a range by this share of it is in the range
_BELOW, _ABOVE = 0.1, 10.0  # of the absolute tolerance: a trace, and what is none


def warn_of_fits(network: ReactionNetwork, temperature: np.ndarray, remedy: str) -> None:
    """Warn if a fit of REACLIB is far larger outside of its temperatures than at their end."""
    with np.errstate(invalid="ignore"):
        some = temperature[temperature > 0.0]
    coldest, hottest = float(some.min(initial=np.inf)), float(some.max(initial=0.0))
    if coldest < COLDEST:
        _warn_of_fits(network, coldest, COLDEST, remedy)
    if hottest > HOTTEST:
        _warn_of_fits(network, hottest, HOTTEST, "use nuclear_equilibrium for hotter matter")


def _warn_of_fits(network: ReactionNetwork, at: float, end: float, remedy: str) -> None:
    sets, owners, numbers = _fits(network)
    if not numbers.size:
        return
    usual, found = (
        np.bincount(owners, _values(sets, one), minlength=numbers.size) for one in (end, at)
    )
    wild = np.flatnonzero(~(found <= np.maximum(_GROWN * usual, _FAINT)))
    if not wild.size:
        return
    worst = wild[np.argmax(np.nan_to_num(found[wild], nan=np.inf))]
    hold = "hold from 1e7 K" if at < end else "hold to 1e10 K"
    warn(
        f"at {at:g} K {wild.size} of {numbers.size} fits of REACLIB, which {hold}, are far larger "
        f"than at {'1e7' if at < end else '1e10'} K: "
        f"{network.reactions.name_of(int(numbers[worst]))} has {found[worst]:.2g} instead of "
        f"{usual[worst]:.2g} [mol, cm, s]; {remedy}",
        AccuracyWarning,
    )


def warn_of_coupling(
    mechanism: Mechanism, temperature: np.ndarray, density: np.ndarray, amounts: np.ndarray
) -> None:
    """Warn of weak screening where charges are strongly coupled.

    Parameters
    ----------
    temperature, density : ndarray, shape [...]
        [K], [g/cm3]; NaN where nothing is known.
    amounts : ndarray, shape [..., species_count]
        Specific amounts of nuclei [mol/g].
    """
    plasma, charge = mechanism.rates.plasma, mechanism.thermo.charge
    if plasma.method != WEAK or plasma.group_start.size < 2:
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        charges = AVOGADRO * density * (amounts @ (charge + charge**2))
        length = ELEMENTARY_CHARGE**2 / (BOLTZMANN * temperature)
        strength = np.nan_to_num(np.sqrt(4.0 * np.pi * charges * length**3))
    product = plasma.pair[0] * plasma.pair[2] + plasma.pair[4] * plasma.pair[6]
    for group in np.argsort(-product):
        strong = product[group] * strength > _COUPLED
        if not strong.any():
            return
        reaction = int(plasma.group_reaction[plasma.group_start[group]])
        sides = [list(mechanism.structure.orders[reaction])]
        if reaction in mechanism.rates.forward:  # its reverse is multiplied too
            sides.append([i for i, v in mechanism.structure.net[reaction].items() if v > 0])
        much = amounts > _MUCH * amounts.sum(axis=-1, keepdims=True)
        strong &= np.any([much[..., side].all(axis=-1) for side in sides], axis=0)
        if strong.any():
            at = np.unravel_index(int(np.argmax(np.where(strong, strength, 0.0))), strong.shape)
            exponent = product[group] * strength[at]
            names = [mechanism.names[i] for i in mechanism.structure.orders[reaction]]
            warn(
                f"screening='weak' is for weak coupling, exponents below {_COUPLED}: it multiplies "
                f"the rate of {' and '.join(names)} by exp({exponent:.2g}) at "
                f"{temperature[at]:.3g} K and {density[at]:.3g} g/cm3, which is too much; use "
                "screening='chugunov'",
                AccuracyWarning,
            )
            return


def warn_of_polynomials(
    network: ReactionNetwork, temperature: np.ndarray, amounts: np.ndarray
) -> None:
    """Warn of molecules outside of the temperatures of their polynomials.

    Parameters
    ----------
    temperature : ndarray, shape [...]
        [K]; NaN where nothing is known.
    amounts : ndarray, shape [..., species_count]
        Species of less than a thousandth of all molecules do not count.
    """
    low, high = _ranges(network)
    cold, hot = np.fmin.reduce(temperature, None), np.fmax.reduce(temperature, None)
    if not (cold < low.max(initial=0.0) or hot > high.min(initial=np.inf)):
        return
    with np.errstate(invalid="ignore"):
        much = amounts > _MUCH * amounts.sum(axis=-1, keepdims=True)
    t = temperature[..., None]
    bad = (much & ((t < low) | (t > high))).reshape(-1, low.size)
    if not bad.any():
        return
    which = np.flatnonzero(bad.any(axis=0))
    first = network.species[which[0]]
    assert isinstance(first.thermochemistry, Molecule)
    begin, end = first.thermochemistry.temperature_range
    seen = np.broadcast_to(t, amounts.shape).reshape(bad.shape)[:, which[0]][bad[:, which[0]]]
    warn(
        f"NASA polynomials of {counted(which.size, 'species')} are used outside of their "
        f"temperatures: those of '{first.name}' hold from {begin:g} to {end:g} K, and "
        f"temperatures are {seen.min():.5g} to {seen.max():.5g} K there",
        AccuracyWarning,
    )


def warn_of_temperatures(network: ReactionNetwork, temperature: np.ndarray) -> None:
    """Warn of temperatures outside of the range of a `TemperatureFit`; NaN where none is known."""
    low, high = _fitted(network)
    cold, hot = np.fmin.reduce(temperature, None), np.fmax.reduce(temperature, None)
    if cold < low or hot > high:
        warn(
            f"temperatures are {cold:.5g} to {hot:.5g} K, and fits of the network (TemperatureFit) "
            f"hold from {low:g} to {high:g} K; give a wider temperature_range",
            AccuracyWarning,
        )


def warn_of_traces(mechanism: Mechanism, amounts: np.ndarray, absolute: np.ndarray) -> None:
    """Warn of amounts that grow from traces which the absolute tolerance does not resolve.

    Parameters
    ----------
    amounts : ndarray, shape [zone, time, species]
    absolute : ndarray, shape [zone or 1, species]
    """
    first = amounts[:, 0]
    with np.errstate(invalid="ignore"):
        grown = (first > 0.0) & (first < _BELOW * absolute)
        if not grown.any():
            return
        grown &= np.fmax.reduce(amounts, axis=1) > _ABOVE * absolute
    if not grown.any():
        return
    lone = grown & ~_made(mechanism, first > _BELOW * absolute)
    if not lone.any():
        return
    zone, i = np.argwhere(lone)[0]
    allowed = np.broadcast_to(absolute, first.shape)[zone, i] * mechanism.mass[i]
    warn(
        f"'{mechanism.names[i]}' begins with {first[zone, i] * mechanism.mass[i]:.2g} in zone "
        f"{zone}, far below its atol {allowed:.2g}, and everything that it becomes grows from this "
        "trace: its growth is not resolved; use a smaller atol",
        AccuracyWarning,
    )


def _made(mechanism: Mechanism, there: np.ndarray) -> np.ndarray:
    """Which species reactions make of those that are there, and of what these become."""
    found = there.copy()
    structure = mechanism.structure
    while True:
        before = found.sum()
        for orders, net in zip(structure.orders, structure.net, strict=True):
            left = [i for i, order in orders.items() if order > 0]
            works = found[:, left].all(axis=1)
            for i, change in net.items():
                if change > 0:
                    found[:, i] |= works
        if found.sum() == before:
            return found


@lru_cache(maxsize=8)
def _fitted(network: ReactionNetwork) -> tuple[float, float]:
    """Temperatures at which all fits hold [K]."""
    low, high = 0.0, float("inf")
    for one in network.reactions:
        rate = one.value
        while isinstance(rate, Photolysis | PowerLaw | ThreeBody):
            rate = rate.rate
        if isinstance(rate, TemperatureFit):
            low, high = max(low, rate.temperature_range[0]), min(high, rate.temperature_range[1])
    return low, high


@lru_cache(maxsize=8)
def _ranges(network: ReactionNetwork) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest temperatures of the polynomials of each species [K]."""
    known = [one.thermochemistry for one in network.species]
    rows = [one.temperature_range if isinstance(one, Molecule) else (0.0, np.inf) for one in known]
    low, high = np.array(rows, float).reshape(-1, 2).T
    return (1.0 - _NEARLY) * low, (1.0 + _NEARLY) * high


@lru_cache(maxsize=8)
def _fits(network: ReactionNetwork) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All sets [set, 7], whose coefficient each belongs to, and numbers of the reactions."""
    laws = [(k, one.value) for k, one in enumerate(network.reactions)]
    known = [(k, law) for k, law in laws if isinstance(law, Reaclib)]
    owners = [place for place, (_, law) in enumerate(known) for _ in law.sets]
    sets = [one for _, law in known for one in law.sets]
    numbers = np.array([k for k, _ in known], np.int64)
    return np.array(sets).reshape(-1, 7), np.array(owners, np.int64), numbers


def _values(sets: np.ndarray, temperature: float) -> np.ndarray:
    t9 = 1e-9 * temperature
    powers = [1.0, 1 / t9, t9 ** (-1 / 3), t9 ** (1 / 3), t9, t9 ** (5 / 3), np.log(t9)]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.exp(sets @ powers))
