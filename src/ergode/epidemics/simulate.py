"""Contagion on a contact network: from a model, a network and a seed to labelled results."""

from __future__ import annotations

import json
import time as clock
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, progress, results
from ergode.core.arguments import integer, time_grid
from ergode.core.compiler.bundle import Precision
from ergode.core.errors import InterruptionWarning, ModelError, PlanError
from ergode.core.results import Variable
from ergode.core.statistics import CountStatistics
from ergode.core.status import Status
from ergode.epidemics.leap.runner import Pressure, Transition
from ergode.epidemics.methods import MethodName, options_of, plan_of
from ergode.epidemics.scenario import Scenario, scenario_of
from ergode.epidemics.seeding import Initial, has_ages
from ergode.epidemics.shared.ensemble import Ensemble
from ergode.epidemics.shared.resolution import check_resolution, precision_of
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import Calendar, Importation, Intervention
from ergode.models.networks.contact_network import ContactNetwork
from ergode.models.networks.temporal import TemporalContacts

if TYPE_CHECKING:
    import xarray

Output = Literal["counts", "statistics", "line_list"]

_STATUS = Variable("status", ("replicate",), "uint8", "1", "how the replicate ended (see Status)")
# Counts by stratum have one dim more.
_GRID = ("time", "compartment", results.SWEPT)
_CASES = Variable(
    "cases", ("replicate", "time", results.SWEPT), "int32", "1",
    "infections up to a time, those infected at first and importations among them",
)  # fmt: skip
results.register(
    "epidemics",
    "counts",
    [
        Variable("count", ("replicate", *_GRID), "int32", "1", "nodes in a compartment at a time"),
        _CASES,
        _STATUS,
    ],
)
results.register(
    "epidemics",
    "statistics",
    [
        Variable("mean", _GRID, "float64", "1", "mean count over replicates"),
        Variable("variance", _GRID, "float64", "1", "unbiased variance of the count"),
        Variable("quantile", ("level", *_GRID), "float64", "1", "quantile of the count"),
        _STATUS,
    ],
)
results.register(
    "epidemics",
    "line_list",
    [
        Variable("replicate", ("case",), "int64", "1", "replicate of the case"),
        Variable("node", ("case",), "int64", "1", "node that left the susceptible compartment"),
        Variable("infector", ("case",), "int64", "1", "node that infected it; -1 for a seed"),
        Variable("infected_at", ("case",), "float64", "time", "when it was infected or seeded"),
        Variable("entered", ("case", "compartment"), "float64", "time",
                 "when it entered each compartment; NaN if not by the last time"),
    ],
)  # fmt: skip


def simulate(
    model: CompartmentModel,
    contacts: ContactNetwork | TemporalContacts,
    *,
    initial: Initial,
    times: ArrayLike,
    replicates: int = 1,
    seed: int = 0,
    method: MethodName = "auto",
    device: str | devices.Device = "auto",
    output: Output = "counts",
    quantiles: Sequence[float] = (0.025, 0.25, 0.5, 0.75, 0.975),
    precision: Precision | Literal["auto"] = "auto",
    interventions: Sequence[Intervention] | None = None,
    importations: Sequence[Importation] = (),
    layer_factors: Mapping[str, Calendar] | Calendar | None = None,
    strata: str | None = None,
    step: float | None = None,
    tolerance: float | None = None,
    transition: Transition = "conditional",
    pressure: Pressure = "auto",
    progress: bool = False,
) -> xarray.Dataset:
    """Simulate an epidemic many times over: exactly, unless a method is asked for that is not.

    Parameters
    ----------
    model : CompartmentModel
        Compartments, infections and holding times.
    contacts : ContactNetwork or TemporalContacts
        Who may infect whom; weights multiply the transmission rate. With temporal contacts, only
        while they meet.
    initial : mapping of str to int, float, array or Seeds
        Who is where at ``times[0]``: for each compartment but the susceptible one an integer
        (that many nodes, drawn anew in every replicate), a float below one (that fraction of
        nodes, rounded), or an array of node ids (the same in every replicate). Everybody else is
        susceptible. Those who begin where they are infected (`CompartmentModel.infected`) are
        cases; those who begin in R, say, are none. Nodes placed in a compartment have just entered
        it, unless `Seeds` say since when they are there; these also draw nodes by an attribute.
    times : array_like, shape [time_count]
        Ascending grid on which results are reported [time]. The simulation begins at ``times[0]``
        and ends at ``times[-1]``; in between it takes no steps.
    replicates : int
        Number of independent runs.
    seed : int
        Key of all randomness, 0 to 2^64 - 1. Replicate r is the same however many others are run,
        on any number of threads, on any device.
    method : {"auto", "first-passage", "sellke", "gillespie", "renewal-leap", "markov-leap"}
        ``"first-passage"`` is exact, for models in which nobody becomes susceptible again.
        ``"sellke"`` is exact, for any model and scenario. ``"gillespie"`` is exact, for memoryless
        models on a static network, and runs on the CPU. ``"auto"`` picks the cheapest exact method
        that runs on every device; ``attrs["method_reason"]`` says why.
        ``"renewal-leap"`` and ``"markov-leap"`` take time steps, with an error of first order in
        the step. The latter keeps no ages: holding times must be exponential.
        The packages of `ergode.epidemics` say how each works.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    output : {"counts", "statistics", "line_list"}
        ``"counts"``: count(replicate, time, compartment) and cases(replicate, time).
        ``"statistics"``: mean, variance
        (time, compartment) and quantile(level, time, compartment) over replicates.
        ``"line_list"``: every case, its infector and the times of its stages.
    quantiles : sequence of float
        Levels for ``output="statistics"``.
    precision : {"auto", "float32", "float64"}
        Type of times and draws. In float32 a time is within 6e-8 of itself. Where that is too
        coarse for the shortest holding time of the model in so long a run, float32 is refused, and
        ``"auto"`` takes float64; elsewhere it takes float32.
    interventions : sequence of Intervention
        `LayerClosure`, `Vaccination`, `Isolation`, `ContactTracing`, each starting at a time or
        when a `Trigger` says. Two runs by one method with one seed share all randomness, so that
        replicate r of one differs from replicate r of the other by what the interventions did.
        For the run to compare with, give an empty sequence: the method is then chosen as for a
        run with interventions. Methods that leap take closures and vaccination, at a time.
    importations : sequence of Importation
        Infections from outside.
    layer_factors : Calendar or mapping of str to Calendar, optional
        A factor on the transmission rate of all contacts that changes in time; or, for layers of
        the network by name, one each.
    strata : str, optional
        Name of a node attribute: counts are then by its values too, dim ``stratum``.
    step : float, optional
        For methods that leap, the longest step [time]; steps are shortened so as to end at every
        time of the grid. A fiftieth of the shortest time scale of the model if not given.
    tolerance : float, optional
        For methods that leap: choose steps, up to `step`, such that the largest hazard of any node
        times the step is no more than this. Equal steps if not given, which are faster.
    transition : {"conditional", "left-end", "sampled"}
        For methods that leap, how nodes leave a compartment: with the exact probability to leave
        within a step, given their age; with the hazard held as it is when the step begins, a
        second error of first order; or at a time drawn when they enter it (the first again, with
        fewer draws).
    pressure : {"auto", "gather", "push"}
        For methods that leap, how nodes learn of their neighbours. Affects speed alone.
    progress : bool
        Show progress on standard error.

    Returns
    -------
    xarray.Dataset
        The variables of `output`; ``attrs`` say which version, method, device, seed, model and
        network they come from, and how much work it was.

    Raises
    ------
    ModelError
        The model, the network or the initial condition is not possible; the message names what.
    PlanError
        The run is not possible as asked: method, device, memory.

    Warns
    -----
    InterruptionWarning
        The run was interrupted (Ctrl-C): the replicates finished by then are returned.

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
    if not isinstance(model, CompartmentModel):
        raise ModelError(f"model is {type(model).__name__}; expected a CompartmentModel")
    scenario = scenario_of(contacts, interventions, importations, layer_factors, strata)
    grid = time_grid(times)
    replicates = integer("replicates", replicates, 1, 2**32 - 1)
    seed = integer("seed", seed, 0, 2**64 - 1)
    collect = _collector(output, model, scenario, grid, replicates, quantiles)
    aged = isinstance(initial, Mapping) and has_ages(initial)
    listing = output == "line_list"
    plan = plan_of(method, model, scenario, device, aged, listing)
    precision = precision_of(precision, plan.method.steps, model, grid)
    options = options_of(
        plan.method, step=step, tolerance=tolerance, transition=transition, pressure=pressure
    )
    started = clock.perf_counter()
    ensemble = plan.method.runner(
        model, scenario, initial, listing, times=grid, seed=seed, device=plan.device,
        precision=precision, **options,
    )  # fmt: skip
    check_resolution(precision, plan.method.steps, model, grid)
    prepared = clock.perf_counter()
    ensemble.prepare()
    preparing = clock.perf_counter() - prepared
    done, work, interrupted = _run(ensemble, collect, replicates, progress)
    attrs = results.provenance(
        engine="epidemics",
        method=plan.method.name,
        method_reason=plan.reason,
        device=plan.device.name,
        device_model=plan.device.model,
        device_reason=plan.device_reason,
        precision=precision,
        seed=str(seed),
        replicates=done,
        model=json.dumps(model.to_dict()),
        model_digest=model.digest,
        network_digest=contacts.digest,
        node_count=contacts.node_count,
        interventions=repr(scenario.interventions) if scenario.interventions else "none",
        susceptible=",".join(dict.fromkeys(i.susceptible for i in model.infections)),
        infectious=",".join(model.infectious),
        infected=",".join(model.infected),
        **ensemble.counters(work),
        interrupted=int(interrupted),
        wall_seconds=clock.perf_counter() - started - preparing,
        prepare_seconds=preparing,
    )
    coords: dict[str, Any] = {"compartment": list(model.compartments), "time": grid}
    if strata is not None:
        coords["stratum"] = list(scenario.strata)
    return collect.dataset(done, coords, attrs)


def _run(
    ensemble: Ensemble, collect: _Collector, replicates: int, show: bool
) -> tuple[int, np.ndarray, bool]:
    """Run the replicates chunk by chunk; return how many were finished, and their work."""
    size = ensemble.chunk_size(replicates)
    work: Any = 0
    done = 0
    with progress.track("epidemics", replicates, unit="replicates", show=show) as report:
        try:
            for start, stop in devices.spans(replicates, size):
                words, counters = ensemble.run(start, stop - start)
                collect.add(ensemble, words, start)
                work = work + counters
                done = stop
                report(stop - start)
        except KeyboardInterrupt:
            if done == 0:
                raise
            warnings.warn(
                f"interrupted: {done} of {replicates} replicates are returned",
                InterruptionWarning,
                stacklevel=3,
            )
    return done, work, done < replicates


class _Collector:
    """Keeps what an output needs of each chunk of replicates."""

    def add(self, ensemble: Ensemble, words: Any, first: int) -> None:
        raise NotImplementedError

    def dataset(
        self, done: int, coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        raise NotImplementedError


class _Counts(_Collector):
    def __init__(self) -> None:
        self._chunks: list[np.ndarray] = []
        self._cases: list[np.ndarray] = []

    def add(self, ensemble: Ensemble, words: Any, first: int) -> None:
        counts = ensemble.count(words, first)
        self._chunks.append(counts)
        self._cases.append(ensemble.case_count(words, counts, first))

    def dataset(
        self, done: int, coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        values = {
            "count": _joined(self._chunks),
            "cases": _joined(self._cases),
            "status": np.full(done, Status.DONE, np.uint8),
        }
        coords = {**coords, "replicate": np.arange(done)}
        return results.dataset(
            "epidemics", "counts", values, coords=coords, attrs=attrs, swept=_swept(coords)
        )


def _joined(chunks: list[np.ndarray]) -> np.ndarray:
    """Chunks of replicates as one array; a single one is not copied."""
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)


def _swept(coords: Mapping[str, Any]) -> tuple[str, ...]:
    return ("stratum",) if "stratum" in coords else ()


class _Statistics(_Collector):
    def __init__(self, statistics: CountStatistics, quantiles: Sequence[float]) -> None:
        self._statistics = statistics
        self._quantiles = quantiles

    def add(self, ensemble: Ensemble, words: Any, first: int) -> None:
        counts = ensemble.count(words, first)
        self._statistics.add(counts.reshape(*counts.shape[:2], -1))

    def dataset(
        self, done: int, coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        shape = (coords["time"].size, *(len(coords[d]) for d in ("compartment", *_swept(coords))))
        quantile = self._statistics.quantile(self._quantiles)
        values = {
            "mean": self._statistics.mean().reshape(shape),
            "variance": self._statistics.variance().reshape(shape),
            "quantile": quantile.reshape(len(self._quantiles), *shape),
            "status": np.full(done, Status.DONE, np.uint8),
        }
        coords = {**coords, "level": list(self._quantiles)}
        return results.dataset(
            "epidemics", "statistics", values, coords=coords, attrs=attrs, swept=_swept(coords)
        )


class _LineList(_Collector):
    def __init__(self, node_names: np.ndarray | None) -> None:
        self._chunks: list[dict[str, Any]] = []
        self._node_names = node_names

    def add(self, ensemble: Ensemble, words: Any, first: int) -> None:
        self._chunks.append(ensemble.cases(words, first))

    def dataset(
        self, done: int, coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        values = {
            name: np.concatenate([chunk[name] for chunk in self._chunks])
            for name in self._chunks[0]
        }
        grid = coords["time"]
        begin = grid[0]
        values["infected_at"] += begin
        values["entered"] += begin
        names = {"compartment": coords["compartment"]}
        if self._node_names is not None:
            names["node_name"] = ("case", self._node_names[values["node"]])
        # The grid is not a dimension of the list; the reproduction numbers are counted on it.
        return results.dataset(
            "epidemics",
            "line_list",
            values,
            coords=names,
            attrs={**attrs, "times": grid},
        )


def _collector(
    output: str,
    model: CompartmentModel,
    scenario: Scenario,
    grid: np.ndarray,
    replicates: int,
    quantiles: Sequence[float],
) -> _Collector:
    contacts = scenario.contacts
    columns = len(model.compartments) * len(scenario.strata)
    shape = (replicates, grid.size, columns, contacts.node_count)
    if output == "counts":
        _check_memory(4 * int(np.prod(shape[:3], dtype=object)), "counts", "output='statistics'")
        return _Counts()
    if output == "statistics":
        levels = [float(level) for level in np.atleast_1d(quantiles)]
        if not all(0.0 <= level <= 1.0 for level in levels):
            raise PlanError(f"quantiles are {levels}; expected levels between 0 and 1")
        _check_memory(CountStatistics.bytes_needed(*shape), "statistics", "fewer times")
        return _Statistics(CountStatistics(*shape), levels)
    if output == "line_list":
        return _LineList(contacts.node_names)
    raise PlanError(f"output {output!r} is unknown; expected 'counts', 'statistics' or 'line_list'")


def _check_memory(needed: int, what: str, instead: str) -> None:
    room = devices.resolve("cpu").available_bytes()
    if needed > room:
        raise PlanError(
            f"the {what} need {needed / 1e9:.1f} GB and {room / 1e9:.1f} GB are free; use fewer "
            f"replicates or {instead}"
        )
