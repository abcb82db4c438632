"""The page of the tour: how its numbers read."""

import pytest

from ergode.report import Comparison


@pytest.mark.parametrize(
    ("comparison", "computed", "expected", "difference"),
    [
        (Comparison("a", 0.5012, 0.0023, 0.5, "%"), "50.12 ± 0.23 %", "50.00 %", "+0.12"),
        (Comparison("a", 12345.6, 210.0, 12000.0), "12,346 ± 210", "12,000", "+346"),
        (Comparison("a", 1.00000123, 0.0, 1.0), "1.0000012", "1.0000000", "+0.0000012"),
        (Comparison("a", 2.0, 0.0, 2.0, "s"), "2.0000000 s", "2.0000000 s", "+0.0000000"),
        (Comparison("a", 0.0, 0.0, 0.0), "0.0", "0.0", "+0.0"),
    ],
)
def test_figures_follow_the_error(comparison, computed, expected, difference):
    texts = [text.replace("\N{NO-BREAK SPACE}", " ") for text in comparison.texts()]
    assert texts == [computed, expected, difference]
