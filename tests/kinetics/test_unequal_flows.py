"""Tanks whose mass changes: closed forms, SciPy, Cantera, and what is refused."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import burning
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics import PlugFlow, StirredTank, Trajectory, Wall, integrate

ct = pytest.importorskip("cantera")
pytest.importorskip("ruamel.yaml")
PATH = Path(ct.__file__).parent / "data" / "h2o2.yaml"
ATM = 1.01325e6
FEED = {"H2": 2.0, "O2": 1.0, "AR": 4.0}
DECAY = ergode.ReactionNetwork({"A": 1.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant=3.0)])


def test_a_batch_that_is_fed_is_exact():
    """The amount N = c V obeys N' = F c_in - k N - r F N / V; the volume grows with the mass."""
    times, tau = np.array([2.0, 2.3, 3.0, 3.9]), 0.5
    ratio = np.array([0.0, 0.4, 1.0, 1.2])
    tank = StirredTank({"A": 4.0}, tau, outflow_ratio=ratio)
    found = integrate(
        DECAY, times=times, reactor=tank, rtol=1e-8, atol=1e-12, device="cpu", method="rodas4"
    )
    for k, r in enumerate(ratio):
        volume = 1.0 + (1.0 - r) / tau * (times - times[0])

        def change(t, n, r=r):
            size = 1.0 + (1.0 - r) / tau * (t - 2.0)
            flow = r / tau / size
            return [4.0 / tau - 3.0 * n[0] - flow * n[0], 3.0 * n[0] - flow * n[1]]

        exact = solve_ivp(change, (2.0, 3.9), [1.0, 0.0], "DOP853", times, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(found["concentration"][k], (exact.y / volume).T, rtol=1e-6)
        np.testing.assert_allclose(found["mass_ratio"][k], volume, rtol=1e-14)
    whole = found["concentration"].sum("species")[0] * found["mass_ratio"][0]
    np.testing.assert_allclose(whole, 1.0 + 4.0 / tau * (times - 2.0), rtol=1e-12)
    assert found["conservation_error"].max() < 1e-6


def test_a_bottle_that_is_filled_warms(hydrogen):
    """Argon: T = (m_0 T_0 + gamma T_in F t) / (m_0 + F t), and p V = n R T."""
    times, tau = np.array([0.0, 0.5, 1.0, 3.0]), np.array([1.0, 0.25])
    found = integrate(
        hydrogen, times=times, initial={"AR": 1.0}, temperature=300.0, pressure=ATM, rtol=1e-7,
        reactor=StirredTank({"AR": 1.0}, tau, 400.0, outflow_ratio=0.0), device="cpu",
        heating="constant-volume",
    )  # fmt: skip
    mass = 1.0 + times / tau[:, None]
    hot = (300.0 + 5.0 / 3.0 * 400.0 * (mass - 1.0)) / mass
    np.testing.assert_allclose(found["temperature"], hot, rtol=1e-6)
    np.testing.assert_allclose(found["pressure"], ATM * mass * hot / 300.0, rtol=1e-6)
    np.testing.assert_allclose(found["density"] / found["density"].isel(time=0), mass, rtol=1e-7)


def test_a_piston_over_a_bottle_that_is_filled_is_that_of_scipy(hydrogen):
    """m c_v T' = F c_p T_in - F c_v T - r F R T - p V'; and a pressure that is given."""
    times, tau, r = np.linspace(0, 2.0, 5), 0.8, 0.3

    def volume(t):
        return 1.0 + 0.3 * np.sin(2.0 * t)

    def change(t, y):
        mass, bulk = 1.0 + (1.0 - r) / tau * t, 0.6 * np.cos(2.0 * t) / volume(t)
        gained = (2.5 * 400.0 - 1.5 * y[0] - r * y[0]) / tau - mass * y[0] * bulk
        return [gained / (1.5 * mass)]

    def at_pressure(t, y):
        mass = 1.0 + (1.0 - r) / tau * t
        gained = (2.5 * 400.0 - 2.5 * y[0]) / tau / mass + y[0] * 0.2 / (1.0 + 0.2 * t)
        return [gained / 2.5]

    tank = StirredTank({"AR": 1.0}, tau, 400.0, outflow_ratio=r)
    options = {"times": times, "initial": {"AR": 1.0}, "temperature": 300.0, "rtol": 1e-6,
               "reactor": tank, "device": "cpu"}  # fmt: skip
    moved = integrate(hydrogen, pressure=ATM, volume=volume, heating="given-volume", **options)
    exact = solve_ivp(change, (0, 2.0), [300.0], "DOP853", times, rtol=1e-10).y[0]
    np.testing.assert_allclose(moved["temperature"][0], exact, rtol=2e-6)
    line = Trajectory([0.0, 2.0], [ATM, 1.4 * ATM])
    pressed = integrate(hydrogen, pressure=line, heating="given-pressure", **options)
    exact = solve_ivp(at_pressure, (0, 2.0), [300.0], "DOP853", times, rtol=1e-10).y[0]
    np.testing.assert_allclose(pressed["temperature"][0], exact, rtol=2e-6)


def tank_of_cantera(kind, hot, times, tau, ratio, wall):
    """Temperatures and densities of a burning tank."""
    gas, feed = ct.Solution(str(PATH)), ct.Solution(str(PATH))
    gas.TPX = hot, ct.one_atm, FEED
    feed.TPX = 700.0, ct.one_atm, FEED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make = {"constant-volume": ct.IdealGasReactor,
                "constant-pressure": ct.IdealGasConstPressureReactor}[kind]  # fmt: skip
        tank, source, sink = make(gas), ct.Reservoir(feed), ct.Reservoir(feed)
        flow = tank.mass / tau
        ct.MassFlowController(source, tank, mdot=flow)
        ct.MassFlowController(tank, sink, mdot=ratio * flow)
        if wall:
            outside = ct.Solution(str(PATH))
            outside.TPX = 400.0, ct.one_atm, "AR:1"
            ct.Wall(tank, ct.Reservoir(outside), A=2e2 * tank.volume, U=50.0)
        net = ct.ReactorNet([tank])
    net.rtol, net.atol = 1e-10, 1e-18
    found = []
    for t in times[1:]:
        net.advance(t)
        found.append((tank.T, 1e-3 * tank.density))
    return np.array(found).T


@pytest.mark.slow
@pytest.mark.parametrize("wall", [False, True])
@pytest.mark.parametrize("kind", ["constant-volume", "constant-pressure"])
@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.3])
def test_a_burning_tank_is_that_of_cantera(hydrogen, kind, ratio, wall):
    times, tau = np.array([0.0, 1e-4, 3e-4, 1e-3]), 4e-4
    exact = tank_of_cantera(kind, 1150.0, times, tau, ratio, wall)
    found = integrate(
        hydrogen, times=times, initial=FEED, temperature=1150.0, pressure=ATM, heating=kind,
        reactor=StirredTank(FEED, tau, 700.0, outflow_ratio=ratio), rtol=1e-7, device="cpu",
        wall=Wall(5e4, 400.0, 2.0) if wall else None,
    ).isel(zone=0)  # fmt: skip
    assert exact[0].max() > 2000.0
    np.testing.assert_allclose(found["temperature"][1:], exact[0], rtol=3e-5)
    np.testing.assert_allclose(found["density"][1:], exact[1], rtol=3e-5)


def test_what_is_refused():
    with pytest.raises(ergode.ModelError, match="outflow_ratio is -1"):
        StirredTank({"A": 1.0}, 1.0, outflow_ratio=-1.0)
    tank = StirredTank({"A": 1.0}, 0.5, outflow_ratio=[0.5, 1.5])
    with pytest.raises(ergode.ModelError, match="tank of zone 1 is empty at the time 2"):
        integrate(DECAY, times=[1.0, 2.5], reactor=tank)
    gas = burning()
    with pytest.raises(ergode.ModelError, match="and the reactor a PlugFlow; expected a tank"):
        integrate(gas, times=[0, 1], initial={"H2": 1.0}, temperature=1e3, reactor=PlugFlow(1.0),
                  pressure=Trajectory([0, 1], [1e6, 2e6]), heating="given-pressure")  # fmt: skip


@pytest.mark.parametrize("last", [2.0, 1e3, 1e5])
def test_a_tank_does_not_know_how_long_the_run_is(hydrogen, last):
    """Argon into argon: T = gamma T_0 (1 - (1 - 1 / gamma) / (1 + t)), and m = 1 + t."""
    feed = StirredTank({"AR": 1.0}, 1.0, temperature=300.0, outflow_ratio=0.0)
    found = integrate(
        hydrogen, times=[0, 1, last], initial={"AR": 1.0}, temperature=300.0, pressure=ATM,
        heating="constant-volume", reactor=feed, device="cpu",
    )  # fmt: skip
    gamma = 5.0 / 3.0
    exact = gamma * 300.0 * (1.0 - (1.0 - 1.0 / gamma) / (1.0 + np.array([1.0, last])))
    np.testing.assert_allclose(found["temperature"][0, 1:], exact, rtol=1e-4)
    np.testing.assert_allclose(found["pressure"][0, 1], ATM * 2.0 * exact[0] / 300.0, rtol=1e-4)
