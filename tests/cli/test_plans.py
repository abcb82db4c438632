"""Runs that are only checked, values that the command line replaces, and what is printed."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import invoke

import ergode
from ergode.runfile.read import read

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RUN_FILE = """
engine = "stochastic"
[network]
species = { X = 9 }
reactions = [
    { reaction = "X -> 0", rate_constant = 1.0 },
    { reaction = "0 -> X", rate_constant = 2.0 },
]
[simulate]
times = [0, 1]
seed = 5
replicates = 7
device = "cpu"
[output]
figure = false
"""

NAMED = """
engine = "epidemics"
[model]
kind = "sir"
transmission_rate = 0.1
infectious = { distribution = "exponential", mean = 7 }
[contacts]
generator = "erdos-renyi"
node_count = 50
mean_degree = 4
seed = 1
[simulate]
initial = { I = 5 }
times = [0, 1]
[[interventions]]
kind = "testing"
name = "clinics"
sensitivity = { I = 0.9 }
rate = 0.1
"""


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "decay.toml"
    path.write_text(RUN_FILE)
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


FOREVER = "times={ stop = 1e12, count = 3 }"
# A run of most of them would take years.
LONG = {
    "schloegl": (f"simulate.{FOREVER}", "simulate.max_firings=10000000000"),
    "exact_switch": (f"simulate.{FOREVER}",),
    "lorenz_sweep": (f"integrate.{FOREVER}", "integrate.max_steps=10000000000"),
    "seen_oscillator": (),
    "sir_sweep": ("simulate.replicates=1000000",),
    "sirs_in_steps": ("simulate.step=1e-5", "simulate.replicates=10000"),
}


@pytest.mark.parametrize("example", LONG)
def test_a_check_computes_and_writes_nothing(example, tmp_path):
    path = tmp_path / f"{example}.toml"
    path.write_text((EXAMPLES / path.name).read_text())
    settings = [word for one in LONG[example] for word in ("--set", one)]
    done = invoke("run", path, "--check", "--json", *settings)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert {"method", "device"} <= set(said["plan"])
    if example not in ("exact_switch", "seen_oscillator"):  # one density, and no chunks
        assert "at once" in said["plan"]["chunks"]
    assert said["dataset"] == str(tmp_path / f"{example}.nc")
    assert names(tmp_path) == [path.name]


def test_a_check_tells_what_a_run_would_write(run_file, tmp_path):
    done = invoke("run", run_file, "--check")
    assert done.exit_code == 0
    assert "method" in done.stdout
    assert "7 realizations, at most 7 at once" in done.stdout
    assert f"would write {tmp_path / 'decay.nc'}\n" in done.stdout
    assert invoke("run", run_file).exit_code == 0
    done = invoke("run", run_file, "--check", "--overwrite")
    assert f"would replace {tmp_path / 'decay.nc'}\n" in done.stdout


@pytest.mark.parametrize(
    "setting",
    [
        "simulate.method=telepathy",
        "simulate.replicate=3",
        "network.species.X=-1",
        "simulate.times=[1, 0]",
        "output.dataset=nowhere/decay.nc",
        "simulate.replicates=4000000000000",
    ],
)
def test_a_check_finds_what_a_run_would_refuse(run_file, tmp_path, setting):
    check = invoke("run", run_file, "--set", setting, "--check")
    run = invoke("run", run_file, "--set", setting)
    assert (check.exit_code, run.exit_code) == (1, 1)
    assert check.stderr == run.stderr
    assert check.stderr.count("\n") == 1
    assert names(tmp_path) == ["decay.toml"]


def test_an_output_in_the_way_hides_no_other_error(run_file, tmp_path):
    assert invoke("run", run_file).exit_code == 0
    check = ("run", run_file, "--check")
    alone = invoke(*check)
    assert alone.exit_code == 1 and "decay.nc': it exists" in alone.stderr
    both = invoke(*check, "--set", "simulate.method=telepathy")
    assert both.exit_code == 1 and both.stderr.count("\n") == 1
    assert "telepathy" in both.stderr and "decay.nc': it exists" in both.stderr
    # Of a run in parts as well, whose store is there.
    parts = ("--set", "simulate.store=decay.zarr", "--set", "simulate.chunk=2")
    assert invoke("run", run_file, "--overwrite", *parts).exit_code == 0
    said = invoke(*check, *parts, "--set", "simulate.replicates=4000000000000").stderr
    assert "replicates" in said and "decay.nc': it exists" in said and "pass --resume" in said


def test_every_command_exits_1_for_a_missing_and_for_a_bad_file(run_file, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("engine = ")
    for file in (bad, tmp_path / "nowhere.toml"):
        for command in (("run",), ("run", "--check"), ("plan",)):
            done = invoke(*command, file)
            assert done.exit_code == 1 and done.stderr.count("\n") == 1, command


def test_a_byte_order_mark_is_skipped(run_file):
    run_file.write_text(RUN_FILE, encoding="utf-8-sig")
    assert invoke("run", run_file, "--check").exit_code == 0


def test_a_terminal_without_the_characters_of_a_title(run_file):
    run_file.write_text('title = "β → Ω"\n' + RUN_FILE, encoding="utf-8")
    command = [sys.executable, "-m", "ergode", "run", str(run_file), "--check"]
    done = subprocess.run(
        command, capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "cp1252"}
    )
    assert done.returncode == 0 and done.stderr == b""
    assert done.stdout.startswith(b"? ? ?")


def test_a_check_of_a_run_in_parts_and_of_one_to_be_resumed(run_file, tmp_path):
    parts = ("--set", "simulate.store=kept.zarr", "--set", "simulate.chunk=2")
    done = invoke("run", run_file, "--check", "--json", *parts)
    assert json.loads(done.stdout)["plan"]["parts"] == "7 replicates in parts of 2"
    assert names(tmp_path) == ["decay.toml"]
    assert invoke("run", run_file, *parts).exit_code == 0
    refused = invoke("run", run_file, *parts, "--overwrite", "--check")
    assert refused.exit_code == 1
    assert "pass --resume" in refused.stderr
    more = (*parts, "--overwrite", "--resume", "--set", "simulate.replicates=10")
    done = invoke("run", run_file, *more, "--check")
    assert "10 replicates in parts of 2, 7 replicates are done" in done.stdout
    assert f"would go on with {tmp_path / 'kept.zarr'}" in done.stdout
    # The store knows the changed value.
    for setting, name in (
        ("simulate.seed=6", "seed"),
        ("network.reactions.2.rate_constant=2.5", "network"),
        ("simulate.times=[0, 2]", "times"),
    ):
        for options in (("--check",), ()):
            done = invoke("run", run_file, *more, "--set", setting, *options)
            assert done.exit_code == 1
            assert f"belongs to a run with another '{name}'" in done.stderr


def test_a_store_is_not_the_dataset(run_file, tmp_path):
    same = ("--set", "simulate.store=a.zarr", "--set", "output.dataset=a.zarr")
    done = invoke("run", run_file, *same)
    assert done.exit_code == 1
    assert "is named as the store and as the dataset" in done.stderr
    assert names(tmp_path) == ["decay.toml"]


def test_set_replaces_a_value(run_file, tmp_path):
    settings = ("--set", "simulate.replicates=3", "--set", "network.reactions.2.rate_constant=4.0")
    assert invoke("run", run_file, *settings, "--quiet").exit_code == 0
    found = ergode.open_dataset(tmp_path / "decay.nc")
    reactions = [("X -> 0", 1.0), ("0 -> X", 4.0)]
    network = ergode.ReactionNetwork(
        {"X": 9}, [ergode.Reaction(text, rate_constant=rate) for text, rate in reactions]
    )
    expected = ergode.stochastic.simulate(network, times=[0, 1], seed=5, replicates=3, device="cpu")
    assert found["amount"].equals(expected["amount"])
    # An option goes before a setting.
    more = ("--overwrite", "--quiet", "--replicates", 4)
    assert invoke("run", run_file, *settings, *more).exit_code == 0
    assert ergode.open_dataset(tmp_path / "decay.nc").sizes["replicate"] == 4


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("simulate.method=direct", ("method", "direct")),
        ('simulate.method="direct"', ("method", "direct")),
        (" simulate . seed = 8 ", ("seed", 8)),
        ("simulate.tolerance=1e-3", ("tolerance", 1e-3)),
        ("simulate.parameters={ k = [1, 2] }", ("parameters", None)),
        ("simulate.stop=X == 3", ("stop", "X == 3")),
    ],
)
def test_set_reads_values_as_toml_does(run_file, setting, expected):
    text = run_file.read_text().replace("{ X = 9 }", "{ X = 9 }\nparameters = { k = 1.0 }")
    run_file.write_text(text)
    name, value = expected
    found = read(run_file, settings=[setting]).request.options[name]
    assert found == value if value is not None else found["k"].tolist() == [1, 2]


def test_set_finds_a_table_in_a_list_by_its_name(tmp_path):
    path = tmp_path / "named.toml"
    path.write_text(NAMED)
    (found,) = read(path, settings=["interventions.clinics.delay=3"]).request.options[
        "interventions"
    ]
    assert found == ergode.Testing({"I": 0.9}, rate=0.1, delay=3.0, name="clinics")
    with pytest.raises(ergode.ReadError, match="a number from 1 to 1, or the name of one, not 'x'"):
        read(path, settings=["interventions.x.delay=3"])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("simulate.replicate=3", "[simulate] has no key 'replicate'; did you mean 'replicates'?"),
        ("simulat.replicates=3", "the file has no key 'simulat'; did you mean 'simulate'?"),
        ("simulate.replicates=x", "[simulate] replicates is 'x'; expected an integer"),
        ("simulate.replicates=1.5", "[simulate] replicates is 1.5; expected an integer"),
        ("simulate.seed.x=1", "--set simulate.seed.x: simulate.seed is 5; expected a table"),
        ("network.reactions.3.name=a", "reactions is a list; expected a number from 1 to 2"),
        ("network.reactions.first.name=a", "or the name of one, not 'first'"),
        ("network.reactions.1.rat=1", "reactions 1] has no key 'rat'; did you mean 'rate'?"),
        ("simulate.times=[0, 1", "--set simulate.times: '[0, 1' is not TOML"),
        ("simulate.replicates", "expected key.path=value"),
        ("=3", "expected key.path=value"),
        ("a b=3", "expected key.path=value"),
        ("simulate.seed\nx=3", "expected key.path=value"),
        ("simulate.seed=1\nreplicates = 3", "[simulate] seed is"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_one_line(run_file, tmp_path, setting, message):
    done = invoke("run", run_file, "--set", setting)
    assert done.exit_code == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert names(tmp_path) == ["decay.toml"]


def test_a_quiet_run_prints_only_warnings(run_file, tmp_path):
    done = invoke("run", run_file, "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    assert (tmp_path / "decay.nc").is_file()
    done = invoke("run", run_file, "--quiet", "--overwrite", "--set", "simulate.max_firings=1")
    assert done.exit_code == 0
    assert done.stdout == ""
    assert done.stderr.startswith("warning: ")


def simulate():
    network = ergode.ReactionNetwork({"X": 9}, [ergode.Reaction("X -> 0", rate_constant=1.0)])
    return ergode.stochastic.simulate(network, times=[0, 1], replicates=7, device="cpu", seed=1)


def test_the_log_is_quiet_unless_asked(caplog, capfd):
    with caplog.at_level(logging.INFO, "ergode"):
        result = simulate()
    told = [record.getMessage() for record in caplog.records if record.name == "ergode"]
    reason = result.attrs["method_reason"]
    assert f"method: direct: {reason}" in told
    assert "chunks: 7 realizations, at most 7 at once" in told
    assert any(one.startswith("time: ") and "compiling or loading" in one for one in told)
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    caplog.clear()
    simulate()
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_parts_do_not_repeat_the_log(caplog, tmp_path):
    network = ergode.ReactionNetwork({"X": 9}, [ergode.Reaction("X -> 0", rate_constant=1.0)])
    with caplog.at_level(logging.INFO, "ergode"):
        ergode.stochastic.simulate(
            network, times=[0, 1], replicates=7, device="cpu", seed=1, chunk=2
        )
    told = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert sorted(told) == ["device", "method", "parts"]


def test_the_shell_completes_commands():
    asked = {
        "_ERGODE_COMPLETE": "complete_bash", "COMP_WORDS": "ergode ru", "COMP_CWORD": "1",
    }  # fmt: skip
    done = invoke(env=os.environ | asked, prog_name="ergode")
    assert done.stdout.split() == ["run"]
