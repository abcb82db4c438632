"""Ctrl-C is answered by every engine, whatever it is computing, and keeps what is done."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ergode

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise there"),
]
# Processor seconds that may pass before the answer: a machine that sleeps or is busy costs none.
LONGEST = 20 * (os.cpu_count() or 1)


def said_by(script, *arguments):
    path = Path(__file__).with_name(script)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(path), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def interrupted(case):
    found = said_by("interrupted.py", case)
    assert found["seconds"] is not None, f"{case} ended by itself: {found}"
    assert found["seconds"] < LONGEST
    return found


@pytest.mark.parametrize("engine", ["trajectories", "kinetics", "stochastic", "epidemics"])
def test_what_is_kept_is_a_part_of_the_whole_result(engine):
    """Every output, interrupted at a drawn moment (see `interrupted_rows`)."""
    found = said_by("interrupted_rows.py", engine, "1")
    assert [one for one in found if one["wrong"]] == []
    assert all(one["seconds"] is None or one["seconds"] < LONGEST for one in found)
    assert any(one["part"] is not None and 0 < one["part"] < 1 for one in found), found


@pytest.mark.parametrize(
    "case",
    ["fixed-step", "stiff", "stochastic-statistics", "sellke", "leap"],
)  # fmt: skip
def test_a_run_of_which_nothing_is_done_is_interrupted(case):
    assert interrupted(case)["raised"] in ("KeyboardInterrupt", "Abandoned")


@pytest.mark.parametrize("case", ["adaptive", "stochastic", "stochastic-sums", "kinetics"])
def test_what_was_done_is_returned(case):
    found = interrupted(case)
    assert found["raised"] is None
    assert found["attrs"]["interrupted"] == 1
    status = found["status"]
    assert status[-1] == ergode.Status.NOT_RUN
    assert ergode.Status.DONE in status
    done = len(status) - status.count(ergode.Status.NOT_RUN)
    assert any(f"interrupted: {done} of {len(status)} " in one for one in found["warnings"])
    if "missing" in found:
        assert found["missing"] == [code == ergode.Status.NOT_RUN for code in found["status"]]


def test_a_density_is_returned_as_far_as_it_was_moved():
    found = interrupted("density")
    assert found["raised"] is None
    assert found["attrs"]["ended_early"] == "interrupted"
    assert found["status"] == [ergode.Status.INTERRUPTED]
