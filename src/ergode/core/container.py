"""Memory that the control groups of Linux leave to this process: a container's, or a job's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

# Of the second and the first version: folder, limit, use, and what of the use can be dropped.
_FILES = {
    2: ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    1: (
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
}


def memory_limit(root: Path = Path("/")) -> tuple[float, float]:
    """Smallest limit of the groups that this process is in, and least room in one of them [byte].

    Parameters
    ----------
    root : Path
        Where the folders ``proc`` and ``sys`` are.

    Returns
    -------
    limit, room : float
        Infinite without a limit, and on other systems.

    References
    ----------
    Linux kernel documentation, "Control Group v2", section "Memory Interface Files".
    """
    limit, room = math.inf, math.inf
    for folder, (_, largest, used, dropped) in _groups(root):
        most = _number(folder / largest)
        if most is None:
            continue
        taken = (_number(folder / used) or 0) - _entry(folder / "memory.stat", dropped)
        limit, room = min(limit, most), min(room, max(most - taken, 0))
    return limit, room


def _groups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str, str]]]:
    """Folders of this process's groups and of those that they are part of."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, name = line.split(":", 2)
        version = 2 if number == "0" else 1
        if version == 1 and "memory" not in controllers.split(","):
            continue
        top = root / _FILES[version][0]
        folder = top / name.lstrip("/")
        # In a container the name may be one of the host's, of which nothing is seen here.
        for one in (folder, *folder.parents):
            if one == top or top in one.parents:
                yield one, _FILES[version]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _entry(path: Path, name: str) -> int:
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
