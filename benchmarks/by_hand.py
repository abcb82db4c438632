"""Ten fields and ten epidemics, changed by hand as in a notebook: what each first call takes.

    benchmarks/by_hand.py [--device cuda] [--cache FOLDER]

A fresh process makes all calls in turn, with an empty cache or with that of a folder.  Each call is
small, so what it takes is the wait for a changed model.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
from harness import Rows, arguments

import ergode

Field = tuple[dict[str, str], dict[str, float]]
LORENZ, ROESSLER = {"a": 10.0, "b": 28.0, "c": 8 / 3}, {"a": 0.2, "b": 0.2, "c": 5.7}
FIELDS: list[Field] = [
    ({"x": "a*(y - x)", "y": "x*(b - z) - y", "z": "x*y - c*z"}, LORENZ),
    ({"x": "a*(y - x) + 0.1*z", "y": "x*(b - z) - y", "z": "x*y - c*z"}, LORENZ),
    ({"x": "-y - z", "y": "x + a*y", "z": "b + z*(x - c)"}, ROESSLER),
    ({"x": "-y - z", "y": "x + a*y", "z": "b*x + z*(x - c)"}, ROESSLER),
    ({"x": "y", "y": "mu*(1 - x**2)*y - x"}, {"mu": 2.0}),
    ({"x": "y", "y": "mu*(1 - x**2)*y - x + 0.5*cos(w*t)"}, {"mu": 2.0, "w": 1.1}),
    ({"x": "a*x - b*x*y", "y": "d*x*y - c*y"}, {"a": 1.0, "b": 0.1, "c": 1.5, "d": 0.075}),
    (
        {"x": "a*x*(1 - x/50) - b*x*y/(1 + 0.1*x)", "y": "d*x*y/(1 + 0.1*x) - c*y"},
        {"a": 1.0, "b": 0.1, "c": 0.3, "d": 0.05},
    ),
    ({"v": "v - v**3/3 - w + I", "w": "e*(v + 0.7 - 0.8*w)"}, {"I": 0.5, "e": 0.08}),
    ({"v": "v - v**3/3 - w + I*sin(t)", "w": "e*(v + 0.7 - 0.9*w)"}, {"I": 0.5, "e": 0.08}),
]
SHORT, LONG = ergode.Gamma(mean=4, sd=2), ergode.Gamma(mean=6, sd=2)
seir = partial(ergode.CompartmentModel.seir, transmission_rate=0.1)
HOSPITAL = ergode.CompartmentModel(
    ["S", "E", "I", "H", "R", "D"],
    [ergode.Infection("S", "E", {"I": 0.1})],
    [
        ergode.Progression("E", "I", SHORT),
        ergode.Progression("I", {"H": 0.1, "R": 0.9}, LONG),
        ergode.Progression("H", {"R": 0.8, "D": 0.2}, ergode.Gamma(mean=8, sd=3)),
    ],
)
CLOSURE = ergode.LayerClosure(reduction=0.4, start=20, duration=30)
test = partial(ergode.Testing, {"I": 0.9}, rate=1 / 7, delay=1.0, isolation=10.0)
EPIDEMICS: dict[str, tuple[ergode.CompartmentModel, list[Any]]] = {
    "stays of gamma": (seir(latent=SHORT, infectious=LONG), []),
    "latent log-normal": (
        seir(latent=ergode.LogNormal(mean=4, median=3), infectious=LONG),
        [],
    ),
    "infectious Weibull": (seir(latent=SHORT, infectious=ergode.Weibull(mean=6, sd=2)), []),
    "latent of four days": (seir(latent=ergode.Deterministic(4), infectious=LONG), []),
    "hospital and deaths": (HOSPITAL, []),
    "a closure": (HOSPITAL, [CLOSURE]),
    "and a vaccination": (
        HOSPITAL,
        [CLOSURE, ergode.Vaccination(fraction=0.4, efficacy=0.8, start=10)],
    ),
    "isolation instead": (HOSPITAL, [ergode.Isolation("I", fraction=0.5, delay=1.0)]),
    "tests instead": (HOSPITAL, [test()]),
    "and tracing": (HOSPITAL, [test(tracing=0.4, quarantine=10.0)]),
}


def trajectories(equations: dict[str, str], parameters: dict[str, float], device: str) -> None:
    """A hundred trajectories."""
    first, *others = equations
    ergode.trajectories.integrate(
        ergode.field_from_equations(equations, [*parameters]), times=np.linspace(0, 20, 41),
        initial={first: np.linspace(0.5, 1.5, 100)} | dict.fromkeys(others, 1.0),
        parameters=parameters, method="tsit5", device=device,
    )  # fmt: skip


def epidemic(model: ergode.CompartmentModel, measures: list[Any], device: str) -> None:
    """Twenty replicates among 2,000 people."""
    ergode.epidemics.simulate(
        model, ergode.ContactNetwork.erdos_renyi(2000, mean_degree=8, seed=1), initial={"I": 10},
        times=range(61), replicates=20, interventions=measures, device=device, seed=1,
    )  # fmt: skip


def main() -> None:
    """Entry point."""
    options = arguments("new_models", ["fields", "epidemics"], cache="folder of compiled kernels")
    rows = Rows("new_models", options.device, options.json)
    calls = {f"by hand, field {k + 1}": partial(trajectories, *one) for k, one in enumerate(FIELDS)}
    if "fields" not in options.case:
        calls = {}
    if "epidemics" in options.case:
        calls |= {f"by hand, {name}": partial(epidemic, *one) for name, one in EPIDEMICS.items()}
    with tempfile.TemporaryDirectory() as empty:
        os.environ["ERGODE_CACHE_DIR"] = str(options.cache or empty)
        for name, call in calls.items():
            clock, processor = perf_counter(), process_time()
            call(options.device)
            rows.add(name, "processor", process_time() - processor, "s")
            rows.add(name, "clock", perf_counter() - clock, "s")


if __name__ == "__main__":
    main()
