"""Sensitivities of mean amounts to parameters, by finite differences with common clocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.errors import ModelError, PlanError
from ergode.core.results import Variable
from ergode.core.status import Status
from ergode.core.stopwatch import Stopwatch
from ergode.models.reactions.network import ReactionNetwork
from ergode.stochastic.simulate import simulate

if TYPE_CHECKING:
    import xarray

_DIMS = ("parameter", "time", "species")

results.register(
    "stochastic",
    "sensitivities",
    [
        Variable("sensitivity", _DIMS, "float64", "1", "derivative of the mean amount"),
        Variable("standard_error", _DIMS, "float64", "1", "of the derivative, by chance"),
    ],
)


def sensitivities(
    network: ReactionNetwork,
    *,
    times: ArrayLike,
    parameters: Sequence[str] | None = None,
    replicates: int = 1000,
    relative_step: float = 0.05,
    seed: int = 0,
    device: str | devices.Device = "auto",
) -> xarray.Dataset:
    """Derivatives of mean amounts with respect to parameters.

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
        sensitivity and standard_error (parameter, time, species) [molecules / unit of parameter].

    Raises
    ------
    ModelError
        A name is not a parameter, or its value is zero.
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
    """
    if not 0 < relative_step < 1:
        raise PlanError(f"relative_step is {relative_step!r}; expected a number between 0 and 1")
    stopwatch = Stopwatch()
    known = network.evaluate_parameters()
    names = [
        name
        for name in (network.parameters if parameters is None else parameters)
        if parameters is not None or isinstance(network.parameters[name], float)
    ]
    network.evaluate_parameters(dict.fromkeys(names, 1.0))
    rows: dict[str, list[np.ndarray]] = {"sensitivity": [], "standard_error": []}
    attrs: dict[str, Any] = {}
    result = None
    for name in names:
        value = float(known[name])
        if value == 0:
            raise ModelError(f"parameter '{name}' is 0; a relative step needs another value")
        ends = np.array([value * (1 - relative_step), value * (1 + relative_step)])
        result = simulate(
            network, times=times, replicates=replicates, seed=seed, method="next-reaction",
            device=device, parameters={name: ends},
        )  # fmt: skip
        if (result["status"] > Status.EXTINCT).any():
            raise PlanError(f"realizations failed where '{name}' was {ends[0]:g} or {ends[1]:g}")
        low, high = result["amount"].values.astype(float)
        slopes = (high - low) / (ends[1] - ends[0])
        rows["sensitivity"].append(slopes.mean(axis=0))
        error = slopes.std(axis=0, ddof=1) if replicates > 1 else np.full(slopes.shape[1:], np.nan)
        rows["standard_error"].append(error / np.sqrt(replicates))
    if result is None:
        raise ModelError("there is no parameter to vary")
    kept = ("version", "engine", "method", "device", "device_model", "seed", "model_digest")
    attrs = {key: result.attrs[key] for key in kept}
    attrs |= {"replicates": replicates, "relative_step": relative_step} | stopwatch.seconds()
    coords = {
        "parameter": names, "time": result["time"].values, "species": result["species"].values,
    }  # fmt: skip
    values = {key: np.array(value) for key, value in rows.items()}
    return results.dataset("stochastic", "sensitivities", values, coords=coords, attrs=attrs)
