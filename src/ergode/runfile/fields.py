"""Tables of a run file that describe a vector field."""

from __future__ import annotations

from ergode.models.fields.equations import AMBIGUOUS, field_from_equations
from ergode.models.fields.vector_field import VectorField
from ergode.runfile.tables import Table


def vector_field(top: Table) -> VectorField:
    """The field of the tables ``[equations]`` and ``[diffusion]``."""
    equations, noise = top.table("equations"), top.table("diffusion", {})
    listed = list(top.table("parameters", {}).values)
    with equations.explaining():
        field = field_from_equations(
            {name: equations.text(name) for name in equations.values},
            listed if AMBIGUOUS.keys() & set(listed) else None,
            diffusion={name: noise.text(name) for name in noise.values},
        )
    missing = [f"'{name}'" for name in field.parameters if name not in listed]
    if missing:
        raise top.error(
            f"[parameters] has no value for {', '.join(missing)}, which the formulas name"
        )
    return field
