"""The list of slow tests names tests that there are: what it does not name is taken for quick."""

import re
from pathlib import Path

TESTS = Path(__file__).parent


def test_every_test_of_the_list_is_there():
    there = {
        f"{file.name}::{name}"
        for file in TESTS.rglob("test_*.py")
        for name in re.findall(r"^ *def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    listed = set((TESTS / "slow.txt").read_text(encoding="utf-8").split())
    assert not listed - there
