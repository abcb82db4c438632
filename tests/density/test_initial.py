import numpy as np
import pytest

import ergode
from ergode.density.initial import lay_lattice, lay_prior

COVARIANCE = np.array([[2.0, 0.9, -0.3], [0.9, 1.0, 0.2], [-0.3, 0.2, 0.5]])


@pytest.mark.parametrize("turned", [False, True])
def test_cells_of_a_gaussian_are_all_those_above_the_threshold(turned):
    """Beside a search of a box that is large enough, in the order of keys."""
    prior = ergode.Gaussian([1.2, -3.4, 0.7], COVARIANCE)
    axes = np.linalg.eigh(COVARIANCE)[1] if turned else None
    lattice = lay_lattice(prior, 0.4, axes)
    found = lay_prior(prior, lattice, 1e-5, boxed=False)
    grid = np.arange(-20, 21)
    box = np.stack(np.meshgrid(grid, grid, grid), -1).reshape(-1, 3)
    mass = np.exp(prior.log_density(lattice.points(box))) * 0.4**3
    keys = np.sort(lattice.pack(box[mass / mass.sum() >= 1e-5]))
    np.testing.assert_array_equal(found.keys, keys)
    assert found.mass.sum() == pytest.approx(1, abs=1e-12)
    assert found.left_out == pytest.approx(mass[mass < 1e-5].sum(), rel=1e-3)


def test_a_density_thinner_than_cells_has_those_next_to_it():
    prior = ergode.Gaussian([0.3, 2.0], [[1e-8, 0], [0, 1.0]])
    found = lay_prior(prior, lay_lattice(prior, [0.5, 0.5], None), 1e-6, boxed=False)
    assert found.keys.size > 10
    assert (np.diff(found.keys) > 0).all()


def test_two_gaussians_that_overlap_have_each_cell_once():
    parts = [ergode.Gaussian([0.0, 0.0], [1, 1]), ergode.Gaussian([1.0, 0.5], [0.5, 2])]
    prior = ergode.Mixture([1, 1], parts)
    found = lay_prior(prior, lay_lattice(prior, 0.25, None), 1e-6, boxed=False)
    assert (np.diff(found.keys) > 0).all()
    assert found.mass.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"parameters": {"k": 1e39}}, r"k is 1e\+39; float32"),
        ({"parameters": {"k": 1e-46}}, "k is 1e-46, for float32 the same as 0"),
        ({"prior": ergode.Gaussian([1e39], [1e76])}, r"the prior's mean is 1e\+39; float32"),
        ({"width": 1e-46}, "width is 1e-46, for float32"),
        ({"times": [0.0, 1e39]}, r"times is 1e\+39; float32"),
        ({"prior": ergode.Gaussian([1e9], [1.0])}, "float32 numbers near"),
        ({"prior": ergode.Gaussian([1e17], [1.0]), "precision": "float64"}, "are 16 apart"),
    ],
)
def test_what_a_precision_does_not_hold_is_refused_by_name(given, said):
    field = ergode.VectorField(lambda t, y, p: (-p[0] * y[0],), ["x"], ["k"])
    options = {"times": [0.0, 1.0], "parameters": {"k": 1.0}, "precision": "float32"} | given
    with pytest.raises(ergode.PlanError, match=said):
        ergode.density.propagate(
            field, options.pop("prior", ergode.Gaussian([0.0], [1.0])), device="cpu", **options
        )
