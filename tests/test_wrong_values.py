"""Wrong values at the door: whatever is given, it is taken, or refused in one line by its name.

No kernel is compiled or run: a call that comes so far has taken its arguments.
"""

import copy
import inspect
import random
import signal
import tomllib
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import ergode
from ergode.core import devices
from ergode.runfile.read import read

TABLES = [None, "", [], {}, np.nan, np.inf, -1, 0, 1e300, 10**30, True, [[1]], [[1], [2, 3]],
          "x" * 3000, -0.5, 2.5, "nan", {"a": 1}, ["x"], [np.nan], [True], 10**400]  # fmt: skip
"""What TOML has words for, and None."""
VALUES = [*TABLES, object(), 1j, np.array([1.5 + 1j]), b"x", np.array([1, 2]), (), [None], len,
          np.datetime64("2020-01-01")]  # fmt: skip


class Taken(BaseException):
    """A call wants to run a kernel."""


@pytest.fixture(autouse=True)
def no_kernel(monkeypatch):
    def taken(*arguments, **options):
        raise Taken

    for name in ("run", "run_together", "run_apart", "prepare"):
        monkeypatch.setattr(devices.CPU, name, taken)
    monkeypatch.setattr(devices.CPU, "available_bytes", lambda self: 1 << 30)


@contextmanager
def refused_or_taken(what):
    """Whatever else happens is a failure that names what was given."""

    def late(*arguments):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(10)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            yield
    except Taken:
        pass
    except ergode.ErgodeError as error:
        if "\n" in str(error):
            raise AssertionError(what) from error
    except BaseException as error:
        raise AssertionError(f"{what}: {error!r}") from error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def decay(t, y, p):
    return (-p[0] * y[0],)


def heat(i, t, y, p):
    return y[i - 1] - y[i]


def level(t, y, p):
    return y[0] - 0.8


FIELD = ergode.VectorField(decay, ["x"], ["k"])
NETWORK = ergode.ReactionNetwork(
    {"A": 3}, [ergode.Reaction("A -> 0", rate_constant="k")], parameters={"k": 1.0}
)
OF_FIELD = {"field": FIELD, "parameters": {"k": 1.0}, "device": "cpu:1"}
OF_STATE = OF_FIELD | {"initial": {"x": 1.0}}
OF_PRIOR = OF_FIELD | {"prior": ergode.Gaussian([1.0], [0.04]), "times": [0.0, 1.0]}
OF_NETWORK = {"network": NETWORK, "times": [0.0, 1.0], "device": "cpu:1"}
CALLS = {
    ergode.trajectories.integrate: OF_STATE | {"times": [0.0, 1.0]},
    ergode.trajectories.lyapunov_spectrum: OF_STATE | {"duration": 1.0},
    ergode.trajectories.poincare_section: OF_STATE | {"section": "x", "duration": 1.0},
    ergode.trajectories.bifurcation_diagram: OF_STATE
    | {"section": "x", "duration": 1.0, "parameter": "k", "values": [1.0], "parameters": None},
    ergode.trajectories.branch: {
        "field": FIELD, "parameters": {"k": 1.0}, "start": {"x": 1.0}, "vary": {"k": (0.5, 2.0)},
    },
    ergode.trajectories.basins: OF_STATE | {"duration": 1.0, "tolerance": 0.1},
    ergode.trajectories.sensitivities: OF_STATE | {"times": [0.0, 1.0], "with_respect_to": ["k"]},
    ergode.trajectories.fit: OF_STATE
    | {"times": [0.0, 1.0], "estimate": ["k"], "data": {"x": [1.0, 0.5]}},
    ergode.trajectories.ZeroCrossing: {"function": level},
    ergode.stochastic.simulate: OF_NETWORK,
    ergode.stochastic.sensitivities: OF_NETWORK,
    ergode.stochastic.probabilities: {"network": NETWORK, "times": [0.0, 1.0]},
    ergode.stochastic.passages: {"network": NETWORK, "ends": {"gone": "A == 0"}},
    ergode.stochastic.rare_event: {
        "network": NETWORK, "times": [0.0, 1.0], "level": "-A", "target": 0.0,
    },
    ergode.stochastic.linear_noise: {"network": NETWORK, "times": [0.0, 1.0]},
    ergode.kinetics.integrate: OF_NETWORK,
    ergode.epidemics.simulate: {
        "model": ergode.CompartmentModel.si(transmission_rate=1.0),
        "contacts": ergode.ContactNetwork.from_edges([0], [1]),
        "times": [0.0, 1.0], "initial": {"I": 1}, "device": "cpu:1",
    },
    ergode.density.propagate: OF_PRIOR,
    ergode.particles.propagate: OF_PRIOR,
    ergode.Maneuver: {"time": 0.5, "change": {"x": 1.0}, "covariance": {"x": 0.1}},
    ergode.ContactNetwork.erdos_renyi: {"node_count": 10, "mean_degree": 2},
    ergode.ContactNetwork.population: {"node_count": 10},
    ergode.CompartmentModel.si: {"transmission_rate": 1.0},
    ergode.LogNormal: {"mean": 2.0, "median": 1.0},
    ergode.Gaussian: {"mean": [1.0], "covariance": [1.0]},
    ergode.VectorField: {"component": heat, "variables": ("x", 3), "diffusion": 0.1},
    ergode.ReactionNetwork: {"species": {"A": 1}, "reactions": []},
    ergode.Species: {"name": "A"},
    ergode.Reaction: {"reactants": "A -> 0", "rate_constant": 1.0},
}  # fmt: skip
ARGUMENTS = [
    (call, name)
    for call in CALLS
    for name, one in inspect.signature(call).parameters.items()
    if one.kind is not one.VAR_KEYWORD
]


def check_call(call, name, value):
    with refused_or_taken(f"{call.__qualname__}({name}={value!r:.40})"):
        call(**{**CALLS[call], name: value})


@pytest.mark.parametrize(("call", "name"), ARGUMENTS)
def test_every_wrong_argument(call, name):
    for value in VALUES:
        check_call(call, name, value)


TEXTS = [
    """
    engine = "epidemics"
    title = "epidemic"
    parameters = { rate = [0.2, 0.4], seeds = { start = 2, stop = 6, step = 2 } }
    model = { kind = "sir", transmission_rate = "rate", infectious.mean = 2.0,
              infectious.distribution = "exponential" }
    contacts = { generator = "erdos-renyi", node_count = 40, mean_degree = 3, seed = 1 }
    interventions = [{ kind = "isolation", compartment = "I", delay = 2,
                       start = { count = "cases", level = 5 } }]
    importations = [{ compartment = "I", rate = 0.1, start = 0, stop = 3 }]
    [simulate]
    initial = { I = "seeds" }
    times = { start = 0, stop = 4, count = 3 }
    replicates = 3
    seed = 7
    method = "auto"
    output = "statistics"
    quantiles = [0.5]
    precision = "auto"
    device = "cpu:1"
    """,
    """
    engine = "stochastic"
    network = { species = { A = 3 }, parameters = { k = 1.0 },
                reactions = [{ reaction = "A -> 0", rate_constant = "k" }] }
    [simulate]
    times = [0, 1]
    replicates = 2
    seed = 1
    max_firings = 100
    output = "first-passage"
    stop = "A < 2"
    parameters = { k = [1, 2] }
    initial = { A = 4 }
    device = "cpu:1"
    """,
    """
    engine = "kinetics"
    initial = { A = [1, 2] }
    network = { species = { A = 3 }, parameters = { k = 1.0 },
                reactions = [{ reaction = "A -> 0", rate_constant = "k" }] }
    [integrate]
    times = [0, 1]
    rtol = 1e-6
    atol = 1e-9
    max_steps = 1000
    temperature = [300, 400]
    parameters = { k = [1, 2] }
    device = "cpu:1"
    """,
    """
    engine = "trajectories"
    equations = { x = "-k * x" }
    diffusion = { x = "0.1" }
    initial = { x = [1, 2] }
    parameters = { k = { start = 1, stop = 2, count = 3 } }
    [integrate]
    times = [0, 1]
    step = 0.1
    replicates = 2
    seed = 1
    precision = "float64"
    device = "cpu:1"
    """,
    """
    engine = "density"
    equations = { x = "-k * x" }
    prior = { mean = [1], covariance = [[1]] }
    parameters = { k = 1 }
    measurements = [{ time = 1, variable = "x", value = 1, variance = 1 }]
    maneuvers = [{ time = 1, change = [1], covariance = [0.1] }]
    [propagate]
    times = [0, 1]
    width = 0.5
    threshold = 1e-4
    max_cells = 1000
    process_noise = [0.1]
    keep = "last"
    scheme = "split"
    device = "cpu:1"
    """,
]
# (A table within a line is one line in TOML.)
FILES = [tomllib.loads(text.replace(",\n", ", ")) for text in TEXTS]


def places(values, place=()):
    """Every key and member of nested tables and lists, and these themselves."""
    for key, value in values.items() if isinstance(values, dict) else enumerate(values):
        yield (*place, key)
        if isinstance(value, dict | list):
            yield from places(value, (*place, key))


KEYS = [(number, place) for number, values in enumerate(FILES) for place in places(values)]


def check_file(monkeypatch, tmp_path, number, place, value):
    values = inner = copy.deepcopy(FILES[number])
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    monkeypatch.setattr(tomllib, "loads", lambda text: values)
    path = tmp_path / "run.toml"
    path.write_text("")
    with refused_or_taken(f"{FILES[number]['engine']}: {place} = {value!r:.40}"):
        read(path).execute(progress=False)


def test_the_files_are_right(monkeypatch, tmp_path):
    for number, values in enumerate(FILES):
        monkeypatch.setattr(tomllib, "loads", lambda text, values=values: copy.deepcopy(values))
        path = tmp_path / f"{number}.toml"
        path.write_text("")
        with pytest.raises(Taken):
            read(path).execute(progress=False)


def test_some_wrong_keys_of_run_files(monkeypatch, tmp_path):
    rng = random.Random(7)
    for number, place in KEYS:
        for value in rng.sample(TABLES[1:], 2):
            check_file(monkeypatch, tmp_path, number, place, value)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("number", "place"), KEYS)
def test_every_wrong_key_of_run_files(monkeypatch, tmp_path, number, place):
    for value in TABLES[1:]:
        check_file(monkeypatch, tmp_path, number, place, value)
