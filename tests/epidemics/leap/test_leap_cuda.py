"""Time steps on a CUDA device: kernels compile, and a device gives what the CPU gives."""

import re

import numpy as np
import pytest
from leap_cases import aging, by_group, counts_of, measures, memoryless, weighted_network

import ergode
from ergode.core import devices
from ergode.core.calls.checkpoint import Keeper
from ergode.core.context import Running, run_with
from ergode.epidemics.leap.grid import Signals, Store
from ergode.epidemics.leap.options import CUTS_HUBS, GATHERS, LOCAL_BITS, PUSHES
from ergode.epidemics.leap.runner import LeapEnsemble
from ergode.epidemics.scenario import scenario_of


@pytest.fixture(scope="module")
def weighted():
    return weighted_network()


class Pretended(devices.CPU):
    """A device on which kernels are only compiled."""

    @property
    def target(self):
        return "cuda"

    @property
    def shared_bytes_most(self):
        return 227 * 1024

    def put(self, array):
        return np.ascontiguousarray(array)


def cuda_arguments(ensemble):
    """Arguments of the types that `LeapEnsemble` launches its kernel with."""

    def array(dtype):
        return np.zeros(1, dtype)

    runs = ensemble.runs
    word = f"uint{ensemble.precision[-2:]}"
    return (
        runs._layout.tables, runs._hubs._replace(pressure=array(np.int32)), ensemble.seed, 0, 1,
        Store(*(array("int32" if k not in (0, 2) else "uint32") for k in range(8))),
        Signals(
            *(array(t) for t in ("int32", word, "int32")), np.zeros((1, 1), np.int64), np.int64(0)
        ),
        np.zeros((1, 1, 1), np.int32), array(np.int64),
    )  # fmt: skip


@pytest.mark.parametrize(
    "chosen",
    [
        {"pressure": "gather"},
        {"pressure": "push", "transition": "sampled", "include": "entries"},
        {"pressure": "auto", "step": 2.0, "tolerance": 0.1, "transition": "left-end"},
        {"pressure": "auto", "step": 2.0, "precision": "float64", "computed": True},
        {"pressure": "push", "measures": True},
        pytest.param(
            {"pressure": "auto", "step": 2.0, "resumes": True}, marks=pytest.mark.exhaustive
        ),
    ],
)
def test_kernels_compile_to_ptx(model, weighted, chosen):
    cuda = pytest.importorskip("ergode.core.devices.cuda")
    network = ergode.ContactNetwork.barabasi_albert(500, m=4, seed=1)
    if "tolerance" in chosen:
        network = weighted.with_attributes(group=np.arange(weighted.node_count) % 3)
        model = by_group()
    chosen = dict(chosen)
    if chosen.pop("computed", False):
        network = ergode.ComputedNetwork.from_layers(
            {
                "home": ergode.ComputedNetwork.groups(500, [1, 2, 5, 3], seed=1),
                "work": ergode.ComputedNetwork.random_regular(500, 4, seed=2),
            },
            {"work": 0.5},
        )
    scenario = scenario_of(network, include=chosen.pop("include", ()))
    if chosen.get("measures"):
        chosen = {"pressure": "push"}
        scenario, model = measures(), memoryless()
    keeper = Keeper(None, 1.0) if chosen.pop("resumes", False) else None
    with run_with(Running(keeper=keeper)):
        ensemble = LeapEnsemble(
            model, scenario, {"I": 5}, times=np.arange(5.0), seed=1,
            device=Pretended("cuda:0", "none", 132, 2**37, ""), **({"step": 0.25} | chosen),
        )  # fmt: skip
    text = cuda.ptx(ensemble.runs.kernel.compiled("cuda"), cuda_arguments(ensemble))
    # No array is in local memory; eight bytes are the result of a function that is called.
    kept = re.findall(r"__local_depot\d+\[(\d+)\]", text)
    assert sum(map(int, kept)) <= (8 if "permuted_twice" in text else 0)
    bound = ensemble.runs.kernel.bindings
    if chosen.get("precision") != "float64":
        assert ".f64" not in text
    if chosen["pressure"] == "gather":
        assert bound[CUTS_HUBS] and bound[LOCAL_BITS]
    if chosen["pressure"] == "auto":
        assert bound[GATHERS] and bound[PUSHES]


@pytest.mark.cuda
@pytest.mark.parametrize("pressure", ["gather", "push", "auto"])
def test_cuda_equals_cpu(model, contacts, weighted, pressure):
    hubs = ergode.ContactNetwork.barabasi_albert(20_000, m=4, seed=1)
    cases = [
        (model, contacts, {"count": 300}),
        (model, hubs, {"step": 1.0, "times": np.arange(31.0)}),
        (model, hubs, {"transition": "sampled", "precision": "float64"}),
        (model, contacts, {"transition": "sampled", "count": 300, "times": np.arange(0, 41.0, 4)}),
        (aging(), hubs, {"transition": "sampled", "times": np.arange(31.0)}),
        (aging(), weighted, {"tolerance": 0.2}),
        (memoryless(), weighted, {"times": [0.0, 1.0, 1.3, 4.0]}),
    ]
    for chosen, network, options in cases:
        expected, work = counts_of(chosen, network, pressure="push", **options)
        found, other = counts_of(chosen, network, device="cuda", pressure=pressure, **options)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.delete(other, 1), np.delete(work, 1))


@pytest.mark.cuda
@pytest.mark.parametrize("case", ["layers", "one-layer", "adaptive", "ages", "by_group"])
def test_cuda_equals_cpu_under_measures(model, contacts, case):
    scenario, chosen, initial, options = measures(), memoryless(), {"I": 30}, {}
    if case == "one-layer":
        chosen = model
        scenario = scenario_of(
            contacts.with_attributes(group=np.arange(500) % 5),
            [ergode.LayerClosure(reduction=0.5, start=5.3), ergode.Vaccination(efficacy=0.7)],
            strata="group",
        )
    elif case == "adaptive":
        chosen, options = aging(), {"tolerance": 0.2}
    elif case == "by_group":
        chosen = by_group()
    elif case == "ages":
        chosen, scenario = model, scenario_of(contacts.with_attributes(w=np.arange(500)))
        options, initial = {"transition": "sampled"}, {"I": ergode.Seeds(20, weight="w", age=4.0)}
    found = []
    for device in ("cpu", "cuda"):
        for pressure in ("push", "gather") if case == "one-layer" else ("push",):
            ensemble = LeapEnsemble(
                chosen, scenario, initial, times=np.arange(13.0), seed=5, step=0.25,
                device=devices.resolve(device), pressure=pressure, **options,
            )  # fmt: skip
            found.append(ensemble.run(3, 20)[0][0])
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.cuda
def test_cuda_takes_one_node_no_edges_and_a_star(model):
    star = ergode.ContactNetwork.from_edges(np.zeros(99_999, int), np.arange(1, 100_000))
    for contacts in (
        ergode.ContactNetwork.from_edges([], [], node_count=30),
        ergode.ContactNetwork.from_edges([], [], node_count=170),
        star,
    ):
        expected, _ = counts_of(model, contacts, count=3)
        for pressure in ("gather", "push"):
            found, _ = counts_of(model, contacts, count=3, device="cuda", pressure=pressure)
            np.testing.assert_array_equal(found, expected)
