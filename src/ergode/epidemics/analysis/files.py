"""Line lists and transmission trees as files that other programs read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ergode.core import files
from ergode.core.errors import ModelError
from ergode.epidemics.analysis.line_list import case_table, cases_of, infector_case

if TYPE_CHECKING:
    import xarray


def write_line_list(
    cases: xarray.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write a line list as CSV, with dates if the simulation had an origin.

    Parameters
    ----------
    cases : xarray.Dataset
        From ``simulate(..., output="line_list")``.
    path : path
        The file appears under this name only when it is complete.
    overwrite : bool
        Replace any existing file of this name; a folder is never replaced.

    Returns
    -------
    Path
        The path of the written file: the columns of `case_table`, one row for each case.

    Raises
    ------
    PlanError
        The name is taken, or the folder does not exist.
    WriteError
        The file could not be written, for example because the disk is full.
    """
    table = case_table(cases)
    with files.new_file(path, overwrite=overwrite) as partial:
        table.to_csv(partial, index=False)
    return Path(path)


def write_transmission_tree(
    cases: xarray.Dataset,
    path: str | os.PathLike[str],
    replicate: int = 0,
    *,
    overwrite: bool = False,
) -> Path:
    """Write who infected whom in one replicate in the Newick format.

    Parameters
    ----------
    cases : xarray.Dataset
        From ``simulate(..., output="line_list")``.
    path : path
        The file appears under this name only when it is complete.
    replicate : int
        Which replicate.
    overwrite : bool
        Replace any existing file of this name; a folder is never replaced.

    Returns
    -------
    Path
        The path of the written file. Each line is the tree of a seed or importation, which has the
        length 0. A case is a node of the tree with those that it infected as children, earliest
        first, and its generation interval as length [time]. Its label is the name or number of the
        infected node; that of the k-th infection of a node ends in ``.k`` if k is above one.

    Raises
    ------
    ModelError
        The list has no case of this replicate.
    PlanError
        The name is taken, or the folder does not exist.
    WriteError
        The file could not be written, for example because the disk is full.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> chain = ergode.ContactNetwork.from_edges([0, 1], [1, 2], directed=True)
    >>> cases = ergode.epidemics.simulate(
    ...     ergode.CompartmentModel.si(transmission_rate=1.0), chain, initial={"I": [0]},
    ...     times=[0, 1000], output="line_list", device="cpu",
    ... )
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tree.nwk")
    >>> ergode.epidemics.write_transmission_tree(cases, path).read_text()
    '((2:...)1:...)0:0;\\n'
    """
    source = infector_case(cases)
    chosen = cases_of(cases, replicate)
    if not chosen.size:
        raise ModelError(f"the line list has no case of replicate {replicate}")
    time = cases["infected_at"].values
    labels = _labels(cases, chosen)
    children: dict[int, list[int]] = {}
    roots = []
    for case in chosen[np.argsort(time[chosen], kind="stable")].tolist():
        infector = int(source[case])
        if infector < 0:
            roots.append(case)
        else:
            children.setdefault(infector, []).append(case)
    lines = []
    for root in roots:
        parts: list[str] = []
        # Without recursion, because chains of infections are long.
        waiting: list[tuple[int, str]] = [(root, "")]
        while waiting:
            case, closing = waiting.pop()
            if closing:
                parts.append(closing)
                continue
            infector = int(source[case])
            length = f"{time[case] - time[infector]:.9g}" if infector >= 0 else "0"
            end = f"{labels[case]}:{length}"
            below = children.get(case, [])
            if not below:
                parts.append(end)
                continue
            parts.append("(")
            waiting.append((case, f"){end}"))
            for number, child in reversed(list(enumerate(below))):
                waiting.append((child, ""))
                if number:
                    waiting.append((case, ","))
        lines.append("".join(parts) + ";\n")
    with files.new_file(path, overwrite=overwrite) as partial:
        partial.write_text("".join(lines), encoding="utf-8")
    return Path(path)


def _labels(cases: xarray.Dataset, chosen: np.ndarray) -> dict[int, str]:
    """Label of each case, unique in the replicate."""
    node = cases["node"].values[chosen]
    names = cases["node_name"].values[chosen] if "node_name" in cases.coords else node
    # Cases of a node follow each other in the order of time.
    first = np.flatnonzero(np.diff(node, prepend=-1))
    number = np.arange(node.size) - np.repeat(first, np.diff(np.append(first, node.size)))
    found = {}
    for case, name, again in zip(chosen.tolist(), names.tolist(), number.tolist(), strict=True):
        label = f"{name}.{again + 1}" if again else str(name)
        plain = label.replace(".", "").replace("-", "").isalnum()
        found[case] = label if plain else "'" + label.replace("'", "''") + "'"
    return found
