"""Memory limits of this process from Linux control groups: those of a container or a batch job."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

# For cgroup versions 2 and 1: folder, limit, usage, and reclaimable cache within the usage.
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
    """Smallest memory limit, and smallest free memory, among the groups of this process [byte].

    Parameters
    ----------
    root : Path
        Parent folder of ``proc`` and ``sys``.

    Returns
    -------
    limit, room : float
        Infinite without a limit, and on operating systems other than Linux.

    References
    ----------
    Linux kernel documentation, "Control Group v2", section "Memory Interface Files".
    """
    limit, room = math.inf, math.inf
    for largest, used, stat, dropped in _groups(root):
        most = _number(largest)
        if most is None:
            continue
        taken = (_number(used) or 0) - _entry(stat, dropped)
        limit, room = min(limit, most), min(room, max(most - taken, 0))
    return limit, room


@lru_cache(maxsize=8)
def _groups(root: Path) -> tuple[tuple[str, str, str, str], ...]:
    """Files of this process's control groups and of their ancestors, and what can be reclaimed."""
    found = []
    for line in _text(str(root / "proc/self/cgroup")).splitlines():
        number, controllers, name = line.split(":", 2)
        version = 2 if number == "0" else 1
        if version == 1 and "memory" not in controllers.split(","):
            continue
        home, largest, used, dropped = _FILES[version]
        top = root / home
        folder = top / name.lstrip("/")
        # Inside a container the name may be the host's, whose folders are not visible here.
        for one in (folder, *folder.parents):
            if one == top or top in one.parents:
                files = str(one / largest), str(one / used), str(one / "memory.stat")
                found.append((*files, dropped))
    return tuple(found)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _number(path: str) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _entry(path: str, name: str) -> int:
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
