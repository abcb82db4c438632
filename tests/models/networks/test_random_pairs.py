"""Generators: every network simple, every distribution right, whatever the number of threads.

The probability that a correct generator fails any one of the thirty statistical checks here is
about 2e-8, so that of the file is below 1e-6; seeds are fixed, so what passes once passes always.
"""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from ergode.core.errors import ModelError
from ergode.models.networks import random_degrees, random_pairs
from ergode.models.networks.contact_network import ContactNetwork

UNLIKELY = 2e-8
SIGMAS = 5.6

CALLS = {
    "erdos_renyi": lambda n, seed: ContactNetwork.erdos_renyi(n, mean_degree=6, seed=seed),
    "stochastic_block_model": lambda n, seed: ContactNetwork.stochastic_block_model(
        [n // 3, n - n // 3], [[4, 2], [2 * (n // 3) / (n - n // 3), 3]], seed=seed
    ),
    "spatial": lambda n, seed: ContactNetwork.spatial(n, mean_degree=6, seed=seed),
    "spatial_bordered": lambda n, seed: ContactNetwork.spatial(n, 6, seed, periodic=False),
    "barabasi_albert": lambda n, seed: ContactNetwork.barabasi_albert(n, m=3, seed=seed),
    "configuration_model": lambda n, seed: ContactNetwork.configuration_model(
        np.arange(n) % 2 * 2 + np.arange(n) // 2 % 2 * 4, seed=seed
    ),
    "random_regular": lambda n, seed: ContactNetwork.random_regular(n, degree=6, seed=seed),
    "watts_strogatz": lambda n, seed: ContactNetwork.watts_strogatz(n, 6, 0.2, seed=seed),
}


def checked(network):
    """The network, after the constructor has looked for loops, duplicates and missing arcs."""
    assert network == ContactNetwork(
        network.node_count, network.offsets, network.targets, attributes=network.attributes
    )
    return network


def fits(observed, probabilities):
    """Whether counts agree with probabilities, by chi-square over classes expected 5 times."""
    expected = np.asarray(probabilities) * sum(observed)
    rare = expected < 5
    observed = np.append(np.asarray(observed)[~rare], np.asarray(observed)[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 5:
        observed, expected = observed[:-1], expected[:-1]
    chi_square = np.sum((observed - expected) ** 2 / expected)
    return stats.chi2.sf(chi_square, observed.size - 1) > UNLIKELY


def edge_set(network):
    return tuple(zip(*(ends.tolist() for ends in network.edges()), strict=True))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("node_count", [20, 100, 3000])
def test_simple_and_keyed_by_seed(name, node_count):
    network = checked(CALLS[name](node_count, 1))
    assert network.node_count == node_count and not network.directed
    assert network == CALLS[name](node_count, 1)
    assert network != CALLS[name](node_count, 2)
    assert network != CALLS[name](node_count, 2**64 - 1)


@pytest.mark.parametrize("name", CALLS)
def test_threads_do_not_matter(name, monkeypatch):
    digests = set()
    for threads in (1, 2, 5):
        monkeypatch.setenv("ERGODE_THREADS", str(threads))
        digests.add(CALLS[name](90_000, 3).digest)
    assert len(digests) == 1


def test_erdos_renyi_is_exact():
    # All 64 graphs of four nodes are equally likely at p = 1/2.
    seen = Counter(
        edge_set(ContactNetwork.erdos_renyi(4, mean_degree=1.5, seed=seed)) for seed in range(4000)
    )
    assert fits([*seen.values(), *[0] * (64 - len(seen))], np.full(64, 1 / 64))


@pytest.mark.parametrize(("node_count", "mean_degree"), [(50_000, 8.0), (2000, 150.0)])
def test_erdos_renyi_degrees(node_count, mean_degree):
    network = checked(ContactNetwork.erdos_renyi(node_count, mean_degree, seed=7))
    pairs, p = math.comb(node_count, 2), mean_degree / (node_count - 1)
    assert abs(network.edge_count - pairs * p) < SIGMAS * math.sqrt(pairs * p * (1 - p))
    law = stats.binom(node_count - 1, p)
    classes = np.arange(network.degrees().max() + 2)
    # Degrees of a network are nearly independent: their sum varies twice as much, no more.
    assert fits(np.bincount(network.degrees(), minlength=classes.size), law.pmf(classes))


def test_erdos_renyi_limits():
    assert ContactNetwork.erdos_renyi(1, 0).arc_count == 0
    assert ContactNetwork.erdos_renyi(300, 0).arc_count == 0
    full = checked(ContactNetwork.erdos_renyi(300, 299))
    assert full.edge_count == math.comb(300, 2)


def test_room_for_edges_grows(monkeypatch):
    expected = ContactNetwork.erdos_renyi(3000, 8, seed=1)
    monkeypatch.setattr(random_pairs, "_SPARE_DEVIATIONS", -20.0)
    assert ContactNetwork.erdos_renyi(3000, 8, seed=1) == expected


def test_block_densities():
    sizes = np.array([900, 300, 1800, 1])
    p = np.array([[0.02, 0.1, 0, 0.5], [0.1, 0.3, 0.01, 1], [0, 0.01, 0.004, 0], [0.5, 1, 0, 0]])
    network = checked(ContactNetwork.stochastic_block_model(sizes, probabilities=p, seed=5))
    block = network.attributes["block"]
    assert np.bincount(block).tolist() == sizes.tolist()
    source, target = network.edges()
    found = np.zeros((4, 4), int)
    np.add.at(found, (block[source], block[target]), 1)
    for a, b in itertools.combinations_with_replacement(range(4), 2):
        pairs = math.comb(sizes[a], 2) if a == b else sizes[a] * sizes[b]
        spread = math.sqrt(pairs * p[a, b] * (1 - p[a, b]))
        assert abs(found[a, b] - pairs * p[a, b]) <= SIGMAS * spread
    by_degree = ContactNetwork.stochastic_block_model([300, 600], [[6, 2], [1, 4]], seed=5)
    inside = 6 / 299
    q = np.array([[inside, 2 / 600], [2 / 600, 4 / 599]])
    assert by_degree == ContactNetwork.stochastic_block_model([300, 600], seed=5, probabilities=q)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize(("node_count", "mean_degree"), [(3, 1.0), (40, 25.0), (1200, 7.0)])
def test_spatial_contacts_are_all_near_pairs(periodic, node_count, mean_degree):
    network = checked(ContactNetwork.spatial(node_count, mean_degree, 2, periodic=periodic))
    x, y = network.attributes["x"], network.attributes["y"]
    dx, dy = np.abs(x[:, None] - x), np.abs(y[:, None] - y)
    if periodic:
        dx, dy = np.minimum(dx, 1 - dx), np.minimum(dy, 1 - dy)
    radius = random_pairs._radius(mean_degree / (node_count - 1), periodic)
    near = (dx * dx + dy * dy < radius * radius) & ~np.eye(node_count, dtype=bool)
    assert np.array_equal(network.to_scipy().toarray() > 0, near)


def test_spatial_density():
    network = ContactNetwork.spatial(40_000, 8, seed=2)
    x, y = network.attributes["x"], network.attributes["y"]
    cells = (x * 20).astype(int) * 20 + (y * 20).astype(int)
    assert fits(np.bincount(cells, minlength=400), np.full(400, 1 / 400))
    # On a torus any two pairs are near each other independently.
    assert abs(network.edge_count - 160_000) < SIGMAS * math.sqrt(160_000)
    # With borders they are not, but nearly.
    bordered = ContactNetwork.spatial(40_000, 8, seed=2, periodic=False)
    assert abs(bordered.edge_count / 160_000 - 1) < 0.02
    assert ContactNetwork.spatial(500, 0, seed=2).arc_count == 0
    assert ContactNetwork.spatial(500, 0, seed=2, periodic=False).arc_count == 0


def test_barabasi_albert_is_exact():
    one = Counter(
        edge_set(ContactNetwork.barabasi_albert(4, m=2, seed=seed)) for seed in range(3000)
    )
    # The newcomer draws two of the nodes of degrees 2, 1, 1, without replacement.
    star = ((0, 1), (0, 2))
    ends = [tuple(sorted([*star, (a, 3), (b, 3)])) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert set(one) <= set(ends)
    assert fits([one[graph] for graph in ends], [5 / 12, 5 / 12, 1 / 6])
    two = Counter(
        edge_set(ContactNetwork.barabasi_albert(4, m=1, seed=seed)) for seed in range(3000)
    )
    graphs, chances = [], []
    for first in (0, 1):
        degrees = [1, 1, 1]
        degrees[first] += 1
        for second in range(3):
            graphs.append(tuple(sorted([(0, 1), (first, 2), (second, 3)])))
            chances.append(degrees[second] / 8)
    assert fits([two[graph] for graph in graphs], chances)


def test_barabasi_albert_tail():
    m, count = 3, 100_000
    network = checked(ContactNetwork.barabasi_albert(count, m, seed=4))
    degrees = network.degrees()
    assert network.edge_count == m * (count - m)
    # P(degree >= k) = m (m + 1) / (k (k + 1)): the power law of exponent 3, exact for all k >= m.
    for k in (4, 6, 10, 20, 50):
        p = m * (m + 1) / (k * (k + 1))
        assert abs((degrees >= k).mean() - p) < SIGMAS * math.sqrt(p * (1 - p) / count) + 1e-4


def test_configuration_model_pairs_uniformly():
    seen = Counter(
        edge_set(ContactNetwork.configuration_model([1, 1, 1, 1], seed=seed))
        for seed in range(3000)
    )
    assert fits(list(seen.values()), np.full(3, 1 / 3))


@pytest.mark.parametrize("heap_size", [1, 2, 100])
def test_shuffle_is_uniform(heap_size, monkeypatch):
    monkeypatch.setenv("ERGODE_THREADS", "1")
    monkeypatch.setattr(random_degrees, "_HEAP_SIZE", heap_size)
    values = np.arange(5, dtype=np.int32)
    seen = Counter(
        tuple(random_degrees.shuffled(values, np.uint64(seed), 0).tolist()) for seed in range(4000)
    )
    assert fits([*seen.values(), *[0] * (120 - len(seen))], np.full(120, 1 / 120))


def test_configuration_model_degrees():
    rng = np.random.default_rng(6)
    wanted = rng.zipf(2.7, 30_000).clip(1, 1000)
    wanted[0] += wanted.sum() % 2
    network = checked(ContactNetwork.configuration_model(wanted, seed=1))
    assert (network.degrees() <= wanted).all()
    assert network.arc_count > 0.98 * wanted.sum()
    nearly = ContactNetwork.configuration_model(np.full(30_000, 4), seed=1)
    # Erased: Poisson numbers of loops, of mean (d - 1) / 2, and of double edges, (d - 1)^2 / 4.
    assert 60_000 - nearly.edge_count < stats.poisson(3.75).isf(UNLIKELY)


@pytest.mark.parametrize(
    ("node_count", "degree"),
    [(1, 0), (2, 1), (3, 2), (4, 2), (4, 3), (5, 2), (6, 3), (7, 0), (9, 4), (30, 14), (30, 15),
     (41, 20), (101, 52), (101, 100), (2000, 9), (400, 60)],
)  # fmt: skip
def test_random_regular_is_regular(node_count, degree):
    for seed in range(3):
        network = checked(ContactNetwork.random_regular(node_count, degree, seed))
        assert (network.degrees() == degree).all()


def test_random_regular_reaches_every_graph(monkeypatch):
    monkeypatch.setenv("ERGODE_THREADS", "1")
    seen = Counter(edge_set(ContactNetwork.random_regular(6, 2, seed)) for seed in range(1500))
    assert len(seen) == 70  # 60 hexagons and 10 pairs of triangles


def clustering(network):
    """Share of connected triples that are closed."""
    matrix = network.to_scipy()
    degrees = network.degrees().astype(float)
    return (matrix @ matrix).multiply(matrix).sum() / (degrees * (degrees - 1)).sum()


def test_watts_strogatz():
    count, k = 20_000, 8
    lattice = checked(ContactNetwork.watts_strogatz(count, k, 0))
    assert (lattice.degrees() == k).all()
    ordered = 3 * (k - 2) / (4 * (k - 1))
    assert clustering(lattice) == pytest.approx(ordered)
    for beta in (0.05, 0.3):
        network = checked(ContactNetwork.watts_strogatz(count, k, beta, seed=1))
        assert network.edge_count == count * k // 2
        # A triangle stands while none of its three edges is rewired; transitivity also feels the
        # spread of degrees, which adds (k / 2)(2 beta - beta^2) to the variance.
        triples = 1 + 0.5 * k * (2 * beta - beta**2) / (k * (k - 1))
        assert clustering(network) == pytest.approx(ordered * (1 - beta) ** 3 / triples, abs=0.01)
        source, target = network.edges()
        gap = np.minimum(target - source, count - target + source)
        kept = (gap <= k // 2).sum()
        edges = count * k // 2
        spread = math.sqrt(edges * beta * (1 - beta))
        assert abs(kept - edges * (1 - beta)) < SIGMAS * spread + k * k
    network = checked(ContactNetwork.watts_strogatz(count, k, 1, seed=1))
    # Each node keeps its own k / 2 edges, and draws Poisson many far ends.
    extra = network.degrees() - k // 2
    assert extra.min() >= 0
    law = stats.poisson(k // 2).pmf(np.arange(extra.max() + 1))
    assert fits(np.bincount(extra), law)
    assert checked(ContactNetwork.watts_strogatz(9, 8, 1)).edge_count == 36


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.erdos_renyi(0, 1), "node_count is 0"),
        (lambda c: c.erdos_renyi(10, 10), "mean_degree is 10; expected 0 to 9"),
        (lambda c: c.erdos_renyi(10, math.nan), "mean_degree is nan"),
        (lambda c: c.erdos_renyi(10, "x"), "mean_degree is 'x'; expected a number"),
        (lambda c: c.erdos_renyi(10, 2, seed=-1), "seed is -1; expected from 0 to"),
        (lambda c: c.erdos_renyi(10, 2, seed=0.5), "seed is 0.5; expected a whole number"),
        (lambda c: c.spatial(10, 8), "mean_degree is 8; expected 0 to 7.06"),
        (lambda c: c.barabasi_albert(10, 0), "m is 0; expected from 1 to 9"),
        (lambda c: c.barabasi_albert(10, 10), "m is 10; expected from 1 to 9"),
        (lambda c: c.configuration_model([]), "degrees is empty"),
        (lambda c: c.configuration_model([1, 2, 3]), r"degrees\[2\] is 3; a degree is from 0 to"),
        (lambda c: c.configuration_model([1, -2, 1]), r"degrees\[1\] is -2; a degree is from 0"),
        (lambda c: c.configuration_model([1, 1, 1]), "degrees sum to 3; expected an even sum"),
        (lambda c: c.random_regular(5, 3), "node_count 5 times degree 3 is odd"),
        (lambda c: c.random_regular(5, 5), "degree is 5; expected from 0 to 4"),
        (lambda c: c.watts_strogatz(10, 3, 0.1), "k is 3; expected an even number"),
        (lambda c: c.watts_strogatz(10, 10, 0.1), "k is 10; expected from 0 to 9"),
        (lambda c: c.watts_strogatz(10, 4, 1.1), "rewiring_probability is 1.1; expected 0 to 1"),
        (lambda c: c.stochastic_block_model([5, 0], [[1]]), "expected at least one node in each"),
        (lambda c: c.stochastic_block_model([5, 5], [[1]]), r"mean_degrees has shape \(1, 1\)"),
        (lambda c: c.stochastic_block_model([5]), "either mean_degrees or probabilities"),
        (lambda c: c.stochastic_block_model([5], [[6]]), "with probability 1.5; at most 1"),
        (lambda c: c.stochastic_block_model([1], [[1]]), "block 0 has one node only"),
        (lambda c: c.stochastic_block_model([5], [[-1]]), r"mean_degrees\[0, 0\] is -1"),
        (
            lambda c: c.stochastic_block_model([5, 10], [[1, 2], [2, 1]]),
            r"mean_degrees\[0, 1\] makes 10 contacts of block 0 with 1, but \[1, 0\] makes 20",
        ),
        (
            lambda c: c.stochastic_block_model([5, 5], probabilities=[[1, 0.2], [0.1, 1]]),
            r"probabilities\[0, 1\] is 0.2 but \[1, 0\] is 0.1",
        ),
    ],
)
def test_refused(call, message):
    with pytest.raises(ModelError, match=message):
        call(ContactNetwork)
