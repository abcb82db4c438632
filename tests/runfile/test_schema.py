"""The JSON schema of run files accepts what `read` accepts, and refuses wrong keys and types."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from command_line import invoke

import ergode
from ergode.runfile.read import read
from ergode.runfile.schema import schema

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RUN_FILES = sorted(EXAMPLES.glob("*.toml"))


def is_valid(validator, text):
    return validator.is_valid(json.loads(json.dumps(tomllib.loads(text), default=str)))


@pytest.mark.parametrize("file", RUN_FILES, ids=lambda file: file.stem)
def test_examples_are_valid(validator, file):
    assert is_valid(validator, file.read_text())


BROKEN = [
    ("seir_random_network", "replicates =", "replicate ="),
    ("seir_random_network", 'engine = "epidemics"', 'engine = "epidemic"'),
    ("seir_random_network", "mean_degree", "mean_degre"),
    ("seir_random_network", "compartments =", "compartment ="),
    ("seir_random_network", "[simulate]", "[simulat]"),
    ("sir_sweep", 'kind = "sir"', 'kind = "sri"'),
    ("sir_sweep", "infectious =", "infectous ="),
    ("sir_sweep", 'distribution = "', 'distribution = "x'),
    ("schloegl", "[network]", "[networks]"),
    ("schloegl", "replicates = ", "replicates = 0.5 #"),
    ("schloegl", "times = ", "times = 5 #"),
    ("exact_switch", 'output = "probabilities"', 'output = "probability"'),
    ("robertson", "[integrate]", "[integrate]\nrtool = 1e-3"),
    ("robertson", "[integrate]", "[integrate]\nreactor = { inflow = { A = 1 } }"),
    (
        "robertson",
        "[integrate]",
        "[integrate]\nreactor = { inflow = { A = 1 }, residence_time = [1.0, 'x'] }",
    ),
    ("robertson", "[integrate]", "[integrate]\nreactor = { velocity = 'fast' }"),
    ("robertson", "[integrate]", "[integrate]\nreactor = { velocity = 1, residence_time = 1 }"),
    ("lorenz_sweep", "[integrate]", "[integrate]\nmethod = 4"),
    ("lorenz_sweep", "[equations]", "[equation]"),
    ("seen_oscillator", "[propagate]", "[propagate]\nmax_cells = 1.5"),
    ("seen_oscillator", "[propagate]", "[output]\nfigur = false\n[propagate]"),
]


@pytest.mark.parametrize(("example", "old", "new"), BROKEN)
def test_broken_files_are_refused_by_both(validator, tmp_path, example, old, new):
    text = (EXAMPLES / f"{example}.toml").read_text()
    assert old in text
    path = tmp_path / "broken.toml"
    path.write_text(text.replace(old, new, 1))
    assert not is_valid(validator, path.read_text())
    with pytest.raises(ergode.ReadError):
        read(path)


def test_a_tank_is_valid(validator, tmp_path):
    tank = "[integrate.reactor]\ninflow = { A = 1 }\nresidence_time = [1, 2.0]\n"
    tank += "outflow_ratio = 0.5\n"
    path = tmp_path / "tank.toml"
    path.write_text((EXAMPLES / "robertson.toml").read_text() + "\n" + tank)
    assert is_valid(validator, path.read_text())
    assert read(path).request.options["reactor"].residence_time.tolist() == [1.0, 2.0]
    assert read(path).request.options["reactor"].outflow_ratio.tolist() == [0.5]
    path.write_text(path.read_text().replace("outflow_ratio = 0.5", "tank_count = 2"))
    assert is_valid(validator, path.read_text())
    assert read(path).request.options["reactor"].tank_count == 2
    loop = 'flows = [["in", 0, 1], [0, 1, 2], [1, 0, 1], [1, "out", 1]]'
    path.write_text(path.read_text().replace("tank_count = 2", loop))
    assert is_valid(validator, path.read_text())
    assert read(path).request.options["reactor"].flows[1] == (0, 1, 2.0)
    path.write_text(path.read_text().replace(loop, "tank_count = 2"))
    text = path.read_text().replace(
        "tank_count = 2", "flow_ratio = { times = [0, 1], values = [1, 0] }"
    )
    path.write_text(text.replace("A = 1 }", "A = { times = [0, 1], values = [1, 2] } }"))
    assert is_valid(validator, path.read_text())
    tank = read(path).request.options["reactor"]
    assert tank.flow_ratio.values.tolist() == [1.0, 0.0]
    assert tank.inflow["A"].values.tolist() == [1.0, 2.0]


def test_a_tube_is_valid(validator, tmp_path):
    """Its plan is that of a call."""
    pytest.importorskip("ruamel.yaml")
    path = tmp_path / "tube.toml"
    mechanism = Path(pytest.importorskip("cantera").__file__).parent / "data" / "h2o2.yaml"
    path.write_text(
        f'engine = "kinetics"\n[network]\nfile = "{mechanism}"\n[initial]\nH2 = 2.0\nO2 = 1.0\n'
        "[integrate]\ntimes = { stop = 5.0, count = 11 }\ntemperature = 1200.0\n"
        'pressure = 1.01325e6\nheating = "constant-pressure"\ndevice = "cpu"\n'
        "[integrate.reactor]\nvelocity = [1e4, 2e4]\n"
    )
    assert is_valid(validator, path.read_text())
    asked = read(path)
    assert asked.request.options["reactor"].velocity.tolist() == [1e4, 2e4]
    assert asked.plan()["chunks"].startswith("2 zones")
    path.write_text(path.read_text().replace("constant-pressure", "constant-volume"))
    with pytest.raises(ergode.ModelError, match="tube.toml: .integrate.: plug flow is for molec"):
        read(path).plan()


MACHINE = """engine = "kinetics"
[network]
file = "FILE"
[initial]
AR = 1.0
[integrate]
times = [0.0, 0.02, 0.03]
temperature = [450.0, 600.0]
pressure = 1e6
volume = { times = [0.0, 0.02], values = [[2.0, 1.0], [1.0, 2.0]] }
heating = "given-volume"
rtol = 1e-6
device = "cpu"
"""


def test_a_volume_over_time_and_a_wall_are_valid(validator, tmp_path):
    """Argon keeps T V^(2/3), and cools by the law of Newton."""
    pytest.importorskip("ruamel.yaml")
    mechanism = Path(pytest.importorskip("cantera").__file__).parent / "data" / "h2o2.yaml"
    path, text = tmp_path / "machine.toml", MACHINE.replace("FILE", str(mechanism))
    path.write_text(text)
    assert is_valid(validator, text)
    found = read(path).execute(progress=False)
    hot = np.array([450.0, 600.0]) * np.array([2.0, 0.5]) ** (2 / 3)
    np.testing.assert_allclose(found["temperature"][:, -1], hot, rtol=1e-5)
    walled = text.replace("volume = {", "#").replace("given-volume", "constant-volume")
    walled += "[integrate.wall]\nheat_transfer_coefficient = 1e5\ntemperature = 500.0\narea = 2\n"
    path.write_text(walled)
    assert is_valid(validator, walled)
    found = read(path).execute(progress=False)["temperature"].values[:, 1]
    hot = np.array([450.0, 600.0])
    kept = np.exp(-2e5 * 0.02 / (1.5 * 1e6 / hot))
    np.testing.assert_allclose(found, 500.0 + (hot - 500.0) * kept, rtol=1e-5)
    changing = walled.replace("= 500.0", "= { times = [0, 1], values = [300, 500] }")
    path.write_text(changing)
    assert is_valid(validator, changing)
    assert read(path).request.options["wall"].temperature.values.tolist() == [300.0, 500.0]
    free = text.replace("volume = {", "#") + "[integrate.volume]\narea = 0.1\nmass_per_area = 1\n"
    path.write_text(free + "outer_pressure = 5e5\n")
    assert is_valid(validator, path.read_text()) and not is_valid(validator, free)
    assert read(path).request.options["volume"].mass_per_area.tolist() == [1.0]
    path.write_text(free)
    with pytest.raises(ergode.ReadError, match="needs the key 'outer_pressure'"):
        read(path)
    path.write_text(free + "outer_pressure = 5e5\nmobility = 1\n")
    with pytest.raises(ergode.ModelError, match="machine.toml: .*both are given"):
        read(path)
    for old, new, words in (
        ("area = 2", "", "needs the key 'area'"),
        ("area = 2", "area = 2\nwidth = 1", "has no key 'width'"),
        ("pressure = 1e6", "pressure = { times = [0, 1] }", "values"),
        ("pressure = 1e6", "pressure = { times = [0, 1], values = [[1, 2], [1]] }", "rows of diff"),
    ):
        path.write_text(walled.replace(old, new))
        with pytest.raises(ergode.ReadError, match=words):
            read(path)


def test_rate_factors_are_valid(validator, tmp_path):
    path = tmp_path / "factors.toml"
    text = (EXAMPLES / "robertson.toml").read_text()
    path.write_text(
        text.replace("[integrate]", "[integrate]\nrate_factors = [[1, 1, 1], [2, 1, 1]]")
    )
    assert is_valid(validator, path.read_text())
    asked = read(path)
    assert asked.execute(progress=False).sizes["point"] == 2 and not asked.request.has_figure


def test_the_command_prints_it():
    done = invoke("schema")
    assert json.loads(done.stdout) == schema()


DELAYS = """engine = "kinetics"
[network]
file = "FILE"
[integrate]
output = "ignition-delays"
temperature = { start = 1100.0, stop = 1300.0, count = 3 }
pressure = 1e6
fuel = "H2"
oxidizer = { O2 = 1.0, N2 = 3.76 }
equivalence_ratio = [0.5, 1.0]
duration = 0.01
criterion = "OH"
device = "cpu"
"""


def test_ignition_delays_are_valid(validator, tmp_path):
    """Those of the call: a grid with its figure, and a list of mixtures."""
    pytest.importorskip("ruamel.yaml")
    mechanism = Path(pytest.importorskip("cantera").__file__).parent / "data" / "h2o2.yaml"
    path, text = tmp_path / "delays.toml", DELAYS.replace("FILE", str(mechanism))
    path.write_text(text)
    assert is_valid(validator, text)
    asked = read(path)
    assert asked.request.has_figure and asked.plan()["device"].startswith("cpu")
    assert invoke("run", str(path)).exit_code == 0
    assert path.with_suffix(".png").exists()
    path.with_suffix(".nc").unlink()
    path.with_suffix(".png").unlink()
    found, network = asked.execute(progress=False), ergode.read_cantera(mechanism)
    exact = ergode.kinetics.ignition_delay(
        network, temperature=[1100.0, 1200.0, 1300.0], pressure=1e6, fuel="H2", duration=0.01,
        oxidizer={"O2": 1.0, "N2": 3.76}, equivalence_ratio=[0.5, 1.0], criterion="OH",
        device="cpu",
    )  # fmt: skip
    np.testing.assert_array_equal(found["ignition_delay"], exact["ignition_delay"])
    own = text.replace('fuel = "H2"', "paired = true").replace("equivalence_ratio = [0.5, 1.0]", "")
    own = own.replace("oxidizer = {", "mixture = { H2 = [1.0, 2.0, 4.0],")
    path.write_text(own)
    assert is_valid(validator, own)
    asked = read(path)
    assert not asked.request.has_figure
    assert asked.execute(progress=False)["ignition_delay"].sizes == {"mixture": 3}
    for old, new, words in (
        ("paired = true", "paired = true\ntimes = [0, 1]", "no key 'times'"),
        ("ignition-delays", "ignition-delay", "did you mean 'ignition-delays'"),
        ("duration = 0.01", "duration = '1 s'", "expected a number"),
    ):
        path.write_text(own.replace(old, new))
        assert not is_valid(validator, path.read_text())
        with pytest.raises(ergode.ReadError, match=words):
            read(path)
    path.write_text(own.replace("paired = true", "paired = true\nequivalence_ratio = 1.0"))
    with pytest.raises(ergode.ReadError, match="has the keys 'mixture' and 'equivalence_ratio'"):
        read(path)
    path.write_text(own + "[initial]\nH2 = 1.0\n")
    with pytest.raises(ergode.ReadError, match="ignition delays have a fuel or a mixture"):
        read(path)
    path.write_text(own)
    with pytest.raises(ergode.PlanError, match="ignition-delays are not computed in parts"):
        read(path).divided(store=tmp_path / "x.zarr")
