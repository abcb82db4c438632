"""A warp for every zone: the kernel of a GPU, run in Python, is that of a CPU; and on a GPU."""

import numpy as np
import pytest
from both_devices import on_both
from grid_of_threads import Block
from kernel_cases import ROBERTSON, burning

import ergode
from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.kinetics import Piston, PlugFlow, StirredTank, Trajectory, Wall, integrate
from ergode.kinetics.conditions import zones_of
from ergode.kinetics.kernel_options import OWN_TOLERANCES, SWEPT
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
DECAY = ergode.ReactionNetwork({"A": 0.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant=3.0)])
BACK = [("in", 0, 1.0), (0, 1, 3.0), (1, 0, 2.0), (1, "out", 1.0)]
TANKS = {"H2": [0.5, 1.0], "OH": 0.3, "H": 0.2}
CASES = {
    "robertson": (ROBERTSON, {"initial": {"A": 1.0}}, 1e-2),
    "constant volume": (burning(), HOT | {"heating": "constant-volume"}, 2e-7),
    "constant pressure": (burning(), HOT | {"heating": "constant-pressure"}, 2e-7),
    "a volume over time and a wall": (
        burning(),
        HOT | {"heating": "given-volume", "volume": STROKE, "wall": Wall(1e9, 500.0, 1.0)},
        2e-7,
    ),
    "a temperature over time": (
        burning(), HOT | {"temperature": Trajectory([0.0, 1e-7, 2e-7], [1500, 1400, 1450])}, 2e-7,
    ),
    "a tank": (
        burning(),
        HOT | {"heating": "constant-volume", "reactor": StirredTank({"H2": 1.0}, 1e-8, 900.0)},
        2e-7,
    ),
    "a tank that fills, with doses and a wall that heats": (
        burning(),
        HOT | {"heating": "constant-pressure", "wall": Wall(1e9, lambda t: 500.0 + 1e9 * t, 1.0),
               "reactor": StirredTank({"H2": lambda t: 1 + 2e6 * t, "OH": 1}, 1e-7, 900.0, 0.5)},
        2e-7,
    ),
    "a tube": (burning(), HOT | {"heating": "constant-pressure", "reactor": PlugFlow(1e5)}, 0.02),
    "a piston with a mobility": (
        burning(),
        HOT | {"heating": "given-volume", "volume": Piston(1.0, 5e5, mobility=10.0)}, 2e-7,
    ),
    "a shell with a mass": (
        burning(),
        HOT | {"heating": "given-volume",
               "volume": Piston(10.0, 5e5, mass_per_area=1e-5, velocity=1e5, shape="sphere")},
        2e-7,
    ),
    "two tanks": (DECAY, {"reactor": StirredTank({"A": 4.0}, [0.25, 0.5], flows=BACK)}, 0.1),
    "burning tanks that flow back, with walls": (
        burning(),
        {"initial": TANKS, "temperature": [1500.0, 900.0], "pressure": 1e6,
         "heating": "constant-volume", "wall": Wall([0.0, 1e9], 500.0, 1.0),
         "reactor": StirredTank({"H2": [1.0, 0.8], "OH": 0.2}, [1e-8, 2e-8], 900.0, flows=BACK)},
        2e-8,
    ),
    "burning tanks in series": (
        burning(),
        {"initial": TANKS, "temperature": [1500.0, 1300.0], "pressure": 1e6,
         "heating": "constant-pressure",
         "reactor": StirredTank({"H2": 1.0, "OH": 0.2}, [2e-9, 1e-8], 900.0, tank_count=2)},
        2e-8,
    ),
    "formulas of sums and of the time": (
        ergode.ReactionNetwork(
            {"A": 1.0, "B": 0.5, "C": 0.0},
            [
                ergode.Reaction("A -> B", rate_constant=ergode.RateExpression("5 * (A + 2 * B)")),
                ergode.Reaction("B -> C", rate_constant=ergode.RateExpression("C + sin(time)^2")),
            ],
        ),
        {}, 2.0,
    ),
    "sunlight and a power": (SUNNY, {"sunlight": Trajectory([0.0, 1.0], [1.0, 0.0])}, 2.0),
}  # fmt: skip
SOON = {"robertson", "two tanks"}


def launch_of(network, given, grid, rtol=1e-6):
    """Zones, and a launch whose tables are on the host."""
    mechanism = to_tables(network)
    conditions = dict.fromkeys(("initial", "temperature", "density", "pressure", "heating")) | given
    zones = zones_of(network, mechanism, rtol=rtol, grid=grid, **conditions)
    options = Options(METHODS["bdf"].runner, rtol, None, True, 10_000)
    return mechanism, zones, options, group_launch(problem_of(mechanism, zones, options), CPU)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=name, marks=[pytest.mark.slow] if name not in SOON else [])
     for name, case in CASES.items()],
)  # fmt: skip
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
    assert not found.status.any() and not expected.status.any()
    # Rounding turns decisions: on a CPU 1e-15 of an amount changes the steps by 3 % past kinks.
    np.testing.assert_allclose(found.taken, expected.taken, rtol=0.05)
    np.testing.assert_allclose(found.amounts, expected.amounts, rtol=1e-5, atol=1e-13)
    np.testing.assert_allclose(found.fastest_heating, expected.fastest_heating, rtol=1e-5)


@pytest.mark.parametrize(
    "case",
    [
        "robertson",
        pytest.param("burning tanks that flow back, with walls", marks=pytest.mark.slow),
        pytest.param("a volume over time and a wall", marks=pytest.mark.slow),
        pytest.param("a tank that fills, with doses and a wall that heats", marks=pytest.mark.slow),
        pytest.param("a shell with a mass", marks=pytest.mark.slow),
    ],
)
def test_kernels_compile(case):
    """With prefactors and tolerances of each zone."""
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    network, given, end = CASES[case]
    grid = np.array([0.0, end])
    _, zones, _, launch = launch_of(network, given, grid)
    bindings = dict(launch.kernel.bindings) | {SWEPT: True, OWN_TOLERANCES: True}
    kernel = kernels.cuda_kernel(launch.kernel.bodies["cuda"][0], bindings=bindings)
    history = zones.history._replace(tolerances=np.zeros((1, 9)), factors=np.zeros((1, 9)))
    scratch, counter = np.zeros((1, 9)), np.zeros(1, np.int32)
    arguments = launch.arguments(history, grid, scratch, counter, empty_outcome(zones, grid))
    assert ".entry" in cuda.ptx(kernel.compiled("cuda"), arguments, optimized=False)


def both(network, times, **given):
    """The same call on a CPU and on a GPU."""
    return (
        integrate(network, times=times, method="bdf", rtol=1e-7, device=device, **given)
        for device in ("cpu", "cuda")
    )


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_gpu_agrees_with_a_cpu(case):
    network, given, end = case
    one, other = both(network, np.array([0.0, 0.3 * end, end]), **given)
    assert (one["status"] == 0).all() and (other["status"] == 0).all()
    amounts = one["concentration"].values
    np.testing.assert_allclose(
        other["concentration"], amounts, rtol=1e-5, atol=1e-8 * amounts.max()
    )
    np.testing.assert_allclose(other["step_count"], one["step_count"], rtol=0.05)


@pytest.mark.cuda
def test_reactors_from_a_queue_are_those_of_a_cpu_and_repeat_every_bit():
    """More of them than run at once, each with its own tolerance."""
    count = 6_000
    given = HOT | {
        "temperature": np.linspace(1200.0, 2000.0, count), "heating": "constant-volume",
        "rtol": np.geomspace(1e-5, 1e-7, count),
    }  # fmt: skip
    runs = [
        integrate(burning(), times=[0.0, 1e-7, 1e-4], method="bdf", device=device, **given)
        for device in ("cpu", "cuda", "cuda")
    ]
    for name in ("concentration", "temperature", "step_count"):
        np.testing.assert_array_equal(runs[1][name], runs[2][name])
    np.testing.assert_allclose(runs[1]["temperature"], runs[0]["temperature"], rtol=1e-4)
    means = [one["step_count"].mean().item() for one in runs]
    assert means[1] == pytest.approx(means[0], rel=0.01)


@pytest.mark.cuda
def test_cells_on_a_gpu_are_those_of_a_cpu():
    """In `burn`."""
    hot, dense = np.linspace(1300.0, 1700.0, 40), np.full(40, 1e-5)
    fractions = np.tile([0.01, 0.2, 0.7, 0.09], (40, 1))
    one, other = on_both(
        ergode.kinetics.burn, burning(), hot, dense, fractions, 1e-6, method="bdf", rtol=1e-7,
        heating="constant-volume",
    )  # fmt: skip
    np.testing.assert_allclose(other.mass_fraction, one.mass_fraction, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(other.energy, one.energy, rtol=1e-4)
