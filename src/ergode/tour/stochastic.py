"""The stop at the engine ``stochastic``: a switch that chance throws."""

from __future__ import annotations

import time as clock
from typing import Any

import numpy as np

from ergode import plots, stochastic
from ergode.models.reaction_network import ReactionNetwork
from ergode.models.reactions import Reaction
from ergode.report import Comparison, Picture, Stop

_REPLICATES = 20_000
# c1 .. c4 of Schloegl's reactions: two stable states, with few molecules and with many.
_C = (0.06, 0.001, 20.0, 1.6)

_CODE = """\
import ergode

network = ergode.ReactionNetwork(
    {"X": 60},
    [
        ergode.Reaction("2 X -> 3 X", stochastic_rate_constant=0.06),
        ergode.Reaction("3 X -> 2 X", stochastic_rate_constant=0.001),
        ergode.Reaction("0 -> X", stochastic_rate_constant=20.0),
        ergode.Reaction("X -> 0", stochastic_rate_constant=1.6),
    ],
)
result = ergode.stochastic.simulate(
    network, times=range(0, 41, 2), replicates=20_000, seed=1, output="histogram"
)
ergode.plots.amounts(result, species="X")"""

_ABOUT = (
    "Four reactions of one species, by Schlögl. In equations of concentrations it rests in one of "
    "two states for ever, by where it began; molecules are few, and chance throws the switch.",
    "Every firing of every reaction is simulated, one after another, and nothing is approximated. "
    "How many molecules there are in the end is what the master equation says: the probability of "
    "each number in equilibrium follows from the one below by the ratio of two rates.",
)


def visit() -> Stop:
    """Simulate, compare with theory, draw."""
    started = clock.perf_counter()
    c1, c2, c3, c4 = _C
    network = ReactionNetwork(
        {"X": 60},
        [
            Reaction("2 X -> 3 X", stochastic_rate_constant=c1),
            Reaction("3 X -> 2 X", stochastic_rate_constant=c2),
            Reaction("0 -> X", stochastic_rate_constant=c3),
            Reaction("X -> 0", stochastic_rate_constant=c4),
        ],
    )
    common: dict[str, Any] = {
        "times": np.arange(0, 41, 2), "seed": 1, "device": "cpu", "output": "histogram",
    }  # fmt: skip
    stochastic.simulate(network, replicates=64, **common)
    ready = clock.perf_counter()
    result = stochastic.simulate(network, replicates=_REPLICATES, **common)
    finished = clock.perf_counter()

    n = np.arange(600.0)
    up = c1 * n * (n - 1) / 2 + c3
    down = c2 * n * (n - 1) * (n - 2) / 6 + c4 * n
    weights = np.concatenate([[0.0], np.cumsum(np.log(up[:-1] / down[1:]))])
    probability = np.exp(weights - weights.max())
    probability /= probability.sum()
    counts = result["histogram"].values[-1, 0]
    values = np.repeat(np.arange(counts.size), counts).astype(float)
    mean = float(probability @ n)
    deviation = float(np.sqrt(probability @ (n - mean) ** 2))

    def row(name: str, each: np.ndarray, expected: float) -> Comparison:
        error = 2 * each.std(ddof=1) / np.sqrt(each.size)
        return Comparison(name, float(each.mean()), float(error), expected, "")

    squares = (values - values.mean()) ** 2
    spread = float(values.std(ddof=1))
    rows = (
        row("mean", values, mean),
        Comparison(
            "standard deviation", spread,
            float(squares.std() / spread / np.sqrt(values.size)), deviation, "",
        ),
    )  # fmt: skip

    def draw(ax: Any) -> Any:
        plots.amounts(result, species="X", ax=ax)
        ax.plot(n[: counts.size] + 0.5, probability[: counts.size], color="C1", lw=1)
        return ax

    return Stop(
        engine="stochastic",
        title="A switch that chance throws",
        about=_ABOUT,
        code=_CODE,
        picture=Picture.of(draw, "Molecules at the end: simulated, and the line of theory."),
        heading="Molecules in equilibrium",
        comparisons=rows,
        remark=(
            f"Simulated: {_REPLICATES:,} realizations up to time 40, with twice the standard "
            "error. Theory: the master equation in equilibrium, by detailed balance."
        ),
        ready_seconds=ready - started,
        run_seconds=finished - ready,
        work=f"{int(result.attrs['firings']):,} firings in {_REPLICATES:,} realizations",
        dataset=result,
    )
