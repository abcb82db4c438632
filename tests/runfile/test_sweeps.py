"""Sweeps of a run file are those of the call that it stands for."""

import json

import numpy as np
import pytest

import ergode
from ergode.cli.run import ask, run
from ergode.runfile.read import read

EPIDEMICS = """
engine = "epidemics"
[parameters]
rate = [0.2, 0.4]
seeds = [2, 5]
[model]
kind = "si"
transmission_rate = "rate"
[contacts]
generator = "random-regular"
node_count = 40
degree = 3
[simulate]
initial = { I = "seeds" }
times = [0, 2, 4]
replicates = 3
seed = 7
device = "cpu:1"
"""
KINETICS = """
engine = "kinetics"
[network]
species = { A = 1, B = 0 }
parameters = { k = 1.0 }
reactions = [{ reaction = "A -> B", rate_constant = "k" }]
[integrate]
times = [0, 1]
parameters = { k = { start = 1, stop = 3, count = 3 } }
initial = { A = [1, 2] }
device = "cpu:1"
"""

TRAJECTORIES = """
engine = "trajectories"
equations = { x = "-k * x" }
initial = { x = 1 }
[integrate]
times = [0, 1]
"""
DENSITY = """
engine = "density"
equations = { x = "-k * x" }
prior = { mean = [1], covariance = [1] }
[propagate]
times = [0, 1]
"""


def ran(tmp_path, capsys, text):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    assert not run(ask(path, {}, None), "json")
    return ergode.open_dataset(path.with_suffix(".nc")), json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("common", [True, False])
def test_epidemics(tmp_path, capsys, common):
    text = EPIDEMICS if common else EPIDEMICS + "common_random_numbers = false\n"
    found, said = ran(tmp_path, capsys, text)
    assert found["count"].dims[:3] == ("rate", "seeds", "replicate")
    expected = ergode.epidemics.simulate(
        lambda rate: ergode.CompartmentModel.si(transmission_rate=rate),
        ergode.ContactNetwork.random_regular(40, 3),
        parameters=ergode.grid(rate=[0.2, 0.4], seeds=[2, 5]),
        initial=lambda seeds: {"I": seeds},
        times=[0, 2, 4], replicates=3, seed=7, device="cpu:1", common_random_numbers=common,
    )  # fmt: skip
    assert found.attrs["common_random_numbers"] == common
    np.testing.assert_array_equal(found["count"], expected["count"])
    assert said["figure"] is None
    assert said["summary"]["final I"]["high"] <= 40


MEASURES = """
[parameters]
share = [0.2, 0.8]
first = 1
[model]
kind = "si"
transmission_rate = "0.4 * share"
[contacts.layers.home]
generator = "random-regular"
node_count = 40
degree = "2 * first + 1"
factor = "1 + share"
[layer_factors.home]
changes = [0, "first"]
factors = [1, "1 - share"]
[simulate]
initial = { I = "4 * first" }
times = [0, 2, 4]
replicates = 3
seed = 7
device = "cpu:1"
[[interventions]]
kind = "vaccination"
fraction = "share"
efficacy = ["share / 2", 0.9]
interval = "first"
start = "first / 2"
[[importations]]
compartment = "I"
rate = "10 * share"
stop = "first + 2"
"""


def test_all_tables_of_an_epidemic_take_formulas_of_parameters(tmp_path, capsys):
    found, _ = ran(tmp_path, capsys, 'engine = "epidemics"' + MEASURES)
    for share in (0.2, 0.8):
        home = ergode.ContactNetwork.random_regular(40, 3)
        expected = ergode.epidemics.simulate(
            ergode.CompartmentModel.si(transmission_rate=0.4 * share),
            ergode.ContactNetwork.from_layers({"home": home}, {"home": 1 + share}),
            initial={"I": 4}, times=[0, 2, 4], replicates=3, seed=7, device="cpu:1",
            layer_factors={"home": ergode.Calendar([0, 1], [1, 1 - share])},
            importations=ergode.Importation("I", rate=10 * share, stop=3),
            interventions=ergode.Vaccination(
                fraction=share, efficacy=[share / 2, 0.9], interval=1, start=0.5
            ),
        )  # fmt: skip
        np.testing.assert_array_equal(found["count"].sel(share=share), expected["count"])


def test_means_of_a_sweep_are_summed_up(tmp_path, capsys):
    found, said = ran(tmp_path, capsys, EPIDEMICS + 'output = "statistics"\n')
    last = found["mean"].sel(compartment="I").isel(time=-1)
    assert said["summary"]["mean final I"]["median"] == pytest.approx(float(last.median()))


def test_kinetics(tmp_path, capsys):
    found, said = ran(tmp_path, capsys, KINETICS)
    amount = found["concentration"].isel(zone=0, time=-1).sel(species="A")
    expected = np.exp(-found["k"]) * found["A"]
    np.testing.assert_allclose(*np.broadcast_arrays(amount, expected.transpose(*amount.dims)), 1e-3)
    assert said["figure"] is None
    assert set(said["summary"]) == {"final A", "final B"}


def test_a_list_of_tolerances_of_kinetics_is_by_zone(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(KINETICS + "rtol = [1e-3, 1e-5]\n")
    np.testing.assert_array_equal(read(path).request.options["rtol"], [1e-3, 1e-5])
    for written, expected in (
        ("1e-9", 1e-9),
        ("[1e-9, 1e-8]", [1e-9, 1e-8]),
        ("{ A = 1e-9 }", {"A": 1e-9}),
    ):
        path.write_text(KINETICS + f"atol = {written}\n")
        assert read(path).request.options["atol"] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EPIDEMICS.replace('"seeds"', "4"), "[parameters] has 'seeds', which no other table names"),
        (EPIDEMICS.replace('"rate"', '"rat"'), "[model] transmission_rate is 'rat'; expected a nu"),
        (EPIDEMICS.replace("[2, 5]", '"x"'), "[parameters] seeds is 'x'; expected a number"),
        (EPIDEMICS + "[output]\nfigure = 'a.png'", "there is no figure of this output"),
        (KINETICS + "[initial]\nA = 1", "[initial] and [integrate.initial] are given"),
        (EPIDEMICS.replace('"rate"', '"rat"'), "or a formula of them; did you mean"),
        (EPIDEMICS.replace("[0.2, 0.4]", "[]"), "[parameters] rate is []; expected a number, or"),
        (EPIDEMICS.replace('"rate"', '"2 * rat"'), "is the formula '2 * rat', but 'rat' is not in"),
        (EPIDEMICS.replace('"rate"', '"(-rate) ^ 0.5"'), "is nan; expected a finite number"),
        (TRAJECTORIES, "[parameters] has no value for 'k', which the formulas name"),
        (DENSITY, "[parameters] has no value for 'k', which the formulas name"),
    ],
)
def test_mistakes_say_where_they_are(tmp_path, text, message):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with pytest.raises(ergode.ReadError) as caught:
        read(path)
    assert str(caught.value).startswith("sweep.toml: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("step", ["step = 3", "count = 2"])
def test_a_range_of_whole_numbers_sweeps_counts_of_nodes(tmp_path, capsys, step):
    swept = EPIDEMICS.replace("[2, 5]", f"{{ start = 2, stop = 5, {step} }}")
    found, _ = ran(tmp_path, capsys, swept)
    assert found["seeds"].values.tolist() == [2, 5]
    np.testing.assert_array_equal(found["cases"].isel(rate=0, time=0).T, [[2, 5]] * 3)


def test_a_range_with_a_fraction_sweeps_no_counts(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(EPIDEMICS.replace("[2, 5]", "{ start = 0.25, stop = 2, step = 0.5 }"))
    with pytest.raises(ergode.ModelError, match=r"sweep\.toml: .*initial\['I'\]"):
        read(path).execute(progress=False)


@pytest.mark.parametrize("rates", ["[0, 0.4]", "[0.4, 0]"])
def test_who_is_infectious_at_any_point_is_told(tmp_path, rates):
    path = tmp_path / "sweep.toml"
    path.write_text(EPIDEMICS.replace("[0.2, 0.4]", rates))
    assert read(path).request.describe()["model"] == "S, I; infectious: I"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (KINETICS.replace("k = { start", "q = { start"), "parameters has 'q', which the network"),
        (KINETICS.replace("[1, 2]", "-1"), "initial 'A' is -1 in zone 0"),
    ],
)
def test_errors_of_the_call_name_the_file_and_the_table(tmp_path, text, message):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with pytest.raises(ergode.ModelError) as caught:
        read(path).execute(progress=False)
    assert str(caught.value).startswith("sweep.toml: [integrate]: ")
    assert message in str(caught.value)


def test_a_sweep_that_has_no_room_is_refused_before_it_is_built(tmp_path):
    crossed = "k = { start = 1, stop = 2, count = 100_000 }"
    path = tmp_path / "sweep.toml"
    path.write_text(
        KINETICS.replace("k = { start = 1, stop = 3, count = 3 }", crossed).replace(
            "A = [1, 2]", f"A = {crossed[4:]}"
        )
    )
    said = r"sweep\.toml: \[integrate\]: a sweep of 100,000 of 'k' x 100,000 of 'A' needs .* GB"
    with pytest.raises(ergode.PlanError, match=said):
        read(path).execute(progress=False)
