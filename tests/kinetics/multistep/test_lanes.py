"""Eight zones in vector lanes: bitwise those that are integrated alone; and closed forms."""

import warnings

import numpy as np
import pytest

import ergode
from ergode.kinetics import ignition_delay, integrate
from ergode.kinetics.multistep.lanes import LANES

CPU = ergode.Device("cpu:1")
COUNT = 2 * LANES + 3  # lanes take further zones, and some end without one
MIXTURE = {"H2": 2.0, "O2": 1.0, "AR": 4.0}
RNG = np.random.default_rng(11)
STATES = {
    "temperature": RNG.uniform(800.0, 1500.0, COUNT),
    "pressure": 1e6 * RNG.uniform(0.5, 5.0, COUNT),
}


def run(network, zones, **given):
    """The zones with these indices, in one call."""
    own = {name: value[zones] if isinstance(value, np.ndarray) else value
           for name, value in given.items() if name != "times"}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ergode.ErgodeWarning)
        return integrate(network, times=given["times"], method="bdf", device=CPU, **own)


def assert_same(found, expected, zones):
    """Zones of a call are bitwise these zones of another call."""
    for name in set(expected) - {"density", "pressure"}:
        np.testing.assert_array_equal(found[name].values, expected[name].values[zones], name)


@pytest.mark.slow
def test_zones_are_those_that_are_integrated_alone(hydrogen):
    """Falloff and third bodies; zones ignite at other times, some of them never."""
    given = {
        "times": np.linspace(0.0, 4e-4, 4), "heating": "constant-volume", "rtol": 1e-7,
        "atol": 1e-18, "initial": MIXTURE, **STATES,
    }  # fmt: skip
    together = run(hydrogen, np.arange(COUNT), **given)
    assert (together["status"] == 0).all()
    assert together["step_count"].values.min() < 0.8 * together["step_count"].values.max()
    ignites = together["temperature"].values[:, -1] > STATES["temperature"] + 500.0
    assert ignites.any() and not ignites.all()
    for k in range(COUNT):
        assert_same(run(hydrogen, np.array([k]), **given), together, [k])
    for zones in (np.arange(LANES), np.arange(2, 3 + LANES), np.arange(COUNT)[::-1][:17]):
        assert_same(run(hydrogen, zones, **given), together, zones)


@pytest.mark.slow
def test_tolerances_and_limits_of_steps_are_those_of_a_zone_alone(hydrogen):
    """At a loose tolerance steps fail; at few steps zones end in the middle."""
    for rtol, max_steps in ((1e-2, 10_000), (1e-10, 10_000), (1e-5, 150)):
        given = {
            "times": np.array([0.0, 1e-5, 1e-2]), "heating": "constant-volume", "rtol": rtol,
            "atol": 1e-16, "initial": MIXTURE, "max_steps": max_steps, **STATES,
        }  # fmt: skip
        together = run(hydrogen, np.arange(COUNT), **given)
        assert (together["status"].values == 0).all() == (max_steps > 150)
        for k in range(0, COUNT, 3):
            assert_same(run(hydrogen, np.array([k]), **given), together, [k])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")
def test_delays_are_those_of_a_reactor_alone(hydrogen):
    def delays(temperatures):
        return ignition_delay(
            hydrogen, temperature=temperatures, pressure=1.01325e6, fuel="H2",
            oxidizer={"O2": 1.0, "AR": 4.0}, duration=5e-4, method="bdf", device=CPU,
        )["ignition_delay"].values.ravel()  # fmt: skip

    temperatures = np.linspace(800.0, 1300.0, LANES + 1)
    together = delays(temperatures)
    assert np.isnan(together[0]) and np.isfinite(together[-1])
    for k, hot in enumerate(temperatures):
        np.testing.assert_array_equal(delays([hot]), together[k : k + 1])


@pytest.mark.slow
def test_a_zone_whose_numbers_overflow_leaves_its_neighbours_alone(hydrogen):
    given = {
        "times": np.array([0.0, 1e-4]), "heating": "constant-volume", "initial": MIXTURE,
        "rtol": 1e-6, "atol": 1e-18, **STATES,
    }  # fmt: skip
    bad, zones = 4, np.arange(LANES + 2)
    expected = run(hydrogen, zones, **given)
    given["pressure"] = np.where(np.arange(COUNT) == bad, 1e150, given["pressure"])
    found = run(hydrogen, zones, **given)
    assert found["status"].values[bad] != 0
    assert_same(found.isel(zone=zones != bad), expected, zones != bad)
    assert_same(run(hydrogen, np.array([bad]), **given), found, [bad])


WALL = ergode.kinetics.Wall(RNG.uniform(1e4, 2e5, COUNT), 400.0, RNG.uniform(0.1, 3.0, COUNT))
STROKE = np.linspace(0.0, 0.03, 31)
RATIO = 0.55 + 0.45 * np.cos(np.pi * STROKE / 0.03)
OUTSIDE = {
    "given-volume": {"volume": ergode.kinetics.Trajectory(STROKE, RATIO)},
    "given-pressure": {"pressure": ergode.kinetics.Trajectory(STROKE, 1e6 / RATIO**1.35)},
}


@pytest.mark.slow
@pytest.mark.parametrize("heating", OUTSIDE)
def test_work_and_heat_are_those_of_zones_alone(hydrogen, heating):
    """Zones end at knots at other times, and begin anew there or not; all lose heat by a wall."""
    hot = np.random.default_rng(12).uniform(370.0, 410.0, COUNT)
    given = {
        "times": np.linspace(0.0, 0.04, 4), "heating": heating, "rtol": 1e-6, "atol": 1e-18,
        "initial": MIXTURE, "temperature": hot, "pressure": 1e6, **OUTSIDE[heating],
    }  # fmt: skip
    together = run(hydrogen, np.arange(COUNT), **given, wall=WALL)
    assert (together["status"] == 0).all()
    for k in range(COUNT):
        assert_same(run(hydrogen, np.array([k]), **given, wall=WALL.part(k, k + 1)), together, [k])


@pytest.mark.exhaustive
@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure", None])
def test_tanks_and_rates_that_differ_are_those_of_zones_alone(hydrogen, heating):
    """Each zone has its own flow, and each point its own rates."""
    tau = 10.0 ** np.random.default_rng(13).uniform(-5.0, -2.0, COUNT)
    given = {
        "times": np.array([0.0, 1e-4, 1e-2]), "heating": heating, "rtol": 1e-6, "atol": 1e-18,
        "initial": MIXTURE, "temperature": STATES["temperature"], "pressure": 1e6,
    }  # fmt: skip
    warm = 700.0 if heating else None
    tank = ergode.kinetics.StirredTank({"H2": 2.0, "O2": 1.0}, tau, warm)
    together = run(hydrogen, np.arange(COUNT), **given, reactor=tank)
    assert (together["status"] == 0).all()
    for k in range(COUNT):
        assert_same(
            run(hydrogen, np.array([k]), **given, reactor=tank.part(k, k + 1)), together, [k]
        )
    factors = np.random.default_rng(14).uniform(0.5, 2.0, (COUNT, len(hydrogen.reactions)))
    factors[:, [one.rate_constant.__class__ is ergode.DetailedBalance
                for one in hydrogen.reactions]] = 1.0  # fmt: skip
    given["temperature"] = 1200.0
    swept = run(hydrogen, 0, **given, rate_factors=factors)
    for k in range(0, COUNT, 3):
        alone = run(hydrogen, 0, **given, rate_factors=factors[k])
        for name in ("temperature", "concentration", "step_count"):
            np.testing.assert_array_equal(alone[name].values, swept[name].values[k])


@pytest.mark.slow
def test_cells_of_air_are_those_integrated_alone():
    """Sunlight, tables and functions of time, sums, fractional orders; the sun rises and sets."""
    hours = np.arange(0, 25) * 3600.0
    day = np.maximum(0.0, np.sin((hours / 3600.0 - 6.0) * np.pi / 12.0))
    laws = {
        "NO2 -> NO + O3": "J4", "NO + O3 -> NO2": ergode.Arrhenius(1.4e-12, 0.0, 1310.0),
        "CH3O2 -> 0": ergode.RateExpression("2.2e-13 * exp(190 / temperature) * RO2"),
        "0 -> NO": "emission / 1e5", "O3 -> 0": 4e-6,
        "A -> B": ergode.PowerLaw(1e-4, {"A": 1.5}), "B -> C": ergode.Photolysis(1e-4, 2.5),
        "2 C -> 2 A": 1e-4,
    }  # fmt: skip
    air = ergode.ReactionNetwork(
        {"NO2": 5e10, "NO": 1e10, "O3": 8e11, "CH3O2": 1e8, "C2H5O2": 1e8, "A": 1, "B": 1, "C": 1},
        [ergode.Reaction(text, rate_constant=law) for text, law in laws.items()],
        parameters={"J4": 0.0, "emission": 0.0}, rules={"RO2": "CH3O2 + C2H5O2"},
    )  # fmt: skip
    cold = np.linspace(270.0, 310.0, COUNT)

    def cells(zones):
        own = ergode.kinetics.Trajectory([0.0, 86400.0], np.c_[cold, cold - 10.0][zones])
        return integrate(
            air, times=hours[::6], temperature=own, sunlight=ergode.kinetics.daylight, rtol=1e-5,
            method="bdf", device=CPU, parameters={
                "J4": ergode.kinetics.Trajectory(hours, 9e-3 * day),
                "emission": lambda t: 2e11 * (1 + np.cos(2 * np.pi * (t - 28800) / 86400)),
            },
        )  # fmt: skip

    together = cells(np.arange(COUNT))
    assert (together["status"] == 0).all()
    for k in range(0, COUNT, 3):
        assert_same(cells(np.array([k])), together, [k])
    # A, B and C are conserved, and so is NO with NO2 but for the emission.
    found = together["concentration"]
    np.testing.assert_allclose(found.sel(species=["A", "B", "C"]).sum("species"), 3.0, rtol=1e-9)
    nitrogen = found.sel(species=["NO", "NO2"]).sum("species").values[:, -1]
    np.testing.assert_allclose(nitrogen, 6e10 + 2e6 * 86400.0, rtol=1e-4)
