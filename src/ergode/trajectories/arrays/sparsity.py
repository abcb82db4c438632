"""Which unknowns the derivative of an unknown reads, and columns that one evaluation tells apart.

A derivative that changes where a range of unknowns does reads one of them; the range is then cut in
four, down to single unknowns.  That takes some 40 evaluations of a derivative for every unknown it
reads.  Unknowns that no derivative reads together have one colour, and one evaluation gives their
columns of the Jacobian (A. R. Curtis, M. J. D. Powell, J. K. Reid, IMA J. Appl. Math. 13, 117
(1974)); colours are sets that are independent in the manner of M. Luby, SIAM J. Comput. 15, 1036
(1986).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.errors import PlanError

if TYPE_CHECKING:
    from scipy import sparse

_PARTS = 4
DENSE = 2_000  # unknowns up to which every derivative may read every unknown
_MOST_READ = 100  # unknowns that a derivative of a larger field reads, on the average

# probe(edges, firsts, rows) -> whether derivative rows[q] reads unknowns edges[b] to edges[b + 1],
# for q from firsts[b] to firsts[b + 1].
Probe = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def refuse_full(n: int) -> None:
    """Refuse a matrix that memory, or patience, has no room for.

    Raises
    ------
    PlanError
        There are more than a few thousand unknowns.
    """
    if n > DENSE:
        raise PlanError(
            f"implicit methods take more than {DENSE:,} unknowns where a derivative reads at most "
            f"{_MOST_READ} of them, and is a component; of {n:,} here they read more; choose 'rkc2'"
        )


def pattern_of(n: int, probe: Probe) -> sparse.csc_array:
    """Where the Jacobian of `n` unknowns may differ from zero, and its diagonal.

    Raises
    ------
    PlanError
        There are too many such places.
    """
    from scipy.sparse import csc_array

    edges: Any = np.array([0, n])
    blocks: Any = np.zeros(n, np.int64)
    rows: Any = np.arange(n)
    while True:
        firsts = np.searchsorted(blocks, np.arange(edges.size))
        found = probe(edges, firsts, rows)
        blocks, rows = blocks[found], rows[found]
        if n > DENSE and rows.size > _MOST_READ * n:
            refuse_full(n)
        widths = np.diff(edges)
        if widths.max() == 1:
            break
        inner = edges[:-1, None] + widths[:, None] * np.arange(_PARTS) // _PARTS
        edges, places = np.unique(np.append(inner.ravel(), n), return_inverse=True)
        # Parts of a block of less than four unknowns are fewer.
        first = places[:-1].reshape(-1, _PARTS)[:, 0]
        count = np.diff(np.append(first, edges.size - 1))[blocks]
        start = np.repeat(np.cumsum(count) - count, count)
        blocks = np.repeat(first[blocks], count) + np.arange(count.sum()) - start
        rows = np.repeat(rows, count)
        order = np.argsort(blocks, kind="stable")
        blocks, rows = blocks[order], rows[order]
    diagonal = np.arange(n)
    where = np.append(rows, diagonal), np.append(edges[blocks], diagonal)
    return csc_array((np.ones(where[0].size), where), shape=(n, n))


def colours_of(pattern: sparse.csc_array) -> np.ndarray:
    """A colour of every column; no row has two columns of one colour."""
    n = pattern.shape[1]
    if pattern.nnz == n * n:
        return np.arange(n)
    near = (pattern.T @ pattern).tocsr()  # columns that share a row; each with itself
    rng = np.random.default_rng(0)
    colours, colour = np.full(n, -1), 0
    while (left := colours < 0).any():
        while left.any():
            priority = np.where(left, 1 + rng.permutation(n), 0)
            chosen = left & (np.maximum.reduceat(priority[near.indices], near.indptr[:-1])
                             == priority)  # fmt: skip
            colours[chosen] = colour
            left &= ~np.logical_or.reduceat(chosen[near.indices], near.indptr[:-1])
        colour += 1
    return colours
