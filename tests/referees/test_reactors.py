"""Tanks, tubes, compressions, pistons and walls against Cantera, and how a flame ignites."""

from pathlib import Path

import numpy as np
import pytest
from fresh import fresh_seeds
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics import Piston, StirredTank, Trajectory, Wall, integrate, plug_flow

ct = pytest.importorskip("cantera")
pytest.importorskip("ruamel.yaml")
pytestmark = [pytest.mark.exhaustive, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
PATH = Path(ct.__file__).parent / "data" / "h2o2.yaml"
FEED, BURNT = {"H2": 2.0, "O2": 1.0, "N2": 3.76}, {"H2O": 2.0, "N2": 3.76}
ATM = 1.01325e6


@pytest.fixture(scope="module")
def network():
    return ergode.read_cantera(PATH)


def tank_of_cantera(kind, tau, hot, cold, times):
    """Temperatures, pressures [Pa] and mole fractions of a tank with controlled flows of mass."""
    gases = [ct.Solution(str(PATH)) for _ in range(3)]
    gases[0].TPX = cold, ct.one_atm, FEED
    gases[1].TPX = hot, ct.one_atm, BURNT
    inlet, outlet = (ct.Reservoir(gases[k], clone=False) for k in (0, 2))
    reactor = kind(gases[1], clone=False)
    flow = reactor.mass / tau
    controllers = [
        ct.MassFlowController(a, b, mdot=flow) for a, b in ((inlet, reactor), (reactor, outlet))
    ]
    net = ct.ReactorNet([reactor])
    net.rtol, net.atol = 1e-10, 1e-18
    found = []
    for t in times:
        net.advance(t)
        found.append([reactor.T, gases[1].P, *gases[1].X])
    assert len(controllers) == 2
    return np.array(found)


@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure"])
def test_a_tank_is_that_of_cantera(network, heating):
    kind = ct.IdealGasReactor
    if heating == "constant-pressure":
        kind = ct.IdealGasConstPressureReactor
    taus, times = np.array([1e-3, 1e-4, 1e-5]), np.array([0.0, 1e-5, 1e-4, 1e-3, 1e-2])
    tank = StirredTank(FEED, taus, 700.0)
    found = integrate(
        network, times=times, temperature=1600.0, pressure=ATM, initial=BURNT, heating=heating,
        reactor=tank, rtol=1e-8, device="cpu",  # a tank of 1e-4 s is near its extinction
    )  # fmt: skip
    for k, tau in enumerate(taus):
        expected = tank_of_cantera(kind, tau, 1600.0, 700.0, times[1:])
        one = found.isel(zone=k, time=slice(1, None))
        amounts = one["concentration"].values
        fractions = amounts / amounts.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(one["temperature"], expected[:, 0], rtol=1e-6)
        np.testing.assert_allclose(one["pressure"], 10.0 * expected[:, 1], rtol=1e-6)
        np.testing.assert_allclose(fractions, expected[:, 2:], atol=1e-7)


@pytest.mark.parametrize("heating", ["constant-pressure", "isothermal-constant-pressure"])
def test_a_tube_is_that_of_scipy_with_the_rates_of_cantera(network, heating):
    positions, speed, hot = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 10.0]), 1e4, 1200.0
    found = plug_flow(
        network, positions=positions, velocity=speed, temperature=hot, pressure=ATM, initial=FEED,
        heating=heating, rtol=1e-7, device="cpu",
    ).isel(zone=0)  # fmt: skip
    gas = ct.Solution(str(PATH))
    gas.TPX = hot, ct.one_atm, FEED
    flux = gas.density * speed * 1e-2

    def change(z, y):
        gas.set_unnormalized_mass_fractions(y[2:])
        gas.TP = y[0], ct.one_atm
        made = gas.net_production_rates
        warmer = -(gas.partial_molar_enthalpies @ made) / (flux * gas.cp_mass)
        warmer = warmer if heating == "constant-pressure" else 0.0
        return np.concatenate([[warmer, gas.density / flux], made * gas.molecular_weights / flux])

    start = np.concatenate([[hot, 0.0], gas.Y])
    exact = solve_ivp(
        change, (0.0, 0.1), start, "Radau", 1e-2 * positions, rtol=1e-9, atol=1e-16
    ).y  # fmt: skip
    mass = found["mole_fraction"].values * gas.molecular_weights
    np.testing.assert_allclose(found["temperature"], exact[0], rtol=1e-6)
    np.testing.assert_allclose(found["age"], exact[1], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(mass / mass.sum(axis=1, keepdims=True), exact[2:].T, atol=1e-6)
    np.testing.assert_allclose(found["velocity"] * found["density"], 0.1 * flux, rtol=1e-9)


def compressed(kind, hot, start, points, wall, times):
    """Temperatures by SciPy with the rates of Cantera, from one knot to the next."""
    gas = ct.Solution(str(PATH))
    gas.TPX = hot, 0.1 * start, FEED
    mass, found = gas.density, [hot]  # of a volume of one at first
    heat = 1e-1 * wall.heat_transfer_coefficient[0] * wall.area[0]  # [W/(m3 K)]
    around = wall.temperature[0]

    def change(t, y, begin, end):
        given = begin[1] + (end[1] - begin[1]) * (t - begin[0]) / (end[0] - begin[0])
        slope = (end[1] - begin[1]) / (end[0] - begin[0])
        gas.set_unnormalized_mass_fractions(y[1:])
        if kind == "given-volume":
            volume, rate = given / points.values[0], slope / points.values[0]
            gas.TD = y[0], mass / volume
            each, capacity, work = gas.partial_molar_int_energies, gas.cv_mass, -gas.P * rate
        else:
            gas.TP = y[0], 0.1 * given
            volume = mass / gas.density
            each, capacity, work = gas.partial_molar_enthalpies, gas.cp_mass, volume * 0.1 * slope
        made = gas.net_production_rates
        warmer = work + heat * (around - y[0]) - volume * (each @ made)
        return np.concatenate(
            [[warmer / (mass * capacity)], made * gas.molecular_weights / gas.density]
        )

    y = np.concatenate([[hot], gas.Y])
    knots = np.union1d(points.times, times)
    rows = np.stack([knots, np.interp(knots, points.times, points.values)], axis=1)
    for begin, end in zip(rows[:-1], rows[1:], strict=True):
        y = solve_ivp(
            change, (begin[0], end[0]), y, "Radau", args=(begin, end), rtol=1e-9, atol=1e-16
        ).y[:, -1]  # fmt: skip
        if end[0] in times:
            found.append(y[0])
    return np.array(found)


@pytest.mark.parametrize("kind", ["given-volume", "given-pressure"])
@pytest.mark.parametrize("seed", range(3))
def test_random_compressions_with_walls_are_those_of_scipy(network, kind, seed):
    """Kinks, expansions, and walls that heat or cool; with both Rosenbrock methods."""
    compress(network, kind, seed, {"rodas4": (1e-7, 3e-6), "rosenbrock23": (1e-5, 3e-4)})


def compress(network, kind, seed, methods):
    rng = np.random.default_rng(seed)
    end = 10.0 ** rng.uniform(-4, -2.5)
    knots = np.concatenate([[0.0], np.sort(rng.uniform(0.1, 0.9, 3)), [1.0]]) * end
    hot, start = rng.uniform(700.0, 1100.0), ATM * 10.0 ** rng.uniform(-0.5, 0.5)
    values = np.exp(rng.uniform(-0.6, 0.6, knots.size))
    points = Trajectory(knots, values if kind == "given-volume" else start * values / values[0])
    wall = Wall(10.0 ** rng.uniform(3, 6), rng.uniform(300.0, 1500.0), rng.uniform(0.1, 3.0))
    times = np.array([0.0, 0.37, 1.0]) * end
    expected = compressed(kind, hot, start, points, wall, times)
    given = {"volume": points, "pressure": start}
    if kind == "given-pressure":
        given = {"pressure": points}
    for method, (rtol, allowed) in methods.items():
        found = integrate(
            network, times=times, temperature=hot, initial=FEED, heating=kind, wall=wall,
            method=method, rtol=rtol, device="cpu", **given,
        )  # fmt: skip
        np.testing.assert_allclose(found["temperature"][0], expected, rtol=allowed)


def test_a_burning_tank_goes_out_at_a_shorter_time_than_a_cold_one_ignites(network):
    """Both branches of the S-curve, in one call; steady, and the same beyond the fold."""
    taus = np.geomspace(1e-6, 1e2, 60)
    amounts = {name: np.repeat([FEED.get(name, 0.0), BURNT.get(name, 0.0)], 60) for name in
               {*FEED, *BURNT}}  # fmt: skip
    found = integrate(
        network, times=[0, 2e3, 4e3], temperature=np.repeat([900.0, 2400.0], 60), pressure=ATM,
        initial=amounts, heating="constant-pressure", device="cpu",
        reactor=StirredTank(FEED, np.tile(taus, 2), 900.0),
    )  # fmt: skip
    cold, hot = found["temperature"].values[:, -1].reshape(2, 60)
    np.testing.assert_allclose(found["temperature"][:, 1], found["temperature"][:, 2], rtol=1e-4)
    ignites, lives = taus[np.argmax(cold > 1500.0)], taus[np.argmax(hot > 1500.0)]
    assert 1e-6 < lives < 0.01 * ignites and cold[0] < 950.0 and cold[-1] > 2400.0
    same = (taus < lives) | (taus >= ignites)
    np.testing.assert_allclose(cold[same], hot[same], rtol=1e-3)


def test_a_tube_that_fails_has_no_values_beyond(network):
    with pytest.warns(ergode.FailureWarning, match="limit on the number of steps"):
        found = plug_flow(
            network, positions=[0.0, 1.0, 2.0], velocity=[1e4, 1e4], temperature=1200.0,
            pressure=ATM, initial=FEED, max_steps=3, device="cpu",
        )  # fmt: skip
    assert np.isnan(found["age"].values[:, 1:]).all() and (found["age"][:, 0] == 0.0).all()
    assert np.isnan(found["mole_fraction"].values[:, 1:]).all()
    assert found["status"].values.tolist() == [ergode.Status.TOO_MANY_STEPS] * 2


def net_of(tanks):
    net = ct.ReactorNet(tanks)
    net.rtol, net.atol = 1e-9, 1e-16  # at 1e-10 and 1e-18 CVODES may be 1e-5 off, or give up
    return net


@pytest.mark.parametrize("kind", ["constant-volume", "constant-pressure"])
@pytest.mark.parametrize("rtol", [1e-7])
@pytest.mark.parametrize("seed", range(4))
def test_random_tanks_in_series_are_those_of_cantera(network, kind, seed, rtol):
    """Up to six tanks of any size and temperature, full of feed or burnt gas, some with a wall."""
    rng = np.random.default_rng(seed)
    count, times = int(rng.integers(2, 7)), np.array([0.0, 1e-5, 1e-4, 1e-3, 1e-2])
    taus, hot = 10.0 ** rng.uniform(-5, -2, count), rng.uniform(600.0, 2200.0, count)
    burnt, around = rng.random(count) < 0.5, rng.uniform(400.0, 1500.0, count)
    coefficient = np.where(rng.random(count) < 0.5, 0.0, 10.0 ** rng.uniform(4, 6, count))
    make = ct.IdealGasReactor
    if kind == "constant-pressure":
        make = ct.IdealGasConstPressureReactor
    inlet = ct.Solution(str(PATH))
    inlet.TPX = 700.0, ct.one_atm, FEED
    tanks, kept = [], []
    for k in range(count):
        gas, outside = ct.Solution(str(PATH)), ct.Solution(str(PATH))
        gas.TPX = hot[k], ct.one_atm, BURNT if burnt[k] else FEED
        outside.TP = around[k], ct.one_atm
        tanks.append(make(gas, clone=False))
        tanks[k].volume = taus[k] / gas.density
        kept.append(ct.Wall(tanks[k], ct.Reservoir(outside, clone=False), U=1e-3 * coefficient[k],
                            A=1e2 * tanks[k].volume))  # fmt: skip
    chain = [ct.Reservoir(inlet, clone=False), *tanks, ct.Reservoir(inlet, clone=False)]
    kept += [ct.MassFlowController(a, b, mdot=1.0) for a, b in zip(chain, chain[1:], strict=False)]
    net = net_of(tanks)
    names = sorted({*FEED, *BURNT})
    found = integrate(
        network, times=times, temperature=hot, pressure=ATM, heating=kind, rtol=rtol, device="cpu",
        initial={n: np.where(burnt, BURNT.get(n, 0.0), FEED.get(n, 0.0)) for n in names},
        reactor=StirredTank(FEED, taus, 700.0, tank_count=count),
        wall=Wall(coefficient, around, 1.0),
    )  # fmt: skip
    for k, t in enumerate(times[1:], 1):
        net.advance(t)
        warm = [tank.T for tank in tanks]
        np.testing.assert_allclose(found["temperature"][:, k], warm, rtol=3e-6)
        amounts = np.array([1e-3 * tank.phase.concentrations for tank in tanks])
        np.testing.assert_allclose(found["concentration"][:, k], amounts, atol=3e-6 * amounts.max())
    assert found["conservation_error"].max() < 1e-8


def flows_of(rng, count):
    """Random flows that branch and flow back; as much flows out of each tank as into it."""
    pairs = rng.random((count, count)) * (rng.random((count, count)) < 0.6) * 10.0 ** rng.uniform(
        -1, 1.5
    )  # fmt: skip
    np.fill_diagonal(pairs, 0.0)
    feed = rng.random(count) * (rng.random(count) < 0.5)
    feed[0] = 1.0
    feed[(pairs.sum(axis=0) + pairs.sum(axis=1) + feed) == 0.0] = 1.0
    # What a tank lacks comes from outside, and what is left flows out.
    short = pairs.sum(axis=1) - pairs.sum(axis=0) - feed
    feed += np.maximum(short, 0.0)
    left = np.maximum(-short, 0.0)
    named = [("in", k, q) for k, q in enumerate(feed)] + [(k, "out", q) for k, q in enumerate(left)]
    named += [(i, j, pairs[i, j]) for i in range(count) for j in range(count)]
    return [(a, b, float(q)) for a, b, q in named if q > 0.0]


@pytest.mark.parametrize("kind", ["constant-volume", "constant-pressure"])
@pytest.mark.parametrize("rtol", [1e-7])
@pytest.mark.parametrize("seed", range(6))
def test_random_networks_of_tanks_are_those_of_cantera(network, kind, seed, rtol):
    """Up to five tanks, each with its own feed, size and state, some with a wall."""
    rng = np.random.default_rng([seed, 5])
    count, times = int(rng.integers(2, 6)), np.array([0.0, 1e-5, 1e-4, 1e-3, 1e-2])
    flows, hot = flows_of(rng, count), rng.uniform(600.0, 2200.0, count)
    taus, around = 10.0 ** rng.uniform(-5, -2, count), rng.uniform(400.0, 1500.0, count)
    burnt, cold = rng.random(count) < 0.5, rng.uniform(300.0, 1000.0, count)
    coefficient = np.where(rng.random(count) < 0.5, 0.0, 10.0 ** rng.uniform(4, 6, count))
    make = ct.IdealGasReactor
    if kind == "constant-pressure":
        make = ct.IdealGasConstPressureReactor
    tanks, inlets, kept = [], [], []
    for k in range(count):
        gas, outside, feed = (ct.Solution(str(PATH)) for _ in range(3))
        gas.TPX = hot[k], ct.one_atm, BURNT if burnt[k] else FEED
        outside.TP = around[k], ct.one_atm
        feed.TPX = cold[k], ct.one_atm, FEED if k % 2 else {"H2": 1.0, "N2": 1.0}
        tanks.append(make(gas, clone=False))
        into = sum(q for _, end, q in flows if end == k)
        tanks[k].volume = taus[k] * into / gas.density
        inlets.append(ct.Reservoir(feed, clone=False))
        kept.append(ct.Wall(tanks[k], ct.Reservoir(outside, clone=False), U=1e-3 * coefficient[k],
                            A=1e2 * tanks[k].volume))  # fmt: skip
    drain = ct.Reservoir(ct.Solution(str(PATH)), clone=False)
    for begin, end, flow in flows:
        source = inlets[end] if begin == "in" else tanks[begin]
        sink = drain if end == "out" else tanks[end]
        kept.append(ct.MassFlowController(source, sink, mdot=flow))
    net, names = net_of(tanks), sorted({*FEED, *BURNT})
    feeds = {"H2": 1.0, "N2": 1.0}
    odd = np.arange(count) % 2 == 1
    found = integrate(
        network, times=times, temperature=hot, pressure=ATM, heating=kind, rtol=rtol, device="cpu",
        initial={n: np.where(burnt, BURNT.get(n, 0.0), FEED.get(n, 0.0)) for n in names},
        reactor=StirredTank(
            {n: np.where(odd, FEED.get(n, 0.0), feeds.get(n, 0.0)) for n in FEED}, taus, cold,
            flows=flows,
        ),
        wall=Wall(coefficient, around, 1.0),
    )  # fmt: skip
    assert found.attrs["method"] == "bdf"
    for k, t in enumerate(times[1:], 1):
        net.advance(t)
        warm = [tank.T for tank in tanks]
        np.testing.assert_allclose(found["temperature"][:, k], warm, rtol=3e-6)
        amounts = np.array([1e-3 * tank.phase.concentrations for tank in tanks])
        np.testing.assert_allclose(found["concentration"][:, k], amounts, atol=3e-6 * amounts.max())
    assert found["conservation_error"].max() < 1e-6


@pytest.mark.parametrize("rtol", [1e-7])
@pytest.mark.parametrize("seed", range(6))
def test_random_pistons_are_those_of_cantera(network, seed, rtol):
    """Slow and fast ones, against a vacuum and against a larger pressure, with a wall."""
    rng = np.random.default_rng(seed)
    times, hot = np.array([0.0, 1e-5, 1e-4, 1e-3]), rng.uniform(900.0, 1500.0)
    area, mobility = 10.0 ** rng.uniform(-1, 0.5), 10.0 ** rng.uniform(-4, -1.5)
    outer, around = ATM * rng.choice([0.0, 0.5, 3.0]), rng.uniform(400.0, 1500.0)
    gas, outside = ct.Solution(str(PATH)), ct.Solution(str(PATH))
    gas.TPX = hot, ct.one_atm, FEED
    outside.TPX = around, max(0.1 * outer, 1e-9), "AR:1"
    zone = ct.IdealGasReactor(gas, clone=False)
    first = zone.volume
    wall = ct.Wall(
        zone, ct.Reservoir(outside, clone=False), A=100.0 * area * first, K=0.1 * mobility, U=50.0
    )
    net = net_of([zone])
    found = integrate(
        network, times=times, temperature=hot, pressure=ATM, initial=FEED, rtol=rtol, device="cpu",
        heating="given-volume", volume=Piston(area, outer, mobility=mobility),
        wall=Wall(5e4, around, area),
    ).isel(zone=0)  # fmt: skip
    for k, t in enumerate(times[1:], 1):
        net.advance(t)
        np.testing.assert_allclose(found["temperature"][k], zone.T, rtol=3e-6)
        np.testing.assert_allclose(found["volume_ratio"][k], zone.volume / first, rtol=3e-6)
    assert wall.area > 0


LIMITS = {
    "UV": "constant-volume", "HP": "constant-pressure", "TV": None,
    "TP": "isothermal-constant-pressure",
}  # fmt: skip


@pytest.mark.parametrize("method", ["bdf", "rodas4"])
@pytest.mark.parametrize("constant", LIMITS)
@pytest.mark.parametrize("seed", range(2))
def test_equilibrium_is_the_limit_of_a_long_run(network, constant, seed, method):
    """Of closed reactors with random hot mixtures, whatever is constant."""
    rng, zones = np.random.default_rng([seed, 9]), 6
    moles = {name: rng.exponential(size=zones) for name in ("H2", "O2", "H2O", "OH", "N2", "AR")}
    given = {
        "initial": moles, "temperature": rng.uniform(1400.0, 2800.0, zones),
        "pressure": ATM * 10.0 ** rng.uniform(-1.0, 1.5, zones),
    }  # fmt: skip
    run = integrate(
        network, times=[0.0, 1e4], heating=LIMITS[constant], rtol=1e-8, method=method,
        device="cpu", **given,
    ).isel(time=-1)  # fmt: skip
    limit = ergode.kinetics.equilibrium(network, constant=constant, **given)
    amounts = run["concentration"] / run["concentration"].sum("species")
    np.testing.assert_allclose(amounts, limit["mole_fraction"], rtol=1e-5, atol=1e-12)
    if "T" not in constant:
        np.testing.assert_allclose(run["temperature"], limit["temperature"], rtol=3e-8)
        np.testing.assert_allclose(run["pressure"], limit["pressure"], rtol=1e-7)


def test_random_reactors_for_long(network):
    """At finer tolerances: beside an ignition errors grow."""
    failed = 0
    for seed in fresh_seeds():
        try:
            test_random_pistons_are_those_of_cantera(network, seed, 1e-9)
            for kind in ("given-volume", "given-pressure"):
                compress(network, kind, seed, {"rodas4": (1e-9, 3e-6), "bdf": (1e-9, 3e-6)})
            for constant in LIMITS:
                for method in ("bdf", "rodas4"):
                    test_equilibrium_is_the_limit_of_a_long_run(network, constant, seed, method)
            for kind in ("constant-volume", "constant-pressure"):
                for test in (
                    test_random_tanks_in_series_are_those_of_cantera,
                    test_random_networks_of_tanks_are_those_of_cantera,
                ):
                    try:
                        test(network, kind, seed, 1e-9)
                    except ct.CanteraError:  # CVODES gives up
                        failed += 1
        except Exception as error:
            error.add_note(f"ERGODE_REFEREE_SEED={seed}")
            raise
    print(f"{failed} cases without an answer of Cantera")
