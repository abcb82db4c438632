"""Run files that are computed in parts, resumed, and sent to a scheduler."""

import json
from importlib import import_module

import pytest
from command_line import invoke

import ergode

RUN_FILE = """
engine = "stochastic"
[network]
species = { X = 9 }
reactions = [{ reaction = "X -> 0", rate_constant = 1.0 }]
[simulate]
times = [0, 1]
seed = 5
replicates = 7
device = "cpu"
"""
OUTPUT = "[output]\nfigure = false\n"


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "decay.toml"
    path.write_text(RUN_FILE + OUTPUT)
    return path


def test_a_run_is_resumed(run_file, tmp_path, monkeypatch):
    store = tmp_path / "decay.parts.zarr"
    stores = import_module("ergode.core.calls.store")
    write, written = stores.Store.write, []

    def until_interrupted(*arguments):
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(write(*arguments))

    monkeypatch.setattr(stores.Store, "write", until_interrupted)
    done = invoke("run", run_file, "--resume")
    assert done.exit_code == 130
    assert f"interrupted; 3 of 7 replicates are kept in '{store}'" in done.stderr
    monkeypatch.undo()
    assert "3 of 7 replicates (42 %) in 3 parts" in invoke("status", store).output
    found = json.loads(invoke("status", store, "--json").stdout)
    assert found == {
        "engine": "stochastic", "version": ergode.__version__, "dim": "replicate", "total": 7,
        "done": 3, "parts": 3, "checkpoints": [],
    }  # fmt: skip
    assert invoke("run", run_file, "--resume").exit_code == 0
    assert "7 of 7 replicates (100 %)" in invoke("status", store).output
    resumed = ergode.open_dataset(tmp_path / "decay.nc")
    assert invoke("run", run_file, "--overwrite").exit_code == 0
    assert resumed["amount"].equals(ergode.open_dataset(tmp_path / "decay.nc")["amount"])


def test_the_keys_of_a_run_file(run_file, tmp_path):
    run_file.write_text(RUN_FILE + 'store = "run.zarr"\nchunk = 3\n' + OUTPUT)
    assert invoke("run", run_file).exit_code == 0
    assert "in 3 parts" in invoke("status", tmp_path / "run.zarr").output
    again = invoke("run", run_file, "--overwrite")
    assert again.exit_code == 1
    assert "run.zarr' exists; pass --resume to compute what is missing in it" in again.stderr
    assert invoke("run", run_file, "--overwrite", "--resume").exit_code == 0
    other = invoke("run", run_file, "--overwrite", "--resume", "--seed", 6)
    assert other.exit_code == 1 and "belongs to a run with another 'seed'" in other.stderr
    assert other.stderr.count("\n") == 1


def test_a_quiet_run_into_a_zarr_store_is_quiet(run_file):
    path = run_file.with_name("decay.zarr")
    done = invoke("run", run_file, "--output", path, "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    assert ergode.open_dataset(path)["amount"].sizes["replicate"] == 7


def test_what_has_no_parts_and_no_scheduler(run_file, tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("ergode.cli.run"), "_PATIENCE", 0.1)
    refused = [
        (invoke("status", tmp_path / "none.zarr"), "none.zarr' does not exist"),
        (invoke("status", run_file), "expected a path that ends in .zarr"),
        (invoke("run", run_file, "--scheduler", "tcp://127.0.0.1:9"), "no Dask scheduler at"),
    ]
    text = RUN_FILE.replace("seed = 5\nreplicates = 7\n", 'output = "probabilities"\n')
    run_file.write_text(text)
    refused.append((invoke("run", run_file, "--resume"), "probabilities are not computed in parts"))
    for done, message in refused:
        assert done.exit_code == 1, done.output
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
