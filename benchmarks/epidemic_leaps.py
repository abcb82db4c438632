"""Epidemics in time steps: node updates a second, and every method on one epidemic.

An update is one node taken through one step, counts on the grid included: a run of N nodes and K
steps is N K updates.  1 GNUPS is 10^9 updates a second.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from epidemic_cases import MEMORYLESS_SIR, SEIR, SIS, call, erdos_renyi, hubs, size_label
from epidemic_peers import eon_fast, fastgemf, ndlib_steps
from harness import Rows, copy_bandwidth, installed, timed

import ergode


def leap(rows, case, place, model, contacts, *, count=1, seeds=100, works=None, **options):
    """Updates a second of a model in steps, bytes an update and what part of a copy that is."""
    options = {"method": "markov-leap" if model is SIS else "renewal-leap", "step": 0.1} | options
    ours = call(place, model, contacts, count, initial={"I": seeds}, **options)
    found = rows.measure(case, ours, works, repeats=3)
    updates = found.result.attrs["steps"] * contacts.node_count
    rows.add(
        case, "updates", updates / found.seconds / 1e9, "GNUPS", smaller_is_better=False,
        peers={
            name: updates / count / seconds / 1e9 for name, seconds in found.peers.items()
        },
    )  # fmt: skip
    each = bytes_of_update(found.result, model, contacts)
    rows.add(case, "bytes an update", each, "bytes")
    rate = updates * each / found.seconds
    rows.add(case, "of copy bandwidth", rate / copy_bandwidth(rows.device), "1")


def bytes_of_update(result, model, contacts) -> float:
    """Bytes that one update asks for, once each, averaged over a run; caches are not counted."""
    mean = result["count"].mean(("replicate", "time")).to_series() / contacts.node_count
    ageless = result.attrs["transition"] != "sampled" and model is SIS
    aged = 0.0 if ageless else 4 * sum(mean[p.compartment] for p in model.progressions)
    if not result.attrs["gathering_steps"]:
        keeping = mean["S"] + (mean["I"] if model is SIS else 0.0)  # may yet be susceptible
        return 1 + 8 * keeping + aged  # compartment; force of infection and what was pushed; age
    return 1 + 4 + 4 * contacts.mean_degree * mean["S"] + aged + 0.25  # offsets, arcs, bits


def cpu(options, rows: Rows) -> None:
    """One core: updates a second, and time to solution against peers."""
    if "leap" in options.case:
        rows.add("copy", "bandwidth of a core", copy_bandwidth("cpu") / 1e9, "GB/s")
        for size in (10_000,) if options.quick else (10_000, 100_000, 1_000_000):
            contacts = erdos_renyi(size)
            label = size_label(size)
            for pressure in ("push", "gather"):
                case = f"renewal-leap {pressure} {label}"
                leap(rows, case, options.place, SEIR, contacts, pressure=pressure)
            makers = {"NDlib": partial(ndlib_steps, "SIS", contacts)} if size <= 10_000 else {}
            leap(
                rows, f"markov-leap SIS step 1 {label}", options.place, SIS, contacts, step=1.0,
                works=installed(options, makers),
            )  # fmt: skip
    if "methods" in options.case:
        methods(options, rows)


WAYS = {
    "first-passage": {"method": "first-passage"},
    "sellke": {"method": "sellke"},
    "gillespie": {"method": "gillespie"},
    "renewal-leap step 0.1": {"method": "renewal-leap", "step": 0.1},
    "markov-leap step 0.5": {"method": "markov-leap", "step": 0.5},
    "markov-leap step 0.1": {"method": "markov-leap", "step": 0.1},
    "markov-leap step 0.02": {"method": "markov-leap", "step": 0.02},
}


def methods(options, rows: Rows) -> None:
    """Every method on one memoryless SIR epidemic: time a replicate and error of the peak."""
    contacts, count = erdos_renyi(10_000), 10

    def simulate(count, **chosen):
        times = np.arange(0.0, 40.5, 0.5)
        return call(options.place, MEMORYLESS_SIR, contacts, count, times=times, **chosen)

    def peak(count, **chosen):
        found = ergode.epidemics.summary(simulate(count, **chosen)())["peak_count"].values
        return found.mean(), found.std() / np.sqrt(found.size)

    exact, error = peak(400, method="first-passage")
    works = installed(
        options,
        {
            "EoN fast_SIR": partial(eon_fast, "SIR", contacts, days=40),
            "FastGEMF": partial(fastgemf, "SIR", contacts, days=40),
            "NDlib step 1": partial(ndlib_steps, "SIR", contacts, steps=40),
        },
    )
    theirs = {
        name: one.processor * 1e3
        for name, one in zip(works, timed(list(works.values()), 3), strict=True)
    }
    # Steps of NDlib have an error: they are no peer of an exact method.
    exact_peers = {name: taken for name, taken in theirs.items() if not name.startswith("NDlib")}
    fastest = min(exact_peers, key=exact_peers.__getitem__, default=None)
    best = {fastest: exact_peers[fastest]} if fastest else None
    for name, chosen in WAYS.items():
        case = f"methods SIR N=1e4 {name}"
        found = rows.measure(case, simulate(count, **chosen), repeats=3)
        is_exact = "leap" not in name
        rows.add(
            case, "time a replicate", found.seconds / count * 1e3, "ms",
            peers=best if is_exact else None,
        )  # fmt: skip
        if not is_exact:
            at, own = peak(200, **chosen)
            rows.add(case, "error of the peak", 100 * (at / exact - 1), "%")
            rows.add(case, "its standard error", 100 * np.hypot(own, error) / exact, "%")
    for name, taken in theirs.items():
        rows.add(f"methods SIR N=1e4 {name}", "time a replicate", taken, "ms")


def cuda(options, rows: Rows) -> None:
    """Updates a second on a GPU."""
    measure = partial(leap, rows)
    if "leap" in options.case:
        contacts = erdos_renyi(1_000_000)
        for pressure in ("gather", "push"):
            case = f"leap {pressure} N=1e6 d=8"
            measure(case, options.place, SEIR, contacts, pressure=pressure)
        measure("markov-leap push SIS N=1e6", options.place, SIS, contacts, pressure="push")
        small = erdos_renyi(10_000)
        measure("leap push 1,000 x N=1e4", options.place, SEIR, small, count=1000, pressure="push")
    if "leap" in options.case and not options.quick:
        measure("markov-leap gather SIS N=1e6", options.place, SIS, contacts, pressure="gather")
        measure("leap push sampled N=1e6 d=8", options.place, SEIR, contacts, transition="sampled")
        measure("markov-leap SIS step 1 N=1e6", options.place, SIS, contacts, step=1.0)
        for pressure in ("gather", "push"):
            case = f"leap {pressure} Barabasi-Albert"
            measure(case, options.place, SEIR, hubs(), pressure=pressure)
    if "leap-largest" in options.case and not options.quick:
        contacts = erdos_renyi(100_000_000)
        for pressure in ("gather", "push"):
            case = f"leap {pressure} N=1e8 d=8"
            measure(case, options.place, SEIR, contacts, pressure=pressure, seeds=10_000)
