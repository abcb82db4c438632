"""Chains of stirred tanks: closed forms, plug flow as a limit, and what is refused."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import gammainc

import ergode
from ergode.kinetics import StirredTank, Trajectory, integrate, plug_flow

ATM = 1.01325e6
FEED = {"H2": 2.0, "O2": 1.0, "AR": 4.0}
INERT = ergode.ReactionNetwork({"A": 0.0}, [])
DECAY = ergode.ReactionNetwork(
    {"A": 0.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant="k")], parameters={"k": 3.0}
)


@pytest.mark.parametrize(("rtol", "within"), [(3e-5, 5e-5), (1e-8, 1e-8)])
def test_a_tracer_leaves_by_the_law_of_erlang(rtol, within):
    """A step at the inlet of n equal tanks: the sum of k exponential times, for the tank k."""
    n, times = 10, np.linspace(0.0, 4.0, 9)
    chain = StirredTank({"A": 1.0}, 1.0 / n, tank_count=n)
    found = integrate(INERT, times=times, reactor=chain, rtol=rtol, device="cpu")
    exact = gammainc(np.arange(1, n + 1)[:, None], n * times)
    np.testing.assert_allclose(found["concentration"][:, :, 0], exact, atol=within)
    assert found.attrs["tank_count"] == n and (found["status"] == 0).all()


def test_unequal_tanks_are_a_linear_system():
    """Two chains side by side, each with its own feed; amounts and residence times by tank."""
    tau, start = np.array([0.5, 0.2, 1.0, 2.0, 0.1, 0.3]), np.array([1.0, 0.0, 2.0, 0.5, 0.0, 0.0])
    feed, times = np.array([4.0, 1.0]), np.array([0.0, 0.1, 0.7, 2.0])
    found = integrate(
        DECAY, times=times, initial={"A": start}, rtol=1e-8, device="cpu",
        reactor=StirredTank({"A": feed}, tau, tank_count=3),
    )["concentration"]  # fmt: skip
    for chain in range(2):
        part = slice(3 * chain, 3 * chain + 3)
        # Amounts of A, then of B, in three tanks; and the feed, which is one.
        matrix = np.zeros((7, 7))
        for k in range(3):
            own = 1.0 / tau[part][k]
            matrix[k, k], matrix[3 + k, 3 + k], matrix[3 + k, k] = -3.0 - own, -own, 3.0
            if k:
                matrix[k, k - 1] = matrix[3 + k, 2 + k] = own
        matrix[0, 6] = feed[chain] / tau[part][0]
        begin = np.concatenate([start[part], np.zeros(3), [1.0]])
        exact = np.array([expm(matrix * t) @ begin for t in times])
        np.testing.assert_allclose(found[part, :, 0].T, exact[:, :3], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found[part, :, 1].T, exact[:, 3:6], rtol=1e-7, atol=1e-9)


@pytest.mark.exhaustive
def test_a_decay_is_steady_and_kept():
    """c_k = c_0 / (1 + k tau)^k, and A + B of the last tank is A of the feed."""
    found = integrate(
        DECAY, times=[0, 100], reactor=StirredTank({"A": 2.0}, 0.5, tank_count=4), device="cpu",
        rtol=1e-9, parameters={"k": [3.0, 0.4]},
    )  # fmt: skip
    last = found["concentration"][:, :, -1]
    exact = 2.0 / (1.0 + 0.5 * np.array([[3.0], [0.4]])) ** np.arange(1, 5)
    np.testing.assert_allclose(last[:, :, 0], exact, rtol=1e-6)
    np.testing.assert_allclose(last.sum("species"), 2.0, rtol=1e-9)
    scaled = integrate(
        DECAY, times=[0, 100], reactor=StirredTank({"A": 2.0}, 0.5, tank_count=4), device="cpu",
        rtol=1e-6, rate_factors=[0.4 / 3.0],
    )  # fmt: skip
    np.testing.assert_allclose(scaled["concentration"][:, -1, 0], exact[1], rtol=1e-6)
    found = ergode.kinetics.sensitivities(
        integrate, DECAY, times=[0, 100], reactor=StirredTank({"A": 2.0}, 0.5, tank_count=4),
        rtol=1e-9, device="cpu",
    )["concentration_sensitivity"]  # fmt: skip
    slope = -np.arange(1, 5) * 1.5 / 2.5  # -n k tau / (1 + k tau)
    np.testing.assert_allclose(found[0, :, -1, 0], slope, atol=1e-3)


def test_one_tank_is_a_tank_and_the_first_of_several_is_one(tmp_path):
    options = {"times": [0.0, 0.2, 1.0], "rtol": 1e-8, "device": "cpu", "initial": {"A": 1.0}}
    alone = integrate(DECAY, reactor=StirredTank({"A": 2.0}, 0.5), **options)
    one = integrate(DECAY, reactor=StirredTank({"A": 2.0}, 0.5, tank_count=1), **options)
    np.testing.assert_array_equal(alone["concentration"], one["concentration"])
    assert "tank_count" not in one.attrs and "mass_ratio" not in one
    chain = StirredTank({"A": 2.0}, [0.5, 1e-9, 1e30], tank_count=3)
    three = integrate(DECAY, reactor=chain, **options)["concentration"]
    np.testing.assert_allclose(three[0], alone["concentration"][0], rtol=1e-7)
    # A huge flow hands on what it gets; without a flow, a tank is a closed zone.
    np.testing.assert_allclose(three[1, 1:], three[0, 1:], rtol=1e-7)
    closed = integrate(DECAY, **options)["concentration"][0]
    np.testing.assert_allclose(three[2], closed, rtol=1e-7, atol=1e-12)
    kept = integrate(DECAY, reactor=chain, **options, store=tmp_path / "run.zarr")
    np.testing.assert_array_equal(kept["concentration"], three)


@pytest.mark.exhaustive
def test_tolerances_of_each_tank():
    """The tightest determines the steps; the order of names does not matter."""
    options = {"times": [0, 1], "device": "cpu", "atol": 1e-12}
    chain = StirredTank({"A": 2.0, "B": 0.1}, [0.5, 0.3], tank_count=2)
    tight = integrate(DECAY, reactor=chain, rtol=1e-8, **options)
    mixed = integrate(DECAY, reactor=chain, rtol=[1e-4, 1e-8], **options)
    assert mixed["step_count"][0] > 0.5 * tight["step_count"][0]
    np.testing.assert_allclose(mixed["concentration"], tight["concentration"], rtol=1e-6)
    turned = StirredTank({"B": 0.1, "A": 2.0}, [0.5, 0.3], tank_count=2)
    again = integrate(DECAY, reactor=turned, rtol=1e-8, **options)
    np.testing.assert_array_equal(again["concentration"], tight["concentration"])


@pytest.mark.exhaustive
def test_many_tanks_are_plug_flow(hydrogen):
    """The error falls as one over the number of tanks, so two numbers give the limit."""
    given = {"temperature": 1300.0, "pressure": ATM, "device": "cpu", "rtol": 1e-6,
             "heating": "isothermal-constant-pressure", "initial": FEED}  # fmt: skip
    tube = plug_flow(hydrogen, positions=[0, 0.05, 1.0], velocity=1e3, **given)
    # All that is at the end of the tube has this age.
    age, y = float(tube["age"][0, -1]), tube["mole_fraction"].sel(species="H2O")[0, -1].item()

    def at_the_end(n):
        chain = StirredTank(FEED, age / n, tank_count=n)
        found = integrate(hydrogen, times=[0.0, 4.0 * age], reactor=chain, **given)
        last = found["concentration"][-1, -1]
        return float(last.sel(species="H2O") / last.sum())

    few, many = at_the_end(20), at_the_end(40)
    assert abs(many - y) < 0.7 * abs(few - y) and abs(2 * many - few - y) < 0.25 * abs(many - y)


def asked(reactor, network=DECAY, **changes):
    return integrate(network, **{"times": [0, 1], "device": "cpu", "reactor": reactor} | changes)


FIXED = ergode.ReactionNetwork(
    [ergode.Species("A", 1.0), ergode.Species("M", 3.0, boundary=True)],
    [ergode.Reaction("A + M -> M", rate_constant=1.0)],
)
TIMED = ergode.ReactionNetwork(
    {"A": 1.0}, [ergode.Reaction("A -> 0", rate_constant=ergode.RateExpression("1 + time"))]
)
TWO = StirredTank({"A": 1.0}, 1.0, tank_count=2)
REFUSED = [
    (lambda: StirredTank({"A": 1.0}, 1.0, tank_count=0), "tank_count is 0; expected a whole"),
    (lambda: StirredTank({"A": 1.0}, 1.0, tank_count=2.0), "tank_count is 2.0; expected a whole"),
    (
        lambda: StirredTank({"A": 1.0}, 1.0, outflow_ratio=0.5, tank_count=2),
        "outflow_ratio is 0.5, and tank_count 2",
    ),
    (lambda: asked(TWO, initial={"A": [1.0, 2.0, 3.0]}), "tank_count is 2, and initial 'A' has 3"),
    (
        lambda: asked(StirredTank({"A": [1.0, 2.0]}, [1.0, 2.0], tank_count=2)),
        "residence_time has 2 values and inflow 'A' (in the 2 tanks of each chain) has 4",
    ),
    (lambda: asked(TWO, TIMED), "tank_count is 2, and a condition, parameter or coefficient"),
    (
        lambda: asked(TWO, temperature=Trajectory([0, 1], [300.0, 400.0])),
        "tank_count is 2, and a condition, parameter or coefficient changes in time",
    ),
    (
        lambda: asked(TWO, FIXED, initial={"A": 1.0, "M": [1.0, 2.0]}),
        "the amount of 'M', which is fixed, differs between the tanks 0 and 1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_is_refused(make, words):
    with pytest.raises(ergode.ModelError) as caught:
        make()
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_fixed_amount_may_be_that_of_all_tanks():
    found = asked(TWO, FIXED, times=[0, 50])["concentration"]
    np.testing.assert_allclose(found[:, -1], [[0.25, 3.0], [0.0625, 3.0]], rtol=1e-3)
