"""Steps in several launches, between which the state can be kept (see `core.calls.checkpoint`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ergode.core.calls import checkpoint
from ergode.core.devices import Device
from ergode.trajectories.fixed.kernel import Kept


def in_pieces(
    device: Device,
    name: str,  # of the trajectories that are integrated together
    last: int,  # number of steps
    kept: Kept,  # arrays on the device
    arrays: Mapping[str, Any],  # the state on the device: results, and arrays of `kept`
    # ``launch(kept)`` takes the steps from ``kept.begin`` up to ``kept.until``.
    launch: Callable[[Kept], None],
) -> None:
    """Take all steps."""
    with checkpoint.single_run(name, device) as single:
        begin = 0 if single.state is None else int(single.state["begin"])
        single.restore(device, arrays)

        def state() -> dict[str, Any]:
            return {"begin": begin} | checkpoint.state_of(device, arrays)

        while begin < last:
            until = min(begin + single.steps(), last) if single.is_kept else last
            launch(kept._replace(begin=np.int64(begin), until=np.int64(until)))
            begin = until
            single.boundary(state, begin / last)
