"""Trajectories of random fields against SciPy, the method of steps, dense sampling and NumPy.

Every method, precision and output that takes a model is compared with a solution that shares no
code with the engine.  Tolerances are those of the method at the tolerance it is given; a random
case whose event turns round within that of zero has no certain count, and is left out of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trajectories_inputs as inputs
import trajectories_late as quick_delays
import trajectories_passages as passages
import trajectories_plain as plain
import trajectories_round as round_numbers
import trajectories_units as units
from fresh import fresh_seeds
from trajectories_models import (
    END,
    draw_model,
    draw_separable,
    event_functions,
    history_of,
)
from trajectories_options import DEVICES, ORDINARY, SEPARABLE, WITH_DELAYS, falls_and_touches

import ergode
from ergode.core.status import Status
from ergode.trajectories import Maximum, Mean, Minimum, TimeAbove, ZeroCrossing, integrate
from ergode.trajectories.methods import METHODS
from ergode.trajectories.steppers import explicit, inside_step, stepper

_LATER = 1.5
GRID = np.sort(np.concatenate([np.linspace(0.0, END, 7), [0.0371, 1.234567, 5.9999]]))


def test_every_method_is_examined():
    """Those for noise go through `compare_noise`, those for arrays through their own."""
    named = {name.partition(" ")[0] for name in ORDINARY | SEPARABLE}
    small = {
        name
        for name, one in METHODS.items()
        if not (one.scheme or one.stabilised or one.matrix_free or one.multistep)
    }
    assert named == small


class Case:
    """A model, trajectories of it, and their plain solutions."""

    def __init__(self, seed, size, taus=0, count=12, kicks=False, structure=None, separable=False):
        rng = np.random.default_rng(structure if structure is not None else seed)
        model = draw_separable(rng, size) if separable else draw_model(rng, size, taus)
        self.seed, self.model = seed, model
        self.rows, self.start = self.model.draw(np.random.default_rng(seed + 10**6), count)
        self.field = self.model.field()
        self.count = count
        self.delays = [[float(self.rows[f"tau{k}"][i]) for k in range(taus)] for i in range(count)]
        self.past, own = history_of(self.model) if taus else (None, None)
        function = self.model.slopes(self.model.equations)
        self.paths, self.kicks = [], []
        for i in range(count):
            here = {name: float(row[i]) for name, row in self.rows.items()}
            path, hits = plain.solve(
                function, here, [float(row[i]) for row in self.start.values()], END,
                self.delays[i], own, (here["level"], here["kick"]) if kicks else None,
            )  # fmt: skip
            self.paths.append(path)
            self.kicks.append(hits)

    def run(self, method, options, **more):
        return integrate(
            self.field, times=GRID, initial=self.start, parameters=self.rows, history=self.past,
            method=method.split()[0], **options, **more,
        )  # fmt: skip

    def states(self):
        return self.at(GRID)

    def at(self, times):
        """States [trajectory, time, variable] of the plain solutions."""
        return np.array([[path(t) for t in times] for path in self.paths])

    def inside_off(self, found, times):
        """Largest error of the interpolated solution at `times`."""
        return np.abs(found.ergode.solution(times).values - self.at(times)).max()


def compare_states(case, method, options, allowed, device):
    """What is wrong with states, in words; refusals by name are nothing wrong."""
    try:
        found = case.run(method, options, device=device)
    except ergode.PlanError:
        return []
    if (found["status"] != Status.DONE).any():
        return [f"seed {case.seed}, {method}: status {found['status'].values}"]
    error = np.abs(found["state"].values - case.states()).max()
    return [] if error < allowed else [f"seed {case.seed}, {method}: states are {error:.1e} off"]


def compare_watched(case, method, options, allowed, device):
    """The same with events and observables, and every step."""
    level, circle, _ = event_functions(case.model, case.field)
    first = case.model.variables[0]
    try:
        found = case.run(
            method, options, device=device, record=3, dense_output=True,
            events=[ZeroCrossing(level, 0, name="both"), ZeroCrossing(level, 1, name="up"),
                    ZeroCrossing(level, -1, name="down"), ZeroCrossing(circle, 0, name="circle")],
            observables=[Maximum(first), Minimum(first), Mean(first), TimeAbove(first, 0.1)],
        )  # fmt: skip
    except ergode.PlanError:
        return []
    wrong = []
    error = np.abs(found["state"].values - case.states()).max()
    if not error < allowed:
        wrong.append(f"seed {case.seed}, {method}: watched states are {error:.1e} off")
    error = case.inside_off(found, np.random.default_rng(case.seed).uniform(0.0, END, 40))
    if not error < 10 * allowed:
        wrong.append(f"seed {case.seed}, {method}: the solution within steps is {error:.1e} off")
    other = 1 if case.model.size > 1 else 0
    for i, path in enumerate(case.paths):
        level_i, radius_i = case.rows["level"][i], case.rows["radius"][i]
        gaps = {
            "level": lambda t, path=path, at=level_i: path(t)[0] - at,
            "circle": lambda t, path=path, at=radius_i: (
                path(t)[0] ** 2 + path(t)[other] ** 2 - at**2
            ),
        }
        for name, gap in gaps.items():
            hits, near = plain.crossings(gap, END)
            if near < 20 * allowed:
                continue
            for event, sign in {"level": {"both": 0, "up": 1, "down": -1}, "circle": {"circle": 0}}[
                name
            ].items():
                times = [t for t, way in hits if sign in (0, way)]
                number = float(found["event_count"].sel(event=event)[i])
                if number != len(times):
                    wrong.append(
                        f"seed {case.seed}, {method}, trajectory {i}: {number:.0f} of "
                        f"{len(times)} '{event}', at {times}"
                    )
                    continue
                last = found["event_time"].sel(event=event)[i].values
                last = last[np.isfinite(last)]
                speed = [abs(gap(t + 1e-5) - gap(t - 1e-5)) / 2e-5 for t in times[-3:]]
                off = [abs(a - b) * v for a, b, v in zip(last, times[-3:], speed, strict=True)]
                if off and max(off) > 20 * allowed:
                    wrong.append(f"seed {case.seed}, {method}: '{event}' is {max(off):.1e} off")
        t = np.linspace(0.0, END, 4001)
        x = np.array([path(s)[0] for s in t])
        exact = [x.max(), x.min(), np.trapezoid(x, t) / END, END * np.mean(x > 0.1)]
        seen = found["observed"].values[i]
        # The state between the ends of a step is a cubic for observables.
        off = np.abs(seen - exact)
        if not (off[:3].max() < 5e-3 + allowed and off[3] < 0.05 + 10 * allowed):
            wrong.append(f"seed {case.seed}, {method}, trajectory {i}: observed {seen} for {exact}")
    return wrong


def compare_backward(case, method, options, allowed, device):
    """The same from a later time to the beginning, with an absolute tolerance for each variable."""
    level = event_functions(case.model, case.field)[0]
    last = case.at([_LATER])[:, 0].T
    options = dict(options)
    if "atol" in options:
        options["atol"] = [options["atol"] / (1 + i % 3) for i in range(case.model.size)]
    rising, falling = ZeroCrossing(level, 1, name="up"), ZeroCrossing(level, -1, name="down")
    try:
        found = integrate(
            case.field, times=[_LATER, 1.1, 0.3, 0.0], parameters=case.rows,
            initial=dict(zip(case.model.variables, last, strict=True)), method=method.split()[0],
            events=[rising, falling], record=3, dense_output=True, device=device, **options,
        )  # fmt: skip
    except ergode.PlanError:
        return []
    times = np.random.default_rng(case.seed).uniform(0.0, _LATER, 10)
    # Errors grow on the way back: what damps forward drives backward.
    error = max(
        np.abs(found["state"].values - case.at(found["time"].values)).max(),
        case.inside_off(found, times),
    )
    wrong = []
    if not error < 300 * allowed:
        wrong.append(f"seed {case.seed}, {method}: backward states are {error:.1e} off")
    for i, path in enumerate(case.paths):
        hits, near = plain.crossings(
            lambda t, path=path, i=i: path(t)[0] - case.rows["level"][i], _LATER
        )
        if near < 1000 * allowed:
            continue
        for event, way in (("up", -1), ("down", 1)):  # what rises backward falls forward
            exact = sorted((t for t, sign in hits if sign == way), reverse=True)
            seen = found["event_time"].sel(event=event)[i].values
            seen = seen[np.isfinite(seen)]
            if found["event_count"].sel(event=event)[i] != len(exact) or not np.allclose(
                seen, exact[-3:], atol=np.sqrt(300 * allowed)
            ):
                wrong.append(f"seed {case.seed}, {method}, {i}: backward '{event}' {seen}, {exact}")
    return wrong


def compare_kicks(case, method, options, allowed, device):
    """Events that change the state."""
    level, _, kicked = event_functions(case.model, case.field)
    try:
        found = case.run(
            method,
            options,
            device=device,
            events=[ZeroCrossing(level, 1, kicked, name="kick")],
            record=20,
            dense_output=True,
        )
    except ergode.PlanError:
        return []
    wrong = []
    for i, path in enumerate(case.paths):
        at = case.rows["level"][i]
        times = np.linspace(0.0, END, 6001)
        values = np.array([path(t)[0] - at for t in times])
        # A path that nearly reaches the level, or grazes it, has no certain kicks.
        turns = np.flatnonzero(np.diff(values[:-1]) * np.diff(values[1:]) <= 0) + 1
        away = [k for k in turns if not any(abs(times[k] - s) < 0.01 for s in case.kicks[i])]
        if min([abs(values[0]), abs(values[-1]), *np.abs(values[away])]) < 50 * allowed:
            continue
        exact = case.kicks[i]
        number = float(found["event_count"][i, 0])
        if number != len(exact):
            wrong.append(f"seed {case.seed}, {method}, {i}: {number:.0f} kicks of {exact}")
            continue
        free = [k for k, t in enumerate(GRID) if all(abs(t - s) > 0.01 for s in exact)]
        states = np.array([path(GRID[k]) for k in free])
        error = np.abs(found["state"].values[i, free] - states).max()
        if not error < 50 * allowed:
            wrong.append(f"seed {case.seed}, {method}, {i}: kicked states are {error:.1e} off")
        inside = np.linspace(0.0, END, 37)
        inside = inside[[all(abs(t - s) > 0.01 for s in exact) for t in inside]]
        states = np.array([path(t) for t in inside])
        error = np.abs(found.ergode.solution(inside).values[i] - states).max()
        if not error < 50 * allowed:
            wrong.append(f"seed {case.seed}, {method}, {i}: kicked, within steps {error:.1e} off")
    return wrong


def compare_noise(seed, kind, device, count=400):
    """Paths of the keyed noise, whose increments a run without drift shows."""
    rng = np.random.default_rng(seed)
    model = draw_model(rng, 2, noisy=kind)
    rows, start = model.draw(rng, 1)
    own = {name: float(row[0]) for name, row in rows.items()}
    start = {name: float(row[0]) for name, row in start.items()}
    field = model.field()
    free = ergode.field_from_equations(
        dict.fromkeys(model.variables, "0.0"), list(field.parameters),
        dict.fromkeys(model.variables, "1.0"),
    )  # fmt: skip
    finest, end = 256, 1.0
    common = {
        "parameters": own, "replicates": count, "seed": seed % 2**31, "device": device,
    }  # fmt: skip
    fine = integrate(
        free, times=np.linspace(0.0, end, finest + 1), initial=dict.fromkeys(start, 0.0),
        step=end / finest, method="euler-maruyama", **common,
    )["state"].transpose("time", "variable", "replicate").values  # fmt: skip
    drift, diffusion = model.slopes(model.equations), model.slopes(model.noises)
    begin = np.repeat(np.array(list(start.values()))[:, None], count, axis=1)
    truth, rough = (
        plain.noisy_path(
            drift, diffusion, own, begin, np.diff(fine[::every], axis=0), every * end / finest,
            "milstein",
        )[-1]
        for every in (1, 2)
    )  # fmt: skip
    # How far the truth itself is off: an error below that says nothing of an order.
    floor = 2 * np.sqrt(np.mean((truth - rough) ** 2))
    wrong = []
    for method, order in (("euler-maruyama", 0.5), ("milstein", 1.0), ("sra1", 1.5)):
        errors = []
        for n in (8, 16, 32):
            try:
                found = integrate(
                    field, times=[0.0, end], initial=start, step=end / n, method=method,
                    noise_per_step=min(64, finest // n), **common,
                )  # fmt: skip
            except ergode.PlanError:
                break
            value = found["state"][:, -1].transpose("variable", "replicate").values
            errors.append(np.sqrt(np.mean((value - truth) ** 2)))
            if method == "euler-maruyama":
                coarse = plain.noisy_path(
                    drift,
                    diffusion,
                    own,
                    begin,
                    np.diff(fine[:: finest // n], axis=0),
                    end / n,
                    method,
                )[-1]
                off = np.abs(value - coarse).max()
                if off > 1e-9:
                    wrong.append(f"seed {seed}: '{method}' is {off:.1e} off the same increments")
        if len(errors) == 3:
            seen = np.log2(errors[0] / errors[2]) / 2
            least = order if kind == "own" or method == "sra1" else 1.0
            # The truth is of order 1 with 256 steps; the mean square of 400 paths is good to 5 %.
            if seen < min(least, 1.0) - 0.25 and errors[2] > floor:
                wrong.append(f"seed {seed}: '{method}' has order {seen:.2f}")
    return wrong


def check(seed, device, methods=None, structure=None, delays=True, noise=True, size=3):
    """All that is compared for one seed; `structure` fixed means that kernels are shared."""
    wrong = []

    def chosen(table):
        return {name: table[name] for name in table if methods is None or name in methods}

    case = Case(seed, size, structure=structure)
    for name, (options, allowed) in chosen(ORDINARY).items():
        wrong += compare_states(case, name, options, allowed, device)
        wrong += compare_watched(case, name, options, allowed, device)
        wrong += compare_backward(case, name, options, allowed, device)
    if some := chosen(SEPARABLE):
        case = Case(seed + 6, 2 * max(1, size // 2), structure=structure, separable=True)
        for name, (options, allowed) in some.items():
            wrong += compare_states(case, name, options, allowed, device)
            wrong += compare_watched(case, name, options, allowed, device)
            wrong += compare_backward(case, name, options, allowed, device)
    case = Case(seed + 1, size, kicks=True, structure=structure)
    for name, (options, allowed) in chosen(ORDINARY).items():
        if name in ("tsit5", "rk4", "rodas5p"):
            wrong += compare_kicks(case, name, options, allowed, device)
    if delays:
        case = Case(seed + 2, 2, taus=2, count=6, structure=structure)
        for name, (options, allowed) in chosen(WITH_DELAYS).items():
            wrong += compare_states(case, name, options, allowed, device)
            wrong += compare_watched(case, name, options, allowed, device)
        case = Case(seed + 3, 2, taus=1, count=6, kicks=True, structure=structure)
        for name, (options, allowed) in chosen(WITH_DELAYS).items():
            if name in ("tsit5", "rk4"):
                wrong += compare_kicks(case, name, options, allowed, device)
    if noise:
        wrong += compare_noise(seed + 4, "own", device)
        wrong += compare_noise(seed + 5, "additive", device)
    return wrong


METHODS_OF = {
    "plain": ("tsit5",), "delays": ("tsit5",), "noise": ("rk4",), "symplectic": ("kahan-li6",),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("also", METHODS_OF)
def test_random_fields(also, device):
    wrong = check(
        100, device, methods=METHODS_OF[also], structure=7, delays=also == "delays",
        noise=also == "noise",
    )  # fmt: skip
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_random_fields_for_long(device):
    wrong = []
    for fresh in fresh_seeds():
        seed = 1000 * fresh
        rng = np.random.default_rng(seed)
        size = int(rng.integers(1, 7))
        some = tuple(rng.choice(list(ORDINARY), 3, replace=False))
        some += (str(rng.choice(list(SEPARABLE))),)
        for _ in range(3):  # of one structure, so that kernels are compiled once
            wrong += check(seed, device, some, structure=1000 * fresh, size=size)
            seed += 10
    assert not wrong, "\n".join(wrong)


# Whether with delays, and the options.
ROUND = [
    (False, {}), (False, {"step": 0.5}), (True, {}), (False, {"method": "tsit5", "step": 0.25}),
    (False, {"method": "dop853"}), (False, {"method": "rodas5p"}), (True, {"step": 0.25}),
    (False, {"step": 0.1}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_round_numbers(device):
    """Zeros, doses and times on the ends of steps, levels that are met at the beginning."""
    wrong = [line for way in ROUND[:2] for line in round_numbers.compare(1, device, *way)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_round_numbers_for_long(device):
    wrong = []
    for seed in fresh_seeds(0.2):
        wrong += round_numbers.compare(seed, device, *ROUND[seed % len(ROUND)])
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"method": "rk4", "step": 1 / 256}])
def test_units_and_origins_of_time(options, device):
    wrong = units.compare("named", device, options)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_quick_delays(device):
    wrong = [line for seed in range(3) for line in quick_delays.compare(seed, device, {})]
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_quick_delays_for_long(device):
    wrong = []
    for seed in fresh_seeds(0.2):
        for options in quick_delays.METHODS:
            wrong += quick_delays.compare(seed, device, options)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_inputs(device):
    wrong = [line for seed in range(3) for line in inputs.compare(seed, device, ["tsit5"])]
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_inputs_for_long(device):
    wrong = []
    for seed in fresh_seeds(0.4):
        wrong += inputs.compare(seed, device)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_passages(device):
    wrong = [line for seed in range(3) for line in passages.compare(seed, device)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_passages_for_long(device):
    wrong = []
    for seed in fresh_seeds(0.2):
        wrong += passages.compare(seed, device)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_many_variables():
    """A ring of 34 variables: tuples are long."""
    case = Case(5, 34, count=2)
    wrong = compare_states(case, "rk4", *ORDINARY["rk4"], "cpu")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ["a weight 2 % off", "a tie", "a dropped term"])
def test_a_broken_engine_is_noticed(mutant, monkeypatch, nothing_compiled):
    known = METHODS["tsit5"]
    if mutant == "a weight 2 % off":
        tableau = known.bindings[explicit.B]
        broken = {**known.bindings, explicit.B: (1.02 * tableau[0], *tableau[1:])}
        monkeypatch.setitem(METHODS, "tsit5", replace(known, bindings=broken))
    elif mutant == "a tie":
        monkeypatch.setattr(inside_step, "crosses", falls_and_touches)
    else:
        dense = known.bindings[stepper.DENSE]
        broken = {**known.bindings, stepper.DENSE: (*dense[:-1], (0.0,) * len(dense[-1]))}
        monkeypatch.setitem(METHODS, "tsit5", replace(known, bindings=broken))
    case = Case(100, 3, structure=7)
    options, allowed = ORDINARY["tsit5"]
    assert compare_watched(case, "tsit5", options, allowed, "cpu")
