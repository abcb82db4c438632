"""What a user waits for: the whole public call of every engine, cold, warm, tiny and large.

    first result, nothing on disk   processor time of a process's first small call, empty cache
    first result, kernels on disk   the same with the kernels that it left
    first result, new model         the same of a model that differs from two that were run before
    whole call, tiny                the clock's time of a small call once it has been made before
    whole call, full size           the same of a large one; beside each the kernels within it

Peers that are installed do the small case: their first result in a process of its own, whatever
they keep on disk, and their whole call, in turn with ours.  One of them differs: EoN has no SEIR
model with stages that are not memoryless, so it does SIR.

The engines' own benchmarks have more cases, warm.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Rows, arguments, installed, timed

import ergode

ENGINES = ["epidemics", "stochastic", "kinetics", "trajectories", "density", "particles"]
SIZES = {"tiny": 0, "full size": 1}


def epidemics(size: int, device: str, new: int = 0) -> Callable[[], Any]:
    """An exact SEIR epidemic, counted every day; of `new` models the latent time is another."""
    latent = (
        ergode.LogNormal(mean=5, median=4), ergode.Weibull(mean=5, sd=2),
        ergode.Gamma(mean=5, sd=3),
    )[new]  # fmt: skip
    model = ergode.CompartmentModel.seir(
        transmission_rate=0.25, latent=latent,
        infectious=ergode.LogNormal(mean=7.5, median=5),
    )  # fmt: skip
    nodes = (1_000, 1_000_000)[size]
    contacts = ergode.ContactNetwork.erdos_renyi(nodes, mean_degree=8, seed=1)
    return lambda: ergode.epidemics.simulate(
        model, contacts, initial={"I": (10, 100)[size]}, times=range(101), seed=1, device=device
    )


_SCHLOEGL = [
    ergode.Reaction("2 X -> 3 X", stochastic_rate_constant=0.03),
    ergode.Reaction("3 X -> 2 X", stochastic_rate_constant=1e-4),
    ergode.Reaction("0 -> X", rate_constant=200.0),
    ergode.Reaction("X -> 0", rate_constant=3.5),
]
SCHLOEGL = ergode.ReactionNetwork({"X": 250}, _SCHLOEGL)


def stochastic(size: int, device: str, new: int = 0) -> Callable[[], Any]:
    """Schlögl's switch; of `new` models one reaction less."""
    network = ergode.ReactionNetwork({"X": 250}, _SCHLOEGL[new:]) if new else SCHLOEGL
    return lambda: ergode.stochastic.simulate(
        network, times=range(11), replicates=(20, 10_000)[size], seed=1, output="statistics",
        device=device,
    )  # fmt: skip


def kinetics(size: int, device: str, new: int = 0) -> Callable[[], Any]:
    """Robertson's reactions; of `new` models the last one is another."""
    last = ("B + C -> A + C", "B + C -> 2 A", "A + B -> A + C")[new]
    network = ergode.ReactionNetwork(
        {"A": 1, "B": 0, "C": 0},
        [
            ergode.Reaction("A -> B", rate_constant=0.04),
            ergode.Reaction("2 B -> B + C", rate_constant=3e7),
            ergode.Reaction(last, rate_constant=1e4),
        ],
    )
    zones = np.linspace(0.5, 1, (1, 10_000)[size])
    return lambda: ergode.kinetics.integrate(
        network, times=[0, 1, 1e3, 1e6], initial={"A": zones}, device=device
    )


def trajectories(size: int, device: str, new: int = 0) -> Callable[[], Any]:
    """Lorenz' equations for values of rho; `new` ones have one more term."""
    field = ergode.field_from_equations(
        {
            "x": f"sigma * (y - x) - {new / 10} * x", "y": "x * (rho - z) - y",
            "z": "x * y - beta * z",
        }
    ) if new else ergode.fields.lorenz63()  # fmt: skip
    rho = np.linspace(0, 50, (10, 100_000)[size])
    return lambda: ergode.trajectories.integrate(
        field, times=[0, 1, 2], initial={"x": 1.0, "y": 1.0, "z": 1.0}, device=device,
        parameters={"sigma": 10.0, "rho": rho, "beta": 8 / 3}, method="rk4", step=0.01,
    )  # fmt: skip


SPRINGS = [
    ergode.field_from_equations({"x": "v", "v": force})
    for force in ("-k * x", "-k * x - 0.1 * x**3", "-k * sin(x)")
]
SHAKEN = {"times": [0, 0.5, 1], "parameters": {"k": 4}, "process_noise": [0, 0.5]}


def density(size: int, device: str, new: int = 0) -> Callable[[], Any]:
    """A spring with noise; `new` ones are not linear."""
    prior, width = ergode.Gaussian([2, 0], [0.25, 0.25]), (0.2, 0.02)[size]
    return lambda: ergode.density.propagate(
        SPRINGS[new], prior, width=width, device=device, **SHAKEN
    )


def particles(size: int, device: str, new: int = 0) -> Callable[[], Any]:
    """The same springs as an ensemble."""
    prior, count = ergode.Gaussian([2, 0], [0.25, 0.25]), (1_000, 1_000_000)[size]
    return lambda: ergode.particles.propagate(
        SPRINGS[new], prior, count=count, step=0.01, device=device, **SHAKEN
    )


# ---- peers: each makes the small case, and returns its call


def eon_sir() -> Callable[[], Any]:
    from epidemic_peers import eon_fast_nonmarkov_sir

    contacts = ergode.ContactNetwork.erdos_renyi(1_000, mean_degree=8, seed=1)
    return eon_fast_nonmarkov_sir(contacts, seeds=10)


def gillespy2() -> Callable[[], Any]:
    from stochastic import gillespy2_solver

    solver = gillespy2_solver(SCHLOEGL, np.arange(11.0))
    return lambda: solver.run(number_of_trajectories=20, seed=1)


def road_runner() -> Callable[[], Any]:
    from stochastic import road_runner_of

    with tempfile.TemporaryDirectory() as folder:
        ergode.write_sbml(SCHLOEGL, folder + "/model.xml")
        one = road_runner_of(folder + "/model.xml", 10, 11)
    return lambda: [one() for _ in range(20)]


def scipy_bdf() -> Callable[[], Any]:
    from scipy.integrate import solve_ivp

    def robertson(t: float, y: np.ndarray) -> list[float]:
        first, second, third = 0.04 * y[0], 3e7 * y[1] ** 2, 1e4 * y[1] * y[2]
        return [third - first, first - second - third, second]

    return lambda: solve_ivp(
        robertson, (0, 1e6), [0.5, 0, 0], method="BDF", rtol=1e-4, atol=1e-10, t_eval=[1, 1e3, 1e6]
    )


def scipy_dop853() -> Callable[[], Any]:
    from scipy.integrate import solve_ivp

    def lorenz(t: float, y: np.ndarray, rho: float) -> tuple[float, float, float]:
        return 10 * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]

    return lambda: [
        solve_ivp(lorenz, (0, 2), [1, 1, 1], args=(rho,), method="DOP853", rtol=1e-6, atol=1e-6)
        for rho in np.linspace(0, 50, 10)
    ]


def heyoka() -> Callable[[], Any]:
    from trajectories import heyoka_lorenz

    return heyoka_lorenz(np.linspace(0, 50, 10), 2.0, 1e-6)


PEERS = {
    "epidemics": {"EoN, SIR": eon_sir},
    "stochastic": {"GillesPy2": gillespy2, "libRoadRunner": road_runner},
    "kinetics": {"scipy BDF": scipy_bdf},
    "trajectories": {"scipy DOP853": scipy_dop853, "heyoka": heyoka},
}


def first(call: str, cache: str) -> float:
    """Processor seconds of a process that makes a small call and nothing else, imports included."""
    code = (
        "import calls, harness, warnings; warnings.simplefilter('ignore')\n"
        f"calls.{call}()\nprint(harness.processor_seconds())"
    )
    environment = os.environ | {"ERGODE_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True,
        cwd=os.path.dirname(os.path.abspath(__file__)),
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def measure(options: argparse.Namespace, rows: Rows) -> None:
    """All rows of the engines that were asked for."""
    for engine in options.case:
        peers = installed(options, PEERS.get(engine, {}))
        with tempfile.TemporaryDirectory() as cache:
            ours = f"{engine}(0, {options.device!r})"
            cold, warm = first(ours, cache), first(ours, cache)
            _, new = (first(f"{engine}(0, {options.device!r}, {one})", cache) for one in (1, 2))
            theirs = {name: first(f"PEERS[{engine!r}][{name!r}]()", cache) for name in peers}
        rows.add(engine, "first result, nothing on disk", cold, "s", peers=theirs)
        rows.add(engine, "first result, kernels on disk", warm, "s", peers=theirs)
        rows.add(engine, "first result, new model", new, "s", peers=theirs)
        for name, size in SIZES.items():
            if options.quick and size:
                continue
            call, others = globals()[engine](size, options.device), {} if size else peers
            found, *those = timed([call, *others.values()])
            rows.add(
                engine, f"whole call, {name}", found.clock * 1e3, "ms",
                peers={peer: one.clock * 1e3 for peer, one in zip(others, those, strict=True)},
            )  # fmt: skip
            rows.add(engine, f"kernels within, {name}", found.kernels * 1e3, "ms")


def main() -> None:
    """Entry point."""
    options = arguments("calls", ENGINES)
    rows = Rows("calls", options.device, options.json)
    measure(options, rows)


if __name__ == "__main__":
    main()
