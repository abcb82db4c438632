"""Tau-leaping and the Langevin equation: their steps are their own, and their error is stated."""

import numpy as np
import pytest
from both_devices import on_both
from scipy.integrate import solve_ivp

import ergode
from ergode import Event, PlanError, Reaction, ReactionNetwork

# Standard errors for a family-wise error of 1e-6 over the comparisons of this file.
SIGMAS = 6.2
MANY = ReactionNetwork(
    {"X": 3000},
    [Reaction("0 -> X", rate_constant="alpha"), Reaction("X -> 0", rate_constant=1.0)],
    {"alpha": 10_000.0},
)
SCHLOEGL = ReactionNetwork(
    {"X": 250},
    [
        Reaction("2 X -> 3 X", stochastic_rate_constant=0.03),
        Reaction("3 X -> 2 X", stochastic_rate_constant=1e-4),
        Reaction("0 -> X", stochastic_rate_constant=200.0),
        Reaction("X -> 0", stochastic_rate_constant=3.5),
    ],
)


def run(network, times, method, **options):
    options = {"seed": 3, "device": "cpu:2", "output": "statistics", **options}
    return ergode.stochastic.simulate(network, times=times, method=method, **options)


@pytest.mark.parametrize("method", ["tau-leap", "langevin"])
@pytest.mark.parametrize("times", [[0, 4], np.linspace(0, 4, 33)])
def test_birth_and_death_at_few_and_at_many_times(method, times):
    """For linear networks means and variances of both are those of the master equation.

    Over 32 times the variance is known to 0.25 %: an error of 1 % is noticed beside what the
    result states.
    """
    count = 100_000
    result = run(MANY, times, method, replicates=count, tolerance=0.015)
    error = result.attrs["step_error"]
    assert 0 < error <= 0.00501
    t = np.asarray(times)[1:]
    p = np.exp(-t)
    mean = 10_000 * (1 - p) + 3000 * p
    variance = 10_000 * (1 - p) + 3000 * p * (1 - p)
    found = result["mean"].values[1:, 0]
    assert np.abs(found - mean).max() < SIGMAS * np.sqrt(10_000 / count) + error * 7000 * 0.37
    ratio = result["variance"].values[1:, 0] / variance
    assert np.abs(ratio - 1).max() < SIGMAS * np.sqrt(2 / count) + error
    if t.size > 1:  # of which some three are independent
        assert abs(ratio.mean() - 1) < 5 * np.sqrt(2 / count / 3) + 0.5 * error


@pytest.mark.parametrize("method", ["tau-leap", "langevin"])
@pytest.mark.parametrize(("birth", "death"), [(2e4, 1.0), (7e8, 0.5)])
def test_a_transient_from_zero_is_poisson_at_any_amount(method, birth, death):
    """The deviation is a small part of a large amount, and a bias is a part of the deviation.

    Steps differ between realizations, so a bias widens the distribution too.
    """
    network = ReactionNetwork(
        {"X": 0},
        [Reaction("0 -> X", rate_constant=birth), Reaction("X -> 0", rate_constant=death)],
    )
    times = np.linspace(0, 4, 9)
    result = run(network, times, method, replicates=2000, output="trajectories")
    mean = birth / death * -np.expm1(-death * times[1:])
    off = (result["amount"].values[:, 1:, 0] - mean) / np.sqrt(mean)
    error = result.attrs["step_error"]
    assert error <= 0.0101
    assert np.abs(off.mean(axis=0)).max() < SIGMAS / np.sqrt(2000) + error
    assert np.abs(off.var(axis=0) - 1).max() < SIGMAS * np.sqrt(2 / 2000) + error


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tau-leap", "langevin"])
@pytest.mark.parametrize("size", [1e5, 1e8])
def test_transients_of_an_epidemic_have_the_moments_of_the_linear_noise_approximation(method, size):
    """S + I -> 2 I, I -> R, R -> S; d C / dt = J C + C J' + D (van Kampen, chapter X)."""
    changes = np.array([[-1, 1], [0, -1], [1, 0]])

    def fractions(t, y):
        x, c = y[:2], y[2:].reshape(2, 2)
        rates = np.array([2 * x[0] * x[1], 0.5 * x[1], 0.1 * (1 - x.sum())])
        jacobian = np.array([
            [-2 * x[1] - 0.1, -2 * x[0] - 0.1], [2 * x[1], 2 * x[0] - 0.5],
        ])  # fmt: skip
        spread = np.einsum("j,ja,jb", rates, changes, changes)
        return [*(rates @ changes), *(jacobian @ c + c @ jacobian.T + spread).ravel()]

    times = np.linspace(0, 8, 5)
    start = [0.9, 0.1, 0, 0, 0, 0]
    truth = solve_ivp(fractions, (0, 8), start, t_eval=times, rtol=1e-11, atol=1e-12).y.T
    network = ReactionNetwork(
        {"S": 0.9 * size, "I": 0.1 * size, "R": 0},
        [
            Reaction("S + I -> 2 I", rate_constant=2 / size),
            Reaction("I -> R", rate_constant=0.5),
            Reaction("R -> S", rate_constant=0.1),
        ],
    )
    result = run(network, times, method, replicates=2000, output="trajectories")
    error = result.attrs["step_error"]
    assert error <= 0.0101
    for k in range(1, len(times)):
        covariance = size * truth[k, 2:].reshape(2, 2)
        off = result["amount"].values[:, k, :2] - size * truth[k, :2]
        # In the axes of the covariance, both deviations are one.
        off = np.linalg.solve(np.linalg.cholesky(covariance), off.T)
        assert np.abs(off.mean(axis=1)).max() < SIGMAS / np.sqrt(2000) + 2 * error
        found = off @ off.T / 2000
        assert np.abs(found - np.eye(2)).max() < SIGMAS * np.sqrt(2 / 2000) + 2 * error


@pytest.mark.parametrize("method", ["tau-leap", "langevin"])
def test_what_is_reported_does_not_change_the_path(method):
    """At the times of a coarse grid the moments are those of a fine one: of the same steps."""
    few = run(MANY, [0, 3], method, replicates=50, output="trajectories")
    many = run(MANY, np.linspace(0, 3, 61), method, replicates=50, output="trajectories")
    assert few.attrs["steps"] == many.attrs["steps"]
    assert few.attrs["firings"] == many.attrs["firings"]
    # Within a step firings are shared out: what goes before is drawn, what is over is not.
    apart = np.diff(many["amount"].values[:, :, 0].astype(float), axis=1)
    assert (apart.std(axis=0) > 20).all()


def test_single_firings_after_leaps_do_not_depend_on_the_times():
    """At times of which several are between two firings: nothing of an earlier leap is in them."""
    network = ReactionNetwork({"X": 10_000}, [Reaction("X -> 0", rate_constant=1)])
    common = {"seed": 3, "replicates": 50, "method": "tau-leap"}
    few = ergode.stochastic.simulate(network, times=[0, 6, 7, 8, 9, 10], **common)
    many = ergode.stochastic.simulate(network, times=np.linspace(0, 10, 501), **common)
    assert many.attrs["steps"] > 0
    amounts = many["amount"].values[:, :, 0]
    assert (np.diff(amounts, axis=1) <= 0).all()
    late = few["amount"].values[:, 1:, 0]
    single = late < 30  # no leap is this short
    assert single.sum() > 200
    np.testing.assert_array_equal(amounts[:, 300::50][single], late[single])


def test_covariances_of_times_within_a_step():
    """A step of a third of a relaxation time: births alone, whose increments are independent."""
    births = ReactionNetwork({"X": 0}, [Reaction("0 -> X", rate_constant=500.0)])
    result = run(births, [0, 1, 2, 4], "tau-leap", replicates=20_000, output="trajectories")
    parts = np.diff(result["amount"].values[:, :, 0], axis=1)
    for k, mean in enumerate((500, 500, 1000)):
        assert abs(parts[:, k].mean() - mean) < SIGMAS * np.sqrt(mean / 20_000)
        assert abs(parts[:, k].var() / mean - 1) < SIGMAS * np.sqrt(2 / 20_000)
    correlation = np.corrcoef(parts.T) - np.eye(3)
    assert np.abs(correlation).max() < SIGMAS / np.sqrt(20_000)


@pytest.mark.parametrize("method", ["tau-leap", "langevin"])
def test_relaxation_of_a_stiff_pair_bounds_the_step(method):
    """A pair that relaxes a thousand times faster than the run, of many molecules."""
    pair = ReactionNetwork(
        {"A": 100_000, "B": 0},
        [Reaction("A -> B", rate_constant=300.0), Reaction("B -> A", rate_constant=700.0)],
    )
    result = run(pair, [0, 0.05], method, replicates=4000)
    assert result.attrs["step_error"] <= 0.0101
    mean, variance = result["mean"].values[1, 1], result["variance"].values[1, 1]
    assert abs(mean - 30_000) < SIGMAS * np.sqrt(21_000 / 4000)
    assert abs(variance / 21_000 - 1) < SIGMAS * np.sqrt(2 / 4000) + 0.01


@pytest.mark.parametrize("method", ["tau-leap", "langevin"])
def test_a_product_that_acts_on_nothing_does_not_shorten_the_step(method):
    """It begins at zero, and grows by many times its amount within a relaxation time."""
    reactions = [
        Reaction("0 -> X", rate_constant=10_000.0),
        Reaction("X -> 0", rate_constant=0.1),
        Reaction("X -> X + P", rate_constant=5.0),
    ]
    both = ReactionNetwork({"X": 100_000, "P": 0}, reactions)
    alone = ReactionNetwork({"X": 100_000}, reactions[:2])
    steps = [run(net, [0, 20], method, replicates=20).attrs["steps"] for net in (both, alone)]
    assert steps[0] <= 1.1 * steps[1]


def test_a_given_step_states_what_it_costs():
    short = run(MANY, [0, 8], "tau-leap", replicates=2000, step=0.05)
    assert short.attrs["step"] == 0.05
    # That of a variance; and the bias of a mean, beyond a third of the tolerance of fourth order.
    assert (1.19 * 0.05) ** 2 / 4 < short.attrs["step_error"] < 0.01
    # By rounding, 160 steps end just before or after 8.
    assert short.attrs["steps"] in (160 * 2000, 161 * 2000)
    with pytest.warns(ergode.AccuracyWarning, match="steps are long"):
        long = run(MANY, [0, 8], "tau-leap", replicates=2000, step=0.8)
    assert long.attrs["step_error"] > 0.2


def test_where_leaping_does_not_pay_a_warning_says_so():
    with pytest.warns(ergode.PerformanceWarning, match="does not pay"):
        run(SCHLOEGL, [0, 2], "tau-leap", replicates=100)
    assert run(SCHLOEGL, [0, 2], "auto", replicates=100).attrs["exact"] == 1


def test_a_langevin_equation_of_few_molecules_is_warned_of():
    few = ReactionNetwork(
        {"X": 5}, [Reaction("0 -> X", rate_constant=2.0), Reaction("X -> 0", rate_constant=1.0)]
    )
    with pytest.warns(ergode.AccuracyWarning, match="below zero"):
        found = run(few, [0, 5], "langevin", replicates=200)
    assert found.attrs["few_molecules"] > 0.95


def test_the_langevin_equation_of_a_species_that_dies_out_is_warned_of():
    """The mean is a quarter of the truth; below zero is one step of hundreds in a realization."""
    decay = ReactionNetwork({"X": 4246}, [Reaction("X -> 0", rate_constant=1.25)])
    with pytest.warns(ergode.AccuracyWarning, match="fewer than 10 molecules of a reactant"):
        found = run(decay, [0, 10], "langevin", replicates=200)
    # There are ten molecules after log(424.6) / 1.25 = 4.84 of 10 units of time.
    assert found.attrs["few_molecules"] == pytest.approx(0.516, abs=0.02)
    leaps = run(decay, [0, 10], "tau-leap", replicates=200)
    assert "few_molecules" not in leaps.attrs


@pytest.mark.parametrize("times", [[0, 4], np.linspace(0, 4, 33)])
def test_a_catalyst_and_a_product_are_no_few_reactants(times):
    catalyst = ReactionNetwork(
        {"E": 1, "X": 5000, "Y": 5}, [Reaction("E + X -> E + Y", rate_constant=0.1)]
    )
    assert run(catalyst, times, "langevin", replicates=20).attrs["few_molecules"] == 0.0


@pytest.mark.parametrize("method", ["tau-leap", "langevin"])
def test_a_step_beyond_the_last_time_states_its_error(method):
    with pytest.warns(ergode.AccuracyWarning, match="steps are long"):
        found = run(MANY, [0, 1], method, replicates=10, step=1e6)
    assert found.attrs["steps"] == 10
    assert found.attrs["step_error"] > 1.0


@pytest.mark.parametrize("method", ["tau-leap", "langevin"])
def test_more_steps_than_max_firings_end_a_realization(method):
    """Steps that fire nothing count too: steps of 1e-300 never came to an end."""
    with pytest.raises(PlanError, match=r"step is 1e-300: .* more than max_firings"):
        run(MANY, [0, 1], method, step=1e-300)
    decay = ReactionNetwork({"X": 30_000}, [Reaction("X -> 0", rate_constant=1.0)])
    # Firings within steps do not count.
    found = run(MANY, [0, 1], method, max_firings=200)
    assert (found["status"] == ergode.Status.DONE).all()
    assert (found["firing_count"] > 200).all()
    options = {"replicates": 2, "max_firings": 200, "tolerance": 1e-8}
    with pytest.warns(ergode.FailureWarning, match="limit on the number of steps"):
        ended = run(decay, [0, 1], method, **options)
    assert (ended["status"] == ergode.Status.TOO_MANY_STEPS).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "direct", "tolerance": 0.1}, "takes no steps"),
        (
            {"method": "auto", "step": 0.1},
            "method 'direct', which 'auto' takes here, takes no steps",
        ),
        ({"method": "tau-leap", "step": 0.1, "tolerance": 0.1}, "one of them"),
        ({"method": "tau-leap", "tolerance": 1.5}, "between 0 and 1"),
        ({"method": "langevin", "tolerance": 1e-300}, "at least 1e-10"),
        ({"method": "langevin", "step": -1.0}, "above 0"),
        ({"method": "tau-leap", "stop": "X > 9"}, "'stop' is met"),
    ],
)
def test_what_a_leap_cannot_do_is_refused(options, message):
    with pytest.raises(PlanError, match=message):
        ergode.stochastic.simulate(MANY, times=[0, 1], device="cpu:1", **options)


def test_conditions_on_amounts_are_not_leapt_over():
    network = ReactionNetwork(
        MANY.species, list(MANY.reactions), MANY.parameters,
        events=[Event("X > 9000", {"X": 0})],
    )  # fmt: skip
    with pytest.raises(PlanError, match="condition on amounts"):
        run(network, [0, 1], "tau-leap")


@pytest.mark.parametrize("method", ["tau-leap", "langevin"])
def test_events_at_given_times_are_met_between_steps(method):
    network = ReactionNetwork(
        MANY.species, list(MANY.reactions), MANY.parameters,
        events=[Event("time >= 1.25", {"X": 20_000}), Event("time > 2", {"alpha": 0})],
    )  # fmt: skip
    result = run(network, [0, 1.25, 2.0, 3.0], method, replicates=4000)
    mean = result["mean"].values[:, 0]
    assert mean[1] == 20_000
    at_two = 10_000 + 10_000 * np.exp(-0.75)
    for k, truth in ((2, at_two), (3, at_two * np.exp(-1))):
        assert abs(mean[k] - truth) < SIGMAS * np.sqrt(truth / 4000) + 0.003 * truth


@pytest.mark.parametrize("start", [0, 10**10])
@pytest.mark.parametrize("output", ["trajectories", "statistics", "final"])
def test_the_langevin_equation_has_no_largest_amount(start, output):
    """Beyond 2^31, where counts end with OVERFLOW."""
    network = ReactionNetwork(
        {"X": start}, [Reaction("0 -> X", rate_constant=1e12), Reaction("X -> 0", rate_constant=1)]
    )
    result = run(network, [0, 3], "langevin", replicates=400, output=output)
    assert (result["status"] == 0).all()
    p = np.exp(-3)
    mean, variance = 1e12 * (1 - p) + start * p, 1e12 * (1 - p) + start * p * (1 - p)
    if output == "statistics":
        found, spread = result["mean"].values[-1, 0], result["variance"].values[-1, 0]
    else:
        amount = result["amount"].values.reshape(400, -1)[:, -1]
        found, spread = amount.mean(), amount.var(ddof=1)
    assert abs(found - mean) < (SIGMAS / np.sqrt(400) + 0.0101) * np.sqrt(variance)
    assert abs(spread / variance - 1) < SIGMAS * np.sqrt(2 / 400)


BILLION = ReactionNetwork(
    {"X": 0}, [Reaction("0 -> X", rate_constant=1e9), Reaction("X -> 0", rate_constant=1.0)]
)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["tau-leap", "langevin"])
@pytest.mark.parametrize("network", [MANY, SCHLOEGL, BILLION])
@pytest.mark.filterwarnings("ignore::ergode.PerformanceWarning")
def test_a_device_takes_the_same_steps(method, network):
    times = np.linspace(0, 3, 16)
    cpu, gpu = on_both(run, network, times, method, replicates=300, output="trajectories")
    assert gpu.attrs["steps"] == pytest.approx(cpu.attrs["steps"], rel=1e-3)
    alike = np.isclose(gpu["amount"], cpu["amount"], rtol=1e-6, atol=1e-6).all(axis=(1, 2))
    assert alike.mean() > 0.97  # rounding of one unit may change a draw


def test_the_langevin_equation_of_a_formula_starts_at_zero():
    """Noise leads below zero in the first steps, where the formula of a loss is negative."""
    network = ReactionNetwork(
        {"A": 0},
        [
            Reaction("0 -> A", rate_constant=1e6),
            Reaction("A -> 0", rate="2e6 * A / (1e6 + A)"),
        ],
    )
    result = run(network, [0, 0.5, 20], "langevin", replicates=400, output="trajectories")
    assert (result["status"] == 0).all()
    theory = ergode.stochastic.linear_noise(network, times=[0, 0.5, 20])
    for k in (1, 2):
        mean, variance = float(theory["mean"][k, 0]), float(theory["variance"][k, 0])
        x = result["amount"].values[:, k, 0]
        assert abs(x.mean() - mean) < 5.5 * np.sqrt(variance / 400) + 0.01 * np.sqrt(variance)
        assert abs(x.var() / variance - 1) < 5.5 * np.sqrt(2 / 400) + 0.01
