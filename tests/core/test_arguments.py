"""Time grids and integers, checked at the door."""

import numpy as np
import pytest

import ergode
from ergode import trajectories
from ergode.core.arguments import check_range, count_of, did_you_mean, integer, time_grid


def test_what_becomes_a_grid():
    for times in ([0, 1, 2], range(3), np.arange(3.0), (t for t in (0, 1, 2)), {0: 1, 1: 2, 2: 3}):
        assert time_grid(times).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("times", [5, 2.5, np.float32(5), np.int64(5), np.array(5.0)])
def test_a_number_is_no_grid(times):
    with pytest.raises(ergode.ModelError, match=r"did you mean \[0, "):
        time_grid(times)


def test_dates_are_no_numbers():
    with pytest.raises(ergode.ModelError, match="dates"):
        time_grid(np.array(["2026-03-01", "2026-03-02"], "datetime64[D]"))


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([], "not empty"),
        (["a"], "expected a list of numbers"),
        ([[0, 1]], r"shape \(1, 2\)"),
        ([0, np.inf], r"times\[1\] is inf"),
        ([0, 1, 1], r"times\[2\] = 1 follows times\[1\] = 1"),
        (None, "times is None; expected a list of numbers"),
        (np.ma.masked_equal([0, 1, 2], 1), r"times\[1\] is nan; expected finite ones"),
    ],
)
def test_what_does_not(times, message):
    with pytest.raises(ergode.ModelError, match=message):
        time_grid(times)


def test_integers_have_bounds():
    assert integer("count", np.int32(3), 1, 5) == 3
    for value, message in (
        (2.0, "expected an integer"),
        (True, "expected an integer"),
        (6, "1 to 5"),
    ):
        with pytest.raises(ergode.PlanError, match=message):
            integer("count", value, 1, 5)


def begin(t, y, p):
    return (0.0,)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ergode.Event("A > 1", {"A": 0}, persistent="no"), "persistent is 'no'"),
        (lambda: ergode.Event("A > 1", {"A": 0}, initially_true=0), "initially_true is 0"),
        (lambda: ergode.Event("A > 1", {"A": 0}, values_from_trigger=""), "trigger is ''"),
        (lambda: ergode.Event("A > 1", {"A": 0}, name=3), "an event: name is 3"),
        (lambda: ergode.Reaction("A -> B", rate_constant=1.0, name=3), "a reaction: name is 3"),
        (lambda: ergode.Species("A", boundary="no"), "'A': boundary is 'no'"),
        (lambda: ergode.Species("A", constant="no"), "'A': constant is 'no'"),
        (lambda: ergode.Vaccination(leaky="no"), "Vaccination: leaky is 'no'"),
        (lambda: ergode.ContactNetwork.from_edges([0], [1], directed="no"), "directed is 'no'"),
        (lambda: ergode.ContactNetwork(1, [0, 0], [], directed="no"), "directed is 'no'"),
        (lambda: ergode.ContactNetwork.spatial(9, 2, periodic="no"), "periodic is 'no'"),
        (lambda: trajectories.ZeroCrossing(begin, terminal="yes"), "terminal is 'yes'"),
        (lambda: trajectories.ZeroCrossing(begin, name=3), "ZeroCrossing: name is 3"),
        (lambda: trajectories.ZeroCrossing(begin, direction=True), "direction is True"),
        (lambda: trajectories.Observable(begin, begin, begin, name=3), "Observable: name is 3"),
        (lambda: trajectories.Observable(begin, begin, begin, "a", size="2"), "size .* is '2'"),
        (lambda: trajectories.TimeAbove("x", "2"), "TimeAbove: level is '2'"),
        (lambda: trajectories.TimeAbove("x", float("nan")), "TimeAbove: level is nan"),
    ],
)
def test_a_switch_is_true_or_false_and_a_name_is_text(make, said):
    """Any text counted as True, and a number was a name."""
    with pytest.raises(ergode.ErgodeError, match=said):
        make()


def test_a_precision_holds_what_is_neither_infinite_nor_zero_in_it():
    check_range({"a": np.array([0.0, 1e-45, 3e38, np.nan])}, "float32")
    check_range({"a": np.array([1e-46, 1e39])}, "float64")
    with pytest.raises(
        ergode.PlanError, match=r"a is 1e\+39; float32 holds numbers up to 3.4e\+38"
    ):
        check_range({"a": np.array([1.0, 1e39])}, "float32")
    with pytest.raises(ergode.PlanError, match="a is -1e-46, for float32 the same as 0"):
        check_range({"a": np.array([1.0, -1e-46])}, "float32")


def test_times_are_counted_before_they_are_read():
    assert count_of(np.broadcast_to(0.0, 10**9)) == 10**9
    assert count_of(range(5)) == 5 and count_of([1, 2]) == 2
    assert count_of(3.0) == count_of(None) == count_of(iter([1])) == 1


@pytest.mark.parametrize(
    ("name", "known", "suggested"),
    [
        ("h2", ["N2", "H2", "H2O"], "H2"), ("N3", ["H2", "N2"], "N2"),
        ("alpha", ["Alpha"], "Alpha"), ("alfa", ("beta", "alpha"), "alpha"),
        ("q", ["H2"], None), (3, ["x"], None), ("x", (), None),
    ],
)  # fmt: skip
def test_a_name_that_is_spelt_alike_is_suggested(name, known, suggested):
    found = did_you_mean(name, known)
    assert found == ("" if suggested is None else f"; did you mean '{suggested}'?")


def unknown_names():
    network = ergode.ReactionNetwork(
        {"N2": 1, "H2": 1}, [ergode.Reaction("N2 -> H2", rate_constant="alpha1")],
        parameters={"alpha1": 1.0},
    )  # fmt: skip
    model = ergode.CompartmentModel(
        ["Susceptible", "Infected"],
        [ergode.Infection("Susceptible", "Infected", {"Infected": 1.0})],
    )
    contacts = ergode.ContactNetwork.from_edges([0], [1])
    spin = ergode.fields.rotation()
    return [
        lambda: ergode.stochastic.simulate(network, times=[0, 1], initial={"h2": 1}),
        lambda: ergode.stochastic.simulate(network, times=[0, 1], parameters={"alpha": 1}),
        lambda: ergode.kinetics.integrate(network, times=[0, 1], initial={"N3": 1}),
        lambda: ergode.kinetics.integrate(network, times=[0, 1], initial={"N2": 1}, atol={"h2": 1}),
        lambda: ergode.epidemics.simulate(model, contacts, times=[0, 1], initial={"infected": 1}),
        lambda: ergode.trajectories.integrate(
            spin, times=[0, 1], initial={"X": 1, "y": 0}, parameters={"rate": 1}
        ),
        lambda: ergode.trajectories.integrate(
            spin, times=[0, 1], initial={"x": 1, "y": 0}, parameters={"Rate": 1}
        ),
        lambda: ergode.field_from_equations({"x": "-rat * x"}, parameters=["rate"]),
    ]


@pytest.mark.parametrize("which", range(len(unknown_names())))
def test_every_engine_suggests_a_name(which):
    with pytest.raises(ergode.ErgodeError, match="did you mean '"):
        unknown_names()[which]()
