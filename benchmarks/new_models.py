"""What a change of a model costs: processor time of the first small call of a model.

first of all    the first call of a process, with an empty cache: its kernels are compiled
new model       the median of five more models of the same kind, each run once
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from harness import Rows, arguments

import ergode

MODELS = 6
SPREAD = {"x": 1.0, "y": 1.0, "z": np.linspace(1, 2, 8)}
LORENZ = {"a": 10.0, "b": 28.0, "c": 2.6}
PRIOR = ergode.Gaussian([1.0, 1.0, 20.0], np.eye(3))
STAYS = [
    ergode.Gamma(mean=5, sd=3), ergode.LogNormal(mean=5, median=4), ergode.Weibull(mean=5, sd=3),
    ergode.Exponential(mean=5), ergode.Deterministic(5), ergode.Empirical([3, 5, 9], [0, 0.5, 1]),
]  # fmt: skip


def lorenz(number: int) -> ergode.VectorField:
    """Lorenz' equations with another term for each number."""
    return ergode.field_from_equations(
        {"x": f"a * (y - x) + {number / 100} * z", "y": "x * (b - z) - y", "z": "x * y - c * z"},
        parameters=["a", "b", "c"],
    )


def steps(number: int, device: str, method: Any, **options: Any) -> None:
    """A short run by a method of `trajectories`."""
    ergode.trajectories.integrate(
        lorenz(number), times=[0, 0.1], initial=SPREAD, parameters=LORENZ, method=method,
        device=device, **options,
    )  # fmt: skip


def event(number: int, device: str) -> None:
    """Adaptive steps with an event that changes the state."""
    level, factor = float(number), 0.9 - number / 100

    def height(t: Any, y: Any, p: Any) -> Any:
        return y[0] - level

    def damp(t: Any, y: Any, p: Any) -> Any:
        return y[0], y[1], y[2] * factor

    crossing = ergode.trajectories.ZeroCrossing(height, effect=damp)
    steps(number, device, "tsit5", events=[crossing])


def delay(number: int, device: str) -> None:
    """Adaptive steps with a constant delay."""
    weight = number / 1000

    def rate(t: Any, y: Any, yd: Any, p: Any) -> Any:
        return (p[0] * yd[0] / (1 + yd[0] ** 10) - p[1] * y[0] + weight,)

    field = ergode.VectorField(rate, ["x"], ["b", "g", "tau"], delays=[("x", "tau")])
    ergode.trajectories.integrate(
        field, times=[0, 1], initial={"x": np.linspace(0.5, 1, 8)}, method="tsit5", device=device,
        parameters={"b": 0.2, "g": 0.1, "tau": 2.0},
    )  # fmt: skip


def parameters(number: int, device: str) -> None:
    """Adaptive steps of an equation with one parameter more."""
    names = [f"k{j}" for j in range(1 + number)]
    field = ergode.field_from_equations({"x": "-x * (" + " + ".join(names) + ")"}, names)
    ergode.trajectories.integrate(
        field, times=[0, 1], initial={"x": np.linspace(1, 2, 8)}, method="tsit5", device=device,
        parameters=dict.fromkeys(names, 0.1),
    )  # fmt: skip


def array(number: int, device: str, size: int = 40, **options: Any) -> None:
    """Adaptive steps of a ring of unknowns."""
    weight = number / 100

    def rate(i: Any, t: Any, y: Any, p: Any) -> Any:
        return (y[(i + 1) % size] - y[i - 2]) * y[i - 1] - (1 + weight) * y[i] + p[0]

    field = ergode.VectorField(component=rate, variables=("y", size), parameters=["force"])
    start = 8 + np.sin(np.arange(size))
    ergode.trajectories.integrate(
        field, times=[0, 0.1], initial={"y": start}, parameters={"force": np.linspace(7, 9, 8)},
        method="tsit5", device=device, **options,
    )  # fmt: skip


def observed(number: int, device: str) -> None:
    """The same with an event and an observable."""
    level = 8 + number / 10

    def height(t: Any, y: Any, p: Any) -> Any:
        return y[0] - level

    found = ergode.trajectories.Maximum(height, name="height")
    array(number, device, events=[ergode.trajectories.ZeroCrossing(height)], observables=[found])


def density(number: int, device: str, **options: Any) -> None:
    """A density by the method of choice, or on a fixed grid."""
    ergode.density.propagate(
        lorenz(number), PRIOR, times=[0, 0.05], parameters=LORENZ, device=device, **options
    )


def particles(number: int, device: str) -> None:
    """A thousand particles."""
    ergode.particles.propagate(
        lorenz(number), PRIOR, times=[0, 0.05], parameters=LORENZ, count=1000, device=device
    )


def epidemic(number: int, device: str) -> None:
    """An exact SEIR epidemic with another holding time."""
    model = ergode.CompartmentModel.seir(
        transmission_rate=0.1, latent=STAYS[number], infectious=ergode.Exponential(mean=5)
    )
    contacts = ergode.ContactNetwork.erdos_renyi(200, mean_degree=6, seed=1)
    ergode.epidemics.simulate(
        model, contacts, initial={"I": 5}, times=range(20), replicates=4, device=device
    )


def network(number: int, device: str, reactions: int = 2) -> None:
    """A small network with another law, by the direct method."""
    back = [ergode.Reaction("B -> A", rate_constant=0.1 * k) for k in range(1, reactions)]
    law = ergode.Reaction("A -> B", rate=f"{1 + number} * A / (10 + A + B^2)")
    ergode.stochastic.simulate(
        ergode.ReactionNetwork({"A": 40, "B": 0}, [law, *back]), times=[0, 5], replicates=300,
        method="direct", device=device,
    )  # fmt: skip


CASES: dict[str, Callable[[int, str], None]] = {
    "tsit5": lambda number, device: steps(number, device, "tsit5"),
    "rk4": lambda number, device: steps(number, device, "rk4", step=0.01),
    "rodas5p": lambda number, device: steps(number, device, "rodas5p"),
    "event": event,
    "delay": delay,
    "another parameter": parameters,
    "array": array,
    "array, observed": observed,
    "density": density,
    "density, grid": lambda number, device: density(
        number, device, scheme="split", width=[0.25] * 3
    ),
    "particles": particles,
    "epidemic": epidemic,
    "network": network,
    "network of another size": lambda number, device: network(number, device, 3 + number),
}


def main() -> None:
    """Entry point."""
    options = arguments("new_models", [*CASES])
    rows = Rows("new_models", options.device, options.json)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ERGODE_CACHE_DIR"] = cache
        for name in options.case:
            seconds = []
            for number in range(MODELS):
                begin = process_time()
                CASES[name](number, options.device)
                seconds.append(process_time() - begin)
            rows.add(name, "first of all", seconds[0], "s")
            rows.add(name, "new model", statistics.median(seconds[1:]), "s")


if __name__ == "__main__":
    main()
