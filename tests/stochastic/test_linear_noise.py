"""The linear noise approximation: exact for linear networks, and the limit of large volumes."""

import numpy as np
import pytest
from scipy import linalg
from scipy.integrate import solve_ivp, trapezoid

import ergode
from ergode import Event, ModelError, PlanError, Reaction, ReactionNetwork, Species

linear_noise = ergode.stochastic.linear_noise

EXPRESSION = ReactionNetwork(
    {"protein": 3, "off": 1, "mRNA": 0, "on": 0},
    [
        Reaction("off -> on", rate_constant="a"),
        Reaction("on -> off", rate_constant=0.6),
        Reaction("on -> on + mRNA", rate_constant=20.0),
        Reaction("mRNA -> 0", rate_constant=1.5),
        Reaction("mRNA -> mRNA + 2 protein", rate_constant=3.0),
        Reaction("protein -> 0", rate_constant=0.3),
    ],
    {"a": 0.4},
)
"""A gene that switches, and what it makes: every propensity is linear."""


def generator(a):
    """Drift matrix of EXPRESSION, and its stoichiometry and rates as a function of the means."""
    # Species are in the order of the network.
    rates = np.zeros((6, 4))
    rates[[0, 1, 2, 3, 4, 5], [1, 3, 3, 2, 2, 0]] = [a, 0.6, 20.0, 1.5, 3.0, 0.3]
    changes = np.array(
        [[0, 0, 0, 0, 2, -1], [-1, 1, 0, 0, 0, 0], [0, 0, 1, -1, 0, 0], [1, -1, 0, 0, 0, 0]]
    )
    return rates, changes


def moments(a, times):
    """Means and second moments of the amounts, by their own linear equations (not covariances)."""
    rates, changes = generator(a)
    start = np.array([3.0, 1.0, 0.0, 0.0])

    def slope(_, y):
        m, second = y[:4], y[4:].reshape(4, 4)
        flow = changes @ rates @ second  # E[change of x_i times x_j]
        noise = (changes * (rates @ m)) @ changes.T
        return np.concatenate([changes @ rates @ m, (flow + flow.T + noise).ravel()])

    y = solve_ivp(
        slope, (0, times[-1]), [*start, *np.outer(start, start).ravel()], t_eval=times, rtol=1e-11,
        atol=1e-11,
    ).y.T  # fmt: skip
    means = y[:, :4]
    return means, y[:, 4:].reshape(-1, 4, 4) - np.einsum("ti,tj->tij", means, means)


def test_means_and_covariances_of_a_linear_network_are_exact():
    times = [0.0, 0.5, 3.0, 40.0]
    found = linear_noise(EXPRESSION, times=times, parameters={"a": [0.4, 1.7]})
    assert found.attrs["exact"] == 1
    assert found["covariance"].dims == ("point", "time", "species", "other_species")
    assert list(found["species"].values) == ["protein", "off", "mRNA", "on"]
    for k, a in enumerate((0.4, 1.7)):
        means, covariances = moments(a, times)
        np.testing.assert_allclose(found["mean"][k], means, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(found["covariance"][k], covariances, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(
            found["variance"][k], np.diagonal(found["covariance"][k], axis1=1, axis2=2)
        )


def test_the_stationary_state_of_a_linear_network_is_exact():
    """A conserved number (of genes) has no noise; lags by the regression theorem (van Kampen)."""
    lags = [0.0, 0.7, 5.0]
    frequencies = np.linspace(-40, 40, 40_001)
    found = linear_noise(EXPRESSION, times=[0, 1], lags=lags, frequencies=frequencies)
    means, covariances = moments(0.4, [0.0, 300.0])
    np.testing.assert_allclose(found["stationary_mean"], means[-1], rtol=1e-7)
    np.testing.assert_allclose(found["stationary_covariance"], covariances[-1], rtol=1e-6)
    rates, changes = generator(0.4)
    for k, lag in enumerate(lags):
        later = np.diagonal(linalg.expm(changes @ rates * lag) @ covariances[-1])
        np.testing.assert_allclose(found["autocovariance"][:, k], later, rtol=1e-5)
        np.testing.assert_allclose(
            found["autocorrelation"][:, k], later / np.diagonal(covariances[-1]), rtol=1e-5
        )
    power = found["power_spectrum"].integrate("frequency")
    # Beyond the last frequency f there is about D / (2 pi^2 f), of the noise D per unit of time.
    noise = np.diagonal((changes * (rates @ means[-1])) @ changes.T)
    whole = power + noise / (2 * np.pi**2 * 40)
    np.testing.assert_allclose(whole, np.diagonal(covariances[-1]), rtol=1e-4)
    # The Wiener-Khinchin theorem, for the gene alone: a Lorentz curve of the width 0.4 + 0.6.
    gene = 0.24 * 2 / (1 + (2 * np.pi * frequencies) ** 2)
    np.testing.assert_allclose(found["power_spectrum"].sel(species="on"), gene, rtol=1e-6)


def pairs(volume):
    return ReactionNetwork(
        [Species("A", 2 * volume, compartment="cell"), Species("B", 0, compartment="cell")],
        [
            Reaction("2 A -> B", rate_constant=0.5),
            Reaction("B -> 2 A", rate_constant=0.8),
            Reaction("0 -> A", rate="cell * (1 + 0.5 * sin(3 * time))"),
            Reaction("B -> 0", rate="0.7 * B / (1 + B / cell)"),
        ],
        compartments={"cell": volume}, rules={"all": "A + 2 * B", "square": "A^2 / cell"},
    )  # fmt: skip


def test_the_error_is_one_over_the_volume():
    """Of means and variances per volume, against the master equation by simulation and exactly."""
    times = [0.0, 0.4, 2.0]
    errors = []
    for volume in (20.0, 80.0):
        network = ReactionNetwork(
            {"A": int(2 * volume), "B": 0},
            [
                Reaction("2 A -> B", stochastic_rate_constant=1.0 / volume),
                Reaction("B -> 2 A", rate_constant=0.8),
            ],
        )
        exact = ergode.stochastic.probabilities(network, times=times)
        found = linear_noise(network, times=times)
        assert found.attrs["exact"] == 0
        mean = float(abs(found["mean"] - exact["mean"]).max())
        variance = float(abs(found["variance"] - exact["variance"]).max())
        assert mean < 0.2 and variance < 0.3  # of the order of one molecule
        errors.append((mean, variance))
    np.testing.assert_allclose(*errors, rtol=0.3)


def test_a_normal_closure_has_means_of_the_next_order():
    """Against the master equation: the error of the means falls with the volume."""
    times, errors = [0.0, 0.4, 2.0], []
    for volume in (5.0, 20.0, 80.0):
        network = ReactionNetwork(
            {"A": int(2 * volume), "B": 0},
            [
                Reaction("2 A -> B", stochastic_rate_constant=1.0 / volume),
                Reaction("B -> 2 A", rate_constant=0.8),
            ],
        )
        exact = ergode.stochastic.probabilities(network, times=times)
        found = linear_noise(network, times=times, closure="normal")
        assert (found.attrs["exact"], found.attrs["method"]) == (0, "normal-closure")
        assert float(abs(found["variance"] - exact["variance"]).max()) < 0.1
        errors.append(float(abs(found["mean"] - exact["mean"]).max()))
    assert errors[0] < 6e-3  # .19 by the linear noise approximation
    np.testing.assert_allclose(np.divide(errors[:2], errors[1:]), 4.0, rtol=0.15)


def test_a_closure_of_third_order_has_errors_of_the_next_order():
    """Means err by the square of one over the volume; a linear network is exact."""
    times, errors = [0.0, 0.4, 2.0], []
    for volume in (20.0, 80.0):
        network = ReactionNetwork(
            {"A": int(2 * volume), "B": 0},
            [
                Reaction("2 A -> B", stochastic_rate_constant=1.0 / volume),
                Reaction("B -> 2 A", rate_constant=0.8),
            ],
            rules={"all": "A + 2 * B"},
        )
        exact = ergode.stochastic.probabilities(network, times=times)
        found = linear_noise(network, times=times, closure="third-order", tolerance=1e-10)
        assert found.attrs["method"] == "third-order-closure"
        np.testing.assert_allclose(found["value_mean"], 2 * volume, rtol=1e-9)
        errors.append([float(abs(found[one] - exact[one]).max()) for one in ("mean", "variance")])
    assert errors[0][0] < 1e-4 and errors[0][1] < 5e-3
    np.testing.assert_allclose(np.divide(*errors), [16.0, 4.0], rtol=0.15)
    third = linear_noise(EXPRESSION, times=[0, 1, 300.0], closure="third-order")
    second = linear_noise(EXPRESSION, times=[0, 1, 300.0])
    np.testing.assert_allclose(third["covariance"], second["covariance"], rtol=1e-6, atol=1e-6)
    gene = third["third_moment"].sel(species="on").values  # of a switch: p (1 - p) (1 - 2 p)
    p = third["mean"].sel(species="on").values
    np.testing.assert_allclose(gene, p * (1 - p) * (1 - 2 * p), rtol=1e-5, atol=1e-7)


def test_three_kinds_of_molecules_in_a_closure_of_third_order():
    """Mixed third derivatives, against the master equation."""
    network = ReactionNetwork(
        {"A": 30, "B": 25, "C": 2},
        [
            Reaction("A + B -> C", rate_constant=0.05),
            Reaction("C -> A + B", rate_constant=0.5),
            Reaction("A + B + C -> A + B", rate_constant=2e-4),
            Reaction("2 A + B -> 3 B", rate_constant=5e-4),
            Reaction("B -> A", rate_constant=0.3),
        ],
    )
    exact = ergode.stochastic.probabilities(network, times=[0, 0.4, 2.0])
    found = linear_noise(network, times=[0, 0.4, 2.0], closure="third-order")
    np.testing.assert_allclose(found["mean"], exact["mean"], atol=1e-3)
    np.testing.assert_allclose(found["variance"], exact["variance"], atol=0.03)
    with pytest.raises(PlanError, match="rate of reaction 'R4' is no polynomial"):
        linear_noise(pairs(5.0), times=[0, 1], closure="third-order")


def test_a_normal_closure_by_hand():
    """Two equations for births and pairs that annihilate, with third central moments of zero."""
    birth, dying, times = 5.0, 0.1, [0.0, 1.0, 10.0]

    def slope(_, y):
        mean, variance = y
        rate = dying / 2 * (variance + mean**2 - mean)
        shared = dying / 2 * (2 * mean - 1) * variance
        return birth - 2 * rate, birth + 4 * rate - 4 * shared

    exact = solve_ivp(slope, (0, 10), [0, 0], rtol=1e-11, atol=1e-11, t_eval=times).y
    network = ReactionNetwork(
        {"A": 0},
        [
            Reaction("0 -> A", rate_constant=birth),
            Reaction("2 A -> 0", stochastic_rate_constant=dying),
        ],
        rules={"square": "A^2"},
    )
    found = linear_noise(network, times=times, closure="normal", tolerance=1e-10)
    np.testing.assert_allclose(found["mean"][:, 0], exact[0], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found["variance"][:, 0], exact[1], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found["value_mean"][:, 0], exact[1] + exact[0] ** 2, rtol=1e-8)
    # The same law as a formula, beside another copy and something that has no effect.
    several = ReactionNetwork(
        {"Z": 0, "other": 7, "A": 0},
        [
            Reaction("2 A -> 0", rate="0.1 * A * (A - 1) / 2"),
            Reaction("2 Z -> 0", stochastic_rate_constant=dying),
            Reaction("0 -> A", rate_constant=birth),
            Reaction("other -> 0", rate_constant=1.0),
            Reaction("0 -> Z", rate_constant=birth),
        ],
    )
    found = linear_noise(several, times=times, closure="normal", tolerance=1e-10)
    for name in "AZ":
        variance = found["variance"].sel(species=name)
        np.testing.assert_allclose(variance, exact[1], rtol=1e-7, atol=1e-9)
    between = found["covariance"].sel(species="A", other_species="Z")
    np.testing.assert_allclose(between, 0.0, atol=1e-7)


def test_a_normal_closure_of_a_linear_network_is_exact_and_one_of_a_formula_is_near():
    plain, closed = (
        linear_noise(EXPRESSION, times=[0, 3, 40], tolerance=1e-9, closure=one)
        for one in (None, "normal")
    )
    np.testing.assert_allclose(closed["mean"], plain["mean"], rtol=1e-6)
    np.testing.assert_allclose(closed["covariance"], plain["covariance"], rtol=1e-5, atol=1e-6)
    network = ReactionNetwork(
        {"A": 0},
        [Reaction("0 -> A", rate="20 / (1 + (A / 10)^2)"), Reaction("A -> 0", rate_constant=1.0)],
    )
    exact = ergode.stochastic.probabilities(network, times=[0, 5])
    off = [
        float(abs(linear_noise(network, times=[0, 5], closure=one)["mean"] - exact["mean"]).max())
        for one in (None, "normal")
    ]
    assert off[1] < 0.02 * off[0]


@pytest.mark.slow
def test_large_volumes_against_realizations():
    """Formulas, times, concentrations and rules, in a transient."""
    network, times, n = pairs(4000.0), [0.0, 0.4, 2.0], 4000
    found = linear_noise(network, times=times)
    runs = ergode.stochastic.simulate(
        network, times=times, replicates=n, seed=2, device="cpu:2", method="rejection-bounds"
    )
    pick = [
        (runs["amount"], found["mean"], found["variance"]),
        (runs["value"], found["value_mean"], found["value_variance"]),
    ]
    for values, mean, variance in pick:
        x, m, v = values.values[:, 1:].astype(float), mean.values[1:], variance.values[1:]
        assert (abs(x.mean(axis=0) - m) < 5.5 * np.sqrt(v / n) + 2).all()
        assert (abs(x.var(axis=0) / v - 1) < 5.5 * np.sqrt(2 / n) + 1e-3).all()
    x = runs["amount"].values[:, 2].astype(float)
    covariance = found["covariance"].values[2]
    spread = np.sqrt((covariance[0, 0] * covariance[1, 1] + covariance[0, 1] ** 2) / n)
    assert abs(np.cov(x.T)[0, 1] - covariance[0, 1]) < 5.5 * spread + 2


def test_rates_that_jump_in_time_and_continuous_species():
    """x' = -x has no noise of its own; its birth has that of n."""
    network = ReactionNetwork(
        {"n": 0, "x": 5.0},
        [
            Reaction("0 -> n", rate="100 if time >= 1 else 0"),
            Reaction("n -> n + x", rate_constant=2.0),
            Reaction("x -> 0", rate_constant=1.0),
        ],
        continuous=["x"],
    )
    found = linear_noise(network, times=[0, 0.5, 1, 3], tolerance=1e-9)
    assert found["mean"].sel(species="n").values.round(6).tolist() == [0, 0, 0, 200]
    assert found["variance"].sel(species="n").values.round(5).tolist() == [0, 0, 0, 200]
    s = 2.0  # after the jump
    made = 200 * (s - 1 + np.exp(-s)) + 5 * np.exp(-3)
    np.testing.assert_allclose(found["mean"][3, 1], made, rtol=1e-7)
    # A molecule of the age u has made 2 (1 - e^-u).
    u = np.linspace(0, s, 100_001)
    squares = 100 * trapezoid((2 * -np.expm1(-u)) ** 2, u)
    np.testing.assert_allclose(found["variance"][3, 1], squares, rtol=1e-6)


OSCILLATING = ReactionNetwork(
    {"X": 10, "Y": 10},
    [
        Reaction("0 -> X", rate_constant=100.0),
        Reaction("2 X + Y -> 3 X", rate_constant=1e-4),
        Reaction("X -> Y", rate_constant=3.0),
        Reaction("X -> 0", rate_constant=1.0),
    ],
)


@pytest.mark.parametrize(
    ("network", "options", "error", "message"),
    [
        (ReactionNetwork({"X": 0}, [Reaction("0 -> X", rate_constant=1.0)]),
         {"stationary": True}, PlanError, "no stationary state"),
        (OSCILLATING, {"lags": [0, 1]}, PlanError, "an oscillation, has none"),
        (pairs(10.0), {"stationary": True}, PlanError, "depends on the time"),
        (EXPRESSION, {"lags": [-1.0, 1.0]}, ModelError, "lags begins at -1"),
        (EXPRESSION, {"lags": []}, ModelError, r"lags has shape \(0,\)"),
        (EXPRESSION, {"frequencies": [np.nan]}, ModelError, r"frequencies\[0\] is nan"),
        (EXPRESSION, {"tolerance": 1.0}, PlanError, "tolerance is 1.0"),
        (EXPRESSION, {"closure": "gauss"}, PlanError, "closure is 'gauss'; expected 'normal'"),
        (EXPRESSION, {"closure": "normal", "lags": [0.0]}, PlanError, "leave out the closure"),
        (ReactionNetwork({"A": 1, "B": 0}, [
            Reaction("A -> B", rate_constant=1.0), Reaction("2 B -> B", rate_constant=9.0),
            Reaction("B -> 2 B", rate_constant=1.0),
         ]), {"closure": "normal"}, ModelError, "the closure fails at time 0"),
        (EXPRESSION, {"initial": {"mRNA": -1.0}}, ModelError, "'mRNA' is -1"),
        (ReactionNetwork({"X": 0}, [Reaction("0 -> X", rate="1 / X")]), {}, ModelError,
         "reaction 'R1' has the rate inf"),
        (ReactionNetwork({"X": 1}, [], events=[Event("time > 1", {"X": 2})]), {}, PlanError,
         "has the event"),
        (ReactionNetwork({"X": 1}, [Reaction("X -> 0", rate_constant=1.0, delay=1.0)]), {},
         PlanError, "has a delay"),
        (ReactionNetwork({"X": 1}, [], {"c": 1.0}, rate_rules={"c": "-c"}), {}, PlanError,
         "'c' has a rate rule"),
    ],
)  # fmt: skip
def test_what_is_refused(network, options, error, message):
    with pytest.raises(error, match=message):
        linear_noise(network, times=[0, 1], **options)


def test_a_result_has_its_inputs_and_can_be_made_again():
    found = linear_noise(EXPRESSION, times=[0, 1], initial={"mRNA": [0, 4]})
    again = ergode.inputs(found).again()
    assert again["mean"].identical(found["mean"])
    assert found["mean"].dims == ("point", "time", "species")
