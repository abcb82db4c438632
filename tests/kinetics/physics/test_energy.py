"""The energy balance that a run states, and matter that an equation of state lacks."""

import warnings

import numpy as np
import pytest
from kernel_cases import CARBON

import ergode
from ergode.kinetics import burn, integrate
from ergode.kinetics.physics.energy import enthalpy
from ergode.kinetics.physics.equation_of_state import share_of_pairs

R, RADIATION = 8.31446261815324e7, 7.565733250280007e-15
MEV = 1.602176634e-6 * 6.02214076e23


@pytest.mark.parametrize("rtol", [1e-2, 1e-4, 1e-7])
def test_the_energy_error_of_nuclei_is_what_it_says(rtol):
    """Conserved sums of nuclei are exact whatever the temperature does."""
    result = integrate(
        CARBON, times=np.concatenate([[0], np.geomspace(1e-9, 1e-1, 30)]), temperature=2.5e9,
        density=1e7, initial={"c12": 1.0}, heating="constant-volume", rtol=rtol, device="cpu",
    )  # fmt: skip
    x, t = result["mass_fraction"].values[0], result["temperature"].values[0]
    released = (x[0] - x) @ (np.array([0.0, -13.933]) / [12, 24]) * MEV
    thermal = 1.5 * R * t * (x @ [7 / 12, 13 / 24]) + RADIATION * t**4 / 1e7
    error = np.abs(thermal - thermal[0] - released).max() / released.max()
    assert x[-1, 0] < 0.5
    assert result["energy_error"].item() == pytest.approx(error, rel=1e-6, abs=1e-13)
    assert error < 30 * rtol
    assert result["conservation_error"].item() < 1e-6


@pytest.mark.parametrize("mode", ["constant-volume", "constant-pressure"])
def test_the_energy_error_of_molecules_is_what_it_says(mode):
    hot, cold = (3.5, 2e-4, 0, 0, 0, 0.0, 4.0), (4.0, 1e-4, 0, 0, 0, -9000.0, 3.0)
    network = ergode.ReactionNetwork(
        [
            ergode.Species(name, thermochemistry=ergode.NasaPolynomials(row, row, 1e3, {"H": 1}))
            for name, row in (("A", hot), ("B", cold))
        ],
        [ergode.Reaction("A -> B", rate_constant=ergode.Arrhenius(1e6, 0.0, 8e3))],
    )
    result = integrate(
        network, times=np.linspace(0, 1e-3, 50), temperature=1100.0, pressure=1e6,
        initial={"A": 1.0}, heating=mode, rtol=1e-3, device="cpu",
    )  # fmt: skip
    c, t = result["concentration"].values[0], result["temperature"].values[0]
    work = 1.0 if mode == "constant-volume" else 0.0

    def energies(t):
        return np.array([(a[0] - work + a[1] * t / 2) * R * t + a[5] * R for a in (hot, cold)])

    n = c / c.sum(axis=1, keepdims=True)
    total = np.array([n[k] @ energies(t[k]) for k in range(50)])
    released = -(n - n[0]) @ energies(t[0])
    error = np.abs(total - total[0]).max() / np.abs(released).max()
    assert t[-1] > 2000.0 and error < 0.03
    assert result["energy_error"].item() == pytest.approx(error, rel=1e-4, abs=1e-13)


def test_the_enthalpy_of_a_zone_that_failed_is_missing():
    """A NaN of one zone must not end the others."""
    row = (3.5, 2e-4, 0, 0, 0, 0.0, 4.0)
    known = ergode.NasaPolynomials(row, row, 1e3, {"H": 1})
    found = enthalpy(known, np.array([300.0, np.nan, 5000.0]))
    assert np.isfinite(found).tolist() == [True, False, True]


ALPHA = [
    "n", "p", "he4", "c12", "o16", "ne20", "mg24", "al27", "si28", "p31", "s32", "cl35", "ar36",
    "k39", "ca40", "sc43", "ti44", "v47", "cr48", "mn51", "fe52", "co55", "ni56",
]  # fmt: skip


def still(device, **options):
    """A zone that heats itself for 10 s from nuclear equilibrium: nothing happens."""
    pytest.importorskip("pynucastro")
    network = ergode.balanced(ergode.read_reaclib(ALPHA))
    start = ergode.kinetics.nuclear_equilibrium(
        network, temperature=6e9, density=1e8, electron_fraction=0.5
    )["mass_fraction"][0]
    initial = dict(zip(ALPHA, start.values.tolist(), strict=True))
    return integrate(
        network, times=[0, 1e-3, 0.1, 10.0], temperature=6e9, density=1e8, initial=initial,
        device=device, max_steps=1_000, **options,
    ), start  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_a_zone_in_equilibrium_stays(device):
    """Rates of 1e10/s cancel; what the Jacobian misses of the energy, relative to them, matters."""
    for rtol in (1e-3, 1e-5):
        found, start = still(device, heating="constant-volume", rtol=rtol)
        assert found["status"].item() == 0 and found["step_count"].item() < 100
        assert np.abs(found["temperature"] / 6e9 - 1).max() < rtol
        assert np.abs(found["mass_fraction"][0] - start).max() < 10 * rtol


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23"])
@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure"])
def test_a_zone_in_equilibrium_stays_with_exact_electrons(heating, method):
    for rtol in (1e-3, 1e-5):
        found, start = still(
            "cpu", heating=heating, rtol=rtol, equation_of_state="helmholtz", method=method
        )
        assert found["status"].item() == 0
        assert np.abs(found["temperature"] / 6e9 - 1).max() < 10 * rtol
        assert np.abs(found["mass_fraction"][0] - start).max() < 100 * rtol


@pytest.mark.exhaustive
def test_neutrinos_cool_a_zone_in_equilibrium():
    """In 1e-4 of its energy a second, whatever the tolerance."""
    options = {"neutrino_losses": True, "equation_of_state": "helmholtz"}
    tight, _ = still("cpu", heating="constant-volume", rtol=1e-7, **options)
    for rtol in (1e-3, 1e-4, 1e-5):
        found, _ = still("cpu", heating="constant-volume", rtol=rtol, **options)
        assert np.abs(found["temperature"] / tight["temperature"] - 1).max() < 3 * rtol


def test_an_energy_error_that_is_too_large_is_warned_of():
    options = {
        "times": [0, 1e-1], "temperature": 2.5e9, "density": 1e7, "initial": {"c12": 1.0},
        "heating": "constant-volume", "device": "cpu", "rtol": 1e-2,
    }  # fmt: skip
    with pytest.warns(ergode.AccuracyWarning, match="energy released"):
        integrate(CARBON, conservation_tolerance=1e-9, **options)
    assert "energy_error" not in integrate(CARBON, **(options | {"heating": None}))


def test_pairs_that_matter_are_warned_of():
    """F. X. Timmes, F. D. Swesty (2000): half of c_v at 5e9 K and 1e7 g/cm3 is that of pairs."""
    assert share_of_pairs(np.array(5e9), np.array(5e6)) > 0.5
    assert share_of_pairs(np.array(3e9), np.array(5e8)) < 0.05
    assert share_of_pairs(np.array(1e8), np.array(1e3)) < 1e-6
    options = {
        "times": [0, 1e-9], "initial": {"c12": 1.0}, "heating": "constant-volume",
        "equation_of_state": "degenerate", "device": "cpu",
    }  # fmt: skip
    with pytest.warns(ergode.AccuracyWarning, match="pairs.* at 5.* K and 1e.07"):
        integrate(CARBON, temperature=5e9, density=1e7, **options)
    cells = np.full(3, 5e9), np.full(3, 1e7), np.array([[1.0, 0.0]] * 3)
    with pytest.warns(ergode.AccuracyWarning, match="pairs"):
        burn(CARBON, *cells, 1e-12, heating="constant-volume", equation_of_state="degenerate")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        integrate(CARBON, temperature=2e9, density=1e9, **(options | {"times": [0, 1e-15]}))
