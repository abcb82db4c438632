"""The plain part of YAML, in which mechanisms are written, read ten times as fast as all of YAML.

Blocks of mappings and lists, mappings and lists in brackets, literal text, and scalars that are
plain or in simple quotes. Whatever else a file has (anchors, tags, escapes, several documents, a
key twice, a mistake) is left to a reader of all of YAML: `read_plain` then returns None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Make = tuple[Callable[[], dict[Any, Any]], Callable[[], list[Any]]]

_KEY = re.compile(r"([A-Za-z0-9_(][^:#{}\[\],&*!|>'\"%@`]*?):(?: +|$)")
_COMMENT = re.compile(r"(?:^|\s)#")
_TOKEN = re.compile(
    r"""[ ]*(?:
    (?P<newline>\n) | (?P<mark>[{}\[\],]) | (?P<colon>:(?=[\s,\[\]{}]))
    | "(?P<double>[^"\\\n]*)" | '(?P<single>[^'\n]*)'(?!')
    | (?P<plain>(?:[^\s,\[\]{}:?#"'&*!|>%@`=<-]|-(?=[^\s,\[\]{}]))
      (?:[^\s,\[\]{}:#]|:(?=[^\s,\[\]{}])|(?<=\S)\#|[ ]+(?=[^\s,\[\]{}:#]))*)
    )""",
    re.X,
)
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)")
# Text that begins like a number: with a letter that no number has, or a version.
_TEXT = re.compile(
    r"[-+]?(?!0[xob])(?![0-9]{4}-)[0-9].*[A-DF-Za-df-z(/].*|[-+][A-Za-z].*"
    r"|[0-9]+(?:\.[0-9]+){2,}|=.+"
)
_WORDS: dict[str, Any] = {
    word: value
    for name, value in (("true", True), ("false", False), ("null", None))
    for word in (name, name.capitalize(), name.upper())
}
_LITERAL = {"|", "|-"}


class _OtherYamlError(Exception):
    """The text is not plain."""


def read_plain(text: str, make: Make) -> Any:
    """The content of a plain text; None if it is not plain.

    Parameters
    ----------
    text : str
    make : tuple of two functions
        They make an empty mapping and an empty list, to which the line is then given.
    """
    if any(mark in text for mark in "\t\r\x85\u2028\u2029\ufeff"):
        return None
    try:
        return _Plain(text, make).content()
    except (_OtherYamlError, RecursionError, ValueError):
        return None


class _Plain:
    def __init__(self, text: str, make: Make) -> None:
        self.raw = text.split("\n")
        self.mapping, self.list = make
        self.scalars: dict[str, Any] = {}
        # Of each line that is neither empty nor a comment: number, column, content.
        self.lines: list[tuple[int, int, str]] = []
        for number, line in enumerate(self.raw, 1):
            content = line.lstrip(" ")
            if content and content[0] != "#":
                self.lines.append((number, len(line) - len(content), content))
        self.at = 0

    def content(self) -> Any:
        found = self.block(0) if self.lines else None
        if self.at < len(self.lines):
            raise _OtherYamlError
        return found

    def block(self, least: int) -> Any:
        """The mapping or list that begins here, at a column of at least `least`."""
        number, column, content = self.lines[self.at]
        if column < least:
            raise _OtherYamlError
        if content.startswith("- "):
            return self.items(number, column)
        return self.entries(number, column)

    def items(self, number: int, column: int) -> list[Any]:
        found = self.list()
        found.line = number  # type: ignore[attr-defined]
        while self.at < len(self.lines):
            number, own, content = self.lines[self.at]
            if own != column or not content.startswith("- "):
                break
            rest = content[2:].lstrip(" ")
            inside = column + len(content) - len(rest)
            if rest.startswith("- "):
                raise _OtherYamlError
            if _KEY.match(rest):
                self.lines[self.at] = number, inside, rest
                found.append(self.entries(number, inside))
            else:
                found.append(self.value(number, column, rest))
        return found

    def entries(self, number: int, column: int) -> dict[Any, Any]:
        found = self.mapping()
        found.line = number  # type: ignore[attr-defined]
        while self.at < len(self.lines):
            number, own, content = self.lines[self.at]
            if own < column or content.startswith("- "):
                break
            match = _KEY.match(content)
            if own > column or match is None:
                raise _OtherYamlError
            key = self.scalar(match[1].rstrip(" "))
            if key in found:
                raise _OtherYamlError
            found[key] = self.value(number, column, content[match.end() :], after_key=True)
        if self.at < len(self.lines) and self.lines[self.at][1] > column:
            raise _OtherYamlError
        return found

    def value(self, number: int, column: int, text: str, *, after_key: bool = False) -> Any:
        """The value that begins with this text, in a block at this column."""
        self.at += 1
        first = text[:1]
        if first in ("[", "{"):
            return self.brackets(number, text)
        if first in ('"', "'"):
            text = self.bare(text)
            inner = text[1:-1]
            if len(text) < 2 or text[-1] != first or first in inner or "\\" in inner:
                raise _OtherYamlError
            if self.goes_on(column):
                raise _OtherYamlError
            return inner
        if text in _LITERAL:
            return self.literal(number, column, strip=text == "|-")
        whole, text = text.rstrip(" "), self.bare(text)
        if text:
            while self.goes_on(column):
                if text != whole or self.lines[self.at][0] != number + 1:
                    raise _OtherYamlError  # a comment or an empty line lies between
                number, _, more = self.lines[self.at]
                whole, more = f"{text} {more.rstrip(' ')}", self.bare(more)
                text = f"{text} {more}"
                self.at += 1
            if first in "&*!|>%@`?<" or text.startswith("- "):
                raise _OtherYamlError
            if ": " in text or text[-1] == ":":
                raise _OtherYamlError
            return self.scalar(text)
        if self.at < len(self.lines):
            _, own, content = self.lines[self.at]
            if own > column or (after_key and own == column and content.startswith("- ")):
                return self.block(own)
        return None

    def goes_on(self, column: int) -> bool:
        """Whether a scalar continues in the next line."""
        return self.at < len(self.lines) and self.lines[self.at][1] > column

    def bare(self, text: str) -> str:
        """A line without its comment."""
        match = _COMMENT.search(text) if "#" in text else None
        return (text if match is None else text[: match.start()]).rstrip(" ")

    def literal(self, number: int, column: int, *, strip: bool) -> str:
        """Literal text in the lines after this one."""
        rows: list[str] = []
        width = 0
        while number < len(self.raw):
            row = self.raw[number]
            blank = not row.strip(" ")
            inside = len(row) - len(row.lstrip(" "))
            width = width or (0 if blank else inside)
            if not blank and inside <= column:
                break
            if not blank and inside < width:
                raise _OtherYamlError
            if blank and not width:
                raise _OtherYamlError
            rows.append(row[width:])
            number += 1
        while self.at < len(self.lines) and self.lines[self.at][0] <= number:
            self.at += 1
        while rows and not rows[-1]:
            rows.pop()
        return "\n".join(rows) + ("" if strip or not rows else "\n")

    def brackets(self, number: int, text: str) -> Any:
        """A mapping or list in brackets, which may go on in the next lines."""
        stack: list[tuple[Any, Any]] = []
        key: Any = self  # none
        found: Any = None
        ready = False  # whether a value waits for what follows it
        while True:
            at, end = 0, len(text := self.bare(text))
            while at < end:
                match = _TOKEN.match(text, at)
                if match is None:
                    raise _OtherYamlError
                at, kind, part = match.end(), match.lastgroup, match[match.lastgroup or 0]
                if kind == "mark" and part in "[{":
                    if ready:
                        raise _OtherYamlError
                    inner = self.list() if part == "[" else self.mapping()
                    inner.line = number  # type: ignore[union-attr]
                    stack.append((inner, key))
                    key = self
                elif kind == "colon":
                    if not ready or key is not self or not isinstance(stack[-1][0], dict):
                        raise _OtherYamlError
                    key, ready = found, False
                elif kind == "mark":
                    inner = stack[-1][0]
                    if ready:
                        self.put(inner, key, found)
                    elif key is not self or part == ",":
                        raise _OtherYamlError
                    key, ready = self, False
                    if part == ",":
                        continue
                    if (part == "]") != isinstance(inner, list):
                        raise _OtherYamlError
                    found, key = stack.pop()
                    ready = True
                    if not stack:
                        if text[at:].strip(" "):
                            raise _OtherYamlError
                        return found
                elif ready:
                    raise _OtherYamlError
                else:
                    found = self.scalar(part) if kind == "plain" else part
                    ready = True
            if self.at >= len(self.lines) or (ready and not isinstance(found, list | dict)):
                raise _OtherYamlError  # an end, or a scalar that may go on
            number, _, text = self.lines[self.at]
            self.at += 1

    def put(self, inner: Any, key: Any, value: Any) -> None:
        """Put a value into a mapping or list."""
        if isinstance(inner, list):
            inner.append(value)
        elif key is self or isinstance(key, dict | list) or key in inner:
            raise _OtherYamlError
        else:
            inner[key] = value

    def scalar(self, text: str) -> Any:
        """A plain scalar: a number, a word of YAML, or text."""
        first = text[0]
        if first.isalpha() or first in "(_/":
            return _WORDS.get(text, text)
        if text in self.scalars:
            return self.scalars[text]
        if _FLOAT.fullmatch(text):
            value: Any = float(text)
        elif _INTEGER.fullmatch(text):
            value = int(text)
        elif _TEXT.fullmatch(text):
            value = text
        else:
            raise _OtherYamlError
        self.scalars[text] = value
        return value
