"""Run files of densities with walls that absorb, a killing rate and periods."""

import pytest

import ergode
from ergode.core.errors import ErgodeError
from ergode.runfile.read import read as read_file

FILE = """
engine = "density"

[equations]
x = "-pull * x"

[parameters]
pull = 1

[prior]
mean = [0]
covariance = [0.01]

[propagate]
times = { stop = 1, count = 3 }
process_noise = [1]
width = 0.1
region = "1 - x * x"
boundary = "absorbing"
killing_rate = "pull * x ** 2 + t"
device = "cpu"
periodic = { x = 6.25 }
"""


def read(folder, text):
    path = folder / "run.toml"
    path.write_text(text)
    return read_file(path).request


def test_walls_and_a_killing_rate(tmp_path):
    request = read(tmp_path, FILE)
    assert request.options["boundary"] == "absorbing"
    assert request.options["periodic"] == {"x": 6.25}
    assert request.options["region"]((0.5,), 0.0, (1.0,)) == (0.75,)
    assert request.options["killing_rate"]((0.5,), 2.0, (1.0,)) == (2.25,)


def test_a_wrong_rate_and_a_wrong_boundary_are_refused(tmp_path):
    with pytest.raises(ErgodeError, match="killing_rate uses 'height'"):
        read(tmp_path, FILE.replace("x ** 2 + t", "height"))
    with pytest.raises(ergode.PlanError, match="boundary 'porous' is unknown"):
        read(tmp_path, FILE.replace('"absorbing"', '"porous"')).call(progress=False)()
