import time

import numpy as np
import pytest

import ergode
from ergode import ModelError, Reaction, ReactionNetwork

PAIR = ReactionNetwork(
    {"A": 4, "B": 0},
    [Reaction("2 A -> B", rate_constant=0.5), Reaction("0 -> A", rate_constant=3.0)],
)


def test_reactions_and_jumps_of_a_grid():
    space = ergode.on_grid(PAIR, (2, 3), diffusion={"A": 2.0}, spacing=0.5)
    assert [s.name for s in space.species][:4] == ["A[0,0]", "B[0,0]", "A[0,1]", "B[0,1]"]
    assert len(space.reactions) == 6 * 2 + 2 * (3 + 4)
    volume = 0.25
    assert space.propensities()[0] == f"{2 * 0.5 / volume:g} * A[0,0] * (A[0,0] - 1) / 2"
    assert space.propensities()[1] == f"{3 * volume:g}"
    jumps = space.reactions[12:]
    assert {r.value for r in jumps} == {8.0}
    assert len({str(r) for r in jumps}) == len(jumps)
    assert space.conserved_quantities() == []


def test_diffusion_keeps_molecules_and_spreads_them():
    walker = ReactionNetwork({"A": 0}, [Reaction("A -> A", rate_constant=0.0)])
    space = ergode.on_grid(walker, (8,), diffusion={"A": 1.0}, periodic=True)
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
    space = ergode.on_grid(PAIR, (120, 120), diffusion={"A": 1.0, "B": 1.0})
    assert len(space.reactions) > 140_000
    assert time.process_time() - start < 20  # far above what it takes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0,), {"diffusion": {}}), "positive"),
        (((3,), {"diffusion": {"C": 1.0}}), "'C'"),
        (((3,), {"diffusion": {"A": -1.0}}), "0 or more"),
    ],
)
def test_bad_grids_are_refused(arguments, message):
    shape, options = arguments
    with pytest.raises(ModelError, match=message):
        ergode.on_grid(PAIR, shape, **options)
