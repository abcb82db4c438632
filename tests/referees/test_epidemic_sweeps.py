"""Sweeps of random epidemics: each point is what its own call returns, bit for bit.

Points have common random numbers, or each has its own: those of other replicates of its own call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from epidemics_world import FAMILIES, World, contacts_of, draw, model_of, options_of
from fresh import fresh_seeds

import ergode
from ergode.epidemics import seeding, simulate
from ergode.epidemics.methods import METHODS
from ergode.epidemics.shared import ensemble, progression

FORMS = [
    ("float32", "counts"), ("float64", "statistics"), ("float32", "line_list"),
    ("float64", "counts"), ("float32", "statistics"), ("float64", "line_list"),
]  # fmt: skip
REPLICATES = 4
# What an ordinary run asks for: kernels of the own calls are those of `test_epidemics`. The family
# "measures" has all that "driven" has.
ORDINARY = {
    "plain": ("float32", "counts"), "measures": ("float64", "line_list"),
    "meetings": ("float64", "statistics"),
}  # fmt: skip


def sweep_of(world: World, rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    """Functions of parameters that are like a world, and values of the parameters."""

    def model(rate: float, stay: float, share: float) -> ergode.CompartmentModel:
        changed = replace(
            world,
            infections=[
                (s, x, {name: rate * value for name, value in rates.items()})
                for s, x, rates in world.infections
            ],
            progressions={
                name: (
                    dict(zip(to, (share, 1.0 - share) if len(to) > 1 else (1.0,), strict=True)),
                    (law[0], stay * law[1]),
                )
                for name, (to, law) in world.progressions.items()
            },
            splits={
                name: (trait, [_shared(one, share) for one in each])
                for name, (trait, each) in world.splits.items()
            },
            stays={
                name: (trait, [(law[0], stay * law[1]) for law in each])
                for name, (trait, each) in world.stays.items()
            },
        )
        return model_of(changed)

    given = options_of(world)["initial"]
    counted = [name for name, value in world.initial.items() if isinstance(value, int)]

    def initial(seeds: int) -> dict[str, Any]:
        drawn = seeds if world.seed_weight is None else ergode.Seeds(seeds, weight="seed_weight")
        return given | dict.fromkeys(counted, drawn)

    named = sum(
        np.size(value.nodes if isinstance(value, ergode.Seeds) else value)
        for name, value in given.items()
        if name not in counted
    )
    most = world.nodes - named
    values: dict[str, Any] = {
        "rate": rng.uniform(0.5, 2.0, 5).round(3), "stay": rng.uniform(0.5, 2.0, 5).round(3),
        "share": rng.choice([0.0, 0.25, 0.6], 5), "seeds": rng.integers(0, most + 1, 5),
    }  # fmt: skip
    if world.measures or world.importations:  # these are refused where nobody infects
        values["share"] = np.maximum(values["share"], 0.25)
    else:
        values["rate"][rng.integers(5)] = 0.0
    kind = rng.integers(3)
    if kind == 0:  # crossed, some of them fixed
        crossed = {name: value[:2] for name, value in values.items()}
        crossed["seeds"] = 0
        return model, initial, ergode.grid(**crossed)
    if kind == 1:
        values["stay"] = float(values["stay"][0])
    return model, initial, values


def examine(
    family: str, seed: list[int], device: str = "cpu", thorough: bool = False
) -> tuple[list[str], int]:
    """What differs, and how many sweeps were run.

    Of each method every precision and output (`thorough`), or one of them.
    """
    rng = np.random.default_rng([*seed, 7])
    world = draw(np.random.default_rng(seed), "plain" if family == "once" else family)
    if family == "once":
        world = _once(world)
    model, initial, parameters = sweep_of(world, rng)
    options = options_of(world) | {
        "replicates": REPLICATES, "seed": int(seed[0]), "device": device
    }  # fmt: skip
    contacts = contacts_of(world)
    wrong, taken = [], 0
    names = ["first-passage"] if family == "once" else list(METHODS)
    for turn, method in enumerate(names, seed[0]):
        some = FORMS if thorough else [ORDINARY.get(family, FORMS[turn % len(FORMS)])]
        for precision, output in some:
            asked = options | {"method": method, "precision": precision, "output": output}
            asked.pop("initial")
            if METHODS[method].steps:
                asked["step"] = 0.05
            common = bool(rng.integers(2)) if thorough else (turn + taken) % 2 == 0
            try:
                swept = simulate(
                    model, contacts, parameters=parameters, initial=initial,
                    common_random_numbers=common, **asked,
                )  # fmt: skip
            except ergode.PlanError as error:
                if family == "once" or method == "sellke":
                    wrong.append(f"{family} {seed}: {error}")
                continue
            taken += 1
            what = f"{family} {seed} {method} {precision} {output}"
            wrong += [
                f"{what}: {text}"
                for text in _compare(swept, model, initial, contacts, parameters, asked)
            ]
    return wrong, taken


def _shared(split: dict[str, float], share: float) -> dict[str, float]:
    """The branches of a class with other chances; those of all or none stay."""
    if len(split) == 1 or 0.0 in split.values():
        return split
    return dict(zip(split, (share, 1.0 - share), strict=True))


def _once(world: World) -> World:
    """A world in which nobody is infected twice, along a path through all compartments."""
    names = world.compartments
    last = len(names) - 1
    onwards = {
        name: ({names[k + 1]: 1.0} if k + 2 > last else {names[k + 1]: 0.3, names[k + 2]: 0.7})
        for k, name in enumerate(names)
        if 0 < k < last
    }
    law = {name: ("gamma" if k % 2 else "deterministic", 0.5 + 0.3 * k)
           for k, name in enumerate(names)}  # fmt: skip
    return replace(
        world,
        infections=[("C0", "C1", {name: 0.4 + 0.5 * k for k, name in enumerate(names[1:])})],
        progressions={name: (to, law[name]) for name, to in onwards.items()},
        splits={},
        stays={},
    )


def _compare(
    swept: Any, model: Any, initial: Any, contacts: Any, parameters: Any, asked: dict[str, Any]
) -> list[str]:
    dims = [dim for dim in (*parameters, "point") if dim in swept.dims or dim in swept.coords]
    arrays = {n: np.atleast_1d(v) for n, v in parameters.items()}
    crossed = [name for name, value in parameters.items() if np.ndim(value)]
    common = swept.attrs["common_random_numbers"]
    if isinstance(parameters, ergode.models.sweep.Grid):
        shape = tuple(arrays[name].size for name in crossed)
        places = list(np.ndindex(shape))
        value_at = lambda place: {  # noqa: E731
            n: v[place[crossed.index(n)]] if n in crossed else v[0] for n, v in arrays.items()
        }
    else:
        places = [(k,) for k in range(max(v.size for v in arrays.values()))]
        value_at = lambda place: {  # noqa: E731
            n: v[place[0] if v.size > 1 else 0] for n, v in arrays.items()
        }
    wrong = [] if dims else ["no dims"]
    for number, place in enumerate(places):
        values = value_at(place)
        start = initial(int(values.pop("seeds")))
        begin = 0 if common else number * ((2**32 - 1) // len(places))
        asked["replicates"] = range(begin, begin + REPLICATES)
        own = simulate(model(**values), contacts, initial=start, **asked)
        if "replicate" in own.data_vars:
            own["replicate"] -= begin
        for name, variable in own.data_vars.items():
            if asked["output"] == "line_list":
                found = swept[name].values[swept["point"].values == number]
            else:
                found = swept[name].values[place]
            floats = variable.dtype.kind == "f"
            if variable.dtype != found.dtype or not np.array_equal(
                found, variable.values, equal_nan=floats
            ):
                wrong.append(f"{name} at point {number}, {values}")
    return wrong


@pytest.mark.slow
def test_each_point_of_one_launch_is_its_own_call():
    wrong = [text for k in (0, 1) for text in examine("once", [k, 1515])[0]]
    assert not wrong, "\n".join(wrong)


def _one_replicate_more(monkeypatch):
    """Rows that are numbered as if points had one replicate more."""
    right = ensemble.rows_from

    def wrong(first, group):
        rows = right(first, group)
        return rows if group is None else rows._replace(replicates=rows.replicates + 1)

    monkeypatch.setattr(ensemble, "rows_from", wrong)


def _numbers_of_the_first(monkeypatch):
    """The replicates of the first point for all."""
    right = ensemble.rows_from

    def wrong(first, group):
        rows = right(first, group)
        return rows if group is None else rows._replace(begins=np.full_like(rows.begins, 0))

    monkeypatch.setattr(ensemble, "rows_from", wrong)


def _first_rates(monkeypatch):
    """The transmission rates of the first point for all."""
    right = progression.stages_of_points

    def wrong(models, *arguments):
        tables = right(models, *arguments)
        tables.transmission_rate[:] = tables.transmission_rate[0]
        return tables

    monkeypatch.setattr(progression, "stages_of_points", wrong)


def _first_seeds(monkeypatch):
    """The seeds of the first point for all."""
    monkeypatch.setattr(seeding, "seed_key", lambda initial: 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken", [_one_replicate_more, _numbers_of_the_first, _first_rates, _first_seeds]
)
def test_a_broken_sweep_is_noticed(broken, monkeypatch):
    broken(monkeypatch)
    assert any(examine("once", [number, 1515])[0] for number in (1, 0, 3, 2))


@pytest.mark.slow
@pytest.mark.parametrize("family", ORDINARY)
def test_each_point_is_its_own_call(family):
    wrong, taken = examine(family, [FAMILIES.index(family), 1515])
    assert not wrong, "\n".join(wrong)
    assert taken  # `sellke` refuses none of them


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, "once"])
def test_each_point_is_its_own_call_on_a_device(family):
    wrong = [t for k in range(3) for t in examine(family, [k, 1515], device="cuda")[0]]
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_random_sweeps_from_a_fresh_seed(device):
    families = (*FAMILIES, "once")
    for seed in fresh_seeds():
        wrong, _ = examine(families[seed % len(families)], [seed], device, thorough=True)
        assert not wrong, f"ERGODE_REFEREE_SEED={seed}\n" + "\n".join(wrong)
