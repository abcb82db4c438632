"""Chemical equilibrium of gases in many zones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ergode.core import results
from ergode.core.arguments import choice
from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, ModelError
from ergode.core.inputs import recorded
from ergode.core.results import Variable
from ergode.core.stopwatch import Stopwatch
from ergode.core.words import counted
from ergode.kinetics.compositions import check_no_surface, molar_masses
from ergode.kinetics.conditions import zones_of
from ergode.kinetics.network.to_tables import to_tables
from ergode.kinetics.physics.gas_equilibrium import equilibrate
from ergode.kinetics.validity import warn_of_polynomials
from ergode.models.constants import GAS_CONSTANT
from ergode.models.reactions.network import ReactionNetwork

if TYPE_CHECKING:
    import xarray

_Constant = Literal["TP", "TV", "HP", "UV", "SP", "SV"]

results.register(
    "kinetics",
    "gas_equilibrium",
    [
        Variable("mole_fraction", ("zone", "species"), "float64", "1", "mole fraction"),
        Variable("temperature", ("zone",), "float64", "K", "temperature"),
        Variable("pressure", ("zone",), "float64", "dyn/cm2", "pressure"),
        Variable("density", ("zone",), "float64", "g/cm3", "density"),
    ],
)


@recorded(dict.fromkeys(("initial", "temperature", "pressure", "density"), "zone"))
def equilibrium(
    network: ReactionNetwork,
    *,
    initial: Mapping[str, Any],
    temperature: Any,
    pressure: Any = None,
    density: Any = None,
    constant: _Constant = "TP",
) -> xarray.Dataset:
    """The chemical equilibrium of a mixture of gases, by minimisation of Gibbs' energy.

    The elements are conserved. All species of the network may form, even those that no reaction
    makes. There are no condensed phases.

    Parameters
    ----------
    network : ReactionNetwork
        Of molecules with NASA polynomials, as from `ergode.read_cantera`; its reactions are not
        used.
    initial : mapping of str to float or array_like, shape [zone_count]
        Mole fractions, or any moles, if `pressure` is given; mass fractions if `density` is given.
    temperature : float or array_like, shape [zone_count]
        At the start [K].
    pressure, density : float or array_like, shape [zone_count]
        At the start: one of the two [dyn/cm2], [g/cm3] (1 atm is 1.01325e6 dyn/cm2).
    constant : {"TP", "TV", "HP", "UV", "SP", "SV"}
        Which two are the same at the start and in equilibrium: temperature (T), pressure (P),
        volume (V), enthalpy (H), internal energy (U), entropy (S). ``"HP"`` is an adiabatic flame,
        and ``"UV"`` an adiabatic explosion in a closed vessel.

    Returns
    -------
    xarray.Dataset
        mole_fraction(zone, species), temperature, pressure and density(zone). A zone whose
        equilibrium is not found has NaN.

    Raises
    ------
    ModelError
        A species has no NASA polynomials or is unknown, or a value is missing or not positive.

    Warns
    -----
    AccuracyWarning
        In some zones no equilibrium was found, or NASA polynomials are used outside of their
        temperatures.

    Notes
    -----
    Amounts are accurate to some 1e-10 of their value, except where conservation of the elements
    does not determine them: of water alone, the amounts of H2 and O2 are lost where they are below
    some 1e-14 of the total.

    Examples
    --------
    >>> import ergode
    >>> def molecule(atoms, *a):
    ...     return ergode.NasaPolynomials(a, a, 1000.0, {"H": atoms})
    >>> hydrogen = ergode.ReactionNetwork([
    ...     ergode.Species("H", thermochemistry=molecule(1, 2.5, 0, 0, 0, 0, 25474, -0.4467)),
    ...     ergode.Species("H2", thermochemistry=molecule(2, 3.4, 0, 0, 0, 0, -1000, -3.0)),
    ... ], [])
    >>> hot = ergode.kinetics.equilibrium(
    ...     hydrogen, initial={"H2": 1}, temperature=3000, pressure=1.01325e6
    ... )
    >>> float(hot["mole_fraction"].sel(species="H")[0].round(3))
    0.127
    """
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
    choice("constant", constant, get_args(_Constant), error=ModelError)
    stopwatch = Stopwatch()
    mechanism = to_tables(network)
    if not mechanism.molecular:
        raise ModelError("equilibrium is for molecules with NASA polynomials")
    check_no_surface(network, "equilibrium is for gases")
    if pressure is None and density is None:
        raise ModelError("pressure and density are not given; expected one of them")
    zones = zones_of(
        network, mechanism, initial=initial, temperature=temperature, pressure=pressure,
        density=density, heating=None,
    )  # fmt: skip
    molecules: list[Any] = [one.thermochemistry for one in network.species]
    found = equilibrate(molecules, zones.amounts, zones.history.temperature[:, 0], constant)
    if not found.converged.all():
        bad = np.flatnonzero(~found.converged)
        warn(
            f"no equilibrium at constant {constant} was found in {bad.size} of "
            f"{counted(zones.count, 'zone')}, in zone {bad[0]} first; their values are NaN",
            AccuracyWarning,
        )
    amounts = np.where(found.converged[:, None], found.amounts, np.nan)
    hot = np.where(found.converged, found.temperature, np.nan)
    warn_of_polynomials(network, hot, amounts)
    total = amounts.sum(axis=1)
    return results.dataset(
        "kinetics",
        "gas_equilibrium",
        {
            "mole_fraction": amounts / total[:, None],
            "temperature": hot,
            "pressure": total * GAS_CONSTANT * hot / found.volume,
            "density": amounts @ molar_masses(network) / found.volume,
        },
        coords={
            "zone": np.arange(zones.count),
            "species": [one.name for one in network.species],
        },
        attrs=results.provenance(
            stopwatch, engine="kinetics", method="equilibrium", constant=constant,
            model_digest=mechanism.digest,
        ),
    )  # fmt: skip
