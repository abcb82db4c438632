"""Reactors of Cantera's own mechanisms, against Cantera."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import ergode

ct = pytest.importorskip("cantera")
pytest.importorskip("ruamel.yaml")
DATA = Path(ct.__file__).parent / "data"
AIR = {"O2": 1.0, "N2": 3.76}


def _contents(reactor):
    """The phase in a reactor of Cantera 3.0, or of later ones."""
    return reactor.phase if hasattr(reactor, "phase") else reactor.thermo


def peer(file, kind, start, mixture, times):
    gas = ct.Solution(file)
    gas.TPX = start, ct.one_atm, mixture
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reactor = {
            "constant-volume": ct.IdealGasReactor,
            "constant-pressure": ct.IdealGasConstPressureReactor,
        }[kind](gas)
        network = ct.ReactorNet([reactor])
    network.rtol, network.atol = 1e-9, 1e-20
    temperatures, concentrations = [], []
    for time in times:
        network.advance(time)
        temperatures.append(reactor.T)
        concentrations.append(_contents(reactor).concentrations * 1e-3)
    return np.array(temperatures), np.array(concentrations)


@pytest.mark.parametrize("kind", ["constant-volume", "constant-pressure"])
def test_a_reactor_is_that_of_cantera(hydrogen, kind):
    mixture = {"H2": 2.0, "O2": 1.0, "AR": 4.0}
    times = np.linspace(0, 4e-4, 9)
    result = ergode.kinetics.integrate(
        hydrogen, times=times, initial=mixture, temperature=1100.0, pressure=1.01325e6,
        heating=kind, rtol=1e-7, device="cpu",
    )  # fmt: skip
    hot, amounts = peer("h2o2.yaml", kind, 1100.0, mixture, times[1:])
    np.testing.assert_allclose(result["temperature"].values[0, 1:], hot, rtol=1e-4)
    found = result["concentration"].values[0, 1:]
    np.testing.assert_allclose(found, amounts, rtol=2e-3, atol=1e-5 * amounts.max())
    assert result["conservation_error"].item() < 1e-9


def test_ignition_of_methane_is_that_of_cantera():
    network = ergode.read_cantera(DATA / "gri30.yaml")
    found = ergode.kinetics.ignition_delay(
        network, temperature=[1500.0], pressure=[1.01325e6], fuel="CH4", oxidizer=AIR,
        duration=0.1, device="cpu",
    )  # fmt: skip
    assert found.sizes == {"temperature": 1, "pressure": 1, "equivalence_ratio": 1}
    delay = found["ignition_delay"].item()
    times = delay * np.linspace(0.99, 1.01, 401)
    hot, _ = peer("gri30.yaml", "constant-volume", 1500.0, {"CH4": 1, "O2": 2, "N2": 7.52}, times)
    middle = times[np.argmax(np.gradient(hot, times))]
    assert delay == pytest.approx(middle, rel=1e-3)


def test_traces_below_rounding_cost_no_steps():
    """The usual absolute tolerance of molecules does not follow rtol: 77,000 steps if it did."""
    found = ergode.kinetics.integrate(
        ergode.read_cantera(DATA / "gri30.yaml"), times=[0, 0.1], temperature=852.7767,
        pressure=270961.0, initial={"CH3OH": 1.1688, "O2": 1.21246, "N2": 5.169}, rtol=1e-8,
        heating="constant-volume", device="cpu",
    )  # fmt: skip
    assert found["status"].item() == 0 and found["step_count"].item() < 200


def test_what_does_not_ignite_has_no_delay(hydrogen):
    with pytest.warns(ergode.AccuracyWarning, match="1 of 2 mixtures did not ignite within 0.01 s"):
        found = ergode.kinetics.ignition_delay(
            hydrogen, temperature=[600.0, 1200.0], pressure=[1e6], fuel="H2",
            oxidizer={"O2": 1.0, "AR": 3.76}, duration=1e-2, device=ergode.Device("cpu:1"),
        )  # fmt: skip
    assert found.attrs["fuel"] == "H2=1.0" and found.attrs["oxidizer"] == "O2=1.0, AR=3.76"
    assert found.attrs["duration"] == 1e-2 and found.attrs["heating"] == "constant-volume"
    delay = found["ignition_delay"].values.ravel()
    assert np.isnan(delay[0])
    assert 1e-6 < delay[1] < 1e-3
    with pytest.raises(ergode.ModelError, match="oxidizer is 'air'; expected a mapping"):
        ergode.kinetics.ignition_delay(
            hydrogen, temperature=1000, pressure=1e6, fuel="H2", oxidizer="air", device="cpu"
        )
    for fuel, oxidizer, heating, message in (
        ("AR", {"O2": 1}, "constant-volume", "needs 0 atoms of oxygen and oxidizer offers 2"),
        ("H2", {"AR": 1}, "constant-volume", "needs 1 atoms of oxygen and oxidizer offers 0"),
        ("H2", {"O2": 1}, None, "heating None is unknown; expected 'constant-volume', "),
    ):
        with pytest.raises(ergode.ModelError, match=message):
            ergode.kinetics.ignition_delay(
                hydrogen, temperature=1000, pressure=1e6, fuel=fuel, oxidizer=oxidizer,
                heating=heating, device="cpu",
            )  # fmt: skip


def instants(kind, mixture, hot, duration):
    """When Cantera's reactor ignites, by each criterion."""
    gas = ct.Solution("h2o2.yaml")
    gas.TPX = hot, ct.one_atm, mixture
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = ct.IdealGasReactor if kind == "constant-volume" else ct.IdealGasConstPressureReactor
        reactor = made(gas)
        network = ct.ReactorNet([reactor])
    network.rtol, network.atol, network.max_time_step = 1e-9, 1e-20, duration / 8_000
    rows = []
    while network.time < duration:
        network.step()
        phase = _contents(reactor)
        rows.append((network.time, reactor.T, phase.P, *phase["OH"].concentrations))
    time, temperature, pressure, radical = np.array(rows).T
    early = time > 1e-2 * duration  # slopes of the first tiny steps are rounding
    return {
        "temperature": time[early][np.argmax(np.gradient(temperature, time)[early])],
        "pressure": time[early][np.argmax(np.gradient(pressure, time)[early])],
        "OH": time[np.argmax(radical)],
        100.0: np.interp(100.0, temperature - hot, time),
    }


@pytest.mark.parametrize("kind", ["constant-volume", "constant-pressure"])
def test_delays_by_every_criterion_are_those_of_cantera(hydrogen, kind):
    mixture = {"H2": 2.0, "O2": 1.0, "AR": 4.0}
    expected = instants(kind, mixture, 1100.0, 3e-4)
    for criterion, instant in expected.items():
        if criterion == "pressure" and kind == "constant-pressure":
            continue
        found = ergode.kinetics.ignition_delay(
            hydrogen, temperature=[1100.0, 1300.0], pressure=1.01325e6, fuel="H2",
            oxidizer={"O2": 1.0, "AR": 4.0}, heating=kind, criterion=criterion, duration=1e-2,
            device="cpu",
        )["ignition_delay"].values.ravel()  # fmt: skip
        assert found[0] == pytest.approx(instant, rel=1e-3), criterion
        assert criterion == "OH" or 0 < found[1] < found[0]


@pytest.mark.parametrize("argon", [3e3, 1e5])
def test_dilute_mixtures_ignite(hydrogen, argon):
    """Some thousand atoms of argon for each of hydrogen: the temperature rises by a few kelvin."""
    mixture = {"H2": 2.0, "O2": 1.0, "AR": argon}
    found = ergode.kinetics.ignition_delay(
        hydrogen, temperature=1200.0, pressure=1.01325e6, fuel="H2",
        oxidizer={"O2": 1.0, "AR": argon}, duration=10.0, rtol=1e-7, device="cpu",
    )  # fmt: skip
    assert 0 < found["final_temperature"].item() - 1200.0 < 50.0
    if argon == 3e3:
        instant = instants("constant-volume", mixture, 1200.0, 0.1)["temperature"]
        assert found["ignition_delay"].item() == pytest.approx(instant, rel=1e-3)
    assert np.isfinite(found["ignition_delay"].item())


def test_criteria_that_are_not_there_are_refused(hydrogen):
    def call(**options):
        return ergode.kinetics.ignition_delay(
            hydrogen, temperature=1100.0, pressure=1.01325e6, fuel="H2", oxidizer=AIR,
            duration=1e-2, device="cpu", **options,
        )  # fmt: skip

    for criterion, message in (
        ("H3", "criterion is 'H3'; expected 'temperature', 'pressure', a species"),
        (-1.0, "criterion is -1.0; expected a positive number"),
    ):
        with pytest.raises(ergode.ErgodeError, match=message):
            call(criterion=criterion)
    with pytest.raises(ergode.ModelError, match="does not rise at constant pressure"):
        call(criterion="pressure", heating="constant-pressure")
    with pytest.warns(ergode.AccuracyWarning, match="1 of 1 mixtures did not ignite"):
        assert np.isnan(call(criterion=5000.0)["ignition_delay"].item())


def test_a_mixture_that_still_heats_ever_faster_has_not_ignited(hydrogen):
    """The end of a run is no ignition, however hot it is there."""

    def delay(duration):
        return ergode.kinetics.ignition_delay(
            hydrogen, temperature=1000.0, pressure=1e6, fuel="H2", oxidizer=AIR, duration=duration,
            device="cpu",
        )  # fmt: skip

    with pytest.raises(ergode.PlanError, match="duration is -1; expected a positive number"):
        delay(-1)
    whole = delay(1.0)["ignition_delay"].item()
    assert delay(1.01 * whole)["ignition_delay"].item() == pytest.approx(whole, rel=1e-3)
    for share in (0.95, 0.98, 0.99):
        with pytest.warns(ergode.AccuracyWarning, match="1 of 1 mixtures did not ignite within"):
            found = delay(share * whole)
        assert np.isnan(found["ignition_delay"].item())
    assert found["final_temperature"].item() > 1200.0


def test_mistaken_units_are_told(hydrogen):
    moles = {"H2": 2.0, "O2": 1.0, "AR": 3.76}
    options = {"times": [0.0, 1e-9], "temperature": 600.0, "device": "cpu", "initial": moles,
               "heating": "constant-volume"}  # fmt: skip
    with pytest.warns(ergode.AccuracyWarning, match="concentrations .* a gas of 3.4e"):
        ergode.kinetics.integrate(hydrogen, **options)
    with pytest.warns(ergode.AccuracyWarning, match="pressure is in dyn/cm2"):
        ergode.kinetics.ignition_delay(
            hydrogen, temperature=600, pressure=1.0, fuel="H2", oxidizer={"O2": 1}, duration=1e-6,
            device="cpu",
        )  # fmt: skip


def test_equilibrium_follows_from_detailed_balance(hydrogen):
    result = ergode.kinetics.integrate(
        hydrogen, times=[0, 10.0], initial={"H2": 2, "O2": 1}, temperature=2500.0,
        pressure=1.01325e6, device="cpu", rtol=1e-6,
    )  # fmt: skip
    gas = ct.Solution("h2o2.yaml")
    gas.TPX = 2500.0, ct.one_atm, {"H2": 2, "O2": 1}
    gas.equilibrate("TV")
    np.testing.assert_allclose(
        result["concentration"].values[0, -1], gas.concentrations * 1e-3, rtol=1e-4, atol=1e-20
    )


def test_malformed_mechanisms(tmp_path, refusal):
    good = (DATA / "h2o2.yaml").read_text()
    path = tmp_path / "mechanism.yaml"

    def error(text, **options):
        path.write_text(text)
        return refusal(ergode.read_cantera, path, **options)

    assert "not YAML" in error("a: [")
    assert "not a mechanism" in error("- 1")
    assert "no phase 'x'" in error(good, phase="x")
    assert "not a species" in error(good.replace("O + H2 <=> H + OH", "O + H3 <=> H + OH"))
    assert "cannot be read" in error(good.replace("O + H2 <=> H + OH", "O + H2"))
    assert "NASA9" in error(good.replace("model: NASA7", "model: NASA9", 1))
    with pytest.raises(ergode.ReadError, match="no such file"):
        ergode.read_cantera(tmp_path / "none.yaml")


def test_a_list_of_conditions(hydrogen):
    """Each mixture as in a grid that has it."""
    options = {"fuel": "H2", "oxidizer": AIR, "duration": 0.01, "device": "cpu"}
    some = ergode.kinetics.ignition_delay(
        hydrogen, temperature=[1100.0, 1300.0], pressure=[1e6, 2e6], equivalence_ratio=0.7,
        paired=True, **options,
    )  # fmt: skip
    grid = ergode.kinetics.ignition_delay(
        hydrogen, temperature=[1100.0, 1300.0], pressure=[1e6, 2e6], equivalence_ratio=[0.7],
        **options,
    )  # fmt: skip
    assert some["ignition_delay"].dims == ("mixture",)
    assert some["pressure"].values.tolist() == [1e6, 2e6]
    delays = grid["ignition_delay"].values[[0, 1], [0, 1], 0]
    np.testing.assert_allclose(some["ignition_delay"], delays, rtol=1e-4)
    with pytest.raises(ergode.ModelError, match="temperature has 2 values and pressure has 3"):
        ergode.kinetics.ignition_delay(
            hydrogen, temperature=[1100.0, 1300.0], pressure=[1e6, 2e6, 3e6], paired=True, **options
        )
    with pytest.raises(ergode.ModelError, match="mixture is empty"):
        ergode.kinetics.ignition_delay(
            hydrogen, temperature=1100.0, pressure=1e6, mixture={"H2": 0.0}, duration=0.01
        )


def test_own_mixtures(hydrogen):
    """As by fuel and oxidizer; a list of mixtures with their conditions; by every criterion."""
    options = {"duration": 0.01, "device": "cpu", "criterion": "OH"}
    hot, pressure, share = np.array([1100.0, 1300.0]), [1e6, 2e6], np.array([0.7, 1.2])
    usual = ergode.kinetics.ignition_delay(
        hydrogen, temperature=hot, pressure=pressure, fuel="H2", oxidizer=AIR, paired=True,
        equivalence_ratio=share, **options,
    )  # fmt: skip
    listed = ergode.kinetics.ignition_delay(
        hydrogen, temperature=hot, pressure=pressure, paired=True,
        mixture={"H2": 2 * share, **AIR}, **options,
    )  # fmt: skip
    assert listed["ignition_delay"].dims == ("mixture",)
    assert "equivalence_ratio" not in listed.coords
    assert "H2=one for each mixture, O2=1.0" in listed.attrs["mixture"]
    np.testing.assert_allclose(listed["ignition_delay"], usual["ignition_delay"], rtol=1e-12)
    crossed = ergode.kinetics.ignition_delay(
        hydrogen, temperature=hot, pressure=pressure, mixture={"H2": 2.4, **AIR}, **options
    )
    assert crossed["ignition_delay"].dims == ("temperature", "pressure")
    np.testing.assert_allclose(
        crossed["ignition_delay"][1, 1], usual["ignition_delay"][1], rtol=1e-4
    )
    axes = ergode.plots.ignition_map(crossed, pressure=1)
    assert axes.get_legend() is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mixture": {"H2": 1.0}, "fuel": "H2"}, "fuel and mixture are given"),
        ({"mixture": {"H2": 1.0}, "equivalence_ratio": 2.0}, "equivalence_ratio has no effect"),
        ({"mixture": {"H2": [1.0, 2.0], "O2": 1.0}}, "mixture has lists"),
        ({"mixture": {"XY": 1.0}}, "'XY'"),
        ({"mixture": {"H2": [1.0, 2, 3], "O2": [1.0, 2]}, "paired": True}, "mixture 'O2' has 2"),
        ({"fuel": "H2"}, "oxidizer is not given"),
        ({}, "fuel is not given; expected a fuel and an oxidizer, or a mixture"),
    ],
)
def test_mixtures_that_are_refused(hydrogen, given, words):
    with pytest.raises(ergode.ModelError, match=words):
        ergode.kinetics.ignition_delay(hydrogen, temperature=1100.0, pressure=1e6, **given)


@pytest.mark.parametrize("species", ["AR", "H2"])
def test_a_species_that_is_most_at_the_start_tells_no_delay(hydrogen, species):
    """One that the mixture does not have, and its fuel."""
    with pytest.warns(ergode.AccuracyWarning, match="1 of 1 mixtures"):
        found = ergode.kinetics.ignition_delay(
            hydrogen, temperature=1200.0, pressure=1.01325e6, duration=1e-2, device="cpu",
            criterion=species, mixture={"H2": 2.0, "O2": 1.0, "N2": 4.0},
        )  # fmt: skip
    assert np.isnan(found["ignition_delay"].item())
