"""A small network of contacts and one of reactions, and equality of results, for several files."""

import numpy as np

import ergode

CONTACTS = ergode.ContactNetwork.erdos_renyi(60, mean_degree=5, seed=1)
NETWORK = ergode.ReactionNetwork(
    {"A": 40, "B": 10, "C": 0},
    [
        ergode.Reaction("A + B -> C", rate_constant=0.01),
        ergode.Reaction("C -> A + B", rate_constant="k"),
        ergode.Reaction("0 -> A", rate_constant=3.0),
        ergode.Reaction("B -> 0", rate_constant=0.1),
    ],
    parameters={"k": 0.5},
)


def sir(rate):
    return ergode.CompartmentModel.sir(
        transmission_rate=rate, infectious=ergode.Exponential(mean=2.0)
    )


def same_bits(one, other, but=()):
    """Variables and coordinates agree bit for bit; missing values too."""
    assert set(one.variables) == set(other.variables)
    for name in set(one.variables) - set(but):
        assert one[name].dims == other[name].dims, name
        assert one[name].dtype == other[name].dtype, name
        np.testing.assert_array_equal(one[name].values, other[name].values, err_msg=name)
