"""Tanks whose inflow changes in time: SciPy, Cantera, and what is refused."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import ARGON, burning
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics import StirredTank, Trajectory, Wall, integrate

ATM = 1.01325e6
DECAY = ergode.ReactionNetwork({"A": 1.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant=3.0)])
GAS = burning()


def dose(time):
    """Comes, stops, and comes again."""
    return max(0.0, np.sin(2.0 * time)) ** 2


def strength(time):
    return 2.0 + np.sin(3.0 * time)


def decaying(times, tau, ratio, feed, flow):
    """Amounts of A and B, and the mass."""

    def change(t, y):
        pace = flow(t) / tau
        gone = 3.0 * y[0]
        return [
            pace * (feed(t) - y[0]) / y[2] - gone,
            gone - pace * y[1] / y[2],
            (1 - ratio) * pace,
        ]

    return solve_ivp(
        change, (times[0], times[-1]), [1.0, 0.0, 1.0], "Radau", times, rtol=1e-11, atol=1e-13,
        max_step=0.02,
    ).y  # fmt: skip


def test_doses_into_a_batch_are_those_of_scipy():
    """A concentration and a flow over time; the flow stops; masses that grow, stay and fall."""
    times, ratio = np.linspace(1.0, 4.0, 7), np.array([0.0, 1.0, 1.3])
    tank = StirredTank({"A": strength}, 0.9, outflow_ratio=ratio, flow_ratio=dose)
    for rtol, within in ((1e-4, 1e-5), (1e-6, 1e-7)):
        found = integrate(DECAY, times=times, reactor=tank, rtol=rtol, device="cpu")
        for k, one in enumerate(ratio):
            exact = decaying(times, 0.9, one, strength, dose)
            np.testing.assert_allclose(found["concentration"][k].T, exact[:2], atol=within)
            np.testing.assert_allclose(found["mass_ratio"][k], exact[2], rtol=within)
    assert found["conservation_error"].max() < 1e-10
    assert found.attrs["inflow"] == "A=over time, flow_ratio=over time"
    np.testing.assert_allclose(found["residence_time"], 0.9)


@pytest.mark.exhaustive
def test_tables_by_zone_and_their_parts(tmp_path):
    """Rows of a Trajectory; a step of the concentration; what stays is that of numbers."""
    times = np.array([0.0, 1.0, 2.0])
    edge = np.nextafter(1.0, 2.0)
    table = Trajectory([0.0, 1.0, edge, 2.0], [[1.0, 1.0, 4.0, 4.0], [2.0, 2.0, 0.0, 0.0]])
    tank = StirredTank({"A": table}, [0.5, 0.2])
    options = {"times": times, "rtol": 1e-7, "device": "cpu"}
    found = integrate(DECAY, reactor=tank, **options)["concentration"]
    for k, (tau, feeds) in enumerate(((0.5, (1.0, 4.0)), (0.2, (2.0, 0.0)))):
        a, rate = 1.0, 3.0 + 1.0 / tau
        for step, feed in enumerate(feeds):
            steady = feed / tau / rate
            a = steady + (a - steady) * np.exp(-rate)
            np.testing.assert_allclose(found[k, step + 1, 0], a, rtol=1e-6)
    parts = integrate(DECAY, reactor=tank, **options, store=tmp_path / "r.zarr", chunk=1)
    np.testing.assert_array_equal(parts["concentration"], found)
    same = [
        integrate(DECAY, reactor=StirredTank({"A": feed}, 0.5), **options)["concentration"]
        for feed in (2.0, Trajectory([0.0, 2.0], [2.0, 2.0]))
    ]
    np.testing.assert_allclose(same[0], same[1], rtol=1e-6, atol=1e-9)


def fuel(time):
    return 0.1 * (1.0 + np.sin(2000.0 * time))


def oxidizer(time):
    return 1.0 + 0.5 * np.cos(1500.0 * time)


def tank_of_cantera(ct, kind, times, tau, ratio, wall):
    """Temperatures, densities and concentrations; the initial mass fractions, and the density."""
    path = str(Path(ct.__file__).parent / "data" / "h2o2.yaml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gas, one, other, around = (ct.Solution(path) for _ in range(4))
        gas.TPX = 1150.0, ct.one_atm, {"H2": 2.0, "O2": 1.0, "AR": 4.0}
        one.TPY = 700.0, ct.one_atm, "H2:1"
        other.TPY = 700.0, ct.one_atm, "O2:0.3, AR:0.7"
        around.TPX = 400.0, ct.one_atm, "AR:1"
        begin = dict(zip(gas.species_names, gas.Y, strict=True)), 1e-3 * gas.density
        make = {"constant-volume": ct.IdealGasReactor,
                "constant-pressure": ct.IdealGasConstPressureReactor}[kind]  # fmt: skip
        tank = make(gas)
        pace = tank.mass / tau
        for source, flow in ((one, fuel), (other, oxidizer)):
            ct.MassFlowController(
                ct.Reservoir(source), tank, mdot=lambda t, flow=flow: pace * flow(t)
            )
        ct.MassFlowController(
            tank, ct.Reservoir(one), mdot=lambda t: ratio * pace * (fuel(t) + oxidizer(t))
        )
        if wall:
            ct.Wall(tank, ct.Reservoir(around), A=2e2 * tank.volume, U=50.0)
        net = ct.ReactorNet([tank])
    net.rtol, net.atol, net.max_time_step = 1e-10, 1e-20, 1e-5
    found = []
    for t in times[1:]:
        net.advance(t)
        found.append((tank.T, 1e-3 * tank.density, *(1e-3 * tank.phase.concentrations)))
    return np.array(found), *begin


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["constant-volume", "constant-pressure"])
@pytest.mark.parametrize("wall", [False, True])
def test_a_burning_tank_with_two_feeds_is_that_of_cantera(kind, wall):
    """Its fuel and its oxidizer come by flows of their own; with a wall, half of it stays."""
    pytest.importorskip("ruamel.yaml")
    ct = pytest.importorskip("cantera")
    network = ergode.read_cantera(Path(ct.__file__).parent / "data" / "h2o2.yaml")
    times, tau, ratio = np.array([0.0, 2e-4, 5e-4, 1e-3, 3e-3]), 1e-3, 0.5 if wall else 1.0
    exact, start, density = tank_of_cantera(ct, kind, times, tau, ratio, wall)
    inflow = {"H2": fuel, "O2": lambda t: 0.3 * oxidizer(t), "AR": lambda t: 0.7 * oxidizer(t)}
    tank = StirredTank(
        inflow, tau, 700.0, outflow_ratio=ratio, flow_ratio=lambda t: fuel(t) + oxidizer(t)
    )
    for rtol, within in ((1e-4, 1e-5), (1e-6, 1e-7)):
        found = integrate(
            network, times=times, initial=start, temperature=1150.0, density=density, rtol=rtol,
            heating=kind, reactor=tank, wall=Wall(5e4, 400.0, 2.0) if wall else None, device="cpu",
        ).isel(zone=0, time=slice(1, None))  # fmt: skip
        np.testing.assert_allclose(found["temperature"], exact[:, 0], rtol=within)
        np.testing.assert_allclose(found["density"], exact[:, 1], rtol=within)
        np.testing.assert_allclose(
            found["concentration"], exact[:, 2:], atol=within * exact[:, 2:].max()
        )
    assert exact[:, 0].max() > 2000.0


@pytest.mark.exhaustive
def test_argon_that_comes_warmer_and_warmer():
    """At constant pressure the temperature is a mixture: T' = (T_in - T) / tau."""
    times, tau = np.linspace(0.0, 2.0, 5), 0.5
    found = integrate(
        ARGON, times=times, initial={"AR": 1.0}, temperature=300.0, pressure=ATM, device="cpu",
        reactor=StirredTank({"AR": 1.0}, tau, temperature=lambda t: 300.0 + 100.0 * t), rtol=1e-7,
        heating="constant-pressure",
    )  # fmt: skip
    exact = 300.0 + 100.0 * (times - tau + tau * np.exp(-times / tau))
    np.testing.assert_allclose(found["temperature"][0], exact, rtol=1e-7)


def asked(reactor, **changes):
    return integrate(DECAY, **{"times": [0, 1], "device": "cpu", "reactor": reactor} | changes)


REFUSED = [
    (lambda: StirredTank({"A": 1.0}, 1.0, flow_ratio=2.0), "flow_ratio is 2.0; expected a Traj"),
    (
        lambda: asked(StirredTank({"A": lambda t: -1.0}, 1.0)),
        "inflow 'A' is -1 in zone 0; expected a finite number, 0 or more",
    ),
    (lambda: asked(StirredTank({"A": lambda t: "much"}, 1.0)), "inflow 'A' as a function of time"),
    (
        lambda: asked(StirredTank({"A": lambda t: [1.0, 2.0]}, 1.0)),
        "inflow 'A' as a function of time",
    ),
    (
        lambda: asked(StirredTank({"A": 1.0}, 1.0, flow_ratio=lambda t: np.nan)),
        "flow_ratio is nan in zone 0",
    ),
    (
        lambda: asked(StirredTank({"A": strength}, 1.0, lambda t: 300.0 + t)),
        "the inflow has a temperature, which has no effect",
    ),
    (
        lambda: asked(
            StirredTank({"A": 1.0}, 0.2, outflow_ratio=2.0, flow_ratio=lambda t: 1.0 + t)
        ),
        "the tank of zone 0 is empty at the time",
    ),
    (
        lambda: integrate(
            GAS, times=[0, 1e-6], initial={"H2": 1.0}, temperature=1e3, pressure=1e6, device="cpu",
            reactor=StirredTank({"H2": lambda t: 1.0 if t < 5e-7 else 0.0}, 1.0),
        ),
        "inflow is empty at the time 5",
    ),
    (
        lambda: asked(StirredTank({"H": strength}, 1.0)),
        "inflow has the species 'H', which the network does not have",
    ),
    (
        lambda: StirredTank({"A": strength}, 1.0, tank_count=2),
        "inflow 'A' changes in time, and tank_count is 2",
    ),
    (
        lambda: asked(StirredTank({"A": Trajectory([0, 1], np.ones((2, 2)))}, [1.0, 2.0, 3.0])),
        "inflow 'A' has 2 values and residence_time has 3",
    ),
    (
        lambda: asked(StirredTank({"A": 1.0}, [1.0, 2.0, 3.0], outflow_ratio=[0.5, 0.6])),
        "outflow_ratio has 2 values and residence_time has 3",
    ),
]  # fmt: skip


@pytest.mark.parametrize("flow", [lambda t: 1.0 + t, Trajectory([0.0, 2.0], [1.0, 3.0])])
def test_one_flow_enters_tanks_of_several_residence_times(flow):
    """A tracer, of which exp(-(t + t^2 / 2) / tau) is missing in a tank at the time t."""
    stay, times = np.array([1.0, 2.0]), np.array([0.0, 1.0, 2.0])
    network = ergode.ReactionNetwork({"A": 1.0}, [])
    tank = StirredTank({"A": 1.0}, stay, flow_ratio=flow)
    found = integrate(
        network, times=times, initial={"A": 0.0}, reactor=tank, rtol=1e-7, device="cpu"
    )["concentration"].values[..., 0]
    exact = 1.0 - np.exp(-(times + times**2 / 2) / stay[:, None])
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_is_refused(make, words):
    with pytest.raises(ergode.ModelError) as caught:
        make()
    assert words in str(caught.value) and "\n" not in str(caught.value)
