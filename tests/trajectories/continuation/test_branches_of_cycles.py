"""Branches of cycles: published values, exact cycles, and cycles found by time integration."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import ergode
from ergode.trajectories import branch


def rossler_with_a_case(t, y, p):
    z = y[2]
    if z > 1e9:
        z = 1e9
    return -y[1] - z, y[0] + 0.2 * y[1], 0.2 + z * (y[0] - p[0])


@pytest.fixture(scope="module")
def rossler():
    return ergode.field_from_equations({"x": "-y - z", "y": "x + a * y", "z": "b + z * (x - c)"})


@pytest.mark.parametrize("exponent", [-40, 0, 40])
def test_the_cycles_of_the_normal_form_are_exact_in_any_unit(oscillator, exponent, special):
    size = 2.0**exponent
    field = oscillator(size)
    rest = branch(field, start={"x": 0, "y": 0}, parameters={"mu": -1}, vary={"mu": (-1, 1)})
    found = branch(field, start=rest, at="hopf-1", kind="cycles", vary={"mu": (-1, 1)})
    np.testing.assert_allclose(found["highest"] / size, np.sqrt(found["mu"] / 1.5)
                               .expand_dims(variable=2, axis=1), atol=2e-9)  # fmt: skip
    np.testing.assert_allclose(found["lowest"], -found["highest"], rtol=1e-6, atol=1e-9 * size)
    np.testing.assert_allclose(found["period"], np.pi, rtol=1e-10)
    other = found["multiplier"].values[1:, 1, 0]
    np.testing.assert_allclose(other, np.exp(-2 * np.pi * found["mu"].values[1:]), rtol=1e-6)
    np.testing.assert_allclose(found["multiplier"].values[1:, 0, 0], 1, rtol=1e-7)
    assert found["stable"].all()
    assert found.sizes["point"] == 40


KNEES = [6.2645213, 7.8465471, 7.9219855]
"""Folds of the cycles of the squid axon [uA/cm2]. J. Rinzel, R. N. Miller, Math. Biosci. 49, 27
(1980), draw them at 6.26, 7.85 and 7.92."""


def test_cycles_of_the_squid_axon(hodgkin_huxley, rest_of_the_axon, special, names, cycle_of):
    up = branch(
        hodgkin_huxley, start=rest_of_the_axon, at="hopf-1", kind="cycles", vary={"I": (5, 12)}
    )
    folds = sorted(float(special(up, f"fold-{k}")["I"]) for k in (1, 2, 3))
    np.testing.assert_allclose(folds, KNEES, rtol=1e-7)
    assert names(up)[0] == "hopf-1"
    assert not up["stable"].values[1]
    assert up["stable"].values[-1]
    # A stable cycle, by time integration.
    k = int(np.flatnonzero(up["stable"] & (up["I"] > 9))[0])
    current, period = float(up["I"][k]), float(up["period"][k])
    run = cycle_of(hodgkin_huxley, {"V": 30, "m": 0.1, "h": 0.4, "n": 0.4}, {"I": current}, period)
    again = branch(
        hodgkin_huxley, start=run, kind="cycles", parameters={"I": current},
        vary={"I": (current - 1, current + 1)}, max_points=1,
    )  # fmt: skip
    start = again.isel(point=int(np.abs(again["I"].values - current).argmin()))
    assert float(start["period"]) == pytest.approx(period, rel=1e-8)
    np.testing.assert_allclose(start["highest"], up["highest"][k], rtol=1e-6)


def test_cycles_of_the_squid_axon_from_both_ends(hodgkin_huxley, rest_of_the_axon, special, names):
    for begin, end in (("hopf-1", "hopf-2"), ("hopf-2", "hopf-1")):
        one = branch(
            hodgkin_huxley, start=rest_of_the_axon, at=begin, kind="cycles", vary={"I": (0, 180)}
        )
        assert one.attrs["last_end"] == "The cycles shrank to an equilibrium, at a Hopf point."
        kinds = sorted(name.split("-")[0] for name in names(one))
        assert kinds == ["doubling"] * 2 + ["fold"] * 3 + ["hopf"] * 2
        exact = float(special(rest_of_the_axon, end)["I"])
        assert float(one["I"][-1]) == pytest.approx(exact, rel=1e-10)
        folds = sorted(float(special(one, f"fold-{k}")["I"]) for k in (1, 2, 3))
        np.testing.assert_allclose(folds, KNEES, rtol=1e-8)


def test_lorenz_cycles_end_at_a_homoclinic_orbit(special):
    """r = 13.926557407 (C. Sparrow, "The Lorenz equations" (1982), gives 13.926)."""
    field = ergode.fields.lorenz63()
    rest = branch(
        field, start={"x": 5, "y": 5, "z": 10}, parameters={"sigma": 10, "rho": 15, "beta": 8 / 3},
        vary={"rho": (2, 30)},
    )  # fmt: skip
    options = {"at": "hopf-1", "kind": "cycles", "vary": {"rho": (2, 30)}}
    found = branch(field, start=rest, **options)
    assert found.attrs["last_end"].startswith("The period grows without bound at this parameter")
    end = special(found, "long-period-1")
    assert float(end["rho"]) == pytest.approx(13.926557407, abs=1e-8)
    assert float(end["period"]) > 7 * float(found["period"][0])
    again = branch(field, start=found, **options | {"at": "long-period-1"}, max_points=3)
    assert not any(name.startswith("fold") for name in again["special"].values)
    short = branch(field, start=rest, longest_period=2.5, **options)
    assert short.attrs["last_end"] == "The period exceeded longest_period."
    assert float(short["period"][-1]) == pytest.approx(2.5, rel=1e-9)
    assert not found["stable"].any()
    assert (np.diff(found["period"]) > 0).all()


def test_a_canard_explosion_is_no_homoclinic_orbit(names):
    """Van der Pol's equation with a slow variable: the cycles grow at one value of a."""
    field = ergode.field_from_equations({"x": "(y - x**3 / 3 + x) / 0.04", "y": "a - x"})
    vary = {"a": (-1.2, 1.2)}
    rest = branch(field, start={"x": 1.2, "y": -0.6}, parameters={"a": 1.2}, vary=vary)
    found = branch(field, start=rest, at="hopf-2", kind="cycles", vary=vary, max_step=0.06)
    assert found.attrs["last_end"] == "The cycles shrank to an equilibrium, at a Hopf point."
    assert names(found) == ["hopf-1", "hopf-2"]
    assert float(found["a"][-1]) == pytest.approx(-1, rel=1e-9)
    assert found["stable"].all()
    steep = found["highest"].values[:, 0][np.abs(found["a"].values - 0.994838) < 2e-6]
    assert np.ptp(steep) > 0.4


def test_a_saddle_node_on_a_circle():
    """Angle' = mu - cos(angle) on the circle: the period is 2 pi / sqrt(mu^2 - 1)."""
    turn = "(mu - x / sqrt(x**2 + y**2))"
    field = ergode.field_from_equations({
        "x": f"x * (1 - x**2 - y**2) - y * {turn}", "y": f"y * (1 - x**2 - y**2) + x * {turn}",
    })  # fmt: skip
    run = ergode.trajectories.integrate(
        field, times=[0, *np.linspace(40, 50, 400)], initial={"x": 1, "y": 0},
        parameters={"mu": 2}, rtol=1e-9, atol=1e-9, device="cpu",
    )  # fmt: skip
    found = branch(
        field, start=run, kind="cycles", parameters={"mu": 2}, vary={"mu": (0.5, 3)},
        longest_period=60, max_step=0.06,
    )  # fmt: skip
    assert found.attrs["first_end"] == "The period exceeded longest_period."
    assert float(found["period"][0]) == pytest.approx(60, rel=1e-9)
    exact = 2 * np.pi / np.sqrt(found["mu"] ** 2 - 1)
    np.testing.assert_allclose(found["period"], exact, rtol=1e-7)
    np.testing.assert_allclose(found["highest"], 1, rtol=1e-5)
    assert found["stable"].all()
    with pytest.raises(ergode.PlanError, match="longest_period is 3, and the period at the start"):
        branch(field, start=found, at=3, kind="cycles", vary={"mu": (0.5, 3)}, longest_period=3)


def test_period_doublings_of_rossler(rossler, cycle_of, special, names):
    """Doublings for a = b = 0.2, and the multipliers against the variational equation."""
    parameters = {"a": 0.2, "b": 0.2, "c": 2.5}
    run = cycle_of(rossler, {"x": 1, "y": 1, "z": 0}, parameters, 5.8, 500)
    options = {"kind": "cycles", "vary": {"c": (2.4, 4.2)}}
    single = branch(rossler, start=run, parameters=parameters, **options)
    assert names(single) == ["bound-1", "doubling-1", "bound-2"]
    double = branch(rossler, start=single, at="doubling-1", **options)
    fourfold = branch(rossler, start=double, at="doubling-1", **options)
    doublings = [float(special(one, "doubling-1")["c"]) for one in (single, double, fourfold)]
    np.testing.assert_allclose(doublings, [2.832445, 3.837358, 4.124215], atol=1e-6)
    period = float(special(single, "doubling-1")["period"])
    assert float(double["period"][0]) == pytest.approx(2 * period, rel=1e-10)

    k = int(np.abs(single["c"].values - 4.0).argmin())
    c, period = float(single["c"][k]), float(single["period"][k])

    def extended(t, y):
        x, _, z = y[:3]
        jacobian = np.array([[0, -1, -1], [1, 0.2, 0], [z, 0, x - c]])
        slopes = [-y[1] - z, x + 0.2 * y[1], 0.2 + z * (x - c)]
        return np.concatenate([slopes, (jacobian @ y[3:].reshape(3, 3)).ravel()])

    first = np.concatenate([single["cycle"].values[k, 0], np.eye(3).ravel()])
    end = solve_ivp(extended, (0, period), first, "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(end[:3], first[:3], atol=1e-6)
    monodromy = np.linalg.eigvals(end[3:].reshape(3, 3))
    monodromy = np.sort(monodromy.real)
    np.testing.assert_allclose(
        np.sort(single["multiplier"].values[k, :, 0]), monodromy, rtol=1e-6, atol=1e-7
    )


def test_a_function_without_symbolic_derivatives(rossler, cycle_of, special):
    field = ergode.VectorField(rossler_with_a_case, ["x", "y", "z"], ["c"])
    run = cycle_of(field, {"x": 1, "y": 1, "z": 0}, {"c": 2.8}, 5.8, 500)
    found = branch(
        field, start=run, kind="cycles", parameters={"c": 2.8}, vary={"c": (2.79, 2.84)},
        max_step=0.3,
    )  # fmt: skip
    assert found.attrs["derivatives"] == "differences"
    assert float(special(found, "doubling-1")["c"]) == pytest.approx(2.832445, abs=1e-6)


def test_a_torus_bifurcation(cycle_of, special):
    """W. F. Langford's system: the cycle z = b, and where its spiral in (radius, z) turns."""
    field = ergode.field_from_equations({
        "x": "(z - b) * x - d * y", "y": "d * x + (z - b) * y",
        "z": "c + a * z - z**3 / 3 - (x**2 + y**2) * (1 + e * z)",
    })  # fmt: skip
    b, c, d, e = 0.7, 0.6, 3.5, 0.25
    parameters = {"a": 0.5, "b": b, "c": c, "d": d, "e": e}
    run = cycle_of(field, {"x": 0.8, "y": 0, "z": 0.7}, parameters, 1.8)
    found = branch(field, start=run, kind="cycles", parameters=parameters, vary={"a": (0.3, 1.2)})

    def square(a):
        return (c + a * b - b**3 / 3) / (1 + e * b)

    exact = brentq(lambda a: a - b**2 - e * square(a), 0, 2, xtol=1e-14)
    torus = special(found, "torus-1")
    assert float(torus["a"]) == pytest.approx(exact, abs=1e-9)
    np.testing.assert_allclose(found["period"], 2 * np.pi / d, rtol=1e-9)
    radius = found["highest"].sel(variable="x")
    np.testing.assert_allclose(radius**2, square(found["a"]), rtol=1e-7)
    angle = np.arctan2(*torus["multiplier"].values[0, ::-1])
    turn = (2 * square(exact) * (1 + e * b)) ** 0.5 * 2 * np.pi / d
    assert np.cos(angle) == pytest.approx(np.cos(turn), abs=1e-7)
    assert (found["stable"] == (found["a"] < exact))[found["special"] == ""].all()
    # The curve of tori goes on at the same a, to where the angle is pi.
    tori = branch(
        field, start=found, at="torus-1", kind="tori", vary={"a": (0, 1), "d": (0.5, 5)},
        max_step=0.3,
    )  # fmt: skip
    np.testing.assert_allclose(tori["a"], exact, atol=1e-9)
    turn = (2 * square(exact) * (1 + e * b)) ** 0.5 * 2 * np.pi / tori["d"]
    np.testing.assert_allclose(tori["angle"], turn, rtol=1e-9)
    for part in (2, 3):
        at = special(tori, f"1:{part}-resonance-1")
        assert float(at["angle"]) == pytest.approx(2 * np.pi / part, abs=1e-9)


def test_symmetric_cycles_lose_their_symmetry(special, names):
    """A branch point of cycles: y' = (mu - 1) y - y^3 crosses the cycle of the normal form."""
    field = ergode.field_from_equations({
        "x": "mu * x - 2 * y - x * (x**2 + y**2)", "y": "2 * x + mu * y - y * (x**2 + y**2)",
        "z": "(x**2 + y**2 - 0.5) * z - z**3",
    })  # fmt: skip
    rest = branch(
        field, start={"x": 0, "y": 0, "z": 0}, parameters={"mu": -1}, vary={"mu": (-1, 1)}
    )
    flat = branch(field, start=rest, at="hopf-1", kind="cycles", vary={"mu": (-1, 1)})
    assert float(special(flat, "branch-1")["mu"]) == pytest.approx(0.5, abs=1e-8)
    other = branch(field, start=flat, at="branch-1", kind="cycles", vary={"mu": (-1, 1)})
    assert names(other) == ["bound-1", "branch-1", "bound-2"]
    height = other["highest"].sel(variable="z")
    np.testing.assert_allclose(height**2, other["mu"] - 0.5, atol=1e-8)
    assert sorted(height.values[[0, -1]]) == pytest.approx([-(0.5**0.5), 0.5**0.5])


def test_a_cycle_is_continued_in_another_parameter(special):
    field = ergode.field_from_equations(
        {"x": "A - (B + 1) * x + x**2 * y", "y": "B * x - x**2 * y"}
    )
    rest = branch(field, start={"x": 1, "y": 1}, parameters={"A": 1, "B": 1}, vary={"B": (0.5, 3)})
    first = branch(field, start=rest, at="hopf-1", kind="cycles", vary={"B": (0.5, 3)})
    found = branch(
        field, start=first, at=10, kind="cycles", vary={"A": (0.8, 2)}, longest_period=30
    )
    b = float(first["B"][10])
    assert float(found["B"]) == b
    end = special(found, "hopf-1")
    assert float(end["A"]) == pytest.approx((b - 1) ** 0.5, rel=1e-10)
    place = int(np.abs(found["arclength"].values).argmin())
    assert float(found["period"][place]) == pytest.approx(float(first["period"][10]), rel=1e-9)


@pytest.mark.parametrize("number", range(6))
def test_cycles_of_random_fields_against_time_integration(number, cycle_of):
    """A ring of genes that repress each other: the stable cycle, found by both."""
    rng = np.random.default_rng(100 + number)
    size = int(rng.choice([3, 5]))
    names = [f"x{k}" for k in range(size)]
    rates = rng.uniform(0.8, 1.25, size).tolist()
    powers = rng.integers(10, 14, size)
    order = rng.permutation(size)
    equations = {
        names[k]: f"{rates[k]!r} * (gain / (1 + {names[k - 1]}**{powers[k]}) - {names[k]})"
        for k in order
    }
    field = ergode.field_from_equations(equations)
    gain = float(rng.uniform(2.0, 3.0))
    initial = {name: float(rng.uniform(0.2, 1.5)) for name in field.variables}
    run = cycle_of(field, initial, {"gain": gain}, 6.0 * size / 3, 400)
    found = branch(
        field, start=run, kind="cycles", parameters={"gain": gain},
        vary={"gain": (gain - 0.2, gain + 0.2)}, max_points=1,
    )  # fmt: skip
    k = int(np.abs(found["arclength"].values).argmin())
    one = found.isel(point=k)
    assert bool(one["stable"])
    period = float(one["period"])
    fine = ergode.trajectories.integrate(
        field, times=np.linspace(0, period, 4001), initial=dict(zip(
            field.variables, map(float, one["cycle"].values[0]), strict=True)),
        parameters={"gain": gain}, rtol=1e-11, atol=1e-11, device="cpu",
    )["state"].values  # fmt: skip
    np.testing.assert_allclose(fine[-1], fine[0], atol=1e-6)
    np.testing.assert_allclose(one["highest"], fine.max(axis=0), rtol=1e-6)
    np.testing.assert_allclose(one["lowest"], fine.min(axis=0), rtol=2e-5)
    # The simulated trajectory repeats after the period, too.
    states, times = run["state"].values[1:], run["time"].values[1:]
    later = np.interp(times[-1] - period, times, states[:, 0])
    assert later == pytest.approx(states[-1, 0], abs=5e-3)


def test_van_der_pol(special):
    """At mu = 0 every circle is a cycle; from that of radius 2 the relaxation cycles start.

    The period at mu = 5 is 11.612230668 (C. M. Andersen, J. F. Geer, SIAM J. Appl. Math. 42, 678
    (1982), give 11.6122).
    """
    field = ergode.field_from_equations({"y": "mu * (1 - x**2) * y - x", "x": "y"})
    vary = {"mu": (-1, 5)}
    rest = branch(field, start={"x": 0, "y": 0}, parameters={"mu": -1}, vary=vary)
    circles = branch(field, start=rest, at="hopf-1", kind="cycles", vary=vary, max_points=30)
    assert float(np.abs(circles["mu"]).max()) < 1e-5
    np.testing.assert_allclose(circles["period"], 2 * np.pi, rtol=1e-9)
    point = special(circles, "branch-1")
    np.testing.assert_allclose(point["highest"], 2, rtol=1e-6)
    found = branch(field, start=circles, at="branch-1", kind="cycles", vary=vary)
    end = found.isel(point=int(found["mu"].argmax("point")))
    assert float(end["mu"]) == pytest.approx(5, rel=1e-12)
    assert float(end["period"]) == pytest.approx(11.612230668, rel=1e-9)
    assert (found["stable"] == (found["mu"] > 0))[found["special"] == ""].all()


def test_cycles_that_shrink_again_end_there():
    """Circles of radius sqrt(1 - mu^2), between two Hopf points; from one at the start, too."""
    field = ergode.field_from_equations({
        "x": "(1 - mu**2) * x - 2 * y - x * (x**2 + y**2)",
        "y": "2 * x + (1 - mu**2) * y - y * (x**2 + y**2)",
    })  # fmt: skip
    for begin in (0.2, 1.0):
        rest = branch(field, start={"x": 0, "y": 0}, parameters={"mu": begin}, vary={"mu": (-2, 2)})
        places = [str(name) for name in rest["special"].values if "hopf" in str(name)]
        assert places == ["hopf-1", "hopf-2"]
        found = branch(field, start=rest, at="hopf-1", kind="cycles", vary={"mu": (-2, 2)})
        assert found.attrs["last_end"] == "The cycles shrank to an equilibrium, at a Hopf point."
        np.testing.assert_allclose(found["mu"].values[[0, -1]], [-1, 1], rtol=1e-9)
        square = found["highest"].sel(variable="x") ** 2
        np.testing.assert_allclose(square, 1 - found["mu"] ** 2, atol=1e-8)


def test_cycles_are_saved_and_go_on(oscillator, tmp_path, special):
    field = oscillator()
    rest = branch(field, start={"x": 0, "y": 0}, parameters={"mu": -1}, vary={"mu": (-1, 1)})
    found = branch(
        field, start=rest, at="hopf-1", kind="cycles", vary={"mu": (-1, 1)}, max_points=10
    )
    opened = ergode.open_dataset(ergode.save(found, tmp_path / "cycles.nc"))
    more = branch(field, start=opened, at=8, kind="cycles", vary={"mu": (0, 3)})
    assert float(more["mu"][-1]) == pytest.approx(3)
    np.testing.assert_allclose(more["highest"][-1], 2**0.5, rtol=1e-8)
    assert ergode.inputs(more)["at"] == 8
    again = branch(field, start=opened, at="hopf-1", kind="cycles", vary={"mu": (-1, 1)})
    np.testing.assert_allclose(again["highest"][-1], (2 / 3) ** 0.5, rtol=1e-8)
