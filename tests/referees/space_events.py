"""Networks with events and delays on a few voxels, interpreted one voxel after another.

Each voxel is an `Interpreter` of the well-mixed referee, which shares no code with the library.
Here are only the jumps between voxels, and which voxel is next.
"""

import copy
import math
from dataclasses import dataclass

import numpy as np
import stochastic_cases as cases
from space_plain import neighbours
from stochastic_truth import Interpreter, is_past

import ergode


@dataclass
class SpaceCase:
    """A network of the well-mixed referee in every voxel."""

    local: cases.Case
    shape: tuple
    spacing: tuple
    periodic: tuple
    diffusion: dict  # species to a coefficient for each axis
    initial: list  # of every voxel: species to molecules

    @property
    def text(self):
        return f"{self.local.text}\n  {self.shape} {self.spacing} {self.periodic} {self.diffusion}"


def random_case(rng):
    """A network with a history, on two to five voxels, of which some species diffuse."""
    shapes = [(2,), (3,), (5,), (2, 2), (1, 3), (2, 1, 2)]
    shape = shapes[rng.integers(len(shapes))]
    axes = len(shape)
    local = cases.history(rng)
    # Amounts have no volume here: rates of voxels are those of the case.
    spacing = tuple(rng.uniform(0.6, 1.5, axes - 1))
    spacing = (*spacing, (local.volume or 1.0) / math.prod(spacing))
    names = [name for name in local.initial if name not in "YZ"]
    initial = [
        {name: n + int(rng.integers(0, 4)) * (name in names) for name, n in local.initial.items()}
        for _ in range(math.prod(shape))
    ]
    return SpaceCase(
        local, shape, spacing, tuple(bool(one) for one in rng.integers(2, size=axes)),
        {name: tuple(rng.uniform(0, 1, axes)) for name in names if rng.random() < 0.8}, initial,
    )  # fmt: skip


def model_of(case, **options):
    """The case in the library's words."""
    fields = {
        name: np.array([one[name] for one in case.initial]).reshape(case.shape)
        for name in case.local.initial
    }
    return ergode.ReactionDiffusion(
        cases.network_of(case.local, tables=False), case.shape, diffusion=case.diffusion,
        spacing=case.spacing, periodic=case.periodic, initial=fields, **options,
    )  # fmt: skip


class Voxels:
    """Realizations of a case."""

    def __init__(self, case):
        self.case = case
        one = Interpreter(case.local)
        self.voxels = [copy.copy(one) for _ in case.initial]
        places = list(np.ndindex(*case.shape))
        self.jumps = [
            (v, places.index(other), name, each[axis] / case.spacing[axis] ** 2)
            for v, place in enumerate(places)
            for other, axis in neighbours(case, place)
            for name, each in case.diffusion.items()
        ]

    def run(self, rng):
        """Amounts [time, voxel, species] at every time; not a number from where it failed."""
        local, voxels = self.case.local, self.voxels
        for voxel, initial in zip(voxels, self.case.initial, strict=True):
            voxel.case = copy.copy(local)
            voxel.case.initial, voxel.rng = initial, rng
            voxel.begin()
        t, side = local.times[0], 0
        rows = np.full((len(local.times), len(voxels), len(local.initial)), np.nan)
        k, width = 0, len(local.reactions)
        while True:
            at, after = min(voxel._next(t, side) for voxel in voxels)
            rates = [a for voxel in voxels for a in voxel.propensities(t, side)]
            rates += [voxels[v].x[name] * rate for v, _, name, rate in self.jumps]
            ends = np.cumsum(rates)
            fires = t + rng.exponential() / ends[-1] if ends[-1] > 0 and at > t else math.inf
            while k < len(local.times) and is_past(local.times[k], fires, at, after):
                rows[k] = [list(voxel.x.values()) for voxel in voxels]
                k += 1
            if k == len(local.times):
                return rows
            if fires >= at:
                t, side = at, after
                for voxel in voxels:
                    voxel.arrive(t, side)
                continue
            t, side = fires, 0
            j = min(int(np.searchsorted(ends, rng.random() * ends[-1], "right")), len(rates) - 1)
            if j < width * len(voxels):
                if not voxels[j // width].fire(j % width, t):
                    return rows
                continue
            source, target, name, _ = self.jumps[j - width * len(voxels)]
            for v, change in ((source, -1), (target, 1)):
                voxels[v].x[name] += change
                voxels[v]._happen(t, 0)


def interpret(case, realizations, rng):
    """Amounts [realization, time, voxel, species]."""
    voxels = Voxels(case)
    return np.array([voxels.run(rng) for _ in range(realizations)])
