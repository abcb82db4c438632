"""Compiled kernels on disk: found again, bounded, and in nobody else's hands."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ergode
from ergode.core import kernels
from ergode.core.compiler import kernel_cache, source


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache directory for this process."""
    monkeypatch.setenv("ERGODE_CACHE_DIR", str(tmp_path / "cache"))
    kernel_cache.folders.cache_clear()
    yield tmp_path / "cache"
    kernel_cache.folders.cache_clear()


SCRIPT = """
{first}
import json, sys
import numpy as np
from ergode.core import kernels
from ergode.core.compiler import kernel_cache

def body(index, x, out):
    out[index] = x[index] + {number}

x, out = np.arange(4.0), np.zeros(4)
compiled = kernels.for_each(body).compiled("cpu")
compiled(0, 4, x, out)
stats = compiled.stats
print(json.dumps([
    out.tolist(), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()),
    str(kernel_cache.folders().own),
]))
"""


def process(tmp_path, number, first, **environment):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(number=number, first=first))
    bundle = str(Path(kernels.__file__).resolve().parents[2])
    path = os.pathsep.join([bundle, os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, script], env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run


def in_a_process(tmp_path, number=1.0, first="", **environment):
    run = process(tmp_path, number, first, **environment)
    out, hits, misses, folder = json.loads(run.stdout)
    assert out == [number + k for k in range(4)]
    return hits, misses, Path(folder)


@pytest.mark.parametrize("index", [b"", b"\x80", b"(S'a version'\n.cnowhere\nNothing\n."])
def test_an_index_that_cannot_be_read_is_compiled_anew(cache, tmp_path, index):
    """Such as one that names a type which has moved to another module since."""
    _, misses, folder = in_a_process(tmp_path)
    assert misses == 1
    (file,) = folder.glob("__pycache__/*.nbi")
    file.write_bytes(index)
    assert in_a_process(tmp_path)[:2] == (0, 1)
    assert in_a_process(tmp_path)[:2] == (1, 0)


def test_a_kernel_that_names_a_module_of_another_process_is_compiled_anew(cache, tmp_path):
    """Inner functions are shared: the file may name a kernel that only its process had loaded."""
    _, misses, folder = in_a_process(tmp_path)
    assert misses == 1
    (file,) = folder.glob("__pycache__/*.nbc")
    file.write_bytes(b"cergode_cpu_gone\nenvironment\n.")
    assert in_a_process(tmp_path)[:2] == (0, 1)
    assert in_a_process(tmp_path)[:2] == (1, 0)


def test_a_second_process_does_not_compile(tmp_path):
    folder = tmp_path / "deep" / "cache"
    here = {"ERGODE_CACHE_DIR": str(folder)}
    assert in_a_process(tmp_path, **here) == (0, 1, folder)
    assert in_a_process(tmp_path, **here) == (1, 0, folder)
    # Other source is another kernel, and does not drive out the first.
    assert in_a_process(tmp_path, 2.0, **here) == (0, 1, folder)
    assert in_a_process(tmp_path, **here) == (1, 0, folder)
    assert len(list(folder.glob("ergode_cpu_*.py"))) == 2
    assert not list(folder.glob("*.tmp"))


def test_without_a_place_to_write_it_still_runs(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    hits, misses, folder = in_a_process(tmp_path, ERGODE_CACHE_DIR=str(in_the_way / "cache"))
    assert (hits, misses) == (0, 1)
    assert tmp_path not in folder.parents
    assert not folder.exists()  # it lived as long as the process


def test_the_cache_directory_is_the_one_asked_for(cache, monkeypatch):
    assert kernel_cache.folders().own == cache
    assert cache.is_dir()
    assert not list(cache.iterdir())
    monkeypatch.setenv("ERGODE_CACHE_DIR", "relative")
    monkeypatch.chdir(cache)
    kernel_cache.folders.cache_clear()
    assert kernel_cache.folders().own == cache / "relative"


@pytest.mark.parametrize("wanted", [None, ""])
def test_unless_asked_it_is_the_users(cache, monkeypatch, wanted):
    import platformdirs

    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(cache / "user" / name))
    if wanted is None:
        monkeypatch.delenv("ERGODE_CACHE_DIR")
    else:
        monkeypatch.setenv("ERGODE_CACHE_DIR", wanted)
    assert kernel_cache.folders().own == cache / "user" / "ergode"


def test_a_read_only_cache_is_replaced_by_a_temporary_one(cache, monkeypatch):
    def refuse(*_, **options):
        raise PermissionError(f"{options['dir']} is read-only")

    monkeypatch.setattr(kernel_cache.tempfile, "TemporaryFile", refuse)
    folder = kernel_cache.folders().own
    assert folder.is_dir()
    assert cache not in (folder, *folder.parents)
    folder.rmdir()


def test_a_full_disk_is_no_cache(cache, tmp_path, monkeypatch):
    usage = shutil.disk_usage(cache.parent)._replace(free=1000)
    monkeypatch.setattr(kernel_cache.shutil, "disk_usage", lambda folder: usage)
    folder = kernel_cache.folders().own
    assert cache not in (folder, *folder.parents)
    folder.rmdir()


def test_a_folder_that_others_can_write_to_is_refused(cache):
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(ergode.PlanError, match=r"other users can write .*chmod go-w"):
        kernel_cache.folders()
    cache.chmod(0o755)
    assert kernel_cache.folders().own == cache


def test_a_new_folder_is_the_users_alone(cache):
    kernel_cache.folders()
    assert cache.stat().st_mode & 0o077 == 0


def test_a_shared_folder_that_is_read_only_is_read_from(tmp_path):
    folder = tmp_path / "shared"
    here = {"ERGODE_CACHE_DIR": str(folder)}
    assert in_a_process(tmp_path, **here) == (0, 1, folder)
    before = sorted(folder.rglob("*"))
    # A superuser can write to a folder without permission to, so the door is shut in Python.
    shut = """
import tempfile
make = tempfile.TemporaryFile
def refuse(*_, dir=None, **options):
    if str(dir).endswith("shared"):
        raise PermissionError("read-only")
    return make(dir=dir, **options)
tempfile.TemporaryFile = refuse
"""
    hits, misses, own = in_a_process(tmp_path, first=shut, **here)
    assert (hits, misses) == (1, 0)
    assert own != folder
    assert sorted(folder.rglob("*")) == before
    hits, misses, own = in_a_process(tmp_path, 2.0, first=shut, **here)
    assert (hits, misses) == (0, 1)
    assert sorted(folder.rglob("*")) == before


def a_kernel(folder, name, size, used):
    (folder / "__pycache__").mkdir(exist_ok=True)
    file = folder / f"ergode_cpu_{name}.py"
    file.write_bytes(b"#" * size)
    (folder / "__pycache__" / f"ergode_cpu_{name}.run-1.py311.nbi").write_bytes(b"#" * size)
    os.utime(file, (used, 1.0))


def test_what_was_used_longest_ago_makes_room(cache, monkeypatch):
    folder = kernel_cache.folders().own
    now = time.time()
    for k in range(4):
        a_kernel(folder, k, 100_000, now - 100 * k)
    monkeypatch.setenv("ERGODE_CACHE_LIMIT", "0.5")
    (folder / "notes.txt").write_text("not a kernel")
    new = kernel_cache.file_of("ergode_cpu_new", "x = 1\n")
    left = {one.name for one in kernel_cache.contents()}
    assert left == {"ergode_cpu_0", "ergode_cpu_1", new.stem}
    assert (folder / "notes.txt").exists()
    count, size = kernel_cache.clear()
    assert (count, size) == (3, 400_000 + len("x = 1\n"))
    assert not kernel_cache.contents()
    assert (folder / "notes.txt").exists()


def test_using_a_kernel_marks_it_as_used(cache):
    path = kernel_cache.file_of("ergode_cpu_x", "x = 1\n")
    written = path.stat().st_mtime
    os.utime(path, (1.0, 2.0))
    assert kernel_cache.file_of("ergode_cpu_x", "x = 1\n") == path
    assert path.stat().st_mtime == written
    assert path.stat().st_atime > time.time() - 100


def test_a_copied_folder_needs_no_compiling(tmp_path):
    """Container images and `cp -r` change the times of files."""
    _, _, folder = in_a_process(tmp_path, ERGODE_CACHE_DIR=str(tmp_path / "one"))
    shutil.copytree(folder, tmp_path / "other", copy_function=shutil.copyfile)
    assert in_a_process(tmp_path, ERGODE_CACHE_DIR=str(tmp_path / "other"))[:2] == (1, 0)


def test_a_shared_folder_that_cannot_be_read_is_no_cache(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache.shutil, "copyfile", lambda *_: os.stat(tmp_path / "gone"))
    cache.mkdir()
    (cache / "ergode_cpu_x.py").write_text("x = 1\n")
    own = cache.parent / "own"
    own.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(kernel_cache, "folders", lambda: kernel_cache.Folders(own, cache))
        assert kernel_cache.file_of("ergode_cpu_x", "x = 1\n").read_text() == "x = 1\n"


RACE = """
import sys, time
import numpy as np
from ergode.core import kernels

def body(index, x, out):
    out[index] = x[index] + 1

compiled = kernels.for_each(body).compiled("cpu")
time.sleep(max(0.0, float(sys.argv[2]) - time.time()))
kind = np.dtype(sys.argv[1])
x, out = np.arange(4).astype(kind), np.zeros(4, kind)
compiled(0, 4, x, out)
assert out.tolist() == [1, 2, 3, 4]
print(sum(compiled.stats.cache_hits.values()))
"""


def test_processes_that_compile_forms_of_a_kernel_at_once_keep_them_all(tmp_path, cache):
    script = tmp_path / "race.py"
    script.write_text(RACE)
    kinds = ("int32", "int64", "float32", "float64")

    def started(begin):
        return [
            subprocess.Popen([sys.executable, script, kind, str(begin)], stdout=subprocess.PIPE)
            for kind in kinds
        ]

    assert [int(one.communicate()[0]) for one in started(time.time() + 5)] == [0] * len(kinds)
    assert [int(one.communicate()[0]) for one in started(0)] == [1] * len(kinds)


def test_a_kernel_on_disk_runs_without_what_compiles(tmp_path):
    """Numba imports much, SciPy's linear algebra too, before it compiles."""
    in_a_process(tmp_path, ERGODE_CACHE_DIR=str(tmp_path / "cache"))
    tell = """
import atexit, sys
atexit.register(lambda: print("numba.np.arraymath" in sys.modules, file=sys.stderr))
"""
    for number, imported in ((1.0, "False"), (2.0, "True")):
        done = process(tmp_path, number, tell, ERGODE_CACHE_DIR=str(tmp_path / "cache"))
        assert done.stderr.strip() == imported


@pytest.mark.parametrize("said", ["much", "-1", "nan"])
def test_a_limit_is_a_number(cache, monkeypatch, said):
    monkeypatch.setenv("ERGODE_CACHE_LIMIT", said)
    with pytest.raises(ergode.PlanError, match="number of megabytes"):
        kernel_cache.limit()


@pytest.mark.parametrize(
    ("target", "files"),
    [
        ("cpu", ["cpu", "atomics", "intrinsics", "inner_functions", "gc_pause"]),
        ("cuda", ["cuda", "intrinsics", "gc_pause", "errors"]),
    ],
)
def test_a_kernel_is_known_by_the_code_that_compiles_it(monkeypatch, target, files):
    made = source.Source("text", ("run",), target)
    usual = made.digest
    read = Path.read_bytes
    for name in files:
        monkeypatch.setattr(
            Path, "read_bytes",
            lambda path, name=name: read(path) + (b"#" if path.stem == name else b""),
        )  # fmt: skip
        source._compiling_code.cache_clear()
        assert source.Source("text", ("run",), target).digest != usual, name
        monkeypatch.setattr(Path, "read_bytes", read)
    source._compiling_code.cache_clear()
    assert source.Source("text", ("run",), target).digest == usual
