"""YAML files whose mappings and lists know the line of the file where they begin.

Plain scalars are those of YAML 1.2: ``NO`` and ``12:30`` are text. So is a date.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from ergode.core.errors import ReadError
from ergode.readers.bounded import short, text_of

_LARGEST = 1 << 25  # bytes
_TAG = "tag:yaml.org,2002:"
_WORDS = {
    word: value
    for name, value in (("true", True), ("false", False), ("null", None))
    for word in (name, name.capitalize(), name.upper())
} | {"": None, "~": None}
_INTEGER = re.compile(
    r"[-+]?(?:0b[01][01_]*|0o[0-7][0-7_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|[0-9][0-9_]*)"
)
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)"
    r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)"
)
_BASES = {"0b": 2, "0o": 8, "0x": 16}
_NO_KEY = object()


class _Mapping(dict[Any, Any]):
    line = 0


class _List(list[Any]):
    line = 0


def place(path: Path, node: Any) -> str:
    """A file, and the line of a mapping or list in it, as messages name them."""
    return f"{path}, line {node.line}" if isinstance(node, _Mapping | _List) else f"{path}"


def load(path: Path) -> dict[Any, Any]:
    """The content of a mechanism's file.

    Raises a ReadError if the file does not exist, is not YAML or is not a mapping; or PyYAML is not
    installed.
    """
    try:
        import yaml
    except ImportError:
        raise ReadError(
            "reading Cantera's format needs PyYAML: pip install 'ergode[chemistry]'"
        ) from None
    if not path.parent.name and not path.exists():
        raise ReadError(
            f"{path}: there is no such file (Cantera's own are in the folder "
            "Path(cantera.__file__).parent / 'data')"
        )
    text = text_of(path, largest=_LARGEST)
    try:
        content = _Content(yaml).of(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else f"{path}"
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or error
        raise ReadError(f"{where}: not YAML: {' '.join(str(problem).split())}") from None
    except ValueError as error:  # a number of thousands of digits
        raise ReadError(f"{path}: not YAML: {error}") from None
    if not isinstance(content, dict):
        raise ReadError(
            f"{path}: not a mechanism but {short(content)}; expected phases, species and reactions"
        )
    return content


class _Content:
    """Makes mappings and lists of the events of a parser."""

    def __init__(self, yaml: Any) -> None:
        self.yaml = yaml
        self.open: list[Any] = [_List()]  # what is being filled: documents, then what is in them
        self.keys: list[Any] = [_NO_KEY]  # of each, the key whose value comes next
        self.named: dict[str, Any] = {}  # anchors

    def of(self, text: str) -> Any:
        yaml = self.yaml
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.ScalarEvent):
                self.put(event, self.scalar(event))
            elif isinstance(event, yaml.CollectionStartEvent):
                is_list = isinstance(event, yaml.SequenceStartEvent)
                found: Any = _List() if is_list else _Mapping()
                found.line = event.start_mark.line + 1
                if event.tag not in (None, "!", f"{_TAG}{'seq' if is_list else 'map'}"):
                    self.refuse(event, f"the tag {event.tag} is not known")
                self.put(event, found)
                self.open.append(found)
                self.keys.append(_NO_KEY)
            elif isinstance(event, yaml.CollectionEndEvent):
                self.close(event)
            elif isinstance(event, yaml.AliasEvent):
                if event.anchor not in self.named:
                    self.refuse(event, f"found undefined alias {event.anchor!r}")
                self.put(event, self.named[event.anchor])
            elif isinstance(event, yaml.DocumentStartEvent) and self.open[0]:
                self.refuse(event, "expected a single document in the stream")
        return self.open[0][0] if self.open[0] else None

    def refuse(self, event: Any, why: str) -> None:
        raise self.yaml.MarkedYAMLError(problem=why, problem_mark=event.start_mark)

    def scalar(self, event: Any) -> Any:
        if event.tag in (None, "!"):
            return _scalar(event.value) if event.implicit[0] else event.value
        kind = event.tag.removeprefix(_TAG)
        if kind == "str":
            return event.value
        found = _scalar(event.value)
        if type(found).__name__.replace("NoneType", "null") != kind:
            self.refuse(event, f"{event.value!r} has the tag {event.tag}")
        return found

    def put(self, event: Any, value: Any) -> None:
        """Add a value to what is being filled; every other one in a mapping is a key."""
        if getattr(event, "anchor", None) and not isinstance(event, self.yaml.AliasEvent):
            self.named[event.anchor] = value
        into, key = self.open[-1], self.keys[-1]
        if isinstance(into, list):
            into.append(value)
        elif key is _NO_KEY:
            if isinstance(value, list | dict):
                self.refuse(event, "a key is a list or a mapping")
            if value in into:
                self.refuse(event, f"found duplicate key {value!r}")
            self.keys[-1] = value
        else:
            self.keys[-1] = _NO_KEY
            into[key] = value

    def close(self, event: Any) -> None:
        found = self.open.pop()
        self.keys.pop()
        if isinstance(found, dict) and "<<" in found:
            more = found.pop("<<")
            for one in more if isinstance(more, list) else [more]:
                if not isinstance(one, dict):
                    self.refuse(event, "expected a mapping, or a list of mappings, for merging")
                for key, value in one.items():
                    found.setdefault(key, value)


@lru_cache(maxsize=1 << 16, typed=True)
def _scalar(text: str) -> Any:
    """The value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "+-.0123456789":
        digits = text.replace("_", "")
        if _INTEGER.fullmatch(text):
            sign, size = (digits[0], digits[1:]) if digits[0] in "+-" else ("", digits)
            return int(sign + size, _BASES.get(size[:2], 10))
        if _FLOAT.fullmatch(text):
            return float(digits.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text
