import datetime

import numpy as np
import pytest

import ergode
from ergode.runfile.read import read

TOP = 'engine = "epidemics"\n'
MODEL = '[model]\nkind = "si"\ntransmission_rate = 0.5\n'
CONTACTS = '[contacts]\ngenerator = "random-regular"\nnode_count = 20\ndegree = 3\n'
SIMULATE = "[simulate]\ninitial = { I = 1 }\ntimes = [0, 1, 5.5]\n"


@pytest.fixture
def reading(tmp_path):
    def read_text(*, top=TOP, model=MODEL, contacts=CONTACTS, simulate=SIMULATE, output=""):
        path = tmp_path / "run.toml"
        path.write_text("\n".join([top, model, contacts, simulate, output]))
        return read(path)

    return read_text


def test_defaults(reading, tmp_path):
    asked = reading()
    assert asked.request.model == ergode.CompartmentModel.si(transmission_rate=0.5)
    assert asked.request.contacts == ergode.ContactNetwork.random_regular(20, 3)
    assert asked.request.options["initial"] == {"I": 1}
    np.testing.assert_array_equal(asked.request.options["times"], [0, 1, 5.5])
    assert asked.dataset == tmp_path / "run.nc"
    assert asked.figure == tmp_path / "run.png"
    assert asked.title is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('{ distribution = "exponential", mean = 4 }', ergode.Exponential(mean=4)),
        ('{ distribution = "log-normal", mean = 5, sd = 2 }', ergode.LogNormal(mean=5, sd=2)),
        ('{ distribution = "weibull", shape = 2, scale = 3 }', ergode.Weibull(shape=2, scale=3)),
        ('{ distribution = "gamma", shape = 2, rate = 0.5 }', ergode.Gamma(shape=2, rate=0.5)),
        ('{ distribution = "erlang", stages = 3, mean = 6 }', ergode.Erlang(stages=3, mean=6)),
        ('{ distribution = "deterministic", value = 3 }', ergode.Deterministic(3)),
        (
            '{ distribution = "empirical", times = [1, 2], cdf = [0, 1] }',
            ergode.Empirical([1, 2], [0, 1]),
        ),
    ],
)
def test_distributions(reading, written, expected):
    asked = reading(model=f'[model]\nkind = "sir"\ntransmission_rate = 1\ninfectious = {written}')
    assert asked.request.model.progressions[0].holding_time == expected


def test_model_spelled_out(reading):
    asked = reading(
        model="""
        [model]
        compartments = ["S", "I", "R", "D"]
        [[model.infections]]
        susceptible = "S"
        infected = "I"
        transmission_rate = { I = 0.2 }
        [[model.progressions]]
        compartment = "I"
        to = { R = 0.9, D = 0.1 }
        holding_time = { distribution = "exponential", rate = 0.1 }
        """
    )
    assert asked.request.model == ergode.CompartmentModel(
        ["S", "I", "R", "D"],
        [ergode.Infection("S", "I", {"I": 0.2})],
        [ergode.Progression("I", {"R": 0.9, "D": 0.1}, ergode.Exponential(rate=0.1))],
    )


def test_parts_of_a_model_by_attribute(reading):
    asked = reading(
        model="""
        [model]
        compartments = ["S", "I", "R", "D"]
        [[model.infections]]
        susceptible = "S"
        infected = "I"
        transmission_rate = { I = 0.2 }
        susceptibility = { attribute = "masked", values = { true = 0.5, false = 1.0 } }
        infectivity = "loudness"
        [[model.progressions]]
        compartment = "I"
        to = { attribute = "age", groups = [0, 65], values = ["R", { R = 0.9, D = 0.1 }] }
        [model.progressions.holding_time]
        attribute = "risk"
        [model.progressions.holding_time.values]
        1 = { distribution = "exponential", rate = 0.1 }
        high = { distribution = "deterministic", value = 3 }
        """
    )
    stays = {1: ergode.Exponential(rate=0.1), "high": ergode.Deterministic(3)}
    masked = ergode.ByAttribute("masked", {True: 0.5, False: 1.0})
    assert asked.request.model == ergode.CompartmentModel(
        ["S", "I", "R", "D"],
        [ergode.Infection("S", "I", {"I": 0.2}, susceptibility=masked, infectivity="loudness")],
        [
            ergode.Progression(
                "I",
                ergode.ByAttribute("age", ["R", {"R": 0.9, "D": 0.1}], groups=[0, 65]),
                ergode.ByAttribute("risk", stays),
            )
        ],
    )


def test_a_bad_part_by_attribute_names_its_table(reading):
    to = '{ attribute = "age", values = [{ R = 0.9 }, "R"], groups = [0, 65] }'
    with pytest.raises(ergode.ModelError, match=r"progressions 1\].*sum to 0.9, not 1 for age"):
        reading(
            model=f"""
            [model]
            compartments = ["S", "I", "R"]
            infections = [{{ susceptible = "S", infected = "I", transmission_rate = {{ I = 1 }} }}]
            [[model.progressions]]
            compartment = "I"
            to = {to}
            holding_time = {{ distribution = "exponential", rate = 0.1 }}
            """
        )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            'generator = "erdos-renyi"\nnode_count = 50\nmean_degree = 3\nseed = 4',
            ergode.ContactNetwork.erdos_renyi(50, 3, seed=4),
        ),
        (
            'generator = "barabasi-albert"\nnode_count = 50\nm = 2',
            ergode.ContactNetwork.barabasi_albert(50, 2),
        ),
        (
            'generator = "configuration-model"\ndegrees = [1, 1, 2, 2]',
            ergode.ContactNetwork.configuration_model([1, 1, 2, 2]),
        ),
        (
            'generator = "watts-strogatz"\nnode_count = 9\nk = 2\nrewiring_probability = 0.1',
            ergode.ContactNetwork.watts_strogatz(9, 2, 0.1),
        ),
        (
            'generator = "stochastic-block-model"\nblock_sizes = [9, 9]\n'
            "mean_degrees = [[2, 1], [1, 2]]",
            ergode.ContactNetwork.stochastic_block_model([9, 9], [[2, 1], [1, 2]]),
        ),
        (
            'generator = "spatial"\nnode_count = 50\nmean_degree = 3\nperiodic = false',
            ergode.ContactNetwork.spatial(50, 3, periodic=False),
        ),
        (
            'generator = "population"\nnode_count = 50\nages = { 0 = 20, 18 = 80, 60 = 20 }\n'
            "household_sizes = [1, 2, 1]\nweights = { work = 1.0 }",
            ergode.ContactNetwork.population(
                50, ages={0: 20, 18: 80, 60: 20}, household_sizes=[1, 2, 1], weights={"work": 1}
            ).network,
        ),
        (
            'generator = "computed-random-regular"\nnode_count = 50\ndegree = 6\nseed = 3',
            ergode.ComputedNetwork.random_regular(50, 6, seed=3),
        ),
        (
            'layers.home = { generator = "computed-groups", node_count = 9, sizes = [1, 2] }\n'
            "layers.rest = { generator = 'computed-random-regular', node_count = 9, factor = 0.5 }",
            ergode.ComputedNetwork.from_layers(
                {
                    "home": ergode.ComputedNetwork.groups(9, [1, 2]),
                    "rest": ergode.ComputedNetwork.random_regular(9),
                },
                {"rest": 0.5},
            ),
        ),
    ],
)
def test_generators(reading, written, expected):
    assert reading(contacts="[contacts]\n" + written).request.contacts == expected


def test_file_is_relative_to_the_run_file(reading, tmp_path, monkeypatch):
    (tmp_path / "timed.txt").write_text("0 a b x\n20 a b x\n40 b c x\n")
    monkeypatch.chdir("/")
    asked = reading(
        contacts='[contacts]\nfile = "timed.txt"\ncolumns = ["time", "source", "target", ""]\n'
        'aggregate = "weight"\nresolution = 20\n'
    )
    assert asked.request.contacts.weights.tolist() == [40, 40, 20, 20]


def test_layers(reading):
    asked = reading(
        contacts="""
        [contacts.layers.home]
        generator = "random-regular"
        node_count = 20
        degree = 3
        [contacts.layers.work]
        generator = "erdos-renyi"
        node_count = 20
        mean_degree = 4
        factor = 0.5
        """
    )
    home = ergode.ContactNetwork.random_regular(20, 3)
    work = ergode.ContactNetwork.erdos_renyi(20, 4)
    assert asked.request.contacts == ergode.ContactNetwork.from_layers(
        {"home": home, "work": work}, {"work": 0.5}
    )


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ("{ stop = 3, step = 1 }", [0, 1, 2, 3]),
        ("{ start = 1, stop = 2, count = 3 }", [1, 1.5, 2]),
        ("{ stop = 0.3, step = 0.1 }", [0, 0.1, 0.2, 0.3]),
        ("{ stop = 1, step = 0.4 }", [0, 0.4, 0.8]),
    ],
)
def test_times(reading, times, expected):
    asked = reading(simulate=f"[simulate]\ninitial = {{ I = 1 }}\ntimes = {times}")
    np.testing.assert_allclose(asked.request.options["times"], expected)


def test_initial_kinds(reading):
    asked = reading(simulate="[simulate]\ninitial = { I = [3, 4], R = 0.25, E = 2 }\ntimes = [0]")
    initial = asked.request.options["initial"]
    assert initial["I"].tolist() == [3, 4]
    assert initial["R"] == 0.25
    assert initial["E"] == 2
    assert isinstance(initial["E"], int)


def test_seeds_with_weight_and_age(reading):
    asked = reading(
        simulate='[simulate]\ninitial = { I = { nodes = 4, weight = "child", age = 2 }, '
        "R = { nodes = [1, 2], age = [0.5, 3] } }\ntimes = [0]"
    )
    initial = asked.request.options["initial"]
    assert (initial["I"].nodes, initial["I"].weight, initial["I"].age) == (4, "child", 2.0)
    assert initial["R"].nodes.tolist() == [1, 2]
    assert initial["R"].age.tolist() == [0.5, 3.0]


def test_options_of_methods_that_go_in_steps(reading, tmp_path):
    path = tmp_path / "run.toml"
    reading()
    steps = 'method = "renewal-leap"\nstep = 0.5\ntolerance = 1\ntransition = "sampled"\n'
    path.write_text(path.read_text().replace("[simulate]\n", f"[simulate]\n{steps}"))
    options = read(path).request.options
    assert (options["step"], options["tolerance"]) == (0.5, 1.0)
    assert (options["method"], options["transition"]) == ("renewal-leap", "sampled")


def test_outputs(reading, tmp_path):
    asked = reading(output='[output]\ndataset = "a.zarr"\nfigure = "b.svg"')
    assert (asked.dataset, asked.figure) == (tmp_path / "a.zarr", tmp_path / "b.svg")
    assert reading(output="[output]\nfigure = false").figure is None
    assert reading(output='[output]\ndataset = "a.nc"').figure == tmp_path / "a.png"


def test_overrides(reading, tmp_path):
    path = tmp_path / "run.toml"
    reading(output="[output]\nfigure = false")
    asked = read(path, options={"replicates": 7}, output=tmp_path / "c.nc")
    assert asked.request.options["replicates"] == 7
    assert asked.dataset == tmp_path / "c.nc"
    assert asked.figure is None


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("top", "", "the file needs the key 'engine'"),
        ("top", 'engine = "epidemic"', "engine is 'epidemic'; did you mean 'epidemics'?"),
        ("top", TOP + "titel = 'x'", "the file has no key 'titel'; did you mean 'title'?"),
        ("model", "", "needs the key 'model' (a table)"),
        ("model", MODEL + "rate = 2", "[model] has no key 'rate'"),
        ("model", '[model]\nkind = "si"', "[model] needs the key 'transmission_rate' (a number)"),
        ("model", '[model]\nkind = "sri"', "[model] kind is 'sri'; did you mean"),
        (
            "model",
            '[model]\nkind = "si"\ntransmission_rate = true',
            "transmission_rate is True; expected a number",
        ),
        (
            "model",
            '[model]\nkind = "sir"\ntransmission_rate = 1\n'
            'infectious = { distribution = "log-normal", mean = 5, medain = 4 }',
            "[model.infectious] has no key 'medain'; did you mean 'median'?",
        ),
        (
            "model",
            '[model]\nkind = "sir"\ntransmission_rate = 1\n'
            'infectious = { distribution = "gamma", mean = 5 }',
            "[model.infectious]: Gamma was given mean; expected",
        ),
        (
            "model",
            '[model]\ncompartments = ["S", "I"]\n[[model.infections]]\nsusceptible = "S"\n'
            'infected = "I"\nrate = 1',
            "[model.infections 1] has no key 'rate'",
        ),
        ("contacts", "[contacts]", "needs one of the keys 'file', 'generator' and 'layers'"),
        ("contacts", CONTACTS + 'file = "x"', "found 'file' and 'generator'"),
        ("contacts", CONTACTS + "m = 2", "[contacts] has no key 'm'"),
        ("contacts", '[contacts]\nfile = "no.csv"', "[contacts]: "),
        ("simulate", SIMULATE + "width = 3", "[simulate] has no key 'width'"),
        ("simulate", "[simulate]\ntimes = [0]", "[simulate] needs the key 'initial'"),
        (
            "simulate",
            "[simulate]\ninitial = { I = 1 }\ntimes = { stop = 3 }",
            "[simulate.times] needs either 'step' or 'count'",
        ),
        (
            "simulate",
            "[simulate]\ninitial = { I = 'x' }\ntimes = [0]",
            "[simulate.initial] I is 'x'; expected a number",
        ),
        (
            "simulate",
            "[simulate]\ninitial = { I = { nodes = 3, age = -1 } }\ntimes = [0]",
            "[simulate.initial.I]: Seeds: age is -1",
        ),
        ("simulate", SIMULATE + "replicates = 1.5", "replicates is 1.5; expected an integer"),
    ],
)
def test_mistakes_say_where_they_are(reading, part, text, message):
    with pytest.raises(ergode.ErgodeError) as caught:
        reading(**{part: text})
    assert message in str(caught.value)
    assert str(caught.value).startswith("run.toml: ")


def test_outputs_are_checked_first(reading):
    with pytest.raises(ergode.PlanError, match=r"ends in .nc or .zarr"):
        reading(contacts='[contacts]\nfile = "no.csv"', output='[output]\ndataset = "a.csv"')
    with pytest.raises(ergode.PlanError, match="'.*nowhere' does not exist"):
        reading(output='[output]\ndataset = "nowhere/a.nc"')
    with pytest.raises(ergode.PlanError, match=r"ends in .png, .svg or .pdf"):
        reading(output='[output]\nfigure = "a.bmp"')
    with pytest.raises(ergode.ReadError, match="there is no figure of this output"):
        reading(simulate=SIMULATE + 'output = "line_list"', output='[output]\nfigure = "a.png"')


def test_a_scenario(reading):
    asked = reading(
        output="""
[[interventions]]
kind = "isolation"
compartment = "I"
delay = 2
start = { count = "cases", level = 5, window = 7, among = { age = [1, 2] } }
stop = { count = ["I", "R"], level = 2, delay = 1, below = true }
[[interventions]]
kind = "vaccination"
fraction = 0.5
start = 10
[[interventions]]
kind = "testing"
sensitivity = { E = 0.3, I = 0.9 }
rate = 0.1
delay = 1
[[interventions]]
kind = "testing"
sensitivity = { I = 0.9 }
capacity = { changes = [0, 30], factors = [100, 200] }
priority = "age"
[[interventions]]
kind = "testing"
sensitivity = { I = 0.9 }
capacity = 50
period = 7
wait = false
[[interventions]]
kind = "capacity"
compartment = "R"
places = 5
wait = true
priority = "age"
[[interventions]]
kind = "layer-closure"
start = { count = "I", fraction = 0.25, among = "age" }
[[importations]]
compartment = "I"
rate = 0.5
""",
        simulate=SIMULATE + "seed = 3",
    )
    isolation, vaccination, testing, *lines = asked.request.options["interventions"]
    assert asked.request.options["importations"] == [ergode.Importation("I", rate=0.5)]
    start = ergode.Trigger("cases", 5, window=7, among={"age": [1, 2]})
    stop = ergode.Trigger(["I", "R"], 2, delay=1, below=True)
    assert isolation == ergode.Isolation("I", delay=2, start=start, stop=stop)
    assert vaccination == ergode.Vaccination(fraction=0.5, start=10)
    assert testing == ergode.Testing({"E": 0.3, "I": 0.9}, rate=0.1, delay=1)
    table = ergode.Calendar([0, 30], [100, 200])
    assert lines == [
        ergode.Testing({"I": 0.9}, capacity=table, priority="age"),
        ergode.Testing({"I": 0.9}, capacity=50, period=7, wait=False),
        ergode.Capacity("R", 5, wait=True, priority="age"),
        ergode.LayerClosure(start=ergode.Trigger("I", fraction=0.25, among="age")),
    ]
    waning = (
        '{ distribution = "exponential", mean = 180 }',
        "{ changes = [0, 90], factors = [1, 0] }",
    )
    expected = ergode.Exponential(mean=180), ergode.Calendar([0, 90], [1, 0])
    for written, one in zip(waning, expected, strict=True):
        asked = reading(
            output=f"[[interventions]]\nkind = 'vaccination'\nseverity = {{ H = 0.8 }}\n"
            f"waning = {written}"
        )
        (found,) = asked.request.options["interventions"]
        assert found == ergode.Vaccination(severity={"H": 0.8}, waning=one)
    asked = reading(
        output="""
[[interventions]]
kind = "vaccination"
efficacy = [0.5, 0.8]
severity = { H = [0.2, 0.9] }
interval = 21
dose_rate = { changes = [0, 30], factors = [100, 200] }
priority = "age"
[[interventions]]
kind = "vaccination"
dose_rate = 50
priority = { attribute = "risk", values = { high = 2, low = 1 } }
"""
    )
    programme, other = asked.request.options["interventions"]
    assert programme == ergode.Vaccination(
        efficacy=[0.5, 0.8], severity={"H": [0.2, 0.9]}, interval=21,
        dose_rate=ergode.Calendar([0, 30], [100, 200]), priority="age",
    )  # fmt: skip
    risk = ergode.ByAttribute("risk", {"high": 2.0, "low": 1.0})
    assert other == ergode.Vaccination(dose_rate=50, priority=risk)
    with pytest.raises(ergode.ErgodeError, match="fraction is 2"):
        reading(output="[[interventions]]\nkind = 'vaccination'\nfraction = 2")


def test_dates(reading):
    asked = reading(
        output="""
[[interventions]]
kind = "layer-closure"
start = 2026-03-16
duration = 14
[[importations]]
compartment = "I"
times = [2026-03-03, 2026-03-04T12:00:00]
""",
        simulate="[simulate]\ninitial = { I = 5 }\n"
        "times = { start = 2026-03-01, stop = 2026-04-01, step = 1 }",
    )
    options = asked.request.options
    times = np.datetime64("2026-03-01") + np.arange(32)
    np.testing.assert_array_equal(options["times"], times)
    assert options["interventions"] == [ergode.LayerClosure(start="2026-03-16", duration=14)]
    expected = ergode.Importation("I", times=["2026-03-03", "2026-03-04T12:00"])
    assert options["importations"] == [expected]
    asked = reading(simulate="[simulate]\ninitial = { I = 5 }\ntimes = [0, 1]\norigin = 2026-03-01")
    assert asked.request.options["origin"] == datetime.date(2026, 3, 1)
    with pytest.raises(ergode.ReadError, match=r"step is 40; expected 0 to 31"):
        reading(
            simulate="[simulate]\ninitial = { I = 5 }\n"
            "times = { start = 2026-03-01, stop = 2026-04-01, step = 40 }"
        )


SWING = """
engine = "trajectories"
[equations]
x = "v"
v = "-stiffness * x"
[initial]
x = 1.0
v = { start = 0, stop = 1, count = 3 }
[parameters]
stiffness = 2
[integrate]
times = [0, 1]
"""


def test_trajectories(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(SWING)
    request = read(path).request
    assert request.field.variables == ("x", "v")
    np.testing.assert_array_equal(request.options["initial"]["v"], [0, 0.5, 1])
    assert request.options["parameters"]["stiffness"] == 2


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        ("stiffness = 2", "stiffness = 'two'", "[parameters] stiffness is 'two'; expected a numb"),
        ("[0, 1]", "3", "[integrate] times is 3; expected a list of numbers, or a table of start"),
        ("[0, 1]", "[0, 1]\nmethd = 'rk4'", "[integrate] has no key 'methd'; did you mean 'meth"),
        ("-stiffness * x", "-stiffness *", "the equation of 'v' is '-stiffness *'; expected arit"),
    ],
)
def test_bad_trajectories_are_one_line(tmp_path, written, instead, message):
    path = tmp_path / "run.toml"
    path.write_text(SWING.replace(written, instead))
    with pytest.raises(ergode.ErgodeError) as caught:
        read(path)
    assert message in str(caught.value)
