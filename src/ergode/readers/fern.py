"""Thermonuclear networks in FERN's plain-text format: a file of species and a file of rates."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, ErgodeError, ReadError
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rates import Reaclib
from ergode.models.reactions.reaction import Reaction
from ergode.models.reactions.species import Species
from ergode.models.reactions.thermochemistry import Nucleus
from ergode.readers.bounded import file_of, located, text_of

_LINES_PER_RATE = 8
_LINES_PER_SPECIES = 4
# Temperatures of the partition functions [1e9 K].
_T9 = (
    0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0,
    6.0, 7.0, 8.0, 9.0, 10.0,
)  # fmt: skip


def read_fern(
    species_path: str | os.PathLike[str], rates_path: str | os.PathLike[str]
) -> ReactionNetwork:
    """Read a thermonuclear network.

    Parameters
    ----------
    species_path : path
        Four lines per nucleus: name, A, Z, N, initial Y and mass excess [MeV], then 24 values of
        its partition function.
    rates_path : path
        Eight lines per REACLIB set. The first has the label and numbers; from the third number on:
        the counts of reactants and products, two flags, prefactor and Q. Then follow seven
        parameters; Z and N of reactants and products; indices of reactants and of products.

    Returns
    -------
    ReactionNetwork
        Its initial values are the Y of the file [mol/g]. All sets of a reaction form one reaction.

    Warns
    -----
    AccuracyWarning
        There are electron captures: their rates are used as given in the file, without their
        dependence on the electron density.

    Raises
    ------
    ReadError
        A file does not exist or has another format; the message names the line.

    References
    ----------
    M. Guidry et al., Comput. Sci. Disc. 6, 015001 (2013).
    """
    species = list(_species(file_of(species_path)))
    nuclei = [(one.name, (one.charge_number or 0, _neutrons(one))) for one in species]
    sets: dict[tuple[tuple[str, ...], tuple[str, ...], float], list[tuple[float, ...]]] = {}
    labels: dict[tuple[tuple[str, ...], tuple[str, ...], float], str] = {}
    captures = 0
    for label, left, right, prefactor, parameters, captured in _rates(file_of(rates_path), nuclei):
        captures += captured
        key = (left, right, prefactor)
        sets.setdefault(key, []).append(parameters)
        labels.setdefault(key, label)
    if captures:
        warn(
            f"{captures} electron captures are read with rates that ignore the electron density",
            AccuracyWarning,
        )
    used: dict[str, int] = {}
    reactions = []
    for key, parameters_of in sets.items():
        left, right, prefactor = key
        used[labels[key]] = used.get(labels[key], 0) + 1
        count = used[labels[key]]
        name = labels[key] if count == 1 else f"{labels[key]} #{count}"
        reactions.append(
            Reaction(left, right, rate_constant=Reaclib(tuple(parameters_of), prefactor), name=name)
        )
    with located(rates_path):
        return ReactionNetwork(species, reactions)


def _lines(path: Path) -> list[str]:
    lines = text_of(path).splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _species(path: Path) -> Iterator[Species]:
    lines = _lines(path)
    if not lines or len(lines) % _LINES_PER_SPECIES:
        raise ReadError(
            f"{path}: {len(lines)} lines; expected {_LINES_PER_SPECIES} for every nucleus"
        )
    for first in range(0, len(lines), _LINES_PER_SPECIES):
        try:
            name, a, z, n, amount, excess = lines[first].split()
            mass, charge = int(a), int(z)
            if mass != charge + int(n) or mass < 1:
                raise ValueError
            nucleus = Nucleus(
                float(excess),
                temperatures=tuple(1e9 * t for t in _T9),
                partition=tuple(
                    float(word) for line in lines[first + 1 : first + 4] for word in line.split()
                ),
            )
            yield Species(
                name, float(amount), mass_number=mass, charge_number=charge, thermochemistry=nucleus
            )
        except (ValueError, ErgodeError):
            raise ReadError(
                f"{path}, lines {first + 1} to {first + 4}: expected 'name A Z N Y mass-excess' "
                f"and {len(_T9)} values of a partition function"
            ) from None


def _neutrons(species: Species) -> int:
    return int((species.mass_number or 0) - (species.charge_number or 0))


def _rates(
    path: Path, nuclei: list[tuple[str, tuple[int, int]]]
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...], float, tuple[float, ...], bool]]:
    lines = _lines(path)
    # Blank last lines (no products) may have been removed from the file.
    lines += [""] * (-len(lines) % _LINES_PER_RATE)
    if not lines:
        raise ReadError(f"{path} is empty; expected {_LINES_PER_RATE} lines for every rate")
    for first in range(0, len(lines), _LINES_PER_RATE):
        block = lines[first : first + _LINES_PER_RATE]
        try:
            words = block[0].split()
            label, prefactor = words[0], float(words[8])
            parameters = tuple(map(float, block[1].split()))
            left, right = (tuple(map(int, line.split())) for line in block[6:8])
            if (len(left), len(right)) != (int(words[4]), int(words[5])) or len(parameters) != 7:
                raise ValueError
            charges = [tuple(map(int, line.split())) for line in block[2:6]]
        except (ValueError, IndexError):
            raise ReadError(
                f"{path}, lines {first + 1} to {first + _LINES_PER_RATE}: not a rate; expected a "
                "label with nine numbers, seven parameters, and the indices of its reactants and "
                "products"
            ) from None
        for index in (*left, *right):
            if not 0 <= index < len(nuclei):
                raise ReadError(
                    f"{path}, line {first + 7}: rate '{label}' has the species number {index}, but "
                    f"there are {len(nuclei)}, numbered from 0"
                )
        for line, side in ((first + 3, left), (first + 5, right)):
            numbers = tuple(zip(*charges[line - first - 3 : line - first - 1], strict=False))
            meant = tuple(nuclei[index][1] for index in side)
            if numbers != meant:
                raise ReadError(
                    f"{path}, lines {line} and {line + 1}: rate '{label}' is of Z, N = "
                    f"{', '.join(map(str, numbers)) or 'none'}, but its indices mean "
                    f"{', '.join(nuclei[index][0] for index in side) or 'none'}"
                )
        reactants, products = (tuple(nuclei[i][0] for i in sorted(side)) for side in (left, right))
        yield label, reactants, products, prefactor, parameters, words[6] == "1"
