"""Noise of fields of arrays: fields with names, plain NumPy, strong orders and exact laws."""

import math
import pickle

import numpy as np
import pytest
from cuda_on_host import CASES, check_ptx, states_on_host
from scipy import stats
from well_known import lorenz_96, lorenz_96_in_place, lorenz_96_small

import ergode
from ergode.trajectories import integrate
from ergode.trajectories.arrays import followers
from ergode.trajectories.steppers.noise import Paths


def coupled(i, t, y, p):
    return math.sin(y[i - 1]) * y[(i + 1) % len(y)] - y[i] + p[0]


def own_noise(i, t, y, p):
    return p[1] * y[i] * (1.0 + 0.5 * math.cos(t + i)) + 0.1


def neighbours_noise(i, t, y, p):
    return p[1] * (y[i - 1] + y[i] / len(y))


def timed_noise(i, t, y, p):
    return p[1] * (1.0 + math.cos(t + i))


def own(x, i, t, p):
    return p[1] * x * (1.0 + 0.5 * math.cos(t + i)) + 0.1


def own_noise_5(t, y, p):
    return (
        own(y[0], 0, t, p), own(y[1], 1, t, p), own(y[2], 2, t, p), own(y[3], 3, t, p),
        own(y[4], 4, t, p),
    )  # fmt: skip


def neighbours_noise_5(t, y, p):
    return (
        p[1] * (y[4] + y[0] / 5), p[1] * (y[0] + y[1] / 5), p[1] * (y[1] + y[2] / 5),
        p[1] * (y[2] + y[3] / 5), p[1] * (y[3] + y[4] / 5),
    )  # fmt: skip


def timed_noise_5(t, y, p):
    return tuple(p[1] * (1.0 + math.cos(t + i)) for i in range(5))


def rest(i, t, y, p):
    return 0.0


def growth(i, t, y, p):
    return p[0] * y[i]


def growth_noise(i, t, y, p):
    return p[1] * y[i]


def shaking(i, t, y, p):
    return math.cos(2 * y[i] + i)


def shaking_noise(i, t, y, p):
    return 1.0 + 0.5 * math.cos(t)


def heat(i, t, y, p):
    n = len(y)
    return p[0] * (y[i - 1] - 2 * y[i] + y[(i + 1) % n]) - p[1] * y[i]


def heat_noise(i, t, y, p):
    return p[2]


def feed(i, j, t, y, p, c):
    return c.source[j] - y.u[i, j] * y.v[i] - 0.2 * y.u[i - 1, j]


def decay(i, t, y, p, c):
    return -y.v[i] + 0.1 * y.u[i, 0]


def feed_noise(i, j, t, y, p, c):
    return c.source[j] * y.u[i, j] / y.u.shape[0]


def ring(n, diffusion, **other):
    return ergode.VectorField(
        **{"component": lorenz_96, **other}, variables=("x", n), parameters=["F", "noise"],
        diffusion=diffusion,
    )  # fmt: skip


def single(n, component, diffusion, parameters=()):
    return ergode.VectorField(
        component=component, variables=("x", n), parameters=parameters, diffusion=diffusion
    )


def solve(field, **options):
    return integrate(field, **{"device": "cpu", **options})


def start(n, seed=0):
    return 2.0 + np.random.default_rng(seed).normal(size=n)


def processes(n, count, step, replicates, **options):
    """Wiener processes [replicate, time, unknown] at the ends of the steps of a run."""
    return solve(
        single(n, rest, 1.0), times=step * np.arange(count + 1), step=step, initial={"x": 0.0},
        method="euler-maruyama", replicates=replicates, **options,
    )["x"].values  # fmt: skip


# ---- other implementations


@pytest.mark.parametrize(
    ("method", "noise", "names_noise"),
    [
        ("euler-maruyama", neighbours_noise, neighbours_noise_5),
        ("milstein", own_noise, own_noise_5),
        ("sra1", timed_noise, timed_noise_5),
    ],
)
def test_a_field_with_names_has_the_same_paths(method, noise, names_noise):
    names = ergode.VectorField(
        lorenz_96_small, list("abcde"), ["F", "noise"], diffusion=names_noise
    )
    y = start(5)
    common = {
        "times": [0.5, 0.77, 1.5], "step": 0.01, "seed": 2**40 + 3, "method": method,
        "parameters": ergode.grid(F=[4.0, 8.0], noise=0.3), "noise_per_step": 3,
    }  # fmt: skip
    in_place = ring(5, noise, component=None, rhs=lorenz_96_in_place)
    one = solve(names, initial=dict(zip("abcde", y, strict=True)), replicates=20, **common)
    for field in (ring(5, noise), in_place):  # in lanes, and one after another
        found = solve(field, initial={"x": y}, replicates=20, **common)
        assert found["x"].dims == ("F", "replicate", "time", "i")
        assert found.attrs["seed"] == 2**40 + 3
        np.testing.assert_allclose(found["x"].values, one["state"].values, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 3, 40, 200])
@pytest.mark.parametrize("method", ["euler-maruyama", "milstein"])
def test_steps_are_those_of_plain_numpy(method, n):
    count, h, replicates = 30, 1 / 64, 9
    path = processes(n, count, h, replicates, seed=5)
    y = np.tile(start(n), (replicates, 1))

    def drift(x):
        return np.sin(np.roll(x, 1, 1)) * np.roll(x, -1, 1) - x + 2.0

    def noise(t, x):
        if method == "euler-maruyama":
            return 0.3 * (np.roll(x, 1, 1) + x / n)
        return 0.3 * x * (1 + 0.5 * np.cos(t + np.arange(n))) + 0.1

    expected = [y]
    for step in range(count):
        t, dw = step * h, path[:, step + 1] - path[:, step]
        f, g = drift(y), noise(t, y)
        end = y + h * f + g * dw
        if method == "milstein":
            moved = noise(t, y + h * f + math.sqrt(h) * g)
            end += (moved - g) * (dw**2 - h) / (2 * math.sqrt(h))
        y = end
        expected.append(y)
    noises = {"euler-maruyama": neighbours_noise, "milstein": own_noise}
    field = ring(n, noises[method], component=coupled)
    found = solve(
        field, times=h * np.arange(count + 1), step=h, method=method, replicates=replicates,
        seed=5, initial={"x": start(n)}, parameters={"F": 2.0, "noise": 0.3},
    )["x"].values  # fmt: skip
    np.testing.assert_allclose(found, np.stack(expected, 1), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("form", ["lanes", "one after another"])
@pytest.mark.parametrize("method", ["euler-maruyama", "milstein"])
def test_stratonovich_is_heun_and_milstein_of_plain_numpy(method, form):
    n, count, h, replicates = 5, 30, 1 / 64, 9
    path = processes(n, count, h, replicates, seed=5)
    y = np.tile(start(n), (replicates, 1))
    moves, after = np.arange(n), {}

    def drift(x):
        return (np.roll(x, -1, 1) - np.roll(x, 2, 1)) * np.roll(x, 1, 1) - x + 8.0

    def noise(t, x):
        if method == "euler-maruyama":
            return 0.3 * (np.roll(x, 1, 1) + x / n)
        return 0.3 * x * (1 + 0.5 * np.cos(t + moves)) + 0.1

    for step in range(count):
        t, dw = step * h, path[:, step + 1] - path[:, step]
        f, g = drift(y), noise(t, y)
        ahead = y + h * f + g * dw
        if method == "milstein":
            root = math.sqrt(h)
            bent = noise(t, y + root * g) - noise(t, y - root * g)
            y = ahead + bent * dw**2 / (4 * root)
        else:
            y = y + h * f + (g + noise(t + h, ahead)) / 2 * dw
        after[step + 1] = y
    given = neighbours_noise if method == "euler-maruyama" else own_noise
    whole = {} if form == "lanes" else {"component": None, "rhs": lorenz_96_in_place}
    found = solve(
        ring(n, given, interpretation="stratonovich", **whole), times=h * np.arange(count + 1),
        step=h, method=method, replicates=replicates, seed=5, initial={"x": start(n)},
        parameters={"F": 8.0, "noise": 0.3},
    )["x"].values  # fmt: skip
    np.testing.assert_allclose(found[:, 1:], np.stack(list(after.values()), 1), rtol=1e-9)


def test_two_arrays_with_data_and_a_number():
    """Each array has its noise; unknowns are numbered through, and a path is a line in a step."""
    source, h, count = np.array([0.5, 1.0, 2.0]), 1 / 32, 16
    field = ergode.VectorField(
        component={"u": feed, "v": decay}, variables={"u": (2, 3), "v": 2},
        diffusion={"u": feed_noise, "v": 0.25}, constants={"source": source},
    )  # fmt: skip
    path = processes(8, count, h, 1, seed=11)[0]
    u, v = np.ones((2, 3)), np.zeros(2)
    rows = [(u, v)]
    for dw in np.diff(path, axis=0):
        du, dv = dw[:6].reshape(2, 3), dw[6:]
        slope_u = source - u * v[:, None] - 0.2 * np.roll(u, 1, 0)
        slope_v = -v + 0.1 * u[:, 0]
        u, v = u + h * slope_u + source * u / 2 * du, v + h * slope_v + 0.25 * dv
        rows.append((u, v))
    times = np.append(h * np.arange(count), [h * (count - 0.75), h * count])
    found = solve(
        field, times=times, step=h, initial={"u": 1.0, "v": 0.0}, seed=11, method="euler-maruyama"
    )
    rows.insert(-1, tuple(0.75 * a + 0.25 * b for a, b in zip(*rows[-2:], strict=True)))
    for place, name in enumerate("uv"):
        expected = np.array([row[place] for row in rows])
        np.testing.assert_allclose(found[name].values, expected, rtol=1e-12, atol=1e-13)


def nothing(i, j, k, t, y, p, c):
    return 0.0


def recorded_noise(i, j, k, t, y, p, c):
    return c.drive(t) * c.weights[k]


def test_recorded_noise_in_three_dimensions():
    field = ergode.VectorField(
        component=nothing, variables=("x", (2, 3, 4)), diffusion=recorded_noise,
        constants={"drive": ergode.interpolant([0.0, 1.0, 2.0], [0.0, 1.0, 1.0]),
                   "weights": np.arange(4.0)},
    )  # fmt: skip
    common = {"step": 1 / 64, "initial": {"x": 0.0}, "precision": "float32"}
    found = solve(field, times=[0.0, 2.0], replicates=20_000, seed=3, **common)["x"].values
    assert found.dtype == np.float32 and (found[..., 0] == 0.0).all()
    scaled = found[:, -1, :, :, 1:] / np.arange(1.0, 4.0)
    # The integral of drive^2: the method integrates noise that is linear within a step exactly.
    error = stats.norm.isf(1e-6 / 2) * math.sqrt(2 / scaled.size)
    assert scaled.var() == pytest.approx(4 / 3, rel=error)
    with pytest.raises(ergode.ModelError, match="'drive' is a table from 0 to 2, but times are"):
        solve(field, times=[0.0, 3.0], **common)


# ---- orders and laws


@pytest.mark.parametrize("n", [1, 3, 40, 200])
@pytest.mark.parametrize(("method", "order"), [("euler-maruyama", 0.5), ("milstein", 1.0)])
def test_strong_orders(method, order, n):
    """Geometric Brownian motion: the exact path is a function of the process."""
    finest, steps, replicates = 64, (2, 4, 8, 16), max(20, 8000 // n)
    w = processes(n, 1, 1.0, replicates, noise_per_step=finest, seed=3)[:, -1]
    exact = np.exp(0.5 - 0.32 + 0.8 * w)
    errors = [
        np.abs(
            solve(
                single(n, growth, growth_noise, ["drift", "noise"]), times=[0.0, 1.0],
                step=m / finest, noise_per_step=m, replicates=replicates, seed=3, method=method,
                initial={"x": 1.0}, parameters={"drift": 0.5, "noise": 0.8},
            )["x"].values[:, -1] - exact
        ).mean()
        for m in steps
    ]  # fmt: skip
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(order, abs=0.15)


def test_strong_order_with_additive_noise():
    def paths(m):
        return solve(
            single(40, shaking, shaking_noise), times=[0.0, 1.0], step=m / 512, noise_per_step=m,
            replicates=100, seed=3, method="sra1", initial={"x": 0.3},
        )["x"].values[:, -1]  # fmt: skip

    steps, exact = (8, 16, 32), paths(1)
    errors = [np.abs(paths(m) - exact).mean() for m in steps]
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(1.5, abs=0.15)


@pytest.mark.parametrize("method", ["euler-maruyama", "sra1"])
def test_stationary_variances_of_the_stochastic_heat_equation(method):
    """Each Fourier mode is an Ornstein-Uhlenbeck process; a step multiplies it by a number.

    The stationary variance is (variance that a step adds) / (1 - factor^2), for modes of unit norm.
    """
    n, h, replicates, s = 32, 0.1, 40_000, 0.7
    # The slowest mode has forgotten the beginning to exp(-2 * 8) of its variance.
    found = solve(
        single(n, heat, heat_noise, ["D", "k", "s"]), times=[0.0, 8.0], step=h, initial={"x": 0.0},
        parameters={"D": 1.0, "k": 1.0, "s": s}, replicates=replicates, seed=6, method=method,
    )["x"].values[:, -1]  # fmt: skip
    rate = 1.0 + 4 * np.sin(np.pi * np.arange(n) / n) ** 2
    if method == "sra1":
        factor, added = 1 - h * rate + (h * rate) ** 2 / 2, h - rate * h**2 + rate**2 * h**3 / 3
    else:
        factor, added = 1 - h * rate, np.full(n, h)
    variance = s**2 * added / (1 - factor**2)
    q, i = np.arange(n)[:, None], np.arange(n)
    # Real modes: cosines up to the shortest wave, then sines.
    waves = np.where(q <= n // 2, np.cos(2 * np.pi * q * i / n), np.sin(2 * np.pi * q * i / n))
    waves /= np.linalg.norm(waves, axis=1, keepdims=True)
    powers = (found @ waves.T) ** 2 / variance
    level = 1e-6 / (n + 2)
    low, high = stats.chi2.ppf([level / 2, 1 - level / 2], replicates) / replicates
    assert (low < powers.mean(0)).all() and (powers.mean(0) < high).all()
    total = replicates * n
    low, high = stats.chi2.ppf([level / 2, 1 - level / 2], total) / total
    assert 0.993 < low < powers.mean() < high < 1.007
    # Modes are independent: products of neighbours have mean zero.
    modes = found @ waves.T / np.sqrt(variance)
    z = (modes[:, 1:] * modes[:, :-1]).mean() * math.sqrt(replicates * (n - 1))
    assert abs(z) < stats.norm.isf(level / 2)


def test_means_and_variances_of_geometric_brownian_motion():
    """Exact moments of the scheme, of 1,200,000 unknowns: errors of 1 % are found."""
    n, replicates, h, noise = 200, 6_000, 1 / 32, 0.3
    found = solve(
        single(n, growth, growth_noise, ["drift", "noise"]), times=[0.0, 1.0], step=h, seed=8,
        replicates=replicates, method="euler-maruyama", initial={"x": 1.0},
        parameters={"drift": 1.0, "noise": noise},
    )["x"].values[:, -1].ravel()  # fmt: skip
    mean = (1 + h) ** (1 / h)
    variance = ((1 + h) ** 2 + noise**2 * h) ** (1 / h) - mean**2
    error = stats.norm.isf(1e-6 / 4) / math.sqrt(found.size)
    assert found.mean() == pytest.approx(mean, abs=error * math.sqrt(variance))
    squares = (found - mean) ** 2
    assert error * squares.std() < 0.01 * variance
    assert squares.mean() == pytest.approx(variance, abs=error * squares.std())


# ---- keys


@pytest.mark.parametrize(
    ("method", "noise"),
    [("euler-maruyama", neighbours_noise), ("milstein", own_noise), ("sra1", timed_noise)],
)
def test_lanes_threads_and_counts_change_no_bit(method, noise, monkeypatch):
    common = {
        "times": [0.0, 0.31, 0.5], "parameters": {"F": 8.0, "noise": 0.2}, "step": 0.01, "seed": 4,
        "initial": {"x": start(40)}, "method": method, "noise_per_step": 2,
    }  # fmt: skip
    field = ring(40, noise)
    found = solve(field, replicates=65, **common, device="cpu:2")["x"].values
    assert np.unique(found[:, -1]).size == found[:, -1].size
    for count in (1, 9, 64):
        few = solve(field, replicates=count, **common, device="cpu:1")["x"].values
        np.testing.assert_array_equal(few, found[:count])
    monkeypatch.setattr(followers, "_CACHE_BYTES", 0)
    alone = solve(field, replicates=65, **common, device="cpu:2")["x"].values
    np.testing.assert_array_equal(alone, found)
    other = solve(field, replicates=1, **{**common, "seed": 5})["x"].values
    assert not np.isin(other[:, -1], found[:, -1]).any()


@pytest.mark.parametrize(
    ("method", "noise"),
    [("euler-maruyama", neighbours_noise), ("milstein", own_noise), ("sra1", timed_noise)],
)
def test_threads_that_share_a_trajectory_change_no_bit(method, noise):
    one, three = (
        solve(
            ring(9_000, noise), times=[0.0, 0.31, 0.5], initial={"x": start(9_000)}, seed=4,
            parameters={"F": 8.0, "noise": 0.2}, step=0.01, method=method, device=f"cpu:{threads}",
        )["x"].values
        for threads in (1, 3)
    )  # fmt: skip
    np.testing.assert_array_equal(one, three)


# ---- choice and refusals


@pytest.mark.parametrize(
    ("noise", "chosen"),
    [(timed_noise, "sra1"), (0.3, "sra1"), (own_noise, "milstein"),
     (neighbours_noise, "euler-maruyama")],
)  # fmt: skip
def test_what_auto_chooses(noise, chosen):
    asked = {"times": [0.0, 0.1], "initial": {"x": 1.0}, "parameters": {"F": 8.0, "noise": 0.1},
             "step": 0.01, "replicates": 9}  # fmt: skip
    field = ring(40, noise, component=coupled)  # as where steps are those of NumPy
    found = solve(field, **asked)
    assert found.attrs["method"] == chosen
    again = pickle.loads(pickle.dumps(field))
    assert again.digest == field.digest != ring(40, None, component=coupled).digest
    np.testing.assert_array_equal(solve(again, **asked)["x"], found["x"])


def aliased(i, t, y, p):
    x = y
    return x[i]


def crossing(t, y, p):
    return y[0]


def resets(t, y, p):
    y[0] = 0.0


def fills(t, y, g, p):
    g[0] = 1.0


def beyond(i, t, y, p):
    return y[i + 1]


STEP = {"step": 0.1}
REFUSED = {
    "'sra1' has adaptive steps for named variables without delays: give a step": (0.1, {}),
    "'tsit5' is for equations without noise, and the field has a diffusion; choose 'euler-m": (
        0.1, {"method": "tsit5"}
    ),
    "'rkc2' is for equations without noise": (0.1, {"method": "rkc2", **STEP}),
    "'rodas5p' is for equations without noise": (0.1, {"method": "rodas5p"}),
    "'milstein' is for equations with noise, and the field has no": (
        None, {"method": "milstein", **STEP}
    ),
    "noise of 'x' reads other unknowns; choose 'euler-maruyama'": (
        neighbours_noise, {"method": "milstein", **STEP}
    ),
    "'milstein' requires": (aliased, {"method": "milstein", **STEP}),
    "noise that depends on time and parameters alone": (own_noise, {"method": "sra1", **STEP}),
    "times descend, and the field has noise": (0.1, {"times": [1.0, 0.0], **STEP}),
    "effects are not made yet for variables that are arrays with noise": (
        0.1, {"events": [ergode.trajectories.ZeroCrossing(crossing, effect=resets)], **STEP}
    ),
    "noise_per_step is 65": (0.1, {"noise_per_step": 65, **STEP}),
}  # fmt: skip


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_is_refused_in_one_line(said):
    noise, options = REFUSED[said]
    usual = {"times": [0.0, 1.0], "initial": {"x": 1.0}, "parameters": {"F": 8.0, "noise": 0.1}}
    with pytest.raises(ergode.ErgodeError) as caught:
        solve(ring(40, noise), **{**usual, **options})
    assert said in str(caught.value) and "\n" not in str(caught.value)


BAD = {
    "function 'fills' returns nothing; expected a number": {"diffusion": fills},
    "diffusion of 'x' at 39 failed: index 40 is out of bounds": {"diffusion": beyond},
    "diffusion of 'x' is nan; expected a function or a finite number": {"diffusion": math.nan},
    "diffusion of 'x' is True": {"diffusion": True},
    "diffusion of 'x' is 'much'; expected a function": {"diffusion": "much"},
    "diffusion is 0.1; expected a function for each variable: x, y": {
        "diffusion": 0.1, "component": {"x": rest, "y": rest}, "variables": {"x": 40, "y": 40}
    },
    "diffusion has no 'y'; diffusion and variables have one set of names": {
        "diffusion": {"x": 0.1}, "component": {"x": rest, "y": rest},
        "variables": {"x": 40, "y": 40},
    },
    "correlation and component are both given": {"diffusion": 0.1, "correlation": [[1.0]]},
}  # fmt: skip


@pytest.mark.parametrize("said", BAD)
def test_bad_noise_is_refused_in_one_line(said):
    with pytest.raises(ergode.ModelError) as caught:
        ergode.VectorField(**{"component": rest, "variables": ("x", 40), **BAD[said]})
    assert said in str(caught.value) and "\n" not in str(caught.value)


# ---- GPU

SCHEMES = {"euler-maruyama": neighbours_noise, "milstein": own_noise, "sra1": timed_noise}


@pytest.mark.parametrize("method", SCHEMES)
@pytest.mark.parametrize(
    ("group", "n", "count"), [("thread", 6, 10), ("block", 40, 10_000), ("grid", 20_000, 1)]
)
def test_cuda_kernels_compile(group, n, count, method):
    field = ring(n, SCHEMES[method])
    check_ptx(group, field, method, count, "float32", step=0.1)


def test_cuda_kernels_of_other_forms_compile():
    two = ergode.VectorField(
        component={"u": feed, "v": decay}, variables={"u": (20, 30), "v": 20},
        diffusion={"u": feed_noise, "v": 0.25}, constants={"source": np.ones(30)},
    )  # fmt: skip
    check_ptx("block", two, "euler-maruyama", 10_000, "float64", step=0.1)
    in_place = ring(40, own_noise, component=None, rhs=lorenz_96_in_place)
    check_ptx("thread", in_place, "milstein", 10, "float32", step=0.1)


@pytest.mark.parametrize("method", SCHEMES)
@pytest.mark.parametrize("case", CASES)
def test_groups_of_cuda_threads_compute_the_same(case, method, monkeypatch):
    """Kernels run as Python threads; a chunk of trajectories has the noise of their numbers."""
    field, count, first = ring(11, SCHEMES[method]), 1 if case == "grid" else 3, 2
    initial = np.array([start(11, seed) for seed in range(first + count)])
    times, parameters = np.array([0.0, 0.13, 0.33]), np.repeat([[8.0], [0.2]], count, axis=1)
    states = states_on_host(
        case, monkeypatch, field, method, times, initial[first:], parameters, {"step": 0.05},
        first=first, paths=Paths(seed=7, substeps=2),
    )  # fmt: skip
    expected = solve(
        field, times=times, initial={"x": initial}, parameters={"F": 8.0, "noise": 0.2}, seed=7,
        step=0.05, noise_per_step=2, method=method,
    )["x"].values[first:]  # fmt: skip
    np.testing.assert_allclose(states.transpose(2, 0, 1), expected, rtol=1e-9)


@pytest.mark.cuda
@pytest.mark.parametrize("method", SCHEMES)
@pytest.mark.parametrize(("n", "count"), [(6, 50), (40, 50), (20_000, 1)])
def test_cuda_agrees_with_cpu(n, count, method):
    cpu, gpu = (
        solve(
            ring(n, SCHEMES[method]), times=[0.0, 0.13, 0.33], initial={"x": start(n)}, seed=7,
            parameters={"F": 8.0, "noise": 0.2}, step=0.01, replicates=count, method=method,
            noise_per_step=2, device=device,
        )["x"].values
        for device in ("cpu", "cuda")
    )  # fmt: skip
    np.testing.assert_allclose(gpu, cpu, rtol=1e-9, atol=1e-10)
