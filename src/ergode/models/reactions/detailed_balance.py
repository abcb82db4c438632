"""Networks of nuclei with thermodynamically consistent reverse rates."""

from __future__ import annotations

from collections.abc import Sequence

from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, ModelError
from ergode.core.words import counted
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rates import DetailedBalance, RateCoefficient, Reaclib
from ergode.models.reactions.reaction import Reaction
from ergode.models.reactions.species import Species
from ergode.models.reactions.thermochemistry import Nucleus

_MOST_REACTANTS = 3
Side = tuple[tuple[str, float], ...]


def balanced(network: ReactionNetwork) -> ReactionNetwork:
    """The network with every reverse rate computed from its forward rate, by detailed balance.

    The reaction that releases energy keeps its coefficient. Its reverse gets a `DetailedBalance`
    with masses, spins and partition functions of the nuclei; a missing reverse is added. Libraries
    fit both directions without partition functions, and such a network burns to a slightly
    different composition than nuclear statistical equilibrium. Parts of one rate become one
    reaction. Weak reactions, which change the sum of charges, are unchanged. Reactions with more
    than three products are left out: their reverses would have more than three reactants, and
    without a reverse the network would not reach equilibrium.

    Parameters
    ----------
    network : ReactionNetwork
        Of nuclei whose `thermochemistry` is known, with `Reaclib` coefficients.

    Warns
    -----
    RuntimeWarning
        Reactions were left out.

    Raises
    ------
    ModelError
        A species is not a nucleus with a mass, or a strong reaction has another coefficient.

    References
    ----------
    T. Rauscher, F.-K. Thielemann, At. Data Nucl. Data Tables 75, 1 (2000), section 2.

    Examples
    --------
    >>> import ergode
    >>> network = ergode.balanced(ergode.ReactionNetwork(
    ...     [
    ...         ergode.Species("c12", mass_number=12, charge_number=6,
    ...                        thermochemistry=ergode.Nucleus(0.0)),
    ...         ergode.Species("mg24", mass_number=24, charge_number=12,
    ...                        thermochemistry=ergode.Nucleus(-13.933)),
    ...     ],
    ...     [ergode.Reaction("2 c12 -> mg24", rate_constant=ergode.Reaclib([(60, *6 * (0,))]))],
    ... ))
    >>> [str(one) for one in network.reactions]
    ['2 c12 -> mg24', 'mg24 -> 2 c12']
    """
    species = {one.name: one for one in network.species}
    for one in network.species:
        if not isinstance(one.thermochemistry, Nucleus) or one.charge_number is None:
            raise ModelError(
                f"species '{one.name}' has no mass, spin or charge of a nucleus; expected a "
                "Nucleus as its thermochemistry, and a charge_number"
            )
    parts: dict[tuple[Side, Side], list[Reaction]] = {}
    for reaction in network.reactions:
        parts.setdefault((_side(reaction.reactants), _side(reaction.products)), []).append(reaction)
    done: set[tuple[Side, Side]] = set()
    reactions: list[Reaction] = []
    left_out: list[str] = []
    for key in parts:
        left, right = key
        if key in done or (right, left) in done:
            continue
        done.add(key)
        back = parts.get((right, left), [])
        if _sum(species, left, "charge") != _sum(species, right, "charge"):
            reactions += [*parts[key], *back]
            continue
        gain = _sum(species, left, "excess") - _sum(species, right, "excess")
        forward = key if gain >= 0 and parts.get(key) else (right, left)
        forward = forward if parts.get(forward) else key
        if max(sum(dict(side).values()) for side in key) > _MOST_REACTANTS:
            left_out.append(parts[forward][0].name or "")
            continue
        reactions += _pair(forward, parts[forward], back if forward == key else parts[key])
    if left_out:
        warn(
            f"left out {counted(len(left_out), 'reaction')} with more than {_MOST_REACTANTS} "
            "products, such "
            f"as '{left_out[0]}'",
            AccuracyWarning,
        )
    return ReactionNetwork(
        network.species, reactions, network.parameters, network.compartments,
        network.rules, network.events, network.name, network.rate_rules, network.continuous,
    )  # fmt: skip


def _pair(
    forward: tuple[Side, Side], ahead: Sequence[Reaction], back: Sequence[Reaction]
) -> list[Reaction]:
    """A reaction with one coefficient, and its reverse."""
    left, right = (dict(side) for side in forward)
    name = ahead[0].name
    coefficient = _together(ahead)
    first = Reaction(left, right, rate_constant=coefficient, name=name)
    reverse = back[0].name if back else f"{name} back"
    second = Reaction(right, left, rate_constant=DetailedBalance(coefficient), name=reverse)
    return [first, second]


def _together(parts: Sequence[Reaction]) -> RateCoefficient:
    """One coefficient that is the sum of several."""
    sets: list[tuple[float, ...]] = []
    for one in parts:
        if not isinstance(one.value, Reaclib) or one.value.prefactor != parts[0].value.prefactor:  # type: ignore[union-attr]
            raise ModelError(
                f"reaction '{one.name}' has the coefficient {one.value!r}; expected Reaclib, with "
                "one prefactor for all its parts"
            )
        sets += one.value.sets
    return Reaclib(tuple(sets), parts[0].value.prefactor)  # type: ignore[union-attr]


def _side(counts: object) -> Side:
    return tuple(sorted(counts.items()))  # type: ignore[attr-defined]


def _sum(species: dict[str, Species], side: Side, what: str) -> float:
    total = 0.0
    for name, count in side:
        known = species[name].thermochemistry
        assert isinstance(known, Nucleus)
        number = species[name].charge_number or 0
        total += count * (number if what == "charge" else known.mass_excess)
    return total
