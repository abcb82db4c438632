"""An SBML document, checked: valid, Level 3, with only elements that a network can represent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ergode.core.errors import ModelError, ReadError
from ergode.models.expressions import RESERVED, TIME

ANNOTATION = "urn:ergode:reaction-network"
"""Namespace of the annotations of `write_sbml`."""

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
_PACKAGES = ("l3v2extendedmath", "distrib")
_UNITS = ("item", "dimensionless", "mole")


class Document:
    """A checked document; its errors begin with the `source`, and name the element and its line.

    Raises a ReadError if the document is invalid, or has an element that no network can represent.
    """

    def __init__(self, text: str, source: str, lines: bool, path: Path | None) -> None:
        self.source = source
        self.lines = lines
        self.libsbml = _libsbml(source)
        if not text.lstrip().startswith("<?xml"):
            text = _DECLARATION + text  # libsbml would insert this line and count it
        self.document = self.libsbml.readSBMLFromString(text)
        if path is not None:
            self.document.setLocationURI(path.absolute().as_posix())
        self._check_document()
        self.model = self.document.getModel()
        self._refuse_what_cannot_be()

    def refusal(self, element: Any, why: str) -> ReadError:
        """The error that refuses an element."""
        return ReadError(f"{self.source}: {self._line(element)}{called(element)}: {why}")

    def _line(self, element: Any) -> str:
        return f"line {element.getLine()}: " if self.lines and element.getLine() else ""

    @contextmanager
    def within(self, element: Any) -> Iterator[None]:
        """Add the element to errors of the model."""
        try:
            yield
        except ModelError as error:
            raise self.refusal(element, str(error)) from None

    def _check_document(self) -> None:
        document, libsbml = self.document, self.libsbml
        self._check_packages()
        self._raise_first_error()
        if document.getModel() is None:
            raise ReadError(f"{self.source}: there is no model in it")
        self._check_old_units()
        if document.getLevel() < 3 and not document.setLevelAndVersion(3, 1, False):
            self._raise_first_error()
            raise ReadError(f"{self.source}: cannot be converted to SBML Level 3")
        for category in (
            libsbml.LIBSBML_CAT_UNITS_CONSISTENCY,
            libsbml.LIBSBML_CAT_MODELING_PRACTICE,
            libsbml.LIBSBML_CAT_SBO_CONSISTENCY,
        ):
            document.setConsistencyChecks(category, False)
        document.checkConsistency()
        self._raise_first_error()

    def _check_old_units(self) -> None:
        """Refuse units of single laws, events and species, which old levels allow."""
        model = self.document.getModel()
        laws = [one.getKineticLaw() for one in model.getListOfReactions()]
        for one in (*filter(None, laws), *model.getListOfEvents(), *model.getListOfSpecies()):
            for what in ("TimeUnits", "SubstanceUnits", "SpatialSizeUnits"):
                old = what != "SubstanceUnits" or one.getElementName() == "kineticLaw"
                if old and getattr(one, f"isSet{what}", bool)():
                    raise self.refusal(one, "units of its own are not supported")

    def _check_packages(self) -> None:
        """Refuse packages that change the core's meaning; libsbml reports unknown ones."""
        document = self.document
        if document.getLevel() < 3:
            return
        if document.getPlugin("comp") is not None:
            # A hierarchical model is flattened.
            flatten = self.libsbml.ConversionProperties()
            flatten.addOption("flatten comp", True)
            flatten.addOption("performValidation", False)
            if document.convert(flatten):
                self._raise_first_error()
                raise ReadError(f"{self.source}: its submodels cannot be made one model")
        known = [document.getPlugin(i).getPackageName() for i in range(document.getNumPlugins())]
        needed = [
            name for name in known if name not in _PACKAGES and document.getPackageRequired(name)
        ]
        if needed:
            raise ReadError(
                f"{self.source}: the document needs the SBML package '{needed[0]}', which ergode "
                "does not support"
            )

    def _raise_first_error(self) -> None:
        for i in range(self.document.getNumErrors()):
            error = self.document.getError(i)
            if error.getSeverity() >= self.libsbml.LIBSBML_SEV_ERROR:
                message = " ".join(error.getMessage().split())
                raise ReadError(f"{self.source}: {self._line(error)}{message}")

    def _refuse_what_cannot_be(self) -> None:
        model = self.model
        for one in model.getListOfConstraints():
            raise self.refusal(one, "constraints are not supported")
        for one in model.getListOfReactions():
            if one.isSetFast() and one.getFast():
                raise self.refusal(one, "fast reactions are not supported")
        for one in (
            *model.getListOfCompartments(), *model.getListOfSpecies(), *model.getListOfParameters(),
        ):  # fmt: skip
            if one.getId() in RESERVED or one.getId() == TIME:
                self._rename(one)
        self._check_units()

    def _rename(self, element: Any) -> None:
        """Append a letter to an id that is a reserved word of formulas."""
        old = element.getId()
        new = f"{old}_"
        while self.model.getElementBySId(new) is not None:
            new += "_"
        element.setId(new)
        every = self.model.getListOfAllElements()
        for k in range(every.getSize()):
            every.get(k).renameSIdRefs(old, new)

    def _check_units(self) -> None:
        """Check that all amounts have the same unit, and that it counts things."""
        model = self.model
        first: tuple[Any, Any] | None = None
        for one in model.getListOfSpecies():
            name = one.getSubstanceUnits() or model.getSubstanceUnits()
            definition = model.getUnitDefinition(name)
            unit: Any = name
            kinds = [(name, 1.0)]
            if definition is not None:
                unit = [
                    (
                        self.libsbml.UnitKind_toString(part.getKind()),
                        part.getExponentAsDouble(), part.getScale(), part.getMultiplier(),
                    )
                    for part in definition.getListOfUnits()
                ]  # fmt: skip
                kinds = [part[:2] for part in unit]
            if name and any(kind not in _UNITS or power != 1 for kind, power in kinds):
                raise self.refusal(
                    one, f"its amount is in '{name}'; expected {', '.join(_UNITS)}, or none"
                )
            first = first or (one, unit)
            if unit != first[1]:
                raise self.refusal(
                    one, f"its amount is in another unit than that of {called(first[0])}"
                )


def called(element: Any) -> str:
    """Kind and id of an element, for messages."""
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in element.getElementName())
    name = element.getIdAttribute() or getattr(element, "getVariable", str)()
    return f"{words} '{name}'" if name else words


def has_formula(element: Any) -> bool:
    """Whether there is an element, with a formula."""
    return element is not None and bool(element.isSetMath())


def is_amount(species: Any, place: Any) -> bool:
    """Whether the name of a species in formulas is an amount, not a concentration."""
    points = place.isSetSpatialDimensions() and place.getSpatialDimensionsAsDouble() == 0
    return bool(species.getHasOnlySubstanceUnits() or points)


def notes_of(element: Any) -> dict[str, str]:
    """The notes that `write_sbml` attached to an element."""
    annotation = element.getAnnotation()
    children = (
        [] if annotation is None else map(annotation.getChild, range(annotation.getNumChildren()))
    )
    for child in children:
        if child.getURI() == ANNOTATION:
            attributes = child.getAttributes()
            return {
                attributes.getName(k): attributes.getValue(k) for k in range(attributes.getLength())
            }
    return {}


def _libsbml(source: str) -> Any:
    try:
        import libsbml
    except ImportError:
        raise ReadError(
            f"{source}: reading SBML needs python-libsbml (pip install python-libsbml)"
        ) from None
    return libsbml
