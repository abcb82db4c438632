"""Branches of equilibria against exact results: folds, Hopf points, branch points."""

import numpy as np
import pytest
from scipy.optimize import brentq

import ergode
from ergode.trajectories import branch


def pitchfork_with_a_case(t, y, p):
    if y[0] > 1e9:
        return (0.0,)
    return (p[0] * y[0] - y[0] ** 3,)


def normal_form_with_a_case(t, y, p):
    square = y[0] ** 2 + y[1] ** 2
    if square > 1e9:
        square = 0.0
    return (
        p[0] * y[0] - 2 * y[1] - 1.5 * y[0] * square, 2 * y[0] + p[0] * y[1] - 1.5 * y[1] * square
    )  # fmt: skip


def test_a_fold_is_passed_and_located(special, names):
    field = ergode.field_from_equations({"x": "mu + x**2"})
    found = branch(field, start={"x": -1}, parameters={"mu": -1}, vary={"mu": (-2, 1)})
    assert names(found) == ["bound-1", "fold-1", "bound-2"]
    fold = special(found, "fold-1")
    assert abs(float(fold["mu"])) < 1e-14
    assert abs(float(fold["state"][0])) < 1e-9
    np.testing.assert_allclose(found["state"].values[:, 0] ** 2, -found["mu"], atol=1e-14)
    np.testing.assert_allclose(
        found["eigenvalue"].values[:, 0, 0], 2 * found["state"].values[:, 0], atol=1e-14
    )
    assert (found["stable"] == (found["state"][:, 0] < 0))[found["special"] == ""].all()
    assert abs(special(found, "bound-1")["mu"] + 2) < 1e-12
    assert found.attrs["first_end"] == found.attrs["last_end"] == "A parameter reached its bound."


def test_a_start_at_a_fold_and_one_far_away_give_the_branch(special, names):
    field = ergode.field_from_equations({"x": "mu + x**2"})
    for x, mu in ((0.0, 0.0), (-1e6, -1.0)):
        found = branch(field, start={"x": x}, parameters={"mu": mu}, vary={"mu": (-2, 1)})
        assert names(found) == ["bound-1", "fold-1", "bound-2"]
        assert sorted(found["state"].values[[0, -1], 0]) == pytest.approx([-(2**0.5), 2**0.5])
    again = branch(field, start=found, at="fold-1", vary={"mu": (-2, 1)})
    assert names(again) == ["bound-1", "fold-1", "bound-2"]
    assert again.sizes["point"] < 2 * found.sizes["point"]


def test_a_parameter_without_effect_gives_a_straight_branch():
    field = ergode.field_from_equations({"x": "a - x + 0 * b"}, ["a", "b"])
    found = branch(field, start={"x": 0}, parameters={"a": 2, "b": 0}, vary={"b": (-3, 3)})
    np.testing.assert_allclose(found["state"], 2, rtol=1e-15)
    assert float(found["a"]) == 2
    np.testing.assert_allclose(found["b"].values[[0, -1]], [-3, 3], rtol=1e-12)


@pytest.mark.parametrize("exponent", [-40, -3, 0, 40])
def test_the_branches_of_a_pitchfork_in_any_unit(exponent, special, names):
    size = 2.0**exponent
    field = ergode.field_from_equations({"x": f"mu * x - x**3 * {size**-2!r}"})
    rest = branch(field, start={"x": 0}, parameters={"mu": -1}, vary={"mu": (-2, 1)})
    assert names(rest) == ["bound-1", "branch-1", "bound-2"]
    assert abs(float(special(rest, "branch-1")["mu"])) < 1e-12
    other = branch(field, start=rest, at="branch-1", vary={"mu": (-2, 1)})
    assert names(other) == ["bound-1", "branch-1", "bound-2"]
    states = other["state"].values[:, 0] / size
    np.testing.assert_allclose(states**2, other["mu"], atol=1e-12)
    assert sorted(states[[0, -1]]) == pytest.approx([-1, 1])
    assert other["stable"].all()
    assert other.sizes["point"] == 51


def test_the_other_branch_of_a_transcritical_point(special):
    field = ergode.field_from_equations({"x": "mu * x - x**2 - 0.3 * x * y", "y": "x - y"})
    rest = branch(field, start={"x": 0, "y": 0}, parameters={"mu": -1}, vary={"mu": (-2, 1)})
    other = branch(field, start=rest, at="branch-1", vary={"mu": (-2, 1)})
    np.testing.assert_allclose(other["state"].values[:, 0] * 1.3, other["mu"], atol=1e-12)
    assert other["mu"].values.min() == pytest.approx(-2)
    assert other["mu"].values.max() == pytest.approx(1)


def test_a_closed_branch_ends_where_it_began(special, names):
    field = ergode.field_from_equations({"x": "mu**2 + (x - 5)**2 - 1"})
    found = branch(field, start={"x": 4}, parameters={"mu": 0}, vary={"mu": (-2, 2)})
    assert found.attrs["last_end"] == "The branch is a closed curve."
    assert names(found) == ["fold-1", "fold-2"]
    np.testing.assert_allclose(special(found, "fold-1")["mu"], 1, rtol=1e-12)
    np.testing.assert_allclose(special(found, "fold-2")["mu"], -1, rtol=1e-12)


def test_lorenz(special):
    """Subcritical Hopf points at r = sigma (sigma + b + 3) / (sigma - b - 1)."""
    field = ergode.fields.lorenz63()
    parameters = {"sigma": 10, "rho": 0.5, "beta": 8 / 3}
    rest = branch(
        field, start={"x": 0, "y": 0, "z": 0}, parameters=parameters, vary={"rho": (0, 30)}
    )
    assert float(special(rest, "branch-1")["rho"]) == pytest.approx(1, rel=1e-12)
    other = branch(field, start=rest, at="branch-1", vary={"rho": (0, 30)})
    for name in ("hopf-1", "hopf-2"):
        hopf = special(other, name)
        assert float(hopf["rho"]) == pytest.approx(470 / 19, rel=1e-12)
        x = float(hopf["state"].sel(variable="x"))
        assert abs(x) == pytest.approx((8 / 3 * (470 / 19 - 1)) ** 0.5, rel=1e-10)
        assert float(hopf["frequency"]) == pytest.approx((8 / 3 * (10 + 470 / 19)) ** 0.5)
        assert float(hopf["lyapunov_coefficient"]) > 0


@pytest.mark.parametrize("a", [0.5, 1.0, 1.7])
def test_brusselator(a, special):
    """Hopf point at B = 1 + A^2 with frequency A."""
    field = ergode.field_from_equations(
        {"y": "B * x - x**2 * y", "x": "A - (B + 1) * x + x**2 * y"}
    )
    found = branch(
        field, start={"x": a, "y": 1 / a}, parameters={"A": a, "B": 1}, vary={"B": (0.1, 5)}
    )
    hopf = special(found, "hopf-1")
    assert float(hopf["B"]) == pytest.approx(1 + a**2, rel=1e-12)
    assert float(hopf["frequency"]) == pytest.approx(a, rel=1e-10)
    assert float(hopf["lyapunov_coefficient"]) < 0
    assert [str(one) for one in hopf["variable"].values] == ["y", "x"]


def test_first_lyapunov_coefficient_of_the_normal_form(oscillator, special):
    """2 Re(c) / w for z' = (mu + i w) z + c z |z|^2 in x = Re z, y = Im z, where |q| = 1."""
    start = {"x": 0, "y": 0}
    for cubic in (-1.5, 0.25):
        found = branch(
            oscillator(1.0, cubic), start=start, parameters={"mu": -1}, vary={"mu": (-1, 1)}
        )
        hopf = special(found, "hopf-1")
        assert float(hopf["lyapunov_coefficient"]) == pytest.approx(cubic, rel=1e-12)
    field = ergode.VectorField(normal_form_with_a_case, ["x", "y"], ["mu"])
    found = branch(field, start=start, parameters={"mu": -1}, vary={"mu": (-1, 1)})
    assert found.attrs["derivatives"] == "differences"
    hopf = special(found, "hopf-1")
    assert abs(float(hopf["mu"])) < 1e-10
    assert float(hopf["lyapunov_coefficient"]) == pytest.approx(-1.5, rel=1e-5)


def test_a_function_without_symbolic_derivatives_branches_too(special):
    field = ergode.VectorField(pitchfork_with_a_case, ["x"], ["mu"])
    rest = branch(field, start={"x": 0}, parameters={"mu": -1}, vary={"mu": (-2, 1)})
    assert abs(float(special(rest, "branch-1")["mu"])) < 1e-9
    other = branch(field, start=rest, at="branch-1", vary={"mu": (-2, 1)})
    np.testing.assert_allclose(other["state"].values[:, 0] ** 2, other["mu"], atol=1e-9)


def test_the_hopf_points_of_the_squid_axon(rest_of_the_axon, special):
    """The currents at which the linear equations lose and regain stability.

    B. D. Hassard, J. Theor. Biol. 71, 401 (1978), and J. Rinzel, R. N. Miller, Math. Biosci. 49, 27
    (1980), give 9.78 and 154.5 uA/cm2. Here the same currents come from the eigenvalues of the
    Jacobian by differences, at the equilibrium that the gates and the voltage define.
    """

    def gates(v):
        a = np.array([
            (25 - v) / 10 / np.expm1((25 - v) / 10), 0.07 * np.exp(-v / 20),
            (10 - v) / 100 / np.expm1((10 - v) / 10),
        ])  # fmt: skip
        b = np.array(
            [4 * np.exp(-v / 18), 1 / (np.exp((30 - v) / 10) + 1), 0.125 * np.exp(-v / 80)]
        )
        return a, b

    def current(v, m, h, n):
        return 120 * m**3 * h * (v - 115) + 36 * n**4 * (v + 12) + 0.3 * (v - 10.599)

    def slopes(y):
        a, b = gates(y[0])
        return np.append(-current(*y), a * (1 - y[1:]) - b * y[1:])

    def growth(v):
        a, b = gates(v)
        y = np.append(v, a / (a + b))
        columns = []
        for k in range(4):
            step = 1e-4 * max(abs(y[k]), 0.1) * np.eye(4)[k]
            columns.append(
                (8 * (slopes(y + step) - slopes(y - step)) - slopes(y + 2 * step)
                 + slopes(y - 2 * step)) / (12 * step[k])
            )  # fmt: skip
        roots = np.linalg.eigvals(np.array(columns).T)
        return roots[roots.imag > 0].real.max()

    for name, low, high, published in (("hopf-1", 4, 7, 9.78), ("hopf-2", 20, 23, 154.5)):
        v = brentq(growth, low, high, xtol=1e-12)
        a, b = gates(v)
        found = float(special(rest_of_the_axon, name)["I"])
        assert found == pytest.approx(current(v, *(a / (a + b))), rel=1e-8)
        assert found == pytest.approx(published, abs=0.05)
    signs = [
        float(special(rest_of_the_axon, name)["lyapunov_coefficient"]) > 0
        for name in ("hopf-1", "hopf-2")
    ]
    assert signs == [True, False]


def test_the_last_state_of_a_simulation_is_a_start():
    field = ergode.field_from_equations({"x": "mu - x**3"})
    run = ergode.trajectories.integrate(
        field, times=[0, 3], initial={"x": 5}, parameters={"mu": 1}, device="cpu"
    )
    found = branch(field, start=run, parameters={"mu": 1}, vary={"mu": (0.5, 8)})
    np.testing.assert_allclose(found["state"].values[:, 0] ** 3, found["mu"], rtol=1e-12)


def test_a_branch_is_saved_and_begins_another_one(tmp_path, special):
    field = ergode.fields.lorenz63()
    found = branch(
        field, start={"x": 5, "y": 5, "z": 10}, parameters={"sigma": 10, "rho": 15, "beta": 8 / 3},
        vary={"rho": (2, 30)},
    )  # fmt: skip
    again = ergode.open_dataset(ergode.save(found, tmp_path / "branch.nc"))
    options = {"at": "hopf-1", "kind": "cycles", "vary": {"rho": (20, 30)}, "max_points": 5}
    first, second = (branch(field, start=one, **options) for one in (found, again))
    np.testing.assert_array_equal(first["period"], second["period"])


def random_field(rng):
    """One to four variables, with random linear and quadratic terms, and cubes that bind them."""
    count = int(rng.integers(1, 5))
    names = [f"x{k}" for k in range(count)]
    equations = {}
    for name in names:
        terms = [f"{rng.normal():.3f} * mu", f"{rng.normal():.3f}", f"-{name}**3"]
        terms += [f"{1.5 * rng.normal():.3f} * {other}" for other in names]
        for _ in range(2):
            a, b = rng.integers(0, count, 2)
            terms.append(f"{rng.normal():.3f} * {names[a]} * {names[b]}")
        equations[name] = " + ".join(terms)
    return ergode.field_from_equations(equations)


@pytest.mark.parametrize("seeds", [range(4), range(4, 100)])
def test_special_points_of_random_fields_explain_every_change_of_stability(seeds):
    """Between ordinary points, folds change the number of unstable directions by one, Hopf points
    by two; and at all of them the slopes vanish."""
    changes = {"fold": 1, "branch": 1, "hopf": 2}
    followed = 0
    for seed in seeds:
        field = random_field(np.random.default_rng(seed))
        start = dict.fromkeys(field.variables, 0.1)
        try:
            found = branch(field, start=start, parameters={"mu": 0}, vary={"mu": (-3, 3)})
        except ergode.PlanError:  # there may be no equilibrium at the start
            continue
        followed += 1
        last, between = None, []
        for k in range(found.sizes["point"]):
            kind = str(found["special"].values[k]).split("-")[0]
            if kind in changes:
                between.append(changes[kind])
                continue
            count = int(found["unstable_count"].values[k])
            if last is not None:
                change = abs(count - last)
                assert change <= sum(between)
                assert (change - sum(between)) % 2 == 0
            last, between = count, []
        for k in range(0, found.sizes["point"], 10):
            state = tuple(map(float, found["state"].values[k]))
            slopes = field.function(0.0, state, (float(found["mu"][k]),))
            np.testing.assert_allclose(slopes, 0, atol=1e-9)
    assert followed > len(seeds) / 2
