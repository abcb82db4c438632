"""Floquet multipliers of a cycle from the matrices of its collocation.

Without delays, orthogonal transformations eliminate the inner nodes of every interval, and then
the ends of neighbouring intervals, two by two. What remains is A z(0) + B z(1) = 0, and the
multipliers are eigenvalues of this pencil. No matrices are multiplied into a monodromy matrix, so
that very large and very small multipliers keep their accuracy
(T. F. Fairgrieve, A. D. Jepson, SIAM J. Numer. Anal. 28, 1446 (1991)).

With delays the monodromy operator maps the nodes of the history before a period to the nodes of
the history before the next one (K. Engelborghs, T. Luzyanina, G. Samaey, DDE-BIFTOOL v. 2.00
(2001), section 3).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

_MOST = 12  # multipliers of a delay equation, the largest ones
_DENSE = 400  # history values up to which all multipliers are computed
_BLOCK, _BLOCK_COUNT = 4, 24


def of_blocks(blocks: np.ndarray, size: int) -> np.ndarray:
    """Multipliers of collocation matrices [interval, 4 n, 5 n], the largest first."""
    inner = blocks.shape[1] - size
    q = np.linalg.qr(blocks[:, :, size:-size], mode="complete")[0]
    kept = np.swapaxes(q[:, :, inner:], 1, 2)
    first, last = kept @ blocks[:, :, :size], kept @ blocks[:, :, -size:]
    while len(first) > 1:
        pairs = len(first) // 2
        middle = np.concatenate([last[: 2 * pairs : 2], first[1 : 2 * pairs : 2]], axis=1)
        q = np.linalg.qr(middle, mode="complete")[0]
        kept = np.swapaxes(q[:, :, size:], 1, 2)
        ahead = kept[:, :, :size] @ first[: 2 * pairs : 2]
        behind = kept[:, :, size:] @ last[1 : 2 * pairs : 2]
        first = np.concatenate([ahead, first[2 * pairs :]])
        last = np.concatenate([behind, last[2 * pairs :]])
    return largest_first(scipy.linalg.eigvals(first[0], -last[0]))


def of_history(
    rows: np.ndarray, columns: np.ndarray, entries: np.ndarray, node_count: int, size: int
) -> np.ndarray:
    """Multipliers of a delay equation, the largest first.

    `rows`, `columns` and `entries` are the collocation matrix of nodes from -L to `node_count` - 1;
    negative numbers are nodes of earlier periods. Column c is the variable c % n of node c // n.
    """
    lowest = min(int(columns.min()) // size, 0)
    matrix = scipy.sparse.csc_matrix(
        (entries, (rows, columns - lowest * size)),
        shape=((node_count - 1) * size, (node_count - lowest) * size),
    )
    known = (1 - lowest) * size  # history, up to node 0
    factors = scipy.sparse.linalg.splu(matrix[:, known:])
    history = matrix[:, :known]
    shift = (node_count - 1) * size

    def following(values: np.ndarray) -> np.ndarray:
        new = -factors.solve(history @ values)
        return np.concatenate([values, new])[shift:]

    if known <= _DENSE:
        found = np.linalg.eigvals(following(np.eye(known)))
    else:  # by a Krylov space of blocks, which finds multiple ones too
        last = np.linalg.qr(np.random.default_rng(0).standard_normal((known, _BLOCK)))[0]
        basis = last
        for _ in range(_BLOCK_COUNT - 1):
            last = following(last)
            for _ in range(2):
                last = last - basis @ (basis.T @ last)
            last = np.linalg.qr(last)[0]
            basis = np.hstack([basis, last])
        found = np.linalg.eigvals(basis.T @ following(basis))
    return largest_first(found)[: max(_MOST, size)]


def largest_first(multipliers: np.ndarray) -> np.ndarray:
    """Multipliers in descending modulus; of a pair, the one with positive imaginary part first."""
    found = np.asarray(multipliers, complex)
    found = np.where(np.isfinite(found), found, np.inf)
    sizes = np.abs(found)
    with np.errstate(invalid="ignore"):
        keys = np.where(np.isfinite(sizes), np.round(sizes, 12), np.inf)
    return np.asarray(found[np.lexsort((-found.imag, -keys))])
