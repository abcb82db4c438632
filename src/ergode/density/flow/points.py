"""Points that stand for a prior: a lattice in its deviations, or equidistributed points.

A lattice of spacing h [standard deviations] around a mean, in the frame of a root of the
covariance, is cut at a radius that leaves out a given mass. Sums over a smooth density on a lattice
converge faster than any power of h. In more than six dimensions, a scrambled Sobol sequence takes
the place of the lattice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ergode.core.devices import Device
from ergode.core.errors import PlanError
from ergode.core.math.tall import turned
from ergode.density.flow.cells import Cells
from ergode.density.flow.on_cpu import neighbours_of
from ergode.density.initial import ellipsoid
from ergode.density.tail import CUT_MOST
from ergode.models.estimation.covariances import root_of
from ergode.models.estimation.priors import Density, Gaussian, Mixture, Prior, Samples

SPACING = 0.5  # standard deviations
CUT = 1e-4  # mass of a Gaussian beyond the lattice
EDGE = 1e-3
"""Fraction of the weight at the edge above which a lattice is too small, if it may have less."""
_RIM = 0.5  # deviations: a single fine cell holds little, even where a posterior is cut off
DIMENSIONS_OF_LATTICE = 6
_SOBOL_POINTS = 1 << 17
_POINTS_BY_DEFAULT = 400_000  # a default spacing is enlarged to have no more
_POINTS_LEAST = 200  # and made less to have as many, of one variable
POINTS_MOST = 1 << 24
_KEPT_MOST = 1 << 19  # points of a pattern that a device keeps
_OVERLAP = 1.1  # deviation of a Gaussian cell, in distances of centres
_WIDE_SPACING = 0.25  # standard deviations
_SHARE = 0.5  # of the covariance, that cells of more than six variables have
_SHARE_OF_SAMPLE = 0.01  # and those of samples
_CELLS_OF_MANY = 1 << 13  # of more than six variables
WIDE_BY_DEFAULT = 6_000  # a default spacing is enlarged to have no more Gaussian cells


@dataclass(frozen=True)
class Pattern:
    """Points of the normal distribution of `size` dimensions."""

    z: np.ndarray  # [point, dimension]
    log_volume: np.ndarray  # [point]: logarithm of the volume that each point stands for
    log_normal: np.ndarray  # [point]: logarithm of the weight by a normal density, up to a constant
    index: np.ndarray  # [point, 1 + dimension]: as of a `Start`
    is_edge: np.ndarray  # [point]: whether it is nearer to the edge than a spacing or `_RIM`
    signs: np.ndarray  # [point], 1 or -1: each half of the points stands for all
    spacing: float  # of the lattice; 0 if it is none
    ideal: float  # effective number of points for the normal distribution
    made_by: tuple[int, float, float, int]  # arguments of `pattern`
    scale: float = 1.0  # on the spacing
    shell: float = 0.0  # fraction of the weight of points at the edge, by a normal density

    def __len__(self) -> int:
        return len(self.z)

    @cached_property
    def neighbours(self) -> np.ndarray:
        """As of a `Start`."""
        return neighbours_of(self.index)

    @cached_property
    def log_share(self) -> np.ndarray:
        """Logarithm of the share of each point of the normal distribution [point]."""
        return np.asarray(self.log_normal - np.logaddexp.reduce(self.log_normal))

    def on(self, device: Device) -> PatternOn:
        """The arrays of the pattern on a device, which keeps those of the latest small ones."""
        if len(self) > _KEPT_MOST:
            return _on(self, device)
        return _kept_on(device, *self.made_by)


@dataclass(frozen=True)
class PatternOn:
    """Arrays of a pattern on a device."""

    index: Any  # [1 + dimension, point]: as of a `Start`
    places: Any  # [dimension, point]: of the index, or `z` of points that are no lattice
    log_share: Any  # [point]
    log_volume: Any  # [point]
    signs: Any  # [point]
    is_edge: Any  # [point]


def _on(shape: Pattern, device: Device) -> PatternOn:
    places = shape.index[:, 1:] if shape.spacing else shape.z
    return PatternOn(*device.put_together([
        shape.index.T, places.T, shape.log_share, shape.log_volume, shape.signs, shape.is_edge
    ]))  # fmt: skip


@lru_cache(maxsize=8)
def _kept_on(device: Device, *made_by: Any) -> PatternOn:
    return _on(pattern(*made_by), device)


@lru_cache(maxsize=8)
def _neighbours_on(device: Device, *made_by: Any) -> Any:
    return device.put(pattern(*made_by).neighbours)


@lru_cache(maxsize=8)
def pattern(size: int, spacing: float, cut: float, count: int = _SOBOL_POINTS) -> Pattern:
    """The pattern of `size` dimensions; if it is no lattice, of `count` points.

    Raises a PlanError if it would have too many points.
    """
    from scipy.special import chdtri, ndtri  # importing it takes 0.1 s

    if size > DIMENSIONS_OF_LATTICE:
        from scipy.stats import qmc

        uniform = qmc.Sobol(size, seed=0).random(count)
        z = ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
        log_volume = 0.5 * (z**2).sum(axis=1) + 0.5 * size * math.log(2 * math.pi)
        signs = np.where(np.arange(len(z)) < len(z) // 2, 1, -1)
        log_volume -= math.log(len(z))
        return Pattern(
            z, log_volume, np.full(len(z), -math.log(len(z))), np.empty((0, 1 + size), np.int32),
            np.zeros(len(z), np.int8), signs.astype(np.int8), 0.0, float(len(z)),
            (size, spacing, cut, count),
        )  # fmt: skip
    reach = float(np.sqrt(chdtri(size, cut))) / spacing
    if reach < 1.0:
        raise PlanError(
            f"width is {spacing:.3g} standard deviations of the prior, which leaves one point; "
            f"expected less than {spacing * reach:.2g}"
        )
    ball = count_of(size, spacing, cut)
    if ball > POINTS_MOST:
        raise PlanError(
            f"cells {spacing:.2g} standard deviations wide are about {ball:.2g}; expected at most "
            f"{POINTS_MOST:,}: use larger widths"
        )
    k = ellipsoid(np.zeros(size), np.eye(size), reach).astype(np.float64)
    z = k * spacing
    # With this scale the variance of the weighted points is one, in spite of the cut.
    log_normal = -0.5 * (z**2).sum(axis=1)
    weight = np.exp(log_normal)
    scale = math.sqrt(weight.sum() / (weight @ z[:, 0] ** 2))
    z *= scale
    signs = np.where(k.sum(axis=1) % 2 == 0, 1, -1).astype(np.int8)
    volume = np.full(len(k), size * math.log(spacing * scale))
    edge = (np.linalg.norm(k, axis=1) > reach - max(1.0, _RIM / spacing)).astype(np.int8)
    ideal = (4 * math.pi) ** (size / 2) / spacing**size
    shell = float(weight @ edge / weight.sum())
    index = np.concatenate([np.zeros((len(k), 1)), k], axis=1).astype(np.int32)
    made_by = size, spacing, cut, count
    return Pattern(
        z, volume, log_normal, index, edge, signs, spacing, ideal, made_by, scale, shell
    )  # fmt: skip


@lru_cache(maxsize=64)
def spacing_of(
    size: int, wanted: float | None, cut: float, count: int = _POINTS_BY_DEFAULT,
    least: float = SPACING,
) -> float:  # fmt: skip
    """Spacing of a lattice; the default is the `least` that has no more than `count` points.

    A lattice has at least _POINTS_LEAST.
    """
    if wanted is not None:
        return wanted
    ball = count_of(size, 1.0, cut)
    most, fewest = ((ball / points) ** (1.0 / size) for points in (_POINTS_LEAST, count))
    return float(max(min(least, most), fewest))


def count_of(size: int, spacing: float, cut: float) -> float:
    """About how many points a lattice has, which is a ball that leaves out the mass `cut`."""
    from scipy.special import chdtri  # importing it takes 0.1 s

    ball = math.pi ** (size / 2) / math.gamma(size / 2 + 1)
    return float(ball * chdtri(size, max(cut, 1e-300)) ** (size / 2) / spacing**size)


@dataclass(frozen=True)
class Laid:
    """Points on the host; their weights need no pattern."""

    points: np.ndarray  # [point, variable]
    log_weights: np.ndarray  # [point]
    signs: np.ndarray  # [point]
    is_edge: np.ndarray  # [point]
    index: np.ndarray  # [point, 1 + dimension]: component and place in its lattice; or empty


@dataclass(frozen=True)
class Start:
    """Points of one prior at the first time."""

    prior: Prior
    ideal: float  # effective number of points if nothing is measured
    spacing: float  # of the lattice; 0 if it is none
    log_scale: float = 0.0  # what makes an integral of the prior's density one, as a logarithm
    # Of each component's lattice, the point of the index zero, and the edges of a cell of spacing
    # one, as columns; of other points, mean and root of the covariance of the normal distribution.
    frames: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    first_spacing: float = 0.0  # before cells were divided
    # [component, dimension, dimension]: root of the covariance of cells, if they are Gaussians.
    roots: np.ndarray | None = None
    shape: Pattern | None = None  # if the points are a whole pattern
    # Whether weights are those of the prior's density at the points of a pattern, and not those of
    # the normal distribution.
    is_apart: bool = False
    laid: Laid | Cells | None = None  # the points, if they are no pattern

    def __len__(self) -> int:
        if self.shape is not None:
            return len(self.shape)
        return len(self.laid) if isinstance(self.laid, Cells) else len(self.signs)

    @property
    def has_cells(self) -> bool:
        """Whether the points are a lattice."""
        return bool(self.spacing)

    @property
    def index(self) -> np.ndarray:
        """Component and place of each point in its lattice [point, 1 + dimension]; or empty."""
        if self.laid is None:
            return self.shape.index if self.shape is not None else np.empty((0, 1), np.int32)
        return self.laid.host_index if isinstance(self.laid, Cells) else self.laid.index

    @property
    def signs(self) -> np.ndarray:
        """Signs of points: each half of them stands for all [point]."""
        if isinstance(self.laid, Cells):
            return self.laid.host("sign")
        return (self.laid or self.shape).signs  # type: ignore[union-attr]

    @property
    def is_edge(self) -> np.ndarray:
        """Whether points are at the edge [point]."""
        if isinstance(self.laid, Cells):
            return self.laid.host("rim")
        return (self.laid or self.shape).is_edge  # type: ignore[union-attr]

    @cached_property
    def points(self) -> np.ndarray:
        """All points [point, variable]."""
        if self.laid is not None:
            return self.laid.host_points if isinstance(self.laid, Cells) else self.laid.points
        assert self.shape is not None
        mean, edges = self.frames[0]
        return np.asarray(mean + turned(self.shape.z, edges.T / self.shape.scale))

    @cached_property
    def log_weights(self) -> np.ndarray:
        """Logarithms of weights [point], whose sum is one."""
        if self.laid is not None:
            laid = self.laid
            return laid.host("log")[0] if isinstance(laid, Cells) else laid.log_weights
        assert self.shape is not None
        if not self.is_apart:
            return self.shape.log_share
        return self.prior.log_density(self.points) + self.shape.log_volume + self.log_volume

    @property
    def log_volume(self) -> float:
        """Logarithm of the volume of the frame of a pattern, and of what makes densities masses."""
        assert self.shape is not None
        edges = self.frames[0][1] / self.shape.scale
        return float(np.linalg.slogdet(edges)[1]) + self.log_scale

    @property
    def edge_most(self) -> float:
        """Fraction of the weight at the edge above which the lattice is too small."""
        if self.spacing < self.first_spacing:
            return CUT_MOST
        return EDGE if self.shape is None else max(EDGE, 2.0 * self.shape.shell)

    @cached_property
    def neighbours(self) -> np.ndarray:
        """For each point the next ones along each axis [axis, 2, point]: their places, or -1."""
        if isinstance(self.laid, Cells):
            return self.laid.host("beside")
        return neighbours_of(self.index) if self.shape is None else self.shape.neighbours

    def neighbours_on(self, device: Device) -> Any:
        """The neighbours on a device."""
        if isinstance(self.laid, Cells):
            return self.laid.beside
        if self.shape is None or len(self) > _KEPT_MOST:
            return device.put(self.neighbours)
        return _neighbours_on(device, *self.shape.made_by)


def start_of(prior: Prior, spacing: float | None, cut: float, count: int = _SOBOL_POINTS) -> Start:
    """Points of a prior: its samples, or a lattice for it or for each of its components.

    In more than six variables, `count` equidistributed points of each.
    """
    size = prior.mean.size
    if isinstance(prior, Samples):
        with np.errstate(divide="ignore"):
            log = np.log(prior.weights)
        signs = np.where(np.arange(len(log)) % 2 == 0, 1, -1).astype(np.int8)
        ideal = 1.0 / float(prior.weights @ prior.weights)
        none = np.empty((0, size + 1), np.int32)
        edge = np.zeros(len(log), np.int8)
        return Start(prior, ideal, 0.0, laid=Laid(prior.points, log, signs, edge, none))
    if isinstance(prior, Mixture):
        # Each component is exact by itself.
        parts = [start_of(one, spacing, cut, count) for one in prior.components]
        weights = np.log(np.asarray(prior.weights, np.float64))
        log = np.concatenate([a.log_weights + w for a, w in zip(parts, weights, strict=True)])
        index = np.zeros((len(log), 1 + size), np.int32)
        if parts[0].has_cells:
            index[:] = np.concatenate([one.index for one in parts])
        index[:, 0] = np.repeat(np.arange(len(parts)), [len(one) for one in parts])
        points, signs, edge = (
            np.concatenate([getattr(one, name) for one in parts])
            for name in ("points", "signs", "is_edge")
        )
        return Start(
            prior, _effective(log), parts[0].spacing, 0.0, tuple(one.frames[0] for one in parts),
            parts[0].spacing, laid=Laid(points, log, signs, edge, index),
        )  # fmt: skip
    root = _root(np.asarray(prior.covariance, np.float64).tobytes())
    return in_frame(prior, prior.mean, root, spacing_of(size, spacing, cut), cut, count=count)


@lru_cache(maxsize=64)
def _root(covariance: bytes) -> np.ndarray:
    """Root of a covariance, which densities side by side share."""
    values = np.frombuffer(covariance)
    size = math.isqrt(values.size)
    return root_of(values.reshape(size, size))


def wide_start_of(
    prior: Prior, spacing: float | None, cut: float, count: int = WIDE_BY_DEFAULT
) -> Start:
    """Gaussian cells whose sum is a prior.

    The covariance of each component is shared by a lattice of centres, and the cells around them.
    In more than six variables centres are equidistributed. Samples are drawn together around their
    mean, and have kernels that give them their covariance again (Liu and West). A density that is
    given by a function is one of samples on a lattice.
    """
    share = _SHARE_OF_SAMPLE
    if isinstance(prior, Density):
        size, root = prior.mean.size, root_of(np.asarray(prior.covariance, np.float64))
        spacing = spacing_of(size, spacing, cut, count, _WIDE_SPACING)
        laid = in_frame(prior, prior.mean, root, spacing, cut, count=_CELLS_OF_MANY)
        if size <= DIMENSIONS_OF_LATTICE:
            share = (_OVERLAP * spacing) ** 2 / (1.0 + (_OVERLAP * spacing) ** 2)
        prior = Samples(laid.points, np.exp(laid.log_weights))
    if isinstance(prior, Samples):
        root = root_of(np.asarray(prior.covariance, np.float64))
        start, mean = start_of(prior, None, cut), prior.mean
        points = mean + math.sqrt(1.0 - share) * (prior.points - mean)
        of_samples = replace(start.laid, points=points)  # type: ignore[type-var]
        return replace(start, laid=of_samples, roots=math.sqrt(share) * root[None])
    parts = prior.components if isinstance(prior, Mixture) else [prior]
    size, each = prior.mean.size, count // len(parts)
    spacing, share = spacing_of(size, spacing, cut, each, _WIDE_SPACING), _SHARE
    if size <= DIMENSIONS_OF_LATTICE:
        share = (_OVERLAP * spacing) ** 2 / (1.0 + (_OVERLAP * spacing) ** 2)
    centres = [Gaussian(one.mean, (1.0 - share) * one.covariance) for one in parts]
    start = start_of(
        Mixture(prior.weights, centres) if isinstance(prior, Mixture) else centres[0], spacing, cut,
        min(_CELLS_OF_MANY, 1 << int(math.log2(each) + 1)),
    )  # fmt: skip
    roots = [np.sqrt(share) * root_of(np.asarray(one.covariance, np.float64)) for one in parts]
    return replace(start, roots=np.stack(roots))


def in_frame(
    prior: Prior, mean: np.ndarray, root: np.ndarray, spacing: float, cut: float,
    log_scale: float | None = None, count: int = _SOBOL_POINTS,
) -> Start:  # fmt: skip
    """Points of a prior in a frame; with `log_scale` their weights are absolute."""
    shape = pattern(mean.size, spacing, cut, count)
    start = Start(
        prior, shape.ideal, shape.spacing, 0.0, ((mean, root * shape.scale),), shape.spacing,
        shape=shape,
    )  # fmt: skip
    if isinstance(prior, Gaussian) and log_scale is None:
        return start
    start = replace(start, is_apart=True, log_scale=log_scale or 0.0)
    if log_scale is None:
        return replace(start, log_scale=-float(np.logaddexp.reduce(start.log_weights)))
    return start


def _effective(log: np.ndarray) -> float:
    weight = np.exp(log - log.max())
    return float(weight.sum() ** 2 / (weight @ weight))
