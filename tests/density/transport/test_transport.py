"""Both schemes against dense arrays, exact solutions and the published run."""

import warnings

import numpy as np
import pytest
from density_cases import LINEAR, lorenz, on_plane
from density_reference import corner_transport, split

import ergode
from ergode.density import runner, views
from ergode.density.methods import GRIDS

SCHEMES = tuple(GRIDS)
BOTH = pytest.mark.parametrize("scheme", SCHEMES)
TURN = 2 * np.pi * np.array([[0.0, -1.0], [1.0, 0.0]])
NOWHERE = np.zeros((2, 2))


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def dense(result, half, index=-1):
    """The density at one time as an array of 2 half + 1 cells along each dimension."""
    cells = views.cells_at(result, index=index)
    array = np.zeros((2 * half + 1,) * 2)
    array[tuple(cells["coordinate"].values.T + half)] = cells["mass"]
    return array


def shifted_gaussian(mean, deviation, width, half):
    """Exact masses, at the centres of cells."""
    x = np.arange(-half, half + 1) * width
    row, column = (np.exp(-0.5 * ((x - m) / deviation) ** 2) for m in mean)
    exact = np.outer(row, column)
    return exact / exact.sum()


def test_published_run_of_lorenz_63():
    result = lorenz("corner-transport", np.linspace(0, 2, 9))
    assert result.attrs["steps"] == 963
    assert abs(result.attrs["cell_steps"] / 6_422_606 - 1) < 1e-3
    assert abs(result.attrs["cell_count_most"] / 19_624 - 1) < 1e-3
    deviation = np.sqrt(np.diag(result["covariance"][-1]))
    assert abs(deviation[1] - 2.55) < 0.005


def test_published_run_is_called_unresolved():
    with pytest.warns(RuntimeWarning, match=r"not resolved: .*dropped.* cells"):
        lorenz("corner-transport", (0, 0.5, 1))


# What a million trajectories find just before the measurement: means and deviations.
TRUTH = np.array([[4.870, 5.707, -3.405], [8.750, 15.159, 14.636]])


def error_against_particles(scheme, width):
    """Largest error of the means and deviations at time 1, and the cell-steps it took."""
    result = lorenz(
        scheme,
        (0, 1),
        width=width,
        threshold=5e-7 * (2 * width) ** 3,
        keep="none",
        scale_threshold=False,
    )
    deviation = np.sqrt(np.diag(result["prior_covariance"][0]))
    found = np.array([result["prior_mean"].values[0], deviation])
    return np.abs(found - TRUTH).max(), result.attrs["cell_steps"]


def test_refinement_leads_to_what_particles_find():
    """And split transport comes nearer than corner transport, by little more than half the work."""
    split, corner = (
        [error_against_particles(scheme, width) for width in (0.5, 0.25)] for scheme in SCHEMES
    )
    for ours, theirs in zip(split, corner, strict=True):
        assert ours[0] < 0.9 * theirs[0]
        assert ours[1] < 0.6 * theirs[1]
    assert split[1][0] < 0.4 * split[0][0]
    assert split[1][0] < 1.05


@pytest.mark.slow
@pytest.mark.exhaustive
def test_further_refinement_comes_nearer():
    assert error_against_particles("split", 0.125)[0] < 0.4


@BOTH
def test_sparse_is_dense(scheme):
    """A contracting spiral with a wind, on a grid that holds all, by the formulas as they stand."""
    A = np.array([[-0.7, -2.0], [1.5, -0.4]])
    b = np.array([1.0, -2.0])
    width, half, steps = 0.25, 60, 40
    prior = ergode.Gaussian([0, 0], [0.8, 0.5])
    start = on_plane(A, b, prior, [0], threshold=1e-12, scheme=scheme, width=width)
    p = dense(start, half)
    x = np.arange(-half, half + 1) * width
    X, Y = np.meshgrid(x, x, indexing="ij")
    rates = [
        (A[0, 0] * (X + width / 2) + A[0, 1] * Y + b[0]) / width,
        (A[1, 0] * X + A[1, 1] * (Y + width / 2) + b[1]) / width,
    ]
    # Steps short of what any cell allows, so that both take the same: the times asked for.
    step = 0.004
    result = on_plane(
        A, b, prior, np.arange(steps + 1) * step, threshold=1e-12, scheme=scheme, width=width
    )
    assert result.attrs["steps"] == steps
    for number in range(steps):
        p = corner_transport(p, rates, step) if scheme[0] == "c" else split(
            p, rates, step, bool(number & 1)
        )  # fmt: skip
    # The box of corner transport cuts the prior at three deviations: its edges are not the array's.
    most = {"split": 1e-9, "corner-transport": 1e-4}[scheme]
    assert np.abs(dense(result, half) - p).sum() < most


def rotation_error(scheme, fineness):
    """L1 error after a turn, with `fineness` cells in a standard deviation."""
    deviation = 0.5
    width = deviation / fineness
    prior = ergode.Gaussian([1.5, 0.0], [deviation**2] * 2)
    result = on_plane(
        TURN,
        (0, 0),
        prior,
        [0, 1],
        scheme=scheme,
        width=width,
        threshold=1e-9,
        keep="last",
        scale_threshold=False,
    )
    cells = views.cells_at(result)
    exact = np.exp(-0.5 * (((cells["point"] - prior.mean) / deviation) ** 2).sum("variable"))
    exact *= width**2 / (2 * np.pi * deviation**2)
    outside = 1 - float(exact.sum())
    return float(np.abs(cells["mass"] - exact).sum()) + max(outside, 0.0)


def test_errors_of_a_turn():
    """L1 after one turn at 2, 4 and 8 cells in a deviation; split is ahead, and of higher order."""
    errors = {
        scheme: np.array([rotation_error(scheme, n) for n in (2, 4, 8)]) for scheme in SCHEMES
    }
    assert (errors["split"] < errors["corner-transport"]).all()
    orders = {scheme: np.log2(found[:-1] / found[1:]) for scheme, found in errors.items()}
    assert orders["split"][-1] > 2.7
    assert orders["corner-transport"][-1] > 1.9
    assert np.allclose(errors["split"], (0.214, 0.0441, 0.0059), rtol=0.02)
    assert np.allclose(errors["corner-transport"], (0.275, 0.0734, 0.0170), rtol=0.02)


@BOTH
def test_translation(scheme):
    """A wind moves the mean exactly, and widens the density little."""
    prior = ergode.Gaussian([0, 0], [0.25, 0.25])
    result = on_plane(
        NOWHERE, (3.0, -1.0), prior, [0, 1], scheme=scheme, width=0.125, threshold=1e-10
    )
    assert np.allclose(result["mean"][-1], (3, -1), atol=2e-3)
    assert np.allclose(result["covariance"][-1], 0.25 * np.eye(2), atol=0.01)


def contraction_error(scheme, width):
    """Errors of the mean after a contraction, and the covariance."""
    result = on_plane(
        np.diag([-0.5, -0.25]),
        (0, 0),
        ergode.Gaussian([2.0, -1.0], [1.0, 1.0]),
        [0, 1],
        scheme=scheme,
        width=width,
    )
    expected = (2 * np.exp(-0.5), -np.exp(-0.25))
    return np.abs(result["mean"].values[-1] - expected), result["covariance"].values[-1]


@pytest.mark.parametrize(
    ("scheme", "most", "order"), [("split", 5e-5, 1.9), ("corner-transport", 8e-3, 0.8)]
)
def test_contraction(scheme, most, order):
    """Where the field varies along itself, split is second-order and corner transport first."""
    (coarse, _), (fine, covariance) = (contraction_error(scheme, w) for w in (0.2, 0.1))
    assert (fine < most).all()
    assert (np.log2(coarse / fine) > order).all()
    assert np.allclose(covariance, np.diag(np.exp([-1.0, -0.5])), atol=0.012)


@BOTH
def test_mass_balance(scheme):
    """Every unit of mass is accounted for, whatever the threshold."""
    result = lorenz(scheme, np.linspace(0, 2, 9), threshold=1e-4)
    balance = result["mass_kept"] + result["mass_pruned"] + result["mass_out"] - 1
    assert np.abs(balance).max() < 1e-12
    assert result["mass_lost"][-1] > 1e-3


@BOTH
def test_runs_are_the_same_bit_for_bit(scheme, monkeypatch):
    """However many threads work on a density, and however small it is for them."""
    monkeypatch.setattr(runner, "_CELLS_A_THREAD", 300)
    one, *others = (lorenz(scheme, device=device) for device in ("cpu:1", "cpu:2", "cpu:5"))
    for other in others:
        for name in one.data_vars:
            assert np.array_equal(one[name], other[name], equal_nan=True), name


def test_single_precision():
    one, two = (lorenz("split", (0, 0.5), precision=p) for p in ("float32", "float64"))
    assert np.allclose(one["mean"][-1], two["mean"][-1], atol=2e-3)
    assert abs(one.attrs["cell_steps"] / two.attrs["cell_steps"] - 1) < 1e-3


def test_field_names_are_those_of_the_result():
    result = on_plane(NOWHERE, (1, 1), ergode.Gaussian([0, 0], [1, 1]), [0, 0.1])
    assert list(result["variable"].values) == list(LINEAR.variables)
