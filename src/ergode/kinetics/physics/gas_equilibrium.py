"""Chemical equilibrium of a mixture of ideal gases.

The amounts that minimise Gibbs' (Helmholtz's) energy with given amounts b_k of the elements are

    n_i = V q_i(T) exp(sum of a_ki p_k),

with q_i the partition function of a molecule per volume [mol/cm3], from its NASA polynomials, and
a_ki its atoms. At given temperature T and volume V the potentials p_k of the elements minimise the
convex function f = sum of n_i - sum of p_k b_k. Newton's method finds them. If the logarithm of an
amount grows by D at most in a full step, then along the step f'' is at most f''(0) exp(t D). The
share t = ln(1 + D) / D of the step minimises the bound of f that follows.

An outer Newton iteration changes ln T and ln V until two functions of state are those of the
mixture at the start. The derivatives of the amounts follow from those of the conditions above. It
begins at a high temperature, where equilibria are easily found.

W. R. Smith, R. W. Missen: Chemical Reaction Equilibrium Analysis (1982), chapters 3 and 6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ergode.models.constants import GAS_CONSTANT, STANDARD_ATMOSPHERE
from ergode.models.reactions.thermochemistry import Molecule

_HOT = 2500.0  # [K], where the iteration begins
_MOST_STEPS, _MOST_INNER = 200, 400
_LOST, _CLOSE = 1e-12, 1e-11  # accuracy of elements, and of ln T and ln V
_RIDGE = 1e-14  # for elements whose ratio all species share
_LONGEST = 0.25  # step of ln T and of ln V
_TRACE = -14.0  # logarithm of a mole fraction below which growth is not limited


class Gas(NamedTuple):
    """Mixtures of a volume that was 1 cm3 at the start."""

    amounts: np.ndarray  # [zone, species], mol
    temperature: np.ndarray  # [zone], K
    volume: np.ndarray  # [zone], cm3
    converged: np.ndarray  # [zone]


class Functions(NamedTuple):
    """Of pure molecules at 1 atm, shape [zone, species]: over R T, R, R and R."""

    enthalpy: np.ndarray
    entropy: np.ndarray
    capacity: np.ndarray  # at constant pressure


class _State(NamedTuple):
    temperature: np.ndarray
    volume: np.ndarray
    amounts: np.ndarray
    gas: Functions
    start: np.ndarray  # [zone]: the function of state at the start


def functions_of(molecules: list[Molecule], temperature: np.ndarray) -> Functions:
    """Thermodynamic functions of molecules at temperatures, shape [zone, species]."""
    t = temperature
    powers = np.stack([t**k for k in range(5)])
    ln, inverse = np.log(t), 1.0 / t
    shape = t.size, len(molecules)
    found = Functions(np.empty(shape), np.empty(shape), np.empty(shape))
    divisor = np.arange(1.0, 6.0)
    for i, known in enumerate(molecules):
        ends, rows = zip(*known.ranges, strict=True)
        a = np.array(rows)[np.searchsorted(ends[:-1], t)].T
        found.capacity[:, i] = (a[0] * inverse + a[1]) * inverse + (a[2:7] * powers).sum(axis=0)
        found.enthalpy[:, i] = (a[2:7] * powers / divisor[:, None]).sum(axis=0) + inverse * (
            a[7] + a[1] * ln - a[0] * inverse
        )
        found.entropy[:, i] = (
            a[2] * ln + (a[3:7] * powers[1:] / divisor[:4, None]).sum(axis=0) + a[8]
            - inverse * (a[1] + 0.5 * a[0] * inverse)
        )  # fmt: skip
    return found


def _energy(at: _State) -> tuple[np.ndarray, np.ndarray]:
    """Enthalpy less that of the start, and its derivative with ln T at constant amounts."""
    rt = GAS_CONSTANT * at.temperature
    total = (at.amounts * at.gas.enthalpy).sum(axis=1) * rt
    return total - at.start, (at.amounts * at.gas.capacity).sum(axis=1) * rt


def _of_enthalpy(at: _State) -> tuple[np.ndarray, ...]:
    """A residual, its derivatives with ln T and ln V, and with each amount."""
    off, by_heat = _energy(at)
    rt = GAS_CONSTANT * at.temperature
    return off, by_heat, np.zeros_like(off), at.gas.enthalpy * rt[:, None]


def _of_energy(at: _State) -> tuple[np.ndarray, ...]:
    off, by_heat, by_volume, by_amount = _of_enthalpy(at)
    rt = GAS_CONSTANT * at.temperature
    total = at.amounts.sum(axis=1) * rt
    return off - total, by_heat - total, by_volume, by_amount - rt[:, None]


def _of_entropy(at: _State) -> tuple[np.ndarray, ...]:
    n, total = at.amounts, at.amounts.sum(axis=1)
    unit = STANDARD_ATMOSPHERE / (GAS_CONSTANT * at.temperature)
    density = np.where(n > 0, n, 1.0) / (at.volume * unit)[:, None]
    own = at.gas.entropy - np.log(density)
    off = (n * own).sum(axis=1) - at.start
    return off, (n * at.gas.capacity).sum(axis=1) - total, total, own - 1.0


def _of_temperature(at: _State) -> tuple[np.ndarray, ...]:
    one = np.ones_like(at.temperature)
    return np.log(at.temperature / at.start), one, 0 * one, np.zeros_like(at.amounts)


def _of_volume(at: _State) -> tuple[np.ndarray, ...]:
    one = np.ones_like(at.temperature)
    return np.log(at.volume), 0 * one, one, np.zeros_like(at.amounts)


def _of_pressure(at: _State) -> tuple[np.ndarray, ...]:
    total = at.amounts.sum(axis=1)
    off = np.log(total * GAS_CONSTANT * at.temperature / (at.volume * at.start))
    return off, np.ones_like(off), -np.ones_like(off), 1.0 / total[:, None] + 0 * at.amounts


_Residual = Callable[[_State], tuple[np.ndarray, ...]]
_RESIDUALS: dict[str, _Residual] = {
    "T": _of_temperature, "P": _of_pressure, "V": _of_volume, "H": _of_enthalpy, "U": _of_energy,
    "S": _of_entropy,
}  # fmt: skip


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def equilibrate(
    molecules: list[Molecule], amounts: np.ndarray, temperature: np.ndarray, constant: str
) -> Gas:
    """Equilibrium with two functions of state as at the start.

    Parameters
    ----------
    molecules : list of Molecule
    amounts : ndarray, shape [zone_count, species_count]
        [mol/cm3] at the start.
    temperature : ndarray, shape [zone_count]
        [K] at the start.
    constant : str
        Two letters: which functions of state.
    """
    elements = sorted({name for one in molecules for name in one.composition})
    atoms = np.array([[one.composition.get(k, 0.0) for k in elements] for one in molecules])
    counts = amounts @ atoms
    there = _possible(atoms, counts, amounts)
    residuals = [_RESIDUALS[letter] for letter in constant]
    starts = [_start(one, molecules, amounts, temperature) for one in residuals]
    zones = amounts.shape[0]
    ln_t = np.log(np.full(zones, _HOT) if constant[0] != "S" else np.maximum(temperature, _HOT))
    ln_v = ln_t - np.log(temperature) if "P" in constant else np.zeros(zones)
    longest = np.full((zones, 2), _LONGEST)
    before: np.ndarray = np.zeros((zones, 2))
    potential, done, found = _first_potential(atoms), np.zeros(zones, bool), np.zeros_like(amounts)
    for count in range(_MOST_STEPS):
        t, v = np.exp(ln_t), np.exp(ln_v)
        gas = functions_of(molecules, t)
        weight = gas.entropy - gas.enthalpy
        weight += np.log(v * STANDARD_ATMOSPHERE / (GAS_CONSTANT * t))[:, None]
        weight[~there] = -np.inf
        if not count:
            potential = _first_potential(atoms, weight, counts)
        potential, found, good = _minimum(atoms, counts, weight, potential)
        # Derivatives of amounts with ln T and ln V.
        first = np.stack([gas.enthalpy - 1.0, np.ones_like(found)])  # [2, zone, species]
        slope = _solved(atoms, found, np.einsum("xzs,zs,sk->zkx", first, found, atoms))
        change = found * (first - np.einsum("sk,zkx->xzs", atoms, slope))
        matrix, off = np.empty((zones, 2, 2)), np.empty((zones, 2))
        for row, (residual, start) in enumerate(zip(residuals, starts, strict=True)):
            off[:, row], *direct, by_amount = residual(_State(t, v, found, gas, start))
            for x in range(2):
                matrix[:, row, x] = direct[x] + (by_amount * change[x]).sum(axis=1)
        step = -np.linalg.solve(matrix, off[:, :, None])[:, :, 0]
        done = good & (np.abs(step) < _CLOSE).all(axis=1)
        if done.all():
            break
        # A step that turns back has passed the solution.
        longest = np.asarray(np.where(step * before < 0, 0.5 * longest, longest))
        step *= np.minimum(1.0, (longest / np.maximum(np.abs(step), longest)).min(axis=1))[:, None]
        before = step
        ln_t, ln_v = ln_t + step[:, 0], ln_v + step[:, 1]
        potential = potential - np.einsum("zkx,zx->zk", slope, step)
    return Gas(found, np.exp(ln_t), np.exp(ln_v), done)


def _start(
    residual: _Residual, molecules: list[Molecule], amounts: np.ndarray, temperature: np.ndarray
) -> np.ndarray:
    """The function of state at the start."""
    zero, one = np.zeros_like(temperature), np.ones_like(temperature)
    if residual is _of_temperature:
        return temperature
    if residual is _of_pressure:
        return amounts.sum(axis=1) * GAS_CONSTANT * temperature
    gas = functions_of(molecules, temperature)
    return residual(_State(temperature, one, amounts, gas, zero))[0]


def _possible(atoms: np.ndarray, counts: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Which species [zone, species] have only elements that are there."""
    there = np.ones(amounts.shape, bool)
    scale = np.maximum(amounts @ np.abs(atoms), np.finfo(float).tiny)
    missing = np.abs(counts) <= 1e-15 * scale
    while True:
        # An element of which there is none is in no species, unless counts of both signs cancel.
        signs = there.astype(float) @ (atoms > 0) > 0, there.astype(float) @ (atoms < 0) > 0
        lone = missing & ~(signs[0] & signs[1])
        left = there & ~(lone.astype(float) @ (atoms.T != 0) > 0)
        if (left == there).all():
            return there
        there = left


def _first_potential(
    atoms: np.ndarray, weight: np.ndarray | None = None, counts: np.ndarray | None = None
) -> np.ndarray:
    """Potentials at which no species has more than all atoms."""
    if weight is None or counts is None:
        return np.zeros((0, atoms.shape[1]))
    size = np.abs(atoms).sum(axis=1)
    total = np.log(np.abs(counts).sum(axis=1))[:, None]
    least = -((weight - total + np.log(size)) / size).max(axis=1)
    return np.repeat(least[:, None], atoms.shape[1], axis=1)


def _solved(atoms: np.ndarray, amounts: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with the matrix sum of a_k a_l n, scaled; shapes [zone, element, ...]."""
    matrix = np.einsum("zs,sk,sl->zkl", amounts, atoms, atoms, optimize=True)
    scale = np.sqrt(np.maximum(np.einsum("zkk->zk", matrix), np.finfo(float).tiny))
    matrix /= scale[:, :, None] * scale[:, None, :]
    size = atoms.shape[1]
    matrix[:, range(size), range(size)] = 1.0 + _RIDGE
    return np.asarray(np.linalg.solve(matrix, right / scale[:, :, None]) / scale[:, :, None])


def _minimum(
    atoms: np.ndarray, counts: np.ndarray, weight: np.ndarray, potential: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Potentials and amounts at given temperature and volume, and where they are accurate."""
    most = np.log(np.abs(counts).sum(axis=1))[:, None]
    for _ in range(_MOST_INNER):
        logs = weight + potential @ atoms.T
        amounts = np.exp(logs)
        off = counts - amounts @ atoms
        good = (np.abs(off) <= _LOST * np.maximum(amounts @ np.abs(atoms), counts)).all(axis=1)
        step = _solved(atoms, amounts, off[:, :, None])[:, :, 0]
        # Traces may grow freely as long as they remain traces.
        growth = step @ atoms.T - np.maximum(_TRACE - (logs - most), 0.0)
        far = np.maximum(growth.max(axis=1), 1e-9)
        potential = potential + step * (np.log1p(far) / far)[:, None]
        if good.all():
            break
    logs = weight + potential @ atoms.T
    return potential, np.exp(logs), good
