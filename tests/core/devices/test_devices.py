"""What a user's word for a device resolves to, and the arrays that live there."""

import os
import subprocess
import sys

import numpy as np
import pytest

from ergode.core import devices, kernels
from ergode.core.devices import choice, foreign, machine
from ergode.core.errors import PlanError


def no_cuda(monkeypatch):
    monkeypatch.setattr(choice, "_cuda_problem", lambda: "there is none today")


def test_without_a_driver_numba_cuda_is_not_imported():
    if machine.has_cuda_driver():
        pytest.skip("there is a driver")
    code = "import sys, ergode; ergode.Device(); print([n for n in sys.modules if 'cuda' in n])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(eval(done.stdout)) <= {"_numba_cuda_redirector"}


def test_the_cpu_has_as_many_threads_as_asked(monkeypatch):
    monkeypatch.delenv("ERGODE_THREADS", raising=False)
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    assert devices.resolve("cpu").core_count == usable
    assert devices.resolve("cpu:3").core_count == 3
    monkeypatch.setenv("ERGODE_THREADS", "5")
    assert devices.resolve("cpu").core_count == 5
    assert devices.resolve("cpu:3").core_count == 3
    monkeypatch.setenv("ERGODE_THREADS", "")
    assert devices.resolve("cpu").core_count == usable


def test_threads_that_are_no_number_are_an_error(monkeypatch):
    for wanted, message in [
        ("many", "ERGODE_THREADS is 'many'; expected a number of threads"),
        ("-1", "ERGODE_THREADS is '-1'"),
        ("0", "at least one thread"),
    ]:
        monkeypatch.setenv("ERGODE_THREADS", wanted)
        with pytest.raises(PlanError, match=message):
            devices.resolve("cpu")


@pytest.mark.parametrize("word", ["gpu", "CPU", "", "auto:1", "cpu:x", "cpu:-1", "cuda:²", None, 0])
def test_an_unknown_word_is_an_error(word):
    with pytest.raises(PlanError, match=r"is unknown; expected 'auto', 'cpu'"):
        devices.resolve(word)


def test_no_threads_is_an_error():
    with pytest.raises(PlanError, match="'cpu:0' needs at least one thread"):
        devices.resolve("cpu:0")


def test_without_cuda_auto_is_the_cpu_and_says_why(monkeypatch):
    no_cuda(monkeypatch)
    device = devices.resolve("auto")
    assert (device.name, device.is_cuda, device.reason) == ("cpu", False, "there is none today")
    assert [device.name for device in devices.present()] == ["cpu"]
    for word in ("cuda", "cuda:1"):
        with pytest.raises(PlanError, match=f"'{word}' was asked for, but there is none today"):
            devices.resolve(word)


def test_a_device_resolves_to_itself():
    device = devices.resolve("cpu:2")
    assert devices.resolve(device) is device
    assert 0 < device.available_bytes() < device.memory_bytes
    assert device.model


def test_arrays_on_the_cpu_are_read_only_views():
    device = devices.resolve("cpu")
    array = np.arange(12.0).reshape(3, 4)
    put = device.put(array)
    assert np.shares_memory(put, array)
    assert not put.flags.writeable
    assert array.flags.writeable
    turned = device.put(array.T)
    assert turned.flags.c_contiguous
    assert np.array_equal(turned, array.T)
    assert device.get(put) is put
    assert device.empty((2, 3), np.int16).shape == (2, 3)


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [(0, 3, []), (1, 3, [(0, 1)]), (7, 3, [(0, 3), (3, 6), (6, 7)]), (6, 3, [(0, 3), (3, 6)])],
)
def test_spans_cover_a_range_once(count, size, expected):
    assert list(devices.spans(count, size)) == expected


@pytest.mark.cuda
def test_cuda_is_what_auto_picks():
    device = devices.resolve("auto")
    assert device.is_cuda
    assert device.name == "cuda:0"
    assert device.core_count > 0
    assert 0 < device.available_bytes() <= device.memory_bytes
    assert device.name in [found.name for found in devices.present()]
    with pytest.raises(PlanError, match="'cuda:99' does not exist: the number of CUDA devices is"):
        devices.resolve("cuda:99")


@pytest.mark.cuda
def test_arrays_go_to_cuda_and_back():
    device = devices.resolve("cuda")
    for array in (np.arange(12.0).reshape(3, 4).T, np.zeros((0, 3)), np.arange(3, dtype=np.uint32)):
        back = device.get(device.put(array))
        assert back.dtype == array.dtype
        assert np.array_equal(back, array)


def test_arrays_are_sorted_together_by_the_first():
    by, other = np.array([3, 1, 2]), np.array([30.0, 10.0, 20.0])
    devices.resolve("cpu").sort_together(by, other)
    assert (by == [1, 2, 3]).all()
    assert (other == [10.0, 20.0, 30.0]).all()


def note_who(rank, threads, index, out):
    out[index] = 100 * index + 10 * threads + rank


@pytest.mark.parametrize("device", ["cpu:1", "cpu:3"])
def test_kernels_that_run_apart_have_a_thread_each(device):
    out = np.zeros(5, np.int64)
    devices.resolve(device).run_apart(kernels.cpu_kernel(note_who), 5, out)
    assert out.tolist() == [10, 110, 210, 310, 410]


def test_an_array_comes_back_where_the_caller_wants_it():
    device = devices.resolve("cpu:1")
    rows = np.zeros((3, 2))
    given = np.array([1.0, 2.0])
    found = device.get(given, rows[1])
    assert found.base is rows and rows.tolist() == [[0, 0], [1, 2], [0, 0]]
    assert device.view(given) is given and device.like([], given) is given
    assert not foreign.is_on_cuda(given)


@pytest.mark.cuda
def test_an_array_of_a_device_comes_back_where_the_caller_wants_it():
    device = devices.resolve("cuda")
    rows = np.zeros((3, 2))
    there = device.put(np.array([1.0, 2.0]))
    assert foreign.is_on_cuda(there) and foreign.holding(there).name == device.name
    device.get(device.view(there), rows[1])
    assert rows.tolist() == [[0, 0], [1, 2], [0, 0]]
