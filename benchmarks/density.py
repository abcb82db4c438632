"""Seconds and cell-steps per second of densities on sparse grids, and their accuracy.

On the CPU a figure is for one core (processor time) unless it says otherwise. The cases are those
of the published runs: Lorenz '63 with its measurement, Lorenz '96 in six dimensions, and the three-
body problem; `corner-transport` is the published scheme and `split` this package's own.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from harness import Rows, arguments, medians

import ergode
from ergode.core import devices
from ergode.density.evolution import Evolution
from ergode.density.initial import lay_lattice, lay_prior


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
}  # fmt: skip
_LARGE = ("lorenz96", "lorenz96-full")
_MINUTES = ("jupiter-europa", "saturn-enceladus")  # on a CPU


def propagate(name, device, scheme, **options):
    field, parameters, prior, measurements, times, width, threshold, conserved = CASES[name]
    settings = {
        "width": width, "threshold": threshold, "keep": "none", "parameters": parameters,
        "times": times, "conserved": conserved, "scale_threshold": False,  # as published
        "measurements": measurements() if callable(measurements) else measurements,
    } | options  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return ergode.density.propagate(field, prior, scheme=scheme, device=device, **settings)


def whole_runs(options, rows):
    """From the call to the Dataset."""
    on_cuda = options.device == "cuda"
    device = devices.resolve("cuda" if on_cuda else "cpu:1")
    for name in options.case:
        if not on_cuda and (name in _LARGE or (options.quick and name in _MINUTES)):
            continue
        for scheme in ("corner-transport", "split"):
            precision = "float32" if name in _LARGE else "float64"
            found = []

            def work(name=name, scheme=scheme, precision=precision, found=found):
                found[:] = [propagate(name, device, scheme, precision=precision)]

            if not on_cuda and name in _MINUTES:
                propagate(name, device, scheme, times=CASES[name][4][:1], measurements=())
                started = time.process_time()
                work()
                seconds = time.process_time() - started
            else:
                repeats = 5 if name == "lorenz63" else 3
                (seconds,) = medians([work], repeats=repeats, cpu=not on_cuda)
            label = f"{name} {scheme}"
            rows.add(label, "seconds", seconds, "s")
            rate = found[0].attrs["cell_steps"] / seconds
            rows.add(label, "cell-steps per second", rate, "1/s", smaller_is_better=False)
            rows.add(label, "cells at most", found[0].attrs["cell_count_most"], "1")
            rows.add(label, "probability lost", float(found[0]["mass_lost"][-1]), "1")


def all_cores(options, rows):
    """A larger grid on one thread and on all."""
    if options.device == "cuda" or "lorenz63" not in options.case:
        return
    finer = {"width": 0.25, "threshold": 2e-7}
    works = [
        lambda threads=threads: propagate("lorenz63", threads, "split", **finer)
        for threads in ("cpu:1", "cpu")
    ]
    one, every = medians(works, repeats=3)
    rows.add("lorenz63 finer, all cores", "seconds", every, "s", peer="one core", peer_value=one)


def side_by_side(options, rows):
    """Many filters at once, each with its own parameter, and one alone."""
    if "lorenz63" not in options.case:
        return
    on_cuda = options.device == "cuda"
    count = 512 if on_cuda else 16
    _, parameters, prior, *_ = CASES["lorenz63"]
    rng = np.random.default_rng(1)
    values = rng.normal(-8.0, 1.0, (count, 1))
    means = rng.normal(prior.mean, 0.5, (count, 3))
    lorenz = CASES["lorenz63"]

    def work(**different):
        propagate("lorenz63", options.device, "split", **different)

    def bank():
        seen = [ergode.Measurement(1.0, third, values, 1.0)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            ergode.density.propagate(
                lorenz[0], ergode.Gaussian(means, prior.covariance), times=lorenz[4],
                measurements=seen, parameters=parameters, width=0.5, threshold=5e-6,
                device=options.device,
            )  # fmt: skip

    alone, many, different = medians(
        [work, lambda: work(parameters=parameters | {"r": np.linspace(44.0, 52.0, count)}), bank],
        repeats=3,
    )
    for what, seconds in (("parameters", many), ("priors and measured values", different)):
        rows.add(
            f"lorenz63 split, {count} filters, {what}", "filters per second", count / seconds,
            "1/s", peer="one after the other", peer_value=1 / alone, smaller_is_better=False,
        )  # fmt: skip


def noise(options, rows):
    """Ornstein and Uhlenbeck on fine cells, where Euler's steps would be bounded by the noise."""
    if "lorenz63" not in options.case:
        return
    width, end, q = 0.0125, 6.0, 0.5
    found = []

    def work():
        found[:] = [
            ergode.density.propagate(
                ergode.fields.ornstein_uhlenbeck(), ergode.Gaussian([1.5], [0.04]),
                times=[0, end], process_noise=[q], width=width, threshold=1e-10,
                scale_threshold=False,
                parameters={"rate": 1.0, "mean": 0.0}, device=options.device, keep="none",
            )
        ]  # fmt: skip

    (seconds,) = medians([work], repeats=5)
    label = f"Ornstein-Uhlenbeck, width {width}"
    rows.add(label, "seconds", seconds, "s")
    euler = end * q / width**2  # steps of noise alone, the shortest that are stable
    rows.add(label, "steps", found[0].attrs["steps"], "1", peer="Euler, at least", peer_value=euler)
    exact = q / 2 + (0.04 - q / 2) * np.exp(-2 * end)
    off = abs(float(found[0]["covariance"][-1, 0, 0]) - exact)
    rows.add(label, "error of the variance", off, "1")


def particles(options, rows):
    """An ensemble that answers what the grid does, and how far the grid is from it."""
    if "lorenz63" not in options.case:
        return
    field, parameters, prior, measurements, *_ = CASES["lorenz63"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for count in (10_000, 100_000):
            found = [
                ergode.particles.propagate(
                    field,
                    prior,
                    times=[0, 1, 2],
                    measurements=measurements,
                    count=count,
                    parameters=parameters,
                    device=options.device,
                    seed=seed,
                )
                for seed in range(6)
            ][1:]  # the first compiles
            mean = np.array([one["prior_mean"].values[0] for one in found])
            label = f"lorenz63 particles {count}"
            seconds = float(np.median([one.attrs["wall_seconds"] for one in found]))
            rows.add(label, "seconds", seconds, "s")
            off = np.median(np.abs(mean - LORENZ_TRUTH[0]).max(axis=1))
            rows.add(label, "error of the mean", float(off), "1")


def accuracy(options, rows):
    """Errors of mean and deviation before the measurement against Monte Carlo, and the time."""
    if "lorenz63" not in options.case:
        return
    sizes = (0.5, 0.25) if options.device == "cpu" or options.quick else (0.5, 0.25, 0.125)
    for width in sizes:
        threshold = 5e-6 * (width / 0.5) ** 3 / 10
        for scheme in ("corner-transport", "split"):
            result = propagate("lorenz63", options.device, scheme, width=width, threshold=threshold)
            mean = result["prior_mean"].values[0]
            deviation = np.sqrt(np.diag(result["prior_covariance"].values[0]))
            label = f"lorenz63 {scheme} width {width:g}"
            off = np.abs(mean - LORENZ_TRUTH[0]).max()
            rows.add(label, "error of the mean", float(off), "1")
            off = np.abs(deviation - LORENZ_TRUTH[1]).max()
            rows.add(label, "error of the deviation", float(off), "1")
            rows.add(label, "seconds", result.attrs["wall_seconds"], "s")


def evolution_alone(options, rows):
    """The steps alone, the density staying on the device."""
    if options.device != "cuda":
        return
    from ergode.core import cuda

    for name in (name for name in options.case if name in ("lorenz63", *_LARGE)):
        field, parameters, prior, _, times, width, threshold, _ = CASES[name]
        for scheme in ("corner-transport", "split"):
            lattice = lay_lattice(prior, width, None)
            laid = lay_prior(prior, lattice, threshold, boxed=scheme != "split")
            values = np.array([parameters[p] for p in field.parameters], float)
            evolution = Evolution(
                field, [lattice], values[None], scheme=scheme, threshold=threshold,
                device=devices.resolve("cuda"),
                precision="float32" if name in _LARGE else "float64",
            )  # fmt: skip
            done = []

            def work(evolution=evolution, laid=laid, end=times[-1], done=done):
                before = evolution.work["cell_steps"]
                evolution.load(0.0, [(laid.keys, laid.mass)])
                evolution.advance(end)
                cuda.synchronize()
                done[:] = [evolution.work["cell_steps"] - before]

            (seconds,) = medians([work], repeats=3)
            rows.add(f"{name} {scheme}, steps alone", "seconds", seconds, "s")
            rows.add(
                f"{name} {scheme}, steps alone", "cell-steps per second", done[0] / seconds,
                "1/s", smaller_is_better=False,
            )  # fmt: skip


def main():
    options = arguments("density", list(CASES))
    rows = Rows("density", options.device)
    whole_runs(options, rows)
    evolution_alone(options, rows)
    all_cores(options, rows)
    side_by_side(options, rows)
    noise(options, rows)
    particles(options, rows)
    accuracy(options, rows)
    rows.write(options.json)


if __name__ == "__main__":
    main()
