"""Reproduction numbers: closed forms, a plain simulation of one contact, and line lists."""

import numpy as np
import pytest

import ergode
from ergode.epidemics import reproduction, reproduction_number, scaled_to, simulate

INFECTIOUS = {
    "exponential": ergode.Exponential(rate=0.15),
    "gamma": ergode.Gamma(shape=2.5, scale=1.2),
    "weibull": ergode.Weibull(shape=0.8, scale=3.0),
    "log-normal": ergode.LogNormal(mean=7.5, median=5),
    "deterministic": ergode.Deterministic(4.0),
    "empirical": ergode.Empirical([0, 1, 1, 5], [0, 0.2, 0.5, 1]),
}
REGULAR = ergode.ContactNetwork.random_regular(400, degree=6, seed=1)
SIGMAS = 5.5  # 4e-8 two-sided; fewer than 25 such comparisons here


def sir(rate, infectious):
    return ergode.CompartmentModel.sir(transmission_rate=rate, infectious=infectious)


@pytest.mark.parametrize("family", INFECTIOUS)
def test_sir_on_a_regular_network(family):
    """R = 5 T, T = 1 - E exp(-beta D); growth r by 5 beta (1 - E exp(-s D)) = s = r + beta."""
    beta, stay = 0.3, INFECTIOUS[family]
    # Means over the stay by its quantiles, at the middle of 200,000 equal shares.
    times = stay.quantile((np.arange(200_000) + 0.5) / 200_000)
    found = reproduction(sir(beta, stay), REGULAR)
    escape = np.exp(-beta * times).mean()
    assert found.reproduction_number == pytest.approx(5 * (1 - escape), rel=1e-5)
    assert found.transmissibility == {"all contacts": pytest.approx(1 - escape, rel=1e-5)}
    s = found.growth_rate + beta
    assert 5 * beta * (1 - np.exp(-s * times).mean()) == pytest.approx(s, rel=1e-5)
    assert found.doubling_time == pytest.approx(np.log(2) / found.growth_rate)
    # The mean of the moment of transmission, given that there is one.
    moment = (1 - np.exp(-beta * times) * (1 + beta * times)).mean() / beta
    assert found.generation_time == pytest.approx(moment / (1 - escape), rel=1e-5)


def test_closed_forms_of_deterministic_and_exponential_stays():
    fixed = reproduction(sir(0.3, ergode.Deterministic(4.0)), REGULAR)
    assert fixed.reproduction_number == pytest.approx(5 * (1 - np.exp(-1.2)), rel=1e-12)
    memoryless = reproduction(sir(0.3, ergode.Exponential(rate=0.15)), REGULAR)
    assert memoryless.reproduction_number == pytest.approx(5 * 0.3 / 0.45, rel=1e-12)
    assert memoryless.growth_rate == pytest.approx(4 * 0.3 - 0.15, rel=1e-9)
    assert memoryless.generation_time == pytest.approx(1 / 0.45, rel=1e-12)
    si = reproduction(ergode.CompartmentModel.si(transmission_rate=0.3), REGULAR)
    assert si.reproduction_number == pytest.approx(5.0, rel=1e-12)
    assert si.growth_rate == pytest.approx(4 * 0.3, rel=1e-9)


@pytest.mark.parametrize("rate", [1e-6, 0.3, 1e4, 1e10, 1e17])
def test_infectious_in_a_part_of_the_stay_at_any_rate(rate):
    """T = 1 - exp(-beta / 2), and no case infects more than its five other contacts."""
    part = ergode.Calendar([0, 1, 3], [0, 0.5, 0])
    model = ergode.CompartmentModel(
        ["S", "I", "R"], [ergode.Infection("S", "I", {"I": rate}, profile={"I": part})],
        [ergode.Progression("I", "R", ergode.Deterministic(2.0))],
    )  # fmt: skip
    found = reproduction(model, REGULAR)
    assert found.reproduction_number == pytest.approx(-5 * np.expm1(-rate / 2), rel=1e-12)
    if rate > 1:
        assert found.growth_rate == pytest.approx(np.log(5), rel=1e-3)
        for wish in ({"reproduction_number": 5.1}, {"growth_rate": 50}, {"growth_rate": 5000}):
            with pytest.raises(ergode.ModelError, match="at most 5"):
                scaled_to(model, REGULAR, **wish)


def test_decline_of_small_epidemics():
    found = reproduction(sir(0.02, ergode.Exponential(rate=0.15)), REGULAR)
    assert found.growth_rate == pytest.approx(4 * 0.02 - 0.15, rel=1e-9)
    assert found.doubling_time == pytest.approx(np.log(2) / (4 * 0.02 - 0.15), rel=1e-9)
    slow = ergode.CompartmentModel.seir(
        transmission_rate=0.02, latent=ergode.LogNormal(mean=5, median=4),
        infectious=ergode.Exponential(rate=0.15),
    )  # fmt: skip
    found = reproduction(slow, REGULAR)
    assert 0 < found.reproduction_number < 1 and np.isnan(found.growth_rate)
    assert "do not decline exponentially" in found.limits[0]


def test_everybody_meets_everybody():
    """The mean field: R = beta (n - 2) / (gamma + beta), growth beta (n - 2) - gamma - beta."""
    n, gamma = 300, 0.15
    everyone = ergode.ContactNetwork.from_edges(*np.triu_indices(n, 1))
    beta = 2 * gamma / n
    found = reproduction(sir(beta, ergode.Exponential(rate=gamma)), everyone)
    assert found.reproduction_number == pytest.approx(beta * (n - 2) / (gamma + beta), rel=1e-9)
    assert found.growth_rate == pytest.approx(beta * (n - 2) - gamma - beta, rel=1e-7)
    assert found.limits == ()  # clustered, but a contact hardly ever transmits


def two_layers(node_count, seed=1):
    rng = np.random.default_rng(seed)
    degrees = np.where(rng.random(node_count) < 0.3, 8, 2)
    degrees[0] += degrees.sum() % 2
    return ergode.ContactNetwork.from_layers(
        {
            "home": ergode.ContactNetwork.configuration_model(degrees, seed=seed),
            "work": ergode.ContactNetwork.erdos_renyi(node_count, mean_degree=4, seed=seed + 1),
        },
        {"work": 0.5},
    )


def test_degrees_and_layers():
    """The next-generation matrix T_b (E[k_a k_b] / E[k_a] - [a = b]) by the degrees themselves.

    The network has 20,000 nodes; chance in who meets whom changes the radius by a few per mille.
    """
    network = two_layers(20_000)
    stay = ergode.Exponential(rate=0.15)
    found = reproduction(sir(0.1, stay), network)
    source = np.repeat(np.arange(20_000), network.degrees())
    k = np.array([np.bincount(source[network.layer == a], minlength=20_000) for a in (0, 1)])
    joint = (k @ k.T) / k.sum(1)[:, None] - np.eye(2)

    def matrix(r):
        rates = 0.1 * np.array([1.0, 0.5])
        return joint * (rates / (rates + 0.15 + r))

    largest = np.abs(np.linalg.eigvals(matrix(0.0))).max()
    assert found.reproduction_number == pytest.approx(largest, rel=0.01)
    assert np.abs(np.linalg.eigvals(matrix(found.growth_rate))).max() == pytest.approx(1, rel=0.01)
    assert found.transmissibility == pytest.approx({"home": 0.1 / 0.25, "work": 0.05 / 0.2})
    step = 1e-6
    slope = np.log(largest / np.abs(np.linalg.eigvals(matrix(step))).max()) / step
    assert found.generation_time == pytest.approx(slope, rel=0.01)


def plain_radius(network, model, rate, gamma, weights):
    """The spectral radius of the operator written out, arc by arc."""
    source = np.repeat(np.arange(network.node_count), network.degrees())
    target = network.targets
    chance = rate * weights / (rate * weights + gamma)
    follows = (target[:, None] == source[None, :]) & (source[:, None] != target[None, :])
    return np.abs(np.linalg.eigvals(follows * chance[None, :])).max()


@pytest.mark.parametrize("directed", [False, True])
def test_weights_attributes_and_directions(directed):
    rng = np.random.default_rng(3)
    ends = rng.integers(0, 60, (2, 400))
    network = ergode.ContactNetwork.from_edges(
        *ends, node_count=60, directed=directed, weights=rng.uniform(0.2, 3, 400)
    ).with_attributes(young=rng.uniform(0.1, 2, 60), shedding=rng.uniform(0, 2, 60))
    model = ergode.CompartmentModel(
        ["S", "I", "R"], [ergode.Infection("S", "I", {"I": 0.2})],
        [ergode.Progression("I", "R", ergode.Exponential(rate=0.3))],
        susceptibility="young", infectivity="shedding",
    )  # fmt: skip
    source = np.repeat(np.arange(60), network.degrees())
    weights = network.weights * network.attributes["shedding"][source]
    weights = weights * network.attributes["young"][network.targets]
    assert np.unique(weights).size > 257  # so many that the transform is interpolated
    expected = plain_radius(network, model, 0.2, 0.3, weights)
    assert reproduction(model, network).reproduction_number == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("directed", [False, True])
def test_nodes_that_differ_by_attributes(directed):
    """Against the operator written out: infectious in I, and some of them after that in H."""
    rng = np.random.default_rng(4)
    ends = rng.integers(0, 40, (2, 200))
    age, risk = rng.integers(0, 90, 40), rng.integers(0, 2, 40)
    network = ergode.ContactNetwork.from_edges(
        *ends, node_count=40, directed=directed, weights=rng.choice([0.5, 2.0], 200)
    ).with_attributes(age=age, risk=risk)
    leaving, severe, taking = np.array([0.2, 0.4, 0.9]), np.array([0.0, 0.7]), np.array([0.4, 1.5])
    groups = [0, 20, 60]
    model = ergode.CompartmentModel(
        ["S", "I", "H", "R"],
        [
            ergode.Infection(
                "S", "I", {"I": 0.2, "H": 0.1},
                susceptibility=ergode.ByAttribute("risk", dict(enumerate(taking))),
            )
        ],
        [
            ergode.Progression(
                "I",
                ergode.ByAttribute("risk", {k: {"H": p, "R": 1 - p} for k, p in enumerate(severe)}),
                ergode.ByAttribute(
                    "age", [ergode.Exponential(rate=r) for r in leaving], groups=groups
                ),
            ),
            ergode.Progression("H", "R", ergode.Exponential(rate=0.5)),
        ],
    )  # fmt: skip
    source = np.repeat(np.arange(40), network.degrees())
    target = network.targets
    weights = network.weights * taking[risk[target]]
    out = leaving[np.searchsorted(groups, age, side="right") - 1][source]
    follows = (target[:, None] == source[None, :]) & (source[:, None] != target[None, :])

    def radius(r, scale=1.0):
        first, second = 0.2 * scale * weights, 0.1 * scale * weights
        later = severe[risk][source] * second / (second + 0.5 + r)
        chance = (first + out * later) / (first + out + r)
        return np.abs(np.linalg.eigvals(follows * chance[None, :])).max()

    found = reproduction(model, network)
    assert found.reproduction_number == pytest.approx(radius(0.0), rel=1e-6)
    assert radius(found.growth_rate) == pytest.approx(1.0, rel=1e-6)
    step = 1e-5
    slope = np.log(radius(-step) / radius(step)) / (2 * step)
    assert found.generation_time == pytest.approx(slope, rel=1e-6)
    wished = scaled_to(model, network, reproduction_number=2.5)
    scale = wished.infections[0].transmission_rate["I"] / 0.2
    assert radius(0.0, scale) == pytest.approx(2.5, rel=1e-6)


def test_an_attribute_that_makes_no_difference_changes_nothing():
    network = REGULAR.with_attributes(half=np.arange(400) % 2)
    stay = ergode.LogNormal(mean=7.5, median=5)
    plain = reproduction(sir(0.3, stay), network)
    by_half = reproduction(sir(0.3, ergode.ByAttribute("half", {0: stay, 1: stay})), network)
    assert by_half.reproduction_number == pytest.approx(plain.reproduction_number, rel=1e-9)
    assert by_half.growth_rate == pytest.approx(plain.growth_rate, rel=1e-7)
    # Of two groups that meet each other only, the radius is a geometric mean.
    first, second = np.divmod(np.arange(36), 6)
    pair = ergode.ContactNetwork.from_edges(first, 6 + second).with_attributes(
        half=np.arange(12) // 6
    )
    stays = {0: ergode.Exponential(rate=0.1), 1: ergode.Exponential(rate=0.7)}
    found = reproduction(sir(0.3, ergode.ByAttribute("half", stays)), pair)
    chances = [0.3 / 0.4, 0.3 / 1.0]
    assert found.reproduction_number == pytest.approx(5 * np.sqrt(np.prod(chances)), rel=1e-6)


def test_strains_with_factors_of_their_own():
    """Each strain is as if it were alone."""
    network = REGULAR.with_attributes(half=np.arange(400) % 2)
    stay = ergode.Gamma(mean=3.0, sd=2.0)
    factors = {"I": ergode.ByAttribute("half", {0: 0.5, 1: 2.0}), "J": None}
    both = ergode.CompartmentModel(
        ["S", "I", "J"],
        [ergode.Infection("S", x, {x: 0.2}, infectivity=factors[x]) for x in ("I", "J")],
        [ergode.Progression(x, "S", stay) for x in ("I", "J")],
    )
    for strain, factor in factors.items():
        alone = ergode.CompartmentModel(
            ["S", strain],
            [ergode.Infection("S", strain, {strain: 0.2}, infectivity=factor)],
            [ergode.Progression(strain, "S", stay)],
        )
        found, expected = reproduction(both, network, infected=strain), reproduction(alone, network)
        assert found.reproduction_number == pytest.approx(expected.reproduction_number, rel=1e-9)
        assert found.growth_rate == pytest.approx(expected.growth_rate, rel=1e-9)


def test_a_layer_that_is_closed_is_as_if_it_were_not_there():
    rng = np.random.default_rng(7)
    parts = {
        name: ergode.ContactNetwork.from_edges(*rng.integers(0, 300, (2, 900)), 300)
        for name in ("home", "work")
    }
    both = ergode.ContactNetwork.from_layers(parts)
    model = sir(0.3, INFECTIOUS["gamma"])
    closed = reproduction(model, both, layer_factors={"work": 0.0})
    home = reproduction(model, ergode.ContactNetwork.from_layers({"home": parts["home"]}))
    assert closed.reproduction_number == pytest.approx(home.reproduction_number, rel=1e-6)
    assert closed.growth_rate == pytest.approx(home.growth_rate, rel=1e-5)
    assert closed.transmissibility["work"] == 0.0
    halves = dict.fromkeys(parts, 0.5)
    slower = reproduction(sir(0.15, INFECTIOUS["gamma"]), both).reproduction_number
    found = reproduction(model, both, layer_factors=halves).reproduction_number
    assert found == pytest.approx(slower, rel=1e-9)
    with pytest.raises(ergode.ModelError, match="names the layer 'school'"):
        reproduction(model, both, layer_factors={"school": 0.0})
    with pytest.raises(ergode.ModelError, match="expected a finite number, zero or more"):
        reproduction(model, both, layer_factors={"work": -1.0})


def test_networks_that_end_and_that_alternate():
    import networkx

    model = sir(0.3, ergode.Exponential(rate=0.15))
    star = ergode.ContactNetwork.from_networkx(networkx.star_graph(9))
    assert reproduction(model, star).reproduction_number == 0.0
    nobody = reproduction(model, ergode.ContactNetwork.from_edges([], [], node_count=3))
    assert nobody.reproduction_number == 0.0 and np.isnan(nobody.growth_rate)
    two_parts = networkx.complete_bipartite_graph(20, 5)
    found = reproduction(model, ergode.ContactNetwork.from_networkx(two_parts))
    assert found.reproduction_number == pytest.approx(np.sqrt(19 * 4) * 2 / 3, rel=1e-6)
    circle = ergode.ContactNetwork.from_edges([0, 1, 2], [1, 2, 0], directed=True)
    assert reproduction(model, circle).reproduction_number == pytest.approx(2 / 3, rel=1e-6)


def seaiqr():
    """Stages that branch, return and change their rate with age."""
    return ergode.CompartmentModel(
        ["S", "E", "A", "I", "Q", "R"],
        [
            ergode.Infection(
                "S", "E", {"A": 0.1, "I": 0.4},
                profile={"I": ergode.Calendar([0, 1.0, 2.5], [0.2, 1.0, 0.4])},
            )
        ],
        [
            ergode.Progression("E", {"A": 0.4, "I": 0.6}, ergode.Gamma(shape=2.0, scale=1.0)),
            ergode.Progression("A", {"I": 0.5, "R": 0.5}, ergode.Weibull(shape=1.5, scale=2.0)),
            ergode.Progression("I", {"Q": 0.3, "R": 0.7}, ergode.LogNormal(mean=3, median=2)),
            ergode.Progression("Q", {"A": 0.5, "R": 0.5}, ergode.Deterministic(1.5)),
        ],
    )  # fmt: skip


def one_contact(rng, count):
    """Moments of transmission across one contact in `seaiqr`, infinite where there is none."""
    moments = np.full(count, np.inf)
    for number in range(count):
        threshold, now = rng.exponential(), rng.gamma(2.0, 1.0)
        name = "A" if rng.random() < 0.4 else "I"
        while name != "R" and now < np.inf:
            if name == "A":
                stay, pieces = 2.0 * rng.weibull(1.5), [(0.0, np.inf, 0.1)]
                after = "I" if rng.random() < 0.5 else "R"
            elif name == "I":
                stay = rng.lognormal(np.log(2), np.sqrt(2 * np.log(1.5)))
                pieces = [(0.0, 1.0, 0.08), (1.0, 2.5, 0.4), (2.5, np.inf, 0.16)]
                after = "Q" if rng.random() < 0.3 else "R"
            else:
                stay, pieces, after = 1.5, [], "A" if rng.random() < 0.5 else "R"
            for start, end, rate in pieces:
                length = max(min(end, stay) - start, 0.0)
                if threshold < rate * length:
                    moments[number] = now + start + threshold / rate
                    now = np.inf
                    break
                threshold -= rate * length
            now, name = now + stay, after
    return moments


def test_stages_that_branch_and_return():
    """Against 40,000 draws of one contact with NumPy: four comparisons at 5.5 standard errors."""
    moments = one_contact(np.random.default_rng(4), 40_000)
    found = reproduction(seaiqr(), REGULAR)
    happened = np.isfinite(moments)
    chance = found.reproduction_number / 5
    assert abs(happened.mean() - chance) < SIGMAS * np.sqrt(chance * (1 - chance) / moments.size)
    given = moments[happened]
    error = SIGMAS * given.std() / np.sqrt(given.size)
    assert abs(given.mean() - found.generation_time) < error < 0.05 * given.mean()
    discounted = 5 * np.where(happened, np.exp(-found.growth_rate * moments), 0.0)
    error = SIGMAS * discounted.std() / np.sqrt(moments.size)
    assert abs(discounted.mean() - 1.0) < error < 0.04


def test_early_generations_of_line_lists():
    """Generations 2 and 3 of simulations on two layers with an attribute, apart by their latency.

    The ratio of their sizes, over 300 runs from 20 seeds each, at 5.5 standard errors. The fraction
    infected by then, 0.4 %, and what the third generation is not yet typical, take up to 1 %.
    """
    rng = np.random.default_rng(8)
    network = two_layers(60_000, seed=5)
    network = network.with_attributes(shedding=rng.choice([0.4, 2.0], 60_000))
    model = ergode.CompartmentModel(
        ["S", "E", "I", "R"], [ergode.Infection("S", "E", {"I": 0.25})],
        [
            ergode.Progression("E", "I", ergode.Deterministic(20.0)),
            ergode.Progression("I", "R", ergode.Gamma(shape=4.0, scale=0.4)),
        ],
        infectivity="shedding",
    )  # fmt: skip
    cases = simulate(
        model, network, initial={"E": 20}, times=[0.0, 75.0], replicates=300, seed=6, device="cpu",
        output="line_list",
    )  # fmt: skip
    generation = (cases["infected_at"].values // 20).astype(int)
    sizes = np.zeros((300, 4))
    np.add.at(sizes, (cases["replicate"].values, np.minimum(generation, 3)), 1)
    ratio = sizes[:, 3].sum() / sizes[:, 2].sum()
    spread = (sizes[:, 3] - ratio * sizes[:, 2]).std() * np.sqrt(300) / sizes[:, 2].sum()
    found = reproduction(model, network)
    assert abs(ratio - found.reproduction_number) < SIGMAS * spread + 0.01 * ratio
    assert SIGMAS * spread < 0.05 * ratio
    secondary = reproduction_number(cases)["secondary_cases"].values[generation == 2]
    assert secondary.mean() == pytest.approx(ratio, rel=1e-9)


def test_clusters_are_named_and_bounded():
    """Households of six: R and growth are above what simulations show, and the record says so."""
    size, node_count = 6, 6_000
    start = np.arange(0, node_count, size)
    pairs = np.array(np.triu_indices(size, 1))
    homes = (start[:, None, None] + pairs[None]).transpose(1, 0, 2).reshape(2, -1)
    network = ergode.ContactNetwork.from_layers(
        {
            "home": ergode.ContactNetwork.from_edges(*homes, node_count=node_count),
            "rest": ergode.ContactNetwork.erdos_renyi(node_count, mean_degree=2, seed=1),
        }
    )
    model = sir(0.5, ergode.Exponential(rate=0.5))
    found = reproduction(model, network)
    assert found.overlap > 0.25 and "upper bounds" in found.limits[0]
    times = np.arange(0, 12.1, 0.25)
    counts = simulate(
        model, network, initial={"I": 5}, times=times, replicates=200, seed=2, device="cpu"
    )
    cases = counts["cases"].mean("replicate").values
    begin, end = np.searchsorted(cases, [40, 200])
    growth = np.log(cases[end] / cases[begin]) / (times[end] - times[begin])
    assert 0.3 * found.growth_rate < growth < 0.95 * found.growth_rate


def test_reinfection_is_named():
    model = ergode.CompartmentModel.sis(
        transmission_rate=0.3, infectious=ergode.Exponential(rate=0.15)
    )
    found = reproduction(model, REGULAR)
    assert found.reproduction_number == pytest.approx(10 / 3, rel=1e-12)
    assert found.limits == ("nodes can be infected again, and only first infections count",)


def test_one_record_for_each_strain():
    model = ergode.CompartmentModel.two_strains(
        transmission_rate=[0.2, 0.3],
        infectious=[ergode.Exponential(rate=0.2), ergode.Exponential(rate=0.1)],
        cross_susceptibility=[[0.0, 0.4], [0.4, 0.0]],
    )
    with pytest.raises(ergode.ModelError, match="to I1 and I2, each with"):
        reproduction(model, REGULAR)
    for name, chance in (("I1", 0.5), ("I2", 0.75)):
        found = reproduction(model, REGULAR, infected=name).reproduction_number
        assert found == pytest.approx(5 * chance, rel=1e-12)
    with pytest.raises(ergode.ModelError, match="infected is 'R1'; expected"):
        reproduction(model, REGULAR, infected="R1")
    with pytest.raises(ergode.ModelError, match="infections lead from 'S' to I1 and I2"):
        scaled_to(model, REGULAR, reproduction_number=2.0)


@pytest.mark.parametrize(
    "wish",
    [
        {"reproduction_number": 2.5},
        {"growth_rate": 0.08},
        {"growth_rate": 0.0},
        {"doubling_time": 6.0},
    ],
)
def test_the_rate_for_a_wish(wish):
    network = two_layers(2_000)
    model = scaled_to(seaiqr(), network, **wish)
    found = reproduction(model, network)
    for name, value in wish.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-5, abs=1e-8)
    rates = model.infections[0].transmission_rate
    assert rates["I"] / rates["A"] == pytest.approx(4.0)
    assert model.infections[0].profile == seaiqr().infections[0].profile


def test_the_rate_for_a_wished_decline():
    model = sir(0.3, ergode.Exponential(rate=0.15))
    found = reproduction(scaled_to(model, REGULAR, doubling_time=-9.0), REGULAR)
    assert found.doubling_time == pytest.approx(-9.0, rel=1e-5)


def test_wishes_that_cannot_be_had():
    model = sir(0.3, ergode.Exponential(rate=0.15))
    with pytest.raises(ergode.ModelError, match="it is at most 5"):
        scaled_to(model, REGULAR, reproduction_number=5.1)
    with pytest.raises(ergode.ModelError, match="no transmission rate gives that"):
        scaled_to(model, REGULAR, growth_rate=-0.5)
    with pytest.raises(ergode.ModelError, match="a longer tail than exp"):
        scaled_to(seaiqr(), two_layers(500), doubling_time=-70.0)
    with pytest.raises(ergode.ModelError, match="given no target"):
        scaled_to(model, REGULAR)
    with pytest.raises(ergode.ModelError, match="given reproduction_number, growth_rate"):
        scaled_to(model, REGULAR, reproduction_number=2, growth_rate=1)
    with pytest.raises(
        ergode.ModelError, match="doubling_time is 0; expected a finite number that"
    ):
        scaled_to(model, REGULAR, doubling_time=0)
    for bad in (0, -1, np.nan, np.inf, "2", True):
        with pytest.raises(ergode.ModelError, match="reproduction_number is"):
            scaled_to(model, REGULAR, reproduction_number=bad)
    with pytest.raises(ergode.ModelError, match="rates or all weights are zero"):
        scaled_to(sir(0.0, ergode.Exponential(rate=1.0)), REGULAR, reproduction_number=2)


def test_what_has_no_reproduction_number():
    meetings = ergode.TemporalContacts.from_meetings([0], [1], [0.0], [1.0])
    with pytest.raises(ergode.ModelError, match="contacts is TemporalContacts"):
        reproduction(sir(0.3, ergode.Exponential(rate=0.15)), meetings)
    computed = ergode.ComputedNetwork.random_regular(100)
    with pytest.raises(ergode.ModelError, match=r"stored\(simple=True\)"):
        reproduction(sir(0.3, ergode.Exponential(rate=0.15)), computed)
    leaving = ergode.CompartmentModel(
        ["S", "I", "V"], [ergode.Infection("S", "I", {"I": 1.0})],
        [ergode.Progression("S", "V", ergode.Exponential(mean=3))],
    )  # fmt: skip
    with pytest.raises(ergode.ModelError, match="leave 'S' without being infected"):
        reproduction(leaving, REGULAR)
    mixed = ergode.CompartmentModel(
        ["S", "I", "J"],
        [ergode.Infection("S", "I", {"I": 1.0}), ergode.Infection("S", "J", {"I": 0.1, "J": 1.0})],
    )
    with pytest.raises(ergode.ModelError, match="infected to 'I' infect others to 'J' as well"):
        reproduction(mixed, REGULAR, infected="I")


def test_the_card():
    html = reproduction(sir(0.3, ergode.Exponential(rate=0.15)), REGULAR)._repr_html_()
    assert "reproduction number" in html and "3.33333" in html and "all contacts" in html
