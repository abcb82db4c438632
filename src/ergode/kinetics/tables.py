"""The tables that kernels take: named tuples of arrays, and the constants of their layout."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.devices.foreign import on_host
from ergode.core.group import Group
from ergode.core.math.elimination import Elimination

SLOTS = 3
"""Largest number of reactants of a complex; empty slots refer to a variable that is one."""

FIXED, VOLUME, PRESSURE = 0, 1, 2
"""The temperature is given; or the zone heats itself at constant volume, or constant pressure."""


STILL, MOBILE, INERT = 0, 1, 2
"""The volume is given; or it follows from the pressure, by a piston without or with a mass."""


NO_WALL, STEADY, CHANGING = 0, 1, 2
"""Whether heat passes through a wall, whose temperature or coefficient may change in time."""


CLOSED, STIRRED, PLUG = 0, 1, 2
"""Nothing flows in or out; or the zone is a stirred tank, or moves along a tube."""


TIME, SUNLIGHT, TEMPERATURE, DENSITY, FIRST_OF_PARAMETERS = range(5)
"""Places of what formulas of coefficients read; driven parameters come first, then others."""

UNSWEPT = np.zeros((1, 1))
"""Factors of zones without a sweep of parameters."""


class ConditionHistory(NamedTuple):
    """Temperatures and densities of all zones over time, linear between knots."""

    # float64 [knot_count]: from the first to the last time that is integrated; one number where
    # nothing changes.
    times: np.ndarray
    # float64 [zone_count, knot_count]: [K], [g/cm3]; in zones with a pressure `density` is the
    # pressure [dyn/cm2]; of molecules of constant or given volume it is V_0 / V.
    temperature: np.ndarray
    density: np.ndarray
    # float64 [zone_count, set_count]: `Rates.prefactor` of each zone where parameters are swept;
    # otherwise `UNSWEPT`.
    factors: np.ndarray = UNSWEPT
    # float64 [zone_count, species_count + 3 + invariant_count]: of stirred tanks: amounts of the
    # inflow, of the mass in the zone; their enthalpy [erg]; one over the residence time; conserved
    # sums of the inflow; change of the mass over that at first. Of connected tanks also the parts
    # of the flow in that come from each tank, times the ratio of the masses, [tank_count], and the
    # part from outside. If the inflow changes, also the flow over the mass, and one over the mass:
    # kernels write both, and the inflow. Of plug flow, shape [zone_count, 1]: one over the velocity
    # at the inlet. Otherwise ``()``.
    inflow: Any = ()
    # float64 [zone_count, knot_count + 1]: sunlight, then its largest value in the zone; ``()``
    # where no coefficient depends on it.
    sunlight: Any = ()
    # float64 [zone_count, variable_count + 1]: absolute tolerance of each variable, then the
    # relative one, where zones have their own; otherwise ``()``.
    tolerances: Any = ()
    # float64 [zone_count, parameter_count]: parameters that formulas of coefficients read;
    # [zone_count, driven_count (knot_count + 1)]: of each parameter that changes in time: its
    # values, then its largest magnitude. ``()`` where no coefficient is a formula.
    parameters: Any = ()
    drives: Any = ()
    # float64 [zone_count, knot_count + 1]: d ln(density)/dt, or that of the pressure, where either
    # is given over time and the zone heats itself; then its largest magnitude. Otherwise ``()``.
    compression: Any = ()
    # float64 [zone_count, 2]: heat transfer coefficient times area of the wall over the volume at
    # the start [erg/(cm3 s K)], and temperature of the wall [K]; ``()`` without walls. Where one of
    # them changes in time, shape [zone_count, 2 (knot_count + 1)]: values, then the largest.
    wall: Any = ()
    # float64 [zone_count, 5]: of a piston: rate of the volume [1/s]; outer pressure over that at
    # first; pressure at first [dyn/cm2]; power of the volume that is the area; and, not for
    # kernels, what makes a speed of its variable [cm/s]. Otherwise ``()``.
    motion: Any = ()
    # float64 [zone_count, column_count (knot_count + 1)]: of stirred tanks whose inflow changes:
    # its amounts and their enthalpy, of the mass in the zone at first; the flow in over the mass;
    # one over the mass; conserved sums. Of each: its values, then the largest. Otherwise ``()``.
    feed: Any = ()

    def rows(self) -> dict[str, np.ndarray]:
        """The arrays with a row for each zone, by name."""
        every = self._asdict()
        return {
            name: array
            for name, array in every.items()
            if name != "times" and array is not UNSWEPT and not isinstance(array, tuple)
        }


class Outcome(NamedTuple):
    """The arrays that kernels fill."""

    # float64 [zone_count, time_count, variable_count]: specific amounts [mol/g], and the
    # temperature [K] where it is a variable. They are on the device where results stay.
    amounts: Any
    status: np.ndarray  # uint8 [zone_count]
    # int64 [zone_count]: steps that were accepted, and steps that were repeated.
    taken: np.ndarray
    repeated: np.ndarray
    defect: np.ndarray  # float64 [zone_count]: relative error of conserved sums
    fastest_heating: np.ndarray  # float64 [zone_count]: time when the temperature rose fastest

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
    """The distinct left-hand sides."""

    # uint32 [complex_count]: reactants of each; an empty slot is the number of variables, where Y
    # is one. Larger indices are powers.
    first: np.ndarray
    second: np.ndarray
    third: np.ndarray


class Powers(NamedTuple):
    """Products of powers of amounts, where orders are not three whole numbers at most.

    After the amounts and the variable that is one, the vector of amounts has the value of every
    power, then its derivative with respect to every factor.
    """

    start: np.ndarray  # uint32 [power_count + 1]: where the factors of each begin
    species: np.ndarray  # uint32 [factor_count]
    order: np.ndarray  # float64 [factor_count]: exponents, none of them zero

    @property
    def power_count(self) -> int:
        """Number of powers."""
        return self.start.size - 1

    @property
    def size(self) -> int:
        """Numbers that a vector of amounts has for them."""
        return self.power_count + self.species.size


class Flows(NamedTuple):
    """A sparse matrix of species by complexes, and the terms of its values."""

    start: np.ndarray  # uint32 [species_count + 1]: where each species' entries begin
    complex: np.ndarray  # uint32 [entry_count]: which complex an entry multiplies
    source_start: np.ndarray  # uint32 [entry_count + 1]: where the terms of each entry begin
    source: np.ndarray  # uint32 [term_count]: the coefficient of a term
    weight: np.ndarray  # float64 [term_count]: stoichiometric factor of a term


class Plasma(NamedTuple):
    """Reactions that depend on electrons: screened ones, tabulated weak ones, and captures."""

    method: int  # `NONE`, `WEAK` or `CHUGUNOV`
    # float64 [8, group_count]: z and A of the two nuclei of an encounter, and of a second
    # encounter, or zeros.
    pair: np.ndarray
    # uint32 [group_count + 1]: where the reactions of each group begin in `group_reaction`.
    group_start: np.ndarray
    group_reaction: np.ndarray  # uint32
    weak_reaction: np.ndarray  # uint32 [table_count]: reactions with a table
    # uint32 [2, table_count]: points of electron density, and of temperature.
    weak_shape: np.ndarray
    weak_start: np.ndarray  # uint32 [table_count + 1]
    weak_number: np.ndarray  # float64: for each table: both axes, then its values [ln], row by row
    # uint32 [capture_count]: reactions whose coefficients are multiplied by the density of
    # electrons.
    capture: np.ndarray


class Formulas(NamedTuple):
    """Coefficients that are formulas, as programs of a stack machine (see `compiler.programs`)."""

    reaction: np.ndarray  # uint32 [formula_count]
    start: np.ndarray  # int32 [formula_count + 1]: where the operations of each begin
    operation: np.ndarray  # int32
    # int32: of a constant; of an input; or of a sum, as the operation `PARAMETER`
    argument: np.ndarray
    constant: np.ndarray  # float64
    sum_start: np.ndarray  # uint32 [formula_count + 1]: where the sums that each reads begin
    sum: np.ndarray  # uint32
    first_sum: int  # row of `Rates.efficiency` of the first sum; the last rows are sums
    input_count: int  # inputs: see `TIME` and those that follow it
    depth: int  # of the stacks
    driven_count: int  # parameters that change in time
    driven: Any  # their names; ``()`` in kernels
    parameters: Any  # names of the other parameters; ``()`` in kernels
    names: Any  # conditions that formulas use; ``()`` in kernels

    @property
    def memory_count(self) -> int:
        """Numbers that a zone needs: inputs, and a stack of values and one of derivatives."""
        return self.input_count + 2 * self.reaction.size * self.depth

    @property
    def for_kernels(self) -> Formulas:
        """The tables without names."""
        return self._replace(driven=(), parameters=(), names=())


class Composed(NamedTuple):
    """Factors of slots on tables of temperature, and sequences through intermediate nuclei."""

    tabulated: np.ndarray  # uint32 [slot_count]: slots that have tables
    table_start: np.ndarray  # uint32 [slot_count + 1]: where the tables of each begin
    table_kind: np.ndarray  # uint32 [table_count]: 1 for cubics in ln T, 0 for those in T
    knot_start: np.ndarray  # uint32 [table_count + 1]
    knots: np.ndarray  # float64: T [K] or ln T, then the values and slopes there
    logarithms: np.ndarray
    slopes: np.ndarray
    branched: np.ndarray  # uint32 [sequence_count]: reactions with a sequence
    first: np.ndarray  # uint32 [sequence_count]: the slot of its first part
    branch_start: np.ndarray  # uint32 [sequence_count + 1]
    branch: np.ndarray  # uint32: slots of the branches, first the one that ends the sequence


class Rates(NamedTuple):
    """The laws of all reactions.

    Reaction r has the coefficient slot r; slots beyond the reactions hold low-pressure limits,
    coefficients at certain pressures, and parts of sequences.

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
    formulas : Formulas
        ``()`` in kernels of networks that have none.
    composed : Composed
        ``()`` in kernels of networks that have none.
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
    formulas: Any
    composed: Any

    @property
    def slot_count(self) -> int:
        """Coefficients that are computed, low-pressure limits included."""
        return self.slot_start.size - 1

    @property
    def slope_count(self) -> int:
        """Derivatives of coefficients: of reactions, parts of mixtures, then of formulas."""
        parts = len(self.third_body_kind) - len(self.third_body_reaction)
        return self.order.size + parts + (self.formulas.sum.size if self.formulas else 0)

    @property
    def memory_count(self) -> int:
        """Numbers that the formulas of a zone need."""
        return self.formulas.memory_count if self.formulas else 0


class Thermodynamics(NamedTuple):
    """Thermodynamic data of species."""

    # float64 [10 range_count, species_count]: NASA: the highest temperature of each range [K],
    # infinite for the last of a species, and its nine coefficients. Zero for nuclei.
    polynomials: np.ndarray
    mass_excess: np.ndarray  # float64 [species_count]: of nuclei [erg/mol]
    # float64 [species_count]: of nuclei: ln of q at 1 K without excitation and mass excess, spin
    # included [mol/cm3].
    translation: np.ndarray
    grid: np.ndarray  # float64 [point_count]: temperatures of `partition` [K]
    # float64 [point_count, species_count]: ln of the normalised partition function of nuclei.
    partition: np.ndarray
    charge: np.ndarray  # float64 [species_count]: protons of nuclei
    # float64: free energy of electrons (see `electron_table`); ``()`` where no kernel reads it.
    electrons: Any = ()


class Terms(NamedTuple):
    """How the Jacobian is assembled."""

    # uint32 [entry_count + 1]: where the terms of each entry of the factors begin.
    start: np.ndarray
    value: np.ndarray  # uint32 [term_count]: entry of the flows
    # uint32 [term_count]: derivative of a product: complex times `SLOTS`, plus the slot; or `SLOTS`
    # times the number of complexes, plus the factor of a power.
    slope: np.ndarray


class System(NamedTuple):
    """All tables of a network for implicit methods."""

    complexes: Complexes
    flows: Flows
    rates: Rates
    thermo: Thermodynamics
    # float64 [invariant_count, species_count]: weights of sums that no reaction changes.
    invariants: np.ndarray
    absolute: np.ndarray  # float64 [variable_count]: absolute tolerances
    # uint32 [variable_count, variable_count]: index of the entry of a row and column of the
    # factors; missing entries refer to one that stays zero. Shape [1, 1] where it is not needed.
    place: np.ndarray
    plan: Elimination
    terms: Terms
    powers: Any = ()  # ``()`` where no reaction has one


class Workspace(NamedTuple):
    """Workspace of a zone's rates."""

    # Coefficients; d ln k / d ln M of those that have collision partners; coefficients at the start
    # of the step; concentrations of the partners of each kind; logarithms of partition functions.
    slots: np.ndarray
    slopes: np.ndarray
    saved: np.ndarray
    partners: np.ndarray
    volumes: np.ndarray
    # [species_count]: internal energies, or enthalpies at constant pressure [erg/mol].
    energies: np.ndarray
    # Values of the entries of the flows; products of amounts, and their derivatives.
    values: np.ndarray
    products: np.ndarray
    derivatives: np.ndarray
    partial: np.ndarray  # scratch memory of sums over threads
    group: Group
    # Inputs and stacks of coefficients that are formulas.
    memory: np.ndarray


class Segments(NamedTuple):
    """Sums over rows for many threads."""

    # int64 [warp_count * word_count * WARP]: the terms of every segment: indices of 16 bits each,
    # the first in the lowest bits. Segments fill whole warps.
    item: np.ndarray
    # int32 [segment_count]: number of following segments that belong to the same row (5 bits);
    # turns in which the warp adds neighbours (3 bits); and the row that begins with this segment,
    # -1 if none does, or -2 - place, where the part of a row that is too long for one warp is
    # stored.
    label: np.ndarray
    single: int  # first segment from which every segment is a row of at most one term
    row: np.ndarray  # int32 [long_row_count]: rows in several parts, the longest first
    # int32 [long_row_count]: where the places of each begin and end.
    start: np.ndarray
    stop: np.ndarray

    @property
    def place_count(self) -> int:
        """Number of parts of all rows with several parts."""
        return int(self.stop.max(initial=0))


class Program(NamedTuple):
    """Rounds of items."""

    # int64 [round_count * thread_count]: four indices each, the first in the lowest bits.
    item: np.ndarray
    level: np.ndarray  # int32 [level_count + 1]: rounds of each level; then zero


class BlockFlows(NamedTuple):
    """Sums over the flows of a network: net changes, or gains and then losses."""

    triple: np.ndarray  # int64 [complex_count]: the amounts that make a complex
    sums: Segments  # complex of each term; its value is at [warp, term, lane]
    # As in `Flows`, in the order of the values.
    source_start: np.ndarray
    source: np.ndarray
    weight: np.ndarray
    value_count: int  # the last value is zero


class BlockSystem(NamedTuple):
    """A network for implicit methods on blocks."""

    flows: BlockFlows
    # As in `System`.
    rates: Rates
    thermo: Thermodynamics
    invariants: np.ndarray
    absolute: np.ndarray
    place: np.ndarray
    # Entries of the Jacobian: value of each term, and the two amounts it is multiplied with.
    slopes: Segments
    pivots: Program  # pivots by level: variable, and place of its entry; -1 where a thread has none
    pivot: np.ndarray  # int32 [variable_count]: where the pivot of each variable is
    # int32 [tail_of(variable_count)]: variables of the tail; the number of variables where there
    # are fewer.
    tail: np.ndarray
    tail_count: int  # their matrix is the last `tail_count` squared entries, by rows
    # Sums from the other variables to the tail (forward substitution), and from the tail to the
    # others (back substitution): entry and variable k of x_i -= sum of a_ik x_k / a_kk, two terms
    # a word.
    gather: Segments
    scatter: Segments
    # Places of a_ij, a_ik, a_kj, and variable k, of a_ij -= a_ik a_kj / a_kk.
    # The rounds of a level are filled up to whole chunks, and a chunk of nothing follows.
    factorization: Program
    # int64 [round_count * WARP]: variable i, entry and variable k of x_i -= a_ik x_k / a_kk; in
    # whole chunks. The last chunk does nothing.
    forward: np.ndarray
    backward: np.ndarray
    entry_count: int  # entries of the factors; the first is zero
    powers: Any = ()
