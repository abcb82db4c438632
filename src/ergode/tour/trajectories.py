"""The stop at the engine ``trajectories``: blood cells that are made with a delay."""

from __future__ import annotations

import time as clock
from typing import Any

import numpy as np

from ergode import plots, trajectories
from ergode.models.fields.equations import field_from_equations
from ergode.report import Comparison, Picture, Stop

_DELAYS = 1_000
_STEP = 0.25

_CODE = """\
import ergode, numpy as np

field = ergode.field_from_equations(
    {"cells": "production * cells(t - delay) / (1 + cells(t - delay) ** 10) - decay * cells"}
)
result = ergode.trajectories.integrate(
    field, times=np.arange(0, 511, 0.5), initial={"cells": 1.2}, step=0.25, method="tsit5",
    parameters=ergode.grid(production=0.2, decay=0.1, delay=np.linspace(4, 22, 1_000)),
)
ergode.plots.trajectories(result.isel(delay=[0, 350, 722]))"""

_ABOUT = (
    "White blood cells are made in answer to how many there were some days ago. Where the answer "
    "comes late, their number oscillates, and at last it is chaotic: the equation of Mackey and "
    "Glass, here for a thousand delays at once.",
    "Every trajectory takes steps of its own size, so that its delay is a whole number of them, "
    "and all read their past side by side: through values and slopes at three neighbouring steps, "
    "without crossing the points where the solution is not smooth.",
)


def visit() -> Stop:
    """Integrate, compare with known digits, draw."""
    started = clock.perf_counter()
    field = field_from_equations(
        {"cells": "production * cells(t - delay) / (1 + cells(t - delay) ** 10) - decay * cells"}
    )
    common: dict[str, Any] = {"initial": {"cells": 1.2}, "method": "tsit5", "device": "cpu"}
    known = trajectories.integrate(
        field, times=[0.0, 170.0, 510.0], step=17 / 64, **common,
        parameters={"production": 0.2, "decay": 0.1, "delay": 17.0},
    )["state"].values[1:, 0]  # fmt: skip
    ready = clock.perf_counter()
    result = trajectories.integrate(
        field, times=np.arange(0, 511, 0.5), step=_STEP, **common,
        parameters={"production": 0.2, "decay": 0.1, "delay": np.linspace(4, 22, _DELAYS)},
    )  # fmt: skip
    finished = clock.perf_counter()
    exact = (0.655640466774150646, 0.632959894424109832)
    shown = result.isel(trajectory=[0, 350, 722])
    return Stop(
        engine="trajectories",
        title="A thousand delays of Mackey and Glass",
        about=_ABOUT,
        code=_CODE,
        picture=Picture.of(
            lambda ax: plots.trajectories(shown, ax=ax),
            "Cells over 510 days: at rest after a delay of 4 days, a cycle, and chaos.",
        ),
        heading="Cells, for a delay of 17 days",
        comparisons=tuple(
            Comparison(f"day {day}", float(value), 0.0, digits)
            for day, value, digits in zip((170, 510), known, exact, strict=True)
        ),
        remark="Tsit5 with a quintic history and 64 steps a delay, against the known digits.",
        ready_seconds=ready - started,
        run_seconds=finished - ready,
        work=f"{_DELAYS:,} delay equations, {result.attrs['steps_taken']:,} steps",
        dataset=result.isel(time=slice(None, None, 10)),
        columns=("computed", "known"),
    )
