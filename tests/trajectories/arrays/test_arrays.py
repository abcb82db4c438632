"""Fields whose variables are arrays: against SciPy, the tableau in NumPy, and the small form."""

import pickle
from functools import partial

import numpy as np
import pytest
from cuda_on_host import CASES, check_ptx, outcome_on_host, states_on_host
from scipy.integrate import solve_ivp
from well_known import lorenz_96, lorenz_96_in_place, lorenz_96_numpy, lorenz_96_small

import ergode
from ergode.core.calls.checkpoint import Keeper
from ergode.core.context import Running, run_with
from ergode.trajectories import integrate
from ergode.trajectories.arrays import followers
from ergode.trajectories.backward import reversed_field
from ergode.trajectories.methods import METHODS

EXPLICIT = ("euler", "rk4", "tsit5", "dopri5", "dop853")


def laplacian(x, i, j):
    rows, columns = x.shape
    left, right = x[i, max(j - 1, 0)], x[i, min(j + 1, columns - 1)]  # clamped
    return x[i - 1, j] + x[(i + 1) % rows, j] + left + right - 4 * x[i, j]


def reaction_u(i, j, t, y, p, c):
    u, v = y.u[i, j], y.v[i, j]
    return p[0] * laplacian(y.u, i, j) - u * v * v + p[2] * (1 - u) + c.source[j] * c.drive(t)


def reaction_v(i, j, t, y, p, c):
    u, v = y.u[i, j], y.v[i, j]
    return p[1] * laplacian(y.v, i, j) + u * v * v - (p[2] + p[3]) * v + i / 100


def dense(i, t, y, p, c):
    return c.A[i] @ y - y[i] ** 3 + c.weights[c.order[i]]


LORENZ = ergode.VectorField(component=lorenz_96, variables=("x", 40), parameters=["F"])
KNOTS, DRIVE = [0.0, 0.3, 0.5, 0.9, 1.0], [0.0, 1.0, -1.0, 2.0, 0.0]


def ring(n, **other):
    return ergode.VectorField(**{"component": lorenz_96, **other}, variables=("x", n),
                              parameters=["F"])  # fmt: skip


def reaction(rows, columns, kind="linear", drive=(KNOTS, DRIVE)):
    return ergode.VectorField(
        component={"u": reaction_u, "v": reaction_v}, parameters=["Du", "Dv", "f", "k"],
        variables={"u": (rows, columns), "v": (rows, columns)},
        constants={
            "source": np.linspace(0, 1, columns), "drive": ergode.interpolant(*drive, kind)
        },
    )  # fmt: skip


def matrix_field(n, seed=0):
    rng = np.random.default_rng(seed)
    data = {"A": rng.normal(size=(n, n)) / np.sqrt(n), "weights": rng.normal(size=n),
            "order": rng.permutation(n)}  # fmt: skip
    return ergode.VectorField(component=dense, variables=("x", n), constants=data), data


def start(n, seed=0, mean=0.0):
    return mean + np.random.default_rng(seed).normal(size=n)


def equal_steps(tableau, f, y, origin, end, count):
    """A plain implementation of a tableau."""
    h = (end - origin) / count
    for step in range(count):
        t, k = origin + step * h, []
        for c, row in zip(tableau.c, tableau.a, strict=True):
            moved = sum((a * one for a, one in zip(row, k, strict=False)), np.zeros_like(y))
            k.append(f(t + c * h, y + h * moved))
        y = y + h * sum(b * one for b, one in zip(tableau.b, k, strict=True))
    return y


@pytest.fixture(scope="module")
def truth():
    """States at the given times by SciPy, to 12 digits."""

    def found(f, y, times):
        return solve_ivp(f, (times[0], times[-1]), y, "DOP853", times, rtol=1e-12, atol=1e-13).y.T

    return found


# ---- numbers


@pytest.mark.parametrize("method", EXPLICIT)
@pytest.mark.parametrize("n", [2, 3, 31, 32, 33, 1000])
def test_steps_of_one_size_are_those_of_the_tableau(method, n):
    y = start(n, mean=2.0)
    found = integrate(
        ring(n), times=[0.5, 0.9], initial={"x": y}, parameters={"F": 8.0}, method=method,
        step=0.02, device="cpu",
    )  # fmt: skip
    expected = equal_steps(METHODS[method].tableau, lorenz_96_numpy, y, 0.5, 0.9, 20)
    np.testing.assert_allclose(found["x"].values[-1], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("method", ["tsit5", "dopri5", "dop853"])
@pytest.mark.parametrize("count", [1, 9])
def test_steps_of_their_own_agree_with_scipy(method, count, truth):
    times = np.linspace(1.0, 2.0, 6)
    first = np.array([start(40, seed, 3.0) for seed in range(count)])
    found = integrate(
        LORENZ, times=times, initial={"x": first if count > 1 else first[0]}, method=method,
        parameters={"F": 8.0}, rtol=1e-9, atol=1e-10, device="cpu",
    )  # fmt: skip
    states = found["x"].values.reshape(count, 6, 40)
    for state, y in zip(states, first, strict=True):
        np.testing.assert_allclose(state, truth(lorenz_96_numpy, y, times), atol=2e-7)
    assert (found["status"] == 0).all()


@pytest.mark.parametrize("kind", ["linear", "cubic"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (10, 10)])
def test_two_arrays_of_two_dimensions_with_data(shape, kind, truth):
    rows, columns = shape
    field = reaction(rows, columns, kind)
    drive = field.constants["drive"]
    p = (0.2, 0.1, 0.04, 0.06)
    source = np.linspace(0, 1, columns)

    def whole(t, y):
        u, v = y.reshape(2, rows, columns)

        def spread(x):
            wide = np.pad(x, ((0, 0), (1, 1)), mode="edge")
            return (np.roll(x, 1, 0) + np.roll(x, -1, 0) + wide[:, :-2] + wide[:, 2:]) - 4 * x

        du = p[0] * spread(u) - u * v**2 + p[2] * (1 - u) + source * drive(t)
        dv = p[1] * spread(v) + u * v**2 - (p[2] + p[3]) * v + np.arange(rows)[:, None] / 100
        return np.concatenate([du.ravel(), dv.ravel()])

    u, v = start(shape, 1), start(shape, 2)
    found = integrate(
        field, times=[0.0, 0.5, 1.0], initial={"u": u, "v": v}, device="cpu", rtol=1e-9,
        atol=1e-11, parameters=dict(zip(field.parameters, p, strict=True)),
    )  # fmt: skip
    assert found["u"].dims == found["v"].dims == ("time", "i", "j")
    y = np.concatenate([u.ravel(), v.ravel()])
    for place, (begin, end) in enumerate(zip(KNOTS[:-1], KNOTS[1:], strict=True)):
        y = truth(whole, y, np.array([begin, end]))[-1]
        if end in (0.5, 1.0):
            row = 1 if end == 0.5 else 2
            state = np.concatenate([found[name].values[row].ravel() for name in "uv"])
            np.testing.assert_allclose(state, y, atol=1e-8, err_msg=f"interval {place}")


@pytest.mark.parametrize("n", [1, 3, 33, 200])
def test_products_with_a_matrix_and_tables_of_places(n, truth):
    field, data = matrix_field(n)

    def whole(t, y):
        return data["A"] @ y - y**3 + data["weights"][data["order"]]

    y = start(n, 3)
    found = integrate(
        field, times=[0.0, 1.0], initial={"x": y}, rtol=1e-9, atol=1e-11, device="cpu"
    )
    np.testing.assert_allclose(found["x"].values[-1], truth(whole, y, [0.0, 1.0])[-1], atol=1e-8)


@pytest.mark.parametrize("how", [{"method": "rk4", "step": 0.01}, {"method": "tsit5"}])
def test_the_small_form_gives_the_same_numbers(how):
    small = ergode.VectorField(lorenz_96_small, list("abcde"), ["F"])
    y, times = start(5, 4, 2.0), np.linspace(0.0, 2.0, 9)
    common = {"times": times, "parameters": {"F": [4.0, 8.0]}, "device": "cpu", **how}
    one = integrate(small, initial=dict(zip("abcde", y, strict=True)), **common)
    other = integrate(ring(5), initial={"x": y}, **common)
    np.testing.assert_allclose(other["x"].values, one["state"].values, rtol=1e-9)
    assert other.attrs["steps_taken"] == one.attrs["steps_taken"]


def test_a_function_in_place_is_the_component(truth):
    field = ring(40, component=None, rhs=lorenz_96_in_place)
    first = np.array([start(40, seed, 3.0) for seed in range(9)])
    common = {"times": [0.0, 0.4, 1.0], "initial": {"x": first}, "parameters": {"F": 8.0},
              "device": "cpu"}  # fmt: skip
    found = integrate(field, **common)
    np.testing.assert_array_equal(found["x"].values, integrate(LORENZ, **common)["x"].values)


@pytest.mark.parametrize("method", EXPLICIT)
def test_orders_of_convergence(method):
    y, end = start(7, 2), 1.0
    least = {"euler": 2_048, "rk4": 64, "dop853": 12}.get(method, 32)
    exact = equal_steps(METHODS["dop853"].tableau, partial(lorenz_96_numpy, forcing=4.0), y, 0.0,
                        end, 400)  # fmt: skip

    def error(count):
        found = integrate(
            ring(7), times=[0.0, end], initial={"x": y}, parameters={"F": 4.0}, method=method,
            step=end / count, device="cpu",
        )  # fmt: skip
        return np.abs(found["x"].values[-1] - exact).max()

    order = np.log2(error(least) / error(2 * least))
    assert abs(order - METHODS[method].order) < 0.15


# ---- the same numbers whoever follows a trajectory


@pytest.mark.parametrize("how", [{"method": "rk4", "step": 0.05}, {"method": "dop853"},
                                 {"method": "tsit5"}, {"method": "rk4"}])  # fmt: skip
def test_lanes_threads_and_counts_change_no_bit(how, monkeypatch):
    first = np.array([start(40, seed, 3.0) for seed in range(65)])
    common = {"times": [0.0, 0.31, 0.5], "parameters": {"F": 8.0}, **how}
    found = integrate(LORENZ, initial={"x": first}, device="cpu:2", **common)["x"].values
    for count in (1, 7, 8, 9, 64):
        one = integrate(LORENZ, initial={"x": first[:count]}, device="cpu:1", **common)["x"].values
        np.testing.assert_array_equal(one, found[:count])
    monkeypatch.setattr(followers, "_CACHE_BYTES", 0)
    alone = integrate(LORENZ, initial={"x": first}, device="cpu:2", **common)["x"].values
    np.testing.assert_array_equal(alone, found)


@pytest.mark.parametrize("how", [{"method": "rk4", "step": 0.05}, {"method": "tsit5"},
                                 {"method": "euler", "step": 0.01}])  # fmt: skip
def test_many_threads_on_one_trajectory_change_no_bit(how):
    field, y = ring(9_000), start(9_000, 6, 3.0)
    common = {"times": [0.0, 0.31, 0.5], "initial": {"x": y}, "parameters": {"F": 8.0}, **how}
    one, three = (
        integrate(field, device=f"cpu:{threads}", **common)["x"].values for threads in (1, 3)
    )
    np.testing.assert_array_equal(one, three)


def test_float32_and_statuses():
    found = integrate(
        LORENZ, times=[0.0, 0.5], initial={"x": start(40, 7, 3.0)}, parameters={"F": 8.0},
        precision="float32", device="cpu", rtol=1e-5,
    )  # fmt: skip
    assert found["x"].dtype == np.float32
    few = {"times": [0.0, 5.0], "initial": {"x": start(40, 7, 3.0)}, "parameters": {"F": [1.0] * 9}}
    with pytest.warns(ergode.FailureWarning, match="9 of 9 trajectories"):
        short = integrate(LORENZ, **few, max_steps=3, device="cpu")
    assert (short["status"] == ergode.Status.TOO_MANY_STEPS).all()
    assert (short["step_count"] + short["rejected_count"] == 3).all()
    assert np.isnan(short["x"].values[:, -1]).all()
    with pytest.warns(ergode.FailureWarning):
        large = integrate(LORENZ, times=[0.0, 50.0], initial={"x": 1e3 + start(40)}, device="cpu",
                          parameters={"F": 8.0}, method="euler", step=1.0)  # fmt: skip
    assert large["status"] == ergode.Status.NOT_FINITE


def test_sweeps_of_parameters_and_arrays():
    first = np.array([start(40, seed, 3.0) for seed in range(2)])
    found = integrate(
        LORENZ, times=[0.0, 0.5], initial={"x": first}, device="cpu",
        parameters=ergode.grid(F=[4.0, 6.0, 8.0]),
    )  # fmt: skip
    assert found["x"].dims == ("F", "trajectory", "time", "i")
    one = integrate(LORENZ, times=[0.0, 0.5], initial={"x": first[1]}, device="cpu",
                    parameters={"F": 6.0})  # fmt: skip
    np.testing.assert_array_equal(found["x"].values[1, 1], one["x"].values)


def test_a_field_travels_with_its_data():
    field = reaction(2, 4)
    again = pickle.loads(pickle.dumps(field))
    assert again.digest == field.digest
    assert again.digest != reaction(2, 4, "cubic").digest
    initial = {"u": np.ones((3, 2, 4)), "v": 0.5}
    parameters = dict.fromkeys(field.parameters, 0.1)
    one, other = (
        integrate(f, times=[0.0, 1.0], initial=initial, parameters=parameters, device="cpu",
                  method="euler", step=0.11)
        for f in (field, again)
    )  # fmt: skip
    np.testing.assert_array_equal(one["u"].values, other["u"].values)


def test_interpolants_go_through_their_points():
    for kind in ("linear", "cubic"):
        table = ergode.interpolant(KNOTS, DRIVE, kind)
        np.testing.assert_allclose([table(t) for t in KNOTS], DRIVE, atol=1e-14)
    assert ergode.interpolant(KNOTS, DRIVE)(0.15) == pytest.approx(0.5)


# ---- what is refused


def crossing(t, y, p):
    return y[0]


def beyond(i, t, y, p):
    return y[i + 1]


def returns_a_pair(i, t, y, p):
    return y[i], 1.0


def sets_half(t, y, dy, p):
    for i in range(len(y) // 2):
        dy[i] = y[i]


def changes_state(i, t, y, p):
    y[i] = 0.0
    return 1.0


def two(i, t, y, p, c):
    return c.table[i]


def whole_table(i, t, y, p, c):
    return c.drive(t)


BAD = {
    "component of 'x' at 39 failed: index 40 is out of bounds": {"component": beyond},
    "returns (y[i], 1.0); expected a number": {"component": returns_a_pair},
    "component of 'x' changes its arguments": {"component": changes_state},
    "component of 'x' is crossing(t, y, p); expected crossing(i, t, y, p)": {"component": crossing},
    "function 'lorenz_96_in_place' returns nothing": {"component": lorenz_96_in_place},
    "rhs does not set dy[20], of variable 'x'": {"rhs": sets_half},
    "component and rhs are both given": {"component": lorenz_96, "rhs": sets_half},
    "function and component are both given": {"component": lorenz_96, "function": lorenz_96_small},
    "variable 'x' has shape 0": {"component": lorenz_96, "variables": ("x", 0)},
    "variables is ['x', 'y']": {"component": lorenz_96, "variables": ["x", "y"]},
    "expected a function for each variable": {"component": lorenz_96, "variables": {"x": 40}},
    "constant 'table'[1] is nan": {"component": two, "constants": {"table": [1.0, np.nan]}},
    "constant 'table' is float64()": {"component": two, "constants": {"table": 1.0}},
    "uses c.table; expected one of c.other": {"component": two, "constants": {"other": [1.0]}},
    "at 2 failed: index 2 is out of bounds": {"component": two, "constants": {"table": [1.0, 2.0]}},
    "'F' is a constant and a variable or parameter": {"component": two, "constants": {"F": [1.0]}},
    "arrays are for variables that are arrays": {
        "function": lorenz_96_small, "variables": list("abcde"), "constants": {"A": [1.0]}
    },
}  # fmt: skip


@pytest.mark.parametrize("said", BAD)
def test_bad_fields_are_refused_in_one_line(said):
    with pytest.raises(ergode.ModelError) as caught:
        ergode.VectorField(**{"variables": ("x", 40), "parameters": ["F"], **BAD[said]})
    assert said in str(caught.value) and "\n" not in str(caught.value)


def follows_the_first(i, t, y, p):
    return y[0] - y[i] + y[-1]


def test_a_component_may_read_an_element_of_a_constant_index():
    assert ergode.VectorField(component=follows_the_first, variables=("x", 3)).size == 3
    with pytest.raises(ergode.ModelError, match=r"uses y\[3\], but .* from 0 to 2"):
        ergode.VectorField(component=lambda i, t, y, p: y[3] - y[i], variables=("x", 3))


REFUSED = {
    "method 'verlet' is not made yet for variables that are arrays; choose 'euler', 'rk4'": {
        "method": "verlet", "step": 0.1
    },
    "history is given, but the vector field has no delays": {"history": crossing},
    "initial of 'x' has shape (39,); expected a number, (40,)": {"initial": {"x": np.ones(39)}},
    "initial of 'x'[3] is inf": {"initial": {"x": np.where(np.arange(40) == 3, np.inf, 1.0)}},
    "initial has no value for 'x'": {"initial": {}},
}  # fmt: skip


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_not_made_is_refused_by_name(said):
    usual = {"times": [0.0, 1.0], "initial": {"x": 1.0}, "parameters": {"F": 8.0}, "device": "cpu"}
    with pytest.raises(ergode.ErgodeError) as caught:
        integrate(LORENZ, **{**usual, **REFUSED[said]})
    assert said in str(caught.value)


def test_other_engines_and_analyses_refuse_arrays():
    said = "takes fields of single variables, and 'x' is an array; .* field_from_equations"
    with pytest.raises(ergode.ModelError, match=said):
        ergode.density.propagate(LORENZ, ergode.Gaussian([1.0], [1.0]), times=[0.0, 1.0])
    with pytest.raises(ergode.ModelError, match=said):
        ergode.trajectories.fit(
            LORENZ, times=[0.0, 1.0], data={"x": [0.0, 1.0]}, initial={"x": 1.0}, estimate=["F"]
        )
    with pytest.raises(ergode.ModelError, match=said):
        ergode.trajectories.poincare_section(
            LORENZ, section="x", initial={"x": 1.0}, duration=1.0, transient=1.0
        )


def test_a_table_that_ends_before_the_run_is_refused():
    field = ergode.VectorField(component=whole_table, variables=("x", 3),
                               constants={"drive": ergode.interpolant(KNOTS, DRIVE)})  # fmt: skip
    with pytest.raises(ergode.ModelError, match="'drive' is a table from 0 to 1, but times are"):
        integrate(field, times=[0.0, 1.5], initial={"x": 0.0}, device="cpu")
    late = reaction(2, 4, drive=([0, 0.6], [1, 0]))
    given = {"initial": {"u": 0.0, "v": 0.0}, "parameters": dict.fromkeys(late.parameters, 0.1),
             "device": "cpu"}  # fmt: skip
    with pytest.raises(ergode.ModelError, match=r"0 to 0\.6, but times are from 0 to 0\.7"):
        integrate(late, times=[0.0, 0.7], **given)
    integrate(late, times=[0.0, 0.1 + 0.2 + 0.3], **given, method="euler", step=0.1)  # one rounding
    for times, values, said in (
        ([0.0, 1.0, 1.0], [0.0] * 3, "times\\[2\\] = 1 follows"), ([0.0], [1.0], "has shape"),
        ([0.0, 1.0], [0.0, np.nan], "values\\[1\\] of an interpolant is nan"),
    ):  # fmt: skip
        with pytest.raises(ergode.ModelError, match=said):
            ergode.interpolant(times, values)


# ---- compilers


@pytest.mark.slow
def test_compile_time_does_not_depend_on_the_size(tmp_path):
    """A new size needs no new kernel."""
    first = integrate(ring(40), times=[0.0, 0.1], initial={"x": start(40)}, parameters={"F": 8.0},
                      device="cpu")  # fmt: skip
    second = integrate(ring(2_000), times=[0.0, 0.1], initial={"x": start(2_000)},
                       parameters={"F": 8.0}, device="cpu")  # fmt: skip
    assert (first["status"] == 0).all()
    assert second.attrs["compile_seconds"] < 0.1


CUDA = {
    "thread": (ring(6), "tsit5", 10, {}),
    "block, all in shared memory": (LORENZ, "tsit5", 100_000, {}),
    "block, stages in shared memory": (reaction(50, 50), "dop853", 1_000, {}),
    "block": (ring(30_000), "rk4", 1_000, {"step": 0.1}),
    "grid": (reaction(100, 100), "tsit5", 1, {}),
    "thread, backward": (reversed_field(ring(6)), "tsit5", 10, {"atol": np.full(6, 1e-9)}),
    "thread, backward in place": (
        reversed_field(ring(6, component=None, rhs=lorenz_96_in_place)),
        "rk4",
        10,
        {"step": 0.1},
    ),
    "grid, stabilised": (reaction(100, 100), "rkc2", 1, {}),
}


@pytest.mark.parametrize("case", CUDA)
def test_cuda_kernels_compile(case):
    field, method, count, options = CUDA[case]
    precision = "float64" if case == "block" else "float32"
    check_ptx(case.partition(",")[0], field, method, count, precision, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", [{"method": "tsit5"}, {"method": "euler", "step": 0.02},
                                 {"method": "rkc2"}, {"method": "rkc2", "step": 0.01}])  # fmt: skip
@pytest.mark.parametrize("case", ["thread", "block", "grid"])
def test_groups_of_cuda_threads_in_several_launches(case, how, monkeypatch):
    """One trajectory, in launches of three steps: the same bits."""
    field, times = reaction(2, 4), np.array([0.0, 0.13, 0.33])
    options = {"step": how.get("step"), "rtol": 1e-5, "atol": np.full(16, 1e-6)}
    given = (0.5 + 0.1 * start((1, 16), 8), np.array([[0.2], [0.1], [0.04], [0.06]]), options)
    at_once, found = (
        outcome_on_host(case, monkeypatch, field, how["method"], times, *given, budget=budget)
        for budget in (None, 3)
    )
    for name, one, other in zip(
        found.arrays()._fields, found.arrays(), at_once.arrays(), strict=True
    ):
        np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", ["thread", "grid", "grid, stabilised"])
def test_cuda_kernels_in_several_launches_compile(case):
    field, method, _, options = CUDA[case]
    with run_with(Running(keeper=Keeper(None, 1.0))):
        check_ptx(case.partition(",")[0], field, method, 1, "float32", **options)


@pytest.mark.parametrize("how", [{"method": "dop853"}, {"method": "euler", "step": 0.11},
                                 {"method": "rkc2", "step": 0.11}])  # fmt: skip
@pytest.mark.parametrize("case", CASES)
def test_groups_of_cuda_threads_compute_the_same(case, how, monkeypatch):
    """Kernels run as Python threads, with barriers that are real."""
    field, count = reaction(2, 4), 1 if case == "grid" else 3
    times, initial = np.array([0.0, 0.13, 0.33]), 0.5 + 0.1 * start((count, 16), 8)
    parameters = np.repeat([[0.2], [0.1], [0.04], [0.06]], count, axis=1)
    atol = 1e-5 * (1.0 + np.arange(16) % 3)  # the dimensions of the field are 2 and 4
    options = {"step": how.get("step"), "rtol": 1e-3, "atol": atol}
    states = states_on_host(
        case, monkeypatch, field, how["method"], times, initial, parameters, options
    )
    each = {"u": atol[:8].reshape(2, 4), "v": atol[8:].reshape(2, 4)}
    tolerances = {} if "step" in how else {"rtol": 1e-3, "atol": each}
    u, v = (one.reshape(count, 2, 4) for one in (initial[:, :8], initial[:, 8:]))
    expected = integrate(
        field, times=times, initial={"u": u, "v": v}, device="cpu", **how, **tolerances,
        parameters=dict(zip(field.parameters, parameters, strict=True)),
    )  # fmt: skip
    for place, name in enumerate("uv"):
        found = states[:, 8 * place : 8 * place + 8].transpose(2, 0, 1)
        np.testing.assert_allclose(
            found, expected[name].values.reshape(count, 3, 8), rtol=1e-10, atol=1e-12
        )
