"""Orders that are fractions or negative, and many reactants: by a block, and refused elsewhere."""

import numpy as np
import pytest
from both_devices import on_both
from grid_of_threads import Block
from kernel_cases import launch_of
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics.launch import empty_outcome

NETWORK = ergode.ReactionNetwork(
    {"A": 1.0, "B": 2.0, "C": 0.0, "X": 0.3},
    [
        ergode.Reaction("2 A + 2 B -> C", rate_constant=3.0),
        ergode.Reaction("C -> A", rate_constant=ergode.PowerLaw(0.7, {"C": 1.5, "X": -1.0})),
        ergode.Reaction("0.5 B -> X", rate_constant=0.4),
        ergode.Reaction("X -> 0", rate_constant=50.0),
        ergode.Reaction("0 -> X", rate_constant=ergode.PowerLaw(20.0, {"B": 0.5})),
    ],
)


def change(t, y):
    a, b, c, x = y
    first, second, third = 3 * a**2 * b**2, 0.7 * max(c, 0) ** 1.5 / x, 0.4 * b**0.5
    return [
        second - 2 * first, -2 * first - 0.5 * third, first - second,
        third - 50 * x + 20 * b**0.5,
    ]  # fmt: skip


def test_a_block_integrates_powers():
    mechanism, zones, launch = launch_of(NETWORK, None, 32, "rodas4", rtol=1e-4, limit=2_000)
    grid = np.array([0.0, 0.1, 1.0])
    found, scratch = empty_outcome(zones, grid), np.zeros((1, launch.scratch_count))
    block = Block(launch.kernel.source("cuda"), 32, launch.shared_bytes // 8)
    block.run(*launch.arguments(zones.history, grid, scratch, np.zeros(1, np.int32), found))
    exact = solve_ivp(
        change, (0, 1), [1, 2, 0, 0.3], "Radau", grid[1:], rtol=1e-9, atol=1e-12
    )  # fmt: skip
    np.testing.assert_allclose(found.amounts[0, 1:], exact.y.T, rtol=1e-3, atol=1e-4)
    assert found.taken.item() < 200  # derivatives that are wrong cost steps
    assert mechanism.structure.powers.power_count == 3  # one is shared


def test_a_missing_species_stops_a_reaction():
    empty = {"B": 0.0, "X": 0.0}
    found = ergode.kinetics.reaction_rates(NETWORK, initial=empty | {"C": 2.0})["rate"].values[0]
    np.testing.assert_array_equal(found, 0.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ergode.PowerLaw(-1.0, {"A": 1}),
        lambda: ergode.PowerLaw(1.0, {"A": np.nan}),
        lambda: ergode.PowerLaw(ergode.DetailedBalance(ergode.Arrhenius(1.0)), {}),
    ],
)
def test_a_power_law_is_checked(make):
    with pytest.raises(ergode.ModelError, match="PowerLaw"):
        make()


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23"])
def test_powers_on_a_device(method):
    one, other = on_both(ergode.kinetics.integrate, NETWORK, times=[0, 0.1, 1], method=method)
    np.testing.assert_array_equal(one["step_count"], other["step_count"])
    np.testing.assert_allclose(one["concentration"], other["concentration"], rtol=1e-8)
