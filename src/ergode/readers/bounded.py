"""Size limits for files; short quotations of their content, and places in them, in messages."""

from __future__ import annotations

import gzip
import os
import reprlib
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ergode.core.errors import ErgodeError, ReadError

LARGEST = 1 << 28
"""Largest text file that is read whole [bytes]; larger files are refused."""

_SMALL, _RATIO = 1 << 24, 100


class _Short(reprlib.Repr):
    def repr_instance(self, x: Any, level: int) -> str:
        # Kinds of dicts and lists are quoted as these: their own repr has no bounds.
        if isinstance(x, dict):
            return self.repr_dict(x, level)
        return self.repr_list(x, level) if isinstance(x, list) else super().repr_instance(x, level)


_SHORT = _Short()
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist, _SHORT.maxtuple = 2, 4, 6, 6
_SHORT.maxstring = _SHORT.maxother = 60


def short(value: Any) -> str:
    """The value as quoted in messages: on one short line."""
    try:
        return " ".join(_SHORT.repr(value).split())
    except ValueError:  # an integer with thousands of digits
        return "a very large number"


@contextmanager
def located(place: object) -> Iterator[None]:
    """Within this block, errors of a model name a place in a file, unless they do so already."""
    try:
        yield
    except ReadError:
        raise
    except ErgodeError as error:
        raise ReadError(f"{place}: {error}") from None


def file_of(path: Any) -> Path:
    """The file that a user names.

    Raises a ReadError if it is no name.
    """
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ReadError(f"{short(path)} is no file; expected its path, a str or a pathlib.Path")
    return Path(path)


def text_of(
    path: str | os.PathLike[str],
    *,
    encoding: str = "utf-8",
    errors: str = "strict",
    largest: int = LARGEST,
) -> str:
    """The text of a file.

    Raises a ReadError if the file does not exist, cannot be read, is too large, or is not text.
    """
    path = Path(path)
    try:
        content = bytes_of(path, largest=largest).removeprefix(BOM_UTF8)  # as Notepad writes
        text = content.decode(encoding, errors)
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise ReadError(f"{path}: cannot be read as text: {error}") from None


def bytes_of(path: str | os.PathLike[str], *, largest: int) -> bytes:
    """The content of a file.

    Raises a ReadError if the file does not exist, cannot be read, or is too large.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(largest + 1)
    except FileNotFoundError:
        raise ReadError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise ReadError(f"{path}: cannot be read: {error}") from None
    if len(content) > largest:
        raise ReadError(f"{path}: it has more than {largest / 1e6:,.0f} MB; that is too large")
    return content


def unpacked(path: str | os.PathLike[str]) -> bytes:
    """The decompressed content of a gzip file.

    Raises a ReadError if the file cannot be read, or its compression ratio is implausibly high.
    """
    path = Path(path)
    try:
        limit = largest_of(path.stat().st_size)
        with gzip.open(path) as file:
            content = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ReadError(f"{path}: cannot be read as text: {error}") from None
    if len(content) > limit:
        raise ReadError(
            f"{path}: it unpacks to more than {limit / 1e6:,.0f} MB, {_RATIO} times its size; "
            "unpack it yourself if that is meant"
        )
    return content


def largest_of(size: int) -> int:
    """Largest decompressed size of a compressed file of this size [bytes]."""
    return max(_SMALL, _RATIO * size)
