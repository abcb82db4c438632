"""The section on the engine ``density``: a noisy oscillator with three measurements."""

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
    "A mass on a spring, with friction and a random force. Its position is measured three times, "
    "with an error. The state is described by a probability density of position and velocity; each "
    "measurement updates the density.",
    "The density is transported on a grid that has cells only where there is probability. It may "
    "have any shape. For a linear field and a Gaussian prior it stays Gaussian, and the Kalman "
    "filter gives it exactly.",
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
        title="A noisy oscillator with three measurements",
        about=_ABOUT,
        code=_CODE,
        picture=Picture.of(
            lambda ax: plots.density_strip(result, "x", ax=ax),
            "Position: mean, and bands of one and two standard deviations. Lines: measurements.",
        ),
        heading="At the last time",
        columns=("on the grid", "Kalman filter"),
        comparisons=rows,
        remark=(
            "The Kalman filter is exact here. The difference is the error of the grid, whose cells "
            "are a third of the measurements' standard deviation wide; "
            f"{float(found['mass_lost']):.1e} of the probability was dropped."
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
