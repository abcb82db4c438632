import numpy as np
import pytest
from small_networks import IMMIGRATION_DEATH

import ergode


def test_sensitivities_are_those_of_theory_and_sharper_than_independent_ones():
    times = np.array([0.0, 1.0, 4.0])
    found = ergode.stochastic.sensitivities(
        IMMIGRATION_DEATH, times=times, replicates=4000, seed=1, device="cpu"
    )
    decay = np.exp(-0.5 * times)
    by_alpha = (1 - decay) / 0.5
    by_mu = -10 / 0.25 * (1 - decay) + 10 / 0.5 * times * decay - 3 * times * decay
    for name, expected in (("alpha", by_alpha), ("mu", by_mu)):
        row = found.sel(parameter=name, species="X")
        error = np.maximum(row["standard_error"], 1e-12)
        # The bias of a central difference of five percent is below one percent.
        assert (np.abs(row["sensitivity"] - expected) < 5 * error + 0.01 * np.abs(expected)).all()
    independent = np.sqrt(2 * 20 / 4000) / (2 * 0.05 * 0.5)
    assert found.sel(parameter="mu")["standard_error"][2, 0] < 0.5 * independent
    with pytest.raises(ergode.ModelError, match="neither a parameter"):
        ergode.stochastic.sensitivities(IMMIGRATION_DEATH, times=times, parameters=["beta"])
