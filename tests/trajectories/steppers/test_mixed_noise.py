"""Noise that mixes variables: expectations by Platen's method, paths by Milstein's with areas."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ergode

DRIFT = np.array([[-1.0, 0.5], [0.3, -0.6]])
NOISE = np.array([[0.2, 0.5], [-0.6, 0.1]])
CORRELATION = np.array([[1.0, 0.6], [0.6, 1.0]])
FIELD = ergode.field_from_equations(
    {"x": "-x + 0.5 * y", "y": "0.3 * x - 0.6 * y"},
    diffusion={"x": "(0.2 * x + 0.5 * y) * (1 + t)", "y": "(0.1 * y - 0.6 * x) * (1 + t)"},
    correlation=CORRELATION,
)
BEGIN = np.array([1.0, 0.5])


def ends(method, step, count, field=FIELD, **options):
    result = ergode.trajectories.integrate(
        field, times=[0.0, 1.0], initial={"x": 1.0, "y": 0.5}, method=method, step=step,
        replicates=count, device="cpu", **options,
    )  # fmt: skip
    return result["state"].values[:, -1]


def exact_moments():
    """First and second moments at time 1, which obey linear equations."""

    def slopes(t, moments):
        mean, second = moments[:2], moments[2:].reshape(2, 2)
        mixed = (1 + t) ** 2 * CORRELATION * (NOISE @ second @ NOISE.T)
        return np.concatenate([DRIFT @ mean, (DRIFT @ second + second @ DRIFT.T + mixed).ravel()])

    begin = np.concatenate([BEGIN, np.outer(BEGIN, BEGIN).ravel()])
    return solve_ivp(slopes, (0.0, 1.0), begin, rtol=1e-10, atol=1e-12).y[:, -1]


def test_platen2_has_weak_order_2():
    count, exact = 4_000_000, exact_moments()
    errors = []
    for step in (0.5, 0.25):
        states = ends("platen2", step, count, seed=3)
        sampled = np.concatenate([states, (states[:, :, None] * states[:, None]).reshape(-1, 4)], 1)
        errors.append(np.linalg.norm(sampled.mean(axis=0) - exact))
        assert errors[-1] > 10 * np.linalg.norm(sampled.std(axis=0)) / np.sqrt(count)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.2)


def test_areas_give_milstein_strong_order_1():
    """With parts of one size for all steps areas are equally well known."""
    finest, parts = 512, (8, 16, 32, 64)
    fine = ends("milstein", 1 / finest, 4000, seed=3)
    errors = [
        np.sqrt(((ends("milstein", m / finest, 4000, seed=3, noise_per_step=m) - fine) ** 2).mean())
        for m in parts
    ]
    assert np.polyfit(np.log(parts), np.log(errors), 1)[0] == pytest.approx(1.0, abs=0.15)


def test_areas_turn_a_circle():
    """dx = -y dW, dy = x dW in the sense of Stratonovich: the radius stays, and W is the angle."""
    circle = ergode.field_from_equations(
        {"x": "0 * x", "y": "0 * x"}, diffusion={"x": "-y", "y": "x"},
        correlation=np.ones((2, 2)), interpretation="stratonovich",
    )  # fmt: skip
    x, y = ends("milstein", 1 / 64, 4000, circle, seed=3).T
    begin = complex(1.0, 0.5)
    turned = (x + 1j * y) / begin
    # A step multiplies the square of the radius by 1 + W^4 / 4.
    assert np.abs(turned).mean() - 1.0 == pytest.approx(3 / 8 / 64, rel=0.1)
    assert np.angle(turned).std() == pytest.approx(1.0, rel=0.05)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["platen2", "milstein"])
def test_devices_agree(method):
    on_a_cpu, on_a_gpu = (
        ergode.trajectories.integrate(
            FIELD, times=[0.0, 1.0], initial={"x": 1.0, "y": 0.5}, method=method, step=0.125,
            replicates=500, seed=3, noise_per_step=4, device=device,
        )["state"].values
        for device in ("cpu", "cuda")
    )  # fmt: skip
    np.testing.assert_allclose(on_a_gpu, on_a_cpu, rtol=1e-10, atol=1e-12)


def test_what_platen2_refuses():
    stratonovich = ergode.field_from_equations(
        {"y": "-y"}, diffusion={"y": "y"}, interpretation="stratonovich"
    )
    late = ergode.VectorField(
        lambda t, y, yd, p: (-yd[0],), ["y"], ["tau"], [("y", "tau")],
        diffusion=lambda t, y, yd, p: (y[0],),
    )  # fmt: skip
    for field, message in (
        (stratonovich, "is for noise in the sense of Ito"),
        (late, "is for up to 16 named variables without delays"),
    ):
        with pytest.raises(ergode.PlanError, match=f"{message}; choose 'euler-maruyama'"):
            ergode.trajectories.integrate(
                field, times=[0.0, 1.0], initial={"y": 1.0}, step=0.1, method="platen2",
                parameters=dict.fromkeys(field.parameters, 1.0), device="cpu",
            )  # fmt: skip
