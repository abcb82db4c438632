"""Run files of reaction networks that ask for probabilities, or are in space."""

import numpy as np
import pytest

import ergode
from ergode.runfile.read import read

NETWORK = """
engine = "stochastic"
[network]
species = { X = 5 }
parameters = { mu = 0.5 }
reactions = [{ reaction = "X -> 0", rate_constant = "mu" }]
[simulate]
times = [0, 2]
"""


def reading(tmp_path, more):
    path = tmp_path / "decay.toml"
    path.write_text(NETWORK + more)
    return read(path).request


def test_probabilities(tmp_path):
    request = reading(
        tmp_path, 'output = "probabilities"\ntolerance = 1e-9\nparameters = { mu = 1.0 }'
    )
    assert request.has_figure
    dataset = request.call(False)()
    assert request.work(dataset) == "6 states"
    assert dataset["mean"].values[-1, 0] == pytest.approx(5 * np.exp(-2.0))
    assert request.summary(dataset)["mean final X"] == pytest.approx(5 * np.exp(-2.0))
    assert list(request.describe()) == ["network"]
    (line,) = request.draw(dataset).axes[0].lines
    assert line.get_label() == "master equation"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('output = "probabilities"\nreplicates = 5', "no key 'replicates'"),
        ('output = "probabilities"\ndevice = "cuda"', "computed on the CPU alone"),
        ("max_states = 7", "only the output 'probabilities' has states"),
    ],
)
def test_what_does_not_go_together(tmp_path, more, message):
    with pytest.raises(ergode.ReadError, match=message):
        reading(tmp_path, more)


SPACE = """
[space]
shape = [4, 6]
spacing = 0.5
periodic = [true, false]
diffusion = { X = "mu" }
"""


def test_a_network_in_space(tmp_path):
    options = 'replicates = 3\nrounding = "down"\nparameters = { mu = 1.0 }\n'
    request = reading(tmp_path, options + SPACE)
    assert request.describe()["space"] == "4 x 6 voxels"
    assert request.space.centres["y"].tolist() == [0.25, 0.75, 1.25, 1.75, 2.25, 2.75]
    dataset = request.call(False)()
    assert dataset["amount"].dims == ("replicate", "time", "species", "x", "y")
    assert "firings" in request.work(dataset)
    last = dataset["amount"].isel(time=-1).sum(["x", "y"]).mean()
    assert request.summary(dataset)["mean final X"] == pytest.approx(float(last))
    assert request.has_figure
    assert len(request.draw(dataset).axes[0].images) == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (SPACE.replace("shape", "form"), "no key 'form'"),
        ("[space]\nshape = [2]", "needs the keys 'shape' and 'diffusion'"),
        (SPACE.replace("X", "Y"), "'Y', which is not a species"),
        ("stop = 'X > 2'" + SPACE, "no key 'stop'"),
        ("output = 'histogram'" + SPACE, "histogram"),
    ],
)
def test_what_space_cannot_be(tmp_path, more, message):
    with pytest.raises(ergode.ErgodeError, match=message):
        reading(tmp_path, more)
