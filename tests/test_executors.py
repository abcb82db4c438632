"""Executors of other libraries: loky, mpi4py and Parsl, each with worker processes of its own."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from ergode.core.calls import tasks

# The rate is a function of the script, which workers cannot import.
SCRIPT = """
import contextlib
import numpy as np
import ergode

def check(executor):
    field = ergode.VectorField(lambda t, y, p: (-p[0] * y[0],), variables=["x"], parameters=["k"])
    call = dict(
        times=[0, 1], initial={{"x": np.arange(1.0, 9.0)}}, parameters={{"k": 2.0}}, method="rk4",
        step=0.1, device="cpu",
    )
    whole = ergode.trajectories.integrate(field, **call)
    parts = ergode.trajectories.integrate(field, executor=executor, chunk=2, **call)
    assert whole.equals(parts), (whole, parts)
    print("the same bits")

if __name__ == "__main__":
{starts}
"""
WAYS = {
    "loky": """
    from loky import get_reusable_executor
    check(get_reusable_executor(max_workers=2))
""",
    "mpi4py": """
    from mpi4py import MPI
    from mpi4py.futures import MPICommExecutor
    with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
        if executor is not None:
            assert MPI.COMM_WORLD.size == 3
            check(executor)
""",
    "parsl": """
    import parsl
    from parsl.concurrent import ParslPoolExecutor
    from parsl.config import Config
    from parsl.executors import HighThroughputExecutor
    workers = HighThroughputExecutor(max_workers_per_node=2, address="127.0.0.1")
    with ParslPoolExecutor(Config(executors=[workers], run_dir="parsl")) as executor:
        check(executor)
""",
}


@pytest.mark.parametrize(
    "name", ["loky", "mpi4py", pytest.param("parsl", marks=pytest.mark.exhaustive)]
)
def test_an_executor_of(name, tmp_path):
    pytest.importorskip(name)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(starts=WAYS[name]))
    command = [sys.executable, str(script)]
    if name == "mpi4py":
        starts = Path(sys.executable).with_name("mpiexec")
        if importlib.util.find_spec("mpi4py.MPI") is None or not starts.exists():
            pytest.skip("no mpiexec beside this Python")
        command = [str(starts), "-n", "3", *command]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.stdout.endswith("the same bits\n"), ended.stdout + ended.stderr


def test_packages_of_any_folder_of_pip_travel_by_name(tmp_path, monkeypatch):
    """An environment may use the packages of another one; a project's own folder is no such."""
    for folder in ("target", "project"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"of_{folder}.py").write_text("def rate(t):\n    return t\n")
        monkeypatch.syspath_prepend(tmp_path / folder)
    (tmp_path / "target" / "of_target-1.0.dist-info").mkdir()
    import of_project
    import of_target

    assert tasks._is_installed(of_target.rate)
    assert not tasks._is_installed(of_project.rate)
