"""The documentation names everything that is public, and its links lead somewhere."""

import os
import re
from pathlib import Path

import pytest

import ergode

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(
        ROOT / name
        for name in (
            "README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "CODE_OF_CONDUCT.md",
            "SECURITY.md",
        )
    ),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
PAGES = [page for page in PAGES if "_build" not in page.parts]
ENGINES = ("density", "epidemics", "kinetics", "particles", "plots", "stochastic", "trajectories")


def without_code(text):
    return re.sub(r"^(```+|~~~+).*?^\1$", "", text, flags=re.M | re.S)


def anchors(page):
    """Anchors of a page as GitHub and MyST make them: of headings, and explicit ones."""
    text = without_code(page.read_text())
    heads = [re.sub(r"[^\w\- ]", "", one.lower()) for one in re.findall(r"^#+ (.*)$", text, re.M)]
    return {one.strip().replace(" ", "-") for one in heads} | set(
        re.findall(r"^\((.+)\)=$", text, re.M)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_repository_lead_somewhere(page):
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        path, _, anchor = target.partition("#")
        if re.match(r"(https?|mailto):", target):
            continue
        goal = Path(os.path.normpath(page.parent / path)) if path else page
        if not goal.exists() or (anchor and anchor not in anchors(goal)):
            wrong.append(target)
    assert not wrong


def test_every_page_is_in_a_table_of_contents():
    docs = ROOT / "docs"
    listed = {docs / "index.md"}
    for page in PAGES:
        for tree in re.findall(r"^```+\{toctree\}\n(.*?)^```+$", page.read_text(), re.M | re.S):
            names = [line.strip() for line in tree.splitlines() if not line.startswith(":")]
            listed |= {page.parent / f"{name}.md" for name in names if name}
    assert {page for page in PAGES if docs in page.parents} == {
        Path(os.path.normpath(page)) for page in listed
    }


def test_every_public_name_is_in_a_guide():
    """The reference does not count."""
    guides = [page for page in PAGES if {"tutorials", "guides", "theory"} & set(page.parts)]
    words = set(re.findall(r"\w+", "\n".join(page.read_text() for page in guides)))
    missing = [name for name in ergode.__all__ if name not in words]
    for engine in ENGINES:
        missing += [
            f"{engine}.{name}" for name in getattr(ergode, engine).__all__ if name not in words
        ]
    assert missing == []


def test_every_error_warning_and_status_has_a_cause_and_a_cure():
    text = (ROOT / "docs/reference/errors.md").read_text()
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^#|\Z)", text, re.M | re.S))
    classes = [name for name in ergode.__all__ if name.endswith(("Error", "Warning"))]
    expected = {*classes, *(status.name for status in ergode.Status)}
    assert set(sections) == expected
    for name in expected - {"DONE"}:
        assert "**Cause" in sections[name], name
        assert "**Cure" in sections[name], name


def test_every_example_has_a_picture():
    examples = {one.stem for one in (ROOT / "examples").iterdir() if one.suffix in (".py", ".toml")}
    assert {one.stem for one in (ROOT / "docs/_static/gallery").glob("*.png")} == examples


def test_the_picture_of_the_readme_is_that_of_its_example():
    """Both are written when the example is drawn."""
    from PIL import Image, ImageChops, ImageStat

    small = Image.open(ROOT / "docs/_static/gallery/five_engines.png").convert("L")
    large = Image.open(ROOT / "docs/_static/five_engines.png").convert("L")
    assert abs(large.width / large.height - small.width / small.height) < 0.01
    (off,) = ImageStat.Stat(ImageChops.difference(small, large.resize(small.size))).mean
    assert off < 1.5  # of 255


def test_figures_have_alternative_texts():
    for page in PAGES:
        text = page.read_text()
        for block in re.findall(r"^```+\{(?:image|figure)\}.*?^```+$", text, re.M | re.S):
            assert ":alt:" in block, f"{page}: {block}"
        assert not re.search(r"!\[\s*\]\(", text), page
