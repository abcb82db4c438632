"""``ergode plan``: what a run would take on a device, which need not be here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ergode.cli.run import Show, show_plan, warnings_told
from ergode.core.devices.absent import RECORDS, Absent, record_of
from ergode.core.errors import PlanError
from ergode.core.status import Status
from ergode.runfile.read import WHOLE
from ergode.runfile.space import SpaceRun

if TYPE_CHECKING:
    from ergode.core.devices import Device
    from ergode.runfile.read import RunFile

ENOUGH = 0.5
"""Seconds of a sample from which the time of all members is estimated."""
_CALL = 0.01
"""Seconds that a call on a GPU may take in any case."""
_HERE = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Wanted:
    """What a plan is for."""

    device: str  # a device of this machine, or one of the table
    count: int = 1  # number of devices
    price: float | None = None  # of a device and hour
    # Whether to estimate the time, by a sample of members on a core of this machine.
    times: bool = False


def plan(asked: RunFile, wanted: Wanted, show: Show) -> None:
    """Check a run, and print its plan on a device.

    Raises a PlanError if the run or the device is not possible, or its time cannot be estimated.
    """
    device = place_of(wanted.device)
    if isinstance(device, Absent) and asked.engine == "density":
        raise PlanError(
            f"a density finds its size while it runs, so it has no plan for '{wanted.device}', "
            "which is not here"
        )
    with warnings_told():
        facts = asked.on(device).plan()
        if asked.store is not None and isinstance(device, Absent):
            parts = {"store", "chunk", "checkpoint"} & asked.request.options.keys()
            whole = asked.on(device, **dict.fromkeys(parts)).plan()
            facts["store"] = whole.get("host memory", "below 1 MB") + ", before it is compressed"
        output = asked.request.options.get("output")
        if wanted.times and output in WHOLE:
            raise PlanError(f"the time of {output} is not estimated; --time is for ensembles")
        if wanted.times:
            kind = "space" if isinstance(asked.request, SpaceRun) else asked.engine
            seconds, ended_early = _core_seconds(asked)
            facts |= estimate(seconds, kind, wanted)
            if ended_early:
                facts["trial"] = "members of the trial failed, so the run may take longer"
        elif wanted.price is not None:
            raise PlanError("--price needs the time; expected --time as well")
    show_plan(asked, facts, show)


def place_of(name: str) -> Device | str:
    """The name of a device of this machine, or an absent device.

    Raises a PlanError if the table has no such device.
    """
    if name.partition(":")[0] in _HERE:
        return name
    return Absent.of(name, record_of(name))


def _core_seconds(asked: RunFile) -> tuple[float, bool]:
    """Time of the run on a core of this machine, from a sample [s]; whether a member failed."""
    here, size = asked.on("cpu:1"), 1
    while True:
        found, total = here.first(size)
        size = min(size, total)
        seconds = float(found.attrs["run_seconds"])
        if seconds >= ENOUGH or size == total:
            failed = "status" in found and bool((found["status"] != Status.DONE).any())
            return seconds * total / size, failed
        size *= 4


def estimate(core_seconds: float, engine: str, wanted: Wanted) -> dict[str, str]:
    """The time on a core of this machine, and on devices if their rate was measured.

    Raises a PlanError if there is a price, and the rate was not measured.
    """
    said = {"time on a core here": _duration(core_seconds)}
    record = RECORDS.get(wanted.device.upper())
    cores = 0.0 if record is None else record.cores.get(engine, 0.0)
    if not cores:
        if wanted.price is not None:
            raise PlanError(
                f"no rate of '{wanted.device}' was measured for {engine}, so there is no cost"
            )
        if record is not None:
            measured = ", ".join(name for name, one in RECORDS.items() if engine in one.cores)
            said["time"] = (
                f"not known on {wanted.device}: rates of {engine} were measured on "
                f"{measured or 'no device'}"
            )
        return said
    seconds = core_seconds / cores / wanted.count
    roughly = f"roughly {_duration(seconds)}" if seconds > _CALL else f"below {_CALL} s"
    said["time"] = (
        f"{roughly} on {wanted.count} x {wanted.device}, if members fill it: "
        f"then each is as fast as {cores:g} cores"
    )
    if wanted.price is not None:
        said["cost"] = f"{wanted.price * wanted.count * seconds / 3600:.3g}"
    return said


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"
