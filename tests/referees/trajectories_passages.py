"""Noise against closed forms: first passages of two correlated Wiener processes, and Stratonovich.

x and z have drifts, deviations and a correlation; the event is a x + c z at a level, from one side
or the other, at a step of any size.  Beside it dy = r y dt + s y o dW, whose solution is known.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

import ergode
from ergode.trajectories import ZeroCrossing, integrate

COUNT = 20_000
# Of about 1e4 comparisons in ten minutes, a chance of 1e-6 for all of them.
SIGMAS = 6.5


def level(t, y, p):
    return p[0] * y[0] + p[1] * y[1] - p[2]


def field(correlation, interpretation="ito"):
    return ergode.field_from_equations(
        {"x": "u + 0 * (a + c + b)", "z": "v", "y": "r * y", "w": "0 * w"},
        ["a", "c", "b", "u", "v", "f", "g", "r", "s"],
        {"x": "f", "z": "g", "y": "s * y", "w": "1"}, interpretation=interpretation,
        correlation=[[1, correlation, 0, 0], [correlation, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]],
    )  # fmt: skip


def passed_before(end, distance, drift, rate):
    """Probability that a Wiener process with drift passes a distance above it before `end`."""
    wide = np.sqrt(rate * end)
    return norm.cdf((drift * end - distance) / wide) + np.exp(
        2 * drift * distance / rate + norm.logcdf((-distance - drift * end) / wide)
    )


def compare(seed, device):
    """What is wrong, in words."""
    rng = np.random.default_rng(seed)
    p = {name: rng.uniform(-1.0, 1.0) for name in ("a", "c", "u", "v", "r")}
    p |= {name: rng.uniform(0.2, 1.0) for name in ("f", "g", "s")}
    correlation, end = rng.choice([-0.5, 0.0, 0.7]), rng.uniform(0.5, 3.0)
    rate = (p["a"] * p["f"]) ** 2 + (p["c"] * p["g"]) ** 2
    rate += 2 * correlation * p["a"] * p["f"] * p["c"] * p["g"]
    if rate < 1e-3:
        return []
    p["b"] = rng.choice([-1.0, 1.0]) * rng.uniform(0.2, 2.0) * np.sqrt(rate * end)
    drift, side = p["a"] * p["u"] + p["c"] * p["v"], np.sign(p["b"])
    n, wrong = int(rng.choice([1, 3, 16])), []
    found = integrate(
        field(correlation), times=[0.0, end], initial={"x": 0.0, "z": 0.0, "y": 1.0, "w": 0.0},
        parameters=p, step=end / n, method="euler-maruyama", replicates=COUNT, seed=seed,
        device=device, events=[ZeroCrossing(level, int(side), terminal=True)],
    )  # fmt: skip
    exact = passed_before(end, abs(p["b"]), side * drift, rate)
    share = (found["event_count"].values[:, 0] > 0).mean()
    error = np.sqrt(exact * (1 - exact) / COUNT)
    if abs(share - exact) > SIGMAS * error + 5 / COUNT:
        wrong.append(f"seed {seed}: {n} steps, {share:.4f} passed, and {exact:.4f} are expected")
    at = found["event_state"].values[:, 0, 0]
    off = np.nanmax(np.abs(p["a"] * at[:, 0] + p["c"] * at[:, 1] - p["b"]), initial=0.0)
    if off > 1e-10:
        wrong.append(f"seed {seed}: hits are {off:.1e} off the level")
    for method in ("euler-maruyama", "milstein"):
        errors = []
        for steps in (16, 64):
            y, w = integrate(
                field(correlation, "stratonovich"), times=[0.0, 1.0], step=1 / steps,
                initial={"x": 0.0, "z": 0.0, "y": 1.0, "w": 0.0}, parameters=p, method=method,
                replicates=2000, seed=seed, device=device, noise_per_step=64 // steps,
            )["state"].values[:, -1, 2:].T  # fmt: skip
            errors.append(np.sqrt(np.mean((y / np.exp(p["r"] + p["s"] * w) - 1) ** 2)))
        order = np.log(errors[0] / errors[1]) / np.log(4)
        if not (order > 0.7 or errors[1] < 1e-3):
            wrong.append(f"seed {seed}: Stratonovich by '{method}' has order {order:.2f}")
    return wrong
