"""Experiments from SED-ML files and COMBINE archives: courses, steady states, sweeps and plots.

D. Waltemath et al., "Reproducible computational biology experiments with SED-ML", BMC Syst. Biol. 5
198 (2011). What is not supported is refused by name.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from ergode.core.errors import ModelError, ReadError
from ergode.inference.petab_files import continuous
from ergode.inference.sed_task import SedTask
from ergode.models.expressions import Expression
from ergode.readers.bounded import LARGEST, file_of, text_of
from ergode.readers.mathml import NAMESPACE, MathReader
from ergode.readers.sbml import read_sbml

if TYPE_CHECKING:
    import xarray

_TIME = "urn:sedml:symbol:time"
# KiSAO's terms of exact stochastic methods, and of leaps.
_STOCHASTIC = {"27", "28", "29", "38", "82", "241", "331", "333", "350"}
_LEAPS = {"39", "40", "45", "74", "84"}
_MOST_STEPS = 10**8
# Attributes of elements of SBML that are their values.
_VALUES = {
    "parameter": ("value",), "compartment": ("size",),
    "species": ("initialAmount", "initialConcentration"),
}  # fmt: skip
_TARGET = re.compile(r"/(?:\w+:)?(\w+)\[@(?:id|name)=['\"]([^'\"]+)['\"]\](?:/@(\w+))?$")


@dataclass(frozen=True)
class SedGenerator:
    """A formula of quantities of tasks."""

    formula: Expression
    variables: Mapping[str, tuple[str, str]]  # task and quantity of each name
    constants: Mapping[str, float]


@dataclass(frozen=True)
class SedResult:
    """What an experiment gave.

    Attributes
    ----------
    runs : dict of str to xarray.Dataset
        The result of each task.
    data : dict of str to array
        The values of each data generator, shape [..., replicate, time].
    reports : dict of str to dict of str to array
        Data by label, of each report.
    """

    runs: dict[str, xarray.Dataset]
    data: dict[str, np.ndarray]
    reports: dict[str, dict[str, np.ndarray]]
    plots: Mapping[str, tuple[tuple[str, str, bool, bool], ...]]

    def plot(self) -> dict[str, Any]:
        """A figure of matplotlib for each plot of the file; a colour for each curve of it."""
        import matplotlib.pyplot as plt

        figures = {}
        for name, curves in self.plots.items():
            figure, axes = plt.subplots()
            for number, (x, y, log_x, log_y) in enumerate(curves):
                across, up = np.broadcast_arrays(self.data[x], self.data[y])
                across, up = (one.reshape(-1, one.shape[-1]) for one in (across, up))
                # Single curves lie on top of those of many realizations.
                many = len(up) > 1
                thin = {"linewidth": 0.6, "alpha": max(0.15, len(up) ** -0.5), "zorder": 1}
                style = thin if many else {"zorder": 3}
                lines = axes.plot(across.T, up.T, color=f"C{number}", **style)
                lines[0].set_label(f"{y} ({len(up):,})" if many else y)
                axes.set_xscale("log" if log_x else "linear")
                axes.set_yscale("log" if log_y else "linear")
            axes.set_xlabel(", ".join(dict.fromkeys(x for x, *_ in curves)))
            axes.set_ylabel(", ".join(dict.fromkeys(y for _, y, *_ in curves)))
            for handle in axes.legend(frameon=False).get_lines():
                handle.set_alpha(1.0)
            figures[name] = figure
        return figures


@dataclass(frozen=True)
class SedExperiment:
    """The tasks, data, reports and plots of a SED-ML file.

    `reports` and `plots` name data generators.
    """

    tasks: Mapping[str, SedTask]
    generators: Mapping[str, SedGenerator]
    reports: Mapping[str, Mapping[str, str]]
    plots: Mapping[str, tuple[tuple[str, str, bool, bool], ...]]

    def run(self, **options: Any) -> SedResult:
        """Run all tasks; `options` are those of `ergode.stochastic.simulate`."""
        runs = {name: task.run(**options) for name, task in self.tasks.items()}
        data = {}
        for name, one in self.generators.items():
            known: dict[str, Any] = dict(one.constants)
            for variable, (task, of) in one.variables.items():
                known[variable] = self.tasks[task].value_of(of, runs[task])
            data[name] = np.asarray(one.formula.evaluate(known))
        reports = {
            name: {label: data[of] for label, of in columns.items()}
            for name, columns in self.reports.items()
        }
        return SedResult(runs, data, reports, self.plots)


def read_sedml(path: str | os.PathLike[str]) -> SedExperiment:
    """Read a SED-ML file, or the first one in a COMBINE archive (``.omex``).

    Models in SBML with changes of attributes, also computed ones, uniform time courses, single
    steps, steady states, repeated tasks over ranges, also nested ones and those that do not reset
    the model, data generators, reports and two-dimensional plots. A time course by a deterministic
    KiSAO term has real amounts; one by a stochastic term, whole molecules.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    SedExperiment
        ``run()`` simulates its tasks; ``run().plot()`` draws its plots.

    Raises
    ------
    ReadError
        The file is invalid, or has what is not supported, such as changes of a model's XML,
        stochastic repetitions that do not reset the model, and surfaces.

    Examples
    --------
    >>> import ergode
    >>> experiment = ergode.read_sedml("model.omex")  # doctest: +SKIP
    >>> experiment.run().plot()  # doctest: +SKIP
    """
    file = file_of(path)
    if not zipfile.is_zipfile(file):
        return _Reader(str(file), text_of(file), lambda name: text_of(file.parent / name)).read()
    with zipfile.ZipFile(file) as archive:
        sizes = {one.filename.removeprefix("./"): one for one in archive.infolist()}
        names = sorted(name for name in sizes if name.endswith(".sedml"))
        if not names:
            raise ReadError(f"{file}: the archive has no SED-ML file")

        def member(name: str) -> str:
            place = os.path.normpath(PurePosixPath(names[0]).parent / name)
            if place not in sizes or sizes[place].file_size > LARGEST:
                raise ReadError(f"{file}: the archive has no '{name}' that can be read")
            return archive.read(sizes[place]).decode("utf-8-sig", "replace")

        return _Reader(f"{file}/{names[0]}", member(Path(names[0]).name), member).read()


def _parsed(text: str, source: str) -> ElementTree.Element:
    """The root of a document."""
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ReadError(f"{source}: not XML: {error}") from None


def _plain(text: str, source: str) -> ElementTree.Element:
    """The root of a document; its tags have no namespaces."""
    root = _parsed(text, source)
    for one in root.iter():
        one.tag = str(one.tag).rpartition("}")[2]
    return root


class _Reader:
    """Reads one file; `fetch` gives the text of another that it names."""

    def __init__(self, source: str, text: str, fetch: Any) -> None:
        self.source, self.fetch = source, fetch
        self.root = _plain(text, source)
        if self.root.tag != "sedML":
            raise ReadError(f"{source}: the root is '{self.root.tag}'; expected sedML")
        self.by_id = {str(one.get("id")): one for one in self.root.iter() if one.get("id")}
        # MathML keeps its namespace for libsbml.
        pairs = zip(self.root.iter(), ElementTree.fromstring(text).iter(), strict=True)
        self.maths = {one: other.find(f"{{{NAMESPACE}}}math") for one, other in pairs}

    def refuse(self, what: str) -> ReadError:
        return ReadError(f"{self.source}: {what}")

    def refusal(self, one: ElementTree.Element) -> ReadError:
        named = f" '{one.get('id')}'" if one.get("id") else ""
        return self.refuse(f"{one.tag}{named} is not supported")

    def found(self, owner: ElementTree.Element, name: str) -> ElementTree.Element:
        """The element that an attribute names."""
        of = owner.get(name)
        if of not in self.by_id:
            raise self.refuse(
                f"{name} of {owner.tag} '{owner.get('id')}' is {of!r}, which is missing"
            )
        return self.by_id[str(of)]

    def number(self, owner: ElementTree.Element, *names: str) -> float:
        for name in names:
            try:
                if owner.get(name) is not None:
                    return float(str(owner.get(name)))
            except ValueError:
                break
        raise self.refuse(f"{owner.tag} '{owner.get('id')}' needs a number {names[0]}")

    def formula(self, owner: ElementTree.Element) -> Expression:
        """The formula of an element."""
        import libsbml

        what, math = f"{owner.tag} '{owner.get('id')}'", self.maths[owner]
        if math is None:
            raise self.refuse(f"{what} has no formula")
        tree = libsbml.readMathMLFromString(ElementTree.tostring(math, encoding="unicode"))
        try:
            return MathReader(libsbml, {}).expression(tree)
        except ModelError as error:
            raise self.refuse(f"{what}: {error}") from None

    def constants(self, owner: ElementTree.Element) -> dict[str, float]:
        """The parameters of an element with a formula."""
        every = owner.iterfind("listOfParameters/parameter")
        return {str(one.get("id")): self.number(one, "value") for one in every}

    def value(self, owner: ElementTree.Element, known: Mapping[str, Any]) -> Any:
        """The value of the formula of an element."""
        try:
            return self.formula(owner).evaluate({**known, **self.constants(owner)})
        except ModelError as error:
            raise self.refuse(f"{owner.tag} '{owner.get('id')}': {error}") from None

    def steps(self, owner: ElementTree.Element) -> int:
        """How many steps a time course or a range has."""
        count = self.number(owner, "numberOfSteps", "numberOfPoints")
        if not (0 <= count <= _MOST_STEPS and count.is_integer()):
            raise self.refuse(f"{owner.tag} '{owner.get('id')}' has {count:g} steps")
        return int(count)

    def target(self, text: str | None) -> tuple[str, str, str | None]:
        """Tag, id and attribute that an XPath names."""
        match = _TARGET.search(text or "")
        if match is None:
            raise self.refuse(
                f"the target {text!r} is not supported; expected one element by its id"
            )
        return match[1], match[2], match[3]

    def read(self) -> SedExperiment:
        tasks, generators, reports = {}, {}, {}
        plots: dict[str, Any] = {}
        for one in self.root.iterfind("listOfTasks/*"):
            tasks[str(one.get("id"))] = self.task(one)
        for one in self.root.iterfind("listOfDataGenerators/dataGenerator"):
            generators[str(one.get("id"))] = self.generator(one, tasks)
        for one in self.root.iterfind("listOfOutputs/*"):
            name = str(one.get("id"))
            if one.tag == "report":
                reports[name] = {
                    str(column.get("label")): str(self.found(column, "dataReference").get("id"))
                    for column in one.iter("dataSet")
                }
            elif one.tag == "plot2D":
                plots[name] = tuple(
                    (
                        str(self.found(curve, "xDataReference").get("id")),
                        str(self.found(curve, "yDataReference").get("id")),
                        curve.get("logX") == "true",
                        curve.get("logY") == "true",
                    )
                    for curve in one.iter("curve")
                )
            else:
                raise self.refusal(one)
        return SedExperiment(tasks, generators, reports, plots)

    def text_of_model(self, one: ElementTree.Element, above: tuple[str, ...] = ()) -> str:
        """SBML of a model, with its changes; those `above` are made of it."""
        source = one.get("source", "")
        if "sbml" not in one.get("language", "sbml").lower():
            raise self.refuse(f"model '{one.get('id')}' is in {one.get('language')}; expected SBML")
        base = source.removeprefix("#")
        if base in above:
            raise self.refuse(f"model '{base}' is made of itself")
        if base in self.by_id:
            text = self.text_of_model(self.by_id[base], (*above, base))
        else:
            text = self.fetch(source)
        changes = one.findall("listOfChanges/*")
        if not changes:
            return str(text)
        root = _parsed(text, source)
        for change in changes:
            place, attribute = self.place(root, change)
            if change.tag == "changeAttribute":
                place.set(attribute, change.get("newValue", ""))
            elif change.tag == "computeChange":
                known = {}
                for variable in change.iterfind("listOfVariables/variable"):
                    of, which = self.place(root, variable)
                    known[str(variable.get("id"))] = self.number(of, which)
                place.set(attribute, repr(float(self.value(change, known))))
            else:
                raise self.refusal(change)
        return ElementTree.tostring(root, encoding="unicode")

    def place(
        self, root: ElementTree.Element, owner: ElementTree.Element
    ) -> tuple[ElementTree.Element, str]:
        """The element of a model that a target names, and the attribute; it may be its value."""
        tag, name, attribute = self.target(owner.get("target"))
        places = [
            one for one in root.iter() if str(one.tag).endswith("}" + tag) and one.get("id") == name
        ]
        if len(places) == 1:
            usual = [one for one in _VALUES.get(tag, ()) if one in places[0].attrib]
            attribute = attribute or (usual[0] if usual else None)
        if len(places) != 1 or attribute is None:
            raise self.refuse(f"the model has no {tag} '{name}' with the attribute {attribute}")
        return places[0], attribute

    def task(self, one: ElementTree.Element) -> SedTask:
        if one.tag == "repeatedTask":
            return self.repeated(one)
        if one.tag != "task":
            raise self.refusal(one)
        course = self.found(one, "simulationReference")
        if course.tag not in ("uniformTimeCourse", "oneStep", "steadyState"):
            raise self.refusal(course)
        begin, first, end, count = 0.0, 0.0, 1.0, 1
        if course.tag == "uniformTimeCourse":
            begin, first, end = (
                self.number(course, name)
                for name in ("initialTime", "outputStartTime", "outputEndTime")
            )
            count = self.steps(course)
        elif course.tag == "oneStep":
            end = self.number(course, "step")
            if not 0 < end < np.inf:
                raise self.refuse(f"oneStep '{course.get('id')}' has the step {end:g}")
            first, count = end, 0
        algorithm = course.find("algorithm")
        term = "" if algorithm is None else algorithm.get("kisaoID", "")
        term = term.rpartition(":")[2].lstrip("0")
        chance = course.tag != "steadyState" and (term in _STOCHASTIC or term in _LEAPS)
        text = self.text_of_model(self.found(one, "modelReference"))
        network = read_sbml(text, split_reversible=chance)
        if course.tag == "steadyState" and (network.events or network.rate_rules):
            raise self.refuse(
                f"steadyState '{course.get('id')}' of a model with events or rate rules is not "
                "supported"
            )
        times = np.linspace(first, end, count + 1)
        skipped = int(begin < first)
        return SedTask(
            network if chance else continuous(network),
            np.concatenate([[begin], times]) if skipped else times,
            "steady-state"
            if course.tag == "steadyState"
            else "tau-leap"
            if term in _LEAPS
            else "auto"
            if chance
            else "hybrid",
            skipped,
            {},
        )

    def repeated(
        self, one: ElementTree.Element, above: tuple[ElementTree.Element, ...] = ()
    ) -> SedTask:
        if one.tag != "repeatedTask":
            raise self.refusal(one)
        if one in above:
            raise self.refuse(f"repeatedTask '{one.get('id')}' repeats itself")
        subs = one.findall("listOfSubTasks/subTask")
        if len(subs) != 1:
            raise self.refuse(
                f"repeatedTask '{one.get('id')}' has {len(subs)} subtasks; expected one"
            )
        inner = self.found(subs[0], "task")
        base = self.task(inner) if inner.tag == "task" else self.repeated(inner, (*above, one))
        resets = one.get("resetModel", "true") != "false" and base.resets
        if not resets:
            network = base.network
            why = {
                "is nested": bool(above) or bool(base.shape),
                "is stochastic": base.method in ("auto", "tau-leap"),
                "has a model with events, rate rules or compartments that change":
                    bool(network.events) or bool(network.rate_rules)
                    or any(one.compartment in network.rules for one in network.species),
            }  # fmt: skip
            for what in (what for what, there in why.items() if there):
                raise self.refuse(
                    f"repeatedTask '{one.get('id')}' does not reset its model, and {what}, which "
                    "is not supported"
                )
        ranges: dict[str, np.ndarray] = {}
        for each in one.iterfind("listOfRanges/*"):
            ranges[str(each.get("id"))] = self.range(each, ranges)
        count = len(self.named(ranges, one))
        known = {name: values[:count] for name, values in ranges.items()}
        short = [name for name, values in known.items() if len(values) < count]
        if short:
            raise self.refuse(f"the range '{short[0]}' of '{one.get('id')}' has too few values")
        size = max(int(np.prod(base.shape)), 1)
        sweep = {}
        for change in one.iterfind("listOfChanges/setValue"):
            values = np.broadcast_to(self.value(change, known), count)
            sweep[self.target(change.get("target"))[1]] = np.repeat(values, size)
        if not sweep and base.sweep and resets:
            raise self.refuse(f"repeatedTask '{one.get('id')}' changes nothing between repetitions")
        # What an inner repetition sets is set later.
        sweep |= {name: np.tile(values, count) for name, values in base.sweep.items()}
        shape = (count, *base.shape) if sweep or not resets else ()
        return replace(base, sweep=sweep, shape=shape, resets=resets)

    def named(self, ranges: Mapping[str, np.ndarray], owner: ElementTree.Element) -> np.ndarray:
        """The range that an element names."""
        name = str(owner.get("range"))
        if name not in ranges:
            raise self.refuse(f"range of {owner.tag} '{owner.get('id')}' is '{name}', no range")
        return ranges[name]

    def range(self, one: ElementTree.Element, others: Mapping[str, np.ndarray]) -> np.ndarray:
        if one.tag == "vectorRange":
            try:
                return np.array([float(value.text or "") for value in one.iter("value")])
            except ValueError as error:
                raise self.refuse(f"vectorRange '{one.get('id')}': {error}") from None
        if one.tag == "functionalRange":
            count = len(self.named(others, one))
            known = {name: values[:count] for name, values in others.items()}
            return np.broadcast_to(self.value(one, known), count)
        if one.tag != "uniformRange":
            raise self.refusal(one)
        ends = self.number(one, "start"), self.number(one, "end")
        count = self.steps(one) + 1
        make: Any = np.geomspace if one.get("type") == "log" else np.linspace
        return np.asarray(make(*ends, count))

    def generator(self, one: ElementTree.Element, tasks: Mapping[str, SedTask]) -> SedGenerator:
        variables = {}
        for variable in one.iterfind("listOfVariables/variable"):
            task = str(variable.get("taskReference"))
            if task not in tasks:
                raise self.refuse(f"taskReference {task!r} of a variable is no task")
            symbol = variable.get("symbol")
            if symbol not in (None, _TIME):
                raise self.refuse(f"the symbol '{symbol}' is not supported")
            of = "time" if symbol else self.target(variable.get("target"))[1]
            variables[str(variable.get("id"))] = task, of
        return SedGenerator(self.formula(one), variables, self.constants(one))
