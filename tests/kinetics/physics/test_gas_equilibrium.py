"""Chemical equilibrium of gases: Cantera's own, at random states, and laws of thermodynamics."""

from pathlib import Path

import numpy as np
import pytest

import ergode

ct = pytest.importorskip("cantera")
pytest.importorskip("ruamel.yaml")
DATA = Path(ct.__file__).parent / "data"
MODES = ("TP", "TV", "HP", "UV", "SP", "SV")
R = 8.31446261815324e7


def random_states(count, names, seed):
    """Moles [zone, species] of some species in each zone, temperatures and pressures."""
    rng = np.random.default_rng(seed)
    moles = np.zeros((count, len(names)))
    for row in moles:
        some = rng.choice(len(names), rng.integers(1, 7), replace=False)
        row[some] = 10 ** rng.uniform(-4, 0, some.size)
    moles /= moles.sum(axis=1, keepdims=True)
    return moles, rng.uniform(300, 3000, count), 10 ** rng.uniform(4, 8, count)


def against_cantera(file, count, seed=0, modes=MODES):
    """Largest differences of mole fractions and of temperatures, and how many Cantera solved."""
    network, gas = ergode.read_cantera(DATA / file), ct.Solution(str(DATA / file))
    names = [one.name for one in network.species]
    moles, hot, pressure = random_states(count, names, seed)
    apart, warmer, solved = 0.0, 0.0, 0
    for mode in modes:
        found = ergode.kinetics.equilibrium(
            network, initial=dict(zip(names, moles.T, strict=True)), temperature=hot,
            pressure=pressure, constant=mode,
        )  # fmt: skip
        for z in range(count):
            gas.TPX = hot[z], 0.1 * pressure[z], dict(zip(names, moles[z], strict=True))
            try:
                gas.equilibrate(mode)
            except ct.CanteraError:
                continue
            expected = gas[names].X
            apart = max(apart, np.abs(found["mole_fraction"].values[z] - expected).max())
            warmer = max(warmer, abs(found["temperature"].values[z] / gas.T - 1.0))
            assert found["pressure"].values[z] == pytest.approx(10 * gas.P, rel=1e-7)
            assert found["density"].values[z] == pytest.approx(1e-3 * gas.density, rel=1e-4)
            solved += 1
    return apart, warmer, solved


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "counts", [(30, 10), pytest.param((130, 40), marks=pytest.mark.exhaustive)], ids=["some", "all"]
)
def test_equilibria_are_those_of_cantera_at_a_thousand_states(counts):
    for file, count in zip(("gri30.yaml", "h2o2.yaml"), counts, strict=True):
        apart, warmer, solved = against_cantera(file, count)
        # Cantera fails at some of them.
        assert solved > 0.9 * count * len(MODES)
        assert apart < 1e-7 and warmer < 1e-7


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_equilibria_are_those_of_cantera():
    apart, warmer, solved = against_cantera("h2o2.yaml", 5, seed=9)
    assert solved >= 28 and apart < 1e-7 and warmer < 1e-7


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_ions_are_in_equilibrium():
    network, gas = ergode.read_cantera(DATA / "gri30_ion.yaml"), ct.Solution("gri30_ion.yaml")
    mixture = {"CH4": 1, "O2": 2}
    for hot in (1500.0, 4000.0):
        gas.TPX = hot, ct.one_atm, mixture
        gas.equilibrate("TP", rtol=1e-10, max_steps=5000)
        found = ergode.kinetics.equilibrium(
            network, initial=mixture, temperature=hot, pressure=1.01325e6
        )
        expected = gas[list(found["species"].values)].X
        np.testing.assert_allclose(
            found["mole_fraction"].values[0], expected, rtol=1e-6, atol=1e-14
        )


def test_ranges_of_nine_coefficients_are_those_of_seven():
    network = ergode.read_cantera(DATA / "h2o2.yaml")
    others = []
    for one in network.species:
        rows = [row for _, row in one.thermochemistry.ranges]
        ends = [end for end, _ in one.thermochemistry.ranges[:-1]]
        nine = ergode.Nasa9Polynomials(rows, ends, one.thermochemistry.composition)
        others.append(ergode.Species(one.name, thermochemistry=nine))
    one, two = (
        ergode.kinetics.equilibrium(
            which, initial={"H2": 1, "O2": 1}, temperature=700.0, density=1e-4, constant="UV"
        )
        for which in (network, ergode.ReactionNetwork(others, []))
    )
    assert one.drop_attrs().equals(two.drop_attrs())


def test_what_cannot_react_keeps_its_state():
    network = ergode.read_cantera(DATA / "h2o2.yaml")
    for mode in MODES:
        found = ergode.kinetics.equilibrium(
            network, initial={"AR": [1.0, 3.0]}, temperature=[300.0, 900.0], pressure=1e6,
            constant=mode,
        )  # fmt: skip
        np.testing.assert_allclose(found["temperature"], [300.0, 900.0], rtol=1e-10)
        np.testing.assert_allclose(found["pressure"], 1e6, rtol=1e-8)
        assert (found["mole_fraction"].sel(species="AR") == 1.0).all()


def test_elements_and_constants_are_kept_whatever_the_unit_and_the_order():
    """Amounts times powers of two, species in another order, mixtures diluted a thousand times."""
    network = ergode.read_cantera(DATA / "h2o2.yaml")
    other = ergode.ReactionNetwork(network.species[::-1], [])
    for mode in MODES:
        for argon in (0.0, 3e3):
            mixture = {"H2": 2.0, "O2": 1.0, "AR": argon}
            scaled = {name: value * 2.0**-40 for name, value in mixture.items()}
            one, two = (
                ergode.kinetics.equilibrium(
                    which, initial=what, temperature=900.0, pressure=1e6, constant=mode
                )
                for which, what in ((network, mixture), (other, scaled))
            )
            x, y = one["mole_fraction"][0], two["mole_fraction"][0]
            np.testing.assert_allclose(y.sel(species=x["species"]), x, rtol=1e-7, atol=1e-25)
            atoms = {s.name: s.thermochemistry.composition for s in network.species}
            share = {
                k: sum(atoms[n].get(k, 0) * float(x.sel(species=n)) for n in atoms) for k in "HO"
            }
            assert share["H"] / share["O"] == pytest.approx(2.0, rel=1e-11)
            if mode[1] == "V":
                mass = 2 * 18.015 + 39.95 * argon
                start = 1e6 / (R * 900.0) * mass / (3.0 + argon)
                assert one["density"].item() == pytest.approx(start, rel=1e-9)


def test_bad_calls_are_refused():
    network = ergode.read_cantera(DATA / "h2o2.yaml")
    call = ergode.kinetics.equilibrium
    given = {"initial": {"H2": 1}, "temperature": 1e3, "pressure": 1e6}
    for change, message in (
        ({"constant": "TH"}, "constant 'TH' is unknown; expected 'TP'"),
        ({"pressure": None}, "pressure and density are not given"),
        ({"initial": {"H3": 1}}, "the species 'H3'"),
        ({"initial": {"H2": 0}}, "initial is empty in zone 0"),
        ({"temperature": -1}, "temperature is -1"),
    ):
        with pytest.raises(ergode.ModelError, match=message):
            call(network, **(given | change))
    plain = ergode.ReactionNetwork({"A": 1}, [])
    with pytest.raises(ergode.ModelError, match="equilibrium is for molecules with NASA"):
        call(plain, initial={"A": 1}, temperature=300, pressure=1e6)
