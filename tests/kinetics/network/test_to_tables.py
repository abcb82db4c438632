"""Networks of formulas, as files have them, are the mass action that they are without chance."""

import numpy as np
import pytest

import ergode
from ergode.kinetics.network.to_tables import to_tables

BY_HAND = ergode.ReactionNetwork(
    {"A": 1, "B": 0, "C": 0},
    [
        ergode.Reaction("A -> B", rate_constant=0.04),
        ergode.Reaction("2 B -> C + B", rate_constant=3e7),
        ergode.Reaction("B + C -> A + C", rate_constant=1e4),
        ergode.Reaction("0 -> A", rate_constant=0.5),
    ],
)


def same(network):
    ours, theirs = to_tables(network).rates, to_tables(BY_HAND).rates
    assert not (ours.plasma.method or ours.formulas.reaction.size or ours.composed.tabulated.size)
    for mine, other in zip(ours[:-3], theirs[:-3], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-15, atol=1e-15)
    np.testing.assert_array_equal(network.stoichiometry.toarray(), BY_HAND.stoichiometry.toarray())
    return network.reactant_orders.nnz == BY_HAND.reactant_orders.nnz


def test_from_antimony():
    pytest.importorskip("antimony")
    pytest.importorskip("libsbml")
    network = ergode.read_antimony("""
        compartment cell = 2; species A in cell, B in cell, C in cell
        A = 1; B = 0; C = 0; k1 = 0.04; k2 = 3e7; k3 = 1e4
        first: A => B; cell * k1 * A
        second: 2 B => C + B; k2 * B^2 * cell
        third: B + C => A + C; k3 * B * C * cell
        source: => A; 0.5 * cell
    """)
    assert same(network)


def test_from_propensities():
    """c of amounts is the k of concentrations that it is for many molecules."""
    volume = 4.0
    network = ergode.ReactionNetwork(
        [ergode.Species(name, 1, "cell") for name in "ABC"],
        [
            ergode.Reaction("A -> B", stochastic_rate_constant=0.04),
            ergode.Reaction("2 B -> C + B", stochastic_rate_constant=2 * 3e7 / volume),
            ergode.Reaction("B + C -> A + C", stochastic_rate_constant=1e4 / volume),
            ergode.Reaction("0 -> A", stochastic_rate_constant=0.5 * volume),
        ],
        compartments={"cell": volume},
    )
    assert same(network)


def test_reactants_in_different_compartments_are_refused():
    network = ergode.ReactionNetwork(
        [ergode.Species("A", 1, "inner"), ergode.Species("B", 1, "outer")],
        [ergode.Reaction("A + B -> 0", stochastic_rate_constant=1.0)],
        compartments={"inner": 1.0, "outer": 2.0},
    )
    with pytest.raises(ergode.ModelError, match="in different compartments"):
        to_tables(network)


def test_of_many_molecules_the_mean_is_that_of_chance():
    """One network, two engines: 20,000 molecules, 500 realizations."""
    network = ergode.ReactionNetwork(
        {"A": 12_000, "B": 8_000, "C": 0},
        [
            ergode.Reaction("A + B -> C", rate_constant=1e-4),
            ergode.Reaction("C -> A + B", rate_constant=0.3),
            ergode.Reaction("2 B -> A", rate_constant=2e-5),
            ergode.Reaction("A -> 2 B", rate_constant=0.1),
        ],
    )
    times = [0.0, 0.5, 2.0]
    chance = ergode.stochastic.simulate(
        network, times=times, replicates=500, seed=3, output="statistics", device="cpu"
    )
    found = ergode.kinetics.integrate(
        network, times=times, initial={"A": 12_000, "B": 8_000}, rtol=1e-8, device="cpu"
    )
    mean, variance = (chance[name].sel(species=list("ABC")).values for name in ("mean", "variance"))
    # Nine comparisons of a family-wise error of 1e-6; chance itself is off by order one molecule.
    allowed = 5.6 * np.sqrt(variance / 500) + 1.0
    apart = np.abs(found["concentration"].values[0] - mean)
    assert (apart <= allowed).all()
    assert (allowed < 0.01 * mean + 2.0).all()
