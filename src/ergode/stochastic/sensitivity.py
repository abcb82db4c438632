"""Sensitivities of means and other functionals, by finite differences with common clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import arguments, devices, results
from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.core.results import SWEPT, Variable
from ergode.core.status import Status
from ergode.core.stopwatch import Stopwatch
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.sweep import POINT
from ergode.stochastic.simulate import Output, simulate
from ergode.stochastic.to_tables import initial_amount

if TYPE_CHECKING:
    import xarray

_DIMS = ("parameter", SWEPT)  # and the dims of the functional
# A functional of the ensemble is computed of so many parts of it, for its error.
_PARTS = 20

results.register(
    "stochastic",
    "sensitivities",
    [
        Variable("sensitivity", _DIMS, "float64", "1", "derivative of the mean, or functional"),
        Variable("standard_error", _DIMS, "float64", "1", "of the derivative, by chance"),
    ],
)


@recorded({"initial": POINT})
def sensitivities(
    network: ReactionNetwork,
    *,
    times: ArrayLike,
    parameters: Sequence[str] | None = None,
    functional: Callable[[xarray.Dataset], Any] | None = None,
    output: Output = "trajectories",
    stop: str | None = None,
    initial: Mapping[str, Any] | None = None,
    replicates: int = 1000,
    relative_step: float = 0.05,
    seed: int = 0,
    device: str | devices.Device = "auto",
) -> xarray.Dataset:
    """Derivatives of mean amounts, or of any functional of the result, by parameters.

    Central differences over pairs of realizations with the same clock for each reaction (common
    reaction path): the difference of a pair is due to the parameter, and its variance is far below
    that of independent realizations.

    Parameters
    ----------
    network : ReactionNetwork
    times : array_like, shape [time_count]
        As for `simulate`.
    parameters : sequence of str, optional
        Parameters with nonzero values; by default all parameters that are numbers.
    functional : callable, optional
        Function of the Dataset that `simulate` returns; it is called with the results of either
        side. It returns a number or a DataArray. With the dim ``replicate`` the derivative is that
        of the mean over replicates; pairs with NaN, such as a condition that never held, are left
        out, and an `AccuracyWarning` tells how many. Without, it is a number of the whole
        ensemble, such as a Fano factor; its error is then found from 20 parts of the ensemble. The
        default is the amounts.
    output, stop, initial
        As for `simulate`; what the functional is given. `initial` has one value for each name.
        Outputs without the dim ``replicate``, such as ``"statistics"``, have no parts and give no
        error.
    replicates : int
        Pairs of realizations for each parameter.
    relative_step : float
        Change of a parameter to either side, relative to its value. The bias of the difference is
        proportional to its square.
    seed, device
        As for `simulate`.

    Returns
    -------
    xarray.Dataset
        sensitivity and standard_error (parameter, time, species) [molecules / unit of parameter];
        for a functional (parameter, and its own dims).

    Raises
    ------
    ModelError
        A name is not a parameter or is given twice, or its value is zero; a parameter sets an
        initial amount that a step makes a fraction; the functional returns neither a number nor a
        DataArray of numbers, or of other shapes on both sides.
    PlanError
        The step is not between 0 and 1, or a realization failed.

    References
    ----------
    M. Rathinam, P. W. Sheppard, M. Khammash, "Efficient computation of parameter sensitivities of
    discrete stochastic chemical reaction networks", J. Chem. Phys. 132 (2010).

    Examples
    --------
    >>> import ergode
    >>> decay = ergode.Reaction("X -> 0", rate_constant="mu")
    >>> network = ergode.ReactionNetwork({"X": 100}, [decay], parameters={"mu": 0.5})
    >>> found = ergode.stochastic.sensitivities(
    ...     network, times=[0, 1], replicates=20, device="cpu"
    ... )
    >>> bool(found["sensitivity"][0, 1, 0] < 0)
    True

    When one molecule is left, the time that takes, and what it owes to the rate:

    >>> found = ergode.stochastic.sensitivities(
    ...     network, times=[0, 100], output="first-passage", stop="X <= 1", replicates=200,
    ...     functional=lambda result: result["passage_time"], device="cpu",
    ... )
    >>> bool(found["sensitivity"].sel(parameter="mu") < 0)
    True
    """
    if not arguments.is_finite_number(relative_step) or not 0 < relative_step < 1:
        raise PlanError(f"relative_step is {relative_step!r}; expected a number between 0 and 1")
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
    if functional is not None and not callable(functional):
        raise ModelError(f"functional is {functional!r}; expected a function of a Dataset")
    stopwatch = Stopwatch()
    known = network.evaluate_parameters()
    numbers = [name for name, value in network.parameters.items() if isinstance(value, float)]
    names = numbers if parameters is None else arguments.sequence("parameters", parameters, "names")
    for name in names:
        arguments.check_text("sensitivities", "a parameter", name)
    arguments.check_once("parameters", names)
    network.evaluate_parameters(dict.fromkeys(names, 1.0))
    replicates = arguments.integer("replicates", replicates, 1, 2**32 - 1)
    start = arguments.by_name("initial", initial, "values")
    for name, value in start.items():
        if np.ndim(value):
            raise PlanError(f"initial of '{name}' is {value!r}; expected one number, not a sweep")
    of = functional or _amounts
    found: list[_Slope] = []
    result = None
    for name in names:
        value = float(known[name])
        if value == 0:
            raise ModelError(f"parameter '{name}' is 0; a relative step needs another value")
        ends = np.array([value * (1 - relative_step), value * (1 + relative_step)])
        _check_whole(network, start, name, ends)
        result = simulate(
            network, times=times, replicates=replicates, seed=seed, method="next-reaction",
            device=device, parameters={name: ends}, output=output, stop=stop, initial=initial,
        )  # fmt: skip
        if ((result["status"] >= Status.NOT_RUN) & (result["status"] != Status.STOPPED)).any():
            raise PlanError(f"realizations failed where '{name}' was {ends[0]:g} or {ends[1]:g}")
        slope = _slope(of, result.drop_vars(name), ends[1] - ends[0])
        if slope.missing:
            warn(
                f"the functional is NaN in {slope.missing:,} of {replicates:,} pairs of "
                f"realizations around '{name}' = {value:g}; the derivative is of the mean over the "
                "others",
                AccuracyWarning,
            )
        found.append(slope)
    if result is None:
        raise ModelError("there is no parameter to vary")
    kept = ("version", "engine", "method", "device", "device_model", "seed", "model_digest")
    attrs = {key: result.attrs[key] for key in kept}
    attrs |= {"replicates": replicates, "relative_step": relative_step} | stopwatch.seconds()
    first = found[0].value
    dims = [str(dim) for dim in first.dims]
    coords: dict[str, Any] = {"parameter": names}
    coords |= {dim: (dim, first[dim].values) for dim in dims if dim in first.coords}
    values = {
        "sensitivity": np.stack([np.asarray(one.value, np.float64) for one in found]),
        "standard_error": np.stack([np.asarray(one.error, np.float64) for one in found]),
    }
    return results.dataset(
        "stochastic", "sensitivities", values, coords=coords, attrs=attrs, swept=dims
    )


def _check_whole(
    network: ReactionNetwork, start: Mapping[str, Any], parameter: str, ends: np.ndarray
) -> None:
    """Refuse a parameter that sets an initial amount which is not whole at both ends of the step.

    Raises a ModelError if it is not; the message names the parameter.
    """
    known = network.evaluate_parameters({parameter: ends})
    for member, real in zip(network.species, network.is_continuous, strict=True):
        amounts = np.asarray(
            initial_amount(member, start.get(member.name, member.initial), known), float
        )
        moves = amounts.size > 1 and amounts[0] != amounts[1] and not real
        if moves and (np.abs(amounts - np.rint(amounts)) > 1e-9 * np.abs(amounts)).any():
            raise ModelError(
                f"parameter '{parameter}' sets the initial amount of '{member.name}', which is "
                f"{amounts[0]:g} and {amounts[1]:g} molecules at the ends of its step, {ends[0]:g} "
                f"and {ends[1]:g}; expected whole numbers: choose another relative_step, or name "
                f"the other parameters, parameters=[...]"
            )


def _amounts(result: xarray.Dataset) -> xarray.DataArray:
    return result["amount"]


class _Slope(NamedTuple):
    value: xarray.DataArray
    error: xarray.DataArray
    missing: int = 0  # pairs of realizations in which the functional is NaN


def _slope(of: Callable[[xarray.Dataset], Any], result: xarray.Dataset, step: float) -> _Slope:
    """Slope of the functional between both points."""
    import xarray

    low, high = (_value(of, result.isel(point=k)) for k in (0, 1))
    if low.sizes != high.sizes:
        raise ModelError(
            f"the functional has the shapes {dict(low.sizes)} and {dict(high.sizes)} at two values "
            "of a parameter; expected equal shapes"
        )
    slope = (high - low) / step
    if "replicate" in slope.dims:
        count = slope.notnull().sum("replicate")  # NaN: a condition that never held
        error = slope.std("replicate", ddof=1) / np.sqrt(count)
        return _Slope(slope.mean("replicate"), error, result.sizes["replicate"] - int(count.min()))
    replicates = result.sizes.get("replicate", 1)
    # The functional of many must not be mistaken for that of one.
    parts = min(_PARTS, replicates // 2)
    if parts < 2 or not {"replicate"} & set(_measured(result)):
        return _Slope(slope, xarray.full_like(slope, np.nan, np.float64))
    each = []
    for rows in np.array_split(np.arange(replicates), parts):
        low, high = (_value(of, result.isel(point=k, replicate=rows)) for k in (0, 1))
        each.append((high - low) / step)
    return _Slope(slope, xarray.concat(each, "part").std("part", ddof=1) / np.sqrt(parts))


def _measured(result: xarray.Dataset) -> list[str]:
    """Dims of the variables other than how realizations ended."""
    own = result.drop_vars(["status", "firing_count"], errors="ignore")
    return [str(dim) for dim in own.dims]


def _value(of: Callable[[xarray.Dataset], Any], result: xarray.Dataset) -> xarray.DataArray:
    import xarray

    value = of(result)
    if not isinstance(value, xarray.DataArray):
        value = xarray.DataArray(value)
    if value.dtype.kind not in "biuf" or any(str(dim).startswith("dim_") for dim in value.dims):
        raise ModelError(
            f"the functional returns {value.dtype}{list(value.dims)}; expected a number or a "
            "DataArray of numbers with named dims"
        )
    return value.astype(np.float64)
