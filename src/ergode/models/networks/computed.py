"""Networks that are computed, not stored: arcs are functions of the seed and the node."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, kernels
from ergode.core.arguments import did_you_mean
from ergode.core.calls.launch import check_room
from ergode.core.devices.buffers import put_table
from ergode.core.errors import ModelError
from ergode.core.notebook import card
from ergode.core.words import counted
from ergode.models.networks import checks, csr
from ergode.models.networks.computed_arcs import GROUPED, ComputedArcs, arcs_of, compute_targets
from ergode.models.networks.contact_network import ContactNetwork

SLOTS_MOST = 4096
PATTERN_MOST = 1 << 20
_FACTOR_MOST = float(np.finfo(np.float32).max)


class ComputedLayer(NamedTuple):
    """One layer of a `ComputedNetwork`."""

    kind: str  # "random-regular" or "groups"
    degree: int  # arcs of a node; for groups, of a node in the largest group
    sizes: tuple[int, ...]  # pattern of the sizes of groups; empty for a random regular layer
    seed: int
    name: str = ""
    factor: float = 1.0  # on the transmission rate


@dataclass(frozen=True, repr=False)
class ComputedNetwork:
    """A contact network whose arcs are computed when they are needed, and take no memory.

    Build one with `random_regular`, `groups` or `from_layers`. `ergode.epidemics.simulate` takes it
    in place of a `ContactNetwork`, by every method. The method ``"first-passage"`` needs 4 bytes a
    node (8 in float64). The others take fewer than 2^31 nodes, and need the memory for nodes that
    they need on any network: ``"sellke"`` on a CPU about 60 bytes a node in a large epidemic, on a
    GPU 56 bytes; a leap 31 bytes on a CPU and 23 bytes on a GPU; ``"gillespie"`` 32 to 48 bytes.
    Results equal those on the network of `stored` bit for bit.

    Every node has `slot_count` slots. A slot is an arc to another node, or it is unused and leads
    to the node itself. As in the configuration model, a random regular layer of degree d may lead a
    node to itself, or to one neighbour twice: in about d of all slots, and for about
    (d/2)^2 pairs of nodes, however many nodes there are. A slot that leads to the node itself does
    nothing; two arcs to one neighbour are two contacts.

    Networks of fewer than 32 nodes are not quite uniform: some pairs of nodes are up to 4 % more
    likely to meet than others. Use a `ContactNetwork` for these.

    Attributes
    ----------
    node_count : int
        Number of nodes; node ids are 0 ... node_count - 1.
    parts : tuple of ComputedLayer
        The layers; the slots of a node are in this order.

    Examples
    --------
    >>> import ergode
    >>> earth = ergode.ComputedNetwork.random_regular(8_000_000_000, degree=8, seed=1)
    >>> earth
    ComputedNetwork(8,000,000,000 nodes, random regular of degree 8)
    >>> earth.neighbours(5_000_000_000).size
    8
    """

    node_count: int
    parts: tuple[ComputedLayer, ...]

    # What needs attributes or names of nodes refuses a computed network.
    multigraph: ClassVar[bool] = True
    directed: ClassVar[bool] = False
    attributes: ClassVar[Mapping[str, np.ndarray]] = {}
    node_names: ClassVar[None] = None

    @classmethod
    def random_regular(cls, node_count: int, degree: int = 8, seed: int = 1) -> ComputedNetwork:
        """Network of random permutations; each gives a node two contacts.

        A permutation takes a node to one of its contacts, and the other contact to the node.

        Parameters
        ----------
        node_count : int
            Number of nodes, 1 to 2^36.
        degree : int
            Contacts of a node; even, 2 to 4096.
        seed : int
            Names the network among all such networks.

        Raises
        ------
        ModelError
            An argument is out of range, or the degree is odd.

        Examples
        --------
        >>> import ergode
        >>> net = ergode.ComputedNetwork.random_regular(1000, degree=4, seed=2)
        >>> all(5 in net.neighbours(other) for other in net.neighbours(5))
        True
        """
        degree = checks.whole(degree, "degree", 2, SLOTS_MOST)
        if degree % 2:
            raise ModelError(
                f"degree is {degree}; a computed random regular network has an even degree, "
                "because each permutation gives a node two contacts. For one contact more, add a "
                "layer of groups of two"
            )
        seed = int(checks.seed_word(seed))
        return cls(_nodes(node_count), (ComputedLayer("random-regular", degree, (), seed),))

    @classmethod
    def groups(cls, node_count: int, sizes: ArrayLike, seed: int = 1) -> ComputedNetwork:
        """Network of random groups, such as households or classes: all members of a group meet.

        Parameters
        ----------
        node_count : int
            Number of nodes, 1 to 2^36.
        sizes : int or array_like of int
            Size of all groups; or sizes that are repeated in this order. The last group may be
            smaller.
        seed : int
            Names the network among all such networks.

        Raises
        ------
        ModelError
            An argument is out of range.

        Examples
        --------
        >>> import ergode
        >>> households = ergode.ComputedNetwork.groups(1000, sizes=[1, 2, 2, 3, 4], seed=3)
        >>> round(households.mean_degree, 3)
        1.833
        """
        given = checks.one_dimensional(np.atleast_1d(np.asarray(sizes)), "sizes").tolist()
        pattern = tuple(
            checks.whole(size, f"sizes[{k}]", 1, SLOTS_MOST + 1) for k, size in enumerate(given)
        )
        if not pattern:
            raise ModelError("sizes is empty; expected the size of at least one group")
        if sum(pattern) > PATTERN_MOST:
            raise ModelError(
                f"sizes has {sum(pattern):,} members in all; expected at most {PATTERN_MOST:,}, "
                "because the sizes are repeated"
            )
        seed = int(checks.seed_word(seed))
        # Groups of one have a slot too, which is unused: every node has at least one.
        layer = ComputedLayer("groups", max(1, max(pattern) - 1), pattern, seed)
        return cls(_nodes(node_count), (layer,))

    @classmethod
    def from_layers(
        cls,
        networks: Mapping[str, ComputedNetwork],
        factors: Mapping[str, float] | None = None,
    ) -> ComputedNetwork:
        """One computed network of named layers, as `ContactNetwork.from_layers` for stored ones.

        Parameters
        ----------
        networks : mapping of str to ComputedNetwork
            The layers, in order; each of the same nodes, and of one unnamed layer.
        factors : mapping of str to float, optional
            Multiplies the transmission rate of a layer (default 1).

        Raises
        ------
        ModelError
            Layers differ in nodes, have layers themselves, or have equal arcs because their seeds
            are equal; or a factor is not a finite number of 0 or more, or names no layer.

        Examples
        --------
        >>> import ergode
        >>> home = ergode.ComputedNetwork.groups(1000, sizes=3, seed=1)
        >>> others = ergode.ComputedNetwork.random_regular(1000, degree=6, seed=2)
        >>> net = ergode.ComputedNetwork.from_layers(
        ...     {"home": home, "others": others}, {"others": 0.5}
        ... )
        >>> net.layers, net.slot_count
        (('home', 'others'), 8)
        """
        checks.check_layers(networks)
        if not 0 < len(networks) <= checks.LAYERS_MOST:
            raise ModelError(
                f"{len(networks)} layers were given; expected 1 to {checks.LAYERS_MOST}"
            )
        factors = factors or {}
        for name in factors:
            if name not in networks:
                raise ModelError(
                    f"factors names the layer '{name}', which does not exist"
                    f"{did_you_mean(name, networks)}"
                )
        parts: list[ComputedLayer] = []
        first = next(iter(networks.values()))
        same: dict[tuple[str, int], str] = {}
        for name, one in networks.items():
            if not isinstance(one, ComputedNetwork):
                raise ModelError(
                    f"layer '{name}' is {type(one).__name__}; expected a ComputedNetwork"
                )
            if one.layers:
                raise ModelError(f"layer '{name}' has layers itself")
            if one.node_count != first.node_count:
                raise ModelError(
                    f"layer '{name}' has {counted(one.node_count, 'node')}, but layer "
                    f"'{next(iter(networks))}'"
                    f" has {first.node_count}"
                )
            (part,) = one.parts
            twin = same.setdefault((part.kind, part.seed), name)
            if twin != name:
                raise ModelError(
                    f"layers '{twin}' and '{name}' are built from the same permutation, because "
                    f"their seeds are both {part.seed}; give them different seeds"
                )
            factor = checks.real_number(factors.get(name, 1.0), f"factors['{name}']", _FACTOR_MOST)
            parts.append(part._replace(name=str(name), factor=factor))
        slots = sum(part.degree for part in parts)
        if slots > SLOTS_MOST:
            raise ModelError(
                f"nodes have {slots} slots in all layers; expected at most {SLOTS_MOST:,}"
            )
        return cls(first.node_count, tuple(parts))

    # -- properties --------------------------------------------------------------------------

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers; empty for a network of one unnamed layer."""
        return tuple(part.name for part in self.parts if part.name)

    @property
    def slot_count(self) -> int:
        """Slots of every node, including unused ones."""
        return sum(part.degree for part in self.parts)

    @property
    def arc_count(self) -> int:
        """Number of slots of all nodes."""
        return self.node_count * self.slot_count

    @property
    def largest_in_degree(self) -> int:
        """Slots that lead to a node; each node has as many, unused slots of its own included."""
        return self.slot_count

    @property
    def mean_degree(self) -> float:
        """Mean number of arcs that leave a node, unless the last group of a layer is incomplete."""
        each = [
            sum(s * (s - 1) for s in part.sizes) / sum(part.sizes) if part.sizes else part.degree
            for part in self.parts
        ]
        return float(sum(each))

    @property
    def memory_bytes(self) -> int:
        """Size of all tables [bytes]."""
        return sum(np.asarray(table).nbytes for table in self.arcs)

    @cached_property
    def arcs(self) -> ComputedArcs:
        """Tables of the arcs, for kernels."""
        return arcs_of(
            self.node_count, [(one.kind, one.degree, one.sizes, one.seed) for one in self.parts]
        )

    @cached_property
    def bindings(self) -> dict[Any, Any]:
        """Options of kernels that compute the arcs."""
        return {GROUPED: any(part.sizes for part in self.parts)}

    def slot_factors(self) -> np.ndarray | None:
        """Factor on the transmission rate of each slot, float32 [slot_count]; None if all are 1."""
        if all(part.factor == 1.0 for part in self.parts):
            return None
        return np.repeat(
            np.array([part.factor for part in self.parts], np.float32),
            [part.degree for part in self.parts],
        )

    def slot_layers(self) -> np.ndarray | None:
        """Layer of each slot, uint8 [slot_count]; None for a network of one unnamed layer."""
        if not self.layers:
            return None
        each = np.arange(len(self.parts), dtype=np.uint8)
        return np.repeat(each, [part.degree for part in self.parts])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the description of the network, in hexadecimal; equal on every machine."""
        text = repr((self.node_count, tuple(map(tuple, self.parts))))
        return hashlib.sha256(f"computed {text}".encode()).hexdigest()

    # -- arcs --------------------------------------------------------------------------------

    def neighbours(self, node: int) -> np.ndarray:
        """The nodes that a node is in contact with, in the order of its slots; int64.

        Unused slots are left out; a neighbour with two contacts is named twice.

        Raises
        ------
        ModelError
            There is no such node.
        """
        node = checks.whole(node, "node", 0, self.node_count - 1)
        found = self.targets(node, 1)[0].astype(np.int64)
        return found[found != node]

    def targets(self, first: int = 0, count: int | None = None) -> np.ndarray:
        """Targets of all slots of consecutive nodes, shape [count, slot_count].

        The target of an unused slot is the node itself.

        Parameters
        ----------
        first : int
            The first node.
        count : int, optional
            Number of nodes; all from `first` on if not given.

        Raises
        ------
        ModelError
            There are no such nodes.
        PlanError
            The array does not fit the memory.
        """
        first = checks.whole(first, "first", 0, self.node_count - 1)
        left = self.node_count - first
        count = left if count is None else checks.whole(count, "count", 0, left)
        ids = csr.index_dtype(self.node_count)
        check_room(
            count * self.slot_count * ids(0).itemsize,
            f"an array of the {self.slot_count} targets of {count:,} nodes",
            "ask for fewer nodes",
        )
        targets = np.empty((count, self.slot_count), ids)
        kernel = kernels.for_each(compute_targets, bindings=self.bindings)
        cpu = devices.resolve("cpu")
        cpu.run(kernel, count, put_table(cpu, self.arcs), first, targets)
        return targets

    def stored(self, simple: bool = False) -> ContactNetwork:
        """The network as a `ContactNetwork`, with all arcs in memory.

        Parameters
        ----------
        simple : bool
            If False, a copy slot by slot: arcs have the numbers and the order that they have here,
            and unused slots are arcs to the node itself. All results on it are equal. If True, an
            ordinary network, which can have attributes: rows are sorted, without unused slots, and
            two contacts of a pair in a layer are one.

        Raises
        ------
        PlanError
            The arcs do not fit the memory.

        Examples
        --------
        >>> import ergode
        >>> net = ergode.ComputedNetwork.groups(1000, sizes=4, seed=1)
        >>> net.stored(simple=True)
        ContactNetwork(1,000 nodes, 1,500 undirected edges, mean degree 3)
        """
        count, slots = self.node_count, self.slot_count
        ids = csr.index_dtype(count)
        check_room(
            count * slots * (ids(0).itemsize + 8 + (24 if simple else 0)),
            f"the stored copy of a network of {count:,} nodes with {slots} slots each",
            "use a smaller node_count, or the computed network itself",
        )
        targets = self.targets()
        if simple:
            return self._simple(targets)
        offsets = np.arange(count + 1, dtype=csr.index_dtype(count * slots)) * slots
        factors = self.slot_factors()
        weights = None if factors is None else np.tile(factors, count)
        layers = self.slot_layers()
        layer = None if layers is None else np.tile(layers, count)
        rows = offsets, targets.ravel(), weights
        return ContactNetwork._trusted(
            count, rows, layers=self.layers, layer=layer, multigraph=True
        )

    def _simple(self, targets: np.ndarray) -> ContactNetwork:
        """The simple network of targets [node, slot]."""
        networks: list[ContactNetwork] = []
        begin = 0
        for part in self.parts:
            own = targets[:, begin : begin + part.degree]
            begin += part.degree
            source = np.repeat(np.arange(self.node_count, dtype=targets.dtype), part.degree)
            once = source < own.ravel()
            networks.append(
                ContactNetwork.from_edges(source[once], own.ravel()[once], self.node_count)
            )
        if not self.layers:
            return networks[0]
        factors = {part.name: part.factor for part in self.parts}
        return ContactNetwork.from_layers(dict(zip(self.layers, networks, strict=True)), factors)

    def __repr__(self) -> str:
        return (
            f"ComputedNetwork({counted(self.node_count, 'node')}, "
            f"{'; '.join(map(_told, self.parts))})"
        )

    def _repr_html_(self) -> str:
        facts = {
            "nodes": self.node_count,
            "layers": tuple(map(_told, self.parts)),
            "mean degree": self.mean_degree,
            "slots of a node": self.slot_count,
            "memory": "none: arcs are computed",
        }
        return card("ComputedNetwork", facts)


def _nodes(value: Any) -> int:
    return checks.whole(value, "node_count", 1, checks.NODES_MOST)


def _told(part: ComputedLayer) -> str:
    """One layer in words."""
    name = f"{part.name}: " if part.name else ""
    times = "" if part.factor == 1.0 else f", factor {part.factor:g}"
    if not part.sizes:
        return f"{name}random regular of degree {part.degree}{times}"
    least, most = min(part.sizes), max(part.sizes)
    sizes = f"{most}" if least == most else f"{least} to {most}"
    return f"{name}groups of {sizes}{times}"
