"""Firings per second, against the exact simulators that people use and against the network's size.

Peers are given networks as SBML (libRoadRunner, COPASI) or in their own form (GillesPy2's C++
solver, whose time includes starting its executable, so it is given work for long), on one core as
ergode is.  Runs are so long that what comes before the first firing is a small part of them.

The families are those of Komarov and D'Souza, PLoS ONE 7 e46693 (2012): time per firing against
the number of reactions, and against the number of realizations; ``--figures FOLDER`` draws both.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
from harness import Rows, Seconds, arguments, installed, processor_seconds
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


def call(place, network, end, replicates=1, times=2, **options):
    """The public call for a number of realizations and a number of output times."""
    given = {"seed": 1, "output": "statistics"} | options
    return partial(
        simulate, network, times=np.linspace(0, end, times), replicates=replicates, device=place,
        **given,
    )  # fmt: skip


def firings_until(end, network, replicates=1):
    """Firings of a realization, in the mean."""
    return call("cpu:1", network, end, replicates)().attrs["firings"] / replicates


# ---- peers: a work takes, or says that it takes, the seconds of one realization


def peers_of(options, network, end, firings):
    """Peers by name; `firings` is the number of firings in one realization of `network`."""
    if options.no_peers or options.device == "cuda":
        return {}
    path = Path(tempfile.mkdtemp()) / "model.xml"
    ergode.write_sbml(network, path)
    makers = {
        "libRoadRunner": partial(road_runner_of, path, end, 101),
        "COPASI": partial(copasi_of, path, network, end),
    }
    if len(network.reactions) <= 100:  # C++ is made of every reaction, and compiled
        makers["GillesPy2"] = partial(gillespy2_of, network, end, firings)
    return installed(options, makers)


def road_runner_of(path, end, times):
    import roadrunner

    model = roadrunner.RoadRunner(str(path))
    model.setIntegrator("gillespie")
    model.integrator.variable_step_size = False

    def work():
        model.reset()
        model.simulate(0, end, times)

    return work


COPASI = """
import sys, time
import basico
path, end, repeats = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
model = basico.load_model(path)
basico.set_model_unit(quantity_unit="#", model=model)
basico.set_task_settings("Time-Course", {"method": {"Max Internal Steps": 10**9}})
def seconds(method):
    start = time.process_time()
    basico.run_time_course(
        duration=end, intervals=100, method=method, model=model, use_seed=True,
        update_model=False, seed=1,
    )
    return time.process_time() - start
# Gibson and Bruck's method is the quicker one where reactions are weakly coupled.
best = min(("directMethod", "stochastic"), key=seconds)
for _ in range(repeats):
    print(seconds(best))
print(best, file=sys.stderr)
"""
PATIENCE = 120


def copasi_of(path, network, end):
    """Work of COPASI, in a process of its own, which is given up if it does not come to an end."""
    import basico  # noqa: F401

    command = [sys.executable, "-c", COPASI, str(path), str(end), str(REPEATS + 1)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    except subprocess.TimeoutExpired:
        print(f"COPASI: {len(network.reactions):,} reactions not simulated in {PATIENCE} s")
        return None
    print(f"COPASI takes its method {done.stderr.split()[-1]}")
    seconds = iter([Seconds(line) for line in done.stdout.split()])
    return lambda: next(seconds)


def gillespy2_solver(network, times):
    """GillesPy2's C++ solver of a network."""
    import gillespy2

    if not (shutil.which("scons") and shutil.which("g++")):
        raise ImportError("its C++ solver needs scons and g++")
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
    model.timespan(gillespy2.TimeSpan(times))
    return gillespy2.SSACSolver(model=model)


def gillespy2_of(network, end, firings):
    """Work of that solver: as many realizations as make starting it negligible."""
    solver = gillespy2_solver(network, np.linspace(0, end, 101))
    count = max(1, int(2e7 / firings))

    def work():
        before = processor_seconds()
        solver.run(number_of_trajectories=count, seed=1)
        return Seconds((processor_seconds() - before) / count)

    return work


# ---- cases


def small(options, rows):
    """Small networks: one call each, means and variances on a grid of a hundred points."""
    on_cuda = options.device == "cuda"
    for network, end, counts in (
        (birth_death(), 50.0, (2000, 2_000_000)),
        (vilar(), 50.0, (800, 400_000)),
    ):
        replicates = counts[on_cuda] // (8 if options.quick and on_cuda else 1)
        firings = firings_until(end, network, 200)
        found = rows.measure(
            network.name, call(options.place, network, end, replicates, 101),
            peers_of(options, network, end, firings), repeats=REPEATS,
        )  # fmt: skip
        rows.rate(network.name, "firings per second", found, found.result.attrs["firings"], firings)


FAMILIES = {
    "colloidal": (colloidal_aggregation, (8, 16, 32, 64, 128, 252), 4e5),
    "cyclic": (cyclic_chain, (10, 100, 1000, 10_000, 50_000), 4e6),
    "random": (random_network, (100, 1000, 10_000), 2e6),
}
PEERS_AT = {"colloidal": 64, "cyclic": 1000}


def method_on(place, network):
    """What a user who wants speed asks for: on a GPU the search in three levels, where weakly
    coupled networks would get composition-rejection, which is the quicker on a CPU.
    """
    weakly = network.name in ("cyclic", "random") and len(network.reactions) > 64
    return "warp-direct" if place == "cuda" and weakly else "auto"


def end_for(network, wanted):
    """Time at which one realization has had about so many firings."""
    end = 1e-3
    while True:
        found = firings_until(end, network)
        if found >= wanted / 20:
            return end * wanted / found
        end *= min(10, max(2, wanted / 10 / max(found, 1)))


def per_firing(rows, case, metric, ours, works=None, firings=0.0):
    """Nanoseconds of a firing; peers' works have `firings` of them."""
    found = rows.measure(case, ours, works, repeats=REPEATS)
    rows.add(
        case, metric, 1e9 * found.seconds / found.result.attrs["firings"], "ns",
        peers={name: 1e9 * seconds / firings for name, seconds in found.peers.items()},
    )  # fmt: skip


def large(options, rows):
    """Time per firing against the size of the network."""
    on_cuda = options.device == "cuda"
    for name, (build, sizes, wanted) in FAMILIES.items():
        if name not in options.case:
            continue
        wanted = wanted / (8 if options.quick else 1) / (20 if on_cuda else 1)
        for size in (PEERS_AT.get(name, sizes[1]), sizes[-1]) if options.quick else sizes:
            network = build(size)
            works, firings = {}, 0.0
            if PEERS_AT.get(name) == size and not options.no_peers:
                end = end_for(network, 1e5)
                firings = firings_until(end, network)
                works = peers_of(options, network, end, firings)
            method = method_on(options.place, network)
            ours = call(
                options.place, network, end_for(network, wanted), 4096 if on_cuda else 1,
                method=method,
            )  # fmt: skip
            per_firing(rows, f"{name} N={size}", "time per firing", ours, works, firings)


def many(options, rows):
    """Time per firing against the number of realizations."""
    on_cuda = options.device == "cuda"
    counts = (32, 128, 1024, 4096, 16_384, 65_536) if on_cuda else (1, 16, 256)
    for build, size, wanted in ((colloidal_aggregation, 64, 3e3), (cyclic_chain, 1000, 3e4)):
        network = build(size)
        end, method = end_for(network, wanted), method_on(options.place, network)
        for count in counts[:2] if options.quick else counts:
            case = f"{network.name} N={size} R={count}"
            ours = call(options.place, network, end, count, method=method)
            per_firing(rows, case, "time per firing by realizations", ours)


def space(options, rows):
    """A reaction-diffusion master equation of a million reactions."""
    side = 130 if options.quick else 408
    local = ergode.ReactionNetwork(
        {"A": 1},
        [
            ergode.Reaction("0 -> A", rate_constant=0.5),
            ergode.Reaction("A -> 0", rate_constant=0.5),
        ],
    )
    start = time.perf_counter()
    network = ergode.ReactionDiffusion(local, (side, side), diffusion={"A": 1.0}).flat()
    case = f"grid of {len(network.reactions):,} reactions"
    rows.add(case, "time to make it", time.perf_counter() - start, "s")
    end = 0.1 * 4e6 / (0.5e6 * (side / 408) ** 2) / 4
    replicates = 512 if options.device == "cuda" else 1
    ours = call(options.place, network, end, replicates, output="final")
    per_firing(rows, case, "time per firing", ours)
    side = 300 if options.quick else 1000
    end = 2e6 / (5 * side**2)
    condition = ergode.Event("A >= 6", {"A": "A - 3"})
    for what, events in (("", ()), (" with a condition each", (condition,))):
        inside = ergode.ReactionNetwork({"A": 1}, local.reactions, events=events)
        model = ergode.ReactionDiffusion(inside, (side, side), diffusion={"A": 1.0})
        for _ in range(2):  # the first call may compile
            found = ergode.stochastic.simulate_space(
                model, times=[0, end], device="cpu:1", output="final"
            )
        nanoseconds = 1e9 * found.attrs["run_seconds"] / found.attrs["firings"]
        rows.add(f"{side**2:,} voxels{what} by subvolumes", "time per firing", nanoseconds, "ns")


def memory(options, rows):
    """What the largest network of the paper needs beside the states."""
    network = colloidal_aggregation(252)
    for method in ("partial-propensity", "warp-direct"):
        ours = call("cpu:1", network, 1e-4, method=method)
        ours()
        tracemalloc.start()
        ours()
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
    works = {"small": small, "realizations": many, "space": space, "memory": memory}
    options = arguments(
        "stochastic", [*works, *FAMILIES], figures="draw figures into this folder"
    )  # fmt: skip
    rows = Rows("stochastic", options.device, options.json)
    large(options, rows)
    for name, work in works.items():
        if name in options.case and not (name == "memory" and options.device == "cuda"):
            work(options, rows)
    if options.figures:
        figures(rows, options.figures)


if __name__ == "__main__":
    main()
