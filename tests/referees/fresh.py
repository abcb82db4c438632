"""Fresh seeds for the referees, for as long as is asked."""

import os
import secrets
import time


def fresh_seeds(share=1.0):
    """Seeds from a fresh one on, for a share of `ERGODE_REFEREE_SECONDS` (ten minutes).

    The first is printed; `ERGODE_REFEREE_SEED` names it.
    """
    first = int(os.environ.get("ERGODE_REFEREE_SEED", secrets.randbelow(10**7)))
    print(f"\nERGODE_REFEREE_SEED={first}", flush=True)
    until = time.monotonic() + share * float(os.environ.get("ERGODE_REFEREE_SECONDS", "600"))
    seed = first
    while time.monotonic() < until:
        yield seed
        seed += 1
    print(f"{seed - first} seeds")
