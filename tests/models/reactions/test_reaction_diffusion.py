import time

import numpy as np
import pytest

import ergode
from ergode import ModelError, Reaction, ReactionDiffusion, ReactionNetwork, Species

PAIR = ReactionNetwork(
    {"A": 4, "B": 0},
    [Reaction("2 A -> B", rate_constant=0.5), Reaction("0 -> A", rate_constant=3.0)],
)


def test_reactions_and_jumps_of_a_flat_network():
    space = ReactionDiffusion(PAIR, (2, 3), diffusion={"A": 2.0}, spacing=0.5).flat()
    assert [s.name for s in space.species][:4] == ["A[0,0]", "B[0,0]", "A[0,1]", "B[0,1]"]
    assert len(space.reactions) == 6 * 2 + 2 * (3 + 4)
    volume = 0.25
    assert space.propensities()[0] == f"{2 * 0.5 / volume:g} * A[0,0] * (A[0,0] - 1) / 2"
    assert space.propensities()[1] == f"{3 * volume:g}"
    jumps = space.reactions[12:]
    assert {r.value for r in jumps} == {8.0}
    assert len({str(r) for r in jumps}) == len(jumps)
    assert space.conserved_quantities() == []


def test_jumps_by_axis_and_initial_amounts_of_a_flat_network():
    space = ReactionDiffusion(
        PAIR, (2, 3), diffusion={"B": (1.0, 4.0)}, spacing=(0.5, 2.0), periodic=(False, True),
        initial={"A": [[0, 1, 2], [3, 4, 5]]},
    ).flat()  # fmt: skip
    assert [s.initial for s in space.species][::2] == [0, 1, 2, 3, 4, 5]
    jumps = {str(r): r.value for r in space.reactions[12:]}
    assert jumps["B[0,0] -> B[1,0]"] == 4.0
    assert jumps["B[1,0] -> B[1,2]"] == 1.0  # around
    assert len(jumps) == 2 * (3 + 6)


def test_diffusion_keeps_molecules_and_spreads_them():
    walker = ReactionNetwork({"A": 0}, [Reaction("A -> A", rate_constant=0.0)])
    space = ReactionDiffusion(walker, (8,), diffusion={"A": 1.0}, periodic=True).flat()
    result = ergode.stochastic.simulate(
        space, times=[0, 0.5, 60], replicates=400, seed=1, device="cpu", initial={"A[0]": 50},
        method="composition-rejection",
    )  # fmt: skip
    amounts = result["amount"].values
    assert (amounts.sum(axis=2) == 50).all()
    even = amounts[:, 2].mean(axis=0)
    assert np.abs(even - 50 / 8).max() < 5 * np.sqrt(50 / 8 / 400)


def test_a_hundred_thousand_reactions_are_quick():
    start = time.process_time()
    space = ReactionDiffusion(PAIR, (120, 120), diffusion={"A": 1.0, "B": 1.0}).flat()
    assert len(space.reactions) > 140_000
    assert time.process_time() - start < 20  # far above what it takes


def test_the_compartment_is_the_voxel():
    """Constants are scaled by its volume, formulas see its size, concentrations its molecules."""
    network = ReactionNetwork(
        [Species("A", 8.0, "cell", "concentration"), Species("B", 2, "cell")],
        [Reaction("A + B -> B", rate_constant="k"), Reaction("A -> B", rate="v * cell * A")],
        parameters={"k": 3.0, "v": 1.0}, compartments={"cell": 99.0},
    )  # fmt: skip
    space = ReactionDiffusion(network, (3, 3, 2), diffusion={}, spacing=0.5)
    assert space.voxel.evaluate_parameters()["cell"] == 0.125
    assert list(space.voxel.propensities()) == ["k * A * B / cell", "v * cell * (A / cell)"]
    found = ergode.stochastic.simulate_space(space, times=[0, 1e-9], device="cpu")
    assert (found["amount"][0, 0].values[0] == 1).all()
    assert found["z"].values.tolist() == [0.25, 0.75]


def test_a_model_is_frozen_and_has_a_digest():
    make = {"diffusion": {"A": 1.0}, "initial": {"B": [1, 2]}}
    one, same = (ReactionDiffusion(PAIR, (2,), **make) for _ in range(2))
    assert one.digest == same.digest
    assert one.digest != ReactionDiffusion(PAIR, (2,), **make | {"spacing": 2.0}).digest
    assert one.digest != ReactionDiffusion(PAIR, (2,), **make | {"initial": {"B": [2, 1]}}).digest
    with pytest.raises(AttributeError, match="frozen"):
        one.shape = (3,)
    with pytest.raises(ValueError, match="read-only"):
        one.initial["B"][0] = 7


def network(**options):
    return ReactionNetwork({"A": 1}, [Reaction("A -> 0", rate_constant="k")], {"k": 1.0}, **options)


PLACES = [ergode.Compartment("a"), ergode.Compartment("b")]


@pytest.mark.parametrize(
    ("model", "shape", "options", "message"),
    [
        (PAIR, (0,), {}, "positive whole numbers"),
        (PAIR, (2, 2, 2, 2), {}, "one to three"),
        (PAIR, 3, {}, "shape is 3"),
        (PAIR, (2000, 2000, 2000), {}, "at most 2,147,483,647 voxels"),
        (PAIR, (3,), {"diffusion": {"C": 1.0}}, "'C', which is not a species"),
        (PAIR, (3,), {"diffusion": {"A": -1.0}}, "0 or more"),
        (PAIR, (3,), {"diffusion": {"A": (1.0, 2.0)}}, "'A' has 2 values; the grid has 1 axes"),
        (PAIR, (3,), {"diffusion": {"A": "D"}}, "uses 'D', which is not a parameter"),
        (PAIR, (3,), {"spacing": 0.0}, "spacing is 0.0"),
        (PAIR, (3,), {"spacing": (1.0, 1.0)}, "spacing has 2 values"),
        (PAIR, (3,), {"periodic": "yes"}, "periodic is 'yes'"),
        (PAIR, (3,), {"initial": {"A": [1, 2]}}, r"of shape \(2,\); expected an array of shape"),
        (PAIR, (2,), {"initial": {"A": [1, 0.5]}}, "has 0.5; expected whole numbers"),
        (PAIR, (2,), {"initial": {"C": [1, 0]}}, "initial has 'C'"),
        (PAIR, (2,), {"parameters": {"k": [1, 0]}}, "'k', which is not a parameter"),
        (network(), (2,), {"parameters": {"k": [1, np.nan]}}, "not finite"),
        (
            network(), (2,), {"parameters": {"k": [1, 2]}, "diffusion": {"A": "2 * k"}},
            "depends on 'k', which differs between voxels",
        ),
        (
            network(events=[ergode.Event("time > 1", {"k": 2.0}, name="on")]), (2,),
            {"diffusion": {"A": "2 * k"}}, "'2 \\* k', depends on what event 'on' changes",
        ),
        (
            network(
                compartments=[ergode.Compartment("cell", 2.0)],
                events=[ergode.Event("time > 1", {"cell": 2.0})],
            ),
            (2,), {}, "event '0' assigns to 'cell', which is the volume of a voxel",
        ),
        (network(rate_rules={"k": "1"}), (2,), {}, "cannot have rate rules"),
        (network(continuous=["A"]), (2,), {}, "cannot have continuous species"),
        (network(compartments=PLACES), (2,), {}, "compartments a, b; in space there is one volume"),
        (
            ReactionNetwork([Species("A", 1, constant=True)], []), (2,),
            {"diffusion": {"A": 1.0}}, "'A', whose amount is fixed",
        ),
    ],
)  # fmt: skip
def test_bad_models_are_refused(model, shape, options, message):
    with pytest.raises(ModelError, match=message):
        ReactionDiffusion(model, shape, **{"diffusion": {}} | options)


def test_what_a_flat_network_cannot_have_is_refused():
    with pytest.raises(ModelError, match="simulate_space takes any rates"):
        ReactionDiffusion(network(), (2,), diffusion={}).flat()
    late = network(events=[ergode.Event("time > 1", {"k": 2.0})])
    with pytest.raises(ModelError, match="no events and no delays"):
        ReactionDiffusion(late, (2,), diffusion={}).flat()
