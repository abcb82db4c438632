"""Nuclear statistical equilibrium: the limit of a long burn at high temperature.

With q_i the partition function of a nucleus per volume [mol/cm3], its mass excess included,

    rho Y_i = q_i exp(Z_i a + N_i b),  sum of Z_i Y_i = Y_e,  sum of N_i Y_i = 1 - Y_e.

The potentials a of protons and b of neutrons minimise the convex function
sum of Y_i(a, b) - a Y_e - b (1 - Y_e). Newton's method finds them; no abundance grows by more than
a factor of e^2 in a step. There is no Coulomb term.

The distance of a composition from equilibrium is measured without solving for it: in equilibrium,
ln(rho Y_i / q_i) = Z_i a + N_i b.  The fit of a and b weights each nucleus by its mass.

F. E. Clifford, R. J. Tayler: Mem. R. Astron. Soc. 69, 21 (1965);
I. R. Seitenzahl et al.: At. Data Nucl. Data Tables 95, 96 (2009), section 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import results
from ergode.core.errors import ModelError
from ergode.core.inputs import recorded
from ergode.core.results import Variable
from ergode.kinetics.network.to_tables import Mechanism, to_tables
from ergode.models.constants import GAS_CONSTANT
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.thermochemistry import Nucleus

if TYPE_CHECKING:
    import xarray

_MOST_ITERATIONS = 2_000
_LARGEST_GROWTH = 2.0
_TOLERANCE = 1e-13
_SINGULAR = 1e-14  # ratio of the eigenvalues of a matrix that counts as singular
NEAR, _HOT = 1e-2, 3e9
"""Largest distance that counts as equilibrium, and the lowest temperature [K] of the test."""
_CHUNK = 4096

results.register(
    "kinetics",
    "equilibrium",
    [Variable("mass_fraction", ("zone", "species"), "float64", "1", "mass fraction of a nucleus")],
    coords=("mass_number", "charge_number", "temperature", "density", "electron_fraction"),
)


@recorded(dict.fromkeys(("temperature", "density", "electron_fraction"), "zone"))
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
        Of nuclei with masses, spins and partition functions; its reactions are not used.
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
    _check_nuclei(network)
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
    found = equilibrium(to_tables(network), hot, dense, fraction)
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


def equilibrium_distance(
    network: ReactionNetwork,
    *,
    temperature: ArrayLike,
    density: ArrayLike,
    mass_fraction: ArrayLike,
) -> np.ndarray:
    """Distance of compositions from nuclear statistical equilibrium.

    Where the distance is small, a table or `nuclear_equilibrium` may replace the network.
    `integrate` flags zones below 0.01 as `near_equilibrium`.

    Parameters
    ----------
    network : ReactionNetwork
        Of nuclei with masses, spins and partition functions.
    temperature, density : array_like, shape [...]
        [K], [g/cm3].
    mass_fraction : array_like, shape [..., species_count]
        In the order of the network's species.

    Returns
    -------
    ndarray, shape [...]
        Sum over nuclei of the difference of mass fractions to the equilibrium that fits best.

    Raises
    ------
    ModelError
        A species has no nuclear thermochemistry, or shapes do not fit.

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
    >>> network = ergode.ReactionNetwork(nuclei, [])
    >>> end = ergode.kinetics.nuclear_equilibrium(network, temperature=8e9, density=1e7)
    >>> apart = ergode.kinetics.equilibrium_distance(
    ...     network, temperature=[8e9, 6e9], density=[1e7, 1e7],
    ...     mass_fraction=[end["mass_fraction"].values[0]] * 2,
    ... )
    >>> bool(apart[0] < 1e-6), bool(apart[1] > 0.05)
    (True, True)
    """
    _check_nuclei(network)
    hot, dense, x = (np.asarray(a, np.float64) for a in (temperature, density, mass_fraction))
    wanted = (*hot.shape, len(network.species))
    if dense.shape != hot.shape or x.shape != wanted:
        raise ModelError(
            f"density has shape {dense.shape} and mass_fraction {x.shape}; expected {hot.shape} "
            f"and {wanted}, for temperature has {hot.shape}"
        )
    found = distances(to_tables(network), hot.ravel(), dense.ravel(), x.reshape(-1, wanted[-1]))
    return found.reshape(hot.shape)


def distances(
    mechanism: Mechanism, temperature: np.ndarray, density: np.ndarray, fractions: np.ndarray
) -> np.ndarray:
    """`equilibrium_distance` for several zones."""
    members = np.stack([mechanism.thermo.charge, mechanism.mass - mechanism.thermo.charge])
    products = _products(members)
    found = np.empty(temperature.size)
    for start in range(0, found.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        x = np.maximum(fractions[part], 0.0)
        weight = _log_volumes(mechanism, temperature[part]) - np.log(density[part])[:, None]
        with np.errstate(divide="ignore"):
            above = np.where(x > 0, np.log(x / mechanism.mass) - weight, 0.0)
        potential = _least_squares(x @ products.T, (x * above) @ members.T)
        balanced = np.exp(np.minimum(weight + potential @ members, 0.0)) * mechanism.mass
        found[part] = np.abs(x - balanced).sum(axis=1)
    return found


def _products(members: np.ndarray) -> np.ndarray:
    """Z^2, Z N and N^2 of every species, shape [3, species]."""
    return np.stack([members[0] ** 2, members[0] * members[1], members[1] ** 2])


def _least_squares(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The shortest of the best solutions [zone, 2] for matrices [[a, b], [b, c]] [zone, (a, b, c)].

    Nuclei with Z = N alone do not determine the difference of both potentials.
    """
    a, b, c = matrix.T
    largest = 0.5 * (a + c + np.hypot(a - c, 2.0 * b))  # eigenvalue
    determinant = a * c - b * b
    regular = determinant > _SINGULAR * largest**2
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.stack([c * right[:, 0] - b * right[:, 1], a * right[:, 1] - b * right[:, 0]])
        along = np.stack([a * right[:, 0] + b * right[:, 1], b * right[:, 0] + c * right[:, 1]])
        found = np.where(regular, whole / determinant, along / largest**2)
    return np.where(largest > 0.0, found, 0.0).T


def near_equilibrium(
    mechanism: Mechanism, temperature: np.ndarray, density: np.ndarray, fractions: np.ndarray
) -> np.ndarray:
    """Which zones are hot, and all but in equilibrium."""
    asked = (temperature >= _HOT) & np.isfinite(fractions).all(axis=1)
    asked &= bool((mechanism.thermo.translation != 0.0).all())
    near = np.zeros(asked.size, bool)
    near[asked] = distances(mechanism, temperature[asked], density[asked], fractions[asked]) < NEAR
    return near


def equilibrium(
    mechanism: Mechanism, temperature: np.ndarray, density: np.ndarray, fraction: np.ndarray
) -> np.ndarray:
    """Mass fractions [zone, species] of equilibrium."""
    mass, protons = mechanism.mass, mechanism.thermo.charge
    members = np.stack([protons, mass - protons])  # [2, species]
    products = _products(members)
    richest, poorest = (protons / mass).max(), (protons / mass).min()
    bad = (fraction > richest) | (fraction < poorest)
    if bad.any():
        zone = int(np.argmax(bad))
        raise ModelError(
            f"electron_fraction is {fraction[zone]:g} in zone {zone}; the species have "
            f"{poorest:g} to {richest:g}"
        )
    weight = _log_volumes(mechanism, temperature) - np.log(density)[:, None]  # ln Y at a = b = 0
    # Start where the most abundant species has all the mass.
    start = -((weight + np.log(mass)) / mass).max(axis=1)
    potential = np.stack([start, start], axis=1)
    wanted = np.stack([fraction, 1.0 - fraction], axis=1)
    for _ in range(_MOST_ITERATIONS):
        amounts = np.exp(weight + potential @ members)
        off = amounts @ members.T - wanted
        step = -_least_squares(amounts @ products.T, off)
        growth = (step @ members).max(axis=1)
        step *= np.minimum(1.0, _LARGEST_GROWTH / np.maximum(growth, _LARGEST_GROWTH))[:, None]
        potential += step
        if np.abs(off).max() < _TOLERANCE or np.abs(step).max() < 1e-15 * np.abs(potential).max():
            break
    return np.exp(weight + potential @ members) * mass


def _check_nuclei(network: ReactionNetwork) -> None:
    for one in network.species:
        if not isinstance(one.thermochemistry, Nucleus) or one.mass_number is None:
            raise ModelError(f"species '{one.name}' is not a nucleus with a mass and a spin")


def _log_volumes(mechanism: Mechanism, temperature: np.ndarray) -> np.ndarray:
    """ln of the partition function per volume, shape [zone, species]; as `rates.log_volumes`."""
    thermo = mechanism.thermo
    excited = np.stack(
        [np.interp(temperature, thermo.grid, column) for column in thermo.partition.T], axis=1
    )
    energy = thermo.mass_excess / (GAS_CONSTANT * temperature[:, None])
    return thermo.translation + 1.5 * np.log(temperature)[:, None] + excited - energy
