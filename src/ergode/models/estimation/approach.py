"""Closest approaches: what is asked of the least distance along a path."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers
from ergode.core.compiler.portable import HoldsFunctions
from ergode.core.errors import ModelError
from ergode.models.estimation.estimation import Estimation
from ergode.models.fields.functions import check_form, check_function


@dataclass(frozen=True, eq=False)
class ClosestApproach(HoldsFunctions):
    """The law of the least distance along a path over a span of time, such as of a collision.

    Parameters
    ----------
    distance : function
        ``distance(y, t, p)`` returns a tuple. Two or three numbers are a place relative to an
        object, whose length is the distance. A single number is any quantity whose least value is
        asked for, such as an altitude. It is compiled like a vector field.
    radii : array_like, shape [radius_count]
        Distances, or values of the single number, whose probabilities are asked for: those of
        coming as near as this, that is, of touching a sphere.
    begin, end : float, optional
        The span [time]. The default is the whole run.

    Raises
    ------
    ModelError
        Something is not a number, or a radius is not positive where a distance is.

    Examples
    --------
    >>> import ergode
    >>> def from_debris(y, t, p):
    ...     return y[0] - 7.5 * t, y[1], y[2]
    >>> ergode.ClosestApproach(from_debris, [0.02], begin=10.0, end=20.0).radii
    array([0.02])
    """

    distance: Callable[..., tuple[Any, ...]]
    radii: Any
    begin: Any = None
    end: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.distance):
            raise ModelError(f"distance is {self.distance!r}; expected a function (y, t, p)")
        ends = (np.nan if one is None else one for one in (self.begin, self.end))
        radii, *found = (as_numbers(one) for one in (self.radii, *ends))
        span = [float(one) for one in found if one is not None and one.ndim == 0]
        if radii is None or len(span) < 2:
            raise ModelError(
                f"radii, begin and end of a closest approach are {self.radii!r}, {self.begin!r} "
                f"and {self.end!r}; expected real numbers"
            )
        radii = np.atleast_1d(radii)
        if radii.ndim != 1 or radii.size == 0 or not np.isfinite(radii).all():
            raise ModelError(f"radii of a closest approach are {radii}; expected finite numbers")
        if span[0] >= span[1]:
            raise ModelError(f"begin is {span[0]:g} and end {span[1]:g}; expected an earlier begin")
        object.__setattr__(self, "radii", radii)

    def of(self, asked: Estimation) -> tuple[ClosestApproach, int]:
        """The same with a known span, and the number of components of the distance.

        Raises a ModelError if it does not suit the densities.
        """
        first, last = float(asked.times[0]), float(asked.times[-1])
        span: dict[str, Any] = {
            name: edge if (given := getattr(self, name)) is None else float(given)
            for name, edge in (("begin", first), ("end", last))
        }
        for name, time in span.items():
            if not first <= time <= last:
                raise ModelError(
                    f"{name} of a closest approach is {time:g}; expected one from {first:g} to "
                    f"{last:g}, the times of the run"
                )
        arguments = {"y": len(asked.field.variables), "t": None, "p": len(asked.field.parameters)}
        function, tree = check_form(self.distance, arguments, "distance")
        returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
        count = next((len(one.elts) for one in returned if isinstance(one, ast.Tuple)), 0)
        if not count:
            row = tuple(asked.values[0].tolist())
            found = function(tuple(asked.priors[0].mean.tolist()), span["begin"], row)
            if not isinstance(found, tuple):
                raise ModelError("distance returns a number; expected a tuple, such as (y[0],)")
            count = len(found)
        if not 1 <= count <= 3:
            raise ModelError(f"distance returns {count} numbers; expected one to three")
        components = ["value"] if count == 1 else [f"component {k}" for k in range(count)]
        check_function(self.distance, arguments, components, "distance")
        if count > 1 and np.min(self.radii) <= 0:
            raise ModelError(f"radii are {self.radii}; expected positive ones of a distance")
        return replace(self, **span), count
