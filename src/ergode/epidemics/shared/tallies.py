"""Counts of what measures do: tests, doses, people who are isolated or wait, measures in force.

Each is a tally: a column of the counts on the time grid, after those of compartments.  An event
adds to the row of its time, and a running sum makes the counts, as for compartments.  Some tallies
are cumulative (tests), others say how many there are at a time (people in isolation).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergode.core.errors import ModelError, PlanError
from ergode.epidemics.shared.counts import (
    AVOIDED,
    BEGUN,
    DOSE,
    HELD,
    IN_FORCE,
    POSITIVE,
    RELEASED,
    TESTS,
    TRACED,
    TURNED_AWAY,
    WAITING,
)
from ergode.epidemics.shared.lines import has_queue, is_limited
from ergode.epidemics.shared.names import compartment_index
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import (
    Capacity,
    ContactTracing,
    Intervention,
    Isolation,
)
from ergode.models.epidemic.testing import Testing
from ergode.models.epidemic.vaccination import Vaccination


class Tallies(NamedTuple):
    """Columns of the tallies of a plan."""

    # Of the quantities of a measure, doses from `DOSE` on; -1 where it has no such quantity:
    column: Any  # int32 [intervention_count, quantity]
    # Whether a node that enters a compartment may be tested once, without a limit of tests:
    tested: Any  # uint8 [intervention_count, compartment_count]
    by_layer: Any  # whether columns of contacts are followed by those of layers


_OF_LAYER = -1


class Tally(NamedTuple):
    """A quantity of a measure."""

    measure: int  # position in the plan
    quantity: int  # `_OF_LAYER` for the part in a layer of the one before
    name: str

    @property
    def label(self) -> str:
        """Label in a result."""
        return f"interventions[{self.measure}] {self.name}"


def listed(
    interventions: Sequence[Intervention], avoided: bool = False, layers: Sequence[str] = ()
) -> list[Tally]:
    """The tallies of a plan, in the order of their columns; also contacts `avoided`.

    Those of contacts are followed by their counts in each of the `layers`.
    """
    found = []
    for k, one in enumerate(interventions):
        for quantity, name in (*_quantities(one), (AVOIDED, "contacts avoided")):
            if quantity == AVOIDED and (not avoided or isinstance(one, Capacity)):
                continue
            found.append(Tally(k, quantity, name))
            if quantity in (TRACED, AVOIDED):
                found += [Tally(k, _OF_LAYER, f"{name} in {layer}") for layer in layers]
    return found


def _quantities(one: Intervention) -> list[tuple[int, str]]:
    if isinstance(one, Vaccination):
        return [(DOSE + d, f"dose {d + 1}") for d in range(one.dose_count)]
    found: list[tuple[int, str]] = []
    if isinstance(one, Testing):
        found = [(TESTS, "tests"), (POSITIVE, "positive")]
        traces = one.traces
        if traces:
            found.append((TRACED, "traced"))
        if one.isolation > 0.0 or (traces and one.quarantine > 0.0):
            found += [(BEGUN, "isolations"), (HELD, "isolated")]
            if one.release_after is not None:
                found.append((RELEASED, "released"))
    elif isinstance(one, ContactTracing):
        found = [(POSITIVE, "detected"), (TRACED, "traced")]
        if one.quarantine > 0.0:
            found += [(BEGUN, "quarantines"), (HELD, "quarantined")]
    elif isinstance(one, Isolation):
        found = [(HELD, "isolated")]
    if has_queue(one) or is_limited(one):
        found.append((WAITING, "waiting"))
    if is_limited(one) or (isinstance(one, Capacity) and not one.wait):
        found.append((TURNED_AWAY, "turned away"))
    return [*found, (IN_FORCE, "in force")]


def tallies_of(
    interventions: Sequence[Intervention], model: CompartmentModel, first: int, avoided: bool,
    layers: Sequence[str] = (),
) -> Tallies:  # fmt: skip
    """The columns of the tallies of a plan, from the column `first` on.

    Raises a ModelError if a compartment is unknown to the model.
    """
    found = listed(interventions, avoided, layers)
    count = max(1, len(interventions))
    last = max((one.quantity for one in found), default=DOSE)
    column = np.full((count, max(last, DOSE) + 1), -1, np.int32)
    for number, one in enumerate(found):
        if one.quantity == _OF_LAYER:
            continue
        column[one.measure, one.quantity] = first + number
    tested = np.zeros((count, len(model.compartments)), np.uint8)
    for k, measure in enumerate(interventions):
        if isinstance(measure, Testing) and measure.rate is None and not is_limited(measure):
            for name in measure.sensitivity:
                tested[k, compartment_index(model, name, f"interventions[{k}]")] = 1
    return Tallies(column, tested, np.int64(bool(layers)))


def check_tallies(
    interventions: Sequence[Intervention], model: CompartmentModel, node_count: int, span: float
) -> None:
    """Refuse measures whose tallies may overflow, or that have no tally."""
    for k, one in enumerate(interventions):
        if isinstance(one, Isolation) and one.compartment == model.infections[0].susceptible:
            raise ModelError(
                f"interventions[{k}] isolates nodes in '{one.compartment}', in which all nodes "
                "begin; include='measures' counts isolation in other compartments"
            )
        if isinstance(one, Testing) and one.rate is not None:
            tests = one.rate * node_count * span
            if tests > 2**30:
                raise PlanError(
                    f"include='measures': interventions[{k}] makes {tests:.3g} tests; expected at "
                    f"most {2**30:,}: lower its rate, or use fewer nodes or times"
                )


def shown(values: Any, found: Sequence[Tally], interventions: Sequence[Intervention]) -> Any:
    """Counts [..., tally, stratum] as results have them.

    A kernel counts who an `Isolation` would isolate while it is in force.
    """
    column = {(one.measure, one.quantity): at for at, one in enumerate(found)}
    for k, one in enumerate(interventions):
        if isinstance(one, Isolation):
            values[..., column[k, HELD], :] *= values[..., column[k, IN_FORCE], :]
    return values
