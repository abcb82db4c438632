"""``ergode status``: how much of a run its store holds, and what its checkpoints hold."""

from __future__ import annotations

import json
from pathlib import Path

from ergode.core.calls.store import Store, members_of
from ergode.core.words import counted


def show(path: Path, *, as_json: bool) -> None:
    """Print which members of a run are computed.

    Raises a ReadError if there is no store. Raises a PlanError if something else is there.
    """
    store = Store(path)
    run = store.manifest()
    kept = store.parts()
    total = run.stop - run.first
    done = sum(stop - start for start, stop in kept)
    begun = store.checkpoints()
    if as_json:
        found = {"engine": run.engine, "version": run.version, "dim": run.dim, "total": total}
        shares = [{"first": part[0], "stop": part[1], "share": x} for part, x in begun.items()]
        found |= {"done": done, "parts": len(kept), "checkpoints": shares}
        print(json.dumps(found, indent=2))
        return
    print(f"{run.engine}, ergode {run.version}")
    share = f"{100 * done // total} %"
    print(
        f"{done:,} of {total:,} {members_of(run.dim, total)} ({share}) in "
        f"{counted(len(kept), 'part')}"
    )
    for (first, stop), part in begun.items():
        which = f"{first:,}" if stop == first + 1 else f"{first:,} to {stop - 1:,}"
        who = members_of(run.dim, stop - first)
        print(f"checkpoint of {who} {which}: {100 * part:.0f} % of the time")
