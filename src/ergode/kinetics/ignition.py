"""Ignition delays: the time until a hot mixture burns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.arguments import by_name, check_switch, choice, did_you_mean, number
from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, ModelError
from ergode.core.inputs import recorded
from ergode.core.results import SWEPT, Variable
from ergode.core.status import Status
from ergode.core.stopwatch import Stopwatch
from ergode.core.words import counted
from ergode.kinetics.compositions import check_no_surface, composition_of
from ergode.kinetics.ignition_criteria import located
from ergode.kinetics.integrate import integrate
from ergode.kinetics.methods import MethodName
from ergode.kinetics.over_time import Trajectory
from ergode.kinetics.physics.energy import enthalpies, polynomials_of
from ergode.kinetics.physics.gas_equilibrium import equilibrate
from ergode.kinetics.pistons import Piston
from ergode.kinetics.walls import Wall
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.thermochemistry import Molecule
from ergode.models.sweep import POINT

if TYPE_CHECKING:
    import xarray

_Heating = Literal["constant-volume", "constant-pressure", "given-volume", "given-pressure"]
_VOLUMES = "constant-volume", "given-volume"
_DIMS = ("temperature", "pressure", "equivalence_ratio")
# Atoms of oxygen that one atom of each element consumes.
_OXYGEN = {"C": 2.0, "H": 0.5, "O": -1.0}
_SHARE = 0.25  # of the rise of the temperature in equilibrium: less is a cool flame
_NOISE = 10.0  # rises below this many relative tolerances are not resolved
_BEYOND = 1.25  # how much longer is integrated, to see that the heating has slowed down

results.register(
    "kinetics",
    "ignition",
    [
        Variable(
            "ignition_delay", (SWEPT,), "float64", "s",
            "time until ignition by the criterion; NaN where nothing ignited",
        ),
        Variable("final_temperature", (SWEPT,), "float64", "K", "temperature at the end"),
        Variable("step_count", (SWEPT,), "int64", "1", "steps that were accepted"),
        Variable("status", (SWEPT,), "uint8", "1", "how the reactor ended (see Status)"),
    ],
)  # fmt: skip


@recorded({name: name for name in _DIMS})
def ignition_delay(
    network: ReactionNetwork,
    *,
    temperature: ArrayLike,
    pressure: ArrayLike,
    fuel: str | Mapping[str, float] | None = None,
    oxidizer: Mapping[str, float] | None = None,
    equivalence_ratio: ArrayLike = 1.0,
    mixture: Mapping[str, ArrayLike] | None = None,
    duration: float = 1.0,
    heating: _Heating = "constant-volume",
    volume: Trajectory | Callable[[float], float] | Piston | None = None,
    pressure_ratio: Trajectory | Callable[[float], float] | None = None,
    wall: Wall | None = None,
    rate_factors: ArrayLike | None = None,
    criterion: str | float = "temperature",
    paired: bool = False,
    method: MethodName = "auto",
    rtol: float = 1e-5,
    device: str | devices.Device = "auto",
    progress: bool = False,
) -> xarray.Dataset:
    """Ignition delays over a grid of temperature, pressure and equivalence ratio, in one call.

    Parameters
    ----------
    network : ReactionNetwork
        Of molecules with NASA polynomials, as from `ergode.read_cantera`.
    temperature : array_like, shape [temperature_count]
        At the start [K].
    pressure : array_like, shape [pressure_count]
        At the start [dyn/cm2] (1 atm is 1.01325e6).
    fuel, oxidizer : mapping of str to float, optional
        Moles of each species; a fuel of one species may be its name.
    equivalence_ratio : array_like, shape [ratio_count]
        Fuel over oxidizer, relative to complete combustion.
    mixture : mapping of str to float or array_like, shape [mixture_count], optional
        Moles of each species of the whole mixture, instead of `fuel` and `oxidizer`; arrays are
        for `paired`. The result then has no dimension ``equivalence_ratio``.
    duration : float
        How long to wait for ignition [s].
    heating : {"constant-volume", "constant-pressure", "given-volume", "given-pressure"}
        Which reactor.
    volume : Trajectory, function or Piston, optional
        The volume over time of all mixtures, for ``"given-volume"``: a rapid compression machine;
        or a `Piston` that the mixture moves.
        Only ratios matter. A function is evaluated up to 1.25 times `duration`.
    pressure_ratio : Trajectory or function, optional
        The pressure over time of all mixtures, over that at the start, for ``"given-pressure"``: a
        shock tube whose pressure rises, or a measured trace. Only ratios matter.
    wall : Wall, optional
        A wall through which all mixtures lose heat (see `Wall`).
    rate_factors : array_like, shape [reaction_count] or [point_count, reaction_count], optional
        As for `integrate`; every point has all mixtures.
    criterion : str or float
        When a mixture ignites: ``"temperature"``, when the temperature rises fastest (by reactions
        alone, where volume or pressure are given over time);
        ``"pressure"``, when the pressure rises fastest (not at a given pressure); the name of a
        species, such as ``"OH"`` or ``"CH*"``, when its concentration is largest; or a rise of the
        temperature [K], when it is reached. All but the first repeat the integration to
        find the time within 1e-4.
    paired : bool
        Whether temperature, pressure, and equivalence ratio or `mixture`, are lists of equal
        length, or single numbers: the conditions of one mixture after another, such as a list of
        experiments. The result then has the dimension ``mixture``.
    method, rtol, device, progress
        As for `integrate`.

    Returns
    -------
    xarray.Dataset
        ignition_delay(temperature, pressure, equivalence_ratio) [s], and final_temperature. A
        mixture has ignited if within `duration` the temperature has risen by a quarter of the rise
        in chemical equilibrium, and rises more slowly than before. Where volume or pressure are
        given over time, or with a wall, the reactions must have released a quarter of the heat, and
        the delay includes the time of the compression. A mixture that did not ignite, that does not
        reach the rise of the `criterion`, or whose species is most at the start, has NaN; an
        `AccuracyWarning` tells how many.
        With several rows of `rate_factors` the dimension ``point`` comes first.

    Raises
    ------
    ModelError
        See `integrate`; or the oxidizer cannot burn the fuel; or neither a fuel with its oxidizer
        nor a mixture is given.
    PlanError
        See `integrate`; or the duration is not a positive number.
    """
    stopwatch = Stopwatch()
    choice("heating", heating, get_args(_Heating), error=ModelError)
    duration = number("duration", duration, above=0)
    check_switch("ignition_delay", "paired", paired)
    own = _own_mixture(network, mixture, fuel, oxidizer, equivalence_ratio)
    every = {"temperature": temperature, "pressure": pressure}
    if own is None:
        every["equivalence_ratio"] = equivalence_ratio
    axes = {name: np.atleast_1d(np.asarray(a, np.float64)) for name, a in every.items()}
    for name, axis in axes.items():
        if axis.ndim != 1 or not axis.size or not (np.isfinite(axis) & (axis > 0)).all():
            raise ModelError(f"{name} is {axis}; expected positive numbers")
    dims, coords = tuple(axes), dict[str, Any](axes)
    shape = tuple(axis.size for axis in axes.values())
    if paired:
        axes, own = _paired(axes, own)
        shape, dims = (axes["temperature"].size,), ("mixture",)
        coords = {name: ("mixture", axis) for name, axis in axes.items()}
    else:
        if any(row.size > 1 for row in (own or {}).values()):
            raise ModelError("mixture has lists; expected numbers, or paired=True")
        crossed = np.meshgrid(*axes.values(), indexing="ij")
        axes = {name: axis.ravel() for name, axis in zip(axes, crossed, strict=True)}
    hot, dense = axes["temperature"], axes["pressure"]
    if own is None:
        initial, told = _burnt(network, fuel, oxidizer, axes["equivalence_ratio"])
    else:
        initial = {name: np.array(np.broadcast_to(row, hot.size)) for name, row in own.items()}
        told = {"mixture": _mixture(own)}
    _check_criterion(network, criterion, heating)
    options: dict[str, Any] = {"heating": heating, "method": method, "rtol": rtol, "device": device}
    if wall is not None:
        _check_wall(wall)
        options["wall"] = wall
    if volume is not None:
        if isinstance(volume, Piston) and max(volume.sizes.values()) > 1:
            raise ModelError("volume has several values; expected one piston for all mixtures")
        options["volume"] = volume
    check_no_surface(network, "ignition_delay is for gases")
    squeezed = _pressures(heating, pressure_ratio)
    factors = None if rate_factors is None else np.asarray(rate_factors, np.float64)
    found = integrate(
        network, times=[0.0, duration, _BEYOND * duration], initial=initial, temperature=hot,
        pressure=squeezed(dense), progress=progress, rate_factors=factors, **options,
    )  # fmt: skip
    size, points = hot.size, 1
    if factors is not None and factors.ndim > 1:
        points = len(factors)
        dims, shape, hot = (POINT, *dims), (points, *shape), np.tile(hot, points)
        attrs = found.attrs
        found = found.stack({"every": (POINT, "zone")}).transpose("every", ...)
        found.attrs = attrs
    final, delay = found["temperature"].values[:, 1], found["steepest_time"].values
    molecules: list[Any] = [one.thermochemistry for one in network.species]
    amounts = found["concentration"].values
    burned = equilibrate(molecules, amounts[:, 0], hot, "UV" if heating in _VOLUMES else "HP")
    least = np.where(burned.converged, _SHARE * (burned.temperature - hot), 0.0)
    good = found["status"].values == Status.DONE
    rise = final - hot
    if wall is not None or heating.startswith("given"):
        # What reactions alone would warm: their heat, over that of the way to equilibrium.
        heats = enthalpies(polynomials_of(molecules), hot)
        mass = found["density"].values[:, :2]
        specific = amounts[:, 1] * (mass[:, :1] / mass[:, 1:])
        whole = ((amounts[:, 0] - burned.amounts) * heats).sum(axis=1)
        rise = ((amounts[:, 0] - specific) * heats).sum(axis=1) / whole
        rise *= burned.temperature - hot
    good &= rise > np.maximum(least, _NOISE * rtol * hot)
    # While the temperature rises ever faster, a mixture has not ignited yet.
    good &= delay <= duration
    if criterion != "temperature" and good.any():

        def run(zones: np.ndarray, times: np.ndarray) -> xarray.Dataset:
            point, zones = zones[0] // size, zones % size
            own = factors if factors is None or factors.ndim == 1 else factors[point]
            some = {name: row[zones] for name, row in initial.items()}
            return integrate(
                network, times=times, initial=some, temperature=hot[zones],
                pressure=squeezed(dense[zones]), rate_factors=own, **options,
            )  # fmt: skip

        delay = np.where(good, delay, np.nan)
        for point in range(points):
            which = point * size + np.flatnonzero(good[point * size : (point + 1) * size])
            if which.size:
                delay[which] = located(criterion, run, which, delay[which], duration)
        good &= (delay > 0.0) & (delay <= duration)
    if not good.all():
        hint = "; pressure is in dyn/cm2, and 1 atm is 1.01325e6" if dense.min() < 1e5 else ""
        warn(
            f"{np.count_nonzero(~good)} of {good.size} mixtures did not ignite within "
            f"{duration:g} s; their ignition_delay is NaN{hint}",
            AccuracyWarning,
        )
    values = {
        "ignition_delay": np.where(good, delay, np.nan),
        "final_temperature": final,
        "step_count": found["step_count"].values,
        "status": found["status"].values,
    }
    return results.dataset(
        "kinetics",
        "ignition",
        {name: value.reshape(shape) for name, value in values.items()},
        swept=dims,
        coords=coords,
        attrs=found.attrs
        | stopwatch.seconds()
        | {
            "reactor": heating,
            "criterion": criterion,
            "duration": duration,
        }
        | told,
    )


def _pressures(heating: str, ratio: Any) -> Callable[[np.ndarray], Any]:
    """Make pressures at the start those over time."""
    if (heating == "given-pressure") != (ratio is not None):
        raise ModelError(
            f"heating is '{heating}', and pressure_ratio is "
            f"{'given' if ratio is not None else 'not'}; each needs the other"
        )
    if ratio is None:
        return lambda pressure: pressure
    if isinstance(ratio, Trajectory):
        if ratio.values.ndim > 1:
            raise ModelError("pressure_ratio has rows; expected one row for all mixtures")
        first = float(np.interp(0.0, ratio.times, ratio.values))
        return lambda pressure: Trajectory(ratio.times, np.outer(pressure / first, ratio.values))
    if not callable(ratio):
        raise ModelError(f"pressure_ratio is {ratio!r}; expected a Trajectory or a function")
    return lambda pressure: lambda time: pressure / float(ratio(0.0)) * float(ratio(time))


def _check_wall(wall: Any) -> None:
    if isinstance(wall, Wall) and max(wall.sizes.values()) > 1:
        raise ModelError("wall has several values; expected one wall for all mixtures")


def _own_mixture(
    network: ReactionNetwork, mixture: Any, fuel: Any, oxidizer: Any, ratio: ArrayLike
) -> dict[str, np.ndarray] | None:
    """Moles by name of the species; None if a fuel and an oxidizer are given."""
    if mixture is None:
        if fuel is None or oxidizer is None:
            raise ModelError(
                f"{'fuel' if fuel is None else 'oxidizer'} is not given; expected a fuel and an "
                "oxidizer, or a mixture"
            )
        return None
    for name, value in (("fuel", fuel), ("oxidizer", oxidizer)):
        if value is not None:
            raise ModelError(f"{name} and mixture are given; expected one of them")
    if np.any(np.asarray(ratio) != 1.0):
        raise ModelError("equivalence_ratio has no effect on a mixture; leave it out")
    rows = composition_of(network, by_name("mixture", mixture, "moles"), "mixture")
    if not any(np.any(row > 0) for row in rows.values()):
        raise ModelError("mixture is empty; expected moles of at least one species")
    return {network.species[i].name: row for i, row in rows.items()}


def _burnt(
    network: ReactionNetwork, fuel: Any, oxidizer: Any, ratio: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Moles of mixtures with these equivalence ratios, and what is told of them."""
    burnt = {fuel: 1.0} if isinstance(fuel, str) else by_name("fuel", fuel, "moles")
    oxidizer = by_name("oxidizer", oxidizer, "moles, such as {'O2': 1, 'N2': 3.76}")
    needed = _oxygen(network, burnt)
    offered = -_oxygen(network, oxidizer)
    if not (needed > 0 and offered > 0):
        raise ModelError(
            f"fuel needs {needed:g} atoms of oxygen and oxidizer offers {offered + 0.0:g}; "
            "expected more than 0 of both"
        )
    initial: dict[str, np.ndarray] = {}
    for name, amount in burnt.items():
        initial[name] = amount * ratio * offered / needed
    for name, amount in oxidizer.items():
        initial[name] = initial.get(name, 0.0) + np.full(ratio.size, float(amount))
    return initial, {"fuel": _mixture(burnt), "oxidizer": _mixture(oxidizer)}


def _paired(
    axes: dict[str, np.ndarray], own: dict[str, np.ndarray] | None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray] | None]:
    """Lists of equal length; one number is repeated."""
    every = axes | {f"mixture '{name}'": row for name, row in (own or {}).items()}
    longest = max(every, key=lambda name: every[name].size)
    count = every[longest].size
    for name, axis in every.items():
        if axis.size not in (1, count):
            raise ModelError(
                f"{name} has {counted(axis.size, 'value')} and {longest} has {count}; expected "
                "lists of equal length with paired=True"
            )
    return {name: np.array(np.broadcast_to(axis, count)) for name, axis in axes.items()}, own


def _check_criterion(network: ReactionNetwork, criterion: Any, heating: str) -> None:
    if criterion == "temperature" or criterion in network.index:
        return
    if criterion == "pressure":
        if heating not in _VOLUMES:
            constant = heating == "constant-pressure"
            why = "does not rise at constant pressure" if constant else "is given over time"
            raise ModelError(f"criterion is 'pressure', which {why}")
    elif isinstance(criterion, str):
        raise ModelError(
            f"criterion is '{criterion}'; expected 'temperature', 'pressure', a species"
            f"{did_you_mean(criterion, network.index)} or a rise of the temperature [K]"
        )
    else:
        number("criterion", criterion, above=0)


def _mixture(moles: Mapping[str, Any]) -> str:
    """A mixture as text."""
    texts = {
        name: "one for each mixture" if np.size(amount) > 1 else repr(float(np.ravel(amount)[0]))
        for name, amount in moles.items()
    }
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def _oxygen(network: ReactionNetwork, mixture: Mapping[str, float]) -> float:
    """Atoms of oxygen needed to burn a mixture to CO2 and H2O; negative for an oxidizer."""
    total = 0.0
    for name, amount in mixture.items():
        if name not in network.index:
            raise ModelError(
                f"'{name}' is not a species of the network{did_you_mean(name, network.index)}"
            )
        known: Any = network.species[network.index[name]].thermochemistry
        if not isinstance(known, Molecule):
            raise ModelError(f"species '{name}' has no composition to burn")
        for element, count in known.composition.items():
            total += amount * count * _OXYGEN.get(element, 0.0)
    return total
