"""Public function `simulate`: from a reaction network to labelled results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import arguments, devices, log, results
from ergode.core.calls import launch
from ergode.core.calls.divide import Executor, StorePath, divisible, replicates_of
from ergode.core.calls.job import Job, Whole
from ergode.core.calls.launch import check_room
from ergode.core.errors import FailureWarning, ModelError, PlanError
from ergode.core.status import Status
from ergode.core.stopwatch import Stopwatch
from ergode.models.expressions import Expression, check_condition
from ergode.models.reactions.events import Rounding
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.sweep import POINT, REPLICATES_MOST, Layout, lay_out, replicates_apart
from ergode.stochastic import methods, outputs
from ergode.stochastic.merge import merge_of
from ergode.stochastic.runners import failures
from ergode.stochastic.runners.chunks import simulate_chunks
from ergode.stochastic.steps import describe_partition, describe_steps, step_control
from ergode.stochastic.to_tables import build

if TYPE_CHECKING:
    import xarray

_LEAST_CONTINUOUS = 100
Output = Literal["trajectories", "statistics", "histogram", "final", "first-passage", "events"]


@divisible("stochastic", replicates_of, merge_of, dict.fromkeys(("initial", "parameters"), POINT))
def simulate(
    whole: Whole,
    network: ReactionNetwork,
    *,
    times: ArrayLike,
    replicates: int | range = 1,
    common_random_numbers: bool = True,
    seed: int = 0,
    method: methods.MethodName = "auto",
    device: str | devices.Device = "auto",
    keep_on_device: bool = False,
    output: Output = "trajectories",
    parameters: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
    stop: str | None = None,
    bins: ArrayLike | None = None,
    tolerance: float | None = None,
    step: float | None = None,
    max_step: float | None = None,
    continuous_above: float | None = None,
    rounding: Rounding | None = None,
    max_firings: int = 10**9,
    progress: bool = False,
    executor: Executor | None = None,
    store: StorePath | None = None,
    chunk: int | None = None,
) -> Job:
    """Simulate realizations of a reaction network.

    Parameters
    ----------
    network : ReactionNetwork
    times : array_like, shape [time_count]
        Ascending grid of at least two times [time]. Realizations begin at the first and end at
        the last. The grid does not change a realization of an exact method, except where a rate
        depends on time: its bounds depend on the last time. Nor does it change the steps of
        approximate methods; but they interpolate at random, which changes the realization.
    replicates : int or range
        Number of realizations of each point of a sweep; or their numbers: ``range(50, 100)`` gives
        those rows of ``replicates=100``, bit for bit. `ergode.concat` joins parts.
    common_random_numbers : bool
        Whether replicate r of all points of a sweep uses the same random numbers, so that points
        differ by their parameters alone. False makes all points independent, as simulation-based
        inference needs them: replicate r of point j of n is replicate
        ``j * ((2**32 - 1) // n) + r`` of a call for this point alone, bit for bit.
    seed : int
        Key of all random numbers, 0 to 2^64 - 1.
    method : str
        ``"auto"`` chooses one of the exact methods by the size of the network, how strongly it is
        coupled and what its rates are; ``attrs["method_reason"]`` says why.

        - ``"direct"``: one search over all reactions (Gillespie 1977); for networks of up to 64
          reactions
        - ``"warp-direct"``: a search in three levels (Komarov & D'Souza 2012); for larger networks
          that are strongly coupled, with any rates
        - ``"partial-propensity"``: sums of partial propensities (Ramaswamy et al. 2009); for larger
          networks that are strongly coupled, with mass action of at most two molecules
        - ``"composition-rejection"``: constant time a firing (Slepoy et al. 2008); for larger
          networks that are weakly coupled
        - ``"rejection-bounds"``: bounds of propensities (Thanh et al. 2014); for rates that depend
          on time, and rates that are expensive
        - ``"next-reaction"``: a clock for each reaction (Gibson & Bruck 2000); for sensitivities
        - ``"hybrid"``: differential equations between firings (Haseltine & Rawlings 2002); for rate
          rules and continuous species, exact up to `tolerance`
        - ``"tau-leap"``: an approximation by many firings in one step (Anderson & Koyama 2012);
          for many molecules
        - ``"langevin"``: an approximation by the chemical Langevin equation (Gillespie 2000), in
          real amounts; for many molecules
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    keep_on_device : bool
        Whether the result stays on the device: the call returns a `DeviceResult` of NumPy arrays
        (CPU) or CuPy arrays (CUDA), which PyTorch and JAX read without a copy. Not for
        ``"statistics"`` and ``"events"``, nor with `executor`, `store` or several devices. Values
        of rules are computed on the host.
    output : {"trajectories", "statistics", "histogram", "final", "first-passage", "events"}
        Amounts of every realization; means and variances over realizations; counts of realizations
        in each of `bins`; amounts at the last time, with the time at which `stop` held, if it is
        given; the first time at which `stop` holds; every firing.
    parameters, initial : mapping of str to float or array_like
        Values that replace parameters, compartments and initial amounts of the network, or the
        initial concentration of a species that is given by its concentration. Arrays of
        equal length are swept together along the dim ``point``; `ergode.grid` crosses all arrays,
        and each becomes a dim of its own.
    stop : str, optional
        A condition that ends a realization, such as ``"X > 100"``; it is checked after every
        firing, and with ``"hybrid"`` at all times. The final state is reported at all later times.
    bins : array_like, shape [bin_count + 1], optional
        Edges of the bins of ``"histogram"``; the default is one bin per integer. The last bin
        includes its upper edge. ``below`` and ``above`` count the realizations outside.
    tolerance : float, optional
        For ``"tau-leap"`` and ``"langevin"``: relative change of a propensity allowed in a step, at
        least 1e-10; the default is 0.03. The step is also bounded by relaxation, see
        ``attrs["step_error"]``. For ``"hybrid"``: relative error of a step of the differential
        equations; the default is 1e-6. Amounts below one have this error absolutely.
    step : float, optional
        For ``"tau-leap"`` and ``"langevin"``, instead of `tolerance`: a fixed step [time].
    max_step : float, optional
        For ``"hybrid"``: largest step of the differential equations [time]. A pulse of a rate in
        time that is shorter than a step may be stepped over: choose less than its duration.
    continuous_above : float, optional
        For ``"hybrid"``: molecules from which a species may be continuous, at least 100; 1000 is
        usual. A reaction obeys the chemical Langevin equation while every species that it changes
        has so many molecules and it fires often. Below half of these limits it fires one by one
        again. Its firings then become a whole number, which keeps all means and conserved
        quantities. Amounts are real numbers while a reaction that changes them is continuous. The
        default `tolerance` is 1e-4 then. Not for ``output="events"``. ``device="auto"`` is the CPU.
    rounding : {"stochastic", "nearest", "down"}, optional
        How events round assigned values to integers, if their `ergode.Event` does not specify it.
    max_firings : int
        Limit on the firings of a realization. For ``"tau-leap"`` and ``"langevin"`` it is the limit
        on the steps, with the firings outside of steps; for ``"hybrid"`` also that on the steps of
        the differential equations. Beyond it, the realization ends with the status
        ``TOO_MANY_STEPS``.
    progress : bool
        Show progress on standard error.
    executor : concurrent.futures.Executor, optional
        Computes parts of the replicates on its workers: a process pool, Dask, MPI. The result
        is bitwise equal to that without it.
    store : path, optional
        A folder such as ``"run.zarr"`` to which finished parts are written. A repeated call
        computes only the missing parts.
    chunk : int, optional
        Number of replicates in a part; the default is 1/64 of all.

    Returns
    -------
    xarray.Dataset
        The requested output, ``status`` and ``firing_count`` of every realization, and the values
        of the network's rules, and of parameters and compartments with a rate rule. ``attrs``
        record version, method, device and network, and counters of the work done. Values that a
        realization did not reach, because it failed or was not run, are missing (NaN; amounts
        become float64) and excluded from statistics.

        For approximate methods ``attrs["step_error"]`` is the discretization error for linear
        relaxation: the larger of the relative error of a variance, (lambda step)^2 / 4, and the
        bias of a mean in standard deviations. The Langevin equation has a further error when
        molecules are few, which `step_error` does not include: ``attrs["few_molecules"]`` is the
        fraction of the time with fewer than 10 molecules of some reactant. ``"tau-leap"`` fires
        such reactions one by one and does not have this error. With `continuous_above`,
        ``attrs["partition_error"]`` bounds the relative error of the diffusion approximation by one
        over the smallest continuous amount, and ``attrs["continuous_share"]`` is the fraction of
        firings that were continuous; ``firing_count`` has the others.

    Raises
    ------
    ModelError
        The network, a name or a value is invalid.
    PlanError
        The run is not possible as requested: method, output, memory.

    Warns
    -----
    FailureWarning
        Realizations failed; `status` says how.
    InterruptionWarning
        The run was interrupted (Ctrl-C). Realizations that were not simulated have the status
        ``NOT_RUN``; statistics cover the other realizations, and ``count`` is their number.
    AccuracyWarning
        The error of an approximate method exceeds 10 %. For the Langevin equation: reactants are
        few in more than 1 % of the time, or more than 1 % of its steps lead below zero.
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
    stopwatch = Stopwatch()
    grid = arguments.time_grid(times)
    if grid.size < 2:
        raise ModelError("times has one time; expected at least a start and an end")
    numbers = arguments.replicate_numbers(replicates, REPLICATES_MOST)
    arguments.check_switch("simulate", "common_random_numbers", common_random_numbers)
    seed = arguments.integer("seed", seed, 0, 2**64 - 1)
    max_firings = arguments.integer("max_firings", max_firings, 1, 2**62)
    kind = outputs.kind(output)
    condition = _condition(network, stop, output, kind)
    if rounding is not None:
        arguments.choice("rounding", rounding, get_args(Rounding))
    arguments.refuse_idle(
        rounding=(rounding is not None and not network.events, "there are no events")
    )
    asked = methods.named(method)
    layout = sweep_of(network, parameters, initial, results.names("stochastic", output))
    apart = replicates_apart(numbers, layout.count, common_random_numbers)
    parted = _parted(continuous_above, output)
    if parted and device == "auto":
        device = replace(devices.resolve("cpu"), reason="for continuous_above")
    device = devices.resolve(device)
    values, start = (
        {name: layout.rows[name] for name in given or {}} for given in (parameters, initial)
    )
    total = layout.count * len(numbers)
    check_room(
        40 * total + 16 * layout.count * (len(network.species) + len(network.parameters)),
        f"an array for {total:,} realizations (replicates of all points)",
        "use fewer replicates or points",
    )
    tables = build(
        network,
        values,
        start,
        layout.count,
        stop=condition,
        whole=asked is None or asked.whole,
        rounding=rounding,
        parted=parted,
    )
    control = step_control(
        asked, tables, tolerance, step, max_step, continuous_above, grid, max_firings
    )
    every = layout.count * (whole.replicates or len(numbers))
    request = methods.Request(device, every, max_firings, kind.wanted.log_first, control)
    plan = methods.plan(asked, tables, request)
    runner_on = partial(
        plan.runner, tables, grid=grid if kind.over_time else grid[-1:], begin=float(grid[0]),
        seed=seed, replicates=numbers, apart=apart, max_firings=max_firings,
    )  # fmt: skip
    runner = runner_on(device=device)
    integers = plan.method.whole and not tables.is_real.any()
    collect = outputs.collector(output, tables, grid, layout, len(numbers), bins, integers)

    def compute() -> xarray.Dataset:
        if not log.is_plan_only():
            runner.prepare(total, collect.wanted)
        with launch.Interruptible("realizations", "were simulated") as run:
            found = simulate_chunks(runner, collect, total, len(numbers), device, progress)
            status, firings, leaps = found["status"], found["firing_count"], found.pop("leaps")
            describe = describe_partition if parted else describe_steps
            exact = plan.method.exact and not parted
            said = {} if exact else describe(leaps, firings, control)
            failure = "" if run.was_heard else failures.first(status, runner_on, tables, numbers)
            if failure:
                said["first_failure"] = failure
                launch.warn(failure, FailureWarning)
            run.ends_with(status)
            attrs = attributes(
                stopwatch, found, layout, numbers, apart, device,
                method=plan.method.name, method_reason=plan.reason, exact=int(exact),
                device_reason=device.reason, seed=str(seed), model_digest=network.digest, **said,
            )  # fmt: skip
            shape = (*layout.shape, len(numbers))
            found = {name: values.reshape(shape) for name, values in found.items()}
            species = [member.name for member in network.species]
            coords = {
                "time": grid, "species": species,
                "replicate": np.arange(numbers.start, numbers.stop), **layout.coords,
            }  # fmt: skip
            return collect.dataset(found, coords, attrs)

    return Job(compute, log.choice(plan.method.name, plan.reason, device))


def job_of(
    runner: Any, collect: Any, stopwatch: Stopwatch, layout: Layout, numbers: range, apart: int,
    progress: bool, coords: Mapping[str, Any], method: str, why: str, **own: Any,
) -> Job:  # fmt: skip
    """The job of an exact method whose realizations are simulated by a runner, in chunks."""
    device, each = runner.device, (*layout.shape, len(numbers))

    def compute() -> xarray.Dataset:
        total = layout.count * len(numbers)
        if not log.is_plan_only():
            runner.prepare(total, collect.wanted)
        with launch.Interruptible("realizations", "were simulated") as run:
            found = simulate_chunks(runner, collect, total, len(numbers), device, progress)
            found.pop("leaps")
            run.ends_with(found["status"])
            attrs = attributes(
                stopwatch, found, layout, numbers, apart, device, method=method,
                method_reason=why, exact=1, **own,
            )  # fmt: skip
            here = {"replicate": np.arange(numbers.start, numbers.stop), **layout.coords}
            values = {name: one.reshape(each) for name, one in found.items()}
            return collect.dataset(values, {**coords, **here}, attrs)

    return Job(compute, log.choice(method, why, device))


def attributes(
    stopwatch: Stopwatch, found: Mapping[str, np.ndarray], layout: Layout, numbers: range,
    apart: int, device: devices.Device, **own: Any,
) -> dict[str, Any]:  # fmt: skip
    """Attributes of a result of realizations; `own` are those that differ between methods."""
    return results.provenance(
        stopwatch, engine="stochastic", **own, device=device.name, device_model=device.model,
        replicates=len(numbers),
        **({"first_replicate": numbers.start} if numbers.start else {}),
        **({"common_random_numbers": int(not apart)} if layout.dims else {}),
        firings=int(found["firing_count"].sum()),
        interrupted=int(bool((found["status"] == Status.NOT_RUN).any())),
    )  # fmt: skip


def _parted(above: float | None, output: str) -> bool:
    """Whether reactions are continuous while their species have at least `above` molecules.

    Raises a PlanError if the number is too small, or firings are listed.
    """
    if above is None:
        return False
    arguments.number("continuous_above", above)
    if not above >= _LEAST_CONTINUOUS:
        raise PlanError(
            f"continuous_above is {above!r}; expected at least {_LEAST_CONTINUOUS} molecules: "
            "the noise of fewer is not normal"
        )
    if output == "events":
        raise PlanError(
            "continuous_above is given, but continuous reactions have no single firings, which "
            "output='events' lists; leave one of them out"
        )
    return True


def _condition(
    network: ReactionNetwork, stop: str | None, output: str, kind: outputs.Kind
) -> Expression | None:
    """The condition that ends a realization.

    Raises a PlanError if the output needs a stop condition, and none is given.
    """
    if stop is None and kind.needs_stop:
        raise PlanError(f"output {output!r} needs a condition: stop='X > 100'")
    return condition_of(network, stop)


def condition_of(network: ReactionNetwork, stop: str | None) -> Expression | None:
    """A stop condition.

    Raises a ModelError if it is a number, or uses a name the network does not have.
    """
    if stop is None:
        return None
    condition = Expression(stop)
    network.check_formula(condition, "stop")
    check_condition(condition, "stop", network.rules)
    return condition


def sweep_of(
    network: ReactionNetwork,
    parameters: Mapping[str, Any] | None,
    initial: Mapping[str, Any] | None,
    reserved: Collection[str],
) -> Layout:
    """Points of a sweep; names in `reserved` cannot be swept.

    Raises a ModelError if a name is neither a parameter nor a compartment nor a species; or a value
    is invalid.
    """
    given: dict[str, Mapping[str, Any]] = {}
    for argument, mapping in (("parameters", parameters), ("initial", initial)):
        arguments.by_name(argument, mapping, "values")
        given[argument] = {} if mapping is None else mapping
    network.evaluate_parameters(dict.fromkeys(given["parameters"], 1.0))
    for name in given["initial"]:
        if name not in network.index:
            raise ModelError(
                f"initial has '{name}', which is not a species of the network"
                f"{arguments.did_you_mean(name, network.index)}"
            )
    names = {argument: list(mapping) for argument, mapping in given.items()}
    return lay_out(names, given, reserved=reserved, along=POINT, owner="the network")
