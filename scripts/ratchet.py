#!/usr/bin/env python3
"""Whether this tree is as fast as another one.

    scripts/ratchet.py REV [--device cuda] [--only TEXT] [--pairs N] [--json FILE]
    scripts/ratchet.py --stale

REV is a commit, which is checked out beside, or a folder that holds a checkout. Both trees make
every call of `benchmarks/ratchet_cases.py` in turn: a process for each tree, one measurement of
one, then one of the other, in alternating order. A ratio is the other tree's time over this
tree's, the median over pairs; below one, this tree is slower. Time is the processor's on a CPU,
and the clock's on a GPU. Every row is printed. A call that this tree cannot make is a loss, unless
it is not for the device. Rows below 0.95 are measured again at the end, with new processes for each
pair, because a process may be a third slower than the next one. They have the probability that a
ratio of 0.95 or more gives such pairs by chance (Wilcoxon's signed-rank test); the exit code is 1
if there is a row with a probability below 0.05.

``--stale`` lists the figures of `benchmarks/RESULTS.md` whose commit is older than the last change
of the code that they measure. Comments and docstrings do not count.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 0.95
TREES = "the other tree", "this tree"
SHORTEST = 0.1  # seconds of one measurement: short calls are repeated

_CALLS = "core/calls/divide.py core/calls/launch.py core/kernels.py core/compiler core/results"
KERNELS = {
    "Epidemics": {
        "leap": "epidemics/leap epidemics/shared",
        "gillespie": "epidemics/gillespie.py epidemics/shared",
        "windows": "epidemics/windows epidemics/shared",
        "sellke|trigger": "epidemics/event_driven epidemics/windows epidemics/shared",
        "": "epidemics/first_passage epidemics/shared epidemics/seeding.py",
    },
    "Stochastic": {
        "voxels": "stochastic/space",
        "warp": "stochastic/thread_group",
        "": "stochastic/kernel stochastic/algorithms",
    },
    "Kinetics": {
        "asymptotic|explicit|steady|partial": "kinetics/explicit kinetics/network",
        "bdf|ignition": "kinetics/multistep kinetics/network kinetics/physics",
        "": "kinetics/implicit kinetics/block kinetics/network kinetics/physics",
    },
    "Trajectories": {
        "96|heat|gray": "trajectories/arrays",
        "adaptive": "trajectories/adaptive trajectories/steppers trajectories/delays",
        "": "trajectories/fixed trajectories/steppers trajectories/delays",
    },
    "Densities": {"particles": "particles", "": "density"},
    "Calls": {"": _CALLS},
    "New models": {"": _CALLS},
    "Kept on a device": {"": _CALLS},
}
"""Code below `src/ergode` that a figure measures, by section and by words of its case."""


# ---- one tree: what its process does


def serve(device: str) -> None:
    """Do the jobs that come as lines of JSON, and answer each with a line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is printed does not disturb the answers
    sys.path.insert(0, str(ROOT / "benchmarks"))
    warnings.simplefilter("ignore")
    import ratchet_cases

    call = None
    for line in sys.stdin:
        job = json.loads(line)
        try:
            if "prepare" in job:
                call = ratchet_cases.CASES[job["prepare"]](device)
                for _ in range(4):  # whatever is compiled for a call that is repeated
                    call()
                answer = {"seconds": measured(call, 1, device)}
            else:
                assert call is not None
                answer = {"seconds": measured(call, job["repeats"], device)}
        except Exception:
            call = None
            answer = {"error": traceback.format_exc(limit=-1).strip().splitlines()[-1]}
        print(json.dumps(answer), file=answers, flush=True)


def measured(call: Any, repeats: int, device: str) -> float:
    """Seconds of one call."""
    clock = time.perf_counter if device.startswith("cuda") else time.process_time
    begin = clock()
    for _ in range(repeats):
        call()
    return (clock() - begin) / repeats


class Tree:
    """A checkout, and the process that runs its calls."""

    def __init__(self, folder: Path, cache: Path, device: str) -> None:
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(folder / "src"), os.environ.get("PYTHONPATH", "")]),
            "ERGODE_CACHE_DIR": str(cache),
        }  # fmt: skip
        self.device = device
        self.start()

    def start(self) -> None:
        """Begin a new process; `kill` the former one before."""
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", "--device", self.device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def kill(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()

    def ask(self, **job: Any) -> dict[str, Any]:
        """The answer to one job; a process that died is started again."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            print(json.dumps(job), file=self.process.stdin, flush=True)
            return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            self.kill()
            self.start()
            return {"error": "the process ended"}

    def first(self, kind: str, engine: str) -> float:
        """Processor seconds of a small call in a process of its own."""
        code = (
            "import sys, warnings; warnings.simplefilter('ignore')\n"
            f"sys.path.insert(0, {str(ROOT / 'benchmarks')!r})\n"
            "import calls, harness, ratchet_cases\n"
            f"code = ratchet_cases.FIRST[{kind!r}].format(engine={engine!r}, "
            f"device={self.device!r})\n"
            "exec(f'calls.{code}()')\nprint(harness.processor_seconds())"
        )

        def run(code: str, cache: str) -> float:
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True,
                env=self.environment | {"ERGODE_CACHE_DIR": cache},
            )  # fmt: skip
            return float(done.stdout.split()[-1])

        with tempfile.TemporaryDirectory() as cache:
            if kind == "new model":
                for before in ("{engine}(0, {device!r})", "{engine}(0, {device!r}, 1)"):
                    known = before.format(engine=engine, device=self.device)
                    run(f"{code.split('code =')[0]}calls.{known}()\nprint(0)", cache)
            return run(code, cache)


# ---- two trees


def compared(
    trees: tuple[Tree, Tree], name: str, pairs: int, first: int = 0
) -> list[tuple[float, float]]:
    """Seconds of the other tree and of this one, pair by pair; `first` is the number of a pair."""
    ready = [tree.ask(prepare=name) for tree in trees]
    wrong = [
        f"{who}: {answer['error']}" for who, answer in zip(TREES, ready, strict=True)
        if "error" in answer
    ]  # fmt: skip
    if wrong:
        raise RuntimeError("; ".join(wrong))
    repeats = max(1, min(200, round(SHORTEST / max(1e-6, ready[1]["seconds"]))))
    found = []
    for pair in range(first, first + pairs):
        order = trees if pair % 2 else trees[::-1]
        seconds = {tree: tree.ask(repeats=repeats)["seconds"] for tree in order}
        found.append((seconds[trees[0]], seconds[trees[1]]))
    return found


def compared_anew(trees: tuple[Tree, Tree], name: str, pairs: int) -> list[tuple[float, float]]:
    """As `compared`, with new processes for each pair."""
    found = []
    for pair in range(pairs):
        for tree in trees:
            tree.kill()
            tree.start()
        found += compared(trees, name, 1, pair)
    return found


def row_of(name: str, found: list[tuple[float, float]]) -> dict[str, Any]:
    """Median ratio of pairs, and the probability of such ones where the true ratio is LIMIT."""
    import numpy as np
    from scipy.stats import wilcoxon

    others, own = np.array(found).T
    logs = np.log(others / own) - math.log(LIMIT)
    chance = wilcoxon(logs, alternative="less").pvalue if np.any(logs) else 1.0
    return {
        "case": name, "ratio": float(np.median(others / own)), "chance": float(chance),
        "other": float(np.median(others)), "own": float(np.median(own)), "pairs": len(found),
    }  # fmt: skip


def all_rows(options: argparse.Namespace, trees: tuple[Tree, Tree]) -> Iterator[dict[str, Any]]:
    """A row for each case, printed as it comes."""
    sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "src")]
    import calls
    import ratchet_cases

    wanted = re.compile(options.only)
    jobs: list[tuple[str, Any]] = [
        (name, lambda name=name: compared(trees, name, options.pairs))
        for name in ratchet_cases.CASES
    ]
    if not options.warm_only:
        for kind in ratchet_cases.FIRST:
            for engine in calls.ENGINES:
                jobs.append((
                    f"{kind}, {engine}",
                    lambda kind=kind, engine=engine: [
                        (trees[0].first(kind, engine), trees[1].first(kind, engine))
                        for _ in range(min(options.pairs, 3))
                    ],
                ))  # fmt: skip
    for name, work in jobs:
        if not wanted.search(name):
            continue
        try:
            row = row_of(name, work()) | {"is_call": name in ratchet_cases.CASES}
        except (RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{name:42s} not compared: {error}", flush=True)
            if TREES[1] in str(error) and "LookupError" not in str(error):
                yield {"case": name, "ratio": 0.0, "chance": 0.0, "is_call": False}
            continue
        print(
            f"{name:42s} {row['other']:10.4g} s {row['own']:10.4g} s   ratio {row['ratio']:.2f}",
            flush=True,
        )
        yield row


def compare(options: argparse.Namespace) -> int:
    """All rows; 1 if there is a loss that is not chance."""
    with ExitStack() as stack:
        folder = Path(options.rev)
        if not (folder / "src").is_dir():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            packed = subprocess.run(
                ["git", "archive", options.rev, "src"], cwd=ROOT, check=True, capture_output=True
            )
            subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
        cache = options.cache or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trees = (
            Tree(folder.resolve(), cache / "other", options.device),
            Tree(ROOT, cache / "own", options.device),
        )
        rows = list(all_rows(options, trees))
        losses = [row for row in rows if row["ratio"] < LIMIT]
        print(
            f"\n{len(rows)} rows, {len(losses)} below {LIMIT}; those of calls, with new processes:"
        )
        for row in losses:
            if row["is_call"]:
                row |= row_of(row["case"], compared_anew(trees, row["case"], options.pairs))
            print(
                f"{row['case']:42s} ratio {row['ratio']:.2f}, by chance {row['chance']:.3f}",
                flush=True,
            )
        for tree in trees:
            tree.kill()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    losses = [row for row in losses if row["ratio"] < LIMIT]
    return int(any(row["chance"] < 0.05 or row["ratio"] < 0.8 for row in losses))


# ---- figures that are older than what they measure


def shape_of(revision: str, path: str) -> str | None:
    """The code of a file at a revision, without comments and docstrings."""
    found = subprocess.run(
        ["git", "show", f"{revision}:{path}"], cwd=ROOT, capture_output=True, text=True
    )
    if found.returncode:
        return None
    tree = ast.parse(found.stdout)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                one for one in body
                if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
            ]  # fmt: skip
    return ast.dump(tree)


def changed_since(revision: str, paths: list[str]) -> list[str]:
    """Files below `paths` whose code differs between a revision and the working commit."""
    names = subprocess.run(
        ["git", "diff", "--name-only", revision, "HEAD", "--", *paths], cwd=ROOT, check=True,
        capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    return [
        name for name in names
        if name.endswith(".py") and shape_of(revision, name) != shape_of("HEAD", name)
    ]  # fmt: skip


def stale() -> int:
    """Print every figure whose code has changed since its commit."""
    section, columns = "", []
    known: dict[tuple[str, str], list[str]] = {}
    count = old = 0
    for line in (ROOT / "benchmarks" / "RESULTS.md").read_text().splitlines():
        if line.startswith("## "):
            section, columns = line[3:].strip(), []
        if not line.startswith("|") or section not in KERNELS:
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "commit" in cells:
            columns = cells
        if not columns or cells == columns or set(line) <= set("|- "):
            continue
        row = dict(zip(columns, cells, strict=True))
        count += 1
        if not row["commit"]:
            old += 1
            print(f"{section}: {cells[0]} ({row['machine']}): no commit")
            continue
        rules = KERNELS[section]
        below = next(paths for words, paths in rules.items() if re.search(words, cells[0]))
        key = row["commit"], below
        if key not in known:
            paths = [f"src/ergode/{path}" for path in below.split()]
            known[key] = changed_since(row["commit"], paths)
        if known[key]:
            old += 1
            short = {name.removeprefix("src/ergode/") for name in known[key]}
            print(
                f"{section}: {cells[0]} ({row['machine']}, {row['commit']}): {len(short)} files,"
                f" such as {min(short)}"
            )
    print(f"{old} of {count} figures are older than the code that they measure")
    return int(old > 0)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("rev", nargs="?", help="a commit, or a folder that holds a checkout")
    parser.add_argument("--device", default="cpu:1", help="one core if not given")
    parser.add_argument("--only", default="", help="a regular expression of names of cases")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--warm-only", action="store_true", help="no processes of their own")
    parser.add_argument("--cache", type=Path, help="keep compiled kernels of both trees here")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--stale", action="store_true", help="list figures that are too old")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.device)
        return 0
    if options.stale:
        return stale()
    if not options.rev:
        parser.error("REV is missing")
    return compare(options)


if __name__ == "__main__":
    sys.exit(main())
