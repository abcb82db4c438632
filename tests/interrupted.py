"""Runs one call that would take hours, sends it Ctrl-C, and says what came of it.

python interrupted.py CASE
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import ergode

_SECONDS = 1.5  # from the beginning of the run to Ctrl-C, at least

OSCILLATOR = {"x": "rate * y", "y": "-rate * x"}
FLIPS = [ergode.Reaction(text, rate_constant="rate") for text in ("A -> B", "B -> A")]


def _trajectories(end: float, rates: Any, **options: Any) -> Any:
    field = ergode.field_from_equations(OSCILLATOR)
    return ergode.trajectories.integrate(
        field, times=[0, end], initial={"x": 1.0, "y": 0.0}, parameters={"rate": rates},
        device="cpu:2", **options,
    )  # fmt: skip


def _stochastic(end: float, rates: Any, **options: Any) -> Any:
    network = ergode.ReactionNetwork({"A": 1000, "B": 1000}, FLIPS, {"rate": 1.0})
    return ergode.stochastic.simulate(
        network, times=[0, end], replicates=1, parameters={"rate": rates}, device="cpu:2", **options
    )


def _kinetics(end: float, amounts: Any) -> Any:
    network = ergode.ReactionNetwork(
        {"X": 1, "Y": 2},
        [
            ergode.Reaction("X -> 2 X", rate_constant=1.0),
            ergode.Reaction("X + Y -> 2 Y", rate_constant=1.0),
            ergode.Reaction("Y -> 0", rate_constant=1.0),
        ],
    )
    return ergode.kinetics.integrate(
        network, times=[0, end], initial={"X": amounts, "Y": amounts}, rtol=1e-8, device="cpu:2",
        max_steps=2**31 - 1,
    )  # fmt: skip


def _epidemics(end: float, replicates: int, method: str) -> Any:
    model = ergode.CompartmentModel.sis(
        transmission_rate=0.5, infectious=ergode.Exponential(mean=1.0)
    )
    contacts = ergode.ContactNetwork.erdos_renyi(2000, mean_degree=8, seed=1)
    step = {"step": 0.01} if "leap" in method else {}
    return ergode.epidemics.simulate(
        model, contacts, initial={"I": 100}, times=[0, end], replicates=replicates, method=method,
        device="cpu:2", **step,
    )  # fmt: skip


def _density(end: float, times: int) -> Any:
    return ergode.density.propagate(
        ergode.fields.rotation(), ergode.Gaussian([1, 0], [0.1, 0.1]),
        times=np.linspace(0, end, times), parameters={"rate": 1}, device="cpu:2", scheme="split",
    )  # fmt: skip


_MUCH = 1e9
_MIXED = [*[1e-6] * 999, 1e6]  # all but one end at once
# How each is warmed up, and what takes hours.
CASES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "fixed-step": (
        lambda: _trajectories(1e-3, [1.0, 2.0], step=1e-4, method="rk4"),
        lambda: _trajectories(2e6, 1.0, step=1e-3, method="rk4"),
    ),
    "adaptive": (
        lambda: _trajectories(1e4, [1e-6] * 1000),
        lambda: _trajectories(1e4, _MIXED, max_steps=2**31 - 1),
    ),
    "stiff": (
        lambda: _trajectories(1, [1.0, 2.0], method="rodas5p"),
        lambda: _trajectories(_MUCH, 1.0, method="rodas5p", max_steps=2**31 - 1),
    ),
    "stochastic": (lambda: _stochastic(1e-3, [1e-6] * 1000), lambda: _stochastic(1e3, _MIXED)),
    "stochastic-statistics": (
        lambda: _stochastic(0.1, [1.0, 2.0], output="statistics"),
        lambda: _stochastic(1e3, 1e6, output="statistics"),
    ),
    "stochastic-sums": (
        lambda: _stochastic(1e-3, [1e-6] * 1000, output="statistics"),
        lambda: _stochastic(1e3, _MIXED, output="statistics"),
    ),
    "kinetics": (lambda: _kinetics(1, [1.0, 2.0]), lambda: _kinetics(_MUCH, [1.0, 2.0])),
    "sellke": (lambda: _epidemics(1, 2, "sellke"), lambda: _epidemics(1e7, 1, "sellke")),
    "leap": (lambda: _epidemics(1, 2, "markov-leap"), lambda: _epidemics(1e7, 1, "markov-leap")),
    "density": (lambda: _density(0.01, 2), lambda: _density(1e4, 100_001)),
}


def main(name: str) -> None:
    """Print what came of a case as JSON."""
    warm, long = CASES[name]
    warm()
    started = time.monotonic()
    warm()  # all but the run itself
    wait = _SECONDS + 3 * (time.monotonic() - started)
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(wait, interrupt).start()
    found: dict[str, Any] = {"raised": None, "attrs": {}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = long()
        except KeyboardInterrupt as error:
            found["raised"] = type(error).__name__
        else:
            found["attrs"] = {k: result.attrs.get(k) for k in ("interrupted", "ended_early")}
            if "status" in result:
                found["status"] = result["status"].values.ravel().tolist()
            if "state" in result:
                ends = result["state"].isel(time=-1, variable=0).values
                found["missing"] = np.isnan(ends).ravel().tolist()
    found["seconds"] = time.process_time() - sent[0] if sent else None
    found["warnings"] = [str(one.message) for one in caught]
    print(json.dumps(found), flush=True)
    os._exit(0)  # without waiting for what goes on in the background


if __name__ == "__main__":
    main(sys.argv[1])
