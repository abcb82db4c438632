"""Write densities as text files of GBEES (see `ergode.readers.gbees`)."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ergode.core import files
from ergode.core.errors import PlanError
from ergode.readers.bounded import file_of

if TYPE_CHECKING:
    import xarray


def write_gbees(
    cells: xarray.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write the cells of one time in the format of GBEES, such as ``pdf_0.txt``.

    Parameters
    ----------
    cells : xarray.Dataset
        From `ergode.density.cells_at` or `ergode.read_gbees`.
    path : path
        The file appears under this name only when it is complete.
    overwrite : bool
        Replace any existing file of this name; a folder is never replaced.

    Returns
    -------
    Path

    Raises
    ------
    PlanError
        `cells` is something else, the folder does not exist, or the name is taken.
    WriteError
        The file could not be written, for example because the disk is full.

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
    >>> ergode.read_gbees(path).sizes["cell"] == int(result["cells_stored"][0])
    True
    """
    if "mass" not in cells or "point" not in cells:
        raise PlanError("expected the cells of one time, from ergode.density.cells_at")
    file = file_of(path)
    text = io.StringIO()
    text.write(f"{float(cells['time']):.9g}\n")
    rows = np.column_stack([cells["mass"].values, cells["point"].values])
    np.savetxt(text, rows, fmt="%.10e")
    with files.new_file(file, overwrite=overwrite) as partial:
        partial.write_text(text.getvalue(), "utf-8")
    return file
