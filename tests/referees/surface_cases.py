"""Random catalysts as Cantera reads them: sticking, coverages, orders, detailed balance."""

from __future__ import annotations

from typing import Any

import numpy as np

_GAS = {"H2": {"H": 2}, "O2": {"O": 2}, "H2O": {"H": 2, "O": 1}, "OH": {"O": 1, "H": 1},
        "AR": {"Ar": 1}}  # fmt: skip
_SITES = {
    "PT(S)": {"Pt": 1}, "H(S)": {"H": 1, "Pt": 1}, "O(S)": {"O": 1, "Pt": 1},
    "OH(S)": {"O": 1, "H": 1, "Pt": 1}, "H2O(S)": {"O": 1, "H": 2, "Pt": 1},
}  # fmt: skip
_STICKS = (
    "H2 + 2 PT(S) => 2 H(S)", "O2 + 2 PT(S) => 2 O(S)", "H2O + PT(S) => H2O(S)",
    "OH + PT(S) => OH(S)",
)  # fmt: skip
_LEAVES = (
    "2 H(S) => H2 + 2 PT(S)", "2 O(S) => O2 + 2 PT(S)", "H2O(S) => H2O + PT(S)",
    "OH(S) => OH + PT(S)",
)  # fmt: skip
_REACTS = (
    "H(S) + O(S) {} OH(S) + PT(S)", "H(S) + OH(S) {} H2O(S) + PT(S)",
    "2 OH(S) {} H2O(S) + O(S)", "OH + H(S) {} H2O(S)",
)  # fmt: skip
DENSITY = 2.7e-9  # of sites [mol/cm2]


def catalyst(seed: int) -> dict[str, Any]:
    """The content of a file with a gas without reactions and a surface, in cm, mol and K."""
    rng = np.random.default_rng(seed)
    reactions: list[dict[str, Any]] = []
    for equation in _STICKS:
        power = float(rng.choice([0.0, 0.5, -0.3]))
        most = 10 ** rng.uniform(-3, -0.1) / (1500.0 if power > 0 else 300.0) ** power
        value = {"A": float(most), "b": power, "Ea": float(rng.uniform(0, 900.0))}
        one = {"equation": equation, "sticking-coefficient": value}
        if rng.random() < 0.3:
            one["Motz-Wise"] = bool(rng.random() < 0.7)
        reactions.append(one | _coverages(rng, 0.4))
    for equation in _LEAVES:
        own = {"equation": equation, "rate-constant": _rate(rng, equation, 9e3)}
        reactions.append(own | _coverages(rng, 0.5))
    for equation in _REACTS:
        arrow = str(rng.choice(["=>", "<=>"]))
        one = {"equation": equation.format(arrow), "rate-constant": _rate(rng, equation, 6e3)}
        if arrow == "=>":
            one |= _coverages(rng, 0.4)
            if rng.random() < 0.3 and "H(S)" in equation.split("{}")[0].split():
                one["orders"] = {"H(S)": float(rng.choice([0.5, 1.0]))}
        reactions.append(one)
    gas = {
        "name": "gas", "thermo": "ideal-gas", "species": list(_GAS), "elements": ["H", "O", "Ar"],
        "state": {"T": 300.0, "P": "1 atm"},
    }  # fmt: skip
    surface = {
        "name": "surf", "thermo": "ideal-surface", "adjacent-phases": ["gas"],
        "elements": ["H", "O", "Pt"], "species": list(_SITES), "kinetics": "surface",
        "reactions": "all", "site-density": DENSITY, "Motz-Wise": bool(rng.random() < 0.5),
        "state": {"T": 300.0, "coverages": {"PT(S)": 1.0}},
    }  # fmt: skip
    species = [_species(rng, name, atoms, 0.0) for name, atoms in _GAS.items()]
    species += [_species(rng, name, atoms, -1.5e4) for name, atoms in _SITES.items()]
    return {
        "units": {"length": "cm", "quantity": "mol", "activation-energy": "K"},
        "phases": [gas, surface], "species": species, "reactions": reactions,
    }  # fmt: skip


def _rate(rng: np.random.Generator, equation: str, hottest: float) -> dict[str, float]:
    """About 1e3 to 1e9 /s at 1,000 K, for full coverage."""
    left = equation.split("=>")[0].split("{}")[0]
    sites = sum(2 if f"2 {name}" in left else 1 for name in _SITES if name in left.split())
    energy, b = rng.uniform(0, hottest), float(rng.choice([0.0, 0.0, -0.5]))
    speed = 10 ** rng.uniform(3, 9) * DENSITY ** (1 - sites)
    if "OH +" in left and "OH(S)" not in left.split():  # a molecule that hits a site
        speed *= 1e5
    return {"A": float(speed * np.exp(energy / 1e3) / 1e3**b), "b": b, "Ea": float(energy)}


def _coverages(rng: np.random.Generator, chance: float) -> dict[str, Any]:
    """How a rate depends on coverages."""
    if rng.random() > chance:
        return {}
    name = str(rng.choice(list(_SITES)))
    given = {"a": float(rng.uniform(-0.5, 0.5)), "m": float(rng.choice([0.0, 1.0])),
             "E": float(rng.uniform(-2e3, 2e3))}  # fmt: skip
    return {"coverage-dependencies": {name: given}}


def _species(rng: np.random.Generator, name: str, atoms: dict[str, int], energy: float) -> Any:
    rows = [[float(rng.uniform(2.5, 5.0)), float(rng.uniform(0, 1e-3)), 0.0, 0.0, 0.0,
             float(energy + rng.uniform(-5e3, 5e3)), float(rng.uniform(0, 5))]]  # fmt: skip
    thermo = {"model": "NASA7", "temperature-ranges": [200.0, 3500.0], "data": rows}
    return {"name": name, "composition": atoms, "thermo": thermo}
