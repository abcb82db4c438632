"""A formula in two forms: compiled into a kernel, or interpreted as a program by a generic kernel.

The generic kernel depends only on the method and the number of variables.  It is compiled once per
machine, when a second formula needs it; every later formula then starts at once.  A compiled
formula takes seconds to compile and then runs 10 to 30 times faster.  Both forms give bitwise
equal results, so a run can switch from the program to the compiled form midway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal, NamedTuple, get_args

from ergode.core.devices import Device
from ergode.core.kernels import Kernel

Compile = Literal["auto", "now", "never"]
COMPILE = get_args(Compile)

COMPILING = 3.0
"""Assumed compile time [s].  Work that the program finishes sooner is not compiled."""

# Seconds per evaluation of a program, and per step of it.
_EACH, _EACH_STEP = 15e-9, 2.5e-9

_SPENT: dict[Any, float] = {}
"""Seconds that the program has run in this process, by the key of the compiled kernel."""


def stands_in(own: Kernel, standing: Kernel, seconds: float) -> bool:
    """Whether a generic kernel should run on a CPU in place of a model's own kernel.

    It should while the own kernel is not compiled and the generic one has run for less time than
    compiling takes.

    Parameters
    ----------
    own, standing : Kernel
    seconds : float
        Estimated run time of the generic kernel.
    """
    key = own.key("cpu")
    total = seconds + _SPENT.get(key, 0.0)
    if total > COMPILING or own.is_kept("cpu"):
        return False
    worth_it = _is_worth_it(standing)
    if worth_it:
        _SPENT[key] = total
    return worth_it


def _is_worth_it(standing: Kernel) -> bool:
    """Whether a generic kernel is compiled, or a second formula or model needs it.

    It compiles more slowly than one formula or model, so it pays off only for several.
    """
    return standing.is_kept("cpu") or standing.was_wanted("cpu")


class Trial(NamedTuple):
    """A run of the program that is cut short when it takes too long."""

    arguments: tuple[Any, ...]  # kernel arguments with a limit that cuts the run short
    # ``was_cut(start, stop)``: whether any of these indices was cut short
    was_cut: Callable[[int, int], bool]
    # ``forget(start, stop)``: discard these results; these indices are about to be run again
    forget: Callable[[int, int], None]


def _nothing(start: int, stop: int) -> None:
    """Discard nothing: a second run would overwrite every result."""


@dataclass
class Formulation:
    """The kernels of a formula on a CPU."""

    compiled: Kernel  # specialised to the formula.  Its last argument is an empty tuple.
    # generic: its last argument is a program.  None if the formula has no program.
    standing: Kernel | None = None
    program: tuple[Any, ...] = ()  # steps, registers and outputs (see `compiler.tracer.Program`)
    # when to compile: at once, never, or when compiling is estimated to pay off
    when: Compile = "now"
    # forms that have run: ``"program"``, ``"compiled"``
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
            Arguments of the kernel, without the program.
        grain : int
            Indices that a thread takes at a time.
        first : int
            Indices that each thread first runs with the program.  Their run time decides whether
            the formula is compiled for the remaining indices.
        seconds : float
            Lower bound on the time that the program needs for all indices [s].
        trial : Trial, optional
            How to cut short a program that runs too long.
        finished : function
            ``finished(start, stop)`` is called when a range is done.
        piece : int
            See `Device.run`.
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
        """Run the program over a range; return whether it finished without being cut short."""
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

    def goes_on(self) -> None:
        """Note the form that has run, if none has: the run had ended in an earlier process."""
        if not self.used:
            is_program = self.standing is not None and self.when == "never"
            self.used.append("program" if is_program else "compiled")

    def seconds(self, evaluations: float) -> float:
        """Estimated time of one core for this many evaluations of the program [s]."""
        return evaluations * (_EACH + _EACH_STEP * len(self.program[0])) if self.program else 0.0

    def evaluations(self, seconds: float) -> int:
        """Estimated number of evaluations of the program by one core in this time."""
        return int(seconds / self.seconds(1)) if self.program else 0

    def _first_kernel(self, key: Any, seconds: float) -> Kernel:
        if self.standing is None or self.when == "now":
            return self.compiled
        if self.when == "never":
            return self.standing
        if seconds + _SPENT.get(key, 0.0) > COMPILING or self.compiled.is_kept("cpu"):
            return self.compiled
        return self.standing if _is_worth_it(self.standing) else self.compiled
