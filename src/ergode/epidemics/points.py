"""Points of a sweep: the model and the initial condition of each, from the user's functions.

Points may differ only in numbers. They therefore share kernels, and most points share one launch.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from ergode.core.calls.launch import check_room
from ergode.core.columns import Column, PointsDifferError
from ergode.core.errors import ModelError, PlanError
from ergode.epidemics.seeding import (
    Initial,
    has_ages,
    least_survival,
    located,
    seeds_without_case,
)
from ergode.epidemics.shared.sweep import ModelsTogether, PointGroup, numbers_of, rates_of
from ergode.models.epidemic.attributes import ByAttribute
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.seeds import Seeds
from ergode.models.holding_times.families import Family, HoldingTime
from ergode.models.sweep import POINT, Layout, lay_out, refuse_reserved

_BYTES_OF_POINT = 2000  # measured, of SEIR

ModelFunction = Callable[..., CompartmentModel]
InitialFunction = Callable[..., Initial]


@dataclass(frozen=True)
class Points:
    """All points of a call; a call without a sweep has one.

    Attributes
    ----------
    layout : Layout
        Dims, coordinates and values of the parameters.
    models, initials : sequence, length point_count
        Model and initial condition of each point.
    settings : dict of str to list, length point_count
        Other arguments that may be functions: their values at each point.
    """

    layout: Layout
    models: Sequence[CompartmentModel]
    initials: list[Initial]
    settings: dict[str, list[Any]] = field(default_factory=dict)

    def located(self, names: np.ndarray | None) -> Points:
        """These points with positions in place of names of nodes in their initial conditions."""
        plain = names is None and all(isinstance(one, dict) for one in self.initials)
        if plain and not any(
            isinstance(value, Seeds) and value.by for one in self.initials for value in one.values()
        ):
            return self
        made = {id(one): located(one, names) for one in self.initials}
        return replace(self, initials=[made[id(one)] for one in self.initials])

    @property
    def count(self) -> int:
        """Number of points."""
        return len(self.models)

    @property
    def swept(self) -> bool:
        """Whether results have dims for points."""
        return bool(self.layout.dims)

    @cached_property
    def kinds(self) -> list[int]:
        """First point of each kind; kinds differ in which numbers are zero."""
        first: dict[bytes, int] = {}
        for number, row in enumerate(_bytes_of_rows(self._zeros)):
            first.setdefault(row, number)
        return list(first.values())

    @cached_property
    def least_survival(self) -> float:
        """Smallest probability that a holding time exceeds the age of a seed."""
        found = (
            least_survival(self.models[k], one)
            for k, one in enumerate(self.initials)
            if isinstance(one, Mapping) and has_ages(one)
        )
        return min(found, default=1.0)

    @cached_property
    def _numbers(self) -> np.ndarray:
        """Rates, probabilities, and codes of holding times, float64 [point, number]."""
        return numbers_of(self.models, _numbers)

    @cached_property
    def _zeros(self) -> np.ndarray:
        """Which rates and probabilities are not zero; the choice of a method depends on this."""
        codes = 4 * len(_holding_times(self.models[0]))
        return self._numbers[:, : self._numbers.shape[1] - codes] > 0

    def groups(
        self, replicates: range, apart: int, scenarios: Sequence[Any]
    ) -> list[tuple[np.ndarray, PointGroup]]:
        """Groups of points that can run in one launch: their indices, and the group.

        Points of a group have one of the `scenarios` [point].

        Equal replicates of successive points have numbers that are `apart` (see
        `models.sweep.replicates_apart`).
        """
        same = all(initial is self.initials[0] for initial in self.initials)
        # Lists of nodes drawn by weight are made for one range of replicates.
        same = same and not (apart and _is_by_weight(self.initials[0]))
        begins = replicates.start + apart * np.arange(self.count, dtype=np.int64)
        kinds = self._numbers[:, self._zeros.shape[1] :].reshape(self.count, -1, 4)[:, :, :2]
        sizes = np.column_stack([self._zeros, kinds.reshape(self.count, -1)])
        found: dict[Any, list[int]] = {}
        # Arcs have one weight in a launch, which includes the factors of nodes.
        factors = _bytes_of_rows(numbers_of(self.models, _factors))
        for number, (size, initial, weight) in enumerate(
            zip(_bytes_of_rows(sizes), self.initials, factors, strict=True)
        ):
            seeds = None if same else _seeds(initial, number)
            key = (size, seeds, weight, id(scenarios[number]))
            found.setdefault(key, []).append(number)
        made = []
        for some in found.values():
            own = begins[some]
            own.setflags(write=False)  # a device keeps its copy
            initials = [self.initials[k] for k in some]
            group = PointGroup(self._models_of(some), initials, own, len(replicates))
            made.append((np.array(some), group))
        return made

    def _models_of(self, numbers: list[int]) -> Sequence[CompartmentModel]:
        if isinstance(self.models, ModelsTogether):
            return self.models.of(np.array(numbers))
        return [self.models[k] for k in numbers]

    def named(self, number: int) -> str:
        """Parameters of a point, as the prefix of a message."""
        values = (f"{name}={row[number]:.6g}" for name, row in self.layout.rows.items())
        return f"at the point {', '.join(values)}: " if self.layout.rows else ""

    @contextmanager
    def named_in_errors(self, number: int) -> Iterator[None]:
        """Add the name of the point to an error."""
        try:
            yield
        except (ModelError, PlanError) as error:
            if not self.layout.rows:
                raise
            raise type(error)(f"{self.named(number)}{error}") from error

    @cached_property
    def fastest(self) -> CompartmentModel:
        """The model with the shortest stay, which needs the finest times."""
        means = numbers_of(self.models, _means)
        shortest = np.where(means > 0.0, means, np.inf).min(axis=1, initial=np.inf)
        return self.models[int(np.argmin(shortest))]

    @property
    def coords(self) -> dict[str, Any]:
        """Coordinates of results; parameters that are equal at all points have no dim."""
        same = {n: r[0] for n, r in self.layout.rows.items() if n not in self.layout.coords}
        return {**same, **self.layout.coords}

    @property
    def digest(self) -> str:
        """Digest that identifies these models."""
        first = self.models[0].digest
        if not self.swept or _are_one(self.models):
            return first
        found = hashlib.sha256(first.encode() + self._numbers.tobytes())
        tables = self._numbers[:, self._zeros.shape[1] :].reshape(self.count, -1, 4)[0, :, 1]
        for number in np.flatnonzero(tables).tolist():  # of an empirical holding time
            for model in self.models:
                code = _holding_times(model)[number].code()
                if code.times is not None and code.cdf is not None:
                    found.update(code.times.tobytes() + code.cdf.tobytes())
        return found.hexdigest()

    def names(self, of: Callable[[CompartmentModel], tuple[str, ...]]) -> str:
        """Names of compartments with a role at any point, separated by commas."""
        found = {name for number in self.kinds for name in of(self.models[number])}
        return ",".join(name for name in self.models[0].compartments if name in found)

    def others(self, node_count: int) -> dict[str, str]:
        """The attribute that says how many nodes a line list leaves out, if no points differ."""
        if any(initial is not self.initials[0] for initial in self.initials):
            return {}
        found = seeds_without_case(self.models[0], self.initials[0], node_count)
        return {"others": json.dumps(found)}


def points_of(
    model: CompartmentModel | ModelFunction,
    initial: Initial | InitialFunction,
    parameters: Mapping[str, Any] | None,
    reserved: Collection[str] = (),
    **settings: Any,
) -> Points:
    """Call the user's functions at every point; parameters cannot have `reserved` names.

    The `settings` are other arguments, which may be functions of parameters.

    Raises a ModelError if a name is unknown or missing, a function returns something else, or
    points differ in more than numbers.
    """
    if not isinstance(model, CompartmentModel) and not callable(model):
        raise ModelError(
            f"model is {type(model).__name__}; expected a CompartmentModel, or a function of "
            "parameters that returns one"
        )
    functions = {
        what: given
        for what, given in (("model", model), ("initial", initial), *settings.items())
        if callable(given)
    }
    if parameters is None:
        parameters = {}
    elif not isinstance(parameters, Mapping):
        raise ModelError(
            f"parameters is {type(parameters).__name__}; expected a mapping of names to values"
        )
    elif not functions:
        raise ModelError(
            "parameters are given, but no argument is a function of them: "
            "def model(rate): return ergode.CompartmentModel.sir(transmission_rate=rate, ...)"
        )
    taken = {what: _names(what, function) for what, function in functions.items()}
    known = dict.fromkeys(name for names in taken.values() for name in names)
    needed = [
        name
        for name in known
        if name in parameters or any(names.get(name, False) for names in taken.values())
    ]
    # Parameters that are equal at all points also become labels of the result.
    refuse_reserved(parameters, {POINT, *reserved}, numbers=True)
    layout = lay_out(
        {"parameters": needed if set(parameters) <= set(known) else list(known)},
        {"parameters": parameters}, reserved=reserved, along=POINT, owner="the function",
    )  # fmt: skip
    check_room(
        _BYTES_OF_POINT * layout.count,
        f"a list of models of {layout.count:,} points",
        "sweep fewer values",
    )
    columns = {name: _as_given(parameters[name], row) for name, row in layout.rows.items()}
    with _rarely_collected():
        made = _together(model, taken["model"], columns, layout) if "model" in taken else None
        points = Points(
            layout,
            made or _each("model", model, taken.get("model"), columns, layout, CompartmentModel),
            _each("initial", initial, taken.get("initial"), columns, layout, Mapping),
            {
                what: _each(what, given, taken.get(what), columns, layout, object)
                for what, given in settings.items()
            },
        )
        if made is None:
            _check_alike(points)
    return points


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Collect garbage less often: every collection would scan the models of all points."""
    before = gc.get_threshold()
    if before[0] > 0:
        gc.set_threshold(max(before[0], 100_000), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _names(what: str, function: Callable[..., Any]) -> dict[str, bool]:
    """Parameter names of a function, and whether each is required."""
    found = {}
    for name, one in inspect.signature(function).parameters.items():
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise ModelError(
                f"the function {what} takes '{one}'; expected parameters by name, such as "
                "def model(rate)"
            )
        found[name] = one.default is one.empty
    return found


def _as_given(given: Any, row: np.ndarray) -> list[Any]:
    """Values of a parameter at all points, as integers if the user gave integers."""
    whole = np.asarray(given).dtype.kind in "iu"
    values: list[Any] = row.astype(np.int64).tolist() if whole else row.tolist()
    return values


def _each(
    what: str,
    given: Any,
    names: Mapping[str, bool] | None,
    columns: Mapping[str, list[Any]],
    layout: Layout,
    kind: type,
) -> list[Any]:
    """Return value of a function at every point; anything else is repeated for all points."""
    if names is None:
        return [given] * layout.count
    mine = [name for name in names if name in columns]
    found = []
    known: dict[Any, Any] = {}  # of equal values: a network is made once, and sent once
    for number, values in enumerate(
        zip(*(columns[name] for name in mine), strict=True) if mine else [()] * layout.count
    ):
        if values in known:
            found.append(known[values])
            continue
        try:
            one = given(**dict(zip(mine, values, strict=True)))
        except Exception as error:
            said = str(error) if isinstance(error, ModelError) else repr(error)
            raise ModelError(f"{Points(layout, [], []).named(number)}{said}") from error
        if not isinstance(one, kind):
            expected = "a CompartmentModel" if kind is CompartmentModel else "a mapping"
            raise ModelError(
                f"the function {what} returns {type(one).__name__}; expected {expected}"
            )
        known[values] = one
        found.append(one)
    return found


_TOGETHER_LEAST = 16  # points
_COMPARED = 3  # points, besides the ends of the range of every parameter


def _together(
    given: Any, names: Mapping[str, bool], columns: Mapping[str, list[Any]], layout: Layout
) -> ModelsTogether | None:
    """The models of all points by one call of the function, or None if that cannot be.

    It is called with columns of numbers (`core.columns`), and then with single numbers at some
    points, for comparison.
    """
    mine = [name for name in names if name in columns]
    if layout.count < _TOGETHER_LEAST or not any(np.ptp(layout.rows[name]) for name in mine):
        return None

    @cache
    def make(point: int) -> CompartmentModel:
        model: CompartmentModel = given(**{name: columns[name][point] for name in mine})
        return model

    compared = set(np.linspace(0, layout.count - 1, _COMPARED, dtype=int).tolist())
    for name in mine:
        row = layout.rows[name]
        compared |= {int(np.argmin(row)), int(np.argmax(row))}
    try:
        whole = given(**{name: _column(columns[name], layout.rows[name]) for name in mine})
        if type(whole) is not CompartmentModel or not _is_plain(whole):
            return None
        models = ModelsTogether(whole, make, np.arange(layout.count))
        some = [make(point) for point in sorted(compared)]
        if any(one is whole or _structure(one) != _structure(whole) for one in some):
            return None
        found = numbers_of(models.of(np.array(sorted(compared))), _numbers)
        if found.tobytes() != numbers_of(some, _numbers).tobytes():
            return None
    except Exception:  # one point after another, the error is that of its point
        return None
    return models


def _column(values: list[Any], row: np.ndarray) -> Any:
    """A parameter at all points: a column, or the value of all."""
    if (row == row[0]).all():
        return values[0]
    if not isinstance(values[0], float):
        raise PointsDifferError  # of integers: often a size
    return Column(np.ascontiguousarray(row, np.float64))


def _is_plain(model: CompartmentModel) -> bool:
    """Whether all numbers of a model are those of `_numbers`."""
    stays = _holding_times(model)
    return (
        not model.divisions
        and not model.factors("susceptibility")
        and not model.factors("infectivity")
        and not model.has_own_factors
        and not model.profiles
        and all(isinstance(one, Family) for one in stays)
    )


def _are_one(models: Sequence[CompartmentModel]) -> bool:
    if isinstance(models, ModelsTogether):
        return False
    return all(model is models[0] for model in models)


_PARTS = (
    "compartments", "infections", "profiles", "progressions", "families of holding times",
    "values and groups of attributes", "susceptibility", "infectivity",
)  # fmt: skip


def _structure(model: CompartmentModel) -> tuple[Any, ...]:
    """Parts of a model that must be equal at all points, in the order of `_PARTS`."""
    return (
        model.compartments,
        [(i.susceptible, i.infected, *i.transmission_rate) for i in model.infections],
        [i.profile for i in model.infections],
        [(p.compartment, *p.targets) for p in model.progressions],
        [type(one).__name__ for one in _holding_times(model)],
        [_division(one) for p in model.progressions for one in (p.to, p.holding_time)],
        [model.susceptibility, *(_division(i.susceptibility) for i in model.infections)],
        [model.infectivity, *(_division(i.infectivity) for i in model.infections)],
    )


def _division(given: Any) -> Any:
    """What divides the nodes of a part of a model; the name of an attribute as it is."""
    if isinstance(given, ByAttribute):
        return given.division
    return given if isinstance(given, str) else None


def _holding_times(model: CompartmentModel) -> list[HoldingTime]:
    return [one for p in model.progressions for one in p.holding_times]


def _means(model: CompartmentModel) -> list[float]:
    return [one.mean for one in _holding_times(model)]


def _factors(model: CompartmentModel) -> tuple[float, ...]:
    """Numbers that multiply the rates along arcs."""
    given = [one for i in model.infections for one in (i.susceptibility, i.infectivity)]
    return tuple(value for one in given if isinstance(one, ByAttribute) for value in one.entries)


def _check_alike(points: Points) -> None:
    if _are_one(points.models):
        return
    expected = _structure(points.models[0])
    for number, model in enumerate(points.models):
        found = _structure(model)
        if found != expected:
            k = next(k for k, part in enumerate(expected) if found[k] != part)
            raise ModelError(
                f"{points.named(number)}{_PARTS[k]} of the model are {found[k]}, and "
                f"{expected[k]} at the first point; points may differ only in numbers"
            )


def _bytes_of_rows(table: np.ndarray) -> list[bytes]:
    data, width = table.tobytes(), table.itemsize * table.shape[1]
    return [data[k * width : (k + 1) * width] for k in range(len(table))]


def _numbers(model: CompartmentModel) -> list[float]:
    """Numbers of a model in a fixed order; last the codes of holding times, four each."""
    found = rates_of(model)
    for progression in model.progressions:
        for split in progression.splits:
            found += split.values()
    found += _factors(model)
    for one in _holding_times(model):
        code = one.code()
        found += (code.kind, 0 if code.times is None else len(code.times), code.a, code.b)
    return found


def _is_by_weight(initial: Initial) -> bool:
    """Whether nodes are drawn by weight."""
    return any(isinstance(v, Seeds) and v.weight is not None for v in initial.values())


def _seeds(initial: Initial, number: int) -> Any:
    """Key of initial conditions that can share a launch; a point that cannot has its `number`.

    Lists of nodes drawn by weight are made for one initial condition at a time.
    """
    if _is_by_weight(initial):
        return number
    sizes = []
    for name in sorted(initial):
        value = initial[name]
        aged = False
        if isinstance(value, Seeds):
            aged, value = bool(np.any(value.age)), value.nodes
        sizes.append((name, np.size(value) if np.ndim(value) else -1, aged))
    return tuple(sizes)
