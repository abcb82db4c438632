"""One readable line for what is wrong."""

import numpy as np
import pytest

import ergode
from ergode.core.status import Status
from ergode.kinetics import Trajectory, integrate


@pytest.fixture(scope="module")
def carbon():
    """Carbon burning, two nuclei and a rate."""
    law = ergode.Reaclib([(60.9649, 0.0, -84.165, -1.56627, -0.0736084, -0.072797, -2 / 3)], 0.5)
    return ergode.ReactionNetwork(
        [
            ergode.Species("c12", mass_number=12, charge_number=6),
            ergode.Species("mg24", mass_number=24, charge_number=12),
        ],
        [ergode.Reaction("2 c12 -> mg24", rate_constant=law)],
    )


GOOD = {"times": [0, 1e-3], "temperature": 3e9, "density": 1e7, "initial": {"12C": 1.0}}


def refused(network, error=ergode.ModelError, **changes):
    with pytest.raises(error) as caught:
        integrate(network, **(GOOD | {"device": "cpu"} | changes))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_temperature_in_the_wrong_unit_is_told(carbon):
    with pytest.warns(ergode.AccuracyWarning, match="at most 3 K, where no nuclei react; 1 GK"):
        integrate(carbon, **(GOOD | {"device": "cpu", "temperature": 3.0}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": np.nan}, ["temperature is nan in zone 0"]),
        ({"temperature": [3e9, 0.0]}, ["temperature is 0 in zone 1"]),
        ({"temperature": None}, ["temperature is not given"]),
        ({"density": 0.0}, ["density is 0 in zone 0", "positive"]),
        ({"density": None}, ["density is not given"]),
        ({"density": [[1.0]]}, ["density has shape (1, 1)"]),
        ({"density": [1e7, 1e8], "temperature": [1e9] * 3}, ["density has 2", "temperature has 3"]),
        ({"initial": {"12C": -0.1}}, ["'12C' is -0.1 in zone 0"]),
        ({"initial": {"12C": np.ma.masked_equal([1.0, 0.5], 0.5)}}, ["'12C' is nan in zone 1"]),
        ({"initial": {"c21": 1.0}}, ["'c21'", "did you mean 'c12'?"]),
        ({"initial": {"c12": 1.0, "12C": 1.0}}, ["'c12' twice"]),
        ({"initial": {}}, ["empty in zone 0"]),
        ({"initial": 3}, ["initial is 3"]),
        ({"initial": None}, ["empty in zone 0"]),
        ({"times": [0.0]}, ["times has one time"]),
        ({"pressure": 1.0}, ["pressure is for networks of molecules"]),
        ({"heating": "hot"}, ["heating 'hot' is unknown"]),
    ],
)
def test_conditions(carbon, changes, words):
    message = refused(carbon, **changes)
    assert all(word in message for word in words), message


def test_options(carbon):
    assert "method 'cvode' is unknown" in refused(carbon, ergode.PlanError, method="cvode")
    assert "rtol is 1e-15" in refused(carbon, ergode.PlanError, rtol=1e-15)
    assert "rtol is 0" in refused(carbon, ergode.PlanError, rtol=0)
    assert "max_steps is 0" in refused(carbon, ergode.PlanError, max_steps=0)
    assert "expected a ReactionNetwork" in refused("carbon")


def test_networks_of_another_kind():
    def of(reaction, **more):
        return ergode.ReactionNetwork({"A": 1, "B": 0}, [reaction], **more)

    plain = {"temperature": None, "density": None, "initial": {"A": 1}}
    assert "supports mass action only" in refused(
        of(ergode.Reaction("A -> B", rate="A / (1 + A)")), **plain
    )
    four = of(ergode.Reaction("4 A -> B", rate_constant=1.0))
    half = of(ergode.Reaction({"A": 0.5}, ["B"], rate_constant=1.0))
    for more in (four, half):
        said = refused(more, ergode.PlanError, method="asymptotic", **plain)
        assert "'asymptotic' cannot integrate more than three reactants" in said
    unknown = of(ergode.Reaction("A -> B", rate_constant=ergode.PowerLaw(1.0, {"C": 1})))
    assert "has an order in 'C', which the network does not have" in refused(unknown, **plain)
    event = ergode.Event("A < 0.5", {"A": "1.0"})
    ended = of(ergode.Reaction("A -> B", rate_constant=1.0), events=[event])
    assert "has events" in refused(ended, **plain)
    balanced = of(
        ergode.Reaction("A -> B", rate_constant=ergode.DetailedBalance(ergode.Arrhenius(1.0)))
    )
    assert "does not come before" in refused(balanced, **plain)


def test_a_trajectory_is_ascending():
    with pytest.raises(ergode.ModelError, match=r"ascending.*jump .* numpy.nextafter\(t"):
        Trajectory([0, 0], [1, 1])
    with pytest.raises(ergode.ModelError, match="ascending numbers$"):
        Trajectory([1, 0], [1, 1])
    step = Trajectory([0.0, 1.0, np.nextafter(1.0, np.inf), 2.0], [1e9, 1e9, 2e9, 2e9])
    assert step.times.size == 4
    with pytest.raises(ergode.ModelError, match="one for every time"):
        Trajectory([0, 1], [1, 1, 1])


def test_one_bad_zone_does_not_disturb_the_others(carbon):
    result = integrate(carbon, **(GOOD | {"density": [1e7, 1e305, 1e7], "device": "cpu"}))
    assert result["status"].values.tolist() == [0, Status.STEP_TOO_SMALL, 0]
    assert np.isnan(result["mass_fraction"].values[1, -1]).all()
    np.testing.assert_array_equal(*result["mass_fraction"].values[::2])
    with pytest.raises(ergode.ErgodeError, match="1 of 3"):
        result.ergode.raise_for_status()


def test_a_limit_on_steps_is_a_status(carbon):
    result = integrate(carbon, **(GOOD | {"device": "cpu", "max_steps": 2}))
    assert result["status"].item() == ergode.core.status.Status.TOO_MANY_STEPS


def test_malformed_files(tmp_path, refusal):
    good_species = "1H 1 1 0 1.0 7.289\n" + "1.0 " * 8 + "\n" + "1.0 " * 8 + "\n" + "1.0 " * 8
    rate = "p-->p 1 0 1 1 1 0 0 1.0 0.0\n1 0 0 0 0 0 0\n1\n0\n1\n0\n0\n0\n"
    species, rates = tmp_path / "species.inp", tmp_path / "rates.data"

    def error(species_text, rates_text):
        species.write_text(species_text)
        rates.write_text(rates_text)
        return refusal(ergode.read_fern, species, rates)

    assert "lines 1 to 4" in error(good_species.replace("1 1 0 1.0", "2 1 0 1.0"), rate)
    assert "3 lines" in error("\n".join(good_species.splitlines()[:3]), rate)
    assert "lines 1 to 8" in error(good_species, rate.replace("1 0 0 0 0 0 0", "1 0 0"))
    assert "species number 5" in error(good_species, rate[:-4] + "5\n0\n")
    other = rate.replace("1\n0\n1\n0\n0\n0\n", "1\n0\n1\n1\n0\n0\n")
    assert other != rate
    assert "lines 5 and 6: rate 'p-->p' is of Z, N = (1, 1)" in error(good_species, other)
    with pytest.raises(ergode.ReadError, match="no such file"):
        ergode.read_fern(tmp_path / "nothing", rates)


def test_mass_fractions_that_do_not_add_up_are_told(carbon):
    with pytest.warns(RuntimeWarning, match="add up to 0.5 in zone 0"):
        integrate(carbon, **(GOOD | {"initial": {"12C": 0.5}, "device": "cpu"}))


def test_amounts_of_the_network_are_the_start_if_no_others_are_given():
    decay = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.25}, [ergode.Reaction("A -> B", rate_constant=1.0)]
    )
    result = integrate(decay, times=[0, 1], device="cpu", rtol=1e-8)
    np.testing.assert_allclose(result["concentration"].values[0, -1].sum(), 1.25, rtol=1e-12)
    assert np.isnan(result["temperature"]).all()
    result = integrate(decay, times=[0, 1], initial={"A": 2.0}, device="cpu")
    np.testing.assert_allclose(result["concentration"].values[0, -1].sum(), 2.25, rtol=1e-12)


def test_rules_are_reported():
    network = ergode.ReactionNetwork(
        [ergode.Species("A", 1.0, "cell"), ergode.Species("B", 0.0, "cell", "concentration")],
        [ergode.Reaction("A -> B", rate_constant="k")],
        {"k": 2.0},
        {"cell": 3.0},
        {"half": "total / 2", "total": "A / cell + B", "clock": "k * time"},
    )
    result = integrate(network, times=[0, 1], initial={"A": [1.0, 2.0]}, device="cpu", rtol=1e-8)
    found = result["quantity"]
    np.testing.assert_allclose(found.sel(rule="total"), [[1, 1], [2, 2]], rtol=1e-12)
    np.testing.assert_allclose(found.sel(rule="half"), [[0.5, 0.5], [1, 1]], rtol=1e-12)
    np.testing.assert_allclose(found.sel(rule="clock"), [[0, 2], [0, 2]])
