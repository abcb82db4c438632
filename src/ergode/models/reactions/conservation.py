"""Quantities that no reaction changes: the left null space of the stoichiometry, exactly."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np

from ergode.core.errors import ModelError


def conservation_laws(stoichiometry: Any) -> list[dict[int, int]]:
    """Independent integer weights w with w S = 0.

    Gaussian elimination in integers, which is exact: each species' row is reduced by earlier rows.
    A row that becomes zero is a conservation law; its weights are the multipliers of the rows.

    Parameters
    ----------
    stoichiometry : sparse matrix, shape [species, reaction]

    Returns
    -------
    list of dict of int to int
        Weights by index of the species, ascending, without common divisor; positive if a positive
        combination was found.

    Raises a ModelError if a stoichiometry is not a whole number.
    """
    matrix = stoichiometry.tocsr()
    if (matrix.data != np.rint(matrix.data)).any():
        raise ModelError("conserved quantities need integer stoichiometry")
    matrix = _distinct(matrix)
    pivots: dict[int, tuple[dict[int, int], dict[int, int]]] = {}
    laws = []
    for species in range(matrix.shape[0]):
        part = slice(matrix.indptr[species], matrix.indptr[species + 1])
        columns, values = matrix.indices[part].tolist(), matrix.data[part].tolist()
        row = {j: int(value) for j, value in zip(columns, values, strict=True)}
        weights = {species: 1}
        while row:
            column = min(row)
            if column not in pivots:
                if row[column] < 0:  # most pivots are then 1, which saves products
                    row = {k: -v for k, v in row.items()}
                    weights = {k: -v for k, v in weights.items()}
                pivots[column] = row, weights
                break
            other, other_weights = pivots[column]
            mine, theirs = other[column], -row[column]
            row = _combine(row, mine, other, theirs)
            weights = _combine(weights, mine, other_weights, theirs)
            divisor = gcd(*row.values(), *weights.values())
            if divisor > 1:
                row = {k: v // divisor for k, v in row.items()}
                weights = {k: v // divisor for k, v in weights.items()}
        if not row:
            sign = 1 if weights[min(weights)] > 0 else -1
            laws.append({k: sign * weights[k] for k in sorted(weights)})
    return _without_negatives(laws)


def _distinct(matrix: Any) -> Any:
    """The matrix without columns that equal an earlier one or its negative, as reverses do."""
    columns = matrix.tocsc()
    columns.sort_indices()
    first: dict[bytes, int] = {}
    for k in range(columns.shape[1]):
        part = slice(columns.indptr[k], columns.indptr[k + 1])
        values = columns.data[part]
        sign = -1.0 if values.size and values[0] < 0 else 1.0
        first.setdefault(columns.indices[part].tobytes() + (sign * values).tobytes(), k)
    return columns[:, list(first.values())].tocsr()


def _without_negatives(laws: list[dict[int, int]]) -> list[dict[int, int]]:
    """Conservation laws with positive weights, such as totals, where sums of two laws give them."""
    positive = [law for law in laws if min(law.values()) > 0]
    result = []
    for law in laws:
        for sign in (1, -1):
            sum_of = {k: sign * v for k, v in law.items()}
            while sum_of and min(sum_of.values()) < 0:
                worst = min(sum_of, key=lambda k: (sum_of[k], k))
                other = next((p for p in positive if worst in p), None)
                if other is None:
                    break
                sum_of = _combine(sum_of, other[worst], other, -sum_of[worst])
            if sum_of and min(sum_of.values()) > 0:
                divisor = gcd(*sum_of.values())
                law = {k: sum_of[k] // divisor for k in sorted(sum_of)}
                break
        result.append(law)
    return result


def _combine(a: dict[int, int], i: int, b: dict[int, int], j: int) -> dict[int, int]:
    result = dict(a) if i == 1 else {k: i * v for k, v in a.items()}
    for k, v in b.items():
        total = result.get(k, 0) + j * v
        if total:
            result[k] = total
        else:
            del result[k]
    return result
