"""Process noise of an ensemble: the diffusion of a stochastic differential equation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core.compiler.syntax import function_from_text
from ergode.density.noise import noise_of
from ergode.models.estimation.covariances import root_of
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.methods import MethodName


@dataclass(frozen=True)
class Pushed:
    """A field with its noise, in coordinates in which the noise is uncorrelated."""

    field: VectorField  # has a diffusion if there is noise
    # [variable_count, variable_count]: columns are the directions of the field's variables.
    axes: np.ndarray
    method: MethodName  # method of `ergode.trajectories` that integrates it

    @property
    def is_turned(self) -> bool:
        """Whether the coordinates are not the field's variables."""
        return not np.array_equal(self.axes, np.eye(len(self.axes)))

    @property
    def is_noisy(self) -> bool:
        """Whether the field is stochastic."""
        return self.field.diffusion is not None


def pushed(field: VectorField, process_noise: Any) -> Pushed:
    """A field with `process_noise` of `ergode.density.propagate`, as one stochastic equation.

    Raises a ModelError if the noise does not suit the field.
    """
    if process_noise is None:  # the field's own, whatever its correlations
        return Pushed(field, np.eye(len(field.variables)), "auto")
    noise = noise_of(process_noise, field)
    if noise is None:
        return Pushed(field, np.eye(len(field.variables)), "auto")
    if noise.function is not None:
        return _by_function(field, noise.function)
    assert noise.matrix is not None
    return _by_matrix(field, tuple(map(tuple, noise.matrix.tolist())))


@lru_cache(maxsize=16)
def _by_function(field: VectorField, variances: Callable[..., Any]) -> Pushed:
    """A field with the variances that a function returns."""
    size = len(field.variables)
    parts = "".join(f"q[{d}] ** 0.5, " for d in range(size))
    text = f"def amplitudes(t, y, p):\n    q = variances(t, y, p)\n    return ({parts})\n"
    amplitudes = function_from_text(text, {"variances": variances})
    # The noise of a variable may depend on other variables too.
    return Pushed(replace(field, diffusion=amplitudes), np.eye(size), "euler-maruyama")


@lru_cache(maxsize=16)
def _by_matrix(field: VectorField, rows: tuple[tuple[float, ...], ...]) -> Pushed:
    """A field with a constant covariance of the noise."""
    matrix = np.array(rows)
    variances, axes, function = np.diag(matrix), np.eye(len(rows)), field.function
    if np.any(matrix != np.diag(variances)):
        axes = np.linalg.eigh(matrix)[1]
        variances = ((axes.T @ root_of(matrix)) ** 2).sum(axis=1)
        function = _turned(function, axes)
    roots = tuple(np.sqrt(variances).tolist())
    amplitudes = function_from_text(f"def amplitudes(t, y, p):\n    return {roots}\n", {})
    return Pushed(replace(field, function=function, diffusion=amplitudes), axes, "sra1")


def _turned(function: Callable[..., Any], axes: np.ndarray) -> Callable[..., Any]:
    """The field in rotated coordinates."""

    def sums(name: str, matrix: np.ndarray) -> str:
        rows = (" + ".join(f"{a!r} * {name}[{j}]" for j, a in enumerate(row)) for row in matrix)
        return "".join(f"{row}, " for row in rows)

    text = (
        "def turned(t, z, p):\n"
        f"    y = ({sums('z', axes.tolist())})\n"
        "    f = field(t, y, p)\n"
        f"    return ({sums('f', axes.T.tolist())})\n"
    )
    return function_from_text(text, {"field": function})
