"""Calls computed in parts - by executors, devices, in several sittings - equal the plain call."""

import json
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from random import Random

import numpy as np
import pytest
import xarray
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_calls import CONTACTS, NETWORK, same_bits
from well_known import ROBERTSON

import ergode

FORK = multiprocessing.get_context("fork")  # workers begin with what is compiled here

# ---- a small call of every engine


def model(rate):
    return ergode.CompartmentModel.sir(
        transmission_rate=rate, infectious=ergode.Exponential(mean=2.0)
    )


SPRING = ergode.field_from_equations({"x": "y", "y": "-k * x"})
OSCILLATOR = ergode.field_from_equations({"x": "y", "y": "-x / mass"})


def epidemics(*, model=model, replicates=7, **options):
    return ergode.epidemics.simulate(
        model, CONTACTS, parameters={"rate": [0.2, 0.5]}, initial={"I": 3}, times=[0, 1, 2, 5],
        replicates=replicates, seed=4, **{"device": "cpu", **options},
    )  # fmt: skip


def stochastic(*, replicates=7, **options):
    return ergode.stochastic.simulate(
        NETWORK, times=[0, 1, 3], seed=2, replicates=replicates, **{"device": "cpu", **options}
    )


def trajectories(**options):
    return ergode.trajectories.integrate(
        OSCILLATOR, times=[0, 1, 2], initial={"x": np.linspace(0, 1, 7), "y": 0.5},
        parameters={"mass": 2.0}, **{"device": "cpu", **options},
    )  # fmt: skip


def kinetics(**options):
    return ergode.kinetics.integrate(
        ROBERTSON, times=[0, 40], initial={"A": np.geomspace(1e-3, 1.0, 7)},
        **{"device": "cpu", **options},
    )  # fmt: skip


def first_variable(y, t, p):
    return (y[0],)


def densities(**options):
    """Filters with priors, measured values and maneuvers of their own; two maneuvers are zero."""
    seen = ergode.Measurement(1.0, first_variable, np.linspace(-1, 1, 7)[:, None], [[0.5]])
    jump = ergode.Maneuver(1.5, [[0.0, 0.0]] * 2 + [[0.5, -0.5]] * 5)
    priors = [ergode.Gaussian([0.1 * k, 0.0], [0.3, 0.2]) for k in range(7)]
    return ergode.density.propagate(
        OSCILLATOR, priors, times=[0, 1, 2], measurements=[seen], maneuvers=[jump], keep="last",
        parameters={"mass": 2.0}, width=0.25, **{"device": "cpu", **options},
    )  # fmt: skip


ENGINES = epidemics, stochastic, trajectories, kinetics, densities
CALLS = {call.__name__: call for call in ENGINES}
each_engine = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
_WHOLE = {}


def whole(call):
    if call not in _WHOLE:
        _WHOLE[call] = call()
    return _WHOLE[call]


def equal(one, other, model=True):
    """Variables, coordinates and attributes agree bit for bit, but for times of computing.

    Without `model`, the inputs may have functions of other code that make equal models.
    """
    same_bits(one, other)
    for name in set(one.attrs) | set(other.attrs):
        values = one.attrs.get(name), other.attrs.get(name)
        if name == "inputs" and not model:
            values = tuple(map(json.loads, values))
            for value in values:
                assert "function" in value["arguments"].pop("model")
        if not name.endswith("_seconds") and name != "first_failure":
            np.testing.assert_equal(*values, err_msg=name)


def in_processes(count=2, **options):
    return ProcessPoolExecutor(count, mp_context=FORK, **options)


# ---- the same bits


@each_engine
def test_every_way(call):
    with ThreadPoolExecutor(3) as pool:
        equal(call(chunk=3, executor=pool), whole(call))
    with in_processes() as pool:
        equal(call(chunk=4, executor=pool), whole(call))
    equal(call(device=["cpu:1", "cpu:1"], chunk=3).drop_attrs(), whole(call).drop_attrs())


@pytest.mark.cuda
@each_engine
def test_devices(call, tmp_path):
    plain = call(device="cuda")
    for device in ("cuda:all", ["cuda:0", "cuda:0"]):
        divided = call(device=device, chunk=2, store=tmp_path / f"{len(device)}.zarr")
        equal(divided.drop_attrs(), plain.drop_attrs())
    with pytest.raises(ergode.PlanError, match="on a CPU and on a GPU"):
        call(device=["cpu", "cuda"], chunk=1)


def test_grids_of_densities():
    def call(**more):
        return ergode.density.propagate(
            SPRING, [ergode.Gaussian([k, 0.0], [0.3, 0.2]) for k in range(2)], times=[0, 1],
            parameters=ergode.grid(k=[1.0, 2.0, 4.0]), width=0.3, device="cpu", keep="all", **more,
        )  # fmt: skip

    divided = call(chunk=2)
    equal(divided, call())
    one = ergode.density.cells_at(divided.isel(k=2, trajectory=1), time=1.0)
    assert abs(float(one["mass"].sum()) - 1.0) < 1e-9


def test_line_lists():
    equal(epidemics(output="line_list", chunk=3), epidemics(output="line_list"))


@pytest.mark.parametrize("replicates", [7, range(3, 90)])
def test_statistics_of_epidemics(replicates, tmp_path):
    """Counts of parts give the statistics exactly, and one store serves both outputs."""
    options = {"output": "statistics", "replicates": replicates, "quantiles": [0.1, 0.5]}
    plain = epidemics(**options)
    equal(epidemics(**options, chunk=30), plain)
    equal(epidemics(**options, chunk=30, store=tmp_path / "run.zarr"), plain)
    counts = epidemics(replicates=replicates, store=tmp_path / "run.zarr")
    equal(counts, epidemics(replicates=replicates))


@pytest.mark.parametrize(
    "options",
    [
        {"output": "statistics"},
        {"output": "statistics", "parameters": {"k": [0.5, 2.0]}, "replicates": range(3, 14)},
        {"output": "histogram"},
        {"output": "histogram", "bins": [0, 5, 30], "parameters": {"k": [0.5, 2.0]}},
        {"output": "statistics", "max_firings": 40},
        {"output": "histogram", "max_firings": 40},
    ],
)
@pytest.mark.filterwarnings("ignore::ergode.FailureWarning")
def test_sums_of_reaction_networks(options, tmp_path):
    plain = stochastic(**options)
    equal(stochastic(**options, chunk=3), plain)
    equal(stochastic(**options, chunk=4, store=tmp_path / "run.zarr"), plain)


def test_statistics_of_strata_and_dates(tmp_path):
    people = CONTACTS.with_attributes(age=np.arange(60) // 20)

    def call(**options):
        return ergode.epidemics.simulate(
            model(0.4), people, initial={"I": 3}, times=np.arange(4), replicates=5, seed=4,
            origin="2026-03-01", strata="age", output="statistics", device="cpu", **options,
        )  # fmt: skip

    equal(call(chunk=2, store=tmp_path / "run.zarr"), call())


COMPILED = [
    {"events": [ergode.trajectories.ZeroCrossing(lambda t, y, p: y[0])], "record": 2},
    {"every_step": True, "dense_output": True},
    {"method": "rodas5p"},
]


@pytest.mark.parametrize(
    "options",
    [
        {"method": "rk4"},
        {"times": [2, 1, 0]},
        {"parameters": ergode.grid(mass=[0.5, 3.0]), "initial": ergode.grid(x=[1, 2, 9], y=0.0)},
        *(pytest.param(one, marks=pytest.mark.exhaustive) for one in COMPILED),
    ],
    ids=lambda options: "-".join(options),
)
def test_trajectories(options):
    def call(**more):
        given = {"times": [0, 1, 2], "initial": {"x": 1.0, "y": 0.0}, "device": "cpu", **options}
        given = {"parameters": {"mass": np.geomspace(0.01, 9.0, 5)}, **given, **more}
        return ergode.trajectories.integrate(OSCILLATOR, **given)

    equal(call(chunk=2), call())


# Fields and options of `test_parts.py`, whose kernels are compiled for both.
def decay(t, y, p):
    return (-p[0] * y[0],)


NOISY = ergode.VectorField(
    decay, variables=["x"], parameters=["rate"], diffusion=lambda t, y, p: (0.3,)
)
ARRAY = ergode.VectorField(
    component=lambda i, t, y, p: -p[0] * y[i], variables=("x", 3), parameters=["rate"],
    diffusion=0.3,
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "starts"), [(NOISY, np.arange(5.0)), (ARRAY, np.arange(15.0).reshape(5, 3))]
)
def test_noise_of_rows(field, starts):
    def call(**more):
        return ergode.trajectories.integrate(
            field, times=[0, 1, 2], seed=3, method="sra1", step=1 / 16, device="cpu",
            **{"initial": {"x": starts}, "parameters": {"rate": 1.0}, **more},
        )  # fmt: skip

    equal(call(chunk=2), call())
    crossed = {"initial": {"x": 1.0}, "parameters": ergode.grid(rate=[0.5, 1.0, 2.0])}
    equal(call(chunk=2, **crossed), call(**crossed))
    equal(call(chunk=2, replicates=5, **crossed), call(replicates=5, **crossed))
    one = {"initial": {"x": 1.0}}
    equal(call(chunk=2, **one), call(**one))


@pytest.mark.parametrize(
    "options",
    [
        {"initial": {"A": 1.0}, "parameters": {"a": np.array([0.01, 0.04, 0.1])}},
        {"initial": ergode.grid(A=[1e-3, 1.0, 1e2])},
        {"initial": {"A": np.ones(2)}, "parameters": ergode.grid(a=[0.01, 0.04, 0.1])},
        {"method": "asymptotic", "initial": {"A": np.geomspace(0.1, 1, 3)}, "times": [0, 0.01]},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::ergode.ErgodeWarning")
def test_zones(options):
    def call(**more):
        return ergode.kinetics.integrate(
            ROBERTSON, device="cpu", **{"times": [0, 40], **options, **more}
        )

    equal(call(chunk=2), call())


def test_zones_whose_conditions_differ():
    heated = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0},
        [ergode.Reaction("A -> B", rate_constant=ergode.Arrhenius(1e5, 0.0, 6e3))],
    )
    histories = ergode.kinetics.Trajectory([0, 1], [[300, 900], [900, 300], [500, 500]])
    for temperature in (histories, np.array([300.0, 600, 900]), lambda t: 300.0 + 600 * t):
        call = ergode.kinetics.integrate
        options = {"times": [0, 1], "temperature": temperature, "device": "cpu"}
        equal(call(heated, **options, chunk=2), call(heated, **options))
    with pytest.raises(ergode.PlanError, match="temperature is a function of time for each zone"):
        call(heated, times=[0, 1], temperature=lambda t: np.array([300.0, 600.0]), chunk=1)


# ---- referee: any order, any loss, any sitting


class Unreliable(Executor):
    """Completes tasks in any order; forgets plans, and loses a worker now and then."""

    _max_workers = 3

    def __init__(self, chance, losses):
        self._chance, self._losses = chance, losses

    def submit(self, function, *arguments):
        future = Future()
        delay = self._chance.random() * 0.005
        if self._losses and self._chance.random() < 0.3:
            self._losses -= 1
            error = BrokenProcessPool("a worker died")
            threading.Timer(delay, future.set_exception, [error]).start()
        else:
            threading.Timer(delay, lambda: future.set_result(function(*arguments))).start()
        return future


def _check_any_sittings(number, tmp_path):
    chance = Random(number)
    first, count = chance.choice([0, 5]), chance.randint(1, 12)
    store = tmp_path / f"{number}.zarr"
    plain = stochastic(replicates=range(first, first + count))
    asked = sorted(chance.sample(range(1, count + 1), chance.randint(1, min(count, 3))))
    for stop in [*asked, count]:
        for name in os.listdir(store) if store.exists() else ():
            if name[0] == "0" and chance.random() < 0.3:
                (store / name / "status" / "c" / "0").unlink(missing_ok=True)
                (store / name / "status" / "zarr.json").write_text("{}")
        executor = Unreliable(chance, chance.randint(0, 1)) if chance.random() < 0.6 else None
        found = stochastic(
            replicates=range(first, first + stop), executor=executor, store=store,
            chunk=chance.choice([None, 1, 2, 5]),
        )  # fmt: skip
    equal(found, plain)


@given(number=st.integers(0, 2**32))
@settings(
    max_examples=2, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
def test_any_order_any_loss_any_sittings(number, tmp_path):
    _check_any_sittings(number, tmp_path)


@pytest.mark.exhaustive
def test_many_orders_losses_and_sittings(tmp_path):
    seconds = float(os.environ.get("ERGODE_REFEREE_SECONDS", "60"))
    begin, number = time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        _check_any_sittings(number := number + 1, tmp_path)


# ---- deaths


def dying(flag):
    """A model that kills the first worker which makes it."""
    here = os.getpid()

    def model_or_death(rate):
        if os.getpid() != here:
            try:
                os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return ergode.CompartmentModel.sir(
            transmission_rate=rate, infectious=ergode.Exponential(mean=2.0)
        )

    return model_or_death


def test_a_worker_is_killed(tmp_path):
    model, store = dying(str(tmp_path / "flag")), tmp_path / "run.zarr"
    options = {"model": model, "chunk": 1, "store": store}
    epidemics(**options | {"replicates": 2})
    with in_processes() as pool, pytest.raises(ergode.PlanError) as caught:
        epidemics(**options, executor=pool)
    assert "takes no more work, because a worker died" in str(caught.value)
    kept = len([name for name in os.listdir(store) if name[0] == "0"])
    assert kept >= 2 and f"{kept} of 7 replicates are kept in '{store}'" in str(caught.value)
    with in_processes() as pool:
        equal(epidemics(**options, executor=pool), whole(epidemics), model=False)


@each_engine
def test_killed_interrupted_and_out_of_disk(call, tmp_path, monkeypatch):
    """Each failure comes while a part is written; a later sitting completes the whole."""
    store = tmp_path / "run.zarr"

    def until_killed():
        fail_at(monkeypatch, 2, lambda: os.kill(os.getpid(), signal.SIGKILL))
        call(chunk=2, store=store)

    process = FORK.Process(target=until_killed)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    left = os.listdir(store)
    assert [name for name in left if name[0] == "0"] == [f"{0:012d}-{2:012d}"]
    (torn,) = (name for name in left if name[0] == ".")
    old = time.time() - 9000
    os.utime(store / torn, (old, old))

    fail_at(monkeypatch, 2, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match=f"4 of 7 [a-z]+ are kept in '{store}'"):
        call(chunk=2, store=store)

    def full():
        raise OSError(28, "No space left on device")

    fail_at(monkeypatch, 2, full)
    with pytest.raises(ergode.WriteError, match="No space left.*6 of 7 [a-z]+ are kept in"):
        call(chunk=2, store=store)
    monkeypatch.undo()
    equal(call(store=store), whole(call))
    assert not [name for name in os.listdir(store) if name[0] == "."]


TO_ZARR = xarray.Dataset.to_zarr


def fail_at(monkeypatch, number, act):
    """While the part of this number is written, after its arrays, `act`."""
    written = []
    write = TO_ZARR

    def to_zarr(*arguments, **options):
        found = write(*arguments, **options)
        written.append(1)
        if len(written) == number:
            act()
        return found

    monkeypatch.setattr(xarray.Dataset, "to_zarr", to_zarr)


def test_interruption_of_a_kernel(tmp_path):
    store = tmp_path / "run.zarr"

    def interrupt():
        while not store.exists() or sum(name[0] == "0" for name in os.listdir(store)) < 2:
            time.sleep(0.02)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt, match="2 of 3 trajectories are kept"):
        ergode.trajectories.integrate(
            OSCILLATOR, times=[0, 1e9], initial={"x": 1.0, "y": 0.0}, store=store, chunk=1,
            parameters={"mass": [1e24, 1e24, 1e-6]}, max_steps=2**50, method="tsit5",
            device="cpu:2",
        )  # fmt: skip


# ---- stores


def test_only_what_is_missing_is_computed(tmp_path):
    made = []

    def counted(rate):
        made.append(1)
        return model(rate)

    def calls(**options):
        made.clear()
        equal(epidemics(model=counted, store=store, **options), whole(epidemics), model=False)
        return len(made) // 2 - 1  # of two points; the arguments are checked once

    store = tmp_path / "run.zarr"
    assert calls(chunk=2) == 4
    assert calls(chunk=2) == calls() == 0
    parts = sorted(path for path in store.iterdir() if path.name[0] == "0")
    data = parts[1] / "count" / "c" / "0" / "0" / "0" / "0"
    data.write_bytes(data.read_bytes()[:-1] + b"?")
    assert calls(chunk=2) == 1
    (parts[0] / "part.json").write_text("{")
    (parts[3] / "part.json").unlink()
    assert calls(chunk=2) == 2
    data.unlink()
    assert calls(chunk=1) == 2
    made.clear()  # its length would tell this model from that of the store
    grown = epidemics(model=counted, store=store, replicates=9)
    equal(grown, epidemics(replicates=9), model=False)
    made.clear()
    with pytest.raises(ergode.PlanError, match="has replicates 8 to 8, beyond this call's 0 to 6"):
        epidemics(model=counted, store=store)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"times": [0, 1, 4]}, "times"),
        ({"seed": 9}, "seed"),
        ({"parameters": {"k": 0.6}}, "parameters"),
        ({"method": "next-reaction"}, "method"),
        ({"network": ergode.ReactionNetwork({"A": 1}, [])}, "network"),
    ],
)
def test_another_call(changes, name, tmp_path):
    options = {"network": NETWORK, "times": [0, 1, 3], "seed": 2, "replicates": 3, "device": "cpu"}
    options["store"] = tmp_path / "run.zarr"
    ergode.stochastic.simulate(**options)
    with pytest.raises(ergode.PlanError, match=f"belongs to a run with another '{name}'"):
        ergode.stochastic.simulate(**options | changes)
    with pytest.raises(ergode.PlanError, match="with engine 'stochastic', and this one has"):
        trajectories(store=options["store"])


def test_another_version(tmp_path, monkeypatch):
    stochastic(store=tmp_path / "run.zarr")
    monkeypatch.setattr(ergode, "__version__", "99")
    with pytest.raises(ergode.PlanError, match="with version .*, and this one has '99'"):
        stochastic(store=tmp_path / "run.zarr")
    with (
        in_processes(initializer=setattr, initargs=(ergode, "__version__", "98")) as pool,
        pytest.raises(ergode.PlanError, match="a worker has ergode 98, and this call is of"),
    ):
        stochastic(executor=pool)


def test_stores_are_lazy_with_dask(tmp_path):
    found = stochastic(chunk=2, store=tmp_path / "run.zarr")
    assert found["amount"].chunks[0] == (2, 2, 2, 1)
    assert found.ergode.raise_for_status() is not None
    equal(ergode.open_dataset(ergode.save(found, tmp_path / "x.nc")), whole(stochastic))


def test_warnings_of_parts(tmp_path):
    network = ergode.ReactionNetwork({"X": 1}, [ergode.Reaction("X -> 2 X", rate_constant=30.0)])
    options = {"times": [0, 2], "replicates": 9, "device": "cpu", "max_firings": 99, "chunk": 1}
    for _ in range(2):
        with pytest.warns(ergode.FailureWarning) as caught:
            ergode.stochastic.simulate(network, **options, store=tmp_path / "run.zarr")
        said = [str(one.message) for one in caught]
        assert len(said) == 5 and "more warnings of this kind" in said[-1]
        assert any("first replicate 0" in text for text in said)
        assert caught[0].filename == __file__


# ---- bad input


def test_bad_input_is_refused_before_anything_is_submitted(tmp_path):
    class Refusing(Executor):
        def submit(self, *arguments):
            raise AssertionError("submitted")

    executor = Refusing()
    for options, error, message in (
        ({"seed": -1}, ergode.PlanError, "seed is -1"),
        ({"times": [0]}, ergode.ModelError, "times has one time"),
        ({"parameters": {"x": 1}}, ergode.ErgodeError, "'x'"),
        ({"replicates": 0}, ergode.PlanError, "replicates is 0"),
        ({"replicates": range(2**32 - 1, 2**32 + 1)}, ergode.PlanError, "expected a count"),
        ({"device": "gpu"}, ergode.PlanError, "device 'gpu' is unknown"),
        ({"device": ["cpu"]}, ergode.PlanError, "several devices, and there is an executor"),
        ({"device": []}, ergode.PlanError, "several devices, and there is an executor"),
        ({"device": [], "executor": None}, ergode.PlanError, "device is an empty list"),
        ({"device": ["gpu"], "executor": None}, ergode.PlanError, "device 'gpu' is unknown"),
        ({"chunk": 0}, ergode.PlanError, "chunk is 0"),
        ({"chunk": 1.5}, ergode.PlanError, "chunk is 1.5; expected an integer"),
        ({"executor": 4}, ergode.PlanError, "executor is 4; expected a concurrent.futures"),
        ({"store": 4}, ergode.PlanError, "store is 4; expected a path"),
        ({"store": tmp_path / "run.nc"}, ergode.PlanError, "expected a path that ends in .zarr"),
        ({"output": "statistics", "method": "langevin"}, ergode.PlanError, "sums real numbers"),
        ({"output": "events"}, ergode.PlanError, "'events' numbers the firings"),
        (
            {
                "output": "statistics",
                "network": ergode.ReactionNetwork(
                    {"X": 0.5}, [ergode.Reaction("X -> 0", rate_constant=1.0)], continuous=["X"]
                ),
            },
            ergode.PlanError,
            "statistics' of continuous species sums real numbers",
        ),
    ):
        given = {
            "network": NETWORK,
            "times": [0, 1],
            "executor": executor,
            "device": "cpu",
            **options,
        }
        with pytest.raises(error, match=message):
            ergode.stochastic.simulate(**given)
    (tmp_path / "x.zarr").mkdir()
    for place, message in (
        (tmp_path / "x.zarr", "exists and is not the store of a run"),
        (tmp_path / "none" / "x.zarr", "does not exist"),
    ):
        with pytest.raises(ergode.PlanError, match=message):
            stochastic(store=place)


def test_rows_that_depend_on_each_other():
    delayed = ergode.VectorField(
        lambda t, y, yd, p: (-yd[0],), variables=["x"], parameters=["tau"], delays=[("x", "tau")]
    )
    stiff = ergode.VectorField(
        component=lambda i, t, y, p: -p[0] * y[i], variables=("x", 3), parameters=["rate"]
    )

    def call(field, parameters, **options):
        return ergode.trajectories.integrate(
            field, times=[0, 1], initial={"x": 1.0}, parameters=parameters, chunk=1, **options
        )

    for arguments, options, message in (
        ((delayed, {"tau": [0.1, 0.2]}), {}, "that differ in the delay 'tau' share their steps"),
        ((delayed, {"tau": [0.1] * 2}), {"history": lambda t: (1.0,)}, "with a history"),
        ((stiff, {"rate": [1, 2]}), {"method": "rodas5p"}, "share a matrix; name an explicit"),
        ((stiff, {"rate": [1, 2]}), {}, "share a matrix; name an explicit"),
    ):
        with pytest.raises(ergode.PlanError, match=f"executor, store and chunk: .*{message}"):
            call(*arguments, **options)


def test_a_call_inside_of_a_part_is_a_whole():
    inner = []

    def nested(rate):
        inner.append(trajectories())
        return model(rate)

    equal(epidemics(model=nested, chunk=4), whole(epidemics), model=False)
    for one in inner:
        equal(one, whole(trajectories))


# ---- workers


def test_what_cannot_travel_stays_in_threads():
    lock = threading.Lock()

    def locked(rate):
        with lock:
            return model(rate)

    with in_processes() as pool, pytest.raises(ergode.PlanError, match="cannot be sent to a work"):
        epidemics(model=locked, executor=pool)
    with ThreadPoolExecutor(2) as pool:
        equal(epidemics(model=locked, executor=pool, chunk=4), whole(epidemics), model=False)


@pytest.mark.parametrize(
    "dies", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["", "dies"]
)
def test_dask(tmp_path, dies):
    """A model of this file, which workers cannot import; or one that kills a worker."""
    distributed = pytest.importorskip("distributed")
    flag = tmp_path / "flag"
    if not dies:
        flag.touch()
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor()
        found = epidemics(model=dying(str(flag)), executor=executor, chunk=2)
        equal(found, whole(epidemics), model=False)
    assert flag.exists()
