"""A generated module and its identity: its text, and what compiles it."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, get_args

Precision = Literal["float32", "float64"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
Target = Literal["cpu", "cuda"]

_COMPILERS = ("numba", "numba-cuda", "llvmlite", "numpy", "ergode")


@dataclass(frozen=True)
class Source:
    """The text of a generated module and the names of the functions to run in it."""

    text: str
    entries: tuple[str, ...]
    target: Target
    # keys of the bindings of the functions that it only declares, by their names in the module
    externals: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Hexadecimal name of this text under the installed compilers."""
        identity = f"{self.text}\n{compilers(self.target)}"
        return hashlib.sha256(identity.encode()).hexdigest()[:24]


def compilers(target: Target) -> str:
    """What compiles for a target: versions, and a digest of the code of this package."""
    code = _compiling_code(f"ergode.core.devices.{target}")
    return "\n".join([platform.python_version(), *map(_installed, _COMPILERS), code])


def _installed(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} -"


@cache
def _compiling_code(door: str) -> str:
    """Digest of the files of this package that a generated module imports, directly or not."""
    root = Path(__file__).parents[3]
    waiting, found = [door], dict[str, bytes]()
    while waiting:
        name = waiting.pop()
        file = root.joinpath(*name.split(".")).with_suffix(".py")
        if name in found or not file.is_file():
            continue
        found[name] = file.read_bytes()
        for module, names in _IMPORT.findall(found[name].decode()):
            waiting += [module, *(f"{module}.{part}" for part in re.findall(r"\w+", names))]
    return hashlib.sha256(b"".join(found[name] for name in sorted(found))).hexdigest()


_IMPORT = re.compile(r"^from (ergode[\w.]*) import (\([^)]*\)|[^\n(]+)", re.MULTILINE)
