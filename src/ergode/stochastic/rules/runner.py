"""Realizations of a model of rules on a CPU."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.group import ALONE, KIND
from ergode.core.words import counted
from ergode.stochastic.kernel import realization
from ergode.stochastic.rules import kernel
from ergode.stochastic.rules.graph import State
from ergode.stochastic.rules.tables import RuleTables
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.runner import Made
from ergode.stochastic.runners.threads import Shapes, WorkerRunner, waiting_rows, work_rows


@lru_cache(maxsize=1)
def kernel_of() -> kernels.Kernel:
    """The kernel: one for all models."""
    bindings = {**kernel.BINDINGS, KIND: ALONE}
    return kernels.kernel(realization.realize_cpu, realization.realize_cuda, bindings=bindings)


class RuleRunner(WorkerRunner):
    """Realizations of one model; a core simulates one at a time."""

    def __init__(self, rules: RuleTables, **options: Any) -> None:
        super().__init__(rules.network, **options)
        self.rules = rules
        molecules = counted(rules.lengths["molecules"], "molecule")
        self.said = f"one realization of {molecules}", "use fewer, or a smaller max_molecules"

    def made(self, count: int, workers: int, wanted: Wanted) -> Made:
        *rest, state = self.workspace(workers, State, self.rules.shared)
        weights = state.weights.reshape(-1, state.weights.shape[-1])  # a row for each tree
        return kernel_of(), (*rest, state._replace(weights=weights))

    def ranges(self, count: int) -> tuple[int, int]:
        """One worker for each core, which makes its arrays once."""
        grain = max(1, -(-count // min(self.device.core_count, self.room)))
        return -(-count // grain), grain

    @cached_property
    def rows(self) -> dict[str, Shapes]:
        n = self.rules.lengths
        return {
            "work": work_rows(self.tables, self.device, 0),
            "waiting": waiting_rows(self.tables),
            "state": {
                "states": (n["sites"], np.int16), "bonds": (n["sites"], np.int32),
                "alive": (n["molecules"], np.int8), "waiting": (n["molecules"], np.int32),
                "waiting_counts": (n["types"], np.int64), "used": (n["types"], np.int64),
                "entries": (n["entries"], np.int32),
                "positions": (n["entries"], np.int32), "counts": (n["lists"], np.int64),
                "marks": (n["molecules"], np.int64), "queue": (2 * n["molecules"], np.int32),
                "searches": (2, np.int64), "found": (n["found"], np.int64),
                "places": (n["places"], np.int64), "chosen": (n["chosen"], np.int64),
                "labels": (n["labels"], np.int64), "touched": (n["touched"], np.int64),
                "touched_count": (1, np.int64), "propensities": (n["rules"], np.float64),
                "weights": ((n["trees"], n["nodes"]), np.float64),
            },
        }  # fmt: skip
