"""What the compilers make of the kernels, and that both targets compute the same."""

import itertools
import math
import platform
import re

import numpy as np
import pytest

import ergode
from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.trajectories.adaptive.outcome import control_of
from ergode.trajectories.adaptive.runner import Runner
from ergode.trajectories.analysis.lyapunov import with_tangents
from ergode.trajectories.delays import history_ring
from ergode.trajectories.delays.mesh import plan_steps
from ergode.trajectories.fixed.cpu import integrate_cpu
from ergode.trajectories.fixed.cuda import AHEAD, SHORT, integrate_cuda
from ergode.trajectories.fixed.kernel import RESUMES, Kept, Out, Run
from ergode.trajectories.fixed.runner import CUDAThreads, Ensemble, Growth, bindings_of
from ergode.trajectories.fixed.tangents import TANGENTS
from ergode.trajectories.methods import METHODS

PRECISIONS = ("float32", "float64")


def lorenz(t, y, p):
    return p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - 8 * y[2] / 3


def mackey_glass(t, y, yd, p):
    return (p[0] * yd[0] / (1 + yd[0] ** 10) - p[1] * y[0],)


def two_delays(t, y, yd, p):
    # Integers, a branch and functions: what must not become a double in float32.
    drive = 2 if t > 1 else 1
    return y[1], -yd[0] - 3 * yd[1] / 4 + drive * math.exp(-(y[0] ** 2)) / 5


def spring(t, y, p):
    return y[1], math.cos(t) - p[0] * y[0] ** 3


def past(t):
    return 1 + t / 10, t**2


LORENZ = ergode.VectorField(lorenz, ["x", "y", "z"], ["sigma", "rho"])
MACKEY_GLASS = ergode.VectorField(mackey_glass, ["y"], ["beta", "gamma", "tau"], [("y", "tau")])
TWO_DELAYS = ergode.VectorField(
    two_delays, ["x", "v"], ["tau", "half"], [("x", "tau"), ("v", "half")]
)
SPRING = ergode.VectorField(spring, ["x", "v"], ["sigma"])
# Field, method, history, what else is bound.
CASES = {
    "lorenz": (LORENZ, "rk4", None, {}),
    "lorenz tsit5": (LORENZ, "tsit5", None, {}),
    "symplectic": (SPRING, "kahan-li6", None, {}),
    "mackey-glass": (MACKEY_GLASS, "rk4", None, {}),
    "two delays": (TWO_DELAYS, "tsit5", past, {}),
    "short ring": (TWO_DELAYS, "rk4", past, {SHORT: (32, 2, 64)}),
    "tangents": (with_tangents(MACKEY_GLASS, 2), "rk4", None, {TANGENTS: 2}),
}
BY_NAME = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def cuda_kernel(case, precision):
    field, method, past_of, more = case
    bindings = {**bindings_of(field, METHODS[method].tableau, past_of, precision), **more}
    bindings[AHEAD] = 8 if len(field.variables) == 1 else 4
    return kernels.cuda_kernel(integrate_cuda, precision=precision, bindings=bindings)


@pytest.mark.parametrize(
    ("name", "precision"), [*((name, "float32") for name in CASES), ("two delays", "float64")]
)
def test_cuda_kernel_compiles_to_registers_of_its_precision(name, precision):
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    case = CASES[name]

    rows = np.ones((3, 1), precision)
    one = rows[0]
    counts = np.ones(2, np.int64)
    single = precision == "float32"  # what needs memory does so in both, and is asked for in one
    text = cuda.ptx(
        cuda_kernel(case, precision).compiled("cuda"),
        (
            Run(
                one[0], one, counts, np.ones(1, np.uint8), rows, rows, one, counts,
                (np.uint64(0), np.int64(1)), np.int64(0), (np.int64(0), np.int64(1), one[0]),
            ),
            Out(np.ones((1, 3, 1), precision), np.ones(1, np.uint8), rows),
            Kept(np.int64(0), np.int64(0), np.ones((4, 1, 2, 1), precision), rows, counts),
        ),
        optimized=single,
    )  # fmt: skip
    assert not (single and "__local_depot" in text)
    assert ("fma.rn.f64" in text) == (precision == "float64")
    if single:
        assert ".f64" not in text


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["mackey-glass", "two delays", "lorenz"])
def test_cuda_kernel_in_several_launches_compiles(name, monkeypatch):
    monkeypatch.setitem(CASES, name, (*CASES[name][:3], {RESUMES: True}))
    test_cuda_kernel_compiles_to_registers_of_its_precision(name, "float32")


@BY_NAME
def test_cuda_kernel_run_as_python_is_the_cpu_kernel(case, run_as_python):
    """The text of the CUDA kernel, a thread after the other, against lanes."""
    field, method, past_of, more = case
    tangents = more.get(TANGENTS, 0)
    count, times = 3, np.array([0.0, 0.13, 2.0, 3.1])
    rng = np.random.default_rng(1)
    initial = rng.uniform(0.5, 1.5, (len(field.variables), count))
    parameters = {
        "sigma": 3.0, "rho": 1.5, "beta": 0.2, "gamma": 0.1, "half": 0.5, "tau": 1.0,
    }  # fmt: skip
    rows = np.array([[parameters[name]] * count for name in field.parameters])
    if past_of is not None:
        initial[:] = np.array([[1.0], [0.0]])
    scale = np.array([1.0, 1.5, 0.7])
    for i, name in enumerate(field.parameters):
        if name in ("tau", "half"):
            rows[i] *= scale
    delays = [name for _, name in field.delays]
    taus = [rows[field.parameters.index(name)] for name in delays]
    steps = plan_steps(3.1, 0.11, count, delays, taus, 3)

    ensemble = Ensemble(
        field,
        METHODS[method].tableau,
        past_of,
        times=times,
        device=resolve("cpu:1"),
        tangents=tangents,
    )
    growth = Growth((int(steps.lags.max()) + 1, 3, 1.7), np.zeros((tangents + 1, count)))
    expected, _ = ensemble.integrate(initial, rows, steps, growth)
    found = np.full_like(expected, np.nan)
    outcomes = np.full(count, 255, np.uint8)
    ring = np.full((steps.lags.max() + 9, len(field.variables), 2, count), np.nan)
    sums = np.zeros_like(growth.sums)
    kept = Kept(0, 0, ring, np.full(initial.shape, np.nan), np.full(count, -1))
    run = Run(
        0.0, times, steps.lags, steps.breaks, initial, rows, np.array(steps.size),
        np.array(steps.count), (0, 1), 0, growth.renewal,
    )  # fmt: skip
    run_as_python(cuda_kernel(case, "float64"), count + 1, run, Out(found, outcomes, sums), kept)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    np.testing.assert_array_equal(outcomes, 0)
    np.testing.assert_allclose(sums, growth.sums, rtol=1e-9)
    assert (sums[-1] > 0).all() == (tangents > 0)
    if tangents or SHORT in more:
        return
    # In several launches: the same bits.
    kernel = cuda_kernel((*case[:3], {RESUMES: True}), "float64")
    again, ends = np.full_like(expected, np.nan), [0, 1, 3, 11, 12, int(max(steps.count))]
    outcomes[:], ring[:] = 255, np.nan
    for begin, until in itertools.pairwise(ends):
        piece = kept._replace(begin=begin, until=until)
        run_as_python(kernel, count + 1, run, Out(again, outcomes, sums), piece)
    np.testing.assert_array_equal(again, found)
    np.testing.assert_array_equal(outcomes, 0)


def assembly_of(compiled, monkeypatch):
    """Machine code of what depends on the model, linked afresh."""
    linker, (*_, arguments) = compiled._compiler, compiled.overloads
    machine = linker.targetdescr.target_context.codegen()._tm
    said = []

    def emitted(module):
        said.append(machine.emit_assembly(module))
        return b""

    opened = linker._open(arguments, None)
    monkeypatch.setattr(machine, "emit_object", emitted)
    linker._linked(opened)
    return "".join(said)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks at x86 instructions")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_lanes_are_vector_instructions(precision, monkeypatch):
    field, method, past_of, _ = CASES["mackey-glass"]
    kernel = kernels.cpu_kernel(
        integrate_cpu,
        precision=precision,
        bindings=bindings_of(field, METHODS[method].tableau, past_of, precision),
    )
    compiled = kernel.compiled("cpu")
    numbers = np.ones((3, 1), precision)
    compiled(
        0, 1,
        Run(
            numbers[0, 0], numbers[0], np.array([2]), np.ones(1, np.uint8), numbers[:1],
            numbers, numbers[0], np.array([1]), (np.uint64(0), 1), 0, (0, 1, numbers[0, 0]),
        ),
        Out(np.empty((1, 1, 1), precision), np.empty(1, np.uint8), np.zeros((1, 1))),
        (),
    )  # fmt: skip
    assembly = assembly_of(compiled, monkeypatch)
    # A step has three divisions (the middle stages share theirs), and is compiled twice: to be
    # taken and to be looked into.
    assert len(re.findall("divps" if precision == "float32" else "divpd", assembly)) >= 6


def saturating(t, y, p):
    return p[0] * y[1] ** p[1] - math.tanh(y[0]), math.tan(0.1 * y[0]) - y[1] ** 1.5


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks at x86 instructions")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_lanes_of_adaptive_steps_are_vector_instructions(precision, monkeypatch):
    field = ergode.VectorField(saturating, ["x", "y"], ["rate", "order"])
    runner = Runner(
        field, METHODS["tsit5"], control_of({}), times=np.array([0.0, 1.0]),
        device=resolve("cpu:1"), precision=precision,
    )  # fmt: skip
    ones = np.ones((2, 1))
    runner.integrate(ones, ones)
    assembly = assembly_of(runner.kernel.compiled("cpu"), monkeypatch)
    single = "s" if precision == "float32" else "d"
    # Of six evaluations with a tangent of either kind, and of the tolerances of two variables.
    assert len(re.findall(f"divp{single}", assembly)) >= 14
    assert not re.search(r"\b(pow|tanh|tan)f?\b", assembly)


@pytest.mark.cuda
@pytest.mark.parametrize("case", list(CASES.values())[:4], ids=list(CASES)[:4])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_cuda_agrees_with_cpu(case, precision):
    field, method, past_of, _ = case
    parameters = {"sigma": 10.0, "rho": 28.0, "beta": 0.2, "gamma": 0.1, "half": 0.5, "tau": 1.0}
    chosen = {name: parameters[name] for name in field.parameters}
    count = 1000
    scale = np.linspace(0.5, 2.0, count)
    for name in chosen:
        if name in ("tau", "half", "rho"):
            chosen[name] = chosen[name] * scale
    start = {"x": 1.0, "v": 0.0} if past_of else dict.fromkeys(field.variables, 1.0)
    # Chaos makes much of a last bit: in float32 not for longer than it makes little.
    times = [0.0, 0.3, 1.0, 2.0] if precision == "float64" else [0.0, 0.3, 1.0]
    results = [
        ergode.trajectories.integrate(
            field, times=times, initial=start, parameters=chosen, method=method,
            history=past_of, step=0.01, precision=precision, device=device,
        )["state"].values
        for device in ("cpu", "cuda")
    ]  # fmt: skip
    tolerance = 1e-10 if precision == "float64" else 2e-3
    np.testing.assert_allclose(results[1], results[0], rtol=tolerance, atol=tolerance)


@pytest.mark.cuda
@pytest.mark.parametrize(("field", "method"), [(MACKEY_GLASS, "rk4"), (TWO_DELAYS, "tsit5")])
def test_cuda_ring_in_shared_memory_is_the_one_outside(field, method, monkeypatch):
    usual = {"beta": 0.2, "gamma": 0.1, "half": 0.5, "tau": np.linspace(0.5, 2.0, 1000)}
    usual["half"] = 0.5 * usual["tau"]

    def run():
        return ergode.trajectories.integrate(
            field, times=[0.0, 3.0, 9.0], device="cuda", step=0.2, method=method,
            initial={"y": 1.2} if field is MACKEY_GLASS else {"x": 1.0, "v": 0.0},
            parameters={name: usual[name] for name in field.parameters},
            history=None if field is MACKEY_GLASS else past,
        )["state"].values  # fmt: skip

    inside = run()
    monkeypatch.setattr(CUDAThreads, "_short_ring", lambda *_: ())
    np.testing.assert_array_equal(run(), inside)


@pytest.mark.cuda
def test_cuda_chunks_do_not_matter(monkeypatch):
    def run():
        return ergode.trajectories.integrate(
            MACKEY_GLASS, times=[0.0, 40.0], initial={"y": 1.2}, step=0.25, device="cuda",
            parameters={"beta": 0.2, "gamma": 0.1, "tau": np.linspace(5, 17, 1000)},
        )["state"].values  # fmt: skip

    whole = run()
    monkeypatch.setattr(CUDAThreads, "chunk_size", lambda *_: 300)
    np.testing.assert_array_equal(run(), whole)


@pytest.mark.cuda
def test_cuda_flags_what_is_not_finite():
    def explosion(t, y, p):
        return (y[0] ** 2,)

    result = ergode.trajectories.integrate(
        ergode.VectorField(explosion, ["y"]), times=[0.0, 4.0], step=1 / 64, device="cuda",
        initial={"y": [0.1, 2.0, 0.1]},
    )  # fmt: skip
    np.testing.assert_array_equal(result["status"], [0, 3, 0])


@pytest.mark.parametrize("points", [2, 3])
def test_a_step_never_writes_where_it_reads(points, monkeypatch):
    monkeypatch.setattr(history_ring, "JUMPS", False)  # plain Python has no options
    # Where it does, the check for overlap fails at run time, and lanes are done one by one.
    for lags in ((2 * points - 2,), (7,), (4, 5), (3, 64)):
        period = max(lags) + points - 1
        for step in range(3 * period):
            now = step % period
            for lag in lags:
                slots = [
                    history_ring.slot_of(step - lag + j, step, now, period)
                    for j in range(2 - points, 1)
                ]
                slots.append(history_ring.slot_before(step - lag + 1, step, now, period, lags))
                assert len({now, *slots}) == points + 1
                expected = [(step - lag + j) % period for j in range(2 - points, 2)]
                assert slots[:-1] == expected[:-1]
                assert slots[-1] == (period if step + 1 == lag else expected[-1])
