"""A network of contacts in compressed rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import check_switch
from ergode.core.errors import ModelError
from ergode.core.inputs import remembered
from ergode.core.notebook import bytes_text, card
from ergode.core.words import counted
from ergode.models.networks import checks, csr

if TYPE_CHECKING:
    import networkx
    import scipy.sparse
    import xarray

    from ergode.models.networks.population import Population


@dataclass(frozen=True, eq=False, repr=False)
class ContactNetwork:
    """Nodes and the contacts along which an infection can pass, in compressed rows.

    Row `i` lists the nodes that node `i` can infect, in increasing order. An undirected contact
    is stored as two arcs. The arrays are read-only. Build one with `from_edges`, `from_networkx`,
    `from_scipy`, `from_igraph`, `from_layers`, `ergode.read_contacts`, or a generator
    (`erdos_renyi`, `barabasi_albert`, `configuration_model`, `watts_strogatz`, `random_regular`,
    `stochastic_block_model`, `spatial`), or a whole `population`.

    Parameters
    ----------
    node_count : int
        Number of nodes; node ids are 0 ... node_count - 1.
    offsets : array_like of int, shape [node_count + 1]
        Row `i` is ``targets[offsets[i]:offsets[i + 1]]``. Kept as int32 where the number of arcs
        fits, else int64.
    targets : array_like of int, shape [arc_count]
        The node at the far end of each arc, increasing within a row (and by layer where equal).
        Kept as int32 where `node_count` fits, else int64.
    weights : array_like of float, shape [arc_count], optional
        Factor on the transmission rate along each arc [dimensionless, or contact time per time];
        kept as float32. None is 1 everywhere.
    directed : bool
        Whether arcs are one-way. If False, every arc must have its reverse, of the same weight
        and layer.
    layers : tuple of str
        Names of the layers; empty for a network of one unnamed layer.
    layer : array_like of int, shape [arc_count], optional
        Index into `layers` of each arc; kept as uint8.
    attributes : dict of str to array_like, shape [node_count] each
        Properties of nodes: age, household, x ...
    node_names : array_like, shape [node_count], optional
        Names of the nodes in the source of the network.

    Raises
    ------
    ModelError
        The rows are not sorted, an id is out of range, a reverse arc is missing ...

    Examples
    --------
    >>> import ergode
    >>> ergode.ContactNetwork(3, offsets=[0, 1, 3, 4], targets=[1, 0, 2, 1])
    ContactNetwork(3 nodes, 2 undirected edges, mean degree 1.333)
    """

    node_count: int
    offsets: np.ndarray
    targets: np.ndarray
    weights: np.ndarray | None = None
    directed: bool = False
    layers: tuple[str, ...] = ()
    layer: np.ndarray | None = None
    attributes: dict[str, np.ndarray] = field(default_factory=dict)
    node_names: np.ndarray | None = None
    multigraph: bool = field(default=False, init=False)
    """Whether rows may name a node itself, or a node twice, in any order: the copy of a computed
    network, slot by slot (`ComputedNetwork.stored`)."""

    def __post_init__(self) -> None:
        count = checks.node_count_of(self.node_count)
        check_switch("ContactNetwork", "directed", self.directed)
        offsets = checks.node_ids(self.offsets, "offsets")
        targets = checks.node_ids(self.targets, "targets")
        if offsets.size != count + 1:
            raise ModelError(
                f"offsets has {offsets.size} elements; expected node_count + 1 = {count + 1}"
            )
        if offsets[0] != 0 or offsets[-1] != targets.size:
            raise ModelError(
                f"offsets runs from {offsets[0]} to {offsets[-1]}; expected 0 to the number of "
                f"targets, {targets.size}"
            )
        checks.reject(np.diff(offsets) < 0, offsets[1:], "offsets", "offsets must not decrease", 1)
        checks.check_range(targets, "targets", count)
        weights = self.weights
        if weights is not None:
            weights = checks.arc_weights(weights, "weights", targets.size, "targets")
        layer = checks.layer_indices(self.layer, tuple(self.layers), targets.size)
        values: dict[str, Any] = {
            "node_count": count,
            "offsets": offsets.astype(csr.index_dtype(targets.size)),
            "targets": targets.astype(csr.index_dtype(count)),
            "weights": weights,
            "directed": bool(self.directed),
            "layers": tuple(self.layers),
            "layer": layer,
            "attributes": checks.node_attributes(self.attributes, count),
            "node_names": checks.names_of_nodes(self.node_names, count),
        }
        self._set(values)
        checks.check_rows(self)

    @classmethod
    def _trusted(cls, node_count: int, rows: csr.Rows, **others: Any) -> ContactNetwork:
        """A network from arrays made by this package, without checks."""
        network = object.__new__(cls)
        offsets, targets, weights = rows
        others.setdefault("attributes", {})
        known = {"node_count": node_count, "offsets": offsets, "targets": targets}
        defaults = {one.name: one.default for one in fields(cls)}
        network._set({**defaults, **known, "weights": weights, **others})
        return network

    def _set(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, _read_only(value))
        for name, value in self.attributes.items():
            self.attributes[name] = _read_only(value)

    # -- from other forms --------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        source: ArrayLike,
        target: ArrayLike,
        node_count: int | None = None,
        directed: bool = False,
        weights: ArrayLike | None = None,
    ) -> ContactNetwork:
        """Network of a list of edges.

        Self-loops are removed. An edge given twice (for an undirected network in either order) is
        one edge: without weights the duplicate is dropped, with weights the weights are added.

        Parameters
        ----------
        source, target : array_like of int, shape [edge_count]
            The two ends of each edge; if `directed`, `source` can infect `target`.
        node_count : int, optional
            Number of nodes; one more than the largest id if not given.
        directed : bool
            Whether an edge is one arc, or one each way.
        weights : array_like of float, shape [edge_count], optional
            Factor on the transmission rate of each edge, finite and not negative.

        Raises
        ------
        ModelError
            Ids that are not integers or out of range, weights that are negative or not finite,
            or lengths that differ.

        Examples
        --------
        >>> import ergode
        >>> net = ergode.ContactNetwork.from_edges([0, 1, 1], [1, 2, 0], node_count=4)
        >>> net.edge_count, net.degrees().tolist()
        (2, [1, 2, 1, 0])
        """
        check_switch("from_edges", "directed", directed)
        source, target = checks.node_ids(source, "source"), checks.node_ids(target, "target")
        if source.size != target.size:
            raise ModelError(
                f"source has {source.size} elements and target {target.size}; they must be equal"
            )
        if node_count is None:
            if source.size == 0:
                raise ModelError("a network without edges needs node_count")
            node_count = 1 + max(0, int(source.max()), int(target.max()))
            if node_count > max(10_000_000, 100 * source.size):
                raise ModelError(
                    f"the largest node id is {node_count - 1:,} but there are {source.size:,} "
                    "edges; if this is intended, give node_count"
                )
        node_count = checks.node_count_of(node_count)
        checks.check_range(source, "source", node_count)
        checks.check_range(target, "target", node_count)
        if weights is not None:
            weights = checks.arc_weights(weights, "weights", source.size, "source")
        rows = csr.build_rows(source, target, node_count, directed=directed, weights=weights)
        return cls._trusted(node_count, rows, directed=bool(directed))

    @classmethod
    def from_scipy(cls, matrix: Any, directed: bool | None = None) -> ContactNetwork:
        """Network of a sparse (or dense) square matrix; see `convert.from_scipy`.

        ``matrix[i, j]`` is the weight of the contact from `i` to `j`.  `directed` None is
        undirected where the matrix is symmetric.  A matrix of ones gives no weights.
        """
        from ergode.models.networks import convert

        return convert.from_scipy(matrix, directed)

    @classmethod
    def from_networkx(cls, graph: networkx.Graph, weight: str | None = None) -> ContactNetwork:
        """Network of a networkx graph; see `ergode.models.networks.convert.from_networkx`.

        `weight` names the edge attribute that holds weights.  Node names are kept, and so are node
        attributes with a number, or with text, on every node.
        """
        from ergode.models.networks import convert

        return convert.from_networkx(graph, weight)

    @classmethod
    def from_igraph(cls, graph: Any, weight: str | None = None) -> ContactNetwork:
        """Network of an igraph graph; see `ergode.models.networks.convert.from_igraph`.

        `weight` names the edge attribute that holds weights.  The vertex attribute ``"name"`` is
        kept as node names, and so are vertex attributes with a number, or with text, on every
        vertex.
        """
        from ergode.models.networks import convert

        return convert.from_igraph(graph, weight)

    @classmethod
    def from_layers(
        cls, networks: Mapping[str, ContactNetwork], factors: Mapping[str, float] | None = None
    ) -> ContactNetwork:
        """One network of named layers; see `ergode.models.networks.layers.from_layers`.

        A pair of nodes may be in contact once in each layer.  ``factors[name]`` multiplies the
        weights, and so the transmission rate, of a layer.
        """
        from ergode.models.networks import layers

        return layers.from_layers(networks, factors)

    # -- generators --------------------------------------------------------------------------

    @classmethod
    @remembered
    def erdos_renyi(cls, node_count: int, mean_degree: float, seed: int = 0) -> ContactNetwork:
        """Every pair is in contact with equal probability; see `random_pairs`."""
        from ergode.models.networks import random_pairs

        return random_pairs.erdos_renyi(node_count, mean_degree, seed)

    @classmethod
    @remembered
    def stochastic_block_model(
        cls,
        block_sizes: ArrayLike,
        mean_degrees: ArrayLike | None = None,
        seed: int = 0,
        *,
        probabilities: ArrayLike | None = None,
    ) -> ContactNetwork:
        """Pairs in contact with a probability by their blocks; see `random_pairs`."""
        from ergode.models.networks import random_pairs

        return random_pairs.stochastic_block_model(
            block_sizes, mean_degrees, seed, probabilities=probabilities
        )

    @classmethod
    @remembered
    def spatial(
        cls, node_count: int, mean_degree: float, seed: int = 0, *, periodic: bool = True
    ) -> ContactNetwork:
        """Points in the unit square, in contact within a radius; see `random_pairs`."""
        from ergode.models.networks import random_pairs

        return random_pairs.spatial(node_count, mean_degree, seed, periodic=periodic)

    @classmethod
    @remembered
    def barabasi_albert(cls, node_count: int, m: int, seed: int = 0) -> ContactNetwork:
        """Growth by preferential attachment; see `ergode.models.networks.random_degrees`."""
        from ergode.models.networks import random_degrees

        return random_degrees.barabasi_albert(node_count, m, seed)

    @classmethod
    @remembered
    def configuration_model(cls, degrees: ArrayLike, seed: int = 0) -> ContactNetwork:
        """A random network of given degrees; see `ergode.models.networks.random_degrees`."""
        from ergode.models.networks import random_degrees

        return random_degrees.configuration_model(degrees, seed)

    @classmethod
    @remembered
    def random_regular(cls, node_count: int, degree: int, seed: int = 0) -> ContactNetwork:
        """A random regular network; see `ergode.models.networks.random_degrees`."""
        from ergode.models.networks import random_degrees

        return random_degrees.random_regular(node_count, degree, seed)

    @classmethod
    @remembered
    def watts_strogatz(
        cls, node_count: int, k: int, rewiring_probability: float, seed: int = 0
    ) -> ContactNetwork:
        """A ring lattice with some edges rewired; see `ergode.models.networks.random_degrees`."""
        from ergode.models.networks import random_degrees

        return random_degrees.watts_strogatz(node_count, k, rewiring_probability, seed)

    @classmethod
    def from_people(
        cls, people: Any, layers: Sequence[str] | Mapping[str, str], **options: Any
    ) -> ContactNetwork:
        """A network from a table of people; see `ergode.models.networks.people.from_people`."""
        from ergode.models.networks.people import from_people

        return from_people(people, layers, **options)

    @classmethod
    def population(
        cls,
        node_count: int,
        *,
        ages: Mapping[int, float] | None = None,
        household_sizes: Mapping[int, float] | None = None,
        school_ages: ArrayLike = (5, 18),
        class_size: float = 25,
        school_size: float = 500,
        working_ages: ArrayLike = (18, 65),
        employment: float = 0.75,
        workplace_size: float = 20,
        work_degree: int = 6,
        community_degree: float | None = None,
        mixing: ArrayLike | None = None,
        age_groups: ArrayLike | None = None,
        weights: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> Population:
        """People in households, schools, workplaces and a community; see `population`."""
        from ergode.models.networks import population

        return population.population(
            node_count, ages=ages, household_sizes=household_sizes,
            school_ages=school_ages, class_size=class_size, school_size=school_size,
            working_ages=working_ages, employment=employment,
            workplace_size=workplace_size, work_degree=work_degree,
            community_degree=community_degree, mixing=mixing, age_groups=age_groups,
            weights=weights, seed=seed,
        )  # fmt: skip

    # -- properties --------------------------------------------------------------------------

    @property
    def arc_count(self) -> int:
        """Number of arcs: twice the edges of an undirected network."""
        return int(self.targets.size)

    @property
    def edge_count(self) -> int:
        """Number of contacts; a pair that meets in two layers counts twice."""
        return self.arc_count if self.directed else self.arc_count // 2

    @property
    def mean_degree(self) -> float:
        """Mean number of arcs that leave a node."""
        return self.arc_count / self.node_count

    def degrees(self) -> np.ndarray:
        """Number of arcs that leave each node, shape [node_count]."""
        return np.diff(self.offsets)

    @cached_property
    def largest_degree(self) -> int:
        """Largest number of arcs that leave a node."""
        return int(self.degrees().max(initial=0))

    @cached_property
    def largest_in_degree(self) -> int:
        """Largest number of arcs that enter a node."""
        if not self.directed:
            return self.largest_degree
        return int(np.bincount(self.targets, minlength=1).max())

    @property
    def memory_bytes(self) -> int:
        """Size of all arrays [bytes]."""
        return sum(array.nbytes for _, array in self._arrays())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content of the network, in hexadecimal; equal on every machine."""
        identity = hashlib.sha256(repr((self.node_count, self.directed, self.layers)).encode())
        for name, array in self._arrays():
            identity.update(f"{name} {array.dtype.str} {array.shape}".encode())
            if array.dtype.kind in "biufc":
                identity.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
            else:
                identity.update(repr(array.tolist()).encode())
        return identity.hexdigest()

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Each contact once, as two arrays of node ids of shape [edge_count].

        Sorted by the first id, then the second; in an undirected network the first id is smaller.
        """
        source = self._sources()
        if self.directed:
            return source, self.targets.copy()
        once = source < self.targets
        return source[once], self.targets[once]

    def nodes_named(self, names: ArrayLike) -> np.ndarray:
        """Node ids of nodes by their names in the source of the network.

        Parameters
        ----------
        names : array_like
            Entries of `node_names`.

        Returns
        -------
        ndarray of int64
            Their positions. They are marked as such, and never taken for names.

        Raises
        ------
        ModelError
            The network has no node names, or a name is unknown.

        Examples
        --------
        >>> import ergode, networkx
        >>> net = ergode.ContactNetwork.from_networkx(networkx.Graph([("ann", "bob")]))
        >>> net.nodes_named(["bob"]).tolist()
        [1]
        """
        from ergode.models.networks.node_names import Positions, positions_of

        if self.node_names is None:
            raise ModelError("the network has no node names; its nodes are 0 to node_count - 1")
        wanted = np.atleast_1d(np.asarray(names)) if np.ndim(names) == 0 else names
        return positions_of(wanted, self.node_names, "names", "name").view(Positions)

    def with_attributes(self, **arrays: ArrayLike) -> ContactNetwork:
        """The same contacts, with node attributes added or replaced.

        Parameters
        ----------
        **arrays : array_like, shape [node_count]
            One value for each node.

        Raises
        ------
        ModelError
            An array has the wrong shape.

        Examples
        --------
        >>> import ergode
        >>> net = ergode.ContactNetwork.from_edges([0, 1], [1, 2]).with_attributes(age=[4, 31, 30])
        >>> net.attributes["age"].tolist()
        [4, 31, 30]
        """
        attributes = {**self.attributes, **checks.node_attributes(arrays, self.node_count)}
        return self._with(attributes=attributes)

    def reversed(self) -> ContactNetwork:
        """The transposed network: row `i` lists the nodes that can infect `i`."""
        if not self.directed:
            return self
        arcs = self._transposition()
        offsets = np.zeros(self.node_count + 1, self.offsets.dtype)
        np.cumsum(np.bincount(self.targets, minlength=self.node_count), out=offsets[1:])
        return self._with(
            offsets=offsets,
            targets=self._sources()[arcs],
            weights=None if self.weights is None else self.weights[arcs],
            layer=None if self.layer is None else self.layer[arcs],
        )

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Weights (or ones) as a sparse matrix; a pair's weights in several layers are added."""
        from ergode.models.networks import convert

        return convert.to_scipy(self)

    def to_networkx(self) -> networkx.Graph:
        """A networkx graph with names, weights and attributes; a multigraph if layered."""
        from ergode.models.networks import convert

        return convert.to_networkx(self)

    def contact_matrix(
        self,
        attribute: str,
        groups: ArrayLike | None = None,
        layer: str | None = None,
        weighted: bool = False,
    ) -> xarray.DataArray:
        """Mean contacts between groups; see `ergode.models.networks.mixing.contact_matrix`."""
        from ergode.models.networks import mixing

        return mixing.contact_matrix(self, attribute, groups, layer, weighted)

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        parts = [counted(self.node_count, "node"), counted(self.edge_count, f"{kind} edge")]
        parts.append(f"mean degree {self.mean_degree:.4g}")
        if self.weights is not None:
            parts.append("weighted")
        if self.layers:
            parts.append(f"layers {', '.join(self.layers)}")
        if self.attributes:
            parts.append(f"attributes {', '.join(self.attributes)}")
        return f"ContactNetwork({', '.join(parts)})"

    def _repr_html_(self) -> str:
        return card("ContactNetwork", self._facts())

    def _facts(self) -> dict[str, Any]:
        degrees, weights = self.degrees(), self.weights
        if weights is not None and weights.size:
            span = f"{weights.min():g} to {weights.max():g}"
        else:
            span = None
        return {
            "nodes": self.node_count,
            "edges": f"{self.edge_count:,} {'directed' if self.directed else 'undirected'}",
            "mean degree": float(self.mean_degree),
            "largest degree": int(degrees.max()) if degrees.size else None,
            "weights": span,
            "layers": self.layers or None,
            "attributes": tuple(self.attributes) or None,
            "memory": bytes_text(self.memory_bytes),
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ContactNetwork):
            return NotImplemented
        plain = (self.node_count, self.directed, self.layers)
        if plain != (other.node_count, other.directed, other.layers):
            return False
        mine, theirs = dict(self._arrays()), dict(other._arrays())
        return mine.keys() == theirs.keys() and all(
            np.array_equal(mine[name], theirs[name]) for name in mine
        )

    def __hash__(self) -> int:
        return hash(self.digest)

    def _with(self, **changes: Any) -> ContactNetwork:
        values = {one.name: getattr(self, one.name) for one in fields(self)} | changes
        network = object.__new__(type(self))
        network._set({**values, "attributes": dict(values["attributes"])})
        return network

    def _arrays(self) -> list[tuple[str, np.ndarray]]:
        names = ("offsets", "targets", "weights", "layer", "node_names")
        arrays = [(name, getattr(self, name)) for name in names]
        arrays += [
            (f"attributes {name}", self.attributes[name]) for name in sorted(self.attributes)
        ]
        return [(name, array) for name, array in arrays if array is not None]

    def _sources(self) -> np.ndarray:
        """The node at the near end of each arc, shape [arc_count]."""
        return np.repeat(np.arange(self.node_count, dtype=self.targets.dtype), self.degrees())

    def _transposition(self) -> np.ndarray:
        """Arcs in the order of their targets (then sources, then layers), shape [arc_count]."""
        from scipy.sparse import csr_array

        shape = (self.node_count, self.node_count)
        arcs = np.arange(self.arc_count, dtype=np.int64)
        return np.asarray(csr_array((arcs, self.targets, self.offsets), shape=shape).tocsc().data)


def _read_only(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value
