"""``ergode info``: versions, devices, cache."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import ergode
from ergode.core import devices, kernels

_PACKAGES = ("numpy", "numba", "numba-cuda", "scipy", "xarray")


def collect() -> dict[str, Any]:
    """What `show` says, as plain data."""
    chosen = devices.resolve("auto")
    cache = kernels.cache_directory()
    files = [file for file in cache.rglob("*") if file.is_file()]
    return {
        "ergode": ergode.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "devices": [
            {
                "name": device.name,
                "model": device.model,
                "core_count": device.core_count,
                "memory_bytes": device.memory_bytes,
                "available_bytes": device.available_bytes(),
            }
            for device in devices.present()
        ],
        "auto": {"device": chosen.name, "reason": chosen.reason},
        "cache": {"directory": str(cache), "bytes": sum(map(_size, files)), "files": len(files)},
    }


def show(*, as_json: bool) -> None:
    """Print what is installed and what it would run on."""
    found = collect()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    table = Table.grid(padding=(0, 2))
    table.add_row("ergode", found["ergode"])
    table.add_row("python", f"{found['python']} on {found['platform']}")
    for name, number in found["packages"].items():
        table.add_row(name, number or "not installed")
    for device in found["devices"]:
        cores = "multiprocessors" if device["name"].startswith("cuda") else "threads"
        table.add_row(
            device["name"],
            f"{device['model']}, {device['core_count']} {cores}, "
            f"{_size_text(device['memory_bytes'])} memory, "
            f"{_size_text(device['available_bytes'])} for a plan",
        )
    reason = escape(found["auto"]["reason"])
    table.add_row("auto", f"picks {found['auto']['device']}: {reason}")
    cache = found["cache"]
    where = escape(cache["directory"])
    table.add_row("cache", f"{where}, {cache['files']} files, {_size_text(cache['bytes'])}")
    Console(highlight=False).print(table, soft_wrap=True)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # another process tidied it away
        return 0


def _size_text(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
