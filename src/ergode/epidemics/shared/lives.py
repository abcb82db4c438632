"""When the person of a node is born and dies, for measures that must know.

Who is not born or dead gets no dose, is not traced, and is tested no more.  A node lives once: it
begins in the population or outside of it, enters it at its birth, and leaves it at its death.  Its
birth and death are in `starts` (see `transmission.is_in_force`), after the times of measures: the
births of all nodes, then their deaths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ergode.core.compiler.language import real
from ergode.epidemics.shared.clock import precedes
from ergode.epidemics.shared.options import HAS_LIVES
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import ContactTracing, Intervention
from ergode.models.epidemic.testing import Testing
from ergode.models.epidemic.vaccination import Vaccination

_NEVER = float("inf")


def lives_bindings(
    model: CompartmentModel, interventions: Sequence[Intervention]
) -> dict[Any, bool]:
    """Options of kernels for measures that must know who is born and dead."""
    kinds = Vaccination | ContactTracing | Testing
    concerned = bool(model.outside) and any(isinstance(one, kinds) for one in interventions)
    return {HAS_LIVES: True} if concerned and lives_once(model) else {}


def lives_once(model: CompartmentModel) -> bool:
    """Whether no node leaves the population and enters it again."""
    outside = set(model.outside)
    after = {p.compartment: {*p.branches} for p in model.progressions}
    left = {
        to for name in model.compartments if name not in outside
        for to in after.get(name, ()) if to in outside
    }  # fmt: skip
    reached, frontier = set(left), list(left)
    while frontier:
        new = after.get(frontier.pop(), set()) - reached
        reached |= new
        frontier += new
    return reached <= outside


# ---- device functions


def begin_life(plan, starts, node):
    """A node at time zero, in the population."""
    starts[_birth(plan, node)] = -_NEVER
    starts[_death(plan, starts, node)] = _NEVER


def begin_unborn(plan, starts, node, until):
    """A node at time zero that is outside, until its birth."""
    starts[_birth(plan, node)] = until


def live(plan, outside, starts, node, old, compartment, time):
    """A node moves from one compartment to another: it may be born, or die."""
    if outside[old] == 0 and outside[compartment] != 0:
        starts[_death(plan, starts, node)] = time
    elif outside[old] != 0 and outside[compartment] == 0:
        starts[_birth(plan, node)] = time


def live_on(plan, outside, starts, node, compartment, until):
    """Forget a birth or a death that is not final of a node in a compartment until some time."""
    if outside[compartment] == 0:
        starts[_death(plan, starts, node)] = _NEVER
    else:
        starts[_birth(plan, node)] = until


def born_at(plan, starts, node):
    """When a node is born."""
    if HAS_LIVES:
        return real(starts[_birth(plan, node)])
    return real(-_NEVER)


def died_at(plan, starts, node):
    """When a node dies, as far as is known."""
    if HAS_LIVES:
        return real(starts[_death(plan, starts, node)])
    return real(_NEVER)


def is_alive(plan, starts, node, time):
    """Whether a node is in the population at a time."""
    if HAS_LIVES:
        return not precedes(time, born_at(plan, starts, node)) and precedes(
            time, died_at(plan, starts, node)
        )
    return True


def _birth(plan, node):
    return 3 * plan.kind.size + node


def _death(plan, starts, node):
    first = 3 * plan.kind.size
    return first + (starts.size - first) // 2 + node
