"""Plans for devices that are not here."""

import json
import re
from pathlib import Path

import pytest
from command_line import invoke

import ergode
from ergode.cli import plan
from ergode.core import devices
from ergode.core.devices import absent
from ergode.runfile.read import read

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RUN_FILE = """
engine = "stochastic"
[network]
species = { X = 9 }
reactions = [{ reaction = "X -> 0", rate_constant = 1.0 }]
[simulate]
times = { stop = 99, count = 100000 }
seed = 5
replicates = 1000000
"""
NAMES = ("schloegl", "lorenz_sweep", "sir_sweep", "sirs_in_steps", "robertson")


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "decay.toml"
    path.write_text(RUN_FILE)
    return path


def facts(*arguments):
    done = invoke("plan", *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["plan"]


@pytest.mark.parametrize("example", NAMES)
def test_every_engine_has_a_plan(example, tmp_path):
    path = tmp_path / f"{example}.toml"
    path.write_text((EXAMPLES / path.name).read_text())
    said = facts(path, "--device", "A100")
    assert said["device"] == "A100 (NVIDIA A100-SXM4-80GB)"
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_more_than_any_memory_is_one_line(run_file):
    done = invoke("plan", run_file, "--device", "H200", "--set", "simulate.replicates=4000000000")
    assert done.exit_code == 1
    assert done.stderr.startswith(
        "error: the memory of this machine does not suffice: Unable to allocate "
    )
    assert done.stderr.count("\n") == 1


def test_the_memory_of_the_device_counts(run_file):
    at_once = {}
    for name in ("H200", "h100", "A100-40GB"):
        said = facts(run_file, "--device", name)
        assert "host memory" in said
        words = said["chunks"].replace(",", "").split()
        at_once[name] = int(words[words.index("most") + 1])
    record = absent.RECORDS["H200"]
    # A realization has 24 bytes, and 8 for each time; results take two fifths of the memory.
    expected = 0.4 * 0.9 * record.memory_bytes / (24 + 800_000)
    assert 0.98 * expected < at_once["H200"] <= expected
    ratio = at_once["h100"] / at_once["H200"]
    assert ratio == pytest.approx(absent.RECORDS["H100"].memory_bytes / record.memory_bytes, 0.01)
    assert at_once["A100-40GB"] < 0.5 * at_once["h100"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--device", "H2000"),
            "device 'H2000' is neither here nor in the table of devices, which",
        ),
        (("--device", "H200", "--price", "3"), "--price needs the time; expected --time as well"),
        (("--device", "cuda:99"), "cuda:99"),
        (("--set", "simulate.method=telepathy"), "telepathy"),
    ],
)
def test_what_has_no_plan(run_file, arguments, message):
    done = invoke("plan", run_file, *arguments)
    assert done.exit_code == 1
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_probabilities_have_no_time():
    done = invoke("plan", EXAMPLES / "exact_switch.toml", "--time")
    assert done.exit_code == 1
    assert "the time of probabilities is not estimated; --time is for ensembles" in done.stderr


def test_the_time_of_devices():
    wanted = plan.Wanted("h200", count=4, price=3.0)
    said = plan.estimate(4 * 800 * 7200.0, "stochastic", wanted)
    assert said["time on a core here"] == "2.7e+02 days"
    assert said["time"].startswith("roughly 2 h on 4 x h200") and "800 cores" in said["time"]
    assert said["cost"] == "24"
    for device in ("H100", "A100"):
        unknown = plan.estimate(1.0, "stochastic", plan.Wanted(device))
        assert unknown["time"] == (
            f"not known on {device}: rates of stochastic were measured on H200"
        )
    assert set(plan.estimate(1.0, "stochastic", plan.Wanted("cpu"))) == {"time on a core here"}
    assert plan.estimate(1.0, "stochastic", wanted)["time"].startswith("below 0.01 s on 4")
    for device, engine in (("A100", "stochastic"), ("H200", "density"), ("cpu", "stochastic")):
        with pytest.raises(ergode.PlanError, match="no cost"):
            plan.estimate(1.0, engine, plan.Wanted(device, price=1.0))


def test_a_script_is_no_run_file(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("import ergode\n")
    for command in ("plan", "run"):
        done = invoke(command, path)
        assert done.exit_code == 1 and done.stderr.count("\n") == 1
        assert "model.py: a Python script, and not a run file" in done.stderr


def test_the_size_of_a_store_is_that_of_the_whole(run_file, tmp_path):
    options = ("--device", "H200", "--set", "simulate.times=[0, 1]")
    stored = ("--set", f'simulate.store="{tmp_path / "run.zarr"}"', "--set", "simulate.chunk=100")
    whole, said = facts(run_file, *options), facts(run_file, *options, *stored)
    assert said["store"] == whole["host memory"] + ", before it is compressed"
    assert "host memory" not in said and not (tmp_path / "run.zarr").exists()


SIZES = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def bytes_in(text):
    """The sum of the sizes that are told."""
    found = re.findall(r"needs ([\d.]+) (\w+)", text)
    return sum(float(number) * SIZES[unit] for number, unit in found)


LARGE = {
    "schloegl": ("simulate.replicates=40000", 'simulate.output="trajectories"',
                 "simulate.times={ stop = 1e-3, count = 11 }"),
    "lorenz_sweep": ("parameters.rho={ start = 0, stop = 30, count = 10000 }",
                     "integrate.times={ stop = 0.01, count = 11 }"),
    "sir_sweep": ("simulate.replicates=500", "simulate.times={ stop = 20, count = 41 }",
                  'simulate.output="counts"'),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("example", LARGE)
def test_the_host_memory_and_the_store_are_those_of_the_result(example, tmp_path):
    path = tmp_path / f"{example}.toml"
    # The bins of the file belong to the output that is replaced.
    path.write_text(re.sub("\nbins = .*", "", (EXAMPLES / path.name).read_text()))
    settings = [word for one in LARGE[example] for word in ("--set", one)]
    table = LARGE[example][-1].partition(".")[0]
    result = read(path, settings=LARGE[example]).on("cpu").execute(progress=False)
    said = facts(path, "--device", "H200", *settings)
    # Counts are copied once while they are collected.
    assert result.nbytes < 1.05 * bytes_in(said["host memory"]) < 2.3 * result.nbytes
    stored = facts(
        path, "--device", "H200", *settings, "--set", f'{table}.store="{tmp_path / "run.zarr"}"'
    )
    assert stored["store"] == said["host memory"] + ", before it is compressed"
    assert bytes_in(stored.get("host memory", "")) < 0.1 * result.nbytes
    assert not (tmp_path / "run.zarr").exists()


def test_a_sample_is_of_the_first_members(run_file, monkeypatch):
    monkeypatch.setattr(plan, "ENOUGH", 0.0)
    said = facts(run_file, "--device", "H200", "--time")
    assert said["time"].startswith("roughly ") and said["time on a core here"]
    assert not run_file.with_suffix(".nc").exists()


def test_one_density_has_no_members(tmp_path):
    path = tmp_path / "seen_oscillator.toml"
    path.write_text((EXAMPLES / path.name).read_text())
    asked = read(path, overwrite=True)
    with pytest.raises(ergode.PlanError, match="no members"):
        plan._core_seconds(asked)
    done = invoke("plan", path, "--device", "H100")
    assert done.exit_code == 1 and "finds its size while it runs" in done.stderr


def test_an_absent_device_runs_nothing(run_file):
    place = absent.Absent.of("H200", absent.record_of("h200"))
    with pytest.raises(ergode.PlanError, match="is not on this machine"):
        read(run_file, overwrite=True, settings=["simulate.replicates=3"]).on(place).execute(False)


@pytest.mark.cuda
@pytest.mark.parametrize("example", NAMES)
def test_the_plan_of_a_device_that_is_here(example, tmp_path):
    """An absent device of the same sizes has the same chunks."""
    path = tmp_path / f"{example}.toml"
    path.write_text((EXAMPLES / path.name).read_text())
    here = devices.resolve("cuda")
    record = absent.Record(
        here.model, here.memory_bytes, here.core_count, here.shared_bytes_most, here.cluster_most
    )
    asked = read(path, overwrite=True)
    plans = [asked.on(one).plan() for one in (here, absent.Absent.of(here.name, record))]
    assert plans[0]["device"] == plans[1]["device"]
    assert plans[0].get("chunks") == plans[1].get("chunks")
