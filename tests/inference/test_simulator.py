"""ergode.simulator: any engine as a function of parameters."""

import functools

import numpy as np
import pytest

import ergode
from ergode import ModelError, PlanError

DEATH = ergode.ReactionNetwork(
    {"X": 40}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0, "unused": 0.0}
)
FIELD = ergode.field_from_equations({"x": "a * x + b"})


def deaths(**more):
    return functools.partial(
        ergode.stochastic.simulate, DEATH, times=[0, 1, 2], device="cpu:1", **more
    )


def test_every_engine():
    """Rows are the rows of the call itself, whatever the dims of its result."""
    theta = np.array([[0.2], [1.0], [3.0]])
    straight = deaths()(parameters={"k": theta[:, 0]}, seed=5, common_random_numbers=False)
    found = ergode.simulator(deaths(), ["k"], "amount")(theta, seed=5)
    expected = straight["amount"].transpose("point", ...).values.reshape(3, -1)
    np.testing.assert_array_equal(found, expected)

    def epidemic(rate):
        return ergode.CompartmentModel.sir(
            transmission_rate=rate, infectious=ergode.Exponential(mean=4.0)
        )

    contacts = ergode.ContactNetwork.erdos_renyi(200, mean_degree=6, seed=1)
    call = functools.partial(
        ergode.epidemics.simulate, epidemic, contacts, initial={"I": 5}, times=range(4),
        device="cpu:1",
    )  # fmt: skip
    cases = ergode.simulator(call, ["rate"], ["cases"])([[0.0], [0.5]])
    assert (cases[0] == cases[0, 0]).all() and cases[1, -1] > cases[1, 0]

    call = functools.partial(
        ergode.trajectories.integrate, FIELD, times=[0, 1], initial={"x": 1.0},
        parameters={"b": 0.0}, device="cpu:1",
    )  # fmt: skip
    ends = ergode.simulator(call, ["a"], lambda found: found["state"].isel(time=-1))(theta)
    np.testing.assert_allclose(ends[:, 0], np.exp(theta[:, 0]), rtol=1e-5)


def test_random_numbers():
    theta = np.full((400, 1), 1.0)
    simulate = ergode.simulator(deaths(), ["k"], "amount", seed=3)
    first, second = simulate(theta), simulate(theta)
    assert np.unique(first[:, 1]).size > 10 and (first != second).any()
    np.testing.assert_array_equal(first, ergode.simulator(deaths(), ["k"], "amount", seed=3)(theta))
    common = ergode.simulator(deaths(), ["k"], "amount", common_random_numbers=True)(theta)
    assert np.unique(common[:, 1]).size == 1
    # Independent rows: the mean of binomials with p = exp(-1), within five standard errors.
    p = np.exp(-1)
    error = np.sqrt(40 * p * (1 - p) / len(theta))
    assert abs(first[:, 1].mean() - 40 * p) < 5 * error


def test_a_function_of_your_own():
    def call(parameters, seed):
        starts = {"X": np.round(parameters.pop("start")).astype(int)}
        return deaths()(parameters=parameters, initial=starts, seed=seed)

    found = ergode.simulator(call, ["k", "start"], "amount")([[1.0, 10], [1.0, 20.0]])
    assert list(found[:, 0]) == [10, 20]
    one = ergode.simulator(call, ["k", "start"], "amount")([1.0, 30])
    assert one.shape == (3,) and one[0] == 30


def test_rows_that_fail_are_marked():
    call = functools.partial(
        ergode.trajectories.integrate, ergode.field_from_equations({"x": "a * x * x"}),
        times=[0, 1], initial={"x": 1.0}, device="cpu:1",
    )  # fmt: skip
    simulate = ergode.simulator(call, ["a"], "state")
    with pytest.warns(ergode.FailureWarning):
        found = simulate([[0.5], [2.0]])
    assert list(simulate.failed) == [False, True]
    assert np.isnan(found[1]).all() and np.isfinite(found[0]).all()


def test_rows_that_are_not_finite_are_not_simulated():
    simulate = ergode.simulator(deaths(), ["k"], "amount")
    found = simulate([[1.0], [np.nan], [2.0]], seed=4)
    assert list(simulate.failed) == [False, True, False] and np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[[0, 2]], simulate([[1.0], [2.0]], seed=4))


def test_results_that_stay_where_they_are():
    plain = ergode.simulator(deaths(), ["k"], "amount")([[0.5], [1.0]], seed=1)
    kept = ergode.simulator(deaths(keep_on_device=True), ["k"], "amount")([[0.5], [1.0]], seed=1)
    np.testing.assert_array_equal(plain, kept)


@pytest.mark.cuda
def test_on_a_gpu():
    call = functools.partial(
        ergode.stochastic.simulate, DEATH, times=[0, 1, 2], device="cuda", keep_on_device=True
    )
    found = ergode.simulator(call, ["k"], "amount")([[0.5], [1.0]], seed=1)
    assert hasattr(found, "__cuda_array_interface__")
    plain = ergode.simulator(deaths(), ["k"], "amount")([[0.5], [1.0]], seed=1)
    np.testing.assert_array_equal(plain, found.get())


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    theta = torch.tensor([[0.5], [1.0]], dtype=torch.float32, requires_grad=True)
    found = ergode.simulator(deaths(), ["k"], "amount")(theta)
    assert found.dtype == torch.float32 and found.shape == (2, 3)


def line(noise=0.0):
    def call(parameters, seed):
        exact = parameters["a"] + 3 * parameters["b"]
        return exact[:, None] + noise * np.random.default_rng(seed).standard_normal((len(exact), 1))

    return ergode.simulator(call, ["a", "b"], lambda found: found)


def test_salib_finds_the_shares_of_the_variance():
    salib = pytest.importorskip("SALib.analyze.sobol")
    from SALib.sample import sobol

    problem = {"num_vars": 2, "names": ["a", "b"], "bounds": [[0, 1], [0, 1]]}
    found = line()(sobol.sample(problem, 512, seed=1))[:, 0]
    shares = salib.analyze(problem, found, seed=1)["S1"]
    np.testing.assert_allclose(shares, [0.1, 0.9], atol=0.02)


def test_optuna_is_told_many_trials_at_once():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    for _ in range(10):
        trials = [study.ask() for _ in range(10)]
        theta = [[one.suggest_float(name, 0, 1) for name in "ab"] for one in trials]
        for trial, value in zip(trials, line()(theta)[:, 0], strict=True):
            study.tell(trial, abs(float(value) - 2))
    assert study.best_value < 0.05


def test_pyabc_calls_it_as_a_model():
    pyabc = pytest.importorskip("pyabc")
    simulate = line(noise=0.1)
    sampler = pyabc.ABCSMC(
        lambda one: {"x": simulate([one["a"], one["b"]])},
        pyabc.Distribution(a=pyabc.RV("uniform", 0, 1), b=pyabc.RV("uniform", 0, 1)),
        lambda one, other: float(abs(one["x"] - other["x"])[0]), population_size=100,
        sampler=pyabc.SingleCoreSampler(),
    )  # fmt: skip
    sampler.new("sqlite://", {"x": np.array([3.5])})
    frame, weights = sampler.run(max_nr_populations=4).get_distribution()
    assert abs(np.average(frame["a"] + 3 * frame["b"], weights=weights) - 3.5) < 0.2


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ergode.simulator(3, ["k"], "x"), ModelError, "call is 3; expected a function"),
        (lambda: ergode.simulator(lambda seed: 0, ["k"], "x"), ModelError, "takes no argument"),
        (lambda: ergode.simulator(deaths(), ["k", "k"], "x"), ModelError, "'k'"),
        (lambda: ergode.simulator(deaths(parameters={"k": 1}), ["k"], "x"), ModelError,
         "'k' is given in the call and in 'parameters'"),
        (lambda: ergode.simulator(deaths(), ["k"], "amount")([[1, 2]]), ModelError,
         r"theta has the shape \(1, 2\); expected columns k"),
        (lambda: ergode.simulator(deaths(), ["k"], "amount")([["a"]]), ModelError, "expected numb"),
        (lambda: ergode.simulator(deaths(), ["k"], "amount")(np.empty((0, 1))), ModelError,
         "expected numbers, a row"),
        (lambda: ergode.simulator(deaths(), ["k"], "amounts")([[1.0]]), PlanError,
         "summaries has 'amounts'; the result has amount"),
        (lambda: ergode.simulator(deaths(), ["k"], lambda r: np.zeros(5))([[1.0]]), PlanError,
         r"shape \(5,\) for 1 rows"),
    ],
)  # fmt: skip
def test_what_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
