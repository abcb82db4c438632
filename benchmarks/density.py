"""Seconds and cell-steps per second of densities on sparse grids, and their accuracy.

The cases are those of the published runs: Lorenz '63 with its measurement, Lorenz '96 in six
dimensions, and the three-body problem; `corner-transport` is the published scheme, `split` this
package's own on a grid, and `flow` the default, whose points follow the flow. Two cases more are
for `flow` alone: a satellite with drag as a seventh variable, and thousands of filters.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from harness import Rows, arguments, timed

import ergode


def third(y, t, p):
    return (y[2],)


# What Monte Carlo finds (1e6 trajectories): mean and standard deviation before the measurement.
LORENZ_TRUTH = ((4.870, 5.707, -3.405), (8.750, 15.159, 14.636))
JUPITER = [2.2375e-8] * 2 + [5.2767e-7] * 2
SATURN = [7.030360843777e-9] * 2 + [2.514771104455e-8] * 2
PLANAR = ergode.fields.planar_three_body()
ENCELADUS = {"mu": 1.901109735892602e-7}
LEAVING = [1.001471995170839, -1.7518099335e-5, 7.1987832396e-5, 0.013633926328993]
INTERVALS = 0.931792004789438 * np.arange(5)


def ranging():
    """Range, bearing and range rate at the end of three intervals, as the mean's path has them."""
    path = ergode.trajectories.integrate(
        PLANAR, times=INTERVALS, parameters=ENCELADUS, rtol=1e-11, atol=1e-13, device="cpu",
        initial=dict(zip(PLANAR.variables, LEAVING, strict=True)),
    )["state"].values  # fmt: skip
    h = ergode.fields.planar_ranging
    return [
        ergode.Measurement(
            at, h, h(path[k], at, tuple(ENCELADUS.values())),
            [7.03e-9, 3.0461733e-4, 2.5148e-8], angles=[1],
        )
        for k, at in enumerate(INTERVALS) if 0 < k < 4
    ]  # fmt: skip


def dragged(t, y, p):
    """Two bodies with air that thins out, and drag as a variable; the unit of time is a radian."""
    r2 = y[0] * y[0] + y[1] * y[1] + y[2] * y[2]
    r = r2**0.5
    pull = -1.0 / (r2 * r)
    speed = (y[3] * y[3] + y[4] * y[4] + y[5] * y[5]) ** 0.5
    drag = -1e-4 * y[6] * speed * math.exp((1.0 - r) / 0.02)
    return (
        y[3], y[4], y[5], pull * y[0] + drag * y[3], pull * y[1] + drag * y[4],
        pull * y[2] + drag * y[5], 0.0 * y[6],
    )  # fmt: skip


DRAGGED = ergode.VectorField(dragged, ["x", "y", "z", "vx", "vy", "vz", "drag"])
ORBIT = [1.0, 0.0, 0.0, 0.0, 0.8, 0.6, 1.0]
PERIODS = 2 * math.pi * np.array([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0])


def place_of(y, t, p):
    return y[0], y[1], y[2]


def seen_from_the_centre():
    """Five places, within a thousandth, along the mean's path of three periods."""
    path = ergode.trajectories.integrate(
        DRAGGED, times=PERIODS, rtol=1e-11, atol=1e-13, device="cpu",
        initial=dict(zip(DRAGGED.variables, ORBIT, strict=True)),
    )["state"].values  # fmt: skip
    return [
        ergode.Measurement(at, place_of, path[k, :3], [1e-6] * 3)
        for k, at in enumerate(PERIODS) if 0 < k < 6
    ]  # fmt: skip


# Field, parameters, prior, measurements, times, width, threshold, conserved quantity.
CASES = {
    "lorenz63": (
        ergode.fields.lorenz63(centred=True), {"sigma": 4, "b": 1, "r": 48},
        ergode.Gaussian([-11.5, -10, 9.5], [1, 1, 1]),
        [ergode.Measurement(1.0, third, -8.0, 1.0)], np.linspace(0, 2, 9), 0.5, 5e-6, None,
    ),
    "lorenz96": (
        ergode.fields.lorenz96(6), {"force": 4}, ergode.Gaussian([4.5, 4, 4, 4, 4, 4], [0.04] * 6),
        [], [0, 0.6], 0.1, 8e-9, None,
    ),
    "lorenz96-full": (
        ergode.fields.lorenz96(6), {"force": 4}, ergode.Gaussian([4.5, 4, 4, 4, 4, 4], [0.04] * 6),
        [], [0, 1.3], 0.1, 8e-9, None,
    ),
    "jupiter-europa": (
        PLANAR, {"mu": 2.52801752854e-5},
        ergode.Gaussian([1.0169962521469986, 0, 0, 0.012575912545456968], JUPITER),
        [], np.linspace(0, 0.889584448745932, 5), None, 1e-7,
        ergode.fields.planar_jacobi_constant,
    ),
    "saturn-enceladus": (
        PLANAR, ENCELADUS, ergode.Gaussian(LEAVING, SATURN), ranging, INTERVALS, None, 1e-7,
        ergode.fields.planar_jacobi_constant,
    ),
    "two-body with drag": (
        DRAGGED, {}, ergode.Gaussian(ORBIT, [1e-6] * 6 + [0.04]), seen_from_the_centre, PERIODS,
        None, None, None,
    ),
}  # fmt: skip
SCHEMES = ("corner-transport", "split", "flow")
_LARGE = ("lorenz96", "lorenz96-full")
_MINUTES = ("jupiter-europa", "saturn-enceladus")  # on a CPU


def call(name, place, **options):
    """The public call for a case with its published settings."""
    field, parameters, prior, measurements, times, width, threshold, conserved = CASES[name]
    settings = {
        "keep": "none", "parameters": parameters, "times": times, "device": place,
        "measurements": measurements() if callable(measurements) else measurements,
    }  # fmt: skip
    if options.get("scheme") != "flow":
        settings |= {
            "width": width, "threshold": threshold, "conserved": conserved,
            "scale_threshold": False, "precision": "float32" if name in _LARGE else "float64",
        }  # fmt: skip
    settings |= options
    return partial(ergode.density.propagate, field, prior, **settings)


def whole_runs(options, rows):
    """Every case by all schemes."""
    on_cuda = options.device == "cuda"
    for name in options.case:
        long = name in (*_MINUTES, "lorenz96-full")
        for scheme in ("flow",) if name == "two-body with drag" else SCHEMES:
            case, ours = f"{name} {scheme}", call(name, options.place, scheme=scheme)
            if scheme == "flow":
                found = rows.measure(case, ours, repeats=5)
                rows.add(case, "seconds", found.seconds, "s")
                rows.add(case, "points in all", found.result.attrs["points"], "1")
                continue
            if (not on_cuda and name in _LARGE) or (options.quick and long):
                continue
            if not on_cuda and long:  # one run, without what comes first
                call(
                    name, options.place, scheme=scheme, times=CASES[name][4][:2], measurements=()
                )()
                found = rows.measure(case, ours, repeats=1, warm=False)
            else:
                found = rows.measure(case, ours, repeats=5 if name == "lorenz63" else 3)
            rows.add(case, "seconds", found.seconds, "s")
            steps = found.result.attrs["cell_steps"]
            rows.rate(case, "cell-steps per second", found, steps)
            if on_cuda:
                alone = found._replace(seconds=found.kernels)
                rows.rate(f"{case}, steps alone", "cell-steps per second", alone, steps)
            rows.add(case, "cells at most", found.result.attrs["cell_count_most"], "1")
            rows.add(case, "probability lost", float(found.result["mass_lost"][-1]), "1")


def all_cores(options, rows):
    """A larger grid on one thread and on all."""
    if options.device == "cuda":
        return
    finer = {"width": 0.25, "threshold": 2e-7, "scheme": "split"}
    one, every = timed([call("lorenz63", place, **finer) for place in ("cpu:1", "cpu")], 3)
    rows.add(
        "lorenz63 finer, all cores", "seconds", every.clock, "s", peers={"one core": one.clock}
    )


def side_by_side(options, rows):
    """Many filters at once, each with its own parameter, prior or measured value, and one alone."""
    count = 512 if options.device == "cuda" else 16
    field, parameters, prior, _, times, *_ = CASES["lorenz63"]
    rng = np.random.default_rng(1)
    values = rng.normal(-8.0, 1.0, (count, 1))
    priors = ergode.Gaussian(rng.normal(prior.mean, 0.5, (count, 3)), prior.covariance)
    place = options.device
    bank = partial(
        ergode.density.propagate, field, priors, times=times, parameters=parameters, width=0.5,
        measurements=[ergode.Measurement(1.0, third, values, 1.0)], threshold=5e-6, device=place,
    )  # fmt: skip
    thousands = partial(
        ergode.density.propagate, field, ergode.Gaussian(
            rng.normal(prior.mean, 0.5, (8 * count, 3)), prior.covariance
        ), times=[0, 1], parameters=parameters, device=place, keep="none", scheme="flow",
    )  # fmt: skip
    case = f"lorenz63 flow, {8 * count} filters"
    found = rows.measure(case, thousands, repeats=3)
    rows.add(case, "filters per second", 8 * count / found.seconds, "1/s")
    varied = parameters | {"r": np.linspace(44.0, 52.0, count)}
    alone, *many = timed(
        [call("lorenz63", place), call("lorenz63", place, parameters=varied), bank], 3
    )
    for what, found in zip(("parameters", "priors and measured values"), many, strict=True):
        case = f"lorenz63 split, {count} filters, {what}"
        rows.add(case, "whole call", found.clock * 1e3, "ms")
        rows.add(case, "kernels within", found.kernels * 1e3, "ms")
        rows.add(
            case, "filters per second", count / found.clock, "1/s",
            peers={"one after the other": 1 / alone.clock}, smaller_is_better=False,
        )  # fmt: skip


def noise(options, rows):
    """Ornstein and Uhlenbeck on fine cells, where Euler's steps would be bounded by the noise."""
    width, end, q = 0.0125, 6.0, 0.5
    case = f"Ornstein-Uhlenbeck, width {width}"
    ours = partial(
        ergode.density.propagate, ergode.fields.ornstein_uhlenbeck(),
        ergode.Gaussian([1.5], [0.04]), times=[0, end], process_noise=[q], width=width,
        threshold=1e-10, scale_threshold=False, parameters={"rate": 1.0, "mean": 0.0},
        device=options.place, keep="none",
    )  # fmt: skip
    found = rows.measure(case, ours)
    rows.add(case, "seconds", found.seconds, "s")
    euler = end * q / width**2  # steps of noise alone, the shortest that are stable
    rows.add(case, "steps", found.result.attrs["steps"], "1", peers={"Euler, at least": euler})
    exact = q / 2 + (0.04 - q / 2) * np.exp(-2 * end)
    off = abs(float(found.result["covariance"][-1, 0, 0]) - exact)
    rows.add(case, "error of the variance", off, "1")


def particles(options, rows):
    """An ensemble that answers what the grid does, and how far it is from the truth."""
    field, parameters, prior, measurements, *_ = CASES["lorenz63"]
    for count in (10_000, 100_000):
        case = f"lorenz63 particles {count}"
        ours = partial(
            ergode.particles.propagate, field, prior, times=[0, 1, 2], measurements=measurements,
            count=count, parameters=parameters, device=options.place,
        )  # fmt: skip
        rows.add(case, "seconds", rows.measure(case, ours).seconds, "s")
        means = np.array([ours(seed=seed)["prior_mean"].values[0] for seed in range(1, 6)])
        off = np.median(np.abs(means - LORENZ_TRUTH[0]).max(axis=1))
        rows.add(case, "error of the mean", float(off), "1")


def against_samples(options, rows):
    """Errors of the published cases by all schemes at the last time, against many samples."""
    if options.device != "cuda" or options.quick:
        return
    count = 100_000_000
    for name in options.case:
        field, parameters, prior, measurements, times, *_ = CASES[name]
        if name in ("two-body with drag", "lorenz96"):
            continue
        sampled = ergode.particles.propagate(
            field, prior, times=[times[0], times[-1]], parameters=parameters, count=count,
            measurements=measurements() if callable(measurements) else measurements,
            resample_below=0, device=options.place, keep="none",
        )  # fmt: skip
        mean = sampled["mean"].values[-1]
        deviation = np.sqrt(np.diag(sampled["covariance"].values[-1]))
        rows.add(
            f"{name}, {count:.0e} samples", "effective", float(sampled["effective_count"][-1]), "1"
        )
        for scheme in SCHEMES:
            case = f"{name} {scheme} against samples"
            found = call(name, options.place, scheme=scheme)()
            off = np.abs((found["mean"].values[-1] - mean) / deviation).max()
            rows.add(case, "error of the mean", float(off), "deviations")
            wide = np.sqrt(np.diag(found["covariance"].values[-1])) / deviation - 1
            rows.add(case, "error of the deviation", float(np.abs(wide).max()), "1")
            if measurements:
                off = found["log_evidence"].values.sum() - sampled["log_evidence"].values.sum()
                rows.add(case, "error of the log evidence", float(abs(off)), "1")


def accuracy(options, rows):
    """Errors of mean and deviation before the measurement against Monte Carlo, and the time."""
    sizes = (0.5, 0.25) if options.device == "cpu" or options.quick else (0.5, 0.25, 0.125)
    for width in sizes:
        threshold = 5e-6 * (width / 0.5) ** 3 / 10
        for scheme in ("corner-transport", "split"):
            case = f"lorenz63 {scheme} width {width:g}"
            ours = call("lorenz63", options.place, scheme=scheme, width=width, threshold=threshold)
            found = rows.measure(case, ours, repeats=1)
            mean = found.result["prior_mean"].values[0]
            deviation = np.sqrt(np.diag(found.result["prior_covariance"].values[0]))
            off = np.abs(mean - LORENZ_TRUTH[0]).max()
            rows.add(case, "error of the mean", float(off), "1")
            off = np.abs(deviation - LORENZ_TRUTH[1]).max()
            rows.add(case, "error of the deviation", float(off), "1")
            rows.add(case, "seconds", found.seconds, "s")


def main():
    options = arguments("density", list(CASES))
    rows = Rows("density", options.device, options.json)
    whole_runs(options, rows)
    if "lorenz63" in options.case:
        for work in (all_cores, side_by_side, noise, particles, accuracy):
            work(options, rows)
    against_samples(options, rows)


if __name__ == "__main__":
    main()
