"""Every file in examples/ runs, and writes what it says."""

import os
import runpy
import shutil
import sys
from pathlib import Path

import pytest

import ergode
from ergode.cli.run import ask, check, run

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
RUN_FILES = sorted(EXAMPLES.glob("*.toml"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script(script, tmp_path, monkeypatch, capsys):
    if "read_reaclib" in script.read_text():
        pytest.importorskip("pynucastro")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
    if "savefig" in script.read_text() or "save_epidemic_curves" in script.read_text():
        assert list(tmp_path.glob("*.png"))


@pytest.mark.parametrize("file", RUN_FILES, ids=lambda file: file.stem)
def test_run_file(file, tmp_path, request, capsys):
    text = file.read_text()
    if "\nnuclei = " in text:
        pytest.importorskip("pynucastro")
    shutil.copy(file, tmp_path)
    if "\nfile = " in text:
        networks = request.getfixturevalue("shared_data") / "networks"
        name = text.partition('\nfile = "')[2].partition('"')[0]
        os.symlink(networks / name, tmp_path / name)
    options = {"device": "cpu"} | ({"replicates": 5} if "replicates" in text else {})
    asked = ask(tmp_path / file.name, options, None)
    check(asked, "text")
    planned = capsys.readouterr().out
    assert planned.endswith("checked: nothing was computed or written\n")
    assert not asked.dataset.exists()
    assert not run(asked, "text")
    printed = capsys.readouterr().out
    dataset = ergode.open_dataset(tmp_path / f"{file.stem}.nc")
    assert dataset.attrs.get("replicates", 5) == 5
    if "\nfigure = false" not in text:
        assert (tmp_path / f"{file.stem}.png").stat().st_size > 10_000
    assert f"wrote {asked.dataset}" in printed
    assert f"{dataset.attrs['method']}: " in printed
    assert f"{dataset.attrs['method'].partition(',')[0]}: " in planned
