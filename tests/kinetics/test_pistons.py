"""Zones whose volume follows from their pressure: closed forms, SciPy, Cantera, and refusals."""

import numpy as np
import pytest
from both_devices import on_both
from kernel_cases import ARGON, CARBON, burning
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics import Piston, StirredTank, Trajectory, Wall, ignition_delay, integrate

ATM = 1.01325e6
MIXTURE = {"H2": 2.0, "O2": 1.0, "AR": 7.0}
GAS = burning()
STILL = Piston(1.0, 1e6, mobility=0.0)
FREE = Piston(1.0, 1e6, mass_per_area=1.0)


def expanding(times, area, outside, mass, speed, power, mobility=None):
    """Volume, and speed, of argon of 2 bar, by P V^gamma = constant."""

    def change(_, y):
        pace, push = area * y[0] ** power, 2e6 * y[0] ** (-5.0 / 3.0) - outside
        if mobility is not None:
            return [pace * mobility * push, 0.0]
        return [pace * y[1], y[0] ** power * push / mass]

    found = solve_ivp(change, (0, times[-1]), [1.0, speed], "Radau", times, rtol=1e-11, atol=1e-12)
    return found.y


def argon(times, volume, **options):
    return integrate(
        ARGON, times=times, initial={"AR": 1.0}, temperature=300.0, pressure=2e6, volume=volume,
        heating="given-volume", device="cpu", **options,
    )  # fmt: skip


def furnace(time):
    return 400.0 + 3e4 * np.sin(20.0 * time) ** 2


def test_argon_moves_a_piston_in_a_furnace(tmp_path):
    """A wall that changes in time; pistons by zone; parts are those of one call."""
    area, mass, times = np.array([0.01, 0.02, 0.03]), np.array([10.0, 20.0, 30.0]), [0.0, 0.05, 0.1]
    piston, wall = Piston(area, 1e6, mass_per_area=mass), Wall(1e6, furnace, 2.0 * area)
    found = argon(times, piston, wall=wall, rtol=1e-6)
    amount = 2e6 / 300.0  # n R / V_0

    for k in range(3):

        def change(t, y, k=k):
            push = amount * y[2] / y[0]
            hotter = 2e6 * area[k] * (furnace(t) - y[2]) - push * area[k] * y[1]
            return [area[k] * y[1], (push - 1e6) / mass[k], hotter / (1.5 * amount)]

        exact = solve_ivp(change, (0, 0.1), [1.0, 0.0, 300.0], "Radau", times, rtol=1e-10,
                          atol=1e-10).y  # fmt: skip
        np.testing.assert_allclose(found["volume_ratio"][k], exact[0], rtol=1e-6)
        np.testing.assert_allclose(found["piston_velocity"][k], exact[1], rtol=3e-6, atol=1e-3)
        np.testing.assert_allclose(found["temperature"][k], exact[2], rtol=1e-6)
    assert found["temperature"].max() > 400.0 and found.attrs["method"] == "bdf"
    moved = Trajectory(np.linspace(0, 0.1, 3), np.full((3, 3), 400.0))
    options = {"wall": Wall(1e4, moved, 0.02), "times": times, "volume": piston}
    one, parts = argon(**options), argon(**options, store=tmp_path / "parts.zarr", chunk=1)
    for name in ("temperature", "volume_ratio", "piston_velocity"):
        np.testing.assert_array_equal(one[name], parts[name])
    assert "Piston" in repr(ergode.inputs(one))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("shape", "power"), [("plane", 0.0), ("sphere", 2.0 / 3.0)])
def test_argon_moves_a_piston_adiabatically(shape, power):
    """Through several turns of its oscillation; and its energy is kept."""
    area, outside = np.array([0.01, 0.02]), np.array([1e6, 2.5e6])
    mass, speed, times = np.array([10.0, 20.0]), np.array([50.0, -100.0]), np.linspace(0, 0.2, 41)
    exact = [expanding(times, *row, power) for row in zip(area, outside, mass, speed, strict=True)]
    # Over several turns errors add up, to 16 and 45 times `rtol`.
    for rtol, within in ((1e-5, 1e-3), (1e-8, 1e-6)):
        piston = Piston(area, outside, mass_per_area=mass, velocity=speed, shape=shape)
        found = argon(times, piston, rtol=rtol)
        x, v, hot = (
            found[n].values for n in ("volume_ratio", "piston_velocity", "temperature")
        )  # fmt: skip
        for k, (volume, velocity) in enumerate(exact):
            np.testing.assert_allclose(x[k], volume, rtol=within)
            np.testing.assert_allclose(v[k], velocity, atol=within * np.abs(velocity).max())
        np.testing.assert_allclose(hot * x ** (2 / 3), 300.0, rtol=within)
        np.testing.assert_allclose(found["pressure"] * x, 2e6 * hot / 300.0, rtol=1e-12)
        # Internal energy, that of the piston, and work on the outside, over the volume at first.
        kept = 1.5 * found["pressure"].values * x + outside[:, None] * x
        kept += 0.5 * (mass * area)[:, None] * v**2
        np.testing.assert_allclose(kept, kept[:, :1] * np.ones(41), rtol=within)
    assert found.attrs["method"] == "bdf" and "energy_error" not in found
    assert (np.sign(np.diff(v[0])) != np.sign(v[0, 1] - v[0, 0])).any()  # it comes back


@pytest.mark.exhaustive
def test_argon_moves_a_piston_without_a_mass():
    times = np.linspace(0.0, 0.02, 9)
    for shape, power in (("plane", 0.0), ("sphere", 2.0 / 3.0)):
        exact = expanding(times, 0.01, 1e6, None, 0.0, power, mobility=1e-2)
        found = argon(times, Piston(0.01, 1e6, mobility=1e-2, shape=shape), rtol=1e-8)
        np.testing.assert_allclose(found["volume_ratio"][0], exact[0], rtol=1e-7)
        push = found["pressure"][0] - 1e6
        np.testing.assert_allclose(found["piston_velocity"][0], 1e-2 * push, rtol=1e-9)
    # In the end the pressures are equal.
    last = argon([0.0, 10.0], Piston(0.01, 1e6, mobility=1e-2))
    np.testing.assert_allclose(last["pressure"][0, -1], 1e6, rtol=1e-6)


@pytest.mark.exhaustive
def test_a_piston_that_stands_still_is_a_wall(hydrogen):
    options = {"times": [0.0, 1e-4, 1e-3], "initial": MIXTURE, "temperature": 1100.0,
               "pressure": ATM, "rtol": 1e-8, "device": "cpu"}  # fmt: skip
    still = integrate(hydrogen, volume=STILL, heating="given-volume", **options)
    fixed = integrate(hydrogen, heating="constant-volume", **options)
    np.testing.assert_allclose(still["temperature"], fixed["temperature"], rtol=1e-7)
    np.testing.assert_array_equal(still["volume_ratio"], 1.0)
    np.testing.assert_allclose(still["steepest_time"], fixed["steepest_time"], rtol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("shape", "power"), [("plane", 0.0), ("sphere", 2.0 / 3.0)])
def test_a_burning_zone_that_throws_a_piston_is_that_of_scipy(
    cantera, hydrogen_file, hydrogen, shape, power
):
    times = np.array([0.0, 1e-4, 2e-4, 5e-4, 1e-3, 3e-3])
    gas, area, mass, outside = cantera.Solution(str(hydrogen_file)), 0.5, 1.0, 0.8 * ATM
    gas.TPX = 1100.0, cantera.one_atm, MIXTURE
    first, weights = gas.density, gas.molecular_weights

    def change(_, y):
        gas.set_unnormalized_mass_fractions(y[3:])
        gas.TD = y[0], first / y[1]
        made, g = gas.net_production_rates, y[1] ** power
        wider = area * g * y[2]
        hotter = -(gas.P * wider / y[1] + made @ gas.partial_molar_int_energies)
        hotter /= gas.density * gas.cv_mass
        faster = g * (10.0 * gas.P - outside) / mass
        return np.r_[hotter, wider, faster, made * weights / gas.density]

    begin = np.r_[1100.0, 1.0, 300.0, gas.Y]
    exact = solve_ivp(change, (0, times[-1]), begin, "Radau", times, rtol=1e-10, atol=1e-16).y
    options = {
        "temperature": 1100.0, "pressure": ATM, "heating": "given-volume", "device": "cpu",
        "volume": Piston(area, outside, mass_per_area=mass, velocity=300.0, shape=shape),
    }  # fmt: skip
    found = integrate(hydrogen, times=times, initial=MIXTURE, rtol=1e-7, **options).isel(zone=0)
    delay = ignition_delay(
        hydrogen, fuel="H2", oxidizer={"O2": 1.0, "AR": 7.0}, duration=3e-3, **options
    )["ignition_delay"].item()
    np.testing.assert_allclose(delay, found["steepest_time"].item(), rtol=1e-3)
    np.testing.assert_allclose(found["temperature"], exact[0], rtol=1e-7)
    np.testing.assert_allclose(found["volume_ratio"], exact[1], rtol=1e-7)
    np.testing.assert_allclose(found["piston_velocity"], exact[2], rtol=1e-7)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")
def test_a_star_that_expands_keeps_its_energy_and_its_entropy():
    """A homogeneous sphere in a vacuum, by the equation of state of stellar matter."""
    radius, times = 1e7, np.linspace(0.0, 0.05, 9)
    for burns, density, hot in ((False, 1e6, 5e8), (True, 1e7, 2.5e9)):
        mass, area = density * radius / 5.0, 3.0 / radius
        start = {"c12": 0.5, "mg24": 0.5} if burns else {"mg24": 1.0}
        for rtol, within in ((1e-4, 2e-4), (1e-7, 2e-7)):
            found = integrate(
                CARBON, times=times, initial=start, temperature=hot, density=density, rtol=rtol,
                heating="given-volume", equation_of_state="helmholtz", device="cpu",
                volume=Piston(area, 0.0, mass_per_area=mass, shape="sphere"),
            ).isel(zone=0)  # fmt: skip
            moles = found["mass_fraction"].values / np.array([12.0, 24.0])
            number = 1.0 / moles.sum(axis=1)
            state = ergode.kinetics.equation_of_state(
                found["temperature"], found["density"], number, 0.5 * number
            )
            np.testing.assert_allclose(found["pressure"], state.pressure, rtol=1e-12)
            np.testing.assert_allclose(found["density"] * found["volume_ratio"], density)
            # Of a homogeneous sphere the kinetic energy is 3/10 of its mass times v^2.
            kept = state.energy + 0.3 * found["piston_velocity"].values ** 2
            kept -= found["energy_released"].values
            np.testing.assert_allclose(kept, kept[0], atol=within * state.energy[0])
            if not burns:
                np.testing.assert_allclose(state.entropy, state.entropy[0], rtol=within)
        assert found["volume_ratio"][-1] > 3.0
        assert (found["energy_released"][-1] > 1e17) == burns


def asked(network=GAS, **changes):
    given = {
        "times": [0, 1e-6], "device": "cpu", "temperature": 1500.0, "pressure": 1e6,
        "initial": {"H2": 1.0}, "heating": "given-volume", "volume": FREE,
    } | changes  # fmt: skip
    return integrate(network, **given)


REFUSED = [
    (lambda: Piston(1.0, 1e6), "a mobility or a mass_per_area, and neither is given"),
    (lambda: Piston(1.0, 1e6, mobility=1.0, mass_per_area=1.0), "and both are given"),
    (lambda: Piston(0.0, 1e6, mobility=1.0), "area of the piston is 0 in zone 0"),
    (lambda: Piston(1.0, -1.0, mobility=1.0), "outer_pressure of the piston is -1 in zone 0"),
    (lambda: Piston(1.0, 1e6, mass_per_area=[1.0, 0.0]), "mass_per_area of the piston is 0 in z"),
    (lambda: Piston(1.0, 1e6, mobility=1.0, velocity=2.0), "velocity is given, and the piston has"),
    (lambda: Piston(1.0, 1e6, mass_per_area=1.0, velocity=np.inf), "velocity of the piston is inf"),
    (lambda: Piston(1.0, 1e6, mobility=1.0, shape="cube"), "shape 'cube'"),
    (lambda: asked(heating="constant-volume"), "volume is a Piston; it is for heating='given-vo"),
    (
        lambda: asked(reactor=StirredTank({"H2": 1.0}, 1.0, 300.0)),
        "volume is a Piston, and a reactor is given; expected a closed zone",
    ),
    (
        lambda: asked(
            volume=Piston([1.0, 2.0], 1e6, mobility=1.0), temperature=[1.0, 2.0, 3.0]
        ),
        "area of the piston has 2 values",
    ),
    (
        lambda: ignition_delay(
            GAS, temperature=1500.0, pressure=1e6, fuel="H2", oxidizer={"OH": 1.0},
            heating="given-volume", volume=Piston([1.0, 2.0], 1e6, mobility=1.0),
        ),
        "volume has several values; expected one piston for all mixtures",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_is_refused(make, words):
    with pytest.raises(ergode.ModelError) as caught:
        make()
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_other_methods_refuse_a_piston():
    with pytest.raises(ergode.PlanError, match="cannot integrate the temperature"):
        asked(method="asymptotic")


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")
def test_a_star_that_expands_on_a_device():
    one, other = on_both(
        integrate, CARBON, times=[0.0, 0.01, 0.05], initial={"c12": 0.5, "mg24": 0.5},
        temperature=2.5e9, density=[1e7, 2e7], heating="given-volume",
        equation_of_state="helmholtz", volume=Piston(3e-7, 0.0, mass_per_area=2e13, shape="sphere"),
    )  # fmt: skip
    np.testing.assert_allclose(one["temperature"], other["temperature"], rtol=1e-6)
    np.testing.assert_allclose(one["volume_ratio"], other["volume_ratio"], rtol=1e-7)
