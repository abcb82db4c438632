"""Random mechanisms of gases as Cantera reads them, with what a file may say of units and partners.

A mechanism is plain data, written as JSON, which is YAML too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_ATOMS = {
    "H": {"H": 1}, "H2": {"H": 2}, "O": {"O": 1}, "O2": {"O": 2}, "OH": {"O": 1, "H": 1},
    "H2O": {"H": 2, "O": 1}, "HO2": {"H": 1, "O": 2}, "H2O2": {"H": 2, "O": 2},
    "AR": {"Ar": 1}, "N2": {"N": 2}, "CH2(S)": {"C": 1, "H": 2},
}  # fmt: skip
# What may have a collision partner, and what has none.
_ASSOCIATIONS = (
    "H + O2 {} HO2", "H + H {} H2", "H2O2 {} OH + OH", "O + O {} O2", "H + OH {} H2O",
    "O + H {} OH",
)  # fmt: skip
_EXCHANGES = (
    "O + H2 {} H + OH", "OH + H2 {} H + H2O", "2 OH {} O + H2O", "HO2 + H {} OH + OH",
    "HO2 + HO2 {} H2O2 + O2", "O + HO2 {} OH + O2", "H + H2O2 {} H2 + HO2", "O2 + H {} O + OH",
)  # fmt: skip
_COLLIDERS = ("AR", "H2O", "CH2(S)")
_QUANTITIES, _TIMES = ("mol", "kmol", "molec"), ("s", "min")
_LENGTHS = ("m", "cm", "mm")
_ACTIVATIONS = ("cal/mol", "kcal/mol", "J/mol", "kJ/mol", "J/kmol", "K", "eV")


def mechanism(seed: int) -> dict[str, Any]:
    """A mechanism with a reaction of every kind that this library reads.

    Parameters
    ----------
    seed : int

    Returns
    -------
    dict
        The content of a file.
    """
    return _Draw(np.random.default_rng(seed)).mechanism()


class _Draw:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def one_of(self, choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def maybe(self, chance: float = 0.5) -> bool:
        return bool(self.rng.random() < chance)

    def units(self) -> dict[str, str]:
        known = {
            "length": _LENGTHS, "quantity": _QUANTITIES, "time": _TIMES,
            "activation-energy": _ACTIVATIONS, "pressure": ("Pa", "atm", "bar"),
            "energy": ("J", "cal", "kJ"),
        }  # fmt: skip
        return {kind: self.one_of(words) for kind, words in known.items() if self.maybe()}

    def mechanism(self) -> dict[str, Any]:
        self.outer = [self.units()]
        reactions: list[dict[str, Any]] = []
        if self.maybe(0.3):
            self.outer.append(self.units())
            reactions.append({"units": self.outer[1]})
        for equation in self.rng.permutation(_ASSOCIATIONS):
            reactions += self.inside(self.association, str(equation))
        for equation in self.rng.permutation(_EXCHANGES):
            reactions += self.inside(self.exchange, str(equation))
        if self.maybe():
            self.here = self.outer
            text = self.one_of(["H2O => H2 + 0.5 O2", "H2 + 0.5 O2 <=> H2O"])
            reactions.append({"equation": text, "rate-constant": self.arrhenius()})
        if self.maybe():
            self.here = self.outer
            text = self.one_of(["2 H + 2 OH <=> 2 H2O", "H2O + 3 H + OH => 2 H2O + H2"])
            reactions.append({"equation": text, "rate-constant": self.arrhenius()})
        pressure = self.one_of([None, "1 bar", 2.0, "0.5 atm"])
        phase = {
            "name": "gas", "thermo": "ideal-gas", "kinetics": "gas", "species": list(_ATOMS),
            "elements": ["H", "O", "Ar", "C"], "skip-undeclared-elements": True,
            "skip-undeclared-third-bodies": True, "state": {"T": 300.0, "P": "1 atm"},
            "transport": "none",
        }  # fmt: skip
        return {
            "units": self.outer[0],
            "phases": [phase],
            "species": [self.species(name, pressure) for name in _ATOMS],
            "reactions": reactions,
        }

    def inside(self, draw: Any, equation: str) -> list[dict[str, Any]]:
        """Reactions that perhaps have units of their own."""
        own = {"units": self.units()} if self.maybe(0.4) else {}
        self.here = [*self.outer, own.get("units", {})]
        return [one | own for one in draw(equation)]

    def kelvin(self) -> float:
        """Kelvin for one unit of activation energy without a unit, where we are."""
        known: dict[str, str] = {}
        for units in self.here:
            known |= units
        usual = f"{known.get('energy', 'J')}/{known.get('quantity', 'kmol')}"
        word = known.get("activation-energy", usual)
        if word == "K":
            return 1.0
        energy, _, quantity = word.partition("/")
        joule = {"J": 1, "kJ": 1e3, "cal": 4.184, "kcal": 4184, "eV": 1.602176634e-19}[energy]
        return (
            joule
            / 8.314
            / {"mol": 1, "kmol": 1e3, "molec": 1 / 6.022e23, "": 1 / 6.022e23}[quantity]
        )

    def species(self, name: str, pressure: Any) -> dict[str, Any]:
        model = self.one_of(["NASA7", "NASA7", "NASA9", "Shomate"])
        thermo: dict[str, Any] = {"model": model}
        ranges = [[200.0, 1000.0, 3500.0], [200.0, 3500.0], [200.0, 1300.0, 3500.0]]
        if model == "NASA9":
            ranges += [[200.0, 700.0, 1300.0, 3000.0], [200.0, 400.0, 900.0, 1700.0, 2500.0, 6e3]]
        thermo["temperature-ranges"] = self.one_of(ranges)
        thermo["data"] = [self.polynomial(model) for _ in thermo["temperature-ranges"][1:]]
        if pressure is not None:
            thermo["reference-pressure"] = pressure
        return {"name": name, "composition": _ATOMS[name], "thermo": thermo, "note": "random"}

    def polynomial(self, model: str) -> list[float]:
        low = np.array([2.5, -1e-3, -1e-6, -1e-10, -1e-14, -3e4, 0.0])
        high = np.array([5.0, 1e-3, 1e-6, 1e-10, 1e-14, 3e4, 5.0])
        row = list(self.rng.uniform(low, high))
        if model == "NASA9":
            return [*self.rng.uniform([-1e5, -500.0], [1e5, 500.0]), *row]
        if model == "Shomate":  # of T / 1000 K
            powers = np.array([0, 1, 2, 3, 0, -1, 0])
            row = (8.314 * np.array(row) * 1e3**powers).tolist()
            row[4] = float(self.rng.uniform(-1.0, 1.0))
        return row

    def number(self, low: float, high: float) -> float:
        return float(10 ** self.rng.uniform(low, high))

    def arrhenius(self, sign: float = 1.0) -> Any:
        values = [sign * self.number(2, 12), self.rng.uniform(-2, 2)]
        word = self.one_of(["", "", "cal/mol", "K", "kJ/mol"])
        energy: Any = float(self.rng.uniform(-500, 9000) / self.kelvin())
        if word:
            energy = f"{self.rng.uniform(-500, 9000):.6g} {word}"
            if word == "kJ/mol":
                energy = f"{self.rng.uniform(-2, 40):.6g} kJ/mol"
        return {"A": values[0], "b": float(values[1]), "Ea": energy}

    def orders(self, equation: str) -> dict[str, Any]:
        """Orders of reaction: of reactants or others, fractions, none, or negative."""
        left = [name for name in equation.split("{}")[0].split() if name in _ATOMS]
        found = {left[0]: float(self.one_of([0.0, 0.5, 1.0, 1.7, 2.0, 3.0]))}
        more: dict[str, Any] = {"orders": found}
        if self.maybe():
            found["AR"], more["nonreactant-orders"] = float(self.rng.uniform(0, 2)), True
        if self.maybe():
            found[left[-1]], more["negative-orders"] = float(self.rng.uniform(-1, 0)), True
        return more

    def partners(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.maybe():
            names = [*self.rng.choice(list(_ATOMS), 3, replace=False), "HE"]
            found["efficiencies"] = {str(name): float(self.rng.uniform(0, 7)) for name in names}
        if self.maybe(0.3):
            found["default-efficiency"] = float(self.rng.uniform(0, 2))
        return found

    def chebyshev(self) -> dict[str, Any]:
        return {
            "temperature-range": [290.0, "3000 K"],
            "pressure-range": ["0.01 atm", self.one_of(["10 bar", "1e7 Pa"])],
            "data": self.rng.uniform(-1, 1, (3, 2)).tolist(),
        }

    def pressure_log(self) -> dict[str, Any]:
        rows = [{"P": f"{pressure} atm"} | self.arrhenius() for pressure in (0.01, 0.01, 1.0, 30.0)]
        return {"rate-constants": rows[self.rng.integers(2) :]}

    def troe(self) -> dict[str, Any]:
        troe = {"A": float(self.rng.uniform(0.1, 0.9)), "T3": self.number(1, 3)}
        troe["T1"] = self.number(2, 4)
        if self.maybe():
            troe["T2"] = self.one_of([0.0, self.number(2, 4)])
        return troe

    def mixture(self, equation: str, arrow: str) -> dict[str, Any]:
        """Of the kind linear-Burke: partners with efficiencies, some with rates of their own."""
        word = self.one_of(["efficiency", "eig0"])
        if self.maybe():
            equation = " (+M) {} ".join(equation.split(" {} ")) + " (+M)"
        names = self.rng.choice(list(_ATOMS), self.rng.integers(5), replace=False)
        colliders = []
        for name in ("M", *map(str, names), *["HE"] * self.maybe()):
            one: dict[str, Any] = {"name": name}
            if name != "M" or word == "eig0":
                one[word] = {
                    "A": self.number(-1, 1.5), "b": float(self.rng.uniform(-0.7, 0.7)),
                    "Ea": float(self.rng.uniform(-300, 300) / self.kelvin()),
                }  # fmt: skip
            elif self.maybe():
                one[word] = {"A": 1, "b": 0, "Ea": 0}
            if name == "M" or self.maybe():
                kind = self.one_of(["falloff", "pressure-dependent-Arrhenius", "Chebyshev"])
                one["type"] = kind
                if kind == "falloff":
                    limits = ("low-P-rate-constant", "high-P-rate-constant")
                    one |= {limit: self.arrhenius() for limit in limits} | {"Troe": self.troe()}
                else:
                    one |= self.chebyshev() if kind == "Chebyshev" else self.pressure_log()
            colliders.append(one)
        text = equation.format(arrow)
        return {"equation": text, "type": "linear-Burke", "colliders": colliders}

    def association(self, equation: str) -> list[dict[str, Any]]:
        arrow = self.one_of(["<=>", "=>", "="])
        left, right = equation.split("{}")
        kind = self.rng.integers(8)
        if kind == 7:
            return [self.mixture(equation, arrow)]
        if kind == 0:
            text = f"{left} + M {arrow} {right} + M".replace("  ", " ")
            found = {"equation": text, "rate-constant": self.arrhenius()} | self.partners()
            found |= {"type": "three-body"} if self.maybe() else {}
            if self.maybe(0.3):  # and one of its partners with a rate of its own
                body = self.one_of(_COLLIDERS)
                twin = {"equation": text.replace(" M", f" {body}"), "duplicate": True}
                return [found | {"duplicate": True}, twin | {"rate-constant": self.arrhenius()}]
            return [found]
        if kind == 1:
            body = self.one_of(_COLLIDERS)
            found = {
                "equation": f"{left} + {body} {arrow} {right} + {body}",
                "type": "three-body", "rate-constant": self.arrhenius(),
            }  # fmt: skip
            if self.maybe(0.7):
                found["efficiencies"] = {body: float(self.rng.uniform(0.1, 7))}
            return [found]
        if kind == 2:
            text = equation.format(arrow).replace(" {} ", arrow)
            sides = text.split(f" {arrow} ")
            return [
                {
                    "equation": f" (+M) {arrow} ".join(sides) + " (+M)",
                    "type": "Chebyshev", **self.chebyshev(),
                }
            ]  # fmt: skip
        body = self.one_of(["M", "M", *_COLLIDERS])
        sides = [f"{side.strip()} (+{body})" for side in (left, right)]
        found = {
            "equation": f" {arrow} ".join(sides), "type": "falloff",
            "low-P-rate-constant": self.arrhenius(), "high-P-rate-constant": self.arrhenius(),
        }  # fmt: skip
        if body == "M":
            found |= self.partners()
        elif self.maybe(0.7):
            found["efficiencies"] = {body: float(self.rng.uniform(0.1, 7))}
        if kind == 4:
            found["Troe"] = self.troe()
        elif kind == 5 or (kind == 6 and self.maybe()):
            found["SRI"] = {"A": float(self.rng.uniform(0.1, 1)), "B": 200.0, "C": 1000.0}
            if self.maybe():
                found["SRI"] |= {"D": 1.2, "E": float(self.rng.uniform(-0.1, 0.1))}
        if kind == 6:
            found["type"] = "chemically-activated"
        return [found]

    def exchange(self, equation: str) -> list[dict[str, Any]]:
        text = equation.format(self.one_of(["<=>", "=>", "="]))
        kind = self.rng.integers(6)
        if kind == 5:
            found = {"equation": equation.format("=>"), "rate-constant": self.arrhenius()}
            return [found | self.orders(equation)]
        if kind == 4:
            rate = self.arrhenius()
            intrinsic, bond = self.rng.uniform([0.0, 2e4], [1.5e4, 8e4]) / self.kelvin()
            rate = {"A": rate["A"], "b": rate["b"], "Ea0": float(intrinsic), "w": float(bond)}
            return [{"equation": text, "type": "Blowers-Masel", "rate-constant": rate}]
        if kind == 0:
            return [
                {"equation": text, "type": "pressure-dependent-Arrhenius"} | self.pressure_log()
            ]
        if kind == 1:
            common = {"equation": text, "duplicate": True}
            second = self.arrhenius(-1.0) | {"A": -1e-3}
            return [
                common | {"rate-constant": self.arrhenius()},
                common | {"rate-constant": second, "negative-A": True},
            ]
        if kind == 2:
            rate = self.arrhenius()
            return [{"equation": text, "rate-constant": [rate["A"], rate["b"], rate["Ea"]]}]
        found = {"equation": text, "rate-constant": self.arrhenius()}
        return [found | ({"type": "elementary", "id": "one"} if self.maybe() else {})]
