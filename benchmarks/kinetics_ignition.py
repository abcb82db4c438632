"""Reactors that ignite, against Cantera: the same states, end and error, and files read before.

Errors are those of the ignition delay against a reference at a tight tolerance. Each solver runs at
the largest tolerance whose error is within the target, so that both do the same work.
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import ergode

ATMOSPHERE = 1.01325e6


class Case(NamedTuple):
    """Reactors of constant volume."""

    file: str
    mixture: dict[str, float]
    temperatures: np.ndarray
    pressure: float  # [atm]
    end: float  # [s]
    targets: tuple[float, ...]  # relative errors of the delay


CASES = {
    "h2o2": Case(
        "h2o2.yaml", {"H2": 2.0, "O2": 1.0, "AR": 3.76}, np.linspace(1000, 1200, 8), 1.0, 0.1,
        (1e-3, 1e-5),
    ),
    "gri30": Case(
        "gri30.yaml", {"CH4": 1.0, "O2": 2.0, "N2": 7.52}, np.linspace(1400, 1700, 8), 1.0, 0.1,
        (1e-3, 1e-5),
    ),
    "n-hexane": Case(
        "example_data/n-hexane-NUIG-2015.yaml", {"NC6H14": 1.0, "O2": 9.5, "N2": 35.72},
        np.array([1200.0]), 15.0, 1e-3, (1e-2,),
    ),
}  # fmt: skip
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
PEERS = {"Cantera": False, "Cantera, AdaptivePreconditioner": True}


class Reference(NamedTuple):
    """Of each reactor: the delay, and temperature and its slope then."""

    delays: np.ndarray
    temperatures: np.ndarray
    slopes: np.ndarray

    def error(self, temperatures):
        """Largest relative error of the delay of temperatures at the delays."""
        return float(np.max(np.abs(temperatures - self.temperatures) / self.slopes / self.delays))


def reactor(gas, case, hot, rtol, sparse=False):
    """A reactor of Cantera and its integrator; by moles with the preconditioner if `sparse`."""
    import cantera as ct

    gas.TPX = hot, case.pressure * ct.one_atm, case.mixture
    one = (ct.IdealGasMoleReactor if sparse else ct.IdealGasReactor)(gas, clone=False)
    network = ct.ReactorNet([one])
    network.rtol, network.atol = rtol, 1e-15
    if sparse:
        network.derivative_settings = {"skip-third-bodies": True, "skip-falloff": True}
        network.preconditioner = ct.AdaptivePreconditioner()
    return one, network


def reference_of(gas, case, rtol, sparse):
    """Steepest rise of the temperature along the steps of a tight run."""
    found = []
    for hot in case.temperatures:
        one, network = reactor(gas, case, hot, rtol, sparse)
        rows = []
        while network.time < case.end:
            network.step()
            rows.append((network.time, one.T))
        times, temperatures = np.array(rows).T
        slopes = np.diff(temperatures) / np.diff(times)
        steepest = int(np.argmax(slopes))
        found.append((times[steepest], temperatures[steepest], slopes[steepest]))
    return Reference(*np.array(found).T)


def theirs(gas, case, reference, sparse, rtol):
    """Temperatures at the delays by Cantera, which goes on to the end."""
    found = []
    for hot, delay in zip(case.temperatures, reference.delays, strict=True):
        one, network = reactor(gas, case, hot, rtol, sparse)
        network.advance(delay)
        found.append(one.T)
        network.advance(case.end)
    return np.array(found)


def ours(network, case, reference, device, rtol):
    """The same by ergode, all reactors in one call."""
    times = np.unique(reference.delays)
    result = ergode.kinetics.integrate(
        network, times=[0.0, *times, case.end], initial=case.mixture, rtol=rtol,
        temperature=case.temperatures, pressure=case.pressure * ATMOSPHERE,
        heating="constant-volume", device=device,
    )  # fmt: skip
    return result, result["temperature"].values[:, 1:-1][
        np.arange(times.size), np.searchsorted(times, reference.delays)
    ]


def within(run, reference, target):
    """The largest tolerance whose error is within a target, and that error."""
    for rtol in TOLERANCES:
        error = reference.error(run(rtol))
        if error <= target:
            break
    return rtol, error


def ignition(options, rows, names):
    """Seconds a reactor at equal errors of the delay."""
    try:
        import cantera as ct
    except ImportError:
        print("cantera is not installed (pip install cantera): no mechanisms to read")
        return
    for name in names:
        case, large = CASES[name], name == "n-hexane"
        file = Path(ct.__file__).parent / "data" / case.file
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gas, network = ct.Solution(str(file)), ergode.read_cantera(file)
        reference = reference_of(gas, case, 1e-9 if large else 1e-11, large)
        own = partial(ours, network, case, reference, options.place)
        for target in case.targets[:1] if options.quick else case.targets:
            label = f"ignition {name}, delays within {target:g}"
            rtol, error = within(lambda rtol, own=own: own(rtol)[1], reference, target)
            rows.add(label, f"error at rtol {rtol:g}", error, "1")
            works = {}
            for peer, sparse in () if options.no_peers else PEERS.items():
                if large and not sparse:
                    continue
                run = partial(theirs, gas, case, reference, sparse)
                chosen, error = within(run, reference, target)
                rows.add(f"{label}, {peer}", f"error at rtol {chosen:g}", error, "1")
                if error <= target:
                    works[peer] = partial(run, chosen)
            found = rows.measure(
                label, lambda rtol=rtol, own=own: own(rtol)[0], works,
                repeats=1 if options.quick or large else 5, warm=not large,
            )  # fmt: skip
            count = case.temperatures.size
            rows.add(
                label, "seconds a reactor", found.seconds / count, "s",
                peers={peer: seconds / count for peer, seconds in found.peers.items()},
            )  # fmt: skip


def many_reactors(options, rows):
    """Thousands of reactors of GRI-3.0 on a GPU, by both implicit methods at one tolerance."""
    if options.device != "cuda":
        return
    try:
        import cantera as ct
    except ImportError:
        print("cantera is not installed (pip install cantera): no mechanisms to read")
        return
    case, count = CASES["gri30"], 512 if options.quick else 4_096
    network = ergode.read_cantera(Path(ct.__file__).parent / "data" / case.file)
    for method in ("bdf", "rodas4"):
        label = f"{count:,} reactors of gri30, {method}, rtol 1e-6"
        found = rows.measure(
            label,
            partial(
                ergode.kinetics.integrate, network, times=[0.0, case.end], initial=case.mixture,
                temperature=np.linspace(1400, 1700, count), pressure=case.pressure * ATMOSPHERE,
                heating="constant-volume", rtol=1e-6, method=method, device=options.place,
            ),
            repeats=3,
        )  # fmt: skip
        rows.rate(label, "reactors a second", found, count)
