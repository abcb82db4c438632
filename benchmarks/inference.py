"""From data to a posterior: seconds to an effective sample size of 1,000, beside pyABC and PyMC.

Observations are numbers that a simulation makes, with a normal error of known deviation, so that
all packages have one and the same posterior:

    seir            square roots of weekly infections among 100,000 people; two rates, the start
    toggle          square roots of two histograms of 200 cells; two rates of making, one threshold
    lotka-volterra  logarithms of both species at twenty times; four rates

ergode runs chains on an unbiased estimate of the likelihood: by particles that follow the chemical
Langevin equation in steps of 0.25 days, by one histogram of each species, and by the solution.
The long run of the epidemic is in whole numbers instead, by tau-leaping with a tolerance.  pyABC
accepts by the density of the error, which is exact too (`StochasticAcceptor`).  PyMC has
`Simulator` with a normal kernel of the same deviation and `sample_smc`, and for the equations a
likelihood of its own with the better of two samplers without gradients, as in its examples.  Both
call simulators of NumPy and SciPy: binomial steps of a quarter of a day, Gillespie's algorithm for
all cells at once, and `odeint` with a compiled right-hand side.

Effective sizes are ArviZ's smallest of all parameters for chains, ``1 / sum(w^2)`` for weights, and
for `sample_smc` the same of particles that differ, as if these were independent. They are not,
which favours PyMC.  Printed beside are the means' largest distance from those of a long run, in
posterior deviations, and the smallest and largest ratio of deviations: the error.
Everything runs on one core, once: the runs are long, and a figure is a sum over them.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from harness import Rows, arguments, installed, timed
from scipy import special, stats

import ergode

CASES = ["seir", "toggle", "lotka-volterra"]
SIZE = 1_000
Draws = tuple[np.ndarray, float]
"""Parameters [draw, parameter], equally weighted, and their effective number."""


class Problem(NamedTuple):
    prior: dict[str, tuple[float, float]]
    truth: tuple[float, ...]
    error: float
    plain: Callable[[np.ndarray, np.random.Generator], np.ndarray]  # of NumPy: one simulation
    likelihood: Callable[..., Callable[..., Any]]  # of data, on a device
    chains: dict[str, int]
    exact: Callable[..., Callable[..., Any]]  # the likelihood of the long run
    long: int  # its draws
    population: int  # of a peer; time is proportional to it
    is_random: bool = True


# ---- an epidemic

PEOPLE, WEEKS = 100_000, np.arange(7.0, 85.0, 7.0)
SEIR = ergode.field_from_equations(  # the chemical Langevin equation of the numbers of moves
    {
        "new": f"beta * max({PEOPLE} - start - new, 0) * max(ill - well, 0) / {PEOPLE}",
        "ill": "max(start + new - ill, 0) / 3",
        "well": "gamma * max(ill - well, 0)",
    },
    ["beta", "gamma", "start"],
    diffusion={
        "new": f"sqrt(beta * max({PEOPLE} - start - new, 0) * max(ill - well, 0) / {PEOPLE})",
        "ill": "sqrt(max(start + new - ill, 0) / 3)",
        "well": "sqrt(gamma * max(ill - well, 0))",
    },
)
MOVES = ergode.ReactionNetwork(  # the same epidemic, in whole numbers
    {"S": PEOPLE, "E": 0, "I": 0, "new": 0},
    [
        ergode.Reaction("S -> E + new", rate=f"beta * S * I / {PEOPLE}"),
        ergode.Reaction("E -> I", rate_constant=1 / 3),
        ergode.Reaction("I -> 0", rate_constant="gamma"),
    ],
    {"beta": 0.4, "gamma": 0.2},
)


def seir_plain(theta: np.ndarray, random: np.random.Generator) -> np.ndarray:
    (beta, gamma, start), step, found = theta, 0.25, []
    exposed = int(start)
    susceptible, infectious = PEOPLE - exposed, 0
    for _ in WEEKS:
        cases = 0
        for _ in range(28):
            new = random.binomial(susceptible, -np.expm1(-beta * infectious / PEOPLE * step))
            ill = random.binomial(exposed, -np.expm1(-step / 3))
            well = random.binomial(infectious, -np.expm1(-gamma * step))
            susceptible, exposed, infectious = (
                susceptible - new, exposed + new - ill, infectious + ill - well
            )  # fmt: skip
            cases += new
        found.append(cases)
    return np.sqrt(found)


def seir_likelihood(
    data: np.ndarray, device: str, particles: int = 10, step: float = 0.25
) -> Callable[..., Any]:
    def week(parameters: Any, initial: Any, times: Any, seed: int) -> Any:
        rates = {name: parameters[name] for name in ("beta", "gamma")}
        start = np.floor(parameters["start"])
        moves = {name: initial[name] for name in ("new", "ill", "well")}
        found = ergode.trajectories.integrate(
            SEIR, times=times, initial=moves, parameters=rates | {"start": start}, seed=seed,
            method="euler-maruyama", step=step, device=device,
        )["state"].transpose("variable", "time", "trajectory").values[:, -1]  # fmt: skip
        ends = dict(zip(moves, found, strict=True))
        return ends | {"cases": np.maximum(ends["new"] - initial["new"], 0.0)}

    return ergode.particle_likelihood(
        week, ["beta", "gamma", "start"], dict.fromkeys(("new", "ill", "well", "cases"), 0.0),
        WEEKS, data,
        lambda seen, states, parameters: stats.norm.logpdf(seen, np.sqrt(states["cases"]), 4.0),
        start=0, particles=particles,
    )  # fmt: skip


def seir_in_whole_numbers(data: np.ndarray, device: str) -> Callable[..., Any]:
    """By tau-leaping with a tolerance: slow, and what the errors of all packages are told by."""

    def week(parameters: Any, initial: Any, times: Any, seed: int) -> Any:
        rates = {name: parameters[name] for name in ("beta", "gamma")}
        return ergode.stochastic.simulate(
            MOVES, parameters=rates, initial=initial | {"new": np.zeros_like(initial["S"])},
            times=times, seed=seed, common_random_numbers=False, device=device, method="tau-leap",
            tolerance=0.1,
        )  # fmt: skip

    def first(parameters: Any, random: np.random.Generator) -> Any:
        exposed = np.floor(parameters["start"])
        none = np.zeros_like(exposed)
        return {"S": PEOPLE - exposed, "E": exposed, "I": none, "new": none}

    return ergode.particle_likelihood(
        week, ["beta", "gamma", "start"], first, WEEKS, data,
        lambda seen, states, parameters: stats.norm.logpdf(seen, np.sqrt(states["new"]), 4.0),
        start=0, particles=10,
    )  # fmt: skip


# ---- a switch

CELLS, EDGES, END = 200, np.array([0, 2, 4, 8, 12, 16, 20, 26, 1e9]), 15.0
SWITCH = ergode.ReactionNetwork(
    {"U": 0, "V": 0},
    [
        ergode.Reaction("0 -> U", rate="a * K^2 / (K^2 + V^2)"),
        ergode.Reaction("U -> 0", rate_constant=1.0),
        ergode.Reaction("0 -> V", rate="b * K^2 / (K^2 + U^2)"),
        ergode.Reaction("V -> 0", rate_constant=1.0),
    ],
    {"a": 20.0, "b": 20.0, "K": 8.0},
)


def roots_of_bins(amounts: np.ndarray) -> np.ndarray:
    """Square roots of the bins of both species, [..., 16]; amounts are [..., cell, species]."""
    bins = np.searchsorted(EDGES, amounts, side="right") - 1
    counts = (bins[..., None] == np.arange(8)).sum(axis=-3)
    return np.sqrt(counts.reshape(*counts.shape[:-2], 16))


def toggle_plain(theta: np.ndarray, random: np.random.Generator) -> np.ndarray:
    a, b, square = theta[0], theta[1], theta[2] ** 2
    here, now, ends = np.zeros((CELLS, 2)), np.zeros(CELLS), np.empty((CELLS, 2))
    who = np.arange(CELLS)
    changes = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    while who.size:
        u, v = here.T
        rates = np.cumsum([a * square / (square + v * v), u, b * square / (square + u * u), v], 0)
        now += random.exponential(size=who.size) / rates[3]
        if (over := now > END).any():
            ends[who[over]] = here[over]
            go = ~over
            here, now, who, rates = here[go], now[go], who[go], rates[:, go]
        here = here + changes[(random.random(who.size) * rates[3] > rates[:3]).sum(axis=0)]
    return roots_of_bins(ends)


def toggle_likelihood(data: np.ndarray, device: str, repeats: int = 1) -> Callable[..., Any]:
    def likelihood(theta: np.ndarray, seed: int) -> np.ndarray:
        rows = np.repeat(theta, repeats, axis=0)
        found = ergode.stochastic.simulate(
            SWITCH, times=[0, END], parameters=dict(zip(("a", "b", "K"), rows.T, strict=True)),
            replicates=CELLS, seed=seed, common_random_numbers=False, device=device,
        )["amount"].isel(time=1).transpose("point", "replicate", "species")  # fmt: skip
        each = stats.norm.logpdf(data, roots_of_bins(found.values), 1.5).sum(axis=1)
        return special.logsumexp(each.reshape(-1, repeats), axis=1)

    return likelihood


# ---- predators and prey

SEEN = np.arange(1.0, 21.0)
PREY = ergode.field_from_equations(
    {"x": "a * x - b * x * y", "y": "c * x * y - d * y"}, ["a", "b", "c", "d"]
)


@functools.cache
def slope() -> Callable[..., Any]:
    import numba

    @numba.njit
    def compiled(
        y: np.ndarray, t: float, a: float, b: float, c: float, d: float
    ) -> tuple[float, float]:
        return a * y[0] - b * y[0] * y[1], c * y[0] * y[1] - d * y[1]

    return compiled


def prey_plain(theta: np.ndarray, random: np.random.Generator | None = None) -> np.ndarray:
    from scipy.integrate import odeint

    times = np.concatenate([[0.0], SEEN])
    found = odeint(slope(), [20.0, 3.0], times, tuple(theta), rtol=1e-4, atol=1e-4)
    return np.log(np.maximum(found[1:], 1e-12)).ravel()


def prey_likelihood(data: np.ndarray, device: str, tolerance: float = 1e-4) -> Callable[..., Any]:
    def likelihood(theta: np.ndarray, seed: int) -> np.ndarray:
        found = ergode.trajectories.integrate(
            PREY, times=[0, *SEEN], initial={"x": 20.0, "y": 3.0}, device=device, rtol=tolerance,
            atol=tolerance, parameters=dict(zip("abcd", theta.T, strict=True)),
        )["state"].transpose("trajectory", "time", "variable").values[:, 1:]  # fmt: skip
        made = np.log(np.maximum(found, 1e-12)).reshape(len(theta), -1)
        return stats.norm.logpdf(data, made, 0.25).sum(axis=1)

    return likelihood


PROBLEMS = {
    "seir": Problem(
        {"beta": (0.2, 0.8), "gamma": (0.1, 0.4), "start": (5, 100)}, (0.4, 0.2, 30.0), 4.0,
        seir_plain, seir_likelihood, {"chains": 500, "warmup": 100, "draws": 100},
        seir_in_whole_numbers, 40, 150,
    ),
    "toggle": Problem(
        {"a": (10, 40), "b": (10, 40), "K": (3, 20)}, (22.0, 18.0, 8.0), 1.5, toggle_plain,
        toggle_likelihood, {"chains": 50, "warmup": 100, "draws": 300}, toggle_likelihood, 300, 50,
    ),
    "lotka-volterra": Problem(
        {"a": (0.2, 1.5), "b": (0.02, 0.3), "c": (0.01, 0.15), "d": (0.1, 1.2)},
        (0.6, 0.1, 0.05, 0.5), 0.25, prey_plain, prey_likelihood,
        {"chains": 200, "warmup": 150, "draws": 250},
        functools.partial(prey_likelihood, tolerance=1e-8), 250, 300, False,
    ),
}  # fmt: skip


def data_of(problem: Problem) -> np.ndarray:
    random = np.random.default_rng(12)
    exact = problem.plain(np.array(problem.truth), random)
    return exact + problem.error * random.standard_normal(exact.shape)


def ours(
    problem: Problem, data: np.ndarray, device: str, is_exact: bool = False, **chains: int
) -> Draws:
    likelihood = problem.exact if is_exact else problem.likelihood
    found = ergode.pseudo_marginal(
        likelihood(data, device), problem.prior, **problem.chains | chains
    )
    drawn = np.stack([found[name].values for name in problem.prior], axis=2)
    return drawn.reshape(-1, drawn.shape[2]), effective(drawn)


def effective(drawn: np.ndarray) -> float:
    """The smallest of all parameters; drawn is [chain, draw, parameter]."""
    import arviz

    return float(min(arviz.ess(drawn[..., k]) for k in range(drawn.shape[2])))


# ---- peers


def with_pyabc(problem: Problem, data: np.ndarray) -> Callable[[], Draws]:
    import pyabc

    logging.getLogger("ABC").setLevel(logging.WARNING)
    random = np.random.default_rng(3)
    names = list(problem.prior)

    def model(parameters: Mapping[str, float]) -> dict[str, np.ndarray]:
        return {"y": problem.plain(np.array([parameters[name] for name in names]), random)}

    def work() -> Draws:
        np.random.seed(4)  # noqa: NPY002  (pyABC's own)
        one = pyabc.ABCSMC(
            model,
            pyabc.Distribution(
                **{n: pyabc.RV("uniform", a, b - a) for n, (a, b) in problem.prior.items()}
            ),
            pyabc.IndependentNormalKernel(var=[problem.error**2] * data.size),
            population_size=problem.population, eps=pyabc.Temperature(),
            acceptor=pyabc.StochasticAcceptor(), sampler=pyabc.SingleCoreSampler(),
        )  # fmt: skip
        one.new("sqlite://", {"y": data})
        frame, weights = one.run(max_nr_populations=12).get_distribution()
        weights = np.asarray(weights) / np.sum(weights)
        chosen = np.random.default_rng(5).choice(len(weights), 100_000, p=weights)
        return frame[names].to_numpy()[chosen], float(1 / np.square(weights).sum())

    return work


def with_pymc(problem: Problem, data: np.ndarray) -> Callable[[], Draws]:
    import pymc

    logging.getLogger("pymc").setLevel(logging.ERROR)

    names = list(problem.prior)

    def simulated(random: np.random.Generator, *theta: Any) -> np.ndarray:
        """Of all summaries together; the last of theta is their number."""
        return problem.plain(np.array([np.ravel(one)[0] for one in theta[: len(names)]]), random)

    with pymc.Model() as model:
        theta = [pymc.Uniform(name, *ends) for name, ends in problem.prior.items()]
        pymc.Simulator("seen", simulated, *theta, epsilon=problem.error, observed=data)

    def work() -> Draws:
        with model:
            trace = pymc.sample_smc(
                draws=problem.population, chains=1, cores=1, random_seed=6, progressbar=False,
                compute_convergence_checks=False,
            ).posterior  # fmt: skip
        drawn = np.stack([trace[name].values.ravel() for name in problem.prior], axis=1)
        _, copies = np.unique(drawn, axis=0, return_counts=True)
        return drawn, float(len(drawn) ** 2 / np.square(copies).sum())

    return work


def with_pymc_steps(
    problem: Problem, data: np.ndarray, method: str, draws: int
) -> Callable[[], Draws]:
    import pymc
    import pytensor.tensor
    from pytensor.compile.ops import as_op

    logging.getLogger("pymc").setLevel(logging.ERROR)

    @as_op(itypes=[pytensor.tensor.dvector], otypes=[pytensor.tensor.dvector])
    def solved(theta: np.ndarray) -> np.ndarray:
        return problem.plain(theta, np.random.default_rng())

    with pymc.Model() as model:
        theta = [pymc.Uniform(name, *ends) for name, ends in problem.prior.items()]
        pymc.Normal("seen", solved(pymc.math.stack(theta)), problem.error, observed=data)

    def work() -> Draws:
        with model:
            trace = pymc.sample(
                draws=draws, tune=draws // 2, chains=4, cores=1, random_seed=7, progressbar=False,
                step=getattr(pymc, method)(), compute_convergence_checks=False,
                initvals=dict(zip(problem.prior, problem.truth, strict=True)),
            ).posterior  # fmt: skip
        drawn = np.stack([trace[name].values for name in problem.prior], axis=2)
        return drawn.reshape(-1, drawn.shape[2]), effective(drawn)

    return work


def measure(case: str, options: Any, rows: Rows) -> None:
    """Seconds to the effective size of all packages, and the errors of their posteriors."""
    problem = PROBLEMS[case]
    data = data_of(problem)
    makers: dict[str, Callable[[], Any]] = {"pyABC": lambda: with_pyabc(problem, data)}
    if problem.is_random:
        makers["PyMC"] = lambda: with_pymc(problem, data)
    else:
        for method, draws in (("DEMetropolisZ", 20_000), ("Slice", 2_000)):
            makers[f"PyMC {method}"] = functools.partial(
                with_pymc_steps, problem, data, method, draws
            )
    peers = installed(options, makers)
    ours(problem, data, options.place, draws=4, warmup=0)
    exact, _ = ours(problem, data, options.place, True, seed=2, draws=problem.long)
    works = {"ergode": lambda: ours(problem, data, options.place), **peers}
    seconds = {}
    for name, work in works.items():
        (one,) = timed([work], 1, warm=False)
        drawn, size = one.result
        spent = one.clock if options.device == "cuda" else one.processor
        seconds[name] = spent / size * SIZE
        off = np.abs(drawn.mean(axis=0) - exact.mean(axis=0)) / exact.std(axis=0)
        ratios = drawn.std(axis=0) / exact.std(axis=0)
        print(
            f"{case}: {name} took {spent:.3g} s for {size:.0f} effective draws; means are off by "
            f"{off.max():.2f} deviations, deviations are {ratios.min():.2f} to {ratios.max():.2f}",
            flush=True,
        )
    own = seconds.pop("ergode")
    for name in [one for one in seconds if one.startswith("PyMC ")]:  # the better of its samplers
        seconds["PyMC"] = min(seconds.pop(name), seconds.get("PyMC", np.inf))
    rows.add(case, f"to {SIZE:,} effective draws", own, "s", peers=seconds or None)


def main() -> None:
    """Entry point."""
    options = arguments("inference", CASES, ["lotka-volterra"])
    warnings.simplefilter("ignore")
    rows = Rows("inference", options.device, options.json)
    for case in options.case:
        measure(case, options, rows)


if __name__ == "__main__":
    main()
