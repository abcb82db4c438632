"""A small network has the same realizations by its tables and by code compiled for it."""

import numpy as np
import pytest
from small_networks import DIMERISATION, IMMIGRATION_DEATH

from ergode import Reaction, ReactionNetwork, stochastic
from ergode.core import kernels
from ergode.stochastic.algorithms import interpreted_direct
from ergode.stochastic.runners import compiled_direct
from ergode.stochastic.to_tables import build

HILL = ReactionNetwork(
    {"A": 3, "B": 0},
    [
        Reaction("0 -> A", rate="v * (B / 7)^3 / (1 + (B / 7)^3) + sqrt(A) / K"),
        Reaction("A -> B", rate_constant="v"),
        Reaction("2 B -> A", rate_constant=0.01),
        Reaction("B -> 0", rate="0.5 * B / (K + B)"),
    ],
    parameters={"v": 9.0, "K": 4.0},
)
TRIPLE = ReactionNetwork({"A": 30}, [Reaction("3 A -> 0", stochastic_rate_constant=0.01)])
BELOW = ReactionNetwork(
    {"A": 30, "B": 1}, [Reaction("A -> B", rate="3.7"), Reaction("B -> 0", rate_constant=0.3)]
)
WILD = ReactionNetwork({"A": 1}, [Reaction("A -> 2 A", rate_constant=60.0)])


@pytest.fixture
def both(monkeypatch):
    """Results by tables, and by compiled code."""

    def simulate(network, **options):
        found = []
        for at_hand in (False, True):
            left = {}
            monkeypatch.setattr(compiled_direct, "_LEFT", left)
            monkeypatch.setattr(kernels.Kernel, "is_kept", lambda *_, known=at_hand: known)
            monkeypatch.setattr(kernels.Kernel, "was_wanted", lambda *_: True)
            found.append(
                stochastic.simulate(network, method="direct", device="cpu", seed=5, **options)
            )
            assert all((firings == 0) == at_hand for firings in left.values())
            assert left
        return found

    return simulate


def assert_equal(one, other):
    for name in other.variables:
        np.testing.assert_array_equal(one[name].values, other[name].values)
    changing = {name for name in other.attrs if name.endswith("_seconds")}
    assert {k: v for k, v in one.attrs.items() if k not in changing} == {
        k: v for k, v in other.attrs.items() if k not in changing
    }


@pytest.mark.parametrize(
    "network", [IMMIGRATION_DEATH, DIMERISATION, HILL, TRIPLE], ids=["a", "b", "hill", "triple"]
)
@pytest.mark.parametrize("output", ["trajectories", "statistics"])
def test_the_same_numbers(network, output, both):
    for times in ([0, 1, 5], [1e9, 1e9 + 1e-6, 1e9 + 2]):
        assert_equal(*both(network, times=times, replicates=70, output=output))


def test_the_same_sweep(both):
    options = {"times": [0, 3], "parameters": {"v": [2.0, 8.0]}, "initial": {"A": [1, 9]}}
    assert_equal(*both(HILL, replicates=9, **options))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("network", "options"),
    [(BELOW, {}), (WILD, {}), (WILD, {"max_firings": 50}), (DIMERISATION, {"max_firings": 7})],
)
def test_the_same_failures(network, options, both):
    found = both(network, times=[0, 0.05, 0.3, 40], replicates=5, **{"max_firings": 9000} | options)
    assert_equal(*found)
    assert (found[0]["status"] > 1).any()


def test_a_long_run_is_compiled(monkeypatch):
    monkeypatch.setattr(compiled_direct, "_LEFT", {})
    monkeypatch.setattr(compiled_direct, "_INTERPRETED_MOST", 100)
    monkeypatch.setattr(kernels.Kernel, "is_kept", lambda *_: False)
    monkeypatch.setattr(kernels.Kernel, "was_wanted", lambda *_: True)
    options = {"times": [0, 5], "replicates": 70, "seed": 5, "device": "cpu"}
    long = stochastic.simulate(IMMIGRATION_DEATH, **options)
    assert list(compiled_direct._LEFT.values()) == [0]
    assert_equal(stochastic.simulate(IMMIGRATION_DEATH, **options), long)


def test_what_rounds_otherwise_is_compiled():
    def rounds_alike(rate):
        network = ReactionNetwork(
            {"A": 3}, [Reaction("A -> 0", rate=rate)], parameters={"n": 2, "last": 3}
        )
        return interpreted_direct.rounds_alike(build(network, {}, {}, 1))

    assert rounds_alike("A^3 / (2 + A^3)")
    assert not rounds_alike("A^n / (2 + A^n)")
    assert not rounds_alike("A^last")
    assert not rounds_alike("A^2.5")
    assert not rounds_alike("A^4")
    assert not rounds_alike("exp(-A)")
    assert not rounds_alike("log(2 + A)")
    assert not rounds_alike("1 if A > 2 else 2")


def test_an_exponent_may_be_swept():
    """One molecule leaves at rate a / (1 + b^n): another exponent is another rate."""
    network = ReactionNetwork(
        {"A": 1}, [Reaction("A -> 0", rate="a * A / (1 + b^n)")],
        parameters={"a": 1.0, "b": 2.0, "n": 1.0},
    )  # fmt: skip
    options = {"times": [0, 1], "replicates": 4_000, "seed": 1, "device": "cpu"}
    found = stochastic.simulate(network, parameters={"n": [1.0, 2.0]}, **options)
    left = found["amount"].isel(time=1, species=0).mean("replicate").values
    np.testing.assert_allclose(left, np.exp([-1 / 3, -1 / 5]), atol=5 * 0.5 / 4_000**0.5)
