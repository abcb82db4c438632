"""Contagion on a contact network: from a model, a network and a seed to labelled results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, log, results
from ergode.core.arguments import (
    check_switch,
    choice,
    integer,
    replicate_numbers,
    time_grid,
)
from ergode.core.calls import launch
from ergode.core.calls.divide import Executor, StorePath, divisible, replicates_of
from ergode.core.calls.job import Job, Whole
from ergode.core.compiler.source import Precision
from ergode.core.errors import PlanError
from ergode.core.stopwatch import Stopwatch
from ergode.epidemics.leap.runner import Pressure, Transition
from ergode.epidemics.merge import merge_of
from ergode.epidemics.methods import MethodName, options_of, plan_of_points
from ergode.epidemics.outputs import Output, Shape, collector, status_of
from ergode.epidemics.points import InitialFunction, ModelFunction, points_of
from ergode.epidemics.runs import PointRuns
from ergode.epidemics.scenario import ENTRIES, MEASURES, Contacts, Include, scenarios_of
from ergode.epidemics.seeding import Initial
from ergode.epidemics.shared.resolution import check_resolution, precision_of
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.dates import dates_since, days_since, origin_of, text_of
from ergode.models.epidemic.importations import Importation
from ergode.models.epidemic.interventions import Intervention
from ergode.models.networks.temporal import TemporalContacts
from ergode.models.sweep import POINT, REPLICATES_MOST, replicates_apart

if TYPE_CHECKING:
    import xarray


@divisible("epidemics", replicates_of, merge_of, {"parameters": POINT})
def simulate(
    _: Whole,
    model: CompartmentModel | ModelFunction,
    contacts: Contacts | Callable[..., Contacts],
    *,
    parameters: Mapping[str, Any] | None = None,
    initial: Initial | InitialFunction,
    times: ArrayLike,
    replicates: int | range = 1,
    common_random_numbers: bool = True,
    seed: int = 0,
    method: MethodName = "auto",
    device: str | devices.Device = "auto",
    keep_on_device: bool = False,
    output: Output = "counts",
    quantiles: Sequence[float] | None = None,
    precision: Precision | Literal["auto"] = "auto",
    interventions: Sequence[Intervention] | Callable[..., Sequence[Intervention]] | None = None,
    importations: Sequence[Importation] | Callable[..., Sequence[Importation]] = (),
    layer_factors: Mapping[str, Calendar] | Calendar | Callable[..., Any] | None = None,
    strata: str | None = None,
    include: Include | Sequence[Include] = (),
    step: float | None = None,
    tolerance: float | None = None,
    transition: Transition = "conditional",
    pressure: Pressure = "auto",
    origin: str | date | np.datetime64 | None = None,
    progress: bool = False,
    executor: Executor | None = None,
    store: StorePath | None = None,
    chunk: int | None = None,
    checkpoint: float | None = None,
) -> Job:
    """Simulate many replicates of an epidemic; exact unless an approximate `method` is chosen.

    Parameters
    ----------
    model : CompartmentModel or function
        Compartments, infections and holding times; or a function that takes `parameters` by name
        and returns a model. All points must have equal compartments, infections, progressions and
        families of holding times. It should depend on its arguments alone: it may be called once
        for all points, with numbers that stand for the values of all of them.
    contacts : ContactNetwork, ComputedNetwork or TemporalContacts, or function
        Contacts of nodes; weights multiply the transmission rate. With temporal contacts, nodes
        infect only while they meet. The contacts of a `ComputedNetwork` take no memory.
        Or a function that takes `parameters` by name, such as the seed of a random network, and
        returns one of these. It is called once for equal values. The networks of all points must
        have the same nodes; `initial` draws the same nodes in all of them, unless it draws by an
        attribute or a weight.
    parameters : mapping of str to float or array_like, optional
        Values of the parameters that functions take: `model`, `contacts`, `initial`,
        `interventions`, `importations` and `layer_factors` may each be one. Arrays of equal length
        are swept together along the dim ``point``; `ergode.grid` crosses all arrays, and each
        becomes a dim of its own. Integers stay integers. All points run by one method in one
        precision; each result equals that of a separate call.
    initial : mapping of str to int, float, array or Seeds, or function
        Seeds at ``times[0]`` for each compartment but the susceptible one: an integer (number of
        nodes, drawn anew in every replicate), a float below one (fraction of nodes, rounded), or
        an array of names or positions of nodes (identical in all replicates; see `Seeds` where
        names are integers). All other nodes are susceptible. Seeds
        in infected compartments (`CompartmentModel.infected`) are cases; seeds in R, for example,
        are not. Seeds have just entered their compartment, unless `Seeds` gives an age; `Seeds`
        can also draw nodes by an attribute.
        Or a function that takes `parameters` by name and returns such a mapping.
    times : array_like, shape [time_count]
        Ascending grid on which results are reported [time]. The simulation begins at ``times[0]``
        and ends at ``times[-1]``; exact methods take no steps in between. An event at a grid time
        counts at that time. Times within rounding are equal: within 1e-12 of their value, and in
        float32 within 1e-6 of the time since ``times[0]``.
        Or dates, such as ``pandas.date_range("2026-03-01", periods=101)``; see `origin`.
    replicates : int or range
        Number of independent runs of every point; or their numbers: ``range(50, 100)`` gives those
        rows of ``replicates=100``, bit for bit. `ergode.concat` joins parts.
    common_random_numbers : bool
        Whether replicate r of all points of a sweep uses the same random numbers, so that points
        differ by their parameters alone. False makes all points independent, as simulation-based
        inference needs them: replicate r of point j of n is replicate
        ``j * ((2**32 - 1) // n) + r`` of a call for this point alone, bit for bit.
    seed : int
        Key of all randomness, 0 to 2^64 - 1. Replicate r does not depend on the number of
        replicates, on the number of threads or on the device.
    method : str
        ``"auto"`` picks the cheapest exact method that runs on every device;
        ``attrs["method_reason"]`` says why. The packages of `ergode.epidemics` describe each one.

        - ``"first-passage"``: exact, by shortest paths from the seeds; for models without
          re-susceptibility on a static network, of any number of nodes
        - ``"sellke"``: exact, by effective contacts of every arc, which transmit or not; for any
          model and scenario
        - ``"gillespie"``: exact, by one jump after another, on the CPU; for memoryless models and
          constant rates on a static network
        - ``"renewal-leap"``: an approximation of first order in the time step, in which all nodes
          move at once, by their age and the force of infection; for static networks, with
          calendars, scheduled closures and scheduled vaccination
        - ``"markov-leap"``: the approximation of "renewal-leap", without ages; for memoryless
          models within the limits of "renewal-leap"
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    keep_on_device : bool
        Whether the result stays on the device: the call returns a `DeviceResult` of NumPy arrays
        (CPU) or CuPy arrays (CUDA), which PyTorch and JAX read without a copy. For ``"counts"``.
        Not with `executor`, `store` or several devices.
    output : {"counts", "statistics", "line_list"}
        ``"counts"``: count(replicate, time, compartment) and cases(replicate, time).
        ``"statistics"``: mean, variance
        (time, compartment) and quantile(level, time, compartment) over replicates.
        ``"line_list"``: every case, its infector and the times of its stages; with
        ``include="measures"`` also what interventions did to each node (`measure_table`). In a
        population that changes, ``born_at`` is when the node was born, if it was during the run.
    quantiles : sequence of float, optional
        Levels for ``output="statistics"``; the default is 0.025, 0.25, 0.5, 0.75 and 0.975.
    precision : {"auto", "float32", "float64"}
        Type of times and draws. In float32 times have a relative error of 6e-8. If that is too
        coarse for the shortest holding time of the model in a run of this length, float32 is
        refused, and ``"auto"`` chooses float64; otherwise it chooses float32.
    interventions : sequence of Intervention
        `LayerClosure`, `Vaccination`, `Isolation`, `ContactTracing`, `Testing`, each started at a
        time or by a `Trigger`, and all but vaccinations also stopped so; and `Capacity`. Two runs
        by one method with one seed share all randomness, so that replicates of equal number differ
        only by the effect of the interventions. For the baseline run, give an empty sequence: the
        method is then chosen as for a run with interventions. Tau-leaping supports scheduled
        closures and scheduled vaccination.
        Or a function that takes `parameters` by name and returns them.
    importations : sequence of Importation, or function
        Infections from outside; or a function of `parameters` that returns them.
    layer_factors : Calendar or mapping of str to Calendar, optional
        A time-dependent factor on the transmission rate of all contacts, or one factor for each
        named layer of the network. Data may take the place of a Calendar: a series of pandas or
        xarray, with times or dates as its index, holds each value until the next; a table of pandas
        has a column for each layer. Or a function of `parameters` that returns one of these.
    strata : str, optional
        Name of a node attribute: counts are then also split by its values, dim ``stratum``.
    include : {"entries", "measures", "avoided", "layers"} or sequence of these
        What is counted besides nodes and cases, split by `strata` like these; in a line list what
        happened to each node. Statistics have the names ``entries_mean``, ``measures_quantile``,
        ...

        - ``"entries"``: entries(replicate, time, compartment), the nodes that have entered a
          compartment up to a time. `flows` makes entries and exits of each interval of them. Not
          in line lists.
        - ``"measures"``: measures(replicate, time, tally), what `interventions` have done; see
          :doc:`/reference/interventions`. For "sellke".
        - ``"avoided"``: measures, and among them the contacts that each of them has avoided. This
          takes longer.
        - ``"layers"``: measures, and the contacts that they trace, and with ``"avoided"`` avoid, in
          each layer of the network too.
    step : float, optional
        For tau-leaping, the longest step [time]. Steps are shortened so that one ends at every time
        of the grid. The default is a fiftieth of the shortest time scale of the model.
    tolerance : float, optional
        For tau-leaping with adaptive steps: upper bound of the largest hazard of any node times
        the step. Steps stay at most `step`. Without it all steps are equal, which is faster.
    transition : {"conditional", "left-end", "sampled"}
        For tau-leaping, how nodes leave a compartment. ``"conditional"``: with the exact
        probability of leaving within a step, given their age. ``"left-end"``: with the hazard at
        the beginning of the step, a second error of first order. ``"sampled"``: at a time drawn at
        entry, with the distribution of ``"conditional"`` and fewer draws.
    pressure : {"auto", "gather", "push"}
        For tau-leaping, how forces of infection are summed: by each node over its neighbours
        (``"gather"``), or by nodes whose infectivity changed (``"push"``). Affects only the speed.
    origin : str or date, optional
        Calendar date of time 0, such as ``"2026-03-01"``; the default is the first of `times` if
        these are dates, else that of temporal contacts with dates. One unit of time is then a day.
        Interventions, importations and calendars may have dates instead of times, and the result
        has the coordinate ``date(time)``.
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
    checkpoint : float, optional
        Seconds between two checkpoints of a replicate in `store`, for tau-leaping and, on a
        CPU, "first-passage". The same call again goes on from the latest; the result has the same
        bits.

    Returns
    -------
    xarray.Dataset
        The variables of `output`; ``attrs`` record version, method, device, seed, model and
        network, and counters of the work done. In a sweep, the dims of the points come first, a
        line list has the number of the ``point`` of each case, and ``attrs["model"]`` is the model
        of the first point.

    Raises
    ------
    ModelError
        The model, the network or the initial condition is invalid; the message says why.
    PlanError
        The run is not possible as requested: method, device, memory.

    Warns
    -----
    InterruptionWarning
        The run was interrupted (Ctrl-C): the finished replicates are returned. In a sweep the
        others have the status ``NOT_RUN`` and missing values.

    Examples
    --------
    >>> import ergode
    >>> model = ergode.CompartmentModel.seir(
    ...     transmission_rate=0.25,
    ...     latent=ergode.LogNormal(mean=5, median=4),
    ...     infectious=ergode.LogNormal(mean=7.5, median=5),
    ... )
    >>> contacts = ergode.ContactNetwork.erdos_renyi(1000, mean_degree=8, seed=1)
    >>> counts = ergode.epidemics.simulate(
    ...     model, contacts, initial={"I": 10}, times=range(101), replicates=4, device="cpu"
    ... )
    >>> dict(counts.sizes)
    {'replicate': 4, 'time': 101, 'compartment': 4}
    >>> int(counts["count"].sum("compartment").min())
    1000
    """
    stopwatch = Stopwatch()
    choice("output", output, get_args(Output))
    points = points_of(
        model, initial, parameters, results.names("epidemics", output), contacts=contacts,
        interventions=interventions, importations=importations, layer_factors=layer_factors,
    )  # fmt: skip
    zero = origin_of(origin, times)
    every = {id(one): one for one in points.settings["contacts"]}
    dated = dict(every)
    for key, one in every.items():
        if isinstance(one, TemporalContacts) and one.origin is not None:
            zero = one.origin if zero is None else zero
            dated[key] = one.since(zero)
    settings = points.settings | {"contacts": [dated[id(k)] for k in points.settings["contacts"]]}
    scenarios = scenarios_of(settings, strata, zero, include, points.named_in_errors)
    scenario = scenarios[0]
    if output == "line_list" and ENTRIES in scenario.include:
        raise PlanError(
            "include='entries' is for output='counts' and 'statistics'; a line list has the times "
            "of entries of its cases"
        )
    points = points.located(scenario.contacts.node_names)
    grid = time_grid(times if zero is None else days_since(zero, "times", times))
    for one in {id(each): each for each in scenarios}.values():
        one.warn_of_idle(grid[0], grid[-1])
    numbers = replicate_numbers(replicates, REPLICATES_MOST)
    check_switch("simulate", "common_random_numbers", common_random_numbers)
    apart = replicates_apart(numbers, points.count, common_random_numbers)
    seed = integer("seed", seed, 0, 2**64 - 1)
    first = points.models[0]
    shape = Shape(points.layout.dims, points.layout.shape, numbers)
    collect = collector(output, first, scenario, grid, shape, quantiles)
    listing = output == "line_list"
    plan = plan_of_points(method, points, scenarios, device, listing)
    unresumed = "" if plan.device.target in plan.method.resumes else (
        f"method '{plan.method.name}' runs a replicate in one piece on {plan.device.target}; "
        "use 'first-passage' on a CPU, tau-leaping"
    )  # fmt: skip
    fastest = points.fastest
    rarest = points.least_survival
    precision = precision_of(precision, plan.method.steps, fastest, grid, rarest)
    options = options_of(
        plan.method, step=step, tolerance=tolerance, transition=transition, pressure=pressure
    )
    runs = PointRuns(
        points, plan.method, scenarios, numbers, apart, listing, times=grid, seed=seed,
        device=plan.device, precision=precision, **options,
    )  # fmt: skip
    check_resolution(precision, plan.method.steps, fastest, grid, rarest)

    def compute() -> xarray.Dataset:
        with launch.Interruptible("replicates") as run:
            done, counters = runs.run(collect, progress)
            run.ends_with(status_of(done))
            attrs = results.provenance(
                stopwatch,
                engine="epidemics",
                method=plan.method.name,
                method_reason=plan.reason,
                device=plan.device.name,
                device_model=plan.device.model,
                device_reason=plan.device_reason,
                precision=precision,
                seed=str(seed),
                replicates=len(numbers) if points.swept else int(done.sum()),
                **({"first_replicate": numbers.start} if numbers.start else {}),
                **({"common_random_numbers": int(not apart)} if points.swept else {}),
                model=json.dumps(first.to_dict()),
                model_digest=points.digest,
                network_digest=",".join(dict.fromkeys(one.digest for one in every.values())),
                node_count=scenario.contacts.node_count,
                interventions=repr(scenario.interventions) if scenario.interventions else "none",
                susceptible=",".join(dict.fromkeys(i.susceptible for i in first.infections)),
                infectious=points.names(lambda model: model.infectious),
                infected=points.names(lambda model: model.infected),
                **(points.others(scenario.contacts.node_count) if listing else {}),
                **counters,
                interrupted=int(not done.all()),
                **({} if zero is None else {"origin": text_of(zero)}),
            )
            coords: dict[str, Any] = {"compartment": list(first.compartments), "time": grid}
            if zero is not None and not listing:
                coords["date"] = ("time", dates_since(zero, grid))
            if strata is not None:
                coords["stratum"] = list(scenario.strata)
            if MEASURES in scenario.include:
                coords["tally"] = [one.label for one in scenario.tallies]
            return collect.dataset(done, coords | points.coords, attrs)

    facts = log.choice(plan.method.name, plan.reason, plan.device)
    return Job(compute, facts, unresumed=unresumed)
