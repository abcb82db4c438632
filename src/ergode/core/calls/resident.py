"""Results that stay on the device that computed them (`keep_on_device`).

`divisible` reads the argument and opens `staying`. Within it, `fetch`, `full` and `store` leave the
large arrays of a result on the device; without it they bring them to the host. Such arrays are
NumPy's on a CPU, and CuPy's on a CUDA device. NumPy's functions accept both. Arrays of the host and
of a device do not mix: `beside` brings one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache, partial
from types import EllipsisType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.context import Running, run_with, running
from ergode.core.devices import Device, foreign, resolve
from ergode.core.devices.foreign import is_on_cuda, on_host

if TYPE_CHECKING:
    import xarray

KEEP = "keep_on_device"
"""Name of the argument."""


# ---- the choice


@contextmanager
def staying(device: Any) -> Iterator[None]:
    """Within this block large results stay on the device.

    Raises a PlanError if the device is not present, or is a CUDA device and CuPy is not installed.
    """
    place = resolve(device)
    with place.libraries(), run_with(Running(stays=place)):
        yield


def outside() -> AbstractContextManager[object]:
    """Within this block results are brought to the host."""
    return run_with(replace(running(), stays=None))


def device() -> Device | None:
    """The device on which the results of this call stay; None without `keep_on_device`."""
    return running().stays


# ---- arrays


def fetch(device: Device, array: Any) -> Any:
    """A large result of a device: a copy in host memory, or on the device if results stay."""
    if running().stays is None or not device.is_cuda:
        return device.get(array)
    return device.to_library(array, copy=True)


def sent(array: np.ndarray) -> Any:
    """A large result of the host, or a copy of it on the device if results stay."""
    place = running().stays
    if place is None or not place.is_cuda:
        return array
    return place.to_library(place.put(array), copy=True)


def full(shape: tuple[int, ...], value: float, dtype: Any) -> Any:
    """An array for a large result, on the host, or on the device if results stay."""
    return (running().stays or resolve("cpu")).full(shape, value, dtype)


def store(device: Device, array: Any, whole: Any, part: Any) -> None:
    """Copy an array of a device to ``whole[part]``, wherever `whole` is."""
    if not isinstance(whole, np.ndarray):
        whole[part] = device.to_library(array)
    elif (place := whole[part]).flags.c_contiguous:
        device.get(array, place)
    else:
        place[...] = device.get(array)


def beside(array: Any, other: Any) -> Any:
    """`other`, an array of the host or the device, where `array` is."""
    if isinstance(array, np.ndarray):
        return on_host(other)
    return other if is_on_cuda(other) else foreign.holding(array).to_library(other)


def with_missing(value: Any, missing: np.ndarray) -> Any:
    """Numbers in floating point, NaN where `missing`, whose dims are the first of `value`."""
    kind = value.dtype if np.issubdtype(value.dtype, np.floating) else np.dtype(np.float64)
    missing = missing.reshape(*missing.shape, *(1,) * (value.ndim - missing.ndim))
    # Several times faster than assignment, which matters when a large run is interrupted.
    return np.where(beside(value, missing), kind.type(np.nan), value.astype(kind, copy=False))


def host_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call, which is read several times, with all arrays on the host.

    Arrays of a CUDA device may be arguments, or values of mappings. An iterator becomes a list.
    """
    return {name: _argument(value) for name, value in given.items()}


_PLAIN = frozenset((NoneType, bool, int, float, str, list, tuple, range, np.ndarray))


def _argument(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if is_on_cuda(value):
        return on_host(value)
    if isinstance(value, Mapping) and any(is_on_cuda(one) for one in value.values()):
        # A mapping may be a grid, which is made of one.
        return type(value)({name: _argument(one) for name, one in value.items()})  # type: ignore[call-arg]
    return list(value) if isinstance(value, Iterator) else value


# ---- results


class Deferred:
    """Arrays that are computed on the host, all at once, when the first of them is needed.

    Parameters
    ----------
    compute : function
        Returns arrays by name.
    """

    def __init__(self, compute: Callable[[], Mapping[str, np.ndarray]]) -> None:
        self._compute = cache(compute)

    def __getitem__(self, name: str) -> Callable[[], np.ndarray]:
        return partial(self._one, name)

    def now(self) -> None:
        """Compute them now, for their warnings."""
        self._compute()

    def _one(self, name: str) -> np.ndarray:
        return self._compute()[name]


class DeviceResult(Mapping[str, Any]):
    """The result of a call with ``keep_on_device=True``: arrays by the name of the variable.

    On a CPU they are NumPy arrays, on a CUDA device CuPy arrays. Both have ``__dlpack__`` and
    ``__dlpack_device__``, and CuPy arrays also have ``__cuda_array_interface__``: PyTorch, JAX and
    other libraries read them without a copy (``torch.from_dlpack(result["count"])``). All kernels
    have ended when an array is returned, so that no stream has to wait for it. `keep_on_device` is
    not a value of `output`: that says what is computed, and this where it is.

    Values that a member of the ensemble did not reach are NaN, as in the Dataset, and ``status``
    says how each one ended. Small variables, such as ``status``, are computed on the host. They are
    copied to the device when they are read for the first time.

    Attributes
    ----------
    device : Device
        Where the arrays are.
    dims : dict of str to tuple of str
        Dims of each variable, in the order of the axes of its array.
    sizes : dict of str to int
        Lengths of the dims.
    coords : xarray.Coordinates
        Labels, on the host.
    attrs : dict
        Provenance, as of the Dataset.

    Examples
    --------
    >>> import ergode
    >>> import numpy as np
    >>> network = ergode.ReactionNetwork({"X": 9}, [ergode.Reaction("X -> 0", rate_constant=1.0)])
    >>> result = ergode.stochastic.simulate(
    ...     network, times=[0, 1], replicates=100, device="cpu", keep_on_device=True
    ... )
    >>> result.dims["amount"]
    ('replicate', 'time', 'species')
    >>> np.from_dlpack(result["amount"]).shape
    (100, 2, 1)
    >>> result.to_dataset()["amount"].sizes["replicate"]
    100
    """

    def __init__(
        self,
        device: Device,
        variables: Mapping[str, tuple[tuple[str, ...], Any, dict[str, Any]]],
        coords: xarray.Coordinates,
        attrs: Mapping[str, Any],
    ) -> None:
        self.device, self.coords, self.attrs = device, coords, dict(attrs)
        self.dims = {name: dims for name, (dims, _, _) in variables.items()}
        self._values = {name: value for name, (_, value, _) in variables.items()}
        self._notes = {name: notes for name, (_, _, notes) in variables.items()}
        self._on_device: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._on_device:
            if name not in self._values:
                known = ", ".join(self)
                raise KeyError(f"'{name}' is not a variable of this result; it has {known}")
            value = self._value(name)
            with self.device.libraries():
                self._on_device[name] = _writable(self.device.to_library(value))
        return self._on_device[name]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a DeviceResult has no attribute '{name}'; its to_dataset() gives the Dataset that "
            "summaries, plots and files take"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def sizes(self) -> dict[str, int]:
        """Lengths of the dims."""
        found: dict[str, int] = {}
        for name, dims in self.dims.items():
            if not set(dims) <= set(found):
                found |= dict(zip(dims, self._value(name).shape, strict=True))
        return found

    def transpose(self, *dims: str | EllipsisType) -> DeviceResult:
        """The result with these dims first in every variable; the arrays are views.

        Parameters
        ----------
        *dims : str
            Names of dims, and at last ``...``, which stands for all others.
        """
        first = [dim for dim in dims if isinstance(dim, str)]
        variables = {}
        for name, old in self.dims.items():
            new = (*(dim for dim in first if dim in old), *(dim for dim in old if dim not in first))
            value = self._values[name]
            if new != old:
                turn = partial(np.transpose, axes=[old.index(dim) for dim in new])
                value = partial(_turned, value, turn) if callable(value) else turn(value)
            variables[name] = new, value, self._notes[name]
        return DeviceResult(self.device, variables, self.coords, self.attrs)

    def to_dataset(self) -> xarray.Dataset:
        """The Dataset that the call returns without `keep_on_device`, with the same bits.

        The arrays are copied to the host. On a CPU they share the memory.
        """
        import xarray

        import ergode.core.results.accessor  # noqa: F401  (registers `dataset.ergode`)

        variables = {
            name: xarray.Variable(dims, on_host(self._value(name)), self._notes[name])
            for name, dims in self.dims.items()
        }
        return xarray.Dataset(variables, coords=self.coords, attrs=dict(self.attrs))

    def __repr__(self) -> str:
        lines = [f"<ergode.DeviceResult on {self.device.name}>"]
        for name, dims in self.dims.items():
            lines.append(f"    {name}  ({', '.join(dims)})")
        return "\n".join(lines)

    def _value(self, name: str) -> Any:
        """The array where it was computed."""
        value = self._values[name]
        if callable(value):
            value = self._values[name] = value()
        return value


def _turned(compute: Callable[[], np.ndarray], turn: Callable[[Any], Any]) -> Any:
    return turn(compute())


def _writable(array: Any) -> Any:
    """The array, or a copy if it is read-only: DLPack has no read-only arrays of old."""
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        return array.copy()
    return array
