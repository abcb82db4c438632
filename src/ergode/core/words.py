"""Counts with their noun, as messages and descriptions say them."""

from __future__ import annotations


def plural(item: str) -> str:
    """Name of several items: replicates, trajectories, species."""
    if item.endswith("ies"):
        return item
    return f"{item[:-1]}ies" if item.endswith("y") else f"{item}s"


def singular(items: str) -> str:
    """Name of one of several items."""
    if items == "species":
        return items
    return f"{items[:-3]}y" if items.endswith("ies") else items.removesuffix("s")


def counted(count: int, noun: str) -> str:
    """A number of items: 1 species, 2 reactions."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def totals(**counts: int) -> str:
    """Several counts by their noun: ``totals(species=3, reaction=1)``."""
    return ", ".join(counted(count, noun) for noun, count in counts.items())
