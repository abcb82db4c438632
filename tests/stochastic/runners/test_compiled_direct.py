"""Small networks by code that is compiled for them."""

import numpy as np

from ergode import Reaction, ReactionNetwork, stochastic


def test_an_exponent_may_be_swept():
    """One molecule leaves at rate a / (1 + b^n): another exponent is another rate."""
    network = ReactionNetwork(
        {"A": 1}, [Reaction("A -> 0", rate="a * A / (1 + b^n)")],
        parameters={"a": 1.0, "b": 2.0, "n": 1.0},
    )  # fmt: skip
    options = {"times": [0, 1], "replicates": 4_000, "seed": 1, "device": "cpu"}
    found = stochastic.simulate(network, parameters={"n": [1.0, 2.0]}, **options)
    left = found["amount"].isel(time=1, species=0).mean("replicate").values
    np.testing.assert_allclose(left, np.exp([-1 / 3, -1 / 5]), atol=5 * 0.5 / 4_000**0.5)
