"""Steps per second of ensembles, against other packages and against the hardware.

On a GPU figures are those of the kernels; beside them stand the bytes that a step must move -
value and slope of each delayed variable, read once a delay and written once - and what fraction
of a measured copy's bandwidth that is.
"""

from __future__ import annotations

import math
import os
import tempfile
from functools import partial
from time import perf_counter

import numpy as np
from harness import Measured, Rows, Seconds, arguments, copy_bandwidth, installed, timed
from numba import njit
from scipy import sparse
from scipy.integrate import solve_ivp

import ergode

integrate = ergode.trajectories.integrate


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


def lorenz_96(i, t, y, p):
    n = len(y)
    return (y[(i + 1) % n] - y[i - 2]) * y[i - 1] - y[i] + p[0]


def lorenz_96_numpy(t, y):
    return (np.roll(y, -1) - np.roll(y, 2)) * np.roll(y, 1) - y + 8.0


def diffusion(x, i, j):
    rows, columns = x.shape
    across = x[i, j - 1] + x[i, (j + 1) % columns]
    return x[i - 1, j] + x[(i + 1) % rows, j] + across - 4 * x[i, j]


def substrate(i, j, t, y, p):
    u, v = y.u[i, j], y.v[i, j]
    return 0.16 * diffusion(y.u, i, j) - u * v**2 + 0.035 * (1 - u)


def catalyst(i, j, t, y, p):
    u, v = y.u[i, j], y.v[i, j]
    return 0.08 * diffusion(y.v, i, j) + u * v**2 - 0.1 * v


def gray_scott_numpy(t, y):
    u, v = y.reshape(2, GRID, GRID)

    def spread(x):
        return sum(np.roll(x, shift, axis) for shift in (1, -1) for axis in (0, 1)) - 4 * x

    return np.concatenate(
        [(0.16 * spread(u) - u * v**2 + 0.035 * (1 - u)).ravel(),
         (0.08 * spread(v) + u * v**2 - 0.1 * v).ravel()]
    )  # fmt: skip


GRID = 512


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


def fixed(options, rows, name):
    """Steps a second of one length; of a GPU what bytes they move."""
    field, history, initial, given, (swept, low, high), span, step = CASES[name]
    on_cuda = options.device == "cuda"
    span /= 10 if options.quick else 1
    metric = "steps per second" if on_cuda else "steps per core second"
    for precision in ("float64", "float32"):
        case = name if precision == "float64" else f"{name} float32"
        values = np.linspace(low, high, 262_144 if on_cuda else 4_096)
        found = rows.measure(
            case,
            partial(
                integrate, field, times=[0.0, span], initial=initial, history=history, step=step,
                parameters={**given, swept: values}, method="rk4", precision=precision,
                device=options.place,
            ),
        )  # fmt: skip
        steps = found.result.attrs["steps_taken"]
        rows.rate(case, metric, found, steps)
        # Without delays a step moves nothing, and the shortest past is in shared memory.
        if on_cuda and field.delays and name != "mackey-glass-24":
            delayed = len({variable for variable, _ in field.delays})
            each = 2 * np.dtype(precision).itemsize * (len(field.delays) + delayed)
            rows.add(case, "bytes per step", each, "B")
            moved = steps * each / found.seconds / copy_bandwidth("cuda")
            rows.add(case, "fraction of copy", moved, "1", smaller_is_better=False)


def free(options, name, count, tolerance, precision="float64"):
    """A public call in steps that Tsit5 chooses for each trajectory."""
    field, start, parameters_of, span = ADAPTIVE[name]
    return partial(
        integrate, field, times=[0.0, span], initial=dict(zip(field.variables, start, strict=True)),
        parameters=parameters_of(count), rtol=tolerance, atol=tolerance, method="tsit5",
        precision=precision, device=options.place,
    )  # fmt: skip


def step_count(found: Measured) -> int:
    """Steps that were tried."""
    return found.result.attrs["steps_taken"] + found.result.attrs["steps_rejected"]


def adaptive(options, rows, name):
    """Tsit5, and on the CPU the best of SciPy's methods with no larger an error."""
    on_cuda = options.device == "cuda"
    few = 2_048 if options.quick else 4_096
    field, start, parameters_of, span = ADAPTIVE[name]
    many = 2**17 if options.quick else 2**20
    sizes = {"float64": (many, 1e-8), "float32": (8 * many, 1e-6)}
    if not on_cuda:
        sizes = {"float64": (few, 1e-8), "float32": (few, 1e-5)}
    for precision, (count, tolerance) in sizes.items():
        case = f"{name} adaptive {precision}, {tolerance:.0e}" + (f", {count:,}" if on_cuda else "")
        ours, works = free(options, name, count, tolerance, precision), {}
        if precision == "float64" and not options.no_peers and not on_cuda:
            given = {key: np.broadcast_to(v, count) for key, v in parameters_of(count).items()}
            middle = tuple(float(given[key][count // 2]) for key in field.parameters)
            state = ours()["state"].values[count // 2, -1]
            works = best_of_scipy(njit(field.function), middle, span, start, state)
        found = rows.measure(case, ours, works)
        if on_cuda:
            rows.add(case, "ms a time unit", 1e3 * found.seconds / span, "ms")
            rows.rate(case, "steps per second", found._replace(peers={}), step_count(found))
        else:
            rows.rate(case, "trajectories per core second", found, count)
            rows.rate(case, "steps per core second", found._replace(peers={}), step_count(found))


def best_of_scipy(slope, parameters, span, start, state):
    """The quickest of SciPy's methods whose error is no larger than that of a last state.

    The right-hand side is compiled, which takes an array and returns a tuple.
    """

    def last(method, tolerance):
        return partial(
            solve_ivp, lambda t, y: slope(t, y, parameters), (0.0, span), start, method=method,
            t_eval=[span], rtol=tolerance, atol=tolerance,
        )  # fmt: skip

    exact = last("DOP853", 1e-13)().y[:, -1]

    def error(found):
        return float(np.abs(found.y[:, -1] - exact).max())

    bound = float(np.abs(state - exact).max())
    tolerances = [10.0 ** (-exponent / 2) for exponent in range(6, 25)]
    calls, errors = {}, {}
    for method in ("DOP853", "RK45", "LSODA"):
        ways = (last(method, one) for one in tolerances)
        call, errors[method], _ = coarsest(ways, error, bound)
        if errors[method] <= bound:
            calls[method] = call
    if not calls:
        return {}
    seconds = dict(
        zip(calls, (one.processor for one in timed(list(calls.values()), 3)), strict=True)
    )
    best = min(seconds, key=seconds.__getitem__)
    print(f"errors: ergode {bound:.1e}, SciPy {best} {errors[best]:.1e}")
    return {f"scipy {best}": calls[best]}


MACKEY_GLASS = CASES["mackey-glass"][0]


def mackey_glass_to_170(options, beta, **how):
    """A public call of the Mackey-Glass equation to t = 170."""
    return partial(
        integrate, MACKEY_GLASS, times=[0.0, 170.0], initial={"y": 1.2}, device=options.place,
        parameters={"beta": beta, "gamma": 0.1, "tau": 17.0}, **how,
    )  # fmt: skip


def adaptive_mackey_glass(options, rows):
    """Steps of the trajectories' own with a delay, on a GPU."""
    for precision, tolerance in (("float64", 1e-5), ("float32", 1e-4)):
        case, beta = f"mackey-glass adaptive {precision}", np.linspace(0.15, 0.25, 262_144)
        how = {"rtol": tolerance, "atol": tolerance, "precision": precision}
        found = rows.measure(case, mackey_glass_to_170(options, beta, **how))
        rows.rate(case, "trajectories per second", found, beta.size)
        rows.rate(case, "steps per second", found, step_count(found))


# ---- peers of the same error


def coarsest(calls, error, bound):
    """The first of some calls whose error is within a bound, or the last; its error and place."""
    calls = list(calls)
    errors = []
    for call in calls:
        errors.append(error(call()))
        if errors[-1] <= bound:
            break
    place = len(errors) - 1
    return calls[place], errors[place], place


LORENZ_COUNT = 4_096


def heyoka_lorenz(rhos, end, tolerance):
    """Work of heyoka: last states [variable, trajectory] of the Lorenz equations."""
    import heyoka

    x, y, z = heyoka.make_vars("x", "y", "z")
    equations = [
        (x, 10.0 * (y - x)), (y, x * (heyoka.par[0] - z) - y), (z, x * y - z * (8.0 / 3.0)),
    ]  # fmt: skip
    batch = heyoka.recommended_simd_size()
    integrator = heyoka.taylor_adaptive_batch(
        equations, np.ones((3, batch)), tol=tolerance, pars=np.ones((1, batch))
    )
    padded = np.append(rhos, np.repeat(rhos[-1:], -len(rhos) % batch))

    def work():
        states = np.empty((3, padded.size))
        for first in range(0, padded.size, batch):
            integrator.set_time(0.0)
            integrator.state[:] = 1.0
            integrator.pars[0] = padded[first : first + batch]
            integrator.propagate_until(end)
            states[:, first : first + batch] = integrator.state
        return states[:, : len(rhos)]

    return work


def against_heyoka(options, rows):
    """Lorenz to t = 10, each at the largest tolerance with an error below 1e-5 up to rho = 20."""
    rhos = np.linspace(0, 28, LORENZ_COUNT)
    peer = partial(heyoka_lorenz, rhos, 10.0)
    exact, calm = peer(1e-15)(), rhos <= 20

    def error(states):
        if not isinstance(states, np.ndarray):
            states = states["state"].values[:, -1].T
        return float(np.abs(states - exact)[:, calm].max())

    tolerances = [10.0**-exponent for exponent in range(4, 14)]
    theirs, their_error, _ = coarsest(map(peer, tolerances), error, 1e-5)
    calls = (free(options, "lorenz", LORENZ_COUNT, tolerance) for tolerance in tolerances)
    ours, own, _ = coarsest(calls, error, 1e-5)
    print(f"errors: ergode {own:.1e}, heyoka {their_error:.1e}")
    found = rows.measure("lorenz adaptive", ours, {"heyoka": theirs})
    rows.rate("lorenz adaptive", "trajectories per core second", found, LORENZ_COUNT, LORENZ_COUNT)
    alone = found._replace(peers={})
    rows.rate("lorenz adaptive", "steps per core second", alone, step_count(found))


def against_jitcdde(options, rows):
    """Mackey-Glass to t = 170 with an error no larger than jitcdde's at tolerance 1e-5."""
    from jitcdde import jitcdde, t, y

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

    def peer():
        equation.purge_past()
        equation.constant_past([1.2], 0.0)
        equation.reset_integrator()
        equation.adjust_diff()
        return equation.integrate(170.0)[0]

    exact = 0.655640466774150646
    bound = abs(peer() - exact)

    def error(result):
        states = result["state"].values[:, -1, 0]
        return float(abs(states[states.size // 2] - exact))  # the one that jitcdde has

    lags = (4, 8, 16, 32, 64)
    tolerances = [10.0**-exponent for exponent in range(3, 9)]
    for case, count, ways in (
        ("mackey-glass", 65_536, [{"step": tau / lag} for lag in lags]),
        ("mackey-glass adaptive", 4_096, [{"rtol": one, "atol": one} for one in tolerances]),
    ):
        # Trajectories differ, so that no group of them takes the same steps by chance.
        many = np.linspace(0.9 * beta, 1.1 * beta, count + 1)
        calls = (mackey_glass_to_170(options, many, **way) for way in ways)
        ours, own, place = coarsest(calls, error, bound)
        print(f"errors at t = 170: ergode {own:.1e} with {ways[place]}, jitcdde {bound:.1e}")
        case = f"{case}, equal error"
        found = rows.measure(case, ours, {"jitcdde": peer})
        rows.rate(case, "trajectories per core second", found, count + 1)


# ---- variables that are arrays


def heyoka_weather(first, end, tolerance):
    """Work of heyoka: the states [trajectory, variable] of Lorenz '96 at a time."""
    import heyoka

    size = first.shape[1]
    x = heyoka.make_vars(*(f"x{i}" for i in range(size)))
    equations = [
        (x[i], (x[(i + 1) % size] - x[i - 2]) * x[i - 1] - x[i] + 8.0) for i in range(size)
    ]
    batch = heyoka.recommended_simd_size()
    integrator = heyoka.taylor_adaptive_batch(equations, np.ones((size, batch)), tol=tolerance)
    padded = np.concatenate([first, np.repeat(first[-1:], -len(first) % batch, axis=0)])

    def work():
        states = np.empty_like(padded)
        for start in range(0, len(padded), batch):
            integrator.set_time(0.0)
            integrator.state[:] = padded[start : start + batch].T
            integrator.propagate_until(end)
            states[start : start + batch] = integrator.state.T
        return states[: len(first)]

    return work


def diffrax_weather(method, first, end, tolerance):
    """Work of diffrax on JAX's own device: the states of Lorenz '96 at a time."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import diffrax
    from jax import numpy as jnp

    term = diffrax.ODETerm(
        lambda t, y, _: (jnp.roll(y, -1) - jnp.roll(y, 2)) * jnp.roll(y, 1) - y + 8.0
    )
    solver = {"tsit5": diffrax.Tsit5, "dop853": diffrax.Dopri8}[method]()
    control = diffrax.PIDController(rtol=tolerance, atol=tolerance)

    def last(y):
        found = diffrax.diffeqsolve(
            term, solver, 0.0, end, None, y, stepsize_controller=control, max_steps=100_000
        )
        return found.ys[-1]

    together, given = jax.jit(jax.vmap(last)), jnp.asarray(first)

    def work():
        clock = perf_counter()
        found = together(given).block_until_ready()
        clock = perf_counter() - clock
        return Seconds(clock) if jax.default_backend() == "gpu" else found

    work.states = lambda: np.asarray(together(given))
    return work


def scipy_weather(first, end, tolerance):
    """Work of SciPy: the states of the first trajectory of Lorenz '96 at a time."""
    slope = njit(lorenz_96_numpy)
    return lambda: (
        solve_ivp(
            slope, (0, end), first[0], method="DOP853", t_eval=[end], rtol=tolerance,
            atol=tolerance,
        ).y.T
    )  # fmt: skip


def matched(peer, first, exact, bound):
    """A peer to t = 10, with the largest tolerance whose error at t = 2 is within a bound."""
    for exponent in range(4, 27):
        tolerance = 10.0 ** (-exponent / 2)
        work = peer(first[:8], 2.0, tolerance)
        states = getattr(work, "states", work)()
        error = np.abs(states - exact[: len(states)]).max()
        if error <= bound:
            print(f"errors at t = 2: ergode {bound:.1e}, peer {error:.1e} at {tolerance:.0e}")
            return peer(first, 10.0, tolerance)
    return None


def weather(options, rows, name):
    """Lorenz '96 with 40 variables to t = 10.

    A peer has the largest tolerance whose error at t = 2 is no larger than ergode's.  At t = 10
    errors are 2e7 times as large, and all trajectories are right only in the mean.
    """
    on_cuda = options.device == "cuda"
    count = 100_000 if on_cuda else 100
    field = ergode.VectorField(component=lorenz_96, variables=("x", 40), parameters=["F"])
    first = 8.0 + np.random.default_rng(0).normal(size=(count, 40))
    for tolerance, method in ((1e-6, "tsit5"), (1e-9, "dop853")):
        case = f"{name}, {count:,}, {tolerance:.0e}"

        def ours(first, end, rtol, method=method):
            return partial(
                integrate, field, times=[0.0, end], initial={"x": first}, parameters={"F": 8.0},
                method=method, rtol=rtol, atol=rtol, device=options.place,
            )  # fmt: skip

        some, call = first[:8], ours(first, 10.0, tolerance)
        exact, own = (
            ours(some, 2.0, *way)()["x"].values[:, -1] for way in ((1e-13, "dop853"), (tolerance,))
        )
        matching = partial(matched, first=first, exact=exact, bound=np.abs(own - exact).max())
        makers = {"diffrax": partial(matching, partial(diffrax_weather, method))}
        if not on_cuda:
            makers["heyoka"] = partial(matching, heyoka_weather)
        makers["scipy DOP853"] = partial(matching, scipy_weather)
        works = installed(options, makers)
        found = rows.measure(case, call, works)
        metric = "trajectories per second" if on_cuda else "trajectories per core second"
        one = {who: found.peers[who] for who in found.peers if who == "scipy DOP853"}
        many = {who: found.peers[who] for who in found.peers if who not in one}
        rows.rate(case, metric, found._replace(peers=many), count, count)
        rows.rate(case, metric, found._replace(peers=one), count)
        rows.rate(case, "steps per second", found._replace(peers={}), step_count(found))


def patterns(options, rows, name):
    """One Gray-Scott equation on 512 x 512 points, against the same method in NumPy."""
    u, v = np.ones((GRID, GRID)), np.zeros((GRID, GRID))
    v[200:300, 200:300] = 0.5
    u -= 2 * v
    field = ergode.VectorField(
        component={"u": substrate, "v": catalyst}, variables={"u": u.shape, "v": v.shape}
    )
    end, works = 20.0 if options.device == "cpu" else 1_000.0, {}
    if not options.no_peers and options.device == "cpu":
        works["scipy RK45"] = partial(
            solve_ivp, gray_scott_numpy, (0, end), np.concatenate([u.ravel(), v.ravel()]),
            rtol=1e-4, atol=1e-6,
        )  # fmt: skip
    call = partial(
        integrate, field, times=[0.0, end], initial={"u": u, "v": v}, method="dopri5", rtol=1e-4,
        atol=1e-6, device=options.place,
    )  # fmt: skip
    found = rows.measure(name, call, works)
    rows.rate(name, "time units per second", found, end, end)
    rate = step_count(found) * 2 * GRID**2
    rows.rate(name, "unknowns stepped per second", found._replace(peers={}), rate)


def warmth(i, t, y, p):
    n = len(y)
    left = y[i - 1] if i > 0 else 0.0
    right = y[i + 1] if i < n - 1 else 0.0
    return (n + 1) ** 2 * (left - 2 * y[i] + right)


def warmth_of_a_plate(i, j, t, y, p):
    return len(y) ** 2 * diffusion(y, i, j)


def lines_of(shape, kinds=1):
    """Where the Jacobian on a periodic grid may differ from zero; one dimension has ends."""
    lines = []
    for n in shape:
        line = sparse.diags_array(np.ones((3, n)), offsets=(-1, 0, 1), shape=(n, n)).tolil()
        if len(shape) > 1:
            line[0, -1] = line[-1, 0] = 1.0
        lines.append(line)
    if len(shape) == 1:
        return sparse.csc_array(lines[0])
    near = sparse.kron(lines[0], sparse.eye_array(shape[1])) + sparse.kron(
        sparse.eye_array(shape[0]), lines[1]
    )
    return sparse.csc_array(sparse.kron(np.ones((kinds, kinds)), near))


def bar_numpy(t, y):
    wide = np.pad(y, 1)
    return (y.size + 1) ** 2 * (wide[:-2] - 2 * y + wide[2:])


def plate_numpy(t, y):
    x = y.reshape(GRID, GRID)
    spread = sum(np.roll(x, shift, axis) for shift in (1, -1) for axis in (0, 1)) - 4 * x
    return GRID**2 * spread.ravel()


def stiff(options, rows, name):
    """The heat equation and Gray-Scott by methods for stiff equations, against SciPy's BDF.

    With ``--quick`` BDF has no large grids, where it takes minutes.

    Tolerances are equal, errors are printed.  SciPy has a right-hand side in NumPy and the pattern
    of the Jacobian.
    """
    n = 1_000
    x = np.arange(1, n + 1) / (n + 1)
    bar = ergode.VectorField(component=warmth, variables=("x", n))
    first = np.sin(np.pi * x) + np.sin(3 * np.pi * x)
    rates = [-4 * (n + 1) ** 2 * np.sin(k * np.pi / 2 / (n + 1)) ** 2 for k in (1, 3)]
    exact = np.exp(0.1 * rates[0]) * np.sin(np.pi * x) + np.exp(0.1 * rates[1]) * np.sin(
        3 * np.pi * x
    )
    whole = bar_numpy, first, 0.1, lines_of((n,))
    # A GPU has no matrices of this size.
    direct = ["rodas5p"] if options.device == "cpu" else []
    _stiff_rows(options, rows, "heat 1,000", bar, {"x": first}, whole, exact,
                [*direct, "rkc2", "rodas5p-krylov"])  # fmt: skip
    x = np.arange(GRID) / GRID
    end, wave, last = 0.002, 0.0, 0.0
    for k, q in ((1, 2), (3, 5), (20, 31), (60, 9)):
        mode = np.outer(np.cos(2 * k * np.pi * x), np.cos(2 * q * np.pi * x))
        rate = -4 * GRID**2 * sum(np.sin(one * np.pi / GRID) ** 2 for one in (k, q))
        wave, last = wave + mode, last + np.exp(end * rate) * mode
    plate = ergode.VectorField(component=warmth_of_a_plate, variables=("x", (GRID, GRID)))
    whole = plate_numpy, wave.ravel(), end, lines_of((GRID, GRID))
    _stiff_rows(options, rows, "heat 512 x 512", plate, {"x": wave}, whole,
                last.ravel(), ["rkc2", "rodas5p-krylov"])  # fmt: skip
    u, v = np.ones((GRID, GRID)), np.zeros((GRID, GRID))
    v[200:300, 200:300] = 0.5
    u -= 2 * v
    field = ergode.VectorField(
        component={"u": substrate, "v": catalyst}, variables={"u": u.shape, "v": v.shape}
    )
    flat = np.concatenate([u.ravel(), v.ravel()])
    whole = gray_scott_numpy, flat, 20.0, lines_of((GRID, GRID), 2)
    _stiff_rows(options, rows, "gray-scott 512 x 512", field, {"u": u, "v": v}, whole, None,
                ["dopri5", "rkc2", "rodas5p-krylov"])  # fmt: skip


def _stiff_rows(options, rows, case, field, initial, whole, exact, methods):
    slope, first, end, pattern = whole
    tolerance = {"rtol": 1e-4, "atol": 1e-6}

    def peer(method, **more):
        return partial(solve_ivp, slope, (0.0, end), first, method, [end], **tolerance, **more)

    is_large = first.size > 10_000
    for method in methods:
        call = partial(
            integrate, field, times=[0.0, end], initial=initial, method=method,
            device=options.place, **tolerance,
        )  # fmt: skip
        works = {}
        if not options.no_peers and options.device == "cpu" and method == methods[-1]:
            if not (is_large and options.quick):
                works["scipy BDF"] = peer("BDF", jac_sparsity=pattern)
            if "gray" in case:  # else stability takes hundreds of thousands of steps
                works["numpy RK45"] = peer("RK45")
        start = perf_counter()
        result = call()
        print(f"{case}, {method}: first call {perf_counter() - start:.2f} s")
        # SciPy factorises a large matrix for a minute.
        once = {"repeats": 1, "warm": False} if is_large else {}
        found = rows.measure(f"{case}, {method}", call, works, **once)
        state = np.concatenate([result[key].values[-1].ravel() for key in initial])
        if exact is None:
            exact = integrate(
                field, times=[0.0, end], initial=initial, method="dopri5", rtol=1e-8, atol=1e-9,
                device=options.place,
            )  # fmt: skip
            exact = np.concatenate([exact[key].values[-1].ravel() for key in initial])
        off = np.abs(state - exact).max()
        print(f"{case}, {method}: {step_count(found)} steps, error {off:.1e}")
        rows.rate(f"{case}, {method}", "runs per second", found, 1, 1)


ARRAYS = {"lorenz-96": weather, "gray-scott": patterns, "stiff": stiff}


OF_ONE_ERROR = {
    "lorenz": ("heyoka", against_heyoka), "mackey-glass": ("jitcdde", against_jitcdde),
}  # fmt: skip


def main():
    options = arguments(
        "trajectories", list(dict.fromkeys([*CASES, *ADAPTIVE, *ARRAYS])),
        quick=["lorenz", "mackey-glass", "delayed-lorenz", "keller-miksis", "lorenz-96"],
    )  # fmt: skip
    rows = Rows("trajectories", options.device, options.json, gpu_seconds="kernels")
    on_cuda = options.device == "cuda"
    if on_cuda:
        rows.add("copy", "bandwidth", copy_bandwidth("cuda"), "B/s", smaller_is_better=False)
    for name in options.case:
        if name in ARRAYS:
            ARRAYS[name](options, rows, name)
        if name in ADAPTIVE:
            adaptive(options, rows, name)
        if name in CASES:
            fixed(options, rows, name)
        if name == "mackey-glass" and on_cuda:
            adaptive_mackey_glass(options, rows)
        if name in OF_ONE_ERROR and not options.no_peers and not on_cuda:
            peer, compare = OF_ONE_ERROR[name]
            try:
                compare(options, rows)
            except ImportError as error:
                print(f"{peer} is not compared: {error}")


if __name__ == "__main__":
    main()
