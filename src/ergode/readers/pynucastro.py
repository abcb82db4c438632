"""Thermonuclear networks from objects of pynucastro."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ergode.core.errors import ReadError
from ergode.models.reactions.composed_rates import Branching, Tabulated, TemperatureTable
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rate_expression import RateExpression
from ergode.models.reactions.rates import PowerLaw, RateCoefficient, Reaclib, WeakTable
from ergode.models.reactions.reaction import Reaction
from ergode.readers.reaclib import species_of

_Plain = Reaclib | Tabulated
_NOTHING = (0.0,) * 7
_SPLINE = 3
_DENSITY, _TEMPERATURE, _RATE = 0, 1, 5  # columns of weak tables
# Of each approximation, the parts of the forward and of the reverse reaction: the direct one, the
# first of the sequence, and the branches of the intermediate nucleus X, first the one that ends it.
_SEQUENCES = {
    ("ap_pg", False): ("A(a,g)B", "A(a,p)X", ("X(p,g)B", "X(p,a)A", "X(p,Y)C")),
    ("ap_pg", True): ("B(g,a)A", "B(g,p)X", ("X(p,a)A", "X(p,g)B", "X(p,Y)C")),
    ("Yp_pg", False): ("A(Y,g)B", "A(Y,p)X", ("X(p,g)B", "X(p,Y)A", "X(p,a)C")),
    ("Yp_pg", True): ("B(g,Y)A", "B(g,p)X", ("X(p,Y)A", "X(p,g)B", "X(p,a)C")),
    ("Yp_pa", False): ("A(Y,a)B", "A(Y,p)X", ("X(p,a)B", "X(p,Y)A", "X(p,g)C")),
    ("Yp_pa", True): ("B(a,Y)A", "B(a,p)X", ("X(p,Y)A", "X(p,a)B", "X(p,g)C")),
}


def from_pynucastro(network: Any) -> ReactionNetwork:
    """The network of a pynucastro network or library.

    Parameters
    ----------
    network : pynucastro.RateCollection or pynucastro.Library
        With rates of REACLIB and of tables of temperature (STARLIB), modified and branched rates,
        (a,p)(p,g), C/O and (nn,g) approximations, rates derived by detailed balance, and weak rates
        on tables.

    Returns
    -------
    ReactionNetwork
        The rates are those of pynucastro's ``evaluate_ydots``, to rounding, with masses, spins and
        partition functions of the nuclei. Derived rates keep pynucastro's constants and cubic
        splines of partition functions. They are screened by their own reactants, as in pynucastro;
        see `balanced` for networks of REACLIB rates whose equilibrium does not shift. Beyond a weak
        table the nearest value is used. An (nn,g) approximation, which depends on the neutrons, is
        a `RateExpression`; `burn` has none.

    Notes
    -----
    Screening is an argument of the run, not of the network. ``screening="chugunov"`` is
    pynucastro's ``chugunov_2009``, and ``"weak"`` is Salpeter's formula. pynucastro's
    ``chugunov_2007``, ``screen5`` and ``potekhin_1998`` differ from them.

    Raises
    ------
    ReadError
        A rate is of another kind, or an (nn,g) approximation has parts with partition functions
        or tables; the message names it.

    Examples
    --------
    >>> import ergode, pynucastro  # doctest: +SKIP
    >>> from pynucastro.networks.common_networks import aprox13  # doctest: +SKIP
    >>> len(ergode.from_pynucastro(aprox13()).species)  # doctest: +SKIP
    13
    """
    try:
        rates, nuclei = network.get_rates(), network.get_nuclei()
    except AttributeError:
        raise ReadError(
            f"network is {type(network).__name__}; expected a RateCollection or a Library of "
            "pynucastro"
        ) from None
    if not nuclei:
        raise ReadError("network has no nuclei")
    used: Counter[str] = Counter()
    reactions = []
    for rate in rates:
        left = {nucleus.raw: float(rate.reactant_count(nucleus)) for nucleus in rate.reactants}
        right = {nucleus.raw: float(rate.product_count(nucleus)) for nucleus in rate.products}
        name = f"{' + '.join(left)} -> {' + '.join(right)} ({rate.label})"
        used[name] += 1
        name = name if used[name] == 1 else f"{name} #{used[name]}"
        reactions.append(_reaction(rate, name, left, right))
    return ReactionNetwork([species_of(one) for one in nuclei], reactions)


def _reaction(rate: Any, name: str, left: dict[str, float], right: dict[str, float]) -> Reaction:
    """A reaction, whose orders may differ from its stoichiometry."""
    meeting = [one for one in rate.reactants if one not in rate.not_in_ydot_term]
    orders = Counter(nucleus.raw for nucleus in meeting)
    law = _law(rate, name, float(rate.prefactor), bool(rate.use_ye_weighting))
    if dict(orders) != left:
        law = PowerLaw(law, tuple((key, float(orders.get(key, 0))) for key in left))
    screened = sorted(one.raw for one in meeting if one.Z)
    as_others = sorted(one.raw for one in rate.ion_screen)
    if as_others and as_others != screened:
        raise ReadError(
            f"rate '{name}' is screened as {' + '.join(as_others)}, and its reactants are "
            f"{' + '.join(screened)}; expected a rate whose own reactants are screened"
        )
    return Reaction(
        {key: count for key, count in left.items() if count},
        {key: count for key, count in right.items() if count},
        rate_constant=law, name=name,
    )  # fmt: skip


def _law(rate: Any, name: str, factor: float, electrons: bool = False) -> RateCoefficient:
    """The coefficient of a rate times a factor, and maybe the density of electrons."""
    import pynucastro.rates as kinds
    from pynucastro.rates.branched_rate import BranchedRate

    if isinstance(rate, kinds.ReacLibRate):
        return Reaclib(tuple(tuple(one.a) for one in rate.sets), factor, electrons)
    if isinstance(rate, kinds.TemperatureTabularRate):
        hot = 1e9 * np.exp(rate.interpolator.log_temp_points)
        table = TemperatureTable(tuple(hot), tuple(rate.interpolator.log_rate_data))
        return Tabulated((table,), Reaclib((_NOTHING,), factor, electrons))
    if isinstance(rate, kinds.ModifiedRate):
        return _law(rate.original_rate, name, factor, electrons)
    if isinstance(rate, kinds.TabularWeakRate):
        return _weak(rate, name)
    if isinstance(rate, kinds.DerivedRate):
        return _derived(rate, name, factor)
    if isinstance(rate, BranchedRate):
        parts = (rate.underlying_rate, rate.primary_branch, rate.other_branch)
        first, *branches = (_part(one, name, 1.0) for one in parts)
        return Branching(_times(first, factor), tuple(branches))
    if isinstance(rate, kinds.ApproximateRate) and (
        sequence := _SEQUENCES.get((rate.approx_type, bool(rate.is_reverse)))
    ):
        direct, start, ends = sequence
        known = rate.rates
        return Branching(
            _part(known[start], name, factor),
            tuple(_part(known[end], name) for end in ends if end in known),
            _part(known[direct], name, factor) if direct in known else 0.0,
        )
    if isinstance(rate, kinds.ApproximateRate) and rate.approx_type == "nn_g":
        return _double_capture(rate, name, factor)
    kind = getattr(rate, "approx_type", type(rate).__name__)
    raise ReadError(f"rate '{name}' of pynucastro is of the kind '{kind}', which is not supported")


def _double_capture(rate: Any, name: str, factor: float) -> RateExpression:
    """The coefficient of A(n,g)X(n,g)B, or of its reverse; X captures or emits a neutron."""
    part = {key: _text(_part(one, name), name) for key, one in rate.rates.items()}
    onward, back = part["X(n,g)B"], part["X(g,n)A"]
    ends = f"2 * {part['A(n,g)X']} * {onward}"
    if rate.is_reverse:
        ends = f"{part['B(g,n)X']} * {back}"
    return RateExpression(f"{factor!r} * {ends} / ({onward} * n + {back})")  # type: ignore[arg-type]


def _text(law: _Plain, name: str) -> str:
    """A sum of exponentials as a formula of the temperature."""
    if not isinstance(law, Reaclib):
        raise ReadError(
            f"rate '{name}' of pynucastro is of the kind 'nn_g', and a part of it has a table or a "
            "partition function; expected rates of REACLIB, or use_pf=False"
        )
    t9 = "(1e-9 * temperature)"
    powers = ("1", f"{t9}**-1", f"{t9}**(-1/3)", f"{t9}**(1/3)", t9, f"{t9}**(5/3)", f"log({t9})")
    sums = (
        " + ".join(f"{a!r} * {power}" for a, power in zip(one, powers, strict=True) if a) or "0"
        for one in law.sets
    )
    return "(" + " + ".join(f"exp({one})" for one in sums) + ")"


def _part(rate: Any, name: str, factor: float = 1.0) -> _Plain:
    """The coefficient of a part of another one."""
    law = _law(rate, name, factor)
    if not isinstance(law, _Plain):
        raise ReadError(f"rate '{name}' of pynucastro has a part that is itself approximate")
    return law


def _times(
    law: Any, factor: float, exponent: tuple[float, ...] = _NOTHING,
    tables: tuple[TemperatureTable, ...] = (),
) -> Any:  # fmt: skip
    """A coefficient times a number, an exponential like those of `Reaclib`, and tables."""
    if isinstance(law, Branching):
        both = (_times(one, factor, exponent, tables) for one in (law.first, law.direct))
        first, direct = both
        return Branching(first, law.branches, direct)
    if isinstance(law, Tabulated):
        rate = law.rate if isinstance(law.rate, Reaclib) else Reaclib((_NOTHING,), law.rate)
        return Tabulated((*law.tables, *tables), _times(rate, factor, exponent))
    if not isinstance(law, Reaclib):  # a direct coefficient that there is not
        return law
    sets = tuple(tuple(a + b for a, b in zip(one, exponent, strict=True)) for one in law.sets)
    found = Reaclib(sets, law.prefactor * factor)
    return Tabulated(tables, found) if tables else found


def _derived(rate: Any, name: str, factor: float) -> RateCoefficient:
    """A coefficient by detailed balance, as pynucastro has it."""
    exponent = (rate.ratio_factor, rate.Q_kBGK, 0.0, 0.0, 0.0, 0.0, 1.5 * rate.net_stoich)
    source, counts = rate.source_rate, Counter[Any]()
    if rate.use_pf:
        counts.update(source.reactants)
        counts.subtract(source.products)
    tables = tuple(
        _partition(nucleus.partition_function, count)
        for nucleus, count in sorted(counts.items())
        if count and nucleus.partition_function is not None
    )
    law = _law(source, name, factor)
    if not isinstance(law, _Plain | Branching):
        raise ReadError(f"rate '{name}' of pynucastro is derived from a weak rate")
    found: RateCoefficient = _times(law, 1.0, exponent, tables)
    return found


def _partition(function: Any, power: int) -> TemperatureTable:
    """A power of a partition function, by the spline of pynucastro."""
    from scipy.interpolate import InterpolatedUnivariateSpline

    if function.interpolant_order != _SPLINE:
        raise ReadError(
            f"partition function of {function.nucleus} has the interpolant_order "
            f"{function.interpolant_order}; expected {_SPLINE}"
        )
    hot, values = np.asarray(function.T9_points), np.asarray(function.log_pf_data)
    slopes = InterpolatedUnivariateSpline(hot, values, k=_SPLINE).derivative()(hot)
    return TemperatureTable(
        tuple(1e9 * hot), tuple(power * values), tuple(1e-9 * power * slopes), logarithmic=False
    )


def _weak(rate: Any, name: str) -> WeakTable:
    table = np.asarray(rate.tabular_data_table)
    dense, hot = (np.unique(table[:, column]) for column in (_DENSITY, _TEMPERATURE))
    if len(table) != dense.size * hot.size:
        raise ReadError(f"the table of rate '{name}' has gaps")
    values = table[np.lexsort((table[:, _TEMPERATURE], table[:, _DENSITY])), _RATE]
    return WeakTable(
        tuple(dense), tuple(hot), tuple(map(tuple, values.reshape(dense.size, hot.size)))
    )
