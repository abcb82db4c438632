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
from ergode.core.errors import ModelError, PlanError
from ergode.core.results import Variable
from ergode.core.source import Precision
from ergode.core.status import Status
from ergode.epidemics.ensemble import Ensemble
from ergode.epidemics.line_list import cases_of
from ergode.epidemics.seeding import Initial
from ergode.epidemics.statistics import Statistics
from ergode.models.compartments import CompartmentModel
from ergode.models.contacts import ContactNetwork

if TYPE_CHECKING:
    import xarray

Method = Literal["auto", "first-passage"]
Output = Literal["counts", "statistics", "line_list"]

_STATUS = Variable("status", ("replicate",), "uint8", "1", "how the replicate ended (see Status)")
_GRID = ("time", "compartment")
results.register(
    "epidemics",
    "counts",
    [
        Variable("count", ("replicate", *_GRID), "int32", "1", "nodes in a compartment at a time"),
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
    contacts: ContactNetwork,
    *,
    initial: Initial,
    times: ArrayLike,
    replicates: int = 1,
    seed: int = 0,
    method: Method = "auto",
    device: str | devices.Device = "auto",
    output: Output = "counts",
    quantiles: Sequence[float] = (0.025, 0.25, 0.5, 0.75, 0.975),
    precision: Precision = "float32",
    progress: bool = False,
) -> xarray.Dataset:
    """Simulate an epidemic, exactly, many times over.

    Parameters
    ----------
    model : CompartmentModel
        Compartments, infections and holding times.
    contacts : ContactNetwork
        Who may infect whom; weights multiply the transmission rate.
    initial : mapping of str to int, float or array
        Who is where at ``times[0]``: for each compartment but the susceptible one an integer
        (that many nodes, drawn anew in every replicate), a float below one (that fraction of
        nodes, rounded), or an array of node ids (the same in every replicate). Everybody else is
        susceptible. Nodes placed in a compartment have just entered it.
    times : array_like, shape [time_count]
        Ascending grid on which results are reported [time]. The simulation begins at ``times[0]``
        and ends at ``times[-1]``; in between it takes no steps.
    replicates : int
        Number of independent runs.
    seed : int
        Key of all randomness, 0 to 2^64 - 1. Replicate r is the same however many others are run,
        on any number of threads, on any device.
    method : {"auto", "first-passage"}
        See `ergode.epidemics.first_passage`.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    output : {"counts", "statistics", "line_list"}
        ``"counts"``: count(replicate, time, compartment). ``"statistics"``: mean, variance
        (time, compartment) and quantile(level, time, compartment) over replicates.
        ``"line_list"``: every case, its infector and the times of its stages.
    quantiles : sequence of float
        Levels for ``output="statistics"``.
    precision : {"float32", "float64"}
        Type of times and draws. In float32 a time is within 1e-7 of itself.
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
    RuntimeWarning
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
    if not isinstance(contacts, ContactNetwork):
        raise ModelError(
            f"contacts is {type(contacts).__name__}; expected a ContactNetwork, such as "
            "ergode.ContactNetwork.from_edges(source, target)"
        )
    grid = time_grid(times)
    replicates = integer("replicates", replicates, 1, 2**32 - 1)
    seed = integer("seed", seed, 0, 2**64 - 1)
    if precision not in ("float32", "float64"):
        raise PlanError(f"precision {precision!r} is unknown; expected 'float32' or 'float64'")
    collect = _collector(output, model, contacts, grid, replicates, quantiles)
    reason = _check_method(method, model)
    place = devices.resolve(device)
    started = clock.perf_counter()
    ensemble = Ensemble(
        model, contacts, initial, times=grid, seed=seed, device=place, precision=precision
    )
    prepared = clock.perf_counter()
    ensemble.prepare()
    preparing = clock.perf_counter() - prepared
    done, work, interrupted = _run(ensemble, collect, replicates, progress)
    attrs = results.provenance(
        engine="epidemics",
        method="first-passage",
        method_reason=reason,
        device=place.name,
        device_model=place.model,
        device_reason=place.reason,
        precision=precision,
        seed=str(seed),
        replicates=done,
        model=json.dumps(model.to_dict()),
        model_digest=model.digest,
        network_digest=contacts.digest,
        node_count=contacts.node_count,
        susceptible=model.infections[0].susceptible,
        infectious=",".join(model.infectious),
        expansions=int(work[0]),
        passes=int(work[1]),
        interrupted=int(interrupted),
        wall_seconds=clock.perf_counter() - started - preparing,
        prepare_seconds=preparing,
    )
    coords = {"compartment": list(model.compartments), "time": grid}
    return collect.dataset(done, coords, attrs)


def _run(
    ensemble: Ensemble, collect: _Collector, replicates: int, show: bool
) -> tuple[int, np.ndarray, bool]:
    """Run the replicates chunk by chunk; return how many were finished, and their work."""
    size = ensemble.chunk_size(replicates)
    work = np.zeros(2, np.int64)
    done = 0
    with progress.track("epidemics", replicates, unit="replicates", show=show) as report:
        try:
            for start, stop in devices.spans(replicates, size):
                words, counters = ensemble.spread(start, stop - start)
                collect.add(ensemble, words, start)
                work += ensemble.device.get(counters)
                done = stop
                report(stop - start)
        except KeyboardInterrupt:
            if done == 0:
                raise
            warnings.warn(
                f"interrupted: {done} of {replicates} replicates are returned",
                RuntimeWarning,
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

    def add(self, ensemble: Ensemble, words: Any, first: int) -> None:
        self._chunks.append(ensemble.count(words, first))

    def dataset(
        self, done: int, coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        chunks = self._chunks
        values = {
            "count": chunks[0] if len(chunks) == 1 else np.concatenate(chunks),
            "status": np.full(done, Status.DONE, np.uint8),
        }
        coords = {**coords, "replicate": np.arange(done)}
        return results.dataset("epidemics", "counts", values, coords=coords, attrs=attrs)


class _Statistics(_Collector):
    def __init__(self, statistics: Statistics, quantiles: Sequence[float]) -> None:
        self._statistics = statistics
        self._quantiles = quantiles

    def add(self, ensemble: Ensemble, words: Any, first: int) -> None:
        self._statistics.add(ensemble.count(words, first))

    def dataset(
        self, done: int, coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        values = {
            "mean": self._statistics.mean(),
            "variance": self._statistics.variance(),
            "quantile": self._statistics.quantile(self._quantiles),
            "status": np.full(done, Status.DONE, np.uint8),
        }
        coords = {**coords, "level": list(self._quantiles)}
        return results.dataset("epidemics", "statistics", values, coords=coords, attrs=attrs)


class _LineList(_Collector):
    def __init__(self, node_names: np.ndarray | None) -> None:
        self._chunks: list[dict[str, Any]] = []
        self._node_names = node_names

    def add(self, ensemble: Ensemble, words: Any, first: int) -> None:
        host = ensemble.device if not ensemble.device.is_cuda else devices.resolve("cpu")
        self._chunks.append(cases_of(ensemble, host, ensemble.device.get(words), first))

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
    contacts: ContactNetwork,
    grid: np.ndarray,
    replicates: int,
    quantiles: Sequence[float],
) -> _Collector:
    shape = (replicates, grid.size, len(model.compartments), contacts.node_count)
    if output == "counts":
        _check_memory(4 * int(np.prod(shape[:3], dtype=object)), "counts", "output='statistics'")
        return _Counts()
    if output == "statistics":
        levels = [float(level) for level in np.atleast_1d(quantiles)]
        if not all(0.0 <= level <= 1.0 for level in levels):
            raise PlanError(f"quantiles are {levels}; expected levels between 0 and 1")
        _check_memory(Statistics.bytes_needed(*shape), "statistics", "fewer times")
        return _Statistics(Statistics(*shape), levels)
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


def _check_method(method: str, model: CompartmentModel) -> str:
    """Whether the method can run the model; why it was chosen."""
    if method not in ("auto", "first-passage"):
        raise PlanError(f"method {method!r} is unknown; expected 'auto' or 'first-passage'")
    if model.recurrent:
        raise PlanError(
            "nodes of this model can become susceptible again, and the method 'first-passage' is "
            "exact only where they cannot"
        )
    susceptible = model.infections[0].susceptible
    if any(p.compartment == susceptible for p in model.progressions):
        raise PlanError(
            f"nodes of this model leave '{susceptible}' without being infected, and the method "
            "'first-passage' knows infection as the only way out"
        )
    if len(model.infections) > 1:
        raise PlanError(
            f"this model has {len(model.infections)} infections, and the method 'first-passage' "
            "follows one; where they differ in susceptibility alone, a node attribute can say so "
            "(CompartmentModel(susceptibility=...))"
        )
    if method == "auto":
        return "exact, and the cheapest method for a model without re-susceptibility"
    return "asked for"
