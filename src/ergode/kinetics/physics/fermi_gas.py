"""Electrons and positrons in equilibrium with radiation: their free energy from exact integrals.

Energies are in units of the rest energy m c^2, momenta of m c, densities of the density at which
the Fermi momentum is m c. A gas of fermions of the kinetic chemical potential mu has

    n = 3 integral p (1 + e) f de,    P = integral p^3 f de,    f = 1 / (exp((e - mu) / theta) + 1).

Positrons have the potential -mu - 2. Charge neutrality, n_- - n_+ = n, gives mu by Newton's method.

What a table holds is the *thermal* free energy: the cold gas is left out before it is subtracted.
Above the Fermi energy particles are added to the cold gas, below it holes; strongly degenerate
gases take both in one integral, in which differences of powers of momenta are exact. The thermal
part so keeps its relative accuracy where it is 1e-15 of the whole.

With the rapidity w, p = sinh w and e = cosh w - 1, the integrands have no singularity but the poles
of f, and Gauss-Legendre quadrature converges to rounding.

J. P. Cox, R. T. Giuli: Principles of Stellar Structure (1968), chapter 24.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

_REACH = 40.0
"""Fermi functions end at this many theta from the Fermi energy: exp(-40) is 4e-18."""


class _Rule(NamedTuple):
    """Gauss-Legendre quadrature on [0, 1]."""

    nodes: np.ndarray
    weights: np.ndarray


@lru_cache(maxsize=8)
def _rule(count: int) -> _Rule:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return _Rule(0.5 * (nodes + 1.0), 0.5 * weights)


_FINE, _ROUGH = 48, 20
"""Nodes for free energies; for chemical potentials, whose error a free energy has only squared."""
_SMALL_MOMENTUM = 0.2
_SERIES = np.array([
    1 / 2, -1 / 8, 1 / 16, -5 / 128, 7 / 256, -21 / 1024, 33 / 2048, -429 / 32768, 715 / 65536,
]) * 3.0 / (2.0 * np.arange(1, 10) + 3.0)  # fmt: skip
"""Mean kinetic energy of a cold gas in powers of the squared Fermi momentum."""
_ROUNDS = 60
_BLOCK = 4096  # states whose integrals are computed together


def cold_energy(momentum: np.ndarray) -> np.ndarray:
    """Mean kinetic energy of a cold gas, from its Fermi momentum."""
    p = np.asarray(momentum, np.float64)
    square = p * p
    series = square * np.polynomial.polynomial.polyval(np.minimum(square, 0.1), _SERIES)
    safe = np.maximum(p, _SMALL_MOMENTUM)
    root = np.sqrt(1.0 + safe * safe)
    closed = 0.375 * (safe * (1.0 + 2.0 * safe * safe) * root - np.arcsinh(safe)) / safe**3 - 1.0
    return np.where(p < _SMALL_MOMENTUM, series, closed)


def thermal_free_energy(theta: np.ndarray, density: np.ndarray) -> np.ndarray:
    """Free energy per electron in excess of positrons, without that of the cold gas.

    Parameters
    ----------
    theta : ndarray
        Temperature over the rest energy.
    density : ndarray
        Electrons less positrons, of the shape of `theta`.

    Returns
    -------
    ndarray
        In units of the rest energy. The rest energy of pairs is included, that of the excess of
        electrons is not.
    """
    hot, dense = np.broadcast_arrays(theta, density)
    found = np.empty(hot.size)
    hot, dense = hot.reshape(-1), dense.reshape(-1)
    with np.errstate(over="ignore", under="ignore"):
        for start in range(0, hot.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            found[part] = _thermal(hot[part], dense[part])
    return found.reshape(np.broadcast_shapes(np.shape(theta), np.shape(density)))


def log_scaled_density(theta: np.ndarray) -> np.ndarray:
    """ln of the density of classical electrons at zero potential, times exp(1 / theta)."""
    from scipy.special import kve

    return np.asarray(np.log(3.0 * theta * kve(2, 1.0 / theta)))


def pair_response(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How an excess n of electrons over positrons responds to the potential, where it is small.

    With eta the distance from the potential of equal numbers over theta, n = N (eta + kappa eta^3 /
    6). Returned are ln N, relative to classical gases, and kappa, which is 1 for those.
    """
    rule, hot = _rule(2 * _FINE), theta[:, None]
    width = 2.0 * np.arcsinh(np.sqrt(0.5 * _REACH * hot))
    rapidity = width * rule.nodes
    energy, momentum = 2.0 * np.sinh(0.5 * rapidity) ** 2, np.sinh(rapidity)
    empty = 1.0 / (1.0 + np.exp(-(energy + 1.0) / hot))
    response = 3.0 * width * momentum**2 * (1.0 + energy) * np.exp(-energy / hot) * empty**2
    bent = response * (1.0 - 6.0 * empty * (1.0 - empty))
    total = response @ rule.weights
    return np.log(total) - log_scaled_density(theta), (bent @ rule.weights) / total


def _thermal(theta: np.ndarray, density: np.ndarray) -> np.ndarray:
    potential, rule = chemical_potential(theta, density), _rule(_FINE)
    momentum = np.cbrt(density)
    cold = momentum**2 / (1.0 + np.sqrt(1.0 + momentum**2))
    excess, more, slope = _fermions(potential, theta, _FINE)
    positrons, antimatter, less = _fermions(-potential - 2.0, theta, _FINE)
    own = np.maximum(potential, 0.0)
    apart = own - cold
    # n(own) - n, without the cancellation of nearly equal densities.
    root, rest = np.sqrt(own * (2.0 + own)), momentum
    change = apart * (2.0 + own + cold)
    gained = change * (root**2 + root * rest + rest**2) / (root + rest)
    miss = -(gained + more - antimatter)
    slack = 0.5 * miss**2 / (slope + less)
    # Where degenerate: P_cold(own) - P_cold(cold) - n (own - cold), by an integral over potentials.
    degenerate = potential > 8.0 * theta
    inner = np.where(degenerate, apart, 0.0)[:, None] * rule.nodes
    level = np.where(degenerate, cold, 1.0)[:, None] + inner
    bend = 3.0 * np.sqrt(level * (2.0 + level)) * (1.0 + level)
    bracket = np.where(degenerate, apart, 0.0) ** 2 * (bend @ (rule.weights * (1.0 - rule.nodes)))
    close = -bracket - excess - positrons + slack
    own_momentum = np.sqrt(own * (2.0 + own))
    pressure = own_momentum**3 * (own - cold_energy(own_momentum))
    far = density * (potential - cold_energy(momentum)) - pressure - excess - positrons + slack
    return np.asarray(np.where(degenerate, close, far) / density)


def chemical_potential(theta: np.ndarray, density: np.ndarray) -> np.ndarray:
    """Kinetic chemical potential of electrons at these densities, one-dimensional arrays.

    Newton's method for the potential of a classical gas of the same density.
    """
    scale, few = np.exp(log_scaled_density(theta)), np.exp(-1.0 / theta)

    def classical(net: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Potential over theta of a classical gas with pairs, and its derivative."""
        root = np.hypot(net, 2.0 * scale[at] * few[at])
        found = np.log((np.abs(net) + root) / (2.0 * scale[at]))
        return np.where(net < 0.0, -found - 2.0 / theta[at], found), 1.0 / root

    open_ = np.arange(theta.size)
    momentum = np.cbrt(density)
    cold = momentum**2 / (1.0 + np.sqrt(1.0 + momentum**2))
    wanted = classical(density, open_)[0]
    potential = theta * wanted
    potential = np.where(potential > 0.0, np.maximum(potential, cold), potential)
    for _ in range(_ROUNDS):
        hot, now = theta[open_], potential[open_]
        _, electrons, slope = _fermions(now, hot, _ROUGH)
        own = np.maximum(now, 0.0)
        _, positrons, less = _fermions(-now - 2.0, hot, _ROUGH)
        net = electrons + (own * (2.0 + own)) ** 1.5 - positrons
        reached, steep = classical(net, open_)
        step = (wanted[open_] - reached) / (steep * (slope + less))
        potential[open_] = now + step
        open_ = open_[np.abs(step) > 1e-3 * hot]
        if not open_.size:
            break
    return potential


def _fermions(potential: np.ndarray, theta: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """Thermal pressure, thermal density, and derivative of the density by the potential.

    Where the potential is positive, the cold gas of that potential is left out of the first two.
    """
    found = np.empty((3, theta.size))
    strong = potential > _REACH * theta
    weak = ~strong
    if strong.any():
        found[:, strong] = _degenerate(potential[strong], theta[strong], count)
    if weak.any():
        found[:, weak] = _particles(potential[weak], theta[weak], count)
    return found[0], found[1], found[2]


def _particles(potential: np.ndarray, theta: np.ndarray, count: int) -> np.ndarray:
    fermi = np.maximum(potential, 0.0)
    found = _between(fermi, fermi + _REACH * theta, potential, theta, 1.0, count)
    some = potential > 0.0
    if some.any():
        own = potential[some]  # holes crowd at one end: more nodes
        holes = _between(np.zeros(own.size), own, own, theta[some], -1.0, 2 * count)
        found[:2, some] -= holes[:2]
        found[2, some] += holes[2]
    return found


def _between(
    low: np.ndarray,
    high: np.ndarray,
    potential: np.ndarray,
    theta: np.ndarray,
    sign: float,
    count: int,
) -> np.ndarray:
    """Integrals over kinetic energies from low to high, of particles (1) or holes (-1)."""
    rule = _rule(count)
    first, last = (2.0 * np.arcsinh(np.sqrt(0.5 * e)) for e in (low, high))
    rapidity = first[:, None] + (last - first)[:, None] * rule.nodes
    energy = 2.0 * np.sinh(0.5 * rapidity) ** 2
    momentum = np.sinh(rapidity)
    occupied = 1.0 / (np.exp(sign * (energy - potential[:, None]) / theta[:, None]) + 1.0)
    by_energy = momentum * momentum * (1.0 + energy) * occupied
    width = last - first
    return np.stack([
        width * ((momentum**4 * occupied) @ rule.weights),
        width * 3.0 * (by_energy @ rule.weights),
        width * 3.0 * ((by_energy * (1.0 - occupied)) @ rule.weights) / theta,
    ])  # fmt: skip


def _degenerate(potential: np.ndarray, theta: np.ndarray, count: int) -> np.ndarray:
    """Particles less holes, each at the same distance from the Fermi energy."""
    rule, mu = _rule(count), potential[:, None]
    t = np.minimum(_REACH * theta[:, None] * rule.nodes, mu)
    weight = _REACH * theta
    occupied = 1.0 / (np.exp(t / theta[:, None]) + 1.0)
    above, below = mu + t, mu - t
    high, low = above * (2.0 + above), below * (2.0 + below)  # squared momenta
    apart = 4.0 * t * (1.0 + mu)
    root_high, root_low = np.sqrt(high), np.sqrt(low)
    cubes = apart * (high * high + high * low + low * low) / (high * root_high + low * root_low)
    up, down = root_high * (1.0 + above), root_low * (1.0 + below)
    product = apart * ((1.0 + above) ** 2 + (1.0 + below) ** 2 - 1.0) / (up + down)
    fermi = potential * (2.0 + potential)
    return np.stack([
        weight * ((cubes * occupied) @ rule.weights),
        weight * 3.0 * ((product * occupied) @ rule.weights),
        3.0 * np.sqrt(fermi) * (1.0 + potential),
    ])  # fmt: skip
