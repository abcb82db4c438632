"""Trajectories of random fields of arrays: see `trajectories_arrays`."""

from __future__ import annotations

import numpy as np
import pytest
import trajectories_arrays as array_fields
import trajectories_units as units
from fresh import fresh_seeds
from trajectories_options import DEVICES, ORDINARY, falls_and_touches

from ergode.trajectories.arrays import conjugate_residuals, group
from ergode.trajectories.arrays.past import recall
from ergode.trajectories.arrays.step_log import log_inside
from ergode.trajectories.steppers import inside_step, observing

# A table in time breaks what has steps of one size.
ARRAYS = {**ORDINARY, "rk4": ({"step": 0.002}, 2e-4), "tsit5 fixed": ({"step": 0.002}, 2e-4),
          "rk4 float32": ({"step": 0.005, "precision": "float32"}, 2e-3),
          "rk4 refined": ({"rtol": 1e-5, "atol": 1e-5}, 2e-3),
          "rkc2": ({"rtol": 1e-6, "atol": 1e-7}, 2e-3),
          "rodas5p-krylov": ({"rtol": 1e-7, "atol": 1e-8}, 2e-4)}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_random_fields_of_arrays(device):
    """A component with data."""
    wrong = array_fields.compare(11, 0, {"tsit5": ARRAYS["tsit5"]}, device)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_units_and_origins_of_time_of_arrays(device):
    wrong = units.compare("array", device, {})
    assert not wrong, "\n".join(wrong)


# Of events and observables: steps are at most 0.1.
WATCHED_ARRAYS = {
    "tsit5": ({"rtol": 1e-8, "atol": 1e-9}, 2e-5), "dop853": ({"rtol": 1e-8, "atol": 1e-9}, 2e-5),
    "dopri5": ({"rtol": 1e-8, "atol": 1e-9}, 2e-5), "rk4": ({"step": 0.002}, 2e-4),
    "tsit5 fixed": ({"step": 0.002}, 2e-4), "rkc2": ({"rtol": 1e-6, "atol": 1e-7}, 2e-3),
    "tsit5 float32": ({"rtol": 1e-5, "atol": 1e-6, "precision": "float32"}, 2e-3),
    "rodas5p": ({"rtol": 1e-7, "atol": 1e-8}, 2e-4),
    "rosenbrock23": ({"rtol": 1e-6, "atol": 1e-7}, 2e-3),
    "rodas5p-krylov": ({"rtol": 1e-7, "atol": 1e-8}, 2e-4),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_random_events_and_observables_of_arrays(device):
    wrong = array_fields.compare_watched(2, 0, {"tsit5": WATCHED_ARRAYS["tsit5"]}, device)
    assert not wrong, "\n".join(wrong)


# Steps of one size end at the points of a table, as at sums of delays.
DELAYED_STRUCTURE = 24
# Few, long steps of `dop853` leave the largest errors: a system of 191 variables that grows was
# 2.3e-5 off, and a tenth of that at a tenth of the tolerances.
DELAYED_ARRAYS = {
    "tsit5": ({"rtol": 1e-8, "atol": 1e-9}, 2e-5), "dopri5": ({"rtol": 1e-8, "atol": 1e-9}, 2e-5),
    "dop853": ({"rtol": 1e-9, "atol": 1e-10}, 2e-5), "rk4": ({"step": 0.004}, 2e-4),
    "tsit5 fixed": ({"step": 0.01}, 2e-4), "dop853 fixed": ({"step": 0.02}, 2e-4),
    "euler": ({"step": 5e-4}, 2e-2),
    "tsit5 float32": ({"rtol": 1e-5, "atol": 1e-6, "precision": "float32"}, 2e-3),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_random_delays_of_arrays(device):
    """With a history that is a function, and delays that differ between trajectories."""
    wrong = array_fields.compare(DELAYED_STRUCTURE, 2, {"rk4": DELAYED_ARRAYS["rk4"]}, device, True)
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_random_delays_of_arrays_for_long(device):
    wrong = []
    for structure in fresh_seeds(0.3):
        some = np.random.default_rng(structure).choice(list(DELAYED_ARRAYS), 2, replace=False)
        options = {name: DELAYED_ARRAYS[name] for name in some}
        for seed in range(structure, structure + 3):
            wrong += array_fields.compare(structure, seed, options, device, True)
        watched = {name: one for name, one in options.items() if name in WATCHED_ARRAYS}
        wrong += array_fields.compare_watched(structure, structure, watched, device, True)
    assert not wrong, "\n".join(wrong)


def _a_step_late(group, t, middle, p, run, row, past):
    """Delayed values of a time that is a little wrong."""
    recall(group, t - 1e-3, middle, p, run, row, past)


@pytest.mark.exhaustive
def test_broken_delays_of_arrays_are_noticed(monkeypatch, nothing_compiled):
    monkeypatch.setattr(group, "recall", _a_step_late)
    options = {"rk4": DELAYED_ARRAYS["rk4"]}
    assert array_fields.compare(DELAYED_STRUCTURE, 2, options, "cpu", True)


def _halfway(e, a, ga, b, gb, inside):
    """An event between two nodes is said to be halfway."""
    return 0.5 * (a + b)


def _area_off(h, y0, f0, y1, f1):
    """The integral over a step, 2 % off."""
    return 1.02 * h * (0.5 * (y0 + y1) + h * (f0 - f1) / 12.0)


def _a_longer_step(me, group, step, h, y, end, k, step_log):
    """A step that is said to be 5 % longer than it is."""
    log_inside(me, group, step, h, y, end, k, step_log)
    if group.rank == 0 and step < step_log.shape[0]:
        step_log[step, 1 + k.shape[1], me] = 1.05 * h


@pytest.mark.exhaustive
@pytest.mark.parametrize("mutant", ["a place", "a mean", "a tie", "a step"])
def test_broken_events_and_observables_of_arrays_are_noticed(mutant, monkeypatch, nothing_compiled):
    if mutant == "a place":
        monkeypatch.setattr(inside_step, "locate", _halfway)
    elif mutant == "a mean":
        monkeypatch.setattr(observing, "area", _area_off)
    elif mutant == "a step":
        monkeypatch.setattr(group, "log_inside", _a_longer_step)
    else:
        monkeypatch.setattr(inside_step, "crosses", falls_and_touches)
    assert array_fields.compare_watched(2, 0, {"tsit5": WATCHED_ARRAYS["tsit5"]}, "cpu")


def _for_long(compare, cases, chosen, seeds, device):
    """Compare some of the cases in random structures, with several seeds in each."""
    wrong = []
    for structure in fresh_seeds(0.2):
        some = np.random.default_rng(structure).choice(list(cases), chosen, replace=False)
        for seed in range(structure, structure + seeds):
            wrong += compare(structure, seed, {name: cases[name] for name in some}, device)
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_random_events_and_observables_of_arrays_for_long(device):
    _for_long(array_fields.compare_watched, WATCHED_ARRAYS, 2, 5, device)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_random_fields_of_arrays_for_long(device):
    _for_long(array_fields.compare, ARRAYS, 3, 6, device)


STIFF = {
    "rodas5p": ({"rtol": 1e-6, "atol": 1e-7}, 2e-4),
    "rosenbrock23": ({"rtol": 1e-5, "atol": 1e-6}, 2e-3),
    "rodas5p-krylov": ({"rtol": 1e-6, "atol": 1e-7}, 2e-4),
    "bdf": ({"rtol": 1e-7, "atol": 1e-8}, 2e-4),
}
NAMED = {"bdf": STIFF["bdf"]}
LOOPS = {name: one for name, one in STIFF.items() if name not in NAMED}


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_random_stiff_systems(device):
    """Of 1, 2 and 28 unknowns, one trajectory each: a kernel for several takes long to compile."""
    wrong = []
    for seed in (0, 1, 11):
        wrong += array_fields.compare_stiff(seed, LOOPS, device, 1)
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_random_stiff_systems_in_kernels(device):
    """Several trajectories; and of 17 to 40 named variables."""
    wrong = array_fields.compare_stiff(11, STIFF, device, 4)
    wrong += array_fields.compare_stiff(3, NAMED, device, named=True)
    assert not wrong, "\n".join(wrong)


def _off(name):
    """Numbers of a host for a kernel, one of which is 2 % off."""
    module = {"rodas5p-krylov": conjugate_residuals}[name]
    known = module.table_of

    def table_of(method, precision):
        found = known(method, precision)
        found[:, 2] *= 1.02  # the couplings to the first stage
        return found

    return module, table_of


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["rodas5p-krylov"])
def test_a_broken_stiff_kernel_is_noticed(name, monkeypatch):
    module, table_of = _off(name)
    monkeypatch.setattr(module, "table_of", table_of)
    assert array_fields.compare_stiff(11, {name: STIFF[name]}, "cpu", 4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_random_stiff_systems_for_long(device):
    wrong = []
    for seed in fresh_seeds(0.1):
        wrong += array_fields.compare_stiff(seed, STIFF, device)
        if seed % 4 == 0:
            wrong += array_fields.compare_stiff(seed, NAMED, device, named=True)
    assert not wrong, "\n".join(wrong)
