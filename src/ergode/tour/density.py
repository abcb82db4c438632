"""The stop at the engine ``density``: an oscillator with noise, seen now and then."""

from __future__ import annotations

import time as clock
from typing import Any

import numpy as np

from ergode import density, plots
from ergode.models.equations import field_from_equations
from ergode.models.measurement import Measurement
from ergode.models.priors import Gaussian
from ergode.report import Comparison, Picture, Stop

_A = np.array([[0.0, 1.0], [-1.0, -0.5]])
_Q = np.diag([0.02, 0.1])
_VALUES = ((2.0, -0.4), (4.0, 0.3))
_VARIANCE = 0.1

_CODE = """\
import ergode, numpy as np

def position(y, t, p):
    return (y[0],)

result = ergode.density.propagate(
    ergode.field_from_equations({"x": "v", "v": "-stiffness * x - damping * v"}),
    ergode.Gaussian([1.0, 0.0], [0.3, 0.3]),
    times=np.linspace(0, 6, 61), parameters={"stiffness": 1, "damping": 0.5}, width=0.06,
    process_noise=[0.02, 0.1],
    measurements=[
        ergode.Measurement(2.0, position, -0.4, 0.1), ergode.Measurement(4.0, position, 0.3, 0.1)
    ],
)
ergode.plots.density_strip(result, "x")"""

_ABOUT = (
    "An oscillator is pushed by noise, and its position is measured twice. Between measurements "
    "the probability density of position and speed obeys the Fokker-Planck equation, on a grid "
    "that has cells only where there is probability; a measurement multiplies it by its "
    "likelihood.",
    "Nothing here needs the equations to be linear or the density to be Gaussian - but where they "
    "are, Kalman's filter is exact, so that the grid can be held against it.",
)


def _position(y: Any, t: Any, p: Any) -> Any:
    return (y[0],)


def visit() -> Stop:
    """Propagate, compare with Kalman's filter, draw."""
    started = clock.perf_counter()
    field = field_from_equations({"x": "v", "v": "-stiffness * x - damping * v"})
    prior = Gaussian([1.0, 0.0], [0.3, 0.3])
    measurements = [Measurement(t, _position, v, _VARIANCE) for t, v in _VALUES]
    common: dict[str, Any] = {
        "parameters": {"stiffness": 1.0, "damping": 0.5}, "width": 0.06, "device": "cpu",
        "process_noise": np.diag(_Q), "measurements": measurements,
    }  # fmt: skip
    density.propagate(field, prior, times=[0, 4], **common)
    ready = clock.perf_counter()
    result = density.propagate(field, prior, times=np.linspace(0, 6, 61), **common)
    finished = clock.perf_counter()
    mean, covariance = _kalman(prior.mean, prior.covariance)
    found = result.isel(time=-1)
    rows = (
        ("mean of x", found["mean"][0], mean[0]),
        ("mean of v", found["mean"][1], mean[1]),
        ("deviation of x", found["covariance"][0, 0] ** 0.5, covariance[0, 0] ** 0.5),
        ("deviation of v", found["covariance"][1, 1] ** 0.5, covariance[1, 1] ** 0.5),
    )
    return Stop(
        engine="density",
        title="An oscillator with noise, seen twice",
        about=_ABOUT,
        code=_CODE,
        picture=Picture.of(
            lambda ax: plots.density_strip(result, "x", ax=ax),
            "Position over time: mean, one and two standard deviations; measurements in red.",
        ),
        heading="At the end",
        comparisons=tuple(
            Comparison(name, float(value), 0.0, float(exact)) for name, value, exact in rows
        ),
        remark=f"{result.attrs['cell_steps']:,} cell-steps, against the Kalman filter.",
        ready_seconds=ready - started,
        run_seconds=finished - ready,
        work=f"{result.attrs['cell_steps']:,} cell-steps",
        dataset=result,
        columns=("grid", "Kalman"),
    )


def _kalman(mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance at time 6, exactly."""
    from scipy.linalg import expm

    block = expm(np.block([[-_A, _Q], [np.zeros((2, 2)), _A.T]]) * 2.0)
    F = expm(_A * 2.0)
    noise = F @ block[:2, 2:]
    for value in (_VALUES[0][1], _VALUES[1][1], None):
        mean, covariance = F @ mean, F @ covariance @ F.T + noise
        if value is not None:
            gain = covariance[:, 0] / (covariance[0, 0] + _VARIANCE)
            mean = mean + gain * (value - mean[0])
            covariance = covariance - np.outer(gain, covariance[0])
    return mean, covariance
