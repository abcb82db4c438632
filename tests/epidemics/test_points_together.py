"""Models of many points by one call of the user's function: the bits of one call for each.

The referee is the slower way: `points_of` with no way of making models together.
"""

import math

import numpy as np
import pytest

import ergode
from ergode.core import columns
from ergode.epidemics import points as subject
from ergode.epidemics import simulate
from ergode.epidemics.shared.sweep import ModelsTogether

COUNT = 40
CONTACTS = ergode.ContactNetwork.erdos_renyi(80, mean_degree=5, seed=1)


def values(seed, low, high, count=COUNT):
    return np.random.default_rng(seed).uniform(low, high, count)


def seir(rate, latent, stay):
    return ergode.CompartmentModel.seir(
        transmission_rate=rate * 2 / 3 + 0.1, latent=ergode.LogNormal(mean=latent + 1, sd=latent),
        infectious=ergode.Gamma(mean=stay**0.5, sd=stay),
    )  # fmt: skip


def every_family(a, b, share):
    return ergode.CompartmentModel(
        ["S", "A", "B", "C", "D", "E", "R"],
        [ergode.Infection("S", "A", {"B": a, "C": 2.0 - b, "D": 0.0})],
        [
            ergode.Progression("A", {"B": share, "C": 1 - share}, ergode.Exponential(mean=a)),
            ergode.Progression("B", "D", ergode.LogNormal(mean=3 * b, median=b)),
            ergode.Progression("C", "D", ergode.Weibull(shape=1.0 + b, scale=a)),
            ergode.Progression("D", "E", ergode.Erlang(stages=3, mean=abs(-a))),
            ergode.Progression("E", "R", ergode.Deterministic(np.float64(0.3) * b / a)),
        ],
    )


def by_a_calendar(rate):
    """What one call cannot do for all points is done by one call for each."""
    return ergode.CompartmentModel.sir(
        transmission_rate=min(rate, 0.3), infectious=ergode.Exponential(mean=2.0)
    )


def by_the_module_math(rate):
    return ergode.CompartmentModel.sir(
        transmission_rate=math.exp(-rate), infectious=ergode.Exponential(mean=2.0)
    )


def by_a_text(rate):
    return ergode.CompartmentModel.sir(
        transmission_rate=float(f"{rate:.2f}"), infectious=ergode.Exponential(mean=2.0)
    )


def by_its_kind(rate):
    """A function that would tell a column from a float, and is found out."""
    return ergode.CompartmentModel.sir(
        transmission_rate=rate if type(rate) is float else rate * 2.0,
        infectious=ergode.Exponential(mean=2.0),
    )


def with_zeros(rate):
    return ergode.CompartmentModel.sir(
        transmission_rate=rate, infectious=ergode.Exponential(mean=2.0)
    )


ONE = with_zeros(0.3)
CASES = {
    "seir": (seir, {"rate": values(1, 0, 0.4), "latent": values(2, 1, 4), "stay": 6.0}, True),
    "every family": (
        every_family,
        {"a": values(3, 0.2, 2), "b": values(4, 0.2, 1.5), "share": values(5, 0.1, 0.9)}, True,
    ),
    "grid": (
        seir, ergode.grid(rate=values(6, 0, 1, 4), latent=values(7, 1, 3, 5), stay=[3.0, 4.0]),
        True,
    ),
    "zeros": (with_zeros, {"rate": np.repeat([0.0, 0.3, 0.0, 0.4], 10)}, True),
    "least": (by_a_calendar, {"rate": values(8, 0.1, 0.5)}, False),
    "math": (by_the_module_math, {"rate": values(9, 0.1, 0.5)}, False),
    "text": (by_a_text, {"rate": values(10, 0.1, 0.5)}, False),
    "kind": (by_its_kind, {"rate": values(11, 0.1, 0.5)}, False),
    "one model": (lambda rate: ONE, {"rate": values(12, 0.1, 0.5)}, False),
    "equal values": (with_zeros, {"rate": np.full(COUNT, 0.2)}, False),
    "integers": (with_zeros, {"rate": np.arange(COUNT)}, False),
    "few": (with_zeros, {"rate": [0.1, 0.2]}, False),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_models_are_those_of_single_calls(case, monkeypatch):
    function, parameters, together = CASES[case]
    found = subject.points_of(function, {"S": 0}, parameters)
    assert isinstance(found.models, ModelsTogether) == together
    monkeypatch.setattr(subject, "_together", lambda *_: None)
    expected = subject.points_of(function, {"S": 0}, parameters)
    assert not isinstance(expected.models, ModelsTogether)
    assert found._numbers.tobytes() == expected._numbers.tobytes()
    assert found.digest == expected.digest and found.kinds == expected.kinds
    assert found.fastest == expected.fastest
    assert found.count == expected.count
    assert list(found.models) == list(expected.models)


@pytest.mark.parametrize("case", ["seir", "zeros"])
def test_results_are_those_of_single_calls(case, monkeypatch):
    function, parameters, _ = CASES[case]
    options = {
        "parameters": parameters, "initial": {"I": 4}, "times": [0, 2, 5], "seed": 3,
        "device": "cpu", "replicates": 2,
    }  # fmt: skip
    found = simulate(function, CONTACTS, **options)
    monkeypatch.setattr(subject, "_together", lambda *_: None)
    expected = simulate(function, CONTACTS, **options)
    for name in expected.variables:
        np.testing.assert_array_equal(found[name], expected[name])
    for name in ("model_digest", "precision", "method", "infectious"):
        assert found.attrs[name] == expected.attrs[name]


def test_an_error_names_its_point():
    rates = values(1, 0.1, 0.5)
    rates[7] = -1.0
    with pytest.raises(ergode.ModelError, match="at the point rate=-1: transmission rate of 'I'"):
        simulate(with_zeros, CONTACTS, parameters={"rate": rates}, initial={"I": 1}, times=[0, 1])


def test_a_function_is_called_a_few_times():
    calls = []

    def counted(rate):
        calls.append(rate)
        return with_zeros(rate)

    subject.points_of(counted, {"I": 1}, {"rate": values(1, 0.1, 0.5, 1000)})
    assert len(calls) < 10


def _as_arrays_of_numpy(monkeypatch):
    """The logarithms of NumPy, which round otherwise here and there."""
    for name in ("log", "log1p", "sqrt", "exp"):
        of_numpy = getattr(np, name)
        monkeypatch.setattr(
            ergode.models.holding_times.families, name,
            lambda x, f=of_numpy: columns.Column(f(x.values) * (1 + 2**-52))
            if columns.is_column(x) else f(x),
        )  # fmt: skip


def test_a_column_that_rounds_otherwise_is_noticed(monkeypatch):
    _as_arrays_of_numpy(monkeypatch)
    function, parameters, _ = CASES["seir"]
    assert not isinstance(subject.points_of(function, {"I": 1}, parameters).models, ModelsTogether)


@pytest.mark.parametrize(
    "work",
    [
        float, int, bool, hash, str, repr, math.exp, np.log, np.asarray, round, list, "{:g}".format,
        lambda x: {x: 1}, lambda x: [0, 1][x], lambda x: x // 2, lambda x: x % 2, lambda x: 1 / x,
        lambda x: x + "1", lambda x: x == 1.0, lambda x: max(x, 1.5), lambda x: x + np.ones(3),
        lambda x: np.ones(3) * x, lambda x: x ** (x - 5.0), lambda x: x + 10**400,
    ],
)  # fmt: skip
def test_a_column_is_never_one_number(work):
    """What has no answer for all points is an exception, whatever asks."""
    column = columns.Column(np.array([0.0, 1.0, 3.0]))
    with pytest.raises(Exception):  # noqa: B017
        work(column)


def test_a_column_calculates_as_floats_do():
    rng = np.random.default_rng(5)
    x, y = rng.lognormal(0, 3, 1000), rng.lognormal(0, 3, 1000)
    for work in (
        lambda a, b: a + b * 3 - 1, lambda a, b: (2 - a) / b, lambda a, b: a**2.5 / 7,
        lambda a, b: 1.1**-a, lambda a, b: -a + abs(-b), lambda a, b: b ** (1 / 3) * a**2,
        lambda a, b: columns.log(a) + columns.expm1(-b), lambda a, b: columns.lgamma(a) * b,
        lambda a, b: np.float64(2.5) * a - np.float64(1.1) + b,
    ):  # fmt: skip
        found = work(columns.Column(x), columns.Column(y)).values
        expected = [work(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        assert found.tobytes() == np.array(expected).tobytes()
    assert (
        columns.Column(x) > 0 and not columns.Column(x) < 0 and isinstance(columns.Column(x), float)
    )
