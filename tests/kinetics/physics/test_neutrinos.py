"""Neutrino losses: every process against an independent implementation of the same fits."""

import numpy as np
import pytest

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
