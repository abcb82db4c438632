"""The lists of slow and of exhaustive tests name tests that there are."""

import re
from pathlib import Path

TESTS = Path(__file__).parent


def test_every_test_of_the_lists_is_there():
    there = {
        f"{file.name}::{name}"
        for file in TESTS.rglob("test_*.py")
        for name in re.findall(r"^ *def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    for name in ("slow.txt", "exhaustive.txt"):
        lines = (TESTS / name).read_text(encoding="utf-8").splitlines()
        assert not {line.partition("[")[0] for line in lines} - there
