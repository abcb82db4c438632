"""One call on one device, on several, and by worker processes: how its time shrinks.

    whole call, 1       one GPU, or one worker process of one thread
    whole call, 2       two of them, and so on: all that there are

Every call is checked to have the bits of the first.  On GPUs runs are large enough for seconds: in
short ones counts what is not divided, joining the parts and what the host does for each.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from harness import Rows, arguments, timed

import ergode


def epidemics(large: bool) -> Callable[..., Any]:
    """SIR on a network of a million nodes; on a CPU of a hundred thousand."""
    nodes = 1_000_000 if large else 100_000
    contacts = ergode.ContactNetwork.erdos_renyi(nodes, mean_degree=8, seed=1)
    model = ergode.CompartmentModel.sir(
        transmission_rate=0.1, infectious=ergode.LogNormal(mean=7.5, median=5)
    )
    return partial(
        ergode.epidemics.simulate, model, contacts, initial={"I": 100}, times=range(121), seed=1,
        replicates=8_000 if large else 64,
    )  # fmt: skip


def stochastic(large: bool) -> Callable[..., Any]:
    """Birth, death and dimers, by their means."""
    network = ergode.ReactionNetwork(
        {"A": 100, "B": 0},
        [
            ergode.Reaction("0 -> A", rate_constant=100.0),
            ergode.Reaction("A -> 0", rate_constant=0.1),
            ergode.Reaction("2 A -> B", rate_constant=1e-3),
            ergode.Reaction("B -> 2 A", rate_constant=0.1),
        ],
    )
    return partial(
        ergode.stochastic.simulate, network, times=range(101), seed=1, output="statistics",
        replicates=6_000_000 if large else 2_000,
    )  # fmt: skip


def trajectories(large: bool) -> Callable[..., Any]:
    """The Lorenz system, its states at the end."""
    field = ergode.field_from_equations(
        {"x": "10 * (y - x)", "y": "x * (r - z) - y", "z": "x * y - 8 / 3 * z"}
    )
    size = 10_000_000 if large else 100_000
    return partial(
        ergode.trajectories.integrate, field, method="tsit5", rtol=1e-6,
        times=[0.0, 100.0 if large else 20.0], initial={"x": 1.0, "y": 1.0, "z": 20.0},
        parameters={"r": np.linspace(20, 30, size)},
    )  # fmt: skip


def kinetics(large: bool) -> Callable[..., Any]:
    """Zones of a Type Ia supernova that heat themselves; of 13 nuclei on a CPU."""
    nuclei = [
        "he4", "c12", "o16", "ne20", "mg24", "si28", "s32", "ar36", "ca40", "ti44", "cr48", "fe52",
        "ni56",
    ]  # fmt: skip
    network = ergode.balanced(ergode.read_reaclib(nuclei))
    size = 300_000 if large else 500
    return partial(
        ergode.kinetics.integrate, network, times=[0.0, 1.0], density=1e7,
        temperature=np.linspace(2e9, 4e9, size), initial={"c12": 0.5, "o16": 0.5},
        heating="constant-volume",
    )  # fmt: skip


def density(large: bool) -> Callable[..., Any]:
    """A bank of filters of the Lorenz system, by its moments."""
    field = ergode.field_from_equations(
        {"x": "4 * (y - x)", "y": "x * (48 - z) - y", "z": "x * y - z"}
    )
    size = 4_096 if large else 32
    means = np.random.default_rng(1).normal([-11.5, -10.0, 9.5], 0.5, (size, 3))
    return partial(
        ergode.density.propagate, field, ergode.Gaussian(means, [1.0, 1.0, 1.0]),
        times=[0.0, 1.0], width=0.5, threshold=5e-6, keep="none",
    )  # fmt: skip


CASES = {one.__name__: one for one in (epidemics, stochastic, trajectories, kinetics, density)}


def gpu_count() -> int:
    """How many GPUs there are."""
    for number in count():
        try:
            ergode.Device(f"cuda:{number}")
        except ergode.PlanError:
            return number
    raise AssertionError


def same(one: Any, other: Any) -> bool:
    """Whether two results have the same bits."""
    return all(
        np.array_equal(one[name].values, other[name].values, equal_nan=one[name].dtype.kind == "f")
        for name in one.data_vars
    )


def main() -> None:
    """Entry point."""
    options = arguments("scaling", list(CASES))
    rows = Rows("scaling", options.device, options.json)
    on_cuda = options.device == "cuda"
    most = gpu_count() if on_cuda else os.cpu_count() or 1
    counts = [2**k for k in range(most.bit_length())]
    for name in options.case:
        call = CASES[name](on_cuda and not options.quick)
        first = None
        for many in counts:
            if on_cuda:
                (found,) = timed([partial(call, device=[f"cuda:{k}" for k in range(many)])], 3)
            else:
                with ProcessPoolExecutor(many) as pool:
                    (found,) = timed([partial(call, device="cpu:1", executor=pool)], 3)
            first = found if first is None else first
            assert same(found.result, first.result), f"{name}: other bits on {many}"
            rows.add(name, f"whole call, {many}", found.clock, "s")
            rows.add(name, f"times one, {many}", first.clock / found.clock, "1",
                     smaller_is_better=False)  # fmt: skip


if __name__ == "__main__":
    main()
