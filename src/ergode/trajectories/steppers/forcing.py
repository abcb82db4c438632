"""Inputs of a field: at their knots the solution is not smooth, and no adaptive step crosses one.

At a step an input has the value before it.  A step that ends there ends right; the next one begins
a few roundings later.
"""

from __future__ import annotations

from typing import Any

from ergode.core.compiler.language import option, real, unroll
from ergode.core.math.tables import next_knot, past_knot
from ergode.models.fields.inputs import Address
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.steppers.equations import INFINITY, delayed, slope

INPUTS = option(())  # for each input: its number, and the parameter that is the number of its table
ADDRESS = option((0, 1))  # the parameters with the address of all tables

_LEVELS = {"steps": 1, "linear": 2, "cubic": 4}


def knot_after(t, p):
    """The first knot of any input after `t`."""
    soonest = real(INFINITY)
    for i in unroll(range(len(INPUTS))):
        choice, high, low = p[INPUTS[i][1]], p[ADDRESS[0]], p[ADDRESS[1]]
        soonest = min(soonest, next_knot(INPUTS[i][0], choice, high, low, t))
    return soonest


def past_knots(t, p):
    """The time `t`, with inputs so many roundings later that a knot there is past."""
    moved = t
    for i in unroll(range(len(INPUTS))):
        choice, high, low = p[INPUTS[i][1]], p[ADDRESS[0]], p[ADDRESS[1]]
        moved = max(moved, past_knot(INPUTS[i][0], choice, high, low, t))
    return moved


def beyond(before, t, y, f, history, p):
    """Time and slope with which to go on from the end of a step that began at the time `before`."""
    moved = past_knots(t, p)
    if moved < knot_after(before, p):
        return t, f
    return moved, slope(moved, y, delayed(moved, y, history, p), p)


def bindings_of_inputs(field: VectorField) -> dict[Any, Any]:
    """Bindings of a kernel for a field whose inputs are called with the time."""
    inputs = [one for one in field.inputs if one.is_forcing]
    if not inputs:
        return {}
    place = {name: i for i, name in enumerate(field.parameters)}
    return {
        INPUTS: tuple((one.number, place[one]) for one in inputs),
        ADDRESS: tuple(i for i, one in enumerate(field.parameters) if isinstance(one, Address)),
    }


def level_of(field: VectorField) -> int:
    """Order of the first derivative of the solution that jumps at a knot; 0 without knots."""
    kinds = {table.kind for one in field.inputs if one.is_forcing for table in one.tables}
    return min((_LEVELS[kind] for kind in kinds), default=0)
