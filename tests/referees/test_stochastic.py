"""The referee of `ergode.stochastic`: random networks, every method, and what shares no code.

Each comparison has the level 1e-9, of which there are at most a thousand in the ordinary tests.
"""

import importlib
from dataclasses import replace

import numpy as np
import pytest
import stochastic_compare as referee
import stochastic_hybrid as hybrid
from fresh import fresh_seeds
from stochastic_cases import Case, EventCase, ReactionCase, network_of
from stochastic_truth import master_equation

import ergode
from ergode.stochastic.master_equation import uniformisation

KINDS = (
    "small",
    "mass_action",
    "steps",
    "smooth",
    "history",
    "failing",
    "linear",
    "nonlinear",
    "large",
)
ORDINARY = [
    (k, seed) for k in KINDS for seed in range(1 if k in ("linear", "nonlinear", "large") else 2)
]
# A third of the exact methods in turn, where most of them take the network.
SOME = {
    (kind, seed): {"methods": referee.EXACT[k % 3 :: 3]}
    for k, (kind, seed) in enumerate(ORDINARY)
    if kind not in ("smooth", "linear", "nonlinear", "large")
}
SOME["linear", 0] = {"replicates": 2000}  # of which means are good to a third of a per cent


def judge(found, case, seed):
    assert not found.wrong, f"seed {seed}\n{case.text}\n" + "\n".join(found.wrong[:12])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), ORDINARY)
def test_random_networks(kind, seed):
    found, case = referee.examine(kind, seed, **SOME.get((kind, seed), {}))
    judge(found, case, seed)
    assert found.counts["compared"] > 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_random_networks_from_a_fresh_seed(device, monkeypatch):
    monkeypatch.setattr(referee, "DEVICE", device)
    wrong, counts = [], {}
    for seed in fresh_seeds():
        kind = KINDS[seed % len(KINDS)]
        found, case = referee.examine(kind, seed)
        for name, number in found.counts.items():
            counts[name] = counts.get(name, 0) + number
        if found.wrong:
            wrong.append(f"('{kind}', {seed})\n{case.text}\n" + "\n".join(found.wrong[:12]))
            print(wrong[-1], flush=True)
    print(counts)
    assert not wrong, "\n\n".join(wrong)


def hold_probabilities(case, exact, tolerance=1e-7):
    """The library's master equation, against one on a box of states that shares no code."""
    found = ergode.stochastic.probabilities(
        network_of(case, tables=False), times=case.times, tolerance=tolerance
    )
    error = found["truncation_error"].values
    assert error[-1] <= tolerance
    for k, i in np.ndindex(len(case.times), len(case.initial)):
        p = np.zeros(max(exact[k][i].size, int(found["amount"].max()) + 1))
        p[: exact[k][i].size] = exact[k][i]
        missing = p[found["amount"].values] - found["probability"].values[k, i]
        assert missing.min() > -1.1e-8, case.text  # the box may have lost as much
        assert missing.max() < error[k] + 1.1e-8, case.text


def solved_cases(kind, seeds, most_states):
    for seed in seeds:
        case = referee.random_case(kind, np.random.default_rng(seed))
        case.events = []
        exact = master_equation(case, most_states)
        if exact is not None:
            yield case, exact


@pytest.mark.parametrize("kind", ["small", "steps", "mass_action"])
def test_probabilities_of_random_networks(kind):
    cases = list(solved_cases(kind, range(20), 3000))
    assert len(cases) > 5
    for k, (case, exact) in enumerate(cases):
        hold_probabilities(case, exact, 10.0 ** -(3 + k % 5))


def test_probabilities_of_random_networks_by_squares(monkeypatch):
    """As for many jumps of few states."""
    for name, value in (("_MANY", -1.0), ("_WORTH", 0.0), ("_CALM", 0)):
        monkeypatch.setattr(uniformisation, name, value)
    cases = list(solved_cases("steps", range(40, 52), 1000))[:3]
    assert len(cases) == 3
    for case, exact in cases:
        hold_probabilities(case, exact)


def test_a_probability_that_is_a_little_off_is_noticed():
    """A rate is half a per cent larger than in the case that is solved."""
    exact = master_equation(replace(PAIR, events=[]))
    hold_probabilities(replace(PAIR, events=[]), exact)
    wrong = [replace(PAIR.reactions[0], value=12.06), *PAIR.reactions[1:]]
    with pytest.raises(AssertionError):
        hold_probabilities(replace(PAIR, events=[], reactions=wrong), exact)


# ---- a referee that is shown to work: three mutants


def _mutated(monkeypatch, change):
    module = importlib.import_module("ergode.stochastic.simulate")
    build = module.build

    def wrong(*arguments, **options):
        import dataclasses

        tables = build(*arguments, **options)
        return dataclasses.replace(tables, **change(tables))

    monkeypatch.setattr(module, "build", wrong)


PAIR = Case(
    "small", {"A": 3, "B": 2},
    [
        ReactionCase({}, {"A": 1}, "stochastic", 12.0),
        ReactionCase({"A": 1}, {"B": 1}, "deterministic", 0.6),
        ReactionCase({"B": 1}, {}, "stochastic", 0.8),
    ],
    [0.0, 1.0, 2.0],
    events=[
        EventCase("time >= 1.5", {"B": "B + 2"}, priority=1.0),
        EventCase("time >= 1.5", {"B": "7"}, priority=0.0),
    ],
)  # fmt: skip


def _examine(case):
    found = referee.Findings()
    referee.exact(case, np.random.default_rng(5), found, replicates=40_000)
    return found


@pytest.mark.slow
def test_the_pair_is_right():
    judge(_examine(PAIR), PAIR, 5)


@pytest.mark.slow
def test_a_rate_that_is_two_percent_off_is_noticed(monkeypatch):
    def change(tables):
        coefficients = tables.net.coefficients.copy()
        coefficients[:, 0] *= 1.02
        return {"net": tables.net._replace(coefficients=coefficients)}

    _mutated(monkeypatch, change)
    assert _examine(PAIR).wrong


@pytest.mark.slow
def test_a_tie_that_is_broken_the_other_way_is_noticed(monkeypatch):
    def change(tables):
        others = tables.interruptions
        return {"interruptions": others._replace(priorities=others.priorities[::-1].copy())}

    _mutated(monkeypatch, change)
    assert _examine(PAIR).wrong


@pytest.mark.slow
def test_a_dependence_that_is_dropped_is_noticed(monkeypatch):
    """The death of B does not hear of the conversion."""

    def change(tables):
        net = tables.net
        assert net.affected[-1] == 2
        return {"net": net._replace(affected=np.append(net.affected[:-1], 1).astype(np.int32))}

    _mutated(monkeypatch, change)
    assert _examine(PAIR).wrong


# ---- what the referee itself got wrong


def test_a_box_grows_when_an_event_leads_out_of_it():
    case = Case(
        kind="small", initial={"X": 5}, times=[0.0, 1.0, 2.0],
        reactions=[ReactionCase({"X": 1}, {}, "deterministic", 0.1)],
        events=[EventCase("time >= 1.0", {"X": "X + 60"}, priority=0.0)],
    )  # fmt: skip
    (solved,) = master_equation(case)[-1]
    left = np.exp(-0.1)
    assert solved @ np.arange(solved.size) == pytest.approx((5 * left + 60) * left, rel=1e-9)


@pytest.mark.parametrize("mean", [0.001, 0.016, 1.0, 100.0])
def test_few_molecules_have_a_variance_that_chance_moves_much(mean):
    """Of 4,000 numbers that are 0.016 on average some 60 are one: their variance is 13 % off."""
    numbers = np.random.default_rng(1).poisson(mean, (1000, 4000))
    of_mean, of_variance = referee.chances(mean, 1 / 4000)
    assert abs(numbers.mean(axis=1) - mean).max() < of_mean
    off = abs(numbers.var(axis=1, ddof=1) - mean)
    assert off.max() < of_variance
    assert off.max() > of_variance / 4  # it is no wider than that asks for


@pytest.mark.slow
def test_the_langevin_equation_is_not_asked_about_a_few_molecules():
    """It leads below zero there, and a warning says so."""
    case = Case(
        kind="linear", initial={"D": 4246}, times=[0.0, 10.0],
        reactions=[ReactionCase({"D": 1}, {}, "deterministic", 1.2507)],
    )  # fmt: skip
    found = referee.Findings()
    referee.approximate(case, np.random.default_rng(1), found, replicates=400)
    judge(found, case, 1)
    assert found.counts["too few molecules for langevin"] == 2


# ---- hybrid networks


@pytest.mark.slow
def test_hybrid_networks():
    found = referee.Findings()
    case = hybrid.hybrid(np.random.default_rng(7))
    hybrid.examine(case, 7, found)
    assert not found.wrong, f"{case}\n" + "\n".join(found.wrong[:12])
    assert found.counts["compared"] > 40


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_hybrid_networks_from_a_fresh_seed(device, monkeypatch):
    monkeypatch.setattr(referee, "DEVICE", device)
    for seed in fresh_seeds():
        found = referee.Findings()
        case = hybrid.hybrid(np.random.default_rng(seed))
        hybrid.examine(case, seed, found)
        assert not found.wrong, f"seed {seed}\n{case}\n" + "\n".join(found.wrong[:12])


GROWING = hybrid.HybridCase(
    {"A": 20}, {"X": 5.0},
    [
        ({}, {"A": 1}, "rate", "20 * cell"),
        ({"A": 1}, {}, "rate_constant", 0.5),
        ({"A": 1}, {"A": 1, "X": 1}, "rate_constant", 0.5),
        ({"X": 1}, {}, "rate_constant", 1.0),
    ],
    {"cell": "0.7 * cell"},
    events=[("cell >= 2", {"cell": "cell / 2", "A": "binomial(A, 0.5)"})],
)  # fmt: skip


def _second_event_first(tables):
    others = tables.interruptions
    priorities = others.priorities.copy()
    priorities[-1] = 0  # any program: without one, the priority is the lowest
    return {"interruptions": others._replace(priorities=priorities)}


def _a_rate_that_does_not_follow_the_cell(tables):
    net, affected = tables.net, tables.net.affected.copy()
    for variable in tables.flow.variables:
        part = affected[slice(*net.affected_starts[variable : variable + 2])]
        part[part == 0] = 1
    return {"net": net._replace(affected=affected)}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "change", [None, _second_event_first, _a_rate_that_does_not_follow_the_cell]
)
def test_a_broken_hybrid_engine_is_noticed(change, monkeypatch):
    case = replace(
        GROWING,
        events=[
            *GROWING.events, ("time >= 1.1", {"A": "A + 6"}), ("time >= 1.1", {"A": "2 * A"}),
        ],
    )  # fmt: skip
    if change:
        _mutated(monkeypatch, change)
    found = referee.Findings()
    hybrid.examine(case, 3, found)
    assert bool(found.wrong) == bool(change), found.wrong


@pytest.mark.exhaustive
@pytest.mark.parametrize("wrong", ["rate", "rule", "division"])
def test_a_hybrid_network_that_is_a_little_off_is_noticed(wrong, monkeypatch):
    case = GROWING
    found = referee.Findings()
    hybrid.examine(case, 3, found, replicates=100_000, realizations=100_000)
    assert not found.wrong
    other = {
        "rate": replace(
            case, reactions=[({}, {"A": 1}, "rate", "20.4 * cell"), *case.reactions[1:]]
        ),
        "rule": replace(case, rate_rules={"cell": "0.714 * cell"}),
        "division": replace(
            case, events=[("cell >= 2", {"cell": "cell / 2", "A": "binomial(A, 0.51)"})]
        ),
    }[wrong]
    network = hybrid.network_of(other)
    monkeypatch.setattr(hybrid, "network_of", lambda _: network)
    hybrid.examine(case, 3, found, replicates=100_000, realizations=100_000)
    assert found.wrong
