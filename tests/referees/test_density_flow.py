"""Densities by the default scheme against exact answers: any units, order of axes and distance.

Linear systems with noise, jumps and measurements against Kalman; drift in one to six dimensions;
oscillators far from their centres; planar orbits against Kepler's equation; measured chaos, whose
posteriors have several modes, against weighted samples, filtered or smoothed; polynomial fields
with noise from weak to strong against particles in NumPy; samples and mixtures as priors of linear
systems, up to seven variables, against sums of Gaussians; angles against particles. Each variable
has its own unit, the order of variables is random, and a density travels up to 1e4 of its
deviations. A result may be wrong only where it says so, and may say so of none without strong
noise.
"""

import sys
import warnings
from collections import Counter
from pathlib import Path

import density_cloud
import density_kinds
import density_linear
import numpy as np
import pytest
from fresh import fresh_seeds
from scipy.linalg import block_diag

import ergode
from ergode.core.errors import ErgodeWarning
from ergode.density.flow import carrier

sys.path.append(str(Path(__file__).parents[1] / "density"))
from test_flow_far import kepler

MEAN, COVARIANCE = 0.02, 0.04  # of a deviation; relative
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])

DRIFTS = {
    1: lambda t, y, p: (p[0] + 0.0 * y[0],),
    2: lambda t, y, p: (p[0], p[1]),
    3: lambda t, y, p: (p[0], p[1], p[2]),
    4: lambda t, y, p: (p[0], p[1], p[2], p[3]),
    5: lambda t, y, p: (p[0], p[1], p[2], p[3], p[4]),
    6: lambda t, y, p: (p[0], p[1], p[2], p[3], p[4], p[5]),
}


def one_pair(t, y, p):
    return p[0] * y[1], p[1] * y[0]


def two_pairs(t, y, p):
    return p[0] * y[1], p[1] * y[0], p[2] * y[3], p[3] * y[2]


def three_pairs(t, y, p):
    return p[0] * y[1], p[1] * y[0], p[2] * y[3], p[3] * y[2], p[4] * y[5], p[5] * y[4]


def attracted(t, y, p):
    cube = (y[0] * y[0] + y[1] * y[1]) ** 1.5
    return y[2], y[3], -p[0] * y[0] / cube, -p[0] * y[1] / cube


def field_of(function, size):
    return ergode.VectorField(
        function, [f"y{k}" for k in range(size)], [f"p{k}" for k in range(size)]
    )


DRIFTING = {size: field_of(one, size) for size, one in DRIFTS.items()}
OSCILLATING = {
    2 * count: field_of(one, 2 * count)
    for count, one in enumerate((one_pair, two_pairs, three_pairs), 1)
}
CHAOTIC = ergode.VectorField(
    lambda t, y, p: (
        10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]
    ),
    ["x", "y", "z"],
)  # fmt: skip
COMPONENTS = [lambda y, t, p: (y[0],), lambda y, t, p: (y[1],), lambda y, t, p: (y[2],)]
ORBIT = ergode.VectorField(attracted, ["x", "y", "u", "v"], ["mu"])


def units_of(rng, size):
    """A power of ten for each variable."""
    return 10.0 ** rng.integers(-5, 6, size)


def random_covariance(rng, size, smallest=0.3):
    mix = np.eye(size) + 0.4 * rng.normal(size=(size, size)) / np.sqrt(size)
    deviation = rng.uniform(smallest, 1.0, size)
    covariance = mix @ mix.T
    scale = deviation / np.sqrt(np.diag(covariance))
    return covariance * np.outer(scale, scale)


def run(field, mean, covariance, units, parameters, device, **options):
    """The default scheme in the given units; moments in the original ones, and the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ErgodeWarning)
        found = ergode.density.propagate(
            field, ergode.Gaussian(mean * units, covariance * np.outer(units, units)),
            parameters=dict(zip(field.parameters, parameters, strict=True)), keep="none",
            device=device, **options,
        )  # fmt: skip
    return found["mean"].values / units, found["covariance"].values / np.outer(units, units), found


def compared(label, moments, exact, found, evidences=()):
    """What is wrong, and a count; `exact` are means and covariances at the times."""
    if found.attrs["method"] != "flow":
        return [f"{label}: {found.attrs['method_reason']}"], Counter()
    if np.isfinite(found["unreliable_from"]):
        return [], Counter({"told": 1, f"told {label.split()[2]}": 1})
    errors = [density_linear.apart(*each) for each in zip(*moments, *exact, strict=True)]
    mean, covariance = np.max(errors, axis=0)
    evidence = np.abs(found["log_evidence"].values - np.asarray(evidences)).max(initial=0.0)
    if mean < MEAN and covariance < COVARIANCE and evidence < MEAN:
        return [], Counter(trusted=1)
    return [
        f"{label}: mean {mean:.4f}, covariance {covariance:.4f}, evidence {evidence:.4f}"
    ], Counter()


def judge_linear(seed, size, device):
    rng = np.random.default_rng(seed)
    noise = str(rng.choice(["none", "diagonal", "matrix"]))
    jumps = int(rng.integers(3)) if noise != "none" else 0
    bank = density_linear.random_bank(rng, size, 1, noise, bool(rng.integers(2)), jumps)
    order, units = rng.permutation(size), units_of(rng, size)
    turn = np.eye(size)[order]
    bank.drift, bank.noise = turn @ bank.drift @ turn.T, turn @ bank.noise @ turn.T
    bank.covariance = turn @ bank.covariance @ turn.T
    bank.shift, bank.row, bank.mean = (one[:, order] for one in (bank.shift, bank.row, bank.mean))
    bank.jumps = [(t, change[order], turn @ q @ turn.T) for t, change, q in bank.jumps]
    exact = density_linear.kalman(bank, 0)
    ratio = units[:, None] / units
    values = [
        *(bank.drift[0] * ratio).ravel(), *(bank.shift[0] * units), *(bank.row[0] / units)
    ]  # fmt: skip
    square = np.outer(units, units)
    *moments, found = run(
        density_linear.FIELDS[size], bank.mean[0], bank.covariance[0], units, values, device,
        times=bank.times, process_noise=None if noise == "none" else bank.noise * square,
        maneuvers=[ergode.Maneuver(t, change * units, q * square) for t, change, q in bank.jumps],
        measurements=[
            ergode.Measurement(float(t), density_linear.SEEN[size], float(v[0]), float(r[0]))
            for t, v, r in zip(bank.seen_at, bank.value, bank.variance, strict=True)
        ],
    )  # fmt: skip
    label = f"seed {seed}: linear, size {size}, noise {noise}, units {units}"
    return compared(label, moments, (exact.mean, exact.covariance), found, exact.log_evidence)


def judge_drift(seed, size, device):
    rng = np.random.default_rng(seed)
    covariance, units = random_covariance(rng, size), units_of(rng, size)
    mean, speed = rng.normal(0, 5, size), rng.normal(0, 10.0 ** rng.uniform(0, 4), size)
    noise = random_covariance(rng, size) if rng.integers(2) else np.zeros((size, size))
    times = np.array([0.0, 0.3, 1.0])
    *moments, found = run(
        DRIFTING[size], mean, covariance, units, speed * units, device, times=times,
        process_noise=noise * np.outer(units, units),
    )  # fmt: skip
    exact = mean + times[:, None] * speed, covariance + times[:, None, None] * noise
    return compared(f"seed {seed}: drift, size {size}, units {units}", moments, exact, found)


def judge_oscillators(seed, size, device):
    rng = np.random.default_rng(seed)
    covariance, units = random_covariance(rng, size), units_of(rng, size)
    mean = rng.normal(0, 10.0 ** rng.uniform(0, 4), size)
    rates = rng.uniform(0.5, 8.0, size // 2)
    times = np.array([0.0, 1.0, rng.uniform(1.5, 10.0)])
    values = np.stack([rates * units[::2] / units[1::2], -rates * units[1::2] / units[::2]], 1)
    *moments, found = run(
        OSCILLATING[size], mean, covariance, units, values.ravel(), device, times=times
    )
    turns = [
        block_diag(*[[[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]] for a in rates * t])
        for t in times
    ]
    exact = [turn @ mean for turn in turns], [turn @ covariance @ turn.T for turn in turns]
    return compared(f"seed {seed}: oscillators, size {size}, {units}", moments, exact, found)


def judge_orbit(seed, device):
    """An ellipse, known to a ten-thousandth or to a thousandth, for up to three periods."""
    rng = np.random.default_rng(seed)
    angle, speed = rng.uniform(0, 2 * np.pi), np.sqrt(1.0 + rng.uniform(0.0, 0.4))
    cos, sin = np.cos(angle), np.sin(angle)
    mean = np.array([cos, sin, -speed * sin, speed * cos])
    deviation = 10.0 ** rng.uniform(-4, -3)
    covariance = random_covariance(rng, 4) * deviation**2
    times = np.array([0.0, 2.0, rng.uniform(3.0, 18.0)])
    length, duration = 10.0 ** rng.integers(-3, 8), 10.0 ** rng.integers(-3, 5)
    units = np.array([length, length, length / duration, length / duration])
    *moments, found = run(
        ORBIT, mean, covariance, units, [length**3 / duration**2], device, times=times * duration
    )
    root = np.linalg.cholesky(covariance)
    half = rng.normal(size=(100_000, 4)) @ root.T
    states = mean + np.concatenate([half, -half])
    carried = [kepler(states, time) for time in times]
    exact = [one.mean(axis=0) for one in carried], [np.cov(one.T) for one in carried]
    return compared(f"seed {seed}: orbit, size 4, {units}", moments, exact, found)


def lorenz(y):
    """The equations of Lorenz, without a shift."""
    return np.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])


def carried_by_lorenz(y, steps, step=0.01):
    """States [variable, sample] after so many steps of RK4, in parts that fit into a cache."""
    parts = []
    for part in np.array_split(y, 50, axis=1):
        for _ in range(steps):
            k1 = lorenz(part)
            k2 = lorenz(part + 0.5 * step * k1)
            k3 = lorenz(part + 0.5 * step * k2)
            part = part + step / 6 * (k1 + 2 * k2 + 2 * k3 + lorenz(part + step * k3))
        parts.append(part)
    return np.concatenate(parts, axis=1)


def judge_chaos(seed, device):
    """Up to three measurements of a truth that the prior has drawn."""
    rng = np.random.default_rng(seed)
    point = np.array([1.0, 1.0, 20.0])[:, None]
    for _ in range(1_000 + int(rng.integers(1_000))):
        point = point + 0.005 * lorenz(point)
    mean, deviation = point[:, 0], 10 ** rng.uniform(-0.7, 0.2, 3)
    step, count = 0.01, 200_000
    rows = np.sort(rng.choice(np.arange(20, 121), rng.integers(1, 4), replace=False))
    y = mean[:, None] + deviation[:, None] * rng.normal(size=(3, count))
    log, states, seen = np.zeros(count), [y], []
    for before, row in zip([0, *rows], rows, strict=False):
        y = carried_by_lorenz(y, row - before, step)
        which = int(rng.integers(3))
        error = y[which].std() * 10 ** rng.uniform(-1.2, 0)
        value = y[which, 0] + error * rng.normal()
        seen.append(ergode.Measurement(step * row, COMPONENTS[which], value, error**2))
        log = log - 0.5 * ((y[which] - value) / error) ** 2
        states.append(y)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    effective = 1 / (weight @ weight)
    if effective < 2_000:
        return [], Counter(faint=1)
    smooth = bool(rng.integers(2))
    moments = run(
        CHAOTIC, mean, np.diag(deviation**2), np.ones(3), [], device, measurements=seen,
        times=[0.0, *(one.time for one in seen)], smooth=smooth, scheme="flow",
    )  # fmt: skip
    if np.isfinite(moments[2]["unreliable_from"]):
        return [], Counter({"told": 1, "told chaos": 1})
    wrong = []
    for row in range(len(states)) if smooth else [len(states) - 1]:
        square = (states[row] - (states[row] @ weight)[:, None]) ** 2
        wide = np.sqrt(square @ weight)
        away = (moments[0][row] - states[row] @ weight) / wide
        off = np.sqrt(np.diag(moments[1][row])) / wide - 1
        chance = [
            6 * np.sqrt(square @ weight**2) / wide,
            3 * np.sqrt((square - wide[:, None] ** 2) ** 2 @ weight**2) / wide**2,
        ]
        if (np.abs([away, off]) > MEAN + np.array(chance)).any():
            wrong.append(
                f"seed {seed}: chaos, row {row}, smooth {smooth}: mean {away.round(4)}, deviation "
                f"{off.round(4)}, chance {np.round(chance, 4).tolist()}"
            )
    return wrong, Counter(trusted=not wrong, chaos=not wrong)


def judge_noise(seed, size, device, is_other=False):
    """A polynomial field with noise: whatever the default is, it may be far off only if it says so.

    It `is_other` if noise may depend on the state, and likelihoods need not be Gaussian. The bounds
    of alarms are 0.05 for points that follow the flow, and 0.2 and 0.15 for a grid.
    """
    rng = np.random.default_rng(seed)
    case = density_cloud.random_case(rng, size, True)
    case.noise = case.noise * 10.0 ** rng.uniform(-3, 1)
    if is_other:
        case.bend = float(rng.uniform(0.0, 3.0)) if rng.integers(2) else None
        kind = rng.integers(3)
        case.freedom = float(10.0 ** rng.uniform(-0.3, 1.5)) if kind == 1 else None
        case.has_own = bool(kind == 2)
    plain = density_cloud.filtered(case, seed)
    chance = 6 * np.sqrt(size / plain["effective"].min())
    places, named = case.arguments()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ErgodeWarning)
        found = ergode.density.propagate(*places, **named, keep="none", device=device)
    if np.isfinite(found["unreliable_from"]):
        return [], Counter({"told": 1, "told noise": 1})
    method = found.attrs["method"]
    wide, exact = (
        np.sqrt(np.diagonal(one, axis1=1, axis2=2))
        for one in (found["covariance"].values, plain["covariance"])
    )
    mean = np.abs((found["mean"].values - plain["mean"]) / exact).max()
    deviation = np.abs(wide / exact - 1).max()
    most = (0.07, 0.07) if method == "flow" else (0.22, 0.17)
    if mean < most[0] + chance and deviation < most[1] + chance:
        return [], Counter({"trusted": 1, f"noise by {method}": 1})
    return [
        f"seed {seed}: noise {case.noise}, size {size}, other {is_other} (bend {case.bend}, "
        f"freedom {case.freedom}, own {case.has_own}), {method}: mean {mean:.4f}, deviation "
        f"{deviation:.4f}, chance {chance:.4f}, {found.attrs['method_reason']}"
    ], Counter()


def judge_samples(seed, size, device):
    """Weighted samples of two heaps as a prior of a linear system."""
    rng = np.random.default_rng(seed)
    noise = str(rng.choice(["none", "diagonal", "matrix"]))
    jumps = int(rng.integers(2)) if noise != "none" else 0
    bank = density_linear.random_bank(rng, size, 1, noise, False, jumps)
    points, weights = density_kinds.random_samples(rng, bank.mean[0], bank.covariance[0])
    exact, evidences = density_kinds.filtered(
        bank, weights, points, np.zeros((1, size, size))
    )  # fmt: skip
    prior = ergode.Samples(points, weights)
    found = of_bank(bank, prior, device, noise != "none")
    label = f"seed {seed}: samples, size {size}, noise {noise}"
    # Kernels of a hundredth of the covariance smooth the heaps.
    return told_or_right(label, found, exact, evidences, 0.02 if noise == "none" else 0.07)


def judge_seven(seed, device):
    """Seven variables with noise, and a Gaussian or a mixture of two as a prior."""
    rng = np.random.default_rng(seed)
    bank = density_kinds.random_seven(rng)
    wide, parts, weights = bank.covariance[0], bank.mean, np.ones(1)
    prior = ergode.Gaussian(bank.mean[0], wide)
    if rng.integers(2):
        apart = rng.normal(0, 1.5, 7) * np.sqrt(np.diag(wide))
        parts, weights = bank.mean + np.stack([apart, -apart]), np.array([0.4, 0.6])
        prior = ergode.Mixture(weights, [ergode.Gaussian(one, wide) for one in parts])
    covariances = np.broadcast_to(wide, (len(parts), 7, 7))
    exact, evidences = density_kinds.filtered(bank, weights, parts, covariances)
    found = of_bank(bank, prior, device, True)
    label = f"seed {seed}: seven variables, {len(parts)} terms, {bank.variance.ravel()}"
    return told_or_right(label, found, exact, evidences, 0.02)


def of_bank(bank, prior, device, is_noisy):
    """The only density of a bank by points that follow the flow, with a prior of its own."""
    field, seen = density_linear.FIELDS.get(bank.size, density_kinds.SEVEN), bank.measurements
    values = bank.parameters() if bank.size < 7 else dict(
        zip(field.parameters, bank.drift.ravel(), strict=True)
    )  # fmt: skip
    if bank.size == 7:
        density_linear.SEEN[7] = density_kinds.first
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ErgodeWarning)
        return ergode.density.propagate(
            field, prior, times=bank.times, parameters={k: float(np.ravel(v)[0]) for k, v in
            values.items()}, measurements=[
                ergode.Measurement(one.time, one.h, one.value[0], one.covariance[0])
                for one in seen()
            ], maneuvers=bank.maneuvers(), process_noise=bank.noise if is_noisy else None,
            scheme="flow", keep="none", device=device,
        )  # fmt: skip


def told_or_right(label, found, exact, evidences, most):
    if np.isfinite(found["unreliable_from"]):
        return [], Counter({"told": 1, f"told {label.split()[2]}": 1})
    both = zip(found["mean"].values, found["covariance"].values, *zip(*exact, strict=True),
               strict=True)  # fmt: skip
    mean, covariance = np.max([density_linear.apart(*each) for each in both], axis=0)
    evidence = np.abs(found["log_evidence"].values - np.asarray(evidences)).max(initial=0.0)
    if mean < most and covariance < 2 * most and evidence < most:
        return [], Counter({"trusted": 1, label.split()[2].strip(","): 1})
    return [
        f"{label}: mean {mean:.4f}, covariance {covariance:.4f}, evidence {evidence:.4f}"
    ], Counter()


def judge_angle(seed, device):
    """A pendulum that may swing over, with and without noise."""
    rng = np.random.default_rng(seed)
    swing = density_kinds.Swing(rng, bool(rng.integers(2)))
    exact, effective = swing.filtered(rng)
    places, named = swing.arguments()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ErgodeWarning)
        found = ergode.density.propagate(
            *places, **named, scheme="flow", keep="none", device=device
        )  # fmt: skip
    if np.isfinite(found["unreliable_from"]):
        return [], Counter({"told": 1, "told angle": 1})
    most = (0.02 if not swing.noise.any() else 0.07) + 6 / np.sqrt(effective)
    for row, (turn, mean, wide) in enumerate(exact):
        if turn < 0.3:  # an angle has hardly a mean
            continue
        off = found["mean"].values[row] * swing.turns - mean
        off[0] = np.angle(np.exp(1j * off[0]))
        ratio = np.sqrt(np.diag(found["covariance"].values[row])) * swing.turns / wide - 1
        if max(np.abs(off / wide).max(), np.abs(ratio).max()) > most:
            return [
                f"seed {seed}: angle, row {row}, noise {swing.noise}: mean {off / wide}, deviation "
                f"{ratio}, at most {most:.3f}"
            ], Counter()
    return [], Counter(trusted=1, angle=1)


def judge(rng, device):
    seed, kind = int(rng.integers(1 << 40)), rng.integers(10)
    if kind == 9:
        return judge_seven(seed, device)
    if kind == 8:
        return judge_angle(seed, device)
    if kind == 7:
        return judge_samples(seed, int(rng.integers(1, 4)), device)
    if kind == 6:
        return judge_noise(seed, int(rng.integers(1, 3)), device, True)
    if kind == 5:
        return judge_chaos(seed, device)
    if kind == 4:
        return judge_noise(seed, int(rng.integers(1, 3)), device)
    if kind == 0:
        return judge_linear(seed, int(rng.integers(1, 5)), device)
    if kind == 1:
        return judge_drift(seed, int(rng.integers(1, 7)), device)
    if kind == 2:
        return judge_oscillators(seed, int(rng.choice([2, 4, 6])), device)
    return judge_orbit(seed, device)


def judged(found):
    found = list(found)
    wrong = [one for some, _ in found for one in some]
    assert not wrong, "\n".join(wrong)
    return sum((counts for _, counts in found), Counter())


@pytest.mark.slow
@DEVICES
def test_linear_systems_in_any_units(device):
    counts = judged(judge_linear(seed, 2, device) for seed in range(100, 112))
    assert counts["trusted"] > 10


@pytest.mark.slow
@DEVICES
def test_drift_and_oscillators(device):
    counts = judged(judge_drift(seed, 3, device) for seed in range(200, 206))
    counts += judged(judge_oscillators(seed, 2, device) for seed in range(210, 220))
    assert counts["trusted"] == 16


@pytest.mark.slow
@DEVICES
def test_orbits(device):
    assert judged([judge_orbit(seed, device) for seed in range(300, 302)])["trusted"] > 0


@pytest.mark.slow
@DEVICES
def test_measured_chaos(device):
    found = (*range(500, 503), 1188, 2069)  # the last two were wrong without a word
    counts = judged(judge_chaos(seed, device) for seed in found)
    assert counts["chaos"] > 1


@pytest.mark.exhaustive
@DEVICES
def test_chaos_that_was_wrong_without_a_word(device):
    judged(judge_chaos(seed, device) for seed in (3115, 1048811405206))  # the last: a far lobe


@pytest.mark.slow
@DEVICES
def test_fields_with_noise(device):
    counts = judged(judge_noise(seed, 2, device) for seed in range(400, 408))
    assert counts["noise by flow"] > 0 and counts["noise by split"] > 0


@pytest.mark.exhaustive
@DEVICES
def test_noise_by_a_function_and_any_likelihood(device):
    judged(judge_noise(seed, 1 + seed % 2, device, True) for seed in range(600, 616))


@pytest.mark.exhaustive
@DEVICES
def test_newer_kinds(device):
    counts = judged(judge_seven(seed, device) for seed in range(700, 703))
    counts += judged(judge_samples(seed, 1 + seed % 3, device) for seed in range(710, 722))
    counts += judged(judge_angle(seed, device) for seed in range(730, 738))
    assert counts["trusted"] > 15


@pytest.mark.slow
def test_a_loose_tolerance_is_noticed(monkeypatch):
    """Paths a thousand times less accurate."""
    init = carrier.Carrier.__init__
    monkeypatch.setattr(
        carrier.Carrier, "__init__",
        lambda *given, **named: init(*given, **{**named, "fine": 0.01}),
    )  # fmt: skip
    with pytest.raises(AssertionError, match="oscillators"):
        judged(judge_oscillators(seed, 2, "cpu") for seed in range(210, 220))


@pytest.mark.exhaustive
@DEVICES
def test_for_as_long_as_is_asked(device, capsys):
    """Whatever is found is reported at the end."""
    found = [judge(np.random.default_rng(seed), device) for seed in fresh_seeds()]
    with capsys.disabled():
        print(f"\nreferee of flow on {device}: {dict(sum((one for _, one in found), Counter()))}")
    judged(found)
