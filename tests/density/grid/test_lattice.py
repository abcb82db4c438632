"""The lattice: coordinates, keys and points go to one another and back."""

import numpy as np
import pytest

from ergode.core import devices, kernels
from ergode.core.errors import PlanError
from ergode.density.grid import lattice
from ergode.density.grid.lattice import BITS, DIMENSIONS_MOST, Lattice


def lattice_of(dimension, rotation=None):
    rng = np.random.default_rng(dimension)
    axes = np.eye(dimension)
    if rotation is not None:
        axes = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    return Lattice(rng.normal(size=dimension), rng.uniform(0.1, 2.0, dimension), axes)


@pytest.mark.parametrize("dimension", range(1, DIMENSIONS_MOST + 1))
def test_keys_keep_coordinates(dimension):
    one = lattice_of(dimension)
    rng = np.random.default_rng(1)
    far = one.reach
    z = rng.integers(-far, far + 1, (200, dimension))
    z[0], z[1] = -far, far
    keys = one.pack(z)
    np.testing.assert_array_equal(one.unpack(keys), z)
    assert len(np.unique(keys)) == len(np.unique(z, axis=0))
    assert (keys >= 0).all()  # the sign is free for marks


@pytest.mark.parametrize("dimension", [1, 3, DIMENSIONS_MOST])
def test_a_neighbour_is_an_addition_away(dimension):
    one = lattice_of(dimension)
    for z in (np.zeros((1, dimension), int), np.full((1, dimension), one.reach - 1)):
        for d in range(dimension):
            step = np.zeros(dimension, int)
            step[d] = 1
            moved = one.pack(z) + (1 << (one.bits * d))
            np.testing.assert_array_equal(one.unpack(moved), z + step)


def test_beyond_the_reach_is_refused():
    one = lattice_of(3)
    with pytest.raises(PlanError, match=r"room for .* in 3 dimensions; use larger widths"):
        one.pack(np.full((1, 3), one.reach + 1))
    assert one.pack(np.zeros((0, 3), int)).size == 0


@pytest.mark.parametrize("rotation", [None, "some"])
def test_a_point_lies_in_its_cell(rotation):
    one = lattice_of(4, rotation)
    z = np.random.default_rng(2).integers(-50, 50, (100, 4))
    np.testing.assert_array_equal(one.cell_of(one.points(z)), z)
    # Anything within half a width of the centre, along the axes, is in the same cell.
    off = np.random.default_rng(3).uniform(-0.49, 0.49, (100, 4)) * one.width
    np.testing.assert_array_equal(one.cell_of(one.points(z) + off @ one.axes.T), z)


def read_back(index, keys, found, inside):
    for d in range(found.shape[1]):
        found[index, d] = lattice.coordinate(keys[index], d)
        inside[index, d] = lattice.is_inside(keys[index], d)


def test_kernels_read_the_same_coordinates():
    one = lattice_of(3)
    z = np.array([[0, 0, 0], [one.reach, -one.reach, 5], [-1, 2, -3]])
    found, inside = np.zeros((3, 3), np.int64), np.zeros((3, 3), bool)
    kernel = kernels.for_each(read_back, bindings={BITS: one.bits})
    devices.resolve("cpu:1").run(kernel, 3, one.pack(z), found, inside)
    np.testing.assert_array_equal(found, z)
    assert inside.all()
    outer = one.pack(z[1:2]) + (1 << 0) * 3  # three cells beyond the reach
    devices.resolve("cpu:1").run(kernel, 1, outer, found, inside)
    assert inside[0].tolist() == [False, True, True]
