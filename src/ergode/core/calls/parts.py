"""Join parts of an ensemble that separate calls have computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import inputs
from ergode.core.errors import PlanError

if TYPE_CHECKING:
    import xarray

REPLICATE = "replicate"

# What has to agree beside the inputs: what a call has chosen.
_CHOSEN = (
    "engine", "version", "seed", "method", "precision", "rtol", "atol", "lower_threshold",
    "scale_threshold", "smoothed",
)  # fmt: skip
# Whole numbers that are not counts of work.
_SETTINGS = (
    "common_random_numbers", "exact", "first_replicate", "lower_threshold", "max_steps",
    "neutrino_losses", "node_count", "order", "reference_control", "scale_threshold", "seed",
    "smoothed",
)  # fmt: skip
# Numbers of members, which are added along their own dim alone.
_EXTENTS = {"replicates": (REPLICATE,), "zones": ("zone",)}
# Lists that lie beside a list of cases, and are joined as it is.
_BESIDE = "event"
# Dims whose items lie end to end, and the variable that says where those of a member begin.
_END_TO_END = {"cell": "cell_start"}


def concat(parts: Sequence[xarray.Dataset], dim: str = REPLICATE) -> xarray.Dataset:
    """Join parts of an ensemble: ``replicates=range(0, 50)`` and ``replicates=range(50, 100)``.

    The result equals that of one call bit for bit, but for attributes that say how long it took,
    on which device it ran, and how much work it was. Cells of densities that are joined along an
    inner dim are in another order.

    Parameters
    ----------
    parts : sequence of xarray.Dataset
        Results of one engine for one model and seed. Parts in replicates may come in any order.
    dim : str
        Dim along which they are parts: ``"replicate"``; or ``"zone"``, ``"trajectory"``,
        ``"point"`` or the name of a swept parameter, along which they are joined as they come.

    Returns
    -------
    xarray.Dataset
        Attributes that count work are sums, and times of computing as well. Estimates of errors
        are the largest.

    Raises
    ------
    PlanError
        The parts belong to different ensembles, replicates are missing or present twice, the
        results are statistics over replicates, which do not determine those of the whole, or
        random numbers depend on the place in a call, because of ``common_random_numbers=False``.

    Examples
    --------
    >>> import ergode
    >>> network = ergode.ReactionNetwork({"X": 9}, [ergode.Reaction("X -> 0", rate_constant=1.0)])
    >>> def part(numbers):
    ...     return ergode.stochastic.simulate(
    ...         network, times=[0, 1], replicates=numbers, device="cpu"
    ...     )
    >>> whole = ergode.concat([part(range(2, 5)), part(range(2))])
    >>> bool((whole["amount"] == part(5)["amount"]).all())
    True
    """
    import xarray

    found = list(parts)
    if not found or not all(isinstance(part, xarray.Dataset) for part in found):
        raise PlanError(f"parts is {parts!r:.80}; expected one or more results (Datasets)")
    if dim != REPLICATE and not found[0].attrs.get("common_random_numbers", 1):
        raise PlanError(
            "the parts have common_random_numbers=False: members of different parts have equal "
            "random numbers; compute them in one call, or join replicates"
        )
    return join(found, dim)


def join(parts: list[xarray.Dataset], dim: str) -> xarray.Dataset:
    """Join parts whose random numbers are those of one call."""
    import xarray

    found = parts
    along = "case" if "case" in found[0].dims and dim == REPLICATE else dim
    if along not in found[0].dims:
        if dim == REPLICATE:
            _begin(found[0])
        raise PlanError(f"the parts have no dim '{along}'; they have {_listed(found[0].dims)}")
    for number, part in enumerate(found[1:], 1):
        _check_same(found[0], part, number, dim)
    if dim == REPLICATE:
        found = _in_order(found)
    found, ragged = _end_to_end(found)
    if along == "case":
        found, ragged = _beside(found)
    _refuse_statistics(found[0], along)
    for number, part in enumerate(found[1:], 1):
        for name, index in found[0].indexes.items():
            if name != dim and not index.equals(part.indexes[name]):
                raise PlanError(f"part {number} has other values of '{name}' than part 0")
    whole = xarray.concat(
        _padded(found, along), along, data_vars="minimal", coords="minimal", compat="equals",
        join="exact", combine_attrs="drop",
    )  # fmt: skip
    if along == "case" and "point" in whole:
        whole = whole.isel(case=np.argsort(whole["point"].values, kind="stable"))
    if dim in whole.coords and all(_is_counted(part, dim) for part in found):
        whole = whole.assign_coords({dim: np.arange(whole.sizes[dim])})
    whole = whole.assign(ragged)[list(parts[0].data_vars)]
    for name, variable in whole.variables.items():
        variable.attrs = dict(parts[0].variables[name].attrs)
    return whole.assign_attrs(_attributes(found, dim))


def _end_to_end(
    parts: list[xarray.Dataset],
) -> tuple[list[xarray.Dataset], dict[str, xarray.Variable]]:
    """Parts without what lies end to end, and that of all of them."""
    import xarray

    ragged: dict[str, xarray.Variable] = {}
    for dim, begins in _END_TO_END.items():
        if dim not in parts[0].dims:
            continue
        names = [str(name) for name, one in parts[0].data_vars.items() if dim in one.dims]
        ragged |= {
            name: xarray.Variable(
                parts[0][name].dims,
                np.concatenate(
                    [part[name].values for part in parts], parts[0][name].get_axis_num(dim)
                ),
            )
            for name in names
        }
        starts = np.cumsum([0, *(part.sizes[dim] for part in parts)])
        parts = [
            part.drop_vars(names).assign({begins: part[begins] + start})
            for part, start in zip(parts, starts, strict=False)
        ]
    return parts, ragged


def _beside(
    parts: list[xarray.Dataset],
) -> tuple[list[xarray.Dataset], dict[str, xarray.Variable]]:
    """Parts without the list beside that of cases, and that list of all of them, by point."""
    import xarray

    names = [str(name) for name, one in parts[0].data_vars.items() if _BESIDE in one.dims]
    columns = {name: np.concatenate([part[name].values for part in parts]) for name in names}
    if f"{_BESIDE}_point" in columns:
        order = np.argsort(columns[f"{_BESIDE}_point"], kind="stable")
        columns = {name: each[order] for name, each in columns.items()}
    listed = {name: xarray.Variable((_BESIDE,), each) for name, each in columns.items()}
    return [part.drop_vars(names) for part in parts], listed


def _padded(parts: list[xarray.Dataset], along: str) -> list[xarray.Dataset]:
    """Parts with equal sizes: NaN follows the last steps of parts with fewer steps."""
    sizes = {
        str(dim): max(part.sizes.get(dim, 0) for part in parts)
        for dim in parts[0].dims if dim != along and dim not in parts[0].coords
    }  # fmt: skip
    missing = [{d: (0, n - part.sizes[d]) for d, n in sizes.items()} for part in parts]
    return [
        part.pad(widths) if any(more for _, more in widths.values()) else part
        for part, widths in zip(parts, missing, strict=True)
    ]


def _check_same(first: xarray.Dataset, other: xarray.Dataset, number: int, dim: str) -> None:
    # Steps that are halved to a tolerance differ between trajectories.
    for name in (*_CHOSEN, *(["step"] if dim == REPLICATE else [])):
        one, two = (part.attrs.get(name) for part in (first, other))
        if not np.array_equal(one, two):  # type: ignore[arg-type]
            _refuse(number, name, repr(one), repr(two))
    one, two = (part.attrs.get(inputs.ATTRIBUTE) for part in (first, other))
    if one is not None and two is not None:
        but = ("replicates",) if dim == REPLICATE else ()
        rows = _has_rows(first, dim), _has_rows(other, dim)
        found = inputs.difference(one, two, but=but, rows=rows)
        if found is not None:
            _refuse(number, *found)
    elif one != two:
        lacks = 0 if one is None else number
        raise PlanError(
            f"part {lacks} has no attribute '{inputs.ATTRIBUTE}', and other parts have one; "
            "without it, parts of different calls cannot be told apart"
        )
    if set(first.variables) != set(other.variables):
        unlike = sorted(map(str, set(first.variables) ^ set(other.variables)))
        raise PlanError(f"only one of part 0 and part {number} has '{unlike[0]}'")


def _refuse(number: int, name: str, one: str, two: str) -> None:
    raise PlanError(
        f"part {number} has {name} {two} and part 0 has {one}; they are not parts of one ensemble"
    )


# Dims of a value of one member, if it is not a number, in objects that are arguments.
_DEPTHS: dict[str, dict[str, int]] = {
    "prior": {"prior": 0}, "measurements": {"value": 1, "covariance": 2}, "maneuvers": {"change": 1}
}  # fmt: skip
_USUAL_DEPTHS = {"values": 1, "atol": 1}  # of a course of time, and of all species


def _has_rows(part: xarray.Dataset, dim: str) -> inputs.IsRow:
    """Whether an entry of the inputs has a row for each member along a dim."""
    dims = inputs.rows_of(part.attrs[inputs.ATTRIBUTE])

    def is_row(argument: str, path: tuple[Any, ...], entry: Any, in_grid: bool) -> bool:
        if argument not in dims or in_grid:
            return in_grid and path == (dim,)
        if isinstance(entry, dict) and "sizes" in entry:  # a result of the members
            return dims[argument] == dim and entry["sizes"].get(dim) == part.sizes.get(dim)
        name = path[-1] if path else argument
        usual = {name: _USUAL_DEPTHS.get(name, 0)}
        depth = _DEPTHS.get(argument, usual).get(name)
        if dims[argument] != dim or depth is None or name == "times":
            return False
        if argument == "initial" and name in part and "time" in part[name].dims:
            depth = part[name].ndim - 1 - part[name].get_axis_num("time")  # of an array
        return inputs.length_of(entry, depth) == part.sizes.get(dim)

    return is_row


def _in_order(parts: list[xarray.Dataset]) -> list[xarray.Dataset]:
    """Parts by their first replicate, without gaps."""
    ordered = sorted(parts, key=_begin)
    for one, two in zip(ordered, ordered[1:], strict=False):
        stop, start = _begin(one) + int(one.attrs["replicates"]), _begin(two)
        if start != stop:
            which = f"{stop} to {start - 1} are missing" if start > stop else (
                f"{start} to {stop - 1} are in two parts")  # fmt: skip
            raise PlanError(f"replicates {which}; expected parts that follow each other")
    return ordered


def _begin(part: xarray.Dataset) -> int:
    if "replicates" not in part.attrs:
        raise PlanError("a part has no replicates; name the dim along which parts are joined")
    return int(part.attrs.get("first_replicate", 0))


def _is_counted(part: xarray.Dataset, dim: str) -> bool:
    """Whether the items along a dim are only numbered, each part from 0."""
    return dim != REPLICATE and np.array_equal(part[dim], np.arange(part.sizes[dim]))


def _refuse_statistics(part: xarray.Dataset, along: str) -> None:
    over = [
        str(name) for name, variable in part.data_vars.items()
        if along not in variable.dims and variable.dims
    ]  # fmt: skip
    if over:
        raise PlanError(
            f"'{over[0]}' has no dim '{along}', so it cannot be computed from those of the parts; "
            "join results of single replicates"
        )


def _attributes(parts: Sequence[xarray.Dataset], dim: str) -> dict[str, Any]:
    """Attributes of the whole: sums of counts and times, and values that all parts share."""
    found = {}
    for name in parts[0].attrs:
        found[name] = _attribute(str(name), [part.attrs.get(name) for part in parts], dim)
    return found


def _attribute(name: str, values: list[Any], dim: str) -> Any:
    if name == inputs.ATTRIBUTE:
        return inputs.joined(values, dim)
    same = all(np.array_equal(value, values[0]) for value in values)
    if name == "interrupted":
        return max(map(int, values))
    if name == "first_replicate":
        return values[0]
    is_largest = name in _SETTINGS or name.endswith("_most")
    is_count = not is_largest and dim in _EXTENTS.get(name, (dim,))
    is_count = is_count and (name, dim) != ("points", "zone")  # zones are at every point
    if is_count and all(isinstance(value, int) for value in values):
        return sum(values)
    numbers = all(isinstance(value, int | float) for value in values)
    if numbers and name.endswith("_seconds"):
        return sum(values)
    if same:
        return values[0]
    if numbers:
        return min(values) if name == "step" else max(values)
    return ", ".join(dict.fromkeys(map(str, values)))


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
