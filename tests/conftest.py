import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

# A child that is forked may wait for threads of a BLAS that only its parent has.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from ergode.core.compiler import inner_functions

# Kernels compiled by one test are there for the next, and (xdist, subprocesses) for the next
# process; nothing is taken from, or left in, the user's cache.
if "ERGODE_CACHE_DIR" not in os.environ:
    _CACHE = tempfile.TemporaryDirectory(prefix="ergode-tests-", ignore_cleanup_errors=True)
    os.environ["ERGODE_CACHE_DIR"] = _CACHE.name
os.environ["MPLBACKEND"] = "Agg"
# A shell's background jobs, and what they start, ignore SIGINT unless told otherwise.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # what several files share
# By the names of their files alone, so that a file may move.
SLOW = frozenset((ROOT / "tests" / "slow.txt").read_text().split())
# Of what is tested in several forms, an ordinary run takes the cheaper ones, so that it fits its
# time; `-m exhaustive` takes these.
EXHAUSTIVE = frozenset((ROOT / "tests" / "exhaustive.txt").read_text().splitlines())


def pytest_collection_finish():
    """Keep the collector from what thousands of tests are made of: it took a sixth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _names_of(item):
    code = getattr(getattr(item, "function", None), "__code__", None)
    return code.co_names if code else ()


def pytest_runtest_logreport(report):
    """Say at once what a referee has found: it runs for long, and may be cut off."""
    if report.failed and "fresh" in report.keywords:
        print(f"\n{report.nodeid}\n{report.longreprtext}", flush=True)


def pytest_collection_modifyitems(items):
    for item in items:
        if f"{item.path.name}::{item.name.partition('[')[0]}" in SLOW:
            item.add_marker(pytest.mark.slow)
        if f"{item.path.name}::{item.name}" in EXHAUSTIVE:
            item.add_marker(pytest.mark.exhaustive)
        if "fresh_seeds" in _names_of(item):
            item.add_marker(pytest.mark.fresh)
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if not marked:
        return
    from ergode.core import devices

    if not any(device.is_cuda for device in devices.present()):
        skip = pytest.mark.skip(reason=devices.resolve("auto").reason)
        for item in marked:
            item.add_marker(skip)


def _without_text(library, codegen, name):
    """What numba has for text takes longer to compile than many a kernel: none may need it."""
    if name.startswith(("unicode_", "join_list", "integer_str")):
        raise AssertionError(f"a kernel compiles numba's functions for text ('{name}')")
    _usual_library(library, codegen, name)


_usual_library = inner_functions.InnerLibrary.__init__
inner_functions.InnerLibrary.__init__ = _without_text


@pytest.fixture(scope="session")
def shared_data():
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the data that are shared beside the repository are not there")
    return folder


@pytest.fixture(scope="session")
def refusal():
    """Calls a reader, which must refuse what it is given in one line, and returns the line."""
    import ergode

    def said(read, *arguments, **options):
        with pytest.raises(ergode.ReadError) as caught:
            read(*arguments, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return said


@pytest.fixture(scope="session")
def model():
    """SEIR as most tests use it, so that its kernels are compiled once."""
    import ergode

    return ergode.CompartmentModel.seir(
        transmission_rate=0.25,
        latent=ergode.LogNormal(mean=5, median=4),
        infectious=ergode.LogNormal(mean=7.5, median=5),
    )


@pytest.fixture(scope="session")
def contacts():
    """A small random network without weights."""
    import ergode

    return ergode.ContactNetwork.erdos_renyi(500, mean_degree=8, seed=1)


@pytest.fixture(scope="session")
def counts(model, contacts):
    """Counts of twelve replicates of `model` on `contacts`."""
    import ergode

    return ergode.epidemics.simulate(
        model, contacts, initial={"I": 5}, times=range(61), replicates=12, seed=1, device="cpu"
    )
