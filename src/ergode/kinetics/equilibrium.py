"""Nuclear statistical equilibrium: what a long burn at high temperature comes to.

With q_i the partition function of a nucleus per volume [mol/cm3], its mass excess included,

    rho Y_i = q_i exp(Z_i a + N_i b),  sum of Z_i Y_i = Y_e,  sum of N_i Y_i = 1 - Y_e.

The potentials a of protons and b of neutrons are where the convex function
sum of Y_i(a, b) - a Y_e - b (1 - Y_e) is least; Newton's method goes there, in steps in which no
abundance grows by more than a factor of e^2. There is no Coulomb term.

F. E. Clifford, R. J. Tayler: Mem. R. Astron. Soc. 69, 21 (1965);
I. R. Seitenzahl et al.: At. Data Nucl. Data Tables 95, 96 (2009), section 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import results
from ergode.core.errors import ModelError
from ergode.core.results import Variable
from ergode.kinetics.lower import Mechanism, lower
from ergode.kinetics.rates import GAS_CONSTANT
from ergode.models.reaction_network import ReactionNetwork
from ergode.models.thermochemistry import Nucleus

if TYPE_CHECKING:
    import xarray

_MOST_ITERATIONS = 2_000
_LARGEST_GROWTH = 2.0
_TOLERANCE = 1e-13

results.register(
    "kinetics",
    "equilibrium",
    [Variable("mass_fraction", ("zone", "species"), "float64", "1", "mass fraction of a nucleus")],
)


def nuclear_equilibrium(
    network: ReactionNetwork,
    *,
    temperature: ArrayLike,
    density: ArrayLike,
    electron_fraction: ArrayLike = 0.5,
) -> xarray.Dataset:
    """The composition of nuclear statistical equilibrium.

    Parameters
    ----------
    network : ReactionNetwork
        Of nuclei with masses, spins and partition functions; its reactions do not matter.
    temperature, density : float or array_like, shape [zone_count]
        [K], [g/cm3].
    electron_fraction : float or array_like, shape [zone_count]
        Electrons, or protons, per nucleon.

    Returns
    -------
    xarray.Dataset
        mass_fraction(zone, species).

    Raises
    ------
    ModelError
        A species has no nuclear thermochemistry, a value is not positive, or no mixture of the
        species has the electron fraction.

    Examples
    --------
    >>> import ergode
    >>> nuclei = [
    ...     ergode.Species("n", mass_number=1, charge_number=0,
    ...                    thermochemistry=ergode.Nucleus(8.0713, 0.5)),
    ...     ergode.Species("p", mass_number=1, charge_number=1,
    ...                    thermochemistry=ergode.Nucleus(7.2890, 0.5)),
    ...     ergode.Species("he4", mass_number=4, charge_number=2,
    ...                    thermochemistry=ergode.Nucleus(2.4249)),
    ... ]
    >>> found = ergode.kinetics.nuclear_equilibrium(
    ...     ergode.ReactionNetwork(nuclei, []), temperature=8e9, density=1e7
    ... )
    >>> float(found["mass_fraction"].sel(species="he4")[0].round(3))
    0.894
    """
    for one in network.species:
        if not isinstance(one.thermochemistry, Nucleus) or one.mass_number is None:
            raise ModelError(f"species '{one.name}' is no nucleus with a mass and a spin")
    given = {
        "temperature": temperature, "density": density, "electron_fraction": electron_fraction
    }  # fmt: skip
    rows = {name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in given.items()}
    count = max(row.size for row in rows.values())
    for name, row in rows.items():
        if row.ndim != 1 or row.size not in (1, count):
            raise ModelError(f"{name} has shape {row.shape}; expected one, or one for each zone")
        bad = ~(np.isfinite(row) & (row > 0))
        if bad.any():
            zone = int(np.argmax(bad))
            raise ModelError(f"{name} is {row[zone]:g} in zone {zone}; expected a positive number")
    hot, dense, fraction = (np.broadcast_to(row, count) for row in rows.values())
    found = equilibrium(lower(network), hot, dense, fraction)
    return results.dataset(
        "kinetics",
        "equilibrium",
        {"mass_fraction": found},
        coords={
            "zone": np.arange(count),
            "species": [one.name for one in network.species],
            "mass_number": ("species", [one.mass_number for one in network.species]),
            "charge_number": ("species", [one.charge_number or 0 for one in network.species]),
            **{name: ("zone", np.array(np.broadcast_to(row, count))) for name, row in rows.items()},
        },
        attrs=results.provenance(engine="kinetics", method="equilibrium"),
    )


def equilibrium(
    mechanism: Mechanism, temperature: np.ndarray, density: np.ndarray, fraction: np.ndarray
) -> np.ndarray:
    """Mass fractions [zone, species] of equilibrium."""
    mass, protons = mechanism.mass, mechanism.thermo.charge
    members = np.stack([protons, mass - protons])  # [2, species]
    richest, poorest = (protons / mass).max(), (protons / mass).min()
    bad = (fraction > richest) | (fraction < poorest)
    if bad.any():
        zone = int(np.argmax(bad))
        raise ModelError(
            f"electron_fraction is {fraction[zone]:g} in zone {zone}; the species have "
            f"{poorest:g} to {richest:g}"
        )
    weight = _log_volumes(mechanism, temperature) - np.log(density)[:, None]  # ln Y at a = b = 0
    # Where the most abundant species alone would have all the mass.
    start = -((weight + np.log(mass)) / mass).max(axis=1)
    potential = np.stack([start, start], axis=1)
    wanted = np.stack([fraction, 1.0 - fraction], axis=1)
    for _ in range(_MOST_ITERATIONS):
        amounts = np.exp(weight + potential @ members)
        off = amounts @ members.T - wanted
        matrix = np.einsum("zs,is,js->zij", amounts, members, members)
        # A network of symmetric nuclei alone says nothing of the difference of a and b.
        step = -np.einsum("zij,zj->zi", np.linalg.pinv(matrix, rcond=1e-14), off)
        growth = (step @ members).max(axis=1)
        step *= np.minimum(1.0, _LARGEST_GROWTH / np.maximum(growth, _LARGEST_GROWTH))[:, None]
        potential += step
        if np.abs(off).max() < _TOLERANCE or np.abs(step).max() < 1e-15 * np.abs(potential).max():
            break
    return np.exp(weight + potential @ members) * mass


def _log_volumes(mechanism: Mechanism, temperature: np.ndarray) -> np.ndarray:
    """ln of the partition function per volume, shape [zone, species]; as `rates.log_volumes`."""
    thermo = mechanism.thermo
    excited = np.stack(
        [np.interp(temperature, thermo.grid, column) for column in thermo.partition.T], axis=1
    )
    energy = thermo.mass_excess / (GAS_CONSTANT * temperature[:, None])
    return thermo.translation + 1.5 * np.log(temperature)[:, None] + excited - energy
