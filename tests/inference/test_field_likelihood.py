"""field_likelihood against a closed form, its gradient against differences, and in libraries."""

import numpy as np
import pytest
from scipy import stats

import ergode
from ergode import ModelError, PlanError

FIELD = ergode.field_from_equations({"x": "-k * x", "y": "k * x"}, ["k"])
TIMES = np.array([0.0, 0.5, 1.0, 2.0])
X, Y = np.array([np.nan, 5.8, 3.9, 1.2]), np.array([np.nan, 4.4, np.nan, 8.3])


def decay(**changes):
    given = {
        "times": TIMES, "data": {"x": X, "y": Y}, "initial": {"x": 10.0, "y": 0.5},
        "estimate": ["k", "x", "sd"], "deviation": {"x": "sd", "y": 0.3}, "device": "cpu",
        "rtol": 1e-9, "atol": 1e-12,
    }  # fmt: skip
    return ergode.field_likelihood(FIELD, **given | changes)


def known(theta, logarithms=False):
    k, start, sd = theta
    x = start * np.exp(-k * TIMES)
    y = 0.5 + start - x
    law = (
        (lambda s, m: stats.lognorm(s, scale=m)) if logarithms else (lambda s, m: stats.norm(m, s))
    )
    each = [law(sd, x).logpdf(X), law(0.3, y).logpdf(Y)]
    return np.nansum(each)


THETA = np.array([[1.0, 10.0, 0.4], [0.7, 11.0, 0.9], [1.3, 8.0, 0.2]])


@pytest.mark.parametrize("errors", ["normal", "log-normal"])
def test_value_and_gradient(errors):
    likelihood = decay(errors=errors)
    value, gradient = likelihood.value_and_gradient(THETA)
    expected = [known(theta, errors != "normal") for theta in THETA]
    np.testing.assert_allclose(value, expected, rtol=1e-7)
    np.testing.assert_allclose(likelihood(THETA), expected, rtol=1e-7)
    for k in range(3):
        step = 1e-5 * np.eye(3)[k]
        slopes = [
            (known(theta + step, errors != "normal") - known(theta - step, errors != "normal"))
            / 2e-5
            for theta in THETA
        ]
        np.testing.assert_allclose(gradient[:, k], slopes, rtol=1e-5, atol=1e-5)
    one = likelihood.value_and_gradient(THETA[1])
    assert np.ndim(one[0]) == 0 and one[1].shape == (3,)


def test_rows_without_a_likelihood():
    theta = [[1.0, 10.0, -0.4], [np.nan, 1.0, 1.0], THETA[0]]
    value, gradient = decay().value_and_gradient(theta)
    assert list(value[:2]) == [-np.inf] * 2 and np.isfinite(value[2])
    assert (gradient[:2] == 0).all() and (gradient[2] != 0).all()
    assert decay(errors="log-normal")([1.0, -3.0, 0.1]) == -np.inf


def test_chains_take_it():
    """A normal mean, whose posterior is known: the states do not move."""
    still = ergode.field_from_equations({"x": "-k * x", "y": "k * x"}, ["k"])
    likelihood = ergode.field_likelihood(
        still, times=TIMES, data={"y": [1.0, 2.0, 1.5, 1.9]}, initial={"x": 0.0, "y": 0.0},
        parameters={"k": 1.0}, estimate=["y"], deviation=0.5, device="cpu",
    )  # fmt: skip
    found = ergode.pseudo_marginal(
        likelihood, {"y": stats.norm(0, 100)}, chains=50, warmup=60, draws=60, seed=1
    )["y"].values
    assert abs(found.mean() - 1.6) < 0.04 and abs(found.std() / 0.25 - 1) < 0.1


def test_jax_differentiates_it():
    jax = pytest.importorskip("jax")
    value = decay().jax()
    rows = jax.numpy.asarray(THETA)
    many, slopes = jax.jit(jax.vmap(jax.value_and_grad(value)))(rows)
    straight = decay().value_and_gradient(THETA)
    np.testing.assert_allclose(many, straight[0], rtol=1e-4)
    np.testing.assert_allclose(slopes, straight[1], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(jax.jit(value)(rows[0]), straight[0][0], rtol=1e-4)
    with pytest.raises(PlanError, match=r"expected \(3,\): use jax.vmap"):
        value(rows)


def test_blackjax_samples_it():
    """NUTS, against chains of this package."""
    blackjax, jax = pytest.importorskip("blackjax"), pytest.importorskip("jax")
    likelihood = decay(estimate=["k", "x"], deviation=0.3)
    value = likelihood.jax()
    kernel = blackjax.nuts(
        lambda theta: value(theta), step_size=0.7,
        inverse_mass_matrix=jax.numpy.array([0.004, 0.06]),
    )  # fmt: skip
    state, step = kernel.init(jax.numpy.array([1.0, 10.0])), jax.jit(kernel.step)
    drawn = []
    for key in jax.random.split(jax.random.key(1), 200):
        state, _ = step(key, state)
        drawn.append(np.asarray(state.position))
    ours = ergode.pseudo_marginal(
        likelihood, {"k": (0.01, 4), "x": (1, 30)}, chains=50, warmup=60, draws=60, seed=1
    )
    for name, values in zip(("k", "x"), np.array(drawn).T, strict=True):
        known = ours[name].values
        assert abs(values.mean() - known.mean()) < 0.4 * known.std()
        assert abs(values.std() / known.std() - 1) < 0.4


def test_pytensor_differentiates_it():
    pytensor = pytest.importorskip("pytensor")
    theta = pytensor.tensor.dvector()
    value = decay().pytensor()(theta)
    both = pytensor.function([theta], [value, pytensor.grad(value, theta)])
    straight = decay().value_and_gradient(THETA[0])
    for one, other in zip(both(THETA[0]), straight, strict=True):
        np.testing.assert_allclose(one, other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {"z": X}}, "'z', which is no variable"),
        ({"data": {"x": [1.0]}}, "expected a number for each of 4 times"),
        ({"data": {"x": np.full(4, np.nan)}}, "no measured value"),
        ({"estimate": ["k", "q", "sd"]}, "estimate has 'q'"),
        ({"estimate": ["k", "x"]}, "'sd', which estimate does not have"),
        ({"deviation": {"x": 0.1}}, "deviation has no 'y'"),
        ({"deviation": 0.0}, "expected a positive number"),
        ({"replicates": 3}, "option 'replicates' is unknown"),
        ({"errors": "log-normal", "data": {"x": [0.0, 1, 1, 1]}, "deviation": "sd"}, "values <= 0"),
    ],
)  # fmt: skip
def test_what_is_refused(changes, message):
    with pytest.raises(ModelError, match=message):
        decay(**changes)
    with pytest.raises(ModelError, match="has noise"):
        noisy = ergode.field_from_equations({"x": "-k*x"}, ["k"], diffusion={"x": "0.3"})
        ergode.field_likelihood(
            noisy, times=TIMES, data={"x": X}, initial={"x": 1.0}, estimate=["k"], deviation=1.0
        )
