"""Final sizes of large epidemics without reinfection, by percolation theory.

The final state of such an epidemic is that of bond percolation.  An arc transmits with the
probability T, the transmissibility, whatever the latent time.  The nodes infected are those that
seeds reach.  On a large random network with Poisson degrees, the fraction that is never reached
solves a fixed-point equation.  Simulations can be validated against it.

References
----------
M. E. J. Newman, Phys. Rev. E 66, 016128 (2002), equations 5 to 9 and 24.
E. Kenah and J. M. Robins, Phys. Rev. E 76, 036113 (2007): why T suffices for the final size, but
not for the probability of an outbreak, when infectious times vary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import is_finite_number
from ergode.core.errors import ModelError
from ergode.epidemics.analysis.contact import discounted_survival
from ergode.models.holding_times.families import HoldingTime

_TOLERANCE = 1e-13  # relative
_ITERATIONS = 45  # each halves the error at least; beyond, rounding makes the system singular


def transmissibility(transmission_rate: float, infectious: HoldingTime) -> float:
    """Probability that an infected node ever transmits along an edge of weight one.

    It is 1 - E[exp(-rate x infectious time)].

    Parameters
    ----------
    transmission_rate : float
        Rate across the edge [1 / time].
    infectious : HoldingTime
        Time spent infectious.

    Examples
    --------
    >>> import ergode
    >>> from ergode.epidemics import percolation
    >>> round(percolation.transmissibility(0.15, ergode.Exponential(rate=0.15)), 9)
    0.5
    """
    if not is_finite_number(transmission_rate) or transmission_rate < 0:
        raise ModelError(
            f"transmission_rate is {transmission_rate!r}; expected a finite number, 0 or more"
        )
    if transmission_rate == 0:
        return 0.0
    rate = np.array([float(transmission_rate)])
    return float(transmission_rate * discounted_survival(infectious, rate)[0])


def final_size(
    mean_degrees: ArrayLike, transmissibility: float, initial_fraction: float = 0.0
) -> np.ndarray:
    """Fraction of each block ever infected in a large outbreak, for an infinite network.

    Parameters
    ----------
    mean_degrees : array_like of float, shape [block_count, block_count] or a number
        Expected contacts in block b of a node of block a, see
        `ContactNetwork.stochastic_block_model`; or the mean degree of an Erdos-Renyi network.
    transmissibility : float
        Probability that a contact transmits.
    initial_fraction : float
        Fraction of all nodes infected at the start, drawn at random. If it is zero, the result is
        the size of a large outbreak.

    Returns
    -------
    ndarray, shape [block_count]
        The largest solution s of 1 - s_a = (1 - initial) exp(-T sum_b mean_degrees_ab s_b).

    Raises a ModelError if the matrix is not square, or a number is out of range.

    Examples
    --------
    >>> from ergode.epidemics import percolation
    >>> percolation.final_size(8, 0.5).round(6)
    array([0.980173])
    """
    matrix = np.atleast_2d(np.asarray(mean_degrees, float))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ModelError(f"mean_degrees has shape {matrix.shape}; expected a square matrix")
    if not (np.isfinite(matrix).all() and (matrix >= 0).all()):
        raise ModelError("mean_degrees must be finite and not negative")
    for name, value in (
        ("transmissibility", transmissibility),
        ("initial_fraction", initial_fraction),
    ):
        if not 0 <= value <= 1:
            raise ModelError(f"{name} is {value!r}; expected a number between 0 and 1")
    # From above, Newton's iteration falls to the largest solution, also where it is nearly zero.
    size = np.ones(len(matrix))
    spared = 1.0 - initial_fraction
    for _ in range(_ITERATIONS):
        pressure = transmissibility * (matrix @ size)
        excess = size - initial_fraction + spared * np.expm1(-pressure)
        slope = spared * np.exp(-pressure)[:, None] * transmissibility * matrix
        change = np.linalg.solve(np.eye(len(size)) - slope, excess)
        size = np.clip(size - change, 0.0, 1.0)
        if np.abs(change).max() <= _TOLERANCE * size.max():
            break
    return size
