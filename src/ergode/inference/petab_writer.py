"""Files of a PEtab problem, from one that was read or from a fit of a network's equations."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import files
from ergode.core.errors import ModelError
from ergode.core.inputs import inputs
from ergode.inference.petab import Parameter, PetabProblem
from ergode.inference.petab_files import continuous
from ergode.models.fields.networks import network_of
from ergode.readers.sbml_writer import write_sbml

if TYPE_CHECKING:
    import pandas
    import xarray

_TABLES = ("conditions", "observables", "measurements", "parameters")


def write_petab(
    problem: PetabProblem | xarray.Dataset,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> Path:
    """Write a PEtab problem (format version 1): a YAML file, and beside it a model and four tables.

    `read_petab` gives the same problem, with the same objective. Priors are not written.

    Parameters
    ----------
    problem : PetabProblem or xarray.Dataset
        What `read_petab` returns; or the result of `ergode.trajectories.fit` with the field of a
        network, `ergode.field_from_network`. Its estimates are then the nominal values, each swept
        trajectory is a condition, and the noise is normal, with the `deviation` of the fit. Without
        one, it has a parameter `noise`, whose nominal value is the residuals' deviation.
    path : path
        Of the YAML file. The others have its name before theirs: ``decay_model.xml``,
        ``decay_conditions.tsv``, ``decay_observables.tsv``, ``decay_measurements.tsv``,
        ``decay_parameters.tsv``.
    overwrite : bool
        Replace existing files of these names.

    Returns
    -------
    Path
        The path of the YAML file.

    Raises
    ------
    ModelError
        `problem` is neither; the fit begins at another time than 0; or SBML cannot represent the
        network (`write_sbml`).
    PlanError, WriteError
        A name is taken, or a file could not be written.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 1}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0}
    ... )
    >>> found = ergode.trajectories.fit(
    ...     ergode.field_from_network(network), times=[0, 1, 2], data={"X": [1, 0.5, 0.25]},
    ...     initial={"X": 1.0}, parameters={"k": 1.0}, estimate=["k"], bounds={"k": (0.1, 10)},
    ...     deviation={"X": 0.01}, device="cpu",
    ... )
    >>> path = ergode.write_petab(found, pathlib.Path(tempfile.mkdtemp(), "decay.yaml"))
    >>> ergode.read_petab(path)
    <PetabProblem 'decay': 1 parameters to estimate, 1 conditions, 3 measurements>
    """
    if not isinstance(problem, PetabProblem):
        problem = _of_fit(problem, Path(path).stem)
    path = Path(path)
    names = {one: path.with_name(f"{path.stem}_{one}.tsv") for one in _TABLES}
    model = path.with_name(f"{path.stem}_model.xml")
    for one in (path, model, *names.values()):
        files.check_new(one, overwrite=overwrite)
    tables = {
        "conditions": problem.conditions.rename_axis("conditionId").reset_index(),
        "observables": problem.observables,
        "measurements": problem.measurements,
        "parameters": _parameters(problem.parameters),
    }
    write_sbml(problem.network, model, overwrite=overwrite)
    for kind, table in tables.items():
        with files.new_file(names[kind], overwrite=overwrite) as partial:
            table.to_csv(partial, sep="\t", index=False, float_format="%.17g")
    lines = [
        "format_version: 1", f"parameter_file: {names['parameters'].name}", "problems:",
        f"- sbml_files: [{model.name}]", f"  condition_files: [{names['conditions'].name}]",
        f"  observable_files: [{names['observables'].name}]",
        f"  measurement_files: [{names['measurements'].name}]",
    ]  # fmt: skip
    with files.new_file(path, overwrite=overwrite) as partial:
        partial.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _parameters(parameters: Mapping[str, Parameter]) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame(
        [
            {
                "parameterId": one.name, "parameterScale": one.scale, "lowerBound": one.lower,
                "upperBound": one.upper, "nominalValue": one.nominal,
                "estimate": int(one.is_estimated),
            }
            for one in parameters.values()
        ]
    )  # fmt: skip


def _of_fit(found: Any, name: str) -> PetabProblem:
    """The problem that a fit of a network's equations has solved."""
    import pandas

    try:
        given = inputs(found)
        network = network_of(given["field"]) if given.call.endswith("trajectories.fit") else None
    except Exception:  # any object may be given
        network = None
    if network is None:
        raise ModelError(
            f"problem is {type(found).__name__}; expected what ergode.read_petab returns, or the "
            "result of ergode.trajectories.fit with a field of ergode.field_from_network"
        )
    times = np.asarray(given["times"], float)
    if times[0] != 0:
        raise ModelError(f"the fit begins at time {times[0]:g}; a PEtab problem begins at 0")
    estimates = dict(zip(found["parameter"].values.tolist(), found["estimate"].values, strict=True))
    fixed = dict(given["parameters"] or {}) | dict(given["initial"])
    count = next((np.size(one) for one in fixed.values() if np.ndim(one)), 1)
    column = {
        key: [f"initial_{key}" if key in network.index else key] * count
        if key in estimates
        else [repr(float(one)) for one in np.broadcast_to(np.asarray(value, float), (count,))]
        for key, value in fixed.items()
        if key in network.index or key not in estimates
    }
    labels = [f"condition_{k + 1}" for k in range(count)]
    conditions = pandas.DataFrame(column, index=pandas.Index(labels, name="conditionId"), dtype=str)
    deviation = given["deviation"]
    measurements, squares = [], []
    for variable, values in given["data"].items():
        rows = np.broadcast_to(np.asarray(values, float), (count, times.size))
        spread = (
            None
            if deviation is None
            else np.broadcast_to(np.asarray(deviation[variable], float), rows.shape)
        )
        for k, m in zip(*np.nonzero(np.isfinite(rows)), strict=True):
            measurements.append(
                {
                    "observableId": f"observed_{variable}", "simulationConditionId": labels[k],
                    "measurement": rows[k, m], "time": times[m],
                    "noiseParameters": "noise" if spread is None else repr(float(spread[k, m])),
                }
            )  # fmt: skip
        squares.append(np.square(found["residual"].sel(variable=variable).values).ravel())
    observables = pandas.DataFrame(
        [
            {
                "observableId": f"observed_{one}", "observableFormula": one,
                "noiseFormula": f"noiseParameter1_observed_{one}",
            }
            for one in given["data"]
        ]
    )  # fmt: skip
    parameters = {}
    for key, value in estimates.items():
        low, high = (given["bounds"] or {}).get(key, (-math.inf, math.inf))
        label = f"initial_{key}" if key in network.index else key
        parameters[label] = Parameter(label, "lin", low, high, float(value), True)
    if deviation is None:
        noise = math.sqrt(float(np.nanmean(np.concatenate(squares))))
        parameters["noise"] = Parameter("noise", "log10", noise / 1e3, noise * 1e3, noise, True)
    observables = observables.set_index("observableId", drop=False)
    return PetabProblem(
        name,
        continuous(network),
        parameters,
        conditions,
        observables,
        pandas.DataFrame(measurements),
    )
