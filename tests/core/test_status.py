"""Status codes, and the exception for those who want one."""

import numpy as np
import pytest
import xarray

import ergode.core.results.accessor  # noqa: F401
from ergode.core.errors import ErgodeError
from ergode.core.status import Status, failures, flags


def with_status(*codes):
    return xarray.Dataset({"status": (("replicate",), np.array(codes, np.uint8))})


def test_codes_are_for_ever_and_say_what_they_mean():
    assert [(s.name, s.value) for s in Status] == [
        ("DONE", 0), ("EXTINCT", 1), ("NOT_RUN", 2), ("NOT_FINITE", 3), ("TOO_MANY_STEPS", 4),
        ("OVERFLOW", 5), ("INACCURATE", 6), ("STEP_TOO_SMALL", 7), ("STOPPED", 8),
        ("DELAY_OUT_OF_RANGE", 9), ("INVALID_INPUT", 10), ("NO_ROOM", 11),
        ("OUT_OF_LATTICE", 12), ("IMPOSSIBLE", 13), ("INTERRUPTED", 14), ("SKIPPED", 15),
        ("NEGATIVE_RATE", 16), ("NO_SOLUTION", 17), ("ALL_BORN", 18),
        ("RATE_OUT_OF_RANGE", 19),
    ]  # fmt: skip
    assert {s.name for s in Status if not s.is_error} == {
        "DONE", "EXTINCT", "STOPPED", "SKIPPED",
    }  # fmt: skip
    assert len({s.sentence for s in Status}) == len(Status)
    assert all(s.sentence[0].isupper() and s.sentence.endswith(".") for s in Status)
    assert Status(3) is Status.NOT_FINITE
    assert np.full(2, Status.EXTINCT, np.uint8).tolist() == [1, 1]


@pytest.mark.parametrize("codes", [(), (0,), (0, 1, 1)])
def test_what_ended_well_is_returned(codes):
    dataset = with_status(*codes)
    assert dataset.ergode.raise_for_status() is dataset


def test_what_did_not_is_counted_and_explained():
    with pytest.raises(ErgodeError) as caught:
        with_status(0, 3, 1, 3, 5).ergode.raise_for_status()
    assert str(caught.value) == (
        "2 of 5 replicates, first replicate 1: A value became infinite or not a number. "
        "1 of 5 replicates, first replicate 4: A count exceeded what its type can hold, or "
        "max_molecules."
    )


def test_failures_are_placed():
    several = np.zeros((2, 3), np.uint8)
    several[1, 2] = Status.TOO_MANY_STEPS
    assert failures(several, ["sigma", "rho"]) == {
        Status.TOO_MANY_STEPS: "1 of 6 runs, first run (1, 2): "
        "The limit on the number of steps, max_steps or max_firings, was reached."
    }
    assert failures(np.array([8, 7], np.uint8), ["trajectory"]) == {
        Status.STEP_TOO_SMALL: "1 of 2 trajectories, first trajectory 1: "
        "A step was so small that it did not change the time."
    }
    assert failures(np.array(3, np.uint8)) == {
        Status.NOT_FINITE: "1 of 1 run: A value became infinite or not a number."
    }


def test_flags_name_every_code():
    values, words = flags()["flag_values"].tolist(), flags()["flag_meanings"].split()
    meanings = dict(zip(values, words, strict=True))
    assert meanings == {status.value: status.name.lower() for status in Status}


def test_a_dataset_without_status_cannot_say():
    with pytest.raises(ErgodeError, match="no variable 'status'"):
        xarray.Dataset({"x": 1.0}).ergode.raise_for_status()
