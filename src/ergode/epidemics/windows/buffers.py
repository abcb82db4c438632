"""Results and scratch memory of the window kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.compiler.source import Precision
from ergode.epidemics.shared.counts import Happened
from ergode.epidemics.shared.lines import LineState
from ergode.epidemics.shared.options import (
    COUNTING,
    HAS_BIRTHS,
    HAS_COUNTERS,
    HAS_FINDS,
    HAS_LINES,
    HAS_LIVES,
    HAS_RELEASE,
    HAS_SCREENING,
    HAS_TRACING,
    HAS_TRIGGERS,
    LISTING,
    TESTS_TRACED,
)
from ergode.epidemics.shared.tables import EpidemicTables
from ergode.epidemics.shared.tallying import ProposedTests
from ergode.epidemics.windows.births import BirthState
from ergode.epidemics.windows.moves import Records, Results
from ergode.epidemics.windows.state import ROOM, Paths, Recent
from ergode.epidemics.windows.tracing import TracingState
from ergode.epidemics.windows.triggers import BINS, TriggerState


def new_buffers(
    node_count: int, count: int, tables: EpidemicTables, bindings: dict[Any, Any],
    precision: Precision, shape: tuple[int, int], record_room: int, detection_room: int,
    happened_room: int, empty: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Arrays for a chunk of replicates (`run_windows`), made by ``empty(shape, dtype)``."""
    position_count, plan = count * node_count, tables.interventions.kind.size
    word = np.dtype(f"uint{8 * np.dtype(precision).itemsize}")
    watched = position_count if bindings[HAS_TRACING] else 1
    counted = bindings.get(COUNTING, False)
    held = watched if counted or bindings.get(HAS_RELEASE, False) else 1
    proposed = watched if counted and bindings[HAS_SCREENING] else 1
    again = watched if bindings.get(HAS_RELEASE, False) else 1
    has_lines = bindings.get(HAS_LINES, False)
    line_count = tables.interventions.lines.measure.size
    queued = position_count if has_lines else 1
    born = position_count if bindings.get(HAS_BIRTHS, False) else 1
    searches = plan + (line_count if has_lines else 0)
    paths = Paths(
        empty((position_count, 4), word), empty((ROOM, position_count), precision),
        empty((ROOM, position_count), np.uint8),
        empty((ROOM, position_count) if bindings[LISTING] else (1, 1), np.int32),
        empty(position_count, np.int32), empty(position_count, np.int32),
    )  # fmt: skip
    triggers = TriggerState(
        empty((2, count), precision), empty((2, count), word),
        empty((count, 3 * plan + (2 * node_count if bindings.get(HAS_LIVES) else 0)), precision),
        empty((count, tables.interventions.triggers.counts.shape[1]), np.int32),
        empty((count, searches), word),
        empty((count, searches), np.int32), empty((count, searches), np.int32),
        empty((count, searches), np.int32),
        empty((count, searches, BINS if bindings[HAS_TRIGGERS] else 1), np.int32),
        BirthState(
            empty(born, precision), empty(born, np.int32), empty(count, np.int32),
            empty(count, np.int32), empty(count, np.int32),
        ),
    )  # fmt: skip
    tracing = TracingState(
        empty((plan, watched), word), empty((detection_room, watched), precision),
        empty((detection_room, watched), np.int32), empty(watched, np.int32), empty(1, np.int32),
        empty((plan, held), word), empty((plan, held), word),
        ProposedTests(empty((plan, proposed), precision), empty((plan, proposed), np.int32)),
        empty((plan, again), precision), empty((plan, again), precision),
        empty((plan, again), np.int32),
        empty((plan, watched if bindings.get(HAS_FINDS, False) else 1), precision),
        empty((plan, watched if bindings.get(TESTS_TRACED, False) else 1), np.int32),
    )  # fmt: skip
    lines = LineState(
        empty((line_count, queued), precision), empty((line_count, queued), np.int32),
        empty((count, line_count), np.int32), empty((line_count, queued), np.int32),
        empty((count, line_count), np.int32), empty((count, line_count), np.int32),
        empty((count, line_count), np.int32),
    )  # fmt: skip
    entered = position_count if bindings.get(HAS_COUNTERS, False) else 1
    recent = Recent(
        empty((detection_room, entered), precision), empty((detection_room, entered), np.int32),
        empty(entered, np.int32),
    )  # fmt: skip
    room = count, record_room
    records = Records(
        empty(count, np.int64), empty(room, np.int32), empty(room, precision),
        empty(room, np.uint8), empty(room, np.int32),
    )  # fmt: skip
    happened = Happened(
        empty(count, np.int64), empty((count, happened_room), np.int64),
        empty((count, happened_room), precision),
    )  # fmt: skip
    results = Results(records, empty((count, *shape), np.int32), happened)
    return (
        paths, triggers, tracing, lines, recent, empty((2, position_count), np.int64),
        empty((3, 3), np.int32), results, empty(2, np.int64),
    )  # fmt: skip
