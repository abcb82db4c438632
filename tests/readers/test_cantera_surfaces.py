"""Reactions on a surface: rates and runs against Cantera's interface kinetics."""

from pathlib import Path

import numpy as np
import pytest

import ergode

ct = pytest.importorskip("cantera")
AREA = 7.0  # 1/cm
DATA = Path(ct.__file__).parent / "data"
PLATINUM = "methane_pox_on_pt.yaml"


def rates_of(file, seed, count, area=AREA):
    """Rates on the surface at random states, by us and by Cantera [mol/(cm3 s)]."""
    network = ergode.read_cantera(file, surface="Pt_surf", surface_area=area)
    gas = ct.Solution(str(file), "gas")
    surface = ct.Interface(str(file), "Pt_surf", [gas])
    own = [k for k, one in enumerate(network.reactions) if "on the surface" in one.name]
    rng, names = np.random.default_rng(seed), [one.name for one in network.species]
    for _ in range(count):
        hot, push = rng.uniform(400.0, 1600.0), 10.0 ** rng.uniform(2.0, 7.0)
        mixture = rng.dirichlet(np.ones(gas.n_species))
        covered = rng.dirichlet(np.full(surface.n_species, 0.3))
        gas.TPX = hot, push, mixture
        surface.TP = hot, push
        surface.coverages = covered
        found = ergode.kinetics.reaction_rates(
            network, temperature=hot, pressure=10.0 * push,
            initial=dict(zip(names, [*mixture, *covered], strict=True)),
        )["rate"].values[0, own]  # fmt: skip
        both = []
        for k in range(surface.n_reactions):
            both.append(surface.forward_rates_of_progress[k])
            if surface.reaction(k).reversible:
                both.append(surface.reverse_rates_of_progress[k])
        yield found, 0.1 * area * np.array(both)  # kmol/(m2 s) is 0.1 mol/(cm2 s)


def test_rates_on_platinum():
    """Sticking coefficients, and energies and orders that follow coverages."""
    for found, expected in rates_of(DATA / PLATINUM, 3, 5):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)


def test_motz_and_wise_and_reverse_reactions(tmp_path):
    """A correction of sticking coefficients, and reverse reactions by detailed balance."""
    text = (DATA / "ptcombust.yaml").read_text()
    gas = "  kinetics: gas\n  reactions:\n  - gri30.yaml/reactions: declared-species\n"
    assert gas in text and "  kinetics: surface\n" in text
    text = text.replace(gas, "").replace("gri30.yaml/", f"{DATA}/gri30.yaml/")
    path = tmp_path / "platinum.yaml"
    path.write_text(text.replace("kinetics: surface\n", "kinetics: surface\n  Motz-Wise: true\n"))
    for found, expected in rates_of(path, 4, 4, area=300.0):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)


def test_what_surfaces_do_not_have(refusal):
    read = {"surface": "Pt_surf", "surface_area": AREA}
    assert "area of the surface" in refusal(ergode.read_cantera, DATA / PLATINUM, surface="Pt_surf")
    assert "it is for a surface" in refusal(ergode.read_cantera, DATA / "h2o2.yaml", surface_area=1)
    assert "expected an ideal-surface" in refusal(
        ergode.read_cantera, DATA / PLATINUM, surface="gas", surface_area=AREA
    )
    network = ergode.read_cantera(DATA / PLATINUM, **read)
    given = {
        "times": [0, 1], "temperature": 900.0, "pressure": 1e6,
        "initial": {"CH4": 1.0, "O2": 2.0, "PT_S": 1.0},
    }  # fmt: skip
    tank = ergode.kinetics.StirredTank({"O2": 1.0}, 1.0)
    for change, said in (
        ({"heating": "constant-pressure"}, "'PT_S' is on a surface"),
        ({"reactor": tank}, "reactor is given"),
        ({"initial": {"CH4": 1.0}}, "expected coverages"),
        ({"initial": {"PT_S": 1.0}}, "no species of the gas"),
    ):
        with pytest.raises(ergode.ModelError, match=said):
            ergode.kinetics.integrate(network, **(given | change))
    state = {"temperature": 900.0, "pressure": 1e6}
    with pytest.raises(ergode.ModelError, match="for gases"):
        ergode.kinetics.equilibrium(network, initial=given["initial"], **state)
    with pytest.raises(ergode.ModelError, match="for gases"):
        ergode.kinetics.ignition_delay(network, mixture=given["initial"], **state)


@pytest.mark.slow
def test_a_reactor_with_platinum():
    """Light-off in a closed vessel at given temperatures, against Cantera's reactor."""
    file, times, area = DATA / PLATINUM, np.array([0.0, 1e-5, 1e-3, 1e-1]), 50.0
    network = ergode.read_cantera(file, surface="Pt_surf", surface_area=area)
    hot, mixture = np.array([700.0, 900.0, 1100.0]), {"CH4": 1.0, "O2": 1.0, "AR": 4.0}
    found = ergode.kinetics.integrate(
        network, times=times, temperature=hot, pressure=1.01325e6, rtol=1e-8, device="cpu",
        initial=mixture | {"PT_S": 0.6, "O_S": 0.4},
    )  # fmt: skip
    gas = ct.Solution(str(file), "gas")
    surface = ct.Interface(str(file), "Pt_surf", [gas])
    labels = [one.label or one.name for one in network.species]
    for zone, temperature in enumerate(hot):
        gas.TPX = temperature, ct.one_atm, mixture
        surface.TP = gas.TP
        surface.coverages = {"PT(S)": 0.6, "O(S)": 0.4}
        vessel = ct.IdealGasReactor(gas, energy="off", clone=False)
        walled = ct.ReactorSurface(surface, vessel, A=100.0 * area, clone=False)
        peer = ct.ReactorNet([vessel])
        peer.rtol, peer.atol = 1e-9, 1e-16
        for k, time in enumerate(times[1:], 1):
            peer.advance(time)
            own = found.isel(zone=zone, time=k)
            assert float(own["pressure"]) == pytest.approx(10.0 * vessel.phase.P, rel=1e-8)
            covered = dict(zip(labels, own["coverage"].values, strict=True))
            theirs = walled.coverages
            for name, value in zip(surface.species_names, theirs, strict=True):
                assert covered[name] == pytest.approx(value, rel=1e-6, abs=1e-8)
    # The sites are conserved, and so are the elements.
    np.testing.assert_allclose(found["coverage"].sum("species"), 1.0, rtol=1e-9)
