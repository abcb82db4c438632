"""Thread groups: kernels run as Python threads, and results are compared with those of NumPy."""

import numpy as np
import pytest
from host_threads import Machine

from ergode.core import devices, group, kernels
from ergode.core.errors import ModelError
from ergode.core.group import (
    BLOCK,
    GRID,
    KIND,
    SIZE,
    TEAM,
    Group,
    accumulate,
    any_of,
    barrier,
    bindings_of_size,
    broadcast,
    claim_place,
    first_of,
    group_of_block,
    largest_of,
    least_of_lanes,
    next_member,
    prefix_of,
    share,
    sum_of_lanes,
    total_of,
    totals_of,
)


def sums_of_block(values, scratch, found):
    mine = group_of_block(scratch)
    barrier(mine)
    i = mine.rank
    for k in range(values.shape[0]):
        found[0, k, i] = total_of(mine, values[k, i], k & 1)
        found[1, k, i] = largest_of(mine, values[k, i], (k + 1) & 1)
        barrier(mine)


@pytest.mark.parametrize("threads", [32, 96, 256])
def test_sums_and_largest_values_of_a_block(threads):
    values = np.random.default_rng(1).uniform(0.0, 1.0, (3, threads))
    values[2, threads // 2] = np.nan
    scratch, found = np.full(16, np.nan), np.zeros((2, 3, threads))
    Machine(1, threads).run(sums_of_block, {KIND: BLOCK}, values, scratch, found)
    expected = np.stack([values.sum(axis=1), values.max(axis=1)])[..., None]
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-14)


def two_sums(values, words, scratch, parts, found):
    block = group.cuda.blockIdx.x
    i = block * group.cuda.blockDim.x + group.cuda.threadIdx.x
    size = group.cuda.blockDim.x * group.cuda.gridDim.x
    mine = Group(i, size, words, scratch[block], parts)
    for k in range(2):
        found[0, i], found[1, i] = totals_of(mine, (k + 1) * values[i], values[i] * values[i])


@pytest.mark.parametrize(("kind", "blocks"), [(BLOCK, 1), (GRID, 1), (GRID, 3)])
def test_two_sums_of_a_block_or_a_grid(kind, blocks):
    values = np.random.default_rng(2).normal(size=64 * blocks)
    words, found = np.zeros(16 * (1 + blocks), np.int64), np.zeros((2, values.size))
    Machine(blocks, 64).run(
        two_sums, {KIND: kind}, values, words, np.full((blocks, 2, 2), np.nan),
        np.full((2, blocks), np.nan), found,
    )  # fmt: skip
    expected = np.array([2.0 * values.sum(), (values**2).sum()])[:, None]
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-13)


def choices(values, scratch, found):
    i = group.cuda.threadIdx.x
    mine = Group(np.int32(i & (SIZE - 1)), SIZE, (), scratch[i // SIZE], ())
    found[0, i], found[1, i] = prefix_of(mine, values[i])
    found[2, i] = first_of(mine, values[i] > 1.0, values[i] > 0.5)
    found[3, i] = first_of(mine, values[i] > 2.0, values[i] > 0.5)
    found[4, i] = first_of(mine, values[i] > 2.0, values[i] > 2.0)
    found[5, i] = broadcast(mine, values[i], SIZE // 2)
    found[6, i] = any_of(mine, values[i] > 1.0)


@pytest.mark.parametrize("size", [1, 8, 32, 64, 128])
def test_sums_and_choices_in_order_of_rank(size):
    threads = max(64, size)
    values = np.random.default_rng(3).uniform(0.0, 1.03, threads)
    scratch, found = np.full((threads // size, size // 16 + 1), np.nan), np.zeros((7, threads))
    Machine(1, threads).run(choices, bindings_of_size(size), values, scratch, found)
    for mine, of_group in zip(
        values.reshape(-1, size), found.reshape(7, -1, size).swapaxes(0, 1), strict=True
    ):
        np.testing.assert_allclose(of_group[0], mine.cumsum(), rtol=1e-14)
        np.testing.assert_allclose(of_group[1], mine.sum(), rtol=1e-14)
        last = np.flatnonzero(mine > 0.5)[-1] if (mine > 0.5).any() else -1
        first = np.flatnonzero(mine > 1.0)[0] if (mine > 1.0).any() else last
        assert (of_group[2] == first).all() and (of_group[3] == last).all()
        assert (of_group[4] == -1).all() and (of_group[5] == mine[size // 2]).all()
        assert (of_group[6] == (mine > 1.0).any()).all()


def lanes(values, wanted, counts, sums, found, places):
    i = group.cuda.threadIdx.x
    found[0, i], found[1, i] = sum_of_lanes(values[i], 4), sum_of_lanes(values[i], 32)
    found[2, i] = least_of_lanes(values[i])
    places[i] = claim_place(wanted[i], counts, 0, i & 31)
    accumulate(Group(i, 64, (), (), ()), sums, 0, values[i])


def test_lanes_of_a_warp():
    generator = np.random.default_rng(4)
    values, wanted = generator.integers(-9, 9, 64), generator.random(64) < 0.4
    counts, sums, found = np.array([7]), np.array([1]), np.zeros((3, 64), np.int64)
    places = np.zeros(64, np.int64)
    Machine(1, 64).run(lanes, {}, values, wanted, counts, sums, found, places)
    np.testing.assert_array_equal(found[0], values.reshape(-1, 4).sum(axis=1).repeat(4))
    np.testing.assert_array_equal(found[1], values.reshape(2, 32).sum(axis=1).repeat(32))
    np.testing.assert_array_equal(found[2], values.reshape(2, 32).min(axis=1).repeat(32))
    np.testing.assert_array_equal(np.sort(places[wanted]), 7 + np.arange(wanted.sum()))
    assert counts[0] == 7 + wanted.sum() and sums[0] == 1 + values.sum()


def work_off(queue, count, scratch, taken):
    i = group.cuda.threadIdx.x
    mine = Group(np.int32(i & (SIZE - 1)), SIZE, (), scratch[i // SIZE], ())
    member = next_member(mine, queue)
    while member < count:
        group.cuda.atomic.add(taken, member, 1)
        member = next_member(mine, queue)


@pytest.mark.parametrize("size", [32, 64])
def test_every_member_is_taken_once_by_all_threads_of_one_group(size):
    taken = np.zeros(10, np.int64)
    Machine(1, 64).run(
        work_off, bindings_of_size(size), np.zeros(1, np.int64), 10, np.zeros((64 // size, 8)),
        taken,
    )  # fmt: skip
    assert (taken == size).all()


def mark(thread_rank, thread_count, words, seen, order):
    mine = Group(thread_rank, thread_count, words, (), ())
    for i in share(mine, 3, seen.size):
        seen[i] += 1
    barrier(mine)
    total = 0
    for i in range(seen.size):
        total += seen[i]
    accumulate(mine, order, 0, total)
    barrier(mine)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_team_shares_a_range_and_sees_what_others_wrote(threads):
    seen, total = np.zeros(1000, np.int64), np.zeros(1, np.int64)
    kernel = kernels.cpu_kernel(mark, bindings={TEAM: True})
    devices.resolve("cpu").run_together(kernel, threads, np.zeros(16, np.int64), seen, total)
    assert (seen[3:] == 1).all() and (seen[:3] == 0).all()
    assert total[0] == 997 * threads


def numbers_of(start, stop, found):
    for _ in range(start, stop):
        for i in share(group.ONE, 2, found.size):
            found[i] += 1


def test_one_thread_has_the_whole_range():
    found = np.zeros(9, np.int64)
    devices.resolve("cpu").run(kernels.cpu_kernel(numbers_of, bindings={}), 1, found)
    assert found.tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 1]


def test_a_kernel_for_cuda_says_which_threads_are_a_group():
    with pytest.raises(ModelError, match="'_barrier_cuda' uses 'KIND'"):
        kernels.cuda_kernel(mark, bindings={}).source("cuda")
