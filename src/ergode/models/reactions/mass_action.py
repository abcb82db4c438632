"""Exact conversion between mass action and rate formulas.

The rate of a reaction [amount / time] with the deterministic constant k, in a compartment of size
V, is k V^(1 - m) times the number of ordered choices of its m reactants; with Gillespie's c it is
c times the number of choices.  In a formula a species is its amount n, or its concentration
n / V, depending on its `quantity`; so n (n - 1) is ``S * (S - 1)`` or ``V^2 * S * (S - 1 / V)``.

A formula is converted to mass action only if it is the same function of the amounts.  With one
reactant of each species, stochastic and deterministic mass action agree.  With two reactants of one
species, ``k * S * (S - 1) / 2`` is stochastic mass action, and ``k * S * S`` is not: its propensity
is k n^2.  The latter is deterministic mass action, and `deterministic` converts it.

References
----------
D. T. Gillespie, J. Comput. Phys. 22, 403 (1976), section 2.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

from ergode.core.errors import ModelError
from ergode.models.expressions import Expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rates import RateCoefficient
from ergode.models.reactions.reaction import Law, Reaction
from ergode.models.reactions.species import Species

_LARGEST_POWER = 32
_MOST_ALIKE = 20  # largest number of equal reactants in the search for mass action
_SMALLEST, _LARGEST = 1e-300, 1e300
_WHOLE = 2**53  # integers below are exact as floats


def law_of(
    reaction: Reaction, species: Mapping[str, Species], continuous: Collection[str] = ()
) -> Expression:
    """The rate of a reaction [amount / time] as one formula in the names of its network.

    Of species in `continuous`, whose amounts are real numbers, equal molecules count as n^2. A
    species is there by its `symbol`.

    Raises a ModelError if its coefficient depends on conditions, a stoichiometry of mass action is
    not whole, or a deterministic rate constant has reactants in different compartments.

    Examples
    --------
    >>> import ergode
    >>> from ergode.models.reactions.mass_action import law_of
    >>> pairing = ergode.Reaction("2 P -> P2", stochastic_rate_constant="c")
    >>> law_of(pairing, {"P": ergode.Species("P")}).text
    'c * P * (P - 1.0) / 2.0'
    """
    value = reaction.value
    if isinstance(value, RateCoefficient):
        raise ModelError(
            f"the rate of reaction '{_called(reaction)}' depends on conditions; it has no formula"
        )
    factors = _Product.of(value)
    if reaction.law != Law.RATE:
        members = [(species[name], count) for name, count in reaction.reactants.items()]
        powers, ways = _volumes(members), 1
        for member, count in members:
            if count != int(count):
                raise ModelError(
                    f"reaction '{_called(reaction)}' takes {count:g} '{member.name}'; mass action "
                    "needs whole numbers: give its rate"
                )
            ways *= math.factorial(int(count))
            real = member.name in continuous
            factors.atoms += [(_falling(member, 0 if real else j), 1) for j in range(int(count))]
        if reaction.law == Law.STOCHASTIC:
            factors.number /= ways
        else:
            volume = _place(reaction, species)
            if volume is None and _places(reaction, species) - {None}:
                raise ModelError(
                    f"reaction '{_called(reaction)}' has species in different compartments; a "
                    "deterministic rate_constant has no meaning there"
                )
            if volume is not None:
                order = int(sum(reaction.reactants.values()))
                powers[volume] = powers.get(volume, 0) + 1 - order
        factors.atoms += [(ast.Name(v, ast.Load()), power) for v, power in powers.items() if power]
    return Expression.from_tree(factors.tree())


def symbol(name: str) -> str:
    """A species in a formula: its name, or a word for a name that no formula can have, as ``H3O+``.

    Examples
    --------
    >>> from ergode.models.reactions.mass_action import symbol
    >>> symbol("A"), symbol("A[0]")
    ('A', 'species_415b305d')
    """
    return name if name.isidentifier() else f"species_{name.encode().hex()}"


def recognise(
    law: Expression,  # rate [amount / time]
    reactants: Mapping[str, float],
    products: Mapping[str, float],
    species: Mapping[str, Species],
    fixed: Collection[str],  # names of parameters and compartments
    *,
    # read the law as deterministic, of concentrations: ``S^2`` for two equal reactants
    powers: bool = False,
    continuous: Collection[str] = (),  # names of species whose amounts are real numbers
) -> dict[str, Any]:
    """Keyword argument of `Reaction` for a law: mass action if that is exact, otherwise ``rate``.

    Returns
    -------
    dict
        One item: ``rate_constant``, ``stochastic_rate_constant`` or ``rate``.

    Examples
    --------
    >>> from ergode import Species
    >>> from ergode.models.expressions import Expression
    >>> from ergode.models.reactions.mass_action import recognise
    >>> known = {"P": Species("P")}
    >>> recognise(Expression("k * P * (P - 1) / 2"), {"P": 2}, {}, known, {"k"})
    {'stochastic_rate_constant': Expression('k')}
    >>> recognise(Expression("k * P * P"), {"P": 2}, {}, known, {"k"})
    {'rate': Expression('k * P * P')}
    """
    whole: dict[str, Any] = {"rate": law if law.names else law.evaluate({})}
    if any(count != int(count) or count > _MOST_ALIKE for count in reactants.values()):
        return whole
    members = [(species[name], int(count)) for name, count in reactants.items()]
    factors = _Product()
    if not factors.multiply(law.tree, 1) or not _SMALLEST < factors.number < _LARGEST:
        return whole
    left = factors.powers()
    for member, count in members:
        wanted = (
            {member.name: count}
            if powers or member.name in continuous
            else {ast.unparse(_falling(member, j)): 1 for j in range(count)}
        )
        for text, power in wanted.items():
            if left.pop(text, (None, 0))[1] != power:
                return whole
    free = set(fixed)
    if any(not _names(tree) <= free for tree, _ in left.values()):
        return whole

    given = Reaction(reactants, products, rate=law)
    order = sum(count for _, count in members)
    volumes = _volumes(members)
    ways = math.prod(math.factorial(count) for _, count in members)
    found = []
    if not powers:
        counted = {name: -power for name, power in volumes.items()}
        found.append(("stochastic_rate_constant", factors.number * ways, counted))
    place = _place(given, species)
    if place is not None or not _places(given, species) - {None}:
        per_volume = {name: -power for name, power in volumes.items()}
        if place is not None:
            per_volume[place] = per_volume.get(place, 0) + order - 1
        found.append(("rate_constant", factors.number, per_volume))
    if not found:
        return whole
    concentrations = any(
        species[name].quantity == "concentration" for name in (reactants or products)
    )
    sizes = {place for place in _places(given, species) if place is not None}
    choices = []
    for word, number, powers_of in found:
        constant, size_count = _constant(number, left, powers_of, sizes)
        preferred = (word == "rate_constant") == concentrations
        choices.append(((size_count + (number != 1), not preferred), word, constant))
    _, word, constant = min(choices, key=lambda choice: choice[0])
    return {word: constant}


def both_ways(law: Expression, fixed: Collection[str]) -> tuple[Expression, Expression] | None:
    """The two rates whose difference is the law; None if it is not a difference.

    For example, ``V * (kf * A - kr * B)`` is ``V * kf * A`` less ``V * kr * B``. A term without a
    constant, such as ``P * (P - 1)``, is not split.

    Examples
    --------
    >>> from ergode.models.expressions import Expression
    >>> from ergode.models.reactions.mass_action import both_ways
    >>> both_ways(Expression("V * (kf * A - kr * B)"), {"V", "kf", "kr"})
    (Expression('V * (kf * A)'), Expression('V * (kr * B)'))
    """
    ahead: list[ast.expr] = []
    back: list[ast.expr] = []
    _take_apart(law.tree, frozenset(fixed), ahead, back)
    if not ahead or not back:
        return None
    total_ahead, total_back = (
        reduce(lambda a, b: ast.BinOp(a, ast.Add(), b), terms) for terms in (ahead, back)
    )
    return Expression.from_tree(total_ahead), Expression.from_tree(total_back)


def _take_apart(
    tree: ast.expr, fixed: frozenset[str], ahead: list[ast.expr], back: list[ast.expr]
) -> None:
    """Collect the positive and the negative terms of a sum."""
    match tree:
        case ast.BinOp(left, ast.Add(), right):
            _take_apart(left, fixed, ahead, back)
            _take_apart(right, fixed, ahead, back)
        case ast.BinOp(left, ast.Sub(), right):
            _take_apart(left, fixed, ahead, back)
            _take_apart(right, fixed, back, ahead)
        case ast.UnaryOp(ast.USub(), operand):
            _take_apart(operand, fixed, back, ahead)
        case ast.BinOp(left, ast.Mult() | ast.Div() as operator, right):
            if (positive := _without_minus(tree)) is not None:
                _take_apart(positive, fixed, back, ahead)
            elif (parts := _parts(left, fixed)) is not None:
                for terms, side in zip((ahead, back), parts, strict=True):
                    terms.append(ast.BinOp(side, operator, right))
            elif isinstance(operator, ast.Mult) and (parts := _parts(right, fixed)) is not None:
                for terms, side in zip((ahead, back), parts, strict=True):
                    terms.append(ast.BinOp(left, operator, side))
            else:
                ahead.append(tree)
        case _:
            ahead.append(tree)


def _without_minus(tree: ast.expr) -> ast.expr | None:
    """A product that begins with a minus sign, without the sign."""
    match tree:
        case ast.UnaryOp(ast.USub(), operand):
            return operand
        case ast.BinOp(left, ast.Mult() | ast.Div() as operator, right):
            positive = _without_minus(left)
            return None if positive is None else ast.BinOp(positive, operator, right)
    return None


def _parts(tree: ast.expr, fixed: frozenset[str]) -> tuple[ast.expr, ast.expr] | None:
    """The two terms of a factor that is a difference of variable terms."""
    match tree:
        case ast.BinOp(left, ast.Sub(), right):
            changes = not _names(left) <= fixed and not _names(right) <= fixed
            return (left, right) if changes else None
        case ast.BinOp(left, ast.Mult() | ast.Div() as operator, right):
            if (parts := _parts(left, fixed)) is not None:
                return tuple(ast.BinOp(side, operator, right) for side in parts)  # type: ignore
            if isinstance(operator, ast.Mult) and (parts := _parts(right, fixed)) is not None:
                return tuple(ast.BinOp(left, operator, side) for side in parts)  # type: ignore
    return None


def deterministic(network: ReactionNetwork) -> ReactionNetwork:
    """The network for deterministic integration, with mass action where possible.

    Rates such as ``k * cell * A^2`` for ``2 A -> B`` become ``rate_constant="k"``, which gives the
    same rate of change of concentrations (but another propensity). Gillespie's c becomes the k of
    many molecules, c V^(m - 1) over the factorials.

    Examples
    --------
    >>> import ergode
    >>> from ergode.models.reactions.mass_action import deterministic
    >>> pairing = ergode.Reaction("2 A -> B", rate="k * A * A")
    >>> network = ergode.ReactionNetwork({"A": 1, "B": 0}, [pairing], parameters={"k": 2.0})
    >>> deterministic(network).reactions[0].law.name
    'DETERMINISTIC'
    """
    table = network.reactions
    if (table.laws == Law.DETERMINISTIC).all():
        return network
    species = {member.name: member for member in network.species}
    fixed = {*network.parameters, *(place.name for place in network.compartments)}
    reactions = [_without_chance(reaction, species, fixed) for reaction in table]
    return ReactionNetwork(
        network.species, reactions, network.parameters, network.compartments,
        network.rules, network.events, network.name, network.rate_rules, network.continuous,
    )  # fmt: skip


def _without_chance(
    reaction: Reaction, species: Mapping[str, Species], fixed: Collection[str]
) -> Reaction:
    left, right, value = reaction.reactants, reaction.products, reaction.value
    found: dict[str, Any] | None = None
    if isinstance(value, RateCoefficient) or reaction.law == Law.DETERMINISTIC:
        return reaction
    if reaction.law == Law.RATE:
        law = value if isinstance(value, Expression) else Expression(repr(value))
        found = recognise(law, left, right, species, fixed, powers=True)
    elif len(_places(reaction, species)) <= 1 and all(n == int(n) for n in left.values()):
        constant = _Product.of(value)
        constant.number /= math.prod(math.factorial(int(count)) for count in left.values())
        place, order = _place(reaction, species), int(sum(left.values()))
        if place is not None and order != 1:
            constant.atoms.append((ast.Name(place, ast.Load()), order - 1))
        found = {
            "rate_constant": Expression.from_tree(constant.tree())
            if constant.atoms
            else float(constant.number)
        }
    if found is None:
        return reaction
    return Reaction(left, right, name=reaction.name, delay=reaction.delay,
                    consuming=reaction.consuming, **found)  # fmt: skip


class _Product:
    """A number times powers of formulas."""

    def __init__(self) -> None:
        self.number = Fraction(1)
        self.atoms: list[tuple[ast.expr, int]] = []

    @classmethod
    def of(cls, value: float | Expression) -> _Product:
        """A coefficient as a product with its formula as one factor."""
        product = cls()
        if isinstance(value, Expression):
            product.atoms.append((value.tree, 1))
        else:
            product.number = Fraction(value)
        return product

    def multiply(self, tree: ast.expr, power: int) -> bool:
        """Multiply by a formula, split into factors; False if the result is not finite."""
        match tree:
            case ast.BinOp(left, ast.Mult(), right):
                return self.multiply(left, power) and self.multiply(right, power)
            case ast.BinOp(left, ast.Div(), right):
                return self.multiply(left, power) and self.multiply(right, -power)
            case ast.BinOp(left, ast.Pow(), ast.Constant(float(value))) if abs(
                value * power
            ) <= _LARGEST_POWER and value == int(value):
                return self.multiply(left, power * int(value))
            case ast.UnaryOp(ast.USub(), operand):
                self.number *= (-1) ** (power % 2)
                return self.multiply(operand, power)
            case ast.UnaryOp(ast.UAdd(), operand):
                return self.multiply(operand, power)
            case ast.Constant(float(value)):
                if not math.isfinite(value) or (value == 0 and power < 0):
                    return False
                self.number *= Fraction(value) ** power
                return True
        self.atoms.append((tree, power))
        return True

    def powers(self) -> dict[str, tuple[ast.expr, int]]:
        """The power of every formula, by its text."""
        result: dict[str, tuple[ast.expr, int]] = {}
        for tree, power in self.atoms:
            text = ast.unparse(tree)
            result[text] = (tree, result.get(text, (tree, 0))[1] + power)
        return result

    def tree(self) -> ast.expr:
        """The formula of the product: numerators first, then denominators."""
        top = [(tree, power) for tree, power in self.atoms if power > 0]
        bottom = [(tree, -power) for tree, power in self.atoms if power < 0]
        whole, part = _as_floats(self.number)
        if whole != 1 or not top:
            top.insert(0, (ast.Constant(whole), 1))
        if part != 1:
            bottom.append((ast.Constant(part), 1))
        result = _power(*top[0])
        for factor in top[1:]:
            result = ast.BinOp(result, ast.Mult(), _power(*factor))
        for factor in bottom:
            result = ast.BinOp(result, ast.Div(), _power(*factor))
        return result


def _as_floats(number: Fraction) -> tuple[float, float]:
    """A number as a quotient of floats: 1 / n if it is the reciprocal of an integer."""
    one = float(number)
    if number.numerator < _WHOLE and number.denominator < _WHOLE:
        above, below = float(number.numerator), float(number.denominator)
        if Fraction(one) != number or (above == 1 and below < 1000):
            return above, below
    return one, 1.0


def _constant(
    number: Fraction,
    left: Mapping[str, tuple[ast.expr, int]],
    volumes: Mapping[str, int],
    sizes: set[str],
) -> tuple[float | Expression, int]:
    """A rate constant from its factors, and the number of compartment sizes among them."""
    powers = dict(left)
    for name, power in volumes.items():
        powers[name] = (ast.Name(name, ast.Load()), power + powers.get(name, (None, 0))[1])
    size_count = sum(powers[name][1] != 0 for name in sizes & set(powers))
    product = _Product()
    product.number = number
    product.atoms = [(tree, power) for tree, power in powers.values() if power]
    tree = product.tree()
    return (float(number) if not product.atoms else Expression.from_tree(tree)), size_count


def _power(tree: ast.expr, power: int) -> ast.expr:
    return tree if power == 1 else ast.BinOp(tree, ast.Pow(), ast.Constant(float(power)))


def _falling(member: Species, j: int) -> ast.expr:
    """Formula of the amount of a species after j molecules are taken."""
    amount = ast.Name(symbol(member.name), ast.Load())
    if j == 0:
        return amount
    taken: ast.expr = ast.Constant(float(j))
    if member.quantity == "concentration" and member.compartment is not None:
        taken = ast.BinOp(taken, ast.Div(), ast.Name(member.compartment, ast.Load()))
    return ast.BinOp(amount, ast.Sub(), taken)


def _volumes(members: Iterable[tuple[Species, float]]) -> dict[str, int]:
    """Powers of compartment sizes that convert a product of species' names to amounts."""
    powers: dict[str, int] = {}
    for member, count in members:
        if member.quantity == "concentration" and member.compartment is not None:
            powers[member.compartment] = powers.get(member.compartment, 0) + int(count)
    return powers


def _places(reaction: Reaction, species: Mapping[str, Species]) -> set[str | None]:
    return {species[name].compartment for name in (reaction.reactants or reaction.products)}


def _place(reaction: Reaction, species: Mapping[str, Species]) -> str | None:
    """The compartment of all reactants (of all products if there are none); None if they differ."""
    places = _places(reaction, species)
    return next(iter(places)) if len(places) == 1 else None


def _names(tree: ast.expr) -> frozenset[str]:
    return Expression.from_tree(tree).names


def _called(reaction: Reaction) -> str:
    return str(reaction if reaction.name is None else reaction.name)
