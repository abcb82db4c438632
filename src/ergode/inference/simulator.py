"""A public call as a function from parameters to summaries, for libraries of inference."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import as_numbers, check_once, integer, sequence
from ergode.core.calls.resident import DeviceResult
from ergode.core.devices.foreign import is_on_cuda, on_host
from ergode.core.errors import ModelError, PlanError
from ergode.core.inputs import remembered
from ergode.core.status import has_failed
from ergode.models.sweep import POINT, TRAJECTORY

if TYPE_CHECKING:
    import xarray

Summaries = Callable[[Any], Any] | Sequence[str] | str


@remembered
def simulator(
    call: Callable[..., Any],
    parameters: Sequence[str],
    summaries: Summaries,
    *,
    seed: int = 0,
    common_random_numbers: bool = False,
) -> Simulator:
    """A call of ergode as a batched function ``theta[n, d] -> x[n, k]``.

    Parameters
    ----------
    call : callable
        What makes a result from `parameters`: a public function whose other arguments are given,
        ``functools.partial(ergode.stochastic.simulate, network, times=times)``, or a function of
        yours, ``lambda parameters, seed: ...``. It gets a mapping of the names to arrays of shape
        [n], added to parameters that the partial already has; and `seed` and
        `common_random_numbers`, if it takes them, in place of those of the partial. Values that the
        model refuses, such as a negative rate, end a call of the simulator with an error: give them
        no prior probability.
    parameters : sequence of str
        What the d columns of theta are.
    summaries : callable, str or sequence of str
        What the k columns of x are: a function of the result (a Dataset, or a `DeviceResult`),
        which returns an array with n rows; or names of variables, all of whose values are taken.
    seed : int
        Of the first call. Each call has a seed of its own, unless it is given one.
    common_random_numbers : bool
        Whether all rows of a call share their random numbers. Inference needs independent ones.

    Returns
    -------
    Simulator

    Raises
    ------
    ModelError
        A name is repeated, or `call` does not take `parameters`.

    Examples
    --------
    >>> import functools
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 50}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0}
    ... )
    >>> call = functools.partial(
    ...     ergode.stochastic.simulate, network, times=[0, 1, 2], device="cpu"
    ... )
    >>> simulate = ergode.simulator(call, ["k"], "amount")
    >>> simulate([[0.1], [1.0], [3.0]]).shape
    (3, 3)
    """
    return Simulator(call, parameters, summaries, seed, common_random_numbers)


class Simulator:
    """A batched function of parameters; made by `simulator`.

    Attributes
    ----------
    parameters : tuple of str
        Names of the columns of theta.
    is_common : bool
        Whether all rows of a call share their random numbers.
    failed : ndarray of bool, shape [n]
        Which rows of the last call failed: their summaries are NaN.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        parameters: Sequence[str],
        summaries: Summaries,
        seed: int,
        common_random_numbers: bool,
    ) -> None:
        names = [parameters] if isinstance(parameters, str) else parameters
        self.parameters = tuple(sequence("parameters", names, "names of parameters"))
        check_once("parameters", self.parameters)
        if not self.parameters:
            raise ModelError("parameters is empty; expected the names of the columns of theta")
        self._takes, self._fixed = arguments_of(
            call, ("parameters", "seed", "common_random_numbers")
        )
        if not callable(summaries):
            summaries = [summaries] if isinstance(summaries, str) else list(summaries)
        self._call, self._summaries = call, summaries
        for name in self._fixed.keys() & set(self.parameters):
            raise ModelError(f"parameter '{name}' is given in the call and in 'parameters'")
        self._seeds = np.random.SeedSequence(integer("seed", seed, 0, 2**64 - 1))
        self.is_common = common_random_numbers
        self.failed = np.zeros(0, bool)

    def __repr__(self) -> str:
        return f"<Simulator of {', '.join(self.parameters)}>"

    def __call__(self, theta: Any, seed: int | None = None) -> Any:
        """Simulate.

        Parameters
        ----------
        theta : array_like, shape [n, d] or [d]
            NumPy, PyTorch, CuPy or JAX; on a GPU, too.
        seed : int, optional
            Of this call; by default the next one.

        Returns
        -------
        array, shape [n, k] or [k]
            A tensor of PyTorch for one of PyTorch, with its type and device; else as `summaries`
            makes it. NaN where a run failed, and where a row of theta is not finite.

        Raises
        ------
        ModelError, PlanError
            theta or the summaries have another shape, or those of the call.
        """
        rows, is_one = theta_of(theta, self.parameters)
        if seed is None:
            seed = int(self._seeds.spawn(1)[0].generate_state(1)[0])
        known = np.asarray(np.isfinite(rows).all(axis=1))
        if not known.all():
            return self._with_unknown(theta, is_one, rows, known, seed)
        columns = {name: rows[:, k].copy() for k, name in enumerate(self.parameters)}
        given = {"parameters": {**self._fixed, **columns}, "seed": seed,
                 "common_random_numbers": self.is_common}  # fmt: skip
        result = self._call(**{name: given[name] for name in self._takes})
        found = self._summarised(result, len(rows))
        self.failed = _failed(result, len(rows))
        if self.failed.any():
            found = found.astype(np.result_type(found.dtype, np.float32), copy=True)
            found[self.failed] = np.nan
        found = found[0] if is_one else found
        return _like(theta, found)

    def _with_unknown(
        self, theta: Any, is_one: bool, rows: np.ndarray, known: np.ndarray, seed: int
    ) -> Any:
        """Rows with a parameter that is no number have no summaries; the others are simulated."""
        if not known.any():
            raise ModelError("no row of theta is finite")
        some = on_host(self(rows[known], seed))
        found = np.full((len(rows), some.shape[1]), np.nan)
        found[known] = some
        failed, self.failed = self.failed, ~known
        self.failed[known] = failed
        return _like(theta, found[0] if is_one else found)

    def _summarised(self, result: Any, count: int) -> Any:
        """The summaries of a result, [row, summary]."""
        if callable(self._summaries):
            parts = [self._summaries(result)]
        else:
            for name in self._summaries:
                if name not in result:
                    raise PlanError(f"summaries has '{name}'; the result has {', '.join(result)}")
            parts = [_variable(result, name) for name in self._summaries]
        flat = []
        for part in parts:
            array = _rows_first(part) if hasattr(part, "dims") else part
            array = array if is_on_cuda(array) else np.asarray(array)
            if not array.ndim or array.shape[0] != count:
                raise PlanError(
                    f"the summaries have the shape {tuple(array.shape)} for {count} rows of theta; "
                    f"expected {count} rows"
                )
            flat.append(array.reshape(count, -1))
        if len(flat) == 1:
            return flat[0]
        return np.concatenate(flat, axis=1)  # of CuPy arrays, too


def arguments_of(call: Callable[..., Any], names: Sequence[str]) -> tuple[set[str], dict[str, Any]]:
    """Which of the names a call takes, and the parameters that it already has."""
    if not callable(call):
        raise ModelError(f"call is {call!r}; expected a function")
    takes = inspect.signature(call).parameters
    every = any(one.kind is one.VAR_KEYWORD for one in takes.values())
    found = {name for name in names if every or name in takes}
    if "parameters" not in found:
        raise ModelError("call takes no argument 'parameters', to which the values are given")
    given = call.keywords if isinstance(call, functools.partial) else {}
    return found, dict(given.get("parameters") or {})


def target_of(simulate: Any, observed: Any) -> np.ndarray:
    """The observed summaries, shape [k]; refuses what is no simulator."""
    if not isinstance(simulate, Simulator):
        raise ModelError(f"simulate is {simulate!r}; expected what ergode.simulator returns")
    target = as_numbers(observed)
    if target is None or target.ndim > 1 or not np.isfinite(target).all():
        raise ModelError(f"observed is {observed!r}; expected finite numbers, one for each summary")
    return np.atleast_1d(target).astype(np.float64)


def simulated(
    simulate: Simulator, theta: np.ndarray, target: np.ndarray, seed: int | None
) -> np.ndarray:
    """Summaries of all rows on the host, [row, summary], as many as were observed."""
    found = np.asarray(on_host(simulate(theta, seed)), np.float64)
    if found.shape[1:] != target.shape:
        raise PlanError(
            f"the simulator makes {found.shape[1]} summaries; observed has {target.size}"
        )
    return found


def theta_of(theta: Any, parameters: Sequence[str]) -> tuple[np.ndarray, bool]:
    """Rows of parameters as float64, and whether only one was given, without its dimension."""
    numbers = as_numbers(_on_host(theta))
    if numbers is None or not numbers.size:
        raise ModelError(f"theta is {theta!r}; expected numbers, a row for each simulation")
    values = numbers.astype(np.float64)
    rows = values[None] if values.ndim == 1 else values
    if rows.ndim != 2 or rows.shape[1] != len(parameters):
        raise ModelError(
            f"theta has the shape {values.shape}; expected columns {', '.join(parameters)}"
        )
    return rows, values.ndim == 1


def _variable(result: Any, name: str) -> Any:
    """A variable with its rows first."""
    if not isinstance(result, DeviceResult):
        return result[name]
    array, dims = result[name], result.dims[name]
    place = next((k for k, dim in enumerate(dims) if dim in (POINT, TRAJECTORY)), 0)
    return array.transpose(place, *(k for k in range(array.ndim) if k != place))


def _rows_first(array: xarray.DataArray) -> np.ndarray:
    for dim in (POINT, TRAJECTORY):
        if dim in array.dims:
            array = array.transpose(dim, ...)
    return array.values


def _failed(result: Any, count: int) -> np.ndarray:
    """Which rows have a member that failed."""
    if not (isinstance(result, Mapping) and "status" in result):
        return np.zeros(count, bool)
    status = _variable(result, "status")
    status = _rows_first(status) if hasattr(status, "dims") else on_host(status)
    if status.shape[:1] != (count,):
        return np.zeros(count, bool)
    return np.asarray(has_failed(status).reshape(count, -1).any(axis=1))


def _on_host(theta: Any) -> Any:
    if type(theta).__module__.partition(".")[0] == "torch":
        theta = theta.detach()
    return on_host(theta)


def _like(theta: Any, found: Any) -> Any:
    """A tensor of PyTorch for one of PyTorch."""
    if type(theta).__module__.partition(".")[0] != "torch":
        return found
    import torch  # type: ignore[import-not-found,unused-ignore]

    made = torch.from_dlpack(found) if is_on_cuda(found) else torch.as_tensor(np.array(found))
    return made.to(theta)
