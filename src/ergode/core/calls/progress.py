"""Progress in a terminal, a notebook or a log file.

In a terminal or a notebook, a bar is redrawn in place.  Elsewhere (a log, a pipe, a notebook
without ipywidgets), a plain line is written after each tenth.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from ergode.core.arguments import check_switch


@contextmanager
def track(
    label: str, total: int, *, unit: str, show: bool = True
) -> Iterator[Callable[[int], None]]:
    """Show progress towards `total`.

    Yields
    ------
    function
        Called with the amount done since the last call.
    """
    check_switch("the call", "progress", show)
    if not show:
        yield lambda _: None
        return
    from rich.console import Console

    console = Console(file=sys.stderr)
    # Rich draws a bar in a notebook by a widget, and otherwise warns and shows an empty block.
    has_bar = find_spec("ipywidgets") is not None if console.is_jupyter else console.is_terminal
    if has_bar:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f} of {task.total:.0f} " + unit),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console) as progress:
            task = progress.add_task(label, total=total)
            yield lambda amount: progress.update(task, advance=amount)
        return

    done = 0

    def report(amount: int) -> None:
        nonlocal done
        before, done = 10 * done // max(total, 1), done + amount
        if 10 * done // max(total, 1) > before:
            print(f"{label}: {done} of {total} {unit}", file=sys.stderr, flush=True)

    yield report
