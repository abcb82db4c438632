"""Thermal neutrino losses: the energy that pairs of neutrinos carry off from hot, dense matter.

The fits of Itoh et al. for five processes, as functions of temperature, density, and the mean
charge and mass number of nuclei; equations are numbered as there:

    pair            e- + e+ -> nu nubar
    photo           e- + photon -> e- nu nubar
    plasma          plasmon -> nu nubar
    bremsstrahlung  e- + nucleus -> e- + nucleus + nu nubar
    recombination   free e- -> bound e- + nu nubar

They hold from 1e7 K on; below, losses are zero. Bremsstrahlung of strongly degenerate electrons is
that of liquid carbon. Recombination takes Nilsson's approximation of the chemical potential.

N. Itoh, H. Hayashi, A. Nishikawa, Y. Kohyama: ApJS 102, 411 (1996);
N. G. Nilsson: Phys. Status Solidi A 19, K75 (1973).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ergode.core import devices, kernels
from ergode.core.compiler.language import noinline
from ergode.core.math.elementary import cos, exp, log, sin

COLDEST = 1e7
"""Temperature below which losses are zero [K]."""
_MIXING = 0.2319  # squared sine of Weinberg's angle
_VECTOR, _AXIAL = 0.5 + 2.0 * _MIXING, 0.5
_OTHER_VECTOR, _OTHER_AXIAL = 1.0 - _VECTOR, 1.0 - _AXIAL
_OTHERS = 2.0  # kinds of neutrinos beside those of electrons


def _couplings(weight: float) -> float:
    electrons = _VECTOR**2 + weight * _AXIAL**2
    return electrons + _OTHERS * (_OTHER_VECTOR**2 + weight * _OTHER_AXIAL**2)


_PLUS, _MINUS, _BOUND = 0.5 * _couplings(1.0), 0.5 * _couplings(-1.0), _couplings(1.5)
_PLASMA = (_VECTOR**2 + _OTHERS * _OTHER_VECTOR**2) * 3.0e21
_REST = 5.9302e9  # temperature of the rest energy of an electron [K]
_TEN = math.log(10.0)
_GAMMA = 2.0 / math.sqrt(math.pi)
_GRAIN = 1024  # smallest number of states for a thread


def losses_at(
    temperature: np.ndarray, density: np.ndarray, nuclei: np.ndarray, electrons: np.ndarray
) -> np.ndarray:
    """Losses of matter [erg/(g s)] from its amounts [mol/g]."""
    found = np.empty(temperature.size)
    devices.resolve("cpu").run(
        _losses_kernel(), found.size, temperature.reshape(-1), density.reshape(-1),
        nuclei.reshape(-1), electrons.reshape(-1), found, grain=_GRAIN,
    )  # fmt: skip
    return found.reshape(temperature.shape)


@lru_cache(maxsize=1)
def _losses_kernel() -> kernels.Kernel:
    return kernels.for_each(_losses)


# --- device functions -----------------------------------------------------------------------------


def power(x, exponent):
    """x to a power."""
    return exp(exponent * log(x))


def fourier(c, s, a0, a1, a2, a3, a4, a5, a6, b1, b2, b3, b4, b5):
    """Fourier series: the first and last cosine have half their weight (3.6, 5.21)."""
    c2, s2 = c * c - s * s, 2.0 * c * s
    c3, s3 = c2 * c - s2 * s, s2 * c + c2 * s
    c4, s4 = c3 * c - s3 * s, s3 * c + c3 * s
    c5, s5 = c4 * c - s4 * s, s4 * c + c4 * s
    c6 = c5 * c - s5 * s
    even = 0.5 * a0 + a1 * c + a2 * c2 + a3 * c3 + a4 * c4 + a5 * c5 + 0.5 * a6 * c6
    return even + b1 * s + b2 * s2 + b3 * s3 + b4 * s4 + b5 * s5


def pair_losses(hot, electrons, zeta):
    """By annihilation of pairs [erg/(cm3 s)]; (2.5) to (2.8)."""
    square = hot * hot
    g = 1.0 - 13.04 * square + square * square * (133.5 + square * (1534.0 + 918.6 * square))
    top = 6.002e19 + zeta * (2.084e20 + 1.872e21 * zeta)
    if hot * _REST < 1e10:
        top *= exp(-5.5924 * zeta)
        below = (0.9383 + (-0.4141 + 0.05829 / hot) / hot) / hot
    else:
        top *= exp(-4.9924 * zeta)
        below = (1.2383 - 0.8141 / hot) / hot
    root = math.sqrt(hot)
    share = 1.0 / (10.7480 * square + 0.3967 * root + 1.005)
    share *= power(1.0 + electrons / (7.692e7 * square * hot + 9.715e6 * root), -0.3)
    rate = g * exp(-2.0 / hot) * top / (zeta * zeta * zeta + below)
    return (_PLUS + _MINUS * share) * rate


def photo_losses(temperature, hot, electrons, zeta):
    """By Compton scattering [erg/(cm3 s)]; (3.2) to (3.8) and table 2."""
    if temperature < 1e8:
        tau = log(temperature / 1e7) / _TEN
        steep = 0.5654 + tau
    elif temperature < 1e9:
        tau = log(temperature / 1e8) / _TEN
        steep = 1.5654
    else:
        tau = log(temperature / 1e9) / _TEN
        steep = 1.5654
    angle = 5.0 * math.pi / 3.0 * tau
    c, s = cos(angle), sin(angle)
    if temperature < 1e8:
        a = 0.5 * 1.008e11
        b = fourier(
            c, s, 8.156e10, 9.728e8, -3.806e9, -4.384e9, -5.774e9, -5.249e9, -5.153e9,
            -1.879e10, -9.667e9, -5.602e9, -3.370e9, -1.825e9,
        )  # fmt: skip
        d = fourier(
            c, s, 1.067e11, -9.782e9, -7.193e9, -6.936e9, -6.893e9, -7.041e9, -7.193e9,
            -2.919e10, -1.185e10, -7.270e9, -4.222e9, -1.560e9,
        )  # fmt: skip
    elif temperature < 1e9:
        a = fourier(
            c, s, 9.889e10, -4.524e8, -6.088e6, 4.269e7, 5.172e7, 4.910e7, 4.388e7,
            -1.135e8, 1.256e8, 5.149e7, 3.436e7, 1.005e7,
        )  # fmt: skip
        b = fourier(
            c, s, 1.813e11, -7.556e9, -3.304e9, -1.031e9, -1.764e9, -1.851e9, -1.928e9,
            1.652e9, -3.119e9, -1.839e9, -1.458e9, -8.956e8,
        )  # fmt: skip
        d = fourier(
            c, s, 9.750e10, 3.484e10, 5.199e9, -1.695e9, -2.865e9, -3.395e9, -3.418e9,
            -1.548e10, -9.338e9, -5.899e9, -3.035e9, -1.598e9,
        )  # fmt: skip
    else:
        a = fourier(
            c, s, 9.581e10, 4.107e8, 2.305e8, 2.236e8, 1.580e8, 2.165e8, 1.721e8,
            4.724e8, 2.976e8, 2.242e8, 7.937e7, 4.859e7,
        )  # fmt: skip
        b = fourier(
            c, s, 1.459e12, 1.314e11, -1.169e11, -1.765e11, -1.867e11, -1.983e11, -1.896e11,
            -7.094e11, -3.697e11, -2.189e11, -1.273e11, -5.705e10,
        )  # fmt: skip
        d = fourier(
            c, s, 2.424e11, -3.669e9, -8.691e9, -7.967e9, -7.932e9, -7.987e9, -8.333e9,
            -2.254e10, -1.551e10, -7.793e9, -4.489e9, -2.185e9,
        )  # fmt: skip
    below = zeta * zeta * zeta + (6.290e-3 + (7.483e-3 + 3.061e-4 / hot) / hot) / hot
    rate = (a + zeta * (b + d * zeta)) * exp(-steep * zeta) / below
    share = 0.666 * power(1.0 + 2.045 * hot, -2.066)
    share /= 1.0 + electrons / (hot * (1.875e8 + hot * (1.653e8 + hot * (8.499e8 - 1.604e8 * hot))))
    fifth = hot * hot * hot * hot * hot
    return max((_PLUS - _MINUS * share) * electrons * fifth * rate, 0.0)


def plasma_losses(temperature, hot, electrons):
    """By decay of plasmons [erg/(cm3 s)]; (4.1) to (4.11)."""
    stiff = math.sqrt(1.0 + power(1.019e-6 * electrons, 2.0 / 3.0))
    square = 1.1095e11 * electrons / (temperature * temperature * stiff)
    gamma = math.sqrt(square)
    root = math.sqrt(gamma)
    transverse = 2.4 + 0.6 * root + 0.51 * gamma + 1.25 * gamma * root
    longitudinal = square * (8.6 + 1.35 * gamma * root) / (225.0 - 17.0 * gamma + square)
    dense, warm = log(2.0 * electrons) / _TEN, log(temperature) / _TEN
    x = (17.5 + dense - 3.0 * warm) / 6.0
    y = (-24.5 + dense + 3.0 * warm) / 6.0
    factor = 1.0
    if abs(x) <= 0.7 and y >= 0.0:
        bump = 4.5 * x + 0.9
        height = 0.39 - 1.25 * x - 0.35 * sin(4.5 * x) - 0.3 * exp(-bump * bump)
        away = min(0.0, y - 1.6 + 1.25 * x) / (0.57 - 0.25 * x)
        factor = 1.05 + height * exp(-away * away)
    cube = hot * hot * hot
    rate = (transverse + longitudinal) * factor * exp(-gamma) * square * square * square
    return _PLASMA * cube * cube * cube * rate


def bremsstrahlung_losses(temperature, density, electrons, charge, mass):
    """By bremsstrahlung [erg/(cm3 s)]; (5.1) to (5.9), and (5.17) to (5.26) for a liquid."""
    t8 = temperature * 1e-8
    per_electron = power(electrons * 1e-6, 1.0 / 3.0)
    fermi = _REST * (math.sqrt(1.0 + 1.018 * per_electron * per_electron) - 1.0)
    cube = t8 * t8 * t8
    if temperature > 0.3 * fermi:
        three_halves = t8 * math.sqrt(t8)
        inverse = (7.05e6 * three_halves + 5.12e4 * cube) / electrons
        near, far = 1.0 / (t8 * t8), 1.0 / (cube * t8 * t8)
        f = 1.0 / (23.5 + 6.83e4 * near + 7.81e8 * far)
        f += 1.26 * (1.0 + inverse) / (1.0 + inverse * (1.47 + 3.29e-2 * inverse))
        g = 1.0 / ((230.0 + 6.7e5 * near + 7.66e9 * far) * (1.0 + electrons * 1e-9))
        rest = (7.75e5 * three_halves + 247.0 * power(t8, 3.85)) / electrons
        rest += 4.07 + 0.0240 * power(t8, 1.4) + 4.59e-5 * power(t8, -0.110) * power(density, 0.656)
        g += 1.0 / rest
    else:
        u = 0.2 * math.pi * (log(density) / _TEN - 3.0)
        c, s = cos(u), sin(u)
        f_weak = 0.00945 * u + 0.34529 + fourier(
            c, s, 0.17946, -0.05821, -0.01089, -0.01147, -0.00656, -0.00519, 0.0,
            -0.04969, -0.01584, -0.00504, -0.00281, 0.0,
        )  # fmt: skip
        f_strong = -0.02342 * u + 0.24819 + fourier(
            c, s, 0.06781, -0.00944, -0.01289, -0.00589, -0.00404, -0.00330, 0.0,
            -0.02213, -0.01136, -0.00467, -0.00131, 0.0,
        )  # fmt: skip
        g_weak = -0.01259 * u + 0.07917 + fourier(
            c, s, 0.00766, -0.00710, -0.00028, 0.00232, 0.00044, 0.00158, 0.0,
            0.02300, -0.01078, 0.00118, -0.00089, 0.0,
        )  # fmt: skip
        g_strong = -0.00829 * u + 0.05211 + fourier(
            c, s, -0.00769, 0.00356, -0.00184, 0.00146, 0.00031, 0.00069, 0.0,
            0.01052, -0.00354, -0.00014, -0.00018, 0.0,
        )  # fmt: skip
        # Of the coupling of ions, to the power of -1/3.
        third = 0.2275 * charge * charge / t8 * power(density * 1e-6 / mass, 1.0 / 3.0)
        third = power(third, -1.0 / 3.0)
        v = -0.05483 + third * (-0.01946 + third * (1.86310 - 0.78873 * third))
        w = -0.06711 + third * (0.06859 + third * (1.74360 - 0.74498 * third))
        f = v * f_weak + (1.0 - v) * f_strong
        g = w * g_weak + (1.0 - w) * g_strong
    # The fits are a little negative beyond their range, where other processes prevail.
    return max(0.5738 * charge * electrons * cube * cube * (_PLUS * f - _MINUS * g), 0.0)


def recombination_losses(temperature, electrons, charge):
    """By recombination [erg/(cm3 s)]; (6.5) to (6.14) and table 12."""
    # The chemical potential of an electron gas over k T, from its density.
    dense = 1.10520e8 * _GAMMA * electrons / (temperature * math.sqrt(temperature))
    bent = power(0.75 * math.sqrt(math.pi) * dense, 2.0 / 3.0)
    soft = 0.24 + 1.08 * bent
    gap = 1.0 - dense * dense
    nu = log(dense) / gap if abs(gap) > 1e-6 else -0.5
    nu += bent / (1.0 + 1.0 / (soft * soft))
    if not -20.0 <= nu <= 10.0:
        return 0.0
    zeta = 1.579e5 * charge * charge / temperature
    a1, a2, a3, b, c, d, bend = 1.51e-2, 2.42e-1, 1.21, 3.71e-2, 9.06e-1, 9.28e-1, 1.0
    if nu >= 0.0:
        a1, a2, a3, b, c, d = 1.23e-2, 2.66e-1, 1.30, 1.17e-1, 8.97e-1, 1.77e-1
        bend = 1.0 + nu * (-1.20e-2 + nu * (2.29e-2 - 1.04e-3 * nu))
    x = zeta / bend
    j = a1 / x + a2 * power(x, -2.25) + a3 * power(x, -4.55)
    j *= exp(nu) / (1.0 + b * exp(c * nu) * (1.0 + d * x))
    third = power(charge, 13.0)
    return _BOUND * 2.649e-18 * third * electrons * j / (1.0 + exp(zeta + nu))


def neutrino_parts(temperature, density, nuclei, electrons):
    """Pair, photo, plasma, bremsstrahlung and recombination losses [erg/(g s)].

    `nuclei` and `electrons` are specific amounts [mol/g].
    """
    if not (temperature >= COLDEST and nuclei > 0.0 and electrons > 0.0):
        return 0.0, 0.0, 0.0, 0.0, 0.0
    dense = density * electrons
    hot = temperature / _REST
    zeta = power(dense * 1e-9, 1.0 / 3.0) / hot
    charge = electrons / nuclei
    return (
        pair_losses(hot, dense, zeta) / density,
        photo_losses(temperature, hot, dense, zeta) / density,
        plasma_losses(temperature, hot, dense) / density,
        bremsstrahlung_losses(temperature, density, dense, charge, 1.0 / nuclei) / density,
        recombination_losses(temperature, dense, charge) / density,
    )


@noinline
def neutrino_losses_of(temperature, density, nuclei, electrons):
    """All losses together [erg/(g s)]."""
    pair, photo, plasma, slowed, bound = neutrino_parts(temperature, density, nuclei, electrons)
    return pair + photo + plasma + slowed + bound


def _losses(at, temperature, density, nuclei, electrons, found):  # type: ignore[no-untyped-def]
    found[at] = neutrino_losses_of(temperature[at], density[at], nuclei[at], electrons[at])
