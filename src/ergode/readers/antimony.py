"""Reaction networks from Antimony, a human-readable form of SBML."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

from ergode.core.errors import ReadError
from ergode.models.reactions.network import ReactionNetwork
from ergode.readers.bounded import file_of
from ergode.readers.sbml import read_document

_SECONDS = 120  # models with thousands of reactions take a few seconds


def read_antimony(
    path: str | os.PathLike[str], *, split_reversible: bool = True
) -> ReactionNetwork:
    """Read a reaction network written in Antimony.

    The package ``antimony`` converts the model to SBML, which `read_sbml` reads, with the same
    rules for mass action and the same unsupported elements. In a formula, a species is its
    concentration unless it is declared ``substanceOnly``; an undeclared compartment has the size
    one.

    Parameters
    ----------
    path : str or path
        A file, or the text of a model itself.
    split_reversible : bool
        As for `read_sbml`. Reactions written with ``->`` are reversible, those with ``=>`` are not.

    Returns
    -------
    ReactionNetwork

    Raises
    ------
    ReadError
        The text is not valid Antimony, or a `ReactionNetwork` cannot represent the model.

    References
    ----------
    L. P. Smith, F. T. Bergmann, D. Chandran, H. M. Sauro, Antimony: a modular model definition
    language, Bioinformatics 25, 2452 (2009).

    Examples
    --------
    >>> import ergode
    >>> network = ergode.read_antimony('''
    ...     birth: -> X; k
    ...     death: X -> ; 0.1 * X
    ...     k = 10; X = 0
    ... ''')
    >>> print(network.propensities())
    birth  0 -> X  k
    death  X -> 0  0.1 * X
    """
    given = str(path) if isinstance(path, str) and any(mark in path for mark in "\n;=>") else None
    source = "Antimony text" if given is not None else str(file_of(path))
    if given is None and not file_of(path).is_file():
        raise ReadError(f"{source}: there is no such file")
    if find_spec("antimony") is None:
        raise ReadError(
            f"{source}: reading Antimony needs the package antimony (pip install antimony)"
        )
    return read_document(
        _sbml(given, source), source, split_reversible=split_reversible, lines=False,
        implied="default_compartment",
    )  # fmt: skip


# In a separate process: for some texts the package never returns, or exhausts the memory.
_CONVERT = """
import os
import sys
import antimony
text = sys.stdin.buffer.read().decode("utf-8-sig")
if not text:
    with open(sys.argv[1], "rb") as file:
        start = file.read(3)
        if start == b"\\xef\\xbb\\xbf":  # a byte order mark, which Antimony does not take
            text = file.read().decode("utf-8", "replace")
            antimony.addDirectory(os.path.dirname(os.path.abspath(sys.argv[1])))  # of imports
try:
    load = antimony.loadAntimonyString if text else antimony.loadAntimonyFile
    if load(text or sys.argv[1]) < 0:
        sys.exit("2" + antimony.getLastError())
    sbml = antimony.getSBMLString(antimony.getMainModuleName())
except UnicodeError:
    sys.exit("2it has a character that Antimony does not take; expected ASCII")
sys.stdout.buffer.write(sbml.encode("utf-8"))
"""


def _sbml(given: str | None, source: str) -> str:
    """SBML that the package ``antimony`` makes from a file or a text."""
    command = [sys.executable, "-c", _CONVERT, *([] if given is not None else [source])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command, input=(given or "").encode("utf-8", "replace"), capture_output=True,
            timeout=_SECONDS, check=False, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ReadError(
            f"{source}: the package antimony did not read it within {_SECONDS} seconds"
        ) from None
    if done.returncode == 0:
        return done.stdout.decode("utf-8")
    said = done.stderr.decode("utf-8", "replace").strip()
    if done.returncode == 1 and said.startswith("2"):
        raise ReadError(f"{source}: {' '.join(said[1:].split())}")
    last = f": {said.splitlines()[-1].strip()}" if said else ""
    raise ReadError(f"{source}: the package antimony failed on it (exit {done.returncode}){last}")
