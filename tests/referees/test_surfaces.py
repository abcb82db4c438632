"""Random catalysts against Cantera: rates at random states, and closed vessels over time."""

import json
import warnings

import numpy as np
import pytest
from fresh import fresh_seeds
from surface_cases import catalyst

import ergode
from ergode.readers import cantera_surfaces

ct = pytest.importorskip("cantera")
pytestmark = [pytest.mark.exhaustive, pytest.mark.filterwarnings("ignore::UserWarning")]
ZONES = 9  # of which eight are in lanes
CPU = ergode.Device("cpu:1")


def phases_of(path):
    gas = ct.Solution(str(path), "gas")
    return gas, ct.Interface(str(path), "surf", [gas])


def state_of(rng, gas, surface):
    """A temperature [K], a pressure [Pa], mole fractions and coverages, some of them zero."""
    mixture = rng.exponential(size=gas.n_species) * (rng.random(gas.n_species) < 0.8)
    covered = rng.exponential(size=surface.n_species) * (rng.random(surface.n_species) < 0.8)
    mixture[-1] += 0.1
    covered[0] += 0.01
    hot, push = rng.uniform(500.0, 1500.0), 10.0 ** rng.uniform(3.5, 6.5)
    return hot, push, mixture / mixture.sum(), covered / covered.sum()


def write(seed, folder):
    path = folder / "catalyst.yaml"
    path.write_text(json.dumps(catalyst(seed)))
    return path


def differences_of_rates(path, seed):
    """Largest relative difference of a rate at random states."""
    rng, worst = np.random.default_rng([seed, 1]), 0.0
    area = float(10.0 ** rng.uniform(-1, 2))
    network = ergode.read_cantera(path, surface="surf", surface_area=area)
    gas, surface = phases_of(path)
    names = [one.name for one in network.species]
    for _ in range(4):
        hot, push, mixture, covered = state_of(rng, gas, surface)
        gas.TPX, surface.TP = (hot, push, mixture), (hot, push)
        surface.coverages = covered
        found = ergode.kinetics.reaction_rates(
            network, temperature=hot, pressure=10.0 * push,
            initial=dict(zip(names, [*mixture, *covered], strict=True)),
        )["rate"].values[0]  # fmt: skip
        both = []
        for k in range(surface.n_reactions):
            both.append(surface.forward_rates_of_progress[k])
            if surface.reaction(k).reversible:
                both.append(surface.reverse_rates_of_progress[k])
        theirs = 0.1 * area * np.array(both)
        with np.errstate(invalid="ignore", divide="ignore"):
            off = np.abs(found / theirs - 1.0)
        off[np.abs(theirs) < 1e-30 * np.abs(theirs).max()] = 0.0
        worst = max(worst, float(off.max()))
    return worst


def differences_of_runs(path, seed, methods=("rodas4", "bdf")):
    """Largest difference of a coverage and of a mole fraction, by method; None if Cantera fails."""
    rng, times = np.random.default_rng([seed, 2]), np.array([0.0, 1e-5, 1e-3, 1e-1])
    area = float(10.0 ** rng.uniform(-1, 2))
    network = ergode.read_cantera(path, surface="surf", surface_area=area)
    gas, surface = phases_of(path)
    names = [one.name for one in network.species]
    states = [state_of(rng, gas, surface) for _ in range(ZONES)]
    amounts = np.array([[*mixture, *covered] for _, _, mixture, covered in states])
    expected = []
    for hot, push, mixture, covered in states[::4]:
        gas.TPX, surface.TP = (hot, push, mixture), (hot, push)
        surface.coverages = covered
        vessel = ct.IdealGasReactor(gas, energy="off", clone=False)
        walled = ct.ReactorSurface(surface, vessel, A=100.0 * area, clone=False)
        peer = ct.ReactorNet([vessel])
        peer.rtol, peer.atol = 1e-9, 1e-16
        rows = []
        try:
            for time in times[1:]:
                peer.advance(time)
                rows.append([*vessel.phase.X, *walled.coverages])
        except ct.CanteraError:
            return None
        expected.append(rows)
    worst = {}
    for method in methods:
        found = ergode.kinetics.integrate(
            network, times=times, temperature=[one[0] for one in states], method=method,
            pressure=[10.0 * one[1] for one in states], rtol=1e-8, device=CPU,
            initial=dict(zip(names, amounts.T, strict=True)),
        )  # fmt: skip
        some = found.isel(zone=slice(None, None, 4), time=slice(1, None))
        there = np.isfinite(some["coverage"].values)
        amount = np.where(there, 0.0, some["concentration"].values)
        own = np.where(there, some["coverage"].values, amount / amount.sum(axis=2, keepdims=True))
        worst[method] = float(np.abs(own - np.array(expected)).max())
        sites = found["coverage"].sum("species").values
        worst[method] = max(worst[method], float(np.abs(sites / sites[:, :1] - 1.0).max()))
    return worst


def examine(seed, folder, methods=("rodas4", "bdf")):
    """What is wrong with a catalyst."""
    path = write(seed, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        off, runs = differences_of_rates(path, seed), differences_of_runs(path, seed, methods)
    found = [f"seed {seed}: rates are {off:.1e} off"] * (off > 1e-10)
    for method, worst in (runs or {}).items():
        if not worst < 3e-6:
            found.append(f"seed {seed}: by {method} amounts are {worst:.1e} off")
    return found


@pytest.mark.parametrize("seed", range(3))
def test_random_catalysts_are_those_of_cantera(seed, tmp_path):
    assert not examine(seed, tmp_path)


def test_sticking_by_another_mass_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(cantera_surfaces, "mass_of_atoms", lambda atoms: 18.0)
    assert examine(0, tmp_path, ())


def test_coverages_that_do_not_matter_are_noticed(tmp_path, monkeypatch):
    plain = cantera_surfaces.SurfaceReactions._coverages
    monkeypatch.setattr(
        cantera_surfaces.SurfaceReactions, "_coverages",
        lambda self, *given: (plain(self, *given)[0], ""),
    )  # fmt: skip
    assert any(examine(seed, tmp_path, ()) for seed in range(3))


def test_random_catalysts_for_long(tmp_path):
    wrong = []
    for seed in fresh_seeds():
        wrong += examine(seed, tmp_path)
    assert not wrong, wrong
