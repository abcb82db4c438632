"""The text of a CUDA kernel as a module of Python."""

import math
import re

import numpy as np


def module_of(text, machine, **words):
    """Execute the text; it calls `machine` `cuda`, and `words` come before those given here."""
    module = {
        "cuda": machine,
        "kernel": _plain,
        "device_function": _plain,
        "noinline_cpu_function": _plain,
        "noinline_function": _plain,
        "real": np.float64,
        "fma": lambda a, b, c: a * b + c,
        "opaque_int": lambda x: x,
        "now": lambda x: x,
        "by_reference": lambda record: record,
        "flat_numbers": lambda array: array,
        "lane_of": lambda array, lane: array,
        "where": lambda condition, one, other: one if condition != 0.0 else other,
        "window": lambda array, begin, shape: array[begin : begin + math.prod(shape)].reshape(
            shape
        ),
        "to_bits": lambda x: np.float64(x).view(np.uint64),
        "from_bits": lambda x: np.uint64(x).view(np.float64),
        **words,
    }
    exec(re.sub(r"from ergode\.core\.devices\.cuda import .*", "", text), module)
    return module


def _plain(*function, **_):
    """A decorator that changes nothing, with arguments or without."""
    return function[0] if function else lambda later: later
