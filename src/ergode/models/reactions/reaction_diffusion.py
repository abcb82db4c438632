"""Reaction-diffusion: a network in every voxel of a grid, and jumps between neighbours."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers, by_name, did_you_mean, is_finite_number
from ergode.core.errors import ModelError
from ergode.core.words import counted
from ergode.models.expressions import Expression, number_or_expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Law, ReactionTable
from ergode.models.reactions.species import Compartment, Species

AXES = ("x", "y", "z")
VOXEL = "voxel"
"""Name of the compartment of a network without one: its size is that of a voxel."""
_VOXELS_MOST = 2**31 - 1
_MOLECULES_MOST = 2**31 - 1

Coefficient = float | Expression


class ReactionDiffusion:
    """A reaction network in every voxel of a rectangular grid, with diffusion between voxels.

    This is the reaction-diffusion master equation: a voxel is well mixed, every reaction takes its
    molecules from one voxel, and a molecule jumps through each face of its voxel at the rate
    D / spacing^2.

    Events are those of the network in every voxel. A condition is of the amounts in one voxel, and
    becomes true there; a time is met in all voxels. A parameter to which an event assigns has a
    value of its own in every voxel. Delayed products of a reaction are made in its voxel.

    Parameters
    ----------
    network : ReactionNetwork
        What happens in a voxel: any rate laws, parameters and rules. It has one compartment at
        most, whose size is the volume of a voxel; so is the volume of species without a
        compartment. Refused are rate rules, continuous species, and events that change a diffusion
        coefficient or the compartment.
    shape : sequence of int
        Voxels along x, y and z; one to three numbers.
    diffusion : mapping of str to float, str, or sequence of these
        Diffusion coefficient D by name of a species [length^2 / time]: a number, a formula of
        parameters, or one of these for each axis. Other species do not move.
    spacing : float or sequence of float
        Edge of a voxel, or an edge for each axis [length].
    periodic : bool or sequence of bool
        Whether the last voxel of an axis is a neighbour of its first; for all axes, or for each.
        Otherwise the ends reflect.
    initial : mapping of str to array_like, shape `shape`
        Initial amount of a species in every voxel [molecules]. Other species begin with the initial
        amount of the network in every voxel.
    parameters : mapping of str to array_like, shape `shape`
        Parameters of the network whose value depends on the voxel.

    Raises
    ------
    ModelError
        The network is not supported; or a name, a number or a shape is invalid.

    References
    ----------
    J. Elf, M. Ehrenberg, "Spontaneous separation of bi-stable biochemical systems into spatial
    domains of opposite phases", Syst. Biol. 1 (2004).

    Examples
    --------
    >>> import ergode
    >>> decay = ergode.ReactionNetwork({"A": 9}, [ergode.Reaction("A -> 0", rate_constant=1.0)])
    >>> space = ergode.ReactionDiffusion(decay, (10, 20), diffusion={"A": 0.5}, spacing=0.1)
    >>> space
    <ReactionDiffusion: 10 x 20 voxels, 1 species (1 diffuses), 1 reaction>
    >>> print(space.voxel.propensities())
    R1  A -> 0  1 * A
    """

    network: ReactionNetwork
    voxel: ReactionNetwork
    shape: tuple[int, ...]
    spacing: tuple[float, ...]
    periodic: tuple[bool, ...]
    diffusion: Mapping[str, tuple[Coefficient, ...]]
    initial: Mapping[str, np.ndarray]
    parameters: Mapping[str, np.ndarray]

    def __init__(
        self,
        network: ReactionNetwork,
        shape: Sequence[int],
        *,
        diffusion: Mapping[str, Any],
        spacing: float | Sequence[float] = 1.0,
        periodic: bool | Sequence[bool] = False,
        initial: Mapping[str, ArrayLike] | None = None,
        parameters: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        if not isinstance(network, ReactionNetwork):
            raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
        counts = _shape_of(shape)
        edges = _for_each_axis(spacing, len(counts), "spacing")
        if not all(is_finite_number(edge) and edge > 0 for edge in edges):
            raise ModelError(f"spacing is {spacing!r}; expected positive numbers")
        around = _for_each_axis(periodic, len(counts), "periodic")
        if not all(isinstance(one, bool | np.bool_) for one in around):
            raise ModelError(f"periodic is {periodic!r}; expected True or False")
        sizes = tuple(float(edge) for edge in edges)
        voxel = _in_voxel(network, prod(sizes))
        fields = {
            argument: {
                name: _field(argument, name, values, counts)
                for name, values in by_name(argument, given, "arrays").items()
            }
            for argument, given in (("initial", initial), ("parameters", parameters))
        }
        self.__dict__.update(
            network=network, voxel=voxel, shape=counts, spacing=sizes,
            periodic=tuple(bool(one) for one in around),
            diffusion=_coefficients(network, diffusion, len(counts)),
            initial={
                name: _whole(name, values, network) for name, values in fields["initial"].items()
            },
            parameters=fields["parameters"],
        )  # fmt: skip
        self._check_parameters()

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a ReactionDiffusion is frozen; make a new one to change {name}")

    def __repr__(self) -> str:
        voxels = " x ".join(f"{n:,}" for n in self.shape)
        return (
            f"<ReactionDiffusion: {voxels} voxels, {counted(len(self.network.species), 'species')} "
            f"({len(self.diffusion)} diffuses), {counted(len(self.network.reactions), 'reaction')}>"
        )

    def _check_parameters(self) -> None:
        for name in self.parameters:
            _known(name, self.network.parameters, "parameters", "a parameter")
        fixed = {*self.network.parameters}
        for name, each in self.diffusion.items():
            for value in each:
                if not isinstance(value, Expression):
                    continue
                what = f"diffusion of '{name}', '{value.text}'"
                if value.names - fixed:
                    raise ModelError(
                        f"{what}, uses '{min(value.names - fixed)}', which is not a parameter of "
                        "the network"
                    )
                if self._follows(value, self.parameters):
                    raise ModelError(
                        f"{what}, depends on '{min(self.parameters)}', which differs between "
                        "voxels; expected the same coefficient everywhere"
                    )
                for number, event in enumerate(self.network.events):
                    if self._follows(value, event.assignments):
                        raise ModelError(
                            f"{what}, depends on what event '{event.name or number}' changes; "
                            "expected a constant coefficient"
                        )

    def _follows(self, value: Expression, names: Collection[str]) -> bool:
        """Whether a formula depends on one of these names, directly or through parameters."""
        moving = set(names)
        for name in self.network.parameter_order:
            formula = self.network.parameters.get(name)
            if isinstance(formula, Expression) and name not in moving and formula.names & moving:
                moving.add(name)
        return bool(value.names & moving)

    # ---- views

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes: ``"x"``, ``"y"``, ``"z"``."""
        return AXES[: len(self.shape)]

    @property
    def voxel_count(self) -> int:
        """Number of voxels."""
        return prod(self.shape)

    @cached_property
    def centres(self) -> dict[str, np.ndarray]:
        """Coordinates of the centres of voxels along each axis [length]; the first face is at 0."""
        return {
            axis: (np.arange(count) + 0.5) * edge
            for axis, count, edge in zip(self.axes, self.shape, self.spacing, strict=True)
        }

    @cached_property
    def digest(self) -> str:
        """Hexadecimal digest of the model, in the attributes of every result."""
        parts = (
            self.network.digest, self.shape, self.spacing, self.periodic,
            sorted(self.diffusion.items()),
        )  # fmt: skip
        digest = hashlib.sha256(repr(parts).encode())
        for fields in (self.initial, self.parameters):
            digest.update(repr(sorted(fields)).encode())
            for _, values in sorted(fields.items()):
                digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()[:16]

    def flat(self) -> ReactionNetwork:
        """The same model as one network, of which every voxel has species of its own.

        For methods of `ergode.stochastic.simulate` other than the search by subvolumes, such as
        tau-leaping: it has all reactions of every voxel, and takes memory accordingly.

        Returns
        -------
        ReactionNetwork
            With species such as ``"A[3,4]"``, voxel after voxel.

        Raises
        ------
        ModelError
            The network has events or delays, a rate is a formula, or a parameter differs between
            voxels.

        Examples
        --------
        >>> import ergode
        >>> decay = ergode.ReactionNetwork({"A": 9}, [ergode.Reaction("A -> 0", rate_constant=1.0)])
        >>> space = ergode.ReactionDiffusion(decay, (10, 10), diffusion={"A": 0.5})
        >>> len(space.flat().reactions)
        460
        """
        table, network = self.network.reactions, self.network
        if network.events or table.delays:
            raise ModelError(
                "a flat network has no events and no delays; ergode.stochastic.simulate_space "
                "takes both"
            )
        if table.formulas or (table.laws == Law.RATE).any() or self.parameters:
            raise ModelError(
                "a flat network needs mass action with numbers as constants, the same everywhere; "
                "ergode.stochastic.simulate_space takes any rates"
            )
        voxels, kinds = self.voxel_count, len(network.species)
        starts = {name: values.ravel().tolist() for name, values in self.initial.items()}
        species = tuple(
            Species(
                f"{kind.name}[{','.join(map(str, place))}]",
                starts[kind.name][k] if kind.name in starts else self._amount_of(kind),
                boundary=kind.boundary, constant=kind.constant,
            )
            for k, place in enumerate(np.ndindex(*self.shape))
            for kind in network.species
        )  # fmt: skip
        jumps = [
            (source, target, network.index[name], rate)
            for name, each in self.diffusion.items()
            for (source, target), rate in zip(
                self._neighbours(), self.jump_rates(each, {}), strict=True
            )
            if rate > 0
        ]
        count = sum(source.size for source, *_ in jumps)
        sides = {}
        for side, ends in (("reactant", 0), ("product", 1)):
            lengths = np.tile(np.diff(getattr(table, f"{side}_starts")), voxels)
            members = getattr(table, f"{side}_species")
            offsets = np.repeat(np.arange(voxels) * kinds, members.size)
            moved = [jump[ends] * kinds + jump[2] for jump in jumps]
            sides[f"{side}_starts"] = np.concatenate(
                [[0], np.cumsum(np.concatenate([lengths, np.ones(count, np.int64)]))]
            )
            sides[f"{side}_species"] = np.concatenate([np.tile(members, voxels) + offsets, *moved])
            sides[f"{side}_counts"] = np.concatenate(
                [np.tile(getattr(table, f"{side}_counts"), voxels), np.ones(count)]
            )
        rates = [np.full(source.size, rate) for source, _, _, rate in jumps]
        constants = _stochastic_constants(table, prod(self.spacing))
        values = np.concatenate([np.tile(constants, voxels), *rates])
        names = tuple(member.name for member in species)
        takes, makes = (
            tuple(sides[f"{side}_{part}"] for part in ("starts", "species", "counts"))
            for side in ("reactant", "product")
        )
        reactions = ReactionTable(
            names, takes[0], takes[1], takes[2], makes[0], makes[1], makes[2],
            np.full(values.size, Law.STOCHASTIC), values,
        )  # fmt: skip
        return ReactionNetwork(species, reactions, name=network.name)

    def _amount_of(self, kind: Species) -> float:
        """Initial molecules of a species in every voxel."""
        known = self.voxel.evaluate_parameters()
        value = kind.initial
        number = value.evaluate(known) if isinstance(value, Expression) else value
        return float(number * (prod(self.spacing) if kind.quantity == "concentration" else 1.0))

    def jump_rates(
        self, coefficients: Sequence[Coefficient], known: Mapping[str, Any]
    ) -> list[Any]:
        """Rate of a molecule through the lower and the upper face of every axis [1 / time].

        Parameters
        ----------
        coefficients : sequence of float or Expression
            Of a species, by axis.
        known : mapping of str to float or ndarray
            Values of parameters; the network's own are used for an empty one.
        """
        found: list[Any] = []
        known = known or self.voxel.evaluate_parameters()
        for value, edge in zip(coefficients, self.spacing, strict=True):
            number = value.evaluate(known) if isinstance(value, Expression) else value
            found += [number / edge**2] * 2
        return found

    def _neighbours(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each face, as in `jump_rates`: voxels, and their neighbours behind it."""
        number = np.arange(self.voxel_count).reshape(self.shape)
        pairs = []
        for axis, around in enumerate(self.periodic):
            here = np.moveaxis(number, axis, 0)
            if around and len(here) > 1:
                low, high = here, np.roll(here, -1, axis=0)
            else:
                low, high = here[:-1], here[1:]
            pairs += [(high.ravel(), low.ravel()), (low.ravel(), high.ravel())]
        return pairs


# ---- arguments


def _shape_of(shape: Any) -> tuple[int, ...]:
    numbers = as_numbers(shape)
    if (
        numbers is None
        or numbers.ndim != 1
        or not 1 <= numbers.size <= len(AXES)
        or not (numbers == np.rint(numbers)).all()
        or not (numbers >= 1).all()
    ):
        raise ModelError(f"shape is {shape!r}; expected one to three positive whole numbers")
    counts = tuple(int(n) for n in numbers)
    if prod(counts) > _VOXELS_MOST:
        raise ModelError(f"shape is {shape!r}; expected at most {_VOXELS_MOST:,} voxels")
    return counts


def _for_each_axis(value: Any, count: int, what: str) -> list[Any]:
    """A value for each axis, from one for all or from as many as there are axes."""
    if isinstance(value, str | Expression) or np.ndim(value) == 0:
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise ModelError(f"{what} has {counted(len(values), 'value')}; the grid has {count} axes")
    return values


def _known(name: str, known: Any, argument: str, kind: str) -> None:
    if name not in known:
        hint = did_you_mean(name, known)
        raise ModelError(f"{argument} has '{name}', which is not {kind} of the network{hint}")


def _coefficients(
    network: ReactionNetwork, given: Any, axes: int
) -> dict[str, tuple[Coefficient, ...]]:
    found = {}
    for name, value in by_name("diffusion", given, "coefficients").items():
        _known(name, network.index, "diffusion", "a species")
        if network.held[network.index[name]]:
            raise ModelError(
                f"diffusion has '{name}', whose amount is fixed (boundary or constant); it cannot "
                "diffuse"
            )
        each = [
            number_or_expression(one, f"diffusion of '{name}'")
            for one in _for_each_axis(value, axes, f"diffusion of '{name}'")
        ]
        for one in each:
            if not isinstance(one, Expression) and not 0 <= one < np.inf:
                raise ModelError(f"diffusion of '{name}' is {one!r}; expected 0 or more")
        found[name] = tuple(each)
    return found


def _field(argument: str, name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    numbers = as_numbers(values)
    if numbers is None or numbers.shape != shape:
        what = type(values).__name__ if numbers is None else f"of shape {numbers.shape}"
        raise ModelError(f"{argument} of '{name}' is {what}; expected an array of shape {shape}")
    if not np.isfinite(numbers).all():
        raise ModelError(f"{argument} of '{name}' has values that are not finite")
    found = np.array(numbers, np.float64)
    found.flags.writeable = False
    return found


def _whole(name: str, values: np.ndarray, network: ReactionNetwork) -> np.ndarray:
    """Initial molecules as integers, shape of the grid."""
    _known(name, network.index, "initial", "a species")
    bad = ~((values >= 0) & (values <= _MOLECULES_MOST) & (values == np.rint(values)))
    if bad.any():
        raise ModelError(
            f"initial of '{name}' has {values[bad][0]:g}; expected whole numbers of molecules, "
            f"from 0 to {_MOLECULES_MOST:,} in a voxel"
        )
    found = values.astype(np.int32)
    found.flags.writeable = False
    return found


def _in_voxel(network: ReactionNetwork, volume: float) -> ReactionNetwork:
    """The network of one voxel: all species are in a compartment of its volume.

    Raises a ModelError if the network has what a voxel cannot have.
    """
    for what, found in (
        ("rate rules", network.rate_rules),
        ("continuous species", network.continuous),
    ):
        if found:
            raise ModelError(f"a network in space cannot have {what}")
    names = [compartment.name for compartment in network.compartments]
    for number, event in enumerate(network.events):
        for name in names:
            if name in event.assignments:
                raise ModelError(
                    f"event '{event.name or number}' assigns to '{name}', which is the volume of a "
                    "voxel; it cannot change in space"
                )
    if len(names) > 1:
        raise ModelError(
            f"the network has the compartments {', '.join(names)}; in space there is one volume, "
            "the voxel, so expected one compartment at most"
        )
    taken = {*network.index, *network.parameters, *network.rules}
    name = names[0] if names else VOXEL
    while not names and name in taken:
        name += "_"
    return ReactionNetwork(
        [
            Species(
                one.name, one.initial, name, one.quantity, one.boundary, one.constant,
                label=one.label,
            )
            for one in network.species
        ],
        network.reactions, network.parameters, [Compartment(name, volume)], network.rules,
        network.events, name=network.name,
    )  # fmt: skip


def _stochastic_constants(table: ReactionTable, volume: float) -> np.ndarray:
    """Gillespie's constants of reactions of mass action in a volume."""
    orders = table.reactant_counts
    if (orders != np.rint(orders)).any():
        raise ModelError("a stoichiometry is not a whole number")
    rows = np.repeat(np.arange(len(table)), np.diff(table.reactant_starts))
    total = np.bincount(rows, weights=orders, minlength=len(table))
    ways = np.ones(len(table))
    factorials = np.array([prod(range(1, k + 1)) for k in range(21)], float)
    np.multiply.at(ways, rows, factorials[orders.astype(int)])
    deterministic = table.values * ways * volume ** (1.0 - total)
    return np.where(table.laws == Law.DETERMINISTIC, deterministic, table.values)
