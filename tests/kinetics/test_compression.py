"""Volumes and pressures that are given over time: closed forms, Cantera, and what is refused."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import CARBON, EXPLICIT, burning
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics import PlugFlow, Trajectory, ignition_delay, integrate

ct = pytest.importorskip("cantera")
pytest.importorskip("ruamel.yaml")
PATH = Path(ct.__file__).parent / "data" / "h2o2.yaml"
ATM, STROKE = 1.01325e6, 0.03
GAS = burning()


def piston(time):
    """Volume of a compression by ten within `STROKE`."""
    return 0.55 + 0.45 * np.cos(np.pi * min(time, STROKE) / STROKE)


def isentropic(mixture, hot, *, volumes=None, pressures=None):
    """Temperatures and pressures [dyn/cm2] of a mixture that does not react."""
    gas, found = ct.Solution(str(PATH)), []
    gas.TPX = hot, ct.one_atm, mixture
    entropy, specific = gas.s, gas.v
    for k in range(len(volumes if pressures is None else pressures)):
        if pressures is None:
            gas.SV = entropy, specific * volumes[k] / volumes[0]
        else:
            gas.SP = entropy, 0.1 * pressures[k]
        found.append((gas.T, 10.0 * gas.P))
    return np.array(found).T


@pytest.mark.parametrize(("method", "rtol"), [("bdf", 1e-5), ("rodas4", 3e-6)])
@pytest.mark.parametrize("mixture", [{"AR": 1.0}, {"N2": 3.0, "AR": 1.0}])
def test_a_compression_without_reactions_keeps_the_entropy(hydrogen, mixture, method, rtol):
    """With argon, T V^(2/3) is constant. Ranges of polynomials meet at 1000 K within the run."""
    times = np.array([0.0, 0.4, 0.8, 1.0, 1.3]) * STROKE
    points = Trajectory([0.0, 0.01, 0.02, 0.03], [8.0, 6.0, 2.5, 1.0])
    for volume in (piston, points):
        given = [float(np.interp(t, points.times, points.values)) for t in times]
        volumes = [piston(t) for t in times] if volume is piston else given
        found = integrate(
            hydrogen, times=times, temperature=300.0, pressure=ATM, initial=mixture, volume=volume,
            heating="given-volume", rtol=1e-6, device="cpu", method=method,
        ).isel(zone=0)  # fmt: skip
        hot, pressure = isentropic(mixture, 300.0, volumes=volumes)
        if len(mixture) == 1:
            exact = 300.0 * (np.array(volumes) / volumes[0]) ** (-2.0 / 3.0)
            np.testing.assert_allclose(hot, exact, rtol=1e-9)
        np.testing.assert_allclose(found["temperature"], hot, rtol=rtol)
        np.testing.assert_allclose(found["pressure"], pressure, rtol=rtol)
        np.testing.assert_allclose(
            found["density"] / found["density"][0], volumes[0] / np.array(volumes), rtol=1e-7
        )


def test_a_given_pressure_without_reactions_keeps_the_entropy(hydrogen):
    """Each zone has its own trace."""
    times = np.array([0.0, 1.0, 1.7, 2.0, 3.0])
    traces = np.outer([ATM, 0.5 * ATM], [1.0, 2.0, 15.0])
    traces[1, 2] = 3.0 * ATM
    found = integrate(
        hydrogen, times=times, temperature=300.0, initial={"N2": 3.0, "AR": 1.0}, rtol=1e-6,
        pressure=Trajectory([0.0, 1.0, 2.0], traces), heating="given-pressure", device="cpu",
    )  # fmt: skip
    for k in range(2):
        pressures = np.interp(times, [0.0, 1.0, 2.0], traces[k])
        np.testing.assert_allclose(found["pressure"][k], pressures, rtol=1e-9)
        gas = ct.Solution(str(PATH))
        gas.TPX = 300.0, 0.1 * traces[k, 0], {"N2": 3.0, "AR": 1.0}
        entropy = gas.s
        for one, p in zip(found["temperature"].values[k], pressures, strict=True):
            gas.SP = entropy, 0.1 * p
            np.testing.assert_allclose(one, gas.T, rtol=3e-6)


def machine_of_cantera(hot, times):
    """Temperatures at some times, and when the temperature rises fastest after the stroke."""
    gas = ct.Solution(str(PATH))
    gas.TPX = hot, ct.one_atm, MIXTURE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reactor = ct.IdealGasReactor(gas)
        wall = ct.Wall(reactor, ct.Reservoir(ct.Solution(str(PATH))), A=reactor.volume)
        net = ct.ReactorNet([reactor])
    speed = 0.45 * np.pi / STROKE
    wall.velocity = lambda t: -speed * np.sin(np.pi * t / STROKE) if t < STROKE else 0.0
    net.rtol, net.atol, net.max_time_step = 1e-10, 1e-20, 1e-4
    found, seen = [], []
    for t in times:
        while net.time < t:
            net.step()
            seen.append((net.time, reactor.T))
        past, now = seen[-2], seen[-1]
        found.append(past[1] + (now[1] - past[1]) * (t - past[0]) / (now[0] - past[0]))
    t, warm = np.array(seen).T
    steep = np.argmax(np.where(t[1:] > STROKE, np.diff(warm) / np.diff(t), 0.0))
    return np.array(found), 0.5 * (t[steep] + t[steep + 1])


MIXTURE = {"H2": 2.0, "O2": 1.0, "AR": 4.0, "N2": 10.0}
CHARGE = {"fuel": "H2", "oxidizer": {"O2": 1.0, "AR": 4.0, "N2": 10.0}}


@pytest.mark.slow
def test_a_rapid_compression_machine_is_that_of_cantera(hydrogen):
    """Temperatures, and delays by two criteria; a colder mixture does not ignite."""
    times = np.array([0.015, 0.0295, 0.036, 0.0395])
    options = {"volume": piston, "heating": "given-volume", "pressure": ATM, "device": "cpu"}
    found = integrate(
        hydrogen, times=[0.0, *times], temperature=380.0, initial=MIXTURE, rtol=1e-6, **options
    )
    hot, ignited = machine_of_cantera(380.0, times)
    np.testing.assert_allclose(found["temperature"][0, 1:], hot, rtol=2e-5)
    assert 0.034 < ignited < 0.039
    for criterion, rtol in (("temperature", 1e-4), ("pressure", 3e-4)):
        with pytest.warns(ergode.AccuracyWarning, match="1 of 2 mixtures did not ignite"):
            delays = ignition_delay(
                hydrogen, temperature=[350.0, 380.0], duration=0.045, criterion=criterion,
                **CHARGE, **options,
            )  # fmt: skip
        np.testing.assert_allclose(
            delays["ignition_delay"].values.ravel(), [np.nan, ignited], rtol=rtol
        )


def rising(hot, start, ratio, times):
    """Temperatures at a pressure that rises, by SciPy with the rates of Cantera."""
    gas = ct.Solution(str(PATH))
    gas.TPX = hot, 0.1 * start, MIXTURE

    def change(t, y):
        gas.set_unnormalized_mass_fractions(y[1:])
        gas.TP = y[0], 0.1 * start * ratio(t)
        made = gas.net_production_rates
        work = 0.1 * start * (ratio(t + 1e-7) - ratio(t - 1e-7)) / 2e-7
        warmer = (work - gas.partial_molar_enthalpies @ made) / (gas.density * gas.cp_mass)
        return np.concatenate([[warmer], made * gas.molecular_weights / gas.density])

    start_ = np.concatenate([[hot], gas.Y])
    return solve_ivp(change, (0.0, times[-1]), start_, "Radau", times, rtol=1e-8, atol=1e-14).y[0]


@pytest.mark.slow
def test_a_shock_tube_whose_pressure_rises_is_that_of_scipy(hydrogen):
    """dp/dt is 5 % a millisecond; a function, and a Trajectory, which is linear too."""
    times, starts = np.array([0.0, 1e-3, 2e-3, 2.6e-3]), np.array([ATM, 2 * ATM])

    def ratio(time):
        return 1.0 + 50.0 * time

    line = Trajectory([0.0, 5e-3], np.outer(starts, [1.0, 1.25]))
    options = {"heating": "given-pressure", "device": "cpu", "method": "rodas4"}
    by_points, by_function = (
        integrate(hydrogen, times=times, temperature=950.0, initial=MIXTURE, rtol=1e-6,
                  pressure=pressure, **options)
        for pressure in (line, lambda time: starts * ratio(time))
    )  # fmt: skip
    np.testing.assert_allclose(by_points["temperature"], by_function["temperature"], rtol=1e-6)
    for k, start in enumerate(starts):
        exact = rising(950.0, start, ratio, times)
        np.testing.assert_allclose(by_points["temperature"][k], exact, rtol=3e-6)
    points = Trajectory([0.0, 5e-3], [2.0, 2.5])
    delays = [
        ignition_delay(hydrogen, temperature=1100.0, pressure=starts, pressure_ratio=one,
                       duration=4e-3, **CHARGE, **options)["ignition_delay"].values
        for one in (ratio, points)
    ]  # fmt: skip
    np.testing.assert_allclose(delays[0], delays[1], rtol=1e-5)
    still = ignition_delay(
        hydrogen, temperature=1100.0, pressure=starts, duration=4e-3, device="cpu", method="rodas4",
        heating="constant-pressure", **CHARGE,
    )["ignition_delay"].values  # fmt: skip
    constant = ignition_delay(
        hydrogen, temperature=1100.0, pressure=starts, pressure_ratio=lambda time: 1.0,
        duration=4e-3, **CHARGE, **options,
    )["ignition_delay"].values  # fmt: skip
    np.testing.assert_allclose(constant, still, rtol=1e-5)
    assert (delays[0] < 0.999 * still).all()


def test_parts_of_the_zones_are_those_of_one_call(hydrogen, tmp_path):
    options = {
        "times": [0.0, 0.02, 0.04], "initial": {"N2": 1.0}, "temperature": [300.0, 400.0, 500.0],
        "pressure": ATM, "heating": "given-volume", "device": "cpu",
        "volume": Trajectory([0.0, 0.02, 0.04], [[4, 2, 1], [4, 1, 2], [1, 1, 1]]),
    }  # fmt: skip
    one = integrate(hydrogen, **options)
    parts = integrate(hydrogen, **options, store=tmp_path / "parts.zarr", chunk=1)
    np.testing.assert_array_equal(one["temperature"][2, 1:], [500.0, 500.0])
    np.testing.assert_allclose(one["temperature"], parts["temperature"], rtol=3e-4)
    assert one.attrs["heating"] == "given-volume"


PRESSED = {"temperature": 1500.0, "pressure": 1e6, "initial": {"H2": 1.0}}
JUMP = Trajectory([0.0, 5e-7, np.nextafter(5e-7, 1.0), 1e-6], [2.0, 2.0, 1.0, 1.0])
REFUSED = [
    ({"heating": "given-volume"}, "volume is not given, and heating is 'given-volume'"),
    ({"volume": piston, "heating": "constant-volume"}, "volume is given; it is for heating='given"),
    ({"volume": piston}, "volume is given; it is for heating='given-volume'"),
    (
        {"volume": 2.0, "heating": "given-volume"},
        "volume is 2.0, and heating is 'given-volume'; expected a Trajectory or a function",
    ),
    ({"heating": "given-pressure"}, "or heating='constant-pressure'"),
    (
        {"pressure": lambda time: 1e6, "heating": "constant-pressure"},
        "pressure is a Trajectory, but here the reactions determine it; use heating='given-",
    ),
    ({"volume": JUMP, "heating": "given-volume"}, "a volume cannot jump"),
    (
        {"volume": lambda time: 1.0 - 2e6 * time, "heating": "given-volume"},
        "expected a positive, finite number",
    ),
    (
        {
            "volume": piston, "heating": "given-volume",
            "reactor": PlugFlow(1.0),
        },
        "heating is 'given-volume', and the reactor a PlugFlow; expected a tank",
    ),
    (
        {
            "network": CARBON, "heating": "isothermal-constant-pressure", "pressure": None,
            "density": 1e7, "initial": {"c12": 1.0}, "temperature": 1e9,
        },
        "heating is 'isothermal-constant-pressure'; expected molecules with NASA polynomials",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_what_is_refused(changes, words):
    given = {"network": GAS, "times": [0, 1e-6], "device": "cpu"} | PRESSED | changes
    with pytest.raises(ergode.ModelError) as caught:
        integrate(given.pop("network"), **given)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("method", EXPLICIT)
def test_methods_that_cannot_follow_refuse(method):
    with pytest.raises(ergode.PlanError, match=f"'{method}' cannot"):
        integrate(
            GAS, times=[0, 1e-6], volume=piston, heating="given-volume", method=method, **PRESSED
        )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"heating": "given-pressure"}, "heating is 'given-pressure', and pressure_ratio is not"),
        ({"pressure_ratio": piston}, "heating is 'constant-volume', and pressure_ratio is given"),
        ({"heating": "given-pressure", "pressure_ratio": 2.0}, "pressure_ratio is 2.0; expected"),
        (
            {"heating": "given-pressure", "pressure_ratio": piston, "criterion": "pressure"},
            "criterion is 'pressure', which is given over time",
        ),
    ],
)
def test_what_ignition_delay_refuses(hydrogen, changes, words):
    with pytest.raises(ergode.ModelError, match=words):
        ignition_delay(hydrogen, temperature=1100.0, pressure=ATM, **CHARGE, **changes)


@pytest.mark.parametrize("last", [2.0, 1e3, 1e6])
@pytest.mark.parametrize("name", ["volume", "pressure"])
def test_a_change_that_is_early_in_a_long_run(hydrogen, name, last):
    """Argon: T goes with V^(-2/3), and with p^(2/5)."""
    scale, power = (1.0, -2.0 / 3.0) if name == "volume" else (ATM, 2.0 / 5.0)

    def course(time):
        return scale * (2.0 - np.exp(-time))

    found = integrate(
        hydrogen, times=[0, 1, last], initial={"AR": 1.0}, temperature=1000.0, device="cpu",
        heating=f"given-{name}", **{"pressure": ATM, name: course},
    )  # fmt: skip
    exact = 1000.0 * (2.0 - np.exp([-1.0, -last])) ** power
    np.testing.assert_allclose(found["temperature"][0, 1:], exact, rtol=5e-4)
    rows = Trajectory([0.0, 1.0, last], scale * np.array([1.0, 2.0, 2.0]))
    found = integrate(
        hydrogen, times=[0, 1, last], initial={"AR": 1.0}, temperature=1000.0, device="cpu",
        heating=f"given-{name}", **{"pressure": ATM, name: rows},
    )  # fmt: skip
    np.testing.assert_allclose(found["temperature"][0, 1:], 1000.0 * 2.0**power, rtol=5e-4)


def test_a_change_that_a_table_does_not_show_is_refused(hydrogen):
    """A pulse between samples, which is met by a time of the result alone."""
    with pytest.raises(ergode.ModelError, match="changes too quickly for the length of the run"):
        integrate(
            hydrogen, times=[0, 1, 1e11], initial={"AR": 1.0}, temperature=1000.0, pressure=ATM,
            heating="given-volume", volume=lambda t: 2.0 - np.exp(-t), rtol=1e-7, device="cpu",
        )  # fmt: skip
