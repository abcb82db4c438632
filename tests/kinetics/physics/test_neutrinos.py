"""Neutrino losses: every process against an independent implementation of the same fits."""

import warnings

import numpy as np
import pytest
from kernel_cases import CARBON

import ergode
from ergode.kinetics import neutrino_losses
from ergode.kinetics.physics.energy import least_missing


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
    found = [
        ergode.kinetics.integrate(
            CARBON, times=[0, 1e-3, 1.0], initial={"c12": 1.0}, temperature=[2.5e9, 6e9, 8e9],
            density=1e6, neutrino_losses=True, device=device, **COMMON,
        )
        for device in ("cpu", "cuda")
    ]  # fmt: skip
    for name in ("temperature", "neutrino_loss"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-6)
    # A difference of energies of some 1e17 erg/g.
    energy = [one["neutrino_energy"] for one in found]
    np.testing.assert_allclose(*energy, rtol=1e-6, atol=1e9)


def test_too_little_energy_for_the_losses_is_warned_of():
    """The errors of both energies made it negative at the default rtol, without a word."""

    def warnings_at(rtol):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            ergode.kinetics.integrate(
                CARBON, times=[0, 1.0, 1e3], initial={"c12": 1.0}, temperature=2.5e9, density=1e6,
                neutrino_losses=True, device="cpu", **COMMON | {"rtol": rtol},
            )  # fmt: skip
        return [str(one.message) for one in said]

    assert any(
        "neutrino_energy are off: the latter is too small" in one for one in warnings_at(0.1)
    )
    assert not warnings_at(1e-6)


def test_what_is_missing_at_least():
    times = np.array([0.0, 1.0, 3.0])
    loss = np.array([[2.0, 3.0, 1.0]] * 2)
    right, short = [0.0, 2.5, 6.5], [0.0, 2.5, 3.9]  # at least 2 + 2 * 1 at the end
    found = least_missing(np.array([right, short]), loss, times)
    assert (found[0] < 0).all() and found[1, -1] == pytest.approx(0.025)
