"""``ergode report``: the page of a result."""

from __future__ import annotations

from pathlib import Path

from ergode.core import files, results
from ergode.report import report

_WAY = "pass --overwrite"


def write(file: Path, output: Path | None, *, overwrite: bool) -> None:
    """Write the page of a file of a result; beside it, if no place is named."""
    page = output or file.with_suffix(".html")
    files.check_new(page, overwrite=overwrite, written_here=files.is_own_text, way=_WAY)
    text = report(results.open_dataset(file), file.name)
    with files.new_file(page, overwrite=overwrite, written_here=files.is_own_text) as partial:
        partial.write_text(text, encoding="utf-8")
    print(f"wrote {page}")
