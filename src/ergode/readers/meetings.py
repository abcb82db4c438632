"""Files of timed contacts: one row per pair of people and time at which they were close."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date

import numpy as np

from ergode.core.errors import ModelError, ReadError
from ergode.models.epidemic.dates import origin_of
from ergode.models.networks.temporal import TemporalContacts
from ergode.readers.bounded import file_of
from ergode.readers.edges import numbered, read_table, spacing_of, times_of


def read_meetings(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str | None] = ("time", "source", "target"),
    delimiter: str | None = None,
    directed: bool = False,
    resolution: float | None = None,
    unit: float = 1.0,
    instantaneous: bool = False,
    origin: str | date | np.datetime64 | None = None,
) -> TemporalContacts:
    """Read temporal contacts in the format of proximity loggers.

    A row ``time source target`` means that two people were in contact from this time on for the
    duration of a row. Consecutive rows of a pair without a gap form one meeting.

    Parameters
    ----------
    path : str or path
        Text, optionally compressed (``.gz``), or ``.parquet``; see `ergode.read_contacts`.
    columns : sequence of str or None
        Roles of the columns of a text without header: ``"time"``, ``"source"``, ``"target"``, or
        None for a column to ignore.
    delimiter : str, optional
        Separator of columns; by default a comma, a semicolon, a tab or blanks.
    directed : bool
        Whether only the source can infect the target.
    resolution : float, optional
        Duration of one row [unit of the time column]; by default the smallest difference between
        two times.
    unit : float
        Units of the time column per unit of time of the result: 3600 converts seconds to hours.
        The first time becomes zero.
    instantaneous : bool
        Whether a row is a contact at one instant, which represents a contact of length
        `resolution`, instead of a contact that lasts that long.
    origin : str or date, optional
        Date of time 0 of the file, such as ``"1970-01-01"`` for Unix time. `unit` then says how
        many units of the time column are a day, and the meetings have dates.

    Returns
    -------
    TemporalContacts

    Raises
    ------
    ReadError
        The file does not exist or cannot be parsed; the message names the line.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "school.tsv")
    >>> _ = path.write_text("0\\t7\\t9\\n20\\t7\\t9\\n60\\t9\\t12\\n")
    >>> ergode.read_meetings(path, unit=60)
    TemporalContacts(3 nodes, 2 pairs, 2 meetings, times 0 to 1.33333)
    """
    file = file_of(path)
    if not file.is_file():
        raise ReadError(f"{file}: there is no such file")
    if not (np.isfinite(unit) and unit > 0):
        raise ModelError(f"unit is {unit!r}; expected a number above zero")
    table = read_table(file, columns, delimiter)
    if "time" not in table.columns:
        raise ModelError(f"{file} has no time column; name it in columns=(...)")
    times = times_of(file, table)
    source, target, names = numbered(file, table, None)
    if resolution is None:
        resolution = spacing_of(times, file)
    if not (np.isfinite(resolution) and resolution > 0):
        raise ModelError(f"resolution is {resolution!r}; expected a time above zero")
    begin = (times - times.min()) / unit
    zero = origin_of(origin, ())
    if zero is not None:
        begin = times / unit
        first = np.floor(begin.min())
        begin, zero = begin - first, zero + np.timedelta64(int(first), "D")
    lasts = resolution / unit
    count = None if names is None else names.size
    if instantaneous:
        held = TemporalContacts.from_meetings(
            source, target, begin, contact_time=lasts, node_count=count, directed=directed,
            origin=zero,
        )  # fmt: skip
    else:
        held = TemporalContacts.from_meetings(
            source, target, begin, begin + lasts, node_count=count, directed=directed, origin=zero
        )
    if names is None or np.array_equal(names, np.arange(names.size)):
        return held
    network = held.network._with(node_names=names)
    return TemporalContacts(network, held.first, held.begin, held.end, held.amount, zero)
