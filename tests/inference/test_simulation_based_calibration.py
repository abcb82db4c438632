"""Simulation-based calibration (Talts et al. 2018): ranks of true parameters are uniform.

Each built-in method with a posterior, on three engines. A chi-square test of ranks in five bins, at
1e-6. Particles have a random start where the engine has no chance of its own. History matching has
no posterior: what it must keep is the truth.
"""

import functools

import numpy as np
import pytest
from scipy import stats

import ergode

DEATH = ergode.ReactionNetwork(
    {"X": 100}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0}
)
FIELD = ergode.field_from_equations({"x": "-k*x"}, ["k"], diffusion={"x": "0.3"})
CONTACTS = ergode.ContactNetwork.erdos_renyi(300, mean_degree=8, seed=1)
LOW, HIGH = 0.2, 2.0
TIMES = [0.5, 1.0, 2.0]


def epidemic(k):
    return ergode.CompartmentModel.sir(
        transmission_rate=0.2 * k, infectious=ergode.Exponential(mean=1)
    )


ENGINES = {
    "stochastic": (
        functools.partial(ergode.stochastic.simulate, DEATH, device="cpu"), {"X": 100}, 4.0,
        lambda found: found["amount"].squeeze("replicate").sel(species="X", time=TIMES),
    ),
    "trajectories": (
        functools.partial(
            ergode.trajectories.integrate, FIELD, method="euler-maruyama", step=0.02, device="cpu"
        ),
        {"x": 2.0}, 0.15, lambda found: found["state"].sel(variable="x", time=TIMES),
    ),
    "decay": (
        functools.partial(
            ergode.trajectories.integrate, ergode.field_from_equations({"x": "-k*x"}, ["k"]),
            device="cpu",
        ),
        {"x": 2.0}, 0.15, lambda found: found["state"].sel(variable="x", time=TIMES),
    ),
    "kinetics": (
        functools.partial(ergode.kinetics.integrate, DEATH, device="cpu"), {"X": 2.0}, 0.15,
        lambda found: found["concentration"].sel(species="X", time=TIMES),
    ),
    "hybrid": (
        functools.partial(
            ergode.stochastic.simulate,
            ergode.ReactionNetwork(
                {"X": 2.0}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0},
                continuous=["X"],
            ), method="hybrid", device="cpu",
        ),
        {"X": 2.0}, 0.15,
        lambda found: found["amount"].squeeze("replicate").sel(species="X", time=TIMES),
    ),
    "epidemics": (
        functools.partial(
            ergode.epidemics.simulate, epidemic, CONTACTS, initial={"I": 20}, device="cpu"
        ),
        None, 5.0, lambda found: found["cases"].squeeze("replicate").sel(time=TIMES),
    ),
}  # fmt: skip


def random_start(parameters, random):
    return {"X": random.normal(2.0, 0.3, len(parameters["k"]))}


CATALYSED = ergode.ReactionNetwork(
    {"X": 2.0, "K": 1.0}, [ergode.Reaction("X + K -> K", rate_constant=1.0)]
)


def catalysed(parameters, initial, times):
    """Zones have their starts; a rate for each of them is the amount of a catalyst."""
    return ergode.kinetics.integrate(
        CATALYSED, times=times, initial=dict(initial) | {"K": parameters["k"]}, device="cpu"
    )


ENGINES["kinetics-start"] = (catalysed, random_start, *ENGINES["kinetics"][2:])


def simulator(engine, noise):
    """Summaries with their error of measurement."""
    call, initial, _, summaries = ENGINES[engine]

    def with_error(parameters, seed):
        given = {} if initial is None else {"initial": initial}
        if callable(initial):
            given = {"initial": initial(parameters, np.random.default_rng(seed + 1))}
        if not engine.startswith("kinetics"):
            given |= {"seed": seed, "common_random_numbers": False}
        found = call(parameters=parameters, times=[0, *TIMES], **given)
        exact = summaries(found).transpose(..., "time").values.astype(float)
        return exact + noise * np.random.default_rng(seed).standard_normal(exact.shape)

    return ergode.simulator(with_error, ["k"], lambda found: found)


def particle(engine, seen, noise):
    call, initial, *_ = ENGINES[engine]
    name = "x" if engine == "trajectories" else "X"
    return ergode.particle_likelihood(
        call, ["k"], initial, TIMES, seen,
        lambda one, states, parameters: stats.norm.logpdf(one, states[name], noise),
        start=0, particles=50,
    )  # fmt: skip


def draws_of(method, engine, seen, noise, seed):
    prior, simulate = {"k": (LOW, HIGH)}, simulator(engine, noise)
    chains = {"draws": 60, "warmup": 40, "chains": 10, "seed": seed}
    if method == "particle":
        found = ergode.pseudo_marginal(particle(engine, seen, noise), prior, **chains)
    elif method == "synthetic":
        likelihood = ergode.synthetic_likelihood(simulate, seen, simulations=20)
        found = ergode.pseudo_marginal(likelihood, prior, **chains)
    elif method == "kalman":
        found = ergode.ensemble_kalman(
            simulator(engine, 0.0), prior, seen, [noise**2] * 3, members=100, seed=seed
        )
    else:
        found = ergode.abc_smc(
            simulate, prior, seen, particles=300, max_simulations=12_000, seed=seed
        )
    return found["k"].values.ravel()


@pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")
@pytest.mark.parametrize(
    ("method", "engine"),
    [
        ("particle", "stochastic"), ("particle", "trajectories"), ("synthetic", "stochastic"),
        ("synthetic", "trajectories"), ("synthetic", "epidemics"), ("abc", "stochastic"),
        ("abc", "trajectories"), ("abc", "epidemics"), ("kalman", "decay"),
        ("particle", "kinetics-start"), ("kalman", "kinetics"), ("kalman", "hybrid"),
    ],
)  # fmt: skip
def test_ranks_are_uniform(method, engine):
    count = 40
    truth = np.random.default_rng(7).uniform(LOW, HIGH, count)
    noise = ENGINES[engine][2]
    data = simulator(engine, noise)(truth[:, None], seed=11)
    ranks = [
        (draws_of(method, engine, seen, noise, seed) < true).mean()
        for seed, (seen, true) in enumerate(zip(data, truth, strict=True))
    ]
    bins = np.histogram(ranks, bins=5, range=(0, 1))[0]
    p = stats.chisquare(bins).pvalue
    print(method, engine, bins, p)
    assert p > 1e-6 / 12


@pytest.mark.parametrize("engine", ["stochastic", "trajectories", "epidemics"])
def test_history_matching_keeps_the_truth(engine):
    """Of forty truths at most four are lost, where one in twenty may be."""
    truth = np.random.default_rng(7).uniform(LOW, HIGH, 40)
    noise = ENGINES[engine][2]
    data = simulator(engine, noise)(truth[:, None], seed=11)
    kept, left = 0, []
    for seed, (seen, true) in enumerate(zip(data, truth, strict=True)):
        found = ergode.history_matching(
            simulator(engine, 0.0), {"k": (LOW, HIGH)}, seen, [noise**2] * 3, runs=60, draws=200,
            seed=seed,
        )  # fmt: skip
        k = found["k"].values
        kept += k.min() - 0.02 <= true <= k.max() + 0.02
        left.append(found["space"].values[-1])
    print(engine, kept, np.median(left))
    assert kept >= 36 and np.median(left) < 0.8
