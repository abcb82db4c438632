"""Many stiff trajectories by a compiled kernel: arrays, and dozens of named variables."""

import numpy as np
import pytest
from cuda_on_host import check_ptx, states_on_host
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from stiff_fields import heat_or_wide, modes

import ergode
from ergode.trajectories import integrate

TIMES = [0.0, 0.03, 0.1]


def mixed(n):
    return ergode.VectorField(component=heat_or_wide, variables=("x", n), parameters=["a", "reach"])


def heat(n, rates, **how):
    """Heat conduction with every rate."""
    usual = {"times": TIMES, "initial": {"x": modes(n, 0.0)}, "method": "rodas5p", "device": "cpu"}
    return integrate(mixed(n), parameters={"a": rates, "reach": 0.0}, **(usual | how))


@pytest.mark.parametrize("n", [2, 33, 120])
def test_diffusion_with_a_known_solution(n):
    """In a band beyond 50 unknowns; one kernel serves all sizes."""
    rates = np.array([0.5, 1.0, 2.0])
    exact = np.array([[modes(n, D * t) for t in TIMES] for D in rates])
    for tolerance in (1e-4, 1e-7):
        found = heat(n, rates, rtol=tolerance, atol=tolerance)
        assert (found["status"] == ergode.Status.DONE).all()
        assert np.abs(found["x"].values - exact).max() < 10 * tolerance
        assert (found["step_count"] < 12 + 8 / tolerance**0.2).all()


def test_order_of_convergence_in_steps_of_one_size():
    """Heat that is not stiff. In shorter steps the order of a linear equation is higher."""
    errors = []
    for count in (4, 8):
        found = heat(33, [0.02, 0.02], times=[0.0, 2.0], step=2.0 / count)
        assert (found["step_count"] == count).all()
        errors.append(np.abs(found["x"].values[:, -1] - modes(33, 0.04)).max())
    assert abs(np.log2(errors[0] / errors[1]) - 5) < 0.15


def test_one_or_many_and_threads():
    """The kernel and the loop of a single trajectory agree within the tolerance."""
    how, rates = {"rtol": 1e-8, "atol": 1e-8}, np.linspace(0.1, 3.0, 7)
    one, three = (heat(33, rates, device=f"cpu:{count}", **how) for count in (1, 3))
    np.testing.assert_array_equal(one["x"], three["x"])
    np.testing.assert_allclose(one["x"][-1:], heat(33, rates[-1:], **how)["x"], atol=3e-8)


@pytest.mark.parametrize("reach", [2, 16, 40])
def test_pivots_in_a_band_and_in_a_full_matrix(reach):
    n, strengths = 90, np.array([40.0, 10.0])
    first = np.random.default_rng(reach).normal(size=n)
    found = integrate(mixed(n), times=[0.0, 0.4, 1.0], initial={"x": first}, device="cpu",
                      rtol=1e-7, atol=1e-8, parameters={"a": strengths, "reach": float(reach)},
                      method="rodas5p")  # fmt: skip
    for a, states in zip(strengths, found["x"].values, strict=True):
        matrix = np.diag(np.full(n, -1e-9)) + np.diag(np.full(n - reach, 0.3), -reach)
        for i in range(n):
            matrix[i, i + 1 if i % 2 == 0 else i - 1] += a if i % 2 == 0 else -a
        exact = [expm(t * matrix) @ first for t in (0.0, 0.4, 1.0)]
        np.testing.assert_allclose(states, exact, atol=5e-6)


def chain(count):
    """A chain of reactions with rates from 1 to 1e5, and a slow way back, as equations."""
    names, equations = [f"s{i}" for i in range(count)], {}
    rates = 10.0 ** (5 * np.random.default_rng(count).random(count - 1))
    for i, name in enumerate(names):
        terms = [] if i == 0 else [f"{rates[i - 1]} * {names[i - 1]}"]
        terms += [f"-{rates[i]} * {name}"] if i < count - 1 else []
        if i == 0:
            terms.append(f"back * {names[-1]} ** 2")
        elif i == count - 1:
            terms.append(f"-back * {name} ** 2")
        equations[name] = " + ".join(terms)
    return ergode.field_from_equations(equations), names


@pytest.mark.parametrize(("count", "method"), [
    (1, "rodas5p"), (4, "bdf"), pytest.param(4, "rodas5p", marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_thirty_named_variables(count, method):
    field, names = chain(30)
    back = np.linspace(0.5, 2.0, count)
    found = integrate(field, times=[0.0, 1e-3, 1.0, 20.0], device="cpu", method=method,
                      initial={**dict.fromkeys(names, 0.0), "s0": 1.0}, rtol=1e-6, atol=1e-10,
                      parameters={"back": back})  # fmt: skip
    assert found["state"].dims[-1] == "variable" and (found["step_count"] < 300).all()
    np.testing.assert_allclose(found["state"].sum("variable"), 1.0, rtol=1e-6)
    for b, states in zip(back, found["state"].values, strict=True):
        exact = solve_ivp(lambda t, y, b=b: field.function(t, tuple(y), (b,)), (0, 20),
                          np.eye(30)[0], "Radau", [0.0, 1e-3, 1.0, 20.0], rtol=1e-9,
                          atol=1e-13).y.T  # fmt: skip
        np.testing.assert_allclose(states, exact, rtol=1e-4, atol=1e-8)


def test_radau_is_for_few_named_variables():
    field, names = chain(17)
    with pytest.raises(ergode.PlanError, match="for up to 16 variables; choose 'rodas5p' or 'bdf'"):
        integrate(field, times=[0.0, 1.0], initial=dict.fromkeys(names, 1.0), device="cpu",
                  parameters={"back": 1.0}, method="radau5")  # fmt: skip
    with pytest.raises(ergode.PlanError, match="not made yet for variables that are arrays"):
        heat(33, 1.0, method="radau5")


def relaxed(i, t, y, p):
    n = len(y)
    return p[0] * (y[i - 1] - 2 * y[i] + y[(i + 1) % n]) - y[i] * y[i] * y[i]


def relaxed_in_place(t, y, dy, p):
    for i in range(len(y)):
        dy[i] = p[0] * (y[i - 1] - 2 * y[i] + y[(i + 1) % len(y)]) - y[i] * y[i] * y[i]


FIELDS = {
    "block": ergode.VectorField(component=relaxed, variables=("x", 5), parameters=["D"]),
    "thread": ergode.VectorField(rhs=relaxed_in_place, variables=("x", 5), parameters=["D"]),
}


@pytest.mark.parametrize(("case", "method"), [
    ("thread", "rosenbrock23"), ("block", "rosenbrock23"), ("thread", "bdf"),
    ("block, all in shared memory", "rosenbrock23"), ("block", "bdf"),
])  # fmt: skip
def test_the_text_for_a_gpu_on_threads_of_a_host(case, method, monkeypatch):
    times = np.array([0.0, 0.004, 0.01])
    initial, rates = np.random.default_rng(1).normal(size=(2, 5)), np.array([[50.0, 200.0]])
    group = case.partition(",")[0]
    tolerance = 1e-3 if method == "bdf" else 0.1
    how = {"rtol": tolerance, "atol": tolerance}
    found = states_on_host(case, monkeypatch, FIELDS[group], method, times, initial, rates, how)
    for start, D, states in zip(initial, rates[0], np.moveaxis(found, -1, 0), strict=True):
        exact = solve_ivp(
            lambda t, y, D=D: D * (np.roll(y, 1) - 2 * y + np.roll(y, -1)) - y**3, (0, 0.01), start,
            "Radau", times, rtol=1e-9, atol=1e-10,
        ).y.T  # fmt: skip
        np.testing.assert_allclose(states, exact, atol=2e-2)
    if group == "block":
        thread = states_on_host("thread", monkeypatch, FIELDS["thread"], method, times, initial,
                                rates, how)  # fmt: skip
        np.testing.assert_allclose(found, thread, atol=1e-12)


@pytest.mark.parametrize(("group", "method", "precision"), [
    ("block", "rodas5p", "float32"), ("block", "bdf", "float64"),
    pytest.param("thread", "rodas5p", "float64", marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_ptx(group, method, precision):
    field = FIELDS[group] if group == "thread" else ergode.VectorField(
        component=relaxed, variables=("x", 12), parameters=["D"]
    )  # fmt: skip
    check_ptx(group, field, method, 100, precision)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["rodas5p", "bdf"])
@pytest.mark.parametrize("n", [3, 33, 120])
def test_cuda_agrees_with_cpu(n, method):
    rates = np.linspace(0.5, 2.0, 200)
    cpu, gpu = (
        heat(n, rates, rtol=1e-7, atol=1e-7, method=method, device=device)["x"]
        for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(gpu, cpu, atol=1e-7)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["rodas5p", "bdf"])
def test_thirty_named_variables_on_cuda(method):
    field, names = chain(30)
    cpu, gpu = (
        integrate(field, times=[0.0, 1e-3, 1.0, 20.0], device=device, method=method,
                  initial={**dict.fromkeys(names, 0.0), "s0": 1.0}, rtol=1e-6, atol=1e-10,
                  parameters={"back": np.linspace(0.5, 2.0, 500)})["state"]
        for device in ("cpu", "cuda")
    )  # fmt: skip
    np.testing.assert_allclose(gpu, cpu, rtol=1e-4, atol=1e-8)


@pytest.mark.cuda
def test_what_cuda_is_refused():
    said = "of more than 256 unknowns, here 300, is for a CPU; choose 'rodas5p-krylov'"
    with pytest.raises(ergode.PlanError, match=said):
        heat(300, 1.0, device="cuda")
    field, names = chain(300)
    with pytest.raises(ergode.PlanError, match="here 300, is for a CPU; choose 'tsit5'"):
        integrate(field, times=[0.0, 1.0], initial=dict.fromkeys(names, 1.0), device="cuda",
                  parameters={"back": 1.0}, method="rodas5p")  # fmt: skip
