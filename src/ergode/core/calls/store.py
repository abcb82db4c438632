"""The store of a call that is computed in parts: a Zarr group with a group for each part.

A part is written in a hidden folder and moved to its name when it is complete, so that a store is
valid at any time. Beside the arrays of a part lies ``part.json`` with their digest; a part that
does not agree with it is computed again. ``run.json`` tells which call the store belongs to. Beside
a part that is begun lie its checkpoints (`core.calls.checkpoint`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergode.core import files
from ergode.core.calls import checkpoint
from ergode.core.calls.tasks import Done, Part, part_name
from ergode.core.errors import PlanError, ReadError
from ergode.core.words import plural

if TYPE_CHECKING:
    import xarray

_RUN, _PART = "run.json", "part.json"
_NAME = re.compile(r"(\d{12})-(\d{12})")
_STALE = 3600.0  # seconds after which a hidden folder belongs to no process that still writes


@dataclass
class Manifest:
    """The call that a store belongs to."""

    engine: str
    version: str  # of this library
    dim: str  # dim along which the call is divided
    first: int  # number of its first member
    stop: int  # and one beyond the last
    arguments: dict[str, str]  # digest of every argument that determines the result


class Store:
    """The parts of one call on disk.

    Parameters
    ----------
    path : path
        A folder that ends in ``.zarr``; made by `begin` if it does not exist.

    Raises a PlanError if the name is invalid, Zarr is not installed, or something else is there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike):
            raise PlanError(f"store is {path!r:.80}; expected a path that ends in .zarr")
        self.path = Path(path)
        if self.path.suffix != ".zarr":
            raise PlanError(f"store is '{self.path}'; expected a path that ends in .zarr")
        if find_spec("zarr") is None:
            raise PlanError("store needs the package zarr (pip install 'ergode[zarr]')")
        if self.exists and not (self.path / _RUN).is_file():
            raise PlanError(f"store '{self.path}' exists and is not the store of a run")

    @property
    def exists(self) -> bool:
        """Whether there is something at this path."""
        return os.path.lexists(self.path)

    def manifest(self) -> Manifest:
        """The call that the store belongs to.

        Raises a ReadError if there is no store, or it is damaged.
        """
        if not self.exists:
            raise ReadError(f"store '{self.path}' does not exist")
        try:
            return Manifest(**json.loads((self.path / _RUN).read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise ReadError(f"store '{self.path}': {_RUN} cannot be read: {error}") from None

    def begin(self, wanted: Manifest) -> None:
        """Make the store, or check that it belongs to this call.

        Raises a PlanError if it belongs to another call, or has members that this call does not
        have.
        """
        if not self.exists:
            try:
                return self._make(wanted)
            except PlanError:
                if not self.exists:
                    raise  # else another process has made it meanwhile
        if self.check(wanted) != wanted:
            self._replace(self.path / _RUN, asdict(wanted))
        self._remove_stale()

    def check(self, wanted: Manifest) -> Manifest:
        """Check that the store belongs to this call; return what it says of its run.

        Raises
        ------
        PlanError
            See `begin`.
        """
        found = self.manifest()
        for name in ("engine", "version", "dim"):
            one, other = getattr(found, name), getattr(wanted, name)
            if one != other:
                raise PlanError(
                    f"store '{self.path}' belongs to a run with {name} {one!r}, and this one has "
                    f"{other!r}; choose another store"
                )
        unlike = [
            name for name in {**found.arguments, **wanted.arguments}
            if found.arguments.get(name) != wanted.arguments.get(name)
        ]  # fmt: skip
        if unlike:
            inner: dict[str, list[str]] = {}
            for name in unlike:  # such as "parameters 'k'"
                owner, space, part = name.partition(" '")
                inner.setdefault(owner, []).extend([f"'{part}"] if space else [])
            names = ", ".join(
                f"'{name}'" + (f" ({', '.join(found)})" if found else "")
                for name, found in inner.items()
            )
            raise PlanError(
                f"store '{self.path}' belongs to a run with another {names}; choose another store"
            )
        beyond = [
            part for part in self.parts() if part[0] < wanted.first or part[1] > wanted.stop
        ]  # fmt: skip
        if beyond:
            start, stop = beyond[-1]
            raise PlanError(
                f"store '{self.path}' has {members_of(found.dim)} {start} to {stop - 1}, beyond "
                f"this call's {wanted.first} to {wanted.stop - 1}; ask for all of them, or choose "
                "another store"
            )
        return found

    def _make(self, wanted: Manifest) -> None:
        import zarr

        with files.new_file(self.path) as partial:
            group = zarr.open_group(str(partial), mode="w")
            group.attrs.update({files.MARK: wanted.version})
            _write_json(partial / _RUN, asdict(wanted))

    def parts(self) -> list[tuple[int, int]]:
        """Members of all parts: first, and one beyond the last."""
        found = (_NAME.fullmatch(name) for name in os.listdir(self.path))
        return sorted((int(one[1]), int(one[2])) for one in found if one)

    def sound_parts(self) -> list[tuple[int, int]]:
        """Parts that agree with their digests and do not overlap; damaged ones are removed."""
        sound: list[tuple[int, int]] = []
        for part in self.parts():
            folder = self._folder(part)
            if self._record(part).get("files") != _digest_of_files(folder):
                shutil.rmtree(folder, ignore_errors=True)
            elif not sound or part[0] >= sound[-1][1]:
                sound.append(part)
        return sound

    def kinds(self) -> set[str]:
        """Kinds of the devices that have computed the parts."""
        return {str(self._record(part)["kind"]) for part in self.parts()[:1]}

    def write(self, part: Part, done: Done) -> None:
        """Write a part; one that another process has written meanwhile is left as it is.

        Raises
        ------
        WriteError
            It could not be written, because the disk is full, for example.
        """
        folder = self._folder((part.start, part.stop))
        try:
            with files.new_file(folder) as partial:
                files.write_store(done.dataset, partial)
                record = {
                    "files": _digest_of_files(partial),
                    "kind": kind_of(done.dataset),
                    "warnings": done.warnings,
                }
                _write_json(partial / _PART, record)
        except PlanError:  # a WriteError, too
            if not folder.is_dir():
                raise
        shutil.rmtree(f"{folder}{checkpoint.SUFFIX}", ignore_errors=True)

    def read(self, part: tuple[int, int]) -> xarray.Dataset:
        """A part: lazily where dask is installed, else loaded."""
        import xarray

        import ergode.core.results.accessor  # noqa: F401  (registers `dataset.ergode`)

        lazy = find_spec("dask") is not None
        chunks: dict[str, Any] | None = {} if lazy else None
        found = xarray.open_zarr(self._folder(part), chunks=chunks, consolidated=True)
        return found if lazy else found.load()

    def warnings_of(self, part: tuple[int, int]) -> list[tuple[str, str]]:
        """Warnings of a part: message and category."""
        return [(text, kind) for text, kind in self._record(part).get("warnings", [])]

    def _folder(self, part: tuple[int, int]) -> Path:
        return self.path / part_name(*part)

    def checkpoints(self) -> dict[tuple[int, int], float]:
        """Members of the parts that are begun, and the fraction of each that its checkpoint has."""
        found: dict[tuple[int, int], float] = {}
        for folder in sorted(self.path.glob(f"*{checkpoint.SUFFIX}")):
            name, states = _NAME.fullmatch(folder.stem), sorted(folder.glob("*.npz"))
            if name and states and not folder.with_suffix("").exists():
                found[int(name[1]), int(name[2])] = checkpoint.share_of(states[-1])
        return found

    def _record(self, part: tuple[int, int]) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._folder(part) / _PART).read_text())
        except (OSError, ValueError):
            return {}
        return found

    def _replace(self, path: Path, content: Mapping[str, Any]) -> None:
        with files.new_file(path, overwrite=True) as partial:
            _write_json(partial, content)

    def _remove_stale(self) -> None:
        """Remove hidden folders that ended processes have left."""
        for folder in self.path.glob(".*/"):
            if time.time() - folder.stat().st_mtime > _STALE:
                shutil.rmtree(folder, ignore_errors=True)


def members_of(dim: str, count: int = 0) -> str:
    """Name of the members along a dim: singular if `count` is 1."""
    known = ("replicate", "trajectory", "zone", "point", "run")
    if count == 1 and dim in known:
        return dim
    return plural(dim) if dim in known else f"values of '{dim}'"


def kind_of(dataset: xarray.Dataset) -> str:
    """Kind of the device that has computed a result: cpu or cuda."""
    return str(dataset.attrs["device"]).partition(":")[0]


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())


def _digest_of_files(folder: Path) -> str:
    """Digest of the names and contents of all files of a part."""
    found = hashlib.sha256()
    for path in sorted(_files_of(folder)):
        found.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                found.update(block)
    return found.hexdigest()


def _files_of(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.name != _PART)
