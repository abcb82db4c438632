"""Results that stay on the device are those of the plain call, and device arrays may be given.

On a CPU the arrays are NumPy's. `Apart` stands for CuPy there: arrays that refuse to be mixed with
those of the host, as CuPy's do, so that what is computed of kept arrays is tested without a GPU.
"""

from functools import partial
from importlib import import_module

import numpy as np
import pytest
from numpy.lib.mixins import NDArrayOperatorsMixin
from small_calls import CONTACTS, NETWORK, same_bits, sir
from well_known import ROBERTSON

import ergode
from ergode.core import devices
from ergode.core.calls import launch, resident
from ergode.core.devices import foreign
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.first_passage import on_device
from ergode.epidemics.leap.runner import LeapEnsemble
from ergode.epidemics.windows.runner import WindowEnsemble
from ergode.particles.propagate import Moved
from ergode.stochastic.outputs import Histogram
from ergode.stochastic.runners.runner import Runner as StochasticRunner
from ergode.stochastic.space.runner import SpaceRunner
from ergode.trajectories.adaptive.runner import Runner as AdaptiveRunner
from ergode.trajectories.arrays.runner import Runner as ArrayRunner
from ergode.trajectories.fixed.runner import Ensemble as FixedEnsemble

blocks = import_module("ergode.kinetics.block.launch")
kinetics_entry = import_module("ergode.kinetics.integrate")  # the package shows the function

# ---- a table of calls

OSCILLATOR = ergode.field_from_equations({"x": "y", "y": "-x / mass"})
SPRING = ergode.field_from_equations({"x": "y", "y": "-k * x"})
GROWTH = ergode.VectorField(lambda t, y, p: (p[0] * y[0] * y[0],), variables=["x"],
                            parameters=["rate"])  # fmt: skip
LATE = ergode.field_from_equations({"x": "-x + 3 * sin(x(t - tau))"})
NOISY = ergode.VectorField(
    lambda t, y, p: (-p[0] * y[0],), variables=["x"], parameters=["rate"],
    diffusion=lambda t, y, p: (0.3,),
)  # fmt: skip
RING = ergode.VectorField(
    component=lambda i, t, y, p: -p[0] * y[i], variables=("x", 5), parameters=["rate"]
)
CARBON = ergode.ReactionNetwork(
    [
        ergode.Species("c12", mass_number=12, charge_number=6,
                       thermochemistry=ergode.Nucleus(0.0)),
        ergode.Species("mg24", mass_number=24, charge_number=12,
                       thermochemistry=ergode.Nucleus(-13.933)),
    ],
    [ergode.Reaction("2 c12 -> mg24", rate_constant=ergode.Reaclib(
        [(60.9649, 0, -84.165, -1.56627, -0.0736084, -0.072797, -2 / 3)], 0.5))],
)  # fmt: skip
GROUPS = CONTACTS.with_attributes(group=np.arange(60) % 3)


def epidemics(model=sir, contacts=CONTACTS, **options):
    given = {"parameters": {"rate": [0.2, 0.5]}, "initial": {"I": 3}, "times": [0, 1, 2, 5],
             "replicates": 7, "seed": 4}  # fmt: skip
    return ergode.epidemics.simulate(model, contacts, **{**given, **options})


def stochastic(**options):
    given = {"times": [0, 1, 3], "seed": 2, "replicates": 7}
    return ergode.stochastic.simulate(NETWORK, **{**given, **options})


def trajectories(field, **options):
    return ergode.trajectories.integrate(field, **{"times": [0, 0.5, 2], **options})


def space(**options):
    place = ergode.ReactionDiffusion(
        ergode.ReactionNetwork({"A": 0}, [ergode.Reaction("A -> 0", rate_constant=0.1)]), (4, 3),
        diffusion={"A": 0.5}, spacing=0.5, initial={"A": np.full((4, 3), 9)},
    )  # fmt: skip
    return ergode.stochastic.simulate_space(place, times=[0, 1, 2], replicates=5, seed=1, **options)


def first(y, t, p):
    return (y[0],)


def estimated(engine, times=(0, 0.5, 1.5), to=np.asarray, **options):
    """What is known of an oscillator by measurements, with maneuvers."""
    prior = ergode.Gaussian(to([0.3, 0.0]), to([0.05, 0.05]))
    given = {
        "measurements": [ergode.Measurement(1.0, first, to([0.6]), to([0.04]))],
        "maneuvers": [ergode.Maneuver(1.2, to([0.1, 0.0]), to([0.01, 0.01]))],
        "parameters": {"k": 0.5}, "process_noise": to([0.001, 0.01]),
    }  # fmt: skip
    return engine.propagate(SPRING, prior, times=to(times), **{**given, **options})


def many(**options):
    priors = [ergode.Gaussian([0.3 * i, 0.0], [0.05, 0.05]) for i in range(3)]
    return ergode.density.propagate(
        SPRING, priors, times=[0, 0.5, 1.5], parameters={"k": 0.5}, width=0.1, keep="all",
        **options,
    )  # fmt: skip


DENSITY = partial(estimated, ergode.density, width=0.1)
PARTICLES = partial(estimated, ergode.particles, count=300, step=0.1)
STARTS = {"x": np.linspace(0, 1, 7), "y": 0.5}
RISING = {"initial": {"x": 1.0}, "parameters": {"rate": np.linspace(0.1, 2.0, 6)}}
CALLS = {
    "first-passage": epidemics,
    "sellke": partial(epidemics, method="sellke"),
    "markov-leap": partial(epidemics, method="markov-leap", step=0.5),
    "seeds that are no cases": partial(epidemics, initial={"I": 3, "R": 5}),
    "strata": partial(epidemics, contacts=GROUPS, strata="group"),
    "amounts": stochastic,
    "a sweep": partial(stochastic, parameters={"k": [0.5, 2.0]}),
    "final": partial(stochastic, output="final"),
    "first passage": partial(stochastic, output="first-passage", stop="C > 5"),
    "histogram": partial(stochastic, output="histogram", parameters={"k": [0.5, 2.0]}),
    "bins": partial(stochastic, output="histogram", bins=[1, 5, 30]),
    "realizations that fail": partial(stochastic, max_firings=20),
    "final of some that fail": partial(stochastic, output="final", max_firings=25),
    "langevin": partial(stochastic, method="langevin", step=0.1),
    "space": space,
    "final in space": partial(space, output="final"),
    "adaptive": partial(trajectories, OSCILLATOR, initial=STARTS, parameters={"mass": 2.0}),
    "fixed": partial(trajectories, OSCILLATOR, initial=STARTS, parameters={"mass": 2.0}, step=0.1),
    "halved": partial(trajectories, OSCILLATOR, initial=STARTS, parameters={"mass": 2.0},
                      method="rk4", rtol=1e-6),
    "states that end": partial(trajectories, GROWTH, **RISING),
    "fixed states that end": partial(trajectories, GROWTH, **RISING, step=0.01),
    "every step": partial(trajectories, GROWTH, **RISING, every_step=True),
    "delays": partial(trajectories, LATE, initial={"x": 0.5},
                      parameters={"tau": np.linspace(0.5, 1, 4)}),
    "noise": partial(trajectories, NOISY, initial={"x": [1.0, 2.0]}, parameters={"rate": 1.0},
                     replicates=3, step=0.1),
    "arrays": partial(trajectories, RING, initial={"x": np.ones(5)},
                      parameters={"rate": [1.0, 2.0, 3.0]}),
    "fixed arrays": partial(trajectories, RING, initial={"x": np.ones(5)},
                            parameters={"rate": [1.0, 2.0]}, step=0.1),
    "stiff arrays": partial(trajectories, RING, initial={"x": np.ones(5)}, method="rodas5p",
                            parameters={"rate": [1.0, 2.0, 3.0]}),
    "kinetics": partial(ergode.kinetics.integrate, ROBERTSON, times=[0, 1, 40],
                        initial={"A": np.geomspace(1e-3, 1.0, 7)}),
    "explicit": partial(ergode.kinetics.integrate, ROBERTSON, times=[0, 1e-5],
                        initial={"A": np.ones(3)}, method="asymptotic"),
    "zones that fail": partial(ergode.kinetics.integrate, ROBERTSON, times=[0, 1e-9, 40],
                               initial={"A": np.ones(3)}, max_steps=3),
    "nuclei": partial(ergode.kinetics.integrate, CARBON, times=[0, 1e-7, 1e-6],
                      temperature=[3e9, 4e9], density=1e7, initial={"c12": 1.0}),
    "nuclei that heat": partial(ergode.kinetics.integrate, CARBON, times=[0, 1e-8, 1e-7],
                                temperature=3e9, density=1e7, initial={"c12": 1.0},
                                heating="constant-volume"),
    "density": DENSITY,
    "a float32 density at last": partial(DENSITY, keep="last", precision="float32"),
    "a density without its cells": partial(DENSITY, keep="none"),
    "a density that ends": partial(DENSITY, max_cells=400),
    "densities": many,
    "densities that follow the flow": partial(many, scheme="flow"),
    "a rotated density": partial(DENSITY, axes=np.array([[0.6, -0.8], [0.8, 0.6]]),
                                 scheme="corner-transport", process_noise=None),
    "particles": partial(PARTICLES, keep="all", resample_below=1.0),
    "the last particles": PARTICLES,
    "no particles": partial(PARTICLES, keep="none"),
}  # fmt: skip
EVERY = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
WARNS = pytest.mark.filterwarnings("ignore::ergode.ErgodeWarning")


def equal(one, other):
    """The Datasets agree bit for bit, but for times of computing.

    How many paths of nodes a GPU makes depends on the order of its threads; the results do not.
    """
    same_bits(one, other)
    for name in set(one.attrs) | set(other.attrs):
        if not name.endswith("_seconds") and (name != "paths" or one.attrs["device"] == "cpu"):
            np.testing.assert_equal(one.attrs.get(name), other.attrs.get(name), err_msg=name)


def same_labels(kept, plain):
    """What is said of the arrays agrees."""
    assert set(kept) == set(plain.data_vars)
    assert kept.dims == {name: plain[name].dims for name in plain.data_vars}
    assert kept.sizes == {dim: plain.sizes[dim] for dims in kept.dims.values() for dim in dims}
    for name, array in kept.items():
        assert array.shape == plain[name].shape and array.dtype == plain[name].dtype, name
    assert kept.coords.equals(plain.coords)


# ---- on a CPU


def check_on_cpu(call):
    plain, kept = call(device="cpu"), call(device="cpu", keep_on_device=True)
    assert isinstance(kept, ergode.DeviceResult)
    same_labels(kept, plain)
    for name, array in kept.items():
        assert np.shares_memory(np.from_dlpack(array), array) or not array.size, name
        np.testing.assert_array_equal(np.from_dlpack(array), plain[name].values)
    equal(kept.to_dataset(), plain)


ORDINARY = (
    "first-passage", "realizations that fail", "adaptive", "kinetics", "density", "particles",
)  # fmt: skip
"""Calls of which other tests compile the kernels."""


@WARNS
@pytest.mark.parametrize("call", [CALLS[name] for name in ORDINARY], ids=ORDINARY)
def test_a_cpu(call):
    check_on_cpu(call)


@pytest.mark.exhaustive
@WARNS
@EVERY
def test_a_cpu_every_call(call):
    check_on_cpu(call)


def test_pytorch_reads_a_cpu():
    torch = pytest.importorskip("torch")
    kept = stochastic(device="cpu", keep_on_device=True)
    amount = torch.from_dlpack(kept["amount"])
    assert amount.data_ptr() == kept["amount"].ctypes.data
    np.testing.assert_array_equal(amount.numpy(), kept["amount"])


class Apart(NDArrayOperatorsMixin):
    """An array that does not mix with arrays of the host."""

    __cuda_array_interface__ = None

    def __init__(self, array):
        self.here = array

    def __array__(self, *_, **__):
        raise TypeError("implicit copy to the host")

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return _apart(getattr(ufunc, method), inputs, options)

    def __array_function__(self, function, types, inputs, options):
        return _apart(function, inputs, options)

    def __getitem__(self, at):
        return _apart(np.ndarray.__getitem__, (self, at), {})

    def __setitem__(self, at, value):
        _apart(np.ndarray.__setitem__, (self, at, value), {})

    def __len__(self):
        return len(self.here)

    def __bool__(self):
        return bool(self.here)

    def __int__(self):
        return int(self.here)

    def __float__(self):
        return float(self.here)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self.here, name)
        if not callable(value):
            return value
        return lambda *inputs, **options: _apart(value, inputs, options)


def _inside(value):
    if isinstance(value, Apart):
        return value.here
    if isinstance(value, tuple | list):
        return type(value)(map(_inside, value))
    assert not isinstance(value, np.ndarray), "an array of the host among those of a device"
    return value


def _apart(function, inputs, options):
    options = {name: _inside(value) for name, value in options.items()}
    found = function(*map(_inside, inputs), **options)
    if isinstance(found, np.ndarray | np.generic) and function is not np.shape:
        return Apart(np.asarray(found))
    return found


class Elsewhere:
    """A device whose library makes arrays that are apart."""

    name = "elsewhere"

    @staticmethod
    def to_library(array, *, copy=False):
        return array if isinstance(array, Apart) else Apart(np.array(array))


@pytest.fixture
def elsewhere(monkeypatch):
    """Kernels run on a CPU, and what they return is apart, as a GPU's runners leave it."""
    monkeypatch.setattr(foreign, "fetched", lambda array: array.here)
    monkeypatch.setattr(foreign, "holding", lambda array: Elsewhere)

    def wrapped(kind, name, wrap):
        plain = getattr(kind, name)

        def call(*given, **named):
            found = plain(*given, **named)
            return found if resident.device() is None else wrap(found)

        monkeypatch.setattr(kind, name, call)

    def states_of(outcome):
        outcome.states = Elsewhere.to_library(outcome.states)
        return outcome

    wrapped(on_device.OnCPU, "count", Elsewhere.to_library)
    for kind in (WindowEnsemble, EventEnsemble, LeapEnsemble):
        wrapped(kind, "run", lambda f: ((Elsewhere.to_library(f[0][0]), *f[0][1:]), f[1]))
    for kind in (StochasticRunner, SpaceRunner):
        wrapped(
            kind,
            "fetch",
            lambda f: {**f, "amounts": Elsewhere.to_library(f["amounts"])} if "amounts" in f else f,
        )
    wrapped(AdaptiveRunner, "_run", states_of)
    wrapped(ArrayRunner, "_once", states_of)
    wrapped(FixedEnsemble, "integrate", lambda f: (Elsewhere.to_library(f[0]), f[1]))
    wrapped(kinetics_entry, "_run", lambda f: f._replace(amounts=Elsewhere.to_library(f.amounts)))
    monkeypatch.setattr(
        devices.CPU, "to_library", lambda _, array, **__: Elsewhere.to_library(array)
    )
    view = devices.CPU.view
    monkeypatch.setattr(
        devices.CPU, "view", lambda device, array: view(device, getattr(array, "here", array))
    )
    wrapped(Histogram, "_empty", Elsewhere.to_library)
    for name in ("fetch", "sent"):  # of densities; others have imported them
        wrapped(resident, name, Elsewhere.to_library)
    wrapped(Moved, "of", lambda f: f._replace(**{
        name: Elsewhere.to_library(getattr(f, name)) for name in ("particle", "weight")
    }))  # fmt: skip


LARGE = ("count", "cases", "amount", "histogram", "below", "above", "state", "x", "mass_fraction",
         "concentration", "coordinate", "mass", "particle", "weight")  # fmt: skip
"""Variables that must have stayed."""


def check_elsewhere(call, plain):
    kept = call(device="cpu", keep_on_device=True)
    same_labels(kept, plain)
    large = [name for name in LARGE if name in plain.data_vars and plain[name].size]
    assert all(isinstance(kept._values[name], Apart) for name in large)
    assert large or "passage_time" in plain or call.keywords["keep"] == "none"
    equal(kept.to_dataset(), plain)
    for name, array in kept.items():
        np.testing.assert_array_equal(array.here, plain[name].values, err_msg=name)


@WARNS
@pytest.mark.parametrize("call", [CALLS[name] for name in ORDINARY], ids=ORDINARY)
def test_arrays_that_are_apart(call, request):
    plain = call(device="cpu")
    request.getfixturevalue("elsewhere")
    check_elsewhere(call, plain)


@pytest.mark.exhaustive
@WARNS
@EVERY
def test_arrays_that_are_apart_every_call(call, request):
    plain = call(device="cpu")
    request.getfixturevalue("elsewhere")
    check_elsewhere(call, plain)


# ---- what cannot stay, and what is said of it


@pytest.mark.parametrize(
    ("call", "options", "error", "words"),
    [
        (epidemics, {"output": "line_list"}, ergode.PlanError, "'line_list' is made on the host"),
        (epidemics, {"output": "statistics"}, ergode.PlanError, "made on the host"),
        (stochastic, {"output": "statistics"}, ergode.PlanError, "made on the host"),
        (stochastic, {"output": "events"}, ergode.PlanError, "made on the host"),
        (space, {"output": "statistics"}, ergode.PlanError, "made on the host"),
        (DENSITY, {"store": "run.zarr"}, ergode.PlanError, "store"),
        (PARTICLES, {"store": "run.zarr"}, ergode.PlanError, "store"),
        (stochastic, {"chunk": 3}, ergode.PlanError, "chunk"),
        (stochastic, {"store": "run.zarr"}, ergode.PlanError, "store"),
        (stochastic, {"device": ["cpu", "cpu"]}, ergode.PlanError, "one device"),
        (stochastic, {"device": "cpu", "keep_on_device": 1}, ergode.ModelError, "keep_on_device"),
        (stochastic, {"device": "cuda:99"}, ergode.PlanError, "cuda:99"),
    ],
)
def test_what_cannot_stay(call, options, error, words):
    with pytest.raises(error, match=words) as caught:
        call(**{"device": "cpu", "keep_on_device": True, **options})
    assert "\n" not in str(caught.value)


def test_not_asked_for():
    assert isinstance(
        stochastic(device="cpu", keep_on_device=False), type(stochastic(device="cpu"))
    )


def test_names():
    kept = stochastic(device="cpu", keep_on_device=True)
    assert list(kept) == ["amount", "status", "firing_count"] and len(kept) == 3
    assert kept.device.name.startswith("cpu") and "amount  (replicate, time, species)" in repr(kept)
    turned = kept.transpose("species", "replicate", "time")
    assert turned.dims["amount"] == ("species", "replicate", "time")
    same_bits(turned.to_dataset(), kept.to_dataset().transpose("species", "replicate", "time"))
    with pytest.raises(KeyError, match="'count' is not a variable of this result; it has amount"):
        kept["count"]


# ---- inputs


class Given:
    """An array of a device, of which a test knows the content."""

    __cuda_array_interface__ = None

    def __init__(self, array):
        self.here = np.asarray(array)


class Hidden:
    """A tensor with gradients, as PyTorch's on a CUDA device."""

    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("Can't get it of a Variable that requires grad.\nUse var.detach()")


def inputs(to):
    """Calls with arrays in every place, each made by `to`."""
    source, target = CONTACTS.edges()
    network = ergode.ContactNetwork.from_edges(to(source), to(target), node_count=60)
    return {
        "epidemics": lambda **o: epidemics(
            contacts=network, initial={"I": to(np.array([1, 5, 8]))}, times=to(np.arange(4.0)),
            parameters={"rate": to(np.array([0.2, 0.5]))}, **o),
        "stochastic": lambda **o: stochastic(
            parameters=ergode.grid(k=to(np.array([0.5, 2.0]))), output="histogram",
            initial={"A": to(np.array([9, 40]))}, bins=to(np.arange(0.0, 60, 9)), **o),
        "trajectories": lambda **o: trajectories(
            OSCILLATOR, initial={"x": to(np.linspace(0, 1, 7)), "y": 0.5},
            parameters={"mass": to(np.linspace(1, 2, 7))}, **o),
        "kinetics": lambda **o: ergode.kinetics.integrate(
            ROBERTSON, times=to(np.array([0.0, 40.0])),
            initial={"A": to(np.geomspace(1e-3, 1.0, 7))}, **o),
        "density": partial(DENSITY, to=to),
        "particles": partial(PARTICLES, to=to),
    }  # fmt: skip


INPUTS = tuple(inputs(np.asarray))


@pytest.mark.parametrize("name", INPUTS)
def test_arrays_of_a_device_are_inputs(name, monkeypatch):
    plain = inputs(np.asarray)[name](device="cpu")
    monkeypatch.setattr(foreign, "fetched", lambda array: array.here)
    equal(inputs(Given)[name](device="cpu"), plain)


def test_models_are_made_of_arrays_of_a_device(monkeypatch):
    monkeypatch.setattr(foreign, "fetched", lambda array: array.here)
    seeds = ergode.Seeds(Given([1, 5]), age=Given([0.0, 2.0]))
    assert seeds.nodes.tolist() == [1, 5] and seeds.age.tolist() == [0.0, 2.0]
    matrix = np.array([[0, 1.0], [1, 0]])
    assert ergode.ContactNetwork.from_scipy(Given(matrix)).arc_count == 2
    prior = ergode.Samples(Given([[0.0], [1.0]]), weights=Given([1.0, 3.0]))
    assert prior.points.tolist() == [[0.0], [1.0]]
    space = ergode.ReactionDiffusion(
        ergode.ReactionNetwork({"A": 0}, []), (2, 2), diffusion={"A": 1.0},
        initial={"A": Given([[1, 2], [3, 4]])},
    )  # fmt: skip
    assert space.digest == ergode.ReactionDiffusion(
        ergode.ReactionNetwork({"A": 0}, []), (2, 2), diffusion={"A": 1.0},
        initial={"A": [[1, 2], [3, 4]]},
    ).digest  # fmt: skip


def test_inputs_that_cannot_be_read():
    with pytest.raises(ergode.ModelError, match="requires grad") as caught:
        stochastic(parameters={"k": Hidden()}, device="cpu")
    assert "\n" not in str(caught.value)


# ---- on a GPU


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.mark.cuda
@WARNS
@EVERY
def test_a_gpu(call, cupy):
    plain, kept = call(device="cuda"), call(device="cuda", keep_on_device=True)
    same_labels(kept, plain)
    on_gpu = plain.attrs["device"].startswith("cuda")
    for name, array in kept.items():
        assert isinstance(array, cupy.ndarray), name
        np.testing.assert_array_equal(cupy.asnumpy(array), plain[name].values, err_msg=name)
        if on_gpu and name in LARGE and array.size:
            assert isinstance(kept._values[name], cupy.ndarray), name
        if array.size:
            assert cupy.from_dlpack(array).data.ptr == array.data.ptr
            assert kept[name].data.ptr == array.data.ptr
    equal(kept.to_dataset(), plain)


@pytest.mark.cuda
@WARNS
@pytest.mark.parametrize("call", [CALLS[name] for name in ORDINARY], ids=ORDINARY)
def test_pytorch_reads_it(call, cupy):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU")
    kept = call(device="cuda", keep_on_device=True)
    for name, array in kept.items():
        tensor = torch.from_dlpack(array)
        assert tensor.is_cuda and tensor.data_ptr() == array.data.ptr, name
        assert torch.as_tensor(array, device="cuda").data_ptr() == array.data.ptr, name
        np.testing.assert_array_equal(tensor.cpu().numpy(), cupy.asnumpy(array))


@pytest.mark.cuda
def test_a_summary_on_the_device(cupy):
    """Parameters from PyTorch and a summary by PyTorch, as the page on inference has them."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU")
    rates = torch.linspace(0.1, 0.9, 500, device="cuda")
    given = {"times": np.arange(9), "replicates": 1, "common_random_numbers": False}
    found = epidemics(parameters={"rate": rates}, device="cuda", keep_on_device=True, **given)
    cases = torch.from_dlpack(found["cases"])[:, 0]
    sums = cases.diff(dim=1).reshape(500, -1, 4).sum(dim=2)
    plain = epidemics(parameters={"rate": rates.cpu().numpy()}, device="cuda", **given)
    expected = np.diff(plain["cases"].values[:, 0], axis=1).reshape(500, -1, 4).sum(axis=2)
    np.testing.assert_array_equal(sums.cpu().numpy(), expected)


def in_small_chunks(monkeypatch, size=3):
    plain = launch.chunks

    def chunks(total, most, least=0, cut=None, unit="replicates"):
        if unit == "zones":
            return plain(total, most, least, cut, unit)
        return plain(total, min(most, size), 0, None, unit)

    monkeypatch.setattr(launch, "chunks", chunks)
    monkeypatch.setattr(blocks, "zones_at_once", lambda *_: size)


@pytest.mark.cuda
@WARNS
@EVERY
def test_chunks_on_a_gpu(call, cupy, monkeypatch):
    plain = call(device="cuda")
    in_small_chunks(monkeypatch)
    kept = call(device="cuda", keep_on_device=True).to_dataset()
    same_bits(kept, plain)


@pytest.mark.cuda
def test_later_calls_leave_it_alone(cupy):
    kept = {name: call(device="cuda", keep_on_device=True) for name, call in CALLS.items()
            if name in ORDINARY}  # fmt: skip
    before = {name: one.to_dataset() for name, one in kept.items()}
    for name, call in CALLS.items():
        if name in ORDINARY:
            call(device="cuda")
            call(device="cuda", keep_on_device=True)
    for name, one in kept.items():
        same_bits(one.to_dataset(), before[name])


@pytest.mark.cuda
@pytest.mark.parametrize("name", INPUTS)
def test_arrays_on_a_gpu_are_inputs(name, cupy):
    plain = inputs(np.asarray)[name](device="cuda")
    equal(inputs(cupy.asarray)[name](device="cuda"), plain)
    strided = inputs(lambda a: cupy.asarray(np.repeat(np.asarray(a)[::-1], 2))[::-2])[name]
    equal(strided(device="cuda"), plain)
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        equal(inputs(lambda a: torch.as_tensor(np.asarray(a)).cuda())[name](device="cuda"), plain)


@pytest.mark.cuda
def test_the_stream_of_an_input(cupy):
    """An input that a stream still fills is read when it is full."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        late = cupy.zeros(7)
        big = cupy.ones((4096, 4096))
        for _ in range(20):
            big = big @ big / 4096.0
        late += cupy.linspace(1, 2, 7) * big[0, 0]
        found = trajectories(
            OSCILLATOR, initial=STARTS, parameters={"mass": late}, device="cuda",
            keep_on_device=True,
        )  # fmt: skip
        states = cupy.asnumpy(found["state"])
    plain = trajectories(
        OSCILLATOR, initial=STARTS, parameters={"mass": cupy.asnumpy(late)}, device="cuda"
    )
    np.testing.assert_array_equal(states, plain["state"].values)
    assert np.ptp(plain["mass"].values if "mass" in plain.coords else states) > 0


def test_what_takes_a_dataset_says_so(tmp_path):
    found = ergode.stochastic.simulate(
        NETWORK, times=[0, 1], replicates=2, device="cpu", keep_on_device=True
    )
    with pytest.raises(
        TypeError, match=r"save\(\) takes a Dataset, not a DeviceResult; give it .to"
    ):
        ergode.save(found, tmp_path / "found.nc")
    with pytest.raises(AttributeError, match=r"no attribute 'isel'; its to_dataset\(\) gives"):
        found.isel(time=0)
