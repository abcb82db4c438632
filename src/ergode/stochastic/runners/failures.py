"""The cause of the first failed realization: its reaction, state and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ergode.core import devices
from ergode.core.errors import ModelError
from ergode.core.status import Status, has_failed
from ergode.models.expressions import TIME, Expression
from ergode.stochastic.kernel.outcomes import COUNT_LIMIT, WHOLE_LIMIT
from ergode.stochastic.laws import Formula, law_of
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.tables import Tables

_SHOWN_MOST = 8
_ADDED = " (statistics of parts add squares below 2^31; output='trajectories' has none)"


def first(
    status: np.ndarray, runner_on: Callable[..., Any], tables: Tables, replicates: range
) -> str:
    """A sentence about the first failed realization; empty if none failed.

    That realization is simulated again on the CPU, to find the state in which it ended. Ctrl-C
    stops only this diagnosis.
    """
    failed = np.flatnonzero(has_failed(status) & (status != Status.NOT_RUN))
    if not failed.size:
        return ""
    number = int(failed[0])
    runner = runner_on(device=devices.resolve("cpu:1"))
    try:
        for statistics in (False, True):  # these end some that amounts do not
            wanted = Wanted(states=True, statistics=statistics)
            found = runner.run(number, 1, wanted, lambda _: None)
            if found["status"][0] == status[number]:
                break
    except KeyboardInterrupt:
        return ""
    if found["status"][0] != status[number]:
        return ""  # rounding differs between devices
    time, state = float(found["ended"][0]), found["states"][0]
    shown = [
        f"{member.name} = {x:g}" for member, x in zip(tables.network.species, state, strict=True)
    ]
    if len(shown) > _SHOWN_MOST:
        shown = [*shown[:_SHOWN_MOST], "..."]
    point, replicate = divmod(number, len(replicates))
    return (
        f"replicate {replicates[replicate]}"
        f"{f' of point {point}' if len(tables.net.initial) > 1 else ''} failed at time {time:.9g}"
        f"{_reasons(tables, point, time, state, runner.are_real)}; the state was {', '.join(shown)}"
    )


def _reasons(
    tables: Tables, point: int, time: float, state: np.ndarray, are_real: np.ndarray
) -> str:
    """Amounts and propensities that are not valid."""
    network = tables.network
    found = [
        f"there were {x:g} of '{member.name}'{_ADDED if COUNT_LIMIT <= x < WHOLE_LIMIT else ''}"
        for member, x, real in zip(network.species, state, are_real, strict=True)
        if not (0 <= x < COUNT_LIMIT or (real and abs(x) < np.inf))
    ]
    naming = tables.naming
    # Values of parameters that events change are not known here.
    if len(naming.variables) == len(network.species):
        known: dict[str, Any] = {TIME: time}
        known |= dict(zip(naming.parameters, tables.net.parameters[point], strict=False))
        for member, x in zip(network.species, state, strict=True):
            size = naming.size_of(member.name)
            known[member.name] = float(x) if size is None else float(x) / known[size]
        for k in range(len(network.reactions) if len(found) == 0 else 0):
            law = law_of(network, naming, k)
            value = law.expression if isinstance(law, Formula) else law.coefficient
            try:
                rate = value.evaluate(known) if isinstance(value, Expression) else value
            except ModelError:  # it has no value there
                rate = np.nan
            for i, order in law.orders.items():
                for below in range(order):
                    rate *= state[i] - below
            if not 0 <= rate < np.inf:
                name = network.reactions.name_of(k)
                found.append(f"the propensity of reaction '{name}' was {rate:g}")
    return f": {', '.join(found)}" if found else ""
