"""Long single runs that are left in the middle go on from their checkpoints: the same bits."""

import json
import multiprocessing
import os
import shutil
import signal

import numpy as np
import pytest
from command_line import invoke
from small_calls import same_bits

import ergode
from ergode.core.calls import checkpoint
from ergode.density import runner as density_runner

FORK = multiprocessing.get_context("fork")  # children begin with what is compiled here
OFTEN = 1e-9  # seconds: a checkpoint at every boundary
LOGISTIC = ergode.field_from_equations({"x": "x * (1 - x)"})
SWUNG = ergode.field_from_equations({"x": "y", "y": "x - x**3 + 0.5 * cos(40 * t)"})
DUFFING = ergode.field_from_equations({"x": "y", "y": "x - x**3 - 0.2 * y"})
MACKEY_GLASS = ergode.field_from_equations({"x": "r * x(t - tau) / (1 + x(t - tau)**10) - 0.1 * x"})
NOISY = ergode.field_from_equations({"x": "-x"}, diffusion={"x": "0.3 * x"})
STIFF = ergode.field_from_equations({"x": "y", "y": "mu * (1 - x * x) * y - x"})
SEIR = ergode.CompartmentModel.seir(
    transmission_rate=0.2, latent=ergode.LogNormal(mean=5, median=4),
    infectious=ergode.LogNormal(mean=7.5, median=5),
)  # fmt: skip
CONTACTS = ergode.ContactNetwork.erdos_renyi(800, mean_degree=6, seed=1)


def first(y, t, p):
    return (y[0],)


def above(t, y, p):
    return y[0] - 0.9


def kicked(t, y, p):
    return (y[0], y[1] + 0.1)


def above_delayed(t, y, yd, p):
    return y[0] - 0.9


def kicked_delayed(t, y, yd, p):
    return (1.05 * y[0],)


def ramp(t):
    return (1.0 + 0.1 * t,)


WATCHED = {
    "events": [
        ergode.trajectories.ZeroCrossing(above, 1),
        ergode.trajectories.ZeroCrossing(above, -1, effect=kicked, name="kick"),
    ],
    "observables": [ergode.trajectories.Maximum("x")],
    "record": 3,
}
MEASURED = {
    "measurements": [
        ergode.Measurement(1.0, first, [1.3], [[0.03]]),  # in the tail, as the next one
        ergode.Measurement(1.5, first, [1.6], [[0.03]]),
    ],
    "maneuvers": [ergode.Maneuver(2.0, [0.1, 0.0], np.diag([0.01, 0.01]))],
}


def integrate(field, end, initial, parameters=None, **options):
    return ergode.trajectories.integrate(
        field, times=np.linspace(0, end, 8), initial=initial, parameters=parameters,
        **{"device": "cpu", **options},
    )  # fmt: skip


def fixed(**options):
    return integrate(LOGISTIC, 3.0, {"x": [0.3, 0.5]}, step=0.05, method="rk4", **options)


def fixed_delays(**options):
    starts = np.linspace(0.5, 1.0, 3)
    options = {"step": 0.4, "method": "tsit5", **options}
    return integrate(MACKEY_GLASS, 40.0, {"x": starts}, {"r": 0.2, "tau": 9.0}, **options)


def fixed_noise(**options):
    return integrate(NOISY, 1.0, {"x": 1.0}, replicates=70, step=0.05, **options)


def halved(**options):
    return integrate(
        MACKEY_GLASS, 30.0, {"x": 0.6}, {"r": 0.2, "tau": 9.0}, method="rk4", **options
    )


def adaptive(**options):
    return integrate(DUFFING, 3.0, {"x": 0.3, "y": np.linspace(0, 1, 3)}, **options)


def watched(**options):
    return integrate(DUFFING, 9.0, {"x": 0.3, "y": np.linspace(0, 1, 70)}, **WATCHED, **options)


def every_step(**options):
    return adaptive(every_step=True, dense_output=True, **options)


def adaptive_delays(**options):
    return integrate(MACKEY_GLASS, 40.0, {"x": 0.6}, {"r": 0.2, "tau": 9.0}, **options)


def unlike_delays(**options):
    taus = np.array([3.0, 5.0, 9.0])
    return integrate(MACKEY_GLASS, 40.0, {"x": 0.6}, {"r": 0.2, "tau": taus}, **options)


def history(**options):
    return integrate(
        MACKEY_GLASS, 40.0, {"x": 1.3}, {"r": 0.2, "tau": 9.0}, history=ramp, **options
    )


def kicked_delays(**options):
    event = ergode.trajectories.ZeroCrossing(above_delayed, 1, effect=kicked_delayed)
    options = {"events": [event], "record": 3, "max_step": 0.5, **options}
    return integrate(MACKEY_GLASS, 60.0, {"x": [0.5, 0.6]}, {"r": 0.2, "tau": 9.0}, **options)


def adaptive_noise(**options):
    mean = [ergode.trajectories.Mean("x")]
    return integrate(
        NOISY, 1.0, {"x": 1.0}, replicates=70, step=0.05, observables=mean, **options
    )  # fmt: skip


def stiff(**options):
    return integrate(STIFF, 2.0, {"x": 2.0, "y": 0.0}, {"mu": 1000.0}, **options)


def spreading(i, t, y, p):
    n = len(y)
    return p[0] * (y[(i + 1) % n] - 2 * y[i] + y[(i - 1) % n]) + y[i] * (1 - y[i])


def lagging(i, t, y, yd, p):
    n = len(y)
    return p[0] * (yd[0][(i + 1) % n] - 2 * y[i] + y[(i - 1) % n]) + y[i] * (1 - yd[0][i])


def middle(t, y, p):
    return y[4] - 0.5


DIFFUSION = ergode.VectorField(
    component=spreading, variables=("u", 9), parameters=["rate"]
)  # fmt: skip
LATE = ergode.VectorField(
    component=lagging, variables=("u", 9), parameters=["rate", "tau"], delays=[("u", "tau")]
)  # fmt: skip
DRIFTING = ergode.VectorField(
    component=spreading, variables=("u", 9), parameters=["rate"], diffusion=0.2
)
BUMP = {"u": np.exp(-0.5 * (np.arange(9) - 4.0) ** 2)}


def arrays(**options):
    options = {"method": "tsit5", **options}
    return integrate(DIFFUSION, 2.0, BUMP, {"rate": [0.5, 1.0]}, **options)


def fixed_arrays(**options):
    return integrate(DIFFUSION, 2.0, BUMP, {"rate": 0.5}, method="rk4", step=0.05, **options)


def stabilised(**options):
    return integrate(DIFFUSION, 2.0, BUMP, {"rate": 5.0}, method="rkc2", **options)


def delayed_arrays(**options):
    return integrate(LATE, 4.0, BUMP, {"rate": 0.5, "tau": 0.7}, method="tsit5", **options)


def noisy_arrays(**options):
    return integrate(DRIFTING, 1.0, BUMP, {"rate": 0.5}, step=0.05, replicates=3, **options)


def watched_arrays(**options):
    event = ergode.trajectories.ZeroCrossing(middle)
    return arrays(events=[event], observables=[ergode.trajectories.Maximum(middle)], **options)


def kinked(i, t, y, p):
    """Slopes bend where neighbours are equal, and more of them are read at later times."""
    n = len(y)
    lower = p[0] * (min(y[i - 1], y[(i + 1) % n]) - y[i])
    return lower + (y[(i + 3) % n] if t > 0.7 else y[i]) * (1 - y[i])


KINKED = ergode.VectorField(component=kinked, variables=("u", 60), parameters=["rate"])
WIDE = ergode.VectorField(component=spreading, variables=("u", 700), parameters=["rate"])
MANY = ergode.field_from_equations({
    f"x{i}": f"1000 * (x{(i + 1) % 18} - 2 * x{i} + x{(i - 1) % 18}) + x{i} * (1 - x{i})"
    for i in range(18)
})  # fmt: skip


def stiff_arrays(**options):
    bump = {"u": 0.1 + np.exp(-np.maximum(np.arange(60) - 30.0, 0.0))}
    options = {"method": "rodas5p", "rtol": 1e-4, "atol": 1e-4, **options}
    return integrate(KINKED, 1.5, bump, {"rate": 50.0}, **options)


def matrix_free(**options):
    bump = {"u": np.exp(-0.001 * (np.arange(700) - 350.0) ** 2)}
    return integrate(WIDE, 0.5, bump, {"rate": 1e6}, method="rodas5p-krylov", **options)


def logged_stiff_arrays(**options):
    options = {"every_step": True, "dense_output": True, **options}
    return integrate(DIFFUSION, 2.0, BUMP, {"rate": 50.0}, method="rodas5p", **options)


def fixed_stiff_arrays(**options):
    return integrate(DIFFUSION, 2.0, BUMP, {"rate": 50.0}, method="rodas5p", step=0.05, **options)


def watched_stiff_arrays(**options):
    return watched_arrays(**{"method": "rodas5p", **options})


def watched_matrix_free(**options):
    return watched_arrays(**{"method": "rodas5p-krylov", **options})


def multistep_arrays(**options):
    return watched_arrays(**{"method": "bdf", **options})


def many_variables(**options):
    initial = {f"x{i}": 0.1 * (i % 7) for i in range(18)}
    return integrate(MANY, 2.0, initial, method="rodas5p", **options)


def density(priors=1, **options):
    each = [ergode.Gaussian([0.3 + 0.1 * i, 0.0], [0.05, 0.05]) for i in range(priors)]
    return ergode.density.propagate(
        DUFFING, each if priors > 1 else each[0], times=[0, 0.5, 1.5, 3],
        **{"width": 0.1, "device": "cpu", **MEASURED, **options},
    )  # fmt: skip


def densities(**options):
    return density(priors=3, keep="all", **options)


def noisy_density(**options):
    return density(process_noise=np.diag([0.02, 0.02]), retained=0.999, **options)


def flowing_density(**options):
    """A filter that gets new points after narrow measurements, with a killing rate."""
    each = (0.7, 0.5, 1e-4), (1.6, 0.9, 0.1), (2.5, 1.3, 1e-4)
    seen = [ergode.Measurement(t, first, [value], [[square]]) for t, value, square in each]
    return density(
        scheme="flow", width=None, measurements=seen, maneuvers=[ergode.Maneuver(2.0, [0.1, 0])],
        killing_rate=lambda y, t, p: (0.1 * y[0] * y[0],), **options,
    )  # fmt: skip


def swung_density(**options):
    return ergode.density.propagate(
        SWUNG, ergode.Gaussian([0.3, 0.0], [0.05, 0.05]), times=[0, 0.5, 1.5, 3],
        **{"width": 0.1, "device": "cpu", **MEASURED, **options},
    )  # fmt: skip


def surprised_density(**options):
    far = [ergode.Measurement(t, first, [1.4], [[0.03]]) for t in (0.7, 1.0)]
    return density(measurements=far, threshold=1e-9, **options)


def particles(**options):
    return ergode.particles.propagate(
        DUFFING, ergode.Gaussian([0.3, 0.0], [0.05, 0.05]), times=[0, 0.5, 1.5, 3], count=400,
        keep="all", **{"resample_below": 1.0, "device": "cpu", **MEASURED, **options},
    )  # fmt: skip


def weighted_particles(**options):
    return particles(resample_below=0.0, **options)


def leap(**options):
    return ergode.epidemics.simulate(
        SEIR, CONTACTS, initial={"I": 10}, times=range(0, 31, 5), replicates=3, seed=3,
        **{"method": "renewal-leap", "step": 0.5, "device": "cpu", **options},
    )  # fmt: skip


def pushed_leap(**options):
    return leap(tolerance=0.2, pressure="push", transition="sampled", **options)


def passages(**options):
    options = {"device": "cpu:2", **options}
    return leap(**{"method": "first-passage", "step": None, **options})


def sampled_leap(**options):
    return leap(transition="sampled", **options)


CHEAP = [fixed, particles, logged_stiff_arrays, passages, flowing_density]
DEAR = [
    fixed_delays, fixed_noise, halved, adaptive, watched, every_step, adaptive_delays,
    unlike_delays, history, kicked_delays, adaptive_noise, stiff, density, densities,
    noisy_density, swung_density, surprised_density, weighted_particles, leap, pushed_leap,
    sampled_leap, arrays,
    fixed_arrays, stabilised, watched_arrays, delayed_arrays, noisy_arrays,
    stiff_arrays, matrix_free, fixed_stiff_arrays, watched_stiff_arrays,
    watched_matrix_free, multistep_arrays, many_variables,
]  # fmt: skip
ON_GPU = [one for one in [*CHEAP, *DEAR] if one is not passages]
each_run = pytest.mark.parametrize(
    "call",
    [*CHEAP, *(pytest.param(call, marks=pytest.mark.exhaustive) for call in DEAR)],
    ids=[call.__name__ for call in [*CHEAP, *DEAR]],
)
pytestmark = pytest.mark.filterwarnings("ignore::ergode.ErgodeWarning")


class Died(BaseException):
    """Ends a process that is only pretended to die."""


def die_after(monkeypatch, count, act=None):
    """Die after every `count` checkpoints; returns the list of fractions that were written."""
    write, written = checkpoint.SingleRun._write, []

    def until(self, path, state, share):
        write(self, path, state, share)
        written.append(share)
        if len(written) % count == 0:
            if act is None:
                raise Died
            act()

    monkeypatch.setattr(checkpoint.SingleRun, "_write", until)
    return written


def same_attributes(found, wanted):
    for name, value in wanted.attrs.items():
        if not name.endswith("_seconds"):
            np.testing.assert_equal(found.attrs[name], value, err_msg=name)


def go_on(call, **options):
    for _ in range(500):
        try:
            return call(checkpoint=OFTEN, **options)
        except Died:
            pass
    raise AssertionError("it never ends")


@each_run
def test_a_run_that_dies_often_has_the_same_bits(call, tmp_path, monkeypatch):
    short = density_runner.CPURunner.steps
    monkeypatch.setattr(
        density_runner.CPURunner, "steps", lambda self, cells: (3 * cells, *short(self, cells)[1:])
    )
    plain = call()
    written = die_after(monkeypatch, 3 if call in CHEAP else 41)
    found = go_on(call, store=tmp_path / "run.zarr")
    assert len(written) > 3
    same_bits(found, plain)
    assert not list((tmp_path / "run.zarr").glob("*.checkpoint"))
    at_once = call(store=tmp_path / "other.zarr", checkpoint=1e9)
    same_attributes(found, at_once)
    count = len(written)
    same_bits(call(store=tmp_path / "run.zarr", checkpoint=OFTEN), found)
    assert len(written) == count


def altered(array):
    """Other arrays of this shape and type: zeros, the reverse, and other values."""
    flat = array.reshape(-1)
    if array.dtype == bool:
        others = [~flat]
    elif array.dtype.kind == "f":
        others = [0 * flat, flat[::-1], 1.25 * flat + 0.5, 1e3 * flat + 1e3]
    elif array.dtype.kind == "U":
        others = [np.char.add(flat, "x")]
    else:
        others = [0 * flat, flat[::-1], flat + 1, flat ^ np.array(1, flat.dtype)]
    for one in others:
        if not np.array_equal(one, flat, equal_nan=array.dtype.kind == "f"):
            kind = one.dtype if array.dtype.kind == "U" else array.dtype
            yield one.reshape(array.shape).astype(kind)


def _resumed(call, store, plain):
    """Exit code 0 if the run that goes on has the same bits, as if nothing was altered."""
    try:
        found = call(store=store, checkpoint=1e9)
        same_bits(found, plain)
        same_attributes(found, plain)
    except BaseException:  # other bits, or refused
        os._exit(1)
    os._exit(0)


def is_noticed(call, store, plain):
    """Whether an altered state changes the result, is refused, or ends the process."""
    child = FORK.Process(target=_resumed, args=(call, store, plain))
    child.start()
    child.join(60)
    if child.is_alive():  # it does not end
        child.kill()
        child.join()
    return child.exitcode != 0


# The middles of lattices matter only where cells are divided, which `flowing_density` does not do.
WHOLE = [one for one in [*CHEAP, *DEAR] if one is not flowing_density]


@pytest.mark.exhaustive
@pytest.mark.parametrize("call", WHOLE, ids=[one.__name__ for one in WHOLE])
def test_every_array_of_a_state_matters(call, tmp_path, monkeypatch):
    """One at a time is altered, early and late in the run; those that are empty cannot be."""
    plain = call(store=tmp_path / "plain.zarr", checkpoint=1e9)
    with monkeypatch.context() as counting:
        written = die_after(counting, 10**9)
        go_on(call, store=tmp_path / "counted.zarr")
    seen, silent = set(), set()
    for part in (0.3, 0.5, 0.7, 1.0):
        store = tmp_path / f"at_{part}.zarr"
        with monkeypatch.context() as dying:
            die_after(dying, max(1, int(part * len(written))))
            with pytest.raises(Died):
                call(store=store, checkpoint=OFTEN)
        (file,) = sorted(store.glob("*.checkpoint/*.npz"))[-1:]
        state = dict(np.load(file))
        assert not is_noticed(call, shutil.copytree(store, tmp_path / f"same_{part}.zarr"), plain)
        for name in set(state) - {checkpoint._ABOUT} - seen:
            for number, other in enumerate(altered(state[name])):
                copy = shutil.copytree(store, tmp_path / f"{part}_{name}_{number}.zarr")
                np.savez(copy / file.relative_to(store), **{**state, name: other})
                if is_noticed(call, copy, plain):
                    seen.add(name)
                    break
                silent.add(name)
    unread = silent - seen
    assert not unread, f"nothing depends on {sorted(unread)}"


def _killed(call, store, number, halfway):
    """Run a call in a child process that is killed at a checkpoint, or while it is written."""

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def run():
        with pytest.MonkeyPatch.context() as patch:
            if halfway:
                save, saved = np.savez, []

                def half(file, **arrays):
                    saved.append(1)
                    if len(saved) < number:
                        return save(file, **arrays)
                    file.write(b"PK\x03\x04half")
                    file.flush()
                    die()

                patch.setattr(np, "savez", half)
            else:
                die_after(patch, number, die)
            call(store=store, checkpoint=OFTEN)

    child = FORK.Process(target=run)
    child.start()
    child.join()
    return child.exitcode


@each_run
@pytest.mark.parametrize("halfway", [False, True], ids=["between", "halfway"])
def test_a_killed_process(call, halfway, tmp_path):
    plain = call()
    store = tmp_path / "run.zarr"
    assert _killed(call, store, 3, halfway) == -signal.SIGKILL
    assert list(store.glob("*.checkpoint/*.npz"))
    found = call(store=store, checkpoint=1e9)
    same_bits(found, plain)


def test_an_unreadable_checkpoint_is_ignored(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_after(patch, 4)
        fixed(store=tmp_path / "run.zarr", checkpoint=OFTEN)
    (path,) = (tmp_path / "run.zarr").glob("*.checkpoint/*.npz")
    path.write_bytes(path.read_bytes()[:-100])
    same_bits(fixed(store=tmp_path / "run.zarr", checkpoint=1e9), fixed())


def test_an_interrupted_run_writes_a_last_checkpoint(tmp_path, monkeypatch):
    """Ctrl-C, in the middle of a launch: the state of the next boundary is kept."""
    store, boundary, seen = tmp_path / "run.zarr", checkpoint.SingleRun.boundary, []

    def interrupted(self, state, share):
        seen.append(share)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        boundary(self, state, share)

    monkeypatch.setattr(checkpoint.SingleRun, "boundary", interrupted)
    with pytest.raises(KeyboardInterrupt, match="interrupted; 0 of 1 runs are kept"):
        particles(store=store, checkpoint=1e9)
    monkeypatch.undo()
    (path,) = store.glob("*.checkpoint/*.npz")
    assert checkpoint.share_of(path) == seen[1]
    shown = invoke("status", store).output
    assert "0 of 1 run (0 %) in 0 parts" in shown
    assert f"checkpoint of run 0: {100 * seen[1]:.0f} % of the time" in shown
    same_bits(particles(store=store, checkpoint=1e9), particles())


def test_what_is_refused(tmp_path, monkeypatch):
    store = tmp_path / "run.zarr"
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_after(patch, 2)
        particles(store=store, checkpoint=OFTEN)
    options = {"store": store, "checkpoint": 60}
    with pytest.raises(ergode.PlanError, match="belongs to a run with another 'seed'"):
        particles(seed=1, **options)
    (path,) = store.glob("*.checkpoint/*.npz")
    with pytest.raises(ergode.PlanError, match="is of particles on cpu, and this run is"):
        checkpoint.SingleRun("particles on cuda", path, 1.0)
    for changes, message in [
        ({"checkpoint": 1}, "checkpoint is given without store"),
        ({"checkpoint": 0, "store": store}, "checkpoint is 0; expected a positive number"),
        ({"checkpoint": "1 s", "store": store}, "checkpoint is '1 s'; expected a positive number"),
    ]:
        with pytest.raises(ergode.PlanError, match=message):
            fixed(**changes)
    other = {"store": tmp_path / "other.zarr", "checkpoint": 1}
    with pytest.raises(ergode.PlanError, match="checkpoint: method 'sellke' runs a rep"):
        leap(method="sellke", step=None, **other)
    assert not other["store"].exists()


def test_a_run_file_is_resumed(tmp_path, monkeypatch):
    path = tmp_path / "swing.toml"
    path.write_text(RUN_FILE)
    arguments = ["run", str(path), "--resume"]
    with monkeypatch.context() as patch:
        die_after(patch, 1)
        patch.setattr(checkpoint, "_AT_END", 0.0)
        with pytest.raises(Died):
            invoke(*arguments)
    assert invoke(*arguments).exit_code == 0
    store = tmp_path / "swing.zarr"
    assert "1 of 1 trajectory" in invoke("status", store).output


@pytest.mark.exhaustive
def test_a_run_file_of_a_density_is_resumed(tmp_path, monkeypatch):
    path = tmp_path / "swing.toml"
    path.write_text(DENSITY_FILE)
    arguments = ["run", str(path), "--resume"]
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "_AT_END", 0.0)
        die_after(patch, 1)
        with pytest.raises(Died):
            invoke(*arguments)
    store = str(tmp_path / "swing.parts.zarr")
    found = json.loads(invoke("status", store, "--json").stdout)
    assert found["checkpoints"] == [{"first": 0, "stop": 1, "share": 1.0}]
    assert invoke(*arguments).exit_code == 0
    assert "1 of 1 runs" in invoke("status", store).output
    assert ergode.open_dataset(tmp_path / "swing.nc")["status"] == 0


DENSITY_FILE = """
engine = "density"
[equations]
x = "y"
y = "x - x**3 - 0.2 * y"
[prior]
mean = [0.3, 0.0]
covariance = [0.05, 0.05]
[propagate]
times = [0, 0.2]
width = 0.1
device = "cpu"
[output]
dataset = "swing.nc"
figure = false
"""
RUN_FILE = """
engine = "trajectories"
[equations]
x = "x * (1 - x)"
[initial]
x = 0.3
[integrate]
times = [0, 1]
step = 0.05
method = "rk4"
device = "cpu"
store = "swing.zarr"
checkpoint = 60
[output]
dataset = "swing.nc"
figure = false
"""


@pytest.mark.cuda
@pytest.mark.parametrize("call", ON_GPU, ids=[one.__name__ for one in ON_GPU])
def test_on_a_gpu(call, tmp_path, monkeypatch):
    plain = call(device="cuda")
    written = die_after(monkeypatch, 41)
    monkeypatch.setattr(density_runner, "_BUDGET_CUDA", 5_000)
    found = go_on(call, store=tmp_path / "run.zarr", device="cuda")
    assert written
    same_bits(found, plain)
