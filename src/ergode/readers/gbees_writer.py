"""Densities to the text files of GBEES (see `ergode.readers.gbees`)."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ergode.core import files
from ergode.core.errors import PlanError

if TYPE_CHECKING:
    import xarray


def write_gbees(
    cells: xarray.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write the cells of one time as GBEES does: ``pdf_0.txt`` and the like.

    Parameters
    ----------
    cells : xarray.Dataset
        From `ergode.density.cells_at` or `ergode.read_gbees`.
    path : path
        There is a file of this name only once all is written.
    overwrite : bool
        Replace a file of that name, whoever wrote it; never a folder.

    Returns
    -------
    Path

    Raises
    ------
    PlanError
        These are not cells, the folder does not exist, or something has the name.
    WriteError
        The disk is full, or the like.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> field = ergode.fields.rotation()
    >>> result = ergode.density.propagate(
    ...     field, ergode.Gaussian([1, 0], [0.1, 0.1]), times=[0], parameters={"rate": 1},
    ...     device="cpu",
    ... )
    >>> path = pathlib.Path(tempfile.mkdtemp(), "pdf_0.txt")
    >>> _ = ergode.write_gbees(ergode.density.cells_at(result), path)
    >>> ergode.read_gbees(path).sizes["cell"] == int(result["cell_count"][0])
    True
    """
    if "mass" not in cells or "point" not in cells:
        raise PlanError("expected the cells of one time, from ergode.density.cells_at")
    file = Path(path)
    text = io.StringIO()
    text.write(f"{float(cells['time']):.9g}\n")
    rows = np.column_stack([cells["mass"].values, cells["point"].values])
    np.savetxt(text, rows, fmt="%.10e")
    with files.new_file(file, overwrite=overwrite) as partial:
        partial.write_text(text.getvalue(), "utf-8")
    return file
