"""``ergode bench``: find and run the benchmarks of a source checkout."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import ergode
from ergode.core.errors import PlanError


def run(engine: str | None, options: Sequence[str]) -> int:
    """Run the benchmark of an engine, or of all engines; pass `options` on.

    Returns the first nonzero exit code, or zero.

    Raises a PlanError if there is no checkout, or the benchmark does not exist.
    """
    found = sorted(_folder().glob("*.py"))
    scripts = {script.stem: script for script in found if find_spec(f"ergode.{script.stem}")}
    if engine is not None and engine not in scripts:
        raise PlanError(f"there is no benchmark '{engine}'; known: {', '.join(scripts) or 'none'}")
    for script in [scripts[engine]] if engine else scripts.values():
        code = subprocess.run([sys.executable, str(script), *options], check=False).returncode
        if code:
            return code
    return 0


def _folder() -> Path:
    """The folder ``benchmarks`` of the current checkout, or of the one that ergode runs from."""
    here = Path.cwd()
    for root in (here, *here.parents, Path(ergode.__file__).parents[2]):
        if _is_checkout(root):
            return root / "benchmarks"
    raise PlanError(
        "benchmarks are in the source checkout, not in the installed package: run this command "
        "inside a clone of the repository"
    )


def _is_checkout(root: Path) -> bool:
    project = root / "pyproject.toml"
    if not ((root / "benchmarks").is_dir() and project.is_file()):
        return False
    try:
        named = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}).get("name")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False
    return bool(named == "ergode")
