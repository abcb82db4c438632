"""Tutorials that make their own data find the truth again; their cells run as they stand."""

import re
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[1] / "docs/tutorials"
CELL = re.compile(r"^```\{code-cell\} ipython3\n(?::mystnb:[^\n]*\n)?(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize("name", ["blowflies", "kinetic_rate", "orbit_from_ranges", "switch_rates"])
def test_the_page_recovers_its_truth(name):
    """With the seed of the page, each interval of 90 % holds the truth."""
    page = {}
    for cell in CELL.findall((TUTORIALS / f"{name}.md").read_text()):
        exec(compile(cell, f"{name}.md", "exec"), page)
    assert set(page["found"]) == set(page["truth"])
    for parameter, (low, middle, high) in page["found"].items():
        assert low < middle < high
        assert low <= page["truth"][parameter] <= high, parameter
