"""Checkpoints: the state of a long single run on disk, from which the same call goes on.

A call with a store is computed in parts (`divide`). With ``checkpoint=SECONDS`` a part may be
left in the middle, too. Its engine makes *single runs*, one after the other, always in the same
order: one replicate, one density, one ensemble of trajectories. At the boundaries of a single run,
where the host has control, it offers its state. The state is written every so many seconds, and
when Ctrl-C came. The same call again makes the same single runs, and each begins with the state
that is kept of it. What lies between two boundaries is not cut: Ctrl-C is raised at a boundary.

The states of a part lie beside it in the store, in a folder that ends in ``.checkpoint``, one file
for each single run. A file is written under another name and then renamed, so it is complete; one
that cannot be read is ignored. The folder is removed with the end of the part. The store's
manifest tells which call they belong to (`core.calls.store`).
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from ergode.core import files, interruption
from ergode.core.calls.launch import warn
from ergode.core.context import running
from ergode.core.devices import Device
from ergode.core.errors import ErgodeWarning, PlanError, WriteError

State = Mapping[str, Any]
"""Arrays and numbers by name."""

SUFFIX = ".checkpoint"
_ABOUT = "about"
_BETWEEN = 0.5  # seconds from one boundary to the next, where an engine can choose
_FIRST_STEPS = 256
_AT_END = 0.01  # of the time between two writes
_UNREADABLE = OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error


@dataclass
class Keeper:
    """Where a part keeps its single runs; without a folder they are only asked for."""

    folder: Path | None
    seconds: float
    begun: int = 0  # single runs


def is_asked() -> bool:
    """Whether the call that is running has checkpoints."""
    return running().keeper is not None


class SingleRun:
    """A run that is left at boundaries and goes on from its state there.

    Parameters
    ----------
    kind : str
        What runs, and on which kind of device: a state belongs to one kind.
    path : Path, optional
        File of the state. Without it nothing is kept.
    seconds : float
        Time between two writes [s].

    Attributes
    ----------
    state : dict of str to ndarray, optional
        State from which the run goes on; None if it begins.
    is_kept : bool
        Whether there are checkpoints.
    """

    def __init__(self, kind: str, path: Path | None = None, seconds: float = np.inf) -> None:
        self._kind, self._path, self._seconds = kind, path, seconds
        self.state: dict[str, np.ndarray] | None = None
        self._written = self._asked = monotonic()
        self._steps = 0
        if path is not None:
            self.state = self._found(path)

    def _found(self, path: Path) -> dict[str, np.ndarray] | None:
        found = read(path)
        if found is None:
            return None
        about, state = found
        if about["kind"] != self._kind:
            raise PlanError(
                f"the checkpoint in '{path.parent.parent}' is of {about['kind']}, and this run is "
                f"{self._kind}; use that device, or another store"
            )
        return state

    @property
    def is_kept(self) -> bool:
        """Whether there are checkpoints."""
        return self._path is not None

    def restore(self, device: Device, arrays: Mapping[str, Any]) -> None:
        """Copy a state that is kept into the arrays on the device."""
        if self.state is not None:
            for name, array in arrays.items():
                device.copy(self.state[name], array)

    def boundary(self, state: Callable[[], State], share: float, at_once: bool = False) -> None:
        """Write the state if it is time to.

        Parameters
        ----------
        state : function
            Returns what the run needs to go on from here.
        share : float
            Fraction of the run that is done. At the end, one, the state is written even if little
            time has passed: another single run may follow.
        at_once : bool
            Write it whatever the time: Ctrl-C was heard by a run beside this one.

        Raises a KeyboardInterrupt if Ctrl-C came since the last boundary. The state is written.
        """
        if self._path is None:
            return
        try:
            interruption.hear()
        except KeyboardInterrupt:
            self._write(self._path, state(), share)
            raise
        wait = self._seconds if share < 1.0 else _AT_END * self._seconds
        if at_once or monotonic() - self._written >= wait:
            self._write(self._path, state(), share)

    def steps(self, first: int = _FIRST_STEPS) -> int:
        """Number of steps from here to the next boundary, which take about half a second.

        There are up to `first` of them to the first boundary.
        """
        now = monotonic()
        if self._steps:
            wanted = min(_BETWEEN, self._seconds) / max(now - self._asked, 1e-9)
            self._steps = max(1, int(self._steps * min(max(wanted, 1 / 8), 8.0)))
        else:
            self._steps = first if self._seconds > _BETWEEN else 1
        self._asked = now
        return self._steps

    def _write(self, path: Path, state: State, share: float) -> None:
        about = json.dumps({"kind": self._kind, "share": float(share)})
        arrays = {name: np.asarray(value) for name, value in state.items()}
        arrays[_ABOUT] = np.frombuffer(about.encode(), np.uint8)
        try:
            path.parent.mkdir(exist_ok=True)
            with files.new_file(path, overwrite=True) as partial, open(partial, "wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
        except (WriteError, OSError) as error:  # the run is worth more than its checkpoint
            warn(f"no checkpoint was written: {error}", ErgodeWarning)
        self._written = monotonic()


def state_of(device: Device, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The state that arrays on a device are, for `SingleRun.boundary`."""
    return {name: device.get(array) for name, array in arrays.items()}


@contextmanager
def single_run(kind: str, device: Device) -> Iterator[SingleRun]:
    """The next single run of a call; Ctrl-C is raised at its boundaries if it is kept."""
    keeper = running().keeper
    if keeper is None or keeper.folder is None:
        yield SingleRun(kind)
        return
    path = keeper.folder / f"{keeper.begun:06d}.npz"
    keeper.begun += 1
    with ExitStack() as stack:
        stack.enter_context(interruption.held_back())
        yield SingleRun(f"{kind} on {device.target}", path, keeper.seconds)


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """What a file tells of its state, and the state; None if there is no complete file."""
    try:
        with np.load(path, allow_pickle=False) as found:
            state = {name: found[name] for name in found.files}
        about = json.loads(state.pop(_ABOUT).tobytes())
    except _UNREADABLE:
        return None
    return about, state


def share_of(path: Path) -> float:
    """Fraction of its run that a state has; zero if the file cannot be read."""
    try:
        with np.load(path, allow_pickle=False) as found:
            return float(json.loads(found[_ABOUT].tobytes())["share"])
    except _UNREADABLE:
        return 0.0
