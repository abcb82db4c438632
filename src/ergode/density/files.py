"""Densities as files for other programs: tables (Parquet), voxels for ParaView (VTK)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import files
from ergode.core.errors import PlanError
from ergode.density.views import cells_at, marginal, widths_along

if TYPE_CHECKING:
    import xarray

# Corners of a voxel, in VTK's order.
_CORNERS = np.array(
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]
)


def write_cells(
    dataset: xarray.Dataset,
    path: str | os.PathLike[str],
    *,
    time: float | None = None,
    variables: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the density: a table of cells, or voxels of three variables.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.density.propagate`.
    path : path
        ``.parquet``: a row for each cell of each time, with the columns ``time``, ``mass`` and
        the variables (needs pyarrow). ``.vtu``: the cells of one time with their density, for
        ParaView and other VTK programs (needs meshio). The file appears under this name only when
        it is complete.
    time : float, optional
        Write only this time. The default is the last time for ``.vtu``, and all times for a table.
    variables : sequence of three str, optional
        Variables of a ``.vtu`` file; the default is the first three. All others are summed over.
    overwrite : bool
        Replace any existing file of this name; a folder is never replaced.

    Returns
    -------
    Path

    Raises
    ------
    PlanError
        The suffix is unknown, the folder does not exist, the name is taken, a package is not
        installed, or there are not three variables.
    WriteError
        The file could not be written, for example because the disk is full.
    """
    file = Path(path)
    if file.suffix not in (".parquet", ".vtu"):
        raise PlanError(f"cannot write '{file.name}': expected a name ending in .parquet or .vtu")
    files.check_new(file, overwrite=overwrite)
    content = (
        _table(dataset, time) if file.suffix == ".parquet" else _voxels(dataset, time, variables)
    )
    with files.new_file(file, overwrite=overwrite) as partial:
        if file.suffix == ".parquet":
            content.to_parquet(partial, index=False)
        else:
            content.write(partial)
    return file


def _table(dataset: xarray.Dataset, time: float | None) -> Any:
    import pandas

    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise PlanError("Parquet needs pyarrow (pip install 'ergode[densities]')") from None
    if time is None:
        kept = np.flatnonzero(dataset["cells_stored"].values)
        pieces = [cells_at(dataset, index=int(index)) for index in kept]
    else:
        pieces = [cells_at(dataset, time)]
    frames = []
    for cells in pieces:
        columns = {"time": float(cells["time"]), "mass": cells["mass"].values}
        points = cells["point"].values
        columns |= {str(n): points[:, k] for k, n in enumerate(cells["variable"].values)}
        frames.append(pandas.DataFrame(columns))
    if not frames:
        raise PlanError("no cells were kept; call propagate with keep='all'")
    return pandas.concat(frames, ignore_index=True)


def _voxels(dataset: xarray.Dataset, time: float | None, variables: Any) -> Any:
    try:
        import meshio
    except ImportError:
        raise PlanError("VTK files need meshio (pip install 'ergode[densities]')") from None
    names = [str(name) for name in dataset["variable"].values]
    chosen = names[:3] if variables is None else list(variables)
    if len(chosen) != 3:
        raise PlanError(f"a .vtu file has three variables; got {', '.join(chosen) or 'none'}")
    cells = cells_at(dataset, time)
    space = marginal(cells, chosen)
    steps = widths_along(cells)[[names.index(name) for name in chosen]]
    low = np.array([float(space[name][0]) for name in chosen]) - 0.5 * steps
    full = np.argwhere(space.values > 0)
    corners = (full[:, None] + _CORNERS).reshape(-1, 3)
    points, number = np.unique(corners, axis=0, return_inverse=True)
    return meshio.Mesh(
        low + points * steps,
        [("hexahedron", number.reshape(-1, 8))],
        cell_data={"density": [space.values[tuple(full.T)]]},
        field_data={},
    )
