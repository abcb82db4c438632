"""Arithmetic on vectors of eight numbers is that on each of them."""

import math

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import as_lanes, flat_numbers, lane_of


def combined(x, y, k):
    total = 0.0
    for i in range(x.size):
        one = x[i] * y[i] - 2
        total += one * one
    if k > 0:
        total = math.sqrt(total / 3)
    low = min(total, y[0])
    total -= max(low, 1.5) / -abs(y[1] - 1.0)
    x[0] = 1
    x[0] *= total
    x[1] /= total


def lanes_and_numbers(start, stop, given, found, k):
    x = as_lanes(np.zeros(32), (3,))
    y = as_lanes(np.zeros(40), (2, 2))
    flat = flat_numbers(x)
    for i in range(24):
        flat[i] = given[i]
    for lane in range(8):
        own = lane_of(y, lane)
        for i in range(2):
            own[1, i] = given[24 + 8 * i + lane]
    combined(x[:2], y[1], k)
    for lane in range(8):
        own = lane_of(x, lane)
        for i in range(3):
            found[0, i, lane] = own[i]
        one = np.empty(2)
        for i in range(2):
            one[i] = given[8 * i + lane]
        combined(lane_of(one, lane), given[24 + lane :: 8], k)
        for i in range(2):
            found[1, i, lane] = flat_numbers(one)[i]


def test_each_lane_is_arithmetic_on_numbers():
    given, found = np.random.default_rng(3).uniform(0.1, 5.0, 40), np.zeros((2, 3, 8))
    kernels.cpu_kernel(lanes_and_numbers).compiled("cpu")(0, 1, given, found, 1)
    np.testing.assert_allclose(found[0, :2], found[1, :2], rtol=1e-14)
    np.testing.assert_array_equal(found[0, 2], given[16:24])
    x, y = given[:16].reshape(2, 8), given[24:].reshape(2, 8)
    total = np.sqrt(((x * y - 2) ** 2).sum(axis=0) / 3)
    total += np.maximum(np.minimum(total, y[0]), 1.5) / np.abs(y[1] - 1)
    np.testing.assert_allclose(found[0, :2], [total, x[1] / total], rtol=1e-13)
