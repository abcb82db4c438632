"""The section on the engine ``stochastic``: a bistable system that noise switches."""

from __future__ import annotations

import time as clock
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal

from ergode import plots, stochastic
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Reaction
from ergode.report import Comparison, Picture, Stop

_REPLICATES = 10_000
# c1 .. c4 of Schloegl's reactions: two stable states, with few molecules and with many.
_C = (0.03, 1e-4, 200.0, 3.5)
_BEGIN, _END, _MOST = 250, 5, 1000
_BETWEEN = 300

_CODE = """\
import ergode

network = ergode.ReactionNetwork(
    {"X": 250},
    [
        ergode.Reaction("2 X -> 3 X", stochastic_rate_constant=0.03),
        ergode.Reaction("3 X -> 2 X", stochastic_rate_constant=1e-4),
        ergode.Reaction("0 -> X", stochastic_rate_constant=200.0),
        ergode.Reaction("X -> 0", stochastic_rate_constant=3.5),
    ],
)
result = ergode.stochastic.simulate(
    network, times=range(6), replicates=10_000, seed=1, output="histogram"
)
ergode.plots.amounts(result, species="X")"""

_ABOUT = (
    "Schlögl's model: four reactions of one species. The rate equations have two stable states, "
    "and the initial state decides which one is reached. With few molecules, noise switches "
    "between the two states.",
    "Every firing of every reaction is simulated, without approximation. The distribution of the "
    "number of molecules obeys the master equation. For one species it can be solved: it is a "
    "differential equation for the probability of each number.",
)


def _solution() -> np.ndarray:
    """Probability of each number at the end, by the eigenvectors of the master equation.

    Only neighbouring numbers exchange probability, so the square roots of the stationary
    distribution make the matrix symmetric.
    """
    c1, c2, c3, c4 = _C
    n = np.arange(_MOST + 1.0)
    up = c1 * n * (n - 1) / 2 + c3
    down = c2 * n * (n - 1) * (n - 2) / 6 + c4 * n
    up[-1] = 0.0
    rates, vectors = eigh_tridiagonal(-(up + down), np.sqrt(up[:-1] * down[1:]))
    logarithm = np.concatenate([[0.0], np.cumsum(np.log(up[:-1] / down[1:]))])
    root = np.exp(0.5 * (logarithm - logarithm[_BEGIN]))
    return root * (vectors @ (np.exp(rates * _END) * vectors[_BEGIN]))


def visit() -> Stop:
    """Simulate, compare with theory, draw."""
    started = clock.perf_counter()
    c1, c2, c3, c4 = _C
    network = ReactionNetwork(
        {"X": _BEGIN},
        [
            Reaction("2 X -> 3 X", stochastic_rate_constant=c1),
            Reaction("3 X -> 2 X", stochastic_rate_constant=c2),
            Reaction("0 -> X", stochastic_rate_constant=c3),
            Reaction("X -> 0", stochastic_rate_constant=c4),
        ],
    )
    common: dict[str, Any] = {
        "times": np.arange(_END + 1), "seed": 1, "device": "cpu", "output": "histogram",
    }  # fmt: skip
    stochastic.simulate(network, replicates=64, **common)
    ready = clock.perf_counter()
    result = stochastic.simulate(network, replicates=_REPLICATES, **common)
    finished = clock.perf_counter()

    probability = _solution()
    n = np.arange(probability.size)
    counts = result["histogram"].values[-1, 0]
    values = np.repeat(np.arange(counts.size), counts).astype(float)
    above, beyond = (values > _BETWEEN) * 1.0, probability[n > _BETWEEN].sum()
    rows = (
        Comparison.of_mean("mean", values, float(probability @ n)),
        Comparison.of_mean(f"more than {_BETWEEN}", above, beyond),
    )

    def draw(ax: Any) -> Any:
        plots.amounts(result, species="X", ax=ax)
        ax.plot(n[: counts.size] + 0.5, probability[: counts.size], color="C1", lw=1)
        return ax

    return Stop(
        engine="stochastic",
        title="A bistable system, switched by noise",
        about=_ABOUT,
        code=_CODE,
        picture=Picture.of(
            draw, "Number of molecules at the end: simulation (bars) and theory (line)."
        ),
        heading="Molecules at the end",
        comparisons=rows,
        remark=(
            f"Simulated: {_REPLICATES:,} realizations up to time {_END}, with twice the standard "
            f"error. Theory: exponential of the master equation, truncated at {_MOST} molecules."
        ),
        ready_seconds=ready - started,
        run_seconds=finished - ready,
        work=f"{int(result.attrs['firings']):,} firings in {_REPLICATES:,} realizations",
        dataset=result,
    )
