"""Networks that are computed: against plain Python, theory, and the stored copy."""

import hashlib

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2

import ergode
from ergode import ComputedNetwork, ModelError, PlanError
from ergode.core import devices, kernels
from ergode.core.devices.buffers import put_table
from ergode.models.networks.computed_arcs import reverse_slot

EARTH = 8_000_000_000


# ---- a referee: the definition in plain Python, and inverses by looking all images up


def plain_keys(kind, seed, number):
    words = hashlib.sha256(f"ergode {kind} {seed} {number}".encode()).digest()
    return int.from_bytes(words[:4], "little"), int.from_bytes(words[4:8], "little") | 1


def plain_hash(half, key):
    x = ((half ^ key) * 0x85EBCA6B) % 2**32
    return ((x ^ (x >> 15)) * 0xC2B2AE35) % 2**32


def plain_permuted(x, count, key, step):
    bits = max(1, (count - 1).bit_length() // 2)
    width = -(-count // 2**bits)
    while True:
        high, low = divmod(x, 2**bits)
        for number in range(7):
            round_key = (key + number * step) % 2**32
            if number % 2 == 0:
                high = (high + plain_hash(low, round_key) * width // 2**32) % width
            else:
                low ^= plain_hash(high, round_key) // 2 ** (32 - bits)
        x = high * 2**bits + low
        if x < count:
            return x


def plain_targets(network):
    """Targets of all slots of all nodes; the node itself for an unused slot."""
    count, columns = network.node_count, []
    for part in network.parts:
        if part.sizes:
            place = [plain_permuted(x, count, *plain_keys("groups", part.seed, 0))
                     for x in range(count)]  # fmt: skip
            at = np.argsort(place)
            groups, begin = [], 0
            while begin < count:
                size = part.sizes[len(groups) % len(part.sizes)]
                groups.append(at[begin : begin + size])
                begin += size
            own = np.tile(np.arange(count)[:, None], part.degree)
            for group in groups:
                for node in group:
                    others = [other for other in group if other != node]
                    own[node, : len(others)] = others
            columns.append(own)
        else:
            for number in range(part.degree // 2):
                keys = plain_keys("random-regular", part.seed, number)
                forward = np.array([plain_permuted(x, count, *keys) for x in range(count)])
                assert sorted(forward) == list(range(count))
                columns += [forward[:, None], np.argsort(forward)[:, None]]
    return np.hstack(columns)


def mixed(node_count, seed=1):
    """Households of uneven sizes and a random regular community of half the rate."""
    return ComputedNetwork.from_layers(
        {
            "household": ComputedNetwork.groups(node_count, [1, 2, 2, 3, 4], seed=seed),
            "community": ComputedNetwork.random_regular(node_count, 4, seed=seed),
        },
        {"community": 0.5},
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 16, 17, 255, 1009])
def test_arcs_are_those_of_the_definition(count):
    regular = ComputedNetwork.random_regular(count, degree=6, seed=count)
    np.testing.assert_array_equal(regular.targets(), plain_targets(regular))
    layered = mixed(count, seed=count)
    np.testing.assert_array_equal(layered.targets(), plain_targets(layered))
    alone = ComputedNetwork.groups(count, 7, seed=3)
    np.testing.assert_array_equal(alone.targets(), plain_targets(alone))


def test_a_million_nodes_are_permuted():
    targets = ComputedNetwork.random_regular(1_000_003, degree=4, seed=7).targets()
    nodes = np.arange(1_000_003)
    for slot in range(4):
        np.testing.assert_array_equal(np.sort(targets[:, slot]), nodes)
    np.testing.assert_array_equal(targets[targets[:, 0], 1], nodes)
    np.testing.assert_array_equal(targets[targets[:, 2], 3], nodes)


def test_every_contact_goes_both_ways_among_eight_billion():
    network = mixed(EARTH)
    keys = plain_keys("random-regular", 1, 0)
    for node in (0, 1, 2**32 - 1, 2**32, 5_000_000_000, EARTH - 1):
        found = network.neighbours(node)
        assert found.max() < EARTH and found.min() >= 0
        assert network.targets(node, 1)[0, 3] == plain_permuted(node, EARTH, *keys)
        for other in found.tolist():
            assert node in network.neighbours(other)


# ---- chance


def permutations_of(count, seed, degree=4096):
    """Two thousand permutations of small numbers: [number, permutation]."""
    return ComputedNetwork.random_regular(count, degree=degree, seed=seed).targets()[:, ::2]


def chi_square(counts):
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("count", [16, 19])
def test_small_permutations_are_uniform(count):
    # Half a million numbers a seed: a deviation of one percent of every cell would add a hundred
    # to each statistic. Four of them here, so each has the error 1e-6 / 8.
    images = np.zeros((count, count))
    pairs, across = np.zeros((count, count)), np.zeros((count, count))
    for seed in range(60):
        found = permutations_of(count, seed)
        for number in range(count):
            images[number] += np.bincount(found[number], minlength=count)
        np.add.at(pairs, (found[0], found[1]), 1)
        np.add.at(across, (found[0, :-1:2], found[0, 1::2]), 1)
    # Rows and columns of the images have fixed sums, which lowers the degrees of freedom.
    scale = count / (count - 1)
    assert chi_square(images) / scale < chi2.isf(1e-6 / 8, (count - 1) ** 2)
    assert (np.diag(pairs) == 0).all()
    apart = pairs[~np.eye(count, dtype=bool)]
    assert chi_square(apart) < chi2.isf(1e-6 / 8, apart.size - 1)
    assert chi_square(across) < chi2.isf(1e-6 / 8, across.size - 1)


def test_neighbours_of_neighbouring_nodes_are_unrelated():
    # Of eight billion nodes: targets, their remainders, and differences of nodes next to each other
    # and 2^17 apart are uniform.
    network = ComputedNetwork.random_regular(EARTH, degree=4, seed=5)
    near = network.targets(3_000_000_000, 400_000)
    far = network.targets(3_000_000_000 + 2**17, 400_000)
    for slot in range(4):
        one = near[:, slot]
        for values in (one, np.diff(one) % EARTH, (far[:, slot] - one) % EARTH,
                       (near[:, slot - 1] - one) % EARTH):  # fmt: skip
            bins = np.bincount(values // (EARTH // 1000), minlength=1000)[:1000]
            rests = np.bincount(values % 1000, minlength=1000)
            for counts in (bins, rests):
                assert chi_square(counts) < chi2.isf(1e-6 / 32, 999)


def test_triangles_are_those_of_random_permutations():
    # The number of triangles of d / 2 random permutations is Poisson with mean
    # ((d - 1)^3 + 1) / 6 for many nodes (Dumitriu et al., Ann. Probab. 41, 2013).
    count, degree, found = 20_000, 16, 0
    networks = 10
    for seed in range(networks):
        targets = ComputedNetwork.random_regular(count, degree, seed=seed).targets()
        source = np.repeat(np.arange(count), degree)
        matrix = csr_array((np.ones(source.size), (source, targets.ravel())), (count, count))
        matrix.setdiag(0)
        matrix.data = np.minimum(matrix.data, 1)
        found += int((matrix @ matrix).multiply(matrix).sum()) // 6
    expected = networks * ((degree - 1) ** 3 + 1) / 6
    assert abs(found - expected) < 5.5 * np.sqrt(expected)


def test_self_arcs_and_double_contacts_are_as_rare_as_documented():
    # Of m permutations each has one fixed point on average, in two slots; m^2 - m / 2 pairs of
    # nodes have two contacts: 1 by two permutations in either direction, 1 / 2 by one.
    count, networks, self_arcs, double = 500, 1000, 0, 0
    for seed in range(networks):
        targets = ComputedNetwork.random_regular(count, 8, seed=seed).targets()
        own = targets == np.arange(count)[:, None]
        self_arcs += int(own.sum())
        in_order = np.sort(np.where(own, -1 - np.arange(8), targets), axis=1)
        double += int((in_order[:, 1:] == in_order[:, :-1]).sum())
    fixed, pairs = self_arcs / 2, double / 2
    assert abs(fixed / networks - 4) < 5.5 * np.sqrt(4 / networks)
    # Triple contacts, of which there is one in count / 100 networks, count twice.
    assert abs(pairs / networks - 14) < 5.5 * np.sqrt(14 / networks) + 0.1


def test_all_pairs_meet_in_groups_equally_often():
    count, layers, met = 12, 255, np.zeros((12, 12))
    for start in range(0, 100 * layers, layers):
        parts = {str(k): ComputedNetwork.groups(count, 4, seed=start + k) for k in range(layers)}
        targets = ComputedNetwork.from_layers(parts).targets()
        for node in range(count):
            met[node] += np.bincount(targets[node], minlength=count)
    share = met[np.triu_indices(count, 1)] / (100 * layers)
    p = 3 / 11
    assert (abs(share - p) < 5.7 * np.sqrt(p * (1 - p) / (100 * layers))).all()


# ---- forms


def test_groups_are_complete_and_have_the_given_sizes():
    sizes = [1, 2, 2, 3, 4]
    network = ComputedNetwork.groups(120_000, sizes, seed=4)
    simple = network.stored(simple=True)
    assert network.mean_degree == pytest.approx(simple.mean_degree)
    _, label = connected_components(simple.to_scipy())
    members = np.bincount(label)
    np.testing.assert_array_equal(np.bincount(members), [0, 10_000, 20_000, 10_000, 10_000])
    np.testing.assert_array_equal(simple.degrees(), members[label] - 1)


def test_the_stored_copy_has_equal_arcs():
    network = mixed(3000)
    copy, simple = network.stored(), network.stored(simple=True)
    np.testing.assert_array_equal(copy.targets.reshape(3000, 7), network.targets())
    np.testing.assert_array_equal(copy.offsets, 7 * np.arange(3001))
    np.testing.assert_array_equal(copy.weights[:7], [1, 1, 1, 0.5, 0.5, 0.5, 0.5])
    assert copy.layers == simple.layers == network.layers == ("household", "community")
    for node in (0, 17, 2999):
        row = slice(simple.offsets[node], simple.offsets[node + 1])
        assert set(simple.targets[row]) == set(network.neighbours(node)) - {node}
    with pytest.raises(ModelError, match="layer 'a' is a copy of a computed network"):
        ergode.ContactNetwork.from_layers({"a": ComputedNetwork.groups(9, 3).stored()})
    # The simple copy is what its own edges make.
    source = np.repeat(np.arange(3000), 7)
    keep = source != copy.targets
    pairs = source[keep], copy.targets[keep], copy.layer[keep]
    expected = {(int(a), int(b), int(c)) for a, b, c in zip(*pairs, strict=True)}
    origin = np.repeat(np.arange(3000), simple.degrees())
    assert set(zip(origin.tolist(), simple.targets.tolist(), simple.layer.tolist(), strict=True)) \
        == expected  # fmt: skip


def test_networks_are_named_by_what_they_are():
    one = ComputedNetwork.random_regular(1000, 8, seed=1)
    assert one == ComputedNetwork.random_regular(np.int64(1000), np.int8(8), np.uint8(1))
    others = [
        ComputedNetwork.random_regular(1000, 8, seed=2), ComputedNetwork.random_regular(999, 8),
        ComputedNetwork.random_regular(1000, 6), ComputedNetwork.groups(1000, 9, seed=1),
        mixed(1000), mixed(1000, seed=2),
    ]  # fmt: skip
    assert len({net.digest for net in [one, *others]}) == 1 + len(others)
    assert "eight" not in repr(one) and "degree 8" in repr(one)
    assert "households" not in one._repr_html_()
    assert "community: random regular of degree 4, factor 0.5" in mixed(1000)._repr_html_()
    assert one.memory_bytes < 1000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ComputedNetwork.random_regular(0), "node_count is 0; expected from 1"),
        (lambda: ComputedNetwork.random_regular(2**37), "node_count is 137438953472; expected"),
        (lambda: ComputedNetwork.random_regular(1e3), "node_count is 1000.0; expected a whole"),
        (lambda: ComputedNetwork.random_regular(10, 7), "degree is 7; a computed random regular"),
        (lambda: ComputedNetwork.random_regular(10, 0), "degree is 0; expected from 2 to 4096"),
        (lambda: ComputedNetwork.random_regular(10, 2, seed=-1), "seed is -1; expected from 0"),
        (lambda: ComputedNetwork.groups(10, []), "sizes is empty"),
        (lambda: ComputedNetwork.groups(10, [3, 0]), r"sizes\[1\] is 0; expected from 1 to 4097"),
        (lambda: ComputedNetwork.groups(10, 2.5), "sizes.0. is 2.5; expected a whole number"),
        (lambda: ComputedNetwork.groups(10, 5000), r"sizes\[0\] is 5000; expected from 1"),
        (lambda: ComputedNetwork.groups(10, [4000] * 300), "sizes has 1,200,000 members in all"),
        (lambda: ComputedNetwork.from_layers({}), "0 layers were given"),
        (lambda: ComputedNetwork.from_layers([1]), "layers are given as list"),
        (lambda: ComputedNetwork.from_layers({"a": 3}), "layer 'a' is int; expected a Computed"),
        (lambda: ComputedNetwork.from_layers({"a": mixed(9)}), "layer 'a' has layers itself"),
        (
            lambda: ComputedNetwork.from_layers(
                {"a": ComputedNetwork.groups(9, 2), "b": ComputedNetwork.groups(9, 3)}
            ),
            "layers 'a' and 'b' are built from the same permutation",
        ),
        (
            lambda: ComputedNetwork.from_layers(
                {"a": ComputedNetwork.groups(9, 2), "b": ComputedNetwork.random_regular(8)}
            ),
            "layer 'b' has 8 nodes, but layer 'a' has 9",
        ),
        (
            lambda: ComputedNetwork.from_layers({"a": ComputedNetwork.groups(9, 2)}, {"b": 1}),
            "factors names the layer 'b'",
        ),
        (
            lambda: ComputedNetwork.from_layers({"a": ComputedNetwork.groups(9, 2)}, {"a": -1}),
            r"factors\['a'\] is -1; expected 0 to",
        ),
        (lambda: ComputedNetwork.groups(9, 2).neighbours(9), "node is 9; expected from 0 to 8"),
        (lambda: ComputedNetwork.groups(9, 2).targets(3, 7), "count is 7; expected from 0 to 6"),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_arcs_of_eight_billion_nodes_are_not_stored():
    with pytest.raises(PlanError, match="the stored copy of a network of 8,000,000,000 nodes"):
        ComputedNetwork.random_regular(EARTH).stored()
    with pytest.raises(PlanError, match="an array of the 8 targets of 8,000,000,000 nodes"):
        ComputedNetwork.random_regular(EARTH).targets()
    assert ergode.ComputedNetwork is ComputedNetwork


def slots_back(index, arcs, targets, back):
    for slot in range(targets.shape[1]):
        if targets[index, slot] != index:
            back[index, slot] = reverse_slot(arcs, index, slot)


@pytest.mark.parametrize("grouped", [True, False])
def test_a_slot_has_a_way_back_in_its_layer(grouped):
    cpu = devices.resolve("cpu:1")
    for count in (2, 3, 5, 40, 1001):
        networks = {"a": ComputedNetwork.random_regular(count, 4, seed=count)}
        if grouped:
            networks = {
                "first": ComputedNetwork.groups(count, [3, 1, 2, 5], seed=count),
                **networks,
                "last": ComputedNetwork.groups(count, 4, seed=count + 1),
            }
        network = ComputedNetwork.from_layers(networks)
        targets, layer = network.targets(), network.slot_layers()
        back = np.full(targets.shape, -1)
        kernel = kernels.for_each(slots_back, bindings=network.bindings)
        cpu.run(kernel, count, put_table(cpu, network.arcs), targets, back)
        node, slot = np.nonzero(targets != np.arange(count)[:, None])
        other, there = targets[node, slot], back[node, slot]
        np.testing.assert_array_equal(targets[other, there], node)
        np.testing.assert_array_equal(layer[there], layer[slot])
        # Each arc is the way back of one arc.
        assert np.unique(other * network.slot_count + there).size == node.size
