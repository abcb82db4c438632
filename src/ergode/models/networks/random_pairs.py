"""Random contact networks with independent pairs: uniform, by block, by distance.

Every draw is keyed by (seed, task or node), so a network depends only on its arguments, not on the
number of threads.

References
----------
V. Batagelj, U. Brandes, "Efficient generation of large random networks", Phys. Rev. E 71, 036113
(2005): draw the number of pairs to skip, instead of testing every pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, kernels
from ergode.core.arguments import check_switch
from ergode.core.calls.launch import check_room
from ergode.core.errors import ModelError
from ergode.core.math.elementary import log
from ergode.core.math.random import GENERATOR, draw_words, uniform_53
from ergode.models.networks import checks, csr
from ergode.models.networks.contact_network import ContactNetwork

# The word of the key that elsewhere is the replicate tells kinds of draws apart.
_PAIRS = 0
_POINTS = 1

_EDGES_PER_TASK = 1 << 16
_SPARE_DEVIATIONS = 10.0


def erdos_renyi(node_count: int, mean_degree: float, seed: int = 0) -> ContactNetwork:
    """Network G(n, p): every pair of nodes is in contact with probability p.

    The probability is exactly p = `mean_degree` / (`node_count` - 1). `mean_degree` is the
    expected mean degree; the realised one differs.

    Parameters
    ----------
    node_count : int
        Number of nodes.
    mean_degree : float
        Expected number of contacts of a node, from 0 to `node_count` - 1.
    seed : int
        Names the network among all such networks.

    Returns
    -------
    ContactNetwork
        Undirected.

    Raises
    ------
    ModelError
        An argument is out of range.

    Examples
    --------
    >>> import ergode
    >>> net = ergode.ContactNetwork.erdos_renyi(1000, mean_degree=8, seed=1)
    >>> 7 < net.mean_degree < 9
    True
    """
    count = checks.node_count_of(node_count)
    mean = checks.real_number(mean_degree, "mean_degree", count - 1)
    probability = mean / (count - 1) if count > 1 else 0.0
    tasks = _Tasks.empty()
    tasks.add_triangle(0, count, probability)
    return ContactNetwork._trusted(count, _rows(tasks, count, checks.seed_word(seed)))


def stochastic_block_model(
    block_sizes: ArrayLike,
    mean_degrees: ArrayLike | None = None,
    seed: int = 0,
    *,
    probabilities: ArrayLike | None = None,
) -> ContactNetwork:
    """Network of blocks: a pair is in contact with a probability that depends on its two blocks.

    Nodes are numbered block after block. Give `mean_degrees` or `probabilities`, not both.

    Parameters
    ----------
    block_sizes : array_like of int, shape [block_count]
        Number of nodes of each block.
    mean_degrees : array_like of float, shape [block_count, block_count], optional
        Element (a, b) is the expected number of contacts in block b of a node of block a. As
        contacts are mutual, size of a times (a, b) must be size of b times (b, a).
    seed : int
        Names the network among all such networks.
    probabilities : array_like of float, shape [block_count, block_count], optional
        Probability that a node of block a and one of block b are in contact; symmetric.

    Returns
    -------
    ContactNetwork
        Undirected, with the attribute ``"block"``.

    Raises
    ------
    ModelError
        Sizes or shapes are wrong, the matrix is not mutual, or a probability is not in [0, 1].

    Examples
    --------
    >>> import ergode
    >>> net = ergode.ContactNetwork.stochastic_block_model([300, 600], [[6, 2], [1, 4]], seed=1)
    >>> net.attributes["block"].sum()
    np.int64(600)
    """
    sizes = checks.node_ids(block_sizes, "block_sizes")
    checks.node_count_of(sum(sizes.tolist()) or 1)
    if sizes.size == 0 or (sizes < 1).any():
        raise ModelError(f"block_sizes is {sizes.tolist()}; expected at least one node in each")
    if (mean_degrees is None) == (probabilities is None):
        raise ModelError("give either mean_degrees or probabilities")
    if mean_degrees is not None:
        matrix = _block_probabilities(
            sizes, checks.square_matrix("mean_degrees", mean_degrees, sizes.size, "blocks")
        )
    else:
        matrix = checks.square_matrix("probabilities", probabilities, sizes.size, "blocks")
        if not np.array_equal(matrix, matrix.T):
            a, b = np.argwhere(matrix != matrix.T)[0]
            raise ModelError(
                f"probabilities[{a}, {b}] is {matrix[a, b]:g} but [{b}, {a}] is {matrix[b, a]:g}; "
                "contacts are mutual"
            )
    if (matrix > 1).any():
        a, b = np.argwhere(matrix > 1)[0]
        raise ModelError(
            f"nodes of blocks {a} and {b} would meet with probability {matrix[a, b]:g}; at most 1 "
            "is possible"
        )
    block = np.repeat(np.arange(sizes.size), sizes)
    count = block.size
    rows = _rows(_block_tasks(sizes, matrix), count, checks.seed_word(seed))
    return ContactNetwork._trusted(count, rows, attributes={"block": block})


def spatial(
    node_count: int, mean_degree: float, seed: int = 0, *, periodic: bool = True
) -> ContactNetwork:
    """Random geometric network: points in the unit square, in contact within a radius.

    The radius is chosen so that the expected mean degree is exactly `mean_degree`. Nodes are
    numbered along strips of the square, so that neighbours are also close in memory.

    Parameters
    ----------
    node_count : int
        Number of nodes.
    mean_degree : float
        Expected number of contacts of a node, up to (`node_count` - 1) pi / 4.
    seed : int
        Names the network among all such networks.
    periodic : bool
        Whether opposite sides of the square are joined (a torus: no border), or not (nodes near
        the border have fewer contacts, those inside more).

    Returns
    -------
    ContactNetwork
        Undirected, with the attributes ``"x"`` and ``"y"`` (float64, in [0, 1]).

    Raises
    ------
    ModelError
        An argument is out of range.

    Examples
    --------
    >>> import ergode
    >>> net = ergode.ContactNetwork.spatial(2000, mean_degree=6, seed=1)
    >>> 5 < net.mean_degree < 7
    True
    """
    count = checks.node_count_of(node_count)
    mean = checks.real_number(mean_degree, "mean_degree", (count - 1) * math.pi / 4)
    seed_word = checks.seed_word(seed)
    check_switch("spatial", "periodic", periodic)
    radius = _radius(mean / (count - 1) if count > 1 else 0.0, periodic)
    # Cells are no narrower than the radius, and have about one point each in sparse networks.
    side_count = max(1, min(int(1 / radius) if radius else count, math.isqrt(count)))
    if side_count < 3:
        side_count = 1  # otherwise a cell would be its own neighbour across periodic sides
    run = devices.resolve("cpu").run
    x, y = np.empty(count), np.empty(count)
    ids = csr.index_dtype(count)
    strip, column = np.empty(count, np.int32), np.empty(count, np.int32)
    run(_PLACE, count, seed_word, side_count, x, y, strip, column)
    _, order = csr.deal(np.arange(count, dtype=ids), column, side_count)
    _, order = csr.deal(order, strip[order], side_count)
    x, y, strip, column = x[order], y[order], strip[order], column[order]
    cell_starts = np.zeros(side_count**2 + 1, np.int64)
    cells = np.bincount(strip.astype(np.int64) * side_count + column, minlength=side_count**2)
    np.cumsum(cells, out=cell_starts[1:])

    points = (x, y, strip, column, cell_starts, side_count, radius * radius, periodic)
    offsets = np.zeros(count + 1, np.int64)
    run(_MEET, count, *points, False, offsets, np.empty(0, ids))
    np.cumsum(offsets, out=offsets)
    targets = np.empty(int(offsets[-1]), ids)
    run(_MEET, count, *points, True, offsets, targets)
    csr.sort_rows(offsets, targets)
    rows = (offsets.astype(csr.index_dtype(targets.size)), targets, None)
    return ContactNetwork._trusted(count, rows, attributes={"x": x, "y": y})


def block_rows(block: np.ndarray, probabilities: np.ndarray, seed: np.uint64) -> csr.Rows:
    """Rows of pairs in contact with a probability by their blocks.

    Parameters
    ----------
    block : ndarray of int, shape [node_count]
        Block of each node, in any order.
    probabilities : ndarray of float, shape [block_count, block_count]
        Symmetric, from 0 to 1.
    seed : uint64
        Keys the draws.
    """
    ids = csr.index_dtype(block.size)
    starts, order = csr.deal(np.arange(block.size, dtype=ids), block, probabilities.shape[0])
    tasks = _block_tasks(np.diff(starts), probabilities)
    return _rows(tasks, block.size, seed, order)


def _block_tasks(sizes: np.ndarray, matrix: np.ndarray) -> _Tasks:
    """Tasks of all pairs of blocks, of nodes numbered block after block."""
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    tasks = _Tasks.empty()
    for a in range(sizes.size):
        tasks.add_triangle(int(starts[a]), int(starts[a + 1]), float(matrix[a, a]))
        for b in range(a + 1, sizes.size):
            tall, wide = (starts[a], starts[a + 1]), (starts[b], starts[b + 1])
            tasks.add_rectangle(tall, wide, float(matrix[a, b]))
    return tasks


def _block_probabilities(sizes: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    contacts = sizes[:, None] * degrees
    if not np.allclose(contacts, contacts.T, rtol=1e-9):
        a, b = np.argwhere(~np.isclose(contacts, contacts.T, rtol=1e-9))[0]
        raise ModelError(
            f"mean_degrees[{a}, {b}] makes {contacts[a, b]:g} contacts of block {a} with {b}, but "
            f"[{b}, {a}] makes {contacts[b, a]:g}; contacts are mutual"
        )
    partners = np.tile(sizes, (sizes.size, 1)) - np.eye(sizes.size)
    alone = (partners == 0) & (degrees > 0)
    if alone.any():
        a = int(np.argwhere(alone)[0, 0])
        raise ModelError(
            f"mean_degrees[{a}, {a}] is {degrees[a, a]:g}, but block {a} has one node only"
        )
    return np.where(degrees > 0, degrees / np.maximum(partners, 1), 0.0)


def _radius(probability: float, periodic: bool) -> float:
    """Radius within which two random points lie with the given probability."""
    if periodic:
        return math.sqrt(probability / math.pi)
    if probability == 0:
        return 0.0

    def excess(r: float) -> float:  # for points in a square with borders, r <= 1
        return math.pi * r**2 - 8 / 3 * r**3 + r**4 / 2 - probability

    from scipy.optimize import brentq  # it takes half a second to import

    return float(brentq(excess, 0.0, 1.0, xtol=1e-300, rtol=1e-14))


@dataclass
class _Tasks:
    """Sets of pairs, each with one probability and about `_EDGES_PER_TASK` expected edges.

    A task is the pairs (row, column) with ``first <= row < last`` and ``left <= column < right``;
    for a triangle, which `left` -1 marks, with ``row < column < right``.
    """

    bounds: list[tuple[int, int, int, int]]
    probabilities: list[float]

    @classmethod
    def empty(cls) -> _Tasks:
        return cls([], [])

    def add_triangle(self, start: int, stop: int, probability: float) -> None:
        self._add((start, stop), (-1, stop), probability * (stop - start), probability)

    def add_rectangle(
        self, rows: tuple[int, int], columns: tuple[int, int], probability: float
    ) -> None:
        self._add(rows, columns, probability * (columns[1] - columns[0]), probability)

    def _add(
        self, rows: tuple[int, int], columns: tuple[int, int], per_row: float, probability: float
    ) -> None:
        if probability == 0:
            return
        # (A triangle has half of the pairs; tasks are listed only if the edges fit into memory.)
        _check_contacts(int(per_row * (rows[1] - rows[0]) / 2))
        size = max(1, int(min(_EDGES_PER_TASK / per_row, rows[1] - rows[0])))
        for first, last in devices.spans(int(rows[1] - rows[0]), size):
            bounds = (rows[0] + first, rows[0] + last, *columns)
            self.bounds.append((int(bounds[0]), int(bounds[1]), int(bounds[2]), int(bounds[3])))
            self.probabilities.append(probability)


def _check_contacts(count: int) -> None:
    check_room(
        16 * count, f"a network of about {count:,} contacts", "use fewer nodes or lower degrees"
    )


def _rows(
    tasks: _Tasks, node_count: int, seed: np.uint64, names: np.ndarray | None = None
) -> csr.Rows:
    """Draw the pairs of all tasks, as compressed rows; node i of a task is node ``names[i]``."""
    bounds = np.array(tasks.bounds, np.int64).reshape(-1, 4)
    probabilities = np.array(tasks.probabilities)
    first, last, left, right = bounds.T
    height = last - first
    triangle = height * (right - 1) - (first + last - 1) * height // 2
    pairs = np.where(left < 0, triangle, height * (right - left))
    with np.errstate(divide="ignore"):
        scale = 1.0 / np.log1p(-probabilities)  # -0.0 for probability 1: nothing is skipped
    expected = pairs * probabilities
    # A task overflows its buffer once in 10^20; all tasks then repeat with larger buffers.
    likely = expected + _SPARE_DEVIATIONS * np.sqrt(expected) + 30
    room = np.minimum(pairs, np.ceil(likely).astype(np.int64))
    ids = csr.index_dtype(node_count)
    _check_contacts(int(room.sum()))
    found = np.zeros(pairs.size, np.int64)
    while True:
        places = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
        source, target = np.empty(places[-1], ids), np.empty(places[-1], ids)
        run = devices.resolve("cpu").run
        run(_DRAW, pairs.size, seed, bounds, pairs, scale, places, source, target, found)
        if (found <= room).all():
            break
        room = np.maximum(room, found)
    if names is not None:
        source, target = names[source], names[target]
    return csr.build_rows(source, target, node_count, directed=False)


def _draw_pairs(task, seed, bounds, pairs, scale, places, source, target, found):
    row, right = bounds[task, 0], bounds[task, 3]
    left = bounds[task, 2]
    triangle = left < 0
    width = right - left
    column = row  # column of the last pair, in a triangle
    place, end = places[task], places[task + 1]
    position = np.int64(-1)  # index of that pair among all pairs of the task
    index = 0
    while True:
        w0, w1, w2, w3 = draw_words(seed, _PAIRS, task, GENERATOR, index)
        index += 1
        done = False
        for half in range(2):
            u = uniform_53(w0, w1) if half == 0 else uniform_53(w2, w3)
            skip = log(u) * scale[task]
            if skip >= pairs[task] - 1 - position:
                done = True
                break
            step = np.int64(skip) + 1
            position += step
            if triangle:
                column += step
                while column >= right:
                    row += 1
                    column += row + 1 - right
            else:
                row = bounds[task, 0] + position // width
                column = left + position % width
            if place < end:
                source[place] = row
                target[place] = column
            place += 1
        if done:
            break
    found[task] = place - places[task]
    for rest in range(place, end):
        source[rest] = 0  # unused entries become self-loops, which are dropped
        target[rest] = 0


def _place_point(node, seed, side_count, x, y, strip, column):
    w0, w1, w2, w3 = draw_words(seed, _POINTS, node, GENERATOR, 0)
    x[node] = uniform_53(w0, w1)
    y[node] = uniform_53(w2, w3)
    column[node] = min(np.int64(x[node] * side_count), side_count - 1)
    strip[node] = min(np.int64(y[node] * side_count), side_count - 1)


def _meet(
    node, x, y, strip, column, cell_starts, side_count, radius_squared, periodic,
    fill, offsets, targets,
):  # fmt: skip
    """Count the contacts of a node into ``offsets[node + 1]``, or fill them into its row."""
    place = offsets[node] if fill else np.int64(0)
    reach = 1 if side_count > 1 else 0
    for down in range(-reach, reach + 1):
        other_strip = strip[node] + down
        if other_strip < 0 or other_strip >= side_count:
            if not periodic:
                continue
            other_strip = (other_strip + side_count) % side_count
        for across in range(-reach, reach + 1):
            other_column = column[node] + across
            if other_column < 0 or other_column >= side_count:
                if not periodic:
                    continue
                other_column = (other_column + side_count) % side_count
            cell = other_strip * side_count + other_column
            for other in range(cell_starts[cell], cell_starts[cell + 1]):
                dx = math.fabs(x[node] - x[other])
                dy = math.fabs(y[node] - y[other])
                if periodic:
                    dx = min(dx, 1.0 - dx)
                    dy = min(dy, 1.0 - dy)
                if dx * dx + dy * dy < radius_squared and other != node:
                    if fill:
                        targets[place] = other
                    place += 1
    if not fill:
        offsets[node + 1] = place


_DRAW = kernels.for_each(_draw_pairs)
_PLACE = kernels.for_each(_place_point)
_MEET = kernels.for_each(_meet)
