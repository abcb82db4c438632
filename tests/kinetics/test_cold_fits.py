"""Fits of REACLIB that grow without bound below their range are told."""

import warnings

import numpy as np
import pytest
from kernel_cases import CARBON

import ergode

WILD = ergode.ReactionNetwork(
    CARBON.species,
    [
        *CARBON.reactions,
        ergode.Reaction(
            "mg24 -> 2 c12", name="wild",
            rate_constant=ergode.Reaclib([(-160.0, 1.0, 0, 0, 0, 0, 0), (-99.0, *6 * (0,))]),
        ),
    ],
)  # fmt: skip


def test_a_trajectory_that_cools_below_the_fits():
    common = {"times": [0, 1e-6], "density": 1.0, "initial": {"c12": 1.0}, "device": "cpu"}
    cooling = ergode.kinetics.Trajectory([0, 1e-6], [1e9, 5e6])
    found = f"at 5e.06 K 1 of 2 fits .* wild has {np.exp(40):.2g} instead of {np.exp(-60):.2g}"
    with pytest.warns(ergode.AccuracyWarning, match=found.replace("+", r"\+")):
        ergode.kinetics.integrate(WILD, temperature=cooling, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ergode.kinetics.integrate(WILD, temperature=1e7, **common)
        ergode.kinetics.integrate(CARBON, temperature=cooling, **common)


def test_cold_cells():
    cells = [3e9, 5e6], [1.0, 1.0], [[1.0, 0.0]] * 2, 1e-9
    with pytest.warns(ergode.AccuracyWarning, match="pass minimum_temperature=1e7"):
        ergode.kinetics.burn(WILD, *cells, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ergode.kinetics.burn(WILD, *cells, minimum_temperature=1e7, device="cpu")
        ergode.kinetics.burn(CARBON, *cells, device="cpu")
