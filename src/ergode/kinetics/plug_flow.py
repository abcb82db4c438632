"""Steady flow through a tube: profiles along its length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.errors import ModelError
from ergode.core.inputs import recorded
from ergode.core.results import Variable
from ergode.kinetics.integrate import integrate
from ergode.kinetics.methods import MethodName
from ergode.kinetics.reactors import PlugFlow
from ergode.models.reactions.network import ReactionNetwork

if TYPE_CHECKING:
    import xarray

_ZONE, _PLACES = ("zone",), ("zone", "position")
_SPECIES = ("zone", "position", "species")
_PROFILES = ("concentration", "temperature", "density", "pressure", "age")
results.register(
    "kinetics",
    "plug flow",
    [
        Variable("concentration", _SPECIES, "float64", "mol/cm3", "concentration"),
        Variable("mole_fraction", _SPECIES, "float64", "1", "mole fraction"),
        Variable("temperature", _PLACES, "float64", "K", "temperature"),
        Variable("density", _PLACES, "float64", "g/cm3", "density"),
        Variable("pressure", _PLACES, "float64", "dyn/cm2", "pressure"),
        Variable("velocity", _PLACES, "float64", "cm/s", "velocity of the flow"),
        Variable("age", _PLACES, "float64", "s", "time since the inlet"),
        Variable(
            "steepest_position", _ZONE, "float64", "cm",
            "where the temperature rises fastest along the tube; NaN where it is given",
        ),
        Variable("step_count", _ZONE, "int64", "1", "steps that were accepted"),
        Variable("status", _ZONE, "uint8", "1", "how the zone ended (see Status)"),
    ],
    coords=("position",),
)  # fmt: skip


@recorded(dict.fromkeys(("velocity", "temperature", "pressure", "initial", "rtol", "atol"), "zone"))
def plug_flow(
    network: ReactionNetwork,
    *,
    positions: ArrayLike,
    velocity: ArrayLike,
    temperature: ArrayLike,
    pressure: ArrayLike,
    initial: Mapping[str, Any],
    heating: Literal["constant-pressure", "isothermal-constant-pressure"] = "constant-pressure",
    method: MethodName = "auto",
    rtol: float | ArrayLike = 1e-4,
    atol: float | Mapping[str, float] | ArrayLike | None = None,
    max_steps: int | None = None,
    device: str | devices.Device = "auto",
    progress: bool = False,
) -> xarray.Dataset:
    """Steady plug flow of reacting molecules: profiles along a tube of constant width.

    The mixture moves along the tube at constant pressure and does not mix along it. The velocity
    follows from the conservation of mass: u = u_0 rho_0 / rho.

    Parameters
    ----------
    network : ReactionNetwork
        Of molecules with NASA polynomials, as from `ergode.read_cantera`.
    positions : array_like, shape [position_count]
        Ascending positions of the result [cm]; the inlet is at the first.
    velocity, temperature, pressure : float or array_like of shape [zone_count]
        At the inlet [cm/s], [K] and [dyn/cm2] (1 atm is 1.01325e6). Each zone is a tube of its own.
    initial : mapping of str to float or array_like, shape [zone_count]
        Moles of each species at the inlet.
    heating : {"constant-pressure", "isothermal-constant-pressure"}
        Whether the walls take up no heat, or keep the temperature of the inlet.
    method, rtol, atol, max_steps, device, progress
        See `integrate`.

    Returns
    -------
    xarray.Dataset
        concentration and mole_fraction(zone, position, species); temperature, density, pressure,
        velocity and age(zone, position), the time since the inlet [s]; steepest_position(zone).

    Raises
    ------
    ModelError, PlanError
        See `integrate`.

    References
    ----------
    R. J. Kee, M. E. Coltrin, P. Glarborg, "Chemically Reacting Flow" (2003), section 16.3.

    Examples
    --------
    >>> import numpy as np
    >>> import ergode
    >>> row = (3.5, 0, 0, 0, 0, -1e3, 4.0)
    >>> gas = ergode.NasaPolynomials(row, row, 1000.0, {"O": 2})
    >>> inert = ergode.ReactionNetwork([ergode.Species("O2", thermochemistry=gas)], [])
    >>> tube = ergode.kinetics.plug_flow(
    ...     inert, positions=[0, 50, 100], velocity=20.0, temperature=900, pressure=1e6,
    ...     initial={"O2": 1.0}, device="cpu",
    ... )  # doctest: +SKIP
    >>> tube["age"].values.round(6)  # doctest: +SKIP
    array([[0. , 2.5, 5. ]])
    """
    places = np.asarray(positions, np.float64)
    if places.ndim != 1 or places.size < 2 or not (np.diff(places) > 0).all():
        raise ModelError("positions of a tube must ascend, from the inlet to at least one more")
    found = integrate(
        network, times=places, temperature=temperature, pressure=pressure, initial=initial,
        heating=heating, reactor=PlugFlow(velocity), method=method, rtol=rtol, atol=atol,
        max_steps=max_steps, device=device, progress=progress,
    )  # fmt: skip
    concentration = found["concentration"].values
    density = found["density"].values
    values = {name: found[name].values for name in (*_PROFILES, "step_count", "status")}
    values["mole_fraction"] = concentration / concentration.sum(axis=2, keepdims=True)
    at_inlet = np.broadcast_to(np.atleast_1d(np.asarray(velocity, np.float64)), len(density))
    values["velocity"] = at_inlet[:, None] * density[:, :1] / density
    values["steepest_position"] = found["steepest_time"].values
    return results.dataset(
        "kinetics", "plug flow", values,
        coords={
            "zone": found["zone"].values, "position": found["time"].values,
            "species": found["species"].values,
        },
        attrs=found.attrs,
        has_warned=True,
    )  # fmt: skip
