"""Tanks that branch and flow back: a linear system, steady states, a chain, and what is refused.

`tests/referees/test_reactors.py` has random networks of burning tanks against Cantera.
"""

import numpy as np
import pytest
from kernel_cases import burning
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import ergode
from ergode.kinetics import StirredTank, Trajectory, integrate

DECAY = ergode.ReactionNetwork({"A": 0.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant=3.0)])
LOOP = [("in", 0, 1.0), (0, 1, 2.0), (1, 0, 1.0), (1, "out", 1.0)]
BRANCHES = [
    ("in", 0, 1.0), ("in", 2, 0.5), (0, 1, 31.0), (1, 0, 30.0), (1, 2, 1.0), (2, 1, 0.3),
    (2, "out", 1.2), (1, "out", 0.3),
]  # fmt: skip


def linear(flows, tau, feed, start, times):
    """Amounts of A and of B in all tanks, by the exponential of a matrix."""
    tanks = len(tau)
    between, outside = np.zeros((tanks, tanks)), np.zeros(tanks)
    for begin, end, flow in flows:
        if begin == "in":
            outside[end] += flow
        elif end != "out":
            between[end, begin] += flow
    pace = 1.0 / (np.asarray(tau) * (between.sum(axis=1) + outside))
    flow = pace[:, None] * between - np.diag(1.0 / np.asarray(tau))
    matrix = np.zeros((2 * tanks + 1,) * 2)
    matrix[:tanks, :tanks] = flow - 3.0 * np.eye(tanks)
    matrix[tanks:-1, tanks:-1], matrix[tanks:-1, :tanks] = flow, 3.0 * np.eye(tanks)
    matrix[:tanks, -1] = pace * outside * feed
    begin = np.concatenate([start, np.zeros(tanks), [1.0]])
    return np.array([(expm(matrix * t) @ begin)[:-1].reshape(2, tanks) for t in times])


@pytest.mark.parametrize(("flows", "tau"), [(LOOP, [0.25, 0.5]), (BRANCHES, [0.01, 0.02, 0.5])])
def test_tanks_that_flow_back_are_a_linear_system(flows, tau):
    """Also where thirty times as much flows back as into the network; and two networks."""
    times, start = np.array([0.0, 0.1, 0.5, 2.0, 50.0]), np.linspace(1.0, 2.0, len(tau))
    found = integrate(
        DECAY, times=times, initial={"A": np.r_[start, 2.0 * start]}, rtol=1e-8, device="cpu",
        reactor=StirredTank({"A": np.r_[np.full(len(tau), 4.0), np.full(len(tau), 8.0)]},
                            [*tau, *tau], flows=flows),
    )  # fmt: skip
    assert found.attrs["method"] == "bdf" and found["conservation_error"].max() < 1e-7
    exact = linear(flows, tau, 4.0, start, times)
    one, other = np.split(found["concentration"].values.transpose(1, 2, 0), 2, axis=2)
    np.testing.assert_allclose(one, exact, atol=3e-7)
    np.testing.assert_allclose(other, 2.0 * exact, atol=6e-7)
    # All that comes in as A goes out, as A or B.
    np.testing.assert_allclose(one[-1].sum(axis=0), 4.0, rtol=1e-6)


def test_a_network_of_tanks_in_series_is_a_chain():
    """A whole number of tanks is told by the flows."""
    tau, times = [0.5, 0.2, 1.0], [0.0, 0.3, 2.0]
    flows = [("in", 0, 5.0), (0, 1, 5.0), (1, 2, 5.0), (2, "out", 5.0)]
    one, other = (
        integrate(DECAY, times=times, reactor=tank, rtol=1e-8, device="cpu")
        for tank in (
            StirredTank({"A": 2.0}, tau, flows=flows), StirredTank({"A": 2.0}, tau, tank_count=3)
        )
    )  # fmt: skip
    np.testing.assert_array_equal(one["concentration"], other["concentration"])
    assert one.attrs["tank_count"] == 3


def test_formulas_and_tables_in_tanks_that_flow_back():
    """Of the amounts in each tank, against SciPy."""
    table = ergode.Tabulated(ergode.TemperatureTable([1e8, 1e9], [0.0, 0.0]), 2.0)
    network = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0},
        [
            ergode.Reaction("A -> B", rate_constant=ergode.RateExpression("K * A / (0.1 + A + B)")),
            ergode.Reaction("B -> A", rate_constant=table),
        ],
        parameters={"K": 5.0},
    )
    tau, times = np.array([0.25, 0.5]), [0.0, 0.1, 1.0, 9.0]
    found = integrate(
        network, times=times, temperature=3e8, rtol=1e-8, device="cpu",
        reactor=StirredTank({"A": 4.0}, tau, flows=LOOP),
    )["concentration"]  # fmt: skip
    weights = np.array([[0.0, 0.5], [1.0, 0.0]])

    def change(t, y):
        a, b = y.reshape(2, 2)
        made = 5.0 * a * a / (0.1 + a + b) - 2.0 * b
        return np.r_[-made + (np.array([2.0, 0.0]) + weights @ a - a) / tau,
                     made + (weights @ b - b) / tau]  # fmt: skip

    exact = solve_ivp(change, (0.0, 9.0), [1, 1, 0, 0], "LSODA", times, rtol=1e-10, atol=1e-12).y
    np.testing.assert_allclose(found.transpose("species", "zone", "time").values.reshape(4, -1),
                               exact, atol=3e-7)  # fmt: skip


def asked(flows, network=DECAY, **changes):
    given = {"times": [0, 1], "device": "cpu"} | changes
    inflow = given.pop("inflow", {"A": 1.0})
    return integrate(network, reactor=StirredTank(inflow, 1.0, flows=flows), **given)


REFUSED = [
    ([("in", 0)], "flows has ('in', 0); expected (from, to, flow)"),
    ([("in", 0, 1.0), (0, -1, 1.0)], "flows has (0, -1, 1.0), to -1; expected the number of a"),
    ([("out", 0, 1.0)], "flows has ('out', 0, 1.0), from 'out'; expected the number of a tank, or"),
    ([("in", 0, 1.0), (0, 0, 1.0)], "flows has (0, 0, 1.0), from a tank to itself"),
    ([("in", 0, -1.0)], "flow is -1 in zone 0"),
    ([(0, 1, 1.0), (1, 0, 1.0)], "flows has none from 'in'"),
    ([("in", 0, 1.0), (0, 1, 0.7), (1, "out", 0.7)], "flows of 1 go into tank 0, and of 0.7 out"),
]  # fmt: skip


@pytest.mark.parametrize(("flows", "words"), REFUSED)
def test_what_is_refused(flows, words):
    with pytest.raises(ergode.ModelError) as caught:
        asked(flows)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_what_networks_of_tanks_cannot_do():
    with pytest.raises(ergode.ModelError, match="tank_count is 3, and flows has 2 tanks"):
        StirredTank({"A": 1.0}, 1.0, tank_count=3, flows=LOOP)
    with pytest.raises(ergode.ModelError, match="changes in time, and tank_count is 2"):
        asked(LOOP, inflow={"A": Trajectory([0, 1], [1.0, 2.0])})
    with pytest.raises(ergode.ModelError, match="inflow is empty in zone 0"):
        asked(LOOP, burning(), temperature=1e3, pressure=1e6, initial={"H2": 1.0},
              inflow={"H2": 0.0})  # fmt: skip
    with pytest.raises(ergode.PlanError, match="'rodas4' cannot integrate connected tanks; use 'b"):
        asked(LOOP, method="rodas4")
