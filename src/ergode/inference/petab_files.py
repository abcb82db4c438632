"""The files of a PEtab problem: YAML, tables, and a model in SBML."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, ReadError
from ergode.inference.petab import TO_SCALE, Parameter, PetabProblem, number_of, word_of
from ergode.models.reactions.network import ReactionNetwork
from ergode.readers.bounded import file_of, located, text_of
from ergode.readers.sbml import read_sbml

if TYPE_CHECKING:
    import pandas

_FILES = ("sbml_files", "condition_files", "observable_files", "measurement_files")
_NEEDED = {
    "parameters": ("parameterId", "parameterScale", "nominalValue", "estimate"),
    "conditions": ("conditionId",),
    "observables": ("observableId", "observableFormula", "noiseFormula"),
    "measurements": ("observableId", "simulationConditionId", "measurement", "time"),
}


def read_petab(path: str | os.PathLike[str]) -> PetabProblem:
    """Read a PEtab problem (format version 1) from its YAML file.

    Parameters
    ----------
    path : path
        The YAML file; the files that it names are beside it.

    Returns
    -------
    PetabProblem

    Raises
    ------
    ReadError
        A file or a column is missing, a formula cannot be read, or the problem has something that
        is not supported: steady states before or as a measurement (preequilibration, infinite
        times), and several models. The message names the file.

    Examples
    --------
    >>> import ergode
    >>> problem = ergode.read_petab("decay.yaml")  # doctest: +SKIP
    >>> problem.objective()  # doctest: +SKIP
    -12.4
    """
    return _Reader(file_of(path)).problem()


def continuous(network: ReactionNetwork) -> ReactionNetwork:
    """The network with real amounts of all species."""
    return ReactionNetwork(
        network.species, network.reactions, network.parameters, network.compartments,
        network.rules, network.events, network.name, network.rate_rules,
        [one.name for one in network.species],
    )  # fmt: skip


def _yaml(path: Path) -> Any:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError:
        raise ReadError(
            "reading PEtab needs ruamel.yaml and python-libsbml: pip install 'ergode[petab]'"
        ) from None
    try:
        return YAML(typ="safe", pure=True).load(text_of(path))
    except YAMLError as error:
        raise ReadError(f"{path}: not YAML: {error}") from None


class _Reader:
    """Reads the files of one problem."""

    def __init__(self, path: Path) -> None:
        self.path = path
        found = _yaml(path)
        if not isinstance(found, dict):
            raise ReadError(f"{path}: expected a mapping with 'problems'")
        version = str(found.get("format_version", "1"))
        if not version.startswith("1"):
            raise ReadError(f"{path}: format_version is {version}; expected 1")
        problems = found.get("problems")
        if not isinstance(problems, list) or len(problems) != 1:
            raise ReadError(f"{path}: expected one entry of 'problems'")
        self.files = {name: self._list(problems[0], name) for name in _FILES}
        self.files["parameter_files"] = self._list(found, "parameter_file")
        if len(self.files["sbml_files"]) != 1:
            raise ReadError(f"{path}: expected one model in 'sbml_files'")

    def _list(self, where: Mapping[str, Any], name: str) -> list[Path]:
        names = where.get(name)
        if not names:
            raise ReadError(f"{self.path}: '{name}' is missing")
        return [
            self.path.parent / str(one) for one in (names if isinstance(names, list) else [names])
        ]

    def _table(self, kind: str) -> pandas.DataFrame:
        import pandas

        parts = []
        for file in self.files[f"{kind.removesuffix('s')}_files"]:
            part = pandas.read_csv(
                io.StringIO(text_of(file)), sep="\t", dtype=str, keep_default_na=False
            )
            part = part.rename(columns=str.strip)
            for column in _NEEDED[kind]:
                if column not in part:
                    raise ReadError(f"{file}: the column '{column}' is missing")
            parts.append(part)
        table = pandas.concat(parts, ignore_index=True)
        for column in table.columns:
            table[column] = table[column].str.strip()
        return table

    def problem(self) -> PetabProblem:
        (model,) = self.files["sbml_files"]
        network = continuous(read_sbml(model, split_reversible=False))
        conditions = self._once("conditions", "conditionId").set_index("conditionId", drop=True)
        conditions = conditions.drop(columns=["conditionName"], errors="ignore")
        measurements = self._measurements()
        observables = self._once("observables", "observableId")
        observables = observables.set_index("observableId", drop=False)
        with located(self.path):
            return PetabProblem(
                self.path.stem, network, self._parameters(), conditions, observables, measurements
            )

    def _once(self, kind: str, column: str) -> pandas.DataFrame:
        """A table without repeated names."""
        table = self._table(kind)
        twice = table[column][table[column].duplicated()]
        if len(twice):
            raise ReadError(
                f"{self.files[kind.removesuffix('s') + '_files'][0]}: '{twice.iloc[0]}' is listed "
                "twice"
            )
        return table

    def _measurements(self) -> pandas.DataFrame:
        table = self._table("measurements")
        file = self.files["measurement_files"][0]
        before = table.get("preequilibrationConditionId")
        if before is not None and (before != "").any():
            raise ReadError(f"{file}: conditions before the experiment are not supported")
        for column in ("measurement", "time"):
            try:
                table[column] = table[column].replace("", "nan").astype(float)
            except ValueError:
                raise ReadError(
                    f"{file}: the column '{column}' has a value that is no number"
                ) from None
        if not len(table):
            raise ReadError(f"{file}: there are no measurements in it")
        if not np.isfinite(table["time"]).all():
            raise ReadError(f"{file}: measurements of the steady state are not supported")
        if (table["time"] < 0).any():
            raise ReadError(f"{file}: a time is negative")
        return table

    def _parameters(self) -> dict[str, Parameter]:
        found = {}
        table, file = self._once("parameters", "parameterId"), self.files["parameter_files"][0]
        if "objectivePriorType" in table and (table["objectivePriorType"] != "").any():
            warn(f"{file}: priors are not part of the objective", AccuracyWarning)
        for row in table.to_dict("records"):
            name = row["parameterId"]
            if row["estimate"] not in ("0", "1"):
                raise ReadError(
                    f"{file}: estimate of '{name}' is {row['estimate']!r}; expected 0 or 1"
                )
            if not row["nominalValue"] and row["estimate"] == "0":
                raise ReadError(f"{file}: '{name}' has no nominalValue")
            scale = word_of(row, "parameterScale", TO_SCALE, "lin")
            lower, upper, nominal = (
                number_of(row.get(key) or "nan", name)
                for key in ("lowerBound", "upperBound", "nominalValue")
            )
            found[name] = Parameter(name, scale, lower, upper, nominal, row["estimate"] == "1")
        return found
