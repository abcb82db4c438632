"""Random numbers of SBML's package `distrib`: drawn as SciPy's laws say, where the file says."""

import numpy as np
import pytest
from scipy import stats

import ergode

LEVEL = 1e-6 / 30
LAWS = {
    "normal(3, 2)": stats.norm(3, 2),
    "uniform(-1, 4)": stats.uniform(-1, 5),
    "exponential(0.5)": stats.expon(scale=2),
    "gamma(2.5, 3)": stats.gamma(2.5, scale=3),
    "gamma(0.4, 1)": stats.gamma(0.4),
    "chisquare(3)": stats.chi2(3),
    "lognormal(0.2, 0.5)": stats.lognorm(0.5, scale=np.exp(0.2)),
    "laplace(1, 2)": stats.laplace(1, 2),
    "cauchy(1, 2)": stats.cauchy(1, 2),
    "rayleigh(2)": stats.rayleigh(scale=2),
}
COUNTS = {
    "poisson(7)": stats.poisson(7),
    "binomial(9, 0.3)": stats.binom(9, 0.3),
    "bernoulli(0.3)": stats.bernoulli(0.3),
}


def drawn(text, times=(0.0, 2.0), replicates=4000, **options):
    network = ergode.read_antimony(text)
    return ergode.stochastic.simulate(
        network, times=times, replicates=replicates, seed=3, device="cpu", **options
    )


@pytest.mark.parametrize("when", ["at the begin", "by an event"])
def test_every_draw_has_its_law(when):
    laws = {**LAWS, **COUNTS}
    lines = ["species A = 1; R: A => ; A;"]
    for k, text in enumerate(laws):
        lines.append(f"v{k} := x{k};")
        lines.append(f"x{k} = {text};" if when == "at the begin" else f"x{k} = 0;")
        if when == "by an event":
            lines.append(f"at time > 1: x{k} = {text};")
    found = drawn("\n".join(lines))["value"].values[:, 0 if when == "at the begin" else 1]
    for k, (text, law) in enumerate(laws.items()):
        if text in LAWS:
            assert stats.kstest(found[:, k], law.cdf).pvalue > LEVEL, text
            continue
        values, counts = np.unique(found[:, k], return_counts=True)
        inside = law.pmf(values) * len(found) >= 8
        expected = law.pmf(values[inside]) * len(found)
        observed = np.append(counts[inside], len(found) - counts[inside].sum())
        expected = np.append(expected, len(found) - expected.sum())
        if expected[-1] < 8:
            observed, expected = (
                observed[:-1],
                expected[:-1] * observed[:-1].sum() / sum(expected[:-1]),
            )
        assert stats.chisquare(observed, expected).pvalue > LEVEL, text
    columns = np.arctan(found)
    correlation = np.corrcoef(columns.T)[np.triu_indices(len(laws), 1)]
    assert np.abs(correlation).max() < 6 / np.sqrt(len(found))


def test_what_follows_from_a_draw_and_triggers_that_see_it():
    """B begins as A, y as twice x; no trigger turns because of the draw."""
    text = """
        substanceOnly species A, B, C = 0;
        A = poisson(50); B = A; x = normal(30, 1); y = 2 * x + z; z := 3 * x;
        R: A => ; k * A; k = 1e-9; w := y;
        at A > 5: C = C + 1;
        at time > 1: B = poisson(x);
    """
    found = drawn(text, replicates=3000)
    amounts = found["amount"].values
    assert stats.chisquare(*_grouped(amounts[:, 0, 0], stats.poisson(50))).pvalue > LEVEL
    np.testing.assert_array_equal(amounts[:, 0, 0], amounts[:, 0, 1])
    assert (amounts[..., 2] == 0).all()
    values = found["value"].sel(rule=["z", "w"]).values[:, 0]
    np.testing.assert_allclose(values[:, 1], values[:, 0] * 5 / 3)
    x = values[:, 0] / 3
    assert stats.kstest(x, stats.norm(30, 1).cdf).pvalue > LEVEL
    later = amounts[:, 1, 1]
    assert abs(later.mean() - 30) < 5.5 * np.sqrt(31 / 3000)
    parts = drawn(text, replicates=range(10, 20))["amount"].values
    np.testing.assert_array_equal(parts, amounts[10:20])


def _grouped(values, law):
    edges = np.unique(law.ppf(np.linspace(0.02, 0.98, 25)))
    places = np.searchsorted(edges, values)
    expected = np.diff([0, *law.cdf(edges), 1]) * values.size
    return np.bincount(places, minlength=edges.size + 1), expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("species A = 1; R: A => ; normal(1, 2) * A", "only assignments of events may"),
        ("x := normal(1, 2); species A = 1; R: A => ; A", "only assignments of events may"),
        ("x = normal(1, 2, 0, 3)", "'normal' with 4 argument"),
        (
            "function f(x); x * x; end; species A; A = f(poisson(3)); R: A => ; A",
            "with a random number",
        ),
    ],
)
def test_draws_elsewhere_are_refused(text, message):
    with pytest.raises(ergode.ReadError, match=message):
        ergode.read_antimony(text)


def test_an_event_at_the_begin():
    with pytest.raises(ergode.ModelError, match="has a delay"):
        ergode.Event("time > 0", {"X": 1}, delay=2.0, at_begin=True)
    network = ergode.ReactionNetwork(
        {"X": 0},
        [ergode.Reaction("X -> 0", rate_constant=1.0)],
        events=[ergode.Event("X > 3", {"X": "poisson(20)"}, at_begin=True)],
    )
    found = ergode.stochastic.simulate(network, times=[0, 1], replicates=2000, seed=1, device="cpu")
    x = found["amount"].values[:, :, 0]
    for k, mean in enumerate((20, 20 * np.exp(-1))):
        assert abs(x[:, k].mean() - mean) < 5.5 * np.sqrt(mean / 2000)
        assert abs(x[:, k].var() / mean - 1) < 5.5 * np.sqrt(2 / 2000)
