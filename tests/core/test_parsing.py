"""Texts are parsed in many threads at once."""

import ast
import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ergode.core.parsing import parse

TEXT = " + ".join(f"f(x[{k}], (y * {k} - 1) / 2)" for k in range(100))


@pytest.fixture
def other_threads_run_in_the_middle():
    """The parser makes objects; the garbage collector may run meanwhile, and let others run."""

    def pause(phase, info):
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(pause)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(pause)


def test_threads_parse_at_once(other_threads_run_in_the_middle):
    wanted = ast.dump(ast.parse(TEXT, mode="eval"))
    with ThreadPoolExecutor(4) as pool:
        for tree in pool.map(lambda _: parse(TEXT, mode="eval"), range(20)):
            assert ast.dump(tree) == wanted
