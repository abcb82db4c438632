"""Replicates of one epidemic by tau-leaping, on one device."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ergode.core.arguments import choice
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.core.devices.buffers import put_table
from ergode.core.errors import PlanError
from ergode.epidemics.leap import plan
from ergode.epidemics.leap.cpu_runs import CpuRuns
from ergode.epidemics.leap.cuda_runs import CudaRuns
from ergode.epidemics.leap.factors import factors_of
from ergode.epidemics.leap.layout import Layout
from ergode.epidemics.leap.options import LAYERS, MODULATED, SAMPLED, THRESHOLDS
from ergode.epidemics.leap.step import (
    AUTO,
    CHANGES,
    COMPARTMENTS_MOST,
    GATHER,
    INFECTIOUS,
    PUSH,
    TICKS_MOST,
    LeapTables,
    Schedule,
)
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.seeding import Initial, Seeder
from ergode.epidemics.shared import progression
from ergode.epidemics.shared.arcs import arc_bindings, arcs_into, arcs_of
from ergode.epidemics.shared.ensemble import Ensemble, replicates_that_fit
from ergode.epidemics.shared.options import COUNTING_ENTRIES, HAS_AGES, HAS_STRATA
from ergode.epidemics.shared.resolution import check_stages
from ergode.epidemics.shared.tables import arc_weights, has_node_factors
from ergode.models.epidemic.compartments import CompartmentModel

Transition = Literal["conditional", "left-end", "sampled"]
Pressure = Literal["auto", "gather", "push"]

_MODES = {"gather": GATHER, "push": PUSH, "auto": AUTO}


def check_options(
    step: float | None, tolerance: float | None, transition: str, pressure: str
) -> None:
    """Check the options of tau-leaping.

    Raises a PlanError if an option is invalid.
    """
    for name, value in (("step", step), ("tolerance", tolerance)):
        if value is not None and not (
            isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0
        ):
            raise PlanError(f"{name} is {value!r}; expected a number above zero")
    choice("transition", transition, plan.TRANSITIONS)
    choice("pressure", pressure, _MODES)


def check_model(model: CompartmentModel, transition: str) -> None:
    """Check that tau-leaping supports a model.

    Raises a PlanError if it has too many compartments, infectious susceptible nodes, or a hazard
    that cannot be frozen.
    """
    if len(model.compartments) > COMPARTMENTS_MOST:
        raise PlanError(
            f"the model has {len(model.compartments)} compartments; tau-leaping takes up to "
            f"{COMPARTMENTS_MOST}"
        )
    if model.infections[0].susceptible in model.infectious:
        raise PlanError(
            f"nodes start in '{model.infections[0].susceptible}', which is infectious; "
            "tau-leaping needs a susceptible compartment that is not infectious"
        )
    if transition == "left-end":
        plan.check_left_end(model)


class LeapEnsemble(Ensemble):
    """Replicates of an epidemic by tau-leaping.

    Attributes
    ----------
    runs : CpuRuns or CudaRuns
        Runner on the device of this ensemble.
    """

    work_names = ("steps", "gathering_steps", "infectivity_changes", "infectious_steps")

    def __init__(
        self,
        model: CompartmentModel,
        scenario: Scenario,
        initial: Initial,
        *,
        times: np.ndarray,  # [time_count]: ascending grid
        seed: int,
        device: Device,
        precision: Precision = "float32",
        step: float | None = None,  # longest step [time]
        # Adaptive steps: upper bound of the largest hazard times the step.
        tolerance: float | None = None,
        # How the probability of leaving a compartment is computed; see `leap.step`.
        transition: Transition = "conditional",
        pressure: Pressure = "auto",  # how forces of infection are summed; affects only the speed
    ) -> None:
        check_options(step, tolerance, transition, pressure)
        super().__init__(model, scenario, times, seed, device, precision)
        check_model(model, transition)
        self.precision = precision
        self.mode = _MODES[pressure]
        self.transition = transition
        self.time_scale = plan.time_scale(model)
        self.step = plan.STEP * self.time_scale if step is None else step
        self.tolerance = tolerance
        self._classes = progression.classes_of(model, scenario.contacts)
        stages = progression.stages_of(model, precision, self._classes)
        check_stages(model, stages, precision)
        self.seeds = Seeder(model, scenario.contacts, initial, self.seed, device, precision)
        host = self._tables(model, scenario, stages, times)
        self.rules = host.rules
        on_device = _put(host, device)._replace(seeding=self.seeds.of(0, 0))
        layout = Layout(
            device, precision, self.mode, self.node_count, self.times.size, self.column_count,
            self.layer_count, self.layer_count * len(model.infections), self.seed, self.bindings,
            on_device,
        )  # fmt: skip
        self.runs: CpuRuns | CudaRuns
        if device.target == "cpu":
            self.runs = CpuRuns(layout)
        else:
            often = self.step > plan.GATHER_STEP * self.time_scale
            at_first = np.zeros(self.column_count, np.int64).reshape(-1, self.stratum_count)
            at_first[self.base] = self.stratum_sizes
            self.runs = CudaRuns(layout, host, at_first.ravel(), switches=often)

    def _tables(
        self, model: CompartmentModel, scenario: Scenario, stages: Any, times: np.ndarray
    ) -> LeapTables:
        """Tables on the host, without seeds; also sets the options of the kernels."""
        contacts, precision, transition = scenario.contacts, self.precision, self.transition
        schedule, equal = plan.schedule_of(times, self.step, self.tolerance, precision)
        oldest = self._oldest_ticks(schedule)
        ages = 0
        if equal:
            ages = plan.table_length(model, transition, schedule, oldest, self._classes.class_count)
        weights = arc_weights(model, contacts)
        rules, self.rounding = plan.rules_of(
            model, contacts, weights, precision, scenario.stratum, self.stratum_count,
        )  # fmt: skip
        factors, modulation = factors_of(
            scenario, model, float(times[0]), float(self.horizon), schedule, precision
        )
        self.layer_count = modulation[LAYERS]
        if self.layer_count > 1:
            self.mode = PUSH  # which stores forces of infection by layer
        self.bindings = plan.bindings_of(
            model, transition, rules, weighted=weights is not None, tabulated=ages > 0,
            adaptive=self.tolerance is not None,
            counted=self.rounding == 0.0 and weights is None, modulated=modulation[MODULATED],
        ) | modulation | arc_bindings(contacts)  # fmt: skip
        self.bindings[HAS_AGES] = self.seeds.has_ages and self.bindings[SAMPLED]
        self.bindings[HAS_STRATA] = scenario.stratum is not None
        self.bindings[COUNTING_ENTRIES] = self.has_entries
        if self.bindings[THRESHOLDS] and self.mode == AUTO:
            self.mode = PUSH  # so that inactive tiles are skipped
        schedule = schedule._replace(last_age=max(ages - 1, 0))
        probabilities = plan.transition_probabilities(
            model, stages, rules, self.rounding, transition, schedule, ages,
            contacts.largest_in_degree, self._classes,
        )  # fmt: skip
        outgoing = arcs_of(contacts, weights, precision, layered=self.layer_count > 1)
        incoming = outgoing
        if self.mode != PUSH:  # otherwise kernels read only outgoing arcs
            incoming, _ = arcs_into(contacts, outgoing, alike=not has_node_factors(model))
        return LeapTables(incoming, outgoing, rules, stages, probabilities, schedule, factors, None)

    def _oldest_ticks(self, schedule: Schedule) -> int:
        """The largest age of a seed [ticks]."""
        oldest = max(self.seeds.host.named_age.max(), self.seeds.host.drawn_age.max())
        ticks = int(np.rint(oldest * schedule.per_tick))
        if ticks >= TICKS_MOST:
            raise PlanError(
                f"seeds are {oldest:g} old, more than 2^30 ticks of {schedule.tick:g}; use longer "
                "steps"
            )
        return ticks

    @property
    def bytes_per_replicate(self) -> int:
        """Memory per replicate, without the network [bytes]."""
        return self.runs.bytes_per_replicate

    def chunk_size(self, replicates: int) -> int:
        """Replicates per chunk: enough to fill the device, if they fit in its memory."""
        fits = replicates_that_fit(self.device, self.node_count, self.bytes_per_replicate)
        return max(1, min(replicates, self.runs.wanted(), fits))

    def prepare(self) -> None:
        """Compile the kernels, or load them from the cache, without running anything."""
        self.runs.prepare()

    def run(self, first_replicate: int, count: int) -> tuple[Any, np.ndarray]:
        """Run `count` replicates.

        Returns
        -------
        counts : tuple of ndarray of int32, shape [count, time_count, column_count]
        work : ndarray, shape [WORK_SIZE]
            Summed over the replicates.
        """
        counts, work = self.runs.run(first_replicate, count, self.seeds.of(first_replicate, count))
        return (counts,), work

    def counters(self, work: np.ndarray) -> dict[str, Any]:
        """Attributes of a result about the steps and their error."""
        infectious = int(work[INFECTIOUS])
        changed = int(work[CHANGES]) / (2 * infectious) if infectious else 0.0
        return super().counters(work) | {
            "transition": self.transition,
            "step": self.step,
            "tolerance": "none" if self.tolerance is None else self.tolerance,
            "leap_error": changed,
            "pressure_rounding": self.rounding,
        }


def _put(host: LeapTables, device: Device) -> LeapTables:
    """Tables on a device."""
    outgoing = put_table(device, host.outgoing)
    incoming = outgoing
    if host.incoming is not host.outgoing:
        incoming = put_table(device, host.incoming)
    rest = put_table(device, host._replace(incoming=(), outgoing=()))
    return rest._replace(incoming=incoming, outgoing=outgoing)
