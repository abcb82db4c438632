import numpy as np
import pytest

import ergode

pynucastro = pytest.importorskip("pynucastro")
ALPHA = ["he4", "c12", "o16", "ne20", "mg24", "si28", "s32"]


def test_rates_are_those_of_pynucastro():
    network = ergode.read_reaclib(ALPHA)
    assert [one.mass_number for one in network.species] == [4, 12, 16, 20, 24, 28, 32]
    peer = pynucastro.PythonNetwork(
        libraries=[pynucastro.ReacLibLibrary().linking_nuclei(ALPHA, print_warning=False)]
    )
    density, hot = 1e6, 3e9
    composition = pynucastro.Composition(peer.unique_nuclei)
    composition.set_equal()
    exact = peer.evaluate_ydots(density, hot, composition)
    short = 1e-14
    result = ergode.kinetics.integrate(
        network, times=[0, short], temperature=hot, density=density, rtol=1e-10, atol=1e-22,
        initial=dict.fromkeys(ALPHA, 1 / 7), device="cpu",
    )  # fmt: skip
    x = result["mass_fraction"].values[0]
    found = (x[1] - x[0]) / short / result["mass_number"].values
    for nucleus, change in exact.items():
        place = ALPHA.index(nucleus.raw)
        assert found[place] == pytest.approx(change, rel=1e-4, abs=1e-6 * max(map(abs, found)))
    assert np.abs(x.sum(axis=1) - 1).max() < 1e-12


def test_no_nucleus():
    with pytest.raises(ergode.ReadError, match="'xx9' is no nucleus"):
        ergode.read_reaclib(["he4", "xx9"])
