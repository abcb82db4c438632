"""What a model, a network and a grid of times become, without a kernel."""

import numpy as np
import pytest
from leap_cases import aging, memoryless, weighted_network

import ergode
from ergode.epidemics.leap import options, plan
from ergode.epidemics.shared.arcs import arcs_into, arcs_of


def rules_of(model, network):
    return plan.rules_of(model, network, network.weights, "float64")


def test_equal_steps_end_at_every_time():
    schedule, equal = plan.schedule_of(np.array([0.0, 1.0, 3.0]), 0.25, None, "float64")
    assert equal and schedule.tick == 0.25 and schedule.per_tick == 4.0
    np.testing.assert_array_equal(schedule.grid_tick, [0, 4, 12])


def test_steps_that_differ_are_counted_in_fine_ticks():
    schedule, equal = plan.schedule_of(np.array([0.0, 1.0, 1.25, 2.0]), 0.5, None, "float64")
    assert not equal and schedule.step_ticks == 2**28
    np.testing.assert_array_equal(schedule.grid_tick, np.array([0, 4, 5, 8]) * 2**27)


def test_rates_of_arcs_that_are_alike_are_counts():
    network = ergode.ContactNetwork.from_edges([0, 1, 2], [1, 2, 0])
    rules, rounding = rules_of(aging(), network)
    assert rounding == 0.0 and rules.unit == 0.8 and rules.rate.tolist() == [1.0]
    assert (rules.susceptible_mask, rules.leaving_mask, rules.keeping_mask) == (1, 6, 7)


def test_other_rates_are_rounded_to_a_fine_unit():
    network = weighted_network()
    rules, rounding = rules_of(memoryless(), network)
    rates = rules.rate * float(rules.unit)
    np.testing.assert_allclose(rates, [0.9, 0.6, 0.1, 0.3], rtol=1e-12)
    assert rules.infection.tolist() == [0, 1, 1, 2]
    heaviest = np.bincount(network.targets, network.weights).max()
    assert heaviest / float(rules.unit) == pytest.approx(2**30)  # from I, at 0.9 + 0.1
    assert 0 < rounding < 1e-3


@pytest.mark.parametrize(("transition", "taken"), [("sampled", True), ("conditional", False)])
def test_thresholds_need_times_that_are_drawn(transition, taken):
    network = ergode.ContactNetwork.from_edges([0, 1, 2], [1, 2, 0])
    rules, _ = rules_of(aging(), network)
    bound = plan.bindings_of(
        aging(), transition, rules, weighted=False, tabulated=True, adaptive=False, counted=True
    )
    assert bound[options.THRESHOLDS] is taken and bound[options.AGED]


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("numbered", [True, False])
def test_arcs_into_a_node_are_those_out_of_others(directed, numbered):
    network = ergode.ContactNetwork.from_edges(
        [0, 0, 1], [1, 2, 2], weights=[1.0, 2.0, 3.0], directed=directed
    )
    outgoing = arcs_of(network, network.weights, "float64")
    incoming, number = arcs_into(network, outgoing, alike=True, numbered=numbered)
    assert (incoming is outgoing) == (not directed and not numbered)
    if incoming is not outgoing:
        np.testing.assert_array_equal(incoming.weights, outgoing.weights[number])
    if directed:
        assert incoming.offsets.tolist() == [0, 0, 1, 3]
        assert incoming.targets.tolist() == [0, 0, 1] and incoming.weights.tolist() == [1, 2, 3]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", [[], [0.0]])
def test_rates_are_numbers_where_nobody_infects_anybody(weight):
    count = len(weight)
    network = ergode.ContactNetwork.from_edges(
        np.zeros(count, int), np.ones(count, int), weights=np.array(weight), node_count=3
    )
    rules, rounding = rules_of(aging(), network)
    assert np.isfinite(rules.rate).all() and np.isfinite(rounding)
