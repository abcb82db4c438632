"""Infectivity by the age of the infection, in a run file."""

from pathlib import Path

import pytest

import ergode
from ergode.runfile.read import read

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.toml"


def test_a_profile_is_that_of_the_model(tmp_path):
    model = read(EXAMPLE).request.model
    assert model.profiles == {"I": ergode.Calendar([0, 2], [1.5, 0.75])}
    wrong = tmp_path / "wrong.toml"
    for old, new, message in (
        ("factors = [1.5, 0.75]", "factors = [1.5]", "2 changes and 1 factors"),
        ("profile.I]", "profile.R]", "profile of 'R', which does not infect"),
        ("factors = [1.5, 0.75]", "factor = [1.5, 0.75]", "has no key 'factor'"),
    ):
        wrong.write_text(EXAMPLE.read_text().replace(old, new))
        with pytest.raises(ergode.ErgodeError, match=message):
            read(wrong)
