"""Several searches in lock-step: the points that all of them ask for are evaluated together.

A search is an ordinary function that asks for values at one point after another, such as SciPy's
`least_squares`.  Every search has a thread.  When all threads wait, the calling thread evaluates
their points at once; nothing else ever runs beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

Answer = TypeVar("Answer")
Found = TypeVar("Found")


class _StoppedError(Exception):
    """The searches end because one of them, or the evaluation, has failed."""


def search_together(
    # ``ask(point)`` returns the answer for a point.
    search: Callable[[np.ndarray, Callable[[np.ndarray], Answer]], Found],
    places: np.ndarray,  # [search_count, quantity_count]: where the searches begin
    # ``evaluate(points)``: an answer for every row of points [asking_count, quantity_count]. It
    # runs in the calling thread.
    evaluate: Callable[[np.ndarray], Sequence[Answer]],
    width: int,  # Most searches at a time. When one ends, the next begins.
) -> list[Found]:
    """What ``search(place, ask)`` returns for every place."""
    messages: SimpleQueue[tuple[int, np.ndarray | None]] = SimpleQueue()
    answers: list[SimpleQueue[Answer | None]] = [SimpleQueue() for _ in places]

    def begin(k: int) -> Found:
        def ask(point: np.ndarray) -> Answer:
            messages.put((k, point))
            answer = answers[k].get()
            if answer is None:
                raise _StoppedError
            return answer

        try:
            return search(places[k], ask)
        finally:
            messages.put((k, None))

    width = min(width, len(places))
    with ThreadPoolExecutor(width) as pool:
        runs: list[Future[Found]] = [pool.submit(begin, k) for k in range(len(places))]
        try:
            ended = 0
            while ended < len(places):
                asked: dict[int, np.ndarray] = {}
                while len(asked) < min(width, len(places) - ended):
                    k, point = messages.get()
                    if point is None:
                        runs[k].result()  # what has failed ends all
                        ended += 1
                    else:
                        asked[k] = point
                if asked:
                    # In the order of the searches, not of the threads.
                    order = sorted(asked)
                    found = evaluate(np.array([asked[k] for k in order]))
                    for k, answer in zip(order, found, strict=True):
                        answers[k].put(answer)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for queue in answers:
                queue.put(None)
    return [run.result() for run in runs]


def latest(ask: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], Any]:
    """`ask` that keeps its latest answer, for functions and derivatives at one point."""
    kept: tuple[bytes, Any] = b"", None

    def once(point: np.ndarray) -> Any:
        nonlocal kept
        key = point.tobytes()
        if kept[0] != key:
            kept = key, ask(point.copy())
        return kept[1]

    return once
