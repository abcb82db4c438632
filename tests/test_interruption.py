"""Ctrl-C is answered by every engine, whatever it is computing."""

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
SCRIPT = Path(__file__).with_name("interrupted.py")


def interrupted(case):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), case], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["seconds"] is not None, f"{case} ended by itself: {found}"
    assert found["seconds"] < 20
    return found


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
    assert found["status"][-1] == ergode.Status.NOT_RUN
    assert ergode.Status.DONE in found["status"]
    assert any("interrupted: " in one for one in found["warnings"])
    if "missing" in found:
        assert found["missing"] == [code == ergode.Status.NOT_RUN for code in found["status"]]


def test_a_density_is_returned_as_far_as_it_was_moved():
    found = interrupted("density")
    assert found["raised"] is None
    assert found["attrs"]["ended_early"] == "interrupted"
    assert found["status"] == [ergode.Status.INTERRUPTED]
