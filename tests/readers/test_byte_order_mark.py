"""Text that begins with a UTF-8 byte order mark, as Windows programs write it, reads the same."""

import gzip
import runpy
from codecs import BOM_UTF8
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="damaged.py limits memory, which Windows does not")

READERS = runpy.run_path(str(Path(__file__).with_name("damaged.py")))["READERS"]
NOT_TEXT = {"matrix", "parquet", "result", "equations", "formula"}
PACKAGES = {"cantera": "ruamel.yaml", "cantera-blocks": "ruamel.yaml", "antimony": "antimony",
            "sbml": "libsbml", "reaclib": "pynucastro"}  # fmt: skip


@pytest.mark.parametrize("name", sorted(READERS.keys() - NOT_TEXT))
def test_a_mark_changes_nothing(tmp_path: Path, name: str) -> None:
    pytest.importorskip(PACKAGES.get(name, "numpy"))
    file, make, read = READERS[name]
    path = tmp_path / file
    content = make(tmp_path)
    found = []
    for mark in (b"", BOM_UTF8):
        if name.endswith("-gz"):
            path.write_bytes(gzip.compress(mark + gzip.decompress(content)))
        else:
            path.write_bytes(mark + content)
        found.append(read(path))
    if "object at" not in repr(found[0]) and not name.startswith("run-file"):
        assert repr(found[0]) == repr(found[1])
