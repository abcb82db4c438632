"""Tables are built once for a network, and anew where anything in it is another."""

import numpy as np
import pytest

import ergode
from ergode.stochastic.to_tables import build


def network(rate="k"):
    return ergode.ReactionNetwork(
        {"X": 5}, [ergode.Reaction("X -> 0", rate_constant=rate)], parameters={"k": 0.5}
    )


def test_the_tables_of_a_network_are_built_once():
    one = network()
    tables = build(one, {}, {}, 1)
    assert build(one, {}, {}, 1) is tables
    assert build(network(), {}, {}, 1) is not tables
    assert build(one, {}, {}, 1, whole=False) is not tables
    made = tables.once(lambda tables: [tables.reaction_count])
    assert made == [1]


def test_other_numbers_make_other_tables():
    one = network()
    assert build(one, {}, {}, 1).net.coefficients[0, 0] == 0.5
    for k in (0.25, 0.75):
        swept = {"k": np.array([k, 2 * k])}
        assert (build(one, swept, {}, 2).net.coefficients[:, 0] == swept["k"]).all()
        assert build(one, {}, {"X": np.array([8 * k])}, 1).net.initial[0, 0] == 8 * k
        one.parameters["k"] = k
        assert build(one, {}, {}, 1).net.coefficients[0, 0] == k


def test_what_tables_share_cannot_change():
    one = network(0.5)
    tables = build(one, {}, {}, 1)
    for array in (*tables.net, *tables.interruptions, one.reactions.values, one.reactions.laws):
        with pytest.raises(ValueError, match="read-only"):
            array.flat[:] = 0
