"""Results: labelled arrays with provenance, checked against a registry, and saved to files.

Every engine registers the variables it may return: name, dims, type, unit, meaning.  Datasets are
built here and checked against the registry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ergode.core import files, log
from ergode.core.calls import resident
from ergode.core.calls.launch import warn
from ergode.core.devices.foreign import is_on_cuda
from ergode.core.errors import FailureWarning, PlanError, ReadError
from ergode.core.status import Status, failures, flags
from ergode.core.stopwatch import Stopwatch

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Variable:
    """Declaration of a Dataset variable."""

    name: str
    # `SWEPT` stands for the dims of a sweep (zero or more); `STRATA` for the dims of groups of
    # nodes; `PLACES` for the axes of a grid in space
    dims: tuple[str, ...]
    dtype: str  # NumPy type, or a kind such as ``"floating"``
    unit: str  # ``"1"`` for pure numbers and counts; ``"time"`` for the model's own unit of time
    meaning: str  # one sentence
    optional: bool = False  # whether a result may lack it


SWEPT = "<swept>"
STRATA = "<strata>"
PLACES = "<places>"
_NAMES_FOR = {SWEPT: (), STRATA: ("stratum",), PLACES: ("x", "y", "z")}

_REGISTRY: dict[tuple[str, str], tuple[Variable, ...]] = {}
_FURTHER: dict[tuple[str, str], tuple[str, ...]] = {}  # non-dimension coordinates
_DERIVED: dict[tuple[str, str], tuple[str, ...]] = {}  # names that analyses add


def register(
    engine: str,
    output: str,
    variables: Sequence[Variable],
    coords: Sequence[str] = (),
    derived: Sequence[str] = (),
) -> None:
    """Declare what an engine returns for one value of `output`.

    This covers its variables, its non-dimension coordinates, and the further names that the
    engine's analyses of this output return.
    """
    _REGISTRY[engine, output] = tuple(variables)
    _FURTHER[engine, output] = tuple(coords)
    _DERIVED[engine, output] = tuple(derived)


def registered() -> dict[tuple[str, str], tuple[Variable, ...]]:
    """All declared variables by (engine, output)."""
    return dict(_REGISTRY)


def names(engine: str, output: str) -> frozenset[str]:
    """Names of variables, dims and coordinates of a result; a swept value cannot have them.

    They include names that only some results of this `output` have, and names that analyses add.
    An unknown output has none.
    """
    declared = _REGISTRY.get((engine, output), ())
    dims = {name for one in declared for dim in one.dims for name in _NAMES_FOR.get(dim, (dim,))}
    further = (*_FURTHER.get((engine, output), ()), *_DERIVED.get((engine, output), ()))
    return frozenset({one.name for one in declared} | dims | set(further))


def dataset(
    engine: str,
    output: str,
    values: Mapping[str, Any],
    *,
    coords: Mapping[str, Any],
    attrs: Mapping[str, Any],
    swept: Sequence[str] = (),
    strata: Sequence[str] = (),
    places: Sequence[str] = (),
    computed_rows: np.ndarray | None = None,
    has_warned: bool = False,
    hints: Mapping[Status, str] = MappingProxyType({}),
    own: Sequence[Variable] = (),
) -> xarray.Dataset:
    """Build a Dataset of registered variables; a `DeviceResult` if results stay on a device.

    Values are arrays of the host, or of the device where results stay. A value may be a function
    without arguments that returns an array of the host: results that stay call it when the variable
    is read.

    In every engine, values that were not computed are NaN, so a mean over replicates skips them.
    Integer variables become float64 only if a value is missing.  A warning says how many failed,
    and why.

    Parameters
    ----------
    swept, strata, places : sequence of str
        The dims that `SWEPT`, `STRATA` and `PLACES` stand for.
    computed_rows : ndarray of int, shape of ``status``, optional
        Number of grid times with valid values for each replicate (zone, trajectory); later values
        become missing in the variables with those dims and ``time``.  Without it, failed
        replicates keep the values that the engine wrote.
    has_warned : bool
        Whether the engine has already warned of failures.
    hints : mapping of Status to str
        Sentences that the warning adds for each kind of failure.
    own : sequence of Variable
        Variables named by the model.

    Raises
    ------
    TypeError
        A value is missing, undeclared, or has other dims or another type than declared; or a
        coordinate is undeclared and labels no swept dim.  This is a bug of the engine.
    """
    import xarray

    import ergode.core.results.accessor  # noqa: F401  (registers `dataset.ergode`)

    declared = {variable.name: variable for variable in (*_REGISTRY[engine, output], *own)}
    needed = {name for name, variable in declared.items() if not variable.optional}
    if not needed <= set(values) <= set(declared):
        raise TypeError(f"{engine}/{output} declares {set(declared)}, got {set(values)}")
    known = names(engine, output)
    for name, given in coords.items():
        if name not in known and not _dims_of(name, given) <= {*swept}:
            raise TypeError(f"{engine}/{output}: the coordinate '{name}' is not declared")
    several = {SWEPT: swept, STRATA: strata, PLACES: places}
    place = resident.device()

    def checked(variable: Variable, dims: tuple[str, ...], given: Any) -> Any:
        value = given() if callable(given) else given
        value = value if is_on_cuda(value) else np.asarray(value)
        if value.ndim != len(dims) or not np.issubdtype(value.dtype, getattr(np, variable.dtype)):
            raise TypeError(
                f"{engine}/{output}: '{variable.name}' is {value.dtype}{value.shape}, declared "
                f"{variable.dtype}{dims}"
            )
        if computed_rows is not None and "time" in dims:
            value = _only_computed(value, dims, computed_rows)
        return value

    arrays = {}
    for name, variable in declared.items():
        if name not in values:
            continue
        dims = tuple(name for dim in variable.dims for name in several.get(dim, (dim,)))
        notes: dict[str, Any] = {"units": variable.unit, "long_name": variable.meaning}
        value: Any = partial(checked, variable, dims, values[name])
        if place is None or not callable(values[name]):
            value = value()
        if name == "status":
            notes |= flags()
            if not has_warned:
                last = None
                if computed_rows is not None and "time" in coords:
                    rows, times = np.asarray(computed_rows), np.asarray(coords["time"])
                    if rows.shape == np.shape(value) and times.dtype.kind in "iuf":
                        # Without a row, or with all of them, there is no such time.
                        last = np.append(times[:-1], [np.nan, np.nan])[rows - 1]
                first = int(attrs.get("first_replicate", 0))
                _warn_of_failures(failures(value, dims, first, last), hints)
        arrays[name] = dims, value, notes
    labels = _coordinates(coords)
    if place is not None:
        place.synchronize()
        return cast("xarray.Dataset", resident.DeviceResult(place, arrays, labels, attrs))
    variables = {name: xarray.Variable(*each) for name, each in arrays.items()}
    return xarray.Dataset(variables, coords=labels, attrs=dict(attrs))


def _dims_of(name: str, coordinate: Any) -> set[str]:
    if isinstance(coordinate, tuple):
        return {coordinate[0]}
    return set(getattr(coordinate, "dims", {name} if np.ndim(coordinate) else ()))


_LABELS: dict[Any, Any] = {}
"""Short coordinates of earlier results, by content: indexing takes a fifth of a tiny call."""


def _coordinates(coords: Mapping[str, Any]) -> Any:
    """Immutable coordinates with pandas indexes; equal ones are made once."""
    import xarray

    variables, indexes = dict(coords), {}
    for name, given in coords.items():
        values = _labels_of(name, given)
        if values.ndim == 1:
            variables[name], indexes[name] = _labelled(name, values)
    return xarray.Coordinates(variables, indexes)


def _labelled(name: str, values: np.ndarray) -> tuple[Any, Any]:
    """A coordinate that labels its own dim, and its index."""
    if values.size > _SHORT or values.dtype.hasobject:
        return _indexed(name, values)
    key = name, values.dtype.str, values.tobytes()
    found = _LABELS.get(key)
    if found is None:
        if len(_LABELS) >= _KEPT:
            _LABELS.clear()
        found = _LABELS[key] = _indexed(name, values)
    return found


def _indexed(name: str, values: np.ndarray) -> tuple[Any, Any]:
    """A coordinate and its index: given a plain array, xarray would import CuPy."""
    import pandas
    import xarray

    # Results share them; pandas makes them read-only from version 3 on.
    values = values.copy()
    values.flags.writeable = False
    index = xarray.indexes.PandasIndex(pandas.Index(values), name, values.dtype)
    return index.create_variables()[name], index


def _labels_of(name: str, coordinate: Any) -> np.ndarray:
    """The values of a coordinate that labels the dim of its own name; else no array of them."""
    if isinstance(coordinate, tuple) and len(coordinate) == 2 and coordinate[0] == name:
        return np.asarray(coordinate[1])
    is_other = isinstance(coordinate, tuple) or getattr(coordinate, "dims", (name,)) != (name,)
    return np.asarray(None if is_other else coordinate)


_SHORT = 10_000  # values
_KEPT = 64


def _only_computed(value: Any, dims: Sequence[str], rows: np.ndarray) -> Any:
    """`value` with NaN from the first missing time on; `rows` says how many times were reached."""
    time = list(dims).index("time")
    if time != rows.ndim:
        return value  # a statistic: the engine has already excluded failed replicates
    if (rows >= value.shape[time]).all():
        return value
    beyond = np.arange(value.shape[time]) >= rows[..., None]
    return resident.with_missing(value, beyond)


def _warn_of_failures(failed: dict[Status, str], hints: Mapping[Status, str]) -> None:
    failed.pop(Status.NOT_RUN, None)  # interruptions have their own warning
    if failed:
        said = [*failed.values(), *dict.fromkeys(hints[one] for one in failed if one in hints)]
        warn(" ".join(said), FailureWarning)


def provenance(stopwatch: Stopwatch | None = None, **work: Any) -> dict[str, Any]:
    """Provenance attributes of a result, in types that files can hold.

    With a `stopwatch`, they include its times.
    """
    import ergode

    attrs: dict[str, Any] = {"version": ergode.__version__}
    if stopwatch:
        work |= stopwatch.seconds()
        log.tell(
            "time",
            f"{work['wall_seconds']:.3g} s, of these {work['compile_seconds']:.3g} s compiling or "
            f"loading kernels, and {work['run_seconds']:.3g} s running them",
        )
    for name, value in work.items():
        attrs[name] = value.item() if isinstance(value, np.generic) else value
    return attrs


def save(dataset: xarray.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a Dataset to a file atomically.

    Parameters
    ----------
    dataset : xarray.Dataset
    path : path
        ``.nc`` writes NetCDF-4, ``.zarr`` a Zarr store (needs the ``zarr`` package).
    overwrite : bool
        Replace an existing file if this function wrote it.  Any other file of this name is never
        replaced.

    Returns
    -------
    Path
        Path of the file, which appears under this name only when it is complete.

    Raises
    ------
    PlanError
        The suffix is unknown, the folder does not exist, or the name is taken.
    WriteError
        The file could not be written; the disk is full, for example.  The Dataset and an existing
        file of this name are unchanged.

    Examples
    --------
    >>> import ergode, xarray, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> ergode.save(xarray.Dataset({"x": 1.0}), folder / "x.nc").name
    'x.nc'
    >>> ergode.save(xarray.Dataset({"x": 2.0}), folder / "x.nc", overwrite=True).name
    'x.nc'
    """
    import xarray

    import ergode

    if isinstance(dataset, xarray.DataArray):
        raise PlanError(
            "the result is a DataArray; expected an xarray.Dataset, as result[['amount']] makes of "
            "a variable"
        )
    path = check_dataset_path(path)
    store = path.suffix == ".zarr"
    written = dataset.assign_attrs({files.MARK: ergode.__version__})
    with files.new_file(path, overwrite=overwrite, written_here=_OWN[path.suffix]) as partial:
        if store:
            files.write_store(written, partial)
        else:
            file = files.SafeFile(partial)
            try:
                written.to_netcdf(file, engine="h5netcdf", encoding=_encoding(written))
            finally:
                file.finish()
    return path


_OWN = {".nc": files.is_own_netcdf, ".zarr": files.is_own_store}


def check_dataset_path(path: str | os.PathLike[str]) -> Path:
    """Return the path if its suffix is one that `save` can write; else raise a PlanError."""
    path = Path(path)
    if path.suffix not in _OWN:
        raise PlanError(f"cannot write '{path.name}': expected a name that ends in .nc or .zarr")
    return path


def check_new_dataset(path: Path, *, overwrite: bool, way: str) -> None:
    """Refuse, before anything is computed, a path that `save` would refuse.

    Raises
    ------
    PlanError
        See `ergode.core.files.check_new`.
    """
    path = check_dataset_path(path)
    files.check_new(path, overwrite=overwrite, written_here=_OWN[path.suffix], way=way)


def _encoding(dataset: xarray.Dataset) -> dict[str, Any]:
    large = (name for name, value in dataset.data_vars.items() if value.nbytes > 1 << 20)
    return {str(name): {"zlib": True, "complevel": 1} for name in large}


def open_dataset(path: str | os.PathLike[str]) -> xarray.Dataset:
    """Read a Dataset that `save` wrote fully into memory.

    Raises
    ------
    ReadError
        The file does not exist, or is not a Dataset file.
    """
    import xarray

    import ergode.core.results.accessor  # noqa: F401  (registers `dataset.ergode`)

    path = Path(path)
    if not path.exists():
        raise ReadError(f"'{path}' does not exist")
    try:
        if path.suffix == ".zarr":
            found = xarray.open_zarr(path).load()
        else:
            with xarray.open_dataset(path, engine="h5netcdf") as opened:
                found = opened.load()
    except Exception as error:  # HDF5 and Zarr raise many kinds of errors for other formats
        raise ReadError(f"'{path}' cannot be read as a Dataset: {error}") from error
    found.attrs.pop(files.MARK, None)
    return found
