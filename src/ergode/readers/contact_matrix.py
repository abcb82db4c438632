"""Contact matrices of surveys: a table with a row and a column for each age group."""

from __future__ import annotations

import csv
import os
from typing import TYPE_CHECKING

import numpy as np

from ergode.core.errors import ModelError, ReadError
from ergode.models.networks.survey import labelled
from ergode.readers.bounded import file_of

if TYPE_CHECKING:
    import xarray


def read_contact_matrix(
    path: str | os.PathLike[str], *, delimiter: str | None = None
) -> xarray.DataArray:
    """Read the contact matrix of a survey, such as those that socialmixr writes.

    The first line has the age groups of contacts. A line has the mean contacts of a person of one
    age group with each of these; the group may come first. `ergode.contact_survey` says how far the
    matrix is from reciprocal, and `ContactNetwork.population` takes it as `mixing`.

    Parameters
    ----------
    path : str or path
        A text file.
    delimiter : str, optional
        Separator of columns; the default is a comma, a semicolon or a tab, with which the table is
        square.

    Returns
    -------
    xarray.DataArray, dims (group, contact_group)

    Raises
    ------
    ReadError
        The file does not exist, or is not a square table of numbers; the message names the line.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "matrix.csv")
    >>> _ = path.write_text('"age","[0,18)","18+"\\n"[0,18)",6,4\\n"18+",1,8\\n')
    >>> ergode.read_contact_matrix(path).sel(group="18+").values.tolist()
    [1.0, 8.0]
    """
    import xarray

    file = file_of(path)
    if not file.is_file():
        raise ReadError(f"{file}: there is no such file")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"{file}: not UTF-8 text: {error}") from None
    lines = _lines(text, delimiter)
    if len(lines) < 2:
        raise ReadError(f"{file}: expected a line of age groups, and a line for each of them")
    header, body = lines[0][1], lines[1:]
    named = len(body[0][1]) == len(body) + 1
    columns = header[1:] if named and len(header) == len(body) + 1 else header
    values = np.empty((len(body), len(body)))
    rows = []
    for at, (number, cells) in enumerate(body):
        numbers = cells[1:] if named else cells
        if len(numbers) != len(body) or len(columns) != len(body):
            raise ReadError(
                f"{file}, line {number}: {len(numbers)} numbers for {len(columns)} age groups of "
                f"contacts and {len(body)} of people; expected equal counts"
            )
        rows.append(cells[0] if named else columns[at])
        try:
            values[at] = [float(one) for one in numbers]
        except ValueError:
            raise ReadError(f"{file}, line {number}: {numbers} are not all numbers") from None
    found = xarray.DataArray(
        values, dims=("group", "contact_group"), coords={"group": rows, "contact_group": columns},
        name="contacts",
    )  # fmt: skip
    try:
        labelled(found, str(file))
    except ModelError as error:
        raise ReadError(str(error)) from None
    return found


def _lines(text: str, delimiter: str | None) -> list[tuple[int, list[str]]]:
    """The numbers and cells of the lines that are not empty."""
    found = []
    for one in [delimiter] if delimiter else [",", ";", "\t"]:
        rows = csv.reader(text.splitlines(), delimiter=one)
        cells = [
            (number, [cell.strip() for cell in row])
            for number, row in enumerate(rows, 1)
            if any(row)
        ]
        found.append(cells)
        if cells and len(cells[-1][1]) in (len(cells) - 1, len(cells)):
            return cells
    return found[0]
