"""Densities to the text files of GBEES (see `ergode.readers.gbees`)."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ergode.core.errors import PlanError

if TYPE_CHECKING:
    import xarray


def write_gbees(cells: xarray.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write the cells of one time as GBEES does: ``pdf_0.txt`` and the like.

    Parameters
    ----------
    cells : xarray.Dataset
        From `ergode.density.cells_at` or `ergode.read_gbees`.
    path : path
        Replaced only once all is written.

    Returns
    -------
    Path

    Raises
    ------
    PlanError
        These are not cells, or the folder does not exist.

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
    if not file.parent.is_dir():
        raise PlanError(f"cannot write '{file}': the folder '{file.parent}' does not exist")
    text = io.StringIO()
    text.write(f"{float(cells['time']):.9g}\n")
    rows = np.column_stack([cells["mass"].values, cells["point"].values])
    np.savetxt(text, rows, fmt="%.10e")
    with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as scratch:
        partial = Path(scratch, file.name)
        partial.write_text(text.getvalue(), "utf-8")
        os.replace(partial, file)
    return file
