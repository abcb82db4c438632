"""A small network that is unrolled in its kernel."""

import numpy as np
import pytest
from grid_of_threads import Block
from kernel_cases import ROBERTSON, launch_of

import ergode
from ergode.core.devices import resolve
from ergode.core.math.rosenbrock import RODAS4
from ergode.kinetics.implicit.runner import thread_launch
from ergode.kinetics.implicit.system import system_of
from ergode.kinetics.implicit.unrolled import can_be_unrolled
from ergode.kinetics.launch import Options, bindings_of, empty_outcome, run_zones
from ergode.kinetics.methods import METHODS
from ergode.kinetics.tolerances import absolute_tolerances, with_tolerances


def unrolled_launch(network, initial, tolerances=None, **conditions):
    """A kernel in which the network is unrolled."""
    mechanism, zones, _ = launch_of(network, initial, 32, "rodas4", **conditions)
    zones = zones if tolerances is None else with_tolerances(zones, tolerances)
    absolute = absolute_tolerances(mechanism, zones, None, 1e-2)
    system = system_of(mechanism, absolute, heating=0, flow=zones.flow)
    assert can_be_unrolled(system)
    launch = thread_launch(
        resolve("cpu:1"), bindings_of(mechanism, zones), system, RODAS4, (1e-2, 60)
    )
    return mechanism, zones, launch


def test_a_network_written_out_is_the_same():
    mechanism, zones, launch = unrolled_launch(ROBERTSON, {"A": [1.0, 0.5]})
    grid = np.array([0.0, 1e-3, 1e-2])
    found, expected = empty_outcome(zones, grid), empty_outcome(zones, grid)
    block = Block(launch.kernel.source("cuda"), 1, 0)
    block.run(*launch.arguments(zones.history, grid, np.zeros(1, np.int32), found))
    options = Options(METHODS["rodas4"].runner, 1e-2, None, True, 60)
    run_zones(mechanism, zones, grid, options, resolve("cpu:1"), expected, lambda _: None)
    for name in ("status", "taken", "repeated"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.amounts, expected.amounts, rtol=1e-11)


def test_a_network_written_out_compiles():
    """With all that it may have: a flow, sunlight, and tolerances of the zone."""
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    splitting = ergode.Reaction("A -> B", rate_constant=ergode.Photolysis(3.0, 2.0))
    network = ergode.ReactionNetwork({"A": 1.0, "B": 0.0}, [splitting])
    tank = ergode.kinetics.StirredTank({"A": 1.0}, 2.0)
    _, zones, launch = unrolled_launch(network, None, np.ones((1, 3)), reactor=tank, sunlight=0.5)
    grid = np.array([0.0, 1.0])
    arguments = launch.arguments(
        zones.history, grid, np.zeros(1, np.int32), empty_outcome(zones, grid)
    )
    assert ".entry" in cuda.ptx(launch.kernel.compiled("cuda"), arguments, optimized=False)
