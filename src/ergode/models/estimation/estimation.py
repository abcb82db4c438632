"""State estimation: a field, priors, measurements and maneuvers, for any engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.arguments import time_grid
from ergode.core.errors import ModelError, PlanError
from ergode.core.results import Variable
from ergode.models.estimation.maneuver import Maneuver, in_order_of_time
from ergode.models.estimation.measurement import Measurement, in_order
from ergode.models.estimation.priors import Prior, side_by_side
from ergode.models.fields.vector_field import VectorField, check_field
from ergode.models.sweep import Layout, lay_out


def of_measurements(*dims: str) -> list[Variable]:
    """Variables of results at measurements, with leading dims `each`."""
    each = (*dims, "measurement")
    return [
        Variable(
            "log_evidence", each, "floating", "1",
            "log probability density of the measurement, given all earlier ones",
        ),
        Variable(
            "prior_mean", (*each, "variable"), "floating", "1", "mean just before a measurement"
        ),
        Variable(
            "prior_covariance", (*each, "variable", "variable_"), "floating", "1",
            "covariance just before a measurement",
        ),
        Variable(
            "innovation_distance", each, "floating", "1",
            "with gates: distance of a value from what the density expects, in deviations",
            optional=True,
        ),
        Variable(
            "left_out", each, "number", "1", "with gates: 1 where a value was left out",
            optional=True,
        ),
    ]  # fmt: skip


@dataclass(frozen=True)
class Estimation:
    """A field, priors in the order of its variables, times, measurements and maneuvers by time.

    Priors, measured values, changes by maneuvers and arrays of parameters are paired along one
    dim; a grid of parameters is crossed with them.
    """

    field: VectorField
    priors: list[Prior]  # one for each of the densities
    times: np.ndarray  # [time_count]
    measurements: list[Measurement]
    maneuvers: list[Maneuver]  # one for each of their times
    layout: Layout  # of the densities: one, or many

    @property
    def has_gates(self) -> bool:
        """Whether a measurement has a gate."""
        return any(one.gate is not None for one in self.measurements)

    @property
    def values(self) -> np.ndarray:
        """Parameters, shape [density_count, parameter_count]."""
        rows = [self.layout.rows[name] for name in self.field.parameters]
        return np.stack(rows, -1) if rows else np.zeros((self.layout.count, 0))

    def one_at_a_time(self, who: str) -> None:
        """Refuse several densities, because `who` takes one.

        Raises a ModelError if there are several densities.
        """
        if self.layout.dims:
            raise ModelError(
                f"prior, measurements, maneuvers or parameters have several values along "
                f"'{self.layout.dims[0]}'; {who} one at a time"
            )


def estimation(
    field: Any,
    prior: Any,
    times: Any,
    measurements: Sequence[Measurement],
    parameters: Any,
    maneuvers: Any = (),
    *,
    reserved: Collection[str],
) -> Estimation:
    """Check the user's arguments; `reserved` are names in the result.

    Raises a ModelError if an argument is invalid, or does not suit the field.
    """
    check_field(field)
    field.refuse_arrays("a density")
    field.refuse_inputs("a density")
    if field.interpretation != "ito":
        raise PlanError(
            "a density takes noise in the sense of Ito; add half the product of the amplitude and "
            "its derivative to the drift"
        )
    if field.delays:
        raise ModelError("the field has delays; densities need an equation without delays")
    found, is_many = side_by_side(prior)
    priors = [one.by_name(field.variables) for one in found]
    grid = time_grid(times)
    seen = in_order(measurements, field, grid)
    jumps = in_order_of_time(maneuvers, field, grid)
    beside = [("prior", len(priors))] if is_many else []
    for what, some in (("measurement", seen), ("maneuver", jumps)):
        for one in some:
            if one.side_by_side is not None:
                beside.append((f"{what} at time {one.time:g}", one.side_by_side))
    layout = lay_out(
        {"parameters": field.parameters},
        {"parameters": {} if parameters is None else parameters},
        beside,
        reserved=reserved,
    )
    places = layout.beside if is_many else np.zeros(layout.count, np.int64)
    return Estimation(field, [priors[place] for place in places], grid, seen, jumps, layout)
