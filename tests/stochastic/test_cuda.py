"""Every CUDA kernel compiles to PTX; on a device it returns what the CPU does."""

import numpy as np
import pytest
from small_networks import DIMERISATION, IMMIGRATION_DEATH, SATURATED

import ergode
from ergode.core import cuda
from ergode.stochastic import leap, methods, partial_propensity
from ergode.stochastic.ensemble import Ensemble, Wanted, _kernel
from ergode.stochastic.small import SmallEnsemble
from ergode.stochastic.tables import build
from ergode.stochastic.warp_partial import KERNEL, WarpEnsemble

ALL = [*methods.EXACT, *methods.APPROXIMATE]


class Pretended:
    """A CUDA device as far as arrays go, which stay on the host."""

    is_cuda, core_count = True, 132

    def put(self, array):
        return np.ascontiguousarray(array)

    def empty(self, shape, kind):
        return np.zeros(shape, kind)

    def available_bytes(self):
        return 10**9


@pytest.fixture(autouse=True)
def zeros_on_the_host(monkeypatch, request):
    if not request.node.get_closest_marker("cuda"):
        monkeypatch.setattr(Ensemble, "_zeros", lambda self, shape, kind: np.zeros(shape, kind))


OPTIONS = {
    "grid": np.linspace(0, 1, 5), "begin": 0.0, "seed": 1, "replicates": 8,
    "firings_most": 100, "device": Pretended(),
}  # fmt: skip


def ptx(kernel, ensemble, *arguments):
    out = ensemble.results(8, 1, 1, Wanted(amounts=True, statistics=True))
    queue = np.zeros(1, np.int64)
    return cuda.ptx(
        kernel.compiled("cuda"), (queue, np.int64(8), *arguments, ensemble._plan, out)
    )  # fmt: skip


@pytest.mark.parametrize("shared", [True, False])
def test_straight_line_kernel_compiles_and_stays_in_registers(shared):
    tables = build(SATURATED, {}, {}, 1)
    ensemble = SmallEnsemble(SATURATED, tables, **OPTIONS)
    text = ptx(ensemble.kernel(shared=shared), ensemble, ensemble.rates())
    assert "depot" not in text
    assert ("atom.shared" in text) == shared


def test_warp_kernel_compiles():
    tables = build(DIMERISATION, {}, {}, 1)
    ensemble = WarpEnsemble(tables, method=partial_propensity, **OPTIONS)
    text = ptx(KERNEL, ensemble, ensemble.groups())
    assert "depot" not in text
    assert "shfl" in text


@pytest.mark.parametrize("name", [*methods.EXACT, "leap"])
def test_kernels_on_tables_compile(name):
    method = methods.EXACT.get(name, leap)
    tables = build(DIMERISATION, {}, {}, 1)
    ensemble = Ensemble(tables, method=method, **OPTIONS)
    kernel = _kernel(method, True)
    arguments = (np.int64(1), ensemble.net(), *ensemble.workspace(4))
    assert ".entry" in ptx(kernel, ensemble, *arguments)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("network", [DIMERISATION, IMMIGRATION_DEATH])
def test_device_and_processor_agree(network, method):
    common = {"times": [0, 1, 2], "replicates": 500, "seed": 2, "method": method}
    cpu, gpu = (
        ergode.stochastic.simulate(network, device=device, **common) for device in ("cpu", "cuda")
    )
    if method == "langevin":
        np.testing.assert_allclose(gpu["amount"], cpu["amount"], rtol=1e-9, atol=1e-9)
    else:
        np.testing.assert_array_equal(gpu["amount"], cpu["amount"])
    np.testing.assert_array_equal(gpu["status"], cpu["status"])
    summary = ergode.stochastic.simulate(network, device="cuda", output="statistics", **common)
    rows = gpu["amount"].values.astype(float)
    np.testing.assert_allclose(summary["mean"], rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(summary["variance"], rows.var(axis=0, ddof=1), rtol=1e-9)
