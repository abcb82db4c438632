"""A formula in two forms: compiled into a kernel, or run as a program by a standing kernel.

A kernel that runs programs depends on the method and the number of variables alone.  It is
compiled once a machine, when a second formula wants it, and every new formula then starts at once.
A compiled formula is 10 to 30 times faster, after seconds of compiling.  Both give the same
results to the last bit, so that the one can take over from the other in the middle of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal, NamedTuple, get_args

from ergode.core.compiler.source import Target
from ergode.core.devices import Device
from ergode.core.kernels import Kernel

Compile = Literal["auto", "now", "never"]
COMPILE = get_args(Compile)

COMPILING = 3.0
"""Seconds that compiling takes, about: a program does what takes it less than that."""

# Seconds that a program takes, and each of its steps.
_EACH, _EACH_STEP = 15e-9, 2.5e-9

_SPENT: dict[Any, float] = {}
"""Seconds that a program has run in this process, by the kernel that it stands for."""


def stands_in(own: Kernel, standing: Kernel, target: Target, seconds: float) -> bool:
    """Whether a kernel made for every model is to run in place of a model's own.

    It is, until it has run for as long as the own one takes to compile, if that is not compiled.

    Parameters
    ----------
    own, standing : Kernel
    target : {"cpu", "cuda"}
    seconds : float
        Estimated time that the standing kernel needs.
    """
    key = own.key(target)
    total = seconds + _SPENT.get(key, 0.0)
    if total > COMPILING or own.is_kept(target):
        return False
    worth_it = _is_worth_it(standing, target)
    if worth_it:
        _SPENT[key] = total
    return worth_it


def _is_worth_it(standing: Kernel, target: Target) -> bool:
    """Whether a standing kernel is compiled, or a second formula or model wants it.

    It takes longer to compile than a formula or model alone: for one that is not worth it.
    """
    return standing.is_kept(target) or standing.was_wanted(target)


class Trial(NamedTuple):
    """A run that ends after a while, in which it may not come to its end.

    Attributes
    ----------
    arguments : tuple
        Of the kernel, that make it end.
    was_cut : function
        ``was_cut(start, stop)``: whether any of these indices was ended so.
    forget : function
        ``forget(start, stop)``: these indices are about to be run again.
    """

    arguments: tuple[Any, ...]
    was_cut: Callable[[int, int], bool]
    forget: Callable[[int, int], None]


def _nothing(start: int, stop: int) -> None:
    """Forget nothing: there is nothing that a second run would change."""


@dataclass
class Formulation:
    """The kernels of a formula on a CPU.

    Attributes
    ----------
    compiled : Kernel
        Made for the formula.  Its last argument is an empty tuple.
    standing : Kernel or None
        Made for any formula: its last argument is a program.  None if the formula has no program.
    program : tuple of ndarray
        Steps, registers and outputs (see `compiler.tracer.Program`).
    when : {"auto", "now", "never"}
        When to compile: never, at once, or where that is sooner done.
    used : list of str
        What has run: ``"program"``, ``"compiled"``.
    """

    compiled: Kernel
    standing: Kernel | None = None
    program: tuple[Any, ...] = ()
    when: Compile = "now"
    used: list[str] = field(default_factory=list)

    def run(
        self,
        device: Device,
        count: int,
        *arguments: Any,
        grain: int,
        first: int,
        seconds: float = 0.0,
        trial: Trial | None = None,
        finished: Callable[[int, int], None],
        piece: int = 1,
    ) -> None:
        """Run the kernel over ``range(count)``.

        Parameters
        ----------
        device : Device
            A CPU.
        count : int
        *arguments
            Of the kernel, but for the program.
        grain : int
            Indices that a thread takes at a time.
        first : int
            Indices that each thread does by the program to begin with.  The time that they take
            decides whether the formula is compiled for the others.
        seconds : float
            What is known before of the time that the program needs for all indices.
        trial : Trial, optional
            How a program ends that would run for too long.
        finished : function
            ``finished(start, stop)`` is called when a range is done.
        piece : int
            As of `Device.run`.
        """
        key = self.compiled.key("cpu")
        kernel, done = self._first_kernel(key, seconds), 0
        if kernel is self.standing and self.when == "auto":
            trial = trial or Trial(arguments, lambda start, stop: False, _nothing)
            begin = min(first * device.core_count, count)
            for stop, size in ((begin, -(-begin // device.core_count)), (count, grain)):
                before = _SPENT.get(key, 0.0)
                if done == count:
                    break
                if not self._tried(device, done, stop, trial, size, finished, piece):
                    device.prepare(self.compiled, *arguments, ())
                    trial.forget(done, stop)
                    break
                each, done = (_SPENT[key] - before) / (stop - done), stop
                if each * (count - done) > COMPILING:
                    break
            kernel = self.compiled
        if done < count:
            self._run(device, kernel, done, count, arguments, grain, finished, piece)

    def _tried(
        self, device: Device, start: int, stop: int, trial: Trial, grain: int,
        finished: Callable[[int, int], None], piece: int,
    ) -> bool:  # fmt: skip
        """Run the program over a range; whether it came to its end."""
        assert self.standing is not None
        ended: list[tuple[int, int]] = []

        def keep(start: int, stop: int) -> None:
            ended.append((start, stop))

        try:
            self._run(device, self.standing, start, stop, trial.arguments, grain, keep, piece)
        except BaseException:
            for one in ended:
                if not trial.was_cut(*one):
                    finished(*one)
            raise
        if trial.was_cut(start, stop):
            return False
        for one in ended:
            finished(*one)
        return True

    def _run(
        self, device: Device, kernel: Kernel, start: int, stop: int, arguments: tuple[Any, ...],
        grain: int, finished: Callable[[int, int], None], piece: int,
    ) -> None:  # fmt: skip
        name, last = ("program", self.program) if kernel is self.standing else ("compiled", ())
        if name not in self.used:
            self.used.append(name)
        device.prepare(kernel, *arguments, last)
        begin, key = perf_counter(), self.compiled.key("cpu")
        device.run(
            kernel, stop - start, *arguments, last, grain=grain, first=start, finished=finished,
            piece=piece,
        )  # fmt: skip
        if name == "program":
            _SPENT[key] = _SPENT.get(key, 0.0) + perf_counter() - begin

    def seconds(self, evaluations: float) -> float:
        """Estimated time of one core for so many runs of the program [s]."""
        return evaluations * (_EACH + _EACH_STEP * len(self.program[0])) if self.program else 0.0

    def evaluations(self, seconds: float) -> int:
        """How often a core runs the program in this time, about."""
        return int(seconds / self.seconds(1)) if self.program else 0

    def _first_kernel(self, key: Any, seconds: float) -> Kernel:
        if self.standing is None or self.when == "now":
            return self.compiled
        if self.when == "never":
            return self.standing
        if seconds + _SPENT.get(key, 0.0) > COMPILING or self.compiled.is_kept("cpu"):
            return self.compiled
        return self.standing if _is_worth_it(self.standing, "cpu") else self.compiled
