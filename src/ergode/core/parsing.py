"""Python's parser, by one thread at a time.

The parser of Python 3.11 counts its depth for all threads together, and raises a SystemError if two
of them parse at once (https://github.com/python/cpython/issues/106905).
"""

from __future__ import annotations

import ast
from threading import RLock
from typing import Any

_one_at_a_time = RLock()


def parse(text: str, mode: str = "exec") -> Any:
    """The syntax tree of a text: an `ast.Module`, or with ``mode="eval"`` an `ast.Expression`."""
    with _one_at_a_time:
        return ast.parse(text, mode=mode)
