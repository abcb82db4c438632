"""Random contact networks of given degrees: grown, paired at random, or rewired from a lattice.

Every draw is keyed by (seed, node or edge, attempt), so a network depends only on its arguments,
not on the number of threads.

References
----------
A.-L. Barabasi, R. Albert, "Emergence of scaling in random networks", Science 286, 509 (1999).
D. J. Watts, S. H. Strogatz, "Collective dynamics of 'small-world' networks", Nature 393, 440
(1998).
B. D. McKay, N. C. Wormald, "Uniform generation of random regular graphs of moderate degree",
J. Algorithms 11, 52 (1990): pairing, then switchings that remove loops and multiple edges.
C. R. Rao, "Generation of random permutations of given number of elements using random sampling
numbers", Sankhya A 23, 305 (1961): deal into random heaps, then shuffle each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, kernels
from ergode.core.errors import ModelError
from ergode.core.math.random import GENERATOR, draw_words, uniform_53
from ergode.models.networks import checks, csr
from ergode.models.networks.contact_network import ContactNetwork

# The word of the key that elsewhere is the replicate tells kinds of draws apart. Kinds 0 and 1 are
# those of `generators`; a restart of `random_regular` adds to the last kind.
_ATTACHING = 2
_REWIRING = 3
_HEAPS = 4
_SHUFFLE = 5
_SWITCHES = 6  # 7 is that of `households`
_KINDS = 8

_HEAP_SIZE = 1 << 15
_HEAP_BITS_MOST = 12
_SWITCH_ATTEMPTS = 10_000


def barabasi_albert(node_count: int, m: int, seed: int = 0) -> ContactNetwork:
    """Network grown by preferential attachment.

    Starts from a star of `m` + 1 nodes; every further node links to `m` different nodes, each
    drawn with probability proportional to its degree at that time. Degrees then follow a power
    law of exponent 3.

    Parameters
    ----------
    node_count : int
        Number of nodes, more than `m`.
    m : int
        Links of a new node, at least 1.
    seed : int
        Names the network among all such networks.

    Returns
    -------
    ContactNetwork
        Undirected, of `m` (`node_count` - `m`) edges.

    Raises
    ------
    ModelError
        An argument is out of range.

    Examples
    --------
    >>> import ergode
    >>> ergode.ContactNetwork.barabasi_albert(1000, m=4, seed=1)
    ContactNetwork(1,000 nodes, 3,984 undirected edges, mean degree 7.968)
    """
    count = checks.node_count_of(node_count)
    links = checks.whole(m, "m", 1, count - 1)
    ids = csr.index_dtype(count)
    source = np.empty(links * (count - links), ids)
    target = np.empty(links * (count - links), ids)
    source[:links] = np.arange(1, links + 1)
    target[:links] = 0
    # Links of a node depend on all earlier nodes, so one thread runs in order.
    _ATTACH.compiled("cpu")(links + 1, count, checks.seed_word(seed), links, source, target)
    return ContactNetwork._trusted(count, csr.build_rows(source, target, count, directed=False))


def configuration_model(degrees: ArrayLike, seed: int = 0) -> ContactNetwork:
    """Random network with (nearly) given degrees: the erased configuration model.

    Each node gets as many stubs as its degree. Stubs are paired uniformly at random. Then
    self-loops are erased, and parallel edges are merged, so a degree may be smaller than given. The
    erased share vanishes for large `node_count` if degrees have a finite variance.

    Parameters
    ----------
    degrees : array_like of int, shape [node_count]
        Target degree of each node, from 0 to `node_count` - 1; the sum must be even.
    seed : int
        Names the network among all such networks.

    Returns
    -------
    ContactNetwork
        Undirected.

    Raises
    ------
    ModelError
        A degree is out of range, or the sum is odd.

    Examples
    --------
    >>> import ergode
    >>> net = ergode.ContactNetwork.configuration_model([3] * 500 + [9] * 100, seed=1)
    >>> net.node_count, 2300 < net.arc_count <= 2400
    (600, True)
    """
    wanted = checks.node_ids(degrees, "degrees")
    if wanted.size == 0:
        raise ModelError("degrees is empty; a network has at least one node")
    count = wanted.size
    bad = (wanted < 0) | (wanted >= count)
    checks.reject(bad, wanted, "degrees", f"a degree is from 0 to node_count - 1 = {count - 1}")
    if int(wanted.sum()) % 2:
        raise ModelError(
            f"degrees sum to {int(wanted.sum())}; expected an even sum, as every edge has two ends"
        )
    rows = _paired(wanted.astype(np.int64), checks.seed_word(seed), 0)
    return ContactNetwork._trusted(count, rows)


def random_regular(node_count: int, degree: int, seed: int = 0) -> ContactNetwork:
    """Random regular network: all nodes have equal degree.

    Stubs are paired at random. About `degree`^2 / 4 pairs, independent of `node_count`, are
    self-loops or parallel edges; these are switched with random edges. The network is therefore
    always simple and regular. It is uniform among such networks up to the effect of the switches,
    which vanishes as `node_count` grows.

    Parameters
    ----------
    node_count : int
        Number of nodes.
    degree : int
        Degree of every node, below `node_count`; `node_count` times `degree` must be even.
    seed : int
        Names the network among all such networks.

    Returns
    -------
    ContactNetwork
        Undirected.

    Raises
    ------
    ModelError
        An argument is out of range, or the number of stubs is odd.

    Examples
    --------
    >>> import ergode
    >>> net = ergode.ContactNetwork.random_regular(500, degree=8, seed=1)
    >>> set(net.degrees().tolist())
    {8}
    """
    count = checks.node_count_of(node_count)
    d = checks.whole(degree, "degree", 0, count - 1)
    if count * d % 2:
        raise ModelError(
            f"node_count {count} times degree {d} is odd; no such network exists, as every edge "
            "has two ends"
        )
    seed_word = checks.seed_word(seed)
    # With more than half of all pairs in contact, switching is slow: draw the complement.
    dense = 2 * d >= count
    table = _regular_table(count, count - 1 - d if dense else d, seed_word)
    if dense:
        complement = np.empty(count * d, table.dtype)
        run = devices.resolve("cpu").run
        run(_COMPLEMENT, count, count, table, count - 1 - d, complement)
        table = complement
    offsets = (np.arange(count + 1, dtype=np.int64) * d).astype(csr.index_dtype(count * d))
    return ContactNetwork._trusted(count, (offsets, table, None))


def watts_strogatz(
    node_count: int, k: int, rewiring_probability: float, seed: int = 0
) -> ContactNetwork:
    """Small world: a ring with contacts to the `k` nearest nodes, with some edges rewired.

    As in the paper, edges are visited lap by lap: first those to the nearest clockwise neighbour,
    then to the second nearest, and so on. With the given probability the far end is moved to a node
    drawn uniformly from all nodes that are not yet in contact with the near end. The number of
    edges remains `node_count` `k` / 2.

    Parameters
    ----------
    node_count : int
        Number of nodes.
    k : int
        Degree in the ring: even, from 0 to `node_count` - 1.
    rewiring_probability : float
        From 0 (the ring) to 1.
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
    >>> ergode.ContactNetwork.watts_strogatz(500, k=6, rewiring_probability=0.1, seed=1)
    ContactNetwork(500 nodes, 1,500 undirected edges, mean degree 6)
    """
    count = checks.node_count_of(node_count)
    neighbours = checks.whole(k, "k", 0, count - 1)
    if neighbours % 2:
        raise ModelError(f"k is {neighbours}; expected an even number, half on each side")
    probability = checks.real_number(rewiring_probability, "rewiring_probability", 1)
    half = neighbours // 2
    ids = csr.index_dtype(count)
    source = np.repeat(np.arange(count, dtype=ids), half)
    target = np.empty(count * half, ids)
    for lap in range(half):
        target[lap::half] = (np.arange(count) + lap + 1) % count
    if probability > 0:
        far_ends = np.full(count, half, ids)  # how many edges have their far end at each node
        # An edge depends on all earlier edges, so one thread runs in order.
        seed_word = checks.seed_word(seed)
        _REWIRE.compiled("cpu")(0, half, seed_word, count, half, probability, target, far_ends)
    return ContactNetwork._trusted(count, csr.build_rows(source, target, count, directed=False))


def _paired(degrees: np.ndarray, seed: np.uint64, restart: int) -> csr.Rows:
    """Rows of a uniformly random pairing of stubs, loops and parallel edges erased."""
    stubs = np.repeat(np.arange(degrees.size, dtype=csr.index_dtype(degrees.size)), degrees)
    stubs = shuffled(stubs, seed, restart)
    half = stubs.size // 2
    return csr.build_rows(stubs[:half], stubs[half:], degrees.size, directed=False)


def shuffled(values: np.ndarray, seed: np.uint64, restart: int = 0) -> np.ndarray:
    """A uniformly random permutation: values go to random heaps, and each heap is shuffled."""
    bits = min(_HEAP_BITS_MOST, max(0, int(values.size // _HEAP_SIZE).bit_length()))
    heap = np.empty(values.size, np.int32)
    run = devices.resolve("cpu").run
    run(_HEAP, -(-values.size // 4), seed, restart * _KINDS, bits, heap)
    starts, values = csr.deal(values, heap, 1 << bits)
    run(_SHUFFLE_HEAP, 1 << bits, seed, restart * _KINDS, starts, values)
    return values


def _regular_table(count: int, d: int, seed: np.uint64) -> np.ndarray:
    """Targets of a random d-regular simple network, row after sorted row; 2 d < count."""
    table = np.full(count * d, -1, csr.index_dtype(count))
    if d == 0:
        return table
    restart = 0
    while True:
        offsets, targets, _ = _paired(np.full(count, d), seed, restart)
        filled = np.diff(offsets)
        places = np.repeat(np.arange(count, dtype=np.int64) * d - offsets[:-1], filled)
        table[places + np.arange(targets.size)] = targets
        stubs = np.repeat(np.arange(count), d - filled)
        stuck = np.zeros(1, np.int64)
        repair = _SWITCH.compiled("cpu")
        repair(0, stubs.size // 2, seed, restart * _KINDS, stubs, table, d, filled, stuck)
        if not stuck[0]:
            csr.sort_rows(np.arange(count + 1, dtype=np.int64) * d, table)
            return table
        restart += 1  # happens only in networks of a few nodes


def _below(w0, w1, count):
    """Integer in [0, count), at most count / 2^53 from equally likely."""
    return min(np.int64(uniform_53(w0, w1) * count), np.int64(count) - 1)


def _attach(start, stop, seed, links, source, target):
    for node in range(start, stop):
        edge = links * (node - links)
        ends = 2 * edge  # the list of ends has both ends of every edge so far
        for link in range(links):
            attempt = 0
            found = False
            while not found:
                entity = node * links + link
                w0, w1, w2, w3 = draw_words(seed, _ATTACHING, entity, GENERATOR, attempt)
                attempt += 1
                for half in range(2):
                    end = _below(w0, w1, ends) if half == 0 else _below(w2, w3, ends)
                    chosen = target[end >> 1] if end & 1 else source[end >> 1]
                    found = True
                    for before in range(edge, edge + link):
                        if target[before] == chosen:
                            found = False
                    if found:
                        source[edge + link] = node
                        target[edge + link] = chosen
                        break


def _heap(block, seed, kind, bits, heap):
    words = draw_words(seed, kind + _HEAPS, block, GENERATOR, 0)
    place = 4 * block
    for word in words:
        if place < heap.size:
            heap[place] = np.uint64(word) >> np.uint64(32 - bits)
        place += 1


def _shuffle_heap(start, stop, seed, kind, starts, values):
    for heap in range(start, stop):
        first = starts[heap]
        count = starts[heap + 1] - first
        for pair in range(count >> 1):  # two exchanges from each block of words
            last = count - 1 - 2 * pair
            w0, w1, w2, w3 = draw_words(seed, kind + _SHUFFLE, heap, GENERATOR, pair)
            one, other = first + last, first + _below(w0, w1, last + 1)
            values[one], values[other] = values[other], values[one]
            one, other = first + last - 1, first + _below(w2, w3, last)
            values[one], values[other] = values[other], values[one]


def _meets(node, other, table, d, filled):
    for place in range(node * d, node * d + filled[node]):
        if table[place] == other:
            return True
    return False


def _replace(node, old, new, table, d):
    for place in range(node * d, (node + 1) * d):
        if table[place] == old:
            table[place] = new
            return


def _switch(start, stop, seed, kind, stubs, table, d, filled, stuck):
    """Join each pair of free stubs (u, v) to the ends of a random edge (x, y), which is removed."""
    half = stubs.size // 2
    for pair in range(start, stop):
        # Pairing the two halves of the sorted list avoids pairs of one node's stubs.
        u, v = stubs[pair], stubs[pair + half]
        joined = False
        for attempt in range(_SWITCH_ATTEMPTS):
            w0, w1, w2, w3 = draw_words(seed, kind + _SWITCHES, pair, GENERATOR, attempt)
            x = _below(w0, w1, filled.size)
            slot = _below(w2, w3, d)
            if slot >= filled[x]:
                continue
            y = np.int64(table[x * d + slot])
            if x == u or y == v or _meets(u, x, table, d, filled):
                continue
            if _meets(v, y, table, d, filled):
                continue
            _replace(x, y, u, table, d)
            _replace(y, x, v, table, d)
            table[u * d + filled[u]] = x
            filled[u] += 1
            table[v * d + filled[v]] = y
            filled[v] += 1
            joined = True
            break
        if not joined:
            stuck[0] = 1
            return


def _complement(row, count, table, d, complement):
    """Fill a row with all nodes but itself and those in its sorted row of `table`."""
    skipped = row * d
    place = row * (count - 1 - d)
    for node in range(count):
        if skipped < (row + 1) * d and table[skipped] == node:
            skipped += 1
        elif node != row:
            complement[place] = node
            place += 1


def _rewire(start, stop, seed, count, half, probability, target, far_ends):
    for lap in range(start, stop):
        for node in range(count):
            edge = node * half + lap
            w0, w1, w2, w3 = draw_words(seed, _REWIRING, edge, GENERATOR, 0)
            if uniform_53(w0, w1) >= probability:
                continue
            if half + far_ends[node] >= count - 1:
                continue  # in contact with all already
            attempt = 1
            new = _below(w2, w3, count)
            while new == node or _linked(node, new, target, half):
                w0, w1, w2, w3 = draw_words(seed, _REWIRING, edge, GENERATOR, attempt)
                new = _below(w0, w1, count)
                attempt += 1
            far_ends[target[edge]] -= 1
            far_ends[new] += 1
            target[edge] = new


def _linked(node, other, target, half):
    for lap in range(half):
        if target[node * half + lap] == other or target[other * half + lap] == node:
            return True
    return False


_ATTACH = kernels.cpu_kernel(_attach)
_HEAP = kernels.for_each(_heap)
_SHUFFLE_HEAP = kernels.cpu_kernel(_shuffle_heap)
_SWITCH = kernels.cpu_kernel(_switch)
_COMPLEMENT = kernels.for_each(_complement)
_REWIRE = kernels.cpu_kernel(_rewire)
