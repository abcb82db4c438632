"""Kinetics against SciPy's Radau, on random networks under random conditions.

Every method is held to what it claims: the implicit ones to their tolerance, the explicit ones to
what their pages say of them, and all of them to a status that is not DONE where they fail.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import ergode
from ergode.core.status import Status
from ergode.kinetics import integrate

sys.path.insert(0, str(Path(__file__).parent))  # the referee's own modules, which are no tests

from kinetics_cases import conditions_of, network_of, random_case
from kinetics_reference import solve

# Errors of the largest amount that methods are allowed: so many times rtol, and beside that.
ALLOWED = {"rodas4": (20.0, 3e-6), "rosenbrock23": (400.0, 3e-6)}
KINDS = ("plain", "molecules", "nuclei", "heated")


def amounts_of(result):
    return result["mass_fraction" if "mass_fraction" in result else "concentration"].values[0]


def findings(case, methods=tuple(ALLOWED)):
    """What is wrong with the results of all methods for a case."""
    expected, hot = solve(case)
    network, scale, found = network_of(case), np.abs(expected).max(), []
    for method in methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ergode.ErgodeWarning)
            result = integrate(
                network, method=method, rtol=case["rtol"], device="cpu", **conditions_of(case)
            )
        error = np.abs(amounts_of(result) - expected).max() / scale
        if hot is not None:
            error = max(error, np.abs(result["temperature"].values[0] / hot - 1.0).max())
        times, beside = ALLOWED[method]
        if result["status"].item() != Status.DONE or not error <= times * case["rtol"] + beside:
            name = Status(result["status"].item()).name
            found.append(f"seed {case['seed']} {case['kind']} {method}: {name}, error {error:.1e}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_implicit_methods_on_random_cases(kind):
    wrong = [text for seed in range(12) for text in findings(random_case(seed, kind))]
    assert not wrong, wrong
