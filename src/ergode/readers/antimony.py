"""Reaction networks from Antimony, SBML for people to write."""

from __future__ import annotations

import os
from pathlib import Path

from ergode.core.errors import ReadError
from ergode.models.reaction_network import ReactionNetwork
from ergode.readers.sbml import read_document


def read_antimony(
    path: str | os.PathLike[str], *, split_reversible: bool = True
) -> ReactionNetwork:
    """Read a reaction network written in Antimony.

    The package ``antimony`` turns it into SBML, which `read_sbml` reads: what is said there of
    mass action, and of what is refused, holds here. A species in a formula is its concentration
    unless it is declared ``substanceOnly``; a compartment that is not declared has the size one.

    Parameters
    ----------
    path : str or path
        A file, or the text of a model itself.
    split_reversible : bool
        As for `read_sbml`; reactions written with ``->`` are reversible, with ``=>`` they are not.

    Returns
    -------
    ReactionNetwork

    Raises
    ------
    ReadError
        The text is not Antimony, or the model is one that a network cannot carry.

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
    source = "Antimony text" if given is not None else str(Path(path))
    if given is None and not Path(path).is_file():
        raise ReadError(f"{source}: there is no such file")
    try:
        import antimony
    except ImportError:
        raise ReadError(
            f"{source}: reading Antimony needs the package antimony (pip install antimony)"
        ) from None
    antimony.clearPreviousLoads()
    load = antimony.loadAntimonyFile if given is None else antimony.loadAntimonyString
    if load(str(path)) < 0:
        raise ReadError(f"{source}: {' '.join(antimony.getLastError().split())}")
    text = antimony.getSBMLString(antimony.getMainModuleName())
    antimony.clearPreviousLoads()
    return read_document(
        text, source, split_reversible=split_reversible, lines=False, implied="default_compartment"
    )
