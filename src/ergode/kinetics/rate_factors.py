"""Factors of rate coefficients: each zone has its own prefactors of exponentials.

A factor multiplies all exponentials of a reaction. So both limits of a falloff are multiplied, the
reduced pressure stays, and the coefficient is multiplied. The program of a coefficient that is a
formula ends with a multiplication by a parameter of the zone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers
from ergode.core.compiler.programs import Operation
from ergode.core.errors import ModelError
from ergode.kinetics.conditions import Zones
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.physics import third_bodies
from ergode.kinetics.tables import UNSWEPT, Formulas
from ergode.models.reactions.network import ReactionNetwork


def owners_of(mechanism: Mechanism) -> tuple[np.ndarray, dict[int, str]]:
    """The reaction of each exponential, or -1; and why some reactions can have no factor.

    Returns
    -------
    ndarray of int, shape [set_count]
    dict of int to str
    """
    rates = mechanism.rates
    count = rates.order.size
    slots = np.full(rates.slot_count, -1)
    slots[:count] = np.arange(count)
    fixed = dict.fromkeys(rates.reverse.tolist(), "it follows from detailed balance")
    fixed |= dict.fromkeys(rates.plasma.weak_reaction.tolist(), "it has a weak table")
    for i, k in enumerate(rates.third_body_reaction.tolist()):
        low, kind = int(rates.third_body_low[i]), int(rates.third_body_kind[i])
        if kind == third_bodies.CHEBYSHEV:
            fixed[k] = "it is a Chebyshev"
        elif kind == third_bodies.MIXTURE:
            fixed[k] = "it is a LinearBurke"
        elif kind == third_bodies.LOGARITHMIC:
            size = int(rates.third_body_start[i + 1]) - int(rates.third_body_start[i])
            slots[low : low + size] = k
        elif kind % third_bodies.ACTIVATED not in (third_bodies.PLAIN, third_bodies.BLOWERS_MASEL):
            slots[low] = k
    slots[rates.composed.first] = rates.composed.branched
    start = rates.slot_start.astype(np.int64)
    return np.repeat(slots, start[1:] - start[:-1]), fixed


def scaling_of(network: ReactionNetwork, mechanism: Mechanism, given: Any) -> np.ndarray:
    """Checked factors of all reactions, shape [point_count, reaction_count].

    Raises
    ------
    ModelError
        Factors have the wrong shape, are negative or not finite, or a reaction can have none.
    """
    values, count = as_numbers(given), len(network.reactions)
    if values is None or values.ndim not in (1, 2) or values.shape[-1] != count or not len(values):
        shape = "no numbers" if values is None else f"the shape {values.shape}"
        raise ModelError(
            f"rate_factors has {shape}; expected [{count}] or [point_count, {count}], one factor "
            "for each reaction"
        )
    rows = np.atleast_2d(np.asarray(values, np.float64))
    bad = np.argwhere(~(np.isfinite(rows) & (rows >= 0.0)))
    if bad.size:
        name = network.reactions.name_of(int(bad[0, 1]))
        raise ModelError(
            f"rate_factors of '{name}' is {rows[tuple(bad[0])]:g}; expected finite numbers, 0 or "
            "more"
        )
    _, fixed = owners_of(mechanism)
    for k in np.flatnonzero((rows != 1.0).any(axis=0)).tolist():
        if k in fixed:
            raise ModelError(
                f"rate_factors of '{network.reactions.name_of(k)}' is not 1, but {fixed[k]}; "
                "expected 1"
            )
    return rows


def scaled_zones(
    zones: Zones, mechanism: Mechanism, scaling: np.ndarray
) -> tuple[Zones, Mechanism]:
    """Zones, point by point, with factors of their coefficients, and tables that read these."""
    history, each = zones.history, zones.count // len(scaling)
    factors = history.factors
    if factors is UNSWEPT:
        factors = np.tile(mechanism.rates.prefactor, (zones.count, 1))
    owners, _ = owners_of(mechanism)
    own = np.where(owners < 0, 1.0, scaling[:, owners])
    history = history._replace(factors=factors * np.repeat(own, each, axis=0))
    formulas = mechanism.rates.formulas
    scaled = np.flatnonzero((scaling[:, formulas.reaction] != 1.0).any(axis=0))
    if scaled.size:
        columns = np.repeat(scaling[:, formulas.reaction[scaled]], each, axis=0)
        history = history._replace(parameters=np.hstack([history.parameters, columns]))
        rates = mechanism.rates._replace(formulas=_multiplied(formulas, scaled))
        mechanism = replace(mechanism, rates=rates)
    return replace(zones, history=history), mechanism


def _multiplied(formulas: Formulas, scaled: np.ndarray) -> Formulas:
    """The formulas; those `scaled` are multiplied by one more input each, at their end."""
    ends = np.repeat(formulas.start[scaled + 1], 2)
    inputs = formulas.input_count + np.arange(scaled.size)
    steps = np.tile(np.array([Operation.VARIABLE, Operation.MULTIPLY]), scaled.size)
    arguments = np.stack([inputs, np.zeros_like(inputs)], axis=1).ravel()
    longer = np.zeros(formulas.start.size, formulas.start.dtype)
    longer[scaled + 1] = 2
    return formulas._replace(
        start=formulas.start + np.cumsum(longer, dtype=longer.dtype),
        operation=np.insert(formulas.operation, ends, steps),
        argument=np.insert(formulas.argument, ends, arguments),
        input_count=formulas.input_count + scaled.size,
        depth=max(formulas.depth, 2),
    )
