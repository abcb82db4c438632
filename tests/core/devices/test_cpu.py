"""Ranges on threads: what is run, what is reported, and what an error leaves behind."""

import os
import signal
import threading
import time

import pytest

from ergode.core import interruption
from ergode.core.devices import cpu
from ergode.core.errors import Abandoned

RANGES = [(k, k + 1) for k in range(40)]


class Calls:
    """Stands for a compiled kernel; remembers its ranges, and fails at some."""

    def __init__(self, fails_at=(), seconds=0.0):
        self.seen, self.fails_at, self.seconds = [], fails_at, seconds
        self._lock = threading.Lock()

    def __call__(self, start, stop, *arguments):
        time.sleep(self.seconds)
        if start in self.fails_at:
            raise ValueError(f"range {start}")
        with self._lock:
            self.seen.append((start, stop))


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 100])
def test_every_range_is_run_once_and_reported(threads):
    calls, reported = Calls(), []
    cpu.run(calls, RANGES, (), threads, lambda *span: reported.append(span))
    assert sorted(calls.seen) == RANGES
    assert sorted(reported) == RANGES


@pytest.mark.parametrize("threads", [1, 4])
def test_nothing_to_do_is_done_at_once(threads):
    calls, reported = Calls(), []
    cpu.run(calls, iter(()), (), threads, lambda *span: reported.append(span))
    assert calls.seen == reported == []


def test_arguments_and_callback_are_as_given():
    found, callers = [], set()
    cpu.run(
        lambda *all_of_them: found.append(all_of_them), [(0, 2), (2, 3)], ("x", 1.5), 2,
        lambda *_: callers.add(threading.current_thread()),
    )  # fmt: skip
    assert sorted(found) == [(0, 2, "x", 1.5), (2, 3, "x", 1.5)]
    assert callers == {threading.current_thread()}


def test_ranges_really_run_side_by_side():
    barrier = threading.Barrier(3, timeout=30)
    cpu.run(lambda start, stop: barrier.wait(), [(0, 1), (1, 2), (2, 3)], (), 3)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_and_the_rest_is_dropped(threads):
    calls, reported = Calls(fails_at={5}, seconds=0.002), []
    with pytest.raises(ValueError, match="range 5"):
        cpu.run(calls, RANGES, (), threads, lambda *span: reported.append(span))
    # Whatever was begun has ended and has been reported, and the rest was never begun.
    assert sorted(calls.seen) == sorted(reported)
    assert set(RANGES[:5]) <= set(reported)
    assert len(reported) < 20
    assert threading.active_count() == len(threading.enumerate())
    assert not [t for t in threading.enumerate() if t.name.endswith("(work)")]


def test_of_several_errors_the_first_is_raised_and_no_report_is_lost():
    both = threading.Barrier(3, timeout=30)

    def compiled(start, stop):
        both.wait()
        if start == 2:
            time.sleep(0.05)
        elif start == 1:
            time.sleep(0.02)
            raise KeyError("second")
        else:
            raise ValueError("first")

    reported = []
    with pytest.raises(ValueError, match="first"):
        cpu.run(compiled, [(0, 1), (1, 2), (2, 3)], (), 3, lambda *span: reported.append(span))
    assert reported == [(2, 3)]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interruption_keeps_what_was_finished(threads):
    calls, reported = Calls(seconds=0.01), []

    def finished(start, stop):
        reported.append((start, stop))
        if len(reported) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cpu.run(calls, RANGES, (), threads, finished)
    assert sorted(calls.seen) == sorted(reported)
    assert 4 <= len(reported) < 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks there")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_of_a_process_that_has_computed_computes_too():
    """Its threads do not exist in the child."""
    seen = []
    cpu.run(lambda start, stop: seen.append(start), RANGES, (), 2)
    child = os.fork()
    if child == 0:
        seen.clear()
        cpu.run(lambda start, stop: seen.append(start), RANGES, (), 2)
        os._exit(0 if len(seen) == len(RANGES) else 1)
    ends = time.monotonic() + 20
    found, status = 0, None
    while not found and time.monotonic() < ends:
        found, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not found:
        os.kill(child, signal.SIGKILL)
    assert found and os.waitstatus_to_exitcode(status) == 0


def interrupted_after(seconds, call):
    """What a call raises that is sent SIGINT after a while [s]."""
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        call()
    timer.join()
    return caught.value


@pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise there")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("together", [False, True])
def test_an_interruption_does_not_wait_for_a_long_kernel(threads, together):
    release = threading.Event()
    reported = []

    def compiled(start, stop):
        if together or start > 0:
            release.wait(60)

    def call():
        if together:
            cpu.run_together(compiled, threads, ())
        else:
            cpu.run(compiled, RANGES, (), threads, lambda *span: reported.append(span))

    error = interrupted_after(0.2, call)  # not after the minute for which the kernel waits
    release.set()
    assert isinstance(error, Abandoned)
    assert reported == ([] if together else [(0, 1)])


@pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise there")
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interruption_waits_for_a_short_kernel(threads):
    calls, reported = Calls(seconds=0.05), []

    def call():  # as engines do: Ctrl-C is not raised while a range is reported
        with interruption.deferred():
            cpu.run(calls, RANGES, (), threads, lambda *span: reported.append(span))

    error = interrupted_after(0.2, call)
    assert not isinstance(error, Abandoned)
    assert sorted(reported) == sorted(calls.seen)
    assert 0 < len(reported) < 40
