"""The state of densities that follow the flow, between two of their actions: arrays by name.

The points of a prior are laid again when a run goes on. Those that were laid in a posterior, for
one density alone, are part of the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.density.flow.points import Laid, Start, pattern
from ergode.models.estimation.priors import Prior

_NUMBERS = "ideal", "spacing", "log_scale", "first_spacing"
_OF_POINTS = "points", "log_weights", "signs", "is_edge", "index"


def start_state(start: Start) -> dict[str, Any]:
    """What `restored_start` takes."""
    found: dict[str, Any] = {name: getattr(start, name) for name in (*_NUMBERS, "is_apart")}
    found["means"], found["edges"] = (np.stack(both) for both in zip(*start.frames, strict=True))
    if start.roots is not None:
        found["roots"] = start.roots
    if start.shape is not None:
        found["shape"] = np.array(start.shape.made_by, np.float64)
    else:
        found |= {name: getattr(start, name) for name in _OF_POINTS}
    return found


def restored_start(prior: Prior, state: Mapping[str, np.ndarray]) -> Start:
    """The points of a prior from their state."""
    shape, laid = None, None
    if "shape" in state:
        size, spacing, cut, count = state["shape"].tolist()
        shape = pattern(int(size), spacing, cut, int(count))
    else:
        laid = Laid(*(state[name] for name in _OF_POINTS))
    return Start(
        prior, **{name: float(state[name]) for name in _NUMBERS},
        frames=tuple(zip(state["means"], state["edges"], strict=True)), roots=state.get("roots"),
        shape=shape, is_apart=bool(state["is_apart"]), laid=laid,
    )  # fmt: skip


def named(prefix: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """The values with a prefix before their names."""
    return {prefix + name: value for name, value in state.items()}
