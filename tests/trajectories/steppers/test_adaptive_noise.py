"""Adaptive steps with noise: one path for all tolerances, orders, laws and refusals."""

import math

import numpy as np
import pytest
import scipy.stats

import ergode
from ergode.trajectories import ZeroCrossing
from ergode.trajectories.adaptive.bindings import bindings_of
from ergode.trajectories.adaptive.outcome import control_of
from ergode.trajectories.methods import METHODS

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])


def growth(t, y, p):
    return (p[0] * y[0],)


def growth_noise(t, y, p):
    return (p[1] * y[0],)


def relaxation(t, y, p):
    return (-p[0] * y[0],)


def constant_noise(t, y, p):
    return (p[1],)


def shaking(t, y, p):
    return (math.cos(2 * y[0]) * p[0],)


def shaking_noise(t, y, p):
    return (p[1] + 0.5 * math.cos(t),)


def delayed(t, y, yd, p):
    return (-yd[0],)


def delayed_noise(t, y, yd, p):
    return (p[1],)


def level(t, y, p):
    return y[0] - 0.5


def begin_again(t, y, p):
    return (1.0,)


NAMES = ["x"], ["rate", "noise"]
GBM = ergode.VectorField(growth, *NAMES, diffusion=growth_noise)
OU = ergode.VectorField(relaxation, *NAMES, diffusion=constant_noise)
SHAKEN = ergode.VectorField(shaking, *NAMES, diffusion=shaking_noise)
LATE = ergode.VectorField(delayed, ["x"], ["tau", "noise"], [("x", "tau")], diffusion=delayed_noise)
FREE = {"initial": {"x": 0.0}, "parameters": {"rate": 0.0, "noise": 1.0}}
GROWN = {"initial": {"x": 1.0}, "parameters": {"rate": 0.5, "noise": 0.8}}


def solve(field, **options):
    given = {"times": [0.0, 0.5, 1.0], "seed": 3, "device": "cpu", "replicates": 1000, **options}
    return ergode.trajectories.integrate(field, **given)


@DEVICES
def test_a_path_is_one_in_steps_of_any_size(device):
    """At times within cells too; and it is a Wiener process."""
    times = [0.0, 0.1234, 0.3, 0.777, 1.0]
    wide, fine = (
        solve(OU, times=times, max_step=most, device=device, **FREE) for most in (None, 1e-3)
    )
    assert fine.attrs["steps_taken"] > 4 * wide.attrs["steps_taken"]
    np.testing.assert_allclose(fine["state"], wide["state"], atol=1e-4)
    few = solve(OU, times=times, replicates=range(2, 5), device=device, **FREE)
    np.testing.assert_array_equal(few["state"], wide["state"][2:5])
    steps = np.diff(wide["state"].values[:, :, 0], axis=1) / np.sqrt(np.diff(times))
    deviation = np.sqrt(1 / 1000)
    np.testing.assert_allclose(np.cov(steps.T), np.eye(4), atol=5 * math.sqrt(2) * deviation)
    np.testing.assert_allclose(steps.mean(0), 0.0, atol=5 * deviation)
    again = solve(OU, method="milstein", max_step=0.01, device=device, **FREE)
    np.testing.assert_allclose(again["state"][:, -1], wide["state"][:, -1], atol=1e-12)


@DEVICES
def test_geometric_brownian_motion_is_the_exact_one_of_its_path(device):
    """The error is about the tolerance, and falls with the number of steps to the power -1."""
    w = solve(OU, device=device, **FREE)["state"].values[..., 0]
    t = np.array([0.0, 0.5, 1.0])
    exact = np.exp((0.5 - 0.32) * t + 0.8 * w)
    errors, steps = [], []
    for tolerance in (3e-3, 1e-3, 2e-4):
        found = solve(GBM, rtol=tolerance, atol=1e-9, device=device, **GROWN)
        assert found.attrs["method"] == "milstein" and (found["status"] == 0).all()
        errors.append(np.abs(found["state"].values[..., 0] / exact - 1.0).mean(0)[-1])
        steps.append(found.attrs["steps_taken"] / 1000)
        assert 0.2 * tolerance < errors[-1] < 2 * tolerance
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(-1.0, abs=0.15)


def test_additive_noise_has_order_three_halves():
    given = {"initial": {"x": 0.3}, "parameters": {"rate": 1.0, "noise": 1.0}, "replicates": 300}
    exact = solve(SHAKEN, rtol=1e-6, atol=1e-6, **given)["state"][:, -1, 0]
    errors, steps = [], []
    for tolerance in (1e-3, 2e-4, 4e-5):
        found = solve(SHAKEN, rtol=tolerance, atol=tolerance, **given)
        assert found.attrs["method"] == "sra1"
        errors.append(float(np.abs(found["state"][:, -1, 0] - exact).mean()))
        steps.append(found.attrs["steps_taken"] / 300)
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(-1.5, abs=0.15)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_moments_of_an_ornstein_uhlenbeck_process(precision):
    times = np.array([0.0, 0.31, 1.0, 2.5])
    found = solve(
        OU, times=times, replicates=10_000, precision=precision, initial={"x": 2.0},
        parameters={"rate": 1.5, "noise": 0.7},
    )["state"].values[..., 0]  # fmt: skip
    mean, variance = 2.0 * np.exp(-1.5 * times), 0.49 / 3.0 * (1.0 - np.exp(-3.0 * times))
    np.testing.assert_allclose(found.mean(0), mean, atol=5 * np.sqrt(variance.max() / 10_000))
    np.testing.assert_allclose(found.var(0), variance, rtol=5 * np.sqrt(2 / 10_000))


def test_a_path_that_stays_calm_takes_fewer_steps():
    """Steps follow the noise of each trajectory; crossings of a level are counted on the way."""
    found = ergode.trajectories.integrate(
        GBM, times=[0.0, 1.0], initial={"x": 1.0}, device="cpu", rtol=1e-3, seed=1,
        parameters={"rate": 0.5, "noise": [0.05, 0.8]}, events=[ZeroCrossing(level)],
    )  # fmt: skip
    calm, wild = found["step_count"].values
    assert calm < 100 and wild > 400
    assert found["event_count"][0, 0] == 0


@DEVICES
def test_passages_that_act_have_their_law(device):
    """log(x) is noise W.  From 1 to 1/2, n times: as W from 0 to n log(2) / noise."""
    n, noise = 10_000, 0.8
    found = solve(
        GBM, replicates=n, initial={"x": 1.0}, parameters={"rate": noise**2 / 2, "noise": noise},
        events=[ZeroCrossing(level, -1, begin_again)], rtol=2e-3, device=device,
    )  # fmt: skip
    passages = found["event_count"].values[:, 0].astype(int)
    at_least = np.array([1.0, *(2 * scipy.stats.norm.sf(k * math.log(2) / noise)
                                for k in (1, 2, 3))])  # fmt: skip
    known = n * -np.diff([*at_least, 0.0])
    observed = [*np.bincount(passages, minlength=3)[:3], (passages > 2).sum()]
    assert scipy.stats.chisquare(observed, known).pvalue > 1e-6


def test_stratonovich_noise_obeys_the_usual_rules():
    usual = ergode.VectorField(
        growth, *NAMES, diffusion=growth_noise, interpretation="stratonovich"
    )
    w = solve(OU, **FREE)["state"].values[:, -1, 0]
    found = solve(usual, rtol=1e-3, atol=1e-9, **GROWN)["state"].values[:, -1, 0]
    assert np.abs(found / np.exp(0.5 + 0.8 * w) - 1.0).mean() < 2e-3


def test_cuda_kernels_compile(compiles_to_registers):
    for field, method in ((OU, "sra1"), (GBM, "milstein")):
        bindings = bindings_of(field, METHODS[method], control_of({}), "float32")
        compiles_to_registers(bindings, "float32")


@pytest.mark.parametrize(
    ("field", "options", "message"),
    [
        (OU, {"method": "euler-maruyama"}, "'euler-maruyama' has steps of one size: give a step"),
        (LATE, {}, "adaptive steps for named variables without delays: give a step"),
        (OU, {"noise_per_step": 2}, "steps are adaptive"),
    ],
)
def test_refusals(field, options, message):
    given = {"initial": {"x": 1.0}, "parameters": dict.fromkeys(field.parameters, 1.0)}
    with pytest.raises(ergode.PlanError, match=message):
        ergode.trajectories.integrate(field, times=[0, 1], device="cpu", **given, **options)
