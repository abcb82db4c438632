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
from ergode.core.errors import (
    AccuracyWarning,
    FailureWarning,
    InterruptionWarning,
    ModelError,
    PerformanceWarning,
    PlanError,
)
from ergode.core.results import SWEPT, Variable
from ergode.core.status import Status
from ergode.models.expressions import Expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.sweep import Layout, lay_out
from ergode.stochastic import methods, outputs
from ergode.stochastic.algorithms import leap
from ergode.stochastic.runners import failures
from ergode.stochastic.runners.threads import Wanted, chunks
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
    Variable(
        "count",
        (SWEPT, "time"),
        "int64",
        "1",
        "realizations that both are over: those that got there",
    ),
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
    tolerance: float | None = None,
    step: float | None = None,
    rounding: Literal["stochastic", "nearest", "down"] | None = None,
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
        time does the last: bounds hold for a share of what is left). The same holds for the
        approximate methods, whose steps pass over these times.
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
    tolerance : float, optional
        For ``"tau-leap"`` and ``"langevin"``: share by which a propensity may change in a step;
        0.03 if not given. The step is also bounded by relaxation, see ``attrs["step_error"]``.
    step : float, optional
        For the same, instead of `tolerance`: the length of every step [time].
    rounding : {"stochastic", "nearest", "down"}, optional
        How events whose `ergode.Event` does not say make whole numbers of what they assign.
    firing_limit : int
        A realization with more firings is ended, with the status ``TOO_MANY_STEPS``.
    progress : bool
        Show progress on standard error.

    Returns
    -------
    xarray.Dataset
        What is asked for, ``status`` and ``firing_count`` of every realization; where the network
        has rules also what they define. ``attrs`` say which version, method, device and network it
        comes from, and how much work it was. What a realization did not reach, because it failed
        or was not run, is missing (NaN; amounts become float64), and left out of statistics.

        For approximate methods ``attrs["step_error"]`` is the largest relative error of a variance
        that a step has for linear relaxation, (lambda step)^2 / 4; that of a mean is less. It is
        the error of the steps: the Langevin equation has an error of its own where counts are low.

    Raises
    ------
    ModelError
        Something in the network, a name or a value cannot be.
    PlanError
        The run is not possible as asked: method, output, memory.

    Warns
    -----
    FailureWarning
        Realizations failed; `status` says how.
    InterruptionWarning
        The run was interrupted (Ctrl-C): what was not reached has the status ``NOT_RUN``.
    AccuracyWarning
        An approximate method is less accurate than 10 %, or led below zero.
    PerformanceWarning
        An exact method would be faster than the approximate one.

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
    if rounding not in (None, "stochastic", "nearest", "down"):
        raise PlanError(f"rounding is {rounding!r}; expected 'stochastic', 'nearest' or 'down'")
    control = _control(method, tolerance, step, float(grid[-1]))
    layout = sweep_of(network, parameters, initial)
    started = clock.perf_counter()
    device = devices.resolve(device)
    values, start = (
        {name: layout.rows[name] for name in given or {}} for given in (parameters, initial)
    )
    tables = build(
        network, values, start, layout.count,
        stop=None if stop is None else Expression(stop), whole=method != "langevin",
        rounding=rounding,
    )  # fmt: skip
    reported = grid[-1:] if output in ("final", "first-passage", "events") else grid
    plan = methods.plan(
        method,
        network,
        tables,
        firings_most=firing_limit,
        logged=output == "events",
        realizations=layout.count * replicates,
        device=device,
        control=control,
    )
    made: dict[str, Any] = {
        "grid": reported, "begin": float(grid[0]), "seed": seed, "replicates": replicates,
        "firings_most": firing_limit,
    }  # fmt: skip
    runner = plan.runner(tables, device=device, **made)
    collect = outputs.collector(
        output, network, tables, grid, layout, replicates, bins, method != "langevin"
    )
    runner.prepare(layout.count * replicates, collect.wanted)
    prepared = clock.perf_counter()
    found = _run(runner, collect, layout.count * replicates, replicates, device, progress)
    status, firings = found["status"], found["firing_count"]
    leaps = found.pop("leaps")
    steps: dict[str, Any] = {} if plan.exact else _steps(leaps, firings, control)
    failure = failures.first(
        status, lambda where: plan.runner(tables, device=where, **made), network, tables, replicates
    )
    if failure:
        steps["first_failure"] = failure
        warnings.warn(failure, FailureWarning, stacklevel=2)
    attrs = results.provenance(
        engine="stochastic",
        method=plan.name,
        method_reason=plan.reason,
        exact=int(plan.exact),
        device=device.name,
        device_model=device.model,
        device_reason=device.reason,
        seed=str(seed),
        replicates=replicates,
        model_digest=network.digest,
        firings=int(firings.sum()),
        interrupted=int(bool((status == Status.NOT_RUN).any())),
        wall_seconds=clock.perf_counter() - prepared,
        prepare_seconds=prepared - started,
        **steps,
    )
    shape = (*layout.shape, replicates)
    found = {name: values.reshape(shape) for name, values in found.items()}
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


def _control(
    method: str, tolerance: float | None, step: float | None, end: float
) -> dict[str, np.ndarray]:
    """What controls the steps of an approximate method."""
    if method not in methods.APPROXIMATE:
        for name, value in (("tolerance", tolerance), ("step", step)):
            if value is not None:
                raise PlanError(
                    f"{name} is given, but method {method!r} takes no steps; it is for "
                    "'tau-leap' and 'langevin'"
                )
        return {}
    if tolerance is not None and step is not None:
        raise PlanError("tolerance and step are given; expected one of them")
    if tolerance is not None and not 0 < tolerance < 1:
        raise PlanError(f"tolerance is {tolerance!r}; expected a number between 0 and 1")
    if step is not None and not 0 < step < np.inf:
        raise PlanError(f"step is {step!r}; expected a time above 0")
    return leap.control(
        method == "langevin", leap.TOLERANCE if tolerance is None else tolerance, step or 0.0, end
    )


# What a step of a leap costs, and a firing between two, in firings of the direct method.
_STEP_COST, _SINGLE_COST = 30.0, 5.0
# Below zero in more than this share of steps the Langevin equation is none.
_BELOW_MOST = 0.01


def _steps(
    leaps: np.ndarray, firings: np.ndarray, control: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """What an approximate method says of its steps; warns where they are too long, or too short."""
    error = float(leaps[:, 0].max(initial=0.0))
    taken, single, below = leaps[:, 1:].sum(axis=0)
    tolerance, step, _ = control["control"]
    if error > 0.1:
        warnings.warn(
            f"the steps are long beside relaxation: the relative error of a variance is about "
            f"{error:.2g}; use a shorter step, or tolerance= instead of it",
            AccuracyWarning,
            stacklevel=3,
        )
    if below > _BELOW_MOST * max(taken, 1.0):
        warnings.warn(
            f"the Langevin equation led below zero in {100 * below / taken:.2g} % of its steps: "
            "amounts are too low for it; use 'tau-leap' or an exact method",
            AccuracyWarning,
            stacklevel=3,
        )
    if _STEP_COST * taken + _SINGLE_COST * single > firings.sum() > 0:
        warnings.warn(
            f"leaping does not pay here: {firings.sum():,.0f} firings in {taken:,.0f} steps and "
            f"{single:,.0f} single firings; an exact method (method='auto') is likely faster",
            PerformanceWarning,
            stacklevel=3,
        )
    size = {"step": float(step)} if step else {"tolerance": float(tolerance)}
    return {
        **size, "step_error": error, "steps": int(taken), "single_firings": int(single),
        "steps_below_zero": int(below),
    }  # fmt: skip


def _run(
    runner: Any,
    collect: outputs.Collector,
    total: int,
    replicates: int,
    device: devices.Device,
    show: bool,
) -> dict[str, np.ndarray]:
    """Run all realizations chunk by chunk; status, firings, times reported and steps of each."""
    status = np.full(total, Status.NOT_RUN, np.uint8)
    firings = np.zeros(total, np.int64)
    rows = np.zeros(total, np.int64)
    leaps = []
    room = int(0.4 * min(device.available_bytes(), devices.resolve("cpu").available_bytes()))
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
            rows[start:stop] = found["rows"]
            leaps.append(found["leaps"])
            collect.add(found, start)
            if (found["status"] == Status.NOT_RUN).any():
                done = int((status != Status.NOT_RUN).sum())
                if done == 0:
                    raise KeyboardInterrupt
                warnings.warn(
                    f"interrupted: {done} of {total} realizations were simulated",
                    InterruptionWarning,
                    stacklevel=3,
                )
                break
    return {
        "status": status, "firing_count": firings, "rows": rows, "leaps": np.concatenate(leaps),
    }  # fmt: skip
