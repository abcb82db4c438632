"""The table of the most important reactions: by hand, and by Cantera."""

from pathlib import Path

import numpy as np
import pytest

import ergode
from ergode.kinetics import important_reactions, integrate

CHAIN = ergode.ReactionNetwork(
    {"A": 1.0, "B": 0.0, "C": 0.0},
    [
        ergode.Reaction("A -> 2 B", rate_constant=3.0, name="first"),
        ergode.Reaction("B -> C", rate_constant=1.0, name="second"),
        ergode.Reaction("B + C -> A", rate_constant=0.5, name="third"),
    ],
)


@pytest.fixture(scope="module")
def run():
    return integrate(CHAIN, times=[0.0, 0.3, 1.0], initial={"A": [1.0, 2.0]}, device="cpu")


def test_a_chain_by_hand(run):
    found = important_reactions(CHAIN, run, time=0.31, species=["B", "A"], count=9)
    assert found.sizes == {"zone": 2, "species": 2, "rank": 3} and found.attrs["time"] == 0.3
    for zone in range(2):
        a, b, c = run["concentration"].values[zone, 1]
        expected = {"first": 6.0 * a, "second": -b, "third": -0.5 * b * c}
        one = found.isel(zone=zone).sel(species="B")
        assert one["reaction"].values.tolist() == sorted(expected, key=lambda k: -abs(expected[k]))
        for name, made, share in zip(
            one["reaction"].values, one["production"].values, one["share"].values, strict=True
        ):
            np.testing.assert_allclose(made, expected[str(name)], rtol=1e-12)
            whole = 6.0 * a if name == "first" else b + 0.5 * b * c
            np.testing.assert_allclose(share, abs(made) / whole, rtol=1e-12)


def test_productions_of_a_flame_are_those_of_cantera():
    ct = pytest.importorskip("cantera")
    pytest.importorskip("ruamel.yaml")
    network = ergode.read_cantera(Path(ct.__file__).parent / "data" / "h2o2.yaml")
    result = integrate(
        network, times=[0.0, 1e-4], temperature=[1200.0, 1400.0], pressure=1e6, device="cpu",
        initial={"H2": 2.0, "O2": 1.0, "AR": 4.0}, heating="constant-volume",
    )  # fmt: skip
    found = important_reactions(network, result, species="H", count=6)
    gas = ct.Solution("h2o2.yaml")
    for zone in range(2):
        state = result.isel(zone=zone, time=-1)
        gas.TPX = (
            float(state["temperature"]),
            0.1 * float(state["pressure"]),
            state["concentration"].values,
        )
        stoichiometry = gas.product_stoich_coeffs - gas.reactant_stoich_coeffs
        made = 1e-3 * stoichiometry[gas.species_index("H")] * gas.net_rates_of_progress
        order = np.argsort(-np.abs(made))[:6]
        one = found.isel(zone=zone, species=0)
        np.testing.assert_allclose(one["production"], made[order], rtol=1e-6)
        numbers = [int(str(name).split("(")[-1].rstrip(")")) - 1 for name in one["reaction"].values]
        assert numbers == order.tolist()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"species": "D"}, "'D' is not a species of the network"),
        ({"network": ergode.ReactionNetwork({"X": 1.0}, [])}, "other species than the network"),
        ({"result": ergode.kinetics.reaction_rates(CHAIN)}, "result has no mass_fraction or conc"),
    ],
)
def test_what_is_refused(run, changes, words):
    given = {"network": CHAIN, "result": run} | changes
    with pytest.raises(ergode.ModelError, match=words):
        important_reactions(**given)
