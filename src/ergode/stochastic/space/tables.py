"""A reaction-diffusion model as the flat arrays that the kernel reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.errors import PlanError
from ergode.models.reactions.reaction_diffusion import ReactionDiffusion
from ergode.stochastic.kernel.tree import levels_of
from ergode.stochastic.space.kernel import FACES
from ergode.stochastic.tables import Tables, constant
from ergode.stochastic.to_tables import build, check_amounts


@dataclass(frozen=True, eq=False)
class SpaceTables:
    """A model, prepared for simulation."""

    model: ReactionDiffusion
    # Of the network of a voxel. It has a row for each point of the sweep and each zone, where a
    # zone is all voxels with the same parameters.
    network: Tables
    space: dict[str, Any]  # the grid, on the host: part of `kernel.State`
    nodes: int  # of the tree of sums


def build_space(
    model: ReactionDiffusion,
    values: Mapping[str, np.ndarray],
    points: int,
    rounding: str | None = None,  # how events round, unless they specify it
) -> SpaceTables:
    """Build the tables of a model, for this number of points of a sweep.

    `values` [point] are parameters that differ from the network's own.

    Raises a PlanError or ModelError if the model cannot be simulated; the message gives the reason.
    """
    zones, by_zone = _zones(model)
    count = len(next(iter(by_zone.values()))) if by_zone else 1
    rows = {name: np.repeat(row, count) for name, row in values.items()}
    rows |= {name: np.tile(row, points) for name, row in by_zone.items()}
    network = build(model.voxel, rows, {}, points * count, rounding=rounding)
    check_amounts(
        network.net.initial[:, : network.species_count].copy(),
        [member.name for member in network.network.species], 31,
    )  # fmt: skip
    if network.smooth:
        raise PlanError(f"a simulation in space cannot meet a condition exactly: {network.smooth}")
    if network.time_dependent:
        raise PlanError(
            "a rate depends on the time; a simulation in space needs rates that change only with "
            "amounts and events, and by comparisons with the time such as (2 if time > 5 else 1)"
        )
    movers, rates, leaving = _jumps(model, values, points)
    faces, around, steps = _faces(model)
    levels = levels_of(model.voxel_count)
    space: dict[str, Any] = dict(
        faces=faces, around=around, steps=steps, zones=zones, zone_count=np.int64(count),
        movers=movers, rates=rates, leaving=leaving, first=_first(model), levels=levels,
    )  # fmt: skip
    for array in space.values():
        if isinstance(array, np.ndarray):
            constant(array)
    return SpaceTables(model, network, space, int(levels[-1]))


def _zones(model: ReactionDiffusion) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Zone of every voxel, and the parameters of every zone."""
    if not model.parameters:
        return np.zeros(0, np.int32), {}
    values = np.stack([field.ravel() for field in model.parameters.values()])
    found, zones = np.unique(values, axis=1, return_inverse=True)
    by_zone = dict(zip(model.parameters, found, strict=True))
    return zones.ravel().astype(np.int32), by_zone


def _jumps(
    model: ReactionDiffusion, values: Mapping[str, np.ndarray], points: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Species that diffuse, their rates through each face, and sums of these by set of faces."""
    known = model.voxel.evaluate_parameters(values)
    names = list(model.diffusion)
    rates = np.zeros((points, len(names), FACES))
    for m, name in enumerate(names):
        for face, rate in enumerate(model.jump_rates(model.diffusion[name], known)):
            rates[:, m, face] = rate
    bad = np.argwhere(~(np.isfinite(rates) & (rates >= 0)))
    if bad.size:
        point, m, _ = bad[0]
        at = f" at point {point} of the sweep" if points > 1 else ""
        raise PlanError(f"the diffusion coefficient of '{names[m]}' is negative or not finite{at}")
    sets = (np.arange(1 << FACES)[:, None] >> np.arange(FACES)) & 1
    movers = np.array([model.network.index[name] for name in names], np.int32)
    return movers, rates, np.einsum("sf,pmf->psm", sets, rates)


def _faces(model: ReactionDiffusion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """See `State.faces`, `State.around` and `State.steps`."""
    shape = model.shape
    faces, around = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
    steps = np.zeros((2, FACES), np.int64)
    for axis, (length, periodic) in enumerate(zip(shape, model.periodic, strict=True)):
        stride = int(np.prod(shape[axis + 1 :]))
        for side in (0, 1):
            face = 2 * axis + side
            steps[:, face] = (stride, -stride * (length - 1)) if side else (
                -stride, stride * (length - 1)
            )  # fmt: skip
            last = [slice(None)] * len(shape)
            last[axis] = slice(length - 1, None) if side else slice(0, 1)
            if length > 1:
                faces |= np.uint8(1 << face)
            if periodic and length > 1:
                around[tuple(last)] |= np.uint8(1 << face)
            else:
                faces[tuple(last)] &= np.uint8(255 - (1 << face))
    return faces.ravel(), around.ravel(), steps


def _first(model: ReactionDiffusion) -> np.ndarray:
    """See `State.first`."""
    first = np.full((model.voxel_count, len(model.network.species)), -1, np.int32)
    for name, field in model.initial.items():
        first[:, model.network.index[name]] = field.ravel()
    return first
