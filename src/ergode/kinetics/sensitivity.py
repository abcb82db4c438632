"""Sensitivities of results to rate coefficients, by central differences of their logarithms.

With the coefficient of a reaction times exp(h) and exp(-h), a quantity q is q_+ and q_-:

    d ln q / d ln k = (ln q_+ - ln q_-) / (2 h),    error = |ln q_+ + ln q_- - 2 ln q| / (2 h).

The error is half the difference of both one-sided differences: it sees the curvature, and the noise
of the integration.

T. Turanyi, A. S. Tomlin, "Analysis of Kinetic Reaction Mechanisms" (2014), section 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from inspect import unwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import results
from ergode.core.arguments import did_you_mean, number
from ergode.core.errors import ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.core.results import SWEPT, Variable
from ergode.kinetics.ignition import ignition_delay
from ergode.kinetics.integrate import integrate
from ergode.kinetics.network.to_tables import to_tables
from ergode.kinetics.rate_factors import owners_of
from ergode.kinetics.sweep import parted
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.sweep import POINT

if TYPE_CHECKING:
    import xarray

_DIMS = {
    "ignition_delay": (SWEPT,),
    "final_temperature": (SWEPT,),
    "steepest_time": (SWEPT,),
    "temperature": (SWEPT, "time"),
    "concentration": (SWEPT, "time", "species"),
    "mass_fraction": (SWEPT, "time", "species"),
}
_QUANTITIES: dict[Any, tuple[str, ...]] = {
    unwrap(ignition_delay): ("ignition_delay", "final_temperature"),
    unwrap(integrate): ("steepest_time", "temperature", "concentration", "mass_fraction"),
}
results.register(
    "kinetics",
    "sensitivities",
    [
        Variable(f"{name}_{kind}", ("reaction", *dims), dtype, "1", text.format(name), True)
        for name, dims in _DIMS.items()
        for kind, dtype, text in (
            ("sensitivity", "float64", "d ln {} / d ln k of a reaction; NaN where it is not known"),
            ("error", "float64", "error of the difference for {}"),
            ("rank", "int64", "place of a reaction by the size of its sensitivity of {}, from 1"),
        )
    ],
    coords=("reaction_number",),
)


@recorded({})
def sensitivities(
    call: Callable[..., xarray.Dataset],
    network: ReactionNetwork,
    *,
    reactions: Sequence[str | int] | None = None,
    relative_step: float = 0.02,
    **arguments: Any,
) -> xarray.Dataset:
    """Sensitivities of delays, temperatures and amounts to all rate coefficients, in one call.

    Each coefficient is multiplied by 1 + `relative_step`, and divided by it. All the reactors of
    all reactions are integrated at once. Reverse reactions by detailed balance follow their forward
    reactions, as in Cantera's `set_multiplier`.

    Parameters
    ----------
    call : {ergode.kinetics.ignition_delay, ergode.kinetics.integrate}
        What is differentiated.
    network : ReactionNetwork
    reactions : sequence of str or int, optional
        Names or numbers of reactions; the default is all that can have a factor. Those by detailed
        balance, weak tables, `Chebyshev` and `LinearBurke` cannot. Each takes two further reactors.
    relative_step : float
        The bias of the difference is proportional to its square, and the noise of the integration
        to its inverse.
    **arguments
        Of the call, such as temperature and pressure, with one value or many; `parameters` of
        `integrate` are numbers, functions of time, or a `Trajectory`, also with a row for each
        zone. The noise of a sensitivity is of the order of `rtol` over 2 `relative_step`: use an
        `rtol` of 1e-6 or less, for cells of air with ``method="bdf"``. ``progress=True`` shows
        the progress.

    Returns
    -------
    xarray.Dataset
        Of `ignition_delay`: ignition_delay_sensitivity and final_temperature_sensitivity(reaction,
        ...). Of `integrate`: temperature_sensitivity(reaction, zone, time),
        concentration_sensitivity(reaction, zone, time, species) or mass_fraction_sensitivity, and
        steepest_time_sensitivity(reaction, zone). Each has an ``..._error``, which is half the
        difference of both one-sided differences, and an ``..._rank``, 1 for the largest size.

    Raises
    ------
    ModelError
        The call or a reaction is unknown, or a reaction can have no factor; see the call.
    PlanError
        The step is not between 0 and 1; see the call.

    Examples
    --------
    >>> import ergode
    >>> decay = ergode.ReactionNetwork(
    ...     {"A": 1, "B": 0}, [ergode.Reaction("A -> B", rate_constant=3.0)]
    ... )
    >>> found = ergode.kinetics.sensitivities(
    ...     ergode.kinetics.integrate, decay, times=[0, 0.5], rtol=1e-9, device="cpu"
    ... )
    >>> float(found["concentration_sensitivity"][0, 0, 1, 0].round(3))  # -k t
    -1.5
    """
    quantities = _QUANTITIES.get(unwrap(call)) if callable(call) else None
    if quantities is None:
        raise ModelError(
            f"call is {getattr(call, '__name__', repr(call))}; expected kinetics.ignition_delay or "
            "kinetics.integrate"
        )
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
    if arguments.get("rate_factors") is not None:
        raise ModelError("rate_factors is given; sensitivities make factors of their own")
    if number("relative_step", relative_step, above=0) >= 1.0:
        raise PlanError(f"relative_step is {relative_step!r}; expected a number below 1")
    step = math.log1p(relative_step)
    _, drives = parted(network, arguments.get("parameters"))
    chosen = _chosen(network, reactions, tuple(drives))
    factors = np.ones((1 + 2 * len(chosen), len(network.reactions)))
    for place, k in enumerate(chosen):
        factors[1 + 2 * place, k], factors[2 + 2 * place, k] = math.exp(step), math.exp(-step)
    found = call(network, rate_factors=factors, **arguments)
    values: dict[str, Any] = {}
    for name in quantities:
        if name not in found or not np.isfinite(found[name]).any():
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            every = np.log(np.where(found[name].values > 0.0, found[name].values, np.nan))
        up, down, middle = every[1::2], every[2::2], every[:1]
        slope = (up - down) / (2.0 * step)
        values[f"{name}_sensitivity"] = slope
        values[f"{name}_error"] = np.abs(up + down - 2.0 * middle) / (2.0 * step)
        order = np.argsort(np.where(np.isnan(slope), np.inf, -np.abs(slope)), axis=0, kind="stable")
        values[f"{name}_rank"] = 1 + np.argsort(order, axis=0, kind="stable")
    dims = [str(dim) for dim in found[quantities[0]].dims if dim != POINT]
    names = [network.reactions.name_of(k) for k in chosen]
    kept = {
        str(name): value.values if value.dims == (name,) else (value.dims[0], value.values)
        for name, value in found.coords.items()
        if POINT not in value.dims and name not in ("mass_number", "charge_number", "rule")
    }
    return results.dataset(
        "kinetics", "sensitivities", values,
        coords={"reaction": names, "reaction_number": ("reaction", np.array(chosen)), **kept},
        swept=dims,
        attrs=found.attrs | {"relative_step": relative_step},
        has_warned=True,
    )  # fmt: skip


def _chosen(
    network: ReactionNetwork, reactions: Sequence[str | int] | None, driven: tuple[str, ...]
) -> list[int]:
    """Numbers of reactions; `driven` are parameters that change in time.

    Raises a ModelError if one is unknown, or can have no factor.
    """
    _, fixed = owners_of(to_tables(network, None, driven))
    count = len(network.reactions)
    if reactions is None:
        return [k for k in range(count) if k not in fixed]
    by_name: dict[str, list[int]] = {}
    for k in range(count):
        by_name.setdefault(network.reactions.name_of(k), []).append(k)
    found: list[int] = []
    for one in reactions:
        if isinstance(one, str):
            if one not in by_name:
                raise ModelError(
                    f"reactions has '{one}', which the network does not have"
                    f"{did_you_mean(one, by_name)}"
                )
            found += by_name[one]
        elif 0 <= one < count:
            found.append(int(one))
        else:
            raise ModelError(f"reactions has {one}; expected names, or numbers below {count}")
    for k in found:
        if k in fixed:
            raise ModelError(
                f"reactions has '{network.reactions.name_of(k)}', which can have no factor: "
                f"{fixed[k]}"
            )
    return list(dict.fromkeys(found))
