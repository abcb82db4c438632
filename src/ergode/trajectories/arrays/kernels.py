"""Kernels for fields of arrays: which threads are a group, and where its workspace is."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import cuda, real, window
from ergode.core.group import ALONE, BLOCK, GRID, Group
from ergode.trajectories.arrays.arguments import Workspace
from ergode.trajectories.arrays.banded import band_of
from ergode.trajectories.arrays.conjugate_residuals import kept_of
from ergode.trajectories.arrays.equations import LATE, blocks_in
from ergode.trajectories.arrays.group import (
    FUNCTIONS,
    IMPLICIT,
    IN_SHARED,
    MATRICES,
    MATRIX_FREE,
    OWN,
    ROWS,
    follow,
)
from ergode.trajectories.arrays.past import READ, Past
from ergode.trajectories.steppers.inside_step import INTERVALS
from ergode.trajectories.steppers.observing import SEEN
from ergode.trajectories.steppers.stepper import DENSE

_WARPS = 32  # most warps of a block


def further_rows(n, run):
    """Rows of slopes that depend on the number of unknowns: a matrix, or directions."""
    if MATRIX_FREE:
        return 2 * kept_of(n)
    elif IMPLICIT:
        return MATRICES * band_of(n, run.stage_begins).rows
    else:  # of options only one branch is compiled
        return 0


def alone_cpu(start, stop, run, out):
    """Integrate trajectories `start` to `stop` on this thread, one after another."""
    n = run.initial.shape[0]
    rows = ROWS + further_rows(n, run)
    width, slots = n + run.delays.values, run.delays.slots
    past = Past(
        np.empty((slots, len(DENSE[0]) + 1, run.delays.columns), real), np.empty(slots, real),
        np.empty(slots, real), np.empty(READ + LATE, np.int64),
    )  # fmt: skip
    w = Workspace(
        np.empty(width, real), np.empty((3, width), real), np.empty((rows, n), real),
        (), (), np.empty((FUNCTIONS, 3, INTERVALS + 1), real),
        np.empty(SEEN + 1, real), past, np.empty(OWN, real), (),
    )  # fmt: skip
    group = Group(0, 1, (), (), np.empty((2, blocks_in(n)), real))
    for me in range(start, stop):
        follow(me, group, run, out, w)


def together_cpu(thread_rank, thread_count, run, out, w):
    """Integrate all trajectories, one after another, each on all threads."""
    group = Group(thread_rank, thread_count, w.words, (), w.parts)
    for me in range(run.initial.shape[1]):
        follow(me, group, run, out, w)


def alone_cuda(run, out, w):
    """Integrate every trajectory, one per thread; the last axis of `w` is the trajectory."""
    me = cuda.grid(1)
    if me < out.status.size:
        mine = Workspace(
            w.y[:, me], w.stage[:, :, me], w.k[:, :, me], (), (), w.g[:, :, :, me], w.s[:, me],
            Past(w.past.ring[:, :, :, me], w.past.begun[:, me], w.past.sizes[:, me],
                 w.past.counts[:, me]),
            cuda.local.array(OWN, real), w.kept,
        )  # fmt: skip
        follow(me, Group(np.int64(0), np.int64(1), (), (), ()), run, out, mine)


def block_cuda(run, out, w):
    """Integrate trajectories, one per block at a time; the first axis of `w` is the block."""
    n = run.initial.shape[0]
    block = np.int64(cuda.blockIdx.x)
    past = Past(
        w.past.ring[block], w.past.begun[block], w.past.sizes[block], w.past.counts[block]
    )  # fmt: skip
    own = cuda.local.array(OWN, real)
    if IN_SHARED == 2:
        rows = ROWS + further_rows(n, run)
        shared = cuda.shared.array(0, real)
        mine = Workspace(
            window(shared, 3 * n, (n,)), window(shared, 0, (3, n)),
            window(shared, 4 * n, (rows, n)), (), (), w.g[block], w.s[block],
            past, own, w.kept,
        )  # fmt: skip
    elif IN_SHARED == 1:
        shared = cuda.shared.array(0, real)
        mine = Workspace(
            w.y[block], window(shared, 0, (3, n)), w.k[block], (), (),
            w.g[block], w.s[block], past, own, w.kept,
        )  # fmt: skip
    else:
        mine = Workspace(
            w.y[block], w.stage[block], w.k[block], (), (), w.g[block],
            w.s[block], past, own, w.kept,
        )  # fmt: skip
    scratch = cuda.shared.array((2, _WARPS), real)
    group = Group(np.int64(cuda.threadIdx.x), np.int64(cuda.blockDim.x), (), scratch, ())
    for me in range(block, out.status.size, cuda.gridDim.x):
        follow(me, group, run, out, mine)


def grid_cuda(run, out, w):
    """Integrate all trajectories, one after another, each on the whole grid."""
    cuda.cg.this_grid()  # a cooperative launch: all blocks are resident at once
    scratch = cuda.shared.array((2, _WARPS), real)
    group = Group(np.int64(cuda.grid(1)), np.int64(cuda.gridsize(1)), w.words, scratch, w.parts)
    for me in range(out.status.size):
        follow(me, group, run, out, w)


GROUPS = {"thread": ALONE, "block": BLOCK, "grid": GRID}
"""Which threads of a CUDA kernel are a group."""
