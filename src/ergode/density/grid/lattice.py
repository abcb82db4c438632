"""The lattice: cells by their integer coordinates, packed into one word.

Cell k has its centre at ``centre + width * k``. Its key has 64 bits, BITS of them for each
dimension; the key of a neighbour differs by a constant. Coordinates stay two short of the ends of
their bits, so that keys of neighbours do not overflow into another coordinate.

The axes of a rotated lattice are the columns of `axes`: the point with coordinates z is
``centre + axes @ z``, and the field is projected onto the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import option, real
from ergode.core.errors import PlanError
from ergode.core.math.tall import turned

DIMENSIONS_MOST = 10
_TURNS_LEAST = 5  # cells in a period, so that those of a stencil are different


@dataclass(frozen=True)
class Lattice:
    """Position and directions of the cells."""

    centre: np.ndarray  # [dimension]: centre of the cell with all coordinates zero
    width: np.ndarray  # [dimension]: width of a cell along each axis
    axes: np.ndarray  # [dimension, dimension]: columns are the directions of the axes: orthonormal
    # Whether the axes may differ from those of the variables; kernels are specialised to this.
    is_rotated: bool = True
    # [dimension]: cells in a period of each axis, 0 if it is not periodic; None: none is.
    turns: np.ndarray | None = None

    @property
    def dimension(self) -> int:
        """Number of dimensions."""
        return int(self.centre.size)

    @property
    def bits(self) -> int:
        """Bits of a key for one coordinate."""
        return min(21, 62 // self.dimension)

    @cached_property
    def reach(self) -> int:
        """Largest absolute coordinate of a cell."""
        return (1 << (self.bits - 1)) - 3

    def near(self, point: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The point [variable], moved by whole periods to the one nearest to `other`."""
        if self.turns is None:
            return point
        period = np.where(self.turns > 0, self.turns * self.width, 1.0)
        whole = np.where(self.turns > 0, np.rint((point - other) / period), 0.0)
        return np.asarray(point - whole * period)

    def periodic(self, periods: np.ndarray) -> Lattice:
        """The lattice with these periods [dimension]; a little narrower cells divide each."""
        turns = np.ceil(periods / self.width - 1e-9)
        turns = np.where(np.isfinite(periods), np.maximum(turns, _TURNS_LEAST), 0)
        width = np.where(turns > 0, periods / np.maximum(turns, 1), self.width)
        return replace(self, width=width, turns=turns.astype(np.int64))

    def wrapped(self, coordinates: np.ndarray) -> np.ndarray:
        """Coordinates [cell, dimension] within one period around the centre."""
        if self.turns is None:
            return coordinates
        count = np.maximum(self.turns, 1)
        least = -(count // 2)
        return np.where(self.turns > 0, (coordinates - least) % count + least, coordinates)

    def moved(self, change: np.ndarray) -> Lattice:
        """The same lattice at another place: all cells move by `change` [variable]."""
        return replace(self, centre=self.centre + change)

    def pack(self, coordinates: np.ndarray) -> np.ndarray:
        """Keys of cells from coordinates [cell, dimension]."""
        if coordinates.size:
            self.check_reach(int(np.abs(coordinates).max()))
        keys = np.zeros(len(coordinates), np.int64)
        for d in range(self.dimension):
            keys |= (coordinates[:, d].astype(np.int64) + (1 << (self.bits - 1))) << (self.bits * d)
        return keys

    def check_reach(self, farthest: int) -> None:
        """Raise a PlanError if cells with a coordinate so large have no keys."""
        if farthest > self.reach:
            raise PlanError(
                f"the density reaches {farthest} cells from the centre of the lattice, which has "
                f"room for {self.reach} in {self.dimension} dimensions; use larger widths"
            )

    def unpack(self, keys: np.ndarray) -> np.ndarray:
        """Coordinates [cell, dimension] of keys, int32."""
        result = np.empty_like(keys, np.int32, shape=(len(keys), self.dimension))
        for d in range(self.dimension):
            field = (keys >> (self.bits * d)) & ((1 << self.bits) - 1)
            result[:, d] = field - (1 << (self.bits - 1))
        return result

    def points(self, coordinates: np.ndarray) -> np.ndarray:
        """Centres of cells [cell, dimension]."""
        if not self.is_rotated:
            return self.centre + coordinates * self.width
        return self.centre + turned(coordinates, (self.axes * self.width).T)

    def cell_of(self, points: np.ndarray) -> np.ndarray:
        """Coordinates of the cells in which points lie."""
        cells = np.rint(((points - self.centre) @ self.axes) / self.width).astype(np.int64)
        return self.wrapped(cells)


# ---- options of kernels: the model

DIMENSION = option()
"""Number of dimensions."""

BITS = option()
"""Bits of a key for one coordinate."""

PARAMETERS = option(0)
"""Numbers that functions receive: at least one for each parameter of the field."""

ROTATED = option(False)
"""Whether the axes of the lattice may be others than those of the variables."""

LIMITED = option(False)
"""Whether cells must lie in a range of `limited_by`."""

PERIODIC = option(False)
"""Whether any axis is periodic."""

CUT = option(False)
"""Whether the edge where `limited_by` becomes negative reflects, and cuts cells."""

ABSORBING = option(False)
"""Whether mass leaves the grid where `limited_by` becomes negative."""

KILLED = option(False)
"""Whether mass vanishes at the rate `killing`."""

LOSSY = option(False)
"""Whether mass is absorbed or killed."""

VARYING = option(False)
"""Whether the field or the noise depends on time."""

NOISY = option((False,))
"""Whether noise acts along each dimension."""

LOCAL_NOISE = option(False)
"""Whether noise depends on the state, time or parameters."""

SPREAD_KEPT = option(False)
"""Whether the spread of noise is kept for each cell: if it is local, or there is a region."""

CROSSED = option(False)
"""Whether noise is correlated between variables: `noise` returns a whole matrix, row by row, or
amplitudes whose Wiener processes have a CORRELATION."""

CORRELATION = option(())
"""Correlations of Wiener processes, row by row, where `noise` returns amplitudes."""

AMPLITUDES = option(False)
"""Whether `noise` returns square roots of variances."""

rhs = option()
"""``rhs(t, y, p)``, the user's field."""

noise = option()
"""``noise(t, y, p)``, the user's noise along the variables."""

limited_by = option()
"""``limited_by(y, t, p)``, a quantity that must lie in a range where a cell is admissible."""

killing = option()
"""``killing(y, t, p)``, the rate at which mass vanishes."""


class Frame(NamedTuple):
    """The lattice and the parameters of the field, on a device, of type `real`.

    Several densities have one more axis in front.
    """

    centre: Any  # [dimension]
    width: Any  # [dimension]
    axes: Any  # [dimension, dimension]
    parameters: Any  # [parameter]
    spread: Any  # [dimension]: fraction of a cell that noise moves each way per unit of time
    # [2 + dimension]: least and largest admissible value, and the cells in a period of each axis
    limits: Any


def frame_rows(
    lattices: Sequence[Lattice],
    parameters: np.ndarray,
    spread: np.ndarray | None = None,
    limits: Sequence[tuple[float, float]] = (),
) -> list[np.ndarray]:
    """The arrays of the frames of several densities."""
    count, dimension = len(lattices), lattices[0].dimension
    return [
        np.stack([lattice.centre for lattice in lattices]),
        np.stack([lattice.width for lattice in lattices]),
        np.stack([lattice.axes for lattice in lattices]),
        parameters,
        np.zeros((count, dimension)) if spread is None else spread,
        np.hstack([limits or [(0.0, 0.0)] * count, [_turns_of(one) for one in lattices]]),
    ]


def _turns_of(lattice: Lattice) -> np.ndarray:
    return np.zeros(lattice.dimension) if lattice.turns is None else lattice.turns


def frame_of(every, which):
    """The frame of one density."""
    return Frame(
        every.centre[which], every.width[which], every.axes[which], every.parameters[which],
        every.spread[which], every.limits[which],
    )  # fmt: skip


def coordinate(key, d):
    """Coordinate of a cell along one dimension."""
    return ((key >> np.int64(BITS * d)) & np.int64((1 << BITS) - 1)) - np.int64(1 << (BITS - 1))


def turns_of(d, frame):
    """Cells in a period along a dimension; 0 if it is not periodic."""
    return np.int64(frame.limits[2 + d])


def step_key(d):
    """Difference of the keys of neighbours along one dimension, within a period."""
    return np.int64(1) << np.int64(BITS * d)


def beside(key, d, way, frame):
    """Key of the neighbour above (`way` 1) or below (-1) along one dimension."""
    if PERIODIC:
        count = turns_of(d, frame)
        if count > 0:
            k = coordinate(key, d) + way + (count >> 1)
            if k < 0:
                return key + (count - 1) * step_key(d)
            if k >= count:
                return key - (count - 1) * step_key(d)
    return key + way * step_key(d)


def is_inside(key, d):
    """Whether a cell is inside the lattice along dimension `d`."""
    k = (key >> np.int64(BITS * d)) & np.int64((1 << BITS) - 1)
    return k > 1 and k < (1 << BITS) - 2


def point(z, frame):
    """The point with the coordinates `z` along the axes of the lattice."""
    if ROTATED:
        return tuple(
            sum((frame.axes[i, j] * z[j] for j in range(DIMENSION)), frame.centre[i])
            for i in range(DIMENSION)
        )
    return tuple(frame.centre[i] + z[i] for i in range(DIMENSION))


def centre_of(key, frame):
    """Centre of a cell, along the axes of the lattice."""
    return tuple(real(coordinate(key, d)) * frame.width[d] for d in range(DIMENSION))


def limited_value(z, frame):
    """The value of `limited_by` at the point with the coordinates `z`."""
    p = parameters_of(frame)
    return real(limited_by(point(z, frame), real(0.0), p)[0])


def is_allowed(z, frame):
    """Whether the point with the coordinates `z` is in the range of `limited_by`."""
    if LIMITED:
        value = limited_value(z, frame)
        return value >= frame.limits[0] and value <= frame.limits[1]
    return True


def shifted(z, d, by, frame):
    """The point `by` cells from `z` along dimension `d`."""
    return tuple(z[j] + by * frame.width[j] if j == d else z[j] for j in range(DIMENSION))


def parameters_of(frame):
    """Parameters of a density; zeros follow."""
    given = frame.parameters
    return tuple(given[j] if j < given.shape[0] else real(0.0) for j in range(PARAMETERS))


def field_at(t, y, frame):
    """The field at a state."""
    return rhs(t, y, parameters_of(frame))


def drift(t, z, frame):
    """The field at a point, along the axes of the lattice."""
    f = field_at(t, point(z, frame), frame)
    if ROTATED:
        return tuple(
            sum(frame.axes[i, d] * real(f[i]) for i in range(DIMENSION)) for d in range(DIMENSION)
        )
    return tuple(real(f[d]) for d in range(DIMENSION))


def face_rates(t, z, side, frame):
    """Velocity on the faces of a cell along each dimension, in cells per unit of time.

    `side` is a half for the faces above, minus a half for those below.
    """
    return tuple(
        drift(
            t,
            tuple(z[j] + side * frame.width[j] if j == d else z[j] for j in range(DIMENSION)),
            frame,
        )[d]
        / frame.width[d]
        for d in range(DIMENSION)
    )


def killing_rate(t, z, frame):
    """Rate at which mass vanishes at the point with the coordinates `z`."""
    p = parameters_of(frame)
    return real(killing(point(z, frame), t, p)[0])


def spreads(t, z, frame):
    """Fraction of a cell that noise moves each way along each dimension, per unit of time."""
    if LOCAL_NOISE:
        q = noise(t, point(z, frame), parameters_of(frame))
        if CROSSED and not AMPLITUDES:
            q = tuple(real(q[d * (DIMENSION + 1)]) for d in range(DIMENSION))
        else:
            q = tuple(
                real(q[d]) * real(q[d]) if AMPLITUDES else real(q[d]) for d in range(DIMENSION)
            )
        return tuple(0.5 * q[d] / (frame.width[d] * frame.width[d]) for d in range(DIMENSION))
    return tuple(frame.spread[d] for d in range(DIMENSION))


def noise_covariance(t, y, frame):
    """Covariance of noise per unit of time at a state, row by row."""
    q = noise(t, y, parameters_of(frame))
    if CROSSED and AMPLITUDES:
        return tuple(
            real(CORRELATION[k]) * real(q[k // DIMENSION]) * real(q[k % DIMENSION])
            for k in range(DIMENSION * DIMENSION)
        )
    if CROSSED:
        return tuple(real(q[k]) for k in range(DIMENSION * DIMENSION))
    own = tuple(real(q[d]) * real(q[d]) if AMPLITUDES else real(q[d]) for d in range(DIMENSION))
    return tuple(
        own[k // DIMENSION] if k % (DIMENSION + 1) == 0 else real(0.0)
        for k in range(DIMENSION * DIMENSION)
    )


def crossings(t, z, frame):
    """What noise moves along two dimensions at once: covariances as fractions, like `spreads`.

    There is one for every two dimensions [dimension, dimension], row by row; those of the upper
    triangle count.
    """
    q = noise_covariance(t, point(z, frame), frame)
    return tuple(
        0.5 * q[k] / (frame.width[k // DIMENSION] * frame.width[k % DIMENSION])
        for k in range(DIMENSION * DIMENSION)
    )


def number_of_pair(d, e):
    """Row of `Cells.spread` with the covariance of two dimensions, where ``d < e``."""
    return DIMENSION + d * DIMENSION - d * (d + 1) // 2 + e - d - 1
