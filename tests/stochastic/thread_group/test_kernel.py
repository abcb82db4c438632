"""Thread groups: their kernels compile to PTX; on a device they return what the CPU does."""

import numpy as np
import pytest
from both_devices import on_both
from cuda_cases import OPTIONS, WANTED, ptx
from host_threads import Machine
from reaction_networks import colloidal_aggregation, cyclic_chain
from small_networks import DIMERISATION

import ergode
from ergode import Event, Reaction, ReactionNetwork
from ergode.stochastic import methods
from ergode.stochastic.algorithms import partial_propensity, three_level
from ergode.stochastic.runners import thread_groups
from ergode.stochastic.runners.thread_groups import ThreadGroupRunner
from ergode.stochastic.to_tables import build

REPRESSED = ReactionNetwork(
    {"X": 5, "Y": 0},
    [
        Reaction("0 -> X", rate="8 if X < 20 else 2"),
        Reaction("X -> 0", rate_constant=0.5),
        Reaction("X -> Y", rate_constant="k"),
        Reaction("Y -> 0", rate_constant=0.25),
    ],
    parameters={"k": 0.25},
    events=[
        Event("time >= 1.25", {"X": "X + 30"}),
        Event("Y >= 6", {"Y": 0, "k": "k + 0.25"}, delay=0.5),
        Event("X < 3", {"X": "X + 2"}, priority=1),
    ],
)


@pytest.mark.parametrize("size", [thread_groups.WARP, thread_groups.BLOCK])
@pytest.mark.parametrize("method", [partial_propensity, three_level])
def test_kernels_of_thread_groups_compile(method, size):
    tables = build(DIMERISATION, {}, {}, 1)
    ensemble = ThreadGroupRunner(tables, algorithm=method.ALGORITHM, size=size, **OPTIONS)
    registers = method is partial_propensity  # in the other a formula may have a sine
    text = ptx(ensemble, optimized=registers)
    assert not (registers and "depot" in text)
    assert "shfl" in text
    assert ("bar.sync" in text) == (size > thread_groups.WARP)


@pytest.mark.parametrize("size", [thread_groups.QUARTER, thread_groups.BLOCK])
def test_kernel_of_thread_groups_that_are_interrupted_compiles(size):
    tables = build(REPRESSED, {}, {}, 1)
    assert thread_groups.why_unsupported(three_level.ALGORITHM, tables, size) is None
    assert "events" in thread_groups.why_unsupported(partial_propensity.ALGORITHM, tables, size)
    ensemble = ThreadGroupRunner(tables, algorithm=three_level.ALGORITHM, size=size, **OPTIONS)
    assert "shfl" in ptx(ensemble, optimized=False)


@pytest.mark.parametrize(
    ("algorithm", "network", "end"),
    [(partial_propensity, cyclic_chain(20), 0.4), (three_level, REPRESSED, 1.25)],
)
def test_threads_that_share_a_realization_do_what_one_does(algorithm, network, end):
    """Python threads: any of them may be late. Sums are exact, whoever adds up."""
    grid, count = np.array([0.0, 0.5 * end, end]), 4
    ensemble = ThreadGroupRunner(
        build(network, {}, {}, 1), algorithm=algorithm.ALGORITHM, size=thread_groups.QUARTER,
        **OPTIONS | {"grid": grid, "replicates": range(count), "max_firings": 1000},
    )  # fmt: skip
    kernel, arrays = ensemble.made(count, 4, WANTED)
    out = ensemble.results(count, 1, 1, WANTED)
    queue = np.zeros(1, np.int64)
    Machine(1, 32).run_kernel(kernel, queue, np.int64(count), *arrays, ensemble._plan, out)
    name = next(one for one, m in methods.METHODS.items() if m.algorithm is algorithm.ALGORITHM)
    alone = ergode.stochastic.simulate(
        network, times=grid, replicates=count, seed=OPTIONS["seed"], method=name, device="cpu"
    )
    np.testing.assert_array_equal(out.amounts, alone["amount"])
    np.testing.assert_array_equal(out.sums[0, 0], alone["amount"].sum("replicate"))
    np.testing.assert_array_equal(out.firings, alone["firing_count"])
    np.testing.assert_array_equal(out.status, alone["status"])


@pytest.mark.cuda
@pytest.mark.parametrize("size", [1, thread_groups.WARP, thread_groups.BLOCK])
def test_events_by_thread_groups_are_those_of_the_processor(monkeypatch, size):
    """Rates are such that sums are exact; events at times and of the state, late ones, a stop."""
    monkeypatch.setattr(methods, "thread_group_size", lambda *_: size)
    common = {"times": [0, 1, 2, 3, 4], "replicates": 300, "seed": 2, "method": "warp-direct"}
    for stop in (None, "X > 40"):
        cpu, gpu = on_both(ergode.stochastic.simulate, REPRESSED, stop=stop, **common)
        assert gpu.attrs["method_reason"].endswith(
            {1: "a thread", 32: "a warp"}.get(size, "threads") + " for a realization"
        )
        for name in ("amount", "status", "firing_count"):
            np.testing.assert_array_equal(gpu[name], cpu[name])


@pytest.mark.cuda
@pytest.mark.parametrize("size", [thread_groups.QUARTER, thread_groups.WARP, thread_groups.BLOCK])
@pytest.mark.parametrize("method", ["partial-propensity", "warp-direct"])
def test_thread_groups_do_what_the_processor_does(monkeypatch, method, size):
    """Unit constants: sums are of whole numbers, and exact whoever adds up."""
    monkeypatch.setattr(methods, "thread_group_size", lambda *_: size)
    # Sixteen quarters of a warp share a block's memory.
    chain = cyclic_chain(500 if size == thread_groups.QUARTER else 2100)
    for network in (colloidal_aggregation(64), chain):
        common = {"times": [0, 0.15, 0.3], "replicates": 300, "seed": 2, "method": method}
        cpu, gpu = on_both(ergode.stochastic.simulate, network, **common)
        np.testing.assert_array_equal(gpu["amount"], cpu["amount"])
        np.testing.assert_array_equal(gpu["firing_count"], cpu["firing_count"])
