"""Probabilities of closest approaches along paths, against closed forms and sampled orbits."""

import contextlib
import math

import numpy as np
import pytest
from density_cases import LINEAR
from scipy import stats
from scipy.special import ndtr

import ergode
from ergode.core.compiler.language import UserFunction
from ergode.core.errors import ModelError, PlanError
from ergode.density.flow import carrier, nearest
from ergode.density.grid.lattice import Frame

pytestmark = pytest.mark.slow


def straight(t, y, p):
    return p[0] + 0.0 * y[0], p[1] + 0.0 * y[0]


def free(t, y, p):
    return y[3], y[4], y[5], 0.0 * y[0], 0.0 * y[0], 0.0 * y[0]


def kepler(t, y, p):
    r2 = y[0] * y[0] + y[1] * y[1]
    r3 = r2 * np.sqrt(r2)
    return y[2], y[3], -y[0] / r3, -y[1] / r3


def itself(y, t, p):
    return y[0], y[1]


def in_space(y, t, p):
    return y[0], y[1], y[2]


def from_target(y, t, p):
    """The place relative to that of a satellite on the unit circle."""
    return y[0] - np.cos(t), y[1] - np.sin(t)


def radius(y, t, p):
    return (np.sqrt(y[0] * y[0] + y[1] * y[1]),)


PLANE = ergode.VectorField(straight, ["x", "y"], ["u", "v"])
SPACE = ergode.VectorField(free, ["x", "y", "z", "vx", "vy", "vz"])
ORBIT = ergode.VectorField(kepler, ["x", "y", "vx", "vy"])
ON_PLANE = {"parameters": {"u": 3.0, "v": 4.0}, "device": "cpu:1", "keep": "none"}


def in_disc(mean, covariance, radii):
    """Probability of a circle around the origin, by quadrature over the angle and the radius."""
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    x, w = np.polynomial.legendre.leggauss(60)
    found = []
    for size in radii:
        r = 0.5 * size * (x + 1)
        points = r[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], -1)
        value = stats.multivariate_normal(mean, covariance).pdf(points).mean(1)
        found.append(2 * np.pi * (0.5 * size * w * r) @ value)
    return np.array(found)


def assert_probable(found, exact, near, which=()):
    """Within the share `near` of the exact one, and of the error that is told, or nearly."""
    mine = found["approach_probability"].values[which]
    told = found["approach_error"].values[which]
    assert np.abs(mine / exact - 1.0).max() < near
    assert (np.abs(mine - exact) < 1.5 * told + 2e-3 * np.array(exact)).all()


@pytest.mark.parametrize(
    "spread", [[[0.2, 0.05], [0.05, 0.3]], [[1.0, -0.4], [-0.4, 0.8]]], ids=["narrow", "wide"]
)
def test_straight_lines_past_a_point_have_the_law_of_their_distance(spread):
    """The distance of a line from the origin is one Gaussian: spheres far smaller than cells."""
    mean, along = np.array([-5.0, -5.8]), np.array([3.0, 4.0]) / 5.0
    across = np.array([-along[1], along[0]])
    middle, deviation = across @ mean, np.sqrt(across @ spread @ across)
    radii = [1e-4, 0.01, 0.3, 1.0]
    exact = [ndtr((R - middle) / deviation) - ndtr((-R - middle) / deviation) for R in radii]
    found = ergode.density.propagate(
        PLANE, ergode.Gaussian(mean, spread), times=[0.0, 4.0],
        closest_approach=ergode.ClosestApproach(itself, radii), **ON_PLANE,
    )  # fmt: skip
    assert_probable(found, exact, 2e-3)
    assert found["radius"].values.tolist() == radii
    assert found.attrs["method"] == "flow"


def test_a_span_that_ends_before_has_the_law_of_its_last_place():
    """Up to time 0.9 all are nearest at the end; from time 2.2 on, at the beginning."""
    mean, spread = np.array([-5.0, -5.8]), np.array([[0.2, 0.05], [0.05, 0.3]])
    prior, radii = ergode.Gaussian(mean, spread), [2.5, 3.2]
    at_end = ergode.ClosestApproach(itself, radii, end=0.9)
    found = ergode.density.propagate(
        PLANE, prior, times=[0.0, 4.0], closest_approach=at_end, **ON_PLANE
    )
    place = mean + 0.9 * np.array([3.0, 4.0])
    assert_probable(found, in_disc(place, spread, radii), 5e-3)
    at_begin = ergode.ClosestApproach(itself, radii, begin=2.2)
    found = ergode.density.propagate(
        PLANE, prior, times=[0.0, 4.0], closest_approach=at_begin, **ON_PLANE
    )
    place = mean + 2.2 * np.array([3.0, 4.0])
    assert_probable(found, in_disc(place, spread, radii), 5e-3)


MEET = np.array([-7.0, 0.02, -0.05, 7.0, 0.0, 0.0])
SIGMA = np.array([0.1, 0.08, 0.05, 0.02, 0.03, 0.02])


def test_two_bodies_that_meet_in_space_collide_as_sampled_ones():
    """Sphere of a twentieth of a deviation; velocities are uncertain as well."""
    rng = np.random.default_rng(1)
    radii = [0.004, 0.02, 0.1]
    hits, count = np.zeros(3), 0
    for _ in range(20):
        y = MEET + SIGMA * rng.standard_normal((500_000, 6))
        r, v = y[:, :3], y[:, 3:]
        t = np.clip(-(r * v).sum(1) / (v * v).sum(1), 0.0, 2.0)
        least = np.linalg.norm(r + t[:, None] * v, axis=1)
        hits += [(least < R).sum() for R in radii]
        count += len(y)
    sampled = hits / count
    prior = ergode.Gaussian(MEET, SIGMA**2)
    found = ergode.density.propagate(
        SPACE, prior, times=[0.0, 2.0], device="cpu", keep="none", width=list(SIGMA),
        closest_approach=ergode.ClosestApproach(in_space, radii),
    )  # fmt: skip
    chance = 5 / np.sqrt(hits)
    mine = found["approach_probability"].values
    assert (np.abs(mine / sampled - 1.0) < 0.005 + chance).all()
    assert (found["approach_error"].values < 0.04 * mine).all()
    # Far from the mean, the error says that the lattice does not reach there.
    far = ergode.density.propagate(
        SPACE, ergode.Gaussian(MEET + np.eye(6)[1], SIGMA**2), times=[0.0, 2.0],
        device="cpu", keep="none", width=list(SIGMA),
        closest_approach=ergode.ClosestApproach(in_space, radii),
    )  # fmt: skip
    assert (far["approach_probability"].values < 1e-9).all()
    assert (far["approach_error"].values > 1e-6).all()


def orbits_after(y, step):
    slope = lambda y: np.array(kepler(0.0, y, ()))  # noqa: E731
    a = slope(y)
    b = slope(y + 0.5 * step * a)
    c = slope(y + 0.5 * step * b)
    d = slope(y + step * c)
    return y + step / 6 * (a + 2 * b + 2 * c + d)


def least_distances(y, begin, until, step=0.02):
    """Of orbits [variable, sample], from the target; between steps they are straight.

    Where they are near, accelerations differ by 0.05 at most: the path is off by less than 3e-6.
    """
    longer = round(begin / (4 * step))
    for _ in range(longer):
        y = orbits_after(y, begin / longer)
    best = np.full(y.shape[1], np.inf)
    before = np.stack(from_target(y, begin, ()))
    steps = max(2, round((until - begin) / step))
    for k in range(1, steps + 1):
        y = orbits_after(y, (until - begin) / steps)
        after = np.stack(from_target(y, begin + k * (until - begin) / steps, ()))
        by = after - before
        s = np.clip(-(before * by).sum(0) / (by * by).sum(0), 0.0, 1.0)
        best = np.minimum(best, np.linalg.norm(before + s * by, axis=0))
        before = after
    return best


def sampled_orbits(mean, sigma, radii, begin=0.0, until=2.0, count=150_000):
    """Share of orbits whose least distance from the target is below each radius, and its error."""
    y = mean + sigma * np.random.default_rng(2).standard_normal((count, 4))
    # In parts that fit into a cache.
    best = np.concatenate([least_distances(part.T, begin, until) for part in np.array_split(y, 40)])
    share = np.array([(best < R).mean() for R in radii])
    return share, np.sqrt(share * (1 - share) / count)


@pytest.fixture(scope="module")
def crossing():
    """The state at time zero of an orbit that crosses that of the target at time one, beside it."""
    place = np.array([np.cos(1.0) + 0.01, np.sin(1.0) - 0.004])
    angle = 1.0 + np.pi / 2 + np.pi / 3
    y = np.array([*place, np.cos(angle), np.sin(angle)])
    for _ in range(200):
        y = orbits_after(y, -0.005)
    return y


RADII = [0.002, 0.01, 0.03]
SMALL = np.array([0.01, 0.01, 0.005, 0.005])
ROUGH = {"width": list(SMALL)}  # a sixteenth of the points, where calls are compared


def mine_of(found):
    return found["approach_probability"].values


def near_target(mean, spread=SMALL, **options):
    settings = {
        "times": [0.0, 2.0], "device": "cpu:1", "keep": "none",
        "closest_approach": ergode.ClosestApproach(from_target, RADII),
    } | options  # fmt: skip
    return ergode.density.propagate(ORBIT, ergode.Gaussian(mean, spread**2), **settings)


@pytest.fixture(scope="module")
def found(crossing):
    return near_target(crossing)


def test_orbits_come_as_near_to_a_satellite_as_sampled_ones(crossing, found):
    share, error = sampled_orbits(crossing, SMALL, RADII)
    mine = mine_of(found)
    assert (np.abs(mine - share) < 5 * error + 0.005 * share).all()
    assert (found["approach_error"].values < 0.01 * mine).all()
    # A sphere of a twentieth of a deviation, and orbits so wide that their velocities turn.
    wide, error = sampled_orbits(crossing, 4 * SMALL, RADII)
    found_wide = mine_of(near_target(crossing, spread=4 * SMALL))
    assert (np.abs(found_wide - wide) < 5 * error + 0.01 * wide).all()
    plain = ergode.density.propagate(
        ORBIT, ergode.Gaussian(crossing, SMALL**2), times=[0.0, 2.0], device="cpu:1", keep="none"
    )
    assert np.array_equal(plain["mean"], found["mean"])


def test_what_was_measured_before_counts_and_maneuvers_within_do(crossing):
    """A precise measurement is a narrower prior; a maneuver between, another orbit."""
    seen = ergode.Measurement(0.0, lambda y, t, p: (y[0], y[1], y[2], y[3]), crossing, SMALL**2)
    mine = mine_of(near_target(crossing, measurements=[seen]))
    share, error = sampled_orbits(crossing, SMALL / np.sqrt(2), RADII)
    assert (np.abs(mine - share) < 5 * error + 0.01 * share).all()
    later = ergode.Measurement(1.5, itself, [0.0, 1.0], [1e-2, 1e-2])
    again = near_target(crossing, times=[0.0, 1.0, 2.0], measurements=[later], **ROUGH)
    before = near_target(crossing, times=[0.0, 1.0, 1.5, 2.0], **ROUGH)
    whole = mine_of(near_target(crossing, **ROUGH))
    assert np.allclose(again["approach_probability"], before["approach_probability"], rtol=1e-9)
    # Times of the results, here that of the approach too, change nothing but the steps.
    assert np.allclose(mine_of(before), whole, rtol=1e-4)
    push = ergode.Maneuver(0.5, [0.0, 0.0, 0.3, 0.3])
    away = near_target(crossing, maneuvers=[push], **ROUGH)
    assert (away["approach_probability"].values < 1e-6).all()
    late = near_target(crossing, maneuvers=[ergode.Maneuver(1.5, push.change)], **ROUGH)
    assert np.allclose(late["approach_probability"], whole, rtol=1e-4)


def test_densities_of_a_bank_have_their_own_and_smoothing_sees_later_measurements(crossing):
    means = crossing + 0.01 * np.eye(4)[[0, 1, 3]]
    bank = near_target(means, **ROUGH)
    assert bank["approach_probability"].dims == ("trajectory", "radius")
    assert np.array_equal(bank["approach_probability"][2], mine_of(near_target(means[2], **ROUGH)))
    seen = ergode.Measurement(2.0, lambda y, t, p: (y[0], y[1]), [0.0, 0.0], [1.0, 1.0])
    plain, smoothed = (
        mine_of(near_target(crossing, measurements=[seen], smooth=smooth, **ROUGH))
        for smooth in (False, True)
    )
    assert not np.array_equal(smoothed, plain)


def periapsis(y):
    """The least distance from the centre on an orbit through a state."""
    r, square = np.hypot(y[0], y[1]), y[2] ** 2 + y[3] ** 2
    momentum = y[0] * y[3] - y[1] * y[2]
    energy = 0.5 * square - 1.0 / r
    return momentum**2 / (1.0 + np.sqrt(np.maximum(1.0 + 2.0 * energy * momentum**2, 0.0)))


@pytest.mark.parametrize(
    ("mean", "sigma", "levels", "until", "width"),
    [
        ([1.5, 0.0, 0.0, 0.6], [0.02, 0.02, 0.01, 0.01], [0.5, 0.55, 0.6], 7.0, 0.5),
        # Some fall into the centre: their paths end there, and they have hit.
        ([1.0, 0.0, 0.0, 0.0], [0.01, 0.01, 0.02, 0.08], [0.002, 0.005], 1.5, 0.6),
    ],
    ids=["ellipses", "falls"],
)
def test_a_function_of_the_state_has_the_law_of_its_least_value(mean, sigma, levels, until, width):
    """The altitude of a periapsis, in closed form."""
    rng = np.random.default_rng(3)
    y = np.array(mean)[:, None] + np.array(sigma)[:, None] * rng.standard_normal((4, 4_000_000))
    least = periapsis(y)
    share = np.array([(least < level).mean() for level in levels])
    error = np.sqrt(share * (1 - share) / least.size)
    with pytest.warns(ergode.AccuracyWarning) if until < 2 else contextlib.nullcontext():
        found = ergode.density.propagate(
            ORBIT, ergode.Gaussian(mean, np.square(sigma)), times=[0.0, until], device="cpu:1",
            keep="none", closest_approach=ergode.ClosestApproach(radius, levels),
            width=[width * one for one in sigma],
        )  # fmt: skip
    mine = found["approach_probability"].values
    told = found["approach_error"].values
    assert (np.abs(mine - share) < 5 * error + 0.01 * share + 1.5 * told).all()
    assert (told < 0.15 * share).all()


def test_points_without_a_lattice_have_the_error_of_samples(crossing, found):
    rng = np.random.default_rng(4)
    prior = ergode.Samples(crossing + SMALL * rng.standard_normal((50_000, 4)))
    points = ergode.density.propagate(
        ORBIT, prior, times=[0.0, 2.0], device="cpu:1", keep="none", scheme="flow",
        closest_approach=ergode.ClosestApproach(from_target, RADII),
    )  # fmt: skip
    share, told = mine_of(found), points["approach_error"].values
    assert (np.abs(mine_of(points) - share) < 5 * told).all()
    assert np.allclose(told, np.sqrt(share * (1 - share) / 50_000), rtol=0.3)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"scheme": "split"}, PlanError, "closest_approach.*boundary='absorbing'"),
        ({"process_noise": [0.1, 0.1]}, PlanError, "closest_approach.*noise"),
        ({"killing_rate": lambda y, t, p: (0.1,)}, PlanError, "closest_approach.*killing rate"),
        ({"closest_approach": itself}, ModelError, "expected an ergode.ClosestApproach"),
        (
            {"closest_approach": ergode.ClosestApproach(itself, [1.0], end=5.0)},
            ModelError, "end.*5.*0 to 4",
        ),
        (
            {"closest_approach": ergode.ClosestApproach(lambda y, t, p: (y[2],), [1.0])},
            ModelError, r"uses y\[2\], but there are 2 variables",
        ),
        (
            {"closest_approach": ergode.ClosestApproach(lambda y, t, p: (y[0],) * 4, [1.0])},
            ModelError, "one to three",
        ),
        ({"closest_approach": ergode.ClosestApproach(itself, [-1.0])}, ModelError, "radii"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(options, error, message):
    given = {"closest_approach": ergode.ClosestApproach(itself, [1.0])} | ON_PLANE | options
    with pytest.raises(error, match=message):
        ergode.density.propagate(
            PLANE, ergode.Gaussian([-5.0, -5.8], [1.0, 1.0]), times=[0.0, 4.0], **given
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("far", [1.0]), "distance"), ((itself, []), "radii"), ((itself, [np.nan]), "radii"),
        ((itself, [1.0], 2.0, 1.0), "begin"),
    ],
)  # fmt: skip
def test_what_is_no_approach(arguments, message):
    with pytest.raises(ModelError, match=message):
        ergode.ClosestApproach(*arguments)


def test_its_cuda_kernel_compiles():
    pytest.importorskip("numba_cuda")
    from ergode.core import kernels
    from ergode.core.devices import cuda

    size, count = 2, 8
    kernel = carrier.kernel_of(LINEAR, "float64", "cuda", distance=UserFunction(itself, (2,)))
    one, log = np.zeros((1, size)), np.zeros((1, count))
    frame = Frame(one, one, np.eye(size)[None], np.zeros((1, 6)), one, one)
    follow = (
        0, count, count, 0.0, 1.0, np.zeros(1), one, np.zeros((size, size)), np.zeros(3), frame,
        np.zeros((size, 1, count)), log, log, log, np.zeros((6, 1, count)),
    )  # fmt: skip
    assert "__local_depot" not in cuda.ptx(kernel.compiled("cuda"), follow)
    rows = np.zeros((count, 3))
    spheres = (0, 32, *(np.ones(4),) * 5, rows, rows, np.zeros((count, 4)))
    for components in (1, 2, 3):
        kernel = kernels.for_each(nearest.touch, bindings={nearest.COMPONENTS: components})
        cuda.ptx(kernel.compiled("cuda"), spheres, optimized=False)
    passing = (0, 32, *(np.ones(4),) * 3, rows, rows, rows, np.zeros((count, 4)))
    for components in (1, 2):
        kernel = kernels.for_each(nearest.pass_by, bindings={nearest.COMPONENTS: components})
        cuda.ptx(kernel.compiled("cuda"), passing, optimized=False)


def in_capsule(mean, covariance, way, radii):
    """Probability that a disc that moves along `way` touches the origin, by quadrature."""
    length = np.linalg.norm(way)
    along = way / length if length > 0 else np.array([1.0, 0.0])
    turn = np.stack([along, [-along[1], along[0]]])
    middle, spread = turn @ mean, turn @ covariance @ turn.T
    slope = spread[0, 1] / spread[1, 1]
    alone = np.sqrt(spread[0, 0] - slope * spread[0, 1])
    x, w = np.polynomial.legendre.leggauss(400)
    found = []
    for R in radii:
        half = R * np.cos(0.5 * np.pi * x)  # the half chord, of smooth nodes
        across, weight = R * np.sin(0.5 * np.pi * x), 0.5 * np.pi * w * half
        centre = middle[0] + slope * (across - middle[1])
        inside = ndtr((half - centre) / alone) - ndtr((-length - half - centre) / alone)
        found.append(weight * inside @ stats.norm(middle[1], spread[1, 1] ** 0.5).pdf(across))
    return np.array(found)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    ("way", "back"),
    [((3.0, 4.0), 0.5), ((3.0, 4.0), 1.0), ((0.1, -0.3), 0.1), ((0.001, 0.0), 0.0), ((0, 0), 0)],
)
def test_a_span_that_cuts_the_approach_has_the_law_of_what_the_sphere_sweeps(way, back, precision):
    """What a small sphere sweeps until the span ends, or after it began, is a part of a cell."""
    way, spread = np.array(way, float), np.array([[1.0, -0.4], [-0.4, 0.8]])
    mean, radii = np.array([0.3, -0.2]) - back * way, [0.01, 0.3, 2.0]
    found = ergode.density.propagate(
        PLANE, ergode.Gaussian(mean, spread), times=[0, 1], precision=precision, device="cpu:1",
        parameters=dict(zip("uv", way, strict=True)), keep="none",
        closest_approach=ergode.ClosestApproach(itself, radii),
    )  # fmt: skip
    assert_probable(found, in_capsule(mean, spread, way, radii), 2e-3)


def test_random_spans_of_straight_lines_have_the_law_of_what_the_sphere_sweeps():
    """Half of them begin or end during the approach; in any units of length and time."""
    rng = np.random.default_rng(11)
    for _ in range(30):
        length, duration = 10.0 ** rng.uniform(-3, 3, 2)
        root = length * rng.normal(size=(2, 2))
        spread = root @ root.T + 0.05 * length**2 * np.eye(2)
        way = length * 10.0 ** rng.uniform(-1, 1) * rng.normal(size=2)
        mean = 0.7 * root @ rng.normal(size=2) - rng.uniform(-0.2, 1.2) * way
        radii = np.sort(length * 10.0 ** rng.uniform(-2, 0.3, 3))
        found = ergode.density.propagate(
            PLANE, ergode.Gaussian(mean, spread), times=[0, duration], device="cpu:1",
            parameters=dict(zip("uv", way / duration, strict=True)), keep="none",
            closest_approach=ergode.ClosestApproach(itself, radii),
        )  # fmt: skip
        assert_probable(found, in_capsule(mean, spread, way, radii), 0.01)


def test_orbits_that_a_span_cuts_come_as_near_as_sampled_ones(crossing):
    for begin, end in ((0.0, 1.0), (0.97, 2.0), (1.01, 1.012)):
        asked = ergode.ClosestApproach(from_target, RADII, begin=begin, end=end)
        found = near_target(crossing, width=list(0.7 * SMALL), closest_approach=asked)
        share, error = sampled_orbits(crossing, SMALL, RADII, begin=begin, until=end)
        assert (np.abs(mine_of(found) - share) < 5 * error + 0.005 * share).all()


def test_bodies_that_meet_in_space_when_the_span_ends_collide_as_sampled_ones():
    radii, count = [0.02, 0.1, 0.3], 1_000_000
    mean, sigma = MEET - [0.0, 0.1, 0.0, 0.0, 0.0, 0.0], SIGMA
    y = mean + sigma * np.random.default_rng(5).standard_normal((count, 6))
    r, v = y[:, :3], y[:, 3:]
    t = np.clip(-(r * v).sum(1) / (v * v).sum(1), 0.0, 1.0)
    least = np.linalg.norm(r + t[:, None] * v, axis=1)
    share = np.array([(least < R).mean() for R in radii])
    found = ergode.density.propagate(
        SPACE, ergode.Gaussian(mean, sigma**2), times=[0.0, 1.0], device="cpu", keep="none",
        width=list(sigma), closest_approach=ergode.ClosestApproach(in_space, radii),
    )  # fmt: skip
    told = found["approach_error"].values
    assert (np.abs(mine_of(found) - share) < 5 * np.sqrt(share / count) + told).all()
    assert (told < 0.06 * share).all()


def test_velocities_that_turn_where_the_span_ends_are_told():
    def free(t, y, p):
        return y[2], y[3], 0.0 * y[0], 0.0 * y[0]

    field = ergode.VectorField(free, ["x", "y", "u", "v"])
    with pytest.warns(ergode.AccuracyWarning, match="begins or ends while states are near"):
        found = ergode.density.propagate(
            field, ergode.Gaussian([0, 0, 1, 0], [1, 1, 1, 1]), times=[0, 1], device="cpu",
            keep="none", closest_approach=ergode.ClosestApproach(itself, [0.01]),
        )  # fmt: skip
    assert np.isnan(found["approach_error"]).all() and (found["approach_probability"] > 0).all()


def test_a_distance_that_is_no_tuple_is_refused():
    asked = ergode.ClosestApproach(lambda y, t, p: y[0], [0.5])
    with pytest.raises(ModelError, match="distance returns a number; expected a tuple"):
        ergode.density.propagate(
            PLANE, ergode.Gaussian([-5.0, 0.0], [0.2, 0.3]), times=[0.0, 1.0],
            closest_approach=asked, **ON_PLANE,
        )  # fmt: skip


@pytest.mark.filterwarnings("error:invalid value")
def test_a_distance_that_is_no_number_is_told():
    def nowhere(y, t, p):
        return (math.sqrt(-1.0 - y[0] * y[0]),)

    def partly(y, t, p):
        return (math.sqrt(y[0] + 5.0),)

    for distance, probability in ((nowhere, np.nan), (partly, None)):
        with pytest.warns(ergode.AccuracyWarning, match="no number along some paths"):
            found = ergode.density.propagate(
                PLANE, ergode.Gaussian([-5.0, 0.0], [0.2, 0.3]), times=[0.0, 1.0], **ON_PLANE,
                closest_approach=ergode.ClosestApproach(distance, [0.5]),
            )  # fmt: skip
        assert np.isnan(found["approach_error"]).all()
        if probability is not None:
            assert np.isnan(found["approach_probability"]).all()
