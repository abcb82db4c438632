"""What the compilers make of the kernels, and that both targets compute the same."""

import numpy as np
import pytest
from both_devices import on_both
from grid_of_threads import Block
from kernel_cases import CARBON, CASES, EXPLICIT, ROBERTSON, launch_of
from type_ia import TYPE_IA

import ergode
from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.kinetics.kernel_options import (
    COMPOSED,
    DYNAMIC,
    FLOW,
    FORMULAS,
    HEATING,
    MIXTURES,
    MOLECULES,
    NEUTRINOS,
    OWN_TOLERANCES,
    PLASMA,
    POWERS,
    REVERSIBLE,
    SUNLIT,
    SWEPT,
    THIRD_BODIES,
    TIMED,
)
from ergode.kinetics.launch import Options, empty_outcome, run_zones
from ergode.kinetics.methods import METHODS
from ergode.kinetics.network.to_tables import to_tables
from ergode.kinetics.physics.equation_of_state import HELMHOLTZ, STATE
from ergode.kinetics.tables import CLOSED, PLUG, PRESSURE, STIRRED, Powers


@pytest.mark.parametrize("method", ["rodas4", *EXPLICIT])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cuda_kernel_run_in_python_is_the_cpu_kernel(case, method):
    network, initial, stop, threads = case
    mechanism, zones, launch = launch_of(network, initial, threads, method)
    explicit = method != "rodas4"
    # Explicit steps are many: the first fifty tell.
    grid = np.array([0.0, 1e-9 if explicit else 0.1, 1.0]) * stop
    found, expected = empty_outcome(zones, grid), empty_outcome(zones, grid)
    block = Block(launch.kernel.source("cuda"), launch.threads, launch.shared_bytes // 8)
    history, scratch = zones.history, np.zeros((1, launch.scratch_count))
    block.run(
        *launch.arguments(
            history, grid, scratch,
            np.zeros(1, np.int32), found,
        )
    )  # fmt: skip
    options = Options(METHODS[method].runner, 1e-2, None, True, 60)
    run_zones(mechanism, zones, grid, options, resolve("cpu:1"), expected, lambda _: None)
    np.testing.assert_array_equal(found.status, expected.status)
    np.testing.assert_array_equal(found.taken, expected.taken)
    np.testing.assert_allclose(found.amounts, expected.amounts, rtol=1e-9, atol=1e-14)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["rodas4", "asymptotic"])
def test_no_warp_reads_what_another_changes(method):
    """Between two barriers; a short run of a network of several warps."""
    network, initial, stop, threads = CASES["chain"]
    _, zones, launch = launch_of(network, initial, threads, method, limit=3)
    grid = np.array([0.0, stop])
    block = Block(launch.kernel.source("cuda"), launch.threads, launch.shared_bytes // 8)
    block.watch()
    scratch, counter = np.zeros((1, launch.scratch_count)), np.zeros(1, np.int32)
    found = empty_outcome(zones, grid)
    block.run(*launch.arguments(zones.history, grid, scratch, counter, found))
    assert found.taken.item() + found.repeated.item() >= 3
    assert not block.races


ALL = {DYNAMIC: True, REVERSIBLE: True, THIRD_BODIES: True, TIMED: True, SWEPT: True}
COMPILED = {
    "closed": ("rodas4", {}),
    "powers, plasma and flow through a tank, by sunlight": (
        "rodas4",
        ALL | {HEATING: PRESSURE, PLASMA: True, MOLECULES: True, POWERS: True, FLOW: STIRRED,
               SUNLIT: True, OWN_TOLERANCES: True, MIXTURES: True},
    ),
    "formulas in a tube": (
        "rodas4", ALL | {HEATING: PRESSURE, MOLECULES: True, FLOW: PLUG, FORMULAS: True},
    ),
    "tables and branches": ("rodas4", {COMPOSED: True, DYNAMIC: True, TIMED: True}),
    "asymptotic": ("asymptotic", {}),
    "asymptotic, with formulas": ("asymptotic", ALL | {FORMULAS: True}),
}  # fmt: skip


@pytest.mark.parametrize(("method", "options"), COMPILED.values(), ids=COMPILED)
def test_block_kernels_compile(method, options):
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    _, zones, launch = launch_of(ROBERTSON, {"A": 1.0}, 64, method)
    kernel = kernels.cuda_kernel(
        launch.kernel.bodies["cuda"][0], bindings=dict(launch.kernel.bindings) | options
    )
    mechanism = to_tables(ROBERTSON)
    rates = mechanism.rates._replace(formulas=mechanism.rates.formulas.for_kernels)
    full = {"rates": rates, "thermo": mechanism.thermo}
    if options.get(POWERS):
        full |= {"powers": Powers(*np.zeros((2, 1), np.uint32), np.zeros(1))}
    launch.tables = launch.tables[0]._replace(**full), *launch.tables[1:]
    flow = options.get(FLOW, CLOSED)
    history = zones.history._replace(
        inflow=np.zeros((1, 9)) if flow else (),
        sunlight=np.zeros((1, 2)) if options.get(SUNLIT) else (),
        tolerances=np.zeros((1, 9)) if options.get(OWN_TOLERANCES) else (),
        **dict.fromkeys(
            ("parameters", "drives"), np.zeros((1, 2)) if options.get(FORMULAS) else ()
        ),
    )
    grid = np.array([0.0, 1.0])
    # Formulas call functions that are not inlined, which need local memory.
    may_spill = flow == PLUG or options.get(FORMULAS, False)
    text = cuda.ptx(
        kernel.compiled("cuda"),
        launch.arguments(
            history, grid, np.zeros((1, 9)), np.zeros(1, np.int32), empty_outcome(zones, grid)
        ),
        optimized=not may_spill,
    )
    assert ".entry" in text and (may_spill or "__local_depot" not in text)


@pytest.mark.exhaustive
@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure"])
def test_a_block_kernel_of_stars_compiles(heating):
    """Nuclei that heat themselves, with pairs and neutrino losses."""
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    conditions = {"temperature": 3e9, "density": 1e7, "heating": heating}
    _, zones, launch = launch_of(CARBON, {"c12": 1.0}, 32, "rodas4", **conditions)
    bindings = dict(launch.kernel.bindings) | {STATE: HELMHOLTZ, NEUTRINOS: True}
    kernel = kernels.cuda_kernel(launch.kernel.bodies["cuda"][0], bindings=bindings)
    system = launch.tables[0]
    thermo = system.thermo._replace(electrons=np.zeros((9, 9)))
    launch.tables = system._replace(thermo=thermo), *launch.tables[1:]
    grid = np.array([0.0, 1.0])
    arguments = launch.arguments(
        zones.history, grid, np.zeros((1, 9)), np.zeros(1, np.int32), empty_outcome(zones, grid)
    )
    assert ".entry" in cuda.ptx(kernel.compiled("cuda"), arguments, optimized=False)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23", *EXPLICIT])
def test_cuda_agrees_with_cpu(fern, method):
    zones = TYPE_IA | {"temperature": np.linspace(5e9, 8e9, 5)}
    options = {"times": [0, 1e-13, 1e-11], "method": method, "rtol": 1e-4}
    one, other = on_both(ergode.kinetics.integrate, fern, **options, **zones)
    np.testing.assert_array_equal(one["status"], other["status"])
    np.testing.assert_allclose(one["mass_fraction"], other["mass_fraction"], atol=1e-9)
    np.testing.assert_allclose(one["step_count"], other["step_count"], rtol=1e-3)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23"])
def test_cuda_repeats_every_bit(fern, method):
    zones = TYPE_IA | {"temperature": np.linspace(4e9, 8e9, 160)}
    run = [
        ergode.kinetics.integrate(
            fern, times=[0, 1e-9], method=method, rtol=1e-3, device="cuda", **zones
        )["mass_fraction"].values
        for _ in range(10)
    ]
    for other in run[1:]:
        np.testing.assert_array_equal(other, run[0])


@pytest.mark.cuda
def test_cuda_many_zones_of_a_small_network():
    """Enough of them that the network is written out."""
    amounts = np.linspace(0.5, 1.0, 20_000)
    one, other = on_both(
        ergode.kinetics.integrate, ROBERTSON, times=[0, 1e-3, 40.0], initial={"A": amounts}
    )
    np.testing.assert_array_equal(one["step_count"], other["step_count"])
    np.testing.assert_allclose(one["concentration"], other["concentration"], rtol=1e-9, atol=1e-15)


@pytest.mark.cuda
def test_cuda_type_ia_zone_step_for_step(fern, reference):
    result = ergode.kinetics.integrate(
        fern, times=[0, 1e-9], method="asymptotic", reference_control=True, device="cuda", **TYPE_IA
    )
    assert result["step_count"].item() == pytest.approx(32_181, rel=1e-3)
    np.testing.assert_allclose(result["mass_fraction"].values[0, -1], reference, atol=1e-5)
