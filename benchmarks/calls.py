"""What a user waits for: the whole public call of every engine, cold, warm, tiny and large.

    first result, nothing on disk   processor time of a process's first small call, empty cache
    first result, kernels on disk   the same with the kernels that it left
    whole call, tiny                the clock's time of a small call once it has been made before
    whole call, full size           the same of a large one; beside it what the engine says of it

The rows of the engines' own benchmarks time what is within these calls.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Rows, arguments, medians

import ergode

ENGINES = ["epidemics", "stochastic", "kinetics", "trajectories", "density"]
SIZES = {"tiny": 0, "full size": 1}


def epidemics(size: int, device: str) -> Callable[[], Any]:
    """An exact SEIR epidemic, counted every day."""
    model = ergode.CompartmentModel.seir(
        transmission_rate=0.25, latent=ergode.LogNormal(mean=5, median=4),
        infectious=ergode.LogNormal(mean=7.5, median=5),
    )  # fmt: skip
    nodes = (1_000, 1_000_000)[size]
    contacts = ergode.ContactNetwork.erdos_renyi(nodes, mean_degree=8, seed=1)
    return lambda: ergode.epidemics.simulate(
        model, contacts, initial={"I": (10, 100)[size]}, times=range(101), seed=1, device=device
    )


def stochastic(size: int, device: str) -> Callable[[], Any]:
    """Schlögl's switch."""
    network = ergode.ReactionNetwork(
        {"X": 250},
        [
            ergode.Reaction("2 X -> 3 X", stochastic_rate_constant=0.03),
            ergode.Reaction("3 X -> 2 X", stochastic_rate_constant=1e-4),
            ergode.Reaction("0 -> X", rate_constant=200.0),
            ergode.Reaction("X -> 0", rate_constant=3.5),
        ],
    )
    return lambda: ergode.stochastic.simulate(
        network, times=range(11), replicates=(20, 10_000)[size], seed=1, output="statistics",
        device=device,
    )  # fmt: skip


def kinetics(size: int, device: str) -> Callable[[], Any]:
    """Robertson's reactions."""
    network = ergode.ReactionNetwork(
        {"A": 1, "B": 0, "C": 0},
        [
            ergode.Reaction("A -> B", rate_constant=0.04),
            ergode.Reaction("2 B -> B + C", rate_constant=3e7),
            ergode.Reaction("B + C -> A + C", rate_constant=1e4),
        ],
    )
    zones = np.linspace(0.5, 1, (1, 10_000)[size])
    return lambda: ergode.kinetics.integrate(
        network, times=[0, 1, 1e3, 1e6], initial={"A": zones}, device=device
    )


def trajectories(size: int, device: str) -> Callable[[], Any]:
    """Lorenz' equations for values of rho."""
    field = ergode.fields.lorenz63()
    rho = np.linspace(0, 50, (10, 100_000)[size])
    return lambda: ergode.trajectories.integrate(
        field, times=[0, 1, 2], initial={"x": 1.0, "y": 1.0, "z": 1.0}, device=device,
        parameters={"sigma": 10.0, "rho": rho, "beta": 8 / 3}, method="rk4", step=0.01,
    )  # fmt: skip


def density(size: int, device: str) -> Callable[[], Any]:
    """A spring with noise."""
    field = ergode.field_from_equations({"x": "v", "v": "-k * x"})
    width = (0.2, 0.02)[size]
    return lambda: ergode.density.propagate(
        field, ergode.Gaussian([2, 0], [0.25, 0.25]), times=[0, 0.5, 1], parameters={"k": 4},
        process_noise=[0, 0.5], width=width, device=device,
    )  # fmt: skip


def first(engine: str, device: str, cache: str) -> float:
    """Processor seconds of the first small call of a process, its imports included."""
    code = (
        f"import calls, time\ncalls.warnings.simplefilter('ignore')\n"
        f"calls.{engine}(0, {device!r})()\nprint(time.process_time())"
    )
    environment = os.environ | {"ERGODE_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True,
        cwd=os.path.dirname(os.path.abspath(__file__)),
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def measure(options: argparse.Namespace, rows: Rows) -> None:
    """All rows of the engines that were asked for."""
    warnings.simplefilter("ignore", ergode.ErgodeWarning)
    for engine in options.case:
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = first(engine, options.device, cache), first(engine, options.device, cache)
        rows.add(engine, "first result, nothing on disk", cold, "s")
        rows.add(engine, "first result, kernels on disk", warm, "s")
        for name, size in SIZES.items():
            if options.quick and size:
                continue
            call = globals()[engine](size, options.device)
            call()
            (whole,) = medians([call])
            rows.add(engine, f"whole call, {name}", whole * 1e3, "ms")
            within = call().attrs["wall_seconds"]
            rows.add(engine, f"of it by the engine's own account, {name}", within * 1e3, "ms")


def main() -> None:
    """Entry point."""
    options = arguments("calls", ENGINES)
    rows = Rows("calls", options.device)
    measure(options, rows)
    rows.write(options.json)


if __name__ == "__main__":
    main()
