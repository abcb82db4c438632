"""Populations: tables and matrices come out as asked, by plain counting.

Quotas are exact up to rounding. The one statistical check here, of the community, compares 10
numbers of contacts with their law, twice: at 1e-6 for all of them, 5.5 standard deviations.
"""

import math
import random
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

import ergode
from ergode.core.errors import ModelError
from ergode.models.networks.contact_network import ContactNetwork
from ergode.models.networks.population import AGES, HOUSEHOLD_SIZES

SIGMAS = 5.5
MIXING = [[2.0, 1.0, 3.0, 0.2], [0.5, 9.0, 3.0, 0.3], [0.3, 1.5, 7.0, 0.8], [0.1, 0.4, 2.0, 2.5]]


def neighbours(network, layer):
    """Contacts of each node in a layer, as lists."""
    number = network.layers.index(layer)
    found = []
    for a, b in pairwise(network.offsets.tolist()):
        arcs = range(a, b)
        found.append([int(network.targets[arc]) for arc in arcs if network.layer[arc] == number])
    return found


def members(network, attribute):
    groups = defaultdict(list)
    for node, group in enumerate(network.attributes[attribute].tolist()):
        if group >= 0:
            groups[group].append(node)
    return groups


@pytest.fixture(scope="module")
def large():
    return ContactNetwork.population(100_000, mixing=MIXING, age_groups=[0, 5, 18, 65], seed=3)


@pytest.mark.parametrize("node_count", [1, 2, 3, 10, 11, 57, 800])
def test_by_plain_counting(node_count):
    network, contacts = ContactNetwork.population(node_count, seed=node_count)
    ages = network.attributes["age"].tolist()
    # The constructor looks for loops, duplicates in a layer and missing arcs.
    assert network == ContactNetwork(
        node_count, network.offsets, network.targets, network.weights,
        layers=network.layers, layer=network.layer, attributes=network.attributes,
    )  # fmt: skip
    for layer, attribute in [
        ("household", "household"),
        ("school", "class"),
        ("work", "workplace"),
    ]:
        groups, met = members(network, attribute), neighbours(network, layer)
        group_of = {node: group for group, nodes in groups.items() for node in nodes}
        for node in range(node_count):
            others = set(groups[group_of[node]]) - {node} if node in group_of else set()
            if layer == "work" and len(others) > 6:
                assert len(met[node]) == 6 and set(met[node]) < others
            else:
                assert met[node] == sorted(others)
    for nodes in members(network, "household").values():
        assert max(ages[node] for node in nodes) >= 18
    in_school = network.attributes["class"] >= 0
    assert in_school.tolist() == [5 <= age < 18 for age in ages]
    at_work = np.flatnonzero(network.attributes["workplace"] >= 0)
    grown = [age for age in ages if 18 <= age < 65]
    assert at_work.size == round(0.75 * len(grown))
    assert all(18 <= ages[node] < 65 for node in at_work)
    for nodes in members(network, "class").values():
        assert len({ages[node] for node in nodes}) == 1
        assert len(set(network.attributes["school"][nodes].tolist())) == 1
    factors = np.array([3, 0.6, 0.6, 0.3], np.float32)
    assert np.array_equal(network.weights, factors[network.layer])

    bounds = [0, 5, 18, 65, 1000]
    group = [next(k for k in range(4) if bounds[k] <= age < bounds[k + 1]) for age in ages]
    people = Counter(group)
    assert contacts["people"].values.tolist() == [people[k] for k in range(4)]
    for layer in network.layers:
        counted = np.zeros((4, 4))
        for node, met in enumerate(neighbours(network, layer)):
            for other in met:
                counted[group[node], group[other]] += 1
        for k in range(4):
            counted[k] = counted[k] / people[k] if people[k] else np.nan
        realized = contacts["realized"].sel(layer=layer)
        np.testing.assert_allclose(realized, counted)
        matrix = network.contact_matrix("age", groups=bounds[:4], layer=layer)
        np.testing.assert_array_equal(matrix, realized)
        heavy = network.contact_matrix("age", groups=bounds[:4], layer=layer, weighted=True)
        factor = factors[network.layers.index(layer)]
        np.testing.assert_allclose(heavy, counted * np.float64(factor))


def test_ages_and_sizes_come_out(large):
    age = large.network.attributes["age"]
    lows = sorted(AGES)
    counts = np.histogram(age, [*lows, 95])[0]
    assert np.abs(counts - [1e5 * AGES[low] / sum(AGES.values()) for low in lows]).max() <= 1
    sizes = np.bincount(np.bincount(large.network.attributes["household"]), minlength=7)[1:]
    share = np.array([*HOUSEHOLD_SIZES.values()]) / 100
    assert np.abs(sizes - sizes.sum() * share).max() <= 4  # of 850 and more


def test_families_are_plausible(large):
    ages = large.network.attributes["age"]
    gaps, couples = [], []
    for nodes in members(large.network, "household").values():
        one, *others = ages[nodes].tolist()
        assert one >= 18
        if len(others) == 1 and others[0] >= 18 and abs(one - others[0]) < 16:
            couples.append(abs(one - others[0]))
        children = [other for other in others if other < 18]
        if children:
            gaps.append(one - max(children))
            assert min(max(ages[nodes]) - child for child in children) >= 16
    assert 27 < np.mean(gaps) < 33 and min(gaps) >= 16
    assert np.mean(couples) < 5


def test_the_community_mixes_as_asked(large):
    network, contacts = large
    people, asked = contacts["people"].values, np.array(MIXING)
    np.testing.assert_array_equal(contacts["asked"], asked)
    both = people[:, None] * asked
    wanted = (both + both.T) / 2
    np.testing.assert_allclose(contacts["reciprocal"] * people[:, None], wanted, rtol=1e-12)
    found = contacts["realized"].sel(layer="community").values * people[:, None]
    np.testing.assert_allclose(found, found.T)
    # An edge within a group is two arcs.
    spread = np.sqrt(wanted * (1 + np.eye(4)))
    assert (np.abs(found - wanted) < SIGMAS * spread).all()
    total = wanted.sum()
    assert abs(found.sum() - total) < SIGMAS * math.sqrt(2 * total) < 0.01 * total
    # Nor is any order left: ids of those who meet are unrelated.
    source = network._sources()[network.layer == 3]
    target = network.targets[network.layer == 3]
    assert abs(np.corrcoef(source, target)[0, 1]) < SIGMAS * math.sqrt(2 / source.size)


def test_seeds_and_threads(monkeypatch):
    digests = set()
    for threads in (1, 2, 5):
        monkeypatch.setenv("ERGODE_THREADS", str(threads))
        digests.add(ContactNetwork.population(50_000, seed=3).network.digest)
    assert len(digests) == 1
    assert ContactNetwork.population(50_000, seed=4).network.digest not in digests


def test_every_household_of_one():
    options = {"ages": {20: 1, 40: 1}, "household_sizes": [1], "school_ages": [0, 0]}
    network, contacts = ContactNetwork.population(500, **options)
    assert (network.layer != 0).all() and len(members(network, "household")) == 500
    assert (network.attributes["age"] >= 20).all() and network.attributes["age"].max() == 59
    assert np.isnan(contacts["realized"].sel(group="0-4")).all()


def test_random_tables():
    rng, made = random.Random(1), 0
    for seed in range(120):
        network = _random_population(rng, seed)
        if network is None:
            continue
        made += 1
        network = ContactNetwork(
            network.node_count, network.offsets, network.targets, network.weights,
            layers=network.layers, layer=network.layer, attributes=network.attributes,
        )  # fmt: skip
        ages = network.attributes["age"]
        for nodes in members(network, "household").values():
            assert ages[nodes].max() >= 18 and ages[nodes].min() >= 0
    assert made > 40


def _random_population(rng, seed):
    try:
        return ContactNetwork.population(
            rng.choice([1, 2, 5, 30, 300]),
            ages={low: rng.choice([0, 1, rng.random()]) for low in rng.sample(range(100), 4)},
            household_sizes={rng.randint(1, 12): rng.choice([0, 1, rng.random()]) for _ in "abcd"},
            class_size=rng.choice([1, 3, 25]), workplace_size=rng.choice([1, 1.5, 9, 500]),
            work_degree=rng.choice([0, 2, 8]), employment=rng.choice([0, 0.5, 1]),
            mixing=[[4 * rng.random() for _ in "ab"] for _ in "ab"], age_groups=[0, 30], seed=seed,
        ).network  # fmt: skip
    except ModelError as error:
        if "no weight" in str(error) or "children" in str(error):
            return None
        raise


def test_as_many_as_there_are():
    whole = ContactNetwork.population(40, class_size=1e300, workplace_size=1e300).network
    assert set(whole.attributes["workplace"].tolist()) == {-1, 0}
    network, contacts = ContactNetwork.population(2, community_degree=50)
    assert network.contact_matrix("household", layer="community").sum() == 1
    assert contacts["asked"].sum() == 4 * 50


def test_tables_of_any_sum_lists_and_text():
    shares = {str(size): share / 100 for size, share in HOUSEHOLD_SIZES.items()}
    as_list = [1e6 * share for share in HOUSEHOLD_SIZES.values()]
    first = ContactNetwork.population(900).network
    assert first == ContactNetwork.population(900, household_sizes=shares).network
    assert first == ContactNetwork.population(900, household_sizes=as_list).network
    years = [AGES[5 * (age // 5)] / 5 for age in range(95)]
    assert first == ContactNetwork.population(900, ages=years).network


def test_schools_close():
    network = ContactNetwork.population(3000, seed=1).network
    sir = ergode.CompartmentModel.sir(transmission_rate=0.05, infectious=ergode.Exponential(mean=4))
    cases = [
        ergode.epidemics.simulate(
            sir, network, initial={"I": 10}, times=[0, 30], replicates=40, seed=1,
            interventions=measures, device="cpu",
        )["count"].sel(compartment="S").isel(time=-1).mean().item()
        for measures in ([], [ergode.LayerClosure("school")])
    ]  # fmt: skip
    assert cases[0] < cases[1] - 50


BAD = [
    ({"node_count": 0}, "node_count is 0"),
    ({"ages": {0: float("nan"), 5: 1}}, r"ages\[0\] is nan; expected a number of 0 or more"),
    ({"ages": {0: -1, 5: 1}}, r"ages\[0\] is -1"),
    ({"ages": {30: 0}}, "ages has no weight"),
    ({"ages": {"x": 1}}, "a key of ages is 'x'"),
    ({"ages": {5: 1}}, "10 children below 18, but household_sizes leave"),
    ({"ages": {"9" * 5000: 1}}, "a key of ages is '9999"),
    ({"ages": {"5": 1, 5: 1}}, "ages has the key 5 twice"),
    ({"household_sizes": {0: 1}}, "a key of household_sizes is 0"),
    ({"household_sizes": {1: 1}}, "household_sizes leave 0 places beside one adult"),
    ({"household_sizes": []}, "household_sizes has no weight"),
    ({"mixing": [[1, 2]]}, r"mixing has shape \(1, 2\); expected \(4, 4\)"),
    ({"mixing": [[-1]], "age_groups": [0]}, r"mixing\[0, 0\] is -1"),
    ({"mixing": [[1]], "age_groups": [0], "community_degree": 3}, "not both"),
    ({"age_groups": [5, 18]}, "age_groups begin at 5, but ages begin at 0"),
    ({"age_groups": [0, 18, 5]}, "ascending"),
    ({"school_ages": [5, 19]}, "overlap"),
    ({"work_degree": 5}, "work_degree is 5; expected an even number"),
    ({"employment": 1.5}, "employment is 1.5"),
    ({"class_size": 0}, "class_size is 0"),
    ({"weights": {"pub": 1}}, "expected factors by layer"),
    ({"weights": {"work": -1}}, r"weights\['work'\] is -1"),
]


@pytest.mark.parametrize(("given", "said"), BAD)
def test_refused_in_one_line(given, said):
    with pytest.raises(ModelError, match=said) as caught:
        ContactNetwork.population(**{"node_count": 10, **given})
    assert "\n" not in str(caught.value)


def test_contact_matrix_of_any_network():
    net = ContactNetwork.from_edges([0, 0, 1], [1, 2, 2], directed=True, weights=[1, 2, 4])
    net = net.with_attributes(who=["b", "a", "b"], x=[0.5, np.nan, 2])
    found = net.contact_matrix("who")
    assert found["group"].values.tolist() == ["a", "b"]
    assert found.values.tolist() == [[0, 1], [0.5, 0.5]]
    assert net.contact_matrix("who", weighted=True).values.tolist() == [[0, 4], [0.5, 1]]
    for given, said in [
        (("age",), "attribute 'age' is unknown; the network has 'who', 'x'"),
        (("who", [0]), "groups need numbers"),
        (("x", [0, 1]), "node 1 is nan, in no group"),
        (("x", [1, 0]), "ascending"),
        (("who", None, "home"), "layer 'home' is unknown"),
    ]:
        with pytest.raises(ModelError, match=said):
            net.contact_matrix(*given)
