import numpy as np

from ergode.core.math.elimination import eliminate


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
