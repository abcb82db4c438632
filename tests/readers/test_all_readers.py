"""What readers of files have in common: byte order marks change nothing, and no file is told."""

import gzip
import runpy
from codecs import BOM_UTF8
from pathlib import Path

import pytest

import ergode

pytest.importorskip("resource", reason="damaged.py limits memory, which Windows does not")

READERS = runpy.run_path(str(Path(__file__).with_name("damaged.py")))["READERS"]
NOT_TEXT = {"matrix", "parquet", "result", "equations", "formula"}
PACKAGES = {"cantera": "ruamel.yaml", "cantera-blocks": "ruamel.yaml", "antimony": "antimony",
            "sbml": "libsbml", "reaclib": "pynucastro"}  # fmt: skip


OF_A_FILE = {name for name in dir(ergode) if name.startswith("read_")} - {
    "read_reaclib", "read_weak_rates", "read_fern"
}  # fmt: skip


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


@pytest.mark.parametrize("given", ["", None, 5, b"a.xml", []], ids=repr)
@pytest.mark.parametrize("name", sorted(OF_A_FILE))
def test_what_is_no_file_is_told(name, given):
    with pytest.raises(ergode.ReadError, match="is no file; expected its path"):
        getattr(ergode, name)(given)
