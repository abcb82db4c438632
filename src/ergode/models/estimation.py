"""Estimation of a state: a field, what is known at first, and what is measured - for any engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.arguments import time_grid
from ergode.core.errors import ModelError
from ergode.core.results import Variable
from ergode.models.measurement import Measurement, in_order
from ergode.models.priors import Prior
from ergode.models.sweep import Layout, lay_out
from ergode.models.vector_field import VectorField

# What is reported of measurements.
OF_MEASUREMENTS = (
    Variable(
        "log_evidence", ("measurement",), "floating", "1",
        "log probability density of what was measured, given all before",
    ),
    Variable(
        "prior_mean", ("measurement", "variable"), "floating", "1", "mean just before a measurement"
    ),
    Variable(
        "prior_covariance", ("measurement", "variable", "variable_"), "floating", "1",
        "covariance just before a measurement",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Estimation:
    """A field, a prior in the order of its variables, times, and measurements by time.

    Attributes
    ----------
    field : VectorField
    prior : Prior
    times : ndarray, shape [time_count]
    measurements : list of Measurement
    parameters : Layout
        Of the field's parameters: one set of values, or many.
    """

    field: VectorField
    prior: Prior
    times: np.ndarray
    measurements: list[Measurement]
    parameters: Layout

    @property
    def values(self) -> np.ndarray:
        """Parameters, shape [set_count, parameter_count]."""
        rows = [self.parameters.rows[name] for name in self.field.parameters]
        return np.stack(rows, -1) if rows else np.zeros((self.parameters.count, 0))


def estimation(
    field: Any, prior: Any, times: Any, measurements: Sequence[Measurement], parameters: Any
) -> Estimation:
    """What a user describes, checked.

    Raises
    ------
    ModelError
        Something is not what it should be, or does not suit the field.
    """
    if not isinstance(field, VectorField):
        raise ModelError(f"field is {type(field).__name__}; expected a VectorField")
    if field.delays:
        raise ModelError("the field has delays; a density obeys an equation without memory only")
    if not isinstance(prior, Prior):
        raise ModelError(
            f"prior is {type(prior).__name__}; expected Gaussian, Mixture, Samples or Density"
        )
    grid = time_grid(times)
    layout = lay_out(
        {"parameters": field.parameters}, {"parameters": {} if parameters is None else parameters}
    )
    return Estimation(
        field, prior.by_name(field.variables), grid, in_order(measurements, field, grid), layout
    )
