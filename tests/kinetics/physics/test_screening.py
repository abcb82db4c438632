"""Screening, weak tables and matter that warms, against formulas and pynucastro."""

import math

import numpy as np
import pytest
from both_devices import on_both

import ergode
from ergode.kinetics import reaction_rates
from ergode.kinetics.physics.equation_of_state import EquationOfState, matter_at

ONE = ergode.Reaclib([(0.0,) * 7])
HOT, DENSE = np.array([2e8, 1e9, 3e9]), np.array([1e4, 1e6, 1e9])
X = {"he4": 0.1, "c12": 0.4, "o16": 0.4, "p": 0.1}


def nuclei(**more):
    numbers = {"n": (1, 0), "p": (1, 1), "he4": (4, 2), "c12": (12, 6), "o16": (16, 8)} | more
    return [
        ergode.Species(
            name, mass_number=a, charge_number=z, thermochemistry=ergode.Nucleus(0.1 * a, 0.5)
        )
        for name, (a, z) in numbers.items()
    ]


NETWORK = ergode.ReactionNetwork(
    nuclei(mg24=(24, 12), n13=(13, 7)),
    [
        ergode.Reaction("2 c12 -> mg24", rate_constant=ONE),
        ergode.Reaction("he4 + c12 -> o16", rate_constant=ONE),
        ergode.Reaction("3 he4 -> c12", rate_constant=ONE),
        ergode.Reaction("n + c12 -> c12 + n", rate_constant=ONE),
        ergode.Reaction("o16 -> he4 + c12", rate_constant=ergode.DetailedBalance(ONE)),
    ],
)
OXYGEN = {"p": (1, 1), "he4": (4, 2), "c12": (12, 6), "o16": (16, 8)}


def exponents(screening):
    """ln of what screening multiplies every reaction with, shape [zone, reaction]."""
    with_it, without = (
        reaction_rates(NETWORK, temperature=HOT, density=DENSE, initial=X, screening=one)
        for one in (screening, None)
    )
    return np.log(with_it["coefficient"].values / without["coefficient"].values)


def test_strong_screening_is_that_of_pynucastro():
    screening = pytest.importorskip("pynucastro.screening")
    import pynucastro

    found = exponents("chugunov")
    composition = pynucastro.Composition([pynucastro.Nucleus(name) for name in X])
    for name, fraction in X.items():
        composition[pynucastro.Nucleus(name)] = fraction
    pairs = [[("c12", "c12")], [("he4", "c12")], [("he4", "he4"), ("he4", "be8")], []]
    for zone, (hot, dense) in enumerate(zip(HOT, DENSE, strict=True)):
        state = screening.make_plasma_state(hot, dense, composition.get_molar())
        for k, members in enumerate(pairs):
            exact = sum(
                screening.chugunov_2009(state, screening.make_screen_factors(*pair))
                for pair in members
            )
            assert found[zone, k] == pytest.approx(exact, rel=1e-6)
    np.testing.assert_allclose(found[:, 4], found[:, 1], rtol=1e-9)  # the reverse follows


def test_weak_screening_is_that_of_salpeter():
    """H = 0.188 Z1 Z2 zeta rho^(1/2) T6^(-3/2), as textbooks have it."""
    zeta = math.sqrt(
        sum(x / OXYGEN[k][0] * (OXYGEN[k][1] ** 2 + OXYGEN[k][1]) for k, x in X.items())
    )
    unit = 0.188 * zeta * np.sqrt(DENSE) * (HOT / 1e6) ** -1.5
    expected = unit[:, None] * np.array([36, 12, 4 + 8, 0, 12])
    np.testing.assert_allclose(exponents("weak"), expected, rtol=2e-3)


def test_weak_coupling_is_one_limit_of_both():
    thin = [
        reaction_rates(NETWORK, temperature=1e9, density=1.0, initial={"c12": 1.0}, screening=one)
        for one in ("weak", "chugunov")
    ]
    weak, strong = (np.log(one["coefficient"].values[0, 0]) for one in thin)
    assert strong == pytest.approx(weak * math.sqrt(36 / 42), rel=0.02)  # rigid electrons


def weak_table():
    rng = np.random.default_rng(5)
    axes = np.array([7.0, 8.0, 9.5]), np.array([8.0, 9.0, 9.5, 10.0])
    return axes, rng.uniform(-5, 1, (3, 4))


def test_weak_rates_are_bilinear_in_logarithms():
    from scipy.interpolate import RegularGridInterpolator

    axes, values = weak_table()
    law = ergode.WeakTable(*axes, values)
    network = ergode.ReactionNetwork(
        nuclei(n13=(13, 7), c13=(13, 6)), [ergode.Reaction("n13 -> c13", rate_constant=law)]
    )
    rng = np.random.default_rng(6)
    hot, dense = 10 ** rng.uniform(7.5, 10.3, 40), 10 ** rng.uniform(6.5, 10.5, 40)
    found = reaction_rates(network, temperature=hot, density=dense, initial={"c12": 0.5, "n": 0.5})
    x = np.clip(np.log10(dense * 0.25), 7.0, 9.5), np.clip(np.log10(hot), 8.0, 10.0)
    expected = 10 ** RegularGridInterpolator(axes, values)(np.stack(x, axis=1))
    np.testing.assert_allclose(found["coefficient"].values[:, 0], expected, rtol=1e-9)


def test_what_screening_and_tables_cannot():
    axes, values = weak_table()
    with pytest.raises(ergode.ModelError, match="ascend"):
        ergode.WeakTable(axes[0][::-1], axes[1], values)
    with pytest.raises(ergode.ModelError, match=r"shape \(3, 4\)"):
        ergode.WeakTable(*axes, values.T)
    with pytest.raises(ergode.PlanError, match="'strong' is unknown; .* did you mean 'chugunov'"):
        reaction_rates(NETWORK, temperature=1e9, density=1.0, initial=X, screening="strong")
    plain = ergode.ReactionNetwork({"A": 1}, [ergode.Reaction("A -> 0", rate_constant=1.0)])
    with pytest.raises(ergode.ModelError, match="not nuclei"):
        reaction_rates(plain, screening="weak")


def test_degenerate_electrons():
    """Cold ones are Chandrasekhar's, thin ones ideal; between, as Fermi and Dirac have them."""

    def electrons(hot, dense):
        found, _ = matter_at(
            "degenerate", np.array([hot]), np.array([dense]), np.array([1 / 12]), np.array([0.5])
        )
        return found[0] - 8.31446261815324e7 * hot * dense / 12 - 7.565733250280007e-15 * hot**4 / 3

    # Limits: P = 1.0036e13 (rho/mu)^(5/3) and 1.2435e15 (rho/mu)^(4/3).
    assert electrons(1e5, 1e3) == pytest.approx(1.0036e13 * 500 ** (5 / 3), rel=0.005)
    assert electrons(1e6, 1e11) == pytest.approx(1.2435e15 * 5e10 ** (4 / 3), rel=0.002)
    assert electrons(1e7, 1e-2) == pytest.approx(8.31446e7 * 1e7 * 0.5e-2, rel=0.005)
    eos = pytest.importorskip("pynucastro.eos")
    from pynucastro import Composition, Nucleus

    carbon = Composition([Nucleus("c12")])
    carbon.set_equal()
    exact = eos.ElectronEOS(include_positrons=False)
    for hot in (1e8, 1e9):
        for dense in (1e4, 1e6, 1e8):
            assert electrons(hot, dense) == pytest.approx(
                exact.pe_state(dense, hot, carbon)[0].p, rel=0.15
            )


def matter(temperature, density, nuclei, electrons):
    """A gas whose electrons warm slowly."""
    thin = 8.31446261815324e7 * temperature * (1.5 * nuclei + 0.5 * electrons)
    return thin + 1e15 * (density * electrons) ** 0.3333333


def weight(temperature, density, nuclei, electrons):
    return 8.31446261815324e7 * density * temperature * (nuclei + electrons)


def test_matter_of_ones_own_takes_up_what_reactions_release(fern):
    """With screening and a weak rate on a table: all that makes one kernel."""
    table = ergode.WeakTable([6.0, 9.0], [9.0, 10.0], [[11.0, 11.2], [11.5, 11.6]])
    network = ergode.ReactionNetwork(
        fern.species,
        [*fern.reactions, ergode.Reaction("56Ni -> 56Co", rate_constant=table, name="capture")],
    )
    state = EquationOfState(matter, weight)
    common = {
        "times": [0, 1e-10], "temperature": 5e9, "density": 1e8, "device": "cpu",
        "initial": {"12C": 0.4, "16O": 0.4, "56Ni": 0.2}, "heating": "constant-volume",
        "equation_of_state": state, "screening": "chugunov",
    }  # fmt: skip
    result = ergode.kinetics.integrate(network, rtol=1e-6, atol=1e-11, **common)
    x, hot = result["mass_fraction"].values[0], result["temperature"].values[0]
    amounts = x / result["mass_number"].values
    electrons = amounts @ result["charge_number"].values
    assert electrons[1] < 0.499
    inner = [matter(hot[k], 1e8, amounts[k].sum(), electrons[k]) for k in range(2)]
    released = result["energy_released"].values[0, 1]
    assert hot[1] > 5.02e9
    assert inner[1] - inner[0] == pytest.approx(released, rel=1e-5)
    expected = weight(hot[1], 1e8, amounts[1].sum(), electrons[1])
    assert result["pressure"].values[0, 1] == pytest.approx(expected)
    assert result["density"].values.tolist() == [[1e8, 1e8]]
    # Electrons are in the Jacobian: the order of the method is kept.
    tight, rough = (
        ergode.kinetics.integrate(network, rtol=rtol, atol=1e-5 * rtol, **common)
        for rtol in (1e-8, 1e-4)
    )
    off = [
        float(np.abs(one["mass_fraction"] - tight["mass_fraction"]).sum("species").max())
        for one in (rough, result)
    ]
    order = np.log(off[0] / off[1]) / np.log(result["step_count"] / rough["step_count"]).item()
    assert off[0] < 1e-5 and 3.5 < order < 4.5
    # Pure neutrons have no electrons.
    bare = ergode.kinetics.integrate(network, **common | {"initial": {"n": 1.0}})
    assert bare["status"].item() == 0
    assert bare["mass_fraction"][0, -1].sum("species").values == pytest.approx(1.0, abs=1e-12)


def test_equilibrium_is_where_a_long_burn_ends(fern):
    with pytest.warns(ergode.AccuracyWarning, match="left out 3 reactions"):
        network = ergode.balanced(fern)
    assert len(network.reactions) > 1_300
    result = ergode.kinetics.integrate(
        network, times=[0, 1e-10, 1e-3], temperature=7e9, density=1e8, rtol=1e-4, device="cpu",
        initial={"12C": 0.5, "16O": 0.5},
    )  # fmt: skip
    assert result["near_equilibrium"].item()
    apart = ergode.kinetics.equilibrium_distance(
        network, temperature=[7e9] * 3, density=[1e8] * 3, mass_fraction=result["mass_fraction"][0]
    )
    assert apart[0] > 0.5 and apart[1] > 0.01 and apart[2] < 1e-6
    with pytest.raises(ergode.ModelError, match=r"expected \(2,\) and \(2, 150\)"):
        ergode.kinetics.equilibrium_distance(
            network, temperature=[7e9] * 2, density=1e8, mass_fraction=result["mass_fraction"][0]
        )
    x = result["mass_fraction"].values[0, -1]
    fraction = (x / result["mass_number"].values * result["charge_number"].values).sum()
    exact = ergode.kinetics.nuclear_equilibrium(
        fern, temperature=7e9, density=1e8, electron_fraction=fraction
    )
    np.testing.assert_allclose(x, exact["mass_fraction"].values[0], atol=1e-8)
    assert x.max() < 0.5


def test_equilibrium_keeps_its_sums(fern):
    wanted = np.linspace(0.42, 0.52, 30)
    found = ergode.kinetics.nuclear_equilibrium(
        fern, temperature=np.linspace(2e9, 1.2e10, 30), density=np.geomspace(1e5, 1e10, 30),
        electron_fraction=wanted,
    )  # fmt: skip
    x = found["mass_fraction"]
    np.testing.assert_allclose(x.sum("species"), 1.0, rtol=1e-11)
    protons = (x / x["mass_number"] * x["charge_number"]).sum("species")
    np.testing.assert_allclose(protons, wanted, rtol=1e-11)
    with pytest.raises(ergode.ModelError, match="electron_fraction is 1.5 in zone 0"):
        ergode.kinetics.nuclear_equilibrium(
            fern, temperature=7e9, density=1e8, electron_fraction=1.5
        )


@pytest.mark.cuda
def test_screened_and_heated_zones_on_a_device(fern):
    common = {
        "times": [0, 1e-11, 1e-10], "temperature": np.linspace(4e9, 6e9, 4), "density": 1e8,
        "heating": "constant-volume", "rtol": 1e-5, "screening": "chugunov",
        "equation_of_state": "degenerate",
    }  # fmt: skip
    for initial in ({"12C": 0.5, "16O": 0.5}, {"n": 1.0}):
        one, other = on_both(ergode.kinetics.integrate, fern, initial=initial, **common)
        assert (one["status"] == 0).all()
        np.testing.assert_allclose(one["mass_fraction"], other["mass_fraction"], atol=1e-8)
        np.testing.assert_allclose(one["temperature"], other["temperature"], rtol=1e-8)
        np.testing.assert_allclose(one["pressure"], other["pressure"], rtol=1e-7)
