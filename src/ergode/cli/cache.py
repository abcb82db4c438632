"""``ergode cache``: the compiled kernels on disk, and clearing them."""

from __future__ import annotations

import json

from ergode.core import kernel_cache
from ergode.core.notebook import bytes_text


def show(*, clear: bool, as_json: bool) -> None:
    """Print where compiled kernels are kept and how much they take, or remove them."""
    folders = kernel_cache.folders()
    folder = folders.own
    if clear:
        count, size = kernel_cache.clear()
    else:
        kept = kernel_cache.contents()
        count, size = len(kept), sum(one.bytes for one in kept)
    most = kernel_cache.limit()
    if as_json:
        found = {"directory": str(folder), "kernels": count, "bytes": size, "limit": most}
        print(json.dumps(found | {"cleared": clear}, indent=2))
        return
    print(folder)
    if folder != folders.wanted:
        print(f"for this process alone; '{folders.wanted}' can only be read")
    if clear:
        print(f"removed {count} kernels, {bytes_text(size)}")
    else:
        print(f"{count} kernels, {bytes_text(size)} of at most {bytes_text(most)}")
        print("`ergode cache --clear` removes them; ERGODE_CACHE_LIMIT sets the limit in megabytes")
