"""Neutrino losses: every process against an independent implementation of the same fits."""

import warnings

import numpy as np
import pytest
from both_devices import on_both
from kernel_cases import CARBON

import ergode
from ergode.kinetics import neutrino_losses


def test_losses_are_those_of_pynucastro():
    """Formulas are equal to rounding; recombination has another chemical potential."""
    cooling = pytest.importorskip("pynucastro.neutrino_cooling.sneut5_mod")
    rng = np.random.default_rng(4)
    count = 120
    t, rho = 10 ** rng.uniform(7.0, 10.5, count), 10 ** rng.uniform(-2, 11, count)
    mass = rng.uniform(2.0, 60.0, count)
    charge = mass * rng.uniform(0.4, 0.6, count)
    found = neutrino_losses(t, rho, mass, charge)
    peers = [
        cooling.sneut5(rho[k], t[k], abar=mass[k], zbar=charge[k], full_output=True)[1]
        for k in range(count)
    ]
    for name, theirs, rtol in (
        ("pair", "spair", 1e-10), ("photo", "sphot", 1e-9), ("plasma", "splas", 2e-6),
        ("bremsstrahlung", "sbrem", 1e-9), ("recombination", "sreco", 0.02),
    ):  # fmt: skip
        ours, wanted = getattr(found, name), np.array([getattr(one, theirs) for one in peers])
        wanted = np.maximum(wanted, 0.0)
        if name == "recombination":  # where one of both is beyond the range of the fit
            inside = (ours > 0) & (wanted > 0)
            assert inside.sum() > 15 and (ours[~inside] + wanted[~inside] > 0).sum() < 10
            ours, wanted = ours[inside], wanted[inside]
        most = np.max([np.abs(getattr(one, theirs)) for one in peers])
        assert most > 0
        np.testing.assert_allclose(ours, wanted, rtol=rtol, atol=1e-300, err_msg=name)
    np.testing.assert_allclose(found.total, sum(found), rtol=1e-14)


def test_losses_that_are_none():
    assert neutrino_losses(9e6, 1e5, 12, 6).total == 0.0
    assert neutrino_losses(1e9, 1e5, 1, 0).total == 0.0
    assert neutrino_losses([1e9, 2e9], 1e5, [[12], [4]], 2).pair.shape == (2, 2)
    with pytest.raises(ergode.ModelError, match="temperature has -1"):
        neutrino_losses(-1.0, 1e5, 12, 6)


COMMON = {"heating": "constant-volume", "equation_of_state": "helmholtz", "rtol": 1e-7}


def test_neutrinos_cool_a_zone():
    """No reactions: du/dt = -losses, against SciPy; with reactions, the energy is accounted for."""
    from scipy.integrate import solve_ivp

    times = np.concatenate([[0], np.geomspace(1e-4, 2e3, 80)])
    result = ergode.kinetics.integrate(
        CARBON, times=times, initial={"mg24": 1.0}, temperature=[6e9, 8e9], density=[1e7, 1e5],
        neutrino_losses=True, device="cpu", **COMMON,
    )  # fmt: skip
    for zone, (hot, rho) in enumerate(((6e9, 1e7), (8e9, 1e5))):

        def cooling(_, t, rho=rho):
            state = ergode.kinetics.equation_of_state(t, rho, 24, 12)
            return -neutrino_losses(t, rho, 24, 12).total / state.heat_capacity

        exact = solve_ivp(cooling, (0, 2e3), [hot], "LSODA", times, rtol=1e-9, atol=1.0).y[0]
        assert exact[-1] < 0.9 * hot
        np.testing.assert_allclose(result["temperature"][zone], exact, rtol=1e-5)
    burnt = ergode.kinetics.integrate(
        CARBON, times=times, initial={"c12": 1.0}, temperature=[2.5e9, 6e9], density=[1e6, 1e6],
        neutrino_losses=True, device="cpu", **COMMON,
    )  # fmt: skip
    assert "energy_error" not in burnt and burnt.attrs["neutrino_losses"] == 1
    loss, carried = burnt["neutrino_loss"].values, burnt["neutrino_energy"].values
    sums = np.cumsum(0.5 * (loss[:, 1:] + loss[:, :-1]) * np.diff(times), axis=1)
    np.testing.assert_allclose(carried[:, -1], sums[:, -1], rtol=0.05)
    assert (carried[:, -1] > 1e-3 * burnt["energy_released"][:, -1]).all()
    with pytest.raises(ergode.ModelError, match="neutrino_losses is for nuclei that heat"):
        ergode.kinetics.integrate(
            CARBON, times=[0, 1], initial={"c12": 1}, temperature=1e9, density=1e6,
            neutrino_losses=True,
        )  # fmt: skip


@pytest.mark.cuda
def test_neutrinos_cool_a_zone_on_a_device():
    found = on_both(
        ergode.kinetics.integrate, CARBON, times=[0, 1e-3, 1.0], initial={"c12": 1.0},
        temperature=[2.5e9, 6e9, 8e9], density=1e6, neutrino_losses=True, **COMMON,
    )  # fmt: skip
    for name in ("temperature", "neutrino_loss"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-6)
    # A difference of energies of some 1e17 erg/g.
    energy = [one["neutrino_energy"] for one in found]
    np.testing.assert_allclose(*energy, rtol=1e-6, atol=1e9)


NUCLEI = [
    "p", "he4", "c12", "o16", "ne20", "mg24", "si28", "s32", "ar36", "ca40", "ti44", "cr48",
    "fe52", "ni56", "fe54", "co55",
]  # fmt: skip
SPAN = [0.0, 1.0, 100.0]


def strong(network):
    """The network without weak decays, which would change the electron fraction."""
    charge = {one.name: one.charge_number for one in network.species}

    def total(side):
        return sum(count * charge[name] for name, count in side.items())

    kept = [one for one in network.reactions if total(one.reactants) == total(one.products)]
    return ergode.ReactionNetwork(network.species, kept)


def equilibrium(network, hot, dense):
    """Mass fractions of equilibrium, and sums over nuclei of X/A, of X Z/A and of mass excess."""
    found = ergode.kinetics.nuclear_equilibrium(
        network, temperature=hot, density=dense, electron_fraction=0.5
    )
    x, mass = found["mass_fraction"].values[0], found["mass_number"].values
    excess = (
        np.array([one.thermochemistry.mass_excess for one in network.species])
        * 1e6
        * 9.648533212331001e11
    )
    return x, (x / mass).sum(), (x * found["charge_number"].values / mass).sum(), x / mass @ excess


def cooled(network, hot, dense, at_pressure):
    """Temperatures of matter that stays in equilibrium, by one equation for its energy."""
    from scipy.integrate import solve_ivp
    from scipy.optimize import brentq

    def matter(t, rho):
        _, nuclei, electrons, excess = equilibrium(network, t, rho)
        state = ergode.kinetics.equation_of_state(t, rho, 1 / nuclei, electrons / nuclei)
        return state, excess, (1 / nuclei, electrons / nuclei)

    kept = matter(hot, dense)[0].pressure

    def density_of(t):
        if not at_pressure:
            return dense
        return brentq(lambda rho: matter(t, rho)[0].pressure / kept - 1, 0.5 * dense, 2 * dense)

    def energy_of(t):
        rho = density_of(t)
        state, excess, _ = matter(t, rho)
        return state.energy + excess + (kept / rho if at_pressure else 0.0)

    # Energy and loss are smooth in the temperature, which falls by a few per cent.
    nodes = hot * np.linspace(0.97, 1.001, 9)
    shift = energy_of(hot)
    energies = np.array([energy_of(t) - shift for t in nodes])
    losses = []
    for t in nodes:
        rho = density_of(t)
        losses.append(neutrino_losses(t, rho, *matter(t, rho)[2]).total)
    energy, loss = (np.polynomial.Chebyshev.fit(nodes, v, 7) for v in (energies, losses))
    slope = energy.deriv()
    found = solve_ivp(
        lambda _, t: -loss(t) / slope(t), (0, SPAN[-1]), [hot], t_eval=SPAN, rtol=1e-10, atol=1.0
    )
    return found.y[0], energy(hot) - energy(found.y[0])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure"])
def test_matter_in_equilibrium_cools_as_its_energy_says(heating, device):
    """Rates of 1e15/s cancel here; the temperature stayed, or drifted by a hundred times rtol."""
    pytest.importorskip("pynucastro")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = strong(ergode.balanced(ergode.read_reaclib(NUCLEI)))
    names = [one.name for one in network.species]
    initial = dict(zip(names, equilibrium(network, 7e9, 1e8)[0], strict=True))
    exact, carried = cooled(network, 7e9, 1e8, heating == "constant-pressure")
    assert exact[-1] < 0.99 * exact[0]
    for rtol in (1e-3, 1e-4, 1e-6):
        found = ergode.kinetics.integrate(
            network, times=SPAN, initial=initial, temperature=7e9, density=1e8, heating=heating,
            equation_of_state="helmholtz", neutrino_losses=True, rtol=rtol, device=device,
        )  # fmt: skip
        assert found["status"].item() == 0 and found["step_count"].item() < 3_000
        np.testing.assert_allclose(found["temperature"][0], exact, rtol=2e-6 + 0.5 * rtol)
        assert found["neutrino_energy"][0, -1] == pytest.approx(carried[-1], rel=1e-4)
