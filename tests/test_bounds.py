"""Every dependency has a lower and an upper bound, the same wherever it is named."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement

FILE = Path(__file__).parents[1] / "pyproject.toml"


def requirements():
    declared = tomllib.loads(FILE.read_text(encoding="utf-8"))
    project = declared["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    groups.append(declared["build-system"]["requires"])
    return [Requirement(text) for group in groups for text in group]


def test_every_dependency_has_both_bounds_and_one_of_each():
    found = {}
    for one in requirements():
        assert {part.operator for part in one.specifier} == {">=", "<"}, one
        assert found.setdefault(one.name, one.specifier) == one.specifier, one
    assert len(found) > 50


def test_what_is_installed_is_within_the_bounds():
    for one in requirements():
        try:
            installed = version(one.name)
        except PackageNotFoundError:
            continue
        assert one.specifier.contains(installed, prereleases=True), f"{one}: {installed}"
