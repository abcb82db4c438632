import numpy as np

from ergode.core.math.elimination import eliminate, factorize_shifted, solve


def test_elimination_fills_in_what_it_must():
    rng = np.random.default_rng(1)
    pattern = rng.uniform(size=(30, 30)) < 0.1
    for weight in (0.0, 0.5):
        plan = eliminate(pattern, weight)
        matrix = np.where(pattern | np.eye(30, dtype=bool), rng.normal(size=(30, 30)), 0.0)
        matrix += 20 * np.eye(30)
        permuted = matrix[np.ix_(plan.order, plan.order)]
        places = plan.positions()
        for k in range(29):
            permuted[k + 1 :, k + 1 :] -= (
                np.outer(permuted[k + 1 :, k], permuted[k, k + 1 :]) / (permuted[k, k])
            )
            permuted[k + 1 :, k] /= permuted[k, k]
        filled = {(int(plan.order[i]), int(plan.order[j])) for i, j in np.argwhere(permuted != 0.0)}
        assert filled <= set(places)
        entries = np.zeros(plan.column.size)
        for place, index in places.items():
            entries[index] = matrix[place]
        assert factorize_shifted(plan, entries, 0.5, np.zeros(30)) == 0.0
        b = rng.normal(size=30)
        x = b.copy()
        solve(plan, entries, x, np.zeros(30))
        np.testing.assert_allclose((matrix + 0.5 * np.eye(30)) @ x, b, rtol=1e-12, atol=1e-12)


def test_tails_of_rows_are_as_long_as_their_columns_are_consecutive():
    pattern = np.zeros((7, 7), bool)
    pattern[2, 4] = pattern[4, 2] = pattern[:, 6] = pattern[6] = True
    plan = eliminate(pattern)
    for pivot, end, tail in zip(plan.pivot, plan.start[1:], plan.tail, strict=True):
        right = plan.column[pivot + 1 : end].astype(int)
        length = int(end) - int(tail)
        assert (length > 0) == (right.size > 0)
        assert (np.diff(right[right.size - length :]) == 1).all()
        assert length == right.size or right[-length] - right[-length - 1] > 1
