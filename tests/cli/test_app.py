import errno
import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
import xarray
from command_line import invoke

import ergode
from ergode.epidemics.first_passage.runner import FirstPassageEnsemble
from ergode.tour import STOPS

RUN_FILE = """
engine = "epidemics"

[model]
kind = "seir"
transmission_rate = 0.25
latent = { distribution = "log-normal", mean = 5, median = 4 }
infectious = { distribution = "log-normal", mean = 7.5, median = 5 }

[contacts]
generator = "erdos-renyi"
node_count = 500
mean_degree = 8
seed = 1

[simulate]
initial = { I = 5 }
times = { stop = 60, step = 1 }
replicates = 12
seed = 1
device = "cpu"
"""


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "seir.toml"
    path.write_text(RUN_FILE)
    return path


def test_run_writes_what_simulate_returns(run_file, tmp_path, counts):
    done = invoke("run", run_file)
    assert done.exit_code == 0, done.output
    assert "attack rate" in done.output
    dataset = ergode.open_dataset(tmp_path / "seir.nc")
    assert dataset["count"].equals(counts["count"])
    assert dataset.attrs["network_digest"] == counts.attrs["network_digest"]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["seir.nc", "seir.png", "seir.toml"]


def test_a_run_with_reinfection_has_cases_per_node(run_file):
    text = RUN_FILE.replace('"seir"', '"sis"')
    kept = [line for line in text.splitlines() if not line.startswith("latent")]
    run_file.write_text("\n".join(kept))
    done = invoke("run", run_file)
    assert done.exit_code == 0, done.output
    assert "cases per node" in done.output and "nan" not in done.output


def test_run_prints_json_alone(run_file, counts):
    done = invoke("run", run_file, "--json")
    said = json.loads(done.stdout)
    assert (said["engine"], said["interrupted"]) == ("epidemics", False)
    assert Path(said["dataset"]).is_file()
    assert Path(said["figure"]).is_file()
    attack = ergode.epidemics.summary(counts)["attack_rate"]
    assert said["summary"]["attack rate"]["median"] == float(attack.median())
    assert said["attrs"]["replicates"] == 12


def test_options_override_the_file(run_file, tmp_path):
    output = tmp_path / "other.nc"
    options = ("--replicates", 3, "--seed", 7, "--device", "cpu:1", "--output", output)
    assert invoke("run", run_file, *options).exit_code == 0
    attrs = ergode.open_dataset(output).attrs
    assert (attrs["replicates"], int(attrs["seed"])) == (3, 7)
    assert (tmp_path / "other.png").is_file()
    assert not (tmp_path / "seir.nc").exists()


def test_a_second_run_replaces_the_first_only_if_asked(run_file, tmp_path, monkeypatch):
    assert invoke("run", run_file).exit_code == 0
    with monkeypatch.context() as patched:
        patched.setattr(FirstPassageEnsemble, "run", None)  # nothing is computed
        again = invoke("run", run_file, "--seed", 2)
    assert again.exit_code == 1
    assert again.stderr.count("\n") == 1
    assert "it exists; pass --overwrite, or set overwrite = true in [output], to" in again.stderr
    assert int(ergode.open_dataset(tmp_path / "seir.nc").attrs["seed"]) == 1
    assert invoke("run", run_file, "--seed", 2, "--overwrite").exit_code == 0
    assert int(ergode.open_dataset(tmp_path / "seir.nc").attrs["seed"]) == 2
    run_file.write_text(RUN_FILE + "[output]\noverwrite = true\n")
    assert invoke("run", run_file, "--seed", 3).exit_code == 0
    assert int(ergode.open_dataset(tmp_path / "seir.nc").attrs["seed"]) == 3


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_only_figures_of_runs_are_replaced(run_file, tmp_path, suffix):
    figure = tmp_path / f"mine{suffix}"
    run_file.write_text(RUN_FILE + f'[output]\nfigure = "{figure.name}"\noverwrite = true\n')
    figure.write_text("mine")
    done = invoke("run", run_file)
    assert done.exit_code == 1
    assert "a file of that name is in the way, which ergode did not write" in done.stderr
    assert figure.read_text() == "mine"
    assert not (tmp_path / "seir.nc").exists()
    figure.unlink()
    assert invoke("run", run_file).exit_code == 0
    assert invoke("run", run_file).exit_code == 0


def test_a_folder_of_notes_is_not_replaced_by_a_run(run_file, tmp_path):
    run_file.write_text(RUN_FILE + '[output]\ndataset = "notes.zarr"\noverwrite = true\n')
    (tmp_path / "notes.zarr").mkdir()
    (tmp_path / "notes.zarr" / "notes.txt").write_text("mine")
    assert invoke("run", run_file).exit_code == 1
    assert (tmp_path / "notes.zarr" / "notes.txt").read_text() == "mine"


def fill_the_disk(monkeypatch, *full):
    original = xarray.Dataset.to_netcdf

    def to_netcdf(self, file, **options):
        if any(folder in Path(file.name).parents for folder in full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(self, file, **options)

    monkeypatch.setattr(xarray.Dataset, "to_netcdf", to_netcdf)


def test_a_result_goes_where_there_is_room(run_file, tmp_path, monkeypatch, counts):
    (tmp_path / "room").mkdir()
    (tmp_path / "full").mkdir()
    monkeypatch.chdir(tmp_path / "room")
    fill_the_disk(monkeypatch, tmp_path / "full")
    done = invoke("run", run_file, "--json", "--output", tmp_path / "full" / "x.nc")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr
    (kept,) = (tmp_path / "room").rglob("*.nc")
    assert f"the result is in '{kept}' instead" in done.stderr
    assert ergode.open_dataset(kept)["count"].equals(counts["count"])
    assert list((tmp_path / "full").iterdir()) == []


def test_no_room_anywhere_is_one_line(run_file, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    fill_the_disk(monkeypatch, Path("/"))
    done = invoke("run", run_file, "--json")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "the result could not be written elsewhere either" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["seir.toml"]


OVERFLOWING = """
engine = "stochastic"
[network]
species = { X = 9007199254740792 }
reactions = [{ reaction = "0 -> X", rate_constant = 100.0 }]
[simulate]
times = [0, 1, 2]
replicates = 12
device = "cpu"
"""


def test_what_failed_is_counted_and_enters_no_mean(tmp_path):
    path = tmp_path / "much.toml"
    path.write_text(OVERFLOWING)
    birth = ergode.Reaction("0 -> X", rate_constant=100.0)
    network = ergode.ReactionNetwork({"X": 9007199254740792}, [birth])
    with pytest.warns(ergode.FailureWarning):
        result = ergode.stochastic.simulate(network, times=[0, 1, 2], replicates=12, device="cpu")
    good = result["status"].values == ergode.Status.DONE
    assert 0 < good.sum() < 12
    done = invoke("run", path, "--json")
    assert done.exit_code == 0
    said = json.loads(done.stdout)["summary"]
    assert said["failed, left out"] == 12 - good.sum()
    mean = result["amount"].values[good, -1, 0].mean()
    assert said["mean final X"] == pytest.approx(mean, rel=1e-15)
    assert "failed, left out" in invoke("run", path, "--overwrite").stdout


def test_a_run_of_which_all_failed_has_a_summary(tmp_path):
    path = tmp_path / "much.toml"
    path.write_text(OVERFLOWING.replace("100.0", "1000.0"))
    done = invoke("run", path, "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["summary"]["failed, left out"] == 12
    assert json.loads(done.stdout)["summary"]["mean final X"] is None


@pytest.mark.parametrize("output", ["statistics", "line_list"])
def test_other_outputs(run_file, tmp_path, output):
    run_file.write_text(RUN_FILE + f'output = "{output}"\n')
    done = invoke("run", run_file)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "seir.png").exists() == (output == "statistics")
    assert invoke("run", run_file, "--json", "--overwrite").exit_code == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("replicates = 12", "replicate = 12", "[simulate] has no key 'replicate'; did you mean"),
        ("transmission_rate = 0.25", "transmission_rate = -1", "expected a finite number"),
        ('device = "cpu"', 'device = "tpu"', "device 'tpu' is unknown"),
        ("initial = { I = 5 }", "initial = { I = 501 }", "501 nodes"),
        ("[contacts]", "[contacts", "not TOML"),
    ],
)
def test_mistakes_are_one_line_and_exit_1(run_file, tmp_path, old, new, message):
    run_file.write_text(RUN_FILE.replace(old, new))
    done = invoke("run", run_file)
    assert done.exit_code == 1
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["seir.toml"]


def test_missing_file_exits_1(tmp_path):
    done = invoke("run", tmp_path / "nowhere.toml")
    assert done.exit_code == 1
    assert "there is no such file" in done.stderr


@pytest.mark.parametrize("arguments", [("run",), ("fly",), ("run", "x.toml", "--replicates", "x")])
def test_wrong_usage_exits_2(arguments):
    assert invoke(*arguments).exit_code == 2


def interrupt_after(monkeypatch, chunks):
    original = FirstPassageEnsemble.run
    calls = []

    def run(self, first, count):
        calls.append(first)
        if len(calls) > chunks:
            raise KeyboardInterrupt
        return original(self, first, count)

    monkeypatch.setattr(FirstPassageEnsemble, "run", run)
    monkeypatch.setattr(FirstPassageEnsemble, "chunk_size", lambda self, replicates: 4)


def test_interrupted_run_keeps_what_was_computed(run_file, tmp_path, monkeypatch, counts):
    interrupt_after(monkeypatch, 2)
    done = invoke("run", run_file)
    assert done.exit_code == 130
    assert "interrupted: 8 of 12" in done.stderr
    dataset = ergode.open_dataset(tmp_path / "seir.nc")
    assert dataset.attrs["interrupted"] == 1
    assert dataset["count"].equals(counts["count"][:8])
    assert (tmp_path / "seir.png").is_file()


def test_control_c_while_a_result_is_written_loses_nothing(run_file, tmp_path, monkeypatch, counts):
    original = xarray.Dataset.to_netcdf

    def to_netcdf(self, file, **options):
        signal.raise_signal(signal.SIGINT)
        return original(self, file, **options)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(xarray.Dataset, "to_netcdf", to_netcdf)
    done = invoke("run", run_file)
    assert done.exit_code == 130
    assert "the dataset is written, the figure is not" in done.stderr
    assert signal.getsignal(signal.SIGINT) is before
    assert ergode.open_dataset(tmp_path / "seir.nc")["count"].equals(counts["count"])
    assert not (tmp_path / "seir.png").exists()


def test_interrupted_before_anything_was_computed(run_file, tmp_path, monkeypatch):
    interrupt_after(monkeypatch, 0)
    done = invoke("run", run_file)
    assert done.exit_code == 130
    assert "interrupted before anything was computed" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["seir.toml"]


@pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise there")
@pytest.mark.slow
def test_control_c_in_a_real_process(run_file, tmp_path):
    command = [sys.executable, "-m", "ergode", "run", run_file, "--replicates", "200000"]
    # A shell's background jobs, and what they start, ignore SIGINT unless told otherwise.
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for line in process.stderr:  # progress is reported once replicates are finished
        if "replicates" in line:
            break
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130, rest
    done = ergode.open_dataset(tmp_path / "seir.nc")
    assert 0 < done.sizes["replicate"] < 200_000
    assert (tmp_path / "seir.png").is_file()


def test_info_says_what_is_there():
    said = json.loads(invoke("info", "--json").stdout)
    assert said["ergode"] == ergode.__version__
    assert {"numpy", "numba", "numba-cuda"} <= set(said["packages"])
    assert said["devices"][0]["name"] == "cpu"
    assert said["devices"][0]["memory_bytes"] > said["devices"][0]["available_bytes"] > 0
    assert said["extras"]["zarr"] == {"zarr": version("zarr")}
    assert not {"test", "docs"} & set(said["extras"])
    assert said["auto"]["reason"]
    assert said["cache"]["directory"] == os.environ["ERGODE_CACHE_DIR"]
    text = invoke("info").stdout
    assert "[zarr]" in text
    assert said["auto"]["reason"] in text
    assert said["cache"]["directory"] in text


def test_cache_shows_and_clears(tmp_path, monkeypatch):
    from ergode.core.compiler import kernel_cache

    monkeypatch.setenv("ERGODE_CACHE_DIR", str(tmp_path / "cache"))
    kernel_cache.folders.cache_clear()
    try:
        kernel_cache.file_of("ergode_cpu_x", "x = 1\n")
        assert "1 kernel, 6 B" in invoke("cache").stdout
        said = json.loads(invoke("cache", "--clear", "--json").stdout)
        assert (said["kernels"], said["bytes"], said["cleared"]) == (1, 6, True)
        assert json.loads(invoke("cache", "--json").stdout)["kernels"] == 0
    finally:
        kernel_cache.folders.cache_clear()


def test_version():
    assert invoke("--version").stdout.strip() == f"ergode {ergode.__version__}"


@pytest.mark.parametrize(
    "engines",
    [
        ["stochastic"],
        pytest.param(
            ["epidemics", "stochastic", "kinetics", "trajectories", "density"],
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["one engine", "all engines"],
)
def test_tour_writes_a_page_that_needs_nothing_else(tmp_path, engines, monkeypatch):
    taken = [name for name in STOPS if name.rpartition(".")[2] in engines]
    monkeypatch.setattr("ergode.cli.tour.STOPS", taken)
    started = time.perf_counter()
    done = invoke("tour", "--output", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["seconds"] <= time.perf_counter() - started
    assert [stop["engine"] for stop in said["stops"]] == engines
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["tour.html", *(f"tour_{engine}.nc" for engine in engines)]
    )
    page = (tmp_path / "tour.html").read_text()
    again = invoke("tour", "--output", tmp_path)
    assert again.exit_code == 1
    assert "it exists; pass --overwrite to replace it" in again.stderr
    assert page.count("data:image/svg+xml;base64,") == 4 * len(engines)
    for elsewhere in ("http://", "https://", "<script", "<link", "url("):
        assert elsewhere not in page
    assert "$" not in page
    for stop in said["stops"]:
        for row in stop["comparisons"]:
            # Five standard errors, and what theory leaves out: of the network, that it is finite,
            # and of the density, that its cells are not infinitely small.
            beside = 0.005 if stop["engine"] == "epidemics" else 0.02 * abs(row["expected"])
            assert abs(row["computed"] - row["expected"]) < 2.5 * row["error"] + beside


def test_a_tour_replaces_nothing(tmp_path):
    (tmp_path / "tour.html").write_text("mine")
    for options in ((), ("--overwrite",)):
        done = invoke("tour", "--output", tmp_path, *options)
        assert done.exit_code == 1
        assert "tour.html': a file of that name is in the way" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["tour.html"]


def test_a_tour_into_no_folder_exits_1(tmp_path):
    (tmp_path / "taken").write_text("mine")
    for folder in (tmp_path / "nowhere" / "deep", tmp_path / "taken"):
        done = invoke("tour", "--output", folder)
        assert done.exit_code == 1
        assert f"cannot make the folder '{folder}'" in done.stderr


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "ergode"\n')
    (tmp_path / "benchmarks").mkdir()
    script = tmp_path / "benchmarks" / "epidemics.py"
    script.write_text(
        "import pathlib, sys\n"
        "pathlib.Path('said.txt').write_text(' '.join(sys.argv[1:]))\n"
        "sys.exit(3 if '--fail' in sys.argv else 0)\n"
    )
    (tmp_path / "benchmarks" / "no_engine.py").write_text("raise SystemExit(4)")
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    return tmp_path


@pytest.mark.parametrize("engine", [["epidemics"], []])
def test_bench_passes_options_on(checkout, engine):
    assert invoke("bench", *engine, "--quick", "--json", "x.json").exit_code == 0
    assert (checkout / "deep" / "said.txt").read_text() == "--quick --json x.json"


def test_bench_passes_the_exit_code_on(checkout):
    assert invoke("bench", "epidemics", "--fail").exit_code == 3


def test_bench_of_an_unknown_engine(checkout):
    done = invoke("bench", "astrology")
    assert done.exit_code == 1
    assert "no benchmark 'astrology'; known: epidemics" in done.stderr


def test_bench_outside_a_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ergode, "__file__", str(tmp_path / "a" / "b" / "ergode" / "__init__.py"))
    done = invoke("bench")
    assert done.exit_code == 1
    assert "source checkout" in done.stderr
