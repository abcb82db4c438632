"""Chunks of work: what fits, what an interruption leaves, where a warning points."""

import warnings

import numpy as np
import pytest

from ergode.core import buffers, devices
from ergode.core.errors import InterruptionWarning, PlanError
from ergode.core.launch import count_that_fits, run_chunks, warn


def test_what_fits():
    device = devices.resolve("cpu")
    room = device.available_bytes()
    assert count_that_fits(device, 2**20, "one", "use less") == pytest.approx(room / 2**20, rel=0.1)
    with pytest.raises(PlanError, match=r"one cell needs .* GB, but cpu has .* GB free; use less"):
        count_that_fits(device, 2 * room, "one cell", "use less")


def test_chunks_cover_everything_once():
    seen = []

    def work(start, stop, report):
        seen.extend(range(start, stop))

    assert run_chunks("test", 10, 4, work, unit="things") == 10
    assert seen == list(range(10))
    assert run_chunks("test", 0, 4, work, unit="things") == 0


@pytest.mark.parametrize("raises", [True, False])
def test_what_was_done_before_an_interruption_counts(raises):
    def work(start, stop, report):
        if start == 4:
            if raises:
                raise KeyboardInterrupt
            return 1

    with pytest.warns(InterruptionWarning, match=r"interrupted: \d of 10 things are returned"):
        assert run_chunks("test", 10, 4, work, unit="things") == (4 if raises else 5)


def test_nothing_done_is_an_interruption():
    def work(start, stop, report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_chunks("test", 10, 4, work, unit="things")
    with pytest.raises(KeyboardInterrupt):
        run_chunks("test", 10, 4, lambda *_: 0, unit="things")


def test_progress_is_of_what_was_done(capsys):
    def work(start, stop, report):
        report(stop - start)

    run_chunks("test", 10, 5, work, unit="things", show=True)
    assert "test: 10 of 10 things" in capsys.readouterr().err


def test_a_warning_points_at_the_line_of_the_user():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn("something", InterruptionWarning)
    assert said[0].filename == __file__


def test_networks_of_earlier_calls_make_room():
    class Device:
        is_cuda, name, memory_bytes = True, "cuda:0", 1000

        def put(self, array):
            return array.copy()

        def available_bytes(self):
            return 900 - len(buffers._KEPT._copies) * 200

    device, array = Device(), np.zeros(200, np.uint8)
    array.flags.writeable = False
    buffers.put_kept(device, array)
    assert count_that_fits(device, 300, "one", "use less") == 2  # and the copy stays
    assert count_that_fits(device, 800, "one", "use less") == 1
    assert buffers.release() == 0
