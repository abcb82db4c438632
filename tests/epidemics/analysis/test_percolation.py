import numpy as np
import pytest

import ergode
from ergode.epidemics.analysis import percolation


@pytest.mark.parametrize(
    ("rate", "transmissibility", "size"),
    [
        (0.25, 0.680798, 0.995583),
        (0.10, 0.433106, 0.964646),
        (0.05, 0.271630, 0.838212),
        (0.03, 0.182248, 0.554363),
    ],
)
def test_known_values(rate, transmissibility, size):
    found = percolation.transmissibility(rate, ergode.LogNormal(mean=7.5, median=5))
    assert found == pytest.approx(transmissibility, abs=6e-7)
    assert percolation.final_size(8, found)[0] == pytest.approx(size, abs=6e-7)


def test_markovian_closed_form():
    found = percolation.transmissibility(0.25, ergode.Exponential(rate=0.15))
    assert found == pytest.approx(0.625, abs=1e-10)
    assert percolation.final_size(8, found)[0] == pytest.approx(0.993023, abs=6e-7)


def test_deterministic_closed_form():
    found = percolation.transmissibility(0.3, ergode.Deterministic(2.0))
    assert found == pytest.approx(1 - np.exp(-0.6), abs=1e-8)
    assert percolation.transmissibility(0.0, ergode.Deterministic(2.0)) == 0.0


def test_below_threshold_nothing_but_the_seeds_grow():
    assert percolation.final_size(8, 0.1)[0] == pytest.approx(0.0, abs=1e-10)
    # 1 - s = (1 - 0.01) exp(-0.8 s)
    assert percolation.final_size(8, 0.1, 0.01)[0] == pytest.approx(0.0451, abs=1e-3)


@pytest.mark.parametrize("above", [1e-2, 1e-5, 1e-8])
def test_near_the_threshold(above):
    """1 - s = exp(-k s) has the solution s = 2 (k - 1) (1 - 4 (k - 1) / 3 + ...)."""
    found = percolation.final_size(1.0 + above, 1.0)[0]
    assert found == pytest.approx(2 * above * (1 - 4 * above / 3), rel=3 * above**2 + 1e-6)
    blocks = percolation.final_size((1 + above) * np.array([[0.5, 0.5], [0.5, 0.5]]), 1.0)
    np.testing.assert_allclose(blocks, found, rtol=1e-6)
    assert percolation.final_size(8, 0.125)[0] < 1e-12


def test_blocks_that_do_not_meet_are_networks_of_their_own():
    both = percolation.final_size([[8.0, 0.0], [0.0, 3.0]], 0.5)
    assert both[0] == pytest.approx(percolation.final_size(8, 0.5)[0])
    assert both[1] == pytest.approx(percolation.final_size(3, 0.5)[0])


def test_bad_input_is_an_error():
    with pytest.raises(ergode.ModelError, match="square"):
        percolation.final_size([[1.0, 2.0]], 0.5)
    with pytest.raises(ergode.ModelError, match="transmissibility is 1.5"):
        percolation.final_size(8, 1.5)
    with pytest.raises(ergode.ModelError, match="finite"):
        percolation.final_size(np.nan, 0.5)
    for bad in (-1, np.nan, np.inf, "1"):
        with pytest.raises(ergode.ModelError, match="transmission_rate is"):
            percolation.transmissibility(bad, ergode.Exponential(rate=1.0))
