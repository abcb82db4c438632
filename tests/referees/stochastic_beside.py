"""Changes of a case that change nothing: the unit of time, and its origin.

Powers of two scale every number exactly, so realizations are the same, bit for bit.  A shift of the
time rounds, so a firing may come on the other side of a time of the results; and where formulas
compare the time, nobody can say on which side of it they are.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import stochastic_compare as referee

ORIGIN = 1024.0


def scaled(case, unit):
    """The case with another unit of time."""

    def slower(reaction):
        value = reaction.value
        if isinstance(value, str) and reaction.law == "rate":
            value = f"({_with_time(value, f'(time / {unit!r})')}) / {unit!r}"
        elif isinstance(value, str):
            value = f"({value}) / {unit!r}"
        else:
            value = value / unit
        return replace(reaction, value=value, delay=reaction.delay * unit)

    return _moved(case, f"(time / {unit!r})", lambda t: t * unit, slower, unit)


def shifted(case):
    """The case with another origin of the time."""

    def later(reaction):
        if isinstance(reaction.value, str):
            value = _with_time(reaction.value, f"(time - {ORIGIN!r})")
            return replace(reaction, value=value)
        return reaction

    return _moved(case, f"(time - {ORIGIN!r})", lambda t: t + ORIGIN, later, 1.0)


def _with_time(text, new):
    return re.sub(r"\btime\b", new, text)


def _moved(case, word, of_time, of_reaction, unit):
    events = [
        replace(event, trigger=_with_time(event.trigger, word), delay=event.delay * unit)
        for event in case.events
    ]
    return replace(
        case, times=[of_time(t) for t in case.times], events=events,
        reactions=[of_reaction(reaction) for reaction in case.reactions],
    )  # fmt: skip


def beside(case, rng, found, methods, replicates=400):
    """Realizations of the case by each method, in other units and from another time on."""
    seed = int(rng.integers(2**63))
    texts = [str(reaction.value) for reaction in case.reactions]
    texts += [event.trigger for event in case.events]
    compares = any("time" in text and re.search("[<>=]", text) for text in texts)
    compares |= any(event.delay for event in case.events)
    unit = 2.0 ** int(rng.choice([-20, -3, 5, 20]))
    for method in methods:
        options = {"replicates": replicates, "seed": seed}
        one = referee.simulate(found, case, method, **options)
        if one is None:
            continue
        other = referee.simulate(found, scaled(case, unit), method, **options)
        found.check(
            np.array_equal(other["amount"], one["amount"], equal_nan=True),
            f"{method}: a unit of time of {unit:g} changes realizations",
        )
        if compares:
            continue
        later = referee.simulate(found, shifted(case), method, **options)
        differ = ~np.isclose(later["amount"], one["amount"], rtol=1e-9, equal_nan=True)
        found.check(
            differ.mean() < 0.01, f"{method}: {differ.mean():.1%} of amounts depend on the origin"
        )
