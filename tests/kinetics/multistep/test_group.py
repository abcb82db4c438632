"""A warp for every zone: the kernel of a GPU, run in Python, is that of a CPU; and on a GPU."""

import numpy as np
import pytest
from grid_of_threads import Block
from kernel_cases import ROBERTSON, burning

import ergode
from ergode.core.devices import resolve
from ergode.kinetics import Trajectory, integrate
from ergode.kinetics.conditions import zones_of
from ergode.kinetics.kernel_options import MIXTURES, OWN_TOLERANCES, POWERS, SUNLIT, SWEPT, TIMED
from ergode.kinetics.launch import Options, empty_outcome, problem_of, run_zones
from ergode.kinetics.methods import METHODS
from ergode.kinetics.multistep.runner import group_launch
from ergode.kinetics.network.to_tables import to_tables

CPU = resolve("cpu:1")
GAS = {"H": 0.2, "OH": 0.3, "H2": 0.5}
HOT = {"initial": GAS, "temperature": 1500.0, "pressure": 1e6}
STROKE = Trajectory([0.0, 5e-8, 2e-7], [1.0, 0.5, 0.8])
SUNNY = ergode.ReactionNetwork(
    {"A": 1.0, "B": 0.0},
    [
        ergode.Reaction("A -> B", rate_constant=ergode.Photolysis(1.0, 0.5)),
        ergode.Reaction("B -> A", rate_constant=ergode.PowerLaw(ergode.Arrhenius(3.0), {"B": 1.5})),
    ],
)
CASES = {
    "robertson": (ROBERTSON, {"initial": {"A": 1.0}}, 1e-2),
    "constant volume": (burning(), HOT | {"heating": "constant-volume"}, 2e-7),
    "constant pressure": (burning(), HOT | {"heating": "constant-pressure"}, 2e-7),
    "a volume over time and a wall": (
        burning(),
        HOT | {"heating": "given-volume", "volume": STROKE,
               "wall": ergode.kinetics.Wall(1e9, 500.0, 1.0)},
        2e-7,
    ),
    "a temperature over time": (
        burning(), HOT | {"temperature": Trajectory([0.0, 1e-7, 2e-7], [1500, 1400, 1450])}, 2e-7,
    ),
    "sunlight and a power": (SUNNY, {"sunlight": Trajectory([0.0, 1.0], [1.0, 0.0])}, 2.0),
}  # fmt: skip


def launch_of(network, given, grid, rtol=1e-6):
    """Zones, and a launch whose tables are on the host."""
    mechanism = to_tables(network)
    conditions = dict.fromkeys(("initial", "temperature", "density", "pressure", "heating")) | given
    zones = zones_of(network, mechanism, rtol=rtol, grid=grid, **conditions)
    options = Options(METHODS["bdf"].runner, rtol, None, True, 10_000)
    return mechanism, zones, options, group_launch(problem_of(mechanism, zones, options), CPU)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_kernel_of_a_gpu_run_in_python_is_that_of_a_cpu(case):
    """A thread that reads too early, or a sum that differs between threads, would show."""
    network, given, end = case
    grid = np.array([0.0, 0.3 * end, end])
    mechanism, zones, options, launch = launch_of(network, given, grid)
    found, expected = empty_outcome(zones, grid), empty_outcome(zones, grid)
    block = Block(launch.kernel.source("cuda"), launch.threads, launch.shared_count)
    scratch, counter = np.full((1, launch.scratch_count), np.nan), np.zeros(1, np.int32)
    block.run(*launch.arguments(zones.history, grid, scratch, counter, found))
    run_zones(mechanism, zones, grid, options, CPU, expected, lambda _: None)
    assert found.status.item() == expected.status.item() == 0
    # Rounding turns decisions: on a CPU 1e-15 of an amount changes the steps by 3 % past kinks.
    np.testing.assert_allclose(found.taken, expected.taken, rtol=0.05)
    np.testing.assert_allclose(found.amounts, expected.amounts, rtol=1e-5, atol=1e-13)
    np.testing.assert_allclose(found.fastest_heating, expected.fastest_heating, rtol=1e-5)
