"""Rules of BioNetGen's language, and the network that they generate.

References
----------
L. A. Harris et al., BioNetGen 2.2: advances in rule-based modeling, Bioinformatics 32, 3366 (2016).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from ergode.core.arguments import did_you_mean
from ergode.core.errors import ReadError
from ergode.models.rules import generation
from ergode.models.rules.compartments import Compartment, Compartments
from ergode.models.rules.observables import Counted, Observable
from ergode.models.rules.patterns import (
    PLACE,
    Graph,
    Molecule,
    RuleError,
    Site,
    automorphisms,
    canonical,
)
from ergode.readers.bngl_rates import Energy, LocalFunctions, closing, rate_of, split

_NAME = re.compile(r"[A-Za-z_]\w*")
_MOLECULE = re.compile(
    r"\s*(?P<name>[A-Za-z_]\w*)\s*(?:%(?P<label>\w+))?\s*"
    r"(?:@(?P<place>\w+))?\s*(?P<open>\()?"
)
_SITE = re.compile(
    r"\s*(?P<name>[A-Za-z_]\w*)\s*(?P<marks>(?:[~!%]\s*(?:\w+|\?|\+)\s*)*)(?P<end>[,)])"
)
_MARK = re.compile(r"([~!%])\s*(\w+|\?|\+)")
_KEYWORD = re.compile(
    r"(?P<plain>DeleteMolecules|MoveConnected|TotalRate|MatchOnce)\b"
    r"|(?P<kind>include|exclude)_(?P<side>reactants|products)\s*\("
    r"|(?P<other>priority)\s*=>?\s*\S+"
)
_SPECIES = re.compile(r"\s*(?=[%@])(?:%(?P<label>\w+))?(?:@(?P<place>\w+))?\s*::?")
_IN = re.compile(r"@(\w+)")
_TAG = re.compile(r"%(\w+)")
_LABEL = re.compile(r"\s*(?P<label>[^\s:(%@]+)\s*:(?!:)\s*")
_ARROW = re.compile(r"<?->")
_STEPS = {"PLUS": 1, "MINUS": -1}  # states of products: the next number, or the one before
_NOTHING = ("Trash", "null")  # words for nothing, unless they are types of molecules
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


# ---- patterns


def _pattern(text: str, at: int = 0) -> tuple[Graph, int]:
    """The pattern that begins at a place, and where it ends."""
    molecules = []
    whole = _SPECIES.match(text, at)
    at = whole.end() if whole else at
    while True:
        found = _MOLECULE.match(text, at)
        if found is None:
            raise RuleError(f"expected a molecule at '{text[at : at + 20].strip()}'")
        at, sites = found.end(), []
        if found["open"] is None:
            at = max(found.end("name"), found.end("label"), found.end("place"))
        elif text[at:].lstrip().startswith(")"):
            at = text.index(")", at) + 1
        else:
            while True:
                site = _SITE.match(text, at)
                if site is None:
                    raise RuleError(f"expected a site at '{text[at : at + 20].strip()}'")
                sites.append(_site(site))
                at = site.end()
                if site["end"] == ")":
                    break
        label, place = found["label"], found["place"]
        after = _TAG.match(text, at)
        if after:
            label, at = after[1], after.end()
        within = _IN.match(text, at)
        if within:
            place, at = within[1], within.end()
        if place:
            sites.append(Site(PLACE, place))
        molecules.append(Molecule(found["name"], tuple(sites), label))
        if text[at : at + 1] != ".":
            break
        at += 1
    try:
        return Graph.of(tuple(molecules), *((whole["label"], whole["place"]) if whole else ())), at
    except ValueError as error:
        raise RuleError(str(error)) from None


def _site(found: re.Match[str]) -> Site:
    state: str | None = None
    bonds = []
    for mark, value in _MARK.findall(found["marks"]):
        if mark == "~":
            state = None if value == "?" else value
        elif mark == "!":
            bonds.append(value)
    if len(bonds) > 1 and {"?", "+"} & set(bonds):
        raise RuleError(f"the site '{found['name']}' has '!?' or '!+' beside other bonds")
    return Site(found["name"], state, tuple(bonds))


def _side(text: str) -> list[Graph]:
    """The patterns of the left side of a rule."""
    if text.strip() in ("", "0"):
        return []
    graphs, rest = _right_side(text)
    if rest:
        raise RuleError(f"expected '+' at '{rest[:20]}'")
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
    compartments: Compartments | None


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
            except RuleError as error:
                raise fail(line.number, str(error)) from None
        lines[block] = [line.number for line in blocks.get(block, ())]
        return found

    found = each("compartments", _compartment)
    places = Compartments(dict(found))
    for line, (name, one) in zip(lines["compartments"], found, strict=True):
        if one.outside is not None and one.outside not in places.named:
            raise fail(line, f"'{name}' is in '{one.outside}', which is no compartment")
    declared: Sites = dict(each("molecule types", _type))
    if places.named:
        declared = {name: [*sites, (PLACE, tuple(places.named))]
                    for name, sites in declared.items()}  # fmt: skip
    # Without declarations a molecule has the sites that it has in the seed species.
    types = declared or _learnt(each("species", lambda text: _seed(text, {}, places)))
    seeds = each("species", lambda text: _seed(text, types, places))
    observables = each("observables", lambda text: _observable(text, declared, places))
    energies = each("energy patterns", lambda text: _energy(text, declared, places))
    functions = [line.text for line in blocks.get("functions", ())]
    known = LocalFunctions(functions, observables, energies)
    seen = [one.graph for one in seeds] + [p for o in observables for p, _ in o.patterns]
    made = each(
        "reaction rules", lambda text: _Statement(text, known, places).rules(types, declared, seen)
    )
    rules = [
        replace(rule, name=rule.name or f"_R{k}") for k, some in enumerate(made, 1) for rule in some
    ]
    numbers = zip(lines["reaction rules"], made, strict=True)
    lines["reaction rules"] = [number for number, some in numbers for _ in some]
    return Parsed(types, seeds, rules, observables, lines, places if places.named else None)


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
    _, seeds, rules, observables, lines, places = parsed(blocks, fail)
    generator = generation.Generator(rules, most, largest, places)
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
    left: Sequence[int], right: Sequence[int], factor: Fraction, rate: str
) -> list[str]:
    sides = [",".join(str(number + 1) for number in side) or "0" for side in (left, right)]
    law, _, constants = rate.partition(" ")
    if constants:  # a built-in law
        return [*sides, law if factor == 1 else f"{float(factor)!r}*{law}", *constants.split()]
    return [*sides, rate if factor == 1 else f"{float(factor)!r}*({rate})"]


def _type(text: str) -> tuple[str, list[tuple[str, tuple[str, ...]]]]:
    name, _, rest = text.partition("(")
    sites = []
    for word in filter(None, (one.strip() for one in rest.rstrip(") ").split(","))):
        site, *states = word.split("~")
        sites.append((site.strip(), tuple(one.strip() for one in states)))
    if not _NAME.fullmatch(name.strip()):
        raise RuleError(f"'{text}' is no molecule type")
    return name.strip(), sites


def _compartment(text: str) -> tuple[str, Compartment]:
    name, dimensions, *words = [*text.split(), "", ""][: len(text.split()) or 2]
    outside = words.pop() if len(words) > 1 else None
    if not _NAME.fullmatch(name) or dimensions not in ("2", "3") or not words:
        raise RuleError(f"'{text}' is no compartment; expected a name, 2 or 3, and a size")
    return name, Compartment(dimensions == "2", "".join(words), outside)


def _learnt(seeds: Sequence[_Seed]) -> Sites:
    """Types of molecules, as they are in seed species."""
    types: Sites = {}
    for one in (molecule for seed in seeds for molecule in seed.graph.molecules):
        types.setdefault(one.name, [(site.name, ()) for site in one.sites])
    return types


def _complete(one: Molecule, types: Sites, inherits: bool = False) -> Molecule:
    """A molecule with all its sites; one that is left out is free.

    With `inherits` it may be in the compartment of what makes it.
    """
    if one.name not in types:
        raise RuleError(f"'{one.name}' is no molecule type")
    left = list(one.sites)
    extra = []
    for name, states in types[one.name]:
        given = next((site for site in left if site.name == name), None)
        if given is None:
            given = Site(name)
            extra.append(given)
        else:
            left.remove(given)
        if name == PLACE and given.state is None and not inherits:
            raise RuleError(f"the compartment of '{one.name}' is not said")
        if states and given.state not in states and not (name == PLACE and inherits):
            raise RuleError(
                f"the site '{name}' of '{one.name}' has the state {given.state!r}; expected one of "
                f"{', '.join(states)}"
            )
        if given.is_open:
            raise RuleError(f"the site '{name}' of '{one.name}' has '!{given.bonds[0]}'")
    if left:
        raise RuleError(f"the molecule type '{one.name}' has no site '{left[0].name}'")
    return replace(one, sites=(*one.sites, *extra))


class _Seed(NamedTuple):
    graph: Graph
    amount: str
    is_fixed: bool


def _seed(text: str, types: Sites, places: Compartments) -> _Seed:
    text = text.strip()
    marked = re.match(r"(@\w+::?)?\$", text)
    text = text.replace("$", "", 1) if marked else text
    is_fixed = marked is not None
    graph, at = _pattern(text)
    graph = places.filled(graph)
    amount = text[at:].strip()
    if not amount:
        raise RuleError("the species has no amount")
    if types:
        graph = Graph(tuple(_complete(one, types) for one in graph.molecules), graph.partners)
    if len(graph.parts()) > 1:
        raise RuleError("the molecules of the species are not bound to each other")
    if places.named and places.of(graph) is None:
        raise RuleError("the molecules of the species are in compartments that do not touch")
    return _Seed(graph, amount, is_fixed)


def _checked(graph: Graph, types: Sites, steps: tuple[str, ...] = ()) -> Graph:
    """A pattern whose molecules, sites and states are declared, if any are."""
    for one in graph.molecules if types else ():
        if one.name not in types:
            raise RuleError(f"'{one.name}' is no molecule type{did_you_mean(one.name, types)}")
        known: dict[str, set[str]] = {}
        for name, states in types[one.name]:
            known.setdefault(name, set()).update(states)
        for site in one.sites:
            if site.name not in known:
                hint = did_you_mean(site.name, known)
                raise RuleError(f"the molecule type '{one.name}' has no site '{site.name}'{hint}")
            if site.state is not None and site.state not in {*known[site.name], *steps}:
                raise RuleError(
                    f"the site '{site.name}' of '{one.name}' has the state '{site.state}'; "
                    f"expected {', '.join(sorted(known[site.name])) or 'none'}"
                )
    return graph


def _observable(text: str, types: Sites, places: Compartments) -> Observable:
    kind, _, rest = text.strip().partition(" ")
    if kind not in ("Molecules", "Species"):
        kind, rest = "Molecules", text
    name, _, rest = rest.strip().partition(" ")
    patterns, at = [], 0
    while True:
        graph, at = _pattern(rest, at)
        count = _COUNT.match(rest, at)
        condition = f"{count[1]} {count[2]}" if count else ""
        patterns.append(Counted(_checked(places.known(graph), types), condition))
        at = count.end() if count else at
        left = rest[at:].lstrip()
        if not left:
            return Observable(name, kind == "Species", tuple(patterns))
        at = len(rest) - len(left.removeprefix(",").lstrip())


def _energy(text: str, types: Sites, places: Compartments) -> Energy:
    label = _LABEL.match(text)
    text = text[label.end() :] if label else text
    graph, at = _pattern(text)
    if not text[at:].strip():
        raise RuleError(f"the energy pattern '{text}' has no energy")
    graph = _checked(places.known(graph), types)
    once = automorphisms(graph)
    return Energy(
        Observable("", False, (Counted(graph),)), f"({''.join(text[at:].split())})/{once}"
    )


def _group(found: generation.Generated, observable: Observable) -> list[str]:
    totals = [(observable.number(species), k) for k, species in enumerate(found.species, 1)]
    return [f"{total}*{k}" for total, k in totals if total]


# ---- rules


class _Statement:
    """A line of the block of rules."""

    def __init__(self, text: str, known: LocalFunctions, places: Compartments) -> None:
        self.known, self.places = known, places
        label = _LABEL.match(text)
        self.label = label["label"] if label else None
        text = text[label.end() :] if label else text
        arrow = _ARROW.search(text)
        if arrow is None:
            raise RuleError("the rule has no arrow")
        self.both_ways = arrow[0] == "<->"
        self.left = [places.known(one) for one in _side(text[: arrow.start()])]
        right, rest = _right_side(text[arrow.end() :])
        self.right = [places.known(one) for one in right]
        self.rates = self._rates(rest)

    def _rates(self, text: str) -> list[str]:
        """The rates, without the keywords behind them, which are kept."""
        self.delete_molecules = self.moves_connected = False
        self.conditions: list[generation.Condition] = []
        found = _KEYWORD.search(text)
        rates = text[: found.start()] if found else text
        while found:
            if found["plain"] in ("TotalRate", "MatchOnce") or found["other"]:
                raise RuleError(f"'{found[0]}' is not supported")
            at = found.end()
            if found["plain"] == "DeleteMolecules":
                self.delete_molecules = True
            elif found["plain"] == "MoveConnected":
                self.moves_connected = True
            elif found["kind"]:
                close = closing(text, at)
                which, *patterns = (one.strip() for one in split(text[at:close]))
                count = len(self.left if found["side"] == "reactants" else self.right)
                if not (which.isdecimal() and 0 < int(which) <= count):
                    raise RuleError(f"'{which}' is none of the {count} {found['side']}")
                graphs = [self.places.known(_pattern(one)[0]) for one in patterns]
                self.conditions.append(
                    generation.Condition(
                        found["kind"] == "include", found["side"] == "reactants", int(which) - 1,
                        tuple(graphs),
                    )
                )  # fmt: skip
                at = close + 1
            found = _KEYWORD.search(text, at)
        given = [one.strip() for one in split(rates)]
        if self.both_ways and len(given) == 1 and given[0].startswith("Arrhenius"):
            given *= 2
        parts = [rate_of(one, self.known, k == 1) for k, one in enumerate(given)]
        expected = 2 if self.both_ways else 1
        if len(parts) != expected or not all(parts):
            raise RuleError(f"the rule has {len(parts)} rate(s); expected {expected}")
        return parts

    def rules(self, types: Sites, declared: Sites, seen: Sequence[Graph]) -> list[generation.Rule]:
        """The rule, and the one backwards; their names are empty if the line has no label."""
        patterns = (one for condition in self.conditions for one in condition.patterns)
        for graph in (*self.left, *self.right, *patterns):
            if graph.molecules[0].name not in _NOTHING:
                _checked(graph, declared, tuple(_STEPS) if graph in self.right else ())
        left, right = (
            [one for one in side
             if one.molecules[0].name not in _NOTHING or one.molecules[0].name in types]
            for side in (self.left, self.right)
        )  # fmt: skip
        made = []
        for back, rate in enumerate(self.rates):
            sides = (right, left) if back else (left, right)
            text, local = self.known.rate(rate, sides[0])
            rule = generation.rule_of(
                f"{self.label}{'r' * back}" if self.label else "", *sides, text,
                delete_molecules=self.delete_molecules,
                conditions=tuple(
                    replace(one, of_reactants=one.of_reactants != bool(back))
                    for one in self.conditions
                ),
            )  # fmt: skip
            created = tuple(
                _complete(one, types, bool(left)) if types else one for one in rule.created
            )
            if self.places.named:
                self._check_places(rule)
            rule = replace(
                rule, created=created, locals=local, moves_connected=self.moves_connected
            )
            made += _stepwise(rule, declared, seen)
        return made

    def _check_places(self, rule: generation.Rule) -> None:
        """Refuse rates and moves that compartments do not allow."""
        if " " in rule.rate:
            raise RuleError(f"the rate '{rule.rate}' is not supported in compartments")
        for _, old, new in rule.moves:
            self.places.moved(old, new)


def _stepwise(rule: generation.Rule, types: Sites, seen: Sequence[Graph]) -> list[generation.Rule]:
    """A rule for each number that it counts up or down; the rule itself if it does not."""
    if any(site.state in _STEPS for graph in rule.reactants for one in graph.molecules
           for site in one.sites):  # fmt: skip
        raise RuleError("a state counts in a rule that goes both ways")
    counted = next(((place, _STEPS[new]) for place, new in rule.states if new in _STEPS), None)
    if counted is None:
        return [rule]
    (m, s), step = counted
    i = 0
    while m >= len(rule.reactants[i].molecules):
        m -= len(rule.reactants[i].molecules)
        i += 1
    graph = rule.reactants[i]
    one = graph.molecules[m]
    site = one.sites[s]
    declared = [state for name, states in types.get(one.name, ()) if name == site.name
                for state in states]  # fmt: skip
    known = declared or [
        there.state for other in seen for molecule in other.molecules
        if molecule.name == one.name for there in molecule.sites
        if there.name == site.name and there.state is not None
    ]  # fmt: skip
    numbers = {int(state) for state in known if state.isdecimal()}
    made = []
    for number in sorted(numbers):
        if number + step in numbers and site.state in (None, str(number)):
            sites = (*one.sites[:s], site._replace(state=str(number)), *one.sites[s + 1 :])
            molecules = (*graph.molecules[:m], replace(one, sites=sites), *graph.molecules[m + 1 :])
            reactants = list(rule.reactants)
            reactants[i] = replace(graph, molecules=molecules)
            states = tuple(
                (place, str(number + step) if place == counted[0] else new)
                for place, new in rule.states
            )
            counts = replace(rule, reactants=tuple(reactants), states=states)
            made += _stepwise(counts, types, seen)
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
