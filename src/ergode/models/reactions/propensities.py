"""Propensities of all reactions as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from ergode.core.errors import ModelError
from ergode.models.expressions import Expression
from ergode.models.reactions.rates import RateCoefficient
from ergode.models.reactions.reaction import Law

if TYPE_CHECKING:
    from ergode.models.reactions.network import ReactionNetwork

_SHOWN_MOST = 60


class Propensities(Sequence[str]):
    """Propensity of every reaction [1 / time] as a formula in amounts of molecules.

    Volumes and combinations are written out; ``print`` shows a table. The name of a species is its
    amount everywhere, also where the formula of a rate has its concentration: that is ``A / cell``.
    Rules stay names; in their own formulas a species is what its `quantity` says.
    """

    def __init__(self, network: ReactionNetwork) -> None:
        self._network = network
        self._amounts = {
            one.name: Expression(f"{one.name} / {one.compartment}")
            for one in network.species
            if one.quantity == "concentration" and one.compartment and one.name.isidentifier()
        }

    def __len__(self) -> int:
        return len(self._network.reactions)

    @overload
    def __getitem__(self, which: int) -> str: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[str]: ...
    def __getitem__(self, which: int | slice) -> str | Sequence[str]:
        if isinstance(which, slice):
            return [self[k] for k in range(*which.indices(len(self)))]
        k = range(len(self))[which]
        table = self._network.reactions
        law, value = table.laws[k], table.formulas.get(k)
        if isinstance(value, Expression):
            value = value.substitute(self._amounts)
        text = f"{table.values[k]:g}" if value is None else _text(value)
        if law == Law.RATE:
            return text
        compound = isinstance(value, Expression) and not value.text.isidentifier()
        factors = [f"({text})" if compound else text]
        divisors: list[str] = []
        members, counts = reactants_of(self._network, k)
        if law == Law.DETERMINISTIC:
            volume, power = volume_power(self._network, k)
            if volume is not None and power:
                shown = volume if abs(power) == 1 else f"{volume}^{abs(power):g}"
                (factors if power > 0 else divisors).append(shown)
        for i, count in zip(members, counts, strict=True):
            name = self._network.species[i].name
            real = self._network.is_continuous[i]
            if count % 1 and real:
                factors.append(f"{name}^{count:g}")
                continue
            factors += [name if j == 0 or real else f"({name} - {j})" for j in range(int(count))]
            if law == Law.STOCHASTIC and count > 1:
                divisors.append(str(int(np.prod(np.arange(1, count + 1)))))
        return " / ".join([" * ".join(factors), *divisors])

    def __str__(self) -> str:
        table = self._network.reactions
        shown = range(min(len(self), _SHOWN_MOST))
        rows = [(table.name_of(k), str(table[k]), self[k]) for k in shown]
        widths = [max((len(row[j]) for row in rows), default=0) for j in (0, 1)]
        lines = [f"{a:{widths[0]}}  {b:{widths[1]}}  {c}" for a, b, c in rows]
        if len(self) > _SHOWN_MOST:
            lines.append(f"... and {len(self) - _SHOWN_MOST} more")
        return "\n".join(lines)

    __repr__ = __str__


def _text(value: Expression | RateCoefficient) -> str:
    return value.text if isinstance(value, Expression) else repr(value)


def reactants_of(network: ReactionNetwork, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Index and stoichiometry of each reactant of reaction `k`."""
    table = network.reactions
    part = slice(table.reactant_starts[k], table.reactant_starts[k + 1])
    return table.reactant_species[part], table.reactant_counts[part]


def volume_power(network: ReactionNetwork, k: int) -> tuple[str | None, float]:
    """Compartment of a mass-action reaction, and the power of its size in the propensity.

    A reaction of order m with the deterministic constant k has the propensity k V^(1 - m) times
    the number of ordered choices of its reactants.

    Raises a ModelError if its reactants are in different compartments.
    """
    table = network.reactions
    members, counts = reactants_of(network, k)
    if not members.size:
        part = slice(table.product_starts[k], table.product_starts[k + 1])
        members = table.product_species[part]
    places = {network.species[i].compartment for i in members}
    if len(places) > 1:
        raise ModelError(
            f"reaction '{table.name_of(k)}' has species in the compartments "
            f"{', '.join(sorted(map(str, places)))}; a deterministic rate_constant has no meaning "
            "there: give its rate, or its stochastic_rate_constant"
        )
    return (places.pop() if places else None), 1.0 - float(counts.sum())
