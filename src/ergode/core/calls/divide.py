"""Divide the call of an engine: into parts that executors, devices and later sittings compute.

`divisible` makes the call of what prepares its job (`core.calls.job`). Without `executor`, `store`,
`chunk` and several devices, the job runs as it is. Otherwise it is prepared, which checks it, its
members are divided into parts, and the joined parts are returned: the same bits. With `checkpoint`,
a part that was left in the middle goes on from there.
"""

from __future__ import annotations

import concurrent.futures as futures
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, cast

from ergode.core import devices, errors, inputs, log, stopwatch
from ergode.core.arguments import check_switch, integer, number, replicate_numbers
from ergode.core.calls import parts, progress, resident
from ergode.core.calls.checkpoint import Keeper
from ergode.core.calls.job import Job, Whole
from ergode.core.calls.launch import warn
from ergode.core.calls.resident import KEEP
from ergode.core.calls.store import Manifest, Store, kind_of, members_of
from ergode.core.calls.tasks import Done, Finished, Part, Plan, run_by, run_here, run_on_devices
from ergode.core.context import Running, run_with
from ergode.core.errors import PlanError
from ergode.core.keywords import suggesting
from ergode.core.status import Status
from ergode.core.words import counted

if TYPE_CHECKING:
    import xarray

P = ParamSpec("P")
Executor = futures.Executor
StorePath = str | os.PathLike[str]

_OWN = ("executor", "store", "chunk", "checkpoint")
_USUAL_PARTS = 64
_SAID = 4  # warnings of one category


class Axis(NamedTuple):
    """The dim along which a call is divided."""

    dim: str  # of the result
    numbers: range  # numbers of its members
    # ``cut(start, stop)`` returns the arguments of the call for these members
    cut: Callable[[int, int], dict[str, Any]]
    rows: int = 0  # rows of each member


class Merge(NamedTuple):
    """How an output that sums over members is made of parts."""

    changes: dict[str, Any]  # arguments of the parts that differ from those of the call
    # ``join(parts, count)`` returns the result of all `count` members
    join: Callable[[Iterable[xarray.Dataset], int], xarray.Dataset]


ALONE = "run"
"""Dim of a call that has one part."""


def alone(arguments: Mapping[str, Any]) -> Axis:
    """The one part of a call that is not divided, and only has checkpoints."""
    return Axis(ALONE, range(1), lambda start, stop: {})


AxisOf = Callable[[Mapping[str, Any]], Axis]
MergeOf = Callable[[Mapping[str, Any]], Merge | None]


def replicates_of(arguments: Mapping[str, Any]) -> Axis:
    """The replicates of a call."""
    numbers = replicate_numbers(arguments["replicates"], 2**32 - 1)
    return Axis(parts.REPLICATE, numbers, lambda start, stop: {"replicates": range(start, stop)})


def divisible(
    engine: str,
    axis_of: AxisOf,
    merge_of: MergeOf = lambda _: None,
    rows: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Callable[Concatenate[Whole, P], Job]], Callable[P, xarray.Dataset]]:
    """Make the call of an engine, which may be in parts, of what prepares its job.

    The call has an attribute ``first``, a function of a number and the same arguments. It returns
    the result for that many members, from the first one on, and the number of all members.

    Parameters
    ----------
    engine : str
        Its name in results.
    axis_of : function
        The axis along which it is divided, from the arguments by name.
    merge_of : function
        How parts make the output, from the arguments; None if they are joined.
    rows : mapping of str to str
        Arguments that may have a value for each member, and the dim of these members.
    """

    def decorate(prepare: Callable[Concatenate[Whole, P], Job]) -> Callable[P, xarray.Dataset]:
        signature = _signature_of_call(prepare)
        own = [name for name in _OWN if name in signature.parameters]

        def bound(given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
            found = signature.bind(*given, **named)
            found.apply_defaults()
            return found.arguments

        @suggesting
        @wraps(prepare)
        def public(*given: P.args, **named: P.kwargs) -> xarray.Dataset:
            named = cast(Any, resident.host_arguments(named))
            several = "executor" in own and _is_several(named.get("device"))
            record = inputs.Record(prepare, given, named)
            if KEEP in named and _is_kept(prepare.__name__, named, several):
                with resident.staying(named.get("device", "auto")):
                    return record.on(prepare(Whole(), *given, **named).run())
            with run_with(Running()), stopwatch.quiet(named.get("progress") is False):
                if not several and all(named.get(name) is None for name in own):
                    return record.on(prepare(Whole(), *given, **named).run())
                division = _Division(engine, prepare, axis_of, merge_of, bound(given, named))
                return record.on(division.result())

        def first(size: int, *given: P.args, **named: P.kwargs) -> tuple[xarray.Dataset, int]:
            arguments = bound(given, named)
            axis = axis_of(arguments)
            if axis.dim == ALONE:
                raise PlanError(
                    "--time estimates the time of an ensemble; this run has no members to divide"
                )
            start, stop = axis.numbers.start, axis.numbers.stop
            few = arguments | dict.fromkeys(own) | axis.cut(start, min(start + size, stop))
            return cast(Any, prepare)(Whole(), **few).run(), stop - start

        public.__dict__["first"] = first
        return inputs.recording(public, rows)

    return decorate


def _signature_of_call(prepare: Callable[..., Job]) -> inspect.Signature:
    """The signature of the call that is made of `prepare`, which then shows it, too."""
    own = inspect.signature(prepare)
    (first, _), *others = own.parameters.items()
    found = own.replace(parameters=[one for _, one in others], return_annotation="xarray.Dataset")
    prepare.__dict__["__signature__"] = found
    prepare.__annotations__["return"] = found.return_annotation
    del prepare.__annotations__[first]
    return found


def _is_kept(owner: str, named: Mapping[str, Any], several: bool) -> bool:
    """Whether the result of a call stays on the device.

    Raises a PlanError if there are other options that bring the result to the host.
    """
    check_switch(owner, KEEP, named[KEEP])
    if not named[KEEP]:
        return False
    for name in _OWN:
        if named.get(name) is not None:
            raise PlanError(
                f"{KEEP} is given with {name}, which collects the result on the host; expected one "
                "of them"
            )
    if several:
        raise PlanError(f"{KEEP} is for one device, and device names several")
    return True


def _is_several(device: Any) -> bool:
    is_all = isinstance(device, str) and device == "cuda:all"
    return isinstance(device, list | tuple) or is_all


class _Division:
    """A call that is computed in parts; making it checks all arguments."""

    def __init__(
        self,
        engine: str,
        prepare: Callable[..., Job],
        axis_of: AxisOf,
        merge_of: MergeOf,
        given: Mapping[str, Any],
    ) -> None:
        arguments = dict(given)
        self._own = [name for name in _OWN if name in arguments]
        executor, store, chunk, every = (arguments.pop(name, None) for name in _OWN)
        self._every = None if every is None else _seconds(every, store)
        self._merge = merge_of(arguments)
        self._engine, self._prepare, self._arguments = engine, prepare, arguments
        self._run = _runner(executor, arguments["device"])
        self._show = arguments["progress"]
        self._store = None if store is None else Store(store)
        self._size = None if chunk is None else integer("chunk", chunk, 1, 2**63 - 1)
        device: Any = arguments["device"]
        if executor is not None:
            devices.check_name(device)  # workers have devices of their own
            device = "cpu"
        elif _is_several(device):
            device = devices.several(device)[0]
        checked = arguments | dict.fromkeys(self._own) | {"device": device}
        self._whole = Whole()
        by_replicates = arguments.get("replicates") is not None
        if by_replicates:
            self._axis = axis_of(arguments)
            numbers = self._axis.numbers
            self._whole.replicates = len(numbers)
            checked |= self._axis.cut(*self._spans(numbers.start, numbers.stop)[0])
        asked = None if self._every is None else Keeper(None, self._every)
        with run_with(Running(keeper=asked, warnings=[])):  # parts have the same warnings
            job = prepare(self._whole, **checked)
        self._facts = job.facts
        if self._every is not None and job.unresumed:
            raise PlanError(f"checkpoint: {job.unresumed}, or leave checkpoint out")
        if not by_replicates:
            self._axis = axis_of(arguments)
            self._check_rows(job.undivided, executor)
        if self._merge is not None:
            arguments |= self._merge.changes

    def _check_rows(self, reason: str, executor: Any) -> None:
        """Make one part of rows that are not divided.

        Raises a PlanError if more parts are asked for.
        """
        if not reason or len(self._axis.numbers) < 2:
            return
        if self._every is None or self._size is not None or executor is not None:
            raise PlanError(f"executor, store and chunk: {reason}")
        self._axis = alone({})

    def _spans(self, start: int, stop: int) -> list[tuple[int, int]]:
        size = self._size or -(-len(self._axis.numbers) // _USUAL_PARTS)
        return [(first, min(first + size, stop)) for first in range(start, stop, size)]

    def result(self) -> xarray.Dataset:
        """The whole, joined from its parts."""
        self._tell()
        plan = self._plan()
        datasets: Iterable[xarray.Dataset]
        if self._store is None:
            found: list[tuple[Part, Done]] = []
            self._compute(plan, [], lambda part, done: found.append((part, done)))
            found.sort(key=lambda one: one[0].start)
            datasets = [done.dataset for _, done in found]
            said = [one for _, done in found for one in done.warnings]
        else:
            store = self._store
            store.begin(self._manifest())
            self._compute(plan, store.sound_parts(), store.write, f" in '{store.path}'")
            kept = store.sound_parts()
            datasets = map(store.read, kept)
            said = [one for part in kept for one in store.warnings_of(part)]
        _say(said)
        if self._merge is not None:
            return self._merge.join(datasets, len(self._axis.numbers))
        first, *others = datasets
        return parts.join([first, *others], self._axis.dim) if others else first

    def _tell(self) -> None:
        """Tell the facts and the parts; end a call that is only planned."""
        axis, numbers = self._axis, self._axis.numbers
        unit = members_of(axis.dim)
        size = self._size or -(-len(numbers) // _USUAL_PARTS)
        told = f"{len(numbers):,} {members_of(axis.dim, len(numbers))} in parts of {size:,}"
        if self._store is not None and self._store.exists:
            if log.is_plan_only():
                self._store.check(self._manifest())
            done = sum(stop - start for start, stop in self._store.parts())
            told += f", {done:,} {unit} are done"
            begun = len(self._store.checkpoints())
            verb = "goes" if begun == 1 else "go"
            told += f", {counted(begun, 'part')} {verb} on from a checkpoint" if begun else ""
        log.tell_all({**self._facts, "parts": told})
        log.checked()
        log.computes()

    def _plan(self) -> Plan:
        """The call without the values that each part brings."""
        import ergode

        call = f"{self._prepare.__module__}:{self._prepare.__name__}"
        start = self._axis.numbers.start
        arguments = self._arguments | dict.fromkeys(self._own) | {"progress": False}
        for name in self._axis.cut(start, start + 1):
            del arguments[name]
        kept = None
        if self._store is not None and self._every is not None:
            kept = str(self._store.path.resolve()), self._every
        return Plan(call, arguments, self._whole, ergode.__version__, kept)

    def _manifest(self) -> Manifest:
        import ergode

        numbers = self._axis.numbers
        decisions = {f"{name} of all": value for name, value in self._whole.decisions.items()}
        values, counted = self._arguments | decisions, {*inputs.WITHOUT_EFFECT}
        if self._axis.dim == parts.REPLICATE:
            counted.add("replicates")  # there may be more of them later
        found = inputs.digests({name: v for name, v in values.items() if name not in counted})
        return Manifest(
            self._engine, ergode.__version__, self._axis.dim, numbers.start, numbers.stop, found
        )

    def _missing(self, kept: Sequence[tuple[int, int]]) -> list[Part]:
        """Parts of the members that are in none of those that are kept."""
        axis, start, found = self._axis, self._axis.numbers.start, []
        for begin, end in [*kept, (axis.numbers.stop, axis.numbers.stop)]:
            for first, last in self._spans(start, begin):
                found.append(Part(first, last, first * axis.rows, axis.cut(first, last)))
            start = end
        return found

    def _compute(
        self,
        plan: Plan,
        kept: Sequence[tuple[int, int]],
        keep: Callable[[Part, Done], None],
        where: str = "",
    ) -> None:
        """Compute what is missing, and keep it part by part.

        Raises a KeyboardInterrupt if the run was interrupted. If there is a store, the message says
        how many members it has.
        """
        axis, missing = self._axis, self._missing(kept)
        total, done = len(axis.numbers), sum(stop - start for start, stop in kept)
        unit = members_of(axis.dim)
        kinds = self._store.kinds() if self._store else set()
        with progress.track(unit, total, unit=unit, show=self._show) as report:
            report(done)
            try:
                for part, found in self._run(plan, missing):
                    if not _is_whole(found.dataset):
                        raise KeyboardInterrupt
                    kinds.add(kind_of(found.dataset))
                    if len(kinds) > 1:
                        raise PlanError(
                            "parts were computed on a CPU and on a GPU, whose results differ by "
                            "rounding; expected one kind of device"
                        )
                    keep(part, found)
                    done += part.stop - part.start
                    report(part.stop - part.start)
            except KeyboardInterrupt:
                said = f"; {done} of {total} {unit} are kept{where}" if where else ""
                raise KeyboardInterrupt(f"interrupted{said}") from None
            except PlanError as error:
                if not where:
                    raise
                said = f"{error}; {done} of {total} {unit} are kept{where}"
                raise type(error)(said) from error


def _runner(executor: Any, device: Any) -> Callable[[Plan, Sequence[Part]], Finished]:
    """What computes parts."""
    if executor is None:
        if _is_several(device):
            return partial(run_on_devices, devices=devices.several(device))
        return run_here
    if not isinstance(executor, Executor):
        raise PlanError(
            f"executor is {executor!r:.80}; expected a concurrent.futures.Executor, such as a "
            "ProcessPoolExecutor"
        )
    if _is_several(device):
        raise PlanError(
            "device names several devices, and there is an executor; expected one device for each "
            "worker"
        )
    return partial(run_by, executor=executor)


def _is_whole(dataset: xarray.Dataset) -> bool:
    """Whether every member of a part was computed."""
    if dataset.attrs.get("interrupted"):
        return False
    return "status" not in dataset or not bool(dataset["status"].isin(_UNDONE).any())


_UNDONE = (Status.NOT_RUN, Status.INTERRUPTED)


def _seconds(every: Any, store: Any) -> float:
    """The seconds between two checkpoints."""
    if store is None:
        raise PlanError("checkpoint is given without store; expected store='run.zarr' as well")
    return number("checkpoint", every, above=0)


def _say(warnings: Sequence[tuple[str, str]]) -> None:
    """Issue the warnings of parts, each once, and only the first few of a category."""
    by_kind: dict[str, dict[str, None]] = {}
    for text, kind in warnings:
        by_kind.setdefault(kind, {})[text] = None
    for kind, texts in by_kind.items():
        category = getattr(errors, kind, errors.ErgodeWarning)
        for text in list(texts)[:_SAID]:
            warn(text, category)
        if len(texts) > _SAID:
            warn(f"{len(texts) - _SAID} more warnings of this kind in other parts", category)
