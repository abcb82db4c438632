"""Files of the kernel cache that a crash or a full disk cut, and folders of other users."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ergode

CALL = """
import ergode

network = ergode.ReactionNetwork({"X": 9}, [ergode.Reaction("X -> 0", rate_constant=1.0)])
result = ergode.stochastic.simulate(
    network, times=[0, 1], seed=3, replicates=4, method="direct", device="cpu"
)
print(result["amount"].values.ravel().tolist())
"""


def started(text, folder):
    """A process of its own with this cache, at its end."""
    source = str(Path(ergode.__file__).parents[1])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": path, "ERGODE_CACHE_DIR": str(folder)},
    )  # fmt: skip


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


@pytest.mark.parametrize(
    ("ending", "part"), [("py", 0.5), ("nbc", 0.0), ("nbc", 0.99), ("open", 0.5)]
)
def test_files_that_were_cut_are_made_again(filled, ending, part):
    folder, usual = filled
    files = list(folder.rglob(f"ergode_cpu_*.{ending}"))
    if ending == "open":  # it is read where no linked kernel is
        files += folder.rglob("ergode_cpu_*.nbc")
    sizes = {file: file.stat().st_size for file in files}
    assert files
    for file, size in sizes.items():
        os.truncate(file, int(part * size))
    assert called(folder) == usual
    # It is whole again: the next process has nothing to mend.
    times = {file: file.stat().st_mtime_ns for file in folder.rglob(f"ergode_cpu_*.{ending}")}
    assert all(file.stat().st_size > part * size for file, size in sizes.items() if file.exists())
    assert called(folder) == usual
    assert times == {file: file.stat().st_mtime_ns for file in times}


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
