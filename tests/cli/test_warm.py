"""``ergode warm``: afterwards nothing is compiled, also from a folder that cannot be written to."""

import json
import os
import subprocess
import sys

import pytest
from command_line import invoke

import ergode
from ergode.cli import warm, warm_cases
from ergode.core.compiler import kernel_cache

CALL = """
import json, sys, warnings
from ergode.core import kernels
from ergode.core.compiler import kernel_files
made = []
guard = kernel_files.guard
kernel_files.guard = lambda kernel: (made.append(kernel), guard(kernel))
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as caught:
    from ergode.cli.warm_cases import ENGINES
    case = next(iter(ENGINES[sys.argv[1]]()))
    case.run("cpu")
compiled = [sum(one.stats.cache_misses.values()) for one in made]
print(json.dumps([sum(compiled), len(made), [str(one.message) for one in caught]]))
"""


def again(engine, before="", **environment):
    """Run the first case of an engine in a process: how much is compiled, of how much; warnings."""
    done = subprocess.run(
        [sys.executable, "-c", before + CALL, engine], capture_output=True, text=True, timeout=300,
        check=False, env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def one_case(monkeypatch):
    """Only the first case of every engine."""
    first = {name: next(iter(cases())) for name, cases in warm_cases.ENGINES.items()}
    monkeypatch.setattr(
        warm_cases,
        "ENGINES",
        {name: lambda case=case: iter([case]) for name, case in first.items()},
    )


def test_what_is_warm_is_not_compiled_again(tmp_path, monkeypatch, one_case):
    folder = tmp_path / "shared"
    monkeypatch.setenv("ERGODE_CACHE_DIR", str(folder))
    kernel_cache.folders.cache_clear()
    try:
        done = invoke("warm", "stochastic", "--device", "cpu", "--json")
        assert done.exit_code == 0, done.output
        said = json.loads(done.stdout)
        assert (said["cases"], said["failed"], said["directory"]) == (1, [], str(folder))
        assert said["new_kernels"] == len(kernel_cache.contents()) > 0
    finally:
        kernel_cache.folders.cache_clear()
    compiled, kernels, warned = again("stochastic")
    assert compiled == 0 < kernels
    # To a superuser every folder is writable, so that the door is shut in Python as well.
    shut = f"""
import tempfile
make = tempfile.TemporaryFile
def refuse(*_, dir=None, **options):
    if str(dir).startswith({str(folder)!r}):
        raise PermissionError("read-only")
    return make(dir=dir, **options)
tempfile.TemporaryFile = refuse
"""
    before = sorted(folder.rglob("*"))
    for file in before:
        file.chmod(0o555 if file.is_dir() else 0o444)
    folder.chmod(0o555)
    try:
        compiled, kernels, warned = again("stochastic", shut)
        assert (compiled, warned) == (0, [])
        compiled, kernels, warned = again("density", shut)
        assert compiled > 0
        assert len(warned) == len(set(warned))
        assert sorted(folder.rglob("*")) == before
    finally:
        for file in (folder, *before):
            file.chmod(0o755)


def test_every_case_has_a_name_of_its_own_and_a_method_of_a_table():
    for engine, cases in warm_cases.ENGINES.items():
        names = [case.name for case in cases()]
        assert len(set(names)) == len(names) > 0
        assert hasattr(ergode, engine)
    for name in ergode.epidemics.methods.METHODS:
        assert any(name in case.name for case in warm_cases.ENGINES["epidemics"]())


def test_what_fails_is_said_and_the_rest_is_warmed(monkeypatch):
    def run_all(cases, device, show):
        return [f"{cases[0][0]}: {cases[0][1]}: no"]

    monkeypatch.setattr(warm, "_run_all", run_all)
    done = invoke("warm", "kinetics", "--device", "cpu")
    assert done.exit_code == 1
    assert "1 of" in done.stderr and "rate constants" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["astrology"], "engine 'astrology' is unknown"), (["--device", "tpu"], "'tpu' is unknown")],
)
def test_mistakes_are_one_line(arguments, message):
    done = invoke("warm", *arguments)
    assert done.exit_code == 1
    assert message in done.stderr


def test_nothing_is_compiled_that_cannot_be_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(
        kernel_cache, "folders", lambda: kernel_cache.Folders(tmp_path / "a", tmp_path / "b")
    )
    done = invoke("warm", "--device", "cpu")
    assert done.exit_code == 1
    assert f"cannot keep kernels in '{tmp_path / 'b'}'" in done.stderr
