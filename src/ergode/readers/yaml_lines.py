"""YAML files whose mappings and lists know the line of the file where they begin."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from ergode.core.errors import ReadError
from ergode.readers.bounded import short, text_of
from ergode.readers.yaml_plain import read_plain

_LARGEST = 1 << 25  # bytes


class _Mapping(dict[Any, Any]):
    line = 0


class _List(list[Any]):
    line = 0


def place(path: Path, node: Any) -> str:
    """A file, and the line of a mapping or list in it, as messages name them."""
    return f"{path}, line {node.line}" if isinstance(node, _Mapping | _List) else f"{path}"


def load(path: Path) -> dict[Any, Any]:
    """The content of a mechanism's file.

    Raises a ReadError if the file does not exist, is not YAML or is not a mapping; or ruamel.yaml
    is not installed.
    """
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
    except ImportError:
        raise ReadError(
            "reading Cantera's format needs ruamel.yaml: pip install 'ergode[chemistry]'"
        ) from None
    if not path.parent.name and not path.exists():
        raise ReadError(
            f"{path}: there is no such file (Cantera's own are in the folder "
            "Path(cantera.__file__).parent / 'data')"
        )
    text = text_of(path, largest=_LARGEST)
    content = read_plain(text, (_Mapping, _List))
    try:
        if content is None:
            reader = YAML(typ="safe", pure=True)
            reader.Constructor = _constructor()
            content = reader.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}, line {mark.line + 1}" if mark else f"{path}"
        problem = error.problem or error.context or error
        raise ReadError(f"{where}: not YAML: {_line(problem)}") from None
    except YAMLError as error:
        raise ReadError(f"{path}: not YAML: {_line(error)}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, IndexError) as error:
        raise ReadError(f"{path}: not YAML: {_line(error)}") from None
    if not isinstance(content, dict):
        raise ReadError(
            f"{path}: not a mechanism but {short(content)}; expected phases, species and reactions"
        )
    return content


def _line(error: Any) -> str:
    return " ".join(str(error).split())


@lru_cache(maxsize=1)
def _constructor() -> Any:
    from ruamel.yaml.constructor import SafeConstructor

    class Constructor(SafeConstructor):
        """Gives the line where it begins to each mapping and list."""

        def mapping(self, node: Any) -> Any:
            found = _Mapping()
            found.line = node.start_mark.line + 1
            yield found
            found.update(self.construct_mapping(node))

        def sequence(self, node: Any) -> Any:
            found = _List()
            found.line = node.start_mark.line + 1
            yield found
            found.extend(self.construct_sequence(node))

    Constructor.add_constructor("tag:yaml.org,2002:map", Constructor.mapping)
    Constructor.add_constructor("tag:yaml.org,2002:seq", Constructor.sequence)
    return Constructor
