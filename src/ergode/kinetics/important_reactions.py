"""The reactions that make and use a species most, at a time of a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import results
from ergode.core.arguments import did_you_mean, integer, number
from ergode.core.errors import ModelError
from ergode.core.inputs import recorded
from ergode.core.results import Variable
from ergode.kinetics.network.to_tables import to_tables
from ergode.kinetics.reaction_rates import reaction_rates
from ergode.models.reactions.network import ReactionNetwork

if TYPE_CHECKING:
    import xarray

_DIMS = ("zone", "species", "rank")
results.register(
    "kinetics",
    "important reactions",
    [
        Variable("reaction", _DIMS, "str_", "", "name of the reaction"),
        Variable("reaction_number", _DIMS, "int64", "1", "its place in the network"),
        Variable(
            "production", _DIMS, "float64", "1",
            "rate at which it makes the species, less that of its reverse reaction: nuclei "
            "[mol/(g s)], others [mol/(cm3 s)]; negative where it uses the species",
        ),
        Variable(
            "share", _DIMS, "float64", "1",
            "production over that by all reactions that make the species, or that use it",
        ),
    ],
    coords=("rank",),
)  # fmt: skip


@recorded({})
def important_reactions(
    network: ReactionNetwork,
    result: xarray.Dataset,
    *,
    time: float | None = None,
    species: str | Sequence[str] | None = None,
    count: int = 10,
    **conditions: Any,
) -> xarray.Dataset:
    """The reactions that make and use each species most, by rate of production.

    Parameters
    ----------
    network : ReactionNetwork
    result : xarray.Dataset
        As from `integrate`, with the dimensions zone, time and species; select one point of a sweep
        first.
    time : float, optional
        The nearest time of the result is taken; the default is the last.
    species : str or sequence of str, optional
        The default is all.
    count : int
        Reactions for each species.
    **conditions
        Further arguments of `reaction_rates`: sunlight, screening, parameters, and time for rates
        that depend on it.

    Returns
    -------
    xarray.Dataset
        reaction, production and share(zone, species, rank); the first has the largest size of
        production. A reverse reaction by detailed balance is subtracted from its forward reaction.

    Raises
    ------
    ModelError
        A species is unknown, or the result has other dimensions or is not of this network; see
        `reaction_rates`.

    Examples
    --------
    >>> import ergode
    >>> chain = ergode.ReactionNetwork(
    ...     {"A": 1, "B": 0},
    ...     [
    ...         ergode.Reaction("A -> B", rate_constant=3.0, name="makes"),
    ...         ergode.Reaction("B -> 0", rate_constant=1.0, name="uses"),
    ...     ],
    ... )
    >>> found = ergode.kinetics.integrate(chain, times=[0, 5], device="cpu")
    >>> table = ergode.kinetics.important_reactions(chain, found, species="B")
    >>> table["reaction"][0, 0].values.tolist()
    ['uses', 'makes']
    """
    amount = next((name for name in ("mass_fraction", "concentration") if name in result), None)
    if amount is None or result[amount].dims != ("zone", "time", "species"):
        raise ModelError(
            "result has no mass_fraction or concentration(zone, time, species); expected a result "
            "of kinetics.integrate, and one point of a sweep"
        )
    names = [str(name) for name in result["species"].values]
    if names != [one.name for one in network.species]:
        raise ModelError("result has other species than the network")
    chosen = names if species is None else [species] if isinstance(species, str) else list(species)
    for one in chosen:
        if one not in names:
            raise ModelError(f"'{one}' is not a species of the network{did_you_mean(one, names)}")
    last = float(result["time"].values[-1])
    asked = last if time is None else number("time", time)
    place = int(np.argmin(np.abs(result["time"].values - asked)))
    state = result.isel(time=place)
    given: dict[str, Any] = {
        "initial": {name: state[amount].sel(species=name).values for name in names}
    }
    if np.isfinite(state["temperature"].values).all():
        given["temperature"] = state["temperature"].values
    mechanism = to_tables(network)
    if mechanism.molecular:
        given["pressure"] = state["pressure"].values
    elif mechanism.nuclear:
        given["density"] = state["density"].values
    rates = reaction_rates(network, **given, **conditions)["rate"].values
    pairs = mechanism.rates
    rows = [names.index(one) for one in chosen]
    made = rates[:, None, :] * network.stoichiometry.tocsr()[rows].toarray()
    for back, forward in zip(pairs.reverse, pairs.forward, strict=True):
        made[:, :, forward] += made[:, :, back]
        made[:, :, back] = 0.0
    size = min(integer("count", count, 1, 2**31 - 1), rates.shape[1] - pairs.reverse.size)
    order = np.argsort(-np.abs(made), axis=2, kind="stable")[:, :, :size]
    production = np.take_along_axis(made, order, 2)
    gain, loss = (np.maximum(sign * made, 0.0).sum(axis=2)[:, :, None] for sign in (1.0, -1.0))
    whole = np.where(production < 0.0, loss, gain)
    labels = np.array([network.reactions.name_of(k) for k in range(rates.shape[1])])
    return results.dataset(
        "kinetics", "important reactions",
        {
            "reaction": labels[order],
            "reaction_number": order,
            "production": production,
            "share": np.divide(
                np.abs(production), whole, out=np.zeros_like(production), where=whole > 0.0
            ),
        },
        coords={
            "zone": result["zone"].values, "species": chosen, "rank": np.arange(1, size + 1),
        },
        attrs={**result.attrs, "time": float(result["time"].values[place])},
        has_warned=True,
    )  # fmt: skip
