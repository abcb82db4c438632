"""Write tests/slow.txt, the tests that `scripts/test.sh --fast` leaves out, from a measured run.

    ERGODE_CACHE_DIR=$(mktemp -d) scripts/test.sh --junitxml=build/tests.xml
    python scripts/slow_tests.py build/tests.xml

A test of several parameters counts with all of them.  Nothing compiled may be there before the run:
what is slow is mostly compiling, and a change of an engine compiles again.
"""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

LIST = Path(__file__).parents[1] / "tests" / "slow.txt"
MOST = 2.0  # seconds


def slow_tests(report: Path) -> list[str]:
    """Names ``file.py::function`` of the tests that took longer than `MOST`."""
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").split(".")[-1]
        if file.startswith("test_"):
            name = case.get("name", "").partition("[")[0]
            seconds[f"{file}.py::{name}"] += float(case.get("time", 0))
    return sorted(name for name, taken in seconds.items() if taken > MOST)


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in slow_tests(Path(sys.argv[1]))))
