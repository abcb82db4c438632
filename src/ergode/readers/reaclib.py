"""Thermonuclear networks: rates from a JINA REACLIB file, nuclei from pynucastro."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, ReadError
from ergode.core.words import counted
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rates import Reaclib
from ergode.models.reactions.reaction import Reaction
from ergode.models.reactions.species import Species
from ergode.models.reactions.thermochemistry import Nucleus
from ergode.readers.bounded import text_of
from ergode.readers.weak_rates import read_weak_rates

# Reactants and products of each chapter.
_CHAPTERS = {
    1: (1, 1), 2: (1, 2), 3: (1, 3), 4: (2, 1), 5: (2, 2), 6: (2, 3), 7: (2, 4), 8: (3, 1),
    9: (3, 2), 10: (4, 2), 11: (1, 4),
}  # fmt: skip
_MOST_REACTANTS = 3
_NAME_WIDTH, _NUMBER_WIDTH = 5, 13
_ELECTRON_CAPTURES = ("ec", "bec")
Key = tuple[tuple[str, ...], tuple[str, ...], str]


def read_reaclib(
    nuclei: Iterable[str],
    *,
    library: str | os.PathLike[str] | None = None,
    weak: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
) -> ReactionNetwork:
    """Build the network of all REACLIB rates between given nuclei.

    Parameters
    ----------
    nuclei : iterable of str
        Names such as ``["p", "he4", "c12"]``; ``"n"`` is the neutron.
    library : path, optional
        A file in the format REACLIB 2; by default the newest that pynucastro includes.
    weak : path, or iterable of paths
        Tables of weak rates (see `read_weak_rates`); rates between the given nuclei replace those
        of REACLIB.


    Returns
    -------
    ReactionNetwork
        With masses, spins and partition functions. Reverse rates are those of REACLIB, which ignore
        excited states: above about 2e9 K use ``ergode.balanced(network)``. Electron captures are
        proportional to the electron density. Omitted are the few reactions with four reactant
        nuclei.

    Raises
    ------
    ReadError
        A name is not a nucleus, a file cannot be read, or pynucastro is not installed.

    Warns
    -----
    AccuracyWarning
        Reactions were omitted.

    Notes
    -----
    Needs the package ``pynucastro`` (``pip install 'ergode[nuclear]'``) for properties of nuclei.

    References
    ----------
    R. H. Cyburt et al., Astrophys. J. Suppl. 189, 240 (2010).
    """
    place = find_spec("pynucastro")
    if place is None or place.origin is None:
        raise ReadError("reading nuclei needs pynucastro: pip install 'ergode[nuclear]'")
    names = list(dict.fromkeys(str(name).lower() for name in nuclei))
    members = [_nucleus(name) for name in names]
    if not members:
        raise ReadError("nuclei is empty; expected at least one")
    if library is None:
        library = max(Path(place.origin).parent.glob("data/reaclib_default2_*"))
    known = set(names)
    tables = [one for one in read_weak_rates(weak) if {*one.reactants, *one.products} <= known]
    tabulated = {(tuple(one.reactants), tuple(one.products)) for one in tables}
    sets: dict[Key, list[tuple[float, ...]]] = {}
    crowds = set()
    for left, right, label, numbers in _sets(Path(library), known):
        key = left, right, label
        if len(left) > _MOST_REACTANTS:
            crowds.add(key)
        elif (left, right) not in tabulated:
            sets.setdefault(key, []).append(numbers)
    if crowds:
        warn(
            f"left out {counted(len(crowds), 'reaction')} of four nuclei; a reaction has three "
            "reactants at most",
            AccuracyWarning,
        )
    return ReactionNetwork([species_of(one) for one in members], [*_reactions(sets), *tables])


def _nucleus(name: str) -> Any:
    import pynucastro

    try:
        return pynucastro.Nucleus(name)
    except Exception:
        raise ReadError(f"'{name}' is not a nucleus; expected such as 'he4'") from None


def _reactions(sets: dict[Key, list[tuple[float, ...]]]) -> Iterator[Reaction]:
    used: Counter[str] = Counter()
    for (left, right, label), numbers in sets.items():
        name = f"{' + '.join(left)} -> {' + '.join(right)} ({label})"
        used[name] += 1
        prefactor = 1.0 / math.prod(math.factorial(n) for n in Counter(left).values())
        yield Reaction(
            left, right,
            rate_constant=Reaclib(tuple(numbers), prefactor, label in _ELECTRON_CAPTURES),
            name=name if used[name] == 1 else f"{name} #{used[name]}",
        )  # fmt: skip


def _sets(
    path: Path, known: set[str]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], str, tuple[float, ...]]]:
    """Reactants, products, label and seven parameters of every set between known nuclei."""
    lines = text_of(path, encoding="ascii", errors="replace").splitlines()
    place = 0
    while place < len(lines):
        first = lines[place].strip()
        if not first:
            place += 1
            continue
        try:
            before, after = _CHAPTERS[int(first)]
            header = lines[place + 1]
        except (ValueError, KeyError, IndexError):
            raise ReadError(
                f"{path}, line {place + 1}: '{first}'; expected the number of a chapter, 1 to 11, "
                "and a set of three lines"
            ) from None
        starts = range(_NAME_WIDTH, (before + after + 1) * _NAME_WIDTH, _NAME_WIDTH)
        members = [header[k : k + _NAME_WIDTH].strip() for k in starts]
        if known.issuperset(members):
            try:
                text = [
                    line[k * _NUMBER_WIDTH : (k + 1) * _NUMBER_WIDTH]
                    for line, count in ((lines[place + 2], 4), (lines[place + 3], 3))
                    for k in range(count)
                ]
                numbers = tuple(map(float, text))
            except (ValueError, IndexError):
                raise ReadError(
                    f"{path}, line {place + 3}: expected four numbers of {_NUMBER_WIDTH} "
                    "characters, and three in the next line"
                ) from None
            yield tuple(members[:before]), tuple(members[before:]), header[43:47].strip(), numbers
        place += 4


def species_of(nucleus: Any) -> Species:
    """The species of a nucleus of pynucastro."""
    function = nucleus.partition_function
    temperatures: tuple[float, ...] = ()
    partition: tuple[float, ...] = ()
    if function is not None:
        temperatures = tuple(1e9 * float(t) for t in function.T9_points)
        partition = tuple(math.exp(g) for g in function.log_pf_data)
    return Species(
        nucleus.raw,
        mass_number=int(nucleus.A),
        charge_number=int(nucleus.Z),
        thermochemistry=Nucleus(
            float(nucleus.dm or 0.0), ((nucleus.spin_states or 1) - 1) / 2, temperatures, partition
        ),
    )
