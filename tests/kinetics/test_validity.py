"""Fits, polynomials, screening and tolerances that do not hold are told."""

import warnings

import numpy as np
import pytest
from kernel_cases import CARBON

import ergode

WILD = ergode.ReactionNetwork(
    CARBON.species,
    [
        *CARBON.reactions,
        ergode.Reaction(
            "mg24 -> 2 c12", name="wild",
            rate_constant=ergode.Reaclib([(-160.0, 1.0, 0, 0, 0, 0, 0), (-99.0, *6 * (0,))]),
        ),
    ],
)  # fmt: skip


def test_a_trajectory_that_cools_below_the_fits():
    common = {"times": [0, 1e-6], "density": 1.0, "initial": {"c12": 1.0}, "device": "cpu"}
    cooling = ergode.kinetics.Trajectory([0, 1e-6], [1e9, 5e6])
    found = f"at 5e.06 K 1 of 2 fits .* wild has {np.exp(40):.2g} instead of {np.exp(-60):.2g}"
    with pytest.warns(ergode.AccuracyWarning, match=found.replace("+", r"\+")):
        ergode.kinetics.integrate(WILD, temperature=cooling, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ergode.kinetics.integrate(WILD, temperature=1e7, **common)
        ergode.kinetics.integrate(CARBON, temperature=cooling, **common)


def test_cold_cells():
    cells = [3e9, 5e6], [1.0, 1.0], [[1.0, 0.0]] * 2, 1e-9
    with pytest.warns(ergode.AccuracyWarning, match="pass minimum_temperature=1e7"):
        ergode.kinetics.burn(WILD, *cells, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ergode.kinetics.burn(WILD, *cells, minimum_temperature=1e7, device="cpu")
        ergode.kinetics.burn(CARBON, *cells, device="cpu")


HOT_FIT = ergode.ReactionNetwork(
    CARBON.species,
    [
        ergode.Reaction(
            "2 c12 -> mg24", name="hot",
            rate_constant=ergode.Reaclib([(-50.0, 0, 0, 0, 2.0, 0, 0)]),
        ),
    ],
)  # fmt: skip


def test_fits_above_1e10_kelvin():
    common = {"density": 1e5, "initial": {"c12": 1.0}}
    said = "at 3e.10 K 1 of 1 fits of REACLIB, which hold to 1e10 K, .* hot has"
    with pytest.warns(ergode.AccuracyWarning, match=said.replace("e.10", r"e\+10")):
        ergode.kinetics.integrate(
            HOT_FIT, times=[0, 1e-12], temperature=3e10, device="cpu", **common
        )
    with pytest.warns(ergode.AccuracyWarning, match="which hold to 1e10 K"):
        ergode.kinetics.reaction_rates(HOT_FIT, temperature=3e10, **common)
    with pytest.warns(ergode.AccuracyWarning, match="which hold to 1e10 K"):
        ergode.kinetics.burn(HOT_FIT, [3e10], [1e5], [[1.0, 0.0]], 1e-12, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ergode.kinetics.reaction_rates(HOT_FIT, temperature=1e10, **common)


@pytest.mark.parametrize("call", ["integrate", "burn", "reaction_rates"])
def test_weak_screening_of_strongly_coupled_matter(call):
    """Where the warning is missing, the factor is that of Chugunov and DeWitt within a fifth."""

    def run(temperature, density, screening):
        if call == "burn":
            return ergode.kinetics.burn(
                CARBON, [temperature], [density], [[1.0, 0.0]], 1e-9, screening=screening,
                device="cpu",
            )  # fmt: skip
        common = {
            "temperature": temperature, "density": density, "initial": {"c12": 1.0},
            "screening": screening,
        }  # fmt: skip
        if call == "integrate":
            return ergode.kinetics.integrate(CARBON, times=[0, 1e-9], device="cpu", **common)
        return ergode.kinetics.reaction_rates(CARBON, **common)["coefficient"].values[0, 0]

    with pytest.warns(
        ergode.AccuracyWarning, match="weak coupling.* rate of c12 by exp.* use .*'chugunov'"
    ):
        run(1e8, 1e7, "weak")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(1e8, 1e7, "chugunov")
        run(1e8, 1e7, None)
        run(3e9, 1e6, "weak")
    if call == "reaction_rates":
        rng, told = np.random.default_rng(4), 0
        for hot, dense in 10 ** rng.uniform([8, 4], [10, 10], (60, 2)):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                ratio = run(hot, dense, "weak") / run(hot, dense, "chugunov")
            told += bool(said)
            assert said or abs(ratio - 1) < 0.3
        assert 10 < told < 50


ARGON = (2.5, 0.0, 0.0, 0.0, 0.0, -745.375, 4.37967491)


def gas(low, high):
    """A gas of two atoms that have polynomials on a range."""
    polynomials = ergode.NasaPolynomials(ARGON, ARGON, 1000.0, {"Ar": 1}, (low, high))
    species = [ergode.Species(name, thermochemistry=polynomials) for name in ("A", "B")]
    return ergode.ReactionNetwork(species, [ergode.Reaction("A -> B", rate_constant=1.0)])


def test_polynomials_outside_of_their_temperatures():
    some = {"initial": {"A": 1.0}, "pressure": 1e6}
    network = gas(300.0, 3000.0)

    def calls(network, temperature):
        ergode.kinetics.reaction_rates(network, temperature=temperature, **some)
        ergode.kinetics.equilibrium(network, temperature=temperature, **some)
        ergode.kinetics.integrate(
            network, times=[0, 1.0], temperature=temperature, device="cpu", **some
        )
        ergode.kinetics.burn(network, [temperature], [1e-3], [[1.0, 0.0]], 1.0, device="cpu")

    for temperature in (250.0, 3500.0):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            calls(network, temperature)
        texts = [str(one.message) for one in said]
        assert len(texts) == 4, texts
        assert all("those of 'A' hold from 300 to 3000 K" in text for text in texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for temperature in (298.15, 1000.0, 3000.0):
            calls(network, temperature)
        calls(gas(0.0, np.inf), 5000.0)
    with pytest.raises(ergode.ModelError, match="temperature_range of NASA polynomials is"):
        gas(500.0, 500.0)


def test_traces_that_grow():
    """X doubles from a trace: its growth is the whole solution."""
    grow = ergode.ReactionNetwork(
        {"A": 1.0, "X": 0.0, "Y": 0.0},
        [
            ergode.Reaction("A + X -> 2 Y", rate_constant=2.0),
            ergode.Reaction("Y -> X", rate_constant=5.0),
        ],
    )
    common = {"times": [0, 60.0], "device": "cpu"}
    with pytest.warns(ergode.AccuracyWarning, match="'X' begins with 1e-20 .* smaller atol"):
        ergode.kinetics.integrate(grow, initial={"X": 1e-20}, **common)
    source = ergode.ReactionNetwork(
        grow.species, [*grow.reactions, ergode.Reaction("A -> X", rate_constant=1e-3)]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ergode.kinetics.integrate(grow, initial={"X": 1e-20}, atol=1e-24, **common)
        ergode.kinetics.integrate(grow, initial={"X": 1e-6}, **common)
        ergode.kinetics.integrate(source, initial={"X": 1e-20}, **common)


def test_any_function_of_the_temperature(recwarn):
    """A fit follows the function by zone; outside of its range it says so."""

    def law(t):
        return 1e-3 / (1.0 + np.exp(-900.0 / t)) * (t / 300.0) ** 1.7

    fit = ergode.TemperatureFit.of(law, (200.0, 500.0))
    network = ergode.ReactionNetwork(
        {"A": 2.0, "B": 1.0},
        [
            ergode.Reaction("A -> B", rate_constant=fit, name="fit"),
            ergode.Reaction("B -> A", rate_constant=ergode.ThreeBody(fit, {"A": 3.0}, 0.0)),
            ergode.Reaction("A -> 0", rate_constant=ergode.Photolysis(fit, 2.0)),
        ],
    )
    hot = np.linspace(200.0, 500.0, 40)
    found = ergode.kinetics.reaction_rates(network, temperature=hot, sunlight=0.5)["coefficient"]
    expected = law(hot)[:, None] * np.array([1.0, 6.0, 0.25])
    np.testing.assert_allclose(found, expected, rtol=2e-6)
    assert not recwarn.list
    for temperature in (150.0, 600.0):
        with pytest.warns(ergode.AccuracyWarning, match="hold from 200 to 500 K"):
            ergode.kinetics.reaction_rates(network, temperature=temperature, sunlight=1.0)
        with pytest.warns(ergode.AccuracyWarning, match="hold from 200 to 500 K"):
            ergode.kinetics.integrate(
                network, times=[0, 1], temperature=temperature, sunlight=1.0, device="cpu"
            )
    for function, limits, message in (
        (law, (500.0, 200.0), "expected two ascending temperatures"),
        (lambda t: t - 300.0, (200.0, 400.0), "the function is .* expected a positive"),
        (lambda t: 1.0 + (t > 300.0), (200.0, 400.0), "not smooth enough"),
    ):
        with pytest.raises(ergode.ModelError, match=message):
            ergode.TemperatureFit.of(function, limits)
