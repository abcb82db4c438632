"""Coefficients that depend on pressure: formulas, their slopes, and Cantera."""

import numpy as np
import pytest

import ergode
from ergode.core import devices, kernels
from ergode.kinetics import reaction_rates
from ergode.kinetics.conditions import zones_of
from ergode.kinetics.kernel_options import MOLECULES
from ergode.kinetics.launch import rate_bindings
from ergode.kinetics.network.to_tables import to_tables
from ergode.kinetics.reaction_rates import _coefficients

GAS = 8.31446261815324e7
FLAT = ergode.NasaPolynomials((2.5, 0, 0, 0, 0, 0, 0), (2.5, 0, 0, 0, 0, 0, 0), 1e3, {"H": 2})
A, B, C, D = (ergode.Species(name, thermochemistry=FLAT) for name in "ABCD")
POINTS = [
    (1e4, ergode.Arrhenius(2e5, 0.5, 900.0)),
    (1e6, ergode.Arrhenius(3e6, 0.2, 1000.0)),
    (1e6, ergode.Arrhenius(1e5, 1.1, 100.0)),
    (1e8, ergode.Arrhenius(4e8, 0.0, 2000.0)),
]
CHEBYSHEV = ergode.Chebyshev(
    (300.0, 2000.0),
    (1e3, 1e8),
    [[8.3, -1.1, -0.12, 0.02], [0.33, 0.53, 0.05, 0.01], [0.1, 0.2, 0, 0]],
)
SRI = ergode.Falloff(
    ergode.Arrhenius(1e15), ergode.Arrhenius(1e9), sri=(0.45, 797.0, 979.0, 1.2, 0.1)
)
TROE = ergode.Falloff(
    ergode.Arrhenius(1e15), ergode.Arrhenius(1e9), troe=(0.6, 100.0, 2000.0, 900.0)
)
ACTIVATED = ergode.Falloff(
    ergode.Arrhenius(1e9), ergode.Arrhenius(1e3), troe=(0.6, 100.0, 2000.0, 900.0), activated=True
)
MIXTURE = ergode.LinearBurke(
    ergode.Falloff(TROE.low, TROE.high, troe=TROE.troe),
    {"A": ergode.Arrhenius(0.3, 0.2, -100.0), "B": 2.0, "C": ergode.Arrhenius(5.0, -0.1, 50.0)},
    {"B": ergode.PressureLog(POINTS), "C": CHEBYSHEV},
)
NETWORK = ergode.ReactionNetwork(
    [A, B, C, D],
    [
        ergode.Reaction("A -> B", rate_constant=law, name=name)
        for name, law in (
            ("plog", ergode.PressureLog(POINTS)), ("chebyshev", CHEBYSHEV), ("sri", SRI),
            ("troe", TROE), ("activated", ACTIVATED), ("mixture", MIXTURE),
        )
    ],
)  # fmt: skip
HOT = np.array([400.0, 900.0, 1500.0, 1500.0, 700.0])
PRESSURE = np.array([1e3, 1e5, 1.1e6, 3e7, 1e9])


def test_laws_are_their_formulas():
    found = reaction_rates(NETWORK, temperature=HOT, pressure=PRESSURE, initial={"A": 1.0})
    found = found["coefficient"]
    for zone, (t, p) in enumerate(zip(HOT, PRESSURE, strict=True)):
        at = {q: sum(k.factor * t**k.exponent * np.exp(-k.activation_temperature / t)
                     for r, k in POINTS if r == q) for q in (1e4, 1e6, 1e8)}  # fmt: skip
        exact = np.exp(np.interp(np.log(p), np.log(list(at)), np.log(list(at.values()))))
        assert found.sel(reaction="plog")[zone].item() == pytest.approx(exact, rel=1e-10)
        x = (2 / t - 1 / 300 - 1 / 2000) / (1 / 2000 - 1 / 300)
        y = (2 * np.log10(p) - 3 - 8) / 5
        exact = 10 ** np.polynomial.chebyshev.chebval2d(x, y, np.array(CHEBYSHEV.coefficients))
        assert found.sel(reaction="chebyshev")[zone].item() == pytest.approx(exact, rel=1e-9)
        reduced = 1e15 * p / (GAS * t) / 1e9
        base = 0.45 * np.exp(-797 / t) + np.exp(-t / 979)
        broad = 1.2 * base ** (1 / (1 + np.log10(reduced) ** 2)) * t**0.1
        exact = 1e9 * reduced / (1 + reduced) * broad
        assert found.sel(reaction="sri")[zone].item() == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("initial", [{"A": 1.0}, {"A": 1, "B": 2, "C": 3, "D": 4}, {"B": 1.0}])
def test_slopes_are_derivatives(initial):
    """Derivatives by amounts, from the tables that the Jacobian takes, against differences."""
    mechanism = to_tables(NETWORK)
    rates, count = mechanism.rates, HOT.size
    zones = zones_of(
        NETWORK, mechanism, temperature=HOT, density=None, pressure=PRESSURE, initial=initial,
        heating=None,
    )  # fmt: skip
    hot, dense = (zones.history.temperature[:, 0].copy(), zones.history.density[:, 0].copy())

    def at(amounts):
        slots, slopes = np.zeros((count, rates.slot_count)), np.zeros((count, rates.slope_count))
        partners = np.zeros((count, len(rates.efficiency)))
        bindings = rate_bindings(mechanism, zones.heating) | {MOLECULES: True}
        devices.resolve("cpu").run(
            kernels.for_each(_coefficients, bindings=bindings), count,
            rates._replace(formulas=()), mechanism.thermo, rates.prefactor, hot, dense, amounts,
            slots, slopes, partners, np.zeros((count, 4)), np.ones(count), np.zeros((count, 0)),
        )  # fmt: skip
        return slots, slopes, partners

    slots, slopes, partners = at(zones.amounts)
    found = np.zeros((count, rates.order.size, 4))
    for kind in range(len(rates.efficiency)):
        efficiency = np.tile(rates.efficiency[kind], (count, 1))
        for k in range(rates.collider_start[kind], rates.collider_start[kind + 1]):
            efficiency[:, rates.collider_species[k]] += slots[:, rates.collider_slot[k]]
        whole = partners[:, rates.mixture_whole[kind], None]
        for k in range(rates.dependent_start[kind], rates.dependent_start[kind + 1]):
            r = rates.dependent[k]
            value = slots[:, r] * slopes[:, rates.dependent_slope[k]]
            found[:, r] += value[:, None] * efficiency * dense[:, None] / whole
    total = zones.amounts.sum(axis=1)
    for j in range(4):
        more = zones.amounts.copy()
        more[:, j] += 1e-6 * total
        change = (at(more)[0] - slots)[:, : rates.order.size]
        exact = change / (1e-6 * slots[:, : rates.order.size])
        mine = found[:, :, j] * total[:, None] / slots[:, : rates.order.size]
        np.testing.assert_allclose(mine, exact, rtol=2e-4, atol=2e-5)


FALLING = {"Lindemann": {}, "Troe": {"troe": TROE.troe}, "SRI": {"sri": SRI.sri}}


@pytest.mark.parametrize("form", FALLING.values(), ids=FALLING)
def test_a_mixture_of_constant_efficiencies_is_a_falloff_with_efficiencies(form):
    """And the efficiency of a partner may be in its own low limit."""
    low, high = ergode.Arrhenius(1e15, 0.1, 50.0), ergode.Arrhenius(1e9, 0.2, 100.0)
    usual = ergode.Falloff(low, high, **form)
    own = ergode.Falloff(ergode.Arrhenius(3e15, 0.1, 50.0), high, **form)
    laws = (
        ergode.Falloff(low, high, {"B": 3.0, "C": 0.0}, **form),
        ergode.LinearBurke(usual, {"B": 3.0, "C": 0.0}),
        ergode.LinearBurke(usual, {"B": 3.0, "C": 0.0}, {"B": own}),
    )
    network = ergode.ReactionNetwork(
        [A, B, C, D], [ergode.Reaction("A -> D", rate_constant=law) for law in laws]
    )
    found = reaction_rates(
        network, temperature=HOT, pressure=PRESSURE, initial={"A": 1, "B": 2, "C": 3, "D": 4}
    )["coefficient"]
    np.testing.assert_allclose(found[:, 1:], found[:, :1] * np.ones(2), rtol=1e-11)


@pytest.mark.parametrize(
    ("rate", "efficiencies", "rates", "said"),
    [
        (ergode.Arrhenius(1.0), {}, {}, "the reference partner in a LinearBurke is Arrhenius"),
        (TROE, {"B": -1.0}, {}, "efficiency of 'B' in a LinearBurke has the factor -1"),
        (TROE, {"B": 1.0}, {"A": TROE}, "rate of 'A' in a LinearBurke needs an efficiency above 0"),
        (TROE, {"B": 0.0}, {"B": TROE}, "rate of 'B' in a LinearBurke needs an efficiency above 0"),
        (ergode.Falloff(TROE.low, TROE.high, {"B": 2.0}), {}, {}, "they belong to the LinearBurke"),
    ],
)
def test_wrong_mixtures_are_refused(rate, efficiencies, rates, said):
    with pytest.raises(ergode.ModelError, match=said):
        ergode.LinearBurke(rate, efficiencies, rates)


def test_cantera_has_the_same(tmp_path):
    ct = pytest.importorskip("cantera")
    pytest.importorskip("ruamel.yaml")
    text = """
units: {length: cm, quantity: mol, activation-energy: cal/mol}
phases:
- name: gas
  thermo: ideal-gas
  species: [H, OH, H2O, H2]
  kinetics: gas
species:
"""
    for name, atoms in (("H", "H: 1"), ("OH", "O: 1, H: 1"), ("H2O", "H: 2, O: 1"), ("H2", "H: 2")):
        text += (
            f"- name: {name}\n  composition: {{{atoms}}}\n  thermo:\n    model: NASA7\n"
            "    temperature-ranges: [200, 1000, 3500]\n    data:\n"
            "    - [2.5, 1e-4, 0, 0, 0, -700.0, 1.0]\n    - [2.5, 1e-4, 0, 0, 0, -700.0, 1.0]\n"
        )
    text += """
reactions:
- equation: H + OH <=> H2O
  type: pressure-dependent-Arrhenius
  rate-constants:
  - {P: 0.01 atm, A: 1.2e16, b: -0.5, Ea: 1000.0}
  - {P: 1.0 atm, A: 5.0e17, b: -0.6, Ea: 800.0}
  - {P: 1.0 atm, A: 1.0e15, b: 0.1, Ea: 3000.0}
  - {P: 20 bar, A: 4.0e18, b: -0.7, Ea: 500.0}
- equation: H2 + OH => H2O + H
  type: Chebyshev
  temperature-range: [290, 3000]
  pressure-range: [0.01 atm, 100 atm]
  data: [[8.2883, -1.1397, -0.12059], [1.9764, 1.0037, 7.2865e-03], [0.3177, 0.26889, 0.094806]]
- equation: H + H (+M) <=> H2 (+M)
  type: falloff
  low-P-rate-constant: {A: 1.0e18, b: -1.0, Ea: 0.0}
  high-P-rate-constant: {A: 1.0e13, b: 0.2, Ea: 100.0}
  SRI: {A: 0.54, B: 201.0, C: 1024.0, D: 1.1, E: 0.05}
"""
    path = tmp_path / "laws.yaml"
    path.write_text(text)
    network = ergode.read_cantera(path)
    gas = ct.Solution(str(path))
    for t, p in ((500.0, 1e4), (1200.0, 3e5), (2000.0, 8e6)):
        gas.TPX = t, p, "H:1, OH:1, H2:2, H2O:1"
        found = reaction_rates(
            network, temperature=t, pressure=10 * p, initial={"H": 1, "OH": 1, "H2": 2, "H2O": 1}
        )["rate"].values[0]
        np.testing.assert_allclose(
            found[[0, 2, 3]], gas.forward_rates_of_progress * 1e-3, rtol=1e-6
        )
        np.testing.assert_allclose(found[[1, 4]], gas.reverse_rates_of_progress[[0, 2]] * 1e-3,
                                   rtol=1e-5)  # fmt: skip
