"""Compute the parts of a call: here, by an executor, or by a thread for each device.

A plan is the engine's call with its arguments, as bytes. It travels once to a worker that keeps it;
a worker that does not have it says so, and is sent it.
"""

from __future__ import annotations

import concurrent.futures as futures
import hashlib
import inspect
import io
import linecache
import pickle
import sys
import sysconfig
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from ergode.core.calls.checkpoint import SUFFIX, Keeper
from ergode.core.calls.job import Whole
from ergode.core.context import Running, run_with
from ergode.core.devices import Device
from ergode.core.errors import PlanError

if TYPE_CHECKING:
    import xarray


class Part(NamedTuple):
    """Members of an ensemble, and what differs in the call that computes them."""

    start: int  # number of the first member
    stop: int  # and one beyond the last
    first_row: int  # number of its first row in the whole
    changes: dict[str, Any]  # arguments of the call that differ from those of the whole


def part_name(start: int, stop: int) -> str:
    """Name of a part in a store."""
    return f"{start:012d}-{stop:012d}"


class Done(NamedTuple):
    """A result of a part, and its warnings: message and name of the category."""

    dataset: xarray.Dataset
    warnings: list[tuple[str, str]]


@dataclass
class Plan:
    """A call whose parts are computed."""

    call: str  # module and name of the engine's call, with a colon between them
    arguments: dict[str, Any]  # arguments of the whole
    whole: Whole
    version: str  # version of this library
    # folder of the store, and the seconds between two checkpoints of a part
    checkpoints: tuple[str, float] | None = None

    @cached_property
    def payload(self) -> bytes:
        """The plan as bytes, with the text of the user's functions in it.

        Raises a PlanError if an argument cannot be pickled.
        """
        body, texts = _pickled((self.call, self.arguments, self.whole, self.checkpoints))
        return pickle.dumps((self.version, texts, body))

    @cached_property
    def key(self) -> str:
        """Digest of the bytes."""
        return hashlib.sha256(self.payload).hexdigest()

    def compute(self, part: Part, device: Device | None = None) -> Done:
        """Compute a part."""
        module, name = self.call.split(":")
        prepare = inspect.unwrap(getattr(import_module(module), name))
        arguments = {**self.arguments, **part.changes}
        if device is not None:
            arguments["device"] = device
        warnings: list[tuple[str, type[Warning]]] = []
        with run_with(Running(keeper=self._keeper(part), warnings=warnings)):
            dataset = prepare(replace(self.whole, first_row=part.first_row), **arguments).run()
        return Done(dataset, [(message, kind.__name__) for message, kind in warnings])

    def _keeper(self, part: Part) -> Keeper | None:
        """Where a part keeps its checkpoints."""
        if self.checkpoints is None:
            return None
        store, seconds = self.checkpoints
        return Keeper(Path(store) / (part_name(part.start, part.stop) + SUFFIX), seconds)


# ---- workers

_SMALL = 1 << 16
"""Bytes of a plan that is sent with every task."""
_KEPT = 4
_plans: OrderedDict[str, Plan] = OrderedDict()
_lock = Lock()


def compute(key: str, payload: bytes | None, version: str, part: Part) -> Done | None:
    """Compute a part in a worker; None if the worker does not have the plan.

    Raises a PlanError if the worker has another version of this library.
    """
    import ergode

    if ergode.__version__ != version:
        raise PlanError(
            f"a worker has ergode {ergode.__version__}, and this call is of {version}; install one "
            "version everywhere"
        )
    with _lock:
        plan = _plans.get(key)
    if plan is None:
        if payload is None:
            return None
        plan = keep(key, _plan_of(payload))
    return plan.compute(part)


def keep(key: str, plan: Plan) -> Plan:
    """Keep a plan for the tasks that follow; the oldest are dropped."""
    with _lock:
        plan = _plans.setdefault(key, plan)
        while len(_plans) > _KEPT:
            _plans.popitem(last=False)
    return plan


def _plan_of(payload: bytes) -> Plan:
    version, texts, body = pickle.loads(payload)
    for file, text in texts.items():
        lines = text.splitlines(keepends=True)
        if linecache.getlines(file) != lines:
            linecache.cache[file] = (len(text), None, lines, file)
    call, arguments, whole, checkpoints = pickle.loads(body)
    return Plan(call, arguments, whole, version, checkpoints)


# ---- pickling: functions of the user by value, and their text


def _pickled(value: Any) -> tuple[bytes, dict[str, str]]:
    from numba import cloudpickle

    texts: dict[str, str] = {}

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        def _function_reduce(self, function: FunctionType) -> Any:
            if not _is_installed(function):
                file = function.__code__.co_filename
                texts[file] = "".join(linecache.getlines(file, function.__globals__))
                return self._dynamic_function_reduce(function)
            return super()._function_reduce(function)

    into = io.BytesIO()
    try:
        Pickler(into, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    except (TypeError, pickle.PicklingError, AttributeError, RecursionError) as error:
        raise PlanError(
            f"an argument cannot be sent to a worker: {error}; use a ThreadPoolExecutor, or no "
            "executor"
        ) from None
    return into.getvalue(), texts


def _is_installed(function: FunctionType) -> bool:
    """Whether workers find the function by its name: it belongs to an installed package."""
    if (function.__module__ or "").startswith("ergode."):
        return True
    file = getattr(sys.modules.get(function.__module__ or ""), "__file__", None)
    if file is None:
        return False
    return any(Path(file).resolve().is_relative_to(one) for one in _installed(tuple(sys.path)))


@cache
def _installed(searched: tuple[str, ...]) -> list[Path]:
    """Folders of installed packages, among those that Python searches.

    They need not be those of this Python: an environment may use the packages of another one, and
    ``pip install --target`` takes any folder.
    """
    own = [sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")]
    others = [one for one in searched if any(Path(one).glob("*.dist-info"))]
    return [Path(one).resolve() for one in (*own, *others)]


# ---- runs

Finished = Iterator[tuple[Part, Done]]


def run_here(plan: Plan, parts: Sequence[Part]) -> Finished:
    """Compute parts one after the other."""
    for part in parts:
        yield part, plan.compute(part)


def run_on_devices(plan: Plan, parts: Sequence[Part], devices: Sequence[Device]) -> Finished:
    """Compute parts by one thread for each device; each takes the next part when it is free."""
    free: SimpleQueue[Device] = SimpleQueue()
    for device in devices:
        free.put(device)

    def work(part: Part) -> Done:
        device = free.get()
        try:
            return plan.compute(part, device)
        finally:
            free.put(device)

    with futures.ThreadPoolExecutor(len(devices)) as pool:
        yield from _gathered(lambda part, _: pool.submit(work, part), parts, 2 * len(devices))


def run_by(plan: Plan, parts: Sequence[Part], executor: futures.Executor) -> Finished:
    """Compute parts by the workers of an executor; those of a worker that died once more."""
    workers = getattr(executor, "_max_workers", None)
    count = workers if isinstance(workers, int) else 16
    sent = 0

    def submit(part: Part, must_send: bool) -> futures.Future[Any]:
        nonlocal sent
        if isinstance(executor, futures.ThreadPoolExecutor):
            return executor.submit(plan.compute, part)
        sends = must_send or sent < count or len(plan.payload) <= _SMALL
        sent += 1
        return executor.submit(
            compute, plan.key, plan.payload if sends else None, plan.version, part
        )

    yield from _gathered(submit, parts, 2 * count)


def _gathered(
    submit: Callable[[Part, bool], futures.Future[Any]], parts: Sequence[Part], most: int
) -> Finished:
    """Results as they come; at most `most` parts are under way."""
    todo = deque((part, False) for part in parts)
    under_way: dict[futures.Future[Any], Part] = {}
    lost: Counter[int] = Counter()
    try:
        while todo or under_way:
            while todo and len(under_way) < most:
                part, must_send = todo[0]
                try:
                    under_way[submit(part, must_send)] = part
                except RuntimeError as error:  # such as BrokenExecutor
                    if under_way:
                        break  # what is done is kept first
                    raise PlanError(
                        f"the executor takes no more work, because a worker died or it was shut "
                        f"down: {error}"
                    ) from error
                todo.popleft()
            done, _ = futures.wait(under_way, return_when=futures.FIRST_COMPLETED)
            ended = [(under_way.pop(one), one, _error_of(one)) for one in done]
            # Results first: an error of another part must not lose them.
            for part, future, failure in sorted(ended, key=lambda one: one[2] is not None):
                if failure is None and future.result() is None:
                    todo.appendleft((part, True))
                elif failure is None:
                    yield part, future.result()
                elif not _is_loss(failure):
                    raise failure
                elif lost[part.start]:
                    raise PlanError(
                        f"workers died twice over {part.start} to {part.stop - 1}: {failure}"
                    ) from failure
                else:
                    lost[part.start] += 1
                    todo.append((part, True))
    finally:
        for future in under_way:
            future.cancel()


def _error_of(future: futures.Future[Any]) -> BaseException | None:
    return futures.CancelledError() if future.cancelled() else future.exception()


def _is_loss(error: BaseException) -> bool:
    """Whether a worker died, rather than the part failed."""
    kinds = futures.BrokenExecutor, futures.CancelledError
    return isinstance(error, kinds) or type(error).__name__ == "KilledWorker"  # Dask's
