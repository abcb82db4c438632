"""Files appear complete or not at all, and nothing is replaced without `overwrite`.

A file is written in a hidden folder beside its destination, and moved there when it is complete.
An existing file is replaced only with `overwrite`.  If its format records who wrote it (datasets,
figures, pages), it is replaced only if this library wrote it.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergode.core.errors import PlanError, WriteError

if TYPE_CHECKING:
    import xarray

MARK = "ergode_version"
"""Attribute of a saved dataset: the version of this library that wrote it."""

_CHUNK = re.compile(r"c|\d+(\.\d+)*")
_METADATA = {"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"}


@contextmanager
def new_file(
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,  # whether to replace an existing file
    # ``written_here(path)`` tells whether this library wrote a file; others are not replaced.
    # Without it, any file (never a folder) may be replaced.
    written_here: Callable[[Path], bool] | None = None,
) -> Iterator[Path]:
    """Write the file (or folder) `path` atomically, by way of a temporary path.

    Yields
    ------
    Path
        Temporary path; moved to `path` at the end, or removed after an error.

    Raises
    ------
    PlanError
        See `check_new`.
    WriteError
        The file could not be written; the disk is full, for example.  An existing file is
        unchanged.
    """
    path = Path(path)
    check_new(path, overwrite=overwrite, written_here=written_here)
    scratch = None
    try:
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        partial = scratch / path.name
        yield partial
        _publish(partial, path, overwrite, written_here, scratch / "replaced")
    except OSError as error:
        if scratch is not None:
            _remove(scratch)
        if isinstance(error, WriteError):
            raise
        raise WriteError(f"cannot write '{path}': {_reason(error)}{_room(path, error)}") from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def check_new(
    path: Path,
    *,
    overwrite: bool = False,
    written_here: Callable[[Path], bool] | None = None,
    way: str = "pass overwrite=True",  # how the user permits a replacement, for the message
) -> None:
    """Refuse a path that cannot or must not be written.

    Raises a PlanError if the folder does not exist; or a file of this name exists, and `overwrite`
    is false or this library did not write it.
    """
    if not path.parent.is_dir():
        raise PlanError(f"cannot write '{path}': the folder '{path.parent}' does not exist")
    if not os.path.lexists(path):
        return
    if written_here is None:
        replaceable = path.is_file() or not path.exists()
    else:
        replaceable = written_here(path)
    if not replaceable:
        kind = "folder" if path.is_dir() else "file"
        raise PlanError(
            f"cannot write '{path}': a {kind} of that name is in the way, which ergode did not "
            "write; move it, or choose another name"
        )
    if not overwrite:
        raise PlanError(
            f"cannot write '{path}': it exists; {way} to replace it, or choose another name"
        )


def _publish(
    partial: Path,
    path: Path,
    overwrite: bool,
    written_here: Callable[[Path], bool] | None,
    replaced: Path,
) -> None:
    # The destination may have appeared, or changed, while the file was written.
    check_new(path, overwrite=overwrite, written_here=written_here)
    if not path.is_dir():
        os.replace(partial, path)
        return
    # A folder cannot replace another folder: move the old one aside first.
    os.replace(path, replaced)
    try:
        os.replace(partial, path)
    except OSError:
        os.replace(replaced, path)
        raise


def _remove(scratch: Path) -> None:
    # After a failure, Zarr's other threads keep writing for a moment.
    for _ in range(10):
        shutil.rmtree(scratch, ignore_errors=True)
        time.sleep(0.05)


def _reason(error: OSError) -> str:
    return " ".join((error.strerror or str(error) or type(error).__name__).split())


def _room(path: Path, error: OSError) -> str:
    """Free space, if the disk was full; else nothing."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return ""
    return f" ({free / 1e6:,.1f} MB free in '{path.parent}')"


# --- who wrote it -------------------------------------------------------------------------------


def is_own_netcdf(path: Path) -> bool:
    """Whether a file is a NetCDF file that `ergode.save` wrote."""
    import h5py

    if not path.is_file():
        return False
    try:
        with h5py.File(path, "r") as file:
            return MARK in file.attrs
    except (OSError, RuntimeError):
        return False


def write_store(dataset: xarray.Dataset, folder: Path) -> None:
    """Write a dataset as a Zarr store, without Zarr's warnings of text and metadata."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset.to_zarr(folder, mode="w", consolidated=True)


def is_own_store(path: Path) -> bool:
    """Whether a folder is a Zarr store that `ergode.save` wrote, with nothing else in it."""
    if path.is_symlink() or not path.is_dir():
        return False
    try:
        import zarr

        if MARK not in zarr.open_group(str(path), mode="r").attrs:
            return False
        return all(_is_of_store(entry) for entry in _entries(path))
    except Exception:  # opening a folder that is no store raises many kinds of errors
        return False


def _entries(path: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(path) as found:
        for entry in found:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(Path(entry.path))


def _is_of_store(entry: os.DirEntry[str]) -> bool:
    if entry.is_symlink():
        return False
    if entry.name in _METADATA:
        return not entry.is_dir()
    if _CHUNK.fullmatch(entry.name) and not entry.is_dir():
        return True
    # A folder is an array, or one level of chunk indices.
    return entry.is_dir() and (
        _CHUNK.fullmatch(entry.name) is not None
        or any(Path(entry.path, name).is_file() for name in _METADATA)
    )


def is_own_text(path: Path) -> bool:
    """Whether the metadata of a figure or page names this library as its creator."""
    try:
        return path.is_file() and GENERATOR.encode() in path.read_bytes()
    except OSError:
        return False


GENERATOR = "made with ergode"
"""Mark of this library in the metadata of figures and pages."""


# --- a file that may fill the disk --------------------------------------------------------------


class SafeFile(io.FileIO):
    """A file that fails when it is closed, not while it is written.

    HDF5 aborts the process if it cannot flush its buffers.  So the first error is stored, later
    writes are discarded, and `finish` raises the error.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, "w+")
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of `data`; after an error, discard it."""
        view = memoryview(data).cast("B")
        done = 0
        while self._error is None and done < len(view):
            try:
                done += super().write(view[done:]) or 0
            except OSError as error:
                self._error = error
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the length, if that is possible."""
        try:
            return super().truncate(size)
        except OSError as error:
            self._error = self._error or error
            return size or 0

    def readinto(self, buffer: Any) -> int:
        """Read; discarded data is read as zeros."""
        view = memoryview(buffer).cast("B")
        done = super().readinto(view) or 0
        view[done:] = bytes(len(view) - done)
        return len(view)

    def finish(self) -> None:
        """Flush to disk and close; raise the first error."""
        with self:
            if self._error is None:
                os.fsync(self.fileno())
        if self._error is not None:
            raise self._error
