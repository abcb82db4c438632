"""Tables of electron captures and beta decays, over electron density and temperature.

The format is that of the published rates of Langanke and Martinez-Pinedo, Suzuki and others:
a first line ``!17f -> 17o``, more lines with ``!``, and columns of log10(rho Y_e), log10(T),
three energies, log10 of the rate [1/s] and of two losses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ergode.core.errors import ReadError
from ergode.models.reactions.rates import WeakTable
from ergode.models.reactions.reaction import Reaction
from ergode.readers.bounded import file_of, located, text_of

_RATE_COLUMN = 5
_FIRST = re.compile(r"!\s*([0-9a-zA-Z]+)\s*(?:\([^)]*\))?\s*->\s*([0-9a-zA-Z]+)")
_NUCLEUS = re.compile(r"(\d+)([A-Za-z]+)|([A-Za-z]+)(\d+)|([np])")


def read_weak_rates(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> list[Reaction]:
    """Read weak reactions from tables, one per file.

    Parameters
    ----------
    paths : path, or iterable of paths

    Returns
    -------
    list of Reaction
        Their coefficients are `WeakTable`; nuclei are spelled ``"f17"``, nucleons ``"n"``, ``"p"``.

    Raises
    ------
    ReadError
        A file does not exist or is not such a table; the message names the line.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    return [_read(file_of(path)) for path in paths]


def _read(path: Path) -> Reaction:
    lines = text_of(path, errors="replace").splitlines()
    match = _FIRST.match(lines[0]) if lines else None
    if match is None:
        raise ReadError(f"{path}, line 1: expected two nuclei, such as '!17f -> 17o'")
    rows = []
    for number, line in enumerate(lines, 1):
        if line.startswith("!") or not line.strip():
            continue
        try:
            words = [float(word) for word in line.split()]
            rows.append((words[0], words[1], words[_RATE_COLUMN]))
        except (ValueError, IndexError):
            raise ReadError(
                f"{path}, line {number}: '{line.strip()}'; expected {_RATE_COLUMN + 1} numbers or "
                "more"
            ) from None
    table = np.array(rows).reshape(-1, 3)
    dense, hot = (np.unique(table[:, column]) for column in (0, 1))
    order = np.lexsort((table[:, 1], table[:, 0]))
    whole = table[order].reshape(-1, 3)
    if len(whole) != dense.size * hot.size or not len(whole):
        raise ReadError(
            f"{path}: {len(whole)} rows for {dense.size} electron densities and {hot.size} "
            "temperatures; expected one for each of both"
        )
    sides = [_spelled(name, path) for name in match.groups()]
    with located(path):
        rate = WeakTable(
            tuple(dense), tuple(hot), tuple(map(tuple, whole[:, 2].reshape(dense.size, hot.size)))
        )
        return Reaction([sides[0]], [sides[1]], rate_constant=rate, name=f"{path.stem}")


def _spelled(name: str, path: Path) -> str:
    match = _NUCLEUS.fullmatch(name)
    if match is None:
        raise ReadError(f"{path}, line 1: '{name}' is not a nucleus; expected such as '17f'")
    if match[5]:
        return match[5]
    symbol, mass = (match[2], match[1]) if match[1] else (match[3], match[4])
    small = f"{symbol.lower()}{mass}"
    return {"h1": "p", "n1": "n"}.get(small, small)
