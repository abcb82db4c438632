"""``ergode cache``: show or clear the compiled kernels on disk."""

from __future__ import annotations

import json

from ergode.core.compiler import kernel_cache
from ergode.core.notebook import bytes_text
from ergode.core.words import counted


def show(*, clear: bool, as_json: bool) -> None:
    """Print the folder and size of the compiled kernels, or remove them."""
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
        print(f"used by this process only; '{folders.wanted}' is read-only")
    if clear:
        print(f"removed {counted(count, 'kernel')}, {bytes_text(size)}")
    else:
        print(f"{counted(count, 'kernel')}, {bytes_text(size)} of at most {bytes_text(most)}")
        print("`ergode cache --clear` removes them; ERGODE_CACHE_LIMIT sets the limit in megabytes")
