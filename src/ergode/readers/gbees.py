"""Text files of GBEES (Hanson, Rubio, Garcia-Gutierrez, Bewley, Comput. Phys. Commun. 2025).

A file of a density has its time, then a line for each cell with its probability and its centre.

A file of an estimate describes the prior or a measurement.  It has a line of names, the mean, a
heading, the rows of the covariance, a heading, and the time until the next estimate.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ergode.core.errors import ModelError, ReadError
from ergode.models.estimation.priors import Gaussian
from ergode.readers.bounded import file_of, text_of

if TYPE_CHECKING:
    import xarray

# Cell centres are whole multiples of the width apart, within the rounding of the files.
_OFF_GRID = 1e-3
_LARGEST = 1 << 32  # bytes; a density in six dimensions has tens of millions of cells
_UNIT = re.compile(r"\([^)]*\)")


@dataclass(frozen=True, eq=False)
class Estimate:
    """Mean and covariance from a file: a prior, or a measurement.

    Attributes
    ----------
    names : tuple of str
        Names of the components, without their units.
    mean : ndarray, shape [component_count]
    covariance : ndarray, shape [component_count, component_count]
    duration : float
        Time until the next measurement, or until the end of the run [time].
    """

    names: tuple[str, ...]
    mean: np.ndarray
    covariance: np.ndarray
    duration: float

    @property
    def prior(self) -> Gaussian:
        """The estimate as a prior; its components keep the order of the file."""
        return Gaussian(self.mean, self.covariance)


def read_gbees(
    path: str | os.PathLike[str], variables: Sequence[str] | None = None
) -> xarray.Dataset:
    """Read a density that GBEES wrote.

    Parameters
    ----------
    path : path
        A file such as ``pdf_0.txt`` or ``P0_pdf_0.txt``.
    variables : sequence of str, optional
        Names of the variables; ``x1``, ``x2``, ... if not given.

    Returns
    -------
    xarray.Dataset
        mass(cell), whose sum is one, and point(cell, variable), like the result of
        `ergode.density.cells_at`. Functions such as `ergode.density.marginal` accept it, and
        ``ergode.Samples(cells["point"], cells["mass"])`` makes a prior of it.

    Raises
    ------
    ReadError
        The file does not exist, is not in this format, or its cells are not on one grid; the
        message names the line.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "pdf_0.txt")
    >>> _ = path.write_text("0.5\\n0.25 1.0 2.0\\n0.75 1.5 2.0\\n")
    >>> cells = ergode.read_gbees(path, ["x", "y"])
    >>> float(cells["time"]), cells["coordinate"].values.tolist()
    (0.5, [[0, 0], [1, 0]])
    """
    import xarray

    file = file_of(path)
    lines = _lines(file)
    (time,) = _numbers(file, lines, 0, 1)
    if len(lines) < 2:
        raise ReadError(f"{file}: there is no cell after the time")
    size = len(lines[1].split())
    if size < 2:
        raise ReadError(f"{file}: line 2 has {size} number; expected a probability and a state")
    if variables is not None and len(variables) != size - 1:
        raise ModelError(f"variables names {len(variables)}; the cells of {file} have {size - 1}")
    rows = np.array([_numbers(file, lines, k, size) for k in range(1, len(lines))])
    mass, point = rows[:, 0], rows[:, 1:]
    if (mass < 0).any() or mass.sum() <= 0:
        line = 2 + int(np.argmin(mass))
        raise ReadError(
            f"{file}: line {line}: the probability is {mass.min():g}; expected 0 or more"
        )
    centre, width, coordinate = _grid(file, point)
    names = [f"x{d + 1}" for d in range(size - 1)] if variables is None else list(variables)
    return xarray.Dataset(
        {
            "mass": ("cell", mass / mass.sum()),
            "point": (("cell", "variable"), point),
            "coordinate": (("cell", "variable"), coordinate),
        },
        coords={"variable": names, "time": time},
        attrs={"centre": centre, "width": width, "axes": np.eye(size - 1).ravel()},
    )


def read_gbees_estimate(path: str | os.PathLike[str]) -> Estimate:
    """Read a prior or a measurement from a file of GBEES, such as ``measurement0.txt``.

    Parameters
    ----------
    path : path

    Returns
    -------
    Estimate
        Its `prior` can start a density. `ergode.Measurement` takes its `mean` and `covariance`,
        together with the measured function of the state.

    Raises
    ------
    ReadError
        The file does not exist or has another format; the message names the line.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "measurement0.txt")
    >>> _ = path.write_text(
    ...     "x (LU) y (LU)\\n1 2\\n\\nCovariance(x, y)\\n1 0.5\\n0.5 1\\n\\nT (TU)\\n0.25\\n"
    ... )
    >>> found = ergode.read_gbees_estimate(path)
    >>> found.names, found.duration
    (('x', 'y'), 0.25)
    """
    file = file_of(path)
    lines = _lines(file)
    if len(lines) < 2:
        raise ReadError(f"{file}: has {len(lines)} lines; expected names, a mean and a covariance")
    mean = _numbers(file, lines, 1, None)
    size = mean.size
    first = 4
    needed = first + size + 3
    if len(lines) < needed:
        raise ReadError(
            f"{file}: has {len(lines)} lines; expected {needed} for {size} components: names, "
            "mean, a blank, a title, the covariance, a blank, a title, and the duration"
        )
    if len(lines) > needed:
        raise ReadError(f"{file}: line {needed + 1} comes after the duration; expected nothing")
    covariance = np.array([_numbers(file, lines, first + k, size) for k in range(size)])
    (duration,) = _numbers(file, lines, needed - 1, 1)
    names = tuple(_UNIT.sub(" ", lines[0]).split())
    if len(names) != size:
        names = tuple(f"x{d + 1}" for d in range(size))
    return Estimate(names, mean, covariance, float(duration))


def _lines(file: Path) -> list[str]:
    return text_of(file, largest=_LARGEST).rstrip().splitlines()


def _numbers(file: Path, lines: Sequence[str], index: int, count: int | None) -> np.ndarray:
    """The finite numbers of a line."""
    words = lines[index].split() if index < len(lines) else []
    try:
        numbers = np.array([float(word) for word in words])
    except ValueError:
        raise ReadError(f"{file}: line {index + 1} is {lines[index]!r}; expected numbers") from None
    wanted = "some" if count is None else str(count)
    if (count is not None and numbers.size != count) or not numbers.size:
        raise ReadError(f"{file}: line {index + 1} has {numbers.size} numbers; expected {wanted}")
    if not np.isfinite(numbers).all():
        raise ReadError(f"{file}: line {index + 1} has a number that is not finite")
    return numbers


def _grid(file: Path, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centre, widths and integer coordinates of the grid of the cells."""
    dimension = point.shape[1]
    width = np.ones(dimension)
    for d in range(dimension):
        values = np.unique(point[:, d])
        gaps = np.diff(values)
        # Centres may be rounded differently: gaps far below the largest one are rounding errors.
        gaps = gaps[gaps > 1e-6 * np.ptp(values)]
        if gaps.size:
            steps = np.rint((values - values[0]) / gaps.min())
            # From the whole range, so that the rounding error of one gap does not accumulate.
            width[d] = np.ptp(values) / steps[-1]
    centre = point[0]
    steps = (point - centre) / width
    coordinate = np.rint(steps).astype(np.int32)
    off = np.abs(steps - coordinate).max(axis=1)
    if off.max() > _OFF_GRID * max(1, np.abs(coordinate).max()):
        raise ReadError(
            f"{file}: line {2 + int(off.argmax())}: the cell is not on the grid of the others"
        )
    return centre, width, coordinate
