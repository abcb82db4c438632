"""The constants agree with the relations between them, and with SciPy's, which are in SI."""

import math

import pytest
from scipy import constants as si

from ergode.models import constants


def test_relations():
    assert pytest.approx(constants.AVOGADRO * constants.BOLTZMANN) == constants.GAS_CONSTANT
    assert pytest.approx(constants.PLANCK / (2 * math.pi)) == constants.REDUCED_PLANCK
    light = 2.99792458e10  # cm/s
    assert pytest.approx(constants.DALTON * light**2, 1e-8) == constants.DALTON_MEV * constants.MEV
    # A mole of daltons is a gram, to what CODATA measures since 2019.
    assert pytest.approx(1.0, rel=1e-9) == constants.DALTON * constants.AVOGADRO


@pytest.mark.parametrize(
    ("name", "value", "factor"),
    [
        ("BOLTZMANN", si.k, 1e7), ("PLANCK", si.h, 1e7), ("MEV", 1e6 * si.e, 1e7),
        ("ELEMENTARY_CHARGE", si.e, 10 * si.c), ("STANDARD_ATMOSPHERE", si.atm, 10),
        ("DALTON", si.atomic_mass, 1e3),
    ],
)  # fmt: skip
def test_against_scipy(name, value, factor):
    assert getattr(constants, name) == pytest.approx(value * factor, rel=1e-8)
