"""Particles against the Kalman filter and the grid; what a comparison says where both are right."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import kstest

import ergode
from ergode import trajectories
from ergode.core.errors import AccuracyWarning, ModelError, PlanError

PRIOR = ergode.Gaussian([1.0, 0.0], [0.3, 0.3])
SEEN = ((0.5, 0.7), (1.0, 0.1), (1.5, -0.4), (2.0, -0.2))
COUNT = 40_000


def damped(t, y, p):
    return y[1], -p[0] * y[0] - p[1] * y[1]


def first(y, t, p):
    return (y[0],)


FIELD = ergode.VectorField(damped, ["x", "v"], ["stiffness", "friction"])
VALUES = {"stiffness": 1.0, "friction": 0.5}
MEASUREMENTS = [ergode.Measurement(t, first, value, 0.2) for t, value in SEEN]


def filtered(prior=PRIOR, **options):
    settings = {"times": [0, 0.5, 1, 1.5, 2], "measurements": MEASUREMENTS} | options
    return ergode.particles.propagate(
        FIELD, prior, parameters=VALUES, count=COUNT, seed=5, device="cpu", **settings
    )


def test_all_priors_mean_the_same():
    """One Gaussian, told in four ways."""
    rng = np.random.default_rng(3)
    points = rng.multivariate_normal(PRIOR.mean, PRIOR.covariance, 200_000)
    told = [
        PRIOR,
        ergode.Mixture([1, 3], [PRIOR, PRIOR]),
        ergode.Samples(points),
        ergode.Density(lambda x: PRIOR.log_density(x) + 3.0, PRIOR.mean, 1.5 * PRIOR.covariance),
    ]
    for prior in told:
        found = filtered(prior, times=[0, 0.5], measurements=())
        assert np.allclose(found["mean"][0], PRIOR.mean, atol=6 * np.sqrt(0.3 / COUNT) * 1.3)
        assert np.allclose(found["covariance"][0], PRIOR.covariance, atol=0.02)


def test_draws_have_the_law_of_the_prior():
    """A quarter and three quarters in two Gaussians apart, each with its own correlation."""
    parts = [
        ergode.Gaussian([-9.0, 2.0], [[1.0, 0.6], [0.6, 0.5]]),
        ergode.Gaussian([9.0, -1.0], [[0.3, -0.2], [-0.2, 0.9]]),
    ]
    count = 1_000_000
    found = ergode.particles.propagate(
        FIELD, ergode.Mixture([1, 3], parts), parameters=VALUES, times=[0], count=count, seed=7,
        device="cpu",
    )  # fmt: skip
    points = found["particle"].values[0]
    of_second = points[:, 0] > 0
    assert abs(of_second.mean() - 0.75) < 6 * np.sqrt(0.75 * 0.25 / count)
    for part, own in zip(parts, (points[~of_second], points[of_second]), strict=True):
        z = np.linalg.solve(np.linalg.cholesky(part.covariance), (own - part.mean).T)
        assert min(kstest(z[0], "norm").pvalue, kstest(z[1], "norm").pvalue) > 1e-7
        bound = 6 / np.sqrt(len(own))
        assert abs(np.mean(z[0] * z[1])) < bound
        assert np.abs((z**2).mean(axis=1) - 1).max() < np.sqrt(2) * bound


def test_a_result_does_not_depend_on_how_often_it_is_looked_at():
    """Nor is it another when asked for again."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, again = (filtered(times=[0, 2]) for _ in range(2))
        often = filtered()
    assert np.array_equal(one["particle"], again["particle"])
    assert np.array_equal(one["log_evidence"], again["log_evidence"])
    assert np.allclose(one["mean"][-1], often["mean"][-1], atol=1e-5)
    assert dict(often.sizes)["kept"] == 1 and dict(filtered(keep="none").sizes)["kept"] == 0


def test_an_interruption_keeps_the_times_that_were_reached(monkeypatch):
    """A flight of which a part was done is no cloud: its particles are in no mean."""
    whole = filtered(keep="none")
    fly, flights = trajectories.integrate, []

    def interrupted(*arguments, **options):
        found = fly(*arguments, **options)
        flights.append(1)
        if len(flights) == 3:
            found["status"][1:] = ergode.Status.NOT_RUN
            found["state"][1:] = np.nan
            found.attrs["interrupted"] = 1
        return found

    monkeypatch.setattr(trajectories, "integrate", interrupted)
    with pytest.warns(ergode.InterruptionWarning, match="interrupted: 3 of 5 times"):
        found = filtered(keep="last")
    assert found.attrs["interrupted"] == 1 and found.attrs["particles_lost"] == 0
    for name in ("mean", "covariance", "effective_count"):
        np.testing.assert_array_equal(found[name][:3], whole[name][:3])
        assert np.isnan(found[name][3:]).all()
    for name in ("log_evidence", "prior_mean", "effective_count_at_measurement"):
        np.testing.assert_array_equal(found[name][:2], whole[name][:2])
        assert np.isnan(found[name][2:]).all()
    assert found["kept"].values.tolist() == [1.0]
    flights[:] = [1, 1]
    with pytest.raises(KeyboardInterrupt):
        filtered()


def test_comparison_where_both_are_right():
    found = ergode.particles.compare(
        FIELD, PRIOR, times=[0, 1, 2], parameters=VALUES, process_noise=[0.1, 0.3], width=0.08,
        threshold=1e-8, measurements=MEASUREMENTS[:2], count=COUNT, step=0.02, bins=30,
        device="cpu",
    )  # fmt: skip
    assert (found["total_variation"] < 3 * found["total_variation_by_chance"] + 0.01).all()
    assert (found["wasserstein"] < 4 * found["wasserstein_by_chance"] + 0.01).all()
    for name in ("mean", "deviation"):
        away = np.abs(found[name].sel(tool="density") - found[name].sel(tool="particles"))
        assert (away < 6 * found[f"{name}_error"] + 0.004).all()
    assert (np.ptp(found["log_evidence"].values, axis=0) < 0.05).all()
    size = np.diff(found["position"].values, axis=-1)[..., :1]
    assert np.allclose((found["marginal"] * size).sum("bin"), 1, atol=0.003)
    figure = ergode.plots.comparison(found)
    assert len(figure.axes) == 6
    with pytest.raises(PlanError, match="the dataset has"):
        ergode.plots.comparison(found, [0.3])


def test_comparison_sees_a_grid_that_is_too_coarse():
    """Half a turn of a narrow density on wide cells: smeared, and told so beyond chance."""
    prior = ergode.Gaussian([2.0, 0.0], [0.01, 0.01])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = ergode.particles.compare(
            FIELD, prior, times=[0, 3], parameters=VALUES, width=0.15, count=COUNT, device="cpu"
        )
    last = found.isel(time=-1)
    assert (last["total_variation"] > 10 * last["total_variation_by_chance"]).all()


def test_few_particles_that_count_are_told():
    far = ergode.Measurement(0.5, first, 4.0, 0.01)
    with pytest.warns(RuntimeWarning, match="effective sample size"):
        filtered(times=[0, 1], measurements=[far])


COLLAPSE = [
    ergode.Measurement(0.5, first, 8.0, 1e-3), ergode.Measurement(1.0, first, 0.0, 0.2)
]  # fmt: skip


def test_one_particle_that_is_left_is_not_many():
    """Drawn anew, it is one all the same: in the result, and in the warning."""
    with pytest.warns(AccuracyWarning, match=r"of 40000 particles: .* from time 0.5 on"):
        found = filtered(
            times=[0, 0.5, 0.75, 1], measurements=COLLAPSE, process_noise=[0.1, 0.3], step=0.02
        )
    assert found.attrs["times_resampled"] > 0
    assert float(found["effective_count_at_measurement"][0]) < 10
    assert float(found["effective_count"][1]) < 10
    assert float(found["unreliable_from"]) == 0.5
    # However few rows are asked for.
    with pytest.warns(AccuracyWarning, match="effective sample size"):
        rarely = filtered(times=[0, 1], measurements=COLLAPSE, process_noise=[0.1, 0.3], step=0.02)
    assert float(rarely["effective_count"][-1]) < 10


def test_copies_count_as_one_where_no_noise_sets_them_apart():
    with pytest.warns(AccuracyWarning, match="effective sample size"):
        found = filtered(times=[0, 0.5, 0.75, 1], measurements=COLLAPSE, resample_below=0.5)
    assert (found["effective_count"][1:] < 10).all()
    assert len(np.unique(found["particle"].values[0], axis=0)) < 50


def test_a_comparison_tells_of_few_particles_too():
    with pytest.warns(AccuracyWarning) as caught:
        found = ergode.particles.compare(
            FIELD, PRIOR, times=[0, 1], parameters=VALUES, process_noise=[0.1, 0.3], width=0.2,
            measurements=COLLAPSE, count=COUNT, step=0.02, device="cpu",
        )  # fmt: skip
    assert any("effective sample size" in str(one.message) for one in caught)
    assert float(found["effective_count"][-1]) < 10
    assert (found["unreliable_from"][:2] == 0.5).all()  # of the grid too


@pytest.mark.parametrize(
    ("error", "message", "settings"),
    [
        (PlanError, "count", {"count": 1}),
        (PlanError, "keep 'some'", {"keep": "some"}),
        (PlanError, "step", {"step": -1}),
        (PlanError, "a step is given; expected step or rtol", {"step": 0.1, "rtol": 1e-3}),
        (PlanError, "there is noise", {"process_noise": [0.1, 0.1], "rtol": 1e-3}),
        (PlanError, "resample_below", {"resample_below": 2}),
        (ModelError, "times of the run", {"times": [0, 1]}),
        (ModelError, "one at a time", {"parameters": {"stiffness": [1, 2], "friction": 0}}),
        (PlanError, "impossible", {"measurements": [ergode.Measurement(0, first, 1e200, 1e-300)]}),
    ],
)
def test_bad_settings(error, message, settings):
    options = {"times": [0, 2], "measurements": MEASUREMENTS, "parameters": VALUES, "count": 100}
    with pytest.raises(error, match=message):
        ergode.particles.propagate(FIELD, PRIOR, device="cpu", **(options | settings))


def test_draws_compile_for_cuda():
    """Likelihoods and moments are those of densities that follow the flow."""
    pytest.importorskip("numba_cuda")
    from ergode.core import kernels
    from ergode.core.devices import cuda
    from ergode.particles.draw import scatter, take

    points, one = np.zeros((2, 1, 4)), np.ones((1, 2))
    number = np.uint64(1), np.uint32(2)
    for body, rest in (
        (scatter, (*number, np.ones(1), one, np.ones((1, 2, 2)), 0.5, points)),
        (take, (np.zeros(4, np.int64), points, points)),
    ):
        kernel = kernels.for_each(body, bindings={"DIMENSION": 2}).compiled("cuda")
        assert "__local_depot" not in cuda.ptx(kernel, (0, 4, *rest))


def test_expected_measurements_compile_for_cuda():
    pytest.importorskip("numba_cuda")
    from ergode.core import kernels
    from ergode.core.compiler.language import UserFunction
    from ergode.core.devices import cuda
    from ergode.models.estimation.gate import PARAMETERS, VARIABLES, expected_at
    from ergode.models.estimation.likelihood import COMPONENTS, H

    bindings = {H: UserFunction(angle), COMPONENTS: 2, VARIABLES: 2, PARAMETERS: 1}
    kernel = kernels.for_each(expected_at, bindings=bindings).compiled("cuda")
    arguments = (0, 4, np.zeros((4, 2)), 0.0, np.zeros((4, 1)), np.zeros((4, 2)))
    assert "__local_depot" not in cuda.ptx(kernel, arguments)


def angle(y, t, p):
    return y[0] * p[0], math.atan2(y[1], y[0])


def test_a_spacecraft_near_europa():
    """A quarter of the published arc, with its bounds: cells still follow what is drawn out."""
    field = ergode.fields.planar_three_body()
    prior = ergode.Gaussian(
        [1.0169962521469986, 0, 0, 0.012575912545456968], [2.2375e-8] * 2 + [5.2767e-7] * 2
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = ergode.particles.compare(
            field, prior, times=[0, 0.889584448745932 / 4], parameters={"mu": 2.52801752854e-5},
            threshold=1e-7, conserved=ergode.fields.planar_jacobi_constant, count=100_000,
            device="cpu",
        )  # fmt: skip
    grid, cloud, _ = found["deviation"].values[:, -1]
    assert np.allclose(grid, cloud, rtol=0.04)  # standard error 0.2 %, the grid's own 1 to 3 %
    mean = found["mean"].values[:, -1]
    assert (np.abs(mean[0] - mean[1]) < 0.015 * cloud).all()
    assert float(found["total_variation"].max()) < 0.04
    assert float(found["mass_lost"][-1]) < 0.001
