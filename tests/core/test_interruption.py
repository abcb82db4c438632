"""When Ctrl-C is heard, and what it leaves."""

import math
import os
import signal
import threading
import time
import warnings
from queue import SimpleQueue

import numpy as np
import pytest
from numba.core import event

import ergode
from ergode.core.calls.launch import Interruptible
from ergode.core.devices import cpu
from ergode.core.errors import InterruptionWarning
from ergode.core.interruption import apart, deferred, listening, wait_for_next
from ergode.core.status import Status

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise there")


@pytest.fixture(autouse=True)
def usual_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


def test_it_is_raised_where_something_listens():
    with deferred() as found:
        press()
        assert found.is_noted and not found.was_heard
        with pytest.raises(KeyboardInterrupt), listening():
            raise AssertionError("it came before")
        assert found.was_heard and not found.is_noted
        with pytest.raises(KeyboardInterrupt), listening():
            press()


def test_a_second_one_is_raised_at_once():
    with deferred() as found:
        press()
        with pytest.raises(KeyboardInterrupt):
            press()
        assert found.came


def test_without_it_nothing_changes():
    with pytest.raises(KeyboardInterrupt), listening():
        press()
    with deferred() as outer, deferred() as inner:
        assert inner is outer


def test_a_handler_of_the_user_stays():
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    with deferred():
        press()
    assert heard == [1]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_other_threads_defer_nothing():
    def call():
        with deferred() as found:
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            found_there.append(found)

    found_there = []
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert not found_there[0].came


def test_a_result_that_is_put_together_is_not_lost():
    def call():
        with Interruptible("things") as run:
            run.ends_with(np.full(3, Status.DONE, np.uint8))
            press()
            with listening():  # kernels that put the result together
                pass

    with pytest.warns(InterruptionWarning, match="interrupted: 3 of 3 things are returned"):
        call()


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interruption_waits_for_a_piece_of_a_range(threads):
    """A range would take minutes; its pieces take hundredths of a second."""
    seen, reported = [], []

    def compiled(start, stop):
        time.sleep(1e-3 * (stop - start))
        seen.append((start, stop))

    timer = threading.Timer(0.5, press_from_outside)
    timer.start()
    with pytest.raises(KeyboardInterrupt) as caught, deferred():
        cpu.run(
            compiled, [(0, 200_000), (200_000, 400_000)], (), threads,
            lambda *span: reported.append(span), piece=3,
        )  # fmt: skip
    assert type(caught.value) is KeyboardInterrupt  # nothing goes on in the background
    assert sorted(seen) == sorted(reported)
    assert seen[0] in ((0, 3), (200_000, 200_003))
    for start, stop in seen:
        assert (stop - start) % 3 == 0
    assert 0 < sum(stop - start for start, stop in seen) < 100_000


def press_from_outside():
    os.kill(os.getpid(), signal.SIGINT)


def test_work_apart_goes_on_and_its_errors_are_raised():
    done, begun, go_on = threading.Event(), threading.Event(), threading.Event()

    def work():
        begun.set()
        go_on.wait(60)
        done.set()

    def press_when_begun():
        begun.wait(60)
        press_from_outside()

    threading.Thread(target=press_when_begun).start()
    with deferred(), pytest.raises(KeyboardInterrupt):
        apart(work)
    assert not done.is_set()
    go_on.set()
    assert done.wait(60)
    with pytest.raises(ZeroDivisionError):
        apart(lambda: 1 / 0)


def test_a_compiler_is_not_cut_in_two():
    """Ctrl-C while a field is compiled is raised, and the field is compiled all the same."""

    def swing(t, y, p):
        return y[1], -math.sin(y[0]) - 0.1234 * y[1] ** 3 + p[0] * math.cos(0.77 * t)

    field = ergode.VectorField(swing, ["angle", "speed"], ["push"])

    def run():
        return ergode.trajectories.integrate(
            field, times=[0, 1], initial={"angle": [1.0, 2.0], "speed": 0.0},
            parameters={"push": 0.5}, method="rk4", step=0.01, device="cpu:2",
        )  # fmt: skip

    began = threading.Event()

    class Began(event.Listener):
        def on_start(self, event):
            began.set()

        def on_end(self, event):
            pass

    def press_when_begun():
        began.wait(120)
        press_from_outside()

    listener = Began()
    event.register("numba:compiler_lock", listener)
    threading.Thread(target=press_when_begun).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
    finally:
        event.unregister("numba:compiler_lock", listener)
    assert (run()["status"] == Status.DONE).all()


def test_a_compiler_in_a_thread_leaves_warnings_alone():
    """Numba exchanges the filters of the whole process, and would take what the caller warns of."""

    def wave(t, y, p):
        return math.sin(y[0] + 0.4321 * p[0]) - y[1], y[0] * math.tanh(y[1] - p[0] * t)

    field = ergode.VectorField(wave, ["a", "b"], ["push"])

    def compile_it():
        ergode.trajectories.integrate(
            field, times=[0, 1], initial={"a": 1.0, "b": 0.0}, parameters={"push": 0.5},
            method="rk4", step=0.01, device="cpu:1",
        )  # fmt: skip

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filters = warnings.filters
        thread = threading.Thread(target=compile_it)
        thread.start()
        count = 0
        while thread.is_alive():
            assert warnings.filters is filters
            warnings.warn(f"warning {count}", UserWarning, stacklevel=1)
            count += 1
            time.sleep(1e-3)
    # Garbage of other tests may be collected meanwhile, with warnings of its own.
    told = [str(one.message) for one in caught if one.category is UserWarning]
    assert told == [f"warning {i}" for i in range(count)]
    assert count > 10


def test_a_signal_that_does_not_wake_the_main_thread_is_heard():
    """It wakes another thread, or comes as the wait begins: Python only notes it."""

    def press_here():
        time.sleep(0.2)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        heard.wait(30)
        queue.put(None)

    queue, heard = SimpleQueue(), threading.Event()
    thread = threading.Thread(target=press_here)
    thread.start()
    with pytest.raises(KeyboardInterrupt), deferred():
        wait_for_next(queue)
    assert queue.empty()
    heard.set()
    thread.join()


def test_pieces_cover_ranges_in_order():
    seen = []

    def compiled(start, stop):
        seen.append((start, stop))

    cpu.run(compiled, [(0, 100), (100, 107)], (), 1, piece=2)
    assert seen[0] == (0, 2)
    assert [start for start, _ in seen[1:]] == [stop for _, stop in seen[:-1]]
    assert seen[-1][1] == 107 and 100 in [start for start, _ in seen]
