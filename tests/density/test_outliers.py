"""Outlying measurements: noise of Student's distribution, and gates, by every method."""

import numpy as np
import pytest
from density_cases import LINEAR
from scipy import stats
from scipy.linalg import expm

import ergode
from ergode.core.compiler.language import UserFunction
from ergode.core.errors import ModelError

VALUES = dict(zip("abcdef", (-0.3, -2.0, 1.5, 0.1, 0.2, -0.1), strict=True))
FLOW = np.array([[-0.3, -2.0, 0.2], [1.5, 0.1, -0.1], [0.0, 0.0, 0.0]])
MEAN, SPREAD = np.array([1.0, 0.5]), np.array([[1.0, 0.2], [0.2, 0.5]])
PRIOR = ergode.Gaussian(MEAN, SPREAD)
SCALE = np.array([[0.1, 0.03], [0.03, 0.2]])
NAN = float("nan")


def both(y, t, p):
    return y[0], y[0] + y[1]


def first(y, t, p):
    return (y[0],)


def bearing(y, t, p):
    return (3.0 + 0.2 * y[0],)


def grid_or_flow(prior, times=(0.0, 0.5, 1.0), **named):
    return ergode.density.propagate(
        LINEAR, prior, times=times, parameters=VALUES, device="cpu:1", keep="none", **named
    )


def particles(prior, times=(0.0, 0.5, 1.0), **named):
    return ergode.particles.propagate(
        LINEAR, prior, times=times, parameters=VALUES, device="cpu:1", count=400_000, seed=3,
        keep="none", **named
    )  # fmt: skip


def kalman(prior, times=(0.0, 0.5, 1.0), **named):
    return ergode.particles.unscented_kalman(
        LINEAR, prior, times=times, parameters=VALUES, device="cpu:1", **named
    )


CALLS = {
    "split": lambda prior, **named: grid_or_flow(
        prior, scheme="split", width=0.05, threshold=1e-9, **named
    ),
    "flow": lambda prior, **named: grid_or_flow(prior, scheme="flow", **named),
    "flow with noise": lambda prior, **named: grid_or_flow(
        prior, scheme="flow", process_noise=[1e-12, 1e-12], **named
    ),
    "particles": particles,
    "kalman": kalman,
}
# Deviations by which means may be off, and relative errors of deviations: 400,000 particles, of
# which a tenth count, have 5 * sqrt(1 / 40,000).
NEAR = {
    "split": 0.01, "flow": 0.003, "flow with noise": 0.001, "particles": 0.025, "kalman": 1e-5,
}  # fmt: skip


def step(duration):
    """The linear flow: y -> move @ y + shift."""
    whole = expm(FLOW * duration)
    return whole[:2, :2], whole[:2, 2]


def student_posterior(value, freedom):
    """Mean, covariance and log evidence at time 0.5, by quadrature over the state."""
    move, shift = step(0.5)
    mean, covariance = move @ MEAN + shift, move @ SPREAD @ move.T
    z = np.linspace(-8, 8, 401)
    grid = np.stack(np.meshgrid(z, z, indexing="ij"), -1).reshape(-1, 2)
    y = mean + grid @ np.linalg.cholesky(covariance).T
    seen = np.stack([y[:, 0], y[:, 0] + y[:, 1]], -1)
    known = np.isfinite(value)
    like = stats.multivariate_t(
        np.array(value)[known], SCALE[np.ix_(known, known)], df=freedom
    ).pdf(seen[:, known])
    weight = like * np.exp(-0.5 * (grid**2).sum(1)) / (2 * np.pi) * (z[1] - z[0]) ** 2
    total = weight.sum()
    mean = weight @ y / total
    return mean, ((y - mean) * weight[:, None]).T @ (y - mean) / total, np.log(total)


def assert_near(found, which, time, mean, covariance, near):
    deviation = np.sqrt(np.diag(covariance))
    row = found["mean"][which].sel(time=time) if which is not None else found["mean"].sel(time=time)
    wide = found["covariance"] if which is None else found["covariance"][which]
    assert np.abs((row.values - mean) / deviation).max() < near
    ratio = np.sqrt(np.diag(wide.sel(time=time).values)) / deviation
    assert np.abs(ratio - 1.0).max() < near


@pytest.mark.slow
@pytest.mark.parametrize("name", ["split", "flow", "flow with noise", "particles"])
def test_noise_of_student_is_that_of_quadrature(name):
    """Values near the density and far from it, with 3 and with one degrees of freedom."""
    for value, freedom in (([0.4, 0.7], 3.0), ([-2.5, 1.5], 1.0)):
        seen = ergode.Measurement(0.5, both, value, SCALE, degrees_of_freedom=freedom)
        found = CALLS[name](PRIOR, measurements=[seen])
        mean, covariance, evidence = student_posterior(value, freedom)
        near = max(NEAR[name], 0.003)  # no cell is a Gaussian after it
        assert_near(found, None, 0.5, mean, covariance, near)
        assert float(found["log_evidence"][0]) == pytest.approx(evidence, abs=near)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flow", "flow with noise", "particles"])
def test_many_degrees_of_freedom_are_gaussian(name):
    """The constant of the density is a difference of large numbers."""
    value = [0.4, 0.7]
    plain = CALLS[name](PRIOR, measurements=[ergode.Measurement(0.5, both, value, SCALE)])
    for freedom in (1e7, 1e12, 1e16, 1e300):
        seen = ergode.Measurement(0.5, both, value, SCALE, degrees_of_freedom=freedom)
        found = CALLS[name](PRIOR, measurements=[seen])
        np.testing.assert_allclose(found["log_evidence"], plain["log_evidence"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["split", "flow", "flow with noise"])
def test_student_noise_of_a_component_that_is_missing_is_that_of_the_others(name):
    rows = [[0.4, 0.7], [NAN, 0.7], [0.4, NAN], [NAN, NAN]]
    seen = ergode.Measurement(0.5, both, rows, SCALE, degrees_of_freedom=4)
    found = CALLS[name]([PRIOR] * 4, measurements=[seen])
    for which, row in enumerate(rows[:3]):
        mean, covariance, evidence = student_posterior(row, 4)
        near = max(NEAR[name], 0.003)
        assert_near(found, which, 0.5, mean, covariance, near)
        assert float(found["log_evidence"][which, 0]) == pytest.approx(evidence, abs=near)
    assert float(found["log_evidence"][3, 0]) == pytest.approx(0.0, abs=1e-9)


def filtered(values, gate):
    """The Kalman filter with a gate: distances, log evidences, and the last mean and covariance."""
    mean, covariance, distances, evidences = MEAN, SPREAD, [], []
    move, shift = step(0.25)
    H = np.array([[1.0, 0.0], [1.0, 1.0]])
    for value in values:
        mean, covariance = move @ mean + shift, move @ covariance @ move.T
        expected, wide = H @ mean, H @ covariance @ H.T + SCALE
        away = np.array(value) - expected
        distances.append(np.sqrt(away @ np.linalg.solve(wide, away)))
        evidences.append(0.0)
        if distances[-1] <= gate:
            evidences[-1] = stats.multivariate_normal(expected, wide).logpdf(value)
            gain = covariance @ H.T @ np.linalg.inv(wide)
            mean, covariance = mean + gain @ away, covariance - gain @ H @ covariance
    return np.array(distances), np.array(evidences), mean, covariance


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_a_gate_leaves_out_what_is_far_from_the_expected_value(name):
    """The Kalman filter, of two series: one has an outlier in the middle, the other has none."""
    series = [
        [[1.2, 1.9], [9.0, -6.0], [-0.2, 1.6], [-0.7, 0.8]],
        [[1.2, 1.9], [0.4, 2.1], [-0.2, 1.6], [-0.7, 0.8]],
    ]
    times = [0.25, 0.5, 0.75, 1.0]
    for which, values in enumerate(series):
        distances, evidences, mean, covariance = filtered(values, 4.0)
        if name == "particles":
            rows, prior = values, PRIOR
        else:
            rows, prior = [list(pair) for pair in zip(*series, strict=True)], [PRIOR] * 2
        seen = [
            ergode.Measurement(t, both, row, SCALE, gate=4.0)
            for t, row in zip(times, rows, strict=True)
        ]
        found = CALLS[name](prior, times=(0.0, 1.0), measurements=seen)
        one = None if name == "particles" else which
        mine = found if one is None else found.isel(trajectory=which)
        assert (distances > 4.0).tolist() == [False, which == 0, False, False]
        assert mine["left_out"].values.tolist() == [0, int(which == 0), 0, 0]
        apart = np.abs(mine["innovation_distance"].values / distances - 1.0)
        assert apart.max() < 3 * NEAR[name]
        assert np.abs(mine["log_evidence"].values - evidences).max() < 5 * NEAR[name]
        assert_near(found, one, 1.0, mean, covariance, 2 * NEAR[name])


@pytest.mark.parametrize("name", ["split", "flow", "particles", "kalman"])
def test_the_distance_of_an_angle_is_the_short_way(name):
    """Angles beside pi: the mean is 3.2, and -3.0 is as far from it as 3.28."""
    distances = []
    for value in (-3.0, 2 * np.pi - 3.0):
        seen = ergode.Measurement(0.0, bearing, value, 0.01, angles=[0], gate=np.inf)
        found = CALLS[name](PRIOR, times=(0.0, 0.1), measurements=[seen])
        distances.append(float(found["innovation_distance"][0]))
    exact = (2 * np.pi - 3.0 - 3.2) / np.sqrt(0.04 + 0.01)
    assert distances == pytest.approx([exact] * 2, abs=0.01)


def test_results_without_gates_say_nothing_of_them():
    found = grid_or_flow(PRIOR, measurements=[ergode.Measurement(0.5, first, 0.0, 1.0)])
    assert "left_out" not in found
    seen = [ergode.Measurement(0.5, first, 0.0, 1.0, gate=3), ergode.Measurement(1, first, 0, 1)]
    found = grid_or_flow(PRIOR, measurements=seen)
    assert np.isnan(found["innovation_distance"].values).tolist() == [False, True]


def test_instruments_and_smoothing_take_gates():
    """A gate is decided once: with later measurements too, an outlier stays out."""
    far = ergode.Measurement.range(0.25, 40.0, 0.01, position=(0, 1), gate=5.0)
    near = ergode.Measurement.range(0.5, 1.5, 0.0004, position=(0, 1), gate=5.0)
    found = grid_or_flow(PRIOR, scheme="flow", measurements=[far, near], smooth=True)
    alone = grid_or_flow(PRIOR, scheme="flow", measurements=[near], smooth=True)
    assert found["left_out"].values.tolist() == [1, 0]
    assert np.allclose(found["mean"], alone["mean"], atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gate": 0.0}, "gate"), ({"gate": "3"}, "gate"), ({"gate": NAN}, "gate"),
        ({"degrees_of_freedom": -1}, "degrees_of_freedom"),
        ({"degrees_of_freedom": np.inf}, "degrees_of_freedom"),
    ],
)  # fmt: skip
def test_what_is_no_gate(options, message):
    with pytest.raises(ModelError, match=message):
        ergode.Measurement(0.5, first, 0.0, 1.0, **options)
    with pytest.raises(ModelError, match=f"a likelihood and h.*{message}"):
        ergode.Measurement(0.5, likelihood=first, **dict.fromkeys(options, 2.0))


def test_a_kalman_filter_refuses_noise_of_student():
    seen = ergode.Measurement(0.5, first, 0.0, 1.0, degrees_of_freedom=3)
    with pytest.raises(ModelError, match="degrees_of_freedom"):
        kalman(PRIOR, measurements=[seen])


def test_kernels_of_student_compile_for_a_gpu():
    pytest.importorskip("numba_cuda")
    from ergode.core import kernels
    from ergode.core.devices import cuda
    from ergode.density.flow import sums
    from ergode.density.grid import lattice
    from ergode.models.estimation import likelihood

    seen = ergode.Measurement(0.5, both, [0.0, 0.0], SCALE, degrees_of_freedom=3)
    bindings = likelihood.bindings_of(seen) | {lattice.DIMENSION: 2, lattice.PARAMETERS: 0}
    bindings[likelihood.H] = UserFunction(both, (2,))
    cuda.ptx(
        kernels.for_each(sums.weigh, bindings=bindings).compiled("cuda"),
        (
            0, 4, 4, 0.0, np.zeros((1, 0)), np.zeros((1, 3)), np.zeros((1, 2, 2)),
            np.zeros((2, 1, 4)), np.zeros((1, 4)), np.zeros((2, 1), np.int64),
        ), optimized=False,
    )  # fmt: skip
