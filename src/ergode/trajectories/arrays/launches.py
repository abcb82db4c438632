"""A trajectory of arrays in several launches, between which its state can be kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ergode.core.calls import checkpoint
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.trajectories.arrays import group
from ergode.trajectories.arrays.arguments import Out, Run, Workspace


def name_of(number: int) -> str:
    """What the checkpoint of a trajectory is of."""
    return f"trajectory {number} of arrays"


def empty_kept(device: Device, precision: Precision, own: int) -> group.Kept:
    """What lies between two launches of a trajectory, before the first."""
    return group.Kept(
        np.int64(0),
        device.zeros(group.WHOLES, np.int64),
        device.zeros(group.REALS + own, precision),
    )


def in_launches(
    device: Device, number: int, is_watched: bool, chooses: bool, is_stabilised: bool, run: Run,
    out: Out, w: Workspace, launch: Callable[[Workspace], None],
) -> None:  # fmt: skip
    """Integrate one trajectory to its end.

    Parameters
    ----------
    device : Device
    number : int
        Of the trajectory.
    is_watched : bool
        Whether there are events or observables.
    chooses : bool
        Whether the sizes of steps are chosen: those of equal steps follow from their number.
    is_stabilised : bool
        Whether stages follow from the spectral radius.
    run, out, w : tuple of array
        On the device, for this trajectory alone.
    launch : function
        ``launch(w)`` takes up to ``w.kept.budget`` steps.
    """
    kept = w.kept
    # A step begins with the slope there, and with a direction of the spectral radius.
    rows, n = 1 + group.DIRECTION * is_stabilised, run.initial.shape[0]
    if kept.reals.size > group.REALS + 1:  # a multistep method keeps all
        rows = w.k.size // n
    arrays: dict[str, Any] = {
        **{name: array for name, array in out._asdict().items() if array.size},
        "y": w.y, "k": w.k.ravel()[: rows * n], "whole": kept.whole,
    }  # fmt: skip
    if not chooses:
        del arrays["taken"], arrays["rejected"]
    if chooses or is_stabilised:
        arrays["reals"] = kept.reals
    if is_watched:
        arrays |= {"g": w.g, "s": w.s}
    if run.delays.values:
        arrays |= {f"past_{name}": array for name, array in w.past._asdict().items()}
    span = float(run.last - run.origin)
    with checkpoint.single_run(name_of(number), device) as single:
        single.restore(device, arrays)
        while device.get(kept.whole)[group.STAGE] != group.OVER:
            launch(w._replace(kept=kept._replace(budget=np.int64(single.steps()))))
            is_over = device.get(kept.whole)[group.STAGE] == group.OVER
            done = float(device.get(kept.reals)[group.TIME] - run.origin)
            share = 1.0 if is_over or not span else min(done / span, 0.999)
            single.boundary(partial(checkpoint.state_of, device, arrays), share)
