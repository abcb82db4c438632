"""The section on the engine ``trajectories``: delay equations for blood cells."""

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
    "The production of white blood cells depends on their number some days ago. With longer delays "
    "this number oscillates, and finally becomes chaotic: the Mackey-Glass equation, here for a "
    "thousand delays at once.",
    "Every trajectory has its own step size, so that its delay is an integer number of steps. The "
    "past is interpolated from values and derivatives at three adjacent steps, without crossing "
    "breaking points, where the solution is not smooth.",
)


def visit() -> Stop:
    """Integrate, compare with reference digits, draw."""
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
        title="The Mackey-Glass equation with a thousand delays",
        about=_ABOUT,
        code=_CODE,
        picture=Picture.of(
            lambda ax: plots.trajectories(shown, ax=ax),
            "Cells over 510 days for three delays: a steady state, a limit cycle, and chaos.",
        ),
        heading="Cells, for a delay of 17 days",
        comparisons=tuple(
            Comparison(f"day {day}", float(value), 0.0, digits)
            for day, value, digits in zip((170, 510), known, exact, strict=True)
        ),
        remark="Tsit5 with quintic interpolation of the past and 64 steps per delay, compared with "
        "reference digits.",
        ready_seconds=ready - started,
        run_seconds=finished - ready,
        work=f"{_DELAYS:,} delay equations, {result.attrs['steps_taken']:,} steps",
        dataset=result.isel(time=slice(None, None, 10)),
        columns=("computed", "known"),
    )
