"""Nuclei whose volume or pressure is given over time: entropy, and SciPy with public functions."""

import numpy as np
import pytest
from both_devices import on_both
from kernel_cases import CARBON
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics import Trajectory, equation_of_state, integrate, neutrino_losses

MEV = 1.602176634e-6 * 6.02214076e23
GAIN = 13.933 * MEV / 24  # erg/g of carbon that burns
STATE = {"equation_of_state": "helmholtz", "device": "cpu"}


def state_of(x, hot, dense):
    """Of carbon with the mass fraction x in magnesium."""
    n = x / 24 + (1 - x) / 12
    return equation_of_state(hot, dense, 1 / n, 0.5 / n)


def burning_rate(x, hot, dense):
    """Rate of change of the mass fraction of magnesium [1/s]."""
    t9 = hot / 1e9
    rate = np.exp(60.9649 - 84.165 / t9 ** (1 / 3) - 1.56627 * t9 ** (1 / 3)
                  - 0.0736084 * t9 - 0.072797 * t9 ** (5 / 3) - 2 / 3 * np.log(t9))  # fmt: skip
    return dense * rate * (1 - x) ** 2 / 12


def warming(x, hot, dense, dense_rate, x_rate, more=0.0):
    """dT/dt of du = p / rho^2 d rho + q, where u depends on T, rho and x."""
    now, step = state_of(x, hot, dense), 1e-6
    by_x = (state_of(x + step, hot, dense).energy - state_of(x - step, hot, dense).energy) / 2e-6
    gained = now.pressure / dense**2 * dense_rate + GAIN * x_rate + more
    return (gained - by_x * x_rate - now.energy_by_density * dense_rate) / now.heat_capacity


@pytest.mark.parametrize(("hot", "dense"), [(5e9, 1e7), (8e8, 3e8)])
@pytest.mark.parametrize("tau", [0.1, -0.2])
def test_without_reactions_the_entropy_stays(hot, dense, tau):
    """By its volume and by its pressure; radiation, pairs and degenerate electrons."""
    end = 0.15
    times = np.linspace(0, end, 6)
    first = state_of(1.0, hot, dense)
    options = {"initial": {"mg24": 1.0}, "temperature": hot, "density": dense, "rtol": 1e-7,
               "times": times, **STATE}  # fmt: skip
    found = integrate(
        CARBON, volume=lambda t: np.exp(t / tau), heating="given-volume", **options
    ).isel(zone=0)
    np.testing.assert_allclose(found["density"], dense * np.exp(-times / tau), rtol=1e-8)
    states = state_of(1.0, found["temperature"].values, found["density"].values)
    np.testing.assert_allclose(states.entropy, first.entropy, rtol=3e-6)
    np.testing.assert_allclose(found["pressure"], states.pressure, rtol=1e-9)
    assert np.isnan(found["steepest_time"]) and "energy_error" not in found
    fine = np.linspace(0, end, 400)
    points = integrate(
        CARBON, volume=Trajectory(fine, np.exp(fine / tau)), heating="given-volume", **options
    ).isel(zone=0)
    np.testing.assert_allclose(points["temperature"], found["temperature"], rtol=3e-6)
    again = integrate(
        CARBON, pressure=lambda t: np.exp(-t / tau), heating="given-pressure", **options
    ).isel(zone=0)
    np.testing.assert_allclose(again["pressure"], first.pressure * np.exp(-times / tau), rtol=1e-7)
    states = state_of(1.0, again["temperature"].values, again["density"].values)
    np.testing.assert_allclose(states.entropy, first.entropy, rtol=3e-6)


def test_a_blob_that_burns_and_expands_is_that_of_scipy():
    """Freeze-out: the expansion ends the burning of carbon."""
    hot, dense, tau, end = 3e9, 1e8, 3e-6, 6e-6
    times = np.linspace(0, end, 7)

    def change(t, y):
        x, warm = y
        rho = dense * np.exp(-t / tau)
        rate = burning_rate(x, warm, rho)
        return [rate, warming(x, warm, rho, -rho / tau, rate)]

    exact = solve_ivp(change, (0, end), [0.8, hot], "LSODA", times, rtol=1e-9, atol=1e-12).y
    assert 0.85 < exact[0, -1] < 0.999 and exact[1, -1] < 0.8 * hot
    found = integrate(
        CARBON, times=times, initial={"c12": 0.2, "mg24": 0.8}, temperature=hot, density=dense,
        rtol=1e-7, volume=lambda t: np.exp(t / tau), heating="given-volume", **STATE,
    ).isel(zone=0)  # fmt: skip
    np.testing.assert_allclose(found["temperature"], exact[1], rtol=1e-5)
    np.testing.assert_allclose(found["mass_fraction"][:, 1], exact[0], atol=1e-6)


def test_neutrinos_cool_what_expands():
    hot, dense, tau, end = 6e9, 1e7, 2e3, 3e3
    times = np.linspace(0, end, 7)

    def change(t, y):
        rho = dense * np.exp(-t / tau)
        lost = -neutrino_losses(y[0], rho, 24, 12).total
        return [warming(1.0, y[0], rho, -rho / tau, 0.0, lost)]

    exact = solve_ivp(change, (0, end), [hot], "LSODA", times, rtol=1e-9).y
    found = integrate(
        CARBON, times=times, initial={"mg24": 1.0}, temperature=hot, density=dense, rtol=1e-7,
        volume=lambda t: np.exp(t / tau), heating="given-volume", neutrino_losses=True, **STATE,
    ).isel(zone=0)  # fmt: skip
    np.testing.assert_allclose(found["temperature"], exact[0], rtol=1e-5)
    assert "neutrino_loss" in found and "neutrino_energy" not in found


def test_burning_at_a_falling_pressure_is_that_of_scipy():
    """Two zones; the density follows from the pressure, and the enthalpy from its work."""
    dense, tau, end = 1e8, 3e-6, 4e-6
    times = np.linspace(0, end, 5)
    hots = np.array([2.8e9, 3e9])
    found = integrate(
        CARBON, times=times, initial={"c12": 0.2, "mg24": 0.8}, temperature=hots, density=dense,
        rtol=1e-7, pressure=lambda t: 7.0 * np.exp(-t / tau), heating="given-pressure", **STATE,
    )  # fmt: skip
    for k, hot in enumerate(hots):

        def change(t, y):
            x, warm, rho = y
            rate, now, step = burning_rate(x, warm, rho), state_of(x, warm, rho), 1e-6
            above, below = state_of(x + step, warm, rho), state_of(x - step, warm, rho)
            # dp = p_T dT + p_rho d rho + p_x dx, and dT of the first law for each d rho/dt.
            still = warming(x, warm, rho, 0.0, rate)
            moving = (warming(x, warm, rho, rho / tau, rate) - still) * tau / rho
            push = -now.pressure / tau - (above.pressure - below.pressure) / 2e-6 * rate
            push -= now.pressure_by_temperature * still
            slope = now.pressure_by_density + now.pressure_by_temperature * moving
            return [rate, still + moving * push / slope, push / slope]

        start = [0.8, hot, dense]
        exact = solve_ivp(change, (0, end), start, "LSODA", times, rtol=1e-9, atol=1e-12).y
        np.testing.assert_allclose(found["temperature"][k], exact[1], rtol=1e-5)
        np.testing.assert_allclose(found["density"][k], exact[2], rtol=1e-5)
        np.testing.assert_allclose(found["mass_fraction"][k, :, 1], exact[0], atol=1e-6)


@pytest.mark.parametrize("state", ["ideal", "degenerate"])
def test_other_matter_keeps_its_first_law(state):
    """The internal energy that is lost is the integral of p dV."""
    times = np.linspace(0, 1.0, 201)
    volume = 1.0 + times
    found = integrate(
        CARBON, times=times, initial={"mg24": 1.0}, temperature=1e9, density=1e7, rtol=1e-7,
        volume=Trajectory(times, volume), heating="given-volume", equation_of_state=state,
        device="cpu",
    ).isel(zone=0)  # fmt: skip
    pressure, hot = found["pressure"].values, found["temperature"].values
    assert hot[-1] < 0.8e9 and (np.diff(hot) < 0).all()
    if state == "ideal":  # nuclei, electrons, radiation
        gas = 8.31446261815324e7 * 13 / 24
        energy = 1.5 * gas * hot + 7.565733e-15 * hot**4 * volume / 1e7
        work = np.trapezoid(pressure * 1e-7, volume)
        assert energy[0] - energy[-1] == pytest.approx(work, rel=3e-5)


def test_what_is_refused():
    options = {"times": [0, 1], "initial": {"c12": 1.0}, "temperature": 3e9, "density": 1e8}
    with pytest.raises(ergode.ModelError, match="volume is not given, and heating is"):
        integrate(CARBON, heating="given-volume", **options)
    with pytest.raises(ergode.ModelError, match="pressure is for networks of molecules"):
        integrate(CARBON, heating="constant-pressure", pressure=1e22, **options)
    with pytest.raises(ergode.ModelError, match="pressure is 1e.22, and heating is 'given-press"):
        integrate(CARBON, heating="given-pressure", pressure=1e22, **options)


@pytest.mark.cuda
@pytest.mark.parametrize("heating", ["given-volume", "given-pressure"])
@pytest.mark.parametrize("state", ["ideal", "helmholtz"])
def test_an_expansion_on_a_device(heating, state):
    line = Trajectory([0.0, 1e-6, 4e-6], [1.0, 1.3, 0.9])
    one, other = on_both(
        integrate, CARBON, times=[0.0, 1e-6, 4e-6], initial={"c12": 0.2, "mg24": 0.8},
        heating=heating, temperature=np.linspace(2.5e9, 3e9, 5), density=1e8,
        equation_of_state=state, **{heating.split("-")[1]: line},
    )  # fmt: skip
    np.testing.assert_array_equal(one["step_count"], other["step_count"])
    np.testing.assert_allclose(one["temperature"], other["temperature"], rtol=1e-6)
