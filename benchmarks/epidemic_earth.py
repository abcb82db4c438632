"""Epidemics of everyone on Earth: exact SEIR on random regular networks that are computed.

Rows are the time, arcs a second, the largest memory (of the process, or in use on the GPU), and the
error of the attack rate by theory.  `first_passage.computed_cuda` has the bytes that a GPU has to
move, and what bounds it.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile

import numpy as np
from epidemic_cases import INFECTIOUS, LATENT, SEIR, call
from scipy.integrate import quad

import ergode

DEGREE = 8
SEEDS = 100
ON_CUDA = (1_000_000, 100_000_000, 1_000_000_000, 8_000_000_000)
ON_CPU = (1_000_000, 10_000_000)
TIMES = np.arange(151.0)  # days
SLOW = ergode.CompartmentModel.seir(
    transmission_rate=0.05, latent=LATENT, infectious=INFECTIOUS
)  # of which a sixth escapes, so that an error of the attack rate would be seen


def earth(options, rows):
    """Time and memory by size; at the smallest size, equality with the stored copy."""
    sizes = ON_CUDA if options.device == "cuda" else ON_CPU
    for size in sizes[: 1 if options.quick else None]:
        contacts = ergode.ComputedNetwork.random_regular(size, DEGREE, seed=1)
        case = f"earth N={size:.0e} d={DEGREE}".replace("e+0", "e")
        chosen = {"times": TIMES, "initial": {"E": SEEDS}}
        ours = call(options.place, SEIR, contacts, **chosen)
        found = rows.measure(case, ours, repeats=2)
        rows.add(case, "memory", largest_memory(options, ours) / 1e9, "GB")
        rows.add(case, "time", found.seconds, "s")
        rows.add(case, "arcs a second", size * DEGREE / found.seconds / 1e9, "1e9/s")
        work = found.result.attrs
        rows.add(case, "expansions a case", work["expansions"] / _cases(found.result), "1")
        rows.add(case, "passes", work["passes"], "1")
        if size == sizes[0]:
            stored = call(options.place, SEIR, contacts.stored(), **chosen)()
            equal = (stored["count"].values == found.result["count"].values).all()
            rows.add(case, "equal to the stored copy", int(equal), "1")
        if size <= 100_000_000:
            slow = call(
                options.place, SLOW, contacts, times=[0.0, 1000.0], initial={"E": size // 1000}
            )()
            expected = attack_rate(0.05)
            rows.add(case, "error of the attack rate", _cases(slow) / size - expected, "1")


def largest_memory(options, work):
    """Largest memory while some work is done [bytes]: of this process, or in use on the GPU."""
    if options.device != "cuda":
        work()
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    query = "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 50"
    with tempfile.TemporaryFile("w+") as samples:
        watch = subprocess.Popen(query.split(), stdout=samples)
        try:
            work()
        finally:
            watch.terminate()
            watch.wait()
        samples.seek(0)
        found = [int(line) for line in samples.read().split("\n")[:-1] if line.strip().isdigit()]
    return 2**20 * max(found, default=0)


def attack_rate(rate):
    """Fraction of a large random regular network that is ever infected, in a large outbreak."""
    passes, _ = quad(lambda t: rate * np.exp(-rate * t) * INFECTIOUS.survival(t), 0, np.inf)
    escapes = 0.5
    for _ in range(1000):
        escapes = 1 - passes + passes * escapes ** (DEGREE - 1)
    return 1 - escapes**DEGREE


def _cases(result):
    return int(result["cases"][0, -1])
