"""Chunks of work: what fits, what an interruption leaves, where a warning points."""

import warnings

import numpy as np
import pytest

from ergode.core import devices
from ergode.core.calls import launch
from ergode.core.calls.launch import Interruptible, count_that_fits, run_chunks, warn
from ergode.core.devices import buffers
from ergode.core.errors import InterruptionWarning, PlanError
from ergode.core.status import Status


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

    run_chunks("test", 10, 4, work, unit="things")
    assert seen == list(range(10))
    run_chunks("test", 0, 4, work, unit="things")
    assert seen == list(range(10))


def test_chunks_by_time_grow_to_a_second(monkeypatch):
    now, seen = [0.0], []
    monkeypatch.setattr(launch, "monotonic", lambda: now[0])
    for start, stop in launch.chunks(10_000, 6_000, least=10):
        seen.append((start, stop))
        now[0] += 1e-3 * (stop - start)  # seconds
    # At most 16 times as much at once, in multiples of the first.
    assert seen[:3] == [(0, 10), (10, 170), (170, 1170)]
    assert all(stop - start == 1000 for start, stop in seen[2:-1])
    assert seen[-1][1] == 10_000


def test_chunks_are_cut_where_they_may_end():
    found = list(launch.chunks(10, 4, cut=lambda start, stop: stop - stop % 3))
    assert found == [(0, 3), (3, 6), (6, 10)]


def test_chunks_that_take_longer_are_as_short_as_they_can_be(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(launch, "monotonic", lambda: now[0])
    found = []
    for start, stop in launch.chunks(45, 1000, least=7):
        found.append(stop - start)
        now[0] += 60.0
    assert found == [7, 7, 7, 7, 7, 10]  # without a small rest


@pytest.mark.parametrize("raises", [True, False])
def test_an_interruption_ends_the_chunks_and_counts_what_was_done(raises):
    status = np.full(10, Status.NOT_RUN, np.uint8)

    def work(start, stop, report):
        if start == 4:
            if raises:
                raise KeyboardInterrupt
            status[4] = Status.DONE
            return False
        status[start:stop] = Status.DONE

    def call():
        with Interruptible("things", "went well") as run:
            run_chunks("test", 10, 4, work, unit="things")
            run.ends_with(status)

    with pytest.warns(InterruptionWarning, match=f"interrupted: {5 - raises} of 10 things went"):
        call()


def test_nothing_done_is_an_interruption():
    with pytest.raises(KeyboardInterrupt), Interruptible("things") as run:
        run.ends_with(np.full(3, Status.NOT_RUN, np.uint8))


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
        is_cuda, name, memory_bytes = True, "cuda:0", 1_000_000

        def put(self, array):
            return array.copy()

        def available_bytes(self):
            return 900_000 - len(buffers._KEPT._copies) * 200_000

    device, array = Device(), np.zeros(200_000, np.uint8)
    array.flags.writeable = False
    buffers.put_kept(device, array)
    assert count_that_fits(device, 300_000, "one", "use less") == 2  # and the copy stays
    assert count_that_fits(device, 800_000, "one", "use less") == 1
    assert buffers.release() == 0
