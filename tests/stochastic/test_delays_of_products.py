"""Delays of products: holding times, formulas of amounts, and reactants consumed late."""

import numpy as np
import pytest
from both_devices import on_both

import ergode
from ergode import ModelError, Reaction, ReactionNetwork
from ergode.core.status import Status

SIGMAS = 5.5
HELD = {
    "A": ergode.Gamma(mean=2.0, sd=0.5),
    "B": ergode.LogNormal(mean=2.0, sd=1.0),
    "C": ergode.Weibull(shape=2.0, scale=2.0),
    "D": ergode.Exponential(rate=0.5),
    "E": ergode.Deterministic(1.5),
    "F": ergode.Erlang(stages=3, mean=2.0),
    "G": ergode.Empirical(times=[1.0, 2.0, 3.0], cdf=[0.0, 0.5, 1.0]),
}
TIMES = [0.0, 1.0, 2.0, 5.0]
RATE = 10.0
MADE = ReactionNetwork(
    dict.fromkeys(HELD, 0),
    [Reaction([], [name], rate_constant=RATE, delay=one) for name, one in HELD.items()],
)


def run(network, **options):
    options = {"times": TIMES, "method": "direct", "seed": 3, "device": "cpu", **options}
    return ergode.stochastic.simulate(network, **options)


def expected():
    """Means [time, species]: the rate times the integral of the distribution function."""
    t = np.linspace(0, TIMES[-1], 20_001)
    steps = np.array([1 - one.survival(t) for one in HELD.values()])
    whole = np.cumsum((steps[:, 1:] + steps[:, :-1]) / 2, axis=1) * t[1]
    whole = np.concatenate([np.zeros((len(HELD), 1)), whole], axis=1)
    return RATE * np.array([np.interp(TIMES, t, row) for row in whole]).T


@pytest.mark.parametrize("method", ["direct", "hybrid"])
def test_products_of_random_delays_are_poisson(method):
    """Immigrants on their way are a queue without limit: those that have arrived are Poisson."""
    n = 10_000
    result = run(MADE, method=method, replicates=n, output="statistics")
    mean, truth = result["mean"].values, expected()
    known = truth > 0.2
    assert known.sum() > 15
    assert (np.abs(mean - truth)[known] < SIGMAS * np.sqrt(truth / n)[known]).all()
    spread = np.sqrt((2 * truth**2 + truth) / n)
    assert (np.abs(result["variance"].values - truth)[known] < SIGMAS * spread[known]).all()


def test_the_inputs_of_a_result_have_its_holding_times():
    result = run(MADE, replicates=3)
    assert "Gamma(shape=16" in str(ergode.inputs(result))
    np.testing.assert_array_equal(ergode.inputs(result).again()["amount"], result["amount"])
    other = [Reaction([], [name], rate_constant=RATE, delay=1.0) for name in HELD]
    with pytest.raises(ergode.PlanError):
        ergode.concat([result, run(ReactionNetwork(MADE.species, other), replicates=range(3, 6))])


def test_a_formula_sees_the_amounts_that_the_firing_leaves():
    network = ReactionNetwork(
        {"A": 3, "B": 0}, [Reaction("A -> B", rate="1e9 * A", delay="half * A")],
        parameters={"half": 0.5},
    )  # fmt: skip
    result = run(network, times=[0, 0.25, 0.75, 1.25], replicates=4)
    assert (result["amount"].sel(species="B").values == [0, 1, 2, 3]).all()
    assert (result["amount"].sel(species="A").values[:, 1:] == 0).all()


def test_reactants_may_be_consumed_late():
    """Until then they react on: the first products are Poisson, at the rate of all reactants."""
    n = 4000
    network = ReactionNetwork(
        {"A": 1000, "B": 0}, [Reaction("A -> B", rate_constant=0.01, delay=0.5, consuming=False)]
    )
    amount = run(network, times=[0, 0.5, 1.0], replicates=n)["amount"].values
    assert (amount[:, 1, 0] > 990).all()  # nothing but what fired at zero is due
    assert (amount.sum(axis=2) == 1000).all()
    made = amount[:, 2, 1]
    assert abs(made.mean() - 5.0) < SIGMAS * np.sqrt(5.0 / n)
    assert abs(made.var(ddof=1) - 5.0) < SIGMAS * np.sqrt((2 * 25 + 5) / n)
    again = network.reactions[0]
    assert not again.consuming
    assert ReactionNetwork({"A": 1, "B": 0}, [again]).reactions[0] == again


def test_a_reactant_that_two_firings_take_ends_its_realization():
    network = ReactionNetwork(
        {"A": 1, "B": 0}, [Reaction("A -> B", rate="50", delay=0.5, consuming=False)]
    )
    with pytest.warns(ergode.FailureWarning, match="negative|below"):
        result = run(network, times=[0, 0.4, 1], replicates=3)
    assert (result["status"] == Status.NEGATIVE_RATE).all()
    assert result["amount"].values[:, 1].tolist() == [[1, 0]] * 3


def test_a_delay_that_is_no_number_is_a_status_and_a_negative_one_counts_as_zero():
    for delay, status in (("sqrt(-A)", Status.NOT_FINITE), ("-A", Status.DONE)):
        network = ReactionNetwork(
            {"A": 5, "B": 0}, [Reaction("A -> B", rate_constant=9.0, delay=delay)]
        )
        if status:
            with pytest.warns(ergode.FailureWarning):
                result = run(network, replicates=3)
        else:
            result = run(network, replicates=3)
            assert (result["amount"].sum("species") == 5).all()
        assert (result["status"] <= Status.EXTINCT).all() == (status == Status.DONE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"consuming": False}, "consuming=False and no delay"),
        ({"consuming": "no", "delay": 1}, "consuming is 'no'; expected True or False"),
        ({"delay": -1.0}, "delay of reaction 'A -> B' is -1; expected 0 or more"),
        ({"delay": "q * A"}, "uses 'q', which the network does not have"),
    ],
)
def test_bad_delays_are_refused(options, message):
    with pytest.raises(ModelError, match=message):
        ReactionNetwork({"A": 1, "B": 0}, [Reaction("A -> B", rate_constant=1.0, **options)])


@pytest.mark.slow
def test_random_delays_in_space():
    n, voxels = 500, 8
    space = ergode.ReactionDiffusion(MADE, (voxels,), diffusion=dict.fromkeys(HELD, 0.1))
    result = ergode.stochastic.simulate_space(
        space, times=TIMES, replicates=n, seed=1, device="cpu", output="statistics"
    )
    mean, truth = result["mean"].sum("x").values, expected() * voxels
    known = truth > 0.2
    assert (np.abs(mean - truth)[known] < SIGMAS * np.sqrt(truth / n)[known]).all()


@pytest.mark.cuda
def test_a_gpu_has_the_random_delays_of_a_cpu():
    cpu, gpu = on_both(run, MADE, replicates=200)
    np.testing.assert_array_equal(cpu["amount"], gpu["amount"])
    network = ReactionNetwork(MADE.species, [*MADE.reactions, Reaction("A -> B", rate_constant=1)])
    space = ergode.ReactionDiffusion(network, (4,), diffusion=dict.fromkeys(HELD, 0.1))
    cpu, gpu = on_both(ergode.stochastic.simulate_space, space, times=TIMES, replicates=20)
    np.testing.assert_array_equal(cpu["amount"], gpu["amount"])
