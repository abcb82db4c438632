"""Firings per second, against the exact simulators that people use and against the network's size.

On the CPU a figure is for one core: processor time of one thread, and so is the peers'.  Peers are
given networks as SBML (libRoadRunner, COPASI) or in their own form (GillesPy2's C++ solver, whose
time includes starting its executable, so it is given work for long).  On a GPU it is the wall
clock of the whole call, results on the host.

The families are those of Komarov and D'Souza, PLoS ONE 7 e46693 (2012): time per firing against
the number of reactions, and against the number of realizations.
"""

from __future__ import annotations

import time

import numpy as np
from harness import Rows, arguments
from reaction_networks import (
    birth_death,
    colloidal_aggregation,
    cyclic_chain,
    random_network,
    vilar,
)

import ergode

simulate = ergode.stochastic.simulate
REPEATS = 5


def rate_of(work):
    """Firings a second: median over `REPEATS` of ``work() -> (firings, seconds)``."""
    work()
    return float(
        np.median([firings / seconds for firings, seconds in (work() for _ in range(REPEATS))])
    )


def ours(network, end, replicates, device, times=101, output="statistics", method="auto"):
    grid = np.linspace(0, end, times)
    clock = time.perf_counter if device == "cuda" else time.process_time

    def work():
        start = clock()
        result = simulate(
            network, times=grid, replicates=replicates, seed=1, output=output, method=method,
            device="cuda" if device == "cuda" else "cpu:1",
        )  # fmt: skip
        return result.attrs["firings"], clock() - start

    return work


def peers_of(network, end, firings, quick):
    """Peers by name: work of one realization of `network` each, which takes so many firings."""
    import tempfile
    from pathlib import Path

    found = {}
    path = Path(tempfile.mkdtemp()) / "model.xml"
    ergode.write_sbml(network, path)
    try:
        import roadrunner

        model = roadrunner.RoadRunner(str(path))
        model.setIntegrator("gillespie")
        model.integrator.variable_step_size = False

        def road_runner():
            model.reset()
            start = time.process_time()
            model.simulate(0, end, 101)
            return firings, time.process_time() - start

        found["libRoadRunner"] = road_runner
    except ImportError:
        pass
    try:
        import basico

        def copasi():
            start = time.process_time()
            basico.run_time_course(
                duration=end, intervals=100, method="directMethod", model=loaded, use_seed=True,
                update_model=False, seed=1,
            )  # fmt: skip
            return firings, time.process_time() - start

        loaded = basico.load_model(str(path))
        basico.set_model_unit(quantity_unit="#", model=loaded)
        basico.set_task_settings("Time-Course", {"method": {"Max Internal Steps": 10**9}})
        found["COPASI"] = copasi
    except ImportError:
        pass
    return found


def small(rows, quick, device, with_peers):
    """Small networks: one call each, means and variances on a grid of a hundred points."""
    for network, end, counts in (
        (birth_death(), 50.0, (2000, 2_000_000)),
        (vilar(), 50.0, (800, 400_000)),
    ):
        replicates = counts[device == "cuda"] // (8 if quick and device == "cuda" else 1)
        mine = rate_of(ours(network, end, replicates, device))
        rows.add(network.name, "firings per second", mine, "1/s", smaller_is_better=False)
        if not with_peers:
            continue
        one = simulate(network, times=[0, end], replicates=200, seed=1, device="cpu:1")
        firings = one.attrs["firings"] / 200
        for peer, work in peers_of(network, end, firings, quick).items():
            rows.add(
                network.name, "firings per second", mine, "1/s", peer=peer,
                peer_value=rate_of(work), smaller_is_better=False,
            )  # fmt: skip


FAMILIES = {
    "colloidal": (colloidal_aggregation, (8, 16, 32, 64, 128, 252), 1e5),
    "cyclic": (cyclic_chain, (10, 100, 1000, 10_000, 50_000), 1e6),
    "random": (random_network, (100, 1000, 10_000), 1e6),
}


def large(rows, quick, device, with_peers, names):
    """Time per firing against the size of the network."""
    for name in names:
        build, sizes, firings_wanted = FAMILIES[name]
        replicates = 4096 if device == "cuda" else 4
        wanted = firings_wanted * (100 if device == "cuda" else 1) / (10 if quick else 1)
        for size in (sizes[-3], sizes[-1]) if quick else sizes:
            network = build(size)
            # As many firings as are wanted, found by a short run.
            trial = simulate(network, times=[0, 1e-3], replicates=4, seed=1, device="cpu:1")
            end = 1e-3 * wanted / max(replicates / 4 * trial.attrs["firings"], 1)
            mine = rate_of(ours(network, end, replicates, device, times=2))
            case = f"{name} N={size}"
            rows.add(case, "time per firing", 1e9 / mine, "ns")
            if with_peers and (name, size) in (("colloidal", 64), ("cyclic", 1000)):
                one = simulate(network, times=[0, end], replicates=8, seed=1, device="cpu:1")
                for peer, work in peers_of(network, end, one.attrs["firings"] / 8, quick).items():
                    rows.add(
                        case, "time per firing", 1e9 / mine, "ns", peer=peer,
                        peer_value=1e9 / rate_of(work),
                    )  # fmt: skip


def many(rows, quick, device):
    """Time per firing against the number of realizations."""
    network = colloidal_aggregation(32)
    counts = (1, 16, 256, 4096) if device == "cpu" else (32, 1024, 32_768, 131_072)
    for count in counts[:2] if quick else counts:
        mine = rate_of(ours(network, 0.05, count, device, times=2))
        rows.add(f"colloidal N=32 R={count}", "time per firing", 1e9 / mine, "ns")


def main():
    chosen = arguments("stochastic", ["small", *FAMILIES, "realizations"])
    rows = Rows("stochastic", chosen.device)
    with_peers = not chosen.no_peers and chosen.device == "cpu"
    if "small" in chosen.case:
        small(rows, chosen.quick, chosen.device, with_peers)
    names = [name for name in FAMILIES if name in chosen.case]
    large(rows, chosen.quick, chosen.device, with_peers, names)
    if "realizations" in chosen.case:
        many(rows, chosen.quick, chosen.device)
    rows.write(chosen.json)


if __name__ == "__main__":
    main()
