"""Run files of densities: everything that `propagate` takes, told in text."""

import math

import numpy as np
import pytest

import ergode
from ergode.core.errors import ErgodeError
from ergode.runfile.read import read as read_file

HEAD = """
engine = "density"

[equations]
x = "v"
v = "-stiffness * sin(x)"

[diffusion]
v = "strength * x"

[parameters]
stiffness = 4
strength = [0.1, 0.2]
"""
PRIOR = """
[[prior.components]]
weight = 1
mean = [2, 0]
covariance = [0.25, 0.25]

[[prior.components]]
weight = 3
mean = [-2, 0]
covariance = [[0.25, 0.1], [0.1, 0.25]]
"""
SEEN = """
[[measurements]]
time = 1
variable = "v"
value = 0.5
variance = 0.04
gate = 4
degrees_of_freedom = 2.5

[[measurements]]
time = 0.5
of = ["x * x", "atan(v / stiffness)"]
value = [1, 0.1]
covariance = [0.2, 0.3]
angles = [1]

[[measurements]]
time = 2
log_likelihood = "-abs(x)"
"""
END = """
[propagate]
times = { stop = 2, count = 3 }
width = [0.1, 0.2]
retained = 0.99
axes = "variables"
conserved = "v * v / 2 - stiffness * cos(x)"
keep = "last"
max_cells = 100_000
scheme = "split"
device = "cpu"
precision = "float64"
"""


def read(folder, text):
    path = folder / "run.toml"
    path.write_text(text)
    return read_file(path).request


def test_everything_that_can_be_said(tmp_path):
    run = read(tmp_path, HEAD + PRIOR + SEEN + END)
    options = dict(run.options)
    assert run.field.diffusion(0.0, (3.0, 1.0), (4.0, 0.2)) == (0.0, 0.2 * 3.0)
    assert isinstance(run.prior, ergode.Mixture) and run.prior.weights.tolist() == [0.25, 0.75]
    one, two, three = options["measurements"]
    assert one.h((1.0, 2.0), 0.0, (4.0, 0.1)) == (2.0,) and one.value.tolist() == [0.5]
    assert (one.gate, one.degrees_of_freedom, two.gate) == (4.0, 2.5, None)
    assert two.h((3.0, 2.0), 0.0, (4.0, 0.1)) == (9.0, math.atan(0.5)) and two.angles == (1,)
    assert np.array_equal(two.covariance, np.diag([0.2, 0.3]))
    assert three.likelihood((-3.0, 2.0), 0.0, (4.0, 0.1)) == (-3.0,)
    assert options["conserved"]((0.0, 2.0), 0.0, (4.0, 0.1)) == (-2.0,)
    assert options["parameters"]["strength"].tolist() == [0.1, 0.2]
    assert not run.has_figure  # of a batch
    names = set(options) - {
        "times",
        "parameters",
        "measurements",
        "maneuvers",
        "conserved",
        "width",
    }
    assert {name: options[name] for name in names} == {
        "retained": 0.99, "axes": "variables", "keep": "last", "max_cells": 100_000,
        "scheme": "split", "device": "cpu", "precision": "float64",
    }  # fmt: skip


def test_maneuvers(tmp_path):
    text = "[[maneuvers]]\ntime = 0.5\nchange = [1, 2]\ncovariance = [0.1, 0.2]\n"
    (one,) = read(tmp_path, HEAD + PRIOR + text + END).options["maneuvers"]
    assert one.change.tolist() == [1.0, 2.0] and np.diag(one.covariance).tolist() == [0.1, 0.2]


def test_a_file_of_gbees_as_the_prior(tmp_path):
    (tmp_path / "pdf.txt").write_text("0\n0.25 1 2\n0.75 2 2\n")
    run = read(tmp_path, HEAD + '[prior]\nfile = "pdf.txt"\n' + END)
    assert run.prior.mean.tolist() == [1.75, 2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PRIOR + SEEN.replace("x * x", "x * y"), "measurements 2.*of uses 'y'.*stiffness"),
        (PRIOR + SEEN.replace('"v"', '"w"'), "variable is 'w'"),
        (PRIOR + SEEN.replace("log_likelihood", "likelihood"), "needs the key 'of'|no key"),
        (PRIOR.replace("weight = 3\n", ""), "needs the key 'weight'"),
        (PRIOR.replace("[0.25, 0.1]", "[0.25]"), "rows of different lengths"),
        (PRIOR + END.replace("retained", "retaned"), "did you mean 'retained'"),
        (PRIOR + END.replace("cos(x)", "cosine(x)"), "conserved.*calls 'cosine'"),
        ("[prior]\nfile = 'none.txt'\n", "no such file"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, message):
    with pytest.raises(ErgodeError, match=message):
        read(tmp_path, HEAD + text + ("" if "[propagate]" in text else END))


def test_rows_are_a_bank_of_filters(tmp_path):
    """Means of priors and measured values, a row for each; there is no figure of it."""
    text = (
        HEAD.replace("[0.1, 0.2]", "0.1")
        + """
[prior]
mean = [[1, 0], [0, 1]]
covariance = [0.1, 0.1]

[[measurements]]
time = 1
of = ["x"]
value = [[0.4], [0.9]]
covariance = [0.1]
"""
    )
    run = read(tmp_path, text + END)
    assert not run.has_figure
    assert len(run.prior.each) == 2 and run.options["measurements"][0].side_by_side == 2


def test_a_closest_approach_is_told_in_formulas(tmp_path):
    """A straight line that passes a fixed point."""
    text = """
engine = "density"

[equations]
x = "speed"
y = "0 * x"

[parameters]
speed = 2

[prior]
mean = [-2, 0.1]
covariance = [0.01, 0.04]

[propagate]
times = { stop = 2, count = 3 }
device = "cpu"
closest_approach = { distance = ["x", "y"], radii = [0.01, 0.1], begin = 0.5 }
"""
    run = read(tmp_path, text)
    approach = run.options["closest_approach"]
    assert approach.distance((3.0, 2.0), 0.0, (4.0,)) == (3.0, 2.0)
    assert (approach.radii.tolist(), approach.begin, approach.end) == ([0.01, 0.1], 0.5, None)
    told = run.summary(run.call(progress=False)())
    exact = math.erf(0.0) - math.erf(-0.2 / 0.2 / math.sqrt(2))
    assert float(told["probability of coming within 0.1"]) == pytest.approx(exact / 2, rel=0.01)
    with pytest.raises(ErgodeError, match="radii"):
        read(tmp_path, text.replace("radii", "radius"))
