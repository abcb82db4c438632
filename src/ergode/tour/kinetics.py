"""The section on the engine ``kinetics``: Robertson's three reactions, in a thousand zones."""

from __future__ import annotations

import time as clock
from typing import Any

import numpy as np

from ergode import kinetics, plots
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Reaction
from ergode.report import Comparison, Picture, Stop

_ZONES = 1_000
_TIMES = np.concatenate([[0.0], np.geomspace(1e-5, 1e5, 81), [1e6]])
_AT = 40.0
# E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II" (1996), section IV.10.
_EXPECTED = {"A": 0.715827069, "B": 9.18553476e-6, "C": 0.284163746}

_CODE = """\
import ergode, numpy as np

network = ergode.ReactionNetwork(
    {"A": 1, "B": 0, "C": 0},
    [
        ergode.Reaction("A -> B", rate_constant=0.04),
        ergode.Reaction("2 B -> B + C", rate_constant=3e7),
        ergode.Reaction("B + C -> A + C", rate_constant=1e4),
    ],
)
result = ergode.kinetics.integrate(
    network,
    times=np.concatenate([[0], np.geomspace(1e-5, 1e5, 81), [1e6]]),
    initial={"A": np.linspace(0.5, 1, 1_000)},
    rtol=1e-6,
)
ergode.plots.abundances(result, zone=999)"""

_ABOUT = (
    "Robertson's reactions of 1966: A decays slowly to B, and B is consumed by reactions that are "
    "nine orders of magnitude faster. The system is stiff: an explicit method needs steps as short "
    "as the fastest time scale, and cannot reach the end in reasonable time.",
    "Every zone starts with a different amount of A and has its own steps. An implicit Rosenbrock "
    "method of order 4 integrates each zone from zero to a million seconds; all zones share the "
    "symbolic factorisation of their matrices.",
)


def visit() -> Stop:
    """Integrate, compare with the published solution, draw."""
    started = clock.perf_counter()
    network = ReactionNetwork(
        {"A": 1, "B": 0, "C": 0},
        [
            Reaction("A -> B", rate_constant=0.04),
            Reaction("2 B -> B + C", rate_constant=3e7),
            Reaction("B + C -> A + C", rate_constant=1e4),
        ],
    )
    common: dict[str, Any] = {"rtol": 1e-6, "device": "cpu"}
    published = kinetics.integrate(network, times=[0.0, _AT], initial={"A": 1.0}, **common)
    ready = clock.perf_counter()
    result = kinetics.integrate(
        network, times=_TIMES, initial={"A": np.linspace(0.5, 1.0, _ZONES)}, **common
    )
    finished = clock.perf_counter()

    last = published["concentration"].isel(zone=0, time=-1)
    rows = [
        Comparison(f"{name} after {_AT:g} s", float(last.sel(species=name)), 0.0, expected)
        for name, expected in _EXPECTED.items()
    ]
    steps = int(result["step_count"].sum())
    return Stop(
        engine="kinetics",
        title="Nine orders of magnitude, a thousand times",
        about=_ABOUT,
        code=_CODE,
        picture=Picture.of(
            lambda ax: plots.abundances(result, zone=_ZONES - 1, ax=ax),
            "Concentrations in the zone that starts with one unit of A.",
        ),
        heading="Concentration",
        columns=("computed", "published"),
        comparisons=rows,
        remark=(
            "Published: E. Hairer, G. Wanner, Solving Ordinary Differential Equations II (1996), "
            f"section IV.10. Computed with rtol=1e-6; {steps / _ZONES:.0f} steps per zone up to a "
            "million seconds."
        ),
        ready_seconds=ready - started,
        run_seconds=finished - ready,
        work=f"{_ZONES:,} zones, {steps:,} steps",
        dataset=result,
    )
