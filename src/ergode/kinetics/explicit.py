"""What the explicit methods share: gains and losses of every species.

A species' rate of change is apart in gain - loss, and loss = k Y, with k what the species is
stiff by.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ergode.kinetics.lower import Mechanism
from ergode.kinetics.mechanism import Complexes, Flows, entry_values, products, row_sums
from ergode.kinetics.rates import (
    Rates,
    Thermodynamics,
    base_coefficients,
    detailed_balance,
    log_volumes,
    third_bodies,
)
from ergode.kinetics.system import interpolated


class ExplicitSystem(NamedTuple):
    """Everything about the network that an explicit method needs.

    Attributes
    ----------
    weight : ndarray of float64, shape [species_count]
        Of a sum that no reaction changes, which watches over the step: mass numbers of nuclei.
    """

    complexes: Complexes
    gains: Flows
    losses: Flows
    rates: Rates
    thermo: Thermodynamics
    weight: np.ndarray


class Room(NamedTuple):
    """Where coefficients are worked out."""

    slots: np.ndarray
    slopes: np.ndarray
    volumes: np.ndarray
    gain_values: np.ndarray
    loss_values: np.ndarray
    products: np.ndarray


def explicit_system_of(mechanism: Mechanism) -> ExplicitSystem:
    """Tables for an explicit method."""
    structure = mechanism.structure
    weight = mechanism.mass
    if not mechanism.nuclear:
        positive = mechanism.invariants[(mechanism.invariants >= 0).all(axis=1)]
        weight = positive.sum(axis=0) if len(positive) else np.zeros(structure.species_count)
    return ExplicitSystem(
        structure.complexes,
        structure.gain_flows,
        structure.loss_flows,
        mechanism.rates,
        mechanism.thermo,
        weight,
    )


# --- device functions -----------------------------------------------------------------------------

DYNAMIC = False
BODIES = False
REVERSIBLE = False


def room_of(system):
    """Arrays of a `Room`, on the CPU."""
    return Room(
        np.empty(system.rates.slot_start.size - 1),
        np.zeros(system.rates.order.size),
        np.empty(system.weight.size),
        np.empty(system.gains.complex.size),
        np.empty(system.losses.complex.size),
        np.empty(system.complexes.first.size),
    )


def set_explicit_conditions(system, room, times, temperatures, densities, t, y):
    """Coefficients of gains and losses at time t."""
    temperature = interpolated(times, temperatures, t)
    density = interpolated(times, densities, t)
    base_coefficients(system.rates, temperature, density, room.slots, 0, 1)
    if BODIES:
        third_bodies(system.rates, temperature, density, y, room.slots, room.slopes)
    if REVERSIBLE:
        log_volumes(system.thermo, temperature, room.volumes, 0, 1)
        detailed_balance(system.rates, density, room.volumes, room.slots, 0, 1)
    entry_values(system.gains, room.slots, room.gain_values)
    entry_values(system.losses, room.slots, room.loss_values)


def gains_and_losses(system, room, times, temperatures, densities, t, y, gain, loss):
    """Gain and loss of every species at time t."""
    if DYNAMIC:
        set_explicit_conditions(system, room, times, temperatures, densities, t, y)
    products(system.complexes, y, room.products)
    row_sums(system.gains, room.gain_values, room.products, gain)
    row_sums(system.losses, room.loss_values, room.products, loss)
