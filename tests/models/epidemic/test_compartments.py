"""What a compartment model accepts, what it refuses and how it says so."""

import functools
import math
import operator

import numpy as np
import pytest

from ergode import CompartmentModel, Exponential, Infection, LogNormal, Progression
from ergode.core.errors import ModelError
from ergode.epidemics.shared.progression import stages_of

WEEK = Exponential(mean=7)
DAY = Exponential(mean=1)


def seir(compartments=("S", "E", "I", "R"), infections=None, progressions=None, **options):
    return CompartmentModel(
        compartments,
        [Infection("S", "E", {"I": 0.25})] if infections is None else infections,
        [Progression("E", "I", DAY), Progression("I", "R", WEEK)]
        if progressions is None
        else progressions,
        **options,
    )


# ---- infections


@pytest.mark.parametrize("rate", [-0.1, math.nan, math.inf, -math.inf, "0.25", None, 1j, [0.25]])
def test_a_transmission_rate_is_finite_and_not_negative(rate):
    with pytest.raises(ModelError) as caught:
        Infection("S", "E", {"I": rate})
    assert str(caught.value) == (
        f"transmission rate of 'I' in the infection S -> E is {rate!r}; expected a finite number, "
        "zero or more"
    )


@pytest.mark.parametrize("rate", [0, 0.0, 1, 0.25, np.float32(0.25), np.int64(2), 1e300])
def test_any_other_number_is_a_rate(rate):
    assert Infection("S", "E", {"I": rate}).transmission_rate == {"I": float(rate)}


@pytest.mark.parametrize("rate", [0.25, 1, np.float32(0.25), np.float64(0.25)])
def test_a_bare_rate_does_not_say_who_infects(rate):
    with pytest.raises(ModelError, match=r"must name the infectious .*found a bare number$"):
        Infection("S", "E", rate)


def test_what_is_no_mapping_of_rates_is_named():
    for rate in (None, "I", ["I"]):
        with pytest.raises(
            ModelError, match="S -> E must name the infectious compartments"
        ) as caught:
            Infection("S", "E", rate)
        assert str(caught.value).endswith(f"found {rate!r}")
    with pytest.raises(ModelError, match="infection S -> E names no infectious compartment"):
        Infection("S", "E", {})


def test_an_infection_leads_elsewhere_and_comes_from_elsewhere():
    with pytest.raises(ModelError, match="the infection of 'S' leads to itself"):
        Infection("S", "S", {"I": 1.0})
    with pytest.raises(ModelError, match="'S' infects itself"):
        Infection("S", "I", {"I": 1.0, "S": 0.5})


def test_what_was_given_can_change_without_changing_the_model():
    rates, to = {"I": 0.25}, {"R": 0.9, "D": 0.1}
    infection, progression = Infection("S", "I", rates), Progression("I", to, WEEK)
    rates["I"], to["R"] = 9.0, 0.0
    assert infection.transmission_rate == {"I": 0.25}
    assert progression.to == {"R": 0.9, "D": 0.1}


# ---- progressions


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan, math.inf, "1", None])
def test_a_branching_probability_is_a_probability(probability):
    with pytest.raises(ModelError) as caught:
        Progression("I", {"R": probability, "D": 0.5}, WEEK)
    assert str(caught.value) == (
        f"branching probability I -> R is {probability!r}; expected a number between 0 and 1"
    )


@pytest.mark.parametrize(
    ("to", "total"), [({"R": 0.9, "D": 0.2}, "1.1"), ({"R": 0.5}, "0.5"), ({}, "0"),
                      ({"R": 0.5, "D": 0.5 + 1e-8}, "1.00000001")],
)  # fmt: skip
def test_branching_probabilities_sum_to_one(to, total):
    with pytest.raises(ModelError, match=rf"out of 'I' sum to {total}, not 1: "):
        Progression("I", to, WEEK)


def test_rounding_is_no_error():
    to = {name: 0.1 for name in "ABCDEFGHIJ"}
    assert functools.reduce(operator.add, to.values()) != 1.0
    assert Progression("X", to, WEEK).to == to
    assert Progression("X", {"A": 1}, WEEK).to == Progression("X", "A", WEEK).to == {"A": 1.0}


def test_a_progression_leads_to_names_after_a_distribution():
    for to in (None, ["R"], 3):
        with pytest.raises(ModelError, match="the progression out of 'I' leads to .*; expected"):
            Progression("I", to, WEEK)
    for time in (5.0, None, "5 days", Exponential):
        with pytest.raises(ModelError, match=r"holding time of 'I' is .*; expected a distribution"):
            Progression("I", "R", time)


# ---- the graph


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compartments": "SEIRS"}, "compartment 'S' is listed more than once"),
        *(
            (
                {"compartments": ["S", name]},
                f"{name!r} cannot name a compartment; expected text without commas, other than "
                "'cases', which counts infections",
            )
            for name in ("I,J", "cases", "", 1)
        ),
        ({"compartments": ()}, "expected 1 to 255 compartments, found 0"),
        (
            {"compartments": [str(k) for k in range(256)]},
            "expected 1 to 255 compartments, found 256",
        ),
        ({"infections": []}, "the model has no infection; expected at least one"),
        (
            {"infections": [Infection("S", "X", {"I": 1})]},
            "unknown compartment 'X' in the infection S -> X; the model has S, E, I, R",
        ),
        (
            {"infections": [Infection("X", "E", {"I": 1})]},
            "unknown compartment 'X' in the infection X -> E; the model has S, E, I, R",
        ),
        (
            {"infections": [Infection("S", "E", {"X": 1})]},
            "unknown compartment 'X' in the infection S -> E; the model has S, E, I, R",
        ),
        (
            {"progressions": [Progression("X", "R", DAY)]},
            "unknown compartment 'X' in the progression out of X; the model has S, E, I, R",
        ),
        (
            {"progressions": [Progression("E", {"I": 1.0, "X": 0.0}, DAY)]},
            "unknown compartment 'X' in the progression out of E; the model has S, E, I, R",
        ),
        (
            {"progressions": [Progression("E", "I", DAY), Progression("E", "R", DAY)]},
            "compartment 'E' has two progressions; give one with branching probabilities",
        ),
        (
            {"progressions": [Progression("E", {"E": 0.5, "I": 0.5}, DAY)]},
            "compartment 'E' progresses to itself",
        ),
        (
            {"progressions": [Progression("I", "R", WEEK)]},
            "compartment 'I' cannot be reached: no infection or progression leads there; 'E' has "
            "no holding time (Progression) out of it",
        ),
        (
            {"progressions": [Progression("E", "I", DAY)]},
            "compartment 'R' cannot be reached: no infection or progression leads there; 'I' has "
            "no holding time (Progression) out of it",
        ),
        (
            {
                "compartments": "SEIRX",
                "progressions": [
                    Progression("E", "I", DAY), Progression("I", "R", WEEK),
                    Progression("R", "S", WEEK), Progression("X", "R", DAY),
                ],
            },
            "compartment 'X' cannot be reached: no infection or progression leads there",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_a_model_is_named(changes, message):
    with pytest.raises(ModelError) as caught:
        seir(**changes)
    assert str(caught.value) == message


def test_the_largest_and_the_smallest_model():
    names = [str(k) for k in range(255)]
    chain = [Progression(a, b, DAY) for a, b in zip(names[1:], names[2:], strict=False)]
    largest = CompartmentModel(names, [Infection("0", "1", {"1": 1.0})], chain)
    assert largest.index["254"] == 254
    assert CompartmentModel.si(transmission_rate=0.0).infectious == ()


def test_what_is_infectious_and_what_recurs():
    model = seir(infections=[Infection("S", "E", {"I": 0.5, "E": 0.1, "R": 0.0})])
    assert model.infectious == ("E", "I")
    assert not model.recurrent
    assert not CompartmentModel.si(transmission_rate=1).recurrent
    back = [Progression("E", "I", DAY), Progression("I", {"R": 0.5, "S": 0.5}, WEEK)]
    assert seir(progressions=back).recurrent
    # A way that nobody takes is none.
    never = [Progression("E", "I", DAY), Progression("I", {"R": 1.0, "S": 0.0}, WEEK)]
    assert not seir(progressions=never).recurrent
    # A loop that does not pass through S is one too.
    loop = [
        Progression("E", "I", DAY), Progression("I", {"R": 0.5, "E": 0.5}, WEEK)
    ]  # fmt: skip
    assert seir(progressions=loop).recurrent
    two = seir(
        infections=[Infection("S", "E", {"I": 0.5}), Infection("R", "S", {"I": 0.1})],
    )
    assert two.recurrent


# ---- ready-made models

MADE = {
    "si": (("S", "I"), {"I": 0.5}, {}, False),
    "sis": (("S", "I"), {"I": 0.5}, {"I": {"S": 1.0}}, True),
    "sir": (("S", "I", "R"), {"I": 0.5}, {"I": {"R": 1.0}}, False),
    "sirs": (("S", "I", "R"), {"I": 0.5}, {"I": {"R": 1.0}, "R": {"S": 1.0}}, True),
    "seir": (("S", "E", "I", "R"), {"I": 0.5}, {"E": {"I": 1.0}, "I": {"R": 1.0}}, False),
    "seirs": (
        ("S", "E", "I", "R"), {"I": 0.5}, {"E": {"I": 1.0}, "I": {"R": 1.0}, "R": {"S": 1.0}}, True,
    ),
    "seird": (
        ("S", "E", "I", "R", "D"), {"I": 0.5},
        {"E": {"I": 1.0}, "I": {"R": 0.75, "D": 0.25}}, False,
    ),
    "seair": (
        ("S", "E", "A", "I", "R"), {"A": 0.25, "I": 0.5},
        {"E": {"A": 0.25, "I": 0.75}, "A": {"R": 1.0}, "I": {"R": 1.0}}, False,
    ),
}  # fmt: skip
OPTIONS = {
    "si": (), "sis": ("infectious",), "sir": ("infectious",), "sirs": ("infectious", "immune"),
    "seir": ("latent", "infectious"), "seirs": ("latent", "infectious", "immune"),
    "seird": ("latent", "infectious"), "seair": ("latent", "infectious", "asymptomatic"),
}  # fmt: skip
NUMBERS = {
    "seird": {"fatality": 0.25},
    "seair": {"asymptomatic_probability": 0.25, "asymptomatic_infectivity": 0.5},
}


def made(name, **changes):
    times = {option: Exponential(mean=k + 1) for k, option in enumerate(OPTIONS[name])}
    given = {"transmission_rate": 0.5, **times, **NUMBERS.get(name, {}), **changes}
    return getattr(CompartmentModel, name)(**given)


@pytest.mark.parametrize("name", MADE)
def test_a_ready_made_model_is_what_it_says(name):
    compartments, rates, ways, recurrent = MADE[name]
    model = made(name)
    assert model.compartments == compartments
    (infection,) = model.infections
    assert (infection.susceptible, infection.infected) == ("S", compartments[1])
    assert infection.transmission_rate == rates
    assert {p.compartment: p.to for p in model.progressions} == ways
    assert model.recurrent == recurrent
    stays = {"latent": "E", "infectious": "I", "immune": "R", "asymptomatic": "A"}
    expected = {stays[option]: k + 1 for k, option in enumerate(OPTIONS[name])}
    found = {p.compartment: p.holding_time.mean for p in model.progressions}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_branch_may_be_taken_by_nobody_or_by_everybody(share):
    for model, stage, rare, usual in (
        (made("seird", fatality=share), "I", "D", "R"),
        (made("seair", asymptomatic_probability=share), "E", "A", "I"),
    ):
        stages = stages_of(model, "float64")
        k = model.index[stage]
        rows = slice(stages.branch_start[k], stages.branch_start[k + 1])
        assert stages.branch_to[rows].tolist() == [model.index[rare if share else usual]]
        assert rare in model.compartments


def test_a_share_that_is_none_is_an_error():
    with pytest.raises(ModelError, match=r"branching probability I -> R is -0\.5"):
        made("seird", fatality=1.5)
    with pytest.raises(ModelError, match=r"branching probability E -> A is -1"):
        made("seair", asymptomatic_probability=-1)


# ---- identity


def test_equal_descriptions_are_equal_models():
    one, other = seir(), seir(compartments=["S", "E", "I", "R"])
    assert one == other
    assert one.digest == other.digest
    # However a distribution is parametrised, and whatever numbers are made of.
    by_rate = Progression("E", {"I": np.float64(1)}, Exponential(rate=1))
    assert seir(progressions=[by_rate, Progression("I", "R", WEEK)]).digest == one.digest


def test_any_difference_changes_the_digest():
    models = [
        seir(),
        seir(compartments=("S", "E", "R", "I")),
        seir(infections=[Infection("S", "E", {"I": 0.26})]),
        seir(infections=[Infection("S", "E", {"I": 0.25, "E": 0.1})]),
        seir(infections=[Infection("S", "I", {"I": 0.25}), Infection("S", "E", {"I": 0.25})]),
        seir(progressions=[Progression("E", "I", WEEK), Progression("I", "R", WEEK)]),
        seir(progressions=[Progression("E", {"I": 0.5, "R": 0.5}, DAY),
                           Progression("I", "R", WEEK)]),
        seir(progressions=[Progression("E", "I", LogNormal(mean=1, median=0.9)),
                           Progression("I", "R", WEEK)]),
        seir(susceptibility="age"),
        seir(infectivity="age"),
    ]  # fmt: skip
    assert len({model.digest for model in models}) == len(models)
    assert all(a != b for i, a in enumerate(models) for b in models[:i])


def test_the_order_of_branches_is_no_difference():
    def branching(to):
        return seir(
            compartments="SEIRD",
            progressions=[Progression("E", "I", DAY), Progression("I", to, WEEK)],
        )

    one = branching({"R": 0.9, "D": 0.1})
    other = branching({"D": 0.1, "R": 0.9})
    assert one == other
    assert one.digest == other.digest
    for a, b in zip(stages_of(one, "float32"), stages_of(other, "float32"), strict=True):
        assert np.array_equal(a, b)
