"""Heat through walls: Newton's law of cooling, Cantera, and what is refused."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import ARGON, CARBON, burning
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics import (
    Piston,
    PlugFlow,
    StirredTank,
    Trajectory,
    Wall,
    ignition_delay,
    integrate,
)

ct = pytest.importorskip("cantera")
pytest.importorskip("ruamel.yaml")
PATH = Path(ct.__file__).parent / "data" / "h2o2.yaml"
ATM, R = 1.01325e6, 8.31446261815324e7
GAS = burning()
MIXTURE = {"H2": 2.0, "O2": 1.0, "AR": 7.0}


@pytest.mark.parametrize("method", ["bdf", "rodas4"])
@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure"])
def test_argon_cools_by_the_law_of_newton(hydrogen, heating, method):
    """Coefficients, areas and temperatures by zone; an insulated wall; one that heats."""
    h, area = np.array([1e4, 2e5, 0.0, 1e5]), np.array([1.0, 0.5, 3.0, 1.0])
    around = np.array([300.0, 500.0, 300.0, 1700.0])
    times = np.array([0.0, 1e-3, 5e-3, 2e-2, 1.0])
    found = integrate(
        hydrogen, times=times, temperature=1200.0, pressure=ATM, initial={"AR": 1.0},
        wall=Wall(h, around, area), heating=heating, rtol=1e-6, device="cpu", method=method,
    )  # fmt: skip
    capacity = (1.5 if heating == "constant-volume" else 2.5) * ATM / 1200.0
    kept = np.exp(-np.outer(h * area / capacity, times))
    np.testing.assert_allclose(
        found["temperature"], around[:, None] + (1200.0 - around)[:, None] * kept, rtol=1.5e-5
    )
    assert "energy_error" not in found


@pytest.mark.slow
@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure"])
def test_a_tank_of_argon_loses_heat_to_its_wall(hydrogen, heating):
    """What flows in warms as much as the wall takes away."""
    flow, around, tau = 1500.0, 400.0, np.array([1e-2, 0.1])
    found = integrate(
        hydrogen, times=[0.0, 5.0], temperature=1000.0, pressure=ATM, initial={"AR": 1.0},
        wall=Wall(1e4, around, 1.0), heating=heating, rtol=1e-6, device="cpu",
        reactor=StirredTank({"AR": 1.0}, tau, flow),
    )  # fmt: skip
    carried = 2.5 * ATM / 1000.0 / tau
    steady = (carried * flow + 1e4 * around) / (carried + 1e4)
    np.testing.assert_allclose(found["temperature"][:, -1], steady, rtol=1e-5)


def by_cantera(times, hot, heating, coefficient, around, area, moving):
    """Temperatures at some times, and when the temperature rises fastest."""
    gas = ct.Solution(str(PATH))
    gas.TPX = hot, ct.one_atm, MIXTURE
    outside = ct.Solution(str(PATH))
    outside.TP = around, ct.one_atm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = ct.IdealGasReactor
        if heating == "constant-pressure":
            kind = ct.IdealGasConstPressureReactor
        reactor = kind(gas)
        reservoir = ct.Reservoir(outside)
        # [W/(m2 K)] and [1/m]
        wall = ct.Wall(reactor, reservoir, U=1e-3 * coefficient, A=100.0 * area * reactor.volume)
        net = ct.ReactorNet([reactor])
    if moving:
        wall.velocity = lambda t: moving / (100.0 * area)
    net.rtol, net.atol, net.max_time_step = 1e-10, 1e-20, 1e-5
    found, seen = [], [(0.0, hot)]
    for t in times:
        while net.time < t:
            net.step()
            seen.append((net.time, reactor.T))
        past, now = seen[-2], seen[-1]
        found.append(past[1] + (now[1] - past[1]) * (t - past[0]) / (now[0] - past[0]))
    t, warm = np.array(seen).T
    steep = np.argmax(np.diff(warm) / np.diff(t))
    return np.array(found), 0.5 * (t[steep] + t[steep + 1])


@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure", "given-volume"])
def test_a_burning_mixture_with_a_wall_is_that_of_cantera(hydrogen, heating):
    """And its delay. In the third case the volume grows, and the area of the wall does not."""
    times, area, around = np.array([2e-4, 1e-3, 3e-3]), 4.0, 350.0
    growth = 100.0 if heating == "given-volume" else 0.0
    given = {"volume": lambda time: 1.0 + growth * time} if growth else {}
    options = {
        "pressure": ATM, "wall": Wall(5e4, around, area), "heating": heating, "device": "cpu",
        **given,
    }  # fmt: skip
    found = integrate(
        hydrogen, times=[0.0, *times], temperature=1020.0, initial=MIXTURE, rtol=1e-6, **options
    )
    hot, ignited = by_cantera(times, 1020.0, heating, 5e4, around, area, growth)
    np.testing.assert_allclose(found["temperature"][0, 1:], hot, rtol=2e-5)
    delay = ignition_delay(
        hydrogen, temperature=1020.0, fuel="H2", oxidizer={"O2": 1.0, "AR": 7.0}, duration=3e-3,
        **options,
    )["ignition_delay"].item()  # fmt: skip
    np.testing.assert_allclose(delay, ignited, rtol=3e-4)


def test_parts_of_the_zones_are_those_of_one_call(hydrogen, tmp_path):
    options = {
        "times": [0.0, 1e-3], "initial": {"N2": 1.0}, "temperature": [900.0, 1000.0, 1100.0],
        "pressure": ATM, "heating": "constant-volume", "device": "cpu",
        "wall": Wall([1e4, 2e4, 3e4], 300.0, [1.0, 2.0, 0.5]),
    }  # fmt: skip
    one = integrate(hydrogen, **options)
    parts = integrate(hydrogen, **options, store=tmp_path / "parts.zarr", chunk=1)
    np.testing.assert_array_equal(one["temperature"], parts["temperature"])
    assert one.attrs["method"] == "bdf"


INSULATED = Wall(0.0, 300.0, 1.0)


@pytest.mark.exhaustive
def test_an_insulated_wall_is_none():
    one, other = (asked(wall=wall, rtol=1e-6) for wall in (INSULATED, None))
    for name in ("concentration", "temperature", "steepest_time", "energy_error"):
        np.testing.assert_array_equal(one[name], other[name])


REFUSED = [
    (lambda: Wall(-1.0, 300.0, 1.0), "heat_transfer_coefficient is -1 in zone 0"),
    (lambda: Wall(1.0, 0.0, 1.0), "temperature of the wall is 0 in zone 0"),
    (lambda: Wall(1.0, 300.0, [1.0, np.nan]), "area of the wall is nan in zone 1"),
    (lambda: Wall(1.0, "hot", 1.0), "temperature of the wall is 'hot'; expected a number, one for"),
    (
        lambda: asked(wall=Wall(lambda t: -1.0, 300.0, 1.0), method="rodas4"),
        "heat_transfer_coefficient is -1 in zone 0; expected a finite number, 0 or more",
    ),
    (
        lambda: asked(wall=Wall(1.0, lambda t: 300.0 - 1e9 * t, 1.0), method="rodas4"),
        "temperature of the wall is",
    ),
    (
        lambda: asked(
            wall=Wall(1.0, lambda t: [300.0, 400.0], 1.0), temperature=[1.0, 2.0, 3.0]
        ),
        "temperature of the wall has 2 values",
    ),
    (lambda: asked(wall=300.0), "wall is 300.0; expected a kinetics.Wall"),
    (lambda: asked(heating=None), "wall is for molecules that heat themselves"),
    (lambda: asked(heating="isothermal-constant-pressure"), "wall is for molecules that heat"),
    (
        lambda: asked(heating="constant-pressure", reactor=PlugFlow(1.0)),
        "wall is not possible with PlugFlow",
    ),
    (
        lambda: asked(
            network=CARBON, temperature=1e9, density=1e7, pressure=None, initial={"c12": 1.0}
        ),
        "wall is for molecules that heat themselves",
    ),
    (
        lambda: asked(wall=Wall([1.0, 2.0], 300.0, 1.0), temperature=[1.0, 2.0, 3.0]),
        "heat_transfer_coefficient has 2 values",
    ),
    (
        lambda: ignition_delay(
            GAS, temperature=1500.0, pressure=1e6, fuel="H2", oxidizer={"OH": 1.0},
            wall=Wall([1.0, 2.0], 300.0, 1.0),
        ),
        "wall has several values; expected one wall for all mixtures",
    ),
]  # fmt: skip


def asked(**changes):
    given = {
        "network": GAS, "times": [0, 1e-6], "device": "cpu", "temperature": 1500.0,
        "pressure": 1e6, "initial": {"H2": 1.0}, "heating": "constant-volume", "wall": INSULATED,
    } | changes  # fmt: skip
    return integrate(given.pop("network"), **given)


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_is_refused(make, words):
    with pytest.raises(ergode.ModelError) as caught:
        make()
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_explicit_methods_refuse_a_wall():
    with pytest.raises(ergode.PlanError, match="cannot integrate the temperature"):
        asked(method="asymptotic")


def warmed(times, h, around, hot, heating):
    """Temperatures of argon of one atmosphere, by SciPy."""
    capacity = (1.5 if heating == "constant-volume" else 2.5) * ATM / hot

    def change(t, y):
        return h(t) * (around(t) - y) / capacity

    found = solve_ivp(change, (times[0], times[-1]), [hot], "DOP853", times, rtol=1e-11, atol=1e-9)
    return found.y[0]


def coefficient(time):
    """Of an engine: nothing in between."""
    return 4e4 * max(np.sin(300.0 * time), 0.0)


def furnace(time):
    return 400.0 + 200.0 * np.sin(50.0 * time)


@pytest.mark.exhaustive
@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure"])
def test_a_wall_that_changes_is_that_of_scipy(heating):
    """Functions of time, and tables: one for each zone."""
    times = np.linspace(0.0, 0.1, 9)
    options = {"times": times, "temperature": 1200.0, "pressure": ATM, "initial": {"AR": 1.0},
               "heating": heating, "device": "cpu"}  # fmt: skip
    for rtol in (1e-4, 1e-6):
        found = integrate(ARGON, wall=Wall(coefficient, furnace, 1.0), rtol=rtol, **options)
        exact = warmed(times, coefficient, furnace, 1200.0, heating)
        np.testing.assert_allclose(found["temperature"][0], exact, rtol=rtol)
    assert found.attrs["method"] == "bdf" and "energy_error" not in found
    points = np.array([0.0, 0.03, 0.1])
    rows = np.array([[300.0, 900.0, 600.0], [1500.0, 1500.0, 300.0]])
    wall = Wall([2e4, 1e4], Trajectory(points, rows), [1.0, 3.0])
    found = integrate(ARGON, wall=wall, rtol=1e-6, **options)
    for k, (h, row) in enumerate(zip((2e4, 3e4), rows, strict=True)):
        exact = warmed(times, lambda t, h=h: h, lambda t, row=row: np.interp(t, points, row),
                       1200.0, heating)  # fmt: skip
        np.testing.assert_allclose(found["temperature"][k], exact, rtol=1e-6)


@pytest.mark.exhaustive
def test_a_wall_that_jumps_and_one_that_stays(tmp_path):
    """A jump of the temperature; a constant table is a number; parts are those of one call."""
    times, jump = np.array([0.0, 0.01, 0.02]), 0.01
    table = Trajectory(
        [0.0, jump, np.nextafter(jump, 1.0), 0.02], np.outer([1.0, 2.0], [300, 300, 500, 500])
    )
    options = {"times": times, "temperature": 1200.0, "pressure": ATM, "initial": {"AR": 1.0},
               "heating": "constant-volume", "device": "cpu", "rtol": 1e-6}  # fmt: skip
    found = integrate(ARGON, wall=Wall(2e4, table, 1.0), **options)
    kept = np.exp(-2e4 * jump / (1.5 * ATM / 1200.0))
    for k, around in enumerate((np.array([300.0, 500.0]), np.array([600.0, 1000.0]))):
        first = around[0] + (1200.0 - around[0]) * kept
        last = around[1] + (first - around[1]) * kept
        np.testing.assert_allclose(found["temperature"][k], [1200.0, first, last], rtol=2e-6)
    parts = integrate(ARGON, wall=Wall(2e4, table, 1.0), store=tmp_path / "r.zarr", chunk=1,
                      **options)  # fmt: skip
    np.testing.assert_array_equal(parts["temperature"], found["temperature"])
    constant = Trajectory([0.0, 0.02], [2e4, 2e4])
    same = [integrate(ARGON, wall=Wall(h, 400.0, 1.0), **options) for h in (2e4, constant)]
    np.testing.assert_allclose(same[0]["temperature"], same[1]["temperature"], rtol=1e-5)


@pytest.mark.exhaustive
def test_a_burning_zone_in_a_wall_that_changes_is_that_of_cantera(hydrogen):
    """A piston, too, that moves by itself: the volume and the wall change together."""
    times, area = np.array([0.0, 2e-4, 1e-3, 3e-3]), 4.0

    def flux(t):
        return 5e4 * (350.0 + 1e5 * t)

    exact = {}
    for moves in (False, True):
        gas, outside = ct.Solution(str(PATH)), ct.Solution(str(PATH))
        gas.TPX = 1020.0, ct.one_atm, MIXTURE
        outside.TP = 350.0, ct.one_atm
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zone, around = ct.IdealGasReactor(gas), ct.Reservoir(outside)
            size = 100.0 * area * zone.volume
            # Its own temperature follows by the coefficient, that of the wall by a flux.
            wall = ct.Wall(zone, around, A=size, U=50.0, K=1e-4 if moves else 0.0)
            wall.heat_flux = lambda t: -1e-3 * (flux(t) - 5e4 * 350.0)
            net = ct.ReactorNet([zone])
        net.rtol, net.atol, net.max_time_step = 1e-11, 1e-20, 1e-5
        exact[moves] = []
        for t in times[1:]:
            net.advance(t)
            exact[moves].append(zone.T)
    wall = Wall(5e4, lambda t: 350.0 + 1e5 * t, area)
    options = {"times": times, "temperature": 1020.0, "initial": MIXTURE, "pressure": ATM,
               "rtol": 1e-7, "wall": wall, "device": "cpu"}  # fmt: skip
    still = integrate(hydrogen, heating="constant-volume", **options)
    np.testing.assert_allclose(still["temperature"][0, 1:], exact[False], rtol=1e-6)
    moved = integrate(hydrogen, heating="given-volume", volume=Piston(area, ATM, mobility=1e-3),
                      **options)  # fmt: skip
    np.testing.assert_allclose(moved["temperature"][0, 1:], exact[True], rtol=1e-6)
    assert abs(moved["temperature"][0, -1] - still["temperature"][0, -1]) > 20.0


def test_parts_refuse_functions_by_zone(tmp_path):
    with pytest.raises(ergode.PlanError, match="temperature of the wall is a function of time for"):
        asked(
            wall=Wall(1.0, lambda t: [300.0 + t, 400.0], 1.0), store=tmp_path / "r.zarr",
            method="rodas4",
        )  # fmt: skip
