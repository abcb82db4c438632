"""White noise added to the equations: a matrix, or a function of the state."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.syntax import as_function, function_from_text, syntax
from ergode.core.errors import ModelError, PlanError
from ergode.density.grid import lattice
from ergode.density.grid.lattice import Lattice
from ergode.density.transport.diffusion import LONGEST
from ergode.models.estimation.covariances import covariance_of, root_of
from ergode.models.estimation.priors import Prior
from ergode.models.fields.functions import check_function
from ergode.models.fields.vector_field import VectorField

_STEPS_MOST = 1e7


@dataclass(frozen=True)
class Noise:
    """White noise added to the equations."""

    # [dimension, dimension]: Q, if it is constant: diagonal along the lattice's axes.
    matrix: np.ndarray | None = None
    # Otherwise a function of (t, y, p): the diagonal of Q along the variables, or all of it.
    function: Callable[..., tuple[Any, ...]] | None = None
    amplitudes: bool = False  # whether the function returns square roots of the diagonal
    correlation: tuple[float, ...] = ()  # of their Wiener processes, row by row
    is_crossed: bool = False  # whether variables have covariances

    def bindings(self, size: int, parameters: int) -> dict[Any, Any]:
        """Options of a kernel that evaluates noise at a state; none for a matrix."""
        if self.function is None:
            return {}
        returned = size * size if self.is_crossed and not self.amplitudes else size
        found: dict[Any, Any] = {
            lattice.AMPLITUDES: self.amplitudes,
            lattice.noise: UserFunction(self.function, (returned,), parameters),
        }  # fmt: skip
        if self.is_crossed:
            found |= {lattice.CROSSED: True, lattice.CORRELATION: self.correlation}
        return found

    def along_variables(self) -> Noise:
        """The same noise for a grid along the variables, where it has covariances."""
        if self.matrix is None or not (self.matrix - np.diag(np.diag(self.matrix))).any():
            return self
        entries = ", ".join(repr(float(one)) for one in self.matrix.ravel())
        text = f"def covariance(t, y, p):\n    return {entries}\n"
        return Noise(None, function_from_text(text, {}), is_crossed=True)

    def spread(self, lattice: Lattice) -> np.ndarray:
        """Fraction of a cell that moves each way along each axis per unit of time, or NaN."""
        if self.matrix is None:
            apart = lattice.dimension + 1 if self.is_crossed and not self.amplitudes else 1
            never = {k // apart for k in _vanishing(self.function) if k % apart == 0}
            return np.where([d in never for d in range(lattice.dimension)], 0.0, np.nan)
        moved = lattice.axes.T @ root_of(self.matrix) / lattice.width[:, None]
        rate = 0.5 * (moved**2).sum(axis=1)
        return np.asarray(np.where(rate > 1e-12 * rate.max(), rate, 0.0))


def noise_of(value: Any, field: VectorField, *, may_cross: bool = False) -> Noise | None:
    """The noise of a call: ``process_noise``, or the field's own diffusion.

    If it `may_cross`, a function may return a whole matrix, row by row, and the field's Wiener
    processes may be correlated. Raises a ModelError if both are given; a matrix is not symmetric
    and positive semi-definite; or a function does not have the field's signature.
    """
    size = len(field.variables)
    if field.diffusion is not None:
        if value is not None:
            raise ModelError("the field has a diffusion, and process_noise is given too")
        if field.correlation is None:
            return Noise(function=field.diffusion, amplitudes=True)
        rows = tuple(float(one) for row in field.correlation for one in row)
        return Noise(None, field.diffusion, True, rows, is_crossed=True)
    if value is None:
        return None
    if callable(value):
        value = as_function(value)
        lengths = {"t": None, "y": size, "p": len(field.parameters)}
        is_crossed = may_cross and size > 1 and _returns(value, size * size)
        names = field.variables
        if is_crossed:
            names = tuple(f"cov({one}, {other})" for one in names for other in names)
        check_function(value, lengths, names, "process_noise")
        return Noise(function=value, is_crossed=is_crossed)
    matrix = covariance_of(value, size, "process_noise", may_be_singular=True)
    return Noise(matrix) if matrix.any() else None


def check_noise(noise: Noise | None, lattices: Sequence[Lattice], times: np.ndarray) -> None:
    """Refuse noise that the grids of several densities cannot represent.

    Raises a PlanError if the noise is a function, but the grid's axes are not the variables; the
    noise is too large for the widths of the cells; or it acts along different axes of different
    grids.
    """
    if noise is None:
        return
    spreads = np.stack([noise.spread(lattice) for lattice in lattices])
    if noise.function is not None and any(lattice.is_rotated for lattice in lattices):
        raise PlanError(
            "a process_noise function gives variances along the variables, but the argument axes "
            "rotates the grid; leave axes out"
        )
    if ((spreads != 0) != (spreads[0] != 0)).any():
        raise PlanError(
            "process_noise acts along different axes of the grids of different priors; leave axes "
            "out, or run the priors separately"
        )
    spread = float(np.nanmax(spreads, initial=0.0))
    if 2 * spread * np.ptp(times) / LONGEST > _STEPS_MOST:
        raise PlanError(
            f"process_noise spreads the density over a cell in {0.5 / spread:.3g} of time, which "
            f"would take {2 * spread * np.ptp(times) / LONGEST:.1e} steps; use larger widths"
        )


def check_function_of_noise(
    noise: Noise | None, priors: Sequence[Prior], time: float, parameters: np.ndarray
) -> None:
    """Refuse noise by a function that is negative or not finite at a prior, by a ModelError."""
    if noise is None or noise.function is None:
        return
    for prior, row in zip(priors, parameters, strict=True):
        reach = 2.0 * np.diag(np.sqrt(np.diag(prior.covariance)))
        others = (*(prior.mean + reach), *(prior.mean - reach)) if noise.is_crossed else ()
        for state in (prior.mean, *others):
            _check_at(noise, state, time, row)


def _check_at(noise: Noise, mean: np.ndarray, time: float, parameters: np.ndarray) -> None:
    if noise.function is None:
        return
    try:
        found: Any = noise.function(time, tuple(mean.tolist()), tuple(parameters.tolist()))
    except (ArithmeticError, ValueError):
        return  # not defined there
    if noise.is_crossed and not noise.amplitudes:
        matrix = np.array(found, np.float64).reshape(mean.size, mean.size)
        if np.isfinite(matrix).all():
            covariance_of(
                matrix, mean.size, f"process_noise at {mean}", may_be_singular=True
            )  # fmt: skip
        found = np.diag(matrix)
    values = np.array(found, np.float64)
    if not np.isfinite(values).all() or (not noise.amplitudes and (values < 0).any()):
        raise ModelError(
            f"process_noise is {values} at the prior's mean; expected variances a unit of time, "
            "none of them negative"
        )


@lru_cache(maxsize=64)
def depends_on_time(function: Any, place: int = 0) -> bool:
    """Whether a function uses its argument at a place, that of time."""
    tree = syntax(function)
    name = tree.args.args[place].arg
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))


def _returns(function: Any, count: int) -> bool:
    """Whether a function returns a tuple of `count` elements somewhere."""
    return any(
        isinstance(node, ast.Return)
        and isinstance(node.value, ast.Tuple)
        and len(node.value.elts) == count
        for node in ast.walk(syntax(function))
    )


def _vanishing(function: Any) -> set[int]:
    """Components of a function's tuple that are a literal zero in every return statement."""
    found: list[set[int]] = []
    for node in ast.walk(syntax(function)):
        if isinstance(node, ast.Return):
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else []
            found.append({k for k, part in enumerate(parts) if getattr(part, "value", None) == 0})
    return set.intersection(*found) if found else set()
