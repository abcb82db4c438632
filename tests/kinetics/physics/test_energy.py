"""The energy balance that a run states, and matter that an equation of state lacks."""

import warnings

import numpy as np
import pytest
from kernel_cases import CARBON

import ergode
from ergode.kinetics import burn, integrate
from ergode.kinetics.physics.energy import enthalpies, polynomials_of
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
    assert result["energy_error"].item() == pytest.approx(error, abs=1e-12)
    assert error < 1e-12
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
    found = enthalpies(polynomials_of([known]), np.array([300.0, np.nan, 5000.0]))
    assert np.isfinite(found[:, 0]).tolist() == [True, False, True]


NUCLEI = [
    "n", "p", "d", "he3", "he4", "li6", "li7", "be7", "be9", "b10", "b11", "c12", "c13", "n13",
    "n14", "n15", "o15", "o16", "o17", "o18", "f17", "f18", "f19", "ne20", "ne21", "ne22", "na22",
    "na23", "mg24", "mg25", "mg26", "al26", "al27", "si28", "si29", "si30", "p31", "s32", "s33",
    "s34", "ar36", "ca40", "ti44", "cr48", "fe52", "fe54", "ni56", "co55",
]  # fmt: skip


def ending(device, **options):
    """A zone that heats itself into nuclear equilibrium within 1e-4 s, and then stays."""
    pytest.importorskip("pynucastro")
    network = ergode.balanced(ergode.read_reaclib(NUCLEI))
    return integrate(
        network, times=[0, 1e-3, 0.1, 8.0], temperature=3.7e9, density=1.2e8,
        initial={"o16": 0.5, "ne20": 0.1, "ni56": 0.4}, device=device, max_steps=3_000, **options,
    )  # fmt: skip


def test_a_zone_in_equilibrium_stays():
    """Rates of 1e10/s cancel; what the Jacobian misses of the energy, relative to them, matters."""
    tight = ending("cpu", heating="constant-volume", rtol=1e-7)
    assert tight["temperature"][0, -1] > 5e9
    for rtol in (1e-3, 1e-5):
        found = ending("cpu", heating="constant-volume", rtol=rtol)
        assert found["status"].item() == 0 and found["step_count"].item() < 500
        assert np.abs(found["temperature"] / tight["temperature"] - 1).max() < 2 * rtol
        assert found["energy_error"].item() < 1e-11


@pytest.mark.cuda
@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure"])
def test_a_zone_in_equilibrium_stays_on_a_device(heating):
    options = {"heating": heating, "equation_of_state": "helmholtz", "rtol": 1e-5}
    here, there = (ending(device, **options) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(here["temperature"], there["temperature"], rtol=1e-4)
    assert there["step_count"].item() < 1.2 * here["step_count"].item()


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23"])
@pytest.mark.parametrize(
    ("heating", "neutrinos"),
    [("constant-volume", False), ("constant-volume", True), ("constant-pressure", False)],
)
def test_a_zone_in_equilibrium_stays_with_exact_electrons(heating, neutrinos, method):
    options = {"heating": heating, "equation_of_state": "helmholtz", "neutrino_losses": neutrinos}
    tight = ending("cpu", rtol=1e-7, **options)
    for rtol in (1e-3, 1e-4, 1e-5):
        found = ending("cpu", rtol=rtol, method=method, **options)
        assert found["status"].item() == 0
        off = np.abs(found["temperature"] / tight["temperature"] - 1).max()
        assert off < (10 if method == "rodas4" else 100) * rtol


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


@pytest.mark.parametrize("mode", ["constant-volume", "constant-pressure"])
@pytest.mark.parametrize(("method", "most"), [("rodas4", 500), ("bdf", 1_000)])
def test_enthalpies_that_jump_where_ranges_meet(method, most, mode):
    """No heat takes a zone over a jump, and beyond it reactions release what molecules have there.

    The temperature depended on where steps ended, by up to the whole jump at any tolerance.
    """
    for heat, of_a, of_b in (
        (1500, 300, 300), (1500, -300, -300), (1500, 0, 200), (1500, 0, -200), (-1500, 150, -150),
    ):  # fmt: skip
        check_jump(method, most, mode, heat, of_a, of_b)


def check_jump(method, most, mode, heat, of_a, of_b):
    capacity, sign = 2.5 if mode == "constant-volume" else 3.5, np.sign(heat)
    species = []
    for name, start, jump in (("A", 0.0, of_a), ("B", -heat, of_b)):
        low, high = ((3.5, 0, 0, 0, 0, e, 4.0) for e in (start, start + jump)[::sign])
        gas = ergode.NasaPolynomials(low, high, 1000.0, {"H": 1})
        species.append(ergode.Species(name, thermochemistry=gas))
    network = ergode.ReactionNetwork(species, [ergode.Reaction("A -> B", rate_constant=1.0)])
    reached = 200.0 * capacity / abs(heat)  # how much has reacted where the ranges meet
    last = 1000.0 + (1.0 - reached) * (heat + of_a - of_b) / capacity
    for rtol in (1e-2, 1e-4, 1e-7):
        found = integrate(
            network, times=[0, 40.0], temperature=1000.0 - 200.0 * sign, pressure=1e6,
            initial={"A": 1.0}, heating=mode, rtol=rtol, method=method, device="cpu",
        )  # fmt: skip
        assert found["temperature"][0, -1].item() == pytest.approx(last, rel=5 * rtol)
        assert found["step_count"].item() < most
