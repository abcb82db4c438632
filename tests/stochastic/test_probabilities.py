"""The master equation against closed forms, and what cannot be solved."""

import numpy as np
import pytest
from scipy import stats
from small_networks import DIMERISATION, IMMIGRATION_DEATH, SCHLOEGL

import ergode
from ergode import Event, Reaction, ReactionNetwork, Species
from ergode.stochastic.master_equation import states as states_module

TIMES = [0.0, 0.5, 2.0, 30.0]
DECAY = ReactionNetwork({"X": 200}, [Reaction("X -> 0", rate_constant=0.7)])


def solve(network, times=TIMES, **options):
    return ergode.stochastic.probabilities(network, times=times, **options)


def hold_against(result, species, exact):
    """Every probability is a lower bound, and what is missing is the error that is stated."""
    for k, pmf in enumerate(exact):
        found = result["probability"].sel(species=species).values[k]
        expected = pmf(result["amount"].values)
        missing = 1.0 - expected.sum() + (expected - found).sum()
        error = float(result["truncation_error"][k])
        assert (found <= expected * (1 + 1e-9) + 1e-14).all()
        assert missing == pytest.approx(error, rel=1e-3, abs=1e-10)
    assert error <= result.attrs["tolerance"]


def immigration_death(time, start=3):
    left = np.exp(-0.5 * time)
    of_start = stats.binom.pmf(np.arange(start + 1), start, left)
    return lambda n: sum(
        p * stats.poisson.pmf(n - k, 20 * (1 - left)) for k, p in enumerate(of_start)
    )


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_birth_and_death(tolerance):
    result = solve(IMMIGRATION_DEATH, tolerance=tolerance)
    hold_against(result, "X", [immigration_death(t) for t in TIMES])
    mean = 20 + (3 - 20) * np.exp(-0.5 * np.array(TIMES))
    assert np.abs(result["mean"].sel(species="X") - mean).max() < 100 * tolerance


def test_births_alone_reach_new_states_all_the_time():
    births = ReactionNetwork({"X": 0}, [Reaction("0 -> X", rate_constant=40.0)])
    result = solve(births, [0.0, 1.0, 10.0])
    hold_against(result, "X", [stats.poisson(40 * t).pmf for t in (0, 1, 10)])


def test_deaths_alone_and_a_shifted_time():
    result = solve(DECAY, np.array(TIMES) + 1e6)
    hold_against(result, "X", [stats.binom(200, np.exp(-0.7 * t)).pmf for t in TIMES])
    assert result.attrs["states"] <= 201


@pytest.mark.parametrize("time", [60.0, 1e9])
def test_pairs_come_to_equilibrium(time):
    """By the matrix in steps and by its squares; with amounts and with concentrations."""
    number = np.arange(16)  # of pairs; two molecules meet at the rate 0.02 / 2 p (p - 1)
    ratios = 0.01 * (30 - 2 * number) * (29 - 2 * number) / (0.1 * (number + 1))
    weights = np.concatenate([[1.0], np.cumprod(ratios[:-1])])
    per_volume = ReactionNetwork(
        [
            Species(
                one.name, 15 if one.initial else 0, compartment="cell", quantity="concentration"
            )
            for one in DIMERISATION.species
        ],
        [
            Reaction("2 P -> P2", rate="cell * 0.02 * P * (P - 1 / cell)"),
            Reaction("P2 -> 2 P", rate="cell * 0.1 * P2"),
        ],
        compartments={"cell": 2.0},
    )
    for network in (DIMERISATION, per_volume):
        result = solve(network, [0.0, time])
        found = result["probability"].sel(species="P2").isel(time=1).values[:16]
        np.testing.assert_allclose(found, weights / weights.sum(), atol=2e-6)
        assert result.attrs["states"] == 16  # the number of atoms is conserved


def test_a_stiff_switch_for_a_long_time():
    """The variance of a gene's product: Poisson's, and what the fast gene adds to it."""
    gene = ReactionNetwork(
        {"off": 1, "on": 0, "P": 0},
        [
            Reaction("off -> on", rate_constant=1e3),
            Reaction("on -> off", rate_constant=1e3),
            Reaction("on -> on + P", rate_constant=20.0),
            Reaction("P -> 0", rate_constant=1.0),
        ],
    )
    result = solve(gene, [0.0, 1e5], tolerance=1e-9).isel(time=1)
    np.testing.assert_allclose(result["mean"], [0.5, 0.5, 10.0], rtol=1e-6)
    added = 20.0**2 * 0.25 / (1.0 + 2e3)
    assert float(result["variance"].sel(species="P")) == pytest.approx(10 + added, rel=1e-6)


def test_a_rate_that_changes_at_a_time():
    """Births faster until 1.25, in a parameter and a rule."""
    network = ReactionNetwork(
        {"X": 0},
        [Reaction("0 -> X", rate="slow * (4 if early > 0 else 1)")],
        parameters={"slow": 1.0, "until": 1.25},
        rules={"early": "1 if time < until else 0", "twice": "2 * X"},
    )
    result = solve(network, [0.0, 1.0, 3.0], parameters={"slow": 2.0})
    hold_against(result, "X", [stats.poisson(m).pmf for m in (0, 8.0, 10 + 2 * 1.75)])
    np.testing.assert_allclose(result["value_mean"].sel(rule="early"), [1, 1, 0])
    np.testing.assert_allclose(
        result["value_variance"].sel(rule="twice"), 4 * result["variance"][:, 0]
    )


def test_a_condition_that_stops():
    """Four births at the rate 2: Erlang's distribution. Nothing happens in states that stop."""
    births = ReactionNetwork({"X": 0}, [Reaction("0 -> X", rate_constant=2.0)])
    result = solve(births, TIMES, stop="X >= 4")
    np.testing.assert_allclose(result["stopped"], stats.gamma(4, scale=0.5).cdf(TIMES), atol=1e-9)
    assert result["amount"].values.tolist() == [0, 1, 2, 3, 4]


def test_the_joint_probability_belongs_to_its_states():
    result = solve(SCHLOEGL, [0.0, 1.0])
    joint, amounts = result["joint_probability"].values, result["state_amount"].values[:, 0]
    again = np.zeros((2, amounts.max() + 1))
    np.add.at(again, (slice(None), amounts), joint)
    shown = result["probability"][:, 0].sel(amount=np.unique(amounts))
    np.testing.assert_array_equal(again[:, np.unique(amounts)], shown)


def test_species_that_do_not_change_and_reactions_that_change_nothing():
    network = ReactionNetwork(
        [Species("A", 1_000_000, boundary=True), Species("X", 2), Species("Z", 0, constant=True)],
        [
            Reaction("A -> X", rate_constant=5e-6),
            Reaction("X -> X", rate_constant=1e9),
            Reaction("X -> Z", rate_constant=1.0),
        ],
    )
    result = solve(network, [0.0, 40.0])
    alone = solve(
        ReactionNetwork(
            {"X": 2}, [Reaction("0 -> X", rate_constant=5.0), Reaction("X -> 0", rate_constant=1.0)]
        ),
        [0.0, 40.0],
    )
    for name in ("mean", "variance"):
        np.testing.assert_allclose(
            result[name].sel(species="X"), alone[name].sel(species="X"), atol=1e-4
        )
    np.testing.assert_allclose(result["mean"].sel(species="A"), 1e6, rtol=1e-12)


def test_nothing_happens():
    for network in (
        ReactionNetwork({"X": 5}, []),
        ReactionNetwork({"X": 5}, [Reaction("X -> 0", rate_constant=0.0)]),
    ):
        result = solve(network, [1.0, 2.0])
        assert result["probability"].sel(amount=5).values.tolist() == [[1.0], [1.0]]
    only = solve(DECAY, [3.0], initial={"X": np.int64(7)})
    assert only["mean"].values.tolist() == [[7.0]]


def test_states_with_one_key_are_noticed(monkeypatch):
    """With the first numbers drawn, all states of a conversion have the same key."""

    class Draws:
        numbers = iter([np.zeros(2, np.int64), np.array([3, 12345])])

        def integers(self, *_):
            return next(self.numbers)

    monkeypatch.setattr(states_module.np.random, "default_rng", lambda seed: Draws())
    network = ReactionNetwork({"A": 20, "B": 0}, [Reaction("A -> B", rate_constant=1.0)])
    result = solve(network, [0.0, 1.0])
    hold_against(result, "A", [stats.binom(20, np.exp(-t)).pmf for t in (0, 1)])


BIRTH = Reaction("0 -> X", rate_constant=1.0)


@pytest.mark.parametrize(
    ("reaction", "message"),
    [
        (Reaction("0 -> X", rate="1 + sin(time)"), "'R1' depends on time otherwise"),
        (Reaction("0 -> X", rate="1 if time > X else 2"), "'R1' depends on time otherwise"),
        (Reaction("0 -> X", rate_constant=1.0, delay=2.0), "'R1' has a delay"),
        (Reaction("X -> 0", rate=1.0), "'R1' has the rate 1 at X = 0.*make 'X' negative"),
        (Reaction("X -> 0", rate="X - 2.5"), "'R1' has the rate -0.5 at X = 2.*0 or more"),
        (Reaction("X -> 0", rate="1 / (X - 2) ^ 2"), "'R1' has the rate inf at X = 2"),
    ],
)
def test_what_has_no_answer_is_refused_by_name(reaction, message):
    network = ReactionNetwork({"X": 3}, [reaction])
    with pytest.raises(ergode.ErgodeError, match=message):
        solve(network, [0.0, 1.0])


def test_other_refusals():
    event = ReactionNetwork({"X": 3}, [BIRTH], events=[Event("time >= 1", {"X": 0}, name="wash")])
    with pytest.raises(ergode.PlanError, match="has the event 'wash'"):
        solve(event)
    with pytest.raises(ergode.PlanError, match="more than 10 states .* max_states"):
        solve(IMMIGRATION_DEATH, max_states=10)
    explodes = ReactionNetwork({"X": 2}, [Reaction("2 X -> 3 X", rate_constant=1.0)])
    with pytest.raises(ergode.PlanError, match="more than 500 states .* at time 2.5"):
        solve(explodes, [0.0, 5.0], max_states=500)
    with pytest.raises(ergode.PlanError, match="more than 60 states .*; at the point alpha = 40$"):
        solve(IMMIGRATION_DEATH, parameters=ergode.grid(alpha=[10.0, 40.0]), max_states=60)
    for wrong in (0, 1.0, np.nan, "small"):
        with pytest.raises(ergode.PlanError, match="tolerance is .*1e-12 to 0.5"):
            solve(IMMIGRATION_DEATH, tolerance=wrong)
    for amount in (2.5, 1e-13):  # the latter, say, in moles
        with pytest.raises(ergode.ModelError, match=f"initial amount of 'X' is {amount:g}.*in_mol"):
            solve(IMMIGRATION_DEATH, initial={"X": amount})
    with pytest.raises(ergode.PlanError, match="'time > 2', depends on time"):
        solve(IMMIGRATION_DEATH, stop="time > 2")


def test_points_of_a_sweep_are_what_they_are_alone():
    """Paired and crossed; rules that have no value in states of other points, and a condition."""
    network = ReactionNetwork(
        {"X": "n"},
        [Reaction("0 -> X", rate="births"), Reaction("X -> 0", rate_constant=0.5)],
        parameters={"births": 1.0, "n": 2.0, "most": 40.0},
        rules={"left": "log(most - X)"},
    )
    paired = {"births": [0.5, 3.0, 1.0], "most": [40.0, 60.0, 50.0]}
    swept = solve(network, [0.0, 1.0], parameters=paired, stop="X > 8")
    assert swept["probability"].dims == ("point", "time", "species", "amount")
    crossed = solve(network, [0.0, 1.0], parameters=ergode.grid(**paired), stop="X > 8")
    assert crossed.sizes["births"] == crossed.sizes["most"] == 3
    for k in range(3):
        own = {name: values[k] for name, values in paired.items()}
        alone = solve(network, [0.0, 1.0], parameters=own, stop="X > 8")
        for found in (swept.isel(point=k), crossed.sel(own)):
            for name in ("mean", "variance", "truncation_error", "stopped", "value_mean"):
                np.testing.assert_allclose(found[name], alone[name], rtol=1e-12, err_msg=name)
            both = found["probability"].sel(amount=alone["amount"])
            np.testing.assert_allclose(both, alone["probability"], rtol=1e-12)
            # States that are never reached at a point have no probability there.
            assert (found["joint_probability"] > 0).sum() == (alone["joint_probability"] > 0).sum()
    assert crossed.attrs["products"] > swept.attrs["products"]
    many = solve(network, [0.0, 1.0], initial={"X": [0, 5]})
    np.testing.assert_allclose(
        many["mean"][:, 1, 0], np.array([0, 5]) * np.exp(-0.5) + 2 * (1 - np.exp(-0.5)), atol=1e-5
    )


def test_species_may_have_any_names():
    def pair(first, second):
        return ReactionNetwork({first: 3, second: 3}, [
            *(Reaction({name: 2}, {}, rate_constant=0.4) for name in (first, second)),
            *(Reaction({}, {name: 1}, rate_constant=0.5) for name in (first, second)),
            Reaction({first: 1}, {second: 1}, rate_constant=0.4),
            Reaction({second: 1}, {first: 1}, rate_constant=0.4),
        ])  # fmt: skip

    found, named = (solve(pair(*names), [0.0, 1.0]) for names in (("A[0]", "A[1]"), ("A", "B")))
    np.testing.assert_array_equal(found["probability"], named["probability"])
    assert found["species"].values.tolist() == ["A[0]", "A[1]"]
    means = [
        ergode.stochastic.linear_noise(pair(*names), times=[0.0, 1.0])["mean"]
        for names in (("A[0]", "A[1]"), ("A", "B"))
    ]
    np.testing.assert_array_equal(*means)
