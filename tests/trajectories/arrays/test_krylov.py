"""A Rosenbrock method without a matrix: against SciPy in two dimensions, order, refusals."""

import math

import numpy as np
import pytest
from both_devices import on_both
from cuda_on_host import CASES, check_ptx, states_on_host
from scipy.integrate import solve_ivp
from scipy.sparse import diags_array, eye_array, kron
from stiff_fields import bar, modes, root

import ergode
from ergode.trajectories import integrate, runs
from ergode.trajectories.arrays import conjugate_residuals, followers, stiff
from ergode.trajectories.methods import METHODS
from ergode.trajectories.steppers import rosenbrock


def around(x, i, j):
    rows, columns = x.shape
    return x[i - 1, j] + x[(i + 1) % rows, j] + x[i, j - 1] + x[i, (j + 1) % columns] - 4 * x[i, j]


def first_kind(i, j, t, y, p):
    """A Brusselator with diffusion `p[0]`, a wind `p[1]` along the rows, and a beating source."""
    u, v = y.u[i, j], y.v[i, j]
    wind = p[1] * (y.u[i - 1, j] - u)
    beat = p[2] * math.sin(3 * t)
    return 1.0 + u * u * v - 4.4 * u + p[0] * around(y.u, i, j) + wind + beat


def second_kind(i, j, t, y, p):
    u, v = y.u[i, j], y.v[i, j]
    return 3.4 * u - u * u * v + p[0] * around(y.v, i, j) + p[1] * (y.v[i - 1, j] - v)


def substrate(i, j, t, y, p):
    u, v = y.u[i, j], y.v[i, j]
    return p[0] * around(y.u, i, j) - u * v * v + 0.035 * (1 - u)


def catalyst(i, j, t, y, p):
    u, v = y.u[i, j], y.v[i, j]
    return p[1] * around(y.v, i, j) + u * v * v - 0.1 * v


def spread(x):
    return sum(np.roll(x, shift, axis) for shift in (1, -1) for axis in (0, 1)) - 4 * x


def brusselator(t, y, p, shape):
    u, v = y.reshape(2, *shape)
    du = 1 + u * u * v - 4.4 * u + p[0] * spread(u) + p[1] * (np.roll(u, 1, 0) - u)
    dv = 3.4 * u - u * u * v + p[0] * spread(v) + p[1] * (np.roll(v, 1, 0) - v)
    return np.concatenate([(du + p[2] * np.sin(3 * t)).ravel(), dv.ravel()])


def gray_scott(t, y, p, shape):
    u, v = y.reshape(2, *shape)
    du = p[0] * spread(u) - u * v * v + 0.035 * (1 - u)
    return np.concatenate([du.ravel(), (p[1] * spread(v) + u * v * v - 0.1 * v).ravel()])


def pattern(shape):
    """Where the Jacobian of two kinds may differ from zero."""
    lines = [diags_array(np.ones((3, n)), offsets=(-1, 0, 1), shape=(n, n)).tolil() for n in shape]
    for line in lines:
        line[0, -1] = line[-1, 0] = 1
    near = kron(lines[0], eye_array(shape[1])) + kron(eye_array(shape[0]), lines[1])
    return kron(np.ones((2, 2)), near)


KINDS = {
    "brusselator": ({"u": first_kind, "v": second_kind}, brusselator, ["D", "wind", "beat"],
                    (80.0, 20.0, 0.5), 2.0),
    "gray-scott": ({"u": substrate, "v": catalyst}, gray_scott, ["Du", "Dv"], (16.0, 8.0), 40.0),
}  # fmt: skip


def kind_of(name, shape):
    """A field of two kinds, the same for SciPy, parameters, first values and a last time."""
    functions, whole, names, values, end = KINDS[name]
    field = ergode.VectorField(component=functions, parameters=names,
                               variables={"u": shape, "v": shape})  # fmt: skip
    x, z = np.meshgrid(*(np.arange(n) / n for n in shape), indexing="ij")
    u = 1.0 - 0.5 * np.exp(-30 * ((x - 0.5) ** 2 + (z - 0.4) ** 2))
    first = {"u": u, "v": 1.1 - u + 0.1 * np.cos(2 * np.pi * x)}
    return field, whole, dict(zip(names, values, strict=True)), first, end


def error_of(found, exact, shape):
    states = np.concatenate([found[name].values[-1].ravel() for name in "uv"])
    assert found["status"] == ergode.Status.DONE
    return np.abs(states - exact).max()


@pytest.mark.parametrize("name", KINDS)
def test_two_kinds_in_two_dimensions_agree_with_scipy(name):
    shape = (18, 15)
    field, whole, values, first, end = kind_of(name, shape)
    flat = np.concatenate([first["u"].ravel(), first["v"].ravel()])
    p = tuple(values.values())
    exact = solve_ivp(whole, (0, end), flat, "Radau", rtol=1e-9, atol=1e-10, args=(p, shape),
                      jac_sparsity=pattern(shape)).y[:, -1]  # fmt: skip
    for tolerance in (1e-3, 1e-5, 1e-7):
        found = integrate(field, times=[0.0, end], initial=first, parameters=values, device="cpu",
                          method="rodas5p-krylov", rtol=tolerance, atol=tolerance)  # fmt: skip
        assert error_of(found, exact, shape) < 20 * tolerance
        tried = found.attrs["steps_taken"] + found.attrs["steps_rejected"]
        assert tried < 40 + 12 / tolerance**0.2


def test_order_of_convergence():
    """With a wind and a source that depends on time: 5 to within 0.15."""
    shape, errors = (12, 10), []
    field, whole, values, first, _ = kind_of("brusselator", shape)
    values |= {"D": 1.0, "wind": 1.0}
    flat = np.concatenate([first["u"].ravel(), first["v"].ravel()])
    exact = solve_ivp(whole, (0, 1), flat, "DOP853", rtol=1e-12, atol=1e-12,
                      args=(tuple(values.values()), shape)).y[:, -1]  # fmt: skip
    for count in (20, 40):
        found = integrate(field, times=[0.0, 1.0], initial=first, parameters=values, device="cpu",
                          method="rodas5p-krylov", step=1 / count)  # fmt: skip
        assert found["step_count"] == count
        errors.append(error_of(found, exact, shape))
    assert abs(np.log2(errors[0] / errors[1]) - 5) < 0.15


def test_steps_are_those_of_the_method_with_a_matrix():
    """Stiff diffusion, where the order is less: the error of a matrix and no other."""
    shape = (12, 10)
    field, _, values, first, _ = kind_of("brusselator", shape)
    one, other = (
        integrate(field, times=[0.0, 1.0], initial=first, parameters=values, device="cpu",
                  method=method, step=0.05)["u"].values[-1]
        for method in ("rodas5p", "rodas5p-krylov")
    )  # fmt: skip
    np.testing.assert_allclose(one, other, atol=5e-8)  # the error of these steps is 4e-6


def test_auto_takes_it_where_a_matrix_has_no_room(monkeypatch):
    monkeypatch.setattr(runs, "EXPLICIT_STEPS", 60)
    monkeypatch.setattr(stiff, "_DENSE", 100)
    monkeypatch.setattr(stiff, "_SPARSE", 200)
    field, _, values, first, end = kind_of("brusselator", (18, 15))
    usual = {"device": "cpu", "rtol": 1e-4, "atol": 1e-4}
    auto = integrate(field, times=[0.0, end], initial=first, parameters=values, **usual)
    named = integrate(field, times=[0.0, end], initial=first, parameters=values,
                      method="rodas5p-krylov", **usual)  # fmt: skip
    assert auto.attrs["method"] == "rodas5p-krylov"
    assert auto.attrs["method_reason"].startswith("1 of 1 trajectories are stiff: 'tsit5' did not")
    np.testing.assert_array_equal(auto["u"], named["u"])
    line = integrate(bar(200), times=[0.0, 0.1], initial={"x": modes(200, 0.0)},
                     parameters={"D": 1.0}, **usual)  # fmt: skip
    assert line.attrs["method"] == "bdf"
    assert line.attrs["method_reason"].endswith("is a band, whose factors are kept over many steps")
    np.testing.assert_allclose(line["x"][-1], modes(200, 0.1), atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 60])
def test_few_unknowns(n):
    """No more directions than unknowns."""
    start, rates = (np.ones(n), {1: -8.0, 2: -9.0}[n]) if n < 3 else (modes(n, 0.0), None)
    exact = start * np.exp(0.1 * rates) if n < 3 else modes(n, 0.1)
    found = integrate(bar(n), times=[0.0, 0.1], initial={"x": start}, method="rodas5p-krylov",
                      parameters={"D": 1.0}, rtol=1e-6, atol=1e-6, device="cpu")  # fmt: skip
    np.testing.assert_allclose(found["x"].values[-1], exact, atol=5e-6)
    assert found.attrs["steps_taken"] < 60


def test_a_state_of_zeros():
    """Nothing moves, and a difference has no width of its own."""
    found = integrate(bar(40), times=[0.0, 0.1], initial={"x": 0.0}, method="rodas5p-krylov",
                      parameters={"D": 1.0}, device="cpu")  # fmt: skip
    assert (found["x"] == 0).all() and found.attrs["steps_taken"] < 20


def test_many_short_steps_move_as_far_as_few_long_ones():
    """All motion of a step is far below the tolerance, and yet it must not be dropped."""
    start = 1.0 + np.zeros(20)
    for max_step in (np.inf, 1e-5):
        found = integrate(bar(20), times=[0.0, 0.01], initial={"x": start}, parameters={"D": 1e-4},
                          method="rodas5p-krylov", max_step=max_step, rtol=1e-2, atol=1e-2,
                          device="cpu")  # fmt: skip
        shift = found["x"].values[-1] - start  # at the ends, which lose heat
        assert abs(shift[0] + 1e-6 * 21**2) < 0.02 * 1e-6 * 21**2


@pytest.mark.parametrize("method", ["rodas5p", "rosenbrock23"])
def test_shares_of_stages_are_those_of_steps_that_are_disturbed(method):
    """What an error of one stage does to a step of a linear equation is at most its share."""
    bindings = METHODS[method].bindings
    a, c, gamma = (bindings[name] for name in (rosenbrock.A, rosenbrock.C, rosenbrock.GAMMA))
    shares, rng = conjugate_residuals.shares_of_stages(bindings), np.random.default_rng(0)
    largest = np.zeros_like(shares)
    for _ in range(2_000):
        z = -(10.0 ** rng.uniform(-3, 5)) + 1j * 10.0 ** rng.uniform(-3, 5)
        for stage in range(len(shares)):
            u = np.zeros(len(shares), complex)
            for s in range(len(shares)):
                b = sum((z * a[s][j] + c[s][j]) * u[j] for j in range(s))
                u[s] = b / (1 / gamma - z) + (s == stage)
            ends = [abs(np.dot(bindings[one], u)) for one in (rosenbrock.M, rosenbrock.ERROR)]
            largest[stage] = max(largest[stage], *ends)
    assert (largest <= 1.001 * shares).all() and (largest > 0.7 * shares).all()


def test_a_derivative_that_is_no_number_ends_its_trajectory():
    field = ergode.VectorField(component=root, variables=("x", 60))
    for first in (-1.0, np.linspace(0.1, 0.2, 60)):  # at once, and on the way
        with pytest.warns(ergode.FailureWarning):
            found = integrate(field, times=[0.0, 9.0], initial={"x": first}, device="cpu",
                              method="rodas5p-krylov")  # fmt: skip
        assert found["status"].item() in (ergode.Status.NOT_FINITE, ergode.Status.STEP_TOO_SMALL)


def test_small_fields_are_refused():
    field = ergode.field_from_equations({"x": "-x"})
    with pytest.raises(ergode.PlanError, match="'rodas5p-krylov' is for variables that are arrays"):
        integrate(field, times=[0.0, 1.0], initial={"x": 1.0}, method="rodas5p-krylov",
                  device="cpu")  # fmt: skip


# ---- a kernel in place of the loop on a host


def as_columns(first, values, count):
    """First values [trajectory, unknown] and parameters [parameter, trajectory], all different."""
    flat = np.concatenate([first["u"].ravel(), first["v"].ravel()])
    factors = 1.0 + 0.1 * np.arange(count)
    return np.outer(factors, flat), np.array([np.full(count, one) for one in values.values()])


@pytest.mark.parametrize(
    ("case", "kept"),
    [
        pytest.param(case, None, marks=[] if case in ("block", "grid") else pytest.mark.exhaustive)
        for case in CASES
    ]
    + [("grid", 3)],
)
def test_groups_of_cuda_threads_compute_the_same(case, kept, monkeypatch):
    """On threads of the host; also with few directions, of which old ones are dropped."""
    if kept is not None:
        monkeypatch.setattr(conjugate_residuals, "_USUAL_KEPT", kept)
        monkeypatch.setattr(conjugate_residuals, "_LIGHT", 0)
    shape, times, count = (3, 2), np.array([0.0, 0.1]), 1 if case == "grid" else 2
    monkeypatch.setattr(followers, "_MANY_PRODUCTS", 0 if case == "grid" else 100)
    monkeypatch.setattr(followers, "_BLOCK_THREADS", 1)
    field, _, values, first, _ = kind_of("brusselator", shape)
    values |= {"D": 8.0, "wind": 2.0}
    initial, rows = as_columns(first, values, count)
    options = {"rtol": 1e-2, "atol": 1e-2}
    found = states_on_host(case, monkeypatch, field, "rodas5p-krylov", times, initial, rows,
                           options)  # fmt: skip
    monkeypatch.undo()
    for start, states in zip(initial, np.moveaxis(found, -1, 0), strict=True):
        u, v = start.reshape(2, *shape)
        one = integrate(field, times=times, initial={"u": u, "v": v}, parameters=values,
                        device="cpu", method="rodas5p-krylov", **options)  # fmt: skip
        known = np.concatenate([one["u"].values.reshape(2, -1), one["v"].values.reshape(2, -1)], 1)
        np.testing.assert_allclose(states, known, atol=1e-8 if kept is None else 1e-3)


@pytest.mark.parametrize(("group", "n", "count"), [
    pytest.param("thread", 5, 500, marks=pytest.mark.exhaustive),
    pytest.param("block", 40, 500, marks=pytest.mark.exhaustive), ("grid", 4_000, 1),
])  # fmt: skip
def test_cuda_kernels_compile(group, n, count):
    check_ptx(group, bar(n), "rodas5p-krylov", count, "float64")


def cold(t, y, p):
    return y.u[1, 2] - 0.5


@pytest.mark.exhaustive
def test_a_kernel_where_nothing_moves_or_nothing_is_a_number():
    """The cases of the loop on a host that are delicate."""
    usual = {"times": [0.0, 0.1], "parameters": {"D": [1.0, 1.0]}, "device": "cpu",
             "method": "rodas5p-krylov"}  # fmt: skip
    for how in ({}, {"step": 0.01}):
        found = integrate(bar(40), initial={"x": 0.0}, **usual, **how)
        assert (found["x"] == 0).all() and (found["step_count"] < 20).all()
    for n in (1, 2, 3, 60):
        start, rates = (np.ones(n), {1: -8.0, 2: -9.0}[n]) if n < 3 else (modes(n, 0.0), None)
        exact = start * np.exp(0.1 * rates) if n < 3 else modes(n, 0.1)
        found = integrate(bar(n), initial={"x": start}, rtol=1e-6, atol=1e-6, **usual)
        np.testing.assert_allclose(found["x"].values[:, -1], [exact, exact], atol=5e-6)
    usual |= {"times": [0.0, 0.01], "parameters": {"D": [1e-4, 1e-4]}, "rtol": 1e-2, "atol": 1e-2}
    for max_step in (np.inf, 1e-5):
        found = integrate(bar(20), initial={"x": np.ones(20)}, max_step=max_step, **usual)
        lost = 1.0 - found["x"].values[:, -1, 0]
        assert (abs(lost - 1e-6 * 21**2) < 0.02 * 1e-6 * 21**2).all()
    field = ergode.VectorField(component=root, variables=("x", 60))
    for first in (-1.0, np.linspace(0.1, 0.2, 60)):
        with pytest.warns(ergode.FailureWarning):
            found = integrate(field, times=[0.0, 9.0], initial={"x": np.zeros((2, 60)) + first},
                              device="cpu", method="rodas5p-krylov")  # fmt: skip
        assert found["status"].isin([ergode.Status.NOT_FINITE, ergode.Status.STEP_TOO_SMALL]).all()


product = conjugate_residuals._product


def bent(group, t, diagonal, step, p, run, w):
    return product(group, t, 1.02 * diagonal, step, p, run, w)


@pytest.mark.exhaustive
def test_a_kernel_with_a_wrong_product_is_noticed(monkeypatch):
    """The diagonal is 2 % off."""
    monkeypatch.setattr(conjugate_residuals, "_product", bent)
    with pytest.raises(AssertionError):
        test_groups_of_cuda_threads_compute_the_same("thread", None, monkeypatch)


# ---- on a GPU


@pytest.mark.cuda
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("shape", "count"), [((2, 2), 50), ((4, 5), 200), ((40, 30), 1),
                                              ((40, 30), 60), ((96, 80), 2)])  # fmt: skip
def test_cuda_agrees_with_cpu(name, shape, count):
    """A thread, a block with shared memory alone, a grid, a block with some, and a grid."""
    field, _, values, first, end = kind_of(name, shape)
    first = {"u": first["u"] * np.linspace(1.0, 1.1, count)[:, None, None], "v": first["v"]}
    usual = {"times": [0.0, 0.1 * end, 0.3 * end], "parameters": values, "rtol": 1e-6,
             "atol": 1e-6, "method": "rodas5p-krylov"}  # fmt: skip
    gpu = integrate(field, initial=first, device="cuda", **usual)
    assert (gpu["status"] == ergode.Status.DONE).all()
    some = [0, count - 1]
    cpu = integrate(field, initial={"u": first["u"][some], "v": first["v"]}, device="cpu", **usual)
    for kind in "uv":
        np.testing.assert_allclose(gpu[kind][some], cpu[kind], atol=2e-6)
    tried, known = (one["step_count"] + one["rejected_count"] for one in (gpu[{"trajectory": some}],
                                                                         cpu))  # fmt: skip
    assert (abs(tried.values - known.values) < 3 + 0.1 * known.values).all()


@pytest.mark.cuda
@pytest.mark.parametrize("name", KINDS)
def test_cuda_agrees_with_scipy(name):
    shape = (40, 30)
    field, whole, values, first, end = kind_of(name, shape)
    flat = np.concatenate([first["u"].ravel(), first["v"].ravel()])
    exact = solve_ivp(whole, (0, end), flat, "BDF", rtol=1e-9, atol=1e-10,
                      args=(tuple(values.values()), shape),
                      jac_sparsity=pattern(shape)).y[:, -1]  # fmt: skip
    for tolerance in (1e-3, 1e-5, 1e-7):
        found = integrate(field, times=[0.0, end], initial=first, parameters=values, device="cuda",
                          method="rodas5p-krylov", rtol=tolerance, atol=tolerance)  # fmt: skip
        assert error_of(found, exact, shape) < 20 * tolerance


def heat_in_space(i, j, k, t, y, p):
    a, b, c = y.shape
    near = y[i - 1, j, k] if i > 0 else 0.0
    near += y[i + 1, j, k] if i < a - 1 else 0.0
    near += y[i, j - 1, k] if j > 0 else 0.0
    near += y[i, j + 1, k] if j < b - 1 else 0.0
    near += y[i, j, k - 1] if k > 0 else 0.0
    near += y[i, j, k + 1] if k < c - 1 else 0.0
    return p[0] * (near - 6.0 * y[i, j, k])


@pytest.mark.cuda
def test_auto_takes_it_on_cuda(monkeypatch):
    monkeypatch.setattr(runs, "EXPLICIT_STEPS", 60)
    field, _, values, first, end = kind_of("brusselator", (18, 15))
    usual = {"times": [0.0, end], "initial": first, "parameters": values, "device": "cuda",
             "rtol": 1e-4, "atol": 1e-4}  # fmt: skip
    auto, named = integrate(field, **usual), integrate(field, method="rodas5p-krylov", **usual)
    assert auto.attrs["method"] == "rodas5p-krylov"
    np.testing.assert_array_equal(auto["u"], named["u"])


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_heat_of_a_million_unknowns_on_cuda(precision):
    """A product of sines decays by its eigenvalue."""
    shape, D, times = (100, 100, 100), 30.0, [0.0, 2.0, 10.0]
    field = ergode.VectorField(component=heat_in_space, variables=("x", shape), parameters=["D"])
    waves, rate = np.ones(shape), 0.0
    for axis, (n, mode) in enumerate(zip(shape, (1, 2, 3), strict=True)):
        angle = mode * np.pi / (n + 1)
        line = np.sin(angle * np.arange(1, n + 1))
        waves = waves * line.reshape([-1 if axis == other else 1 for other in range(3)])
        rate -= 4 * D * np.sin(angle / 2) ** 2
    found = integrate(field, times=times, initial={"x": waves}, parameters={"D": D}, rtol=1e-5,
                      atol=1e-5, method="rodas5p-krylov", precision=precision,
                      device="cuda")  # fmt: skip
    assert found["x"].dtype == precision
    for state, t in zip(found["x"].values, times, strict=True):
        assert np.abs(state - waves * np.exp(rate * t)).max() < 1e-4


@pytest.mark.cuda
@pytest.mark.parametrize(("shape", "count"), [((6, 5), 8), ((40, 30), 1)])
def test_events_and_steps_of_one_size_on_cuda(shape, count):
    field, _, values, first, end = kind_of("brusselator", shape)
    values |= {"D": np.linspace(40.0, 80.0, count)}
    usual = {"times": [0.0, end], "initial": first, "parameters": values, "record": 2,
             "method": "rodas5p-krylov", "events": [ergode.trajectories.ZeroCrossing(cold)],
             "observables": [ergode.trajectories.Minimum(cold)]}  # fmt: skip
    for how in ({"rtol": 1e-7, "atol": 1e-7}, {"step": end / 200}):
        cpu, gpu = on_both(integrate, field, **usual, **how)
        np.testing.assert_array_equal(gpu["event_count"], cpu["event_count"])
        for name in ("u", "v", "event_time", "observed"):
            np.testing.assert_allclose(gpu[name], cpu[name], atol=1e-5)
