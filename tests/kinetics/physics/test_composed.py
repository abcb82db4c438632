"""Coefficients on tables of temperature and with branches, against formulas and SciPy."""

import numpy as np
import pytest
from both_devices import on_both
from kernel_cases import CURVE, LAW, TABLE, WITH_TABLES
from scipy.interpolate import CubicHermiteSpline

import ergode
from ergode.kinetics import integrate, reaction_rates


def factor(table, hot):
    """A factor by SciPy's cubics, and lines beyond."""
    x, knots = (np.log(hot), np.log(table.temperature)) if table.logarithmic else (
        hot, np.array(table.temperature)
    )  # fmt: skip
    inner = np.clip(x, knots[0], knots[-1])
    value = CubicHermiteSpline(knots, table.logarithm, table.slope)(inner)
    if table.logarithmic:
        value += (x - inner) * np.where(x > inner, table.slope[-1], table.slope[0])
    return np.exp(value)


def fit(hot):
    t9 = hot / 1e9
    return np.exp(1.0 - 0.5 / t9 + 0.3 * np.log(t9))


def test_coefficients_are_those_of_formulas():
    hot = np.concatenate([np.random.default_rng(1).uniform(5e7, 2e10, 60), TABLE.temperature])
    found = reaction_rates(WITH_TABLES, temperature=hot)["coefficient"].values
    table, curve = factor(TABLE, hot), factor(CURVE, hot)
    np.testing.assert_allclose(found[:, 0], table * curve * fit(hot), rtol=1e-12)
    branches = fit(hot) + curve + 0.5
    exact = 0.2 + table * fit(hot) * fit(hot) / branches
    np.testing.assert_allclose(found[:, 1], exact, rtol=1e-12)


def test_a_table_is_monotone():
    """Between the values at both ends of every interval; flat where the values turn."""
    hot = np.geomspace(1e7, 1e10, 12)
    values = np.cumsum(np.random.default_rng(2).normal(size=12) ** 3)
    table = ergode.TemperatureTable(hot, values)
    fine = np.geomspace(1e7, 1e10, 991)
    network = ergode.ReactionNetwork(
        {"A": 1.0}, [ergode.Reaction("A -> 0", rate_constant=ergode.Tabulated(table))]
    )
    found = np.log(reaction_rates(network, temperature=fine)["coefficient"].values[:, 0])
    np.testing.assert_allclose(found[::90], values, atol=1e-12)
    for k in range(11):
        steps = np.diff(found[90 * k : 90 * (k + 1) + 1]) * np.sign(values[k + 1] - values[k])
        assert steps.min() > -1e-12


@pytest.mark.parametrize("method", ["rodas4", "bdf"])
def test_factors_multiply_whole_coefficients(method):
    """Also that of a sequence, whose branches keep theirs."""
    options = {"times": [0, 0.5], "temperature": 1e9, "initial": {"A": 1.0}, "device": "cpu",
               "rtol": 1e-9, "atol": 1e-14}  # fmt: skip
    found = integrate(WITH_TABLES, rate_factors=[2.0, 3.0, 1.0], method=method, **options)
    k = reaction_rates(WITH_TABLES, temperature=1e9)["coefficient"].values[0] * [2.0, 3.0, 1.0]
    plain = ergode.ReactionNetwork(
        {"A": 1, "B": 0, "C": 0},
        [ergode.Reaction(str(one), rate_constant=c) for one, c in zip(
            WITH_TABLES.reactions, k.tolist(), strict=True)],
    )  # fmt: skip
    exact = integrate(plain, **options)
    allowed = 1e-9 if method == "rodas4" else 1e-7
    np.testing.assert_allclose(found["concentration"], exact["concentration"], rtol=allowed)


REFUSED = [
    (lambda: ergode.TemperatureTable([2.0, 1.0], [0, 0]), "two or more that ascend"),
    (lambda: ergode.TemperatureTable([1.0, 2.0], [0]), "2 temperatures, 1 logarithms"),
    (lambda: ergode.TemperatureTable([1.0, 2.0], [0, np.nan]), "not finite"),
    (lambda: ergode.Tabulated(3.0), "tables of a Tabulated is"),
    (lambda: ergode.Tabulated(TABLE, -1.0), "rate of a Tabulated is -1.0; expected a Reaclib"),
    (lambda: ergode.Branching(1.0, [1.0]), "branches of a Branching has 1"),
    (lambda: ergode.Branching("k", [1.0, 2.0]), "first of a Branching is 'k'"),
    (
        lambda: ergode.Branching(ergode.Reaclib(LAW.sets, 1.0, True), [1.0, 2.0]),
        "captures an electron",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_is_refused(make, words):
    with pytest.raises(ergode.ModelError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.cuda
@pytest.mark.parametrize("temperature", [np.linspace(1e8, 5e9, 6), lambda t: 1e9 * (1 + t)])
def test_tables_on_a_device(temperature):
    one, other = on_both(
        integrate, WITH_TABLES, times=[0, 0.1, 1], temperature=temperature, initial={"A": 1.0}
    )
    np.testing.assert_array_equal(one["step_count"], other["step_count"])
    np.testing.assert_allclose(one["concentration"], other["concentration"], rtol=1e-8)
