"""Tasks of SED-ML: a time course, a step, or a steady state of a model, once or in repetitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.errors import ReadError
from ergode.models.reactions.network import ReactionNetwork
from ergode.stochastic import simulate
from ergode.stochastic.linear_noise import start_of, steady_state
from ergode.stochastic.macroscopic import Macroscopic

if TYPE_CHECKING:
    import xarray

_STEADY = 1e-9  # relative error of steady states


@dataclass(frozen=True)
class SedTask:
    """A time course or a steady state of a model, and what is swept.

    Attributes
    ----------
    network : ReactionNetwork
    times : array, shape [time_count]
        Begin of the simulation, and the times of results.
    method : str
        ``"hybrid"`` with real amounts, ``"auto"`` or ``"tau-leap"``, from the file's KiSAO term;
        ``"steady-state"`` for the real amounts at which nothing changes any more.
    skipped : int
        Times at the begin that are no results.
    sweep : mapping of str to array
        Values of parameters or initial values of species, changed together.
    shape : tuple of int
        Lengths of the repetitions, from the outer one; their product is the length of a sweep.
    resets : bool
        Whether each repetition begins with the initial amounts; else where the one before ended.
    """

    network: ReactionNetwork
    times: np.ndarray
    method: str
    skipped: int
    sweep: Mapping[str, np.ndarray]
    shape: tuple[int, ...] = ()
    resets: bool = True

    def run(self, **options: Any) -> xarray.Dataset:
        """Simulate the task; `options` are those of `ergode.stochastic.simulate`.

        A steady state is that to which the amounts tend from the initial ones; sums that the
        reactions conserve are kept.

        Raises
        ------
        PlanError
            The simulation is not possible; there is no steady state.
        """
        apart: dict[str, dict[str, np.ndarray]] = {"initial": {}, "parameters": {}}
        for name, values in self.sweep.items():
            apart["initial" if name in self.network.index else "parameters"][name] = values
        if self.method == "steady-state":
            return self._steady(apart)
        if self.method == "hybrid":
            options["replicates"] = 1
        if not self.resets:
            return self._in_turn(apart, options)
        options = {"method": self.method, **apart, **options}
        return simulate(self.network, times=self.times, **options)

    def _steady(self, apart: Mapping[str, Mapping[str, np.ndarray]]) -> xarray.Dataset:
        """Steady states, as a result at one time, which is infinite."""
        import xarray

        rows: list[np.ndarray] = []
        values: list[np.ndarray] = []
        for k in range(int(np.prod(self.shape)) if self.sweep else 1):
            initial, parameters = (
                {name: float(of[k]) for name, of in apart[part].items()}
                for part in ("initial", "parameters")
            )
            if rows and not self.resets:
                initial = self._begin_at(rows[-1][0, 0], parameters) | initial
            equations = Macroscopic(self.network, parameters, floor=0.0)
            start = start_of(equations, initial)
            amounts, _ = steady_state(equations, start, np.array([0.0, 1.0]), _STEADY)
            rows.append(amounts[None, None])
            if self.network.rules:
                values.append(equations.rules(amounts, 0.0)[None, None])
        first = ("point", "replicate", "time")
        arrays: dict[str, Any] = {"amount": ((*first, "species"), np.stack(rows))}
        if values:
            arrays["value"] = ((*first, "rule"), np.stack(values))
        found = xarray.Dataset(arrays, {
            "time": [np.inf], "species": [one.name for one in self.network.species],
            "rule": list(self.network.rules),
        })  # fmt: skip
        return found if self.sweep else found.isel(point=0)

    def _in_turn(
        self, apart: Mapping[str, Mapping[str, np.ndarray]], options: Mapping[str, Any]
    ) -> xarray.Dataset:
        """Simulate repetitions one after the other. Each begins where the last one ended."""
        import xarray

        amounts: dict[str, float] = {}
        found = []
        for k in range(self.shape[0]):
            now = {name: of[k] for name, of in apart["initial"].items()}
            given = {"method": self.method, **options, "initial": amounts | now}
            given["parameters"] = {name: of[k] for name, of in apart["parameters"].items()}
            found.append(simulate(self.network, times=self.times, **given))
            last = found[-1]["amount"].values[0, -1]
            amounts = self._begin_at(last, given["parameters"])
        return xarray.concat(found, "point", combine_attrs="drop_conflicts")

    def _begin_at(self, amounts: np.ndarray, parameters: Mapping[str, float]) -> dict[str, float]:
        """Initial values of the species that are these amounts."""
        known = self.network.evaluate_parameters(parameters)
        return {
            one.name: n / known[str(one.compartment)]
            if one.quantity == "concentration" and one.compartment is not None else n
            for one, n in zip(self.network.species, amounts, strict=True)
        }  # fmt: skip

    def value_of(self, name: str, result: xarray.Dataset) -> np.ndarray:
        """A quantity over time, or the ``time``, from a result: [..., replicate, time]."""
        shape = result["amount"].shape[:-1]
        known = self.network.evaluate_parameters()
        found: Any
        if name == "time":
            found = result["time"].values
        elif name in self.network.index:
            found = result["amount"].sel(species=name).values
            member = self.network.species[self.network.index[name]]
            if member.quantity == "concentration" and member.compartment is not None:
                found = found / self.value_of(member.compartment, result)
        elif "value" in result and name in result["rule"].values:
            found = result["value"].sel(rule=name).values
        elif name in self.sweep:
            found = np.asarray(self.sweep[name])[:, None, None]
        elif name in known:
            found = known[name]
        else:
            raise ReadError(f"the model has no '{name}'")
        found = np.broadcast_to(found, shape)[..., self.skipped :]
        return found.reshape(*self.shape, *found.shape[1:]) if self.shape else found
