"""Fields of arrays with tangent vectors as further arrays, whatever their size.

The variables of such a field are those of the user, then for each of them an array of tangent
vectors, with the number of the vector as first index: v' = J v + df/dq for the parameter or initial
value q that the vector belongs to.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import PlanError
from ergode.models.fields.arrays import by_variable
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.analysis.forward_mode import SEEDS, Rewriter, tangent_name
from ergode.trajectories.arrays.stiff import with_arrays
from ergode.trajectories.fixed.tangents import PARALLEL

GROWTH, RENEWAL, INTERVAL = "ergode_growth", "ergode_renewal", "ergode_interval"
_INDICES = "ijk"


def check_tangents(field: VectorField, what: str) -> None:
    """Refuse a field of arrays that has no tangent vectors here.

    Raises a PlanError if it has delays or noise, or an array of four dimensions.
    """
    assert field.arrays is not None
    if field.delays or field.diffusion is not None:
        there = "delays" if field.delays else "noise"
        raise PlanError(f"{what} of arrays is for fields without {there}")
    for name, shape in field.arrays.by_name.items():
        if len(shape) > 3:
            raise PlanError(
                f"{what} is for arrays of one to three dimensions, and '{name}' has {len(shape)}; "
                "give it three"
            )


def with_tangent_arrays(
    field: VectorField, count: int, seeds: np.ndarray | None = None, *, grows: bool = False
) -> VectorField:
    """The field with `count` tangent vectors, and where it `grows` the sums of their growth.

    `seeds` [count, parameter_count] are the tangents of the parameters; zero if not given. Where it
    `grows` there are arrays for the growth and the time of the next renewal, and a parameter for
    the interval between two.
    """
    arrays = field.arrays
    assert arrays is not None
    only = arrays.names[0] if arrays.is_single else None
    last = ["t", "y", "p", *(["c"] if field.constants else [])]
    parameters = [*field.parameters, *([INTERVAL] if grows else [])]
    shapes: dict[str, Any] = dict(arrays.by_name)
    shapes |= {tangent_name(name): (count, *shape) for name, shape in arrays.by_name.items()}
    shapes |= {GROWTH: count, RENEWAL: 1} if grows else {}
    given: dict[str, Any]
    if arrays.in_place:
        roles = [*last[:2], "dy", *last[2:]]
        more = (
            f"for ergode_k in range({count}):\n    {{dy}}.{GROWTH}[ergode_k] = 0.0\n"
            f"{{dy}}.{RENEWAL}[0] = 0.0\n"
        )
        made = Rewriter(field.rhs, roles, "rhs", only, seeds is not None)
        given = {"rhs": made.in_place(count, more if grows else "")}
    else:
        own = by_variable("component", field.component, arrays.by_name, arrays.is_single)
        both = {}
        for name, shape in arrays.by_name.items():
            roles = [*_INDICES[: len(shape)], *last]
            both[name] = Rewriter(
                own[name], roles, f"component of '{name}'", only, seeds is not None
            )
        component = {name: one.state() for name, one in both.items()}
        component |= {tangent_name(name): one.tangent() for name, one in both.items()}
        still = function_from_text("def still(i, t, y, p, c):\n    return 0.0\n", {})
        component |= {GROWTH: still, RENEWAL: still} if grows else {}
        given = {"component": component}
    rows = np.zeros((count, max(1, len(field.parameters)))) if seeds is None else seeds
    constants = {**(field.constants or {}), SEEDS: rows}
    return VectorField(**given, variables=shapes, parameters=parameters, constants=constants)


def one_array_with_tangents(
    field: VectorField, with_one: VectorField, count: int
) -> tuple[VectorField, VectorField]:
    """Named variables as one array, and that field with `count` tangent vectors and their growth.

    `with_one` is the field with one tangent vector as further named variables: a loop over the
    vectors needs no code for each.
    """
    field.refuse_inputs("a spectrum of this many exponents")
    whole = with_arrays(field)
    name, size = whole.variables[0], len(field.variables)
    tangents = tangent_name(name)
    state = "".join(f"y.{name}[{i}], " for i in range(size))
    vector = "".join(f"y.{tangents}[k, {i}], " for i in range(size))
    own = "".join(f"            dy.{name}[{i}] = f[{i}]\n" for i in range(size))
    grown = "".join(f"        dy.{tangents}[k, {i}] = f[{size + i}]\n" for i in range(size))
    text = (
        f"def rhs(t, y, dy, p, c):\n    for k in range({count}):\n"
        f"        f = both(t, ({state}{vector}), p)\n{grown}        dy.{GROWTH}[k] = 0.0\n"
        f"        if k == 0:\n{own}    dy.{RENEWAL}[0] = 0.0\n"
    )
    return whole, VectorField(
        rhs=function_from_text(text, {"both": with_one.function}),
        variables={name: size, tangents: (count, size), GROWTH: count, RENEWAL: 1},
        parameters=[*field.parameters, INTERVAL], constants={SEEDS: np.zeros((count, 1))},
    )  # fmt: skip


GROWN = f"math.log(length) if square > 1e-18 * before else {PARALLEL}"
"""The growth of a vector since it was last orthonormal, in a function that makes it so again."""


def first_vectors(count: int, size: int) -> np.ndarray:
    """Orthonormal vectors [count, size] to begin with.

    They are along no axis: in a direction that the equations leave to itself they would stay there,
    and not find the directions that grow most.
    """
    drawn = np.random.default_rng(0).normal(size=(size, count))
    return np.ascontiguousarray(np.linalg.qr(drawn)[0].T)


def renewal(field: VectorField, count: int) -> tuple[Any, Any]:
    """Event function and effect that orthonormalize tangent vectors, by modified Gram-Schmidt."""
    assert field.arrays is not None

    def over(text: str, depth: int) -> str:
        """Lines that loop over all elements; ``X[m]`` in `text` is an element of vector m."""
        lines = ""
        for name, shape in field.arrays.by_name.items():  # type: ignore[union-attr]
            indices = _INDICES[: len(shape)]
            for axis, index in enumerate(indices):
                place = " " * 4 * (depth + axis)
                lines += f"{place}for {index} in range({shape[axis]}):\n"
            element = f"y.{tangent_name(name)}[%s, {', '.join(indices)}]"
            own = text.replace("X[m]", element % "m").replace("X[other]", element % "other")
            lines += f"{' ' * 4 * (depth + len(indices))}{own}\n"
        return lines

    text = (
        f"def orthonormal(t, y, p, c):\n    for m in range({count}):\n"
        f"        before = 0.0\n{over('before += X[m] * X[m]', 2)}"
        f"        for other in range(m):\n            part = 0.0\n"
        f"{over('part += X[m] * X[other]', 3)}{over('X[m] -= part * X[other]', 3)}"
        f"        square = 0.0\n{over('square += X[m] * X[m]', 2)}"
        f"        length = math.sqrt(square)\n{over('X[m] /= length', 2)}"
        f"        y.{GROWTH}[m] += {GROWN}\n"
        f"    y.{RENEWAL}[0] += p[{len(field.parameters)}]\n"
    )
    due = f"def due(t, y, p, c):\n    return t - y.{RENEWAL}[0]\n"
    return function_from_text(due, {}), function_from_text(text, {"math": math})
