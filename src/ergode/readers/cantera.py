"""Mechanisms of gas-phase chemistry in Cantera's YAML format: phases, species, thermodynamics.

Every key of the file is either read or refused by name.  Only the keys of `_NOTES` are ignored:
they cannot change reaction rates of an ideal gas.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ergode.core.errors import ErgodeError, ReadError
from ergode.core.words import counted
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Reaction
from ergode.models.reactions.species import Species
from ergode.models.reactions.thermochemistry import Molecule, Nasa9Polynomials, NasaPolynomials
from ergode.readers.bounded import file_of, short
from ergode.readers.cantera_rates import only
from ergode.readers.cantera_reactions import Reactions
from ergode.readers.cantera_surfaces import SURFACE, SurfaceReactions, surface_of
from ergode.readers.cantera_units import Units
from ergode.readers.yaml_lines import load, place

# Keys that cannot change the kinetics: names, sources, transport data, and the initial state of
# Cantera.
_NOTES = {
    "phase": ("note", "description", "state", "transport", "Motz-Wise"),
    "species": ("note", "transport", "critical-parameters", "equation-of-state"),
    "thermo": ("note",),
}
_PHASE = (
    "name", "thermo", "elements", "species", "kinetics", "reactions", "units",
    "skip-undeclared-elements", "skip-undeclared-third-bodies", "explicit-third-body-duplicates",
)  # fmt: skip
_KINETICS = ("gas", "bulk")
_GAS_CONSTANT = 8.31446261815324  # J / (mol K)
_STANDARD_PRESSURE = 1.01325e6  # dyn/cm2, the default reference pressure of a species


def read_cantera(
    path: str | os.PathLike[str],
    *,
    phase: str | None = None,
    surface: str | None = None,
    surface_area: float | None = None,
) -> ReactionNetwork:
    """Read a mechanism of gas-phase chemistry (ideal gas), and of one surface beside it.

    Parameters
    ----------
    path : path
        A YAML file. Reactions may have Arrhenius, Blowers-Masel, three-body, falloff
        (Lindemann, Troe, SRI), chemically activated, pressure-dependent Arrhenius ("PLOG"),
        Chebyshev and linear-Burke rates; species have NASA polynomials of seven coefficients (one
        or two ranges) or nine (any number), or Shomate's. Other files that it refers to are read
        from the same folder.
    phase : str, optional
        Name of the phase; the first ideal gas beside a surface, or the first phase, if not given.
    surface : str, optional
        Name of an ideal surface. Its reactions have Arrhenius rates or sticking coefficients, with
        the correction of Motz and Wise if the file says so; both may depend on coverages. Its
        species are named by letters, digits and underscores: ``PT(S)`` is ``PT_S``.
    surface_area : float, optional
        Area of the surface over the volume of the gas [1/cm]; needed with a `surface`.

    Returns
    -------
    ReactionNetwork
        In mol, cm, s and K. A reversible reaction becomes two; the second has `DetailedBalance`.

    Raises
    ------
    ReadError
        The file does not exist or is not a mechanism; it has an unsupported rate or an unknown key;
        an equation is not balanced; or a reaction occurs twice without being marked as a duplicate.
        The message has the line of the file, and names the species or reaction.

    Notes
    -----
    Needs the package ``pyyaml`` (``pip install 'ergode[chemistry]'``).

    Entries that cannot change the kinetics of an ideal gas are ignored: notes, transport data, the
    initial state, critical parameters and equations of state of species, and sections of the file
    that the phase does not use.
    """
    try:
        return _Mechanism(file_of(path), phase, surface, surface_area).network()
    except RecursionError:
        raise ReadError(f"{path}: it is nested too deeply") from None


class _Mechanism:
    def __init__(
        self, path: Path, phase: str | None, surface: str | None, area: float | None
    ) -> None:
        self.path = path
        self.files: dict[Path, tuple[dict[Any, Any], Units]] = {}
        content, units = self.file(path)
        phases = _list(content.get("phases"), f"{path}: phases")
        named = {str(one.get("name")): one for one, _ in _entries(phases, units, path, "phase")}
        if not named:
            raise ReadError(f"{path}: it has no phases; expected at least one")
        if phase is not None and phase not in named:
            raise ReadError(f"{path}: no phase {phase!r}; there are {', '.join(named)}")
        name = next(iter(named)) if phase is None else phase
        self.on_surface = None
        if surface is not None:
            self.on_surface = surface_of(named, surface, area, units, path)
            ideal = [key for key, one in named.items() if one.get("thermo") == "ideal-gas"]
            name = ideal[0] if phase is None and ideal else name
        elif area is not None:
            raise ReadError(f"{path}: surface_area is given; it is for a surface (surface=)")
        self.phase, self.name = named[name], name
        self.what = f"{place(path, self.phase)}: phase '{name}'"
        gases = [
            key for key, one in named.items()
            if one.get("thermo") == "ideal-gas" and one.get("kinetics") in _KINETICS
        ]  # fmt: skip
        others = f", such as {', '.join(map(short, gases[:3]))} (phase=)" if gases else ""
        if self.phase.get("thermo") != "ideal-gas":
            raise ReadError(
                f"{self.what} is {short(self.phase.get('thermo'))}; expected an ideal-gas{others}"
            )
        only(self.phase, _PHASE, self.what, _NOTES["phase"])
        idle = "kinetics" not in self.phase and self.on_surface is not None
        if self.phase.get("kinetics") not in _KINETICS and not idle:
            raise ReadError(
                f"{self.what} has the kinetics {short(self.phase.get('kinetics', 'none'))}, and so "
                f"no reactions; expected gas{others}"
            )
        usual = self.phase.get("explicit-third-body-duplicates", "warn")
        if usual not in ("warn", "mark-duplicate"):
            raise ReadError(
                f"{self.what} has explicit-third-body-duplicates: {short(usual)}, which is not "
                "known here; expected warn or mark-duplicate"
            )
        self.units = units.within(self.phase.get("units"), self.what)

    def file(self, path: Path) -> tuple[dict[Any, Any], Units]:
        """A file's content and its default units."""
        if path not in self.files:
            content = load(path)
            given = content.get("units")
            self.files[path] = content, Units().within(given, place(path, given))
        return self.files[path]

    def network(self) -> ReactionNetwork:
        """The network of the phase."""
        species = dict(self._all_species())
        gas = {one.name: _composition(one) for one in species.values()}
        reactions = Reactions(
            gas, skip_bodies=bool(self.phase.get("skip-undeclared-third-bodies", False))
        )
        if "kinetics" in self.phase:
            self._add_reactions(reactions)
        found: list[Reaction] = reactions.found
        if self.on_surface is not None:
            self.phase, self.what = self.on_surface.phase, self.on_surface.what
            there = dict(self._all_species())
            own = SurfaceReactions(self.on_surface, gas, there)
            self._add_reactions(own)
            species |= {one.name: one for one in own.species}
            found = [*found, *own.found]
        try:
            return ReactionNetwork(list(species.values()), found, name=self.name)
        except ErgodeError as error:
            raise ReadError(f"{self.path}: {error}") from None

    def _add_reactions(self, reactions: Reactions) -> None:
        for path, entries, units, declared in self._sections("reactions", "declared-species"):
            for number, (entry, own) in enumerate(_entries(entries, units, path, "reaction"), 1):
                what = f"{place(path, entry)}: reaction {number}"
                reactions.add(entry, own, what, number, declared_only=declared)
        reactions.check_duplicates()

    def _sections(self, key: str, part: str) -> Iterator[tuple[Path, list[Any], Units, Any]]:
        """Sections from which a phase takes: file, entries, units, selection."""
        asked = self.phase.get(key, "all")
        if asked == "none":
            return
        if asked in ("all", part):
            asked = [{key: asked}]
        elif not isinstance(asked, list):
            raise ReadError(f"{self.what} has {key}: {short(asked)}; expected all or a list")
        elif key == "species" and not any(isinstance(one, Mapping) for one in asked):
            asked = [{key: asked}]
        for one in asked:
            if isinstance(one, str) and key == "reactions":
                one = {one: "all"}
            if not isinstance(one, Mapping):
                raise ReadError(
                    f"{self.what} has {short(one)} among its {key}; expected the name of a section"
                )
            for section, which in one.items():
                where, _, name = str(section).rpartition("/")
                path = self.path.parent / where if where else self.path
                content, units = self.file(path)
                if name not in content:
                    raise ReadError(
                        f"{self.what} takes {key} from the section {short(section)}, which does "
                        "not exist"
                    )
                if key == "reactions":
                    if which == "none":
                        continue
                    if which not in ("all", part):
                        raise ReadError(
                            f"{self.what} takes {short(which)} of {section}; expected all or {part}"
                        )
                    which = which == part
                yield path, _list(content[name], f"{path}: {name}"), units, which

    def _all_species(self) -> Iterator[tuple[str, Species]]:
        elements = self._elements()
        taken: set[str] = set()
        for path, entries, units, which in self._sections("species", "all"):
            known = {}
            for entry, own in _entries(entries, units, path, "species"):
                known[str(entry.get("name"))] = entry, own
            names = [str(name) for name in _list(which, self.what)] if which != "all" else known
            for name in names:
                if name not in known:
                    raise ReadError(
                        f"{self.what} has the species {short(name)}, which is not defined in {path}"
                    )
                if name in taken:
                    raise ReadError(f"{self.what}: species {short(name)} is in the phase twice")
                entry, own = known[name]
                if elements is not None and not elements.issuperset(entry.get("composition") or ()):
                    continue
                taken.add(name)
                what = f"{place(path, entry)}: species '{name}'"
                yield name, self._species(name, entry, own, what)

    def _elements(self) -> set[str] | None:
        """The elements of a phase, if species with other elements are to be skipped; else None."""
        if not self.phase.get("skip-undeclared-elements", False):
            return None
        found: set[str] = set()
        for one in _list(self.phase.get("elements"), f"{self.what}: elements"):
            parts = list(one.values()) if isinstance(one, Mapping) else [[one]]
            for part in parts:
                found |= {str(name) for name in _list(part, f"{self.what}: elements")}
        return found

    def _species(self, name: str, entry: Mapping[str, Any], units: Units, what: str) -> Species:
        sites = ("sites",) if self.phase.get("thermo") == SURFACE else ()
        known = ("name", "composition", "thermo", "units", *sites)
        only(entry, known, what, _NOTES["species"])
        thermo = _mapping(entry.get("thermo"), f"{what}: thermo")
        model = thermo.get("model")
        if not isinstance(model, str) or model not in _MODELS:
            raise ReadError(f"{what} has a thermo of {short(model)}; expected {', '.join(_MODELS)}")
        length, most, convert = _MODELS[model]
        data = thermo.get("data") or []
        if not isinstance(data, list) or not 0 < len(data) <= most:
            raise ReadError(
                f"{what} has a thermo of {model} with "
                f"{len(data) if isinstance(data, list) else 0} ranges; expected one"
                f"{' or two' if most == 2 else ' or more'}"
            )
        known = ("model", "temperature-ranges", "data", "reference-pressure", "units")
        only(thermo, known, f"{what}: thermo", _NOTES["thermo"])
        units = units.within(thermo.get("units"), what)
        ranges = _list(thermo.get("temperature-ranges"), f"{what}: temperature-ranges")
        if len(ranges) != len(data) + 1:
            raise ReadError(
                f"{what} has {counted(len(ranges), 'temperature-range')} and {len(data)} rows of "
                "data; "
                f"expected {len(data) + 1}"
            )
        hot = [units.temperature_of(one, what) for one in ranges]
        if not all(a < b for a, b in zip(hot, hot[1:], strict=False)):
            raise ReadError(f"{what} has temperature-ranges that do not ascend: {short(ranges)}")
        shift = 0.0
        if "reference-pressure" in thermo:
            pressure = units.pressure_of(thermo["reference-pressure"], what)
            if not 0 < pressure < math.inf:
                raise ReadError(
                    f"{what} has the reference-pressure {short(pressure)}; expected more than 0"
                )
            # Convert the entropy from the reference pressure of the species to 1 atm.
            shift = math.log(pressure / _STANDARD_PRESSURE)
        atoms = _mapping(entry.get("composition"), f"{what}: composition")
        try:
            rows = [tuple(float(number) for number in row) for row in data]
            for row in rows:
                if len(row) != length:
                    raise ReadError(
                        f"{what} has {len(row)} numbers in a row of data; {model} has {length}"
                    )
            rows = [(*row[:-1], row[-1] + shift) for row in map(convert, rows)]
            composition = {str(element): float(count) for element, count in atoms.items()}
            ends = hot[0], hot[-1]
            molecule: Molecule
            if model == "NASA7":
                molecule = NasaPolynomials(rows[0], rows[-1], hot[1], composition, ends)
                if self.on_surface is not None and self.phase is self.on_surface.phase:
                    self.on_surface.put_sites(name, entry, what)
            else:
                molecule = Nasa9Polynomials(tuple(rows), tuple(hot[1:-1]), composition, ends)
            return Species(name, thermochemistry=molecule)
        except ReadError:
            raise
        except (ErgodeError, ValueError, TypeError, IndexError, OverflowError) as error:
            raise ReadError(f"{what}: {error}") from None


def _composition(species: Species) -> Mapping[str, float]:
    assert isinstance(species.thermochemistry, Molecule)
    return species.thermochemistry.composition


def _shomate(row: tuple[float, ...]) -> tuple[float, ...]:
    """Nine coefficients of NASA from Shomate's seven [J/(mol K), with T in 1000 K].

    M. W. Chase: NIST-JANAF Thermochemical Tables, 4th ed. (1998); as the NIST WebBook has it.
    """
    a, b, c, d, e, f, g = (one / _GAS_CONSTANT for one in row)
    return 1e6 * e, 0.0, a, 1e-3 * b, 1e-6 * c, 1e-9 * d, 0.0, 1e3 * f, g - a * math.log(1e3)


# Models of thermodynamics: numbers in a row, most ranges, and the row as the library has it.
_Row = Callable[[tuple[float, ...]], tuple[float, ...]]
_MODELS: dict[str, tuple[int, float, _Row]] = {
    "NASA7": (7, 2, tuple), "NASA9": (9, math.inf, tuple), "Shomate": (7, 2, _shomate),
}  # fmt: skip


def _list(given: Any, what: str) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise ReadError(f"{what} is {short(given)}; expected a list")
    return given


def _mapping(given: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ReadError(f"{what} is {short(given)}; expected a mapping")
    return given


def _entries(
    given: Iterable[Any], units: Units, path: Path, kind: str
) -> Iterator[tuple[Mapping[str, Any], Units]]:
    """The mappings of a list, each with its units; a first entry may set units for all others."""
    for number, entry in enumerate(given):
        what = f"{place(path, entry)}: {kind} {number + 1}"
        one = _mapping(entry, what)
        own = units.within(one.get("units"), what)
        if number == 0 and list(one) == ["units"]:
            units = own
            continue
        yield one, own
