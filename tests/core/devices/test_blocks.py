"""Freed memory of GPUs that is kept for later arrays."""

import gc

import numpy as np
import pytest

import ergode
from ergode.core import devices
from ergode.core.devices import blocks
from ergode.core.devices.blocks import Blocks, block_size


def test_a_block_is_an_eighth_larger_at_most():
    for size in [1, 511, 512, 513, 4095, 4096, 4097, 10**6, 2**30 - 1, 2**30, 2**30 + 1, 10**11]:
        whole = block_size(size)
        assert size <= whole <= max(1.126 * size, size + 512)
        assert whole % 512 == 0 and block_size(whole) == whole


class Memory:
    """A device with room for `room` bytes."""

    def __init__(self, room):
        self.room, self.allocations = room, 0

    def allocate(self, size):
        if size > self.room:
            raise MemoryError
        self.room -= size
        self.allocations += 1
        return Block(self, size)


class Block:
    def __init__(self, memory, size):
        self.memory, self.size = memory, size

    def __del__(self):
        self.memory.room += self.size


def test_a_block_is_taken_again():
    memory, kept = Memory(10_000), Blocks(10_000)
    one = kept.take(1024, memory.allocate)
    kept.give_back(1024, one)
    assert kept.size == 1024
    assert kept.take(1024, memory.allocate) is one
    assert kept.take(1024, memory.allocate) is not one
    assert memory.allocations == 2


def test_no_more_is_kept_than_allowed():
    memory, kept = Memory(10_000), Blocks(2048)
    taken = [kept.take(1024, memory.allocate) for _ in range(3)]
    while taken:
        kept.give_back(1024, taken.pop())
    gc.collect()
    assert kept.size == 2048 and memory.room == 10_000 - 2048


def test_kept_blocks_make_room_for_a_larger_one():
    memory, kept = Memory(4096), Blocks(4096)
    kept.give_back(1024, kept.take(1024, memory.allocate))
    kept.give_back(3072, kept.take(3072, memory.allocate))
    whole = kept.take(4096, memory.allocate)
    assert whole.size == 4096 and kept.size == 0
    with pytest.raises(MemoryError):
        kept.take(4096, memory.allocate)


@pytest.mark.cuda
def test_arrays_of_a_device_use_freed_memory():
    device = devices.resolve("cuda")
    gc.collect()
    ergode.release()
    begin = device.available_bytes()
    array = device.empty((1000, 10), np.float64)
    assert array.shape == (1000, 10) and array.strides == (80, 8)
    place = array.device_ctypes_pointer.value
    view = array[3:5]
    del array
    gc.collect()
    # The view keeps it.
    other = device.put(np.ones((1000, 10)))
    assert other.device_ctypes_pointer.value != place
    view.copy_to_device(np.zeros((2, 10)))
    assert (device.get(other) == 1).all()
    del view
    gc.collect()
    again = device.empty(10_000, np.float64)
    assert again.device_ctypes_pointer.value == place
    del again, other
    gc.collect()
    assert blocks.clear() == 2 * block_size(80_000)
    assert blocks.clear() == 0
    assert device.available_bytes() >= 0.99 * begin


@pytest.mark.cuda
def test_memory_of_arrays_that_users_got_is_not_used_again():
    device = devices.resolve("cuda")
    ergode.release()
    array = device.put(np.ones(1000))
    theirs = device.like(array, array)
    del array, theirs
    gc.collect()
    assert blocks.clear() == 0
