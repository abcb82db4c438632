"""Every method, output and option through `simulate`, on the CPU and on a CUDA device.

On a device the results are those of the CPU.  Without one, everything but the kernels is run: on a
device whose arrays are not NumPy's, and whose kernels do nothing.
"""

from __future__ import annotations

import numpy as np
import pytest

import ergode
from ergode.core import devices
from ergode.epidemics import simulate
from ergode.epidemics.methods import METHODS

NODES = 60
OUTPUTS = ("counts", "statistics", "line_list")
# What differs in how it is collected: one infection or many, strata, points, meetings.
EVERY_OUTPUT = ("sir", "sis", "strata", "by attributes", "meetings")
GRID = np.arange(0.0, 13.0)


def _pairs(seed, count=220):
    source, target = np.random.default_rng(seed).integers(0, NODES, (2, count))
    return source[source != target], target[source != target]


def _network(seed=1, **options):
    return ergode.ContactNetwork.from_edges(*_pairs(seed), node_count=NODES, **options)


def _layered():
    return ergode.ContactNetwork.from_layers({"home": _network(1), "school": _network(2)})


def _attributed(network):
    rng = np.random.default_rng(5)
    return network.with_attributes(
        group=rng.integers(0, 3, NODES), susceptibility=rng.random(NODES)
    )


def _meetings(instantaneous):
    source, target = _pairs(3, 1500)
    begin = np.random.default_rng(4).uniform(0, 12, source.size)
    when = {"contact_time": 1.0} if instantaneous else {"end": begin + 1.5}
    return ergode.TemporalContacts.from_meetings(source, target, begin, node_count=NODES, **when)


_EXPONENTIAL = ergode.Exponential(mean=4.0)
SIR = ergode.CompartmentModel.sir(transmission_rate=0.3, infectious=_EXPONENTIAL)
SIS = ergode.CompartmentModel.sis(transmission_rate=0.3, infectious=_EXPONENTIAL)
SIRS = ergode.CompartmentModel.sirs(
    transmission_rate=0.3,
    infectious=ergode.Gamma(mean=3, sd=1),
    immune=ergode.Erlang(stages=2, mean=3),
)
SEAIR = ergode.CompartmentModel.seair(
    transmission_rate=0.4, latent=ergode.LogNormal(mean=2, median=1.5),
    infectious=ergode.Weibull(shape=2, scale=3), asymptomatic=ergode.Deterministic(2.0),
    asymptomatic_probability=0.4, asymptomatic_infectivity=0.5,
)  # fmt: skip
STRAINS = ergode.CompartmentModel.two_strains(
    transmission_rate=[0.3, 0.4], infectious=[_EXPONENTIAL, _EXPONENTIAL],
    cross_susceptibility=[[0.1, 0.6], [0.5, 0.0]],
)  # fmt: skip
PROFILE = ergode.CompartmentModel(
    ["S", "I"],
    [ergode.Infection("S", "I", {"I": 0.4}, profile={"I": ergode.Calendar([0, 1], [0.2, 1.0])})],
    [ergode.Progression("I", "S", _EXPONENTIAL)],
)

BY_GROUP = ergode.CompartmentModel(
    ["S", "I", "R", "D"],
    [
        ergode.Infection(
            "S", "I", {"I": 0.4},
            susceptibility=ergode.ByAttribute("group", {0: 0.5, 1: 1.0, 2: 1.5}),
            infectivity="susceptibility",
        )
    ],
    [
        ergode.Progression(
            "I",
            ergode.ByAttribute("group", [{"R": 1.0}, {"R": 0.3, "D": 0.7}], groups=[0, 1]),
            ergode.ByAttribute(
                "group", {k: ergode.Exponential(mean=2.0 + k) for k in range(3)}
            ),
        )
    ],
)  # fmt: skip
BY_GROUP_OF_ANY_LAW = ergode.CompartmentModel(
    BY_GROUP.compartments,
    BY_GROUP.infections,
    [
        ergode.Progression(
            "I",
            BY_GROUP.progressions[0].to,
            ergode.ByAttribute(
                "group",
                {0: ergode.Gamma(mean=3, sd=1), 1: ergode.Deterministic(2.0), 2: _EXPONENTIAL},
            ),
        ),
        ergode.Progression("R", "S", ergode.LogNormal(mean=4, median=3)),
    ],
)

# Name: model, contacts, and what else `simulate` is given.
CASES = {
    "sir": (SIR, _network(), {}),
    "sis": (SIS, _network(), {}),
    "sis in float64": (SIS, _network(), {"precision": "float64"}),
    "sirs": (SIRS, _network(), {}),
    "branches": (SEAIR, _network(directed=True), {"initial": {"A": 2, "E": [1, 2]}}),
    "strains": (STRAINS, _network(), {"initial": {"I1": 3, "I2": 3}}),
    "profile": (PROFILE, _network(), {}),
    "weights": (SIS, _network(weights=np.linspace(0.1, 2.0, _pairs(1)[0].size)), {}),
    "strata": (SIR, _attributed(_network()), {"strata": "group"}),
    "sis by strata": (SIS, _attributed(_network()), {"strata": "group"}),
    "by attributes": (BY_GROUP, _attributed(_network()), {"strata": "group"}),
    "laws by attributes": (BY_GROUP_OF_ANY_LAW, _attributed(_network()), {}),
    "ages": (SIRS, _network(), {"initial": {"I": ergode.Seeds(5, age=1.0)}}),
    "drawn by weight": (
        SIS, _attributed(_network()), {"initial": {"I": ergode.Seeds(5, weight="group")}}
    ),
    "importations": (
        SIRS,
        _network(),
        {
            "importations": [
                ergode.Importation("I", rate=1.0), ergode.Importation("I", times=[0.0, 4.0]),
            ]
        },
    ),
    "calendar": (
        SIS, _layered(), {"layer_factors": {"school": ergode.Calendar([0, 5], [1, 0.1], period=7)}}
    ),
    "closure": (SIS, _layered(), {"interventions": [ergode.LayerClosure("home", start=4)]}),
    "vaccination": (
        SIS,
        _network(),
        {
            "interventions": [
                ergode.Vaccination(fraction=0.5, efficacy=0.7, rollout=3, start=2),
                ergode.Vaccination(fraction=0.3, efficacy=0.7, leaky=False, duration=5),
            ]
        },
    ),
    "doses": (
        SIS,
        _attributed(_network()),
        {
            "interventions": [
                ergode.Vaccination(
                    fraction=0.8, efficacy=[0.4, 0.9], dose_rate=9.0, interval=3, priority="group"
                )
            ]
        },
    ),
    "factors by infection": (
        ergode.CompartmentModel(
            STRAINS.compartments,
            [
                ergode.Infection(
                    one.susceptible, one.infected, one.transmission_rate,
                    susceptibility="susceptibility" if one.infected == "I2" else None,
                    infectivity=ergode.ByAttribute("group", {0: 0.5 * k, 1: 1.0, 2: 1.5}),
                )
                for k, one in enumerate(STRAINS.infections)
            ],
            STRAINS.progressions,
        ),
        _attributed(_network()),
        {
            "initial": {"I1": 3, "I2": 3}, "importations": [ergode.Importation("I2", rate=1.0)],
        },
    ),
    "capacity": (
        BY_GROUP,
        _attributed(_network()),
        {"interventions": [ergode.Capacity("D", 5, instead="R")]},
    ),
    "waiting for places": (
        BY_GROUP,
        _attributed(_network()),
        {
            "interventions": [
                ergode.Capacity("D", 5, wait=True, priority="group"),
                ergode.Capacity("R", 9, wait=True),
            ]
        },
    ),
    "tests a day": (
        SIRS,
        _network(),
        {
            "interventions": [
                ergode.Testing({"I": 0.8}, capacity=2, delay=0.5, isolation=3.0),
                ergode.Testing({"I": 0.8}, capacity=1, wait=False, period=2.0),
            ]
        },
    ),
    "severity and waning": (
        BY_GROUP,
        _attributed(_network()),
        {
            "interventions": [
                ergode.Vaccination(
                    efficacy=0.6, severity={"D": 0.8}, waning=ergode.Exponential(mean=4)
                ),
                ergode.Vaccination(efficacy=0.5, waning=ergode.Calendar([0, 3], [1.0, 0.2])),
            ]
        },
    ),
    "waning": (
        SIS,
        _network(),
        {"interventions": [ergode.Vaccination(efficacy=0.6, waning=ergode.Exponential(mean=4))]},
    ),
    "isolation": (
        SIS, _network(), {"interventions": [ergode.Isolation("I", fraction=0.5, delay=1.0)]}
    ),
    "tracing": (
        SIRS,
        _network(),
        {
            "interventions": [
                ergode.ContactTracing("I", detection=0.6, tracing=0.5, quarantine=3.0)
            ]
        },
    ),
    "testing": (
        SIRS,
        _network(),
        {
            "interventions": [
                ergode.Testing({"I": 0.8, "R": 0.1}, rate=0.4, delay=0.5, isolation=3.0),
                ergode.Testing({"I": 0.8}, fraction=0.5, delay=1.0, stop=ergode.Trigger("I", 9)),
            ]
        },
    ),
    "trigger": (
        SIS, _network(), {"interventions": [ergode.LayerClosure(start=ergode.Trigger("I", 12))]}
    ),
    "trigger by new cases": (
        SIS,
        _attributed(_network()),
        {
            "interventions": [
                ergode.LayerClosure(
                    start=ergode.Trigger("cases", 5, window=2.0),
                    stop=ergode.Trigger("cases", 3, window=2.0, below=True),
                ),
                ergode.LayerClosure(
                    reduction=0.5, start=ergode.Trigger("I", fraction=0.2, among={"group": [0, 2]})
                ),
            ]
        },
    ),
    "meetings": (SIS, _meetings(False), {}),
    "instantaneous meetings": (SIR, _meetings(True), {}),
}  # fmt: skip
TABLE = [(case, method) for case in CASES for method in ("auto", *METHODS)]


def run(case, method, output, device):
    """The dataset of a case, or what it is refused with."""
    model, contacts, options = CASES[case]
    options = {"initial": {"I": 6}, "replicates": 8, "times": GRID, "seed": 3} | options
    try:
        return simulate(model, contacts, method=method, output=output, device=device, **options)
    except ergode.PlanError as error:
        return str(error)


@pytest.mark.cuda
@pytest.mark.parametrize(("case", "method"), TABLE)
def test_a_device_gives_what_the_cpu_gives(case, method):
    for output in OUTPUTS:
        expected, found = (run(case, method, output, device) for device in ("cpu", "cuda"))
        if method == "gillespie":
            assert isinstance(found, str)
            assert isinstance(expected, str) or "runs on the CPU" in found
        elif isinstance(expected, str):
            assert found == expected
        else:
            assert found.attrs["device"].startswith("cuda")
            for name in expected.variables:
                np.testing.assert_array_equal(expected[name], found[name], err_msg=name)


class OnDevice:
    """An array that is not in host memory: NumPy cannot read it."""

    def __init__(self, held):
        self._held = held
        self.shape, self.dtype, self.size = held.shape, held.dtype, held.size
        self.ndim, self.nbytes = held.ndim, held.nbytes

    def copy_into(self, target):
        target[...] = self._held

    def is_c_contiguous(self):
        return self._held.flags.c_contiguous

    def reshape(self, *shape):
        return OnDevice(self._held.reshape(*shape))

    def __array__(self, *_, **__):
        raise TypeError("this array is on a device")

    def __getitem__(self, _):
        raise TypeError("this array is on a device")


@pytest.fixture
def idle_device(monkeypatch):
    """A CUDA device whose memory holds zeros and whose kernels do nothing."""
    cuda = pytest.importorskip("ergode.core.devices.cuda")
    stand_ins = {
        "select": lambda index: None,
        "put": lambda array: OnDevice(np.array(array)),
        "empty": lambda shape, dtype: OnDevice(np.zeros(shape, dtype)),
        "fill_zero": lambda array: None,
        "copy_from": lambda array, target: array.copy_into(target),
        "free_memory": lambda index: 2**34,
        "launch": lambda *arguments: None,
        "shared_bytes_most": lambda index: 227 * 1024,
        "cooperative_block_count": lambda *arguments: 132,
    }
    arrays = pytest.importorskip("ergode.core.devices.cuda_arrays")
    for name, stand_in in stand_ins.items():
        for module in (cuda, arrays):
            monkeypatch.setattr(module, name, stand_in, raising=module is cuda)
    return devices.CUDA("cuda:0", "none", 132, 2**37, "for a test", 0)


@pytest.mark.parametrize(("case", "method"), [row for row in TABLE if row[1] != "auto"])
def test_results_are_collected_from_a_device(case, method, idle_device):
    """All of a call but its kernels; their results are zeros, and so of no interest."""
    for output in OUTPUTS if case in EVERY_OUTPUT else ("counts",):
        found = run(case, method, output, idle_device)
        if isinstance(found, str):
            continue
        assert found.attrs["device"] == "cuda:0" and found.attrs["replicates"] == 8
        dims = {"counts": "replicate", "statistics": "level", "line_list": "case"}
        assert dims[output] in found.dims
        counters = {"expansions", "events", "paths", "steps"} & set(found.attrs)
        assert len(counters) == 1


@pytest.mark.parametrize("method", sorted({"auto", *METHODS} - {"gillespie"}))  # on the CPU alone
def test_every_method_takes_some_case(method, idle_device):
    assert not all(isinstance(run(c, method, "counts", idle_device), str) for c in ("sir", "sis"))
