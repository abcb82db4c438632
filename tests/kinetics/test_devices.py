"""All that a zone may have: by blocks of threads, run in Python, as on a CPU; and on a GPU."""

import numpy as np
import pytest
from both_devices import on_both
from grid_of_threads import Block
from kernel_cases import CARBON, EXPLICIT, WITH_TABLES, burning, launch_of

import ergode
from ergode.core.devices import resolve
from ergode.kinetics import Piston, PlugFlow, StirredTank, Trajectory, Wall, integrate
from ergode.kinetics.launch import Options, empty_outcome, run_zones
from ergode.kinetics.methods import METHODS

GAS = burning()
START = {"H2O": 1.0, "H2": 0.1, "H": 0.01}
HOT = {"temperature": 1500.0, "pressure": 1e6}
VOLUME = HOT | {"heating": "constant-volume"}
MOVED = HOT | {"heating": "given-volume"}
STARS = {"temperature": 3e9, "density": 1e8}
DECAY = ergode.ReactionNetwork(
    {"A": 1, "B": 0},
    [ergode.Reaction("A -> B", rate_constant=ergode.Arrhenius(1e3, 0.0, 9e3))],
)


def line(end, *values):
    """Linear between values at equal distances."""
    return Trajectory(np.linspace(0.0, end, len(values)), values)


def with_weak_rates():
    """Carbon whose product captures electrons: two parts beside the sparse matrix."""
    weak = ergode.models.reactions.rates.WeakTable([3, 9], [7, 10], [[5.0, 5.5], [5.5, 6.0]])
    odd = ergode.Species("na24", mass_number=24, charge_number=11,
                         thermochemistry=ergode.Nucleus(-8.4))  # fmt: skip
    capture = ergode.Reaction("mg24 -> na24", rate_constant=weak)
    return ergode.ReactionNetwork([*CARBON.species, odd], [*CARBON.reactions, capture])


COURSE = Trajectory([3.2, 3.5, 3.6, 3.9], [300.0, 300.0, 2500.0, 900.0])
FED = {"flow_ratio": line(4e-9, 0.5, 1.5), "outflow_ratio": 0.3}
# Network, initial amounts, times, and what the zones have.
CASES = {
    "constant pressure": (
        GAS, {"H": 0.2, "OH": 0.3, "H2": 0.5}, [0.0, 1e-8, 2e-7],
        HOT | {"heating": "constant-pressure"},
    ),
    "a volume over time": (
        GAS, START, [0.0, 4e-9], MOVED | {"volume": Trajectory([0, 3e-9, 4e-9], [3.0, 2.8, 2.9])},
    ),
    "a pressure over time and a wall": (
        GAS, START, [0.0, 4e-9],
        {"temperature": 1500.0, "pressure": Trajectory([0, 3e-9, 4e-9], [1e6, 1.1e6, 1e6]),
         "heating": "given-pressure", "wall": Wall(4e9, 500.0, 3.0)},
    ),
    "a piston": (GAS, START, [0.0, 2e-9], MOVED | {"volume": Piston(2.0, 5e5, mobility=1e2)}),
    "a piston with a mass": (
        GAS, START, [0.0, 2e-9],
        MOVED | {"volume": Piston(2.0, 5e5, mass_per_area=1e-6, velocity=1e7)},
    ),
    "a wall": (GAS, START, [0.0, 1e-9], VOLUME | {"wall": Wall(4e10, 500.0, 3.0)}),
    "a wall that changes": (
        GAS, START, [0.0, 1e-9], VOLUME | {"wall": Wall(4e10, line(1e-9, 500, 300, 900), 3.0)},
    ),
    "a tank whose mass grows": (
        GAS, START, [0.0, 4e-9],
        VOLUME | {"reactor": StirredTank({"H2": 1.0, "OH": 0.2}, 2e-9, 900.0, outflow_ratio=0.3)},
    ),
    "a tank whose inflow changes": (
        GAS, START, [0.0, 4e-9],
        VOLUME | {"reactor": StirredTank({"H2": line(4e-9, 1.0, 2.0), "OH": 0.2}, 2e-9,
                                         line(4e-9, 900.0, 1200.0), **FED)},
    ),
    "stars, a volume over time": (
        CARBON, {"c12": 1.0}, [0.0, 1e-8],
        STARS | {"heating": "given-volume", "volume": line(1e-8, 1.0, 1.02, 0.98)},
    ),
    "stars, a pressure over time": (
        CARBON, {"c12": 1.0}, [0.0, 1e-8],
        STARS | {"heating": "given-pressure", "pressure": line(1e-8, 1.0, 1.02, 0.98)},
    ),
    "stars, weak rates": (
        with_weak_rates(), {"c12": 1.0}, [0.0, 1e-9, 1e-6],
        {"temperature": 4e9, "density": 1e7, "heating": "constant-pressure"},
    ),
    "tables of temperature": (
        WITH_TABLES, {"A": 1.0}, [0.0, 0.4, 1.0], {"temperature": line(1.0, 5e7, 2e10)},
    ),
    "a temperature over time": (DECAY, None, [3.0, 3.25, 4.0], {"temperature": COURSE}),
}  # fmt: skip
EXPLICIT_TOO = {"tables of temperature": EXPLICIT, "a temperature over time": EXPLICIT}
SOON = {"a wall", "stars, a pressure over time", "a temperature over time"}
RUNS = [
    pytest.param(
        name, method,
        marks=pytest.mark.slow if name in SOON and method == "rodas4" else pytest.mark.exhaustive,
    )
    for name in CASES
    for method in ("rodas4", *EXPLICIT_TOO.get(name, ()))
]  # fmt: skip


@pytest.mark.parametrize(("name", "method"), RUNS)
def test_the_kernel_of_a_block_is_that_of_the_cpu(name, method):
    """Its text runs on a grid of threads; that of an implicit method compiles, too."""
    network, initial, times, conditions = CASES[name]
    grid, limit = np.array(times), 20_000
    mechanism, zones, launch = launch_of(
        network, initial, 32, method, limit=limit, grid=grid, **conditions
    )
    found, expected = empty_outcome(zones, grid), empty_outcome(zones, grid)
    scratch, counter = np.zeros((1, launch.scratch_count)), np.zeros(1, np.int32)
    arguments = launch.arguments(zones.history, grid, scratch, counter, found)
    Block(launch.kernel.source("cuda"), 32, launch.shared_bytes // 8).run(*arguments)
    options = Options(METHODS[method].runner, 1e-2, None, True, limit)
    run_zones(mechanism, zones, grid, options, resolve("cpu:1"), expected, lambda _: None)
    assert not expected.status.any()
    np.testing.assert_array_equal(found.status, expected.status)
    np.testing.assert_array_equal(found.taken, expected.taken)
    # The temperature of stars follows from their energy by iteration.
    within = 1e-6 if network is not GAS and zones.heating else 1e-8
    np.testing.assert_allclose(found.amounts, expected.amounts, rtol=within, atol=1e-12)
    np.testing.assert_allclose(found.fastest_heating, expected.fastest_heating, rtol=1e-6)
    ends = expected.amounts[:, [0, -1]]
    assert (np.ptp(ends, axis=1) > 1e-3 * ends.max(axis=1)).any(axis=1).all()  # something happens
    if method == "rodas4" and name not in SOON:
        pytest.importorskip("numba_cuda")
        from ergode.core.devices import cuda

        assert ".entry" in cuda.ptx(launch.kernel.compiled("cuda"), arguments, optimized=False)


PRESSURE = HOT | {"heating": "constant-pressure"}
WARM = {"temperature": np.linspace(1200.0, 2000.0, 5)}
END = (0.0, 1e-7, 1e-6)
FLOW = {"H2": 1.0, "OH": 0.2}
JUMP = Trajectory([0.0, 4e-7, 1e-6], [3.0, 1.0, 1.5])
DRAINED = StirredTank(FLOW, 2e-7, 900.0, outflow_ratio=[0.0, 0.3, 1.1])
DOSED = StirredTank(
    {"H2": line(1e-6, 1.0, 2.0), "OH": 0.2}, np.geomspace(1e-7, 1e-6, 5),
    line(1e-6, 900.0, 1200.0), flow_ratio=line(1e-6, 0.5, 1.5), outflow_ratio=0.5,
)  # fmt: skip
WALLS = np.geomspace(1e6, 1e8, 5)
HEATED = Wall(WALLS, Trajectory([0.0, 3e-7, 1e-6], [300.0, 900.0, 500.0]), 2.0)
MOVES = {"mobile": {"mobility": 10.0}, "inert": {"mass_per_area": 1e-6, "velocity": 1e4}}
TAUS = np.geomspace(1e-7, 1e-5, 5)
WARMED = StirredTank(FLOW, TAUS, np.linspace(600.0, 1800.0, 5))
ON_A_DEVICE = {
    "constant volume": VOLUME | WARM,
    "constant pressure": PRESSURE | WARM,
    "tanks at constant volume": VOLUME | WARM | {"reactor": WARMED},
    "tanks at constant pressure": PRESSURE | WARM | {"reactor": WARMED},
    "tanks at given temperatures": HOT | WARM | {"reactor": StirredTank(FLOW, TAUS)},
    "isothermal tanks": HOT | WARM | {
        "heating": "isothermal-constant-pressure", "reactor": StirredTank(FLOW, TAUS)
    },
    "tubes": PRESSURE | WARM | {"reactor": PlugFlow(np.geomspace(1.0, 10.0, 5))},
    "a volume over time": MOVED | WARM | {"volume": JUMP},
    "a pressure over time": WARM | {
        "pressure": lambda time: 1e6 * (1.0 + 1e6 * time), "heating": "given-pressure"
    },
    "a wall at constant volume": VOLUME | WARM | {"wall": Wall(WALLS, 400.0, 2.0)},
    "a wall at constant pressure": PRESSURE | WARM | {"wall": Wall(WALLS, 400.0, 2.0)},
    "a wall that changes": VOLUME | WARM | {"wall": HEATED},
    "tanks whose mass changes": VOLUME | {"reactor": DRAINED},
    "tanks whose inflow changes, at constant volume": VOLUME | {"reactor": DOSED},
    "tanks whose inflow changes, at constant pressure": PRESSURE | {"reactor": DOSED},
    **{
        f"{move} pistons, {shape}": MOVED | WARM | {
            "volume": Piston(np.geomspace(0.5, 5.0, 5), 5e5, shape=shape, **how)
        }
        for move, how in MOVES.items() for shape in ("plane", "sphere")
    },
}  # fmt: skip


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23"])
@pytest.mark.parametrize("given", ON_A_DEVICE.values(), ids=ON_A_DEVICE)
def test_gases_on_a_device(given, method):
    one, other = on_both(integrate, GAS, times=END, initial=START, method=method, **given)
    steps, heat, amounts = 0, 2e-8, 1e-6
    # A change of the last bit of a temperature moves steps and temperatures of a CPU alone by 8 %
    # and 4e-7, where the inflow of a tank changes, and by 1 % and 4e-6, where the volume does.
    if given.get("reactor") is DOSED:
        steps, heat, amounts = 0.1, 3e-6, 1e-4
    elif given.get("volume") is JUMP:
        steps, heat, amounts = 0.02, 1e-5, 1e-4
    np.testing.assert_allclose(one["step_count"], other["step_count"], rtol=steps)
    for name in {"temperature", "volume_ratio"} & set(one):
        np.testing.assert_allclose(one[name], other[name], rtol=heat)
    np.testing.assert_allclose(
        one["concentration"], other["concentration"], rtol=amounts, atol=1e-18
    )
