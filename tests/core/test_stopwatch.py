"""Every engine records the seconds of a call, of its compiling and of its kernels."""

import io
import sys
from time import sleep

import numpy as np
import pytest

import ergode
from ergode.core import results, stopwatch


def epidemics(device):
    contacts = ergode.ContactNetwork.erdos_renyi(300, mean_degree=6, seed=1)
    return ergode.epidemics.simulate(
        ergode.CompartmentModel.sir(
            transmission_rate=0.25, infectious=ergode.LogNormal(mean=7.5, median=5)
        ),
        contacts, initial={"I": 5}, times=range(11), seed=1, device=device,
    )  # fmt: skip


def stochastic(device):
    network = ergode.ReactionNetwork({"X": 20}, [ergode.Reaction("X -> 0", rate_constant=1.0)])
    return ergode.stochastic.simulate(network, times=[0, 1], seed=1, device=device)


def kinetics(device):
    network = ergode.ReactionNetwork({"A": 2}, [ergode.Reaction("2 A -> 0", rate_constant=3.0)])
    return ergode.kinetics.integrate(network, times=[0, 1], device=device)


def trajectories(device):
    field = ergode.field_from_equations({"x": "-k * x"})
    return ergode.trajectories.integrate(
        field, times=[0, 1], initial={"x": np.ones(20)}, parameters={"k": 1.0}, device=device
    )


DECAY = ergode.field_from_equations({"y": "-0.625 * y"})
PRIOR = ergode.Gaussian([4.0], [1.0])


def density(device):
    return ergode.density.propagate(DECAY, PRIOR, times=[0, 1], width=0.2, device=device)


def particles(device):
    return ergode.particles.propagate(DECAY, PRIOR, times=[0, 1], count=500, device=device)


ENGINES = [epidemics, stochastic, kinetics, trajectories, density, particles]


def check(call, device):
    first, second = (call(device).attrs for _ in range(2))
    for attrs in (first, second):
        assert attrs["run_seconds"] > 0 and attrs["compile_seconds"] >= 0
        assert attrs["run_seconds"] + attrs["compile_seconds"] <= attrs["wall_seconds"]
    assert second["compile_seconds"] == 0  # nothing is compiled, or read from disk, again


@pytest.mark.parametrize("call", ENGINES, ids=lambda call: call.__name__)
def test_a_call_records_its_seconds(call):
    check(call, "cpu")


@pytest.mark.cuda
@pytest.mark.parametrize("call", ENGINES, ids=lambda call: call.__name__)
def test_a_call_on_a_device_records_its_seconds(call):
    check(call, "cuda")


def test_a_new_kernel_is_compiled_within_the_first_call():
    field = ergode.field_from_equations({"x": "-0.123456 * x"})
    first, second = (
        ergode.trajectories.integrate(
            field, times=[0, 1], initial={"x": 1.0}, step=0.1, device="cpu"
        ).attrs
        for _ in range(2)
    )
    assert first["compile_seconds"] > 0 and second["compile_seconds"] == 0


def test_what_is_compiled_while_a_kernel_is_asked_for_is_no_kernel():
    watch = stopwatch.Stopwatch()
    with stopwatch.running(), stopwatch.compiling(), stopwatch.compiling():
        sleep(0.02)
    found = watch.seconds()
    assert found["compile_seconds"] >= 0.02
    assert found["run_seconds"] < 0.5 * found["compile_seconds"]


def test_kernels_of_a_device_count_until_they_are_waited_for():
    watch = stopwatch.Stopwatch()
    stopwatch.kernel_begins()
    with stopwatch.running():  # a kernel on the CPU meanwhile
        pass
    stopwatch.kernel_begins()
    sleep(0.02)
    assert stopwatch.kernels_under_way()
    stopwatch.kernels_ended()
    sleep(0.02)
    found = watch.seconds()
    assert 0.02 <= found["run_seconds"] <= found["wall_seconds"] - 0.02
    assert not stopwatch.kernels_under_way()


def test_what_a_failed_call_left_running_is_not_the_next_ones():
    stopwatch.kernel_begins()
    sleep(0.02)
    assert stopwatch.Stopwatch().seconds()["run_seconds"] == 0


def test_a_call_within_a_call_counts_for_both():
    outer = stopwatch.Stopwatch()
    with stopwatch.running():
        sleep(0.01)
    inner = stopwatch.Stopwatch()
    with stopwatch.running():
        sleep(0.01)
    within = inner.seconds()["run_seconds"]
    assert within >= 0.01 and outer.seconds()["run_seconds"] >= within + 0.01


def test_provenance_has_the_seconds_of_its_stopwatch():
    assert set(results.provenance(stopwatch.Stopwatch(), n=1)) == {
        "version", "n", "wall_seconds", "compile_seconds", "run_seconds",
    }  # fmt: skip


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("number", "stream", "how", "is_told"),
    [(1, Screen, {}, True), (2, Screen, {"progress": False}, False), (3, io.StringIO, {}, False)],
)
def test_who_waits_at_a_terminal_is_told_of_compiling(monkeypatch, number, stream, how, is_told):
    monkeypatch.setattr(stopwatch, "_PATIENCE", 0.0)
    monkeypatch.setattr(stopwatch, "_SILENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", stream())
    ergode.trajectories.integrate(
        ergode.field_from_equations({"x": f"-0.65432{number} * x"}), times=[0, 1],
        initial={"x": 1.0}, step=0.1, device="cpu", **how,
    )  # fmt: skip
    assert ("compiling" in sys.stderr.getvalue()) == is_told
