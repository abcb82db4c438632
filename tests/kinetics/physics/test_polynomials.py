"""Polynomials of NASA in several ranges, against Cantera: air from 200 to 20,000 K."""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest

import ergode
from ergode.core import devices, kernels
from ergode.core.group import ONE
from ergode.kinetics.kernel_options import MOLECULES
from ergode.kinetics.network.to_tables import to_tables
from ergode.kinetics.physics.energy import enthalpies, polynomials_of
from ergode.kinetics.physics.rates import energy_of, heat_capacity, log_volumes

ct = pytest.importorskip("cantera")
pytest.importorskip("ruamel.yaml")
GLENN = Path(ct.__file__).parent / "data" / "airNASA9.yaml"
# Not where ranges meet: there Cantera takes the upper range of NASA9, and the lower of NASA7.
TEMPERATURES = np.array([205.0, 999.0, 1001.0, 3000.0, 5999.0, 6001.0, 1.2e4, 1.9e4])
R = 8.31446261815324e7

PHASE = """
units: {length: cm, quantity: mol, activation-energy: K}
phases:
- {name: gas, thermo: ideal-gas, kinetics: gas, species: all}
reactions:
- equation: N2 + O <=> NO + N
  type: Blowers-Masel
  rate-constant: {A: 1.8e14, b: 0, Ea0: 15000, w: 90000}
- {equation: N + O2 <=> NO + O, rate-constant: {A: 9.0e9, b: 1, Ea: 3270}}
- {equation: N2 + M <=> N + N + M, rate-constant: {A: 7.0e21, b: -1.6, Ea: 113200}}
- {equation: O2 + M <=> O + O + M, rate-constant: {A: 2.0e21, b: -1.5, Ea: 59500}}
- {equation: NO <=> NO+ + e-, rate-constant: {A: 1.0e3, b: 0, Ea: 0}}
"""


@pytest.fixture(scope="module")
def air(tmp_path_factory):
    """The library's network and Cantera's gas, of one file."""
    species = GLENN.read_text()
    path = tmp_path_factory.mktemp("air") / "air.yaml"
    path.write_text(PHASE + species[species.index("\nspecies:") :])
    return ergode.read_cantera(path), ct.Solution(str(path))


def _polynomials(place, thermo, temperatures, volumes, energy, capacity):
    t = temperatures[place]
    log_volumes(thermo, t, volumes[place], ONE)
    for i in range(capacity.shape[1]):
        energy[place, i] = energy_of(thermo, t, 1.0 / t, math.log(t), i)
        capacity[place, i] = heat_capacity(thermo, t, i)


KERNEL = kernels.for_each(_polynomials, bindings={MOLECULES: True})


def tables(network):
    shape = TEMPERATURES.size, len(network.species)
    return to_tables(network).used(True)[1], TEMPERATURES, *(np.empty(shape) for _ in range(3))


def test_heat_capacity_enthalpy_and_entropy_are_those_of_cantera(air):
    network, gas = air
    arguments = tables(network)
    devices.resolve("cpu:1").run(KERNEL, TEMPERATURES.size, *arguments)
    _, _, volumes, energy, capacity = arguments
    for k, t in enumerate(TEMPERATURES):
        gas.TP = t, ct.one_atm
        heat, entropy = energy[k] / (R * t) + 1.0, gas.standard_entropies_R
        np.testing.assert_allclose(capacity[k] / R + 1.0, gas.standard_cp_R, rtol=1e-10)
        np.testing.assert_allclose(heat, gas.standard_enthalpies_RT, rtol=1e-10, atol=1e-10)
        found = volumes[k] + heat - np.log(1.01325e6 / (R * t))
        np.testing.assert_allclose(found, entropy, rtol=1e-10)
    own = enthalpies(polynomials_of([one.thermochemistry for one in network.species]), TEMPERATURES)
    np.testing.assert_allclose(energy + R * TEMPERATURES[:, None], own, rtol=1e-12, atol=1.0)


def test_equilibrium_constants_are_those_of_cantera(air):
    network, gas = air
    names = gas.species_names
    rates = ergode.kinetics.reaction_rates(
        network, temperature=TEMPERATURES, pressure=1e6, initial=dict.fromkeys(names, 1.0)
    )["rate"].values
    each = 1e6 / (R * TEMPERATURES) / len(names)  # mol/cm3
    for k, t in enumerate(TEMPERATURES):
        gas.TP = t, ct.one_atm
        more = np.array([0, 0, 1, 1, 1])
        found = rates[k, ::2] / rates[k, 1::2] * each[k] ** more
        np.testing.assert_allclose(found, gas.equilibrium_constants * 1e-3**more, rtol=1e-10)


def burnt(network, device):
    return ergode.kinetics.integrate(
        network, times=np.linspace(0, 2e-5, 5), initial={"N2": 0.79, "O2": 0.21},
        temperature=9000.0, pressure=1.01325e6, heating="constant-volume", rtol=1e-7,
        device=device,
    )  # fmt: skip


def test_air_that_falls_apart_cools_as_in_cantera(air):
    network, gas = air
    result = burnt(network, "cpu:1")
    gas.TPX = 9000.0, ct.one_atm, "N2:0.79, O2:0.21"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reactor = ct.IdealGasReactor(gas)
        reactors = ct.ReactorNet([reactor])
    reactors.rtol, reactors.atol = 1e-10, 1e-20
    for k, time in enumerate(result["time"].values[1:], 1):
        reactors.advance(time)
        assert result["temperature"].values[0, k] == pytest.approx(reactor.T, rel=1e-5)
    assert reactor.T < 6000.0  # ranges met on the way
    assert result["energy_error"].item() < 1e-5


@pytest.mark.cuda
def test_cuda_cools_air_as_the_cpu_does(air):
    one, other = (burnt(air[0], device)["temperature"].values for device in ("cpu", "cuda"))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_ranges_that_do_not_fit_are_refused():
    row = (0.0, 0.0, 2.5, 0.0, 0.0, 0.0, 0.0, -745.0, 4.0)
    gas = ergode.Nasa9Polynomials([row, row], [1000.0], {"Ar": 1})
    assert hash(gas) == hash(ergode.Nasa9Polynomials([row, row], [1000], {"Ar": 1}))
    for rows, ends, said in (
        ([row[:7]], [], "expected nine numbers"), ([], [], "0 ranges"),
        ([row], [1000.0], "1 ranges and 1 meeting"), ([row, row], [], "2 ranges and 0 meeting"),
        ([row] * 3, [2000.0, 1000.0], "expected an ascending"),
        ([row, row], [0.0], "above zero"), ([row, row], [float("nan")], "ascending"),
        ([(*row[:8], float("inf"))], [], "expected nine numbers"),
    ):  # fmt: skip
        with pytest.raises(ergode.ModelError, match=said):
            ergode.Nasa9Polynomials(rows, ends, {"Ar": 1})


def test_an_activation_energy_by_enthalpy_needs_polynomials():
    masel = ergode.BlowersMasel(1e3, 0.0, 1e3, 1e4)
    network = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant=masel)]
    )
    with pytest.raises(ergode.ModelError, match="species 'A' has no NASA polynomials"):
        ergode.kinetics.reaction_rates(network, temperature=1e3)
    for given, said in (
        ((1.0, 0.0, 1e4, 1e4), "less than the bond"), ((1.0, 0.0, -1.0, 1.0), "expected 0 or more"),
        ((float("nan"), 0.0, 0.0, 1.0), "factor"),
    ):  # fmt: skip
        with pytest.raises(ergode.ModelError, match=said):
            ergode.BlowersMasel(*given)
