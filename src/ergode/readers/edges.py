"""Contact networks from files of edges: text (csv, tsv, blanks), parquet, SciPy's npz.

A file of timed contacts has a row for each interval in which two people were close.  The rows of
a pair are summed: the result is a static network weighted by contact time.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from ergode.core.errors import ModelError, ReadError
from ergode.models.networks.contact_network import ContactNetwork
from ergode.readers.bounded import file_of, largest_of, located, unpacked

_WORDS = ("source", "target", "weight", "time")
_SECONDS_PER_HOUR = 3600.0
_SECONDS_PER_DAY = 86400.0


class Table(NamedTuple):
    """Columns of a file, and a function that names the position of a row in messages."""

    columns: dict[str, np.ndarray]
    place: Any  # row number -> "line 17" or "row 3"


def read_contacts(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str | None] | None = None,
    delimiter: str | None = None,
    directed: bool = False,
    node_count: int | None = None,
    aggregate: Literal["weight"] | None = None,
    resolution: float | None = None,
    normalize: Literal["hours_per_day"] | None = None,
) -> ContactNetwork:
    """Read a contact network from a file.

    Ids may be numbers or text. They are numbered 0 ... n - 1 in increasing (or alphabetical)
    order. The original ids are kept as `node_names`, unless they already were 0 ... n - 1. An edge
    that occurs more than once becomes one edge; its weights are added. Self-loops are dropped.

    Parameters
    ----------
    path : str or path
        The suffix gives the format: ``.parquet``, ``.npz`` (a matrix saved by
        `scipy.sparse.save_npz`), or text, which may be compressed (``.gz``). Text has one edge per
        line: two ids and an optional weight. Lines that start with ``#`` are comments; a first line
        with the words ``source`` and ``target`` names the columns.
    columns : sequence of str or None, optional
        For text, the role of each column: ``"source"``, ``"target"``, ``"weight"``, ``"time"``,
        or None to ignore it. For parquet, the names of the source column, the target column and,
        optionally, the weight column.
    delimiter : str, optional
        Separator of text columns; by default found from the first line (comma, semicolon, tab, else
        blanks).
    directed : bool
        Whether an edge is a contact from source to target only. A matrix file is directed if the
        matrix is not symmetric.
    node_count : int, optional
        The ids are node numbers 0 ... node_count - 1. This allows nodes without contacts.
    aggregate : {"weight"}, optional
        Required for files with a ``"time"`` column: sum the rows of each pair to one edge, whose
        weight is the pair's total contact time, rows * `resolution` (a ``"weight"`` column
        multiplies each row). A pair given twice at one time counts once.
    resolution : float, optional
        Duration of one row [unit of the time column]; by default the smallest difference between
        two times.
    normalize : {"hours_per_day"}, optional
        Weight by the mean contact time [hours per day] instead of the total, for times in seconds:
        contact time / 3600, divided by the days from the first time to the last, both included,
        with nights and breaks: (last - first + `resolution`) / 86400. A transmission rate per hour
        of contact then becomes a rate per day.

    Returns
    -------
    ContactNetwork

    Raises
    ------
    ReadError
        The file does not exist or cannot be parsed; the message names the line.
    ModelError
        Options contradict each other.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "friends.csv")
    >>> _ = path.write_text("source,target,weight\\nann,bob,0.5\\nbob,eve,2\\n")
    >>> net = ergode.read_contacts(path)
    >>> net.node_names.tolist(), net.weights.tolist()
    (['ann', 'bob', 'eve'], [0.5, 0.5, 2.0, 2.0])
    """
    file = file_of(path)
    if not file.is_file():
        raise ReadError(f"{file}: there is no such file")
    if file.suffix == ".npz":
        return _read_matrix(file, directed)
    table = read_table(file, columns, delimiter)
    timed = "time" in table.columns
    if timed and aggregate != "weight":
        raise ModelError(
            f"{file} has times; pass aggregate='weight' to add them up to contact times, or read "
            "it with ergode.read_meetings to keep them"
        )
    if not timed and (aggregate or resolution is not None or normalize):
        raise ModelError(
            f"aggregate, resolution and normalize need a time column, and {file} has none; name "
            'it, as in columns=("time", "source", "target")'
        )
    if normalize not in (None, "hours_per_day"):
        raise ModelError(f"normalize is {normalize!r}; expected None or 'hours_per_day'")
    weights = table.columns.get("weight")
    if weights is not None:
        bad = ~(np.isfinite(weights) & (weights >= 0))
        if bad.any():
            row = int(np.argmax(bad))
            raise ReadError(
                f"{file}: {table.place(row)}: weight {weights[row]:g} is not a finite number that "
                "is not negative"
            )
    source, target, names = numbered(file, table, node_count)
    if timed:
        source, target, weights = _contact_times(
            file, table, source, target, directed, resolution, normalize
        )
    count = node_count if names is None else names.size
    network = ContactNetwork.from_edges(source, target, count, directed, weights)
    if names is None or np.array_equal(names, np.arange(names.size)):
        return network
    return network._with(node_names=names)


def read_table(file: Path, columns: Sequence[str | None] | None, delimiter: str | None) -> Table:
    """The columns of a file of edges; the suffix gives the format."""
    if file.suffix == ".parquet":
        return _read_parquet(file, columns)
    return _read_text(file, columns, delimiter)


def _read_matrix(file: Path, directed: bool) -> ContactNetwork:
    import scipy.sparse

    try:
        with zipfile.ZipFile(file) as content:
            size = sum(one.file_size for one in content.infolist())
        if size > largest_of(file.stat().st_size):
            raise ValueError(f"it unpacks to {size / 1e6:,.0f} MB")
        matrix = scipy.sparse.load_npz(file)
        matrix.check_format() if hasattr(matrix, "check_format") else matrix.tocsr().check_format()
    except Exception as error:  # for other formats zip, zlib, NumPy and SciPy raise many types
        raise ReadError(f"{file}: expected a matrix of scipy.sparse.save_npz: {error}") from None
    with located(file):
        return ContactNetwork.from_scipy(matrix, directed or None)


def _read_parquet(file: Path, columns: Sequence[str | None] | None) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ReadError(f"{file}: reading parquet needs pyarrow (pip install pyarrow)") from None
    try:
        names = pyarrow.parquet.read_schema(file).names
        if columns is None:
            wanted = [word for word in _WORDS if word in names]
            missing = [word for word in _WORDS[:2] if word not in names]
        else:
            wanted = [str(name) for name in columns]
            missing = [name for name in wanted if name not in names]
            if len(wanted) not in (2, 3):
                raise ModelError(f"columns is {tuple(wanted)}; expected source, target[, weight]")
        if columns is None and not missing and "weight" not in names:
            types = zip(names, pyarrow.parquet.read_schema(file).types, strict=True)
            numbers = [
                name for name, kind in types
                if name not in wanted and not name.startswith("__index")
                and (pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind))
            ]  # fmt: skip
            _refuse_numbers(file, numbers)
        if missing:
            raise ReadError(
                f"{file}: there is no column {', '.join(map(repr, missing))}; found "
                f"{', '.join(map(repr, names))}. Name the columns with columns=(...)"
            )
        size = 8 * len(wanted) * pyarrow.parquet.read_metadata(file).num_rows
        if size > largest_of(file.stat().st_size):
            raise ReadError(f"{file}: it unpacks to {size / 1e6:,.0f} MB, too much for its size")
        data = pyarrow.parquet.read_table(file, columns=wanted)
    except (pyarrow.ArrowException, OSError, MemoryError) as error:
        raise ReadError(f"{file}: not a parquet file that can be read: {error}") from None
    words = wanted if columns is None else _WORDS
    found: dict[str, np.ndarray] = {}
    for word, name in zip(words, wanted, strict=False):
        column = data.column(name)
        if column.null_count:
            row = column.is_null().index(True).as_py()
            raise ReadError(f"{file}: row {row}: column {name!r} is empty")
        values = column.to_numpy()
        if word in ("weight", "time"):
            if values.dtype.kind not in "biuf":
                raise ReadError(f"{file}: column {name!r} holds {column.type}; expected numbers")
            values = values.astype(float)
        found[word] = values
    return Table(found, lambda row: f"row {row}")


def _read_text(file: Path, columns: Sequence[str | None] | None, delimiter: str | None) -> Table:
    try:
        raw = unpacked(file) if file.suffix == ".gz" else file.read_bytes()
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{file}: cannot be read as text: {error}") from None
    body = re.sub(r"(?m)^[ \t]*#.*(?:\n|\Z)", "", text) if "#" in text else text
    first = next((line for line in io.StringIO(body) if line.strip()), None)
    if first is None:
        raise ReadError(f"{file}: there are no edges in it")
    if delimiter is None:
        delimiter = next((mark for mark in (",", ";", "\t") if mark in first), None)
    fields = _split(first, delimiter)
    header = {"source", "target"} <= {one.lower() for one in fields}
    named = columns is not None
    if columns is None and header:
        names = [one.lower() for one in fields]
        columns = [name if name in _WORDS else None for name in names]
    lines = _Lines(file, text, delimiter, header)
    roles = _roles(lines, columns, len(fields))
    plain = {"sep": delimiter or r"\s+", "header": None, "skiprows": _skipped(body, header)}
    plain |= {"keep_default_na": False, "na_filter": False, "skipinitialspace": True}
    places = {role: index for index, role in enumerate(roles) if role is not None}

    def parse(dtype: Any) -> pd.DataFrame:
        try:
            return pd.read_csv(io.StringIO(body), dtype=dtype, low_memory=False, **plain)
        except pd.errors.EmptyDataError:
            raise ReadError(f"{file}: there are no edges in it") from None
        except pd.errors.ParserError as error:
            lines.check_counts(len(roles))
            raise ReadError(f"{file}: {error}") from None

    frame = parse(None)
    ends = [places["source"], places["target"]]
    if frame.shape[1] != len(roles) or not all(frame[end].dtype.kind in "iu" for end in ends):
        # Text ids, or a line with missing columns: read every column that is not numeric as text.
        lines.check_counts(len(roles))
        frame = parse(dict.fromkeys(ends, str))
    if columns is None and len(roles) == 3 and _looks_timed(frame):
        raise ReadError(
            f"{file}: the first column ascends like a time, above all ids of the others; "
            "say what they are with columns=('time', 'source', "
            "'target') or columns=('source', 'target', 'weight')"
        )
    if header and not named and "weight" not in places:
        words = [fields[k] for k, role in enumerate(roles) if role is None]
        numeric = [frame[k].dtype.kind in "iuf" for k, role in enumerate(roles) if role is None]
        _refuse_numbers(
            file, [word for word, is_number in zip(words, numeric, strict=True) if is_number]
        )
    found: dict[str, np.ndarray] = {}
    for role, index in places.items():
        values = frame[index].to_numpy()
        if role in ("weight", "time"):
            if values.dtype.kind not in "iuf":
                lines.check_numbers(index, role, len(roles))
            try:
                found[role] = values.astype(float)
            except (ValueError, OverflowError) as error:
                raise ReadError(f"{file}: a {role} cannot be read: {error}") from None
        else:
            found[role] = values
    return Table(found, lambda row: f"line {lines.number(row)}")


def _refuse_numbers(file: Path, names: Sequence[str]) -> None:
    """Refuse unnamed numeric columns: one of them may be the weight."""
    if names:
        raise ReadError(
            f"{file}: the column {names[0]!r} has numbers, and there is no column 'weight'; "
            "name the columns with columns=(...), with None for a column to ignore"
        )


def _looks_timed(frame: pd.DataFrame) -> bool:
    """Whether three unnamed columns are probably time, source and target."""
    first, second, third = (frame[index] for index in range(3))
    return bool(
        all(column.dtype.kind in "iu" for column in (first, second, third))
        and first.is_monotonic_increasing
        and first.min() > max(second.max(), third.max())
        and second.isin(third).any()
    )


def _skipped(body: str, header: bool) -> int:
    """Number of lines before the first edge."""
    if not header:
        return 0
    blank = len(body) - len(body.lstrip())
    return body.count("\n", 0, blank) + 1


def _roles(lines: _Lines, columns: Sequence[str | None] | None, found: int) -> list[str | None]:
    """The role of each column of the text."""
    if columns is None:
        if found not in (2, 3):
            raise lines.wrong_count(0, "2 or 3")
        return list(_WORDS[:found])
    roles = list(columns)
    named = [role for role in roles if role is not None]
    if not set(named) <= set(_WORDS) or len(set(named)) < len(named):
        raise ModelError(
            f"columns is {tuple(roles)}; expected each of {', '.join(_WORDS)} at most once, and "
            "None for what to ignore"
        )
    if not {"source", "target"} <= set(named):
        raise ModelError(f"columns is {tuple(roles)}; expected a source and a target among them")
    if found != len(roles):
        raise lines.wrong_count(0, str(len(roles)))
    return roles


def _split(line: str, delimiter: str | None) -> list[str]:
    return [field.strip().strip('"') for field in line.strip().split(delimiter)]


class _Lines:
    """The edges of a text with their line numbers: a slow second pass, only for error messages."""

    def __init__(self, file: Path, text: str, delimiter: str | None, header: bool) -> None:
        self.file = file
        self.text = text
        self.delimiter = delimiter
        self.header = header

    def _edges(self) -> list[tuple[int, str]]:
        numbered = enumerate(self.text.splitlines(), 1)
        kept = [(n, line) for n, line in numbered if line.strip() and line.lstrip()[0] != "#"]
        return kept[1:] if self.header else kept

    def number(self, row: int) -> int:
        """Line number of an edge, counted from one."""
        return self._edges()[row][0]

    def wrong_count(self, row: int, expected: str) -> ReadError:
        """The error for an edge with too few or too many columns."""
        number, line = self._edges()[row]
        found = len(_split(line, self.delimiter))
        return ReadError(
            f"{self.file}: line {number}: expected {expected} columns, found {found}: "
            f"{line.strip()[:60]!r}"
        )

    def check_counts(self, expected: int) -> None:
        """Raise for the first edge with a wrong number of columns or an empty column."""
        for row, (number, line) in enumerate(self._edges()):
            fields = _split(line, self.delimiter)
            if len(fields) != expected:
                raise self.wrong_count(row, str(expected))
            if "" in fields:
                raise ReadError(
                    f"{self.file}: line {number}: column {fields.index('') + 1} is empty: "
                    f"{line.strip()[:60]!r}"
                )

    def check_numbers(self, index: int, role: str, expected: int) -> None:
        """Raise for the first edge whose weight or time is not a number."""
        self.check_counts(expected)
        for number, line in self._edges():
            value = _split(line, self.delimiter)[index]
            try:
                float(value)
            except ValueError:
                raise ReadError(
                    f"{self.file}: line {number}: {role} {value!r} is not a number"
                ) from None


def numbered(
    file: Path, table: Table, node_count: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Node numbers of both ends of the edges, and the node names."""
    source, target = table.columns["source"], table.columns["target"]
    integers = source.dtype.kind in "iu" and target.dtype.kind in "iu"
    if node_count is not None:
        if not integers:
            raise ModelError(f"node_count is given, but the ids of {file} are not integers")
        for ids in (source, target):
            bad = (ids < 0) | (ids >= node_count)
            if bad.any():
                row = int(np.argmax(bad))
                raise ReadError(
                    f"{file}: {table.place(row)}: node id {ids[row]}; expected 0 to "
                    f"node_count - 1 = {node_count - 1}"
                )
        return source, target, None
    if source.size == 0:
        raise ReadError(f"{file}: there are no edges in it")
    both = np.concatenate([source, target])
    if not integers:
        both = both.astype(str)
    numbers, names = pd.factorize(both, sort=True)
    return numbers[: source.size], numbers[source.size :], names


def _contact_times(
    file: Path,
    table: Table,
    source: np.ndarray,
    target: np.ndarray,
    directed: bool,
    resolution: float | None,
    normalize: str | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each pair once, with its total contact time."""
    times = times_of(file, table)
    if resolution is None:
        resolution = spacing_of(times, file)
    if not 0 < resolution < float("inf"):
        raise ModelError(f"resolution is {resolution}; expected a positive time")
    frame = pd.DataFrame({"source": source, "target": target, "time": times})
    if not directed:
        frame["source"], frame["target"] = np.minimum(source, target), np.maximum(source, target)
    frame["weight"] = table.columns.get("weight", 1.0)
    frame = frame.drop_duplicates(["source", "target", "time"])
    pairs = frame.groupby(["source", "target"])["weight"].sum().reset_index()
    weights = pairs["weight"].to_numpy() * resolution
    if normalize:
        days = (times.max() - times.min() + resolution) / _SECONDS_PER_DAY
        weights = weights / _SECONDS_PER_HOUR / days
    return pairs["source"].to_numpy(), pairs["target"].to_numpy(), weights


def times_of(file: Path, table: Table) -> np.ndarray:
    """The column of times, all of them finite."""
    times = table.columns["time"]
    if not np.isfinite(times).all():
        row = int(np.argmin(np.isfinite(times)))
        raise ReadError(f"{file}: {table.place(row)}: time {times[row]} is not finite")
    return times


def spacing_of(times: np.ndarray, file: Path) -> float:
    """The least difference of two times."""
    steps = np.diff(np.unique(times))
    if not steps.size:
        raise ModelError(f"all times in {file} are equal; pass resolution=")
    return float(steps.min())
