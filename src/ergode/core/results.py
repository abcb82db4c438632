"""Results: labelled arrays checked against a registry, with their provenance, in files.

Every engine registers the variables it may return: name, dims, type, unit, meaning.  Datasets are
built here and checked against the registry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import files
from ergode.core.errors import FailureWarning, PlanError, ReadError
from ergode.core.launch import warn
from ergode.core.status import Status, failures, flags
from ergode.core.stopwatch import Stopwatch

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Variable:
    """What a variable of a Dataset is.

    Attributes
    ----------
    name : str
    dims : tuple of str
        `SWEPT` stands for the dims of a sweep, none or more; `STRATA` for the dims of groups of
        nodes.
    dtype : str
        NumPy type, or a kind such as ``"floating"``.
    unit : str
        ``"1"`` for pure numbers and counts; ``"time"`` for the model's own unit of time.
    meaning : str
        One sentence.
    optional : bool
        Whether a result may lack it.
    """

    name: str
    dims: tuple[str, ...]
    dtype: str
    unit: str
    meaning: str
    optional: bool = False


SWEPT = "<swept>"
STRATA = "<strata>"

_REGISTRY: dict[tuple[str, str], tuple[Variable, ...]] = {}
_FURTHER: dict[tuple[str, str], tuple[str, ...]] = {}  # coordinates that are no dim of these
_DERIVED: dict[tuple[str, str], tuple[str, ...]] = {}  # what analyses of these call their results


def register(
    engine: str,
    output: str,
    variables: Sequence[Variable],
    coords: Sequence[str] = (),
    derived: Sequence[str] = (),
) -> None:
    """Declare what an engine returns for one value of `output`.

    Its variables, its coordinates that have not the name of a dim, and names that the engine's
    analyses of it give to what they return beside its labels.
    """
    _REGISTRY[engine, output] = tuple(variables)
    _FURTHER[engine, output] = tuple(coords)
    _DERIVED[engine, output] = tuple(derived)


def registered() -> dict[tuple[str, str], tuple[Variable, ...]]:
    """All declared variables by (engine, output)."""
    return dict(_REGISTRY)


def names(engine: str, output: str) -> frozenset[str]:
    """Names of variables, dims and coordinates of a result, which no swept value can have.

    They include what only some results of this `output` have, and what analyses add.  An
    unknown output has none.
    """
    declared = _REGISTRY.get((engine, output), ())
    dims = {"stratum" if dim == STRATA else dim for one in declared for dim in one.dims}
    further = (*_FURTHER.get((engine, output), ()), *_DERIVED.get((engine, output), ()))
    return frozenset({one.name for one in declared} | dims - {SWEPT} | set(further))


def dataset(
    engine: str,
    output: str,
    values: Mapping[str, np.ndarray],
    *,
    coords: Mapping[str, Any],
    attrs: Mapping[str, Any],
    swept: Sequence[str] = (),
    strata: Sequence[str] = (),
    computed_rows: np.ndarray | None = None,
    has_warned: bool = False,
    own: Sequence[Variable] = (),
) -> xarray.Dataset:
    """Build a Dataset of registered variables.

    What was not computed is missing in every engine: NaN, for which integers become float64 (only
    where something is missing).  A mean over replicates thus leaves it out.  A warning says how
    many failed, and why.

    Parameters
    ----------
    swept, strata : sequence of str
        The dims that `SWEPT` and `STRATA` stand for.
    computed_rows : ndarray of int, shape of ``status``, optional
        How many times of the grid each replicate (zone, trajectory) reached with values that
        hold; what lies beyond becomes missing in the variables with those dims and ``time``.
        Without it a failed one keeps what the engine wrote.
    has_warned : bool
        Whether the engine itself has warned of failures.
    own : sequence of Variable
        Variables that have the names of the model's own.

    Raises
    ------
    TypeError
        A value is missing, undeclared, or not of the declared dims or type, or a coordinate is
        undeclared and no label of what is swept: an engine's mistake.
    """
    import xarray

    import ergode.core.accessor  # noqa: F401  (registers `dataset.ergode`)

    declared = {variable.name: variable for variable in (*_REGISTRY[engine, output], *own)}
    needed = {name for name, variable in declared.items() if not variable.optional}
    if not needed <= set(values) <= set(declared):
        raise TypeError(f"{engine}/{output} declares {set(declared)}, got {set(values)}")
    known = names(engine, output)
    for name, given in coords.items():
        if name not in known and not _dims_of(name, given) <= {*swept}:
            raise TypeError(f"{engine}/{output}: the coordinate '{name}' is not declared")
    several = {SWEPT: swept, STRATA: strata}
    arrays = {}
    for name, variable in declared.items():
        if name not in values:
            continue
        value = np.asarray(values[name])
        kind = getattr(np, variable.dtype)
        dims = [name for dim in variable.dims for name in several.get(dim, (dim,))]
        if value.ndim != len(dims) or not np.issubdtype(value.dtype, kind):
            raise TypeError(
                f"{engine}/{output}: '{name}' is {value.dtype}{value.shape}, declared "
                f"{variable.dtype}{tuple(dims)}"
            )
        if computed_rows is not None and "time" in dims:
            value = _only_computed(value, dims, computed_rows)
        notes: dict[str, Any] = {"units": variable.unit, "long_name": variable.meaning}
        if name == "status":
            notes |= flags()
            if not has_warned:
                _warn_of_failures(value, dims)
        arrays[name] = xarray.Variable(dims, value, notes)
    return xarray.Dataset(arrays, coords=_coordinates(coords), attrs=dict(attrs))


def _dims_of(name: str, coordinate: Any) -> set[str]:
    if isinstance(coordinate, tuple):
        return {coordinate[0]}
    return set(getattr(coordinate, "dims", {name} if np.ndim(coordinate) else ()))


_COORDINATES: dict[Any, Any] = {}
"""Short coordinates of earlier results, by content: to index them is a fifth of a tiny call."""


def _coordinates(coords: Mapping[str, Any]) -> Any:
    """Coordinates with their indexes, which nobody can change: equal ones are made once."""
    key = []
    for name, given in coords.items():
        values = np.asarray(None if isinstance(given, tuple) else given)
        if values.ndim != 1 or values.size > _SHORT or values.dtype.hasobject:
            return _indexed(coords)
        key.append((name, values.dtype.str, values.tobytes()))
    found = _COORDINATES.get(tuple(key))
    if found is None:
        if len(_COORDINATES) >= _KEPT:
            _COORDINATES.clear()
        found = _COORDINATES[tuple(key)] = _indexed(coords)
    return found


def _indexed(coords: Mapping[str, Any]) -> Any:
    """Coordinates with indexes of pandas: to make one of an array, xarray would import CuPy."""
    import pandas
    import xarray

    variables, indexes = dict(coords), {}
    for name, given in coords.items():
        values = np.asarray(None if isinstance(given, tuple) else given)
        if values.ndim == 1:
            index = xarray.indexes.PandasIndex(pandas.Index(values), name, values.dtype)
            variables[name], indexes[name] = index.create_variables()[name], index
    return xarray.Coordinates(variables, indexes)


_SHORT = 10_000  # values
_KEPT = 16


def _only_computed(value: np.ndarray, dims: Sequence[str], rows: np.ndarray) -> np.ndarray:
    """`value` with NaN from the first missing time on; `rows` says how many times were reached."""
    time = list(dims).index("time")
    if time != rows.ndim:
        return value  # a statistic: its engine left the failed ones out
    if (rows >= value.shape[time]).all():
        return value
    beyond = np.arange(value.shape[time]) >= rows[..., None]
    floating = np.issubdtype(value.dtype, np.floating)
    missing = value.dtype.type(np.nan) if floating else np.nan
    # Several times as fast as to assign: an interruption of a large run waits for it.
    return np.where(beyond.reshape(*beyond.shape, *(1,) * (value.ndim - time - 1)), missing, value)


def _warn_of_failures(codes: np.ndarray, dims: Sequence[str]) -> None:
    failed = failures(codes, dims)
    failed.pop(Status.NOT_RUN, None)  # an interruption has a warning of its own
    if failed:
        warn(" ".join(failed.values()), FailureWarning)


def provenance(stopwatch: Stopwatch | None = None, **work: Any) -> dict[str, Any]:
    """Attributes that say where a result comes from, in types that files can hold.

    Those of a call that computes include the seconds of its `stopwatch`.
    """
    import ergode

    attrs: dict[str, Any] = {"version": ergode.__version__}
    work |= stopwatch.seconds() if stopwatch else {}
    for name, value in work.items():
        attrs[name] = value.item() if isinstance(value, np.generic) else value
    return attrs


def save(dataset: xarray.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a Dataset to a file, all of it or nothing.

    Parameters
    ----------
    dataset : xarray.Dataset
    path : path
        ``.nc`` writes NetCDF-4, ``.zarr`` a Zarr store (needs the ``zarr`` package).
    overwrite : bool
        Replace a result that this function wrote under this name.  Anything else that has the
        name is never replaced.

    Returns
    -------
    Path
        Where it was written. The file appears under this name only once it is complete.

    Raises
    ------
    PlanError
        The suffix is neither, the folder does not exist, or something has the name.
    WriteError
        The disk is full, or the file could not be written for another such reason; the Dataset
        is as it was, and so is what had the name.

    Examples
    --------
    >>> import ergode, xarray, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> ergode.save(xarray.Dataset({"x": 1.0}), folder / "x.nc").name
    'x.nc'
    >>> ergode.save(xarray.Dataset({"x": 2.0}), folder / "x.nc", overwrite=True).name
    'x.nc'
    """
    import ergode

    path = check_dataset_path(path)
    store = path.suffix == ".zarr"
    written = dataset.assign_attrs({files.MARK: ergode.__version__})
    with files.new_file(path, overwrite=overwrite, written_here=_OWN[path.suffix]) as partial:
        if store:
            written.to_zarr(partial, mode="w")
        else:
            file = files.SafeFile(partial)
            try:
                written.to_netcdf(file, engine="h5netcdf", encoding=_encoding(written))
            finally:
                file.finish()
    return path


_OWN = {".nc": files.is_own_netcdf, ".zarr": files.is_own_store}


def check_dataset_path(path: str | os.PathLike[str]) -> Path:
    """The path, if it names a file that `save` can write; else a PlanError."""
    path = Path(path)
    if path.suffix not in _OWN:
        raise PlanError(f"cannot write '{path.name}': expected a name that ends in .nc or .zarr")
    return path


def check_new_dataset(path: Path, *, overwrite: bool, way: str) -> None:
    """Refuse, before anything is computed, a path that `save` would refuse.

    Raises
    ------
    PlanError
        As `ergode.core.files.check_new`.
    """
    path = check_dataset_path(path)
    files.check_new(path, overwrite=overwrite, written_here=_OWN[path.suffix], way=way)


def _encoding(dataset: xarray.Dataset) -> dict[str, Any]:
    large = (name for name, value in dataset.data_vars.items() if value.nbytes > 1 << 20)
    return {str(name): {"zlib": True, "complevel": 1} for name in large}


def open_dataset(path: str | os.PathLike[str]) -> xarray.Dataset:
    """Read a Dataset that `save` wrote, wholly into memory.

    Raises
    ------
    ReadError
        The file is not there, or is not such a file.
    """
    import xarray

    import ergode.core.accessor  # noqa: F401  (registers `dataset.ergode`)

    path = Path(path)
    if not path.exists():
        raise ReadError(f"'{path}' does not exist")
    try:
        if path.suffix == ".zarr":
            found = xarray.open_zarr(path).load()
        else:
            with xarray.open_dataset(path, engine="h5netcdf") as opened:
                found = opened.load()
    except Exception as error:  # HDF5 and Zarr raise many kinds for a file of another format
        raise ReadError(f"'{path}' cannot be read as a Dataset: {error}") from error
    found.attrs.pop(files.MARK, None)
    return found
