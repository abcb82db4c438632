"""``ergode info``: versions, extras, devices, cache."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, metadata, version
from typing import Any

from packaging.requirements import Requirement
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import ergode
from ergode.core import devices
from ergode.core.compiler import kernel_cache
from ergode.core.notebook import bytes_text
from ergode.core.words import counted

_PACKAGES = ("numpy", "numba", "numba-cuda", "scipy", "xarray")
_OF_A_CHECKOUT = {"test", "docs", "bench"}


def collect() -> dict[str, Any]:
    """The data that `show` prints."""
    chosen = devices.resolve("auto")
    kept = kernel_cache.contents()
    return {
        "ergode": ergode.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "extras": extras(),
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
        "cache": {
            "directory": str(kernel_cache.folders().own),
            "bytes": sum(one.bytes for one in kept),
            "kernels": len(kept),
        },
    }


def extras() -> dict[str, dict[str, str | None]]:
    """Versions of the packages of each extra; None if one is missing or too old."""
    try:
        known = metadata("ergode")
    except PackageNotFoundError:  # a source tree that is not installed
        return {}
    found: dict[str, dict[str, str | None]] = {
        name: {} for name in known.get_all("Provides-Extra", ()) if name not in _OF_A_CHECKOUT
    }
    for text in known.get_all("Requires-Dist", ()):
        one = Requirement(text)
        for name, packages in found.items():
            if one.marker and not one.marker.evaluate() and one.marker.evaluate({"extra": name}):
                number = _version(one.name)
                packages[one.name] = number if number and number in one.specifier else None
    return found


def show(*, as_json: bool) -> None:
    """Print installed versions and available devices."""
    found = collect()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    table = Table.grid(padding=(0, 2))
    table.add_row("ergode", found["ergode"])
    table.add_row("python", f"{found['python']} on {found['platform']}")
    for name, number in found["packages"].items():
        table.add_row(name, number or "not installed")
    for name, packages in found["extras"].items():
        missing = [package for package, number in packages.items() if number is None]
        hint = f"missing: {', '.join(missing)} (pip install 'ergode[{name}]')"
        table.add_row(escape(f"[{name}]"), escape(hint) if missing else "installed")
    for device in found["devices"]:
        cores = "multiprocessor" if device["name"].startswith("cuda") else "thread"
        table.add_row(
            device["name"],
            f"{device['model']}, {counted(device['core_count'], cores)}, "
            f"{bytes_text(device['memory_bytes'])} memory, "
            f"{bytes_text(device['available_bytes'])} free for runs",
        )
    reason = escape(found["auto"]["reason"])
    table.add_row("auto", f"picks {found['auto']['device']}: {reason}")
    cache = found["cache"]
    where = escape(cache["directory"])
    table.add_row("cache", f"{where}, {cache['kernels']} kernels, {bytes_text(cache['bytes'])}")
    Console(highlight=False).print(table, soft_wrap=True)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
