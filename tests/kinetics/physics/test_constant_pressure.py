"""Nuclei that burn at constant pressure, against SciPy with the public equation of state."""

import numpy as np
import pytest
from kernel_cases import CARBON, burning
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics import burn, equation_of_state, integrate, neutrino_losses
from ergode.kinetics.physics.equation_of_state import densities_at_pressure

MEV = 1.602176634e-6 * 6.02214076e23
EXCESS = np.array([0.0, -13.933]) * MEV / [12, 24]  # erg/g
KEPT = {"heating": "constant-pressure", "equation_of_state": "helmholtz", "device": "cpu"}


def state_of(x, t, rho):
    """Of carbon with the mass fraction x in magnesium."""
    n = x / 12 + (1 - x) / 24
    return equation_of_state(t, rho, 1 / n, 0.5 / n)


def hot_and_dense(x, pressure, enthalpy, guess):
    """Temperature and density of a pressure and an enthalpy u + P / rho."""
    t, rho = guess
    for _ in range(30):
        now = state_of(x, t, rho)
        off = [pressure - now.pressure, enthalpy - (now.energy + now.pressure / rho)]
        by_heat, by_density = now.pressure_by_temperature, now.pressure_by_density
        slopes = [
            [by_heat, by_density],
            [now.heat_capacity + by_heat / rho,
             now.energy_by_density + by_density / rho - now.pressure / rho**2],
        ]  # fmt: skip
        more = np.linalg.solve(slopes, off)
        t, rho = t + more[0], rho + more[1]
        if abs(more[0] / t) + abs(more[1] / rho) < 1e-9:
            return [float(t), float(rho)]
    raise AssertionError(f"no state at x = {x}")


@pytest.mark.parametrize(("hot", "dense"), [(3e9, 1e8), (2.2e9, 3e9)])
def test_the_pressure_and_the_enthalpy_stay(hot, dense):
    """T and rho follow from P and h: a single equation of the carbon, which SciPy solves."""
    start = state_of(1.0, hot, dense)
    first = start.energy + start.pressure / dense
    last = [hot, dense]

    def burnt(_, x):
        nonlocal last
        last = hot_and_dense(x[0], start.pressure, first + (1 - x[0]) * -EXCESS[1], last)
        t9 = last[0] / 1e9
        rate = np.exp(60.9649 - 84.165 / t9 ** (1 / 3) - 1.56627 * t9 ** (1 / 3)
                      - 0.0736084 * t9 - 0.072797 * t9 ** (5 / 3) - 2 / 3 * np.log(t9))  # fmt: skip
        return [-last[1] * rate * x[0] ** 2 / 12]

    time = 3.0 / -burnt(0.0, [1.0])[0]
    times = time * np.array([0.0, 0.01, 0.03, 0.1, 0.3, 1.0])
    last = [hot, dense]
    exact = solve_ivp(burnt, (0, time), [1.0], "LSODA", times, rtol=1e-9, atol=1e-11).y[0]
    result = integrate(
        CARBON, times=times, initial={"c12": 1.0}, temperature=hot, density=dense, rtol=1e-7, **KEPT
    )
    assert exact[-1] < 0.6
    x, t, rho = (result[name].values[0] for name in ("mass_fraction", "temperature", "density"))
    np.testing.assert_allclose(x[:, 0], exact, atol=1e-5)
    ends = hot_and_dense(exact[-1], start.pressure, first + (1 - exact[-1]) * -EXCESS[1], last)
    np.testing.assert_allclose([t[-1], rho[-1]], ends, rtol=1e-5)
    assert rho[-1] < 0.99 * dense
    np.testing.assert_allclose(result["pressure"][0], start.pressure, rtol=1e-12)
    assert result["energy_error"].item() < 1e-6
    cell = burn(CARBON, [hot], [dense], [[1.0, 0.0]], time, rtol=1e-7, **KEPT)
    np.testing.assert_allclose(cell.mass_fraction[0], x[-1], atol=1e-7)
    np.testing.assert_allclose(cell.energy, (x[0] - x[-1]) @ EXCESS, rtol=1e-5)


def test_neutrinos_cool_at_constant_pressure():
    times = np.concatenate([[0], np.geomspace(1e-2, 3e3, 80)])
    result = integrate(
        CARBON, times=times, initial={"mg24": 1.0}, temperature=6e9, density=1e7, rtol=1e-7,
        neutrino_losses=True, **KEPT,
    )  # fmt: skip
    pressure = state_of(0.0, 6e9, 1e7).pressure

    def cooling(_, y):
        t, rho = y
        state = state_of(0.0, t, rho)
        by_heat = -state.pressure_by_temperature / state.pressure_by_density
        capacity = state.heat_capacity - t * state.pressure_by_temperature * by_heat / rho**2
        change = -neutrino_losses(t, rho, 24, 12).total / capacity
        return [change, change * by_heat]

    exact = solve_ivp(cooling, (0, 3e3), [6e9, 1e7], "LSODA", times, rtol=1e-9, atol=1e-1).y
    assert exact[0, -1] < 5e9 and exact[1, -1] > 1.1e7
    np.testing.assert_allclose(result["temperature"][0], exact[0], rtol=1e-5)
    np.testing.assert_allclose(result["density"][0], exact[1], rtol=1e-5)
    np.testing.assert_allclose(result["pressure"][0], pressure, rtol=1e-12)
    loss, carried = result["neutrino_loss"].values[0], result["neutrino_energy"].values[0]
    assert carried[-1] == pytest.approx(np.trapezoid(loss, times), rel=0.05)
    cell = burn(CARBON, [6e9], [1e7], [[0.0, 1.0]], 3e3, rtol=1e-7, neutrino_losses=True, **KEPT)
    assert cell.neutrino_energy[0] == pytest.approx(1.5e3 * (loss[0] + loss[-1]), rel=1e-5)
    assert cell.energy[0] == pytest.approx(0.0, abs=1e-6 * carried[-1])


def test_cells_of_molecules_at_constant_pressure():
    network = burning()
    initial = {"H": 0.2, "OH": 0.3, "H2": 0.5}
    result = integrate(
        network, times=[0, 1e-6], temperature=[1500.0, 1900.0], pressure=1e6, rtol=1e-6,
        initial=initial, heating="constant-pressure", device="cpu",
    )  # fmt: skip
    mass = ergode.kinetics.compositions.molar_masses(network)
    c, rho = result["concentration"].values, result["density"].values
    x = c * mass / rho[:, :, None]
    found = burn(
        network, [1500.0, 1900.0], rho[:, 0], x[:, 0], 1e-6, heating="constant-pressure", rtol=1e-6,
        device="cpu",
    )  # fmt: skip
    assert (np.abs(result["temperature"].diff("time")) > 20.0).all()
    np.testing.assert_allclose(found.mass_fraction, x[:, 1], atol=1e-6)


def heat(temperature, density, nuclei, electrons):
    gas = 1.5 * 8.31446261815324e7 * temperature * (nuclei + electrons)
    return gas + 7.565733250280007e-15 * temperature**4 / density


def push(temperature, density, nuclei, electrons):
    gas = density * 8.31446261815324e7 * temperature * (nuclei + electrons)
    return gas + 7.565733250280007e-15 * temperature**4 / 3.0


OWN = ergode.kinetics.EquationOfState(heat, push)


@pytest.mark.exhaustive
def test_matter_of_ones_own_expands():
    found = integrate(
        CARBON, times=[0, 1e-6, 3e-6], temperature=3e9, density=1e7, initial={"c12": 1.0},
        rtol=1e-8, **KEPT | {"equation_of_state": OWN},
    ).isel(zone=0)  # fmt: skip
    t, rho, pressure = (found[name].values for name in ("temperature", "density", "pressure"))
    nuclei = (found["mass_fraction"] / found["mass_number"]).sum("species").values
    assert rho[-1] < 0.95e7
    np.testing.assert_allclose(pressure, pressure[0], rtol=1e-12)
    np.testing.assert_allclose(push(t, rho, nuclei, 0.5), pressure, rtol=1e-12)
    enthalpy = heat(t, rho, nuclei, 0.5) + pressure / rho - found["energy_released"].values
    np.testing.assert_allclose(enthalpy, enthalpy[0], rtol=1e-6)


def test_the_density_of_matter_of_ones_own():
    t, rho, nuclei = (np.array([row]) for row in ([3e9, 4e9], [1e7, 6e6], [0.08, 0.07]))
    amounts = np.stack([nuclei - 0.01, 0.01 + 0 * nuclei], axis=-1)
    electrons = amounts @ [6.0, 2.0]
    found = densities_at_pressure(OWN, t, rho[:, 0], nuclei, electrons)
    kept = push(t[:, :1], rho[:, :1], nuclei[:, :1], electrons[:, :1])
    assert found[0, 0] == pytest.approx(1e7)
    np.testing.assert_allclose(push(t, found, nuclei, electrons), kept + 0 * t, rtol=1e-12)


def test_an_isobar_without_a_density_is_refused():
    """Of radiation and pairs; a share of 1e-6 in d ln P / d ln rho is enough."""
    hot = {"times": [0, 1e-6], "temperature": 7e9, "initial": {"c12": 1.0}, **KEPT}
    found = integrate(CARBON, density=1e3, rtol=1e-6, **hot)
    assert found["status"].item() == 0
    assert found["pressure"][0, 1] == pytest.approx(found["pressure"][0, 0].item(), rel=1e-9)
    with pytest.raises(ergode.ModelError, match=r"7e\+09 K and 20 g/cm3 in zone 1 radiation and"):
        integrate(CARBON, density=[1e3, 20.0], **hot)
