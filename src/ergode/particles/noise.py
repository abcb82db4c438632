"""Process noise as an ensemble has it: the diffusion of a stochastic equation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.compiler.syntax import function_from_text
from ergode.density.noise import noise_of
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.methods import MethodName


@dataclass(frozen=True)
class Pushed:
    """A field with its noise, in coordinates in which the noise is not correlated.

    Attributes
    ----------
    field : VectorField
        With a diffusion, where there is noise.
    axes : ndarray, shape [variable_count, variable_count]
        Columns are the directions of its variables.
    method : str
        How `ergode.trajectories` is to integrate it.
    """

    field: VectorField
    axes: np.ndarray
    method: MethodName

    @property
    def is_noisy(self) -> bool:
        """Whether paths differ that begin at one point."""
        return self.field.diffusion is not None


def pushed(field: VectorField, process_noise: Any) -> Pushed:
    """A field and the noise that `ergode.density.propagate` takes, as one stochastic equation.

    Raises
    ------
    ModelError
        The noise does not suit the field.
    """
    size = len(field.variables)
    axes = np.eye(size)
    noise = noise_of(process_noise, field)
    if noise is None or noise.amplitudes:
        return Pushed(field, axes, "auto")
    function: Callable[..., Any] = field.function
    method: MethodName
    if noise.function is not None:
        parts = "".join(f"q[{d}] ** 0.5, " for d in range(size))
        text = f"def amplitudes(t, y, p):\n    q = variances(t, y, p)\n    return ({parts})\n"
        amplitudes = function_from_text(text, {"variances": noise.function})
        method = "euler-maruyama"  # it may depend on other variables too
    else:
        assert noise.matrix is not None
        variances, method = np.diag(noise.matrix), "sra1"
        if np.any(noise.matrix != np.diag(variances)):
            variances, axes = np.linalg.eigh(noise.matrix)
            function = _turned(field.function, axes)
        roots = np.sqrt(np.maximum(variances, 0.0)).tolist()
        amplitudes = function_from_text(
            f"def amplitudes(t, y, p):\n    return {tuple(roots)}\n", {}
        )
    together = VectorField(function, field.variables, field.parameters, diffusion=amplitudes)
    return Pushed(together, axes, method)


def _turned(function: Callable[..., Any], axes: np.ndarray) -> Callable[..., Any]:
    """The field in coordinates along other axes."""

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
