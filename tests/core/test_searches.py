"""Searches in lock-step: every search gets its own answers, and a failure ends all."""

import threading

import numpy as np
import pytest

from ergode.core.math.searches import latest, search_together


def halvings(place, ask):
    """Halve a number until it is below 1; the answers must be those of the points."""
    point, count = place, 0
    while point[0] >= 1:
        point = ask(point)
        count += 1
    return count


@pytest.mark.parametrize("width", [1, 3, 100])
def test_every_search_has_its_own_answers(width):
    places = 2.0 ** np.array([[5], [0], [-3], [9], [1], [2]])
    sizes = []

    def evaluate(points):
        assert threading.current_thread() is threading.main_thread()
        sizes.append(len(points))
        return list(points / 2)

    assert search_together(halvings, places, evaluate, width) == [6, 1, 0, 10, 2, 3]
    assert sum(sizes) == 22 and max(sizes) <= width
    if width == 100:  # all that go on are evaluated at once
        assert sizes == [5, 4, 3, 2, 2, 2, 1, 1, 1, 1]


@pytest.mark.parametrize("where", ["search", "evaluation", "interrupted"])
def test_what_fails_ends_all(where):
    def search(place, ask):
        while True:
            ask(place)
            if where == "search" and place[0] == 2:
                raise ValueError("lost")

    def evaluate(points):
        if where == "interrupted":
            raise KeyboardInterrupt
        if where == "evaluation":
            raise ValueError("lost")
        return list(points)

    before = threading.active_count()
    expected = KeyboardInterrupt if where == "interrupted" else ValueError
    with pytest.raises(expected):
        search_together(search, np.arange(5.0)[:, None], evaluate, 3)
    assert threading.active_count() == before


def test_the_latest_point_is_not_asked_for_twice():
    asked = []
    ask = latest(lambda point: asked.append(point) or len(asked))
    one, other = np.array([1.0]), np.array([2.0])
    assert [ask(one), ask(one), ask(other), ask(one)] == [1, 1, 2, 3]
