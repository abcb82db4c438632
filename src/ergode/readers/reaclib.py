"""Thermonuclear networks from JINA REACLIB, by way of pynucastro."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

from ergode.core.errors import ReadError
from ergode.models.rate_coefficients import Reaclib
from ergode.models.reaction_network import ReactionNetwork
from ergode.models.reactions import Reaction
from ergode.models.species import Species
from ergode.models.thermochemistry import Nucleus


def read_reaclib(nuclei: Iterable[str]) -> ReactionNetwork:
    """The network of all REACLIB rates between some nuclei.

    Parameters
    ----------
    nuclei : iterable of str
        Such as ``["p", "he4", "c12"]``; ``"n"`` is the neutron.

    Returns
    -------
    ReactionNetwork
        With masses, spins and partition functions. Left out are electron captures, whose REACLIB
        rates hold the density of electrons (`weak` has them on tables), and the few reactions in
        which four nuclei meet.

    Raises
    ------
    ReadError
        A name is no nucleus, or pynucastro is not installed.

    Warns
    -----
    RuntimeWarning
        Reactions were left out.

    Notes
    -----
    Needs the package ``pynucastro`` (``pip install 'ergode[nuclear]'``), which has the library.

    References
    ----------
    R. H. Cyburt et al., Astrophys. J. Suppl. 189, 240 (2010).
    """
    try:
        import pynucastro
    except ImportError:
        raise ReadError("REACLIB comes with pynucastro: pip install 'ergode[nuclear]'") from None
    names = list(dict.fromkeys(str(name).lower() for name in nuclei))
    members = []
    for name in names:
        try:
            members.append(pynucastro.Nucleus(name))
        except Exception:
            raise ReadError(f"'{name}' is no nucleus; expected such as 'he4'") from None
    if not members:
        raise ReadError("nuclei is empty; expected at least one")
    library = pynucastro.ReacLibLibrary().linking_nuclei(names, print_warning=False)
    rates = library.get_rates() if library is not None else []
    captures = [rate for rate in rates if rate.weak_type == "electron_capture"]
    if captures:
        warnings.warn(
            f"left out {len(captures)} electron captures, which depend on the density of electrons",
            RuntimeWarning,
            stacklevel=2,
        )
    reactions = []
    used: dict[str, int] = {}
    for rate in rates:
        if rate in captures:
            continue
        label = rate.fname
        used[label] = used.get(label, 0) + 1
        reactions.append(
            Reaction(
                [one.raw for one in rate.reactants],
                [one.raw for one in rate.products],
                rate_constant=Reaclib(
                    tuple(tuple(one.a) for one in rate.sets), float(rate.prefactor)
                ),
                name=label if used[label] == 1 else f"{label} #{used[label]}",
            )
        )
    return ReactionNetwork([_species(one) for one in members], reactions)


def _species(nucleus: Any) -> Species:
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
            float(nucleus.dm or 0.0),
            ((nucleus.spin_states or 1) - 1) / 2,
            temperatures,
            partition,
        ),
    )
