"""The equation of state with pairs: against plain integrals, a peer, its limits, and itself."""

import math

import numpy as np
import pytest
from kernel_cases import CARBON

import ergode
from ergode.core.compiler import kernel_cache
from ergode.kinetics import burn, equation_of_state, integrate

R, RADIATION, AVOGADRO = 8.31446261815324e7, 7.565733250280007e-15, 6.02214076e23
REST, COMPTON = 8.1871057769e-7, 3.8615926796e-11
MEV = 1.602176634e-6 * AVOGADRO


def exact(theta, eta, mass, charge):
    """Matter at a chemical potential, by integrals over momenta as textbooks have them.

    Returns the density, and what `equation_of_state` should return there.
    """
    mu = eta * theta
    # Panels around the Fermi energy, each with 20 nodes; a rapidity has no root at zero.
    edges = np.concatenate([[0.0], mu + theta * np.linspace(-45.0, 60.0, 120)])
    edges = np.unique(2.0 * np.arcsinh(np.sqrt(0.5 * np.maximum(edges, 0.0))))
    nodes, weights = np.polynomial.legendre.leggauss(20)
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    w = (middle[:, None] + half[:, None] * nodes).reshape(-1)
    step = (half[:, None] * weights).reshape(-1)
    p, e, dp = np.sinh(w), 2.0 * np.sinh(0.5 * w) ** 2, np.cosh(w) * step
    with np.errstate(over="ignore"):
        pairs = [1.0 / (np.exp((e - m) / theta) + 1.0) for m in (mu, -mu - 2.0)]

    def total(values, signs=(1.0, 1.0), soft=False):
        parts = [f * (1.0 - f) / theta if soft else f for f in pairs]
        return sum(
            s * (dp * p * p * v * f).sum() for s, v, f in zip(signs, values, parts, strict=True)
        )

    odd = (1.0, -1.0)
    energies, velocity = (e, e + 2.0), p * p / (1.0 + e) / 3.0
    warmth = ((e - mu) / theta, (e + mu + 2.0) / theta)
    n, u, pressure = total((1, 1), odd), total(energies), total((velocity, velocity))
    n_mu, n_t = total((1, 1), soft=True), total(warmth, odd, soft=True)
    u_mu = total(energies, odd, soft=True)
    u_t = total([a * b for a, b in zip(energies, warmth, strict=True)], soft=True)
    p_mu = total((velocity, velocity), odd, soft=True)
    p_t = total([velocity * b for b in warmth], soft=True)
    unit = 1.0 / (math.pi**2 * COMPTON**3)
    dense = n * unit / AVOGADRO * mass / charge
    t = theta * REST * AVOGADRO / R
    push, kelvin = unit * REST, R / (REST * AVOGADRO)
    light, gas = RADIATION * t**4, R / mass
    pressure = push * pressure + dense * gas * t + light / 3
    energy = push * u / dense + 1.5 * gas * t + light / dense
    capacity = push * (u_t - u_mu * n_t / n_mu) * kelvin / dense + 1.5 * gas
    by_density = push * (u_mu / n_mu * n / dense - u / dense) / dense - light / dense**2
    hot = push * (p_t - p_mu * n_t / n_mu) * kelvin + dense * gas + 4 / 3 * light / t
    stiff = push * p_mu / n_mu * n / dense + gas * t
    # By Euler's relation from the potential, and Sackur and Tetrode's of nuclei.
    waves = math.sqrt(2 * math.pi * 1.66053906660e-24 * mass * 1.380649e-16 * t) / 6.62607015e-27
    nuclei = R / mass * (2.5 + math.log(waves**3 * mass / (dense * AVOGADRO)))
    heat = push * (u + total((velocity, velocity)) - mu * n)
    entropy = (heat + 4 / 3 * light) / dense / t + nuclei
    return t, dense, (
        pressure, energy, entropy, capacity + 4 * light / t / dense, by_density, hot, stiff
    )  # fmt: skip


@pytest.fixture(scope="module")
def states():
    """Random states over the whole table, and what they should be."""
    rng, found = np.random.default_rng(19), []
    while len(found) < 250:
        theta = 10 ** rng.uniform(4.0, 11.0) * R / (REST * AVOGADRO)
        eta = rng.choice([rng.uniform(-25, 60), 10 ** rng.uniform(1, 7)])
        if eta * theta <= -1.0:  # below zero electric charge
            continue
        t, dense, values = exact(theta, eta, 12.0, 6.0)
        if 1e-6 < dense < 1e11:
            found.append((t, dense, *values))
    return np.array(found).T


def test_matter_is_that_of_exact_integrals(states):
    """Of 250 states; every function within what is said of it."""
    found = equation_of_state(states[0], states[1], 12, 6, coulomb=False)
    assert states[0].min() < 1e5 and states[0].max() > 1e10
    assert states[1].min() < 1e-4 and states[1].max() > 1e9
    values, slopes = ("pressure", "energy", "entropy"), found._fields[3:]
    for name, least in (*((one, 1e-7) for one in values), *((one, 1e-6) for one in slopes)):
        wanted = states[2 + found._fields.index(name)]
        np.testing.assert_allclose(getattr(found, name), wanted, rtol=least, err_msg=name)


def test_matter_of_pairs_is_that_of_exact_integrals():
    """Where electrons are hardly more than positrons, an excess of charge changes the pressure."""
    rng, rows = np.random.default_rng(5), []
    while len(rows) < 150:
        theta = 10 ** rng.uniform(8.8, 10.9) * R / (REST * AVOGADRO)
        eta = -1.0 / theta + 10 ** rng.uniform(-6, 1)
        t, dense, values = exact(theta, eta, 56.0, 26.0)
        if 1.0 < dense < 1e10:
            rows.append((t, dense, *values))
    states = np.array(rows).T
    found = equation_of_state(states[0], states[1], 56, 26, coulomb=False)
    for name, wanted in zip(found._fields, states[2:], strict=True):
        np.testing.assert_allclose(getattr(found, name), wanted, rtol=1e-6, err_msg=name)


def test_maxwell_relations_hold_to_rounding():
    """P = rho^2 du/drho + T dP/dT, whatever the errors of the table."""
    rng = np.random.default_rng(2)
    t, rho = 10 ** rng.uniform(4, 11, 3000), 10 ** rng.uniform(-6, 11, 3000)
    one = equation_of_state(t, rho, 56, 26)
    parts = one.pressure, rho**2 * one.energy_by_density, t * one.pressure_by_temperature
    most = np.max(np.abs(parts), axis=0)
    assert (np.abs(parts[0] - parts[1] - parts[2]) < 1e-11 * most).all()


@pytest.mark.parametrize("coulomb", [True, False])
def test_derivatives_are_those_of_the_values(coulomb):
    """By differences of neighbours; the formulas for interactions meet at Gamma = 1 with a jump."""
    rng, h = np.random.default_rng(3), 1e-5
    t, rho = 10 ** rng.uniform(4.1, 10.9, 3000), 10 ** rng.uniform(-6, 10.9, 3000)
    apart = np.abs(gamma(t, rho, 26.0, 56.0) - 1.0) > 1e-3
    t, rho = t[apart], rho[apart]

    def at(t, rho):
        return equation_of_state(t, rho, 56, 26, coulomb=coulomb)

    one, hotter, colder = at(t, rho), at(t * (1 + h), rho), at(t * (1 - h), rho)
    denser, thinner = at(t, rho * (1 + h)), at(t, rho * (1 - h))
    changes = [
        (hotter.energy, colder.energy, t * one.heat_capacity),
        (t * hotter.entropy, t * colder.entropy, t * one.heat_capacity),  # the first law
        (hotter.pressure, colder.pressure, t * one.pressure_by_temperature),
        (denser.pressure, thinner.pressure, rho * one.pressure_by_density),
        (denser.energy, thinner.energy, rho * one.energy_by_density),
        (t * denser.entropy, t * thinner.entropy, -t / rho * one.pressure_by_temperature),
    ]
    gas = R * t / 56 * 200  # terms of the entropy that cancel
    if coulomb:
        gas = gas + R * t / 56 * gamma(t, rho, 26.0, 56.0)
    for k, (up, down, wanted) in enumerate(changes):
        rounding = 4e-15 / h * (np.abs(up) + gas * (rho if k in (2, 3) else 1.0))
        if k == 3:  # the pressure of pairs does not depend on the density
            rounding += 1e-9 * one.pressure
        assert (np.abs((up - down) / (2 * h) - wanted) < 1e-6 * np.abs(wanted) + 4 * rounding).all()


def gamma(t, rho, z=6.0, a=12.0):
    """The coupling of ions."""
    radius = (3 * a / (4 * math.pi * rho * AVOGADRO)) ** (1 / 3)
    return z * z * 4.80320471257e-10**2 / (radius * 1.380649e-16 * t)


def test_matter_is_that_of_pynucastro():
    """Its integrals, at two states."""
    eos = pytest.importorskip("pynucastro.eos")
    from pynucastro import Composition, Nucleus

    carbon = Composition([Nucleus("c12")])
    carbon.set_equal()
    t, rho = np.array([3e8, 6e9]), np.array([1e4, 1e6])
    found = equation_of_state(t, rho, 12, 6, coulomb=False)
    for k in range(t.size):
        with np.errstate(all="ignore"):
            peer = eos.StellarEOS().pe_state(rho[k], t[k], carbon)
        for name, value in (("pressure", peer.p), ("energy", peer.e)):
            assert getattr(found, name)[k] == pytest.approx(value, rel=1e-6), (name, t[k], rho[k])


def test_limits():
    thin = equation_of_state(1e7, 1e-2, 1, 1, coulomb=False)
    assert thin.pressure == pytest.approx(2 * R * 1e7 * 1e-2 + RADIATION * 1e28 / 3, rel=2e-5)
    # W. Sackur and H. Tetrode, with two states of an electron; and radiation.
    volume = 1.0 / (1e-2 * AVOGADRO)
    waves = [6.62607015e-27 / math.sqrt(2 * math.pi * m * 1.380649e-16 * 1e7)
             for m in (1.66053906660e-24, 9.1093837015e-28)]  # fmt: skip
    entropy = sum(
        R * (2.5 + math.log(g * volume / w**3)) for g, w in zip((1, 2), waves, strict=True)
    )
    assert thin.entropy == pytest.approx(entropy + 4 / 3 * RADIATION * 1e21 / 1e-2, rel=1e-3)
    cold = equation_of_state(1e4, 1e11, 4, 2, coulomb=False)
    assert cold.pressure == pytest.approx(1.2435e15 * 5e10 ** (4 / 3), rel=2e-3)
    # Massless pairs have 7/4 of the energy of radiation.
    hot = equation_of_state([1e11, 9e10], 1e2, 4, 2)
    np.testing.assert_allclose(hot.energy * 1e2, 2.75 * RADIATION * hot_fourth(), rtol=1e-3)
    np.testing.assert_allclose(hot.pressure, hot.energy * 1e2 / 3, rtol=1e-3)


def hot_fourth():
    return np.array([1e11, 9e10]) ** 4


def test_coulomb_corrections():
    """Those of Debye and Hueckel where weak, of a crystal where strong, and both meet."""

    def interactions(t, rho, z=6.0, a=12.0):
        with_it, without = (equation_of_state(t, rho, a, z, coulomb=on) for on in (True, False))
        kt = R * t / a
        return (with_it.energy - without.energy) / kt, (with_it.pressure - without.pressure) / (
            rho * kt
        )

    weak, pressure = interactions(1e7, 1e-2)
    g = gamma(1e7, 1e-2)
    assert g < 0.1 and weak == pytest.approx(-math.sqrt(3) / 2 * g**1.5, rel=0.1)
    assert pressure == pytest.approx(weak / 3, rel=1e-4)
    strong, _ = interactions(1e7, 1e9)
    assert gamma(1e7, 1e9) > 150
    assert strong == pytest.approx(-0.9 * gamma(1e7, 1e9), rel=0.02)
    at_one = 1e7 * gamma(1e7, 1e3)
    (below, _), (above, _) = (interactions(at_one * s, 1e3) for s in (1 + 1e-9, 1 - 1e-9))
    assert abs(below - above) < 2e-5


def test_matter_that_is_not_in_the_table():
    with pytest.raises(ergode.ModelError, match=r"is 5000 K; .* from 10000 to 1e\+11 K"):
        equation_of_state([1e6, 5e3], 1.0, 12, 6)
    with pytest.raises(ergode.ModelError, match=r"is 5e\+11 mol/cm3; .*up to 1e\+11"):
        equation_of_state(1e9, 1e12, 12, 6)
    with pytest.raises(ergode.ModelError, match="density has nan"):
        equation_of_state(1e9, math.nan, 12, 6)
    with pytest.raises(ergode.ModelError, match="charge_number 14 is above mass_number 12"):
        equation_of_state(1e9, 1.0, 12, 14)
    with pytest.raises(ergode.ModelError, match="do not fit"):
        equation_of_state([1e9, 2e9], [1.0, 2.0, 3.0], 12, 6)
    with pytest.raises(ergode.ModelError, match="temperature is 1000 K"):
        integrate(CARBON, times=[0, 1], initial={"c12": 1}, temperature=1e3, density=1.0,
                  equation_of_state="helmholtz")  # fmt: skip
    assert equation_of_state([], [], 12, 6).pressure.shape == (0,)
    # Neutrons have no electrons, but pairs.
    free = equation_of_state(1e10, 1e3, 1, 0)
    assert free.energy * 1e3 > 2.2 * RADIATION * 1e40
    tiny = equation_of_state(1e10, 1e3, 1, 1e-20)
    assert tiny.energy == pytest.approx(free.energy, rel=1e-12)


BURNING = {"heating": "constant-volume", "equation_of_state": "helmholtz", "device": "cpu"}


def test_a_zone_takes_up_what_reactions_release():
    """At 7e9 K half of the heat makes pairs: the energy of the public call is the truth."""
    result = integrate(
        CARBON, times=np.concatenate([[0], np.geomspace(1e-10, 1e-4, 20)]), initial={"c12": 1.0},
        temperature=[3e9, 7e9], density=[1e8, 1e6], rtol=1e-7, **BURNING,
    )  # fmt: skip
    x, t = result["mass_fraction"].values, result["temperature"].values
    n, e = x @ [1 / 12, 1 / 24], x @ [0.5, 0.5]
    rho = result["density"].values
    state = equation_of_state(t, rho, 1 / n, e / n)
    released = (x[:, :1] - x) @ (np.array([0.0, -13.933]) / [12, 24]) * MEV
    gained = state.energy - state.energy[:, :1]
    assert (x[:, -1, 0] < 0.9).all() and (t[:, -1] - t[:, 0] > 1e7).all()
    np.testing.assert_allclose(gained[:, -1], released[:, -1], rtol=1e-5)
    np.testing.assert_allclose(result["pressure"], state.pressure, rtol=1e-12)
    assert result["energy_error"].max() < 1e-5
    # `burn` of the same cells, and a cold one that does not spoil them.
    hot, dense = np.array([3e9, 7e9, 1e3]), np.array([1e8, 1e6, 1e6])
    with pytest.warns(ergode.FailureWarning):
        found = burn(CARBON, hot, dense, [[1.0, 0.0]] * 3, 1e-4, rtol=1e-7, **BURNING)
    assert found.status.tolist() == [0, 0, ergode.Status.NOT_FINITE]
    np.testing.assert_allclose(found.mass_fraction[:2], x[:, -1], atol=1e-6)


def test_the_table_on_disk(tmp_path, monkeypatch):
    """Written once; a damaged file is computed anew; listed and cleared with the kernels."""
    monkeypatch.setenv("ERGODE_CACHE_DIR", str(tmp_path / "cache"))
    kernel_cache.folders.cache_clear()
    made = []

    def make():
        made.append(1)
        return np.arange(6.0).reshape(2, 3)

    try:
        for _ in range(2):
            found = kernel_cache.array_of("ergode_test_1", (2, 3), make)
            np.testing.assert_array_equal(found, [[0, 1, 2], [3, 4, 5]])
        assert len(made) == 1
        file = tmp_path / "cache" / "ergode_test_1.npy"
        for damage in (b"", b"nothing of NumPy", file.read_bytes()[:-8]):
            file.write_bytes(damage)
            assert kernel_cache.array_of("ergode_test_1", (2, 3), make).sum() == 15.0
        assert len(made) == 4
        assert [one.name for one in kernel_cache.contents()] == ["ergode_test_1"]
        assert kernel_cache.clear()[0] == 1 and not file.exists()
    finally:
        kernel_cache.folders.cache_clear()


@pytest.mark.cuda
def test_zones_with_pairs_on_a_device():
    common = {
        "times": [0, 1e-8, 1e-4], "temperature": np.linspace(2.5e9, 7e9, 6), "density": 1e7,
        "initial": {"c12": 1.0}, "rtol": 1e-6, **BURNING,
    }  # fmt: skip
    one, other = (integrate(CARBON, **(common | {"device": d})) for d in ("cpu", "cuda"))
    np.testing.assert_allclose(one["mass_fraction"], other["mass_fraction"], atol=1e-8)
    np.testing.assert_allclose(one["temperature"], other["temperature"], rtol=1e-8)
