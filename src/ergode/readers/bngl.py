"""Rules of BioNetGen's language, and the network that they generate.

References
----------
L. A. Harris et al., BioNetGen 2.2: advances in rule-based modeling, Bioinformatics 32, 3366 (2016).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from ergode.core.arguments import did_you_mean
from ergode.core.errors import ReadError
from ergode.models.rules import generation
from ergode.models.rules.model import Counted, Observable
from ergode.models.rules.patterns import Graph, Molecule, Site, canonical, matches

_NAME = re.compile(r"[A-Za-z_]\w*")
_MOLECULE = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*(?:%(?P<label>\w+))?\s*(?P<open>\()?")
_SITE = re.compile(
    r"\s*(?P<name>[A-Za-z_]\w*)\s*(?P<marks>(?:[~!%]\s*(?:\w+|\?|\+)\s*)*)(?P<end>[,)])"
)
_MARK = re.compile(r"([~!%])\s*(\w+|\?|\+)")
_KEYWORD = re.compile(
    r"(?P<plain>DeleteMolecules|MoveConnected|TotalRate|MatchOnce)\b"
    r"|(?P<kind>include|exclude)_(?P<side>reactants|products)\s*\("
    r"|(?P<other>priority)\s*=>?\s*\S+"
)
_TAG = re.compile(r"%(\w+)")
_LABEL = re.compile(r"\s*(?P<label>[^\s:(]+)\s*:(?!:)\s*")
_ARROW = re.compile(r"<?->")
_NOTHING = ("Trash", "null")  # words for nothing, unless they are types of molecules
_BUILT_IN = re.compile(r"(?P<law>Sat|MM|Hill)\s*\((?P<constants>.*)\)")
_COMPARE = {
    "==": operator.eq, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_COUNT = re.compile(r"\s*(==|<=|>=|<|>)\s*(\d+)\s*")


class Text(NamedTuple):
    """A line of a block."""

    number: int
    text: str


class Written(NamedTuple):
    """What rules make, as the words of the lines of a ``.net`` file."""

    species: list[list[str]]
    reactions: list[list[str]]
    groups: list[list[str]]


class _SyntaxError(ValueError):
    """Something that cannot be read."""


# ---- patterns


def _pattern(text: str, at: int = 0) -> tuple[Graph, int]:
    """The pattern that begins at a place, and where it ends."""
    molecules = []
    while True:
        found = _MOLECULE.match(text, at)
        if found is None:
            raise _SyntaxError(f"expected a molecule at '{text[at : at + 20].strip()}'")
        at, sites = found.end(), []
        if found["open"] is None:
            at = found.end("label") if found["label"] else found.end("name")
        elif text[at:].lstrip().startswith(")"):
            at = text.index(")", at) + 1
        else:
            while True:
                site = _SITE.match(text, at)
                if site is None:
                    raise _SyntaxError(f"expected a site at '{text[at : at + 20].strip()}'")
                sites.append(_site(site))
                at = site.end()
                if site["end"] == ")":
                    break
        label = found["label"]
        after = _TAG.match(text, at)
        if after:
            label, at = after[1], after.end()
        if text[at : at + 1] in ("@", ":"):
            what = "compartments" if text[at] == "@" else "tags of patterns"
            raise _SyntaxError(f"{what} are not supported")
        molecules.append(Molecule(found["name"], tuple(sites), label))
        if text[at : at + 1] != ".":
            break
        at += 1
    try:
        return Graph.of(tuple(molecules)), at
    except ValueError as error:
        raise _SyntaxError(str(error)) from None


def _site(found: re.Match[str]) -> Site:
    state: str | None = None
    bonds = []
    for mark, value in _MARK.findall(found["marks"]):
        if mark == "~":
            state = None if value == "?" else value
        elif mark == "!":
            bonds.append(value)
    if len(bonds) > 1 and {"?", "+"} & set(bonds):
        raise _SyntaxError(f"the site '{found['name']}' has '!?' or '!+' beside other bonds")
    return Site(found["name"], state, tuple(bonds))


def _side(text: str) -> list[Graph]:
    """The patterns of the left side of a rule."""
    if text.strip() in ("", "0"):
        return []
    graphs, rest = _right_side(text)
    if rest:
        raise _SyntaxError(f"expected '+' at '{rest[:20]}'")
    return graphs


# ---- blocks

Sites = dict[str, list[tuple[str, tuple[str, ...]]]]
"""Sites of every type of molecule, with their states."""


class Parsed(NamedTuple):
    """The blocks of a model of rules."""

    types: Sites
    seeds: list[_Seed]
    rules: list[generation.Rule]
    observables: list[Observable]
    # Lines of all rules, seeds, and observables.
    lines: dict[str, list[int]]


def parsed(blocks: Mapping[str, Sequence[Text]], fail: Callable[[int, str], ReadError]) -> Parsed:
    """Read the blocks of a model.

    Raises what `fail` makes of the number of a line and a reason.
    """
    lines: dict[str, list[int]] = {}

    def each(block: str, read: Callable[[str], Any]) -> list[Any]:
        found = []
        for line in blocks.get(block, ()):
            try:
                found.append(read(line.text))
            except (_SyntaxError, generation.RuleError) as error:
                raise fail(line.number, str(error)) from None
        lines[block] = [line.number for line in blocks.get(block, ())]
        return found

    declared: Sites = dict(each("molecule types", _type))
    # Without declarations a molecule has the sites that it has in the seed species.
    types = declared or _learnt(each("species", lambda text: _seed(text, {})))
    seeds = each("species", lambda text: _seed(text, types))
    made = each("reaction rules", lambda text: _Statement(text).rules(types, declared))
    rules = [
        replace(rule, name=rule.name or f"_R{k}") for k, some in enumerate(made, 1) for rule in some
    ]
    numbers = zip(lines["reaction rules"], made, strict=True)
    lines["reaction rules"] = [number for number, some in numbers for _ in some]
    observables = each("observables", lambda text: _observable(text, declared))
    return Parsed(types, seeds, rules, observables, lines)


def generated(
    blocks: Mapping[str, Sequence[Text]],
    fail: Callable[[int, str], ReadError],
    most: int,
    iterations: int | None,
    largest: int | None,
) -> Written:
    """The network of the blocks of a model.

    Raises what `fail` makes of the number of a line and a reason.
    """
    _, seeds, rules, observables, lines = parsed(blocks, fail)
    generator = generation.Generator(rules, most, largest)
    try:
        found = generator.run([seed.graph for seed in seeds], iterations)
    except generation.TooManyError as error:
        raise fail(
            lines["reaction rules"][0],
            f"the rules make {error}; max_iterations and max_molecules say where they end, and "
            "ergode.read_rules with ergode.stochastic.simulate_rules needs no network",
        ) from None
    amounts: dict[str, list[str]] = {}
    fixed = set()
    for seed in seeds:
        name = canonical(seed.graph)
        amounts.setdefault(name, []).append(seed.amount)
        fixed |= {name} if seed.is_fixed else set()
    return Written(
        [
            [("$" if name in fixed else "") + name, " + ".join(amounts.get(name, ["0"]))]
            for name in found.names
        ],
        [_reaction_words(*one) for one in found.reactions],
        [[one.name, ",".join(_group(found, one))] for one in observables],
    )


def _reaction_words(
    left: Sequence[int], right: Sequence[int], factor: Fraction, rule: generation.Rule
) -> list[str]:
    sides = [",".join(str(number + 1) for number in side) or "0" for side in (left, right)]
    law, _, constants = rule.rate.partition(" ")
    if constants:  # a built-in law
        return [*sides, law if factor == 1 else f"{float(factor)!r}*{law}", *constants.split()]
    return [*sides, rule.rate if factor == 1 else f"{float(factor)!r}*({rule.rate})"]


def _type(text: str) -> tuple[str, list[tuple[str, tuple[str, ...]]]]:
    name, _, rest = text.partition("(")
    sites = []
    for word in filter(None, (one.strip() for one in rest.rstrip(") ").split(","))):
        site, *states = word.split("~")
        sites.append((site.strip(), tuple(one.strip() for one in states)))
    if not _NAME.fullmatch(name.strip()):
        raise _SyntaxError(f"'{text}' is no molecule type")
    return name.strip(), sites


def _learnt(seeds: Sequence[_Seed]) -> Sites:
    """Types of molecules, as they are in seed species."""
    types: Sites = {}
    for one in (molecule for seed in seeds for molecule in seed.graph.molecules):
        types.setdefault(one.name, [(site.name, ()) for site in one.sites])
    return types


def _complete(one: Molecule, types: Sites) -> Molecule:
    """A molecule with all its sites; one that is left out is free."""
    if one.name not in types:
        raise _SyntaxError(f"'{one.name}' is no molecule type")
    left = list(one.sites)
    extra = []
    for name, states in types[one.name]:
        given = next((site for site in left if site.name == name), None)
        if given is None:
            given = Site(name)
            extra.append(given)
        else:
            left.remove(given)
        if states and given.state not in states:
            raise _SyntaxError(
                f"the site '{name}' of '{one.name}' has the state {given.state!r}; expected one of "
                f"{', '.join(states)}"
            )
        if given.is_open:
            raise _SyntaxError(f"the site '{name}' of '{one.name}' has '!{given.bonds[0]}'")
    if left:
        raise _SyntaxError(f"the molecule type '{one.name}' has no site '{left[0].name}'")
    return replace(one, sites=(*one.sites, *extra))


class _Seed(NamedTuple):
    graph: Graph
    amount: str
    is_fixed: bool


def _seed(text: str, types: Sites) -> _Seed:
    text = text.strip()
    is_fixed = text.startswith("$")
    graph, at = _pattern(text.removeprefix("$"))
    amount = text.removeprefix("$")[at:].strip()
    if not amount:
        raise _SyntaxError("the species has no amount")
    if types:
        graph = Graph(tuple(_complete(one, types) for one in graph.molecules), graph.partners)
    if len(graph.parts()) > 1:
        raise _SyntaxError("the molecules of the species are not bound to each other")
    return _Seed(graph, amount, is_fixed)


def _checked(graph: Graph, types: Sites) -> Graph:
    """A pattern whose molecules, sites and states are declared, if any are."""
    for one in graph.molecules if types else ():
        if one.name not in types:
            raise _SyntaxError(f"'{one.name}' is no molecule type{did_you_mean(one.name, types)}")
        known: dict[str, set[str]] = {}
        for name, states in types[one.name]:
            known.setdefault(name, set()).update(states)
        for site in one.sites:
            if site.name not in known:
                hint = did_you_mean(site.name, known)
                raise _SyntaxError(
                    f"the molecule type '{one.name}' has no site '{site.name}'{hint}"
                )
            if site.state is not None and site.state not in known[site.name]:
                raise _SyntaxError(
                    f"the site '{site.name}' of '{one.name}' has the state '{site.state}'; "
                    f"expected {', '.join(sorted(known[site.name])) or 'none'}"
                )
    return graph


def _observable(text: str, types: Sites) -> Observable:
    kind, _, rest = text.strip().partition(" ")
    if kind not in ("Molecules", "Species"):
        kind, rest = "Molecules", text
    name, _, rest = rest.strip().partition(" ")
    patterns, at = [], 0
    while True:
        graph, at = _pattern(rest, at)
        count = _COUNT.match(rest, at)
        condition = f"{count[1]} {count[2]}" if count else ""
        patterns.append(Counted(_checked(graph, types), condition))
        at = count.end() if count else at
        left = rest[at:].lstrip()
        if not left:
            return Observable(name, kind == "Species", tuple(patterns))
        at = len(rest) - len(left.removeprefix(",").lstrip())


def _group(found: generation.Generated, observable: Observable) -> list[str]:
    terms = []
    for number, species in enumerate(found.species, 1):
        counts = [_count(graph, condition, species) for graph, condition in observable.patterns]
        total = sum(map(bool, counts) if observable.of_species else counts)
        if total:
            terms.append(f"{total}*{number}")
    return terms


def _count(pattern: Graph, condition: str, species: Graph) -> int:
    count = len(matches(pattern, species))
    if condition:
        operator, number = condition.split()
        return int(_COMPARE[operator](count, int(number)))
    return count


# ---- rules


class _Statement:
    """A line of the block of rules."""

    def __init__(self, text: str) -> None:
        label = _LABEL.match(text)
        self.label = label["label"] if label else None
        text = text[label.end() :] if label else text
        arrow = _ARROW.search(text)
        if arrow is None:
            raise _SyntaxError("the rule has no arrow")
        self.both_ways = arrow[0] == "<->"
        self.left = _side(text[: arrow.start()])
        self.right, rest = _right_side(text[arrow.end() :])
        self.rates = self._rates(rest)

    def _rates(self, text: str) -> list[str]:
        """The rates, without the keywords behind them, which are kept."""
        self.delete_molecules = False
        self.conditions: list[generation.Condition] = []
        found = _KEYWORD.search(text)
        rates = text[: found.start()] if found else text
        while found:
            if found["plain"] in ("TotalRate", "MatchOnce") or found["other"]:
                raise _SyntaxError(f"'{found[0]}' is not supported")
            at = found.end()
            if found["plain"] == "DeleteMolecules":
                self.delete_molecules = True
            elif found["kind"]:
                close = _closing(text, at)
                which, *patterns = (one.strip() for one in _split(text[at:close]))
                count = len(self.left if found["side"] == "reactants" else self.right)
                if not (which.isdecimal() and 0 < int(which) <= count):
                    raise _SyntaxError(f"'{which}' is none of the {count} {found['side']}")
                graphs = [_pattern(one)[0] for one in patterns]
                self.conditions.append(
                    generation.Condition(
                        found["kind"] == "include", found["side"] == "reactants", int(which) - 1,
                        tuple(graphs),
                    )
                )  # fmt: skip
                at = close + 1
            found = _KEYWORD.search(text, at)
        parts = [_rate(one.strip()) for one in _split(rates)]
        expected = 2 if self.both_ways else 1
        if len(parts) != expected or not all(parts):
            raise _SyntaxError(f"the rule has {len(parts)} rate(s); expected {expected}")
        return parts

    def rules(self, types: Sites, declared: Sites) -> list[generation.Rule]:
        """The rule, and the one backwards; their names are empty if the line has no label."""
        patterns = (one for condition in self.conditions for one in condition.patterns)
        for graph in (*self.left, *self.right, *patterns):
            if graph.molecules[0].name not in _NOTHING:
                _checked(graph, declared)
        left, right = (
            [one for one in side
             if one.molecules[0].name not in _NOTHING or one.molecules[0].name in types]
            for side in (self.left, self.right)
        )  # fmt: skip
        made = []
        for back, rate in enumerate(self.rates):
            rule = generation.rule_of(
                f"{self.label}{'r' * back}" if self.label else "",
                *((right, left) if back else (left, right)), rate,
                delete_molecules=self.delete_molecules,
                conditions=tuple(
                    replace(one, of_reactants=one.of_reactants != bool(back))
                    for one in self.conditions
                ),
            )  # fmt: skip
            created = tuple(_complete(one, types) if types else one for one in rule.created)
            made.append(replace(rule, created=created))
        return made


def _right_side(text: str) -> tuple[list[Graph], str]:
    """The products, and what follows them."""
    zero = re.match(r"\s*0\s+", text)
    if zero:
        return [], text[zero.end() :]
    graphs, at = [], 0
    while True:
        graph, at = _pattern(text, at)
        graphs.append(graph)
        rest = text[at:].lstrip()
        if not rest.startswith("+"):
            return graphs, rest
        at = text.index("+", at) + 1


def _rate(text: str) -> str:
    """A rate as in a ``.net`` file: spaces only between a built-in law and its constants."""
    law = _BUILT_IN.fullmatch(text)
    if law:
        return " ".join([law["law"], *("".join(one.split()) for one in _split(law["constants"]))])
    if re.search(r"\b(Arrhenius|FunctionProduct)\s*\(", text):
        raise _SyntaxError(f"the rate '{text}' is not supported")
    return "".join(text.split())


def _closing(text: str, at: int) -> int:
    depth = 1
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    raise _SyntaxError("a bracket does not close")


def _split(text: str) -> list[str]:
    """Parts between commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]
