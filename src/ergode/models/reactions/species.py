"""Species and the compartments they are in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ergode.core.arguments import check_switch, sequence
from ergode.core.errors import ModelError
from ergode.models.expressions import RESERVED, Expression, number_or_expression
from ergode.models.reactions.thermochemistry import Thermochemistry

Quantity = Literal["amount", "concentration"]


@dataclass(frozen=True, slots=True)
class Compartment:
    """A well-mixed volume.

    Parameters
    ----------
    name : str
    size : float or str
        Volume [volume]; a formula of parameters is possible. Positive.

    Examples
    --------
    >>> import ergode
    >>> ergode.Compartment("cell", size=2.0).size
    2.0
    """

    name: str
    size: float | Expression = 1.0

    def __post_init__(self) -> None:
        check_name(self.name, "compartment")
        size = number_or_expression(self.size, f"size of compartment '{self.name}'")
        if not isinstance(size, Expression) and size <= 0:
            raise ModelError(f"size of compartment '{self.name}' is {size:g}; expected more than 0")
        object.__setattr__(self, "size", size)


@dataclass(frozen=True, slots=True)
class Species:
    """A kind of molecule, nucleus, cell or individual.

    Parameters
    ----------
    name : str
        An identifier if formulas use it; otherwise any text, such as ``"H3O+"``.
    initial : float or str
        Initial amount or concentration (see `quantity`); a formula of parameters and compartments
        is possible.
    compartment : str, optional
        Name of its compartment; None is a volume of one.
    quantity : {"amount", "concentration"}
        Meaning of `initial`, and of the name in formulas: an amount [molecules], or an amount
        over the size of the compartment.
    boundary : bool
        Whether reactions do not change it, although it may be a reactant or a product. Events may
        change it.
    constant : bool
        Whether neither reactions nor events change it.
    mass_number : int, optional
        Nucleons A of a nucleus.
    charge_number : int, optional
        Protons Z of a nucleus, or the charge of an ion.
    thermochemistry : NasaPolynomials, Nasa9Polynomials or Nucleus, optional
        Needed for detailed balance and the release of energy.
    label : str, optional
        Name in printed output where `name` is a code, such as ``"ATP"`` for ``"s12"``; simulations
        do not depend on it.

    Examples
    --------
    >>> import ergode
    >>> ergode.Species("P", 100).initial
    100.0
    """

    name: str
    initial: float | Expression = 0.0
    compartment: str | None = None
    quantity: Quantity = "amount"
    boundary: bool = False
    constant: bool = False
    mass_number: int | None = None
    charge_number: int | None = None
    thermochemistry: Thermochemistry | None = None
    label: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ModelError(f"a species is called {self.name!r}; expected a name")
        if type(self.initial) is not float or not 0.0 <= self.initial < float("inf"):
            initial = number_or_expression(self.initial, f"initial of species '{self.name}'")
            if not isinstance(initial, Expression) and initial < 0:
                raise ModelError(
                    f"initial of species '{self.name}' is {initial:g}; expected 0 or more"
                )
            object.__setattr__(self, "initial", initial)
        for switch in ("boundary", "constant"):
            check_switch(f"species '{self.name}'", switch, getattr(self, switch))
        if not isinstance(self.quantity, str) or self.quantity not in ("amount", "concentration"):
            raise ModelError(
                f"quantity of species '{self.name}' is {self.quantity!r}; expected 'amount' or "
                "'concentration'"
            )


def check_name(name: Any, kind: str) -> None:
    """Refuse a name that a formula could not use."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ModelError(
            f"a {kind} is called {name!r}; expected letters, digits and underscores, not first a "
            "digit"
        )
    if name in RESERVED:
        raise ModelError(f"a {kind} is called '{name}', a reserved word of formulas")


def species_of(given: Any) -> tuple[Species, ...]:
    """Species from a sequence of species or names, or from a mapping of names to amounts."""
    if isinstance(given, Mapping):
        items = []
        for name, value in given.items():
            if isinstance(value, Species):
                if value.name != name:
                    raise ModelError(f"species has '{value.name}' under the name '{name}'")
                items.append(value)
            else:
                items.append(Species(name, value))
        return tuple(items)
    made = []
    for value in sequence("species", given, "Species, or a mapping of names to amounts"):
        if isinstance(value, str):
            value = Species(value)
        if not isinstance(value, Species):
            raise ModelError(f"species has {value!r}; expected Species, or names")
        made.append(value)
    return tuple(made)


def compartments_of(given: Any) -> tuple[Compartment, ...]:
    """Compartments from a sequence of compartments, or from a mapping of names to sizes."""
    if isinstance(given, Mapping):
        given = [
            size if isinstance(size, Compartment) else Compartment(name, size)
            for name, size in given.items()
        ]
    given = sequence("compartments", given, "Compartment, or a mapping of names to sizes")
    made = tuple(Compartment(value) if isinstance(value, str) else value for value in given)
    for value in made:
        if not isinstance(value, Compartment):
            raise ModelError(f"compartments has {value!r}; expected Compartment")
    return made
