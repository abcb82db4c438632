"""Holds results of `ergode.stochastic` against the truth of a case; says what differs."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import stochastic_beside as beside
import stochastic_cases as cases
import stochastic_truth as truth
from scipy import stats

import ergode
from ergode.stochastic.methods import APPROXIMATE, EXACT

# Of a single comparison; there are up to a thousand in the ordinary tests: 1e-6 for all together.
LEVEL = 1e-9
SIGMAS = 6.2
# Where the library simulates: a device's name.
DEVICE = "cpu"


@dataclass
class Findings:
    """What was compared, what was refused, and what differs."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)

    def check(self, fine, message):
        """Note one comparison."""
        self.counts["compared"] += 1
        if not fine:
            self.wrong.append(message)


def simulate(found, case, method, tables=True, **options):
    """The library's result; None if it refuses by name."""
    options = {"times": case.times, "device": DEVICE, **options}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ergode.ErgodeWarning)
            return ergode.stochastic.simulate(
                cases.network_of(case, tables), method=method, **options
            )
    except (ergode.PlanError, ergode.ModelError) as error:
        found.counts[f"refused by {method}: {str(error)[:60]}"] += 1
        return None


def g_test(observed, expected_or_sample, two_samples):
    """P-value of counts of values 0, 1, ...; rare values together. (Right far out in the tail.)"""
    width = max(len(observed), len(expected_or_sample))
    a, b = (
        np.pad(np.asarray(x, float), (0, width - len(x))) for x in (observed, expected_or_sample)
    )
    n, m = a.sum(), b.sum()
    if n == 0 or m == 0:
        return 1.0 if n == m else 0.0
    expected = (a + b) * n / (n + m) if two_samples else b / m * n
    if not two_samples and (a[expected < 1e-12] > 2).any():
        return 0.0
    groups, e, f, g = [], 0.0, 0.0, 0.0
    smaller = min(1.0, m / n) if two_samples else 1.0
    for x, y, z in zip(expected, a, b, strict=True):
        e, f, g = e + x, f + y, g + z
        if e * smaller >= 10:
            groups.append([e, f, g])
            e = f = g = 0.0
    if not groups:
        return 1.0
    groups[-1] = [p + q for p, q in zip(groups[-1], (e, f, g), strict=True)]
    e, f, g = np.array(groups).T
    if len(e) < 2:
        return 1.0
    parts = f * np.log(np.maximum(f, 1e-300) / e)
    if two_samples:
        rest = e * m / n
        parts = parts + g * np.log(np.maximum(g, 1e-300) / rest)
    statistic = 2 * parts.sum() / (1 + 1 / (3 * e.min() * smaller))
    return stats.chi2.sf(max(statistic, 0.0), len(e) - 1)


def _histogram(values):
    return np.bincount(values.astype(np.int64)) if values.size else np.zeros(1)


def exact(case, rng, found, methods=EXACT, replicates=20_000, realizations=1500):
    """Exact methods against the master equation, or the interpreter."""
    solved = None
    if case.kind.startswith("small"):
        solved = truth.master_equation(case)
    sample = None if solved is not None else truth.interpret(case, realizations, rng)
    found.counts["interpreter" if solved is None else "master equation"] += 1
    seed = int(rng.integers(2**63))
    for method in methods:
        result = simulate(found, case, method, replicates=replicates, seed=seed)
        if result is None:
            continue
        found.counts[method] += 1
        amounts = result["amount"].values
        for k, time in enumerate(case.times):
            for i, name in enumerate(case.initial):
                here = amounts[:, k, i]
                here = here[~np.isnan(here)]
                where = f"{method}: {name} at {time}"
                if solved is not None:
                    p = solved[k][i]
                    _hold_against(found, where, here, replicates, p)
                    continue
                there = sample[:, k, i]
                there = there[~np.isnan(there)]
                level = g_test(_histogram(here), _histogram(there), True)
                found.check(level > LEVEL, f"{where}: distributions differ, p = {level:.1e}")
                if i == 0:
                    gone = [
                        [replicates - here.size, here.size],
                        [len(sample) - there.size, there.size],
                    ]
                    level = g_test(*gone, True)
                    found.check(level > LEVEL, f"{where}: {gone} failed or not")
    _outputs(case, str(rng.choice(methods)), found, seed)


def _hold_against(found, where, here, replicates, p):
    found.check(here.size == replicates, f"{where}: {replicates - here.size} are missing")
    level = g_test(_histogram(here), p, False)
    found.check(level > LEVEL, f"{where}: not as the master equation says, p = {level:.1e}")
    n = np.arange(p.size)
    mean = p @ n
    error = np.sqrt(p @ (n - mean) ** 2 / here.size)
    found.check(
        abs(here.mean() - mean) <= SIGMAS * error + 1e-9,
        f"{where}: mean {here.mean():.4f}, truth {mean:.4f} +- {error:.4f}",
    )


def _outputs(case, method, found, seed):
    """Other outputs, and more times, are of the same realizations."""
    whole = simulate(found, case, method, replicates=300, seed=seed)
    if whole is None:
        return
    rows = whole["amount"].values.astype(float)
    some = {"replicates": 300, "seed": seed}
    summary = simulate(found, case, method, output="statistics", **some)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        means = np.nanmean(rows, axis=0)
    found.check(
        np.allclose(summary["mean"], means, rtol=1e-9, atol=1e-9, equal_nan=True),
        f"{method}: statistics are not those of trajectories",
    )
    found.check(
        (summary["count"].values == (~np.isnan(rows[:, :, 0])).sum(axis=0)).all(),
        f"{method}: counts of statistics are not those of trajectories",
    )
    final = simulate(found, case, method, output="final", **some)["amount"].values
    found.check(np.array_equal(final, rows[:, -1], equal_nan=True), f"{method}: final")
    bins = simulate(found, case, method, output="histogram", **some)["histogram"].values
    last = rows[:, -1, 0]
    there = bins[-1, 0].sum() == (~np.isnan(last)).sum()
    found.check(there and bins[-1, 0, 0] == (last == 0).sum(), f"{method}: histogram")
    if whole.attrs["method"] == "rejection-bounds" and "smooth" in case.kind:
        return
    many = sorted({*case.times, *np.linspace(case.times[0], case.times[-1], 37)})
    finer = simulate(found, case, method, **{**some, "times": many})["amount"].values
    finer = finer[:, [many.index(t) for t in case.times]]
    found.check(
        np.array_equal(finer.astype(float), rows, equal_nan=True),
        f"{method}: more times of output change a realization",
    )


def chances(variance, shares):
    """How far a sample's mean and its variance may be off by chance.

    `shares` is one over the size, or the sum of that of two samples.  The fourth cumulant is that
    of Poisson's numbers; the last term is Bernstein's, for numbers that are rarely above zero.
    """
    rare = SIGMAS**2 * shares / 3
    return (
        SIGMAS * np.sqrt(variance * shares) + rare,
        1.1 * SIGMAS * np.sqrt((2 * variance + 1) * variance * shares) + rare,
    )


def approximate(case, rng, found, replicates=4000):
    """Moments of tau-leaping and, where it has them, of the Langevin equation.

    The equation has them where there are molecules enough: near zero it leads below, and says so.
    """
    if case.kind == "linear":
        means, variances = truth.linear_moments(case)
        n = np.inf
    else:
        sample = truth.side_by_side(case, 2000, rng)
        means, variances, n = sample.mean(axis=0), sample.var(axis=0, ddof=1), len(sample)
    for method in APPROXIMATE if case.kind == "linear" else APPROXIMATE[:1]:
        many = sorted({*case.times, *np.linspace(case.times[0], case.times[-1], 23)})
        for times in (case.times, many):
            result = simulate(
                found, case, method, times=times, replicates=replicates, output="statistics",
                seed=int(rng.integers(2**63)),
            )  # fmt: skip
            found.counts[method] += 1
            error = result.attrs["step_error"]
            found.check(0 <= error <= 0.03, f"{method}: states an error of {error}")
            for k, time in enumerate(case.times):
                row = times.index(time)
                for i, name in enumerate(case.initial):
                    where = f"{method}: {name} at {time} of {len(times)} times"
                    mean, variance = means[k, i], variances[k, i]
                    if method == "langevin" and mean < SIGMAS * np.sqrt(variance):
                        found.counts["too few molecules for langevin"] += 1
                        continue
                    one = float(result["mean"][row, i]), float(result["variance"][row, i])
                    of_mean, of_variance = chances(variance, 1 / replicates + 1 / n)
                    allowed = error * max(mean, case.initial[name]) + of_mean + 1e-6
                    found.check(
                        abs(one[0] - mean) <= allowed,
                        f"{where}: mean {one[0]:.3f}, truth {mean:.3f}, allowed {allowed:.3f}",
                    )
                    allowed = error * variance + of_variance + 1e-6
                    found.check(
                        abs(one[1] - variance) <= allowed,
                        f"{where}: variance {one[1]:.3f}, truth {variance:.3f}, "
                        f"allowed {allowed:.3f}",
                    )


# Molecules from which the linear noise approximation is better than chance.
MANY = 1e5
# Molecules of a species whose squares are not added, where there are fewer at first.
WHOLE = 2**31


def large(case, rng, found, replicates=3000):
    """Approximate methods against the linear noise approximation; of fewer molecules, exact ones.

    The bias of the approximation is a few molecules in a mean, and a few in a variance.
    """
    network = cases.network_of(case, False)
    scale = case.reactions[0].value
    if scale >= MANY:
        noise = ergode.stochastic.linear_noise(network, times=case.times)
        means, variances, n = noise["mean"].values, noise["variance"].values, np.inf
    else:
        sample = simulate(found, case, "direct", replicates=replicates // 3, seed=7)["amount"]
        means, variances = sample.mean("replicate").values, sample.var("replicate", ddof=1).values
        n = replicates // 3
    for method in APPROXIMATE if scale >= MANY else APPROXIMATE[:1]:
        result = simulate(
            found, case, method, replicates=replicates, output="statistics",
            seed=int(rng.integers(2**63)),
        )  # fmt: skip
        complete = bool((result["count"] == replicates).all())
        added = method != "langevin" and max(case.initial.values()) < WHOLE
        if added and (means + SIGMAS * np.sqrt(variances)).max() >= WHOLE:
            said = not complete or means.max() < WHOLE
            found.check(said, f"{method}: more molecules than whole numbers hold, and no status")
            continue
        found.check(complete, f"{method}: some failed")
        error = result.attrs["step_error"]
        found.check(0 <= error <= 0.03, f"{method}: states an error of {error}")
        for k, i in np.ndindex(means.shape):
            where = f"{method}: {list(case.initial)[i]} at {case.times[k]}"
            mean, variance = float(result["mean"][k, i]), float(result["variance"][k, i])
            of_mean, of_variance = chances(variances[k, i], 1 / replicates + 1 / n)
            few = method == "langevin" and means[k, i] < SIGMAS * np.sqrt(variances[k, i])
            if few:
                continue
            allowed = of_mean + error * np.sqrt(variances[k, i]) + 5
            off = abs(mean - means[k, i])
            found.check(off <= allowed, f"{where}: mean {off:.4g} off, allowed {allowed:.4g}")
            allowed = of_variance + (error + 30 / scale) * variances[k, i] + 5
            off = abs(variance - variances[k, i])
            found.check(
                off <= allowed,
                f"{where}: variance {variance:.6g}, truth {variances[k, i]:.6g} +- {allowed:.3g}",
            )


def examine(kind, seed, **sizes):
    """One case of a kind, from a seed: what was found, and the case."""
    rng = np.random.default_rng(seed)
    found, case = Findings(), random_case(kind, rng)
    compare = {"linear": approximate, "nonlinear": approximate, "large": large}.get(kind, exact)
    compare(case, rng, found, **sizes)
    if compare is exact:
        beside.beside(case, rng, found, sizes.get("methods", EXACT))
    elif compare is approximate:
        beside.beside(case, rng, found, APPROXIMATE, replicates=50)
    return found, case


def random_case(kind, rng):
    """A case of a kind."""
    if kind not in ("steps", "smooth"):
        return getattr(cases, kind)(rng)
    case = cases.small(rng, kind)
    case.kind = "small smooth" if kind == "smooth" else "small"
    return case
