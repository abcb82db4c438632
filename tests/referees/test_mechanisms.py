"""Mechanisms against Cantera: those that it ships, and random ones of everything a file may say."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fresh import fresh_seeds
from jacobians import jacobians
from mechanism_cases import mechanism

import ergode
from ergode.readers import cantera, cantera_rates, cantera_reactions, cantera_units

ct = pytest.importorskip("cantera")
pytest.importorskip("ruamel.yaml")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:test_mechanisms")
FOLDER = Path(ct.__file__).parent / "data"
RTOL = 1e-9
# Rates of progress below this fraction of the largest are differences of large exponents.
ATOL = 1e-280


def random_states(count, species, seed):
    """Temperatures [K], pressures [Pa], and mole fractions, some of them zero."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        amounts = rng.exponential(size=species) * (rng.random(species) < 0.7)
        amounts[rng.integers(species)] += 1.0
        hot, pressure = np.exp(rng.uniform(np.log([250.0, 1e2]), np.log([3500.0, 3e7])))
        yield hot, pressure, amounts / amounts.sum()


def compare(path, phase, seed, states=4):
    """The number of reactions compared at random states; a difference is an AssertionError."""
    network = ergode.read_cantera(path, phase=phase)
    gas = ct.Solution(str(path), phase)
    assert [one.name for one in network.species] == gas.species_names
    back = np.array(
        [network.reactions.name_of(k).endswith(" back") for k in range(len(network.reactions))]
    )
    assert (~back).sum() == gas.n_reactions
    reversible = np.array([one.reversible for one in gas.reactions()], bool)
    assert back.sum() == reversible.sum()
    for hot, pressure, amounts in random_states(states, gas.n_species, seed):
        gas.TPX = hot, pressure, amounts
        found = ergode.kinetics.reaction_rates(
            network, temperature=hot, pressure=10 * pressure,
            initial=dict(zip(gas.species_names, amounts, strict=True)),
        )["rate"].values[0]  # fmt: skip
        for ours, theirs in (
            (found[~back], gas.forward_rates_of_progress),
            (found[back], gas.reverse_rates_of_progress[reversible]),
        ):
            np.testing.assert_allclose(ours, 1e-3 * theirs, rtol=RTOL, atol=ATOL)
    return gas.n_reactions


def write(content, folder):
    path = folder / "random.yaml"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("seed", range(15))
def test_random_mechanisms_are_those_of_cantera(tmp_path, seed):
    assert compare(write(mechanism(seed), tmp_path), "gas", seed) > 12


# What Cantera ships with phases of ideal gases that have kinetics: how many reactions each has, or
# why it is refused.
SHIPPED = {
    "SiF4_NH3_mec.yaml": {"gas": 33},
    "air.yaml": {"air": 8},
    "example_data/ammonia-CO-H2-Alzueta-2023.yaml": {
        "baseline": 281, "linear-Burke": 281,
    },
    "example_data/n-hexane-NUIG-2015.yaml": {"gas": 5336},
    "gri30.yaml": {"gri30": 325},
    "gri30_highT.yaml": {"gri30": 325},
    "gri30_ion.yaml": {"gas": 331},
    "h2o2.yaml": {"ohmech": 29},
    "nDodecane_Reitz.yaml": {"nDodecane_IG": 553},
    "ohn.yaml": {"gas": 69},
    "ptcombust.yaml": {"gas": 186},
}  # fmt: skip
# Phases of other kinds, and those without reactions of their own.
KINDS = {"expected an ideal-gas", "and so no reactions"}


def shipped_phases():
    """Every file of Cantera's data that has phases, and their names."""
    for path in sorted(FOLDER.rglob("*.yaml")):
        text = re.search(r"(?ms)^phases:\n(.*?)(?=^\w|\Z)", path.read_text("utf-8"))
        names = re.findall(r"(?m)^ *- name: *(\S+)", text[1]) if text else []
        yield path, [name.strip("'\"") for name in names]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "phase"), [(file, name) for file, several in SHIPPED.items() for name in several]
)
def test_mechanisms_that_cantera_ships(file, phase):
    expected = SHIPPED[file][phase]
    if isinstance(expected, str):
        with pytest.raises((ergode.ReadError, ergode.ModelError), match=expected):
            compare(FOLDER / file, phase, 1)
    else:
        assert compare(FOLDER / file, phase, 1) == expected


def jacobian_of_cantera(gas):
    """For fixed coefficients; a named collider is a reactant, which Cantera skips with partners."""
    partners = [one.third_body for one in gas.reactions()]
    named = np.array([one is not None and one.name != "M" for one in partners])
    parts = []
    for skips in (True, False):
        gas.derivative_settings = {"skip-third-bodies": skips, "skip-falloff": True}
        part = gas.net_rates_of_progress_ddCi
        parts.append(part.toarray() if hasattr(part, "toarray") else part)
    change = gas.product_stoich_coeffs - gas.reactant_stoich_coeffs
    return change @ np.where(named[:, None], parts[1], parts[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "phase"), [(file, name) for file, several in SHIPPED.items() for name in several]
)
def test_jacobians_of_mechanisms_that_cantera_ships(file, phase):
    """Those of `bdf`, whose coefficients are fixed; `test_third_bodies` has the other part."""
    network = ergode.read_cantera(FOLDER / file, phase=phase)
    gas = ct.Solution(str(FOLDER / file), phase)
    states = list(random_states(4, gas.n_species, 2))
    hot, pressure, amounts = (np.array(part) for part in zip(*states, strict=True))
    fractions = dict(zip(gas.species_names, amounts.T, strict=True))
    found = jacobians(network, hot, 10 * pressure, fractions)
    for own, state in zip(found, states, strict=True):
        gas.TPX = state
        exact = jacobian_of_cantera(gas)
        np.testing.assert_allclose(own, exact, rtol=RTOL, atol=1e-12 * abs(exact).max())


def test_all_else_that_cantera_ships_is_refused():
    count = 0
    for path, names in shipped_phases():
        known = SHIPPED.get(path.relative_to(FOLDER).as_posix(), {})
        for name in set(names) - set(known):
            with pytest.raises(ergode.ReadError) as caught:
                ergode.read_cantera(path, phase=name)
            said = str(caught.value)
            assert any(kind in said for kind in KINDS), said
            line = int(re.match(r".*\.yaml, line (\d+): phase ", said)[1])
            assert name in path.read_text("utf-8").splitlines()[line - 1]
            count += 1
        if not names:
            with pytest.raises(ergode.ReadError, match="it has no phases"):
                ergode.read_cantera(path)
    assert count > 50


def dropped_efficiency(monkeypatch):
    original = cantera_reactions.Reactions._partners

    def partners(*arguments):
        found, collider = original(*arguments)
        return (replace(found, efficiencies=((collider, 1.0),)) if collider else found), collider

    monkeypatch.setattr(cantera_reactions.Reactions, "_partners", partners)


def units_of_the_file_alone(monkeypatch):
    original = cantera_units.Units.within
    usual = cantera_units.Units()
    monkeypatch.setattr(
        cantera_units.Units, "within",
        lambda self, given, what: original(self, given if self == usual else None, what),
    )  # fmt: skip


def no_reference_pressure(monkeypatch):
    monkeypatch.setattr(cantera, "_STANDARD_PRESSURE", 1e6)


def two_per_cent(monkeypatch):
    original = cantera_units.Units.rate_constant
    monkeypatch.setattr(
        cantera_units.Units, "rate_constant", lambda *given: 1.02 * original(*given)
    )


def no_t2(monkeypatch):
    original = cantera_rates._broadening

    def broadening(*given):
        troe, sri = original(*given)
        return (troe and troe[:3]), sri

    monkeypatch.setattr(cantera_rates, "_broadening", broadening)


def not_activated(monkeypatch):
    original = cantera_rates.Falloff
    monkeypatch.setattr(cantera_rates, "Falloff", lambda *given: original(*given[:-1]))


def no_inverse_powers(monkeypatch):
    monkeypatch.setitem(cantera._MODELS, "NASA9", (9, np.inf, lambda row: (0.0, 0.0, *row[2:])))


def no_bond_energy(monkeypatch):
    original = cantera_rates.BlowersMasel
    monkeypatch.setattr(
        cantera_rates, "BlowersMasel", lambda *given: original(*given[:3], 1e3 * given[3])
    )


def efficiencies_that_do_not_warm(monkeypatch):
    original = cantera_rates._efficiency
    monkeypatch.setattr(
        cantera_rates, "_efficiency", lambda *given: replace(original(*given), exponent=0.0)
    )


def colliders_without_rates_of_their_own(monkeypatch):
    original = cantera_rates.LinearBurke
    monkeypatch.setattr(cantera_rates, "LinearBurke", lambda *given: original(*given[:2]))


def eigenvalues_that_are_not_relative(monkeypatch):
    original = cantera_rates._efficiency

    def efficiency(given, units, what):
        return original(dict(A=1, b=0, Ea=0) if "'M'" in what else given, units, what)

    monkeypatch.setattr(cantera_rates, "_efficiency", efficiency)


def entropy_of_other_units(monkeypatch):
    original = cantera._shomate
    wrong = {"Shomate": (7, 2, lambda row: (*original(row)[:8], row[6] / 8.314))}
    monkeypatch.setattr(cantera, "_MODELS", cantera._MODELS | wrong)


@pytest.mark.parametrize(
    "mutate",
    [
        dropped_efficiency, units_of_the_file_alone, no_reference_pressure, two_per_cent, no_t2,
        not_activated, no_bond_energy, no_inverse_powers, entropy_of_other_units,
        efficiencies_that_do_not_warm, colliders_without_rates_of_their_own,
        eigenvalues_that_are_not_relative,
    ],
)  # fmt: skip
def test_what_is_read_wrongly_is_noticed(tmp_path, monkeypatch, mutate):
    mutate(monkeypatch)
    with pytest.raises((AssertionError, ergode.ReadError)):
        for seed in range(12):
            compare(write(mechanism(seed), tmp_path), "gas", seed)


@pytest.mark.exhaustive
def test_many_random_mechanisms(tmp_path):
    for seed in fresh_seeds():
        try:
            compare(write(mechanism(seed), tmp_path), "gas", seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
