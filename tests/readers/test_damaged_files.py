"""Damaged files: nothing but an error in one line comes of them, in little time and memory."""

import gzip
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ergode

for package in ("libsbml", "antimony", "ruamel.yaml", "pyarrow", "pynucastro"):
    pytest.importorskip(package)
SCRIPT = Path(__file__).with_name("damaged.py")
NAMES = re.findall(r'(?m)^    "([a-z-]+)": \($|^    "([a-z-]+)": \("x', SCRIPT.read_text("utf-8"))
READERS = [first or second for first, second in NAMES]


def read_damaged(name, folder, first, count):
    command = [sys.executable, str(SCRIPT), name, str(folder), str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    wrong = re.findall(r"(?m)^\d+: .*", done.stdout)
    last = done.stdout.rpartition("\n")[2][-200:]
    assert not wrong, "\n".join(wrong)
    assert done.returncode == 0, (
        f"{name}: ended by {done.returncode} at {last}\n{done.stderr[-500:]}"
    )


@pytest.mark.skipif(os.name == "nt", reason="there are no limits on memory and time there")
def test_damaged_files_of_all_readers(tmp_path):
    assert len(READERS) > 20
    read_damaged("all", tmp_path, 0, 15)


@pytest.mark.skipif(os.name == "nt", reason="there are no limits on memory and time there")
@pytest.mark.slow
def test_many_damaged_files(tmp_path):
    read_damaged("all", tmp_path, 1000, 60)


@pytest.mark.exhaustive
def test_damaged_files_until_the_time_is_up(tmp_path):
    first = int.from_bytes(os.urandom(4), "big")
    print(f"first seed {first}")
    until = time.monotonic() + float(os.environ.get("ERGODE_REFEREE_SECONDS", "600"))
    while time.monotonic() < until:
        folder = tmp_path / str(first)  # a file of an earlier round would be in the way
        folder.mkdir()
        read_damaged("all", folder, first, 100)
        first += 100


def test_what_unpacks_to_far_more_than_it_is_is_refused(tmp_path, refusal):
    path = tmp_path / "edges.csv.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(40):
            file.write(b"1,2\n" * (1 << 18))
    assert path.stat().st_size < 200_000
    assert "it unpacks to more than" in refusal(ergode.read_contacts, path)
    assert "it unpacks to more than" in refusal(ergode.read_meetings, path)
    edges = np.random.default_rng(1).integers(1000, size=(100_000, 2))
    with gzip.open(path, "wt") as file:
        np.savetxt(file, edges, fmt="%d")
    assert ergode.read_contacts(path).node_count == 1000


def test_a_matrix_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path, refusal):
    import scipy.sparse

    path = tmp_path / "edges.npz"
    none = np.zeros(4_000_000, np.int64)
    matrix = scipy.sparse.csr_array((none.astype(float), none, np.arange(2) * none.size), (1, 1))
    scipy.sparse.save_npz(path, matrix)
    assert path.stat().st_size < 400_000
    assert "it unpacks to" in refusal(ergode.read_contacts, path)


def test_functions_that_call_each_other_are_not_written_out_without_end(tmp_path, refusal):
    lines = ["function f0(x)", "x + x", "end"]
    for k in range(1, 60):
        lines += [f"function f{k}(x)", f"f{k - 1}(x) + f{k - 1}(x)", "end"]
    lines += ["model m", "A = 1; R: A -> ; f59(A)", "end"]
    path = tmp_path / "deep.ant"
    path.write_text("\n".join(lines))
    assert "parts" in refusal(ergode.read_antimony, path)
    nested = "asinh(" * 60 + "1" + ")" * 60
    path = tmp_path / "deep.net"
    path.write_text(
        f"begin parameters\n1 k {nested}\nend parameters\n"
        "begin species\n1 A() 1\nend species\nbegin reactions\n1 1 0 k\nend reactions\n"
    )
    assert "line 2" in refusal(ergode.read_bionetgen, path)


def test_files_that_include_each_other_are_not_read_without_end(tmp_path, refusal):
    for k in range(30):
        (tmp_path / f"{k}.eqn").write_text(f"#INCLUDE {k + 1}.eqn\n" * 2)
    (tmp_path / "30.eqn").write_text("#EQUATIONS\nA = B : 1;\n")
    assert "files are included" in refusal(ergode.read_kpp, tmp_path / "0.eqn")


def test_antimony_that_is_not_ascii_is_refused_or_read(tmp_path, refusal):
    path = tmp_path / "greek.ant"
    path.write_text("β -> ; 1\n", encoding="utf-8")
    assert str(path) in refusal(ergode.read_antimony, path)
    path.write_bytes(b"A -> ; 1 \xff\n")
    assert str(path) in refusal(ergode.read_antimony, path)
    path.write_text("// β is a rate\nA = 1; A -> ; 1\n", encoding="utf-8")
    assert [one.name for one in ergode.read_antimony(path).species] == ["A"]
