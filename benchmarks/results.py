#!/usr/bin/env python3
"""Write what benchmarks have measured into RESULTS.md.

    benchmarks/results.py FILE ... --machine NAME [--load TEXT] [--commit REV] [--date MM-DD]

FILE is what a benchmark wrote with ``--json``.  A case that was measured again replaces its row of
the same machine; rows of other cases stay.  ``--fresh`` drops the rows of these engines and this
machine first, so that cases that are gone leave no row.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
HEAD = (
    "case | whole call [ms] | kernels [ms] | figures | times as fast as | machine | load | date | "
    "commit"
)
SECTIONS = {
    "epidemics": "Epidemics", "stochastic": "Stochastic", "kinetics": "Kinetics",
    "trajectories": "Trajectories", "density": "Densities", "calls": "Calls",
    "kept": "Kept on a device", "new_models": "New models", "inference": "Inference",
}  # fmt: skip


def number(value: float) -> str:
    """Three digits, without an exponent where one can be read."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return f"{float(f'{value:.3g}'):,.6g}"
    return re.sub(r"e([+-])0*(\d)", lambda m: "e" + m[1].replace("+", "") + m[2], f"{value:.3g}")


def row_of(rows: list[dict[str, Any]], note: dict[str, str]) -> str:
    """The line of one case."""
    taken = {one["metric"]: one["value"] for one in rows}
    known = [taken.get("whole call", 0.0), taken.get("kernels within", 0.0)]
    figures, peers = {}, []
    several = len({one["metric"] for one in rows if one["peer"]}) > 1
    for one in rows:
        metric, value, unit = one["metric"], one["value"], one["unit"]
        if one["peer"]:
            behind = ", behind" if one["ratio"] < 1 else ""
            what = f"{metric}: " if several else ""
            peers.append(f"{what}{one['peer']} {number(one['ratio'])}{behind}")
        is_known = unit == "ms" and any(abs(value - other) < 1e-9 * value for other in known)
        if metric not in ("whole call", "kernels within") and not is_known:
            figures[metric] = f"{metric} {number(value)}{'' if unit == '1' else ' ' + unit}"
    cells = [
        rows[0]["case"], *(number(one) if one else "" for one in known),
        "; ".join(figures.values()), "; ".join(peers),
        note["machine"], note["load"], note["date"], note["commit"],
    ]  # fmt: skip
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def renewed(text: str, section: str, lines: dict[str, str], machine: str, fresh: bool) -> str:
    """The text with these lines, by case, in the table of a section."""
    columns = HEAD.split(" | ")
    empty = [f"| {HEAD} |", "|" + "---|" * len(columns)]
    where = re.search(rf"^## {section}\n.*?(?=^## |\Z)", text, re.M | re.S)
    if where is None:
        raise SystemExit(f"RESULTS.md has no section {section}")
    block = where[0]
    table = re.search(rf"^\| {re.escape(HEAD)} \|\n(?:\|.*\n)*", block, re.M)
    if table is None:
        raise SystemExit(f"the section {section} of RESULTS.md has no table of cases")
    left = dict(lines)
    rows = []
    for line in table[0].splitlines()[2:]:
        cells = dict(
            zip(columns, (cell.strip() for cell in line.strip("|").split("|")), strict=True)
        )
        if cells["machine"] != machine:
            rows.append(line)
        elif cells["case"] in left:
            rows.append(left.pop(cells["case"]))
        elif not fresh:
            rows.append(line)
    rows += left.values()
    made = "\n".join([*empty, *rows]) + "\n"
    return text[: where.start()] + block.replace(table[0], made) + text[where.end() :]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--load", default="none")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--date", default=date.today().strftime("%m-%d"))
    parser.add_argument("--fresh", action="store_true", help="drop cases that were not measured")
    options = parser.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", options.commit], cwd=FOLDER, check=True,
        capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    note = {
        "machine": options.machine, "load": options.load, "date": options.date, "commit": commit
    }  # fmt: skip
    path = FOLDER / "RESULTS.md"
    text = path.read_text(encoding="utf-8")
    for file in options.files:
        cases: dict[str, list[dict[str, Any]]] = {}
        for row in json.loads(file.read_text(encoding="utf-8")):
            cases.setdefault(row["case"], []).append(row)
        (engine,) = {row["engine"] for rows in cases.values() for row in rows}
        lines = {case: row_of(rows, note) for case, rows in cases.items()}
        text = renewed(text, SECTIONS[engine], lines, options.machine, options.fresh)
    with tempfile.NamedTemporaryFile("w", dir=FOLDER, delete=False, encoding="utf-8") as made:
        made.write(text)
    os.chmod(made.name, 0o644)
    os.replace(made.name, path)


if __name__ == "__main__":
    main()
