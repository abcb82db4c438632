"""Atmospheric chemistry in the format of the Kinetic PreProcessor: ``.def``, ``.spc``, ``.eqn``.

V. Damian et al., Comput. Chem. Eng. 26, 1567 (2002); R. Sander, A. Sandu et al., "KPP user manual".
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ergode.core.errors import ModelError, ReadError
from ergode.models.expressions import Expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rate_expression import RateExpression
from ergode.models.reactions.rates import (
    Arrhenius,
    Photolysis,
    RateCoefficient,
    TemperatureFit,
    ThreeBody,
)
from ergode.models.reactions.reaction import Reaction
from ergode.models.reactions.species import Species
from ergode.readers.bounded import file_of, located, text_of

_TEMPERATURE, _SUN = "TEMP", "SUN"
_MOST_FILES = 1000
_DUMMIES = {"hv", "PROD"}  # KPP ignores them
# Commands without chemistry.
_OTHER = {
    "ATOMS", "CHECK", "LOOKAT", "LOOKATALL", "MONITOR", "TRANSPORT", "TRANSPORTALL", "LUMP",
    "SETVAR", "SETFIX", "SETRAD", "LANGUAGE", "INTEGRATOR", "INTFILE", "DRIVER", "DOUBLE",
    "FUNCTION", "HESSIAN", "JACOBIAN", "STOICMAT", "MEX", "DUMMYINDEX", "EQNTAGS", "REORDER",
    "STOCHASTIC", "XGRID", "YGRID", "ZGRID", "USE", "USES", "WRITE_ATM", "WRITE_MAT", "WRITE_OPT",
    "WRITE_SPC", "INITIALIZE", "UPPERCASEF90", "MINVERSION", "DECLARE", "AUTOREDUCE", "GRAPH",
    "FLUX", "FAMILIES",
}  # fmt: skip
_TOKEN = re.compile(r"#\s*(\w+)([^\n]*)")
_COMMENT = re.compile(r"\{[^}]*\}|//[^\n]*")
_INLINE = re.compile(r"#INLINE\b.*?#ENDINLINE", re.S | re.I)
_TERM = re.compile(r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)?\s*\*?\s*([A-Za-z_]\w*)")
_NUMBER = re.compile(r"(\d)[dD]([+-]?\d)")
_KIND = re.compile(r"(?<=[\d.])_dp\b", re.I)
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_LAWS = {
    "ARR": "({0}) * exp(-({1}) / TEMP) * (TEMP / 300)^({2})",
    "ARR_ABC": "({0}) * exp(-({1}) / TEMP) * (TEMP / 300)^({2})",
    "ARR_AB": "({0}) * exp(-({1}) / TEMP)",
    "ARR_AC": "({0}) * (TEMP / 300)^({1})",
    "ARR2": "({0}) * exp(({1}) / TEMP)",
    "EP2": (
        "(({0}) * exp(-({1}) / TEMP) + ({4}) * exp(-({5}) / TEMP) * CFACTOR * 1e6 / (1 + ({4}) * "
        "exp(-({5}) / TEMP) * CFACTOR * 1e6 / (({2}) * exp(-({3}) / TEMP))))"
    ),
    "EP3": "(({0}) * exp(-({1}) / TEMP) + ({2}) * exp(-({3}) / TEMP) * CFACTOR * 1e6)",
    "FALL": (
        "({low} / (1 + {low} / {high}) * ({6})^(1 / (1 + log10({low} / {high})^2)))"
    ),
    # Of MECCA: temperature and density of air are arguments.
    "K_ARR": "({0}) * exp(({1}) * (1 / ({2}) - 3.3540e-3))",
    "K_3RD": (
        "({low} / (1 + {low} / {high}) * ({6})^(1 / (1 + log10({low} / {high})^2)))"
    ),
    "K_3RD_IUPAC": (
        "({low} / (1 + {low} / {high}) * ({6})^(1 / (1 + (log10({low} / {high}) / (0.75 - 1.27 * "
        "log10({6})))^2)))"
    ),
}  # fmt: skip
_THIRD = ("(({2}) * (300 / ({0}))^({3}) * ({1}))", "(({4}) * (300 / ({0}))^({5}))")
_LIMITS = {
    "FALL": (
        "(({0}) * exp(-({1}) / TEMP) * (TEMP / 300)^({2}) * CFACTOR * 1e6)",
        "(({3}) * exp(-({4}) / TEMP) * (TEMP / 300)^({5}))",
    ),
    "K_3RD": _THIRD,
    "K_3RD_IUPAC": _THIRD,
}
_COUNTS = {"ARR": 3, "ARR_ABC": 3, "ARR_AB": 2, "ARR_AC": 2, "ARR2": 2, "EP2": 6, "EP3": 4,
           "FALL": 7, "K_ARR": 3, "K_3RD": 7, "K_3RD_IUPAC": 7}  # fmt: skip


_FITTED = 180.0, 350.0  # temperatures of fits [K]
_ACCURATE = 1e-4  # relative error of fits; most are within 1e-6
_DEPTH = 20  # of formulas within formulas
# Of one argument, which may be a name: photolysis frequencies.
_FREQUENCY = re.compile(r"\b(J|PHOTOL)\s*\(\s*(\w+)\s*\)", re.I)
_SUM = re.compile(
    r"^\s*(\w+)\s*=\s*(C\(\s*ind_\w+\s*\)(?:[\s&]*\+[\s&]*C\(\s*ind_\w+\s*\))*)", re.M
)
_MEMBER = re.compile(r"ind_(\w+)")
_AMOUNT = re.compile(r"\bC\(\s*ind_(\w+)\s*\)")


def read_kpp(
    path: str | os.PathLike[str],
    *,
    parameters: Mapping[str, float | str] | None = None,
    sums: Mapping[str, Iterable[str]] | None = None,
    functions: Mapping[str, str] | None = None,
) -> ReactionNetwork:
    """Read a mechanism of the Kinetic PreProcessor.

    Parameters
    ----------
    path : path
        A ``.def`` or ``.kpp`` file; its ``#INCLUDE`` and ``#MODEL`` files are read from the same
        folder. Or an ``.eqn`` file; the species are then those of its equations.
    parameters : mapping of str to float or str
        Values of names in rate expressions, or formulas of other names: ``{"M": 2.5e19, "KMT01":
        "1e-31 * M * (TEMP / 300)^-1.6"}``. Photolysis frequencies have names too: ``{"J(4)":
        "8.9e-3 * SUN"}``. A number becomes a parameter of the network (``J(4)`` is ``J_4`` there),
        to which `kinetics.integrate` may give another value, a `Trajectory` or a function of time.
    sums : mapping of str to sequence of str, optional
        Species whose amounts add up to a name: ``{"RO2": ["CH3O2", "C2H5O2"]}``. Sums that
        ``#INLINE`` code defines by ``RO2 = C(ind_CH3O2) + ...`` are known.
    functions : mapping of str to str, optional
        Formulas of further functions, by name and arguments: ``{"k_troe(a, b)": "a * M / (1 + a *
        M / b) * TEMP / 300"}``.

    Returns
    -------
    ReactionNetwork
        Fixed species are boundary species. Initial amounts are those of ``#INITVALUES`` times
        ``CFACTOR``.

    Raises
    ------
    ReadError
        A file does not exist or cannot be parsed; the message names file and line.

    Notes
    -----
    A rate A T^b exp(-E / T) becomes `Arrhenius`, and another function of ``TEMP`` a
    `TemperatureFit` from 180 to 350 K, within 1e-4 of its value. Both follow the temperature of the
    zone, unless ``TEMP`` has a value. A power of ``SUN`` times such a rate becomes `Photolysis` and
    follows the sunlight of the zone, unless ``SUN`` has a value; a part that needs no light becomes
    a reaction of its own. A rate may be proportional to one sum or species, such as ``RO2``. Every
    other rate becomes a `RateExpression`: one of ``TEMP`` and parameters with numbers, of several
    species or sums, or of ``SUN`` in another way.

    Code in other languages (``#INLINE``) is not run: give the values that it defines as
    `parameters`, and its functions as `functions`. Known functions: ``ARR``, ``ARR_ab``,
    ``ARR_ac``, ``ARR_abc``, ``ARR2``, ``EP2``, ``EP3``, ``FALL``, and MECCA's ``k_arr``, ``k_3rd``
    and ``k_3rd_iupac``. A temperature may be written ``temp``.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "oxygen.eqn")
    >>> _ = path.write_text("#EQUATIONS\\n<R1> O + O2 = O3 : ARR_ac(6e-34, -2.4) ;\\n")
    >>> ergode.read_kpp(path).reactions[0].value.exponent
    -2.4
    """
    macros = dict(_macro(name, formula) for name, formula in (functions or {}).items())
    return _Reader(file_of(path), dict(parameters or {}), dict(sums or {}), macros).network()


class _Item(NamedTuple):
    """One entry of a section, up to its semicolon."""

    section: str
    text: str
    where: str


class _Reader:
    def __init__(
        self,
        path: Path,
        given: dict[str, float | str],
        sums: dict[str, Iterable[str]],
        macros: dict[str, tuple[tuple[str, ...], str]],
    ) -> None:
        self.path, self.macros = path, macros
        given = {_identifier(name): value for name, value in given.items()}
        if "temp" in given:
            given[_TEMPERATURE] = given.pop("temp")
        self.parameters = {k: v for k, v in given.items() if not isinstance(v, str)}
        self.formulas = {
            name: Expression(_prepared(value, f"parameter '{name}'", macros))
            for name, value in given.items()
            if isinstance(value, str)
        }
        self.sums = {name: tuple(members) for name, members in sums.items()}
        self.species: dict[str, bool] = {}
        self.initial: dict[str, float] = {}
        self.everywhere: dict[str, float] = {}
        self.factor = 1.0
        self.equations: list[_Item] = []
        self.unknown: dict[str, str] = {}  # names in rates without a value: what to say of each
        for item in _items(path, set(), []):
            self._take(item)
        if not self.equations:
            raise ReadError(f"{path}: no #EQUATIONS")

    def _take(self, item: _Item) -> None:
        if item.section in ("DEFVAR", "DEFFIX"):
            name, equal, _ = item.text.partition("=")
            if not equal or not name.strip().isidentifier():
                raise ReadError(f"{item.where}: '{item.text}'; expected such as 'NO2 = N + 2O'")
            self.species[name.strip()] = item.section == "DEFFIX"
        elif item.section in ("SETVAR", "SETFIX"):
            self._set(item)
        elif item.section == "INITVALUES":
            name, _, value = (part.strip() for part in item.text.partition("="))
            try:
                number = float(_NUMBER.sub(r"\1e\2", _KIND.sub("", value)))
            except ValueError:
                raise ReadError(f"{item.where}: '{item.text}'; expected 'NAME = number'") from None
            if name.upper() == "CFACTOR":
                self.factor = number
            elif name.upper() in ("ALL_SPEC", "VAR_SPEC", "FIX_SPEC"):
                self.everywhere[name.upper()] = number
            else:
                self.initial[name] = number
        elif item.section == "SUM":
            name, _, members = item.text.partition("=")
            self.sums.setdefault(name, tuple(members.split()))
        elif item.section == "EQUATIONS":
            self.equations.append(item)

    def _set(self, item: _Item) -> None:
        """Apply ``#SETVAR`` or ``#SETFIX``: make declared species variable or fixed."""
        name = item.text.strip()
        several = {
            "ALL_SPEC": list(self.species),
            "VAR_SPEC": [one for one, fixed in self.species.items() if not fixed],
            "FIX_SPEC": [one for one, fixed in self.species.items() if fixed],
        }
        for one in several.get(name.upper(), [name]):
            if one not in self.species:
                raise ReadError(f"{item.where}: '{one}' is not a species of #DEFVAR or #DEFFIX")
            self.species[one] = item.section == "SETFIX"

    def network(self) -> ReactionNetwork:
        declared = bool(self.species)
        reactions = [
            one
            for k, item in enumerate(self.equations, 1)
            for one in self._reactions(k, item, declared)
        ]
        if len(self.unknown) > 1:
            first = next(iter(self.unknown.values()))
            every = ", ".join(f"'{name}'" for name in self.unknown)
            raise ReadError(f"{first}; unknown are {len(self.unknown)} names in all: {every}")
        if self.unknown:
            raise ReadError(*self.unknown.values())
        for name in self.initial:
            if name not in self.species:
                raise ReadError(f"{self.path}: #INITVALUES has '{name}', which is not a species")
        with located(self.path):
            return ReactionNetwork(
                [
                    Species(name, self._amount(name, fixed), boundary=fixed)
                    for name, fixed in self.species.items()
                ],
                reactions,
                self.parameters,
                name=self.path.stem,
                time_unit="s",
            )

    def _amount(self, name: str, fixed: bool) -> float:
        kind = "FIX_SPEC" if fixed else "VAR_SPEC"
        usual = self.everywhere.get(kind, self.everywhere.get("ALL_SPEC", 0.0))
        return self.initial.get(name, usual) * self.factor

    def _reactions(self, number: int, item: _Item, declared: bool) -> list[Reaction]:
        text = item.text
        label = f"R{number}"
        if text.startswith("<"):
            label, _, text = text[1:].partition(">")
        equation, colon, law = text.partition(":")
        left, equal, right = equation.partition("=")
        if not colon or not equal or not law.strip():
            raise ReadError(
                f"{item.where}: '{' '.join(text.split())}'; expected such as 'NO + O3 = NO2 : k'"
            )
        sides = [self._side(side, item.where, declared) for side in (left, right)]
        with located(item.where):
            rates = self._rates(law, item.where)
            names = (label.strip(), f"{label.strip()} by sunlight")
            return [
                Reaction(*sides, rate_constant=rate, name=name)
                for rate, name in zip(rates, names, strict=False)
            ]

    def _side(self, text: str, where: str, declared: bool) -> dict[str, float]:
        found: dict[str, float] = {}
        for term in text.split("+"):
            match = _TERM.fullmatch(term.strip())
            if match is None:
                raise ReadError(
                    f"{where}: '{term.strip()}' is not a species, with or without a number"
                )
            name = match[2]
            if name in _DUMMIES and name not in self.species:
                continue
            if name not in self.species:
                if declared:
                    raise ReadError(f"{where}: '{name}' is not a species of #DEFVAR or #DEFFIX")
                self.species[name] = False
            found[name] = found.get(name, 0.0) + float(match[1] or 1.0)
        return found

    def _rates(self, law: str, where: str) -> list[float | Expression | RateCoefficient]:
        """The coefficient; two where a part of it needs no light."""
        formula = Expression(_prepared(law, where, self.macros))
        for _ in range(_DEPTH):
            before, formula = formula, formula.substitute(self.formulas)
            if formula is before:
                break
        if "CFACTOR" in formula.names:
            self.parameters.setdefault("CFACTOR", self.factor)
        numbers = formula.names & set(self.parameters) - {"CFACTOR", _TEMPERATURE, _SUN}
        own = formula.names - set(self.parameters)
        several = [name for name in sorted(own) if name in self.sums or name in self.species]
        for name in several:
            for member in self.sums.get(name, ()):
                if member not in self.species:
                    raise ReadError(f"{where}: '{member}', of the sum {name}, is not a species")
        unknown = sorted(own - {_TEMPERATURE, _SUN, *several})
        if not unknown and own and (numbers or len(several) > 1):
            return [self._expression(formula)]
        if own <= {_TEMPERATURE, _SUN} and (formula.names == own or own):
            if _SUN in own:
                dark = formula.substitute({_SUN: 0.0})
                values = {name: 250.0 for name in own} | self.parameters
                with np.errstate(all="ignore"):
                    rest = float(dark.evaluate(values))
                if 0.0 < rest < math.inf:
                    light = Expression(f"({formula.text}) - ({dark.text})")
                    return [self._coefficient(one) for one in (dark, light)]
            return [self._coefficient(formula)]
        if unknown:
            written = {v: k for k, v in _names_of(law).items()}
            for name in (written.get(one, one) for one in unknown):
                more = ", or a formula of TEMP and SUN" if "(" in name else ""
                self.unknown.setdefault(
                    name,
                    f"{where}: the rate '{' '.join(law.split())}' uses '{name}'; give its value"
                    f"{more}: parameters={{'{name}': ...}}, or the species that it adds up: "
                    f"sums={{'{name}': [...]}}",
                )
            return []
        if several:
            return [self._proportional(formula, several[0])]
        return [formula]

    def _coefficient(self, formula: Expression) -> float | RateCoefficient:
        """A formula of the temperature and of the sunlight."""
        known: Any = self.parameters
        formula = formula.substitute({k: v for k, v in known.items() if k in formula.names})
        found = _sunlit(formula) if _SUN in formula.names else _simple(formula)
        return self._expression(formula) if found is None else found

    def _expression(self, formula: Expression) -> RateExpression:
        """Any other rate."""
        names: dict[str, Expression | float] = {
            _TEMPERATURE: Expression("temperature"), _SUN: Expression("sunlight"),
        }  # fmt: skip
        names |= {k: v for k, v in self.parameters.items() if k in ("CFACTOR", *names)}
        for name in formula.names & set(self.sums):
            names[name] = Expression(" + ".join(self.sums[name]) or "0.0")
        return RateExpression(formula.substitute(names))

    def _proportional(self, formula: Expression, name: str) -> RateCoefficient:
        """A formula that is proportional to a sum of species, or to one species."""
        known: Any = self.parameters
        formula = formula.substitute({k: v for k, v in known.items() if k in formula.names})
        one = formula.substitute({name: 1.0})
        values = {_TEMPERATURE: np.array([180.0, 300.0]), _SUN: 1.0}
        with np.errstate(all="ignore"):
            at = [np.asarray(formula.evaluate(values | {name: x}), float) for x in (0.0, 1.0, 3.0)]
        if (at[0] != 0.0).any() or not np.allclose(3.0 * at[1], at[2], rtol=1e-12, atol=0.0):
            return self._expression(formula)
        rate: Any = self._coefficient(one)
        if isinstance(rate, RateExpression):
            return self._expression(formula)
        exponent = None
        if isinstance(rate, Photolysis):
            rate, exponent = rate.rate, rate.exponent
        if not isinstance(rate, Arrhenius | TemperatureFit):
            rate = Arrhenius(float(rate))
        members = self.sums.get(name, (name,))
        found = ThreeBody(rate, tuple((member, 1.0) for member in members), 0.0)
        return found if exponent is None else Photolysis(found, exponent)


def _identifier(name: str) -> str:
    """The name of a photolysis frequency in formulas: J(4) is J_4."""
    return _FREQUENCY.sub(lambda m: f"{m[1]}_{m[2]}", name)


def _names_of(law: str) -> dict[str, str]:
    """Photolysis frequencies of a rate, as it is written, and their names in formulas."""
    return {m[0]: f"{m[1]}_{m[2]}" for m in _FREQUENCY.finditer(law)}


def _macro(name: str, formula: str) -> tuple[str, tuple[tuple[str, ...], str]]:
    """A function of the caller: its name in capitals, the names of its arguments, its formula."""
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*\(([^()]*)\)\s*", name)
    arguments = tuple(part.strip() for part in match[2].split(",")) if match else ()
    if match is None or not all(part.isidentifier() for part in arguments):
        raise ModelError(f"functions has '{name}'; expected such as 'k_troe(a, b)'")
    return match[1].upper(), (arguments, formula)


def _prepared(law: str, where: str, macros: Mapping[str, Any]) -> str:
    """A rate as a formula: without the notations of Fortran, and with KPP's functions expanded."""
    text = _NUMBER.sub(r"\1e\2", _KIND.sub("", " ".join(law.split()))).replace("**", "^")
    text = _expanded(_identifier(_AMOUNT.sub(r"\1", text)), where, macros)
    text = re.sub(r"\btemp\b", _TEMPERATURE, text)
    return re.sub(r"\b(EXP|LOG10|LOG|SQRT|ABS|MIN|MAX)\b", lambda m: m[1].lower(), text)


def _sunlit(formula: Expression) -> RateCoefficient | None:
    """A formula of sunlight, and perhaps of temperature, as a `Photolysis`, if it is one."""
    suns = np.array([1.0, 0.5, 0.25, 0.125])
    with np.errstate(all="ignore"):
        values = np.asarray(formula.evaluate({_SUN: suns, _TEMPERATURE: 250.0}), float) + 0.0 * suns
        ratios = np.log2(values[:-1] / values[1:])
    if not (np.isfinite(ratios).all() and np.ptp(ratios) < 1e-9 and ratios[0] > 0):
        return None
    at_noon = _simple(formula.substitute({_SUN: Expression("1.0")}))
    return None if at_noon is None else Photolysis(at_noon, float(round(ratios[0], 9)))


def _simple(formula: Expression) -> float | RateCoefficient | None:
    """A formula of the temperature as a number, as A T^b exp(-E / T) or by a fit, if it is one."""
    if not formula.names:
        return float(formula.evaluate({}))
    hot = np.array([180.0, 240.0, 300.0, 410.0, 620.0])
    with np.errstate(all="ignore"):
        values = np.asarray(formula.evaluate({_TEMPERATURE: hot}), float) + 0.0 * hot
    if (values == 0.0).all():
        return 0.0
    if (values > 0).all():
        powers = np.stack([np.ones(5), np.log(hot), -1.0 / hot], axis=1)
        found = np.linalg.solve(powers[:3], np.log(values[:3]))
        if np.allclose(powers @ found, np.log(values), rtol=0, atol=1e-9):
            found[1:] = [0.0 if abs(x) < 1e-9 else x for x in found[1:]]
            exponent, activation = float(round(found[1], 9)), float(round(found[2], 6))
            try:
                factor = values[2] / (300.0**exponent * math.exp(-activation / 300.0))
            except ArithmeticError:
                factor = math.inf
            return Arrhenius(float(factor), exponent, activation)
    try:
        return TemperatureFit.of(
            lambda t: float(formula.evaluate({_TEMPERATURE: t})), _FITTED, tolerance=_ACCURATE
        )
    except ModelError:
        return None


def _filled(formula: str, given: Mapping[str, str]) -> str:
    """A formula with values for its arguments."""
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda match: given.get(match[0], match[0]), formula)


def _expanded(text: str, where: str, macros: Mapping[str, Any]) -> str:
    """A rate expression with KPP's functions and those of the caller written out."""
    for match in _CALL.finditer(text):
        name = match[1].upper()
        if name not in _LAWS and name not in macros:
            continue
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        inner = text[match.end() : end - 1]
        arguments = [part.strip() for part in _split(inner)]
        expected = len(macros[name][0]) if name in macros else _COUNTS[name]
        if depth or len(arguments) != expected:
            raise ReadError(
                f"{where}: {match[1]}({inner}) has {len(arguments)} arguments; expected {expected}"
            )
        if name in macros:
            names, formula = macros[name]
            given = {one: f"({part})" for one, part in zip(names, arguments, strict=True)}
            formula = _filled(formula, given)
            others = {key: value for key, value in macros.items() if key != name}
            written = _expanded(formula.replace("**", "^"), where, others)
            return text[: match.start()] + f"({written})" + _expanded(text[end:], where, macros)
        law = _LAWS[name]
        if name in _LIMITS:
            low, high = _LIMITS[name]
            law = law.replace("{low}", low).replace("{high}", high)
        written = law.format(*arguments)
        return text[: match.start()] + f"({written})" + _expanded(text[end:], where, macros)
    return text


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _items(path: Path, above: set[Path], seen: list[Path]) -> Iterator[_Item]:
    """Entries of a file and of the files that it includes, in order."""
    seen.append(path)
    if len(seen) > _MOST_FILES:
        raise ReadError(f"{path}: more than {_MOST_FILES} files are included")
    text = text_of(path, errors="replace")
    if path in above:
        raise ReadError(f"{path} includes itself")

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    for inline in _INLINE.finditer(text):
        for found in _SUM.finditer(inline[0]):
            members = " ".join(_MEMBER.findall(found[2]))
            yield _Item("SUM", f"{found[1]}={members}", str(path))
    text = _COMMENT.sub(blank, _INLINE.sub(blank, text))
    section, body, start = "", "", 1
    for number, line in enumerate([*text.splitlines(), "#END"], 1):
        command = _TOKEN.match(line.strip())
        if command is None:
            body += line + "\n"
            continue
        yield from _entries(section, body, path, start)
        word, rest = command[1].upper(), command[2].strip()
        section, body, start = word, rest + "\n", number
        if word in ("INCLUDE", "MODEL"):
            section, body = "", ""
            name = rest.split()[0] if rest else ""
            file = path.parent / (name if word == "INCLUDE" else f"{name}.def")
            if name.split(".")[0].lower() != "atoms":
                yield from _items(file, above | {path}, seen)
        elif word not in {"DEFVAR", "DEFFIX", "INITVALUES", "EQUATIONS", "END", *_OTHER}:
            raise ReadError(f"{path}, line {number}: the command #{command[1]} is not known")


def _entries(section: str, body: str, path: Path, start: int) -> Iterator[_Item]:
    if section not in ("DEFVAR", "DEFFIX", "SETVAR", "SETFIX", "INITVALUES", "EQUATIONS"):
        return
    line = start
    parts = body.split(";")
    for part in parts:
        lead = len(part) - len(part.lstrip())
        where = f"{path}, line {line + part[:lead].count(chr(10))}"
        line += part.count("\n")
        if part.strip():
            yield _Item(section, part.strip(), where)
