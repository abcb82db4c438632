"""Fields that a grid cannot follow: not finite, without bound, or with very many steps."""

from __future__ import annotations

import numpy as np

from ergode.core.devices import CPU, Device
from ergode.density.grid.lattice import Lattice

_BOUNDLESS = 1e3  # rates relative to their mean over the density
_STEPS_MOST = 1e10
_LONG = 120.0  # seconds
_CELL_STEPS_A_CORE = 3e7  # per second
_CELL_STEPS_A_GPU = 4e9
_CELLS_A_CORE = 5000  # that keep a core busy
_STEP_OF_GPU = 2e-5  # seconds, of a small grid


def where_undefined(lattice: Lattice, keys: np.ndarray, rates: np.ndarray) -> str:
    """Error text if a field or noise is not finite in some cell, else an empty string.

    `keys` [cell]; `rates` [row, cell] are all that were computed from the field and the noise.
    """
    bad = np.flatnonzero(~np.isfinite(rates).all(axis=0))
    if not bad.size:
        return ""
    return (
        f"the field or its noise is not a finite number in the cell at "
        f"{_place(lattice, keys[bad[0]])}; keep the density away with region=, or change the field"
    )


def where_boundless(lattice: Lattice, keys: np.ndarray, rates: np.ndarray, mass: np.ndarray) -> str:
    """Error text if the field moves some cell far faster than the density, else an empty string."""
    size = np.abs(rates).max(axis=0)
    fastest = int(size.argmax())
    mean = float(size @ np.maximum(mass, 0.0) / max(mass.sum(), 1e-300))
    if size[fastest] <= _BOUNDLESS * mean:
        return ""
    return (
        f"the field grows without bound: it moves {size[fastest]:.2g} cells a unit of time in the "
        f"cell at {_place(lattice, keys[fastest])}, and {mean:.2g} on average, so that mass "
        "reaches the end of the lattice whatever the widths; end earlier, or keep the density "
        "away with region="
    )


def where_too_fast(lattice: Lattice, keys: np.ndarray, rates: np.ndarray, span: float) -> str:
    """Error text if a run over a `span` of time would never end, else an empty string."""
    size = np.abs(rates).max(axis=0)
    fastest = int(size.argmax())
    steps = float(size[fastest]) * span
    if steps <= _STEPS_MOST:
        return ""
    return (
        f"the field is nearly infinite in the cell at {_place(lattice, keys[fastest])}: the run "
        f"would take {steps:.1g} steps; keep the density away with region=, or change the field"
    )


def is_too_fast(fastest: np.ndarray, span: float) -> np.ndarray:
    """Which densities would never end; `fastest` [density] is the largest rate of each."""
    return np.asarray(np.isfinite(fastest) & (fastest * span > _STEPS_MOST))


def long_run(fastest: np.ndarray, cell_counts: np.ndarray, span: float, device: Device) -> str:
    """Warning text if the first grids and rates mean a run of minutes, else an empty string."""
    steps = np.where(np.isfinite(fastest), fastest, 0.0) * span
    if isinstance(device, CPU):
        cores = min(device.core_count, max(1, cell_counts.sum() // _CELLS_A_CORE))
        seconds = float(steps @ cell_counts) / (_CELL_STEPS_A_CORE * cores)
    else:
        seconds = float(steps @ cell_counts) / _CELL_STEPS_A_GPU
        seconds = max(seconds, float(steps.max()) * _STEP_OF_GPU)
    if seconds < _LONG:
        return ""
    return (
        f"the run takes about {steps.max():.1g} steps with {cell_counts.max():,} cells, or "
        f"{seconds / 60:.0f} minutes at the speed of a usual machine, and longer if the density "
        "spreads; larger widths take less, and ergode.particles takes seconds"
    )


def _place(lattice: Lattice, key: np.integer) -> str:
    (where,) = lattice.points(lattice.unpack(np.array([key])))
    return f"({', '.join(f'{x:.6g}' for x in where)})"
