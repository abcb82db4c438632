"""Coefficients that depend on collision partners, pressure or the enthalpy of reaction.

The collision partners of a reaction have the concentration M = rho sum of e_i Y_i [mol/cm3], with
an efficiency e_i of each species. k_low and k_high are Arrhenius laws:

    plain        k = k_r M
    falloff      k = k_high P / (1 + P) F with P = k_low M / k_high; F: Lindemann's 1, Troe's, SRI's
    activated    k = k_low / (1 + P) F
    logarithmic  ln k linear in ln p between coefficients at several pressures p = M R T
    Chebyshev    log10 k = sum of a_tp T_t(1 / T) T_p(log p), ranges mapped to [-1, 1]
    Blowers and Masel   k = k_r exp(-E / T), with E a function of the enthalpy of reaction; no M
    mixture      k = sum of x_i k_i(M / e_i) with x_i = e_i c_i / M and efficiencies e_i(T)

Each also gives d ln k / d ln M, for the Jacobian. In a mixture the derivative with respect to the
concentration c_j is (e_j / M) (k_j - k + s) with s = sum of x_i dk_i / d ln M: a part that all
partners share, with k_0 of the reference partner for k_j, and (e_j / M) (k_j - k_0) of partner j.

R. G. Gilbert, K. Luther, J. Troe: Ber. Bunsenges. Phys. Chem. 87, 169 (1983);
P. H. Stewart, C. W. Larson, D. M. Golden: Combust. Flame 75, 25 (1989);
P. K. Venkatesh, A. M. Dean, M. H. Cohen, R. W. Carr: J. Chem. Phys. 107, 8904 (1997);
P. Blowers, R. I. Masel: AIChE J. 46, 2041 (2000);
M. P. Burke, R. Song: Proc. Combust. Inst. 36, 245 (2017);
P. J. Singal, J. Lee, L. Lei, R. L. Speth, M. P. Burke: Proc. Combust. Inst. 40, 105779 (2024),
eq. (8).
"""

from __future__ import annotations

from ergode.core.group import share
from ergode.core.math.elementary import exp, log
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.kernel_options import FORMULAS, MIXTURES, MOLECULES
from ergode.kinetics.physics.rates import density_power, range_at, reduced_enthalpy
from ergode.models.constants import GAS_CONSTANT

PLAIN, LINDEMANN, TROE, SRI, LOGARITHMIC, CHEBYSHEV, BLOWERS_MASEL, MIXTURE = range(8)
ACTIVATED = 8
"""Added to the kind of a falloff that is chemically activated: the other slot is the high limit."""

_TINY = 1e-300
_TEN = 2.302585092994046


# --- device functions -----------------------------------------------------------------------------


def slope_count(rates):
    """Derivatives of coefficients: of reactions, parts of mixtures, then of formulas."""
    count = rates.order.size + rates.third_body_kind.size - rates.third_body_reaction.size
    return count + (rates.formulas.sum.size if FORMULAS else 0)


def collision_partners(rates, density, y, slots, partners, group):
    """Concentration of the partners of each kind [mol/cm3]."""
    for kind in share(group, 0, partners.size):
        total = 0.0
        for i in range(rates.efficiency.shape[1]):
            total += rates.efficiency[kind, i] * y[i]
        if MIXTURES:
            for collider in range(rates.collider_start[kind], rates.collider_start[kind + 1]):
                efficiency = slots[rates.collider_slot[collider]]
                total += efficiency * y[rates.collider_species[collider]]
        partners[kind] = density * total


def third_bodies(rates, polynomials, temperature, density, partners_of, slots, slopes, group):
    """Replace the coefficients in the slots of reactions with collision partners.

    Their `slopes` become d ln k / d ln M.
    """
    for b in share(group, 0, rates.third_body_reaction.size):
        r, kind = rates.third_body_reaction[b], rates.third_body_kind[b]
        partners = partners_of[rates.third_body_set[b]]
        power = density_power(rates, r, density)
        if kind == PLAIN:
            slots[r] *= partners
            slopes[r] = 1.0
        elif kind == BLOWERS_MASEL:
            if MOLECULES:
                slots[r] *= exp(-_activation(rates, b, polynomials, temperature) / temperature)
            slopes[r] = 0.0
        else:
            value, slope = 0.0, 0.0
            if kind != MIXTURE:
                own = slots[r] / power
                value, slope = _falling_off(rates, b, slots, own, temperature, partners)
            elif MIXTURES:
                value, slope = _mixture(rates, b, slots, slopes, temperature, partners_of)
            slots[r] = value * power
            slopes[r] = slope


def _falling_off(rates, b, slots, own, temperature, partners):
    """Coefficient of law b at a concentration of partners, and d ln k / d ln M.

    `own` is its coefficient that does not depend on partners.
    """
    kind, low = rates.third_body_kind[b], rates.third_body_low[b]
    numbers = rates.third_body_number[rates.third_body_start[b] : rates.third_body_start[b + 1]]
    if kind == LOGARITHMIC or kind == CHEBYSHEV:
        pressure = log(max(partners * GAS_CONSTANT * temperature, _TINY))
        if kind == LOGARITHMIC:
            return _logarithmic(numbers, slots, low, pressure)
        return _chebyshev(numbers, temperature, pressure)
    other = slots[low]
    form = kind & (ACTIVATED - 1)
    if kind >= ACTIVATED:
        reduced = own * partners / max(other, _TINY)
        slope = -reduced / (1.0 + reduced)
        factor = 1.0 / (1.0 + reduced)
    else:
        reduced = other * partners / max(own, _TINY)
        slope = 1.0 / (1.0 + reduced)
        factor = reduced / (1.0 + reduced)
    if form != LINDEMANN:
        if form == TROE:
            broadening, extra = _troe(numbers, temperature, max(reduced, _TINY))
        else:
            broadening, extra = _sri(numbers, temperature, max(reduced, _TINY))
        factor *= broadening
        slope += extra
    return own * factor, slope


def _mixture(rates, b, slots, slopes, temperature, partners_of):
    """Coefficient of mixture b, and the part of its derivative that all partners share.

    The other parts, of partners with coefficients of their own, are put behind the slopes of the
    reactions. All are relative to the coefficient.
    """
    count = rates.third_body_low[b]
    begin, end = rates.mixture_start[count], rates.mixture_start[count + 1]
    behind = rates.order.size - rates.third_body_reaction.size
    whole = max(partners_of[rates.third_body_set[b]], _TINY)
    rest = partners_of[rates.third_body_set[b]]
    total, steep, base = 0.0, 0.0, 0.0
    for back in range(begin, end):
        part = end - 1 - (back - begin)  # the reference partner, which is the first, comes last
        low = rates.third_body_low[part]
        amount, pure = rest, whole
        if part > begin:
            row = rates.third_body_set[part]
            amount = partners_of[row]
            pure = whole / slots[rates.collider_slot[rates.collider_start[row]]]
            rest -= amount
        base, slope = _falling_off(rates, part, slots, slots[low - 1], temperature, pure)
        share = max(amount, 0.0) / whole
        total += share * base
        steep += share * base * slope
        slopes[behind + part] = base
    safe = max(total, _TINY)
    for part in range(begin + 1, end):
        slopes[behind + part] = (slopes[behind + part] - base) / safe
    return total, (base - total + steep) / safe


def _activation(rates, b, polynomials, temperature):
    """Activation energy of law b over the gas constant, by Blowers and Masel [K].

    The numbers are: the intrinsic activation energy, the bond energy, then each species that
    changes and its change.
    """
    numbers = rates.third_body_number[rates.third_body_start[b] : rates.third_body_start[b + 1]]
    inverse, logarithm = 1.0 / temperature, log(temperature)
    heat = 0.0
    for count in range(2, numbers.size, 2):
        k = count & NONNEGATIVE
        i = int(numbers[k]) & NONNEGATIVE
        row = range_at(polynomials, i, temperature)
        one = reduced_enthalpy(polynomials, row, i, temperature, inverse, logarithm)
        heat += numbers[k + 1] * one * temperature
    intrinsic, bond = numbers[0], numbers[1]
    if heat <= -4.0 * intrinsic:
        return 0.0
    if heat >= 4.0 * intrinsic:
        return heat
    # v - 2 w and v^2 - 4 w^2, without their cancellation.
    excess = 4.0 * bond * intrinsic / (bond - intrinsic)
    square = excess * (excess + 4.0 * bond)
    return (bond + 0.5 * heat) * (excess + heat) * (excess + heat) / (square + heat * heat)


def _troe(parameters, temperature, reduced):
    """Troe's broadening factor F and d ln F / d ln(reduced pressure)."""
    a = parameters[0]
    centre = (1.0 - a) * exp(-temperature / parameters[1]) + a * exp(-temperature / parameters[2])
    if parameters[3] != 0.0:
        centre += exp(-parameters[3] / temperature)
    lc = log(max(centre, _TINY)) / _TEN
    c = -0.4 - 0.67 * lc
    n = 0.75 - 1.27 * lc
    x = log(reduced) / _TEN + c
    below = n - 0.14 * x
    ratio = x / below
    square = 1.0 + ratio * ratio
    exponent = lc / square
    # d ratio / dx = n / below^2
    slope = -lc / (square * square) * 2.0 * ratio * n / (below * below)
    return exp(_TEN * exponent), slope


def _sri(parameters, temperature, reduced):
    """SRI's broadening factor F and d ln F / d ln(reduced pressure)."""
    inner = parameters[0] * exp(-parameters[1] / temperature)
    if parameters[2] != 0.0:
        inner += exp(-temperature / parameters[2])
    inner = log(max(inner, _TINY))
    x = log(reduced) / _TEN
    power = 1.0 / (1.0 + x * x)
    factor = parameters[3] * exp(power * inner + parameters[4] * log(temperature))
    return factor, -2.0 * x * power * power / _TEN * inner


def _logarithmic(pressures, slots, first, pressure):
    """Coefficient at the logarithm of a pressure, and d ln k / d ln p."""
    count = pressures.size
    if count == 1 or pressure <= pressures[0]:
        return slots[first], 0.0
    if pressure >= pressures[count - 1]:
        return slots[first + count - 1], 0.0
    below = 0
    while below < count - 2 and pressures[below + 1] < pressure:
        below += 1
    lower = log(max(slots[first + below], _TINY))
    upper = log(max(slots[first + below + 1], _TINY))
    slope = (upper - lower) / (pressures[below + 1] - pressures[below])
    return exp(lower + slope * (pressure - pressures[below])), slope


def _chebyshev(numbers, temperature, pressure):
    """Coefficient at the logarithm of a pressure, and d ln k / d ln p.

    The numbers are: middle and half width of the ranges of 1 / T and of ln p, the number of
    polynomials of p, and the coefficients.
    """
    x = (1.0 / temperature - numbers[0]) / numbers[1]
    z = (pressure - numbers[2]) / numbers[3]
    width = int(numbers[4])
    height = (numbers.size - 5) // width
    total, slope = 0.0, 0.0
    before_t, now_t = x, 1.0  # T_-1 = T_1
    for t in range(height):
        before_p, now_p = z, 1.0
        before_s, now_s = 1.0, 0.0  # derivatives
        for p in range(width):
            a = numbers[(5 + t * width + p) & NONNEGATIVE]
            total += a * now_t * now_p
            slope += a * now_t * now_s
            next_p = 2.0 * z * now_p - before_p
            next_s = 2.0 * now_p + 2.0 * z * now_s - before_s
            before_p, now_p = now_p, next_p
            before_s, now_s = now_s, next_s
        before_t, now_t = now_t, 2.0 * x * now_t - before_t
    return exp(_TEN * total), _TEN * slope / numbers[3]
