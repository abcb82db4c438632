"""Notebook display of an object in plain HTML: a title, a few facts, and small tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any

_ROWS_MOST = 20


class Markup(str):
    """HTML, whose texts have been escaped where it was made."""

    __slots__ = ()


@dataclass(frozen=True)
class Table:
    """Rows under headers; only the first rows of a long table are shown."""

    headers: Sequence[str]
    # A row is a sequence of printable values, as long as `headers`. Rows that are not shown are not
    # computed.
    rows: Iterable[Sequence[Any]]
    count: int  # number of rows


def card(title: str, facts: Mapping[str, Any], *tables: Table) -> str:
    """HTML of a title, named facts and tables; facts that are None are omitted.

    Every text is escaped, because names come from the user.
    """
    known = [(name, value) for name, value in facts.items() if value is not None]
    parts = [f"<strong>{escape(title)}</strong>", _rows(known)]
    for table in tables:
        shown = [list(row) for row in islice(table.rows, _ROWS_MOST)]
        parts.append(_rows(shown, table.headers))
        if table.count > _ROWS_MOST:
            parts.append(f"<div>... and {table.count - _ROWS_MOST:,} more</div>")
    return f"<div>{''.join(parts)}</div>"


def _rows(rows: Sequence[Sequence[Any]], headers: Sequence[str] = ()) -> str:
    if not rows:
        return ""
    style = ' style="text-align: left"'
    head = "".join(f"<th{style}>{escape(one)}</th>" for one in headers)
    body = "".join(
        "<tr>" + "".join(f"<td{style}>{_html(one)}</td>" for one in row) + "</tr>" for row in rows
    )
    return (
        f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
    )


def _html(value: Any) -> str:
    return value if isinstance(value, Markup) else escape(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_text, value)) or "none"
    return str(value)


def bytes_text(count: float) -> str:
    """A number of bytes, with a unit."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
