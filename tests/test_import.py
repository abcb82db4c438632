import json
import subprocess
import sys

import pytest

import ergode

HEAVY = ("matplotlib", "numba", "pandas", "rich", "scipy", "typer", "xarray")


def _loaded_by(statement):
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


@pytest.mark.parametrize("statement", ["import ergode", "import ergode; dir(ergode)"])
def test_import_loads_nothing_heavy(statement):
    assert _loaded_by(statement).isdisjoint(HEAVY)


def test_plots_load_matplotlib_only_to_draw():
    assert "matplotlib" not in _loaded_by("import ergode; ergode.plots.epidemic_curves")


@pytest.mark.parametrize("name", ergode.__all__)
def test_every_public_name_is_there(name):
    assert getattr(ergode, name) is not None


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'nonsense'"):
        ergode.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "name",
    ["density", "epidemics", "kinetics", "particles", "plots", "stochastic", "trajectories"],
)
def test_a_package_lists_its_public_names_only(name):
    package = getattr(ergode, name)
    assert dir(package) == sorted(package.__all__)
