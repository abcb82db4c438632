"""What is kept on a device: scratch by name, inputs from call to call, and when it goes."""

import gc
from typing import NamedTuple

import numpy as np
import pytest

import ergode
from ergode.core import devices
from ergode.core.devices import buffers


class Pretended:
    """A CUDA device as far as keeping goes."""

    is_cuda, name, memory_bytes = True, "cuda:0", 4_000_000

    def __init__(self):
        self.puts = 0

    def put(self, array):
        self.puts += 1
        return array.copy()


def fixed(size):
    """Too large to be kept by content."""
    array = np.zeros(1000 * size, np.uint8)
    array.flags.writeable = False
    return array


@pytest.fixture(autouse=True)
def empty():
    ergode.release()
    yield
    ergode.release()


def test_a_fixed_array_is_put_once():
    device, array = Pretended(), fixed(100)
    first = buffers.put_kept(device, array)
    assert buffers.put_kept(device, array) is first
    buffers.put_kept(device, fixed(100))
    assert device.puts == 2


def test_an_array_that_may_change_is_put_each_time():
    device, array = Pretended(), np.zeros(100_000, np.uint8)
    for _ in range(2):
        buffers.put_kept(device, array)
    assert device.puts == 2
    assert ergode.release() == 0


def test_the_arrays_of_a_network_are_kept():
    weights = np.array([1.0, 2.0], np.float32)
    contacts = ergode.ContactNetwork(3, [0, 1, 2, 2], [1, 2], weights, directed=True)
    weights[:] = 7.0  # the network has its own
    assert contacts.weights.tolist() == [1.0, 2.0]
    device = Pretended()
    for _ in range(2):
        for array in (contacts.offsets, contacts.targets, contacts.weights):
            buffers.put_kept(device, array)
    assert device.puts == 3


def test_a_copy_goes_with_its_array():
    array = fixed(100)
    buffers.put_kept(Pretended(), array)
    del array
    gc.collect()
    assert ergode.release() == 0


def test_those_used_last_stay_within_the_share():
    device, arrays = Pretended(), [fixed(400) for _ in range(3)]
    for number in (0, 1, 0, 2):  # the second goes
        buffers.put_kept(device, arrays[number])
    assert device.puts == 3
    buffers.put_kept(device, arrays[0])
    assert device.puts == 3
    buffers.put_kept(device, arrays[1])
    assert device.puts == 4
    assert ergode.release() == 800_000
    assert ergode.release() == 0


def test_what_is_too_large_is_not_kept():
    device, array = Pretended(), fixed(2000)
    for _ in range(2):
        buffers.put_kept(device, array)
    assert device.puts == 2


def test_the_cpu_keeps_nothing():
    buffers.put_kept(devices.resolve("cpu"), fixed(10))
    assert ergode.release() == 0


def test_scratch_is_as_large_as_asked_for_last():
    scratch = buffers.Scratch(devices.resolve("cpu"))
    one = scratch.array("a", 3, np.int64, zero=True)
    one[:] = 7
    assert scratch.array("a", (3,), np.int64) is one
    assert scratch.array("a", 3, np.int64, zero=True).tolist() == [0, 0, 0]
    assert scratch.array("a", 4, np.int64).size == 4
    assert scratch.array("b", 4, np.int64) is not scratch.array("a", 4, np.int64)


class Inner(NamedTuple):
    values: np.ndarray
    count: int


class Outer(NamedTuple):
    inner: Inner
    scale: np.float32
    times: np.ndarray


def test_a_table_is_put_with_the_tables_in_it():
    table = Outer(Inner(np.arange(3), 3), np.float32(2), np.zeros(2))
    found = buffers.put_table(devices.resolve("cpu"), table)
    assert type(found) is Outer and type(found.inner) is Inner
    assert found.inner.count == 3 and found.scale is table.scale
    assert found.inner.values.tolist() == [0, 1, 2]
    assert not found.times.flags.writeable and table.times.flags.writeable


def test_small_arrays_of_equal_content_share_a_copy():
    device = Pretended()
    first = buffers.put_kept(device, np.arange(3.0))
    assert buffers.put_kept(device, np.arange(3.0)) is first
    for other in (np.arange(4.0), np.arange(3), np.arange(3.0)[:, None], -np.arange(3.0)):
        assert buffers.put_kept(device, other) is not first
    assert ergode.release() > 0
    assert buffers.put_kept(device, np.arange(3.0)) is not first
