"""What remains in the long run: sections, diagrams, exponents, basins."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import lambertw

import ergode
from ergode.trajectories import Mean, ZeroCrossing, basins, bifurcation_diagram, lyapunov_spectrum
from ergode.trajectories.analysis import bifurcation
from ergode.trajectories.analysis.lyapunov import with_tangents


def rossler(t, y, p):
    return -y[1] - y[2], y[0] + 0.2 * y[1], 0.2 + y[2] * (y[0] - p[0])


def lorenz(t, y, p):
    return p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]


def van_der_pol_with_a_branch(t, y, p):
    damping = 1.0 if t > -1 else 0.0
    return y[1], damping * (1 - y[0] ** 2) * y[1] - y[0]


def double_well(t, y, p):
    return y[1], y[0] - y[0] ** 3 - p[0] * y[1]


def fold(t, y, p):
    return p[0] + y[0] - y[0] ** 3, -y[0] - y[1]


def second(t, y, p):
    return math.sin(t)


def linear_delay(t, y, yd, p):
    return (p[0] * y[0] + p[1] * yd[0],)


def mackey_glass(t, y, yd, p):
    return (0.2 * yd[0] / (1 + yd[0] ** 10) - 0.1 * y[0],)


ROSSLER = ergode.VectorField(rossler, ["x", "y", "z"], ["c"])
LORENZ = ergode.VectorField(lorenz, ["x", "y", "z"], ["sigma", "rho", "beta"])
USUAL = {"sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
START = {"x": 1.0, "y": 1.0, "z": 1.0}
DELAYS = np.array([0.5, 1.0, 2.0])


def test_period_doubling_of_rossler():
    # Period one at c = 2.5, two at 3.5, four at 4, chaos at 5.7.
    diagram = bifurcation_diagram(
        ROSSLER, parameter="c", values=[2.5, 3.5, 4.0, 5.7], section="x", record=32,
        initial={"x": 1, "y": 1, "z": 0}, transient=2000, duration=300, device="cpu",
    )  # fmt: skip
    tops = diagram["section"].sel(variable="x").values
    counts = [np.unique(np.round(row[np.isfinite(row)], 2)).size for row in tops]
    assert counts[:3] == [1, 2, 4] and counts[3] > 20
    assert diagram["section"].dims == ("c", "hit", "variable")


def test_continuation_shows_hysteresis():
    # x' = p + x - x^3 folds at |p| = 2 / (3 sqrt 3) = 0.385.
    field = ergode.VectorField(fold, ["x", "y"], ["p"])
    values = np.linspace(-0.6, 0.6, 7)
    options = {
        "parameter": "p", "values": values, "section": ZeroCrossing(second, 1), "record": 1,
        "transient": 100, "duration": 10, "device": "cpu", "initial": {"x": -1.0, "y": 0.0},
    }  # fmt: skip
    up = bifurcation_diagram(field, continuation="up", **options)["section"].values[:, 0, 0]
    down = bifurcation_diagram(field, continuation="down", **options)["section"].values[:, 0, 0]
    np.testing.assert_array_equal(up > 0, values > 0.39)
    np.testing.assert_array_equal(down > 0, values > -0.39)


def duffing(t, y, p):
    return y[1], 0.5 * math.cos(p[0] * t) - 0.1 * y[1] - y[0] - y[0] ** 3


def test_a_frequency_sweep_keeps_the_phase_and_its_branch():
    """The phase of the forcing jumped from value to value, and the branches were lost."""
    field = ergode.VectorField(duffing, ["x", "v"], ["omega"])
    values = np.arange(1.3, 2.15, 0.1)
    options = {
        "parameter": "omega", "values": values, "section": "x", "record": 1, "transient": 90.0,
        "duration": 10.0, "device": "cpu", "initial": {"x": 0.0, "v": 0.0}, "frequency": "omega",
    }  # fmt: skip
    up = bifurcation_diagram(field, continuation="up", **options)["section"].values[:, 0, 0]
    down = bifurcation_diagram(field, continuation="down", **options)["section"].values[:, 0, 0]
    # Harmonic balance: two stable amplitudes between 1.45 and 2.20.
    for omega, high, low in zip(values, up, down, strict=True):
        square = [9 / 16, 1.5 * (1 - omega**2), (1 - omega**2) ** 2 + 0.01 * omega**2, -0.25]
        roots = np.roots(square)
        amplitudes = np.sqrt(np.sort(roots[np.abs(roots.imag) < 1e-9].real))
        assert (len(amplitudes) == 3) == (1.45 < omega < 2.2)
        assert high == pytest.approx(amplitudes[-1], rel=0.05)
        assert low == pytest.approx(amplitudes[0], rel=0.05)


def test_continuation_goes_on_as_one_run_does():
    """Time restarted at zero, and so did the forcing."""
    field = ergode.VectorField(
        lambda t, y, p: (math.cos(0.37 * t) - p[0] * y[0], 0.0), ["x", "y"], ["rate"]
    )
    options = {
        "section": ZeroCrossing(lambda t, y, p: y[0]), "device": "cpu", "rtol": 1e-9,
        "initial": {"x": 1.0, "y": 0.0}, "start_time": 3.0,
    }  # fmt: skip
    parts = bifurcation_diagram(
        field, parameter="rate", values=[0.1, 0.1, 0.1], continuation="up", duration=20.0, **options
    )
    whole = bifurcation.poincare_section(
        field, duration=60.0, parameters={"rate": 0.1}, **options
    )  # fmt: skip
    times, exact = (one["section_time"].values for one in (parts, whole))
    np.testing.assert_allclose(
        np.sort(times[np.isfinite(times)]), exact[np.isfinite(exact)], rtol=1e-6
    )


def test_basins_at_a_phase_of_a_forcing():
    """x' = cos t: the end depends on when the state began."""
    field = ergode.VectorField(lambda t, y, p: (p[0] * math.cos(t),), ["x"], ["size"])
    found = basins(
        field, initial={"x": [0.0, 1.0]}, parameters={"size": 1.0}, duration=1.0, start_time=2.0,
        device="cpu",
        attractors=[[math.sin(3.0) - math.sin(2.0)], [1.0 + math.sin(3.0) - math.sin(2.0)]],
        tolerance=1e-4,
    )  # fmt: skip
    assert found["basin"].values.tolist() == [0, 1]


@pytest.mark.parametrize("count", [1, 3])
def test_exponents_of_variables_that_do_not_couple(count):
    """A direction that the equations leave to itself does not hide one that grows more."""
    rates = [-1.0, 0.5, -3.0]
    field = ergode.VectorField(
        lambda t, y, p: (-1.0 * y[0], 0.5 * y[1], -3.0 * y[2]), variables=["a", "b", "c"]
    )
    found = lyapunov_spectrum(
        field, initial={"a": 1.0, "b": 1e-9, "c": 1.0}, transient=20, duration=20, count=count,
        device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(found["exponent"], sorted(rates)[::-1][:count], atol=1e-6)


def test_an_interval_in_which_tangents_become_parallel_is_shortened():
    """The exponents sum up to the trace of the Jacobian; in a well they are its eigenvalues.

    The kernel is that of the example of `lyapunov_spectrum`.
    """
    field = ergode.VectorField(double_well, ["x", "v"], ["damping"])
    found = lyapunov_spectrum(
        field, initial={"x": 0.5, "v": 0.0}, parameters={"damping": 3.0}, transient=20,
        duration=40, interval=1000, device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(found["exponent"].sum(), -3.0, rtol=1e-7)
    np.testing.assert_allclose(found["exponent"], [-1.0, -2.0], rtol=1e-2)


def test_tangents_that_become_parallel_in_the_transient_alone():
    field = ergode.VectorField(
        lambda t, y, p: (-1.0 * y[0], -(2.0 + 60.0 * math.exp(-t)) * y[1]), variables=["x", "y"]
    )
    found = lyapunov_spectrum(
        field, initial={"x": 1.0, "y": 1.0}, transient=25, duration=10, device="cpu"
    )
    np.testing.assert_allclose(found["exponent"], [-1.0, -2.0], atol=1e-6)


def test_lyapunov_spectrum_of_lorenz():
    # Sprott, "Chaos and Time-Series Analysis" (2003): 0.9056, 0, -14.5723.
    found = lyapunov_spectrum(
        LORENZ, initial={**START, "x": np.linspace(0.5, 1.5, 24)}, parameters=USUAL,
        transient=20, duration=150, interval=0.5, device="cpu", rtol=1e-6, atol=1e-6,
    )["exponent"].values  # fmt: skip
    # The volume shrinks at one rate everywhere.
    np.testing.assert_allclose(found.sum(axis=1), -(10 + 1 + 8 / 3), rtol=1e-4)
    np.testing.assert_allclose(found.mean(axis=0), [0.9056, 0.0, -14.5723], atol=0.02)


def test_tangents_by_differences_where_there_are_no_symbols():
    # Van der Pol's cycle: zero along it, and across it the mean of the trace.
    field = ergode.VectorField(van_der_pol_with_a_branch, ["x", "v"], [])
    found = lyapunov_spectrum(
        field, initial={"x": 2.0, "v": 0.0}, transient=20, duration=200, device="cpu", rtol=1e-9,
    )["exponent"].values  # fmt: skip
    cycle = solve_ivp(
        lambda t, y: (*van_der_pol_with_a_branch(t, y, ()), 1 - y[0] ** 2), (0, 220),
        [2.0, 0.0, 0.0], t_eval=[20, 220], rtol=1e-10, atol=1e-10,
    ).y[2]  # fmt: skip
    trace = (cycle[1] - cycle[0]) / 200
    assert found.sum() == pytest.approx(trace, abs=1e-5)
    assert found[0] == pytest.approx(0.0, abs=0.01)


def spectrum_of_linear_delays(device):
    """Five exponents of y' = a y + b y(t - tau), for three delays at once."""
    field = ergode.VectorField(linear_delay, ["y"], ["a", "b", "tau"], [("y", "tau")])
    return lyapunov_spectrum(
        field, initial={"y": 0.0}, parameters={"a": -0.3, "b": -1.2, "tau": DELAYS}, count=5,
        duration=4000, step=1 / 16, device=device,
    )["exponent"].values  # fmt: skip


def test_spectrum_of_a_linear_delay_equation():
    # Its exponents are the real parts of a + W_k(b tau exp(-a tau)) / tau, of every branch k.
    found = spectrum_of_linear_delays("cpu")
    branches = np.arange(-4, 5)
    for tau, exponents in zip(DELAYS, found, strict=True):
        roots = -0.3 + lambertw(-1.2 * tau * np.exp(0.3 * tau), branches) / tau
        expected = np.sort(roots.real)[::-1][:5]
        np.testing.assert_allclose(exponents, expected, rtol=1e-4, atol=2e-4)


@pytest.mark.cuda
def test_cuda_finds_the_same_spectrum():
    found, expected = spectrum_of_linear_delays("cuda"), spectrum_of_linear_delays("cpu")
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_spectrum_of_mackey_glass():
    # Farmer (1982), table 1: one exponent above zero, one at zero (along the flow), dimension 2.1.
    field = ergode.VectorField(mackey_glass, ["y"], ["tau"], [("y", "tau")])
    found = lyapunov_spectrum(
        field, initial={"y": np.linspace(0.5, 1.3, 64)}, parameters={"tau": 17.0}, count=4,
        transient=1000, duration=20_000, step=17 / 32, device="cpu",
    )["exponent"].values  # fmt: skip
    assert found.shape == (64, 4)
    largest, zero, third, fourth = found.mean(axis=0)
    assert 0.0050 < largest < 0.0054
    assert abs(zero) < 5e-5
    assert third > fourth
    assert 2 + (largest + zero) / -third == pytest.approx(2.13, abs=0.03)  # Kaplan and Yorke
    with pytest.raises(ergode.PlanError, match="with delays a step is needed"):
        lyapunov_spectrum(field, initial={"y": 0.5}, parameters={"tau": 17.0}, duration=10)
    with pytest.raises(
        ergode.PlanError, match="count is 9, but a delay of 4 steps does not have as"
    ):
        lyapunov_spectrum(
            field, initial={"y": 0.5}, parameters={"tau": 17.0}, duration=10, step=5.0, count=9
        )


def test_tangents_are_variables_of_their_own():
    assert len(with_tangents(LORENZ, 2).variables) == 9
    with pytest.raises(ergode.PlanError, match="count is 4; expected 1 to 3"):
        lyapunov_spectrum(LORENZ, initial=START, parameters=USUAL, duration=1, count=4)


def test_basins_of_a_double_well():
    field = ergode.VectorField(double_well, ["x", "v"], ["damping"])
    options = {
        "initial": ergode.grid(x=np.linspace(-1.5, 1.5, 8), v=np.linspace(-1.0, 1.0, 8)),
        "parameters": {"damping": 0.3}, "duration": 150.0, "device": "cpu",
    }  # fmt: skip
    found = basins(field, **options)
    assert found.sizes["attractor"] == 2
    np.testing.assert_allclose(np.sort(found["centre"][:, 0]), [-1, 1], atol=1e-6)
    assert found["basin"].dims == ("x", "v")
    assert (found["basin"] >= 0).all()
    # The field is odd: opposite beginnings end in opposite wells.
    basin = found["basin"].values
    assert (basin != basin[::-1, ::-1]).all()
    known = basins(field, attractors=[[1.0, 0.0]], **options)["basin"].values
    right = int(np.argmax(found["centre"].values[:, 0]))
    np.testing.assert_array_equal(known == 0, basin == right)
    with pytest.raises(ergode.ModelError, match="attractors have 1 features, and traj.* 2: x, v"):
        basins(field, attractors=[[1.0]], **options)


def to_a_sink_or_away(t, y, p):
    return (y[0] * y[0] - p[0],)


AWAY = ergode.VectorField(to_a_sink_or_away, ["x"], ["size"])  # the kernel of the forcing


@pytest.mark.parametrize("observables", [[], [Mean("x")]])
def test_trajectories_that_failed_have_no_basin(observables):
    """Those that blow up are missing: they are of no basin, and of no share."""
    begin = [-2.0, -0.5, 0.5, 2.0, 3.0]
    with pytest.warns(ergode.FailureWarning) as caught:
        found = basins(
            AWAY, initial=ergode.grid(x=begin), parameters={"size": 1.0}, duration=60.0,
            transient=20.0 if observables else 0.0, observables=observables, device="cpu",
            tolerance=1e-3,
        )  # fmt: skip
    assert len(caught) == 1 and "2 of 5 x" in str(caught[0].message)
    np.testing.assert_array_equal(found["basin"], [0, 0, 0, np.nan, np.nan])
    np.testing.assert_allclose(found["centre"], [[-1.0]], atol=1e-6)
    assert found["share"].values.tolist() == [1.0]
    assert (found["status"].values > 0).tolist() == [False, False, False, True, True]
    with pytest.raises(ergode.ErgodeError, match="2 of 5 x"):
        found.ergode.raise_for_status()


def test_trajectories_that_were_not_run_have_no_basin(monkeypatch):
    """An interruption after the first of three: two thirds of nothing happened."""
    right = bifurcation.integrate

    def interrupted(*arguments, **options):
        found = right(*arguments, **options)
        late = found["x"] > -1
        state = found["state"].where(~late)
        return found.assign(
            state=state, status=found["status"].where(~late, ergode.Status.NOT_RUN).astype("u1")
        )

    monkeypatch.setattr(bifurcation, "integrate", interrupted)
    found = basins(
        AWAY, initial=ergode.grid(x=[-2.0, -0.5, 0.5]), duration=60.0, parameters={"size": 1.0},
        attractors=[[-1.0], [1.0]], device="cpu",
    )  # fmt: skip
    np.testing.assert_array_equal(found["basin"], [0, np.nan, np.nan])
    assert found["share"].values.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"section": "w"},
            "section is 'w'; expected a ZeroCrossing or one of the variables x, y, z",
        ),
        ({"parameter": "d"}, "parameter 'd' is not of the field; it has c"),
        ({"parameters": {"c": 1.0}}, "parameter 'c' is given twice"),
        ({"continuation": "left"}, "continuation 'left' is unknown; expected None, 'up' or 'down'"),
        ({"record": 0}, "record is 0; expected 1 to"),
        ({"transient": -5.0}, "transient is -5.0; expected a non-negative number"),
    ],
)
def test_bad_input_is_one_line(change, message):
    options = {
        "parameter": "c", "values": [2.5], "section": "x", "duration": 1.0, "device": "cpu",
        "initial": {"x": 1, "y": 1, "z": 0},
    }  # fmt: skip
    with pytest.raises(ergode.ErgodeError, match=message):
        bifurcation_diagram(ROSSLER, **{**options, **change})
