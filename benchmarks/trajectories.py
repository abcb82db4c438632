"""Steps per second of ensembles, against SciPy, heyoka and jitcdde and against the hardware.

On the CPU a figure is for one core: processor time of one thread, and so is the peer's.  On a GPU
it is the kernel's own time by events; beside it stand the bytes that a step must move - value and
slope of each delayed variable, read once a delay and written once - and what fraction of a
measured copy's bandwidth that is.
"""

from __future__ import annotations

import math
import os
import tempfile

import numpy as np
from harness import Rows, arguments, medians
from scipy.integrate import solve_ivp

import ergode
from ergode.core import devices, kernels
from ergode.models.sweep import lay_out
from ergode.trajectories.adaptive import kernel as adaptive
from ergode.trajectories.adaptive.runner import Runner, bindings_of, control_of
from ergode.trajectories.delays.mesh import plan_steps
from ergode.trajectories.delays.past import past_of
from ergode.trajectories.fixed import kernel as fixed_step
from ergode.trajectories.fixed.runner import Ensemble
from ergode.trajectories.methods import METHODS
from ergode.trajectories.steppers.tableaus import RK4


def lorenz(t, y, p):
    return p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]


def mackey_glass(t, y, yd, p):
    return (p[0] * yd[0] / (1 + yd[0] ** 10) - p[1] * y[0],)


def logistic1(t, y, yd, p):
    return (y[0] * (p[0] - yd[0]),)


def logistic1_past(t):
    return (1.5 - math.cos(t),)


def logistic2(t, y, yd, p):
    return (y[0] * yd[1] * (p[0] - yd[0]),)


def delayed_lorenz(t, y, yd, p):
    return 10 * (yd[0] - y[0]), y[0] * (p[0] - y[2]) - y[1], y[0] * y[1] - 8 * y[2] / 3


def delayed_lorenz_past(t):
    return -8, -8 + math.sin(2 * math.pi * t), -8


def duffing(t, y, p):
    return y[1], y[0] - y[0] ** 3 - p[0] * y[1] + p[1] * math.cos(t)


def keller_miksis(t, y, p):
    # Radius of a driven bubble, in units of its rest, and time in periods of the driving.
    gas = (p[0] + p[1] * y[1]) * y[0] ** (-p[7])
    drive = p[4] * math.sin(2 * math.pi * t) * (1 + p[6] * y[1])
    change = y[0] * p[5] * math.cos(2 * math.pi * t)
    inertia = 1.5 * (1 - p[6] * y[1] / 3) * y[1] ** 2
    rest = p[8] * (1 + p[6] * y[1]) + (p[2] + p[3] * y[1]) / y[0]
    return y[1], (gas - rest - inertia - drive - change) / (y[0] - p[6] * y[0] * y[1] + p[3] * p[6])


def bubble(pressure, frequency, radius=1e-5):
    """Parameters of `keller_miksis` for water at 25 C: pressure [Pa], frequency [Hz], radius [m].

    F. Hegedus, K. Klapcsik, W. Lauterborn, U. Parlitz, R. Mettin, Ultrason. Sonochem. 67, 105067
    (2020).
    """
    density, sound, tension, viscosity, exponent = 997.1, 1497.3, 0.072, 8.902e-4, 1.4
    ambient = 1e5 - 3166.8  # less that of the vapour
    inner = ambient + 2 * tension / radius
    scale = (1 / (radius * frequency)) ** 2 / density
    speed = radius * frequency / sound
    ones = np.ones_like(pressure)
    return {
        "gas": inner * scale * ones,
        "gas_radiation": (1 - 3 * exponent) * inner * scale * speed * ones,
        "tension": 2 * tension / radius * scale * ones,
        "viscosity": 4 * viscosity / (density * radius**2 * frequency) * ones,
        "drive": pressure * scale,
        "drive_change": 2 * math.pi * pressure * scale * speed,
        "compression": speed * ones,
        "polytropic": 3 * exponent * ones,
        "ambient": ambient * scale * ones,
    }


Y = [("y", "tau")]
# Field, history, initial values, parameters (one of them swept), span, step.
CASES = {
    "lorenz": (
        ergode.VectorField(lorenz, ["x", "y", "z"], ["sigma", "rho", "beta"]), None,
        {"x": 1.0, "y": 1.0, "z": 1.0}, {"sigma": 10.0, "beta": 8 / 3}, ("rho", 0.0, 28.0),
        10.0, 1e-3,
    ),
    "mackey-glass": (
        ergode.VectorField(mackey_glass, ["y"], ["beta", "gamma", "tau"], Y), None,
        {"y": 1.2}, {"gamma": 0.1, "tau": 17.0}, ("beta", 0.15, 0.25), 10_000 * 17 / 64, 17 / 64,
    ),
    # A past so short that a GPU has it in shared memory.
    "mackey-glass-24": (
        ergode.VectorField(mackey_glass, ["y"], ["beta", "gamma", "tau"], Y), None,
        {"y": 1.2}, {"gamma": 0.1, "tau": 17.0}, ("beta", 0.15, 0.25), 10_000 * 17 / 24, 17 / 24,
    ),
    "logistic1": (
        ergode.VectorField(logistic1, ["y"], ["p", "tau"], Y), logistic1_past,
        {"y": 0.5}, {"tau": 1.0}, ("p", 0.0, 4.0), 10.0, 1e-3,
    ),
    "logistic2": (
        ergode.VectorField(
            logistic2, ["y"], ["p", "one", "two"], [("y", "one"), ("y", "two")]
        ), None,
        {"y": 0.5}, {"one": 1.0, "two": 2.0}, ("p", 0.0, 2.0), 10.0, 1e-3,
    ),
    "delayed-lorenz": (
        ergode.VectorField(delayed_lorenz, ["x", "y", "z"], ["rho", "tau"], [("y", "tau")]),
        delayed_lorenz_past, {"x": -8.0, "y": -8.0, "z": -8.0}, {"tau": 13 / 28},
        ("rho", 0.0, 50.0), 10.0, 13 / 28 / 464,
    ),
}  # fmt: skip


class Case:
    """One ensemble on one device, from its arrays to its last state."""

    def __init__(self, name, device, count, precision, shorter=1):
        self.field, history, initial, fixed, (swept, low, high), span, step = CASES[name]
        span /= shorter
        parameters = {**fixed, swept: np.linspace(low, high, count)}
        layout = lay_out(
            {"initial": self.field.variables, "parameters": self.field.parameters},
            {"initial": initial, "parameters": parameters},
        )
        rows = layout.rows
        delays = [delay for _, delay in self.field.delays]
        self.steps = plan_steps(span, step, count, delays, [rows[delay] for delay in delays])
        self.initial, self.parameters = (
            np.array([rows[name] for name in names], precision)
            for names in (self.field.variables, self.field.parameters)
        )
        self.ensemble = Ensemble(
            self.field, RK4, history, times=np.array([0.0, span]), device=device,
            precision=precision,
        )  # fmt: skip
        self.out = np.empty((2, len(self.field.variables), count), precision)
        self.status = np.empty(count, np.uint8)
        self.step_count = int(self.steps.count.sum())

    def run(self):
        """Integrate all trajectories."""
        self.ensemble.integrate(
            self.initial, self.parameters, self.steps, self.out, self.status, lambda _: None
        )

    def in_single_lane(self, device):
        """The same on a CPU with lanes of one: without vector instructions."""
        ensemble, count = self.ensemble, self.status.size
        kernel = kernels.cpu_kernel(
            fixed_step.integrate_cpu, precision=ensemble.precision,
            bindings={**ensemble.bindings, "LANES": 1},
        )  # fmt: skip
        model = ensemble.arguments(self.initial, self.parameters, self.steps, slice(0, count))
        results = self.out, self.status, np.zeros((1, 1), self.out.dtype)
        return lambda: device.run(kernel, count, *model, *results)

    @property
    def bytes_per_step(self):
        """What a step must move to and from memory: nothing without delays."""
        delayed = len({variable for variable, _ in self.field.delays})
        return 2 * self.out.itemsize * (len(self.field.delays) + delayed)


# Field, initial values, parameters of so many trajectories, span: for steps of their own.
ADAPTIVE = {
    "lorenz": (
        CASES["lorenz"][0], (1.0, 1.0, 1.0),
        lambda count: {"sigma": 10.0, "rho": np.linspace(0, 28, count), "beta": 8 / 3}, 10.0,
    ),
    "duffing": (
        ergode.VectorField(duffing, ["x", "v"], ["damping", "drive"]), (-0.5, -0.1),
        lambda count: {"damping": np.linspace(0.2, 0.3, count), "drive": 0.3}, 20 * math.pi,
    ),
    "keller-miksis": (
        ergode.VectorField(keller_miksis, ["radius", "speed"], list(bubble(np.ones(1), 1e5))),
        (1.0, 0.0), lambda count: bubble(np.linspace(1e4, 8e4, count), 1e5), 20.0,
    ),
}  # fmt: skip


def on_cpu(options, rows):
    """Steps a second of one core, and trajectories a second against peers."""
    device = devices.resolve("cpu:1")
    for name in options.case:
        if name in ADAPTIVE:
            adaptive_on_cpu(name, options, rows, device)
        if name not in CASES:
            continue
        for precision in ("float64", "float32"):
            case = Case(name, device, 256, precision, shorter=10 if options.quick else 1)
            lanes, single = medians([case.run, case.in_single_lane(device)], cpu=True)
            label = name if precision == "float64" else f"{name} float32"
            rows.add(
                label, "steps per core second", case.step_count / lanes, "1/s",
                peer="one lane", peer_value=case.step_count / single, smaller_is_better=False,
            )  # fmt: skip
    if not options.no_peers and "lorenz" in options.case:
        against_heyoka(rows, device)
    if not options.no_peers and "mackey-glass" in options.case:
        against_jitcdde(rows, device)


LORENZ_COUNT = 4_096


def adaptive_runner(name, device, precision, count, tolerance, method="tsit5"):
    """A runner of steps of the trajectories' own, with its initial values and parameters."""
    field, initial, parameters_of, span = ADAPTIVE[name]
    runner = Runner(
        field, METHODS[method], control_of({"rtol": tolerance, "atol": tolerance}),
        times=np.array([0.0, span]), device=device, precision=precision,
    )  # fmt: skip
    values = parameters_of(count)
    parameters = np.array([np.broadcast_to(values[name], count) for name in field.parameters])
    return runner, np.repeat(np.array(initial)[:, None], count, axis=1), parameters


def adaptive_on_cpu(name, options, rows, device):
    """Tsit5 at a tolerance of 1e-8, and SciPy's DOP853 at the same; errors are not matched."""
    count = 512 if options.quick else 4_096
    field, start, _, span = ADAPTIVE[name]
    for precision, tolerance in (("float64", 1e-8), ("float32", 1e-5)):
        runner, initial, parameters = adaptive_runner(name, device, precision, count, tolerance)

        def ours(run=runner.integrate, initial=initial, parameters=parameters):
            return run(initial, parameters, lambda _: None)

        def peer(which=parameters[:, count // 2], tolerance=tolerance):
            return solve_ivp(
                lambda t, y: field.function(t, y, which), (0, span), start, method="DOP853",
                rtol=tolerance, atol=tolerance,
            )  # fmt: skip

        outcome = ours()
        steps = int(outcome.taken.sum() + outcome.rejected.sum())
        label = f"{name} adaptive {precision}, {tolerance:.0e}"
        if precision == "float32" or options.no_peers:
            (seconds,) = medians([ours], cpu=True)
            rows.add(
                label, "trajectories per core second", count / seconds, "1/s",
                smaller_is_better=False,
            )  # fmt: skip
        else:
            seconds, theirs = medians([ours, peer], cpu=True)
            rows.add(
                label, "trajectories per core second", count / seconds, "1/s",
                peer="scipy DOP853", peer_value=1 / theirs, smaller_is_better=False,
            )  # fmt: skip
        single, *_ = adaptive_runner(name, device, precision, count, tolerance)
        single.kernel = kernels.cpu_kernel(
            adaptive.integrate_cpu, precision=precision,
            bindings={
                **bindings_of(field, single.method, single.control, precision), "LANES": 1,
            },
        )  # fmt: skip

        def scalar(run=single.integrate, initial=initial, parameters=parameters):
            return run(initial, parameters, lambda _: None)

        lanes, one = medians([ours, scalar], cpu=True)
        rows.add(
            label, "steps per core second", steps / lanes, "1/s", peer="one lane",
            peer_value=steps / one, smaller_is_better=False,
        )  # fmt: skip


def adaptive_mackey_glass(device, precision, count, tolerance):
    """The same for Mackey-Glass to t = 170, its `beta` swept, and with cells that are enough."""
    field = CASES["mackey-glass"][0]
    control = control_of({"rtol": tolerance, "atol": tolerance})
    initial = np.full((1, count), 1.2)
    parameters = np.array(
        [np.linspace(0.15, 0.25, count), np.full(count, 0.1), np.full(count, 17.0)]
    )
    rows = dict(zip((*field.variables, *field.parameters), (*initial, *parameters), strict=True))
    runner = Runner(
        field, METHODS["tsit5"], control, times=np.array([0.0, 170.0]), device=device,
        precision=precision, past=past_of(field, None, 0.0, rows, count),
    )  # fmt: skip
    return runner, initial, parameters


def against_heyoka(rows, device):
    """Lorenz to t = 10, each at the largest tolerance with an error below 1e-5 up to rho = 20."""
    try:
        import heyoka
    except ImportError:
        print("heyoka is not installed (pip install heyoka): not compared")
        return
    x, y, z = heyoka.make_vars("x", "y", "z")
    par = heyoka.par
    equations = [
        (x, 10.0 * (y - x)), (y, x * (par[0] - z) - y), (z, x * y - z * (8.0 / 3.0)),
    ]  # fmt: skip
    rhos = np.linspace(0, 28, LORENZ_COUNT)
    batch = heyoka.recommended_simd_size()

    def peer(tolerance):
        integrator = heyoka.taylor_adaptive_batch(
            equations, np.ones((3, batch)), tol=tolerance, pars=np.ones((1, batch)),
        )  # fmt: skip

        def work():
            for first in range(0, LORENZ_COUNT, batch):
                integrator.set_time(0.0)
                integrator.state[:] = 1.0
                integrator.pars[0] = rhos[first : first + batch]
                integrator.propagate_until(10.0)
                states[:, first : first + batch] = integrator.state

        return work

    states = np.empty((3, LORENZ_COUNT))
    peer(1e-15)()
    exact, calm = states.copy(), rhos <= 20

    def error(found):
        return float(np.abs(found - exact)[:, calm].max())

    for exponent in range(4, 14):
        theirs = peer(10.0**-exponent)
        theirs()
        if error(states) < 1e-5:
            break
    their_error = error(states)
    for exponent in range(4, 14):
        runner, initial, parameters = adaptive_runner(
            "lorenz", device, "float64", LORENZ_COUNT, 10.0**-exponent
        )
        outcome = runner.integrate(initial, parameters, lambda _: None)
        if error(outcome.states[-1]) < 1e-5:
            break
    print(f"errors: ergode {error(outcome.states[-1]):.1e}, heyoka {their_error:.1e}")
    ours, taken = medians(
        [lambda: runner.integrate(initial, parameters, lambda _: None), theirs], cpu=True
    )
    steps = int(outcome.taken.sum() + outcome.rejected.sum())
    rows.add(
        "lorenz adaptive", "trajectories per core second", LORENZ_COUNT / ours, "1/s",
        peer="heyoka", peer_value=LORENZ_COUNT / taken, smaller_is_better=False,
    )  # fmt: skip
    rows.add(
        "lorenz adaptive", "steps per core second", steps / ours, "1/s", smaller_is_better=False
    )


def against_jitcdde(rows, device):
    """Mackey-Glass to t = 170 with an error no larger than jitcdde's at tolerance 1e-5."""
    try:
        from jitcdde import jitcdde, t, y
    except ImportError:
        print("jitcdde is not installed (pip install jitcdde): not compared")
        return
    beta, gamma, tau = 0.2, 0.1, 17.0
    delayed = y(0, t - tau)
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)  # it builds an extension where it is
        try:
            equation = jitcdde([beta * delayed / (1 + delayed**10) - gamma * y(0)], verbose=False)
            equation.compile_C(verbose=False)
        finally:
            os.chdir(before)
    equation.set_integration_parameters(rtol=1e-5, atol=1e-5)
    found = []

    def peer():
        equation.purge_past()
        equation.constant_past([1.2], 0.0)
        equation.reset_integrator()
        equation.adjust_diff()
        found[:] = equation.integrate(170.0)

    peer()
    exact = 0.655640466774150646
    error = abs(found[0] - exact)
    device_options = {"times": [0.0, 170.0], "initial": {"y": 1.2}, "device": device}
    parameters = {"beta": np.full(65_536, beta), "gamma": gamma, "tau": tau}
    for lag in (4, 8, 16, 32, 64):

        def ours(step=tau / lag):
            return ergode.trajectories.integrate(
                CASES["mackey-glass"][0], parameters=parameters, step=step, **device_options
            )  # fmt: skip

        own = abs(float(ours()["state"][0, -1, 0]) - exact)
        if own <= error:
            break
    taken, theirs = medians([ours, peer], cpu=True)
    print(f"errors at t = 170: ergode {own:.1e} with {lag} steps a delay, jitcdde {error:.1e}")
    rows.add(
        "mackey-glass, equal error", "trajectories per core second", 65_536 / taken, "1/s",
        peer="jitcdde", peer_value=1 / theirs, smaller_is_better=False,
    )  # fmt: skip
    count = 4_096
    for exponent in range(3, 9):

        def adaptive(tolerance=10.0**-exponent):
            runner, initial, parameters = adaptive_mackey_glass(device, "float64", count, tolerance)
            parameters[0] = beta
            return runner.integrate(initial, parameters, lambda _: None)

        outcome = adaptive()
        own = np.abs(outcome.states[-1, 0] - exact).max()
        if own <= error:
            break
    taken, theirs = medians([adaptive, peer], cpu=True)
    print(f"adaptive: error {own:.1e} at a tolerance of 1e-{exponent}")
    rows.add(
        "mackey-glass adaptive, equal error", "trajectories per core second", count / taken, "1/s",
        peer="jitcdde", peer_value=1 / theirs, smaller_is_better=False,
    )  # fmt: skip
    steps = int(outcome.taken.sum() + outcome.rejected.sum())
    rows.add(
        "mackey-glass adaptive", "steps per core second", steps / taken, "1/s",
        smaller_is_better=False,
    )  # fmt: skip


def on_cuda(options, rows):
    """Steps a second of a GPU, and what fraction of a copy's bandwidth they move."""
    from ergode.core import cuda

    device = devices.resolve("cuda")
    for name in options.case:
        if name in ADAPTIVE:
            adaptive_on_cuda(name, rows, device, cuda)
    if "mackey-glass" in options.case:
        for precision, tolerance in (("float64", 1e-5), ("float32", 1e-4)):
            count = 262_144
            runner, initial, parameters = adaptive_mackey_glass(device, precision, count, tolerance)
            runner.integrate(initial, parameters, lambda _: None)  # finds the cells
            launch, arrays = runner.launcher(
                initial, parameters, runner.plan(parameters, runner.widest / 17.0)
            )
            launch()
            seconds = float(np.median(cuda.elapsed(launch, 5)))
            steps = int(device.get(arrays[5]).sum() + device.get(arrays[6]).sum())
            label = f"mackey-glass adaptive {precision}"
            rows.add(label, "trajectories per second", count / seconds, "1/s",
                     smaller_is_better=False)  # fmt: skip
            rows.add(label, "steps per second", steps / seconds, "1/s", smaller_is_better=False)
            beta = np.linspace(0.15, 0.25, count)

            def whole(precision=precision, tolerance=tolerance, beta=beta):
                return ergode.trajectories.integrate(
                    CASES["mackey-glass"][0], times=[0.0, 170.0], initial={"y": 1.2},
                    parameters={"beta": beta, "gamma": 0.1, "tau": 17.0}, rtol=tolerance,
                    atol=tolerance, precision=precision, device=device,
                )  # fmt: skip

            rows.add(label, "whole call", medians([whole])[0], "s")
    bandwidth = copy_bandwidth(device, cuda)
    rows.add("copy", "bandwidth", bandwidth, "B/s", smaller_is_better=False)
    for name in options.case:
        for precision in ("float64", "float32") if name in CASES else ():
            case = Case(name, device, 262_144, precision, shorter=10 if options.quick else 1)
            launch, *_ = case.ensemble.launcher(
                case.ensemble.arguments(
                    case.initial, case.parameters, case.steps, slice(0, case.status.size)
                )
            )
            launch()
            seconds = float(np.median(cuda.elapsed(launch, 5)))
            rate = case.step_count / seconds
            label = name if precision == "float64" else f"{name} float32"
            rows.add(label, "steps per second", rate, "1/s", smaller_is_better=False)
            kernel, _ = case.ensemble.kernel_with(int(case.steps.lags.max()))
            taken = report_resources(rows, label, kernel, cuda)
            if case.bytes_per_step and not taken["shared_bytes"]:
                moved = rate * case.bytes_per_step
                rows.add(label, "bytes per step", case.bytes_per_step, "B")
                rows.add(label, "fraction of copy", moved / bandwidth, "1", smaller_is_better=False)


def report_resources(rows, label, kernel, cuda):
    """What a thread of a kernel takes."""
    taken = cuda.resources(kernel.compiled("cuda"))
    rows.add(label, "registers", taken["registers"], "1")
    rows.add(label, "local memory", taken["local_bytes"], "B")
    rows.add(label, "shared memory of a block", taken["shared_bytes"], "B")
    return taken


def adaptive_on_cuda(name, rows, device, cuda):
    """Steps of the trajectories' own, by events on the device."""
    for precision, count, tolerance in (("float32", 2**23, 1e-6), ("float64", 2**20, 1e-8)):
        runner, initial, parameters = adaptive_runner(name, device, precision, count, tolerance)
        launch, arrays = runner.launcher(initial, parameters)
        launch()
        seconds = float(np.median(cuda.elapsed(launch, 5)))
        steps = int(device.get(arrays[5]).sum() + device.get(arrays[6]).sum())
        label = f"{name} adaptive {precision}, {tolerance:.0e}, {count:,}"
        rows.add(label, "ms a time unit", 1e3 * seconds / ADAPTIVE[name][3], "ms")
        rows.add(label, "steps per second", steps / seconds, "1/s", smaller_is_better=False)
        report_resources(rows, label, runner.kernel, cuda)


def copy_each(index, source, target):
    """One element of a copy."""
    target[index] = source[index]


def copy_bandwidth(device, cuda):
    """Bytes read and written a second by a copy of 2 GB."""
    count = 2**27
    source, target = device.empty(count, np.float64), device.empty(count, np.float64)
    kernel = kernels.for_each(copy_each)
    device.run(kernel, count, source, target)
    seconds = cuda.elapsed(lambda: device.run(kernel, count, source, target), 5)
    return 2 * 8 * count / float(np.median(seconds))


def main():
    options = arguments("trajectories", list(dict.fromkeys([*CASES, *ADAPTIVE])))
    rows = Rows("trajectories", options.device)
    (on_cuda if options.device == "cuda" else on_cpu)(options, rows)
    rows.write(options.json)


if __name__ == "__main__":
    main()
