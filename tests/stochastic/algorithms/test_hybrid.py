"""Differential equations between firings: against theory, and where they meet what happens."""

import numpy as np
import pytest
from cuda_cases import OPTIONS
from scipy import integrate, linalg, stats
from small_networks import IMMIGRATION_DEATH, chi_square

import ergode
from ergode import Event, Reaction, ReactionNetwork, Species
from ergode.stochastic import methods
from ergode.stochastic.to_tables import build

LEVEL = 1e-6 / 30
BIRTH = Reaction("0 -> X", rate="20 * c")
DEATH = Reaction("X -> 0", rate_constant=1.0)
FADING = ReactionNetwork(
    {"X": 0}, [BIRTH, DEATH], parameters={"c": 1.0, "k": 0.5}, rate_rules={"c": "-k * c"}
)


def run(network, times, **options):
    options = {"method": "hybrid", "device": "cpu", "seed": 1, **options}
    return ergode.stochastic.simulate(network, times=times, **options)


def test_a_rate_that_an_equation_changes_gives_a_poisson_number():
    """The mean obeys dm/dt = 20 c - m (D. T. Gillespie 1992, linear birth and death)."""
    times = np.array([0.0, 1.0, 2.0, 5.0])
    result = run(FADING, times, replicates=20_000, output="histogram")
    means = 20 * (np.exp(-0.5 * times) - np.exp(-times)) / 0.5
    for k in (1, 2, 3):
        counts = result["histogram"].values[k, 0]
        expected = stats.poisson.pmf(np.arange(80), means[k])
        assert chi_square(counts, expected) > LEVEL
    values = run(FADING, times, replicates=3)["value"]
    assert list(values["rule"].values) == ["c"]
    np.testing.assert_allclose(values[..., 0], np.tile(np.exp(-0.5 * times), (3, 1)), rtol=5e-6)


def growing(g=0.7, birth=20.0):
    """A cell that makes molecules in proportion to its size, and divides at twice of it."""
    return ReactionNetwork(
        [Species("X", 0, compartment="cell")],
        [Reaction("0 -> X", rate_constant=birth)],
        {"g": g}, {"cell": 1.0},
        events=[Event("cell >= 2", {"cell": "cell / 2", "X": "binomial(X, 0.5)"})],
        rate_rules={"cell": "g * cell"},
    )  # fmt: skip


def test_a_cell_that_grows_and_divides():
    """A molecule is kept with probability 1/2, so numbers remain Poisson.

    The size is 2^s, s the part of the cycle, and m' = birth 2^s; at the begin of a cycle in the
    stationary state m = (m + birth / g) / 2 = birth / g.
    """
    g, birth = 0.7, 20.0
    cycle = np.log(2) / g
    times = [0.0, 9 * cycle, 9.5 * cycle]  # 2^-9 of the begin is left
    result = run(growing(g, birth), times, replicates=4000)
    x = result["amount"].values[..., 0]
    for k, mean in ((2, birth / g * np.sqrt(2)),):
        expected = stats.poisson.pmf(np.arange(150), mean)
        assert chi_square(np.bincount(x[:, k].astype(int)), expected) > LEVEL
    np.testing.assert_allclose(result["value"][:, 2, 0], np.sqrt(2), rtol=1e-4)
    assert result["amount"].dtype == np.int64


def test_pairs_meet_less_often_in_a_larger_cell():
    """Their propensity is k n (n - 1) / V: one pair of two survives exp(-2 k integral of 1 / V)."""
    pair = ReactionNetwork(
        [Species("X", 2, compartment="cell")], [Reaction("2 X -> 0", rate_constant=0.5)],
        compartments={"cell": 1.0}, rate_rules={"cell": "0.4"},
    )  # fmt: skip
    assert pair.propensities()[0] == "0.5 * X * (X - 1) / cell"
    result = run(pair, [0, 1, 5], replicates=20_000)
    left = (result["amount"].values[..., 0] == 2).mean(axis=0)
    theory = (1 + 0.4 * np.array([0, 1, 5])) ** (-1 / 0.4)
    np.testing.assert_allclose(left, theory, atol=5.5 * 0.5 / np.sqrt(20_000))


def test_a_birth_process_in_a_growing_volume():
    """Births at k n / V are a Yule process in the time s = integral of k / V (Yule 1925).

    From n0, the number at s has a negative binomial distribution of mean n0 e^s and variance
    n0 e^s (e^s - 1).
    """
    n0, k, g = 5, 1.2, 0.6
    births = ReactionNetwork(
        {"X": n0}, [Reaction(["X"], {"X": 2}, rate="k * X / cell")], {"k": k},
        compartments={"cell": 1.0}, rate_rules={"cell": f"{g} * cell"},
    )  # fmt: skip
    times = np.array([0, 0.5, 3.0])
    grown = np.exp(k / g * (1 - np.exp(-g * times)))
    x = run(births, times, replicates=20_000)["amount"].values[..., 0].astype(int)
    for j in (1, 2):
        expected = stats.nbinom.pmf(np.arange(400), n0, 1 / grown[j])
        assert chi_square(np.bincount(x[:, j] - n0), expected) > LEVEL
        spread = n0 * grown[j] * (grown[j] - 1)
        assert abs(x[:, j].mean() - n0 * grown[j]) < 5.5 * np.sqrt(spread / x.shape[0])


def test_moments_of_an_equation_that_a_switch_drives():
    """x' = k s - d x, and s in {0, 1} turns on at rate a and off at rate b (a telegraph process).

    The moments s, x, x s and x^2 obey a closed linear system.
    """
    a, b, k, d = 0.6, 0.9, 10.0, 0.7
    network = ReactionNetwork(
        {"off": 1, "on": 0, "x": 0.0},
        [Reaction("off -> on", rate_constant=a), Reaction("on -> off", rate_constant=b)],
        rate_rules={"x": f"{k} * on - {d} * x"},
    )
    times, n = np.array([0, 1.5, 6.0]), 60_000
    x = run(network, times, replicates=n)["amount"].values[..., 2]
    system = np.array(
        [[0, 0, 0, 0, 0], [a, -a - b, 0, 0, 0], [0, k, -d, 0, 0], [0, k, a, -a - b - d, 0],
         [0, 0, 0, 2 * k, -2 * d]]
    )  # fmt: skip
    for j in (1, 2):
        _, _, mean, _, square = linalg.expm(system * times[j])[:, 0]
        variance = square - mean**2
        assert abs(x[:, j].mean() - mean) < 5.5 * np.sqrt(variance / n)
        fourth = ((x[:, j] - mean) ** 4).mean()
        assert abs(x[:, j].var() - variance) < 5.5 * np.sqrt((fourth - variance**2) / n)


def test_without_continuous_parts_the_realizations_are_those_of_the_direct_method():
    common = {"replicates": 500, "device": "cpu"}
    one = run(IMMIGRATION_DEATH, [0, 1, 4], **common)
    other = run(IMMIGRATION_DEATH, [0, 1, 4], method="direct", **common)
    np.testing.assert_array_equal(one["amount"], other["amount"])
    np.testing.assert_array_equal(one["firing_count"], other["firing_count"])


def test_continuous_species_are_deterministic_alone_and_jump_with_others():
    network = ReactionNetwork(
        {"G": 0, "X": 0.5},
        [
            Reaction("X -> 0", rate_constant=2.0, name="decay"),
            Reaction("2 X -> X", rate_constant=0.1, name="pairs"),
            Reaction(["X"], ["X", "G"], rate_constant=1e-12, name="jump"),
        ],
        continuous=["X"],
    )  # fmt: skip
    assert network.flows.tolist() == [True, True, False]
    assert network.propensities()[1] == "0.1 * X * X"
    found = run(network, [0, 1.0])["amount"].values[0]
    r = 0.1 / 2.0  # dx/dt = -2 x - 0.1 x^2
    exact = 0.5 * np.exp(-2) / (1 + r * 0.5 * (1 - np.exp(-2)))
    np.testing.assert_allclose(found[1], [0, exact], rtol=1e-5)


def test_the_tolerance_changes_no_firing():
    network = growing()
    one, other = (run(network, [0, 1, 3, 9], replicates=300, tolerance=t) for t in (1e-6, 1e-9))
    assert (one["amount"].values != other["amount"].values).mean() < 0.002
    np.testing.assert_allclose(one["value"], other["value"], rtol=1e-4)


def test_parts_times_and_outputs_are_of_the_same_realizations():
    network, times = growing(), [0, 1, 3, 9]
    whole = run(network, times, replicates=40)
    parts = [run(network, times, replicates=range(*ends)) for ends in ((0, 13), (13, 40))]
    joined = ergode.concat(parts)
    for name in ("amount", "value"):
        np.testing.assert_array_equal(joined[name], whole[name])
    finer = run(network, np.linspace(0, 9, 91), replicates=40).isel(time=[0, 10, 30, 90])
    np.testing.assert_array_equal(finer["amount"], whole["amount"])
    np.testing.assert_allclose(finer["value"], whole["value"], rtol=1e-13)
    summary = run(network, times, replicates=40, output="statistics")
    np.testing.assert_allclose(summary["mean"], whole["amount"].mean("replicate"), rtol=1e-12)
    np.testing.assert_allclose(summary["value_mean"], whole["value"].mean("replicate"))
    listed = run(network, times, replicates=40, output="events")
    assert listed["reaction"].size == int(whole["firing_count"].sum())
    assert (np.diff(listed["firing_time"])[np.diff(listed["realization"]) == 0] >= 0).all()


QUIET = [Reaction("X -> 0", rate=0.0)]


def test_a_condition_is_met_at_its_time():
    """One that holds for a thousandth of the run, and one of the time alone."""
    network = ReactionNetwork(
        {"X": 0, "Y": 0}, QUIET, {"v": 0.0, "at": 0.0, "seen": 0.0},
        events=[
            Event("v > 0.999999", {"X": "X + 1", "at": "time"}),
            Event("sin(time) > 0.5", {"Y": "Y + 1", "seen": "time"}),
        ],
        rules={"when": "at", "sine": "seen"},
        rate_rules={"v": "cos(time)"},
    )  # fmt: skip
    result = run(network, [0, 0.5, 2.0, 7.0], tolerance=1e-9)
    assert result["amount"].values[0].tolist() == [[0, 0], [0, 0], [1, 1], [1, 2]]
    when = result["value"].sel(rule=["when", "sine"]).values[0, 2]
    np.testing.assert_allclose(when, [np.arcsin(0.999999), np.pi / 6], rtol=0, atol=1e-6)


def test_events_at_the_begin_at_breaks_and_at_times_of_results():
    network = ReactionNetwork(
        {"X": 0}, QUIET, {"v": 1.0},
        events=[
            Event("v >= 1", {"X": "X + 1"}, initially_true=False),
            Event("time >= 1", {"X": "X + 10"}),
            Event("v >= 2", {"X": "X + 100", "v": 0}),  # at time 1 as well
        ],
        rate_rules={"v": "1"},
    )  # fmt: skip
    result = run(network, [0, 1, 1.5, 2.5])
    assert result["amount"].values[0, :, 0].tolist()[0] == 1
    # After the fall to 0 at time 1, v is one again at time 2.
    assert result["amount"].values[0, 2:, 0].tolist() == [111, 112]


def test_a_firing_rate_of_zero_ends_a_realization():
    network = ReactionNetwork(
        {"X": 3}, [DEATH], parameters={"v": 1.0}, rate_rules={"v": "-v"}
    )  # fmt: skip
    result = run(network, [0, 100, 1e6], replicates=50)
    assert (result["amount"].values[:, 1:, 0] == 0).all()
    assert (result["status"] == 0).all()


def test_stiff_equations():
    """A relaxation a million times as fast as the firings, to an equilibrium that they move."""
    network = ReactionNetwork(
        {"X": 0, "Y": 0.0},
        [
            Reaction("0 -> X", rate_constant=10.0),
            Reaction("X -> 0", rate="Y"),
            Reaction("0 -> Y", rate="1e6 * X"),
            Reaction("Y -> 0", rate_constant=1e6),
        ],
        continuous=["Y"],
    )  # fmt: skip
    result = run(network, [0, 1, 8], replicates=500)
    off = abs(result["amount"][..., 1] - result["amount"][..., 0]).values
    assert (off > 1e-3).sum() < 4  # a firing is rarely within 1e-5 before a time of the result
    counts = np.bincount(result["amount"].values[:, 2, 0].astype(int))
    mean = 10 * (1 - np.exp(-8))
    assert chi_square(counts, stats.poisson.pmf(np.arange(60), mean)) > LEVEL


def test_failures_have_names():
    explosion = ReactionNetwork(
        {"X": 0}, QUIET, {"v": 1.0}, rate_rules={"v": "v^2"}
    )  # fmt: skip
    with pytest.warns(ergode.FailureWarning):
        result = run(explosion, [0, 0.5, 2])
    assert result["status"].values[0] == ergode.Status.NOT_FINITE
    np.testing.assert_allclose(result["value"].values[0, :, 0], [1, 2, np.nan], rtol=1e-4)
    below = ReactionNetwork(
        {"X": 0}, [Reaction("0 -> X", rate="v")], {"v": 0.1}, rate_rules={"v": "-1"}
    )  # fmt: skip
    with pytest.warns(ergode.FailureWarning):
        result = run(below, [0, 2])
    assert result["status"].values[0] == ergode.Status.NEGATIVE_RATE
    takes = ReactionNetwork(
        {"X": 0.5, "Y": 0}, [Reaction("X -> Y", rate_constant=1.0)], continuous=["X"]
    )
    with pytest.warns(ergode.FailureWarning, match=r"there were -0.5 of 'X'|-0.5"):
        run(takes, [0, 100])


def test_amounts_may_be_large_or_negative():
    network = ReactionNetwork(
        {"X": 1e12, "Y": 0.0}, QUIET, continuous=["X"], rate_rules={"Y": "-3"}
    )
    found = run(network, [0, 2])["amount"].values[0, 1]
    np.testing.assert_allclose(found, [1e12, -6])


@pytest.mark.parametrize(
    ("network", "name"),
    [
        (FADING, "'c' has a rate rule"),
        (ReactionNetwork({"X": 1}, [DEATH], continuous=["X"]), "'X' has real amounts"),
        (ReactionNetwork({"X": 1}, [DEATH], events=[Event("sin(time) > 0.5", {"X": 3})]),
         "depends on time otherwise"),
    ],
)  # fmt: skip
def test_other_methods_refuse_by_name(network, name):
    for method in methods.METHODS:
        if method != "hybrid":
            with pytest.raises(ergode.PlanError, match=name):
                run(network, [0, 1], method=method)
    tables = build(network, {}, {}, 1)
    assert methods.choose(tables)[0].name == "hybrid"


def test_other_engines_refuse_by_name():
    with pytest.raises(ergode.ModelError, match="rate rule of 'c'"):
        ergode.kinetics.integrate(FADING, times=[0, 1], device="cpu")
    with pytest.raises(ergode.PlanError, match="'c' is a continuous variable"):
        ergode.stochastic.probabilities(FADING, times=[0, 1])
    with pytest.raises(ergode.ModelError, match="rate rules"):
        ergode.ReactionDiffusion(FADING, (2,), diffusion={})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate_rules": {"nothing": "1"}}, "neither a species nor a parameter nor a compartment"),
        ({"rate_rules": {"k": "j"}}, "rate rule of 'k', 'j', uses 'j'"),
        ({"rate_rules": {"Z": "1"}}, "'Z', a species that is constant"),
        ({"continuous": ["Y"]}, "not a species"),
        ({"continuous": ["X", "X"]}, "'X' twice"),
        ({"continuous": ["X"], "reactions": [Reaction("X -> 0", rate_constant=1.0, delay=2.0)]},
         "cannot have a delay"),
    ],
)  # fmt: skip
def test_wrong_descriptions(options, message):
    options = {"reactions": [DEATH], **options}
    with pytest.raises(ergode.ModelError, match=message):
        ReactionNetwork([Species("X", 1), Species("Z", 1, constant=True)], parameters={"k": 1.0},
                        **options)  # fmt: skip


def test_a_sweep_has_the_equations_of_its_points():
    result = run(FADING, [0, 2.0], parameters={"k": [0.5, 1.0]}, replicates=2)
    found = result["value"].values[:, :, 1, 0]
    np.testing.assert_allclose(found, np.exp([[-1.0, -1.0], [-2.0, -2.0]]), rtol=1e-5)


def test_a_dose_changes_a_compartment_without_equations():
    """Events may change a size for the other methods, too; amounts stay, concentrations do not.

    What is assigned together with a size refers to the size before: 3 of a unit of volume.
    """
    network = ReactionNetwork(
        [Species("X", 8, compartment="cell", quantity="concentration")], QUIET,
        compartments={"cell": 2.0}, rules={"level": "X"},
        events=[
            Event("time >= 1", {"cell": "cell / 2"}),
            Event("time >= 2", {"cell": 4, "X": 3}, rounding="nearest"),
        ],
    )  # fmt: skip
    for method in ("direct", "hybrid"):
        result = run(network, [0, 1, 2], method=method)
        assert result["amount"].values[0, :, 0].tolist() == [16, 16, 3]
        assert result["value"].values[0, :, 0].tolist() == [8, 16, 0.75]


@pytest.mark.cuda
@pytest.mark.parametrize("network", [FADING, growing()])
def test_device_and_processor_agree(network):
    common = {"replicates": 600, "method": "hybrid", "seed": 3}
    cpu, gpu = (run(network, [0, 1, 4, 9], **{**common, "device": d}) for d in ("cpu", "cuda"))
    assert (cpu["amount"].values != gpu["amount"].values).mean() < 0.002
    np.testing.assert_allclose(gpu["value"], cpu["value"], rtol=1e-6)
    np.testing.assert_array_equal(gpu["status"], cpu["status"])


def test_a_device_has_the_same_plan():
    tables = build(FADING, {}, {}, 1)
    request = methods.Request(OPTIONS["device"], 300, 100, False, {})
    assert methods.plan(methods.METHODS["hybrid"], tables, request).method.exact


def test_auto_takes_the_tolerance_of_the_method_that_it_chooses():
    rough, fine = (
        run(FADING, [0, 1.0], method="auto", tolerance=tolerance) for tolerance in (1e-2, 1e-9)
    )
    assert rough.attrs["method"] == fine.attrs["method"] == "hybrid"
    exact = np.exp(-0.5)
    assert abs(fine["value"].values[0, -1, 0] - exact) < 1e-8
    assert abs(rough["value"].values[0, -1, 0] - exact) > 1e-8
    with pytest.raises(ergode.PlanError, match="'auto' takes here, takes no steps of a given"):
        run(FADING, [0, 1.0], method="auto", step=0.1)


def test_a_pulse_shorter_than_a_step_needs_a_largest_step():
    pulse = Reaction("0 -> Y", rate="10 * exp(-((time - 50) / 0.1)**2)")
    network = ReactionNetwork({"Y": 0}, [pulse], continuous=["Y"])
    found = run(network, [0, 100.0], max_step=0.2)["amount"].values[0, -1, 0]
    assert abs(found - np.sqrt(np.pi)) < 1e-5
    with pytest.raises(ergode.PlanError, match="'direct' solves no differential equations"):
        run(IMMIGRATION_DEATH, [0, 1.0], method="direct", max_step=0.2)


def test_complexes_that_grow_from_nothing_take_few_steps():
    """Monomers join a chain: S_n grows as t^(n - 1). The limit on steps is `max_firings`."""
    count, begin = 16, 200.0
    network = ReactionNetwork(
        {f"S{n}": begin * (n == 1) for n in range(1, count + 1)},
        [
            Reaction({"S1": 1, f"S{n}": 1} if n > 1 else {"S1": 2}, {f"S{n + 1}": 1}, rate=text)
            for n in range(1, count)
            for text in [f"0.01 * S1 * S{n}"]
        ]
        + [Reaction(f"S{n} -> S{n - 1} + S1", rate_constant=1.0) for n in range(2, count + 1)],
        continuous=[f"S{n}" for n in range(1, count + 1)],
    )

    def slopes(t, y):
        rates = 0.01 * y[0] * y[:-1] - y[1:]
        slope = np.append(-rates, 0.0) + np.append(0.0, rates)
        slope[0] -= rates.sum()
        return slope

    start = begin * np.eye(count)[0]
    times = [0.0, 0.3, 3.0]
    truth = integrate.solve_ivp(
        slopes, (0, 3), start, method="LSODA", t_eval=times, rtol=1e-11, atol=1e-12
    ).y.T
    result = run(network, times, max_firings=400)
    np.testing.assert_allclose(result["amount"].values[0], truth, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("unit", [2.0**-30, 1.0, 2.0**30])
def test_variables_that_begin_at_zero_where_their_slope_vanishes(unit):
    """A power of time has the same relative error in every step from zero; in any unit."""
    times = np.linspace(0.0, 4.0, 17)
    network = ReactionNetwork(
        {"A": 0, "B": 0},
        [Reaction("0 -> A", rate=unit), Reaction("2 A -> B", rate=f"A^2 / {unit * 2!r}")],
        dict.fromkeys("uvwxyz", 0.0) | {"c": unit},
        rate_rules={
            "u": "c", "v": "sqrt(u)", "w": "c * time^2", "x": "c * time^9",
            "y": "c - 1000 * y", "z": "c * (y / (y + c))^2",
        },
        continuous=["A", "B"],
    )  # fmt: skip
    result = run(network, times, tolerance=1e-7)
    values = dict(zip(result["rule"].values, result["value"][0].values.T, strict=True))
    a = unit * np.tanh(times)
    theory = {
        "u": unit * times, "v": np.sqrt(unit) * times**1.5 / 1.5, "w": unit * times**3 / 3,
        "x": unit * times**10 / 10, "y": unit * -np.expm1(-1000 * times) / 1000,
    }  # fmt: skip
    for name, expected in theory.items():
        error = np.abs(values[name] - expected)
        assert (error <= 2e-6 * expected + 1e-7 * min(expected.max(), 1.0)).all(), name
    error = np.abs(result["amount"][0].values - np.array([a, (unit * times - a) / 2]).T)
    assert (error <= 2e-6 * unit).all()
    # z' = f(y), and y = (1 - s) / 1000 in units of c with s = exp(-1000 t): in the limit f(0.001).
    f = (0.001 / 1.001) ** 2
    np.testing.assert_allclose(np.diff(values["z"])[1:], 0.25 * f * unit, rtol=3e-5)
    assert 0 < values["z"][1] < 0.25 * f * unit


def test_a_firing_wakes_variables_that_were_zero():
    """A gene is switched on by a firing; what it makes was zero, with a slope of zero."""
    network = ReactionNetwork(
        {"on": 0}, [Reaction("0 -> on", rate="50 if on < 1 else 0")], {"m": 0.0, "p": 0.0},
        rate_rules={"m": "on - m", "p": "m * m"},
    )  # fmt: skip
    result = run(network, [0, 1, 2], replicates=200)
    assert (result["status"] == 0).all()
    m, p = result["value"].sel(time=2).values.T
    since = -np.log1p(-m)  # since the firing
    expected = since - 2 * -np.expm1(-since) + -np.expm1(-2 * since) / 2
    np.testing.assert_allclose(p, expected, rtol=3e-5)


# ---- many firings in a step of the differential equations

STEADY = {"parameters": {"c": 1.0}, "rate_rules": {"c": "-0.3 * c"}}


def test_many_firings_of_changing_rates_in_a_step():
    """Births and deaths of independent molecules: a Poisson number, of mean m' = b(t) - d(t) m."""
    network = ReactionNetwork(
        {"X": 0},
        [
            Reaction("0 -> X", rate="100 * c^2 / (0.2 + c^2) * (1 + 0.5 * sin(3 * time))"),
            Reaction("X -> 0", rate="X * (0.4 + c)"),
        ],
        **STEADY,
    )

    def slope(t, m):
        c = np.exp(-0.3 * t)
        return 100 * c**2 / (0.2 + c**2) * (1 + 0.5 * np.sin(3 * t)) - (0.4 + c) * m

    times = [0.0, 0.3, 2.0, 5.0]
    means = integrate.solve_ivp(slope, (0, 5), [0.0], t_eval=times, rtol=1e-10).y[0]
    x = run(network, times, replicates=3000)["amount"].values[..., 0].astype(int)
    for k in (1, 2, 3):
        expected = stats.poisson.pmf(np.arange(200), means[k])
        assert chi_square(np.bincount(x[:, k]), expected) > LEVEL


def test_a_rate_that_a_firing_wakes_within_a_step_is_followed():
    """It is a narrow function of what moves; it was zero where the step looked first."""
    network = ReactionNetwork(
        {"on": 0, "Y": 0},
        [
            Reaction("0 -> on", rate="1.5 if on < 1 else 0"),
            Reaction("0 -> Y", rate="300 * on * exp(-800 * (c - 0.7)^2)"),
        ],
        **STEADY,
    )
    y = run(network, [0, 3], replicates=20_000)["amount"].values[:, 1, 1]
    t = np.linspace(0, 3, 300_001)
    rate = 300 * np.exp(-800 * (np.exp(-0.3 * t) - 0.7) ** 2) * -np.expm1(-1.5 * t)
    assert abs(y.mean() - integrate.trapezoid(rate, t)) < 5.5 * y.std() / np.sqrt(y.size)


def test_conditions_of_counts_and_delays_turn_within_a_step():
    """Both at the times that follow from the list of firings."""
    network = ReactionNetwork(
        {"N": 0, "A": 0},
        [Reaction("0 -> N", rate_constant=30.0), Reaction("0 -> A", rate_constant=40.0, delay=0.7)],
        {"c": 1.0, "u": 0.0, "at": 0.0},
        events=[Event("N + 5 * u >= 12", {"at": "u"})], rules={"when": "at"},
        rate_rules={"c": "-0.3 * c", "u": "1"},
    )  # fmt: skip
    times = np.linspace(0, 2, 9)
    result = run(network, times, replicates=300)
    when = result["value"].sel(rule="when").values[:, -1]
    listed = run(network, times, replicates=300, output="events")
    for k in range(300):
        own = listed["realization"].values == k
        fired, which = listed["firing_time"].values[own], listed["reaction"].values[own]
        firings = fired[which == 0]
        # N + 5 t is at least 12 from the earliest time at which k firings suffice.
        reached = [max(t, (12 - n) / 5) for n, t in enumerate([0.0, *firings])]
        assert abs(when[k] - min(reached)) < 1e-5
        due = fired[which == 1] + 0.7
        counts = (due[:, None] <= times).sum(axis=0)
        np.testing.assert_array_equal(result["amount"].values[k, :, 1], counts)


def test_a_condition_turns_in_a_step_that_ends_at_a_break():
    """A cell divides at 0.990, and the step was to end at the dose at 1.1."""
    cell = growing()
    dose = Event("time >= 1.1", {"X": "X + 6"})
    network = ReactionNetwork(
        cell.species, list(cell.reactions), {"g": 0.7, "y": 0.0}, {"cell": 1.0},
        events=[*cell.events, dose], rate_rules={"cell": "g * cell", "y": "X * cell - y"},
    )  # fmt: skip
    times = np.array([0.0, 0.98, 1.0, 1.09, 1.3])
    found = run(network, times, replicates=500)["value"].sel(rule="cell").values
    expected = np.exp(0.7 * times) / np.array([1, 1, 2, 2, 2])
    np.testing.assert_allclose(found, np.tile(expected, (500, 1)), rtol=1e-5)
