"""Rates of rules: functions of what a rule takes, and of energies.

A *tag* in a rule names a molecule (``A%x()``) or a species (``%x:A()``). Functions and observables
of the tag are numbers there (*local functions*). With energy patterns, a rate may depend on the
free energy that the rule adds (``Arrhenius``).

References
----------
M. W. Sneddon, J. R. Faeder, T. Emonet, Efficient modeling, simulation and coarse-graining of
biological complexity with NFsim, Nat. Methods 8 (2011). J. S. Hogg, Advances in rule-based
modeling: compartments, energy, and hybrid simulation, PhD thesis, University of Pittsburgh (2013).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ergode.models.rules.generation import Local
from ergode.models.rules.observables import Observable
from ergode.models.rules.patterns import Graph, RuleError

_BUILT_IN = re.compile(r"(?P<law>Sat|MM|Hill)\s*\((?P<constants>.*)\)")
_WITH_ENERGY = re.compile(r"(?P<law>Arrhenius|FunctionProduct)\s*\((?P<arguments>.*)\)")
_ARGUMENTS = r"\s*\(\s*([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s*\)"
_CALL = re.compile(rf"\b([A-Za-z_]\w*){_ARGUMENTS}")
FUNCTION = re.compile(rf"(\w+){_ARGUMENTS}\s*=?\s*(.+)")
"""A function of tags: its name, arguments and formula."""


class Energy(NamedTuple):
    """What a pattern adds to the energy of a species, each time that it is there."""

    observable: Observable
    text: str


class LocalFunctions:
    """Functions with arguments, observables, and energies."""

    def __init__(
        self, functions: Sequence[str], observables: Sequence[Observable],
        energies: Sequence[Energy],
    ) -> None:  # fmt: skip
        self.functions: dict[str, tuple[list[str], str]] = {}
        for text in functions:
            found = FUNCTION.fullmatch(text)
            if found:
                self.functions[found[1]] = [a.strip() for a in found[2].split(",")], found[3]
        self.observables = {one.name: one for one in observables}
        self.energies = energies

    def rate(self, text: str, reactants: Sequence[Graph]) -> tuple[str, tuple[Local, ...]]:
        """The rate of a rule, and the names in it that are numbers of what the rule takes.

        Raises a RuleError if it has what is not there.
        """
        tags: dict[str, tuple[int, int]] = {}
        for i, graph in enumerate(reactants):
            found = [(graph.label, -1), *((one.label, m) for m, one in enumerate(graph.molecules))]
            tags |= {label: (i, m) for label, m in found if label is not None}
        made: dict[str, Local] = {}
        text = self._expanded(text, {tag: tag for tag in tags}, tags, made, ())
        for k, one in enumerate(self.energies):
            name = _energy_name(k)
            if re.search(rf"\b{name}\b", text):
                made[name] = Local(name, one.observable, -1, -1)
        return text, tuple(made.values())

    def _expanded(
        self, text: str, bound: Mapping[str, str], tags: Mapping[str, tuple[int, int]],
        made: dict[str, Local], above: tuple[str, ...],
    ) -> str:  # fmt: skip
        """A formula without calls of functions; `bound` are the tags that arguments stand for."""

        def put(call: re.Match[str]) -> str:
            name, arguments = call[1], [one.strip() for one in call[2].split(",")]
            if name in self.functions:
                parameters, body = self.functions[name]
                if name in above:
                    raise RuleError(f"the function '{name}' calls itself")
                if len(arguments) != len(parameters):
                    raise RuleError(
                        f"'{call[0]}' has {len(arguments)} argument(s); expected {len(parameters)}"
                    )
                inner = {p: self._tag(a, bound, call[0])
                         for p, a in zip(parameters, arguments, strict=True)}  # fmt: skip
                return f"({self._expanded(body, inner, tags, made, (*above, name))})"
            if name not in self.observables:
                return call[0]
            terms = []
            for one in arguments:
                tag = self._tag(one, bound, call[0])
                local = f"_{name}_of_{tag}"
                made[local] = Local(local, self.observables[name], *tags[tag])
                terms.append(local)
            return f"({'+'.join(terms)})"

        return _CALL.sub(put, text)

    def _tag(self, name: str, bound: Mapping[str, str], call: str) -> str:
        if name not in bound:
            raise RuleError(f"'{name}' in '{call}' is no tag of what the rule takes")
        return bound[name]

    def arrhenius(self, arguments: str, backwards: bool) -> str:
        """The rate of a rule that changes the energy, in one direction."""
        parts = split(arguments)
        if len(parts) != 2:
            raise RuleError("'Arrhenius' has two arguments: a share, and an activation energy")
        share, barrier = parts
        change = "+".join(f"{_energy_name(k)}*({one.text})" for k, one in enumerate(self.energies))
        share = f"(1-({share}))" if backwards else f"({share})"
        return f"exp(-(({barrier})+{share}*({change or '0'})))"


def _energy_name(k: int) -> str:
    return f"_energy_{k + 1}_"


def rate_of(text: str, known: LocalFunctions, backwards: bool = False) -> str:
    """A rate as in a ``.net`` file: spaces only between a built-in law and its constants."""
    law = _BUILT_IN.fullmatch(text)
    if law:
        return " ".join([law["law"], *("".join(one.split()) for one in split(law["constants"]))])
    law = _WITH_ENERGY.fullmatch(text)
    if law and law["law"] == "Arrhenius":
        text = known.arrhenius(law["arguments"], backwards)
    elif law:
        text = "*".join(f"({one.strip().strip(chr(34))})" for one in split(law["arguments"]))
    elif "Arrhenius" in text or "FunctionProduct" in text:
        raise RuleError(f"the rate '{text}' is not supported")
    return "".join(text.split())


def closing(text: str, at: int) -> int:
    """Where the bracket closes that opened before a place."""
    depth = 1
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    raise RuleError("a bracket does not close")


def split(text: str) -> list[str]:
    """Parts between commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]
