"""Factors of rate coefficients, and sensitivities to them: closed forms, and Cantera."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from both_devices import on_both
from kernel_cases import FORMULAS, burning
from scipy.integrate import solve_ivp

import ergode
from ergode.kinetics import ignition_delay, integrate, sensitivities
from ergode.models.reactions.rates import BlowersMasel

ct = pytest.importorskip("cantera")
pytest.importorskip("ruamel.yaml")
DATA = Path(ct.__file__).parent / "data"
ATM, AIR = 1.01325e6, {"O2": 1.0, "N2": 3.76}


def chain(first=3.0, second=1.0):
    return ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0, "C": 0.0},
        [
            ergode.Reaction("A -> B", rate_constant=first, name="first"),
            ergode.Reaction("B -> C", rate_constant=second, name="second"),
        ],
    )


def gas(factors=(1.0,) * 6):
    """A law of every kind, times these factors; a reverse reaction follows each."""
    three, high, low, one, two, masel, plain = (
        ergode.Arrhenius(a, b, c) for a, b, c in (
            (1e18, -1.0, 0.0), (1e14, 0.0, 0.0), (1e22, -2.0, 0.0), (1e10, 0.5, 0.0),
            (1e12, 0.0, 0.0), (1e9, 1.0, 0.0), (1e10, 1.0, 2e3),
        )
    )  # fmt: skip

    def times(law, factor):
        return ergode.Arrhenius(factor * law.factor, law.exponent, law.activation_temperature)

    f = factors
    laws = [
        ("2 H -> H2", ergode.ThreeBody(times(three, f[0]), {"H2O": 6.0})),
        ("H + OH -> H2O", ergode.Falloff(times(low, f[1]), times(high, f[1]), {"H2": 2.0},
                                         troe=(0.6, 100.0, 1e4))),
        ("H2 + O -> H2O", ergode.Falloff(times(low, f[2]), times(high, f[2]), activated=True)),
        ("H + O -> OH", ergode.PressureLog([(1e4, times(one, f[3])), (1e7, times(two, f[3]))])),
        ("H2 + O -> H + OH", BlowersMasel(f[4] * masel.factor, 1.0, 2e3, 5e4)),
        ("H2 + OH -> H2O + H", times(plain, f[5])),
    ]  # fmt: skip
    species = list(burning().species)
    row = (2.5, 1e-4, 0.0, 0.0, 0.0, 2e4, 1.0)
    atom = ergode.NasaPolynomials(row, row, 1000.0, {"O": 1})
    reactions = []
    for text, law in laws:
        left, right = text.split(" -> ")
        reactions += [
            ergode.Reaction(text, rate_constant=law),
            ergode.Reaction(f"{right} -> {left}", rate_constant=ergode.DetailedBalance(law)),
        ]
    return ergode.ReactionNetwork([*species, ergode.Species("O", thermochemistry=atom)], reactions)


def test_a_chain_has_its_closed_form():
    """A = exp(-k t), B = k (exp(-k t) - exp(-l t)) / (l - k), two zones."""
    t, k, m = np.array([0.2, 0.7]), 3.0, 1.0
    found = sensitivities(
        integrate, chain(), times=[0.0, *t], initial={"A": [1.0, 5.0]}, rtol=1e-9, device="cpu"
    )
    ours = found["concentration_sensitivity"].sel(time=t)
    a, b = np.exp(-k * t), np.exp(-m * t)
    by_k = 1.0 - k * t * a / (a - b) + k / (m - k)
    by_m = m * t * b / (a - b) - m / (m - k)
    exact = np.array([[-k * t, by_k], [0.0 * t, by_m]])
    errors = found["concentration_error"].sel(time=t)
    for zone in range(2):
        off = np.abs(ours[:, zone, :, :2].values.transpose(0, 2, 1) - exact)
        np.testing.assert_allclose(off, 0.0, atol=3e-4)
        stated = errors[:, zone, :, :2].values.transpose(0, 2, 1)
        assert (off <= stated + 1e-6).all()
    assert found["concentration_rank"].sel(time=0.2, species="A")[:, 0].values.tolist() == [1, 2]
    assert found["reaction"].values.tolist() == ["first", "second"]


def test_points_of_factors_are_networks_of_their_own(tmp_path):
    """Bit for bit, in parts too; a row without points has no dimension."""
    factors = [[1.0, 1.0], [2.0, 1.0], [1.0, 0.0]]
    options = {"times": [0.0, 0.5], "initial": {"A": [1.0, 2.0]}, "device": "cpu", "atol": 1e-12}
    found = integrate(chain(), rate_factors=factors, **options)
    assert found["concentration"].dims == ("point", "zone", "time", "species")
    for one, (first, second) in zip(found["concentration"], factors, strict=True):
        other = integrate(chain(3.0 * first, second), **options)["concentration"]
        np.testing.assert_array_equal(one, other)
    alone = integrate(chain(), rate_factors=factors[1], **options)
    np.testing.assert_array_equal(alone["concentration"], found["concentration"][1])
    parts = integrate(chain(), rate_factors=factors, **options, store=tmp_path / "a.zarr", chunk=1)
    np.testing.assert_array_equal(parts["concentration"], found["concentration"])


@pytest.mark.parametrize("law", range(6))
def test_a_factor_multiplies_every_kind_of_coefficient(law):
    """As a network whose pre-exponential factor is twice as large; the other way follows."""
    options = {
        "times": [0.0, 1e-8, 1e-6], "initial": dict.fromkeys(("H", "OH", "H2O", "H2", "O"), 1.0),
        "temperature": [1200.0, 1900.0], "pressure": 1e6, "rtol": 1e-8, "device": "cpu",
        "method": "rodas4", "heating": "constant-volume",
    }  # fmt: skip
    factors, each = np.ones(12), np.ones(6)
    factors[2 * law], each[law] = 2.0, 2.0
    one = integrate(gas(), rate_factors=factors, **options)
    other, plain = integrate(gas(each), **options), integrate(gas(), **options)
    np.testing.assert_allclose(one["temperature"], other["temperature"], rtol=1e-9)
    np.testing.assert_allclose(one["concentration"], other["concentration"], rtol=1e-7)
    assert np.abs(one["concentration"] / plain["concentration"] - 1.0).max() > 1e-4


def day():
    """Emission by a table, photolysis by a curve, and a loss that is a formula of an amount."""
    return ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.5},
        [
            ergode.Reaction("0 -> A", rate_constant="emitted", name="emission"),
            ergode.Reaction("A -> B", rate_constant="2 * light", name="photolysis"),
            ergode.Reaction("2 B -> A", rate_constant="slow", name="return"),
            ergode.Reaction(
                "A -> 0", rate_constant=ergode.RateExpression("loss * (1 + B)"), name="loss"
            ),
        ],
        parameters={"emitted": 0.0, "light": 0.0, "slow": 1.0, "loss": 0.1},
    )


@pytest.mark.parametrize("method", ["auto", "bdf"])
def test_curves_and_formulas_have_the_sensitivities_of_scipy(method):
    """Two zones; tables by zone, a function of time and numbers; differences by hand."""
    knots, table = np.array([0.0, 1.0, 2.0]), np.array([[0.2, 1.0, 0.1], [2.0, 0.0, 1.0]])
    found = sensitivities(
        integrate, day(), times=[0.0, 0.7, 2.0], rtol=1e-8, method=method, device="cpu",
        parameters={
            "emitted": ergode.kinetics.Trajectory(knots, table), "slow": 0.7, "loss": 0.3,
            "light": lambda t: 1.0 + np.sin(t),
        },
    )  # fmt: skip

    def ends(zone, factors):
        def slope(t, y):
            a, b = y
            made, lit, back, lost = factors * [
                np.interp(t, knots, table[zone]), 2.0 * (1.0 + np.sin(t)) * a, 0.7 * b * b,
                0.3 * (1.0 + b) * a,
            ]  # fmt: skip
            return [made - lit + back - lost, lit - 2.0 * back]

        options = {"rtol": 1e-10, "atol": 1e-12, "t_eval": [0.7, 2.0], "max_step": 0.1}
        return np.log(solve_ivp(slope, (0.0, 2.0), [1.0, 0.5], **options).y.T)

    step = np.log(1.02)
    assert found["reaction"].values.tolist() == ["emission", "photolysis", "return", "loss"]
    for zone in range(2):
        for k in range(4):
            up, down = np.ones(4), np.ones(4)
            up[k], down[k] = 1.02, 1.0 / 1.02
            expected = (ends(zone, up) - ends(zone, down)) / (2.0 * step)
            np.testing.assert_allclose(
                found["concentration_sensitivity"][k, zone, 1:], expected, atol=2e-5
            )


def delay_of_cantera(file, hot, mixture, number, factor, wait):
    gas = ct.Solution(file)
    gas.TPX = hot, ct.one_atm, mixture
    if number is not None:
        gas.set_multiplier(factor, number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reactor = ct.IdealGasReactor(gas)
        net = ct.ReactorNet([reactor])
    net.rtol, net.atol = 1e-10, 1e-20
    seen = [(0.0, hot)]
    while net.time < wait:
        net.step()
        seen.append((net.time, reactor.T))
    t, warm = np.array(seen).T
    slopes, middle = np.diff(warm) / np.diff(t), 0.5 * (t[1:] + t[:-1])
    k = int(np.argmax(slopes))
    near = slice(max(k - 2, 0), k + 3)
    curve = np.polyfit(middle[near] - middle[k], slopes[near], 2)
    return middle[k] - curve[1] / (2 * curve[0])


def check_delays(network, file, hot, fuel, equation, duration, step, tolerance):
    """Sensitivities of some reactions, named by Cantera's equations, are those of Cantera."""
    gas = ct.Solution(file)
    numbers = [gas.reaction_equations().index(one) for one in equation]
    names = [str(network.reactions.name_of(k)) for k in range(len(network.reactions))]
    ours = [next(k for k, n in enumerate(names) if n.endswith(f"({i + 1})")) for i in numbers]
    found = sensitivities(
        ignition_delay, network, reactions=ours, relative_step=step, temperature=hot,
        pressure=ATM, fuel=fuel, oxidizer=AIR, duration=duration, rtol=1e-7, device="cpu",
    )  # fmt: skip
    slope = found["ignition_delay_sensitivity"].values.ravel()
    gas.set_equivalence_ratio(1.0, fuel, AIR)
    mixture = gas.mole_fraction_dict()
    middle = delay_of_cantera(file, hot, mixture, None, 1.0, duration)
    for place, number in enumerate(numbers):
        ends = [
            delay_of_cantera(file, hot, mixture, number, factor, 1.5 * middle)
            for factor in (1.0 + step, 1.0 / (1.0 + step))
        ]
        expected = np.log(ends[0] / ends[1]) / (2.0 * np.log1p(step))
        np.testing.assert_allclose(slope[place], expected, atol=tolerance)
    return found


def test_delays_of_hydrogen_are_those_of_cantera(hydrogen):
    """Chain branching, three bodies, falloff and a duplicate."""
    equations = [
        "H + O2 <=> O + OH", "H + O2 + N2 <=> HO2 + N2", "2 OH (+M) <=> H2O2 (+M)",
        "H2 + O <=> H + OH",
    ]  # fmt: skip
    found = check_delays(hydrogen, "h2o2.yaml", 1000.0, "H2", equations, 2e-3, 0.05, 2e-3)
    assert found["ignition_delay_rank"].values.ravel()[0] == 1
    assert found.sizes["reaction"] == 4
    assert abs(found["final_temperature_sensitivity"]).max() < 1e-3


@pytest.mark.slow
def test_delays_of_methane_are_those_of_cantera():
    network = ergode.read_cantera(DATA / "gri30.yaml")
    equations = [
        "H + O2 <=> O + OH", "CH3 + O2 <=> CH2O + OH", "CH3 + H (+M) <=> CH4 (+M)",
        "2 CH3 (+M) <=> C2H6 (+M)",
    ]  # fmt: skip
    check_delays(network, "gri30.yaml", 1500.0, "CH4", equations, 4e-3, 0.05, 2e-3)


def test_a_criterion_and_mixtures_have_points(hydrogen):
    factors = np.ones((2, len(hydrogen.reactions)))
    branching = [hydrogen.reactions.name_of(k) for k in range(58)].index("H + O2 <=> O + OH (11)")
    factors[1, branching] = 1.3
    options = {
        "temperature": [1000.0, 1200.0], "pressure": ATM, "fuel": "H2", "oxidizer": AIR,
        "duration": 2e-3, "criterion": "OH", "device": "cpu",
    }  # fmt: skip
    found = ignition_delay(hydrogen, rate_factors=factors, **options)["ignition_delay"]
    assert found.dims == ("point", "temperature", "pressure", "equivalence_ratio")
    for row, one in zip(factors, found, strict=True):
        alone = ignition_delay(hydrogen, rate_factors=row, **options)["ignition_delay"]
        np.testing.assert_array_equal(alone, one)
    assert (found[1] < 0.98 * found[0]).all()


REFUSED = [
    (lambda: sensitivities(ergode.kinetics.plug_flow, chain()), "call is plug_flow; expected"),
    (lambda: sensitivities(integrate, "chain", times=[0, 1]), "network is str; expected a Reac"),
    (
        lambda: sensitivities(integrate, chain(), times=[0, 1], reactions=["frist"]),
        "reactions has 'frist', which the network does not have; did you mean 'first'?",
    ),
    (
        lambda: sensitivities(integrate, chain(), times=[0, 1], reactions=[2]),
        "reactions has 2; expected names, or numbers below 2",
    ),
    (
        lambda: sensitivities(
            integrate, gas(), times=[0, 1], reactions=[1], temperature=1e3, pressure=1e6,
            initial={"H2": 1},
        ),
        "which can have no factor: it follows from detailed balance",
    ),
    (
        lambda: sensitivities(integrate, chain(), times=[0, 1], rate_factors=[1.0, 1.0]),
        "rate_factors is given; sensitivities make factors of their own",
    ),
    (
        lambda: sensitivities(integrate, chain(), times=[0, 1], parameters={"k": 1.0}),
        "parameters has 'k', which the network does not have",
    ),
    (
        lambda: integrate(chain(), times=[0, 1], rate_factors=[1.0]),
        "rate_factors has the shape (1,); expected [2] or [point_count, 2]",
    ),
    (
        lambda: integrate(chain(), times=[0, 1], rate_factors=[1.0, -1.0]),
        "rate_factors of 'second' is -1; expected finite numbers, 0 or more",
    ),
    (
        lambda: integrate(
            gas(), times=[0, 1e-9], temperature=1e3, pressure=1e6, initial={"H2": 1},
            rate_factors=np.full(len(gas().reactions), 2.0),
        ),
        "is not 1, but it follows from detailed balance; expected 1",
    ),
    (
        lambda: integrate(
            FORMULAS, times=[0, 1], rate_factors=np.ones((2, 3)), parameters={"k": [1.0, 2.0]}
        ),
        "parameters or initial amounts are swept; expected one of them, or a Trajectory with a row",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_is_refused(make, words):
    with pytest.raises(ergode.ModelError) as caught:
        make()
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_the_step_is_between_0_and_1():
    for step in (0.0, 1.0):
        with pytest.raises(ergode.PlanError, match="relative_step is"):
            sensitivities(integrate, chain(), times=[0, 1], relative_step=step)


@pytest.mark.cuda
def test_factors_on_a_device():
    network = gas()
    factors = np.ones((3, len(network.reactions)))
    factors[1, 0], factors[2, 2] = 2.0, 0.5
    one, other = on_both(
        integrate, network, times=[0.0, 1e-7, 1e-6], temperature=[1200.0, 1900.0], pressure=1e6,
        initial={"H2O": 1.0, "H": 0.1}, heating="constant-volume", rate_factors=factors,
        method="rodas4",
    )  # fmt: skip
    np.testing.assert_allclose(one["temperature"], other["temperature"], rtol=2e-8)
    np.testing.assert_allclose(one["concentration"], other["concentration"], rtol=1e-6, atol=1e-18)
