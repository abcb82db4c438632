import sys
from pathlib import Path

import numpy as np
import pytest

import ergode

sys.path.insert(0, str(Path(__file__).parent))  # `type_ia`, which is no test

from type_ia import TYPE_IA


@pytest.fixture(scope="session")
def fern(shared_data):
    """150 nuclei and 1,604 REACLIB sets."""
    folder = shared_data / "kinetics"
    return ergode.read_fern(folder / "CUDAnet_150.inp", folder / "rateLibrary_150.data")


@pytest.fixture(scope="session")
def reference(shared_data, fern):
    """Mass fractions of the reference run at 1e-9 s."""
    lines = (shared_data / "kinetics" / "150_test.ref").read_text().splitlines()
    y = np.array([float(line.split(",")[1]) for line in lines if line[:1].isdigit()][:150])
    return y * np.array([one.mass_number for one in fern.species])


@pytest.fixture(scope="session")
def tight(fern):
    """Mass fractions at 1e-9 s, rodas4 at rtol 1e-8."""
    result = ergode.kinetics.integrate(
        fern, times=[0, 1e-9], rtol=1e-8, atol=1e-12, device="cpu", **TYPE_IA
    )
    return result["mass_fraction"].values[0, -1]


@pytest.fixture(scope="session")
def cantera():
    pytest.importorskip("ruamel.yaml")
    return pytest.importorskip("cantera")


@pytest.fixture(scope="session")
def hydrogen_file(cantera):
    """Hydrogen in oxygen, argon and nitrogen: 10 species and 29 reactions."""
    return Path(cantera.__file__).parent / "data" / "h2o2.yaml"


@pytest.fixture(scope="session")
def hydrogen(hydrogen_file):
    return ergode.read_cantera(hydrogen_file)
