"""REACLIB's fits below 1e7 K, where some of them grow without bound."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ergode.core.errors import AccuracyWarning
from ergode.core.launch import warn
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rates import Reaclib

COLDEST = 1e7
"""Lowest temperature of the fits [K] (R. H. Cyburt et al., ApJS 189, 240 (2010))."""

_GROWN, _FAINT = 10.0, 1e-10  # a coefficient that is larger by this factor, and not negligible


def warn_of_cold_fits(network: ReactionNetwork, temperature: np.ndarray, remedy: str) -> None:
    """Warn if a coefficient is far larger at the coldest temperature than at 1e7 K."""
    coldest = float(temperature.min(initial=np.inf))
    if not 0.0 < coldest < COLDEST:
        return
    sets, owners, numbers = _fits(network)
    if not numbers.size:
        return
    usual, found = (
        np.bincount(owners, _values(sets, one), minlength=numbers.size)
        for one in (COLDEST, coldest)
    )
    wild = np.flatnonzero(~(found <= np.maximum(_GROWN * usual, _FAINT)))
    if not wild.size:
        return
    worst = wild[np.argmax(np.nan_to_num(found[wild], nan=np.inf))]
    warn(
        f"at {coldest:g} K {wild.size} of {numbers.size} fits of REACLIB, which hold from 1e7 K, "
        f"are far larger than at 1e7 K: {network.reactions.name_of(int(numbers[worst]))} has "
        f"{found[worst]:.2g} instead of {usual[worst]:.2g} [mol, cm, s]; {remedy}",
        AccuracyWarning,
    )


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
