"""Densities and particles against Kalman's filter and a plain particle filter, on random systems.

A result may be wrong only where it says so: a measurement marked as not to be trusted, a density
that is not resolved, probability that was dropped.  What it says of the shift of a resolved density
is held to as well: mean and evidence are off by no more than twice as much, besides the error of
the grid.
Tolerances are the error of a grid of that many cells in a deviation, and six standard errors of
whatever is drawn (family-wise error below 1e-6).
"""

from __future__ import annotations

import warnings
from collections import Counter

import density_cloud
import density_linear
import numpy as np
import pytest
from fresh import fresh_seeds

import ergode
from ergode.core.errors import ErgodeWarning
from ergode.density import run, solve, tail
from ergode.models.estimation import estimation, likelihood

# Kernels: size, noise, scheme, precision.  Those of the ordinary tests come first.
KERNELS = [
    (2, "none", "split", "float64"), (1, "diagonal", "split", "float32"),
    (2, "matrix", "split", "float64"), (1, "none", "corner-transport", "float64"),
    (3, "none", "split", "float64"), (3, "diagonal", "split", "float32"),
    (2, "diagonal", "corner-transport", "float64"), (4, "none", "split", "float32"),
    (1, "none", "split", "float64"), (4, "diagonal", "split", "float64"),
    (2, "none", "split", "float32"), (2, "matrix", "corner-transport", "float32"),
    (3, "matrix", "split", "float64"), (2, "none", "flow", "float64"),
    (3, "none", "flow", "float32"), (1, "none", "flow", "float64"), (4, "none", "flow", "float64"),
    (2, "matrix", "flow", "float64"), (3, "diagonal", "flow", "float32"),
]  # fmt: skip
FINENESS = {1: (4, 12), 2: (4, 8), 3: (3.5, 5), 4: (2.5, 3.5)}  # cells in a deviation
OPTIONS = [
    {"threshold": 1e-8}, {"threshold": 1e-6, "lower_threshold": True}, {"retained": 0.9999},
    {}, {"threshold": 1e-8, "scale_threshold": False}, {"threshold": 1e-7, "axes": "principal"},
]  # fmt: skip
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])


def tolerances(scheme: str, cells: float, pull: float, shift: float) -> tuple[float, float]:
    """Of a mean, in deviations, and of a covariance, relative; evidences as means."""
    # A tail is smeared more than the middle: less than a tenth, or the result says so.  Nearer, as
    # the result says, which is an estimate.
    far = max(0.15 if pull > 2 else 0.0, 2.0 * shift)
    if scheme == "flow":
        return 0.02, 0.04
    if scheme == "split":
        return 0.004 + 0.3 / cells**2 + far, 0.01 + 0.8 / cells**2 + far
    # Of first order where the field varies along itself, and from a box of three deviations.
    return 0.03 + 0.4 / cells + far, 0.1 + 0.6 / cells + far


def is_told(found, which: int) -> bool:
    """Whether a result says of itself that it is not to be trusted."""
    one = found.isel(trajectory=which)
    if found.attrs["method"] == "flow":  # cells of the result are for figures alone
        return bool(np.isfinite(one["unreliable_from"]))
    return bool(np.isfinite(one["unreliable_from"])) or not is_resolved(one)


def is_resolved(one) -> bool:
    across = [
        density_linear.deviation_in_cells(each, one["width"].values, one["axes"].values)
        for each in one["covariance"].values if np.isfinite(each).all()
    ]  # fmt: skip
    return not (
        one["cells_in_deviation"].min() < 1.75
        or min(across, default=0.0) < 1.75  # a narrow one that lies askew
        or one["mass_lost"].max() > 0.01
    )


def is_smeared_only(one) -> bool:
    """Whether all that a result says of itself is how far the mean could be off."""
    return bool(
        is_resolved(one) and one["posterior_cut"].max() <= tail.CUT_MOST
        and one["posterior_cells_in_deviation"].min() >= solve.THINNEST
    )  # fmt: skip


def judge_linear(
    seed: int, kernel, device: str, count: int = 10, jump_count: int = 0
) -> tuple[list[str], Counter]:
    """What is wrong of a bank of linear systems, and how many were told, and right."""
    rng = np.random.default_rng(seed)
    size, noise, scheme, precision = kernel
    in_tail = bool(rng.integers(2))
    bank = density_linear.random_bank(rng, size, count, noise, in_tail, jump_count)
    options = dict(OPTIONS[rng.integers(len(OPTIONS))])
    if noise == "matrix" or size > 2 or (size > 1 and noise == "diagonal"):
        options.pop("axes", None)  # noise has axes of its own: refused by name
    deviation = np.sqrt(np.diag(bank.covariance[0]))
    given = bank.noise if noise == "matrix" else np.diag(bank.noise)
    if noise == "matrix":
        axes = np.linalg.eigh(bank.noise)[1]
        deviation = np.sqrt(np.diag(axes.T @ np.diag(deviation**2) @ axes))
    elif options.get("axes") == "principal":
        deviation = np.sqrt(np.linalg.eigvalsh(bank.covariance).min(0))
    width = deviation / rng.uniform(*FINENESS[size])
    if scheme == "flow":
        options, width = {}, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ErgodeWarning)
        found = ergode.density.propagate(
            density_linear.FIELDS[size], bank.prior(), times=bank.times,
            measurements=bank.measurements(), maneuvers=bank.maneuvers(),
            parameters=bank.parameters(),
            width=width, scheme=scheme, precision=precision,
            process_noise=None if noise == "none" else given, device=device, **options,
        )  # fmt: skip
    wrong, counts = [], Counter()
    for which in range(count):
        exact = density_linear.kalman(bank, which)
        one = found.isel(trajectory=which)
        width, axes = one["width"].values, one["axes"].values
        cells = min(
            density_linear.deviation_in_cells(each, width, axes)
            for each in (*exact.covariance, *exact.ahead_covariance)
        )
        pull = float(np.abs(exact.pull).max())
        told = is_told(found, which)
        counts["told" if told else "trusted"] += 1
        if told:
            # No false alarm where hardly anything was cut.
            is_fine = one["mass_lost"].max() < 1e-6 and pull < 2 and cells > 3
            if scheme == "split" and is_fine and np.isfinite(one["unreliable_from"]):
                wrong.append(f"system {which} is called unreliable: {cells:.1f} cells, {pull}")
            if scheme == "flow" or not is_smeared_only(one):
                continue
            counts["smeared only"] += 1
        errors = [
            density_linear.apart(*each)
            for each in zip(
                (*one["mean"].values, *one["prior_mean"].values),
                (*one["covariance"].values, *one["prior_covariance"].values),
                (*exact.mean, *exact.ahead_mean),
                (*exact.covariance, *exact.ahead_covariance), strict=True,
            )
        ]  # fmt: skip
        mean, covariance = np.max(errors, axis=0)
        evidence = float(np.abs(one["log_evidence"].values - exact.log_evidence).max())
        most, spread = tolerances(scheme, cells, pull, float(one["posterior_shift"].max()))
        surprise = most + 2.0 * float(one["evidence_shift"].max())
        if not (mean < most and evidence < surprise and (told or covariance < spread)):
            wrong.append(
                f"system {which}: mean {mean:.4f}, covariance {covariance:.4f}, evidence "
                f"{evidence:.4f} off, {cells:.1f} cells, pull {pull:.1f}"
            )
    return [f"seed {seed}, {kernel}, {options}, {one}" for one in wrong], counts


def judge_particles(
    seed: int, size: int, device: str, jump_count: int = 0
) -> tuple[list[str], Counter]:
    """What is wrong of particles of a linear system, with or without noise."""
    rng = np.random.default_rng(seed)
    noise = str(rng.choice(["none", "diagonal", "matrix"]))
    in_tail = bool(rng.integers(2))
    bank = density_linear.random_bank(rng, size, 1, noise, in_tail, jump_count)
    exact, count = density_linear.kalman(bank, 0), 20_000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ErgodeWarning)
        found = ergode.particles.propagate(
            density_linear.FIELDS[size], ergode.Gaussian(bank.mean[0], bank.covariance[0]),
            times=bank.times, parameters={k: float(v[0]) for k, v in bank.parameters().items()},
            measurements=[
                ergode.Measurement(float(t), density_linear.SEEN[size], float(v[0]), float(r[0]))
                for t, v, r in zip(bank.seen_at, bank.value, bank.variance, strict=True)
            ],
            maneuvers=bank.maneuvers(),
            process_noise=None if noise == "none" else bank.noise, count=count, seed=seed,
            device=device, step=0.005,
        )  # fmt: skip
    if np.isfinite(found["unreliable_from"]):
        return [], Counter(told=1)
    wrong = []
    # Six standard errors of those that count, and a step's bias.
    chance = 6 / np.sqrt(float(found["effective_count"].min())) * np.sqrt(size)
    for k in range(bank.times.size):
        away, spread = density_linear.apart(
            found["mean"].values[k], found["covariance"].values[k], exact.mean[k],
            exact.covariance[k],
        )  # fmt: skip
        if not (away < chance + 0.01 and spread < 3 * chance + 0.02):
            wrong.append(f"time {k}: mean {away:.3f}, covariance {spread:.3f}, chance {chance:.3f}")
    evidence = np.abs(found["log_evidence"].values - exact.log_evidence)
    if not (evidence < 2 * chance + 0.02).all():
        wrong.append(f"evidence {evidence} off, chance {chance:.3f}")
    return [f"seed {seed}, size {size}, noise {noise}, {one}" for one in wrong], Counter(trusted=1)


def judge_kalman(
    seed: int, size: int, device: str, jump_count: int = 0
) -> tuple[list[str], Counter]:
    """What is wrong of unscented filters of a bank of linear systems, where they are exact."""
    rng = np.random.default_rng(seed)
    noise = str(rng.choice(["none", "diagonal", "matrix"]))
    in_tail = bool(rng.integers(2))
    bank = density_linear.random_bank(rng, size, 5, noise, in_tail, jump_count)
    found = ergode.particles.unscented_kalman(
        density_linear.FIELDS[size], bank.prior(), times=bank.times, device=device,
        measurements=bank.measurements(), maneuvers=bank.maneuvers(),
        parameters=bank.parameters(),
        process_noise=None if noise == "none" else bank.noise,
        alpha=float(rng.choice([0.1, 0.5, 1.0])), kappa=float(rng.choice([0.0, 1.0])),
    )  # fmt: skip
    wrong = []
    for which in range(bank.count):
        exact, one = density_linear.kalman(bank, which), found.isel(trajectory=which)
        errors = [
            density_linear.apart(*each)
            for each in zip(
                (*one["mean"].values, *one["prior_mean"].values),
                (*one["covariance"].values, *one["prior_covariance"].values),
                (*exact.mean, *exact.ahead_mean),
                (*exact.covariance, *exact.ahead_covariance), strict=True,
            )
        ]  # fmt: skip
        evidence = np.abs(one["log_evidence"].values - exact.log_evidence).max()
        surprise = np.sqrt(one["normalised_innovation_squared"].values) - np.abs(exact.surprise)
        # The splitting of noise and flow leaves the square of a 200th of the time.
        worst = max(np.max(errors), evidence, np.abs(surprise).max())
        if not worst < 1e-3:
            wrong.append(f"seed {seed}, size {size}, noise {noise}, filter {which}: {worst:.1e}")
    return wrong, Counter(trusted=bank.count)


def judge_polynomial(seed: int, size: int, noisy: bool, device: str) -> tuple[list[str], Counter]:
    """Grid and particles of a polynomial field against a plain filter of 100,000 particles."""
    rng = np.random.default_rng(seed)
    case = density_cloud.random_case(rng, size, noisy)
    plain = density_cloud.filtered(case, seed)
    places, named = case.arguments()
    deviation = np.sqrt(np.diag(case.covariance))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ErgodeWarning)
        grid = ergode.density.propagate(
            *places, **named, width=deviation / 8, threshold=1e-8, keep="none", device=device
        )
        cloud = ergode.particles.propagate(
            *places, **named, count=30_000, seed=seed, device=device, keep="none",
            **({"step": 0.005} if noisy else {}),
        )  # fmt: skip
    wrong, counts = [], Counter()
    scarce = 1 / plain["effective"].min()
    cells = min(
        density_linear.deviation_in_cells(one, grid["width"].values, grid["axes"].values)
        for one in plain["covariance"]
    )
    tools = (
        ("grid", grid, 6 * np.sqrt(scarce) + 0.02, is_told(grid.expand_dims("trajectory"), 0)),
        (
            "particles", cloud, 6 * np.sqrt(scarce + 1 / float(cloud["effective_count"].min())),
            bool(np.isfinite(cloud["unreliable_from"])),
        ),
    )  # fmt: skip
    for name, found, most, told in tools:
        counts["told" if told else "trusted"] += 1
        if told or scarce > 1e-3:
            continue
        # A grid has an error of its own, as in linear systems.
        own, own_spread = (
            (0.0, 0.0) if name == "particles" else tolerances("split", cells, 0.0, 0.0)
        )
        for k in range(case.times.size):
            away, spread = density_linear.apart(
                found["mean"].values[k], found["covariance"].values[k], plain["mean"][k],
                plain["covariance"][k],
            )  # fmt: skip
            # Tails of these densities may be heavy: the covariance's error is that of the fourth
            # moment.
            if not (away < own + most * np.sqrt(size) and spread < own_spread + 3 * most + 0.02):
                wrong.append(f"{name}, time {k}: mean {away:.4f}, covariance {spread:.4f}, {most}")
        evidence = np.abs(found["log_evidence"].values - plain["log_evidence"])
        if not (evidence < own + 2 * most).all():
            wrong.append(f"{name}: evidence {evidence} off, {most}")
    return [f"seed {seed}, size {size}, noise {noisy}, {one}" for one in wrong], counts


def judged(cases) -> Counter:
    """The counts of all; whatever is wrong fails."""
    wrong, counts = [], Counter()
    for judge, arguments in cases:
        found, some = judge(*arguments)
        wrong += found
        counts += some
    assert not wrong, "\n".join(wrong)
    return counts


@pytest.mark.slow
@DEVICES
@pytest.mark.parametrize(
    "kernel", [*KERNELS[:3], KERNELS[13], KERNELS[17]], ids=lambda k: " ".join(map(str, k))
)
def test_linear_systems(kernel, device):
    counts = judged((judge_linear, (seed, kernel, device)) for seed in range(100, 103))
    assert counts["trusted"] > 2 or kernel[2] != "split"


@pytest.mark.parametrize("seed", [637926328187, 494863036618])
def test_a_lattice_of_fine_cells_does_not_end_within_a_posterior(seed):
    """Of one variable, 4.4 deviations away: the last cell held .0008 where .05 lay beyond."""
    kernel = next(one for one in KERNELS if one[:3] == (1, "none", "flow"))
    wrong, counts = judge_linear(seed, kernel, "cpu")
    assert not wrong, "\n".join(wrong)
    assert counts["trusted"] > 5


@pytest.mark.slow
def test_a_tail_that_was_smeared_while_the_density_was_thin_is_told():
    """A density that grows to twice its width, and a measurement five deviations away."""
    wrong, counts = judge_linear(905410927905, KERNELS[0], "cpu")
    assert not wrong, "\n".join(wrong)
    assert counts["trusted"] > 5


@pytest.mark.exhaustive
@pytest.mark.parametrize(("seed", "kernel"), [(452504502388, 11), (937579368849, 12)])
def test_a_tail_that_was_displaced_across_the_measured_direction_is_told(seed, kernel):
    wrong, _ = judge_linear(seed, KERNELS[kernel], "cpu")
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
def test_a_steep_tail_that_hides_how_far_it_was_displaced_is_told():
    """Contracting to 2.9 cells: 0.7 deviations off, where the first order of the error is 0.3."""
    wrong, _ = judge_linear(941557923729, KERNELS[8], "cpu")
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
def test_a_tail_that_two_measurements_have_reached_is_told():
    """Two deviations each: 0.38 deviations off, where the second alone would be 0.05."""
    wrong, _ = judge_linear(1008050068859, KERNELS[10], "cpu")
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
def test_a_narrow_density_that_lies_askew_is_told():
    """1.3 cells across, and 2.2 along the axes: its covariance is half too large."""
    wrong, _ = judge_linear(16746817794, KERNELS[10], "cpu")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@DEVICES
def test_particles_of_linear_systems(device):
    counts = judged((judge_particles, (seed, 2, device)) for seed in range(200, 204))
    assert counts["trusted"] > 1


@DEVICES
def test_kalman_filters_of_linear_systems(device):
    judged((judge_kalman, (seed, 2, device)) for seed in range(400, 405))


@DEVICES
def test_kalman_filters_with_maneuvers(device):
    judged((judge_kalman, (seed, 2, device, 2)) for seed in range(500, 505))


@pytest.mark.slow
@DEVICES
def test_densities_and_particles_with_maneuvers(device):
    counts = judged((judge_linear, (seed, KERNELS[0], device, 5, 2)) for seed in range(600, 603))
    assert counts["trusted"] > 2
    counts = judged((judge_particles, (seed, 2, device, 2)) for seed in range(610, 613))
    assert counts["trusted"] > 0


def test_a_maneuver_with_a_wrong_covariance_is_noticed(monkeypatch):
    """By one per cent."""
    monkeypatch.setattr(
        density_linear.Bank, "maneuvers",
        lambda self: [ergode.Maneuver(t, change, 1.01 * q) for t, change, q in self.jumps],
    )  # fmt: skip
    with pytest.raises(AssertionError, match="filter"):
        judged((judge_kalman, (seed, 2, "cpu", 2)) for seed in range(500, 505))


@pytest.mark.slow
@DEVICES
def test_polynomial_fields(device):
    counts = judged((judge_polynomial, (seed, 2, True, device)) for seed in range(300, 302))
    assert counts["trusted"] > 1


@pytest.mark.exhaustive
@DEVICES
def test_for_as_long_as_is_asked(device, capsys):
    """Whatever is found is reported at the end."""
    wrong, counts = [], Counter()
    for seed in fresh_seeds():
        rng = np.random.default_rng(seed)
        one, kind = int(rng.integers(1 << 40)), rng.random()
        if kind < 0.7:
            kernel = KERNELS[rng.integers(len(KERNELS))]
            found, some = judge_linear(one, kernel, device)
        elif kind < 0.8:
            found, some = judge_particles(one, int(rng.integers(1, 4)), device)
        elif kind < 0.85:
            found, some = judge_kalman(one, int(rng.integers(1, 5)), device)
        else:
            found, some = judge_polynomial(
                one, int(rng.integers(1, 3)), bool(rng.integers(2)), device
            )
        wrong += found
        counts += some
    with capsys.disabled():
        print(f"\nreferee of densities on {device}: {dict(counts)}")
    assert not wrong, "\n".join(wrong)


def faster(monkeypatch):
    """Every parameter of a field 2 % too large."""
    values = estimation.Estimation.values.fget
    monkeypatch.setattr(estimation.Estimation, "values", property(lambda self: 1.02 * values(self)))


def first_of_two(monkeypatch):
    """Of measurements at one time only the first one counts."""
    measure = run.Run._measure

    def once(self, index, measurement):
        if index == 0 or self.measurements[index - 1].time != measurement.time:
            measure(self, index, measurement)
        else:
            for record in self.records:
                for name in ("log_evidence", "prior_mean", "prior_covariance"):
                    record.values[name][index] = record.values[name][index - 1]

    monkeypatch.setattr(run.Run, "_measure", once)


def no_constant(monkeypatch):
    """The normalisation of the likelihood is left out."""
    numbers = likelihood.numbers_of
    monkeypatch.setattr(
        likelihood, "numbers_of", lambda *given: (*numbers(*given)[:2], 0 * numbers(*given)[2])
    )


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [faster, first_of_two, no_constant])
def test_a_broken_engine_is_noticed(mutant, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises(AssertionError, match="off"):
        judged((judge_linear, (seed, KERNELS[0], "cpu")) for seed in range(100, 106))
