"""Algorithms, how many threads share a realization, and what the docstring says of outputs."""

import importlib
from typing import get_args

import pytest
from cuda_cases import OPTIONS
from reaction_networks import colloidal_aggregation, cyclic_chain
from small_networks import BURSTS, SATURATED

from ergode.core import devices
from ergode.stochastic import methods, outputs
from ergode.stochastic.algorithms import partial_propensity, three_level
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.algorithms.direct import ALGORITHM as DIRECT
from ergode.stochastic.runners import compiled_direct, thread_groups, threads
from ergode.stochastic.to_tables import build

simulate = importlib.import_module("ergode.stochastic.simulate")


def test_the_docstring_and_the_type_list_the_outputs_of_the_table():
    assert get_args(simulate.Output) == tuple(outputs.OUTPUTS)
    listed = ", ".join(f'"{name}"' for name in outputs.OUTPUTS)
    assert f"output : {{{listed}}}" in simulate.simulate.__doc__


@pytest.mark.parametrize("missing", [{"choose": None}, {"arrive": None, "between": len}])
def test_an_algorithm_without_a_part_is_refused(missing):
    fields = {name: getattr(DIRECT, name) for name in DIRECT.__dataclass_fields__}
    with pytest.raises(TypeError, match="needs"):
        Algorithm(**{**fields, **missing})


def test_threads_that_share_a_realization():
    """By how much a firing changes, by how many realizations there are, and if at all."""

    def size(network, method, realizations):
        return methods.thread_group_size(
            method.ALGORITHM, build(network, {}, {}, 1), realizations, 132
        )

    coupled, chain = colloidal_aggregation(252), cyclic_chain(1000)
    assert size(coupled, partial_propensity, 4096) == thread_groups.WARP
    assert size(coupled, three_level, 100) == thread_groups.BLOCK
    assert size(chain, three_level, 100) == thread_groups.WARP
    assert size(BURSTS, three_level, 4096) == thread_groups.WARP
    assert size(BURSTS, partial_propensity, 4096) == 1
    assert size(SATURATED, three_level, 4096) == thread_groups.WARP
    assert size(chain, three_level, 16_384) == thread_groups.QUARTER
    assert size(coupled, partial_propensity, 16_384) == thread_groups.WARP


@pytest.mark.parametrize(("name", "network"), [("direct", cyclic_chain(80)), ("direct", SATURATED),
                                               ("tau-leap", SATURATED)])  # fmt: skip
def test_a_failure_on_cuda_is_looked_at_by_the_same_algorithm_on_the_cpu(name, network):
    tables, cuda = build(network, {}, {}, 1), OPTIONS["device"]
    request = methods.Request(cuda, 300, 100, False, {})
    plan = methods.plan(methods.METHODS[name], tables, request)
    there, here = (
        plan.runner(tables, **{**OPTIONS, "device": device})
        for device in (cuda, devices.resolve("cpu:1"))
    )
    assert getattr(here, "algorithm", None) is getattr(there, "algorithm", None)
    assert isinstance(there, thread_groups.ThreadGroupRunner) == (len(network.reactions) > 64)
    assert isinstance(here, threads.ThreadRunner | compiled_direct.CompiledDirectRunner)
