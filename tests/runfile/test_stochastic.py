"""Run files of reaction networks that ask for probabilities instead of realizations."""

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
    dataset = request.execute(False)
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
