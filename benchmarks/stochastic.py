"""Firings per second, against the exact simulators that people use and against the network's size.

On the CPU a figure is for one core: processor time of one thread, and so is the peers'.  Peers are
given networks as SBML (libRoadRunner, COPASI) or in their own form (GillesPy2's C++ solver, whose
time includes starting its executable, so it is given work for long).  Runs are so long that what
comes before the first firing is a small part of them.  On a GPU it is the wall clock of the whole
call, results on the host.

The families are those of Komarov and D'Souza, PLoS ONE 7 e46693 (2012): time per firing against
the number of reactions, and against the number of realizations; ``--figures FOLDER`` draws both.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

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
    with contextlib.suppress(ImportError):
        found["COPASI"] = copasi_of(path, network, end, firings)
    if len(network.reactions) <= 100:  # C++ is made of every reaction, and compiled
        with contextlib.suppress(ImportError):
            found["GillesPy2"] = gillespy2_of(network, end, firings)
    return {name: work for name, work in found.items() if work is not None}


COPASI = """
import sys, time
import basico
path, end, repeats = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
model = basico.load_model(path)
basico.set_model_unit(quantity_unit="#", model=model)
basico.set_task_settings("Time-Course", {"method": {"Max Internal Steps": 10**9}})
for _ in range(repeats):
    start = time.process_time()
    basico.run_time_course(
        duration=end, intervals=100, method="directMethod", model=model, use_seed=True,
        update_model=False, seed=1,
    )
    print(time.process_time() - start)
"""
PATIENCE = 120


def copasi_of(path, network, end, firings):
    """Work of COPASI, in a process of its own, which is given up if it does not come to an end."""
    import basico  # noqa: F401

    command = [sys.executable, "-c", COPASI, str(path), str(end), str(REPEATS + 1)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    except subprocess.TimeoutExpired:
        print(f"COPASI: {len(network.reactions):,} reactions not simulated in {PATIENCE} s")
        return None
    seconds = iter([float(line) for line in done.stdout.split()])
    return lambda: (firings, next(seconds))


def gillespy2_of(network, end, firings):
    """Work of GillesPy2's C++ solver: as many realizations as make starting it negligible."""
    import gillespy2

    model = gillespy2.Model(name="peer")
    for member in network.species:
        model.add_species(
            gillespy2.Species(name=member.name, initial_value=int(member.initial), mode="discrete")
        )
    for name, value in network.parameters.items():
        model.add_parameter(gillespy2.Parameter(name=name, expression=str(value)))
    for k, reaction in enumerate(network.reactions):
        sides = (
            {s: int(n) for s, n in side.items()} for side in (reaction.reactants, reaction.products)
        )
        model.add_reaction(
            gillespy2.Reaction(f"r{k}", *sides, propensity_function=network.propensities()[k])
        )
    model.timespan(gillespy2.TimeSpan(np.linspace(0, end, 101)))
    solver = gillespy2.SSACSolver(model=model)
    count = max(1, int(2e7 / firings))

    def work():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        solver.run(number_of_trajectories=count, seed=1)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return count * firings, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return work


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
    "colloidal": (colloidal_aggregation, (8, 16, 32, 64, 128, 252), 4e5),
    "cyclic": (cyclic_chain, (10, 100, 1000, 10_000, 50_000), 4e6),
    "random": (random_network, (100, 1000, 10_000), 2e6),
}
PEERS_AT = {"colloidal": 64, "cyclic": 1000}


def method_on(device, network):
    """What a user who wants speed asks for: on a GPU the search in three levels, where weakly
    coupled networks would get composition-rejection, which is the quicker on a CPU.
    """
    weakly = network.name in ("cyclic", "random") and len(network.reactions) > 64
    return "warp-direct" if device == "cuda" and weakly else "auto"


def end_for(network, wanted):
    """Time at which one realization has had about so many firings."""
    end = 1e-3
    while True:
        trial = simulate(network, times=[0, end], replicates=1, seed=1, device="cpu:1")
        found = trial.attrs["firings"]
        if found >= wanted / 20:
            return end * wanted / found
        end *= min(10, max(2, wanted / 10 / max(found, 1)))


def large(rows, quick, device, with_peers, names):
    """Time per firing against the size of the network."""
    for name in names:
        build, sizes, wanted = FAMILIES[name]
        replicates = 4096 if device == "cuda" else 1
        wanted = wanted / (8 if quick else 1) / (20 if device == "cuda" else 1)
        for size in (PEERS_AT.get(name, sizes[1]), sizes[-1]) if quick else sizes:
            network = build(size)
            end = end_for(network, wanted)
            method = method_on(device, network)
            mine = rate_of(ours(network, end, replicates, device, times=2, method=method))
            case = f"{name} N={size}"
            rows.add(case, "time per firing", 1e9 / mine, "ns")
            if with_peers and PEERS_AT.get(name) == size:
                end = end_for(network, 1e5)
                one = simulate(network, times=[0, end], replicates=1, seed=1, device="cpu:1")
                for peer, work in peers_of(network, end, one.attrs["firings"], quick).items():
                    rows.add(
                        case, "time per firing", 1e9 / mine, "ns", peer=peer,
                        peer_value=1e9 / rate_of(work),
                    )  # fmt: skip


def many(rows, quick, device):
    """Time per firing against the number of realizations."""
    counts = (1, 16, 256) if device == "cpu" else (32, 128, 1024, 4096, 16_384, 65_536)
    for build, size, wanted in ((colloidal_aggregation, 64, 3e3), (cyclic_chain, 1000, 3e4)):
        network = build(size)
        end = end_for(network, wanted)
        for count in counts[:2] if quick else counts:
            method = method_on(device, network)
            mine = rate_of(ours(network, end, count, device, times=2, method=method))
            case = f"{network.name} N={size} R={count}"
            rows.add(case, "time per firing by realizations", 1e9 / mine, "ns")


def space(rows, quick, device):
    """A reaction-diffusion master equation of a million reactions."""
    import ergode

    side = 130 if quick else 408
    local = ergode.ReactionNetwork(
        {"A": 1},
        [
            ergode.Reaction("0 -> A", rate_constant=0.5),
            ergode.Reaction("A -> 0", rate_constant=0.5),
        ],
    )
    start = time.perf_counter()
    network = ergode.on_grid(local, (side, side), diffusion={"A": 1.0})
    case = f"grid of {len(network.reactions):,} reactions"
    rows.add(case, "time to make it", time.perf_counter() - start, "s")
    end = 0.1 * 4e6 / (0.5e6 * (side / 408) ** 2) / 4
    replicates = 512 if device == "cuda" else 1
    mine = rate_of(ours(network, end, replicates, device, times=2, output="final"))
    rows.add(case, "time per firing", 1e9 / mine, "ns")


def memory(rows):
    """What the largest network of the paper needs beside the states."""
    network = colloidal_aggregation(252)
    for method in ("partial-propensity", "warp-direct"):
        simulate(network, times=[0, 1e-4], replicates=1, method=method, device="cpu:1")
        tracemalloc.start()
        simulate(network, times=[0, 1e-4], replicates=1, method=method, device="cpu:1")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.add(f"colloidal N=252, {method}", "memory", peak / 1e6, "MB")


def figures(rows, folder):
    """The two plots of the paper."""
    from matplotlib.figure import Figure

    for metric, name, label in (
        ("time per firing", "by_size", "species"),
        ("time per firing by realizations", "by_realizations", "realizations"),
    ):
        series = {}
        for row in rows.rows:
            if row["metric"] == metric and row["peer"] is None and "=" in row["case"]:
                what, _, number = row["case"].rpartition("=")
                series.setdefault(what.rpartition(" ")[0], []).append((int(number), row["value"]))
        if not series:
            continue
        figure = Figure(figsize=(5, 3.6), layout="constrained")
        ax = figure.subplots()
        for what, points in series.items():
            ax.loglog(*zip(*sorted(points), strict=True), "o-", label=what)
        ax.set(xlabel=label, ylabel="time per firing [ns]")
        ax.legend(frameon=False)
        figure.savefig(folder / f"stochastic_{name}_{rows.device}.png", dpi=160)


def main():
    cases = ["small", *FAMILIES, "realizations", "space", "memory"]
    chosen = arguments("stochastic", cases, figures=True)
    rows = Rows("stochastic", chosen.device)
    with_peers = not chosen.no_peers and chosen.device == "cpu"
    if "small" in chosen.case:
        small(rows, chosen.quick, chosen.device, with_peers)
    names = [name for name in FAMILIES if name in chosen.case]
    large(rows, chosen.quick, chosen.device, with_peers, names)
    if "realizations" in chosen.case:
        many(rows, chosen.quick, chosen.device)
    if "space" in chosen.case:
        space(rows, chosen.quick, chosen.device)
    if "memory" in chosen.case and chosen.device == "cpu":
        memory(rows)
    rows.write(chosen.json)
    if chosen.figures:
        figures(rows, chosen.figures)


if __name__ == "__main__":
    main()
