"""Sends Ctrl-C to calls at drawn moments, and compares what is returned with the whole result.

python interrupted_rows.py ENGINE SEED
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import ergode

Result = Any
NOT_RUN = int(ergode.Status.NOT_RUN)
DEVICE = "cpu:2"

FLIPS = ergode.ReactionNetwork(
    {"A": 20, "B": 20},
    [ergode.Reaction(text, rate_constant="rate") for text in ("A -> B", "B -> A")],
    {"rate": 1.0},
)
PREDATORS = ergode.ReactionNetwork(
    {"X": 1, "Y": 2},
    [
        ergode.Reaction("X -> 2 X", rate_constant=1.0),
        ergode.Reaction("X + Y -> 2 Y", rate_constant=1.0),
        ergode.Reaction("Y -> 0", rate_constant=1.0),
    ],
)
OSCILLATOR = {"x": "rate * y", "y": "-rate * x"}


def stochastic(replicates: int, output: str, **options: Any) -> Result:
    """Two species that turn into each other."""
    return ergode.stochastic.simulate(
        FLIPS, times=np.linspace(0, 5, 6), replicates=replicates, output=output, device=DEVICE,
        **options,
    )  # fmt: skip


def trajectories(count: int, **options: Any) -> Result:
    """Oscillators of many frequencies."""
    return ergode.trajectories.integrate(
        ergode.field_from_equations(OSCILLATOR), times=np.linspace(0, 40, 5),
        initial={"x": 1.0, "y": 0.0}, parameters={"rate": np.linspace(0.5, 3, count)},
        device=DEVICE, **options,
    )  # fmt: skip


def kinetics(count: int) -> Result:
    """Predators and prey in many zones."""
    initial = {"X": np.linspace(1, 2, count), "Y": np.ones(count)}
    return ergode.kinetics.integrate(
        PREDATORS, times=np.linspace(0, 60, 7), initial=initial, rtol=1e-6, device=DEVICE
    )


def epidemics(replicates: int, method: str, output: str, **options: Any) -> Result:
    """An epidemic on a random network; points of a sweep if there are parameters."""
    name = "sir" if method == "first-passage" else "sis"

    def model(rate: float) -> Any:
        return getattr(ergode.CompartmentModel, name)(
            transmission_rate=rate, infectious=ergode.Exponential(mean=1.0)
        )

    return ergode.epidemics.simulate(
        model if "parameters" in options else model(0.5),
        ergode.ContactNetwork.erdos_renyi(500, mean_degree=8, seed=1),
        initial={"I": 25}, times=np.linspace(0, 10, 11), replicates=replicates, method=method,
        output=output, device=DEVICE, **options,
    )  # fmt: skip


# The calls of each engine: what is compared, with what, and how.
Case = tuple[Callable[[], Result], Callable[[], Result] | None]
_ROWS = partial(stochastic, 300_000, "trajectories")
_SWEPT = {"parameters": ergode.grid(rate=[0.4, 0.6])}
CASES: dict[str, dict[str, Case]] = {
    "stochastic": {
        "trajectories": (_ROWS, None),
        "final": (partial(stochastic, 300_000, "final"), None),
        "statistics": (partial(stochastic, 300_000, "statistics"), _ROWS),
        "histogram": (partial(stochastic, 300_000, "histogram"), _ROWS),
        "events": (partial(stochastic, 5_000, "events"), None),
        "first-passage": (partial(stochastic, 60_000, "first-passage", stop="A < 12"), None),
    },
    "trajectories": {
        "fixed": (partial(trajectories, 100_000, method="rk4", step=1e-2), None),
        "adaptive": (partial(trajectories, 100_000), None),
        "stiff": (partial(trajectories, 20_000, method="rodas5p"), None),
    },
    "kinetics": {"zones": (partial(kinetics, 2_000), None)},
    "epidemics": {
        "first-passage": (partial(epidemics, 400, "first-passage", "counts"), None),
        "line list": (partial(epidemics, 400, "first-passage", "line_list"), None),
        "swept": (partial(epidemics, 200, "first-passage", "counts", **_SWEPT), None),
        "statistics": (
            partial(epidemics, 400, "first-passage", "statistics"),
            partial(epidemics, 400, "first-passage", "counts"),
        ),
        "sellke": (partial(epidemics, 100, "sellke", "counts"), None),
        "gillespie": (partial(epidemics, 400, "gillespie", "counts"), None),
        "leap": (partial(epidemics, 400, "markov-leap", "counts", step=0.01), None),
    },
}


def problems(name: str, whole: Result, base: Result, found: Result) -> list[str]:
    """What is wrong with an interrupted result, by the whole one or the rows that it is made of."""
    status = found["status"].values if "status" in found else None
    done = np.zeros(0, bool) if status is None else status != NOT_RUN
    wrong = []
    if name == "line list":
        some = int(found.attrs["replicates"])
        kept = whole["replicate"].values < some
        pairs = [(one, found[one].values, whole[one].values[kept]) for one in found.data_vars]
        return [one for one, mine, theirs in pairs if not _same(mine, theirs)]
    if name == "events":
        kept = done[whole["realization"].values]
        for one in ("firing_time", "reaction", "realization"):
            if not _same(found[one].values, whole[one].values[kept]):
                wrong.append(one)
    if base is not None:
        wrong += _wrong_statistics(found, base, done)
    for one in found.data_vars:
        mine, rows = found[one], found["status"].dims
        if (base is not None and one != "status") or mine.dims[: len(rows)] != rows:
            continue
        theirs = whole[one].values[tuple(slice(size) for size in done.shape)]
        if not _same(mine.values[done], theirs[done].astype(mine.dtype)):
            wrong.append(f"{one} of what was done")
        left = mine.values[~done]
        if one != "status" and left.size and not ((left == 0) | np.isnan(left)).all():
            wrong.append(f"{one} of what was not run")
        if "time" in mine.dims and not np.isnan(left).all():
            wrong.append(f"{one} over time of what was not run")
    return wrong


def _wrong_statistics(found: Result, base: Result, done: np.ndarray) -> list[str]:
    name = "amount" if "amount" in base else "count"
    rows = base[name].values[: done.size][done].astype(np.float64)
    if "histogram" in found:
        bins = found["histogram"].values
        wanted = np.stack([(rows == k).sum(axis=0) for k in range(bins.shape[-1])], axis=-1)
        return [] if _same(bins, wanted) else ["histogram"]
    wrong = [] if np.allclose(found["mean"], rows.mean(axis=0), rtol=1e-13) else ["mean"]
    if not np.allclose(found["variance"], rows.var(axis=0, ddof=1), rtol=1e-9):
        wrong.append("variance")
    if "count" in found and not (found["count"] == done.sum()).all():
        wrong.append("count")
    return wrong


def _same(mine: np.ndarray, theirs: np.ndarray) -> bool:
    return mine.shape == theirs.shape and mine.tobytes() == theirs.astype(mine.dtype).tobytes()


def interrupt(call: Callable[[], Result], seconds: float) -> dict[str, Any]:
    """What a call returns that is sent Ctrl-C after so many seconds, and what it says."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, send)
    told: dict[str, Any] = {"result": None, "seconds": None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            timer.start()
            told["result"] = call()
            timer.cancel()
            timer.join()
        except KeyboardInterrupt:
            pass
        if sent:
            told["seconds"] = time.process_time() - sent[0]
    said = [re.search(r"interrupted: (\d+) of (\d+)", str(one.message)) for one in caught]
    told["said"] = [[int(number) for number in one.groups()] for one in said if one]
    return told


def examine(name: str, case: Case, draw: random.Random) -> dict[str, Any]:
    """What was found of one call."""
    call, other = case
    base = other() if other else None
    if other is None:
        call()  # compiles
    started = time.monotonic()
    whole = call()
    took = time.monotonic() - started
    told = interrupt(call, draw.uniform(0.1, 0.8) * took)
    found, said = told.pop("result"), told.pop("said")
    told |= {"case": name, "wrong": [], "part": None}
    if found is None or told["seconds"] is None:
        return told
    if "status" in found:
        status = found["status"].values
        done, total = int((status != NOT_RUN).sum()), int(np.prod(whole["status"].shape))
    else:
        done, total = int(found.attrs["replicates"]), int(whole.attrs["replicates"])
    told["part"] = done / total
    if said != [[done, total]]:
        told["wrong"].append(f"said {said}, and {done} of {total} were done")
    told["wrong"] += problems(name, whole, base, found)
    return told


def main(engine: str, seed: str) -> None:
    """Print what was found of every call of an engine as JSON."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    draw = random.Random(f"{engine} {seed}")
    found = [examine(name, case, draw) for name, case in CASES[engine].items()]
    print(json.dumps(found), flush=True)
    os._exit(0)  # without waiting for what goes on in the background


if __name__ == "__main__":
    main(*sys.argv[1:])
