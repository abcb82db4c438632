"""Compiled kernels on disk: their folder, its size limit, and a read-only folder to copy from.

A kernel is a generated Python file named by its digest, with numba's cache files beside it.
Tables that take seconds to compute are kept there too, as files of NumPy.
Numba's files hold pickled objects, and reading a pickle can run arbitrary code: a folder that other
users can write to is refused.  A read-only shared folder is used as a source; new kernels then go
to a temporary folder.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import pickle
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ergode.core.errors import PlanError

DEFAULT_LIMIT = 2_000_000_000  # bytes; ERGODE_CACHE_LIMIT, in megabytes, overrides it


@dataclass(frozen=True)
class Folders:
    """Where kernels are written, and where they are looked for."""

    own: Path  # where kernels are written and loaded from
    # the requested folder.  If it differs from `own` it is read-only, and kernels are copied from
    # it.
    wanted: Path


@lru_cache(maxsize=1)
def folders() -> Folders:
    """The folders of this process.

    ERGODE_CACHE_DIR if set, else the user's cache directory.  If that is read-only or full, a
    temporary folder, which is removed when the process ends.

    Raises a PlanError if other users can write to the folder, or it belongs to one who is not root.
    """
    wanted = os.environ.get("ERGODE_CACHE_DIR")
    if not wanted:
        from platformdirs import user_cache_dir

        wanted = user_cache_dir("ergode")
    folder = Path(wanted).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return Folders(_temporary(), folder)
    _check_who_writes(folder)
    try:
        with tempfile.TemporaryFile(dir=folder):
            if shutil.disk_usage(folder).free >= _ROOM:
                return Folders(folder, folder)
    except OSError:
        pass
    return Folders(_temporary(), folder)


_ROOM = 1 << 25
"""Free bytes that a folder must have: a nearly full disk holds small files but no kernels."""


def _temporary() -> Path:
    folder = tempfile.mkdtemp(prefix="ergode-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _check_who_writes(folder: Path) -> None:
    if os.name != "posix":
        return
    found = folder.stat()
    if found.st_uid not in (0, os.geteuid()):
        raise PlanError(
            f"the kernel cache '{folder}' belongs to another user, who could make this process run "
            "code of theirs: set ERGODE_CACHE_DIR to a folder of your own"
        )
    # Many systems give each user a group of their own, with the same number.
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid != found.st_uid
    if by_group or found.st_mode & stat.S_IWOTH:
        raise PlanError(
            f"other users can write to the kernel cache '{folder}', and could make this process "
            f"run code of theirs: run `chmod go-w '{folder}'`, or set ERGODE_CACHE_DIR"
        )


_WRITTEN = 10**18
"""Modification time of every generated file [ns since 1970]."""


def file_of(name: str, text: str) -> Path:
    """The generated file of a kernel, written if it is missing, and marked as used now."""
    known = folders()
    path = known.own / f"{name}.py"
    copied = known.own != known.wanted and _copied(name, known.wanted, known.own)
    if not (copied or path.exists()) or not _is_whole(path, text):
        _make_room(known.own)
        with tempfile.NamedTemporaryFile(
            "w", dir=known.own, suffix=".tmp", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        os.chmod(file.name, 0o644)  # other users read a shared folder
        os.replace(file.name, path)
    # Numba detects changed files by their modification time, which differs in a copy.
    with suppress(OSError):
        os.utime(path, ns=(time.time_ns(), _WRITTEN))
    _check_index(known.own, name)
    return path


def _is_whole(path: Path, text: str) -> bool:
    """Whether a generated file has its text, and was not cut by a full disk or a crash."""
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, ValueError):
        return False


def _check_index(folder: Path, name: str) -> None:
    """Remove the compiled files of a kernel whose index numba cannot read.

    The index lists the types of the arguments. It names the module of a named tuple, and an older
    version of this package may have had that module in another place.
    """
    for index in folder.glob(f"__pycache__/{name}.*.nbi"):
        try:
            with index.open("rb") as file:
                pickle.load(file)  # the version of numba
                pickle.load(file)
        except FileNotFoundError:  # another process tidied it away
            continue
        except Exception:
            for kept in folder.glob(f"__pycache__/{name}.*"):
                kept.unlink(missing_ok=True)


def _copied(name: str, source: Path, target: Path) -> bool:
    """Copy a kernel and its numba files, unless present; return whether it is present now."""
    try:
        if (target / f"{name}.py").exists():
            return True
        if not (source / f"{name}.py").is_file():
            return False
        for file in _files(source, name):
            copy = target / file.relative_to(source)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, copy)
    except OSError:  # unreadable, or the disk is full
        return False
    return True


def text_of(name: str, ending: str, make: Callable[[], str]) -> str:
    """A text that is made of a kernel: read from beside its file, or made and written there.

    The first line of the file is a comment with the digest of the rest.
    """
    folder = folders().own
    if not (folder / f"{name}.py").exists():  # not a generated kernel
        return make()
    path = folder / "__pycache__" / f"{name}.{ending}"
    with suppress(OSError):
        mark, _, found = path.read_bytes().partition(b"\n")
        if mark == _mark(found):
            return found.decode()
    text = make()
    with suppress(OSError):  # without room on the disk it is made again
        path.parent.mkdir(exist_ok=True)
        written = path.with_name(f"{path.name}.{os.getpid()}")
        written.write_bytes(_mark(text.encode()) + b"\n" + text.encode())
        os.replace(written, path)
    return text


def _mark(text: bytes) -> bytes:
    return b"// " + hashlib.sha256(text).hexdigest().encode()


def array_of(name: str, shape: tuple[int, ...], make: Callable[[], np.ndarray]) -> np.ndarray:
    """A table of float64: read from the folder, or computed and written there.

    A name begins with ``ergode_`` and changes with the numbers; the shape guards against a file
    that is damaged.
    """
    known = folders()
    for folder in dict.fromkeys((known.own, known.wanted)):
        with suppress(OSError, ValueError, EOFError):
            found = np.load(folder / f"{name}.npy", allow_pickle=False)
            if found.shape == shape and found.dtype == np.float64 and np.isfinite(found).all():
                return np.asarray(found)
    made = make()
    with suppress(OSError):  # without room on the disk it is computed again
        _make_room(known.own)
        with tempfile.NamedTemporaryFile(dir=known.own, suffix=".tmp", delete=False) as file:
            np.save(file, made, allow_pickle=False)
        os.chmod(file.name, 0o644)  # other users read a shared folder
        os.replace(file.name, known.own / f"{name}.npy")
    return made


def _files(folder: Path, name: str) -> list[Path]:
    """Files of one kernel, or of one table."""
    return [
        *folder.glob(f"{name}.py"),
        *folder.glob(f"{name}.npy"),
        *folder.glob(f"__pycache__/{name}.*"),
    ]


@dataclass(frozen=True)
class Kept:
    """The files of one kernel on disk."""

    name: str
    bytes: int
    used: float  # seconds since 1970


def contents() -> list[Kept]:
    """The kernels of this process's folder, the least recently used first."""
    return _contents(folders().own)


def _contents(folder: Path) -> list[Kept]:
    sizes: dict[str, int] = {}
    used: dict[str, float] = {}
    tables = folder.glob("ergode_*.npy")
    for file in [*folder.glob("ergode_*.py"), *tables, *folder.glob("__pycache__/ergode_*")]:
        name = file.name.partition(".")[0]
        try:
            found = file.stat()
        except OSError:  # another process tidied it away
            continue
        sizes[name] = sizes.get(name, 0) + found.st_size
        if file.suffix in (".py", ".npy"):
            used[name] = found.st_atime
    kept = [Kept(name, size, used.get(name, 0.0)) for name, size in sizes.items()]
    return sorted(kept, key=lambda one: one.used)


def limit() -> int:
    """Size limit of the kernels on disk [bytes].

    Raises
    ------
    PlanError
        ERGODE_CACHE_LIMIT is not a number of megabytes.
    """
    said = os.environ.get("ERGODE_CACHE_LIMIT")
    if not said:
        return DEFAULT_LIMIT
    try:
        size = float(said)
    except ValueError:
        size = -1.0
    if not size >= 0:
        raise PlanError(f"ERGODE_CACHE_LIMIT is '{said}'; expected a number of megabytes")
    return int(size * 1e6)


def _make_room(folder: Path) -> None:
    """Remove the least recently used kernels beyond the limit, before a kernel is added."""
    most = limit()
    kept = _contents(folder)
    total = sum(one.bytes for one in kept)
    if total <= most:
        return
    for one in kept:
        if total <= 0.8 * most:  # leave slack, so that the next kernel does not evict again
            break
        _remove(folder, one.name)
        total -= one.bytes


def clear() -> tuple[int, int]:
    """Remove all kernels from this process's folder; return their number and size in bytes."""
    folder = folders().own
    kept = _contents(folder)
    for one in kept:
        _remove(folder, one.name)
    return len(kept), sum(one.bytes for one in kept)


def _remove(folder: Path, name: str) -> None:
    for file in _files(folder, name):
        file.unlink(missing_ok=True)
