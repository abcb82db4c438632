"""Every CUDA kernel compiles to PTX; on a device it returns what the CPU does."""

import numpy as np
import pytest
from both_devices import on_both
from cuda_cases import OPTIONS, ptx
from reaction_networks import colloidal_aggregation, cyclic_chain
from small_networks import DIMERISATION, IMMIGRATION_DEATH, SATURATED

import ergode
from ergode.stochastic import methods
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.compiled_direct import CompiledDirectRunner
from ergode.stochastic.runners.threads import ThreadRunner, kernel_of
from ergode.stochastic.to_tables import build

PREPARED = "composition-rejection"
ALL = [*methods.EXACT, *methods.APPROXIMATE]


@pytest.mark.parametrize(
    ("network", "shared"), [(SATURATED, True), (colloidal_aggregation(8), False)]
)
def test_straight_line_kernel_compiles_and_stays_in_registers(network, shared):
    """With a formula, and with more reactions than Python makes a tuple of at once."""
    tables = build(network, {}, {}, 1)
    ensemble = CompiledDirectRunner(tables, **OPTIONS)
    text = ptx(ensemble, wanted=Wanted(amounts=True, statistics=shared))
    assert "depot" not in text
    assert ("atom.shared" in text) == shared


@pytest.mark.parametrize(
    ("name", "general"),
    [(name, True) for name in [*methods.EXACT, "tau-leap"]]
    + [(name, False) for name in [*methods.EXACT, "tau-leap"] if name not in ("direct", "hybrid")],
)
def test_kernels_on_tables_compile(name, general):
    """With a warp for each where a beginning is prepared, which all its threads copy."""
    algorithm = methods.METHODS[name].algorithm
    tables = build(DIMERISATION, {}, {}, 1)
    ensemble = ThreadRunner(tables, algorithm=algorithm, **OPTIONS)
    prepared = not general and ensemble.prepares()
    assert prepared == (name == PREPARED and not general)
    kernel = kernel_of(algorithm, general, prepared, led=prepared)
    # Registers are no question here: they work on tables in memory.
    assert ".entry" in ptx(ensemble, kernel=kernel, optimized=False)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("network", [DIMERISATION, IMMIGRATION_DEATH])
def test_device_and_processor_agree(network, method):
    common = {"times": [0, 1, 2], "replicates": 500, "seed": 2, "method": method}
    cpu, gpu = on_both(ergode.stochastic.simulate, network, **common)
    if method == "langevin":
        np.testing.assert_allclose(gpu["amount"], cpu["amount"], rtol=1e-9, atol=1e-9)
    else:
        np.testing.assert_array_equal(gpu["amount"], cpu["amount"])
    np.testing.assert_array_equal(gpu["status"], cpu["status"])
    summary = ergode.stochastic.simulate(network, device="cuda", output="statistics", **common)
    rows = gpu["amount"].values.astype(float)
    np.testing.assert_allclose(summary["mean"], rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(summary["variance"], rows.var(axis=0, ddof=1), rtol=1e-9)


@pytest.mark.cuda
def test_groups_that_were_made_before():
    network = cyclic_chain(2100)
    common = {"times": [0, 0.3], "seed": 2, "method": PREPARED}
    for replicates in (300, 20_000):  # a warp for each, and a thread
        cpu, gpu = on_both(
            ergode.stochastic.simulate, network, output="statistics", replicates=replicates,
            **common,
        )  # fmt: skip
        np.testing.assert_array_equal(gpu["variance"], cpu["variance"])
