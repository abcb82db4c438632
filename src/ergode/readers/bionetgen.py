"""Reaction networks that BioNetGen generated from rules: ``.net`` files.

References
----------
L. A. Harris et al., BioNetGen 2.2: advances in rule-based modeling, Bioinformatics 32, 3366 (2016).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ergode.core.arguments import did_you_mean, integer
from ergode.core.errors import ModelError, ReadError
from ergode.models.expressions import Expression, number_or_expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Reaction
from ergode.models.reactions.species import Species
from ergode.models.rules.model import RuleModel, Seed
from ergode.readers.bngl import Text, generated, parsed
from ergode.readers.bngl_rates import FUNCTION
from ergode.readers.bounded import file_of, located, text_of

_BLOCKS = ("parameters", "species", "reactions", "groups", "functions")
# Blocks with rules. Where there are reactions, these already contain the effect of the rules.
_RULES = (
    "molecule types", "observables", "reaction rules", "energy patterns", "compartments",
)  # fmt: skip
_UNKNOWN = ("population maps", "population types")
_OTHER_NAMES = {"seed species": "species"}
_IGNORED = ("protocol", "actions")
# What a model asks BioNetGen to do: it is the caller's business here.
_ACTION = re.compile(r"[A-Za-z_]\w*\s*\(.*\)\s*;?$")
_SETTINGS = re.compile(r"(setOption|version|setModelName)\s*\(|substanceUnits\(\"Number\"\)")
_BUILT_IN = re.compile(r"(?:(?P<factor>.+)\*)?(?P<law>Sat|MM|Hill)")
_OTHER_LAWS = ("Arrhenius", "FunctionProduct")
_OPERATORS = (
    (re.compile(r"&&"), " and "), (re.compile(r"\|\|"), " or "), (re.compile(r"[~!]="), " <> "),
    (re.compile("!"), " not "), (re.compile("<>"), "!="), (re.compile(r"\btime\s*\(\s*\)"), "time"),
    (re.compile(r"\b_pi\b"), "pi"), (re.compile(r"\b_e\b"), "exp(1)"),
)  # fmt: skip
_LONGEST = 100_000  # longest formula after inlining of calls [characters]
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_CALLS: dict[str, Callable[[list[str]], str]] = {
    "if": lambda a: f"piecewise({a[1]}, {a[0]}, {a[2]})",
    "log2": lambda a: f"(ln({a[0]}) / ln(2))",
    "rint": lambda a: f"floor({a[0]} + 0.5)",
    "sum": lambda a: f"({' + '.join(a)})",
    "avg": lambda a: f"(({' + '.join(a)}) / {len(a)})",
    "asinh": lambda a: f"ln({a[0]} + sqrt({a[0]}^2 + 1))",
    "acosh": lambda a: f"ln({a[0]} + sqrt({a[0]}^2 - 1))",
    "atanh": lambda a: f"(ln((1 + {a[0]}) / (1 - {a[0]})) / 2)",
}


Limits = tuple[int, int | None, int | None]
"""Largest number of species, of iterations, and of molecules of a species."""


class _Line(NamedTuple):
    number: int
    words: list[str]


def read_bionetgen(
    path: str | os.PathLike[str], *, max_species: int = 10_000, max_iterations: int | None = None,
    max_molecules: int | None = None,
) -> ReactionNetwork:  # fmt: skip
    """Read a reaction network of BioNetGen: rules (``.bngl``), or the network of rules (``.net``).

    Rules are applied to the seed species until they make nothing new. Species are called S1, S2,
    ... as in BioNetGen's own export, with their pattern as `label`; groups (observables) and
    functions become rules. Actions are not run. A rate constant k, including the factor 1/2 for
    two equal molecules, gives the propensity k n (n - 1), as in BioNetGen's own simulator. With a
    substrate S and an optional enzyme E, the built-in rate laws are

    - ``Sat kcat K``: kcat S E / (K + S), with one K per substrate if there are several;
    - ``MM kcat K``: kcat E F / (K + F), where F, the free substrate, is
      (S - E - K + sqrt((S - E - K)^2 + 4 K S)) / 2;
    - ``Hill vmax K h``: vmax S^h E / (K^h + S^h).

    Functions and observables of a tag (``f(x)``) are numbers of the species ``%x:A()`` or of the
    molecule ``A%x()`` that the rule takes; of a molecule, matches count whose first molecule it is.
    ``Arrhenius(phi, E)`` is exp(-E - phi G), and backwards exp(-E + (1 - phi) G), where the rule
    adds the energy G. In compartments, a rate constant of two molecules is divided by the size of
    the volume or surface where they meet, and a rate of nothing is multiplied by the size.

    Parameters
    ----------
    path : path
    max_species : int
        Largest number of species that rules may make.
    max_iterations : int, optional
        How often all rules are applied, as ``max_iter`` of BioNetGen. Rules that could make more
        are cut off there.
    max_molecules : int, optional
        Largest number of molecules in a species, as ``max_agg`` of BioNetGen: reactions that would
        make a larger one are left out. For polymers: without this and `max_iterations`, rules that
        make species of more than 30 molecules are refused.

    Returns
    -------
    ReactionNetwork

    Raises
    ------
    ReadError
        The file does not exist, cannot be parsed, or has something that is not supported:
        population maps, ``TotalRate``, ``MatchOnce``. Rules make more than `max_species`, or
        polymers without a bound. The message names the line.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "pairs.net")
    >>> _ = path.write_text(\"\"\"
    ... begin parameters
    ...     1 k 0.01  # Constant
    ... end parameters
    ... begin species
    ...     1 A(b) 100
    ...     2 A(b!1).A(b!1) 0
    ... end species
    ... begin reactions
    ...     1 1,1 2 0.5*k #_R1
    ... end reactions
    ... begin groups
    ...     1 Total 1,2*2
    ... end groups\"\"\")
    >>> network = ergode.read_bionetgen(path)
    >>> print(network.propensities())
    R1  2 S1 -> S2  (0.5*k) * S1 * (S1 - 1)
    >>> network.rules["Total"].text
    'S1 + 2 * S2'

    >>> path = path.with_suffix(".bngl")
    >>> _ = path.write_text(\"\"\"
    ... begin parameters
    ...     k 0.01
    ... end parameters
    ... begin seed species
    ...     A(b) 100
    ... end seed species
    ... begin reaction rules
    ...     A(b) + A(b) -> A(b!1).A(b!1) k
    ... end reaction rules\"\"\")
    >>> print(ergode.read_bionetgen(path).propensities())
    R1  2 S1 -> S2  (0.5*(k)) * S1 * (S1 - 1)
    """
    file = file_of(path)
    limits = (
        integer("max_species", max_species, 1, 10**9),
        None if max_iterations is None else integer("max_iterations", max_iterations, 0, 10**9),
        None if max_molecules is None else integer("max_molecules", max_molecules, 1, 10**9),
    )
    return _Reader(file, text_of(file), limits).network()


def read_rules(path: str | os.PathLike[str]) -> RuleModel:
    """Read rules of BioNetGen (``.bngl``) without the network that they generate.

    `ergode.stochastic.simulate_rules` simulates them. Rules may make species without an end.

    Parameters
    ----------
    path : path

    Returns
    -------
    RuleModel

    Raises
    ------
    ReadError
        The file does not exist, cannot be parsed, or has something that is not supported: what
        `read_bionetgen` refuses, compartments, energies, species of a fixed amount (``$``), and
        the rate laws ``Sat``, ``MM`` and ``Hill``. The message names the line.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "polymer.bngl")
    >>> _ = path.write_text(\"\"\"
    ... begin seed species
    ...     A(x,x) 1000
    ... end seed species
    ... begin observables
    ...     Molecules Ends A(x)
    ... end observables
    ... begin reaction rules
    ...     A(x) + A(x) <-> A(x!1).A(x!1) 0.001, 1
    ... end reaction rules\"\"\")
    >>> ergode.read_rules(path)
    <RuleModel 'polymer': 1 molecule type, 2 rules, 1 observable>
    """
    file = file_of(path)
    return _Reader(file, text_of(file), None).rule_model()


class _Reader:
    def __init__(self, file: Path, text: str, limits: Limits | None) -> None:
        self.file = file
        self.blocks: dict[str, list[_Line]] = {}
        # What only a model of rules may have: actions, and species with other numbers.
        self.odd: list[ReadError] = []
        self._split(text)
        if limits is None:
            self._check_rules()
        elif "reactions" not in self.blocks and "reaction rules" in self.blocks:
            self._generate(limits)
        elif self.odd:
            raise self.odd[0]
        self.blocks = {name: self.blocks.get(name, []) for name in (*_BLOCKS, *_RULES)}
        if not self.blocks["species"] and limits is not None:
            raise ReadError(f"{file}: there are no species in it")
        names = {
            line.words[0].partition("(")[0] for lines in self.blocks.values() for line in lines
        }
        self.prefix = "S"
        while any(re.fullmatch(rf"{self.prefix}\d+", name) for name in names):
            self.prefix += "_"
        self.count = len(self.blocks["species"])
        self.rules: dict[str, Expression | str] = {}
        self.functions = {line.words[0].partition("(")[0] for line in self.blocks["functions"]}

    def error(self, number: int, why: str) -> ReadError:
        return ReadError(f"{self.file}: line {number}: {why}")

    @contextmanager
    def at(self, line: _Line) -> Iterator[None]:
        """Add the line to errors of the model."""
        try:
            yield
        except ReadError:
            raise
        except ModelError as error:
            raise self.error(line.number, str(error)) from None

    def _split(self, text: str) -> None:
        """Collect the lines of every block, without comments and without their index, if any."""
        block: str | None = None
        started = ""
        for number, whole in enumerate(text.splitlines(), 1):
            line = started + whole.partition("#")[0].strip()
            if line.endswith("\\"):
                started = line[:-1] + " "
                continue
            started = ""
            if not line:
                continue
            word, *others = line.split()
            rest = " ".join(others)
            if word in ("begin", "end"):
                rest = _OTHER_NAMES.get(rest, rest)
            if word == "begin":
                if rest not in (*_BLOCKS, *_RULES, *_UNKNOWN, *_IGNORED, "model"):
                    raise self.error(number, f"the block '{rest}' is unknown")
                block = rest if rest != "model" else None
                if block:
                    self.blocks.setdefault(block, [])
            elif word == "end":
                if rest not in (block, "model"):
                    expected = f"'end {block}'" if block else "'begin' before it"
                    raise self.error(number, f"'{line}'; expected {expected}")
                block = None
            elif block:
                words = line.split()
                if len(words) > 1 and words[0].isdigit() and "->" not in words[1]:
                    place = len(self.blocks[block]) + 1
                    if block == "species" and words[0].lstrip("0") != str(place):
                        self.odd.append(
                            self.error(number, f"the species has the index {words[0]}, not {place}")
                        )
                    del words[0]
                self.blocks[block].append(_Line(number, words))
            elif not _SETTINGS.match(line):
                action = _ACTION.match(line)
                what = "an action" if action else "outside of all blocks"
                more = ", and only those that generate and run one network are taken"
                error = self.error(number, f"'{line[:60]}' is {what}{more if action else ''}")
                if not action:
                    raise error
                self.odd.append(error)
        if started:
            raise ReadError(f"{self.file}: the last line ends in a backslash, but nothing follows")
        if block is not None:
            raise ReadError(f"{self.file}: the block '{block}' does not end")

    def _check_rules(self) -> None:
        """Refuse what rules may not have."""
        if "reaction rules" not in self.blocks:
            raise ReadError(f"{self.file}: there are no reaction rules in it")
        for block in _UNKNOWN:
            for line in self.blocks.get(block, ()):
                raise self.error(line.number, f"rules with {block} are not supported")

    def _texts(self) -> dict[str, list[Text]]:
        return {
            name: [Text(line.number, " ".join(line.words)) for line in lines]
            for name, lines in self.blocks.items()
        }

    def _generate(self, limits: Limits) -> None:
        """Replace rules by the network that they generate."""
        self._check_rules()
        made = generated(self._texts(), self.error, *limits)
        last = max((line.number for line in self.blocks["reaction rules"]), default=0)
        for name, lines in made._asdict().items():
            self.blocks[name] = [_Line(last, words) for words in lines]
        self._without_arguments()

    def _without_arguments(self) -> None:
        """Leave out functions with arguments: the rates of the rules have them."""
        self.blocks["functions"] = [
            line for line in self.blocks.get("functions", ())
            if not FUNCTION.fullmatch(" ".join(line.words))
        ]  # fmt: skip

    # ---- formulas

    def formula(self, line: _Line, text: str) -> Expression:
        """A formula in BioNetGen's syntax."""
        for pattern, here in _OPERATORS:
            text = pattern.sub(here, text)
        for name in self.functions:
            text = re.sub(rf"\b{re.escape(name)}\s*\(\s*\)", name.replace("\\", r"\\"), text)
        with self.at(line):
            return Expression(self._called(text, line).strip())

    def _called(self, text: str, line: _Line) -> str:
        """A formula with BioNetGen's functions expressed by those of ergode."""
        while True:
            if len(text) > _LONGEST:
                raise self.error(line.number, f"a formula has more than {_LONGEST} characters")
            # The arguments of the last call contain no other call.
            calls = list(_CALL.finditer(text))
            if any(match[1].lower() == "tfun" for match in calls):
                raise self.error(
                    line.number, "tables ('tfun') are not supported; write the values as 'if' terms"
                )
            found = [match for match in calls if match[1] in _CALLS]
            if not found:
                return text
            match = found[-1]
            depth, arguments, start = 1, [], match.end()
            for i in range(match.end(), len(text)):
                depth += (text[i] == "(") - (text[i] == ")")
                if depth == 0 or (depth == 1 and text[i] == ","):
                    arguments.append(f"({text[start:i]})")
                    start = i + 1
                if depth == 0:
                    break
            else:
                raise self.error(line.number, f"'{text}' has a bracket that does not close")
            try:
                written = _CALLS[match[1]](arguments)
            except IndexError:
                raise self.error(line.number, f"'{match[1]}' has too few arguments") from None
            text = text[: match.start()] + written + text[start:]

    def species_of(self, line: _Line, text: str) -> str:
        """The name of the species with an index."""
        digits = text.isascii() and text.isdecimal() and len(text) < 10
        if not digits or not 0 < int(text) <= self.count:
            raise self.error(line.number, f"'{text}' is not a species; expected 1 to {self.count}")
        return f"{self.prefix}{int(text)}"

    # ---- blocks

    def parameter(self, line: _Line) -> tuple[str, float | Expression]:
        name, _, rest = re.sub(r"^(\w+)\s*=\s*", r"\1 ", " ".join(line.words)).partition(" ")
        if not rest:
            raise self.error(line.number, f"parameter '{name}' has no value")
        return name, self.number(line, rest)

    def number(self, line: _Line, text: str) -> float | Expression:
        expression = self.formula(line, text)
        with self.at(line):
            return number_or_expression(expression.text, f"'{text}'")

    def one_species(self, i: int, line: _Line) -> Species:
        if len(line.words) < 2:
            raise self.error(line.number, f"species '{line.words[0]}' has no amount")
        pattern, *amount = line.words
        fixed = re.match(r"(@\w+::?)?\$", pattern) is not None
        with self.at(line):
            return Species(
                f"{self.prefix}{i}", self.number(line, " ".join(amount)),
                boundary=fixed, constant=fixed, label=pattern.replace("$", "", int(fixed)),
            )  # fmt: skip

    def group(self, line: _Line) -> tuple[str, str]:
        name, *rest = line.words
        terms = []
        for entry in filter(None, "".join(rest).split(",")):
            factor, _, index = entry.rpartition("*")
            member = self.species_of(line, index)
            terms.append(member if factor in ("", "1") else f"{factor} * {member}")
        while len(terms) > 100:  # a sum of thousands of terms as a balanced tree
            terms = [f"({' + '.join(terms[i : i + 2])})" for i in range(0, len(terms), 2)]
        return name, " + ".join(terms) or "0"

    def function(self, line: _Line) -> tuple[str, Expression]:
        text = " ".join(line.words)
        match = re.fullmatch(r"(\w+)\s*(?:\((.*?)\))?\s*=?\s*(.+)", text)
        if match is None or not match[3]:
            raise self.error(line.number, f"'{text}' is not a function")
        if match[2]:
            raise self.error(line.number, f"function '{match[1]}' has arguments; expected none")
        return match[1], self.formula(line, match[3])

    def reaction(self, k: int, line: _Line, changing: set[str]) -> Reaction:
        if len(line.words) < 3:
            raise self.error(line.number, "expected reactants, products and a rate")
        left, right, *rest = line.words
        if rest[0] in _OTHER_LAWS:
            raise self.error(
                line.number,
                f"the built-in rate law '{rest[0]}' is not supported; write it as a function",
            )
        sides = [
            [self.species_of(line, index) for index in side.split(",") if index != "0"]
            for side in (left, right)
        ]
        built_in = _BUILT_IN.fullmatch(rest[0])
        if built_in and len(rest) > 1:
            factor = built_in["factor"] or "1"
            law = self.built_in(line, built_in["law"], sides[0], rest[1:])
            with self.at(line):
                return Reaction(
                    *sides, rate=f"({self.formula(line, factor).text}) * {law}", name=f"R{k}"
                )
        rate = self.formula(line, " ".join(rest))
        with self.at(line):
            if not rate.names & changing:
                return Reaction(*sides, rate_constant=rate.text, name=f"R{k}")
            taken = [sides[0][:i].count(name) for i, name in enumerate(sides[0])]
            factors = [
                name if j == 0 else f"({name} - {j})"
                for name, j in zip(sides[0], taken, strict=True)
            ]
            whole = " * ".join([f"({rate.text})", *factors])
            return Reaction(*sides, rate=whole, name=f"R{k}")

    def built_in(self, line: _Line, law: str, taken: list[str], constants: list[str]) -> str:
        """The propensity of a built-in rate law of BioNetGen."""
        values = [f"({self.formula(line, text).text})" for text in constants]
        if not taken or len(set(taken)) < len(taken):
            raise self.error(
                line.number, f"'{law}' needs one reactant or more, and all of them different"
            )
        expected = {"Sat": range(2, len(taken) + 2), "MM": (2,), "Hill": (3,)}[law]
        if len(values) not in expected or (law == "MM" and len(taken) != 2):
            raise self.error(
                line.number,
                f"'{law}' has {len(taken)} reactants and {len(values)} constants; expected "
                "'Sat kcat K' with a K for each substrate, 'MM kcat K' of a substrate and an "
                "enzyme, or 'Hill vmax K h'",
            )
        top, scale, *others = values
        first, *rest = taken
        if law == "Sat":
            shares = [f"/ ({k} + {n})" for k, n in zip([scale, *others], taken, strict=False)]
            return " * ".join([top, *taken]) + " " + " ".join(shares)
        if law == "Hill":
            power = others[0]
            return " * ".join(
                [top, *rest, f"{first} ^ {power} / ({scale} ^ {power} + {first} ^ {power})"]
            )
        # Free substrate, in the form without cancellation when it is scarce.
        bound = f"({rest[0]} + {scale} - {first})"
        root = f"sqrt({bound} ^ 2 + 4 * {scale} * {first})"
        free = (
            f"(2 * {scale} * {first} / ({bound} + {root}) if {bound} > 0 "
            f"else ({root} - {bound}) / 2)"
        )
        return f"{top} * {rest[0]} * {free} / ({scale} + {free})"

    def named(self, block: str, read: Callable[[_Line], tuple[str, Any]], found: Any) -> Any:
        """Values of a block by name, added to those that are `found`."""
        for line in self.blocks[block]:
            name, value = read(line)
            if name in found:
                raise self.error(line.number, f"'{name}' is listed twice")
            found[name] = value
        return found

    def rule_model(self) -> RuleModel:
        """The rules that the file describes."""
        made = parsed(self._texts(), self.error)
        self._without_arguments()
        for block in ("energy patterns", "compartments"):
            for line in self.blocks[block]:
                raise self.error(
                    line.number, f"{block} are not supported without a network; read_bionetgen "
                    "takes them",
                )  # fmt: skip
        lines = {block: [_Line(n, []) for n in numbers] for block, numbers in made.lines.items()}
        for line, observable in zip(lines["observables"], made.observables, strict=True):
            if any(one.name == observable.name for one in made.observables if one != observable):
                raise self.error(line.number, f"'{observable.name}' is listed twice")
        parameters = self.named("parameters", self.parameter, {})
        functions = self.named(
            "functions", self.function, {one.name: None for one in made.observables}
        )
        known = {*parameters, *functions, "time"}
        for line in self.blocks["functions"]:
            self.check_names(line, self.function(line)[1], known)
        seeds = []
        for line, seed in zip(lines["species"], made.seeds, strict=True):
            if seed.is_fixed:
                raise self.error(
                    line.number, "a species of a fixed amount ('$') is not supported without a "
                    "network; write a rule that makes it, such as '0 -> A() k'",
                )  # fmt: skip
            seeds.append(Seed(seed.graph, self.number(line, seed.amount)))
        rules = []
        for line, rule in zip(lines["reaction rules"], made.rules, strict=True):
            law = rule.rate.split(" ")[0]
            if law in ("Sat", "MM", "Hill"):
                raise self.error(
                    line.number, f"the rate law '{law}' is of amounts of species, which are not "
                    "known without a network; write it as a function of observables",
                )  # fmt: skip
            rate = self.formula(line, rule.rate)
            self.check_names(line, rate, known | {one.name for one in rule.locals})
            rules.append(replace(rule, rate=rate.text))
        return RuleModel(
            {name: tuple(sites) for name, sites in made.types.items()}, tuple(seeds), tuple(rules),
            tuple(made.observables),
            {name: one for name, one in functions.items() if one is not None}, parameters,
            self.file.stem,
        )  # fmt: skip

    def check_names(self, line: _Line, formula: Expression, known: set[str]) -> None:
        """Raise a ReadError if a formula has a name that the file does not explain."""
        for name in sorted(formula.names - known):
            raise self.error(
                line.number, f"'{name}' is no parameter, observable or function"
                f"{did_you_mean(name, known)}",
            )  # fmt: skip

    def network(self) -> ReactionNetwork:
        """The network that the file describes."""
        blocks = self.blocks
        species = [self.one_species(i, line) for i, line in enumerate(blocks["species"], 1)]
        parameters = self.named("parameters", self.parameter, {})
        rules = self.named("functions", self.function, self.named("groups", self.group, {}))
        changing = {*rules, "time"}
        reactions = [
            self.reaction(k, line, changing) for k, line in enumerate(blocks["reactions"], 1)
        ]
        with located(self.file):
            return ReactionNetwork(species, reactions, parameters, (), rules, (), self.file.stem)
