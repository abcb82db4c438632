"""The tables that kernels take: named tuples of arrays, and the constants of their layout."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.foreign import on_host

NONNEGATIVE = 0x7FFFFFFFFFFFFFFF
"""Mask that tells the compiler that an index is not negative."""

SLOTS = 3
"""Largest number of reactants of a complex; empty slots refer to a variable that is one."""

FIXED, VOLUME, PRESSURE = 0, 1, 2
"""The temperature is given; or the zone heats itself at constant volume, or constant pressure."""


CLOSED, STIRRED, PLUG = 0, 1, 2
"""Nothing flows in or out; or the zone is a stirred tank, or moves along a tube."""


UNSWEPT = np.zeros((1, 1))
"""Factors of zones without a sweep of parameters."""


class ConditionHistory(NamedTuple):
    """Temperatures and densities of all zones over time, linear between knots.

    Attributes
    ----------
    times : ndarray of float64, shape [knot_count]
        From the first to the last time that is integrated; one number where nothing changes.
    temperature, density : ndarray of float64, shape [zone_count, knot_count]
        [K], [g/cm3]; in zones at constant pressure `density` is the pressure [dyn/cm2].
    factors : ndarray of float64, shape [zone_count, set_count]
        `Rates.prefactor` of each zone where parameters are swept; otherwise `UNSWEPT`.
    inflow : ndarray of float64, shape [zone_count, species_count + 2 + invariant_count]
        Of stirred tanks: amounts of the inflow, of the mass in the zone; their enthalpy [erg]; one
        over the residence time; conserved sums of the inflow. Of plug flow, shape [zone_count, 1]:
        one over the velocity at the inlet. Otherwise ``()``.
    sunlight : ndarray of float64, shape [zone_count, knot_count + 1]
        Sunlight, then its largest value in the zone; ``()`` where no coefficient depends on it.
    tolerances : ndarray of float64, shape [zone_count, variable_count + 1]
        Absolute tolerance of each variable, then the relative one, where zones have their own;
        otherwise ``()``.
    """

    times: np.ndarray
    temperature: np.ndarray
    density: np.ndarray
    factors: np.ndarray = UNSWEPT
    inflow: Any = ()
    sunlight: Any = ()
    tolerances: Any = ()

    def rows(self) -> dict[str, np.ndarray]:
        """The arrays with a row for each zone, by name."""
        every = self._asdict()
        return {
            name: array
            for name, array in every.items()
            if name != "times" and array is not UNSWEPT and not isinstance(array, tuple)
        }


class Outcome(NamedTuple):
    """The arrays that kernels fill.

    Attributes
    ----------
    amounts : ndarray of float64, shape [zone_count, time_count, variable_count]
        Specific amounts [mol/g], and the temperature [K] where it is a variable. They are on the
        device where results stay.
    status : ndarray of uint8, shape [zone_count]
    taken, repeated : ndarray of int64, shape [zone_count]
        Steps that were accepted, and steps that were repeated.
    defect : ndarray of float64, shape [zone_count]
        Relative error of conserved sums.
    fastest_heating : ndarray of float64, shape [zone_count]
        Time when the temperature rose fastest.
    """

    amounts: Any
    status: np.ndarray
    taken: np.ndarray
    repeated: np.ndarray
    defect: np.ndarray
    fastest_heating: np.ndarray

    def on_host(self) -> Outcome:
        """The same, with the amounts on the host."""
        return self._replace(amounts=on_host(self.amounts))

    def copied(self) -> Outcome:
        """Copies, to which running kernels do not write.

        The status is copied first: zones that finish during the copy stay `NOT_RUN`.
        """
        status = self.status.copy()
        return Outcome(*(array.copy() for array in self))._replace(status=status)


class Complexes(NamedTuple):
    """The distinct left-hand sides.

    Attributes
    ----------
    first, second, third : ndarray of uint32, shape [complex_count]
        Reactants of each; an empty slot is the number of variables, where Y is one. Larger indices
        are powers.
    """

    first: np.ndarray
    second: np.ndarray
    third: np.ndarray


class Powers(NamedTuple):
    """Products of powers of amounts, where orders are not three whole numbers at most.

    After the amounts and the variable that is one, the vector of amounts has the value of every
    power, then its derivative with respect to every factor.

    Attributes
    ----------
    start : ndarray of uint32, shape [power_count + 1]
        Where the factors of each begin.
    species : ndarray of uint32, shape [factor_count]
    order : ndarray of float64, shape [factor_count]
        Exponents, none of them zero.
    """

    start: np.ndarray
    species: np.ndarray
    order: np.ndarray

    @property
    def power_count(self) -> int:
        """Number of powers."""
        return self.start.size - 1

    @property
    def size(self) -> int:
        """Numbers that a vector of amounts has for them."""
        return self.power_count + self.species.size


class Flows(NamedTuple):
    """A sparse matrix of species by complexes, and the terms of its values.

    Attributes
    ----------
    start : ndarray of uint32, shape [species_count + 1]
        Where each species' entries begin.
    complex : ndarray of uint32, shape [entry_count]
        Which complex an entry multiplies.
    source_start : ndarray of uint32, shape [entry_count + 1]
        Where the terms of each entry begin.
    source : ndarray of uint32, shape [term_count]
        The coefficient of a term.
    weight : ndarray of float64, shape [term_count]
        Stoichiometric factor of a term.
    """

    start: np.ndarray
    complex: np.ndarray
    source_start: np.ndarray
    source: np.ndarray
    weight: np.ndarray


class Plasma(NamedTuple):
    """Reactions that depend on electrons: screened ones, tabulated weak ones, and captures.

    Attributes
    ----------
    method : int
        `NONE`, `WEAK` or `CHUGUNOV`.
    pair : ndarray of float64, shape [8, group_count]
        Z and A of the two nuclei of an encounter, and of a second encounter, or zeros.
    group_start : ndarray of uint32, shape [group_count + 1]
        Where the reactions of each group begin in `group_reaction`.
    group_reaction : ndarray of uint32
    weak_reaction : ndarray of uint32, shape [table_count]
        Reactions with a table.
    weak_shape : ndarray of uint32, shape [2, table_count]
        Points of electron density, and of temperature.
    weak_start : ndarray of uint32, shape [table_count + 1]
    weak_number : ndarray of float64
        For each table: both axes, then its values [ln], row by row.
    capture : ndarray of uint32, shape [capture_count]
        Reactions whose coefficients are multiplied by the density of electrons.
    """

    method: int
    pair: np.ndarray
    group_start: np.ndarray
    group_reaction: np.ndarray
    weak_reaction: np.ndarray
    weak_shape: np.ndarray
    weak_start: np.ndarray
    weak_number: np.ndarray
    capture: np.ndarray


class Rates(NamedTuple):
    """The laws of all reactions.

    Reaction r has the coefficient slot r; slots beyond the reactions hold low-pressure limits, and
    coefficients at certain pressures.

    Attributes
    ----------
    parameters : ndarray of float64, shape [7, set_count]
        Of each exponential, sorted by slot.
    prefactor : ndarray of float64, shape [set_count]
        Factor of each exponential.
    slot_start : ndarray of uint32, shape [slot_count + 1]
        Where the exponentials of a slot begin.
    order : ndarray, shape [reaction_count]
        Number of reactants, of uint32; or order of the reaction, of float64, where some reaction
        has a power.
    third_body_reaction : ndarray of uint32, shape [third_body_count]
        Reactions whose coefficient depends on collision partners, or is of Blowers and Masel.
    third_body_low, third_body_kind, third_body_set : ndarray of uint32, \
            shape [third_body_count + part_count]
        Of each: its first slot beyond the reactions (the low limit, or the high one if activated),
        the kind of dependence (see `third_bodies`), its row of `efficiency`. Behind them, the parts
        of mixtures; the first slot of a mixture is its number.
    third_body_start : ndarray of uint32, shape [third_body_count + part_count + 1]
    third_body_number : ndarray of float64
        Parameters of each, in the order of its kind.
    dependent_start : ndarray of uint32, shape [set_count + 1]
        Where the coefficients begin that depend on a row of `efficiency`.
    dependent, dependent_slope : ndarray of uint32
        Such a reaction, and its derivative: that of a reaction, which is itself or its forward
        reaction, or of a part of a mixture.
    efficiency : ndarray of float64, shape [set_count, species_count]
        Efficiency of each species as a collision partner.
    mixture_start : ndarray of uint32, shape [mixture_count + 1]
        Where the parts of each mixture begin; the first is that of the reference partner.
    mixture_whole : ndarray of uint32, shape [set_count]
        The row of `efficiency` with all partners, of a part; itself for all other rows.
    collider_start : ndarray of uint32, shape [set_count + 1]
    collider_species, collider_slot : ndarray of uint32
        Collision partners of each set whose efficiency depends on temperature, and its slot.
    reverse, forward : ndarray of uint32, shape [reverse_count]
        Reverse reactions by detailed balance, and their forward reactions.
    reverse_start : ndarray of uint32, shape [reverse_count + 1]
    reverse_species : ndarray of uint32
    reverse_change : ndarray of float64
        Stoichiometry of the forward reaction: species, net change.
    sunlit : ndarray of uint32, shape [sunlit_count]
        Reactions whose coefficients are multiplied by a power of the sunlight.
    sunlit_power : ndarray of float64, shape [sunlit_count]
    plasma : Plasma
    """

    parameters: np.ndarray
    prefactor: np.ndarray
    slot_start: np.ndarray
    order: np.ndarray
    third_body_reaction: np.ndarray
    third_body_low: np.ndarray
    third_body_kind: np.ndarray
    third_body_set: np.ndarray
    third_body_start: np.ndarray
    third_body_number: np.ndarray
    dependent_start: np.ndarray
    dependent: np.ndarray
    dependent_slope: np.ndarray
    efficiency: np.ndarray
    mixture_start: np.ndarray
    mixture_whole: np.ndarray
    collider_start: np.ndarray
    collider_species: np.ndarray
    collider_slot: np.ndarray
    reverse: np.ndarray
    forward: np.ndarray
    reverse_start: np.ndarray
    reverse_species: np.ndarray
    reverse_change: np.ndarray
    sunlit: np.ndarray
    sunlit_power: np.ndarray
    plasma: Plasma

    @property
    def slot_count(self) -> int:
        """Coefficients that are computed, low-pressure limits included."""
        return self.slot_start.size - 1

    @property
    def slope_count(self) -> int:
        """Derivatives of coefficients: of reactions, then of the parts of mixtures."""
        return self.order.size + len(self.third_body_kind) - len(self.third_body_reaction)


class Thermodynamics(NamedTuple):
    """Thermodynamic data of species.

    Attributes
    ----------
    polynomials : ndarray of float64, shape [10 range_count, species_count]
        NASA: the highest temperature of each range [K], infinite for the last of a species, and its
        nine coefficients. Zero for nuclei.
    mass_excess : ndarray of float64, shape [species_count]
        Of nuclei [erg/mol].
    translation : ndarray of float64, shape [species_count]
        Of nuclei: ln of q at 1 K without excitation and mass excess, spin included [mol/cm3].
    grid : ndarray of float64, shape [point_count]
        Temperatures of `partition` [K].
    partition : ndarray of float64, shape [point_count, species_count]
        ln of the normalised partition function of nuclei.
    charge : ndarray of float64, shape [species_count]
        Protons of nuclei.
    electrons : ndarray of float64, two-dimensional
        Free energy of electrons (see `electron_table`); ``()`` where no kernel reads it.
    """

    polynomials: np.ndarray
    mass_excess: np.ndarray
    translation: np.ndarray
    grid: np.ndarray
    partition: np.ndarray
    charge: np.ndarray
    electrons: Any = ()


class Elimination(NamedTuple):
    """Layout of the entries of L, U and the inverse pivots.

    Row k of the permuted matrix has its entries of L, its pivot, then its entries of U, each in
    order of columns.

    Attributes
    ----------
    order : ndarray of uint32, shape [size]
        Which variable is eliminated k-th.
    start : ndarray of uint32, shape [size + 1]
        Where each row begins.
    column : ndarray of uint32, shape [entry_count]
        Column of an entry, as the position of its variable in `order`.
    pivot : ndarray of uint32, shape [size]
        Where each row's pivot is.
    """

    order: np.ndarray
    start: np.ndarray
    column: np.ndarray
    pivot: np.ndarray

    @property
    def size(self) -> int:
        """Number of variables."""
        return self.order.size

    def positions(self) -> dict[tuple[int, int], int]:
        """Index of the entry of each (row variable, column variable)."""
        places = {}
        for k in range(self.size):
            for index in range(self.start[k], self.start[k + 1]):
                places[int(self.order[k]), int(self.order[self.column[index]])] = index
        return places

    def levels(self) -> np.ndarray:
        """Length of the longest chain of eliminations before each pivot."""
        level = np.zeros(self.size, np.int64)
        for k in range(self.size):
            before = self.column[self.start[k] : self.pivot[k]]
            if before.size:
                level[k] = level[before].max() + 1
        return level


class Terms(NamedTuple):
    """How the Jacobian is assembled.

    Attributes
    ----------
    start : ndarray of uint32, shape [entry_count + 1]
        Where the terms of each entry of the factors begin.
    value : ndarray of uint32, shape [term_count]
        Entry of the flows.
    slope : ndarray of uint32, shape [term_count]
        Derivative of a product: complex times `SLOTS`, plus the slot; or `SLOTS` times the number
        of complexes, plus the factor of a power.
    """

    start: np.ndarray
    value: np.ndarray
    slope: np.ndarray


class System(NamedTuple):
    """All tables of a network for implicit methods.

    Attributes
    ----------
    invariants : ndarray of float64, shape [invariant_count, species_count]
        Weights of sums that no reaction changes.
    absolute : ndarray of float64, shape [variable_count]
        Absolute tolerances.
    place : ndarray of uint32, shape [variable_count, variable_count]
        Index of the entry of a row and column of the factors; missing entries refer to one that
        stays zero. Shape [1, 1] where it is not needed.
    powers : Powers
        ``()`` where no reaction has one.
    """

    complexes: Complexes
    flows: Flows
    rates: Rates
    thermo: Thermodynamics
    invariants: np.ndarray
    absolute: np.ndarray
    place: np.ndarray
    plan: Elimination
    terms: Terms
    powers: Any = ()


class Workspace(NamedTuple):
    """Workspace of a zone's rates.

    Attributes
    ----------
    slots, slopes, saved, partners, volumes
        Coefficients; d ln k / d ln M of those that have collision partners; coefficients at the
        start of the step; concentrations of the partners of each kind; logarithms of partition
        functions.
    energies : ndarray, shape [species_count]
        Internal energies, or enthalpies at constant pressure [erg/mol].
    values, products, derivatives
        Values of the entries of the flows; products of amounts, and their derivatives.
    partial, reduced
        Scratch memory of sums over threads.
    """

    slots: np.ndarray
    slopes: np.ndarray
    saved: np.ndarray
    partners: np.ndarray
    volumes: np.ndarray
    energies: np.ndarray
    values: np.ndarray
    products: np.ndarray
    derivatives: np.ndarray
    partial: np.ndarray
    reduced: np.ndarray


class Segments(NamedTuple):
    """Sums over rows for many threads.

    Attributes
    ----------
    item : ndarray of int64, shape [width, segment_count]
        The k-th term of every segment: indices of 16 bits each, the first in the lowest bits.
        Segments fill whole warps.
    target : ndarray of int32, shape [segment_count]
        Row that begins with this segment; -1 if none does; or -2 - place, where the part of a row
        that is too long for one warp is stored.
    rest : ndarray of int32, shape [segment_count]
        Number of following segments that belong to the same row.
    joined : int
        First segment from which every segment is a whole row.
    row : ndarray of int32, shape [long_row_count]
        Rows in several parts, the longest first.
    start, stop : ndarray of int32, shape [long_row_count]
        Where the places of each begin and end.
    """

    item: np.ndarray
    target: np.ndarray
    rest: np.ndarray
    joined: int
    row: np.ndarray
    start: np.ndarray
    stop: np.ndarray

    @property
    def place_count(self) -> int:
        """Number of parts of all rows with several parts."""
        return int(self.stop.max(initial=0))


class Program(NamedTuple):
    """Rounds of items.

    Attributes
    ----------
    item : ndarray of int64, shape [round_count + AHEAD, thread_count]
        Four indices each, the first in the lowest bits; the last rounds do nothing.
    level : ndarray of int32, shape [level_count + 2]
        Where the rounds of each level begin; the last twice.
    """

    item: np.ndarray
    level: np.ndarray


class BlockFlows(NamedTuple):
    """Sums over the flows of a network: net changes, or gains and then losses.

    Attributes
    ----------
    triple : ndarray of int64, shape [complex_count]
        The amounts that make a complex.
    sums : Segments
        Value and complex of each term.
    source_start, source, weight : ndarray
        As in `Flows`, in the order of the values.
    value_count : int
        The last value is zero.
    """

    triple: np.ndarray
    sums: Segments
    source_start: np.ndarray
    source: np.ndarray
    weight: np.ndarray
    value_count: int


class BlockSystem(NamedTuple):
    """A network for implicit methods on blocks.

    Attributes
    ----------
    flows : BlockFlows
    rates, thermo, invariants, absolute, place, powers
        As in `System`.
    slopes : Segments
        Entries of the Jacobian: value of each term, and the two amounts it is multiplied with.
    pivots : Program
        Pivots by level: variable, and place of its entry; -1 where a thread has none.
    pivot : ndarray of int32, shape [variable_count]
        Where the pivot of each variable is.
    tail : ndarray of int32, shape [tail_of(variable_count)]
        Variables of the tail; the number of variables where there are fewer.
    tail_count : int
        Their matrix is the last `tail_count` squared entries, by rows.
    gather, scatter : Segments
        Sums from the other variables to the tail (forward substitution), and from the tail to the
        others (back substitution): entry and variable k of x_i -= sum of a_ik x_k / a_kk.
    factorization : Program
        Places of a_ij, a_ik, a_kj, and variable k, of a_ij -= a_ik a_kj / a_kk.
    forward, backward : ndarray of int64, shape [round_count + AHEAD, WARP]
        Variable i, entry and variable k of x_i -= a_ik x_k / a_kk.
    entry_count : int
        Entries of the factors; the first is zero.
    """

    flows: BlockFlows
    rates: Rates
    thermo: Thermodynamics
    invariants: np.ndarray
    absolute: np.ndarray
    place: np.ndarray
    slopes: Segments
    pivots: Program
    pivot: np.ndarray
    tail: np.ndarray
    tail_count: int
    gather: Segments
    scatter: Segments
    factorization: Program
    forward: np.ndarray
    backward: np.ndarray
    entry_count: int
    powers: Any = ()
