"""Rate coefficients that are formulas: rates, Jacobians, runs and refusals, by plain Python."""

import math
import pickle
import re

import numpy as np
import pytest
from both_devices import on_both
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics import Trajectory
from ergode.models.constants import GAS_CONSTANT

EXPLICIT = "asymptotic"
HOUR = 3600.0
DAY = 24 * HOUR


def smog():
    """Every kind of name: time, temperature, sums, rules, sunlight, parameters, a held species."""
    return ergode.ReactionNetwork(
        [
            ergode.Species("NO2", 5.0), ergode.Species("NO", 1.0), ergode.Species("O3", 3.0),
            ergode.Species("RO", 0.5), ergode.Species("QO", 0.2), ergode.Species("X", 0.0),
            ergode.Species("M", 20.0, boundary=True),
        ],
        [
            ergode.Reaction("NO2 -> NO + O3", rate_constant="J4"),
            ergode.Reaction(
                "NO + O3 -> NO2",
                rate_constant=ergode.RateExpression("1e-4 * exp(-600 / temperature) * M"),
            ),
            ergode.Reaction("RO -> X", rate_constant=ergode.RateExpression("2e-4 * RO2")),
            ergode.Reaction("QO -> X", rate_constant=ergode.RateExpression("1e-4 * (RO2 + O3)")),
            ergode.Reaction("0 -> RO", rate_constant="emission"),
            ergode.Reaction(
                "0 -> QO",
                rate_constant=ergode.RateExpression("2e-5 * (1 + sin(2 * pi * time / 86400)) + w"),
            ),
            ergode.Reaction(
                "X -> 0",
                rate_constant=ergode.RateExpression(
                    "piecewise(2, NO > O3, 1) * 1e-4 * sunlight * X / (X + K) + sqrt(O3) * 1e-6"
                ),
            ),
        ],
        parameters={"J4": 0.0, "emission": "2 * base", "base": 1e-5, "K": 0.3, "w": 1e-6},
        rules={"RO2": "RO + 2 * QO"},
    )  # fmt: skip


TIMES = np.linspace(0.0, 3 * DAY, 25)
J4 = Trajectory(np.arange(73) * HOUR, 1e-4 * np.maximum(0, np.sin(np.arange(73) * np.pi / 12)))
BASE = Trajectory([0.0, DAY, np.nextafter(DAY, np.inf), 3 * DAY], [1e-5, 1e-5, 3e-5, 2e-5])
HEAT = Trajectory([0.0, DAY, 3 * DAY], [[280.0, 300.0, 285.0], [270.0, 310.0, 265.0]])


def sun(t):
    return max(0.0, math.sin(2 * math.pi * t / DAY))


def smog_change(t, c, zone, k):
    """dc/dt by hand; `k` is the parameter K."""
    no2, no, o3, ro, qo, x = c
    j4 = np.interp(t, J4.times, J4.values)
    hot = np.interp(t, HEAT.times, HEAT.values[zone])
    ro2 = ro + 2 * qo
    rates = [
        j4 * no2, 1e-4 * math.exp(-600 / hot) * 20.0 * no * o3, 2e-4 * ro2 * ro,
        1e-4 * (ro2 + o3) * qo, 2 * np.interp(t, BASE.times, BASE.values),
        2e-5 * (1 + math.sin(2 * math.pi * t / 86400)) + 1e-6,
        ((2 if no > o3 else 1) * 1e-4 * sun(t) * x / (x + k) + math.sqrt(abs(o3)) * 1e-6) * x,
    ]  # fmt: skip
    return np.array([
        rates[1] - rates[0], rates[0] - rates[1], rates[0] - rates[1], rates[4] - rates[2],
        rates[5] - rates[3], rates[2] + rates[3] - rates[6],
    ])  # fmt: skip


def smog_by_scipy(zone, k=0.3):
    parts, state = [[5.0, 1.0, 3.0, 0.5, 0.2, 0.0]], np.array([5.0, 1.0, 3.0, 0.5, 0.2, 0.0])
    for start, stop in zip(TIMES[:-1], TIMES[1:], strict=True):
        state = solve_ivp(
            smog_change, (start, stop), state, "DOP853", args=(zone, k), rtol=1e-10, atol=1e-14,
            max_step=HOUR,
        ).y[:, -1]  # fmt: skip
        parts.append(state)
    return np.array(parts)


def run(network, method="rodas4", **options):
    given = {"parameters": {"J4": J4, "base": BASE}, "temperature": HEAT, "sunlight": sun}
    return ergode.kinetics.integrate(
        network, times=TIMES, method=method, **({"device": "cpu"} | given | options)
    )


@pytest.mark.parametrize("method", ["rodas4", "bdf"])
def test_a_run_follows_every_kind_of_name(method):
    found = run(smog(), method, rtol=1e-8, atol=1e-12)
    assert (found["status"] == 0).all()
    for zone in (0, 1):
        wanted = smog_by_scipy(zone)
        np.testing.assert_allclose(
            found["concentration"][zone, :, :6], wanted, rtol=2e-6, atol=1e-9
        )
    ro2 = found["concentration"].values @ [0, 0, 0, 1, 2, 0, 0]
    np.testing.assert_allclose(found["quantity"].sel(rule="RO2"), ro2, rtol=1e-14)


def test_explicit_methods_follow_all_but_the_sun():
    network = smog()
    few = [one for one in network.reactions if "sunlight" not in str(one.value)]
    network = ergode.ReactionNetwork(network.species, few, network.parameters, rules=network.rules)
    options = {"sunlight": None, "atol": 1e-12}
    exact = run(network, rtol=1e-8, **options)["concentration"].values
    found = run(network, EXPLICIT, rtol=1e-4, **options)["concentration"].values
    np.testing.assert_allclose(found, exact, rtol=5e-3, atol=1e-6)


def test_a_sweep_of_what_formulas_read():
    network = smog()
    options = {"atol": 1e-10, "rtol": 1e-6}
    several = run(network, parameters={"J4": J4, "base": BASE, "K": [0.3, 2.0]}, **options)
    for point, k in enumerate((0.3, 2.0)):
        one = run(network, parameters={"J4": J4, "base": BASE, "K": k}, **options)
        np.testing.assert_array_equal(
            several["concentration"][point].values, one["concentration"].values.reshape(2, 25, 7)
        )
    assert abs(several["concentration"][1] - several["concentration"][0]).max() > 1e-3


def test_parts_of_zones_are_equal_bits(tmp_path):
    rows = Trajectory(J4.times, np.stack([J4.values, 0.5 * J4.values]))
    options = {"parameters": {"J4": rows, "base": BASE}, "atol": 1e-10}
    options["sunlight"] = Trajectory([0.0, 1.0], [0.4, 0.4])
    whole = run(smog(), **options)
    parts = run(smog(), store=tmp_path / "run.zarr", chunk=1, **options)
    np.testing.assert_array_equal(whole["concentration"].values, parts["concentration"].values)
    apart = abs(whole["concentration"][0] - whole["concentration"][1])
    assert apart.max() > 1e-3


def test_rates_at_a_time():
    network, time = smog(), 30 * HOUR
    found = ergode.kinetics.reaction_rates(
        network, temperature=HEAT, sunlight=0.5, parameters={"J4": J4, "base": BASE, "K": 0.7},
        time=time, initial={"X": 0.4, "RO": 0.1},
    )  # fmt: skip
    hot = np.interp(time, HEAT.times, HEAT.values[1])
    wanted = [
        np.interp(time, J4.times, J4.values) * 5.0, 1e-4 * math.exp(-600 / hot) * 20 * 3.0,
        2e-4 * (0.1 + 0.4) * 0.1, 1e-4 * (0.5 + 3.0) * 0.2,
        2 * np.interp(time, BASE.times, BASE.values),
        2e-5 * (1 + math.sin(2 * math.pi * time / DAY)) + 1e-6,
        (0.5e-4 * 0.4 / 1.1 + math.sqrt(3.0) * 1e-6) * 0.4,
    ]  # fmt: skip
    np.testing.assert_allclose(found["rate"][1], wanted, rtol=1e-13)


def test_every_function_has_its_derivative():
    """A Rosenbrock method loses its order if the Jacobian is wrong: compare steps of two sizes."""
    formulas = [
        "exp(-A) + 0 * time", "log(1 + A)", "log10(2 + A)", "sqrt(A + 1)", "sin(A)", "cos(A)",
        "tan(A / 4)", "asin(A / 4)", "acos(A / 4)", "atan(A)", "sinh(A)", "cosh(A)", "tanh(A)",
        "abs(A - 9)", "A^2.5", "2^A", "A^B", "min(A, 9)", "max(A, 0.001)", "1 / (A + B)",
        "A * B - B", "piecewise(A * A, A < 5, B)", "3 * A - (B + 2 * A) / 4",
    ]  # fmt: skip
    names = [f"S{k}" for k in range(len(formulas))]
    network = ergode.ReactionNetwork(
        {"A": 1.0, "B": 2.0} | dict.fromkeys(names, 1.0),
        [
            ergode.Reaction("A -> B", rate_constant=ergode.RateExpression("1 + B")),
            ergode.Reaction("B -> A", rate_constant=ergode.RateExpression("0.5 * A^2")),
            *(
                ergode.Reaction(f"{name} -> 2 {name}", rate_constant=ergode.RateExpression(formula))
                for name, formula in zip(names, formulas, strict=True)
            ),
        ],
    )

    def change(t, c):
        a, b = c[0], c[1]
        flow = (1 + b) * a - 0.5 * a**2 * b
        k = [
            math.exp(-a), math.log(1 + a), math.log10(2 + a), math.sqrt(a + 1), math.sin(a),
            math.cos(a), math.tan(a / 4), math.asin(a / 4), math.acos(a / 4), math.atan(a),
            math.sinh(a), math.cosh(a), math.tanh(a), abs(a - 9), a**2.5, 2**a, a**b, min(a, 9),
            max(a, 0.001), 1 / (a + b), a * b - b, a * a if a < 5 else b, 3 * a - (b + 2 * a) / 4,
        ]  # fmt: skip
        return np.array([-flow, flow, *np.array(k) * c[2:]])

    start = [1.0, 2.0, *[1.0] * len(names)]
    exact = solve_ivp(change, (0, 1), start, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    steps = {}
    for rtol in (1e-5, 1e-9):
        found = ergode.kinetics.integrate(
            network, times=[0, 1], rtol=rtol, atol=1e-12, method="rodas4", device="cpu"
        )
        error = np.abs(found["concentration"][0, -1].values / exact - 1).max()
        assert error < 5 * rtol
        steps[rtol] = int(found["step_count"][0])
    # Order 4: a tolerance of 1e-4 times takes ten times the steps.
    assert steps[1e-9] / steps[1e-5] < 14


@pytest.mark.parametrize(("method", "most"), [("rodas4", 600), ("bdf", 700)])
def test_the_stiff_limit_needs_an_exact_jacobian(method, most):
    """A fast sum relaxes: without its derivatives the steps would follow the fast time."""
    network = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.5, "S": 1.0},
        [
            ergode.Reaction("A -> 0", rate_constant=ergode.RateExpression("1e6 * (A + B)")),
            ergode.Reaction("B -> 0", rate_constant=ergode.RateExpression("2e6 * (A + B)")),
            ergode.Reaction("0 -> A", rate_constant=ergode.RateExpression("S + 0.5 * sin(time)")),
            ergode.Reaction("0 -> B", rate_constant=ergode.RateExpression("S")),
        ],
    )
    found = ergode.kinetics.integrate(
        network, times=[0, 20.0], rtol=1e-6, atol=1e-12, method=method, device="cpu"
    )
    assert found["status"] == 0 and found["step_count"] < most

    def change(t, c):
        sum_ = c[0] + c[1]
        return [1 + 0.5 * math.sin(t) - 1e6 * sum_ * c[0], 1 - 2e6 * sum_ * c[1]]

    exact = solve_ivp(change, (0, 20), [1.0, 0.5], "Radau", rtol=1e-9, atol=1e-15).y[:, -1]
    np.testing.assert_allclose(found["concentration"][0, -1, :2], exact, rtol=1e-5)


@pytest.mark.parametrize("heating", [None, "isothermal-constant-pressure", "constant-volume"])
def test_pressure_and_density_of_molecules(heating):
    def molecule(enthalpy):
        same = (2.5, 0.0, 0.0, 0.0, 0.0, enthalpy, 1.0)
        return ergode.NasaPolynomials(same, same, middle=1000.0, composition={"H": 1})

    network = ergode.ReactionNetwork(
        [
            ergode.Species("A", thermochemistry=molecule(0.0)),
            ergode.Species("B", thermochemistry=molecule(10.0)),
        ],
        [
            ergode.Reaction("A -> B", rate_constant=ergode.RateExpression("pressure / 1e6")),
            ergode.Reaction("B -> A", rate_constant=ergode.RateExpression("1e4 * density")),
        ],
    )
    found = ergode.kinetics.reaction_rates(
        network, temperature=500.0, pressure=2e6, initial={"A": 0.5, "B": 0.5}
    )
    total = 2e6 / (GAS_CONSTANT * 500.0)
    np.testing.assert_allclose(found["coefficient"][0], [2.0, 1e4 * total * 1.008], rtol=1e-3)
    ran = ergode.kinetics.integrate(
        network, times=[0, 0.5], temperature=500.0, pressure=2e6, initial={"A": 1.0},
        heating=heating, rtol=1e-8, device="cpu",
    )  # fmt: skip
    assert ran.attrs["method"] == "rodas4"
    if heating == "constant-volume":
        return
    back = float(1e4 * ran["density"][0, 0])
    a = float(ran["concentration"][0, -1, 0]) / total
    rate = 2.0 + back
    assert a == pytest.approx((back + 2.0 * math.exp(-rate * 0.5)) / rate, rel=1e-6)


def test_what_is_refused():
    def refusal(*said):
        pattern = "|".join(map(re.escape, said))
        return pytest.raises(ergode.ErgodeError, match=pattern)

    make = ergode.RateExpression

    def one(formula, **more):
        return ergode.ReactionNetwork(
            {"A": 1.0}, [ergode.Reaction("A -> 0", rate_constant=formula)], **more
        )

    times = {"times": [0, 1], "device": "cpu"}
    with refusal("uses 'Tmep', which the network does not have"):
        one(make("exp(-Tmep)"))
    with refusal("is a condition; expected a number"):
        make("A > 2")
    with refusal("expected a string"):
        make(None)
    with refusal("temperature is not given"):
        ergode.kinetics.integrate(one(make("exp(-1 / temperature)")), **times)
    with refusal("uses the pressure, which only molecules"):
        ergode.kinetics.integrate(one(make("pressure")), **times)
    with refusal("is a condition of the zone and a name of the network"):
        ergode.kinetics.integrate(one(make("density"), parameters={"density": 1.0}), **times)
    with refusal("sunlight is not given"):
        ergode.kinetics.integrate(one(make("sunlight")), **times)
    with refusal("write the sunlight into the formula"):
        ergode.kinetics.integrate(one(ergode.Photolysis(make("2 * A"))), sunlight=1, **times)
    with refusal("parameters has 'k2', which the network does not have"):
        ergode.kinetics.integrate(
            one("k", parameters={"k": 1.0}), parameters={"k2": lambda t: t}, **times
        )
    with refusal("no rate coefficient depends on it"):
        ergode.kinetics.integrate(
            one("k", parameters={"k": 1.0, "q": 2.0}), parameters={"q": lambda t: t}, **times
        )
    with refusal("parameter 'k' is nan in zone 0; expected finite numbers"):
        ergode.kinetics.integrate(
            one("k", parameters={"k": 1.0}), parameters={"k": Trajectory([0, 1], [1, np.nan])},
            **times,
        )  # fmt: skip
    with refusal("the initial amount of 'A' depends on it"):
        ergode.kinetics.integrate(
            ergode.ReactionNetwork(
                [ergode.Species("A", "k")], [ergode.Reaction("A -> 0", rate_constant="k")],
                parameters={"k": 1.0},
            ),
            parameters={"k": lambda t: 1.0}, **times,
        )  # fmt: skip
    with refusal("ergode.stochastic", "rate"):
        ergode.stochastic.simulate(one(make("A")), times=[0, 1], replicates=1, device="cpu")


def test_it_survives_pickling():
    network = smog()
    again = pickle.loads(pickle.dumps(network))
    assert again.digest == network.digest
    assert again.reactions[2].value == network.reactions[2].value


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["rodas4", EXPLICIT])
def test_a_gpu_follows_every_kind_of_name(method):
    network, options = smog(), {"rtol": 1e-6, "atol": 1e-10}
    if method == EXPLICIT:
        few = [one for one in network.reactions if "sunlight" not in str(one.value)]
        network = ergode.ReactionNetwork(
            network.species, few, network.parameters, rules=network.rules
        )
        options["sunlight"] = None
    one, other = on_both(run, network, method, **options)
    np.testing.assert_array_equal(one["status"], other["status"])
    np.testing.assert_allclose(one["concentration"], other["concentration"], rtol=1e-5, atol=1e-9)
