"""Linear systems of a Rosenbrock step without a matrix: generalised conjugate residuals.

All stages of a step have the matrix A = 1 / (h gamma) - J.  A product J v is a difference of
derivatives.  The search directions p of a step, whose images A p are orthonormal, are kept: what a
later stage has in the span of the images is solved without an evaluation.  Only the newest
directions are kept, which is the method Orthomin.  Unknowns and residuals are in units of the
tolerance.  A stage is solved until its error is a small part of the tolerance (see
`conjugate_residuals`, the same method in a kernel).  The remaining residual counts in the error of
the step.

S. C. Eisenstat, H. C. Elman, M. H. Schultz, SIAM J. Numer. Anal. 20, 345 (1983), section 2
(GCR and Orthomin); P. N. Brown, A. C. Hindmarsh, SIAM J. Numer. Anal. 23, 610 (1986) (differences
for products).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ergode.trajectories.arrays.conjugate_residuals import (
    CARRIED,
    EXHAUSTED,
    MOVED,
    NOTHING,
    STALLED,
    TURNS,
    kept_of,
)
from ergode.trajectories.arrays.evaluator import Evaluator

_EPSILON = float(np.finfo(float).eps)


class Krylov:
    """Linear systems with the Jacobian of a field, as `implicit.Linear`.

    Parameters
    ----------
    field : Evaluator
    gamma : float
        That of the method.
    """

    def __init__(self, field: Evaluator, gamma: float) -> None:
        self._field, self._gamma, n = field, gamma, field.size
        kept = kept_of(n)
        self._directions, self._images = np.empty((kept, n)), np.empty((kept, n))
        self._filled, self._next = 0, 0
        self.longest = np.inf  # step beyond which the systems took too many directions

    def linearise(self, me: int, t: float, y: np.ndarray, f: np.ndarray, scale: np.ndarray) -> None:
        """Take the Jacobian at a state; `scale`: tolerances of the unknowns."""
        self._me, self._t, self._y, self._f, self._scale = me, np.array([t]), y, f, scale
        self._move = max(np.sqrt(_EPSILON) * root_mean_square(y / scale), MOVED)
        self.longest *= 1.2

    def shift(self, diagonal: float) -> bool:
        """Take another diagonal; a Jacobian of a state that is no number has no systems."""
        self._diagonal, self._filled, self._next = diagonal, 0, 0
        return True

    def solve(self, b: np.ndarray, allowed: float) -> tuple[np.ndarray, float] | None:
        """The solution, and the size of its residual in tolerances; None if it was not found."""
        r = b / self._scale
        x = np.zeros_like(r)
        if self._filled:
            directions, images = self._kept()
            parts = images @ r
            x = parts @ directions
            r -= parts @ images
        # A step so short that all its motion is within the tolerance has to move nevertheless.
        least = max(CARRIED * root_mean_square(b / self._scale), NOTHING * allowed)
        allowed = min(allowed, least)
        left, turns, stalled = root_mean_square(r), 0, False
        # Every step has a product at least: derivatives that are no numbers nearby end it.
        while left > allowed or (left > 0.0 and not self._filled):
            if turns == TURNS or not np.isfinite(left):
                # The next step is half as long, and later ones grow slowly.
                self.longest = 0.5 / (self._gamma * self._diagonal)
                return None
            # After a residual that led nowhere the last image leads on, as in Orthodir.
            p = self._images[self._next - 1].copy() if stalled and self._filled else r.copy()
            q = self._product(p)
            whole = root_mean_square(q)
            if self._filled:
                directions, images = self._kept()
                new = whole
                for _ in range(2):  # again where the rest is small, for rounding
                    parts, before = images @ q, new
                    q -= parts @ images
                    p -= parts @ directions
                    new = root_mean_square(q)
                    if new > 0.5 * before:
                        break
            size = np.linalg.norm(q)
            if not np.isfinite(size):
                return None
            if not size > EXHAUSTED * whole:
                if stalled or not self._filled:
                    break
                stalled = True
                turns += 1
                continue
            q /= size
            p /= size
            self._directions[self._next], self._images[self._next] = p, q
            self._filled = max(self._filled, self._next + 1)
            self._next = (self._next + 1) % len(self._images)
            part = q @ r
            x += part * p
            r -= part * q
            before, left = left, root_mean_square(r)
            stalled, turns = left > STALLED * before, turns + 1
        return x * self._scale, left

    def state(self) -> dict[str, np.ndarray]:
        """The longest step that is advised."""
        return {"longest": np.array(self.longest)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        self.longest = float(state["longest"])

    def _kept(self) -> tuple[np.ndarray, np.ndarray]:
        return self._directions[: self._filled], self._images[: self._filled]

    def _product(self, p: np.ndarray) -> np.ndarray:
        """``(diagonal - jacobian) p``."""
        move = self._move / max(root_mean_square(p), 1e-300)
        for step in (move, -move):  # the other way, if derivatives are no numbers there
            moved = self._y + step * self._scale * p
            change = self._field.slopes(self._me, self._t, moved[None])[0] - self._f
            if np.isfinite(change).all():
                break
        return self._diagonal * p - change / (step * self._scale)


def root_mean_square(x: np.ndarray) -> float:
    """Root mean square."""
    return float(np.linalg.norm(x)) / np.sqrt(x.size)
