"""PEtab problems: an SBML model, the conditions of experiments, measurements, and parameters.

References
----------
L. Schmiester et al., PEtab - interoperable specification of parameter estimation problems in
systems biology, PLoS Comput. Biol. 17, e1008646 (2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ergode.core.arguments import as_numbers, did_you_mean, integer
from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, ModelError, PlanError
from ergode.core.status import Status
from ergode.inference.least_squares import least_squares_together
from ergode.models.expressions import TIME, Expression
from ergode.models.reactions.network import ReactionNetwork

if TYPE_CHECKING:
    import pandas
    import xarray

TO_SCALE: dict[str, Callable[[Any], Any]] = {"lin": lambda x: x, "log": np.log, "log10": np.log10}
_FROM_SCALE: dict[str, Callable[[Any], Any]] = {
    "lin": lambda x: x,
    "log": np.exp,
    "log10": lambda x: 10.0**x,
}
# Derivative of a measurement's transformation at m: the density of m itself has this factor.
_LOG_ROOT = 0.5 * math.log(2 * math.pi)
# Added to the logarithm of a scale of noise, so that it is a square: exp(-50) is far below any.
_LIFT = 50.0
_SMALL = 1e-3
_SLOPE: dict[str, Callable[[Any], Any]] = {
    "lin": lambda m: 1.0,
    "log": lambda m: 1 / m,
    "log10": lambda m: 1 / (m * math.log(10)),
}


@dataclass(frozen=True)
class Parameter:
    """A row of the table of parameters; bounds and the nominal value are on the linear scale."""

    name: str
    scale: str  # ``"lin"``, ``"log"`` or ``"log10"``
    lower: float
    upper: float
    nominal: float
    is_estimated: bool


class _Block(NamedTuple):
    """The measurements of one observable in one condition."""

    observable: str
    condition: str
    rows: np.ndarray  # of the table of measurements
    times: np.ndarray
    measured: np.ndarray
    # Names of the placeholders of both formulas: a number or a parameter, for each row.
    overrides: dict[str, list[float | str]]


class PetabProblem:
    """Measurements, and the model whose parameters they determine; made by `read_petab`.

    Attributes
    ----------
    name : str
    network : ReactionNetwork
        The model; all species are continuous.
    parameters : dict of str to Parameter
        Scale, bounds and nominal value of each parameter of the problem.
    conditions, observables, measurements : pandas.DataFrame
        The tables as they are read.
    """

    def __init__(
        self,
        name: str,
        network: ReactionNetwork,
        parameters: dict[str, Parameter],
        conditions: pandas.DataFrame,
        observables: pandas.DataFrame,
        measurements: pandas.DataFrame,
    ) -> None:
        self.name, self.network, self.parameters = name, network, parameters
        self.conditions, self.observables = conditions, observables
        self.measurements = measurements
        self._formulas = {
            row.observableId: (_formula(row.observableFormula), _formula(row.noiseFormula))
            for row in observables.itertuples()
        }
        self._blocks = self._gather()
        self._check()
        self._check_values()

    def __repr__(self) -> str:
        return (
            f"<PetabProblem '{self.name}': {len(self.estimated)} parameters to estimate, "
            f"{len(self.conditions)} conditions, {len(self.measurements)} measurements>"
        )

    @property
    def estimated(self) -> list[str]:
        """Names of the parameters that are estimated."""
        return [name for name, one in self.parameters.items() if one.is_estimated]

    # ---- tables

    def _gather(self) -> list[_Block]:
        table = self.measurements
        blocks = []
        for (observable, condition), rows in table.groupby(
            ["observableId", "simulationConditionId"], sort=False
        ).indices.items():
            part = table.iloc[rows]
            overrides: dict[str, list[float | str]] = {}
            for column, word in (
                ("observableParameters", "observable"), ("noiseParameters", "noise"),
            ):  # fmt: skip
                for k, entry in enumerate(_entries(part, column)):
                    for number, one in enumerate(entry, 1):
                        name = f"{word}Parameter{number}_{observable}"
                        overrides.setdefault(name, [math.nan] * len(part))[k] = one
            blocks.append(
                _Block(
                    str(observable), str(condition), rows, part["time"].to_numpy(float),
                    part["measurement"].to_numpy(float), overrides,
                )
            )  # fmt: skip
        return blocks

    def _check(self) -> None:
        """Refuse names that nothing defines."""
        network = self.network
        quantities = {*network.index, *network.rules, TIME, *network.evaluate_parameters()}
        for block in self._blocks:
            if block.observable not in self._formulas:
                raise ModelError(f"a measurement is of '{block.observable}', which no row defines")
            if block.condition not in self.conditions.index:
                raise ModelError(
                    f"a measurement is in the condition '{block.condition}', which no row defines"
                )
            used = set().union(*(one.names for one in self._formulas[block.observable]))
            known = {*quantities, *self.parameters, *block.overrides, block.observable}
            for name in sorted(used - known):
                raise ModelError(
                    f"the observable '{block.observable}' uses '{name}', which neither the model "
                    f"nor the parameters have{did_you_mean(name, known)}"
                )
            for values in block.overrides.values():
                for one in values:
                    if isinstance(one, str) and one not in self.parameters:
                        raise ModelError(f"a measurement of '{block.observable}' uses '{one}', "
                                         "which is no parameter")  # fmt: skip
        for column in self.conditions.columns:
            if column not in (quantities - {TIME} - {*network.rules}):
                raise ModelError(f"the conditions set '{column}', which the model does not have")

    def _check_values(self) -> None:
        """Refuse measurements and placeholders without a value."""
        for block in self._blocks:
            for number, one in enumerate(block.measured):
                if not math.isfinite(one):
                    raise ModelError(
                        f"a measurement of '{block.observable}' at time {block.times[number]:g} "
                        "has no value"
                    )
            scale = self.observables.loc[block.observable].get("observableTransformation")
            if scale in ("log", "log10") and not (block.measured > 0).all():
                raise ModelError(
                    f"a measurement of '{block.observable}' is not positive; its logarithm is used"
                )
            used = set().union(*(one.names for one in self._formulas[block.observable]))
            wanted = {name for name in used if name.endswith(f"_{block.observable}")
                      and name.startswith(("observableParameter", "noiseParameter"))}  # fmt: skip
            for name in sorted(wanted ^ block.overrides.keys()):
                what = "is missing" if name in wanted else "is given, and no formula uses it"
                raise ModelError(f"'{name}' {what}, for measurements in '{block.condition}'")
            for name, values in block.overrides.items():
                if any(isinstance(one, float) and math.isnan(one) for one in values):
                    raise ModelError(f"'{name}' is missing in a row, in '{block.condition}'")

    # ---- simulation

    def _values(self, values: Mapping[str, Any] | None) -> tuple[dict[str, np.ndarray], int | None]:
        """Value of each parameter, [set]; the number of sets, None without arrays."""
        if values is not None and not isinstance(values, Mapping):
            raise ModelError(f"values is {type(values).__name__}; expected values by parameter")
        given = dict(values or {})
        for name in given:
            if name not in self.parameters:
                hint = did_you_mean(name, self.parameters)
                raise ModelError(f"'{name}' is no parameter of the problem{hint}")
        arrays = {}
        for name, value in given.items():
            array = as_numbers(value)
            if array is None or not array.size:
                raise ModelError(f"the value of '{name}' is {value!r}; expected numbers")
            arrays[name] = array.astype(np.float64)
        counts = {one.size for one in arrays.values() if one.ndim}
        if len(counts) > 1 or any(one.ndim > 1 for one in arrays.values()):
            raise ModelError(f"values have the lengths {sorted(counts)}; expected one length")
        count = counts.pop() if counts else None
        return {
            name: np.broadcast_to(arrays.get(name, np.float64(one.nominal)), (count or 1,))
            for name, one in self.parameters.items()
        }, count

    def _conditioned(
        self, condition: str, known: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """What a condition sets: parameters of the model, sizes, and initial values."""
        row = self.conditions.loc[condition]
        quantities = {*self.network.parameters, *(one.name for one in self.network.compartments)}
        found = {name: value for name, value in known.items() if name in quantities}
        for column in self.conditions.columns:
            entry = row[column]
            if entry in known:
                found[column] = known[entry]
            elif entry not in ("", "NaN", "nan"):
                count = len(next(iter(known.values())))
                found[column] = np.broadcast_to(np.float64(number_of(entry, column)), (count,))
        return found

    def _course(
        self, condition: str, known: Mapping[str, np.ndarray], device: Any, tolerance: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """Times of a condition, values of all quantities [set, time], and which sets failed."""
        from ergode import stochastic

        network = self.network
        times = np.unique(
            np.concatenate([[0.0], *(b.times for b in self._blocks if b.condition == condition)])
        )
        given = self._conditioned(condition, known)
        parameters = network.evaluate_parameters(
            {name: one for name, one in given.items() if name not in network.index}
        )
        initial = {name: given.pop(name) for name in given.keys() & network.index.keys()}
        result = stochastic.simulate(
            network, times=times if times.size > 1 else [0.0, 1.0], parameters=_swept(given),
            initial=_swept(initial) or None, method="hybrid", tolerance=tolerance, device=device,
        )  # fmt: skip
        self._warn_of_small(result)
        found: dict[str, np.ndarray] = {TIME: times[None]}
        for name, value in parameters.items():
            found[name] = np.reshape(value, (-1, 1))
        for variable, dim in (("amount", "species"), ("value", "rule")):
            if variable in result:
                rows = _by_set(result[variable])[..., : times.size, :]
                found |= {str(name): rows[..., k] for k, name in enumerate(result[dim].values)}
        for species in network.species:
            if species.quantity == "concentration" and species.compartment is not None:
                size = found[species.compartment]
                found[species.name] = found[species.name] / size
        return times, found, _by_set(result["status"]) != Status.DONE

    def _warn_of_small(self, result: xarray.Dataset) -> None:
        """Amounts below one have the tolerance as an absolute error."""
        amount = abs(result["amount"])
        largest = amount.max([dim for dim in amount.dims if dim != "species"])
        small = largest.where((largest > 0) & (largest < _SMALL), drop=True)
        if small.size:
            warn(
                f"{', '.join(small['species'].values)} stay below {_SMALL:g}, where amounts have "
                "the tolerance as an absolute error; give the model in other units",
                AccuracyWarning,
            )

    def simulate(
        self, values: Mapping[str, Any] | None = None, *, device: Any = "auto",
        tolerance: float = 1e-8,
    ) -> xarray.Dataset:  # fmt: skip
        """Simulate all measurements.

        Parameters
        ----------
        values : mapping of str to float or array_like, shape [set_count]
            Values of parameters, on the linear scale; nominal ones for the others. Arrays are
            paired: each place is a set of values.
        device : str or Device
        tolerance : float
            Relative error of a step of the equations.

        Returns
        -------
        xarray.Dataset
            `simulation` and `noise`, the observable and the scale of its noise, ``[set,
            measurement]``, and `measured`; `time`, `observable` and `condition` as coordinates;
            and `value` ``[set, parameter]``, from which all this was computed.
            NaN where the equations could not be solved.

        Warns
        -----
        AccuracyWarning
            A species stays below 1e-3: its error is that of `tolerance`, times one.
        """
        import xarray

        known, _ = self._values(values)
        count = len(next(iter(known.values())))
        observed, noise = (np.full((count, len(self.measurements)), np.nan) for _ in range(2))
        for condition in dict.fromkeys(block.condition for block in self._blocks):
            times, course, failed = self._course(condition, known, device, tolerance)
            for block in self._blocks:
                if block.condition == condition:
                    self._observe(block, times, course, known, observed, noise)
                    observed[np.ix_(failed, block.rows)] = np.nan
        table = self.measurements
        return xarray.Dataset(
            {
                "simulation": (("set", "measurement"), observed),
                "noise": (("set", "measurement"), noise),
                "measured": ("measurement", table["measurement"].to_numpy(float)),
                "value": (("set", "parameter"), np.stack([*known.values()], axis=1)),
            },
            {
                "parameter": [*known],
                "time": ("measurement", table["time"].to_numpy(float)),
                "observable": ("measurement", table["observableId"].to_numpy(str)),
                "condition": ("measurement", table["simulationConditionId"].to_numpy(str)),
            },
            {"problem": self.name, "tolerance": tolerance},
        )

    def _observe(
        self, block: _Block, times: np.ndarray, course: Mapping[str, np.ndarray],
        known: Mapping[str, np.ndarray], observed: np.ndarray, noise: np.ndarray,
    ) -> None:  # fmt: skip
        """Write an observable and its noise, [set, measurement]."""
        at = np.searchsorted(times, block.times)
        there: dict[str, Any] = {name: one[:, None] for name, one in known.items()}
        there |= {name: one[:, at] if one.shape[1] > 1 else one for name, one in course.items()}
        for name, entries in block.overrides.items():
            columns = [
                known[one] if isinstance(one, str) else np.full(observed.shape[0], one)
                for one in entries
            ]
            there[name] = np.stack(columns, axis=1)
        formula, scale = self._formulas[block.observable]
        there[block.observable] = np.asarray(formula.evaluate(there))
        observed[:, block.rows] = there[block.observable]
        noise[:, block.rows] = scale.evaluate(there)

    # ---- likelihood

    def objective(
        self, values: Mapping[str, Any] | None = None, *, device: Any = "auto",
        tolerance: float = 1e-8,
    ) -> float | np.ndarray:  # fmt: skip
        """Negative logarithm of the likelihood of all measurements.

        Priors of parameters are not part of it.

        Parameters
        ----------
        values, device, tolerance
            See `simulate`.

        Returns
        -------
        float, or ndarray of shape [set_count]
            Infinite where the equations could not be solved.
        """
        _, count = self._values(values)
        spread, off, laws = self._misfits(values, device, tolerance)
        with np.errstate(invalid="ignore", over="ignore"):
            each = np.where(laws == "laplace", math.log(2) + off, _LOG_ROOT + 0.5 * off**2)
            total = (spread + each).sum(axis=1)
        total = np.where(np.isfinite(total), total, np.inf)
        return float(total[0]) if count is None else total

    def _misfits(
        self, values: Mapping[str, Any] | None, device: Any, tolerance: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Logarithm of the noise's scale, and distance over it, [set, measurement]; the laws."""
        found = self.simulate(values, device=device, tolerance=tolerance)
        spread, off = np.empty((2, *found["simulation"].shape))
        laws = np.empty(len(self.measurements), "U7")
        for block in self._blocks:
            row, rows = self.observables.loc[block.observable], block.rows
            scale = word_of(row, "observableTransformation", TO_SCALE, "lin")
            laws[rows] = word_of(row, "noiseDistribution", ("normal", "laplace"), "normal")
            noise = found["noise"].values[:, rows]
            with np.errstate(invalid="ignore", divide="ignore"):
                observed = TO_SCALE[scale](found["simulation"].values[:, rows])
                off[:, rows] = np.abs(observed - TO_SCALE[scale](block.measured)) / noise
                spread[:, rows] = np.log(noise) - np.log(np.abs(_SLOPE[scale](block.measured)))
        return spread, off, laws

    def fit(
        self, *, starts: int = 10, seed: int = 0, max_evaluations: int = 200,
        device: Any = "auto", tolerance: float = 1e-6,
    ) -> xarray.Dataset:  # fmt: skip
        """Maximise the likelihood between the bounds, from several starts.

        With Laplace noise, whose likelihood has edges, a search may stop short of the minimum:
        `converged` is then false.

        The search is SciPy's trust region for least squares, on the parameters' own scales. A scale
        of noise that is estimated has residuals of its own, so that half of the sum of squares is
        `objective`. Derivatives are central differences. All searches advance together: their
        points are one call.

        Parameters
        ----------
        starts : int
            Number of starts: points of a scrambled Sobol sequence between the bounds.
        seed : int
            Of the sequence.
        max_evaluations : int
            Largest number of steps of each search.
        device : str or Device
        tolerance : float
            Of the search (see `simulate`). Where it ends, the objective is computed with 1e-8.

        Returns
        -------
        xarray.Dataset
            `estimate` ``[start, parameter]`` on the linear scale, `objective` ``[start]``, and
            `converged`, whether the search ended by itself; the best start is the first. NaN where
            the equations could not be solved at the start.

        Raises
        ------
        PlanError
            No parameter is to be estimated, or one has no bounds.
        """
        import xarray
        from scipy.stats import qmc

        each = [self.parameters[name] for name in self.estimated]
        if not each:
            raise PlanError("the problem has no parameter to estimate")
        for one in each:
            if not np.isfinite([one.lower, one.upper]).all():
                raise PlanError(f"parameter '{one.name}' has no bounds, between which to start")
            if one.lower >= one.upper or (one.scale != "lin" and one.lower <= 0):
                raise PlanError(
                    f"parameter '{one.name}' has the bounds {one.lower:g} and {one.upper:g} on the "
                    f"scale '{one.scale}'"
                )
        low, high = (
            np.array([float(TO_SCALE[one.scale](getattr(one, end))) for one in each])
            for end in ("lower", "upper")
        )
        count = integer("starts", starts, 1, 100_000)
        most = integer("max_evaluations", max_evaluations, 1, 2**31)
        unit = qmc.Sobol(len(each), seed=seed).random_base2((count - 1).bit_length())[:count]

        def linear(places: np.ndarray) -> dict[str, np.ndarray]:
            return {
                one.name: _FROM_SCALE[one.scale](column)
                for one, column in zip(each, places.T, strict=True)
            }

        def residuals(places: np.ndarray) -> np.ndarray:
            spread, off, laws = self._misfits(linear(places), device, tolerance)
            with np.errstate(invalid="ignore", over="ignore"):
                off = np.where(laws == "laplace", np.sqrt(2 * off), off)
                found = np.concatenate([off, np.sqrt(2 * np.maximum(spread + _LIFT, 0.0))], axis=1)
            return np.where(np.isfinite(found).all(axis=1, keepdims=True), found, np.inf)

        ends = least_squares_together(residuals, low + unit * (high - low), low, high, most)
        places = np.array([np.full(len(each), np.nan) if one is None else one.x for one in ends])
        done = np.isfinite(places).all(axis=1)
        values = np.full(count, np.nan)
        if done.any():
            values[done] = self.objective(linear(places[done]), device=device)
        order = np.argsort(values, kind="stable")
        estimate = np.stack(list(linear(places).values()), axis=1)
        smooth = "laplace" not in set(self.observables.get("noiseDistribution", ()))
        converged = np.array([smooth and one is not None and one.status > 0 for one in ends])
        return xarray.Dataset(
            {
                "estimate": (("start", "parameter"), estimate[order]),
                "objective": ("start", values[order]),
                "converged": ("start", converged[order]),
            },
            {"parameter": self.estimated},
            {"problem": self.name, "tolerance": tolerance, "seed": seed},
        )


def _swept(values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Values of one set as numbers."""
    return {name: one if one.size > 1 else float(one[0]) for name, one in values.items()}


def _by_set(array: xarray.DataArray) -> np.ndarray:
    """The values of the only replicate, with the sets first."""
    array = array.isel(replicate=0)
    return array.values if "point" in array.dims else array.values[None]


# ---- reading


def _formula(text: Any) -> Expression:
    return Expression(str(text).replace("ln(", "log("))


def number_of(entry: Any, where: str) -> float:
    try:
        return float(entry)
    except ValueError:
        raise ModelError(f"'{entry}' of '{where}' is neither a number nor a parameter") from None


def word_of(row: Any, column: str, known: Any, default: str) -> str:
    word = row.get(column) or default
    if word not in known:
        raise ModelError(f"{column} is '{word}'; expected one of {', '.join(known)}")
    return word


def _entries(table: pandas.DataFrame, column: str) -> list[list[float | str]]:
    """Numbers and names between semicolons, of each row."""
    if column not in table:
        return [[] for _ in range(len(table))]
    found: list[list[float | str]] = []
    for text in table[column]:
        words = [one.strip() for one in text.split(";")] if text else []
        found.append([_maybe_number(one) for one in words])
    return found


def _maybe_number(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word
