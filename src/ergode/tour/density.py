"""The stop at the engine ``density``: a swinging mass, pushed by chance and seen now and then."""

from __future__ import annotations

import time as clock
from typing import Any

import numpy as np
from scipy.linalg import expm

from ergode import density, plots
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Gaussian
from ergode.models.fields.vector_field import VectorField
from ergode.report import Comparison, Picture, Stop

_STIFFNESS, _FRICTION, _NOISE = 4.0, 0.3, 0.5
_MEAN, _COVARIANCE = np.array([2.0, 0.0]), np.diag([0.25, 0.25])
_SEEN = ((1.5, -1.4), (3.0, 1.2), (4.5, -0.6))
_VARIANCE = 0.04
_TIMES = np.linspace(0.0, 6.0, 121)

_CODE = """\
import ergode, numpy as np

def spring(t, y, p):
    return y[1], -p[0] * y[0] - p[1] * y[1]

def position(y, t, p):
    return (y[0],)

result = ergode.density.propagate(
    ergode.VectorField(spring, variables=["x", "v"], parameters=["stiffness", "friction"]),
    ergode.Gaussian([2, 0], [0.25, 0.25]),
    times=np.linspace(0, 6, 121),
    measurements=[
        ergode.Measurement(t, position, x, 0.04) for t, x in [(1.5, -1.4), (3, 1.2), (4.5, -0.6)]
    ],
    parameters={"stiffness": 4, "friction": 0.3},
    process_noise=[0, 0.5],
    width=[0.06, 0.12],
)
ergode.plots.density_strip(result, "x")"""

_ABOUT = (
    "A mass on a spring, with friction, and with pushes at random all the time. Where it is, is "
    "known three times only, and then not exactly. What can be known in between is a probability "
    "density of position and velocity; a measurement corrects it.",
    "The density is moved cell by cell, on a grid that has cells only where there is probability. "
    "It may have any shape. For this field, which is linear, it stays a bell, and the Kalman "
    "filter tells exactly which one: so theory can be held against it.",
)


def _spring(t: Any, y: Any, p: Any) -> Any:
    return y[1], -p[0] * y[0] - p[1] * y[1]


def _position(y: Any, t: Any, p: Any) -> Any:
    return (y[0],)


def visit() -> Stop:
    """Propagate, compare with the Kalman filter, draw."""
    started = clock.perf_counter()
    field = VectorField(_spring, variables=["x", "v"], parameters=["stiffness", "friction"])
    common: dict[str, Any] = {
        "parameters": {"stiffness": _STIFFNESS, "friction": _FRICTION},
        "measurements": [Measurement(t, _position, x, _VARIANCE) for t, x in _SEEN],
        "process_noise": [0.0, _NOISE],
        "width": [0.06, 0.12],
        "device": "cpu",
    }
    prior = Gaussian(_MEAN, _COVARIANCE)
    density.propagate(field, prior, times=_TIMES[:2], **(common | {"measurements": []}))
    ready = clock.perf_counter()
    result = density.propagate(field, prior, times=_TIMES, **common)
    finished = clock.perf_counter()

    mean, covariance = _kalman_filter()
    deviation = np.sqrt(np.diag(covariance))
    found = result.isel(time=-1)
    spread = np.sqrt(np.diag(found["covariance"].values))
    rows = []
    for i, name in enumerate(("position", "velocity")):
        rows += [
            Comparison(f"{name}, mean", float(found["mean"][i]), 0.0, float(mean[i])),
            Comparison(f"{name}, standard deviation", float(spread[i]), 0.0, float(deviation[i])),
        ]
    return Stop(
        engine="density",
        title="A swinging mass, seen now and then",
        about=_ABOUT,
        code=_CODE,
        picture=Picture.of(
            lambda ax: plots.density_strip(result, "x", ax=ax),
            "Position: mean, and one and two standard deviations. Lines: measurements.",
        ),
        heading="In the end",
        columns=("on the grid", "Kalman filter"),
        comparisons=rows,
        remark=(
            "The Kalman filter is exact here. What differs is the error of cells a third of the "
            f"measurements' standard deviation wide; {float(found['mass_lost']):.1e} of the "
            "probability was dropped on the way."
        ),
        ready_seconds=ready - started,
        run_seconds=finished - ready,
        work=f"{int(result.attrs['cell_steps']):,} cell-steps, {len(_SEEN)} measurements",
        dataset=result,
    )


def _kalman_filter() -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance at the last time (van Loan, IEEE Trans. Autom. Control 23, 1978)."""
    drift = np.array([[0.0, 1.0], [-_STIFFNESS, -_FRICTION]])
    mean, covariance, now = _MEAN, _COVARIANCE, 0.0
    for time, seen in (*_SEEN, (float(_TIMES[-1]), None)):
        both = np.block([[-drift, np.diag([0.0, _NOISE])], [np.zeros((2, 2)), drift.T]])
        power = expm(both * (time - now))
        move = power[2:, 2:].T
        mean, now = move @ mean, time
        covariance = move @ covariance @ move.T + move @ power[:2, 2:]
        if seen is not None:
            gain = covariance[:, 0] / (covariance[0, 0] + _VARIANCE)
            mean = mean + gain * (seen - mean[0])
            covariance = covariance - np.outer(gain, covariance[0])
    return mean, covariance
