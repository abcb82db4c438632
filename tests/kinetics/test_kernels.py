"""What the compilers make of the kernels, and that both targets compute the same."""

import numpy as np
import pytest
from grid_of_threads import Block
from type_ia import TYPE_IA

import ergode
from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.kinetics import launch as runs
from ergode.kinetics.block import runner
from ergode.kinetics.block.schedule import block_system_of, program_of, rounds_of, segments_of
from ergode.kinetics.conditions import zones_of
from ergode.kinetics.explicit import asymptotic
from ergode.kinetics.explicit.flows import explicit_system_of
from ergode.kinetics.implicit import unrolled
from ergode.kinetics.implicit.elimination import eliminate
from ergode.kinetics.implicit.system import coupled, system_of
from ergode.kinetics.implicit.tableaus import RODAS4, method_of
from ergode.kinetics.network.to_tables import to_tables
from ergode.kinetics.tolerances import absolute_tolerances


def chain(count):
    """A network that is too large to be all tail, with a species that all others make."""
    names = [f"s{i}" for i in range(count)]
    reactions = [
        ergode.Reaction(f"{a} + {names[0]} -> {b}", rate_constant=1.0 + 0.1 * i)
        for i, (a, b) in enumerate(zip(names[1:], names[2:], strict=False))
    ]
    reactions += [
        ergode.Reaction(f"{b} -> {a} + {names[0]}", rate_constant=30.0 / (i + 1))
        for i, (a, b) in enumerate(zip(names[1:], names[2:], strict=False))
    ]
    return ergode.ReactionNetwork(dict.fromkeys(names, 0.0), reactions)


ROBERTSON = ergode.ReactionNetwork(
    {"A": 1, "B": 0, "C": 0},
    [
        ergode.Reaction("A -> B", rate_constant=0.04),
        ergode.Reaction("2 B -> B + C", rate_constant=3e7),
        ergode.Reaction("B + C -> A + C", rate_constant=1e4),
    ],
)
CHAIN = chain(56)
CASES = {
    "robertson": (ROBERTSON, {"A": 1.0}, 1e-2, 32),
    "chain": (CHAIN, {"s0": 1.0, "s1": 0.7}, 1.0, 64),
}


def burning():
    """A few molecules, with third bodies and reverse reactions."""
    kinds = {"H": (2.5, -700.0), "OH": (3.0, 3e3), "H2O": (4.0, -3e4), "H2": (3.5, -1e3)}
    made = {"H": {"H": 1}, "OH": {"O": 1, "H": 1}, "H2O": {"O": 1, "H": 2}, "H2": {"H": 2}}
    species = []
    for name, (heat, energy) in kinds.items():
        row = (heat, 1e-4, 0.0, 0.0, 0.0, energy, 1.0)
        gas = ergode.NasaPolynomials(row, row, 1000.0, made[name])
        species.append(ergode.Species(name, thermochemistry=gas))
    weak = ergode.ThreeBody(ergode.Arrhenius(1e18, -1.0, 0.0), {"H2O": 6.0, "H2": 0.0})
    fall = ergode.Falloff(
        ergode.Arrhenius(1e22, -2.0, 0.0), ergode.Arrhenius(1e14, 0.0, 0.0), {"H2": 2.0},
        troe=(0.6, 100.0, 1e4),
    )  # fmt: skip
    reactions = []
    for text, law in (("2 H -> H2", weak), ("H + OH -> H2O", fall), ("H2 + OH -> H2O + H",
                      ergode.Arrhenius(1e10, 1.0, 2e3))):  # fmt: skip
        left, right = text.split(" -> ")
        reactions += [
            ergode.Reaction(text, rate_constant=law),
            ergode.Reaction(f"{right} -> {left}", rate_constant=ergode.DetailedBalance(law)),
        ]
    return ergode.ReactionNetwork(species, reactions)


def launch_of(network, initial, threads, method, rtol=1e-2, limit=60, **conditions):
    mechanism = to_tables(network)
    zones = zones_of(
        network, mechanism, initial=initial,
        **dict.fromkeys(("temperature", "density", "pressure", "heating")) | conditions,
    )  # fmt: skip
    bindings = runs.bindings_of(mechanism, zones) | runs.EXPLICIT.get(method, {})
    absolute = absolute_tolerances(mechanism, zones, None, rtol)
    if method in runs.EXPLICIT:
        how = asymptotic.Control(0.01, 1e-7, rtol, True, False)
        system = explicit_system_of(mechanism, absolute, partial=bindings["PARTIAL"], blocks=True)
    else:
        how = method_of(RODAS4)
        pattern, _ = coupled(mechanism, zones.heating)
        alone = system_of(mechanism, absolute, heating=zones.heating)
        system = block_system_of(alone, pattern, threads)
    launch = runner.Launch(
        resolve("cpu:1"), bindings, system, how, rtol=rtol, step_limit=limit, threads=threads
    )
    return mechanism, zones, launch


@pytest.mark.parametrize("method", ["rodas4", *runs.EXPLICIT])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cuda_kernel_run_by_python_threads_is_the_cpu_kernel(case, method):
    network, initial, stop, threads = case
    mechanism, zones, launch = launch_of(network, initial, threads, method)
    explicit = method != "rodas4"
    # Explicit steps are many: the first fifty tell.
    grid = np.array([0.0, 1e-9 if explicit else 0.1, 1.0]) * stop
    found, expected = runs.Outcome.empty(zones, grid), runs.Outcome.empty(zones, grid)
    block = Block(launch.kernel.source("cuda"), launch.threads, launch.shared_bytes // 8)
    history, scratch = zones.history, np.zeros((1, launch.scratch_count))
    block.run(
        *launch.arguments(
            history.times, history.temperature, history.density, grid, scratch,
            np.zeros(1, np.int32), found.amounts, outcome_of(found),
        )
    )  # fmt: skip
    options = runs.Options(method, 1e-2, None, True, 60)
    runs.run_zones(mechanism, zones, grid, options, resolve("cpu:1"), expected, lambda _: None)
    np.testing.assert_array_equal(found.status, expected.status)
    np.testing.assert_array_equal(found.taken, expected.taken)
    np.testing.assert_allclose(found.amounts, expected.amounts, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("method", ["rodas4", "asymptotic", "quasi-steady-state"])
def test_a_block_follows_conditions_as_a_thread_does(method):
    law = ergode.Arrhenius(1e3, 0.0, 9e3)
    network = ergode.ReactionNetwork(
        {"A": 1, "B": 0}, [ergode.Reaction("A -> B", rate_constant=law)]
    )
    grid = np.array([3.0, 3.25, 4.0])
    course = ergode.kinetics.Trajectory([3.2, 3.5, 3.6, 3.9], [300.0, 300.0, 2500.0, 900.0])
    mechanism, zones, launch = launch_of(
        network, None, 32, method, temperature=course, grid=grid, limit=20_000
    )
    found, expected = runs.Outcome.empty(zones, grid), runs.Outcome.empty(zones, grid)
    block = Block(launch.kernel.source("cuda"), 32, launch.shared_bytes // 8)
    given, scratch = zones.history, np.zeros((1, launch.scratch_count))
    block.run(
        *launch.arguments(
            given.times, given.temperature, given.density, grid, scratch, np.zeros(1, np.int32),
            found.amounts, outcome_of(found),
        )
    )  # fmt: skip
    options = runs.Options(method, 1e-2, None, True, 20_000)
    runs.run_zones(mechanism, zones, grid, options, resolve("cpu:1"), expected, lambda _: None)
    assert expected.status.item() == 0 and expected.amounts[0, -1, 1] > 0.5
    np.testing.assert_array_equal(found.taken, expected.taken)
    np.testing.assert_allclose(found.amounts, expected.amounts, rtol=1e-9, atol=1e-14)


def test_a_reactor_by_a_block_is_the_one_by_a_thread():
    """Third bodies, reverse reactions, warmth and a density that follows from the pressure."""
    mechanism, zones, launch = launch_of(
        burning(), {"H": 0.2, "OH": 0.3, "H2": 0.5}, 32, "rodas4", temperature=1500.0,
        pressure=1e6, heating="constant-pressure",
    )  # fmt: skip
    grid = np.array([0.0, 1e-8, 2e-7])
    found, expected = runs.Outcome.empty(zones, grid), runs.Outcome.empty(zones, grid)
    block = Block(launch.kernel.source("cuda"), 32, launch.shared_bytes // 8)
    history, scratch = zones.history, np.zeros((1, launch.scratch_count))
    block.run(
        *launch.arguments(
            history.times, history.temperature, history.density, grid, scratch,
            np.zeros(1, np.int32),
            found.amounts, outcome_of(found),
        )
    )  # fmt: skip
    options = runs.Options("rodas4", 1e-2, None, True, 60)
    runs.run_zones(mechanism, zones, grid, options, resolve("cpu:1"), expected, lambda _: None)
    assert expected.status.item() == 0 and abs(expected.amounts[0, -1, -1] - 1500.0) > 50.0
    np.testing.assert_array_equal(found.taken, expected.taken)
    np.testing.assert_allclose(found.amounts, expected.amounts, rtol=1e-9)
    np.testing.assert_allclose(found.peak, expected.peak, rtol=1e-6)


def outcome_of(found):
    return found.status, found.taken, found.repeated, found.defect, found.peak


def small_launch(network, initial):
    """A kernel in which the network is written out, and what it takes."""
    mechanism, zones, _ = launch_of(network, initial, 32, "rodas4")
    system = system_of(mechanism, absolute_tolerances(mechanism, zones, None, 1e-2), heating=0)
    assert unrolled.can_be_unrolled(system)
    launch = runner.UnrolledLaunch(
        resolve("cpu:1"), runs.bindings_of(mechanism, zones), system, method_of(RODAS4), rtol=1e-2,
        step_limit=60,
    )  # fmt: skip
    return mechanism, zones, launch


def test_a_network_written_out_is_the_same():
    mechanism, zones, launch = small_launch(ROBERTSON, {"A": [1.0, 0.5]})
    grid = np.array([0.0, 1e-3, 1e-2])
    found, expected = runs.Outcome.empty(zones, grid), runs.Outcome.empty(zones, grid)
    block = Block(launch.kernel.source("cuda"), 1, 0)
    block.run(*small_arguments(launch, zones, grid, found))
    options = runs.Options("rodas4", 1e-2, None, True, 60)
    runs.run_zones(mechanism, zones, grid, options, resolve("cpu:1"), expected, lambda _: None)
    for name in ("status", "taken", "repeated"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.amounts, expected.amounts, rtol=1e-11)


def small_arguments(launch, zones, grid, outcome):
    history = zones.history
    return (
        *launch._parts, history.times, history.temperature, history.density, grid, *launch._options,
        np.zeros(1, np.int32), outcome.amounts, *outcome_of(outcome),
    )  # fmt: skip


def test_a_network_written_out_compiles():
    pytest.importorskip("numba_cuda")
    from ergode.core import cuda

    _, zones, launch = small_launch(ROBERTSON, {"A": [1.0, 0.5]})
    grid = np.array([0.0, 1.0])
    arguments = small_arguments(launch, zones, grid, runs.Outcome.empty(zones, grid))
    assert ".entry" in cuda.ptx(launch.kernel.compiled("cuda"), arguments)


@pytest.mark.parametrize(
    ("method", "dynamic"),
    [("rodas4", False), ("rodas4", True), ("asymptotic", False), (list(runs.EXPLICIT)[3], True)],
)
def test_block_kernels_compile(method, dynamic):
    pytest.importorskip("numba_cuda")
    from ergode.core import cuda

    _, zones, launch = launch_of(ROBERTSON, {"A": 1.0}, 64, method)
    bindings = dict(launch.kernel.bindings) | {"DYNAMIC": dynamic, "REVERSIBLE": dynamic}
    bindings |= {"THIRD_BODIES": dynamic, "TIMED": dynamic}
    if method == "rodas4":
        bindings |= {"HEATING": 2 * dynamic, "PLASMA": dynamic, "MOLECULES": dynamic}
    kernel = kernels.cuda_kernel(launch.kernel.bodies[0], bindings=bindings)
    mechanism = to_tables(ROBERTSON)
    full = {"rates": mechanism.rates, "thermo": mechanism.thermo}
    launch._parts = launch._parts[0]._replace(**full), *launch._parts[1:]
    outcome = runs.Outcome.empty(zones, np.array([0.0, 1.0]))
    history = zones.history
    text = cuda.ptx(
        kernel.compiled("cuda"),
        launch.arguments(
            history.times, history.temperature, history.density, np.array([0.0, 1.0]),
            np.zeros((1, 9)), np.zeros(1, np.int32), outcome.amounts, outcome_of(outcome),
        ),
    )  # fmt: skip
    assert "__local_depot" not in text


def test_elimination_fills_in_what_it_must():
    rng = np.random.default_rng(1)
    pattern = rng.uniform(size=(30, 30)) < 0.1
    for weight in (0.0, 0.5):
        plan = eliminate(pattern, weight)
        matrix = np.where(pattern | np.eye(30, dtype=bool), rng.normal(size=(30, 30)), 0.0)
        matrix += 20 * np.eye(30)
        permuted = matrix[np.ix_(plan.order, plan.order)]
        places = plan.positions()
        for k in range(29):
            permuted[k + 1 :, k + 1 :] -= (
                np.outer(permuted[k + 1 :, k], permuted[k, k + 1 :]) / (permuted[k, k])
            )
            permuted[k + 1 :, k] /= permuted[k, k]
        filled = {(int(plan.order[i]), int(plan.order[j])) for i, j in np.argwhere(permuted != 0.0)}
        assert filled <= set(places)


@pytest.mark.parametrize("long", [0, 300])
def test_segments_cover_every_term_once(long):
    rng = np.random.default_rng(2)
    rows = [*rng.integers(0, 7, 160).tolist(), *[3] * long]
    banks = rng.integers(0, 50, len(rows)).tolist()
    sums, order = segments_of(rows, range(9), 4, banks)
    count = len(rows)
    np.testing.assert_array_equal(np.sort(order), np.arange(count))
    weight = np.append(order + 1, 0)  # the term that is none weighs nothing
    totals, partial = np.zeros(9), np.zeros(sums.place_count)
    owned = np.zeros(sums.target.size, int)
    for segment, (target, rest) in enumerate(zip(sums.target, sums.rest, strict=True)):
        assert segment // 32 == (segment + rest) // 32
        assert rest == 0 or segment < sums.joined
        total = weight[sums.item[:, segment : segment + rest + 1]].sum()
        if target != -1:
            owned[segment : segment + rest + 1] += 1
        if target >= 0:
            totals[target] = total
        elif target < -1:
            partial[-2 - target] = total
    assert owned.max() == 1 and (sums.item[:, owned == 0] == count).all()
    for row, start, stop in zip(sums.row, sums.start, sums.stop, strict=True):
        totals[row] = partial[start:stop].sum()
    assert sums.row.tolist() == ([3] if long else [])
    np.testing.assert_array_equal(totals, np.bincount(rows, np.arange(count) + 1, minlength=9))


def test_neighbours_read_different_banks():
    """Half a warp reads sixteen numbers at once if they lie in different banks."""
    rng = np.random.default_rng(5)
    rows = np.repeat(np.arange(64), 12).tolist()
    banks = rng.integers(0, 500, len(rows)).tolist()

    def turns(given):
        sums, order = segments_of(rows, range(64), 13, given)
        read = np.append(np.array(banks)[order], -1)[sums.item].reshape(13, -1, 16)
        halves = [set(half) - {-1} for row in read for half in row]
        return np.mean([max(np.bincount([a % 16 for a in half], minlength=1)) for half in halves])

    assert turns(banks) < 1.35
    assert turns(None) > 2.5


def test_rounds_of_substitution_wait_for_what_they_use():
    rng = np.random.default_rng(4)
    items = [(i, 1 + 40 * i + k, k, 0) for i in range(40) for k in range(i) if rng.uniform() < 0.15]
    nothing = (40, 0, 0, 0)
    rounds = rounds_of(items, nothing, 8)
    last_change = {i: -1 for i in range(40)}
    fields = [(rounds >> (16 * k)) & 0xFFFF for k in range(3)]
    found = []
    for r, row in enumerate(zip(*fields, strict=True)):
        targets = [int(i) for i in row[0] if i != 40]
        assert len(set(targets)) == len(targets)
        for i, entry, k in zip(*row, strict=True):
            if i != 40:
                found.append((int(i), int(entry), int(k), 0))
                last_change[int(i)] = r
    assert sorted(found) == sorted(items)
    for r, row in enumerate(zip(*fields, strict=True)):
        for i, _, k in zip(*row, strict=True):
            assert i == 40 or last_change[int(k)] < r


def test_a_thread_keeps_what_it_adds_to():
    rng = np.random.default_rng(3)
    items = [(int(t), k, 0, 0) for k, t in enumerate(rng.integers(0, 5, 40))]
    program = program_of([items[:25], items[25:]], (9, 99, 0, 0), 8)
    found = []
    for first, last in zip(program.level[:-1], program.level[1:], strict=True):
        owner = {}
        for step in range(first, last):
            for lane in range(8):
                item = int(program.item[step, lane])
                target, number = item & 0xFFFF, (item >> 16) & 0xFFFF
                if target != 9:
                    assert owner.setdefault(target, lane) == lane
                    found.append(number)
    assert sorted(found) == list(range(40))


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23", *runs.EXPLICIT])
def test_cuda_agrees_with_cpu(fern, method):
    zones = TYPE_IA | {"temperature": np.linspace(5e9, 8e9, 5)}
    options = {"times": [0, 1e-13, 1e-11], "method": method, "rtol": 1e-4}
    one, other = (
        ergode.kinetics.integrate(fern, device=device, **options, **zones)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_array_equal(one["status"], other["status"])
    np.testing.assert_allclose(one["mass_fraction"], other["mass_fraction"], atol=1e-9)
    np.testing.assert_allclose(one["step_count"], other["step_count"], rtol=1e-3)


@pytest.mark.cuda
def test_cuda_many_zones_of_a_small_network():
    """Enough of them that the network is written out."""
    amounts = np.linspace(0.5, 1.0, 20_000)
    one, other = (
        ergode.kinetics.integrate(
            ROBERTSON, times=[0, 1e-3, 40.0], initial={"A": amounts}, device=device
        )
        for device in ("cpu", "cuda")
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


@pytest.mark.cuda
@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure"])
def test_cuda_reactors_agree_with_cpu(heating):
    one, other = (
        ergode.kinetics.integrate(
            burning(), times=[0, 1e-7, 1e-3], temperature=np.linspace(1200.0, 2000.0, 5),
            pressure=1e6, initial={"H": 0.2, "OH": 0.3, "H2": 0.5}, heating=heating, device=device,
        )
        for device in ("cpu", "cuda")
    )  # fmt: skip
    np.testing.assert_array_equal(one["step_count"], other["step_count"])
    np.testing.assert_allclose(one["temperature"], other["temperature"], rtol=1e-8)
    np.testing.assert_allclose(one["concentration"], other["concentration"], rtol=1e-6)
