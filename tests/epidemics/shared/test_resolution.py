"""How finely moments are told apart in a working precision."""

import numpy as np
import pytest

import ergode
from ergode.epidemics import simulate

SIGMAS = 5.4  # an error below 1e-7 for each assertion


@pytest.mark.parametrize("method", ["sellke", "first-passage"])
def test_late_times_are_told_apart(method):
    """A case infectious for a fiftieth, in a million: 1 - 1/e are infected."""
    model = ergode.CompartmentModel.seir(
        transmission_rate=50.0, latent=ergode.Deterministic(999_000.0),
        infectious=ergode.Deterministic(0.02),
    )  # fmt: skip
    pairs = 20_000
    contacts = ergode.ContactNetwork.from_edges(2 * np.arange(pairs), 2 * np.arange(pairs) + 1)
    options = {
        "initial": {"E": 2 * np.arange(pairs)}, "times": [0.0, 1e6], "method": method,
        "device": "cpu",
    }  # fmt: skip
    counts = simulate(model, contacts, **options)
    assert counts.attrs["precision"] == "float64"
    found = float(counts["cases"][0, -1]) / pairs - 1
    chance = -np.expm1(-1.0)
    assert abs(found - chance) < SIGMAS * np.sqrt(chance * (1 - chance) / pairs)
    with pytest.raises(ergode.PlanError, match="use precision='float64'"):
        simulate(model, contacts, precision="float32", **options)
    assert simulate(model, contacts, **options | {"times": [0.0, 10.0]}).attrs["precision"] == (
        "float32"
    )
