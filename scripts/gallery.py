"""Make the pictures of the gallery: run every example, and keep its figure small.

    python scripts/gallery.py [NAME ...]

writes `docs/_static/gallery/NAME.png` for all examples, or for those that are named. Contact
networks that are not in the repository are those of the tests, in `shared/data` beside it.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
import time
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

import ergode
from ergode.cli.run import ask, run
from ergode.plots.frame import COLOURS as COLOURS_OF_LINES
from ergode.plots.frame import quiet

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "_static" / "gallery"
HERO = PICTURES.parent / "five_engines.png"  # of the README, and in the gallery
WIDTH, COLOURS = 640, 256


def figure_of(example: Path, folder: Path) -> Path:
    """Run an example in a folder; the figure that it writes there."""
    os.chdir(folder)
    if example.suffix == ".py":
        sys.argv = [str(example)]
        runpy.run_path(str(example), run_name="__main__")
    else:
        text = example.read_text()
        shutil.copy(example, folder)
        if "\nfile = " in text:
            name = text.partition('\nfile = "')[2].partition('"')[0]
            (folder / name).symlink_to(ROOT.parent / "shared" / "data" / "networks" / name)
        run(ask(folder / example.name, {"device": "cpu"}, None), "text")
        if "\nfigure = false" in text:
            draw_sweep(folder / f"{example.stem}.nc", folder / "sweep.png")
    (figure,) = folder.glob("*.png")
    return figure


def draw_sweep(dataset: Path, path: Path) -> None:
    """Mean infectious numbers at every point of a sweep of two parameters."""
    mean = ergode.open_dataset(dataset)["mean"].sel(compartment="I")
    first, second = (dim for dim in mean.dims if dim != "time")
    figure = Figure(figsize=(7.2, 3.4), dpi=160, layout="constrained")
    panels = figure.subplots(1, mean.sizes[first], sharey=True)
    for ax, value in zip(panels, mean[first].values, strict=True):
        for other, colour in zip(mean[second].values, COLOURS_OF_LINES, strict=False):
            line = mean.sel({first: value, second: other})
            ax.plot(mean["time"], line, color=colour, label=f"{second} {other:g}")
        quiet(ax).set_xlabel("time")
        ax.set_title(f"{first} {value:g}", loc="left")
    panels[0].set_ylabel("infectious, mean")
    panels[-1].legend(frameon=False, fontsize="small")
    figure.savefig(path)


def main(names: list[str]) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for example in sorted((ROOT / "examples").iterdir()):
        if example.suffix not in (".py", ".toml") or (names and example.stem not in names):
            continue
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            image = Image.open(figure_of(example, Path(folder))).convert("RGB")
            if example.stem == HERO.stem:
                image.save(HERO, optimize=True)
            image.thumbnail((WIDTH, WIDTH))
            made = PICTURES / f"{example.stem}.png"
            # Small patches, such as those of legends, keep their colour.
            small = image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
            small.save(made, optimize=True)
            os.chdir(ROOT)
        print(f"{made.name}: {made.stat().st_size:,} bytes, {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
