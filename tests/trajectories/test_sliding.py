"""Sliding along surfaces: dry friction, and a field whose slopes are known on the surface."""

import math

import numpy as np
import pytest
import scipy.optimize

import ergode
from ergode.trajectories import integrate, sliding_field


def forward(t, y, p):
    return p[1] * math.sin(t / p[2]) - p[0], y[0]


def backward(t, y, p):
    return p[1] * math.sin(t / p[2]) + p[0], y[0]


def speed(t, y, p):
    return y[0]


BLOCK, STICK_SLIP = sliding_field(
    forward, backward, speed, ["speed", "place"], ["friction", "force", "unit"]
)


def known_speed(friction, times):
    """Speed of a block under the force sin(t) and friction, from one change to the next."""
    found, t, stuck, sign, c = np.empty(len(times)), 0.0, True, 1, 0.0
    while t < times[-1]:
        if stuck:  # until the force exceeds the friction
            turns = []
            if friction < 1:
                angle = math.asin(friction)
                turns = [math.pi * k + s * angle for k in range(9) for s in (1, -1)]
            exceeds = [one for one in turns if abs(math.sin(one + 1e-9)) > friction]
            until = min((one for one in exceeds if one > t - 1e-12), default=math.inf)
            found[(times >= t) & (times <= until)] = 0.0
            t, stuck, sign = until, False, 1 if math.sin(min(until, 99) + 1e-6) > 0 else -1
            c = math.cos(t) + sign * friction * t if t < math.inf else 0.0
            continue

        def v(s, c=c, sign=sign):
            return c - math.cos(s) - sign * friction * s

        grid = np.linspace(t + 1e-6, t + 7, 20_000)
        k = int(np.argmax(sign * np.vectorize(v)(grid) < 0))
        until = scipy.optimize.brentq(v, grid[k - 1], grid[k], xtol=1e-14)
        inside = (times > t) & (times <= until)
        found[inside] = [v(s) for s in times[inside]]
        t, stuck = until, abs(math.sin(until)) <= friction
        sign = -sign
        c = math.cos(t) + sign * friction * t
    return found


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_stick_and_slip(device):
    """Weak friction turns the block around, stronger friction holds it a while, or for ever."""
    frictions, times = np.array([0.05, 0.4, 0.7, 0.95, 1.2]), np.linspace(0, 14, 57)
    options = {"events": STICK_SLIP, "device": device, "rtol": 1e-9, "atol": 1e-11, "record": 1}
    for unit in (1.0, 2.0**20):
        found = integrate(
            BLOCK, times=times * unit, initial={"speed": 0.0, "place": 0.0, "mode": 0.0},
            parameters={"friction": frictions / unit, "force": 1 / unit, "unit": unit}, **options,
        )["state"]  # fmt: skip
        for one, row in zip(frictions, found.sel(variable="speed").values, strict=True):
            np.testing.assert_allclose(row, known_speed(one, times), atol=1e-7)


def test_a_slope_on_the_surface_and_an_exit():
    """On y = 0 x' = 2 - (x + 1) / 3 until x = 2; then x' = 1 and y' = x - 2."""
    field, events = sliding_field(
        lambda t, y, p: (1.0, y[0] - 2.0 - t * p[0]), lambda t, y, p: (2.0, y[0] + 1.0 - t * p[0]),
        lambda t, y, p: y[1] + p[0] * t * t / 2 - p[1], ["x", "y"], ["lift", "height", "unused"],
    )  # fmt: skip
    # With lift the surface falls, and so does what is added to y.
    for lift in (0.0, 1.5):
        found = integrate(
            field, times=[0, 0.5, 1.5, 4.0], initial={"x": 0.0, "y": 0.5, "mode": 1.0},
            parameters={"lift": lift, "height": 0.0, "unused": 0.0}, events=events, rtol=1e-10,
            atol=1e-12, device="cpu", record=1,
        )  # fmt: skip
        x, y, mode = found["state"].values.T
        begin = 2 - math.sqrt(3.0)  # 1/2 - 2 t + t^2 / 2 = 0
        end = begin + 3 * math.log((5 - begin) / 3)
        times = found["event_time"].values[:, 0]
        assert times[:2] == pytest.approx([begin, end], abs=1e-9)
        assert x[2] == pytest.approx(5 + (begin - 5) * math.exp(-(1.5 - begin) / 3), abs=1e-8)
        assert x[3] == pytest.approx(2 + 4.0 - end, abs=1e-8)
        fallen = -lift * 4.0**2 / 2
        assert y[3] == pytest.approx((4.0 - end) ** 2 / 2 + fallen, abs=1e-8)
        assert mode.tolist() == [1, 0, 0, 1]


def test_refusals():
    with pytest.raises(ergode.ModelError, match="'mode' is the name of a variable"):
        sliding_field(forward, backward, speed, ["speed", "mode"], ["friction", "force"])
    with pytest.raises(ergode.ModelError, match="expected a number"):
        sliding_field(forward, backward, lambda t, y, p: (y[0],), ["a", "b"], ["c", "d", "e"])
