"""Benchmarks make their cases with public functions alone: what they time is what users call."""

import ast
import json
import subprocess
import sys
from inspect import Parameter, signature
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import pytest

import ergode

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(FOLDER.glob("*.py"))


def private_names(text):
    """What a script uses of ergode that is not public."""
    found, inner = set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{one.name}" for one in node.names}
            # No module within an engine is public.
            (inner if node.module.count(".") > 1 else found).update(names)
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            found |= {name} if name.replace(".", "").isidentifier() else set()
    private = inner | {name for name in found if not is_public(name)}
    return {name for name in private if name.partition(".")[0] == "ergode"}


def is_public(name):
    """Whether a name can be reached by names that the modules on the way show."""
    here = ergode
    for part in name.split(".")[1:]:
        if not isinstance(here, ModuleType):
            return True  # of an object that is public
        if part not in getattr(here, "__all__", vars(here)):
            return False
        here = getattr(here, part)
    return True


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_benchmark_uses_public_names_alone(script):
    assert not private_names(script.read_text(encoding="utf-8"))


def test_private_names_are_found():
    assert private_names(
        "import ergode, ergode.core.devices\n"
        "from ergode.core.devices import cuda\n"
        "from ergode import Reaction, models\n"
        "from ergode.epidemics.simulate import plan_of\n"
        "ergode.kinetics.integrate(ergode.kinetics.launch, ergode.CompartmentModel.seir)\n"
    ) == {
        "ergode.core.devices.cuda", "ergode.core.devices", "ergode.models",
        "ergode.epidemics.simulate.plan_of", "ergode.kinetics.launch",
    }  # fmt: skip


def unknown_options(text):
    """Options that a script gives to public functions which do not have them."""
    tree = ast.parse(text)
    aliases = {
        ast.unparse(node.targets[0]): ast.unparse(node.value)
        for node in tree.body if isinstance(node, ast.Assign)
    }  # fmt: skip
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        is_partial = ast.unparse(node.func) == "partial"
        name = ast.unparse(node.args[0] if is_partial else node.func)
        name = aliases.get(name, name)
        if not name.startswith("ergode.") or not name.replace(".", "").isidentifier():
            continue
        known = signature(attrgetter(name.partition(".")[2])(ergode)).parameters
        if not any(one.kind == Parameter.VAR_KEYWORD for one in known.values()):
            found |= {f"{name}({one.arg})" for one in node.keywords if one.arg} - {
                f"{name}({one})" for one in known
            }
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_benchmark_gives_options_that_there_are(script):
    assert not unknown_options(script.read_text(encoding="utf-8"))


def test_unknown_options_are_found():
    assert unknown_options(
        "integrate = ergode.kinetics.integrate\n"
        "integrate(network, times=[0, 1], limit=5)\n"
        "partial(ergode.density.propagate, field, prior, widths=3, width=1)\n"
    ) == {"ergode.kinetics.integrate(limit)", "ergode.density.propagate(widths)"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "case"),
    [("epidemics", "leap"), ("stochastic", "realizations"), ("trajectories", "lorenz")],
)
def test_a_benchmark_runs(script, case, tmp_path):
    rows = tmp_path / "rows.json"
    command = [sys.executable, str(FOLDER / f"{script}.py"), "--quick", "--no-peers", "--case"]
    done = subprocess.run(
        [*command, case, "--json", str(rows)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(rows.read_text(encoding="utf-8"))
    assert {"whole call", "kernels within"} < {row["metric"] for row in found}
    whole, kernels = (
        [row["value"] for row in found if row["metric"] == metric]
        for metric in ("whole call", "kernels within")
    )
    assert all(a > b > 0 for a, b in zip(whole, kernels, strict=True))
