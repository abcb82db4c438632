import numpy as np
import pytest

import ergode

pynucastro = pytest.importorskip("pynucastro")
ALPHA = ["he4", "c12", "o16", "ne20", "mg24", "si28", "s32"]


@pytest.fixture(scope="module")
def library():
    return pynucastro.ReacLibLibrary()


def test_rates_are_those_of_pynucastro(library):
    network = ergode.read_reaclib(ALPHA)
    assert [one.mass_number for one in network.species] == [4, 12, 16, 20, 24, 28, 32]
    peer = pynucastro.PythonNetwork(libraries=[library.linking_nuclei(ALPHA, print_warning=False)])
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


@pytest.mark.parametrize("screening", [None, "weak"])
def test_electron_captures_are_those_of_pynucastro(library, screening):
    """Proportional to the density of electrons: of one nucleus, and of two (p + e + p)."""
    names = ["p", "d", "he3", "he4", "li7", "be7"]
    network = ergode.read_reaclib(names)
    captures = [k for k, one in enumerate(network.reactions) if one.value.electrons]
    assert sorted(len(network.reactions[k].reactants) for k in captures) == [1, 1]
    assert sorted(sum(network.reactions[k].reactants.values()) for k in captures) == [1, 2]
    peer = pynucastro.PythonNetwork(libraries=[library.linking_nuclei(names, print_warning=False)])
    x = np.array([0.5, 0.05, 0.1, 0.25, 0.05, 0.05])
    composition = pynucastro.Composition([pynucastro.Nucleus(name) for name in names])
    for name, fraction in zip(names, x, strict=True):
        composition[pynucastro.Nucleus(name)] = fraction
    for density, hot in ((1e2, 1.5e7), (1e5, 1e8), (1e8, 1e9)):
        found = ergode.kinetics.reaction_rates(
            network, temperature=hot, density=density, initial=dict(zip(names, x, strict=True)),
            screening=screening,
        )  # fmt: skip
        exact = {
            tuple(sorted(one.raw for one in rate.reactants)): value
            for rate, value in peer.evaluate_rates(density, hot, composition).items()
            if rate.weak_type == "electron_capture"
        }
        for k in captures:
            left = network.reactions[k].reactants
            who = tuple(sorted(name for name, count in left.items() for _ in range(int(count))))
            factor = found["rate"].values.ravel()[k] / exact[who]
            if screening is None or len(who) == 1:
                assert factor == pytest.approx(1.0, rel=1e-10)
            else:
                assert factor > 1.0001


def test_what_captures_cannot_do():
    law = ergode.Reaclib([(1.0, 0, 0, 0, 0, 0, 0)], electrons=True)
    plain = ergode.ReactionNetwork({"a": 1, "b": 0}, [ergode.Reaction("a -> b", rate_constant=law)])
    with pytest.raises(ergode.ModelError, match="'R1' captures an electron, but a species"):
        ergode.kinetics.integrate(plain, times=[0, 1], temperature=1e9)


def test_no_nucleus():
    with pytest.raises(ergode.ReadError, match="'xx9' is not a nucleus"):
        ergode.read_reaclib(["he4", "xx9"])


def test_the_equilibrium_of_many_nuclei(fern):
    """150 nuclei at T9 = 7, rho = 1e8, Y_e = 0.5, with spins and partition functions."""
    symbols = (
        "- - he li be b c n o f ne na mg al si p s cl ar k ca sc ti v cr mn fe co ni cu zn ga ge"
    )
    symbols = symbols.split(" ")
    light = {(1, 0): "n", (1, 1): "p", (2, 1): "d", (3, 1): "t"}
    names = [
        light.get((one.mass_number, one.charge_number))
        or f"{symbols[one.charge_number]}{one.mass_number}"
        for one in fern.species
    ]
    network = ergode.read_reaclib(names)
    captures = [one for one in network.reactions if one.value.electrons]
    assert (len(network.species), len(network.reactions) - len(captures)) == (150, 1423)
    assert len(captures) == 2
    found = ergode.kinetics.nuclear_equilibrium(network, temperature=7e9, density=1e8)
    expected = {"he4": 0.33309, "fe54": 0.13507, "fe55": 0.07044, "mn53": 0.05263, "fe56": 0.05155}
    for name, fraction in expected.items():
        assert found["mass_fraction"].sel(species=name).item() == pytest.approx(fraction, rel=0.01)


def test_malformed_library(tmp_path, refusal):
    path = tmp_path / "library"

    def error(text):
        path.write_text(text)
        return refusal(ergode.read_reaclib, ["n", "p"], library=path)

    header = "         n    p                            wc12w     7.82300e-01          \n"
    assert "line 1: 'x'; expected the number of a chapter" in error("x\n")
    assert "line 3: expected four numbers" in error(f"1\n{header}-6.78\n\n")
    with pytest.raises(ergode.ReadError, match="no such file"):
        ergode.read_reaclib(["n", "p"], library=tmp_path / "none")
