"""Values for many runs of a model at once: numbers, paired arrays, crossed grids."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers, did_you_mean
from ergode.core.calls.launch import check_room
from ergode.core.errors import ModelError, PlanError
from ergode.core.words import counted

TRAJECTORY = "trajectory"
"""Dimension of paired values, for ensembles of equations."""
POINT = "point"
"""Dimension of paired values, for sweeps of all other models."""
REPLICATE = "replicate"
REPLICATES_MOST = 2**32 - 1
"""Upper bound (exclusive) of the number of a replicate, which is a key of 32 bits."""


class Implied(str):
    """Name of a parameter that has a value without being given: a number, or one for each run."""

    value: Any


class Grid(Mapping[str, Any]):
    """Named values; every array is crossed with every other, see `grid`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"grid({', '.join(f'{name}={value!r}' for name, value in self.items())})"


def grid(**values: Any) -> Grid:
    """Cross values: each array becomes a dimension of the result; a number applies to all points.

    Parameters
    ----------
    **values : float or array_like, shape [value_count]
        By name of a parameter or variable.

    Returns
    -------
    Grid
        For `parameters` or `initial` of any engine.

    Examples
    --------
    >>> import ergode
    >>> sorted(ergode.grid(rho=[20.0, 28.0], sigma=10.0))
    ['rho', 'sigma']
    """
    return Grid(values)


@dataclass(frozen=True)
class Layout:
    """The values of every trajectory or point, flat."""

    dims: tuple[str, ...]  # dimensions that are swept, slowest first; none for a single one
    shape: tuple[int, ...]  # their lengths
    coords: dict[str, tuple[str, np.ndarray]]  # coordinates of a Dataset: name to (dim, values)
    # [trajectory_count]: values of each name; a view without memory of its own where all values are
    # equal
    rows: dict[str, np.ndarray]

    @property
    def count(self) -> int:
        """Number of trajectories, or points."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def beside(self) -> np.ndarray:
        """Index of each trajectory in the paired arrays, shape [trajectory_count]."""
        if TRAJECTORY not in self.dims:
            return np.zeros(self.count, np.int64)
        places = np.unravel_index(np.arange(self.count), self.shape)
        return np.asarray(places[self.dims.index(TRAJECTORY)])


def lay_out(
    # for each argument (``"initial"``, ``"parameters"``) the names it must have
    expected: Mapping[str, Sequence[str]],
    given: Mapping[str, Mapping[str, Any]],  # the user's values for each argument
    # other inputs that are paired with arrays of values: name for messages, and length
    beside: Sequence[tuple[str, int]] = (),
    *,
    # names in the result (see `ergode.core.results.names`). Arrays of values label the result, and
    # cannot have these names.
    reserved: Collection[str],
    along: str = TRAJECTORY,  # dimension of paired values
    owner: str = "the vector field",  # the model that has the names, for messages
) -> Layout:
    """Lay out paired or crossed values.

    Raises a ModelError if a name is missing, unknown or reserved, a value is not a finite number or
    a list of them, or paired arrays differ in length. Raises a PlanError if the points do not fit
    into memory.
    """
    values: dict[str, np.ndarray] = {}
    dim_of: dict[str, str] = {}
    sizes: dict[str, int] = {}
    first: dict[str, str] = {}

    def side_by_side(name: str, dim: str, size: int) -> None:
        if sizes.setdefault(dim, size) != size:
            raise ModelError(
                f"'{name}' has {counted(size, 'value')} and '{first[dim]}' has {sizes[dim]}; "
                "paired arrays must have equal length - use ergode.grid to cross them"
            )
        first.setdefault(dim, name)

    for name, size in beside:
        side_by_side(name, along, size)
    for argument, names in expected.items():
        mapping = given[argument]
        if argument == "parameters" and isinstance(mapping, Mapping):
            fixed = {name: np.asarray(name, float) for name in names if is_number(name)}
            fixed |= {name: np.asarray(name.value) for name in names if isinstance(name, Implied)}
            names = [name for name in names if name in mapping or name not in fixed]
            for name in [name for name in fixed if name not in mapping]:
                values[name] = fixed[name]
                if fixed[name].ndim:
                    refuse_reserved({name: fixed[name]}, {along, *reserved})
                    dim_of[name] = along
                    side_by_side(name, along, fixed[name].size)
        _check_names(argument, names, mapping, owner)
        refuse_reserved(mapping, {along, *reserved})
        # Crossed dimensions are in the order that the user gave.
        for name in mapping:
            value = _numbers(argument, name, mapping[name])
            values[name] = value
            if value.ndim == 0:
                continue
            dim = name if isinstance(mapping, Grid) else along
            dim_of[name] = dim
            side_by_side(name, dim, value.size)
    dims = tuple(sorted(sizes, key=lambda dim: dim == along))
    shape = tuple(sizes[dim] for dim in dims)
    _check_room(dims, shape, len(dim_of))
    rows = {}
    for name, value in values.items():
        lengths = [sizes[dim] if dim_of.get(name) == dim else 1 for dim in dims]
        row = np.broadcast_to(value.reshape(lengths), shape)
        rows[name] = (
            row.ravel() if value.ndim else np.broadcast_to(value, int(np.prod(shape, dtype=int)))
        )
    coords = {name: (dim, values[name]) for name, dim in dim_of.items()}
    return Layout(dims, shape, coords, rows)


def _check_room(dims: Sequence[str], shape: Sequence[int], row_count: int) -> None:
    sizes = " x ".join(f"{size:,} of '{dim}'" for dim, size in zip(dims, shape, strict=True))
    check_room(8 * math.prod(shape) * (row_count + 1), f"a sweep of {sizes}", "sweep fewer values")


def is_number(name: str) -> bool:
    """Whether a parameter is a number of an equation, which is its name and value: a delay."""
    return name[:1] in {"-", *"0123456789"}


def _check_names(argument: str, names: Sequence[str], mapping: Any, owner: str) -> None:
    if not isinstance(mapping, Mapping):
        raise ModelError(
            f"{argument} is {type(mapping).__name__}; expected values by name, for "
            f"{', '.join(names) or 'nothing'}"
        )
    for name in mapping:
        if name not in names:
            hint = did_you_mean(name, names)
            raise ModelError(
                f"{argument} has '{name}', which {owner} does not have; it has "
                f"{', '.join(names) or 'none'}{hint}"
            )
    missing = [f"'{name}'" for name in names if name not in mapping]
    if missing:
        raise ModelError(f"{argument} has no value for {', '.join(missing)}")


def refuse_reserved(values: Any, reserved: Collection[str], *, numbers: bool = False) -> None:
    """Refuse labels that are already used in the result.

    Parameters
    ----------
    values : mapping
        By name; invalid values are refused elsewhere.
    reserved : collection of str
        Names in the result.
    numbers : bool
        Whether single numbers label the result too.

    Raises a ModelError if an array of values has such a name.
    """
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if name in reserved and (numbers or isinstance(value, Iterable) or np.ndim(value)):
            remedy = "" if numbers else ", or give it one value"
            raise ModelError(
                f"'{name}' cannot label the result: the name is already used there; rename it in "
                f"the model{remedy}"
            )


def _numbers(argument: str, name: str, value: Any) -> np.ndarray:
    array = None if isinstance(value, bool | np.bool_) else as_numbers(value)
    if array is None:
        raise ModelError(
            f"{argument} of '{name}' is {value!r}; expected a number or a list of numbers"
        )
    if array.ndim > 1 or array.size == 0:
        raise ModelError(
            f"{argument} of '{name}' has shape {array.shape}; expected a number or a list of "
            "numbers"
        )
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        where = f"[{bad[0]}]" if array.ndim else ""
        raise ModelError(
            f"{argument} of '{name}'{where} is {array.flat[bad[0]]}; expected finite numbers"
        )
    return array


def replicated(layout: Layout, numbers: range) -> Layout:
    """Repeat all trajectories for each number of a replicate, along a first dim ``replicate``.

    Trajectories are numbered replicate by replicate, so that their number is the same in any range
    of replicates that begins at 0.

    Raises a PlanError if the trajectories do not fit into memory.
    """
    count = len(numbers)
    dims, shape = (REPLICATE, *layout.dims), (count, *layout.shape)
    _check_room(dims, shape, len(layout.rows))
    return Layout(
        dims,
        shape,
        {**layout.coords, REPLICATE: (REPLICATE, np.arange(numbers.start, numbers.stop))},
        {name: np.tile(row, count) for name, row in layout.rows.items()},
    )


def replicates_apart(replicates: range, point_count: int, common: bool) -> int:
    """Distance between the keys of equal replicates of successive points; 0 if these are `common`.

    Points with random numbers of their own divide all numbers of replicates among them: replicate
    k of point j is replicate j * distance + k of a call for this point alone. This depends on
    nothing but the number of points.

    Raises a PlanError if a point has fewer numbers than replicates.
    """
    if common:
        return 0
    apart = REPLICATES_MOST // point_count
    if replicates.stop > apart:
        raise PlanError(
            f"replicates end at {replicates.stop - 1:,}, and with common_random_numbers=False each "
            f"of {point_count:,} points has the numbers 0 to {apart - 1:,}; use fewer replicates "
            "or points"
        )
    return apart


def lay_out_arrays(
    shapes: Mapping[str, tuple[int, ...]], initial: Mapping[str, Any],
    parameters: Sequence[str], given: Mapping[str, Any], *, reserved: Collection[str],
) -> Layout:  # fmt: skip
    """Lay out initial values of variables that are arrays, and parameters.

    Parameters
    ----------
    shapes : mapping of str to tuple of int
        Shape of each variable.
    initial : mapping of str to array_like
        For each variable a number, an array of its shape, or an array with the trajectories as an
        additional first dimension.
    parameters : sequence of str
    given : mapping of str to float or array_like
        Their values.
    reserved : collection of str
        As for `lay_out`.

    Returns
    -------
    Layout
        Rows of variables are arrays, shape [unknown_count, trajectory_count].

    Raises
    ------
    ModelError
        See `lay_out`.
    """
    _check_names("initial", list(shapes), initial, "the vector field")
    values, beside = {}, []
    for name, shape in shapes.items():
        try:
            value = np.asarray(initial[name], np.float64)
        except (TypeError, ValueError):
            raise ModelError(f"initial of '{name}' is not an array of numbers") from None
        if value.ndim == len(shape) + 1 and value.shape[1:] == shape and value.size:
            if isinstance(initial, Grid):
                raise ModelError(f"initial of '{name}' has an array for each trajectory; these "
                                 "are paired, and not possible in ergode.grid")  # fmt: skip
            beside.append((name, value.shape[0]))
        elif value.ndim and value.shape != shape:
            raise ModelError(
                f"initial of '{name}' has shape {value.shape}; expected a number, {shape}, or "
                f"[trajectory_count] and then {shape}"
            )
        bad = np.argwhere(~np.isfinite(value))
        if bad.size:
            where = f"[{', '.join(map(str, bad[0]))}]" if value.ndim else ""
            raise ModelError(
                f"initial of '{name}'{where} is {value[tuple(bad[0])]}; expected finite numbers"
            )
        values[name] = value
    layout = lay_out({"parameters": parameters}, {"parameters": given}, beside, reserved=reserved)
    rows = dict(layout.rows)
    for name, shape in shapes.items():
        value, size = values[name], int(np.prod(shape))
        if value.ndim > len(shape):
            rows[name] = value.reshape(-1, size).T[:, layout.beside]
        else:
            one = np.broadcast_to(value, shape).reshape(size, 1)
            rows[name] = np.broadcast_to(one, (size, layout.count))
    return Layout(layout.dims, layout.shape, layout.coords, rows)


def stacked(
    rows: Mapping[str, np.ndarray], names: Sequence[str], count: int, dtype: Any
) -> np.ndarray:
    """The rows of some names, stacked, shape [row, trajectory_count]."""
    parts = [np.asarray(rows[name], dtype).reshape(-1, count) for name in names]
    return np.concatenate(parts) if parts else np.zeros((0, count), dtype)
