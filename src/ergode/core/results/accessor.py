"""The xarray accessor ``dataset.ergode``. Importing this module registers it."""

from __future__ import annotations

from html import escape
from typing import Any

import xarray
from numpy.typing import ArrayLike

from ergode.core.errors import ErgodeError
from ergode.core.inputs import ATTRIBUTE, inputs
from ergode.core.notebook import Table, card
from ergode.core.results.dense_output import ALL, solution
from ergode.core.results.sparklines import sparklines
from ergode.core.status import failures, has_failed

# Public calls that take a result, what they do, and the variable that they need.
TAKE_RESULTS = (
    ("plots.epidemic_curves", "curves with bands", "cases"),
    ("epidemics.summary", "attack rate, peak", "cases"),
    ("epidemics.incidence", "new infections in each interval", "cases"),
    ("epidemics.observe", "reports, with delays and what is missed", "cases"),
    ("epidemics.flows", "entries and exits in each interval", "entries"),
    ("epidemics.transmission_tree", "who infected whom", "infector"),
    ("plots.realizations", "amounts over time", "amount"),
    ("plots.amounts", "the distribution of a species", "amount"),
    ("stochastic.autocorrelation", "how long amounts are remembered", "amount"),
    ("plots.abundances", "amounts over time, logarithmic", "concentration"),
    ("plots.abundances", "abundances over time, logarithmic", "mass_fraction"),
    ("plots.trajectories", "over time, or in phase space", "state"),
    ("plots.fitted", "data, fitted curves and residuals", "residual"),
    ("plots.density_strip", "a variable with its deviation over time", "covariance"),
    ("plots.density", "the density at a time", "covariance"),
    ("plots.scenario_differences", "differences with bands", "scenario"),
)


@xarray.register_dataset_accessor("ergode")
class Accessor:
    """``dataset.ergode`` of a Dataset that an engine returned."""

    def __init__(self, dataset: xarray.Dataset) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        engine, facts = self._facts()
        lines = [f"<result of {engine}: {'; '.join(f'{k} {v}' for k, v in facts.items() if v)}>"]
        return "\n".join([*lines, *(f"  {call:36} {what}" for call, what in self._possible())])

    def _repr_html_(self) -> str:
        engine, facts = self._facts()
        shown = {k: v for k, v in facts.items() if v is not None}
        pictures, calls = sparklines(self._dataset), self._possible()
        tables = [Table(("what it can do", ""), calls, len(calls))]
        if pictures:
            tables.insert(0, Table(("", "from, to", ""), pictures, len(pictures)))
        return card(f"Result of {engine}", shown, *tables) + self._inputs()

    def _inputs(self) -> str:
        """What was run, to be opened in a notebook."""
        if ATTRIBUTE not in self._dataset.attrs:
            return ""
        try:
            text = repr(inputs(self._dataset))
        except ErgodeError as error:  # of a file that was changed
            text = str(error)
        return f"<details><summary>inputs</summary><pre>{escape(text)}</pre></details>"

    def _facts(self) -> tuple[str, dict[str, Any]]:
        """The engine, and what was run, how, how well and how long."""
        attrs, status = self._dataset.attrs, self._dataset.get("status")
        failed = None if status is None else int(has_failed(status.values).sum())
        seconds = attrs.get("wall_seconds", attrs.get("run_seconds"))
        return str(attrs.get("engine", "ergode")), {
            "method": attrs.get("method"),
            "size": ", ".join(f"{dim} {size:,}" for dim, size in self._dataset.sizes.items()),
            "time unit": attrs.get("time_unit"),
            "members": None if failed is None or status is None
            else f"{status.size:,}, all well" if not failed
            else f"{failed:,} of {status.size:,} failed",
            "device": attrs.get("device_model", attrs.get("device")),
            "wall time": None if seconds is None else f"{float(seconds):.3g} s",
        }  # fmt: skip

    def _possible(self) -> list[tuple[str, str]]:
        """Calls that take this result, and what they do."""
        dataset = self._dataset
        found = [("ergode.save(result, path)", "writes it to a file")]
        if ATTRIBUTE in dataset.attrs:
            found.append(("ergode.inputs(result)", "what it was computed from; makes it again"))
        if "status" in dataset:
            found.append((".ergode.raise_for_status()", "an error if a member failed"))
        if any(str(name).startswith(ALL) for name in dataset):
            found.append((".ergode.solution(t)", "states at any time"))
        if "replicate" in dataset.dims:
            found.append(("ergode.compare(result, others)", "differences of scenarios"))
        if "draw" in dataset.dims:
            found.append(("arviz.convert_to_inference_data", "diagnostics and figures by ArviZ"))
        rooms = (str(dataset.attrs.get("engine", "")), "plots")
        return found + [
            (f"ergode.{call}(result)", what) for call, what, needed in TAKE_RESULTS
            if call.partition(".")[0] in rooms and needed in dataset
        ]  # fmt: skip

    def raise_for_status(self) -> xarray.Dataset:
        """Return the Dataset if no replicate failed.

        Raises
        ------
        ErgodeError
            Some replicates failed (the message says how many, and why), or there is no `status`.
        """
        if "status" not in self._dataset:
            raise ErgodeError("this Dataset has no variable 'status' to tell how replicates ended")
        status = self._dataset["status"]
        first = int(self._dataset.attrs.get("first_replicate", 0))
        failed = failures(status.values, [str(dim) for dim in status.dims], first)
        if failed:
            raise ErgodeError(" ".join(failed.values()))
        return self._dataset

    def solution(self, t: ArrayLike) -> xarray.DataArray | xarray.Dataset:
        """States at any times, of a result of ``trajectories.integrate(..., dense_output=True)``.

        Parameters
        ----------
        t : float or array_like, shape [time_count]
            Times of the run, in any order [time].

        Returns
        -------
        xarray.DataArray or xarray.Dataset
            state(<swept dims>, time, variable), without the dim time of a single time; of arrays a
            Dataset of all variables by name. At the moment of an event it is the state before it;
            after the last step it is NaN.

        Raises
        ------
        ErgodeError
            The Dataset has no dense output, or a time is outside of the run.

        Examples
        --------
        >>> import ergode
        >>> def decay(t, y, p):
        ...     return (-y[0],)
        >>> result = ergode.trajectories.integrate(
        ...     ergode.VectorField(decay, ["y"]), times=[0, 1], initial={"y": 1.0},
        ...     dense_output=True, device="cpu",
        ... )
        >>> result.ergode.solution([0.25, 0.5]).dims
        ('time', 'variable')
        """
        return solution(self._dataset, t)
