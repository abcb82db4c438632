"""Stochastic simulation: from a network of reactions to labelled results."""

from __future__ import annotations

import time as clock
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core import progress as progress_bar
from ergode.core.arguments import integer, time_grid
from ergode.core.errors import ModelError, PlanError
from ergode.core.results import SWEPT, Variable
from ergode.core.status import Status
from ergode.models.expressions import Expression
from ergode.models.reaction_network import ReactionNetwork
from ergode.models.sweep import Layout, lay_out
from ergode.stochastic import methods, outputs
from ergode.stochastic.ensemble import Wanted, chunks
from ergode.stochastic.tables import build

if TYPE_CHECKING:
    import xarray

Output = Literal["trajectories", "statistics", "histogram", "final", "first-passage", "events"]
Method = Literal[
    "auto", "direct", "warp-direct", "partial-propensity", "composition-rejection",
    "rejection-bounds", "next-reaction", "tau-leap", "langevin",
]  # fmt: skip

_REPLICATE = (SWEPT, "replicate")
_STATUS = [
    Variable("status", _REPLICATE, "uint8", "1", "how the realization ended (see Status)"),
    Variable("firing_count", _REPLICATE, "int64", "1", "reactions that fired"),
]
_GRID = (SWEPT, "replicate", "time")

results.register(
    "stochastic",
    "trajectories",
    [Variable("amount", (*_GRID, "species"), "number", "1", "molecules at a time"), *_STATUS],
)
results.register(
    "stochastic",
    "trajectories and rules",
    [
        Variable("amount", (*_GRID, "species"), "number", "1", "molecules at a time"),
        Variable("value", (*_GRID, "rule"), "float64", "1", "what a rule defines, at a time"),
        *_STATUS,
    ],
)
_STATISTICS = [
    Variable("mean", (SWEPT, "time", "species"), "float64", "1", "mean of the amount"),
    Variable("variance", (SWEPT, "time", "species"), "float64", "1", "unbiased variance of it"),
    Variable("count", (SWEPT, "time"), "int64", "1", "realizations that both are over"),
    *_STATUS,
]
results.register("stochastic", "statistics", _STATISTICS)
results.register(
    "stochastic",
    "statistics and rules",
    [
        *_STATISTICS,
        Variable("value_mean", (SWEPT, "time", "rule"), "float64", "1", "mean of a rule's value"),
        Variable("value_variance", (SWEPT, "time", "rule"), "float64", "1", "its variance"),
    ],
)
results.register(
    "stochastic",
    "histogram",
    [
        Variable(
            "histogram", (SWEPT, "time", "species", "bin"), "int64", "1",
            "realizations with an amount in a bin",
        ),
        *_STATUS,
    ],
)  # fmt: skip
results.register(
    "stochastic",
    "final",
    [
        Variable("amount", (*_REPLICATE, "species"), "number", "1", "molecules at the last time"),
        *_STATUS,
    ],
)
results.register(
    "stochastic",
    "first-passage",
    [
        Variable(
            "passage_time", _REPLICATE, "float64", "time",
            "when the condition was first met; NaN if it was not",
        ),
        *_STATUS,
    ],
)  # fmt: skip
results.register(
    "stochastic",
    "events",
    [
        Variable("firing_time", ("firing",), "float64", "time", "when a reaction fired"),
        Variable("reaction", ("firing",), "int32", "1", "which, in the network's order"),
        Variable(
            "realization",
            ("firing",),
            "int64",
            "1",
            "number of the realization it was in, over all points of a sweep",
        ),
        *_STATUS,
    ],
)


def simulate(
    network: ReactionNetwork,
    *,
    times: ArrayLike,
    replicates: int = 1,
    seed: int = 0,
    method: Method = "auto",
    device: str | devices.Device = "auto",
    output: Output = "trajectories",
    parameters: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
    stop: str | None = None,
    bins: ArrayLike | None = None,
    firing_limit: int = 10**9,
    progress: bool = False,
) -> xarray.Dataset:
    """Simulate realizations of a reaction network.

    Parameters
    ----------
    network : ReactionNetwork
    times : array_like, shape [time_count]
        Ascending grid, at least two times: realizations begin at the first and end at the last
        [time]. Which times are asked for does not change a realization (only where a rate follows
        time does the last: bounds hold for a share of what is left).
    replicates : int
        Realizations, of every point of a sweep.
    seed : int
        Key of all random numbers, 0 to 2^64 - 1. Replicate k has the same random numbers at every
        point of a sweep.
    method : str
        ``"direct"``, ``"warp-direct"``, ``"partial-propensity"``, ``"composition-rejection"``,
        ``"rejection-bounds"`` and ``"next-reaction"`` are exact; ``"tau-leap"`` and
        ``"langevin"`` are approximations. ``"auto"`` is an exact one, chosen by the size of the
        network, how strongly it is coupled and what its rates are; ``attrs["method_reason"]``
        says why.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    output : {"trajectories", "statistics", "histogram", "final", "first-passage", "events"}
        Amounts of every realization; their means and variances over realizations; how often they
        fall into each of `bins`; amounts at the last time; when `stop` was first met; every
        firing.
    parameters, initial : mapping of str to float or array_like
        Other values of parameters and compartments, and of what there is of a species at the
        beginning. Arrays of one length run side by side along the dim ``trajectory``; in
        `ergode.grid` every array is crossed with every other and becomes a dim of its own.
    stop : str, optional
        A condition that ends a realization, such as ``"X > 100"``; it is looked at after every
        firing. From then on the state in which it ended is reported.
    bins : array_like, shape [bin_count + 1], optional
        Edges of the bins of ``"histogram"``; one bin a whole number if not given.
    firing_limit : int
        A realization with more firings is ended, with the status ``TOO_MANY_STEPS``.
    progress : bool
        Show progress on standard error.

    Returns
    -------
    xarray.Dataset
        What is asked for, ``status`` and ``firing_count`` of every realization; where the network
        has rules also what they define. ``attrs`` say which version, method, device and network it
        comes from, and how much work it was.

    Raises
    ------
    ModelError
        Something in the network, a name or a value cannot be.
    PlanError
        The run is not possible as asked: method, output, memory.

    Warns
    -----
    RuntimeWarning
        The run was interrupted (Ctrl-C): what was not reached has the status ``NOT_RUN``.

    References
    ----------
    D. T. Gillespie, "Exact stochastic simulation of coupled chemical reactions", J. Phys. Chem.
    81 (1977). I. Komarov, R. M. D'Souza, "Accelerating the Gillespie exact stochastic simulation
    algorithm using hybrid parallel execution on graphics processing units", PLoS ONE 7 e46693
    (2012).

    Examples
    --------
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 0},
    ...     [
    ...         ergode.Reaction("0 -> X", rate_constant=10.0),
    ...         ergode.Reaction("X -> 0", rate_constant=0.1),
    ...     ],
    ... )
    >>> result = ergode.stochastic.simulate(
    ...     network, times=[0, 50, 100], replicates=100, seed=1, device="cpu"
    ... )
    >>> dict(result.sizes)
    {'replicate': 100, 'time': 3, 'species': 1}
    """
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
    grid = time_grid(times)
    if grid.size < 2:
        raise ModelError("times has one time; expected at least when to begin and when to end")
    replicates = integer("replicates", replicates, 1, 2**32 - 1)
    seed = integer("seed", seed, 0, 2**64 - 1)
    firing_limit = integer("firing_limit", firing_limit, 1, 2**62)
    if output not in (
        "trajectories",
        "statistics",
        "histogram",
        "final",
        "first-passage",
        "events",
    ):
        raise PlanError(
            f"output {output!r} is unknown; expected 'trajectories', 'statistics', 'histogram', "
            "'final', 'first-passage' or 'events'"
        )
    if output == "first-passage" and stop is None:
        raise PlanError("output 'first-passage' needs a condition: stop='X > 100'")
    if stop is not None:
        network.check_formula(Expression(stop), "stop")
    layout = sweep_of(network, parameters, initial)
    started = clock.perf_counter()
    place = devices.resolve(device)
    values, start = (
        {name: layout.rows[name] for name in given or {}} for given in (parameters, initial)
    )
    tables = build(
        network, values, start, layout.count,
        stop=None if stop is None else Expression(stop), whole=method != "langevin",
    )  # fmt: skip
    reported = grid[-1:] if output in ("final", "first-passage", "events") else grid
    plan = methods.plan(
        method,
        network,
        tables,
        firings_most=firing_limit,
        logged=output == "events",
        realizations=layout.count * replicates,
        device=place,
    )
    runner = plan.runner(
        tables, grid=reported, begin=float(grid[0]), seed=seed, replicates=replicates,
        firings_most=firing_limit, device=place,
    )  # fmt: skip
    collect = outputs.collector(
        output, network, tables, grid, layout, replicates, bins, method != "langevin"
    )
    runner.prepare(layout.count * replicates, collect.wanted)
    prepared = clock.perf_counter()
    status, firings = _run(runner, collect, layout.count * replicates, replicates, place, progress)
    attrs = results.provenance(
        engine="stochastic",
        method=plan.name,
        method_reason=plan.reason,
        exact=int(plan.exact),
        device=place.name,
        device_model=place.model,
        device_reason=place.reason,
        seed=str(seed),
        replicates=replicates,
        model_digest=network.digest,
        firings=int(firings.sum()),
        interrupted=int(bool((status == Status.NOT_RUN).any())),
        wall_seconds=clock.perf_counter() - prepared,
        prepare_seconds=prepared - started,
    )
    shape = (*layout.shape, replicates)
    found = {"status": status.reshape(shape), "firing_count": firings.reshape(shape)}
    coords = {"time": grid, "species": [member.name for member in network.species], **layout.coords}
    return collect.dataset(found, coords, attrs)


def sweep_of(
    network: ReactionNetwork,
    parameters: Mapping[str, Any] | None,
    initial: Mapping[str, Any] | None,
) -> Layout:
    """Points of a sweep.

    Raises
    ------
    ModelError
        A name is neither a parameter nor a compartment, or not a species; or a value cannot be.
    """
    given = {"parameters": parameters or {}, "initial": initial or {}}
    for argument, mapping in given.items():
        if not isinstance(mapping, Mapping):
            raise ModelError(
                f"{argument} is {type(mapping).__name__}; expected a mapping of names to values"
            )
    network.evaluate_parameters(dict.fromkeys(given["parameters"], 1.0))
    for name in given["initial"]:
        if name not in network.index:
            raise ModelError(f"initial has '{name}', which is not a species of the network")
    return lay_out({argument: list(mapping) for argument, mapping in given.items()}, given)


def _run(
    runner: Any,
    collect: outputs.Collector,
    total: int,
    replicates: int,
    place: devices.Device,
    show: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Run all realizations chunk by chunk; status and number of firings of each."""
    status = np.full(total, Status.NOT_RUN, np.uint8)
    firings = np.zeros(total, np.int64)
    room = int(0.4 * min(place.available_bytes(), devices.resolve("cpu").available_bytes()))
    row_bytes = runner.row_bytes(collect.wanted)
    spans: Sequence[tuple[int, int]] = chunks(total, replicates, row_bytes, room)
    with progress_bar.track("stochastic", total, unit="realizations", show=show) as report:
        for start, stop in spans:
            found = runner.run(start, stop - start, collect.wanted, report)
            if collect.wanted.log_first:
                counts = found["firings"]
                wanted = Wanted(log_counts=counts)
                found = runner.run(start, stop - start, wanted, lambda _: None)
            status[start:stop] = found["status"]
            firings[start:stop] = found["firings"]
            collect.add(found, start)
            if (found["status"] == Status.NOT_RUN).any():
                done = int((status != Status.NOT_RUN).sum())
                if done == 0:
                    raise KeyboardInterrupt
                warnings.warn(
                    f"interrupted: {done} of {total} realizations were simulated",
                    RuntimeWarning,
                    stacklevel=3,
                )
                break
    return status, firings
