"""Variants of random descriptions: diluted, from zero, in other units, in another order."""

import copy

import numpy as np


def diluted(case):
    """Molecules in a thousand times as much argon, for a longer time."""
    case = copy.deepcopy(case)
    others = sum(v for k, v in case["initial"].items() if k != "Ar")
    case["initial"]["Ar"] = 1e3 * others
    return _later(case, 30.0)


def from_zero(case):
    """Most amounts begin at zero."""
    case = copy.deepcopy(case)
    kept = {"nuclei": ("c12",), "molecules": ("H2", "O2", "Ar")}.get(case["kind"], ("s0", "z"))
    case["initial"] = {k: v if k in kept else 0.0 for k, v in case["initial"].items()}
    if case["kind"] == "nuclei":
        case["initial"]["c12"] = 1.0
    return case


def reordered(case):
    """Species in another order, and reactions too where no one refers to another."""
    case = copy.deepcopy(case)
    case["species"].reverse()
    case["initial"] = dict(reversed(case["initial"].items()))
    if all(one["law"]["kind"] != "balance" for one in case["reactions"]):
        case["reactions"].reverse()
    return case


def in_another_unit(case, exponent):
    """Concentrations in a unit that is a power of two; the results scale exactly."""
    case, unit = copy.deepcopy(case), 2.0**exponent
    case["initial"] = {k: unit * v for k, v in case["initial"].items()}
    for one in case["reactions"]:
        law = one["law"]
        order = sum(one["left"].values())
        high, low = unit ** (1 - order), unit**-order
        if law["kind"] == "constant":
            law["k"] *= high
        elif law["kind"] == "arrhenius":
            law["law"][0] *= high
        elif law["kind"] == "three-body":
            law["law"][0] *= low
        elif law["kind"] == "falloff":
            law["high"][0] *= high
            law["low"][0] *= low
        elif law["kind"] == "plog":
            law["points"] = [(unit * p, [a * high, b, e]) for p, (a, b, e) in law["points"]]
        elif law["kind"] == "chebyshev":
            law["p"] = tuple(unit * p for p in law["p"])
            law["rows"][0][0] += float(np.log10(high))
    return case


def _later(case, factor):
    """All times since the first, longer."""

    def stretched(times):
        return [case["times"][0] + factor * (t - case["times"][0]) for t in times]

    found = dict(case)
    for name in ("temperature", "density", "sunlight"):
        if name in case and not np.isscalar(case[name]):
            found[name] = stretched(case[name][0]), case[name][1]
    found["times"] = stretched(case["times"])
    return found
