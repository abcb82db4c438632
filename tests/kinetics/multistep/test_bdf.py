"""Backward differentiation formulas, against Cantera, the other implicit methods and SciPy."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics import ignition_delay, integrate

ct = pytest.importorskip("cantera")
pytest.importorskip("ruamel.yaml")
DATA = Path(ct.__file__).parent / "data"
CPU = ergode.Device("cpu:1")
MIXTURE = {"H2": 2.0, "O2": 1.0, "AR": 4.0}
HOT = {"initial": MIXTURE, "temperature": 1100.0, "pressure": 1.01325e6}
HEATINGS = ["constant-volume", "constant-pressure", "isothermal-constant-pressure", None]


@pytest.mark.slow
@pytest.mark.parametrize("heating", HEATINGS)
def test_it_is_the_solution_of_the_rosenbrock_method(hydrogen, heating):
    """Other formulas, other rates of change, another Jacobian; both have small tolerances."""
    times = np.linspace(0, 4e-4, 9)
    found, expected = (
        integrate(hydrogen, times=times, heating=heating, rtol=rtol, method=method, device=CPU,
                  **HOT)
        for method, rtol in (("bdf", 1e-9), ("rodas4", 1e-8))
    )  # fmt: skip
    amounts = expected["concentration"].values[0]
    np.testing.assert_allclose(
        found["concentration"].values[0], amounts, rtol=1e-5, atol=1e-10 * amounts.max()
    )
    np.testing.assert_allclose(found["temperature"], expected["temperature"], rtol=1e-7)
    assert found["conservation_error"].item() < 1e-13
    if heating in HEATINGS[:2]:
        assert found["energy_error"].item() < 1e-12
        assert found["steepest_time"].item() == pytest.approx(
            expected["steepest_time"].item(), rel=2e-5
        )


def fixed_temperature(gas, temperature, amounts, times):
    """Concentrations at a constant temperature and volume by SciPy, with Cantera's rates."""

    def change(_, c):
        gas.TD = temperature, c @ gas.molecular_weights
        gas.set_unnormalized_mole_fractions(c / c.sum())
        gas.TP = temperature, c.sum() * ct.gas_constant * temperature
        return gas.net_production_rates

    return solve_ivp(
        change, (0, times[-1]), amounts, method="Radau", rtol=1e-10, atol=1e-18, t_eval=times
    ).y.T


@pytest.mark.slow
def test_methane_is_that_of_radau_with_the_rates_of_cantera():
    """Every species of GRI-3.0 reacts: plain, third bodies, falloff by Troe and Lindemann."""
    gas = ct.Solution("gri30.yaml")
    gas.TPX = 1800.0, 2e6, {"CH4": 1, "O2": 1.5, "N2": 4, "NH3": 0.2, "C3H8": 0.1}
    times = np.array([0.0, 1e-6, 1e-4, 1e-2])
    expected = fixed_temperature(gas, 1800.0, gas.concentrations, times) * 1e-3
    found = integrate(
        ergode.read_cantera(DATA / "gri30.yaml"), times=times, method="bdf", rtol=1e-9,
        temperature=1800.0, pressure=2e7, device=CPU,
        initial={"CH4": 1, "O2": 1.5, "N2": 4, "NH3": 0.2, "C3H8": 0.1},
    )  # fmt: skip
    np.testing.assert_allclose(
        found["concentration"].values[0], expected, rtol=1e-5, atol=1e-9 * expected.max()
    )


@pytest.mark.slow
def test_delays_follow_the_tolerance(hydrogen):
    """Errors of the time of fastest heating, against a run at 1e-12."""

    def delays(rtol):
        return ignition_delay(
            hydrogen, temperature=[1050.0, 1200.0], pressure=1.01325e6, fuel="H2",
            oxidizer={"O2": 1.0, "AR": 4.0}, duration=5e-4, method="bdf", rtol=rtol, device=CPU,
        )  # fmt: skip

    exact = delays(1e-12)
    assert exact.attrs["method"] == "bdf" and (exact["status"] == 0).all()
    for rtol in (1e-6, 1e-8, 1e-10):
        found = delays(rtol)
        error = abs(found["ignition_delay"] / exact["ignition_delay"] - 1.0).max()
        assert error < 100 * rtol, (rtol, error)


def laws(amount=1e-5):
    """Every kind of law, forwards and backwards, of molecules that keep H and O."""
    low, high = ergode.Arrhenius(1e17, -1.0, 500.0), ergode.Arrhenius(1e12, 0.5, 2000.0)
    partners = {"H2O": 6.0, "Ar": 0.5}
    return {
        "H + OH -> H2O": ergode.Falloff(low, high, partners),
        "2 H -> H2": ergode.Falloff(low, high, partners, troe=(0.6, 100.0, 2000.0, 5000.0)),
        "2 O -> O2": ergode.Falloff(low, high, partners, sri=(0.5, 300.0, 1500.0, 1.1, 0.05)),
        "O + H -> OH": ergode.ThreeBody(ergode.Arrhenius(1e16, -0.5, 0.0), partners),
        "H2 + OH -> H2O + H": ergode.PressureLog(
            [(1e5, ergode.Arrhenius(1e10, 0.7, 1000.0)), (1e6, ergode.Arrhenius(3e10, 0.8, 900.0)),
             (1e7, ergode.Arrhenius(2e11, 0.6, 1100.0))]
        ),
        "O + H2 -> OH + H": ergode.Chebyshev(
            (300.0, 3000.0), (1e4, 1e8), ((11.0, 0.3, 0.02), (1.5, -0.1, 0.01), (-0.2, 0.05, 0.0))
        ),
        "2 OH -> H2O + O": ergode.Arrhenius(1e11, 0.6, 0.0),
        "H + O2 -> OH + O": ergode.Arrhenius(1e14, 0.0, 7500.0),
    }  # fmt: skip


def every_law(powers=True):
    """A network of them; `powers` adds fractional orders."""
    atoms = {"H": {"H": 1}, "O": {"O": 1}, "OH": {"O": 1, "H": 1}, "H2": {"H": 2}, "O2": {"O": 2},
             "H2O": {"H": 2, "O": 1}, "Ar": {"Ar": 1}}  # fmt: skip
    heat = {"H": 26e3, "O": 29e3, "OH": 4e3, "H2": -1e3, "O2": -1e3, "H2O": -30e3, "Ar": -750.0}
    species = []
    for name, one in atoms.items():
        size = 2.5 + 0.8 * (sum(one.values()) - 1)
        cold = (size, 2e-4, 0.0, 0.0, 0.0, heat[name], 3.0)
        # Its enthalpy is continuous at 1,500 K, and its heat capacity is not.
        warm = (size + 0.15, 1e-4, 0.0, 0.0, 0.0, heat[name] - 0.15 * 1500 + 0.5e-4 * 1500**2, 2.0)
        gas = ergode.NasaPolynomials(cold, warm, 1500.0, one)
        species.append(ergode.Species(name, thermochemistry=gas))
    reactions = []
    for text, law in laws().items():
        left, right = text.split(" -> ")
        reactions.append(ergode.Reaction(text, rate_constant=law))
        if text != "2 OH -> H2O + O":
            back = ergode.DetailedBalance(law)
            reactions.append(ergode.Reaction(f"{right} -> {left}", rate_constant=back))
    reactions.append(ergode.Reaction("H2O + O -> 2 OH", rate_constant=ergode.Arrhenius(3e9, 0.8)))
    split = ergode.Arrhenius(1e3, 0.0, 3000.0)
    reactions += [
        ergode.Reaction("2 H2O -> 2 H + 2 OH", rate_constant=split),
        ergode.Reaction("2 H + 2 OH -> 2 H2O", rate_constant=ergode.DetailedBalance(split)),
    ]
    order = ergode.PowerLaw(ergode.Arrhenius(1e7, 0.0, 9000.0), {"H2": 0.5, "O2": 1})
    if powers:
        reactions.append(ergode.Reaction("H2 + O2 -> 2 OH", rate_constant=order))
    return ergode.ReactionNetwork(species, reactions)


@pytest.mark.slow
@pytest.mark.parametrize("heating", ["constant-volume", None])
def test_laws_by_pressure_in_lanes_are_those_of_zones_alone(heating):
    network, rng = every_law(powers=False), np.random.default_rng(2)
    count = 11
    hot, dense = rng.uniform(1100.0, 1600.0, count), 10.0 ** rng.uniform(5.0, 7.0, count)

    def run(zones):
        return integrate(
            network, times=[0.0, 1e-6, 1e-3], temperature=hot[zones], pressure=dense[zones],
            initial={"H2": 2, "O2": 1, "Ar": 4, "H": 0.5, "O": 0.2}, heating=heating, rtol=1e-6,
            atol=1e-18, method="bdf", device=CPU,
        )  # fmt: skip

    together = run(np.arange(count))
    for k in range(count):
        alone = run(np.array([k]))
        for name in ("concentration", "temperature", "step_count"):
            np.testing.assert_array_equal(alone[name].values[0], together[name].values[k])


@pytest.mark.slow
def test_every_law_is_that_of_the_rosenbrock_method():
    """Explicit reverses, reverses by detailed balance, fractional orders, four products."""
    network = every_law()
    given = {
        "times": [0.0, 1e-6, 1e-5, 1e-3],
        "initial": {"H2": 2, "O2": 1, "Ar": 4, "H": 0.5, "O": 0.2},
        "temperature": [1300.0, 1480.0], "pressure": [1e6, 4e6], "device": CPU,
    }  # fmt: skip
    for heating in ("constant-pressure", None):
        found, expected = (
            integrate(network, method=method, rtol=rtol, heating=heating, **given)
            for method, rtol in (("bdf", 1e-9), ("rodas4", 1e-8))
        )
        amounts = expected["concentration"].values
        assert found["temperature"].values[0, -1] > 1500.0 or heating is None
        np.testing.assert_allclose(
            found["concentration"], amounts, rtol=2e-5, atol=1e-8 * amounts.max()
        )
        assert found["conservation_error"].max() < 1e-12


def test_what_it_refuses(hydrogen):
    def refused(network=hydrogen, **given):
        with pytest.raises(ergode.PlanError) as caught:
            integrate(network, times=[0, 1e-6], method="bdf", device=CPU, **given)
        return str(caught.value)

    nucleus = ergode.Species(
        "he4", mass_number=4, charge_number=2, thermochemistry=ergode.Nucleus(2.4249)
    )
    nuclei = ergode.ReactionNetwork([nucleus], [])
    found = refused(nuclei, initial={"he4": 1.0}, temperature=1e9, density=1e6)
    assert "the network has nuclei; use 'rodas4'" in found


@pytest.mark.slow
def test_how_a_zone_can_fail(hydrogen):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ergode.ErgodeWarning)
        few = integrate(hydrogen, times=[0, 1e-3], method="bdf", max_steps=20, device=CPU,
                        heating="constant-volume", **HOT)  # fmt: skip
        explosion = ergode.ReactionNetwork(
            {"x": 1.0}, [ergode.Reaction("2 x -> 3 x", rate_constant=1.0)]
        )
        blown = integrate(explosion, times=[0, 0.5, 2.0], method="bdf", device=CPU)
    assert ergode.Status(few["status"].item()) == ergode.Status.TOO_MANY_STEPS
    assert np.isnan(few["temperature"].values[0, 1]) and few["step_count"].item() <= 20
    assert blown["status"].item() != 0
    assert blown["concentration"].values[0, 1, 0] == pytest.approx(2.0, rel=1e-3)
    assert np.isnan(blown["concentration"].values[0, 2, 0])


@pytest.mark.slow
def test_a_gas_that_only_cools_to_a_hot_wall_and_back_needs_few_steps(hydrogen):
    """A stiff wall: its time is 1e-8 of the run, and steps grow beyond it."""
    found = integrate(
        hydrogen, times=[0.0, 1e-6, 10.0], initial={"AR": 1.0}, temperature=500.0, pressure=1e6,
        heating="constant-volume", wall=ergode.kinetics.Wall(3e10, 900.0, 1.0), method="bdf",
        rtol=1e-8, device=CPU,
    )  # fmt: skip
    left = np.exp(-3e10 * 1e-6 / (1.5 * 1e6 / 500.0))
    np.testing.assert_allclose(found["temperature"][0, 1], 900.0 - 400.0 * left, rtol=1e-6)
    assert found["temperature"][0, 2] == pytest.approx(900.0, rel=1e-9)
    assert found["step_count"].item() < 400


@pytest.mark.slow
def test_sunlight_over_time_is_that_of_radau():
    """A radical that follows the sunlight within a tenth of a second, through a night."""
    network = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0, "C": 0.0},
        [
            ergode.Reaction("A -> B", rate_constant=ergode.Photolysis(1e-3, 1.0)),
            ergode.Reaction("B -> A", rate_constant=10.0),
            # The sum is kept.
            ergode.Reaction("B -> C", rate_constant=ergode.RateExpression("0.01 * (A + B + C)")),
        ],
    )
    times, sun = np.linspace(0.0, 129600.0, 7), ergode.kinetics.daylight

    def change(time, y):
        light = 1e-3 * sun(time) * y[0]
        return [10.0 * y[1] - light, light - 10.01 * y[1], 1e-2 * y[1]]

    exact = solve_ivp(
        change, (0.0, times[-1]), [1.0, 0.0, 0.0], "Radau", times, rtol=1e-9, atol=1e-14,
        max_step=300.0,
    ).y.T  # fmt: skip
    found = integrate(network, times=times, sunlight=sun, method="bdf", rtol=1e-6, device=CPU)
    np.testing.assert_allclose(found["concentration"][0], exact, rtol=1e-4, atol=1e-10)
