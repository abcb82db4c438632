"""Files of the kernel cache that a crash or a full disk cut, and folders of other users."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ergode

CALL = """
import numpy as np
import ergode
from ergode.core import devices, kernels
from ergode.core.compiler import kernel_cache
from ergode.core.devices import cuda
from test_damaged_cache import doubled

network = ergode.ReactionNetwork({"X": 9}, [ergode.Reaction("X -> 0", rate_constant=1.0)])
result = ergode.stochastic.simulate(
    network, times=[0, 1], seed=3, replicates=4, method="direct", device="cpu"
)
print(result["amount"].values.ravel().tolist())

kernel, values = kernels.for_each(doubled), np.ones(1)
devices.resolve("cpu:1").run(kernel, 1, values)
print(values, cuda.ptx(kernel.compiled("cuda"), (0, 1, values), optimized=False))
print(kernel_cache.array_of("ergode_table", (2, 50), lambda: np.arange(100.0).reshape(2, 50)))
"""


def doubled(index, values):
    values[index] = 2 * values[index]


ENDINGS = {"py", "pyc", "nbi", "nbc", "open", "inner", "ptx", "npy"}


def started(text, folder):
    """A process of its own with this cache, at its end."""
    source = str(Path(ergode.__file__).parents[1])
    path = os.pathsep.join([source, str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    own = {"PYTHONPATH": path, "ERGODE_CACHE_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": ""}
    return subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **own},
    )


def called(folder):
    """What the call prints."""
    run = started(CALL, folder)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache with the kernels of the call, and what the call prints."""
    folder = tmp_path_factory.mktemp("cache")
    return folder, called(folder)


# Inner functions are read only if a kernel is compiled: if all files are cut.
@pytest.mark.parametrize("ending", ["*", *sorted(ENDINGS - {"inner"})])
@pytest.mark.parametrize("cut", ["half", "empty", "one byte", "one byte less"])
def test_files_that_were_cut_are_made_again(filled, ending, cut):
    folder, usual = filled
    files = [file for file in folder.rglob(f"*.{ending}") if file.is_file()]
    files = [file for file in files if file.name.rpartition(".")[2] in ENDINGS]
    if ending == "open":  # it is read where no linked kernel is
        files += folder.rglob("ergode_cpu_*.nbc")
    sizes = {file: file.stat().st_size for file in files}
    parts = {
        file: {"empty": 0, "one byte": 1, "half": size // 2, "one byte less": size - 1}[cut]
        for file, size in sizes.items()
    }
    assert files
    for file, part in parts.items():
        os.truncate(file, part)
    damaged = {file: file.read_bytes() for file in files}
    assert called(folder) == usual
    # It is whole again: the next process has nothing to mend.
    times = {file: file.stat().st_mtime_ns for file in folder.rglob(f"*.{ending}")}
    assert all(file.read_bytes() != damaged[file] for file in files if file.exists())
    assert called(folder) == usual
    assert times == {file: file.stat().st_mtime_ns for file in times}


def test_every_kind_of_file_is_cut_above(filled):
    """What else is there is no file that is read: the lock of writers."""
    folder, _ = filled
    found = {file.name.rpartition(".")[2] for file in folder.rglob("*") if file.is_file()}
    assert found == {*ENDINGS, "lock"}


def test_a_folder_of_another_user_is_refused(tmp_path):
    """In a process of its own: kernels that are in memory are not read from the folder."""
    if os.stat(tmp_path).st_uid == 0:  # folders of the superuser are trusted
        os.chown(tmp_path, 12345, -1)
    another = f"import os\nos.geteuid = lambda: {os.stat(tmp_path).st_uid + 1}\n"
    run = started(another + CALL, tmp_path)
    assert run.returncode != 0
    assert f"PlanError: the kernel cache '{tmp_path}' belongs to another user" in run.stderr
    assert "set ERGODE_CACHE_DIR to a folder of your own" in run.stderr
    assert not list(tmp_path.iterdir())
