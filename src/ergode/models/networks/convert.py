"""Contact networks from and to scipy.sparse, networkx and igraph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from ergode.core.devices.foreign import on_host
from ergode.core.errors import ModelError
from ergode.models.networks import checks
from ergode.models.networks.contact_network import ContactNetwork

if TYPE_CHECKING:
    import networkx


def from_scipy(matrix: Any, directed: bool | None = None) -> ContactNetwork:
    """Network of a square matrix of weights.

    The diagonal and stored zeros are dropped; entries stored twice are added. A matrix whose
    entries are all one (or True) gives a network without weights.

    Parameters
    ----------
    matrix : scipy.sparse array or matrix, or array_like, shape [node_count, node_count]
        Element (i, j) is the weight of the contact from `i` to `j`.
    directed : bool, optional
        None: undirected if the matrix is symmetric, else directed. False: it must be symmetric.

    Returns
    -------
    ContactNetwork

    Raises a ModelError if the matrix is not square, an element is negative or not finite, or
    `directed` is False and the matrix is not symmetric.

    Examples
    --------
    >>> import ergode, scipy.sparse
    >>> ergode.ContactNetwork.from_scipy(scipy.sparse.eye_array(4, k=1))
    ContactNetwork(4 nodes, 3 directed edges, mean degree 0.75)
    """
    if not scipy.sparse.issparse(matrix):
        try:
            matrix = on_host(matrix)
        except ValueError:
            raise ModelError("the matrix is ragged; expected a square one") from None
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ModelError(f"the matrix has shape {matrix.shape}; expected a square one")
    entries = scipy.sparse.coo_array(matrix)
    if entries.dtype.kind not in "biuf":
        raise ModelError(f"the matrix holds {entries.dtype}; expected numbers")
    bad = ~np.isfinite(entries.data) | (entries.data < 0)
    if bad.any():
        first = int(np.argmax(bad))
        raise ModelError(
            f"element ({entries.row[first]}, {entries.col[first]}) of the matrix is "
            f"{entries.data[first]}; a weight must be finite and not negative"
        )
    entries.sum_duplicates()
    stored = entries.data != 0
    source, target, weights = entries.row[stored], entries.col[stored], entries.data[stored]
    network = ContactNetwork.from_edges(
        source,
        target,
        matrix.shape[0],
        directed=True,
        weights=None if (weights == 1).all() else weights,
    )
    if directed:
        return network
    mirror = network.reversed()
    # A directed network that equals its transpose is undirected.
    if network == mirror:
        return network._with(directed=False)
    if directed is None:
        return network
    one = scipy.sparse.csr_array((weights, (source, target)), matrix.shape)
    different = (one != one.T).tocoo()
    off_diagonal = np.flatnonzero(different.row != different.col)
    i, j = different.row[off_diagonal[0]], different.col[off_diagonal[0]]
    raise ModelError(
        f"directed is False, but element ({i}, {j}) of the matrix is {one[i, j]} and "
        f"({j}, {i}) is {one[j, i]}"
    )


def from_networkx(graph: networkx.Graph, weight: str | None = None) -> ContactNetwork:
    """Network of a networkx graph.

    Node names are kept as `node_names`, unless they are 0 ... n - 1 in order. Node attributes are
    kept where every node has a number, or every node text, under that name; text is a category, as
    for `strata`. Parallel edges of a multigraph are one
    contact; their weights are added. Self-loops are dropped.

    Parameters
    ----------
    graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        The contacts.
    weight : str, optional
        Edge attribute with the weights; None for none.

    Returns
    -------
    ContactNetwork

    Raises a ModelError if the graph is empty, or an edge has no such attribute, or not a sound
    number there.

    Examples
    --------
    >>> import ergode, networkx
    >>> net = ergode.ContactNetwork.from_networkx(networkx.path_graph(["ann", "bob", "eve"]))
    >>> net.node_names.tolist(), net.targets.tolist()
    (['ann', 'bob', 'eve'], [1, 0, 2, 1])
    """
    if not hasattr(graph, "adj"):
        raise ModelError(f"the graph is {type(graph).__name__}; expected a networkx graph")
    names = list(graph)
    if not names:
        raise ModelError("the graph has no nodes")
    number = {name: index for index, name in enumerate(names)}
    ends = [(number[one], number[other]) for one, other in graph.edges()]
    weights = None
    if weight is not None:
        weights = []
        for one, other, attributes in graph.edges(data=True):
            if weight not in attributes:
                raise ModelError(f"edge ({one!r}, {other!r}) has no attribute {weight!r}")
            weights.append(_edge_weight(attributes[weight], f"({one!r}, {other!r})", weight))
    columns: dict[str, list[Any]] = {}
    for _, attributes in graph.nodes(data=True):
        for key, value in attributes.items():
            columns.setdefault(str(key), []).append(value)
    return _network(names, ends, graph.is_directed(), weights, columns)


def from_igraph(graph: Any, weight: str | None = None) -> ContactNetwork:
    """Network of an igraph graph.

    The vertex attribute ``"name"``, if there, is kept as `node_names`; vertex attributes are kept
    where every vertex has a number, or every vertex text, under that name. Parallel edges are one
    contact; their weights are added. Self-loops are dropped.

    Parameters
    ----------
    graph : igraph.Graph
        The contacts.
    weight : str, optional
        Edge attribute with the weights; None for none.

    Returns
    -------
    ContactNetwork

    Raises a ModelError if the graph is empty, or an edge has no such attribute, or not a sound
    number there.

    Examples
    --------
    >>> import ergode, igraph  # doctest: +SKIP
    >>> ergode.ContactNetwork.from_igraph(igraph.Graph.Ring(5))  # doctest: +SKIP
    ContactNetwork(5 nodes, 5 undirected edges, mean degree 2)
    """
    if not hasattr(graph, "vcount"):
        raise ModelError(f"the graph is {type(graph).__name__}; expected an igraph graph")
    if graph.vcount() < 1:
        raise ModelError("the graph has no nodes")
    attributes = graph.vs.attributes()
    names = graph.vs["name"] if "name" in attributes else range(graph.vcount())
    ends = graph.get_edgelist()
    weights = None
    if weight is not None:
        if weight not in graph.es.attributes():
            raise ModelError(f"the graph's edges have no attribute {weight!r}")
        weights = [
            _edge_weight(value, str(pair), weight)
            for pair, value in zip(ends, graph.es[weight], strict=True)
        ]
    columns = {name: graph.vs[name] for name in attributes if name != "name"}
    return _network(list(names), ends, graph.is_directed(), weights, columns)


def to_scipy(network: ContactNetwork) -> scipy.sparse.csr_array:
    """Weights (or ones) as a float32 matrix, shape [node_count, node_count].

    The weights of a pair that meets in several layers are added.
    """
    weights = network.weights
    data = np.ones(network.arc_count, np.float32) if weights is None else weights.copy()
    matrix = scipy.sparse.csr_array(
        (data, network.targets.copy(), network.offsets.copy()),
        shape=(network.node_count, network.node_count),
    )
    matrix.sum_duplicates()
    return matrix


def to_networkx(network: ContactNetwork) -> networkx.Graph:
    """A networkx graph: node names and attributes, edge attribute ``"weight"`` where weighted.

    A network of layers becomes a multigraph whose edge keys are the layers' names.
    """
    import networkx

    kinds = {
        (False, False): networkx.Graph,
        (True, False): networkx.DiGraph,
        (False, True): networkx.MultiGraph,
        (True, True): networkx.MultiDiGraph,
    }
    graph = kinds[network.directed, bool(network.layers)]()
    nodes: Iterable[Any] = range(network.node_count)
    names = list(nodes) if network.node_names is None else network.node_names.tolist()
    columns = {name: values.tolist() for name, values in network.attributes.items()}
    for index, name in enumerate(names):
        graph.add_node(name, **{key: values[index] for key, values in columns.items()})
    source = network._sources()
    once = np.full(source.size, True) if network.directed else source < network.targets
    sides = zip(source[once].tolist(), network.targets[once].tolist(), strict=True)
    extra: dict[str, list[Any]] = {}
    if network.weights is not None:
        extra["weight"] = network.weights[once].tolist()
    if network.layer is not None:
        extra["key"] = [network.layers[index] for index in network.layer[once].tolist()]
    for index, (one, other) in enumerate(sides):
        attributes = {key: values[index] for key, values in extra.items()}
        graph.add_edge(names[one], names[other], **attributes)
    return graph


def _network(
    names: list[Any],
    ends: list[tuple[int, int]],
    directed: bool,
    weights: list[float] | None,
    columns: dict[str, list[Any]],
) -> ContactNetwork:
    pairs = np.array(ends, np.int64).reshape(-1, 2)
    network = ContactNetwork.from_edges(pairs[:, 0], pairs[:, 1], len(names), directed, weights)
    attributes = {}
    for name, values in columns.items():
        if len(values) == len(names):
            for kind in ((int, float, np.number, np.bool_), str):
                if all(isinstance(value, kind) for value in values):
                    attributes[name] = np.array(values)
    node_names = None if names == list(range(len(names))) else checks.name_array(names)
    return network._with(attributes=attributes, node_names=node_names)


def _edge_weight(value: Any, edge: str, name: str) -> float:
    try:
        weight = float(value)
    except (TypeError, ValueError, OverflowError):
        weight = float("nan")
    if not 0 <= weight < float("inf"):
        raise ModelError(
            f"attribute {name!r} of edge {edge} is {value!r}; a weight must be a finite number "
            "and not negative"
        )
    return weight
