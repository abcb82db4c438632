"""Stellar matter on arrays: the equation of state alone, and neutrino losses."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, kernels
from ergode.core.arguments import check_switch
from ergode.core.compiler.language import unroll
from ergode.core.errors import ModelError
from ergode.kinetics.physics.electron_table import electron_table
from ergode.kinetics.physics.equation_of_state import check_range
from ergode.kinetics.physics.helmholtz import helmholtz
from ergode.kinetics.physics.neutrinos import neutrino_parts

_GRAIN = 1024  # smallest number of states for a thread


class Matter(NamedTuple):
    """Thermodynamic functions, all of the shape of the arguments.

    Attributes
    ----------
    pressure : ndarray
        [dyn/cm2].
    energy : ndarray
        Internal energy without rest masses, but with those of pairs [erg/g].
    entropy : ndarray
        [erg/(g K)]; nuclei have the mean mass number, and no spin.
    heat_capacity : ndarray
        At constant volume, (du/dT)_rho [erg/(g K)].
    energy_by_density : ndarray
        (du/drho)_T [erg cm3/g2].
    pressure_by_temperature : ndarray
        (dP/dT)_rho [dyn/(cm2 K)].
    pressure_by_density : ndarray
        (dP/drho)_T [erg/g].
    """

    pressure: np.ndarray
    energy: np.ndarray
    entropy: np.ndarray
    heat_capacity: np.ndarray
    energy_by_density: np.ndarray
    pressure_by_temperature: np.ndarray
    pressure_by_density: np.ndarray


def equation_of_state(
    temperature: ArrayLike,
    density: ArrayLike,
    mass_number: ArrayLike,
    charge_number: ArrayLike,
    *,
    coulomb: bool = True,
) -> Matter:
    """Matter of ionised nuclei, electrons, positrons and radiation, as ``"helmholtz"`` has it.

    All values are derivatives of one free energy, so that Maxwell's relations hold to rounding.
    Pressure, energy and entropy of electrons differ from exact integrals by less than 1e-7 of
    their values, their derivatives by less than 1e-6. Matter is taken as fully ionised. Where it is
    not, such as carbon below some 1e5 K and iron below some 1e6 K at low densities, Coulomb
    corrections are too large and the pressure may be negative.

    Parameters
    ----------
    temperature : array_like, shape [...]
        [K], from 1e4 to 1e11.
    density : array_like, shape [...]
        [g/cm3]. Electrons are at most 1e11 mol/cm3; below 1e-10 mol/cm3 their gas, but not their
        number, is that at 1e-10.
    mass_number, charge_number : array_like, shape [...]
        Mean numbers of a nucleus, sum of X over sum of X/A, and sum of X Z/A over sum of X/A.
    coulomb : bool
        Whether the interactions of nuclei and electrons are included.

    Returns
    -------
    Matter
        Pressure, energy, entropy, and their derivatives.

    Raises
    ------
    ModelError
        A value is not a positive number, or beyond the table.

    Notes
    -----
    The first call on a machine computes a table in some seconds, and keeps it with the compiled
    kernels.

    References
    ----------
    F. X. Timmes, F. D. Swesty: ApJS 126, 501 (2000);
    D. G. Yakovlev, D. A. Shalybkov: Sov. Sci. Rev. E 7, 311 (1989), for the interactions.

    Examples
    --------
    >>> import ergode
    >>> hot = ergode.kinetics.equation_of_state([1e8, 5e9], 1e6, 12, 6)
    >>> (hot.pressure / 1e22).round(4).tolist()
    [2.6739, 375.2798]
    """
    check_switch("equation_of_state", "coulomb", coulomb)
    hot, dense, mass, charge = _arrays(temperature, density, mass_number, charge_number)
    check_range("helmholtz", hot, dense, charge / mass)
    columns = [np.array(one).reshape(-1) for one in (hot, dense, mass, charge)]
    found = np.empty((len(Matter._fields), hot.size))
    if hot.size:
        devices.resolve("cpu").run(
            _kernel(_matter), hot.size, electron_table(), *columns, float(coulomb), found,
            grain=_GRAIN,
        )  # fmt: skip
    return Matter(*(row.reshape(hot.shape) for row in found))


class NeutrinoLosses(NamedTuple):
    """Energy that neutrinos carry off, by process [erg/(g s)], of the shape of the arguments.

    Attributes
    ----------
    pair, photo, plasma, bremsstrahlung, recombination : ndarray
    """

    pair: np.ndarray
    photo: np.ndarray
    plasma: np.ndarray
    bremsstrahlung: np.ndarray
    recombination: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """All processes together [erg/(g s)]."""
        return np.sum(self, axis=0)


def neutrino_losses(
    temperature: ArrayLike, density: ArrayLike, mass_number: ArrayLike, charge_number: ArrayLike
) -> NeutrinoLosses:
    """Thermal neutrino losses of hot matter, by the fits of Itoh et al.

    Weak reactions of nuclei have losses of their own, which are not included.

    Parameters
    ----------
    temperature : array_like, shape [...]
        [K]; below 1e7 K the fits do not hold, and losses are zero.
    density : array_like, shape [...]
        [g/cm3].
    mass_number, charge_number : array_like, shape [...]
        Mean numbers of a nucleus (see `equation_of_state`).

    Returns
    -------
    NeutrinoLosses
        Losses by process; ``total`` is their sum.

    Raises
    ------
    ModelError
        A value is not a positive number.

    References
    ----------
    N. Itoh, H. Hayashi, A. Nishikawa, Y. Kohyama: ApJS 102, 411 (1996).

    Examples
    --------
    >>> import ergode
    >>> hot = ergode.kinetics.neutrino_losses(3e9, 1e7, 12, 6)
    >>> bool(hot.pair > 0.9 * hot.total)
    True
    """
    hot, dense, mass, charge = _arrays(temperature, density, mass_number, charge_number)
    columns = [np.array(one).reshape(-1) for one in (hot, dense, mass, charge)]
    found = np.empty((len(NeutrinoLosses._fields), hot.size))
    if hot.size:
        devices.resolve("cpu").run(_kernel(_neutrinos), hot.size, *columns, found, grain=_GRAIN)
    return NeutrinoLosses(*(row.reshape(hot.shape) for row in found))


def _arrays(
    temperature: ArrayLike, density: ArrayLike, mass_number: ArrayLike, charge_number: ArrayLike
) -> list[np.ndarray]:
    """The arguments as arrays of one shape."""
    given = {
        "temperature": temperature, "density": density, "mass_number": mass_number,
        "charge_number": charge_number,
    }  # fmt: skip
    arrays = []
    for name, value in given.items():
        try:
            array = np.asarray(value, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ModelError(f"{name} is {value!r}; expected an array of numbers") from None
        least = 0.0 if name == "charge_number" else np.finfo(float).tiny
        bad = ~(np.isfinite(array) & (array >= least))
        if bad.any():
            raise ModelError(f"{name} has {array[bad][0]:g}; expected positive, finite numbers")
        arrays.append(array)
    try:
        hot, dense, mass, charge = np.broadcast_arrays(*arrays)
    except ValueError:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in zip(given, arrays, strict=True))
        raise ModelError(f"shapes do not fit each other: {shapes}") from None
    if (charge > mass).any():
        raise ModelError(
            f"charge_number {charge[charge > mass][0]:g} is above mass_number "
            f"{mass[charge > mass][0]:g}"
        )
    return [hot, dense, mass, charge]


@lru_cache(maxsize=2)
def _kernel(body: Callable[..., Any]) -> kernels.Kernel:
    return kernels.for_each(body)


# --- device functions -----------------------------------------------------------------------------


def _matter(at, table, temperature, density, mass, charge, interacts, found):  # type: ignore[no-untyped-def]
    n = 1.0 / mass[at]
    state = helmholtz(table, temperature[at], density[at], n, charge[at] * n, interacts)
    for k in unroll(range(5)):
        found[k, at] = state[k]
    found[5, at] = state[7]
    found[6, at] = state[8]


def _neutrinos(at, temperature, density, mass, charge, found):  # type: ignore[no-untyped-def]
    n = 1.0 / mass[at]
    parts = neutrino_parts(temperature[at], density[at], n, charge[at] * n)  # type: ignore[no-untyped-call]
    for k in unroll(range(5)):
        found[k, at] = parts[k]
