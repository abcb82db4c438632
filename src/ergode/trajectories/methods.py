"""The integration methods: one record of `METHODS` each, and the automatic choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ergode.core import methods
from ergode.core.arguments import choice
from ergode.core.math import tableaus
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.steppers import (
    chebyshev,
    explicit,
    noise,
    radau,
    rosenbrock,
    splitting,
    stepper,
)
from ergode.trajectories.steppers.derivatives import additive, mixed_noise, separated
from ergode.trajectories.steppers.rosenbrock import RODAS5P, ROSENBROCK23, RosenbrockTableau

MethodName = Literal[
    "auto", "euler", "rk4", "tsit5", "dopri5", "dop853", "rkc2", "rosenbrock23", "rodas5p",
    "rodas5p-krylov", "radau5", "bdf", "verlet", "blanes-moan4", "kahan-li6", "suzuki-umeno8",
    "euler-maruyama", "implicit-euler-maruyama", "milstein", "platen2", "sra1",
]  # fmt: skip

# With delays, the quintic interpolant of the history limits the order of a method.
_HISTORY_ORDER = 6
_STIFF_VARIABLES = 16
# Explicit methods have code for each of this many named variables; more are taken as one array.
_UNROLLED_VARIABLES = 100
# With noise or delays there is code for each of the named variables; 100 compile in 100 s.
_NOISY_VARIABLES = 128
MOST = 256
"""Unknowns of a trajectory whose matrix a kernel has."""


def _never(field: VectorField, step: float | None) -> str | None:
    """``"auto"`` never chooses this method."""
    return None


def _no_limits(field: VectorField) -> str | None:
    """The method has no restriction on the noise."""
    return None


@dataclass(frozen=True)
class Method(methods.Method):
    """One integration method, for every device."""

    order: float  # the global error is O(step^order); for noise, the strong order if not said
    adapts: bool  # whether the method estimates its error, so that tolerances set the step size
    # Whether the method is implicit: stability does not limit its steps, but it needs a Jacobian.
    stiff: bool
    bindings: Mapping[Any, Any] = field(repr=False)  # bindings of the kernel of `adaptive`
    # Butcher tableau of an explicit method.
    tableau: tableaus.Tableau | None = field(default=None, repr=False)
    scheme: int = 0  # scheme of the noise (see `noise.SCHEME`); 0 without noise
    # Whether it has as many stages as stability needs; for variables that are arrays.
    stabilised: bool = False
    # Whether it solves linear systems without a matrix; for variables that are arrays.
    matrix_free: bool = False
    # Whether a step depends on those before, and its order is chosen; it takes one array.
    multistep: bool = False
    needs_time_slopes: bool = False  # whether the method needs time derivatives of the slopes
    # ``noise_limits(field)``: why the method does not support the field's noise, or None.
    noise_limits: Callable[[VectorField], str | None] = field(default=_no_limits, repr=False)
    # ``why_automatic(field, step)``: why ``"auto"`` chooses this method, or None if it does not.
    why_automatic: Callable[[VectorField, float | None], str | None] = field(
        default=_never, repr=False
    )

    @property
    def powers(self) -> int:
        """Degree of the polynomial that interpolates the state within a step."""
        return len(self.bindings[stepper.DENSE][0])

    @property
    def is_symplectic(self) -> bool:
        """Whether it is a composition of drifts of positions and kicks of momenta."""
        return self.tableau is not None and len(self.tableau.kicks) > 0

    @property
    def is_rosenbrock(self) -> bool:
        """Whether it is a Rosenbrock method, which has a loop on a host too."""
        return rosenbrock.GAMMA in self.bindings

    @property
    def for_arrays(self) -> bool:
        """Whether it integrates variables that are arrays."""
        is_explicit = self.tableau is not None and not self.is_symplectic
        return is_explicit or self.stabilised or self.is_rosenbrock or self.multistep

    def why_unsupported(self, field: VectorField, step: float | None, apart: bool) -> str | None:
        """Why the method cannot integrate a field, or None.

        `apart`: every trajectory has its own step size.
        """
        noisy = self.scheme > 0
        if (field.diffusion is not None) != noisy:
            if noisy:
                return "is for equations with noise, and the field has no diffusion"
            known = ", ".join(repr(one.name) for one in METHODS.values() if one.scheme > 0)
            return f"is for equations without noise, and the field has a diffusion; choose {known}"
        if field.is_neutral and (noisy or self.stiff or not self.adapts):
            return "is not for delayed derivatives; choose 'tsit5'"
        takes_mass = self.name in (_STIFF, "radau5") and not self.is_wide(field)
        if field.mass is not None and not takes_mass:
            few = f"with up to {_STIFF_VARIABLES} variables"
            return f"has no mass matrix; choose '{_STIFF}' or 'radau5', {few}"
        if (self.stabilised or self.matrix_free) and field.arrays is None:
            return "is for variables that are arrays; choose 'rodas5p'"
        if self.multistep and step is not None:
            return "chooses its steps and their order; leave step out, or choose 'rodas5p'"
        if noisy and step is None:
            if not self.adapts:
                return "has steps of one size: give a step"
            if field.delays or field.arrays is not None:
                return "has adaptive steps for named variables without delays: give a step"
            if self.scheme == noise.MILSTEIN and (depends := mixed_noise(field)) is not None:
                return f"needs Levy areas, since {depends}, which adaptive steps lack: give a step"
        if noisy and field.state_dependent:
            return "does not support delays that depend on the state"
        if (limits := self.noise_limits(field)) is not None:
            return limits
        has_more = field.diffusion is not None or bool(field.delays)
        if field.arrays is None and has_more and len(field.variables) > _NOISY_VARIABLES:
            return (
                f"supports noise and delays of up to {_NOISY_VARIABLES} named variables, and the "
                f"field has {len(field.variables)}; declare them as an array"
            )
        if field.arrays is not None:
            if not self.for_arrays:
                return f"is not made yet for variables that are arrays; choose {_for_arrays()}"
            if field.delays and (self.stiff or self.stabilised):
                return "does not support delays of variables that are arrays; choose 'tsit5'"
            if apart and step is None and not self.adapts:
                return "does not estimate its error; give a step, or choose 'tsit5'"
            return None
        if self.is_symplectic:
            if field.delays:
                return "does not support delays"
            if isinstance(why := separated(field), str):
                return f"needs positions and momenta whose slopes depend on the others, but {why}"
        if apart and step is None and not self.adapts:
            return "does not estimate its error; give a step, or choose 'tsit5'"
        if self.stiff and field.state_dependent:
            return "is not for delays that depend on the state; choose 'tsit5'"
        if self.is_wide(field):
            if field.delays:
                return (
                    f"supports delays for up to {_STIFF_VARIABLES} variables, and the field has "
                    f"{len(field.variables)}"
                )
            if not (self.is_rosenbrock or self.multistep):
                return f"is for up to {_STIFF_VARIABLES} variables; choose 'rodas5p' or 'bdf'"
        return None

    def is_long(self, field: VectorField) -> bool:
        """Whether an explicit method takes the named variables of a field as one array.

        Code for each of very many variables would take too long to compile.
        """
        many = field.arrays is None and len(field.variables) > _UNROLLED_VARIABLES
        plain = not field.delays and field.diffusion is None
        return many and plain and self.for_arrays and not self.stiff

    def is_wide(self, field: VectorField) -> bool:
        """Whether it takes the named variables of a field as one array."""
        many = field.arrays is None and len(field.variables) > _STIFF_VARIABLES
        return (self.stiff and many) or (self.multistep and field.arrays is None)


def _for_arrays() -> str:
    """Names of the methods without noise that support variables that are arrays."""
    found = (one.name for one in METHODS.values() if one.for_arrays and one.scheme == 0)
    return ", ".join(map(repr, found))


# ---- when "auto" chooses a method, and which noise a method supports


def _auto_rk4(field: VectorField, step: float | None) -> str | None:
    if field.diffusion is not None or step is None:
        return None
    if field.delays:
        return "a fixed step with delays: the history is interpolated at the order of this method"
    return "the classical method for a fixed step"


def _auto_tsit5(field: VectorField, step: float | None) -> str | None:
    if field.diffusion is not None or step is not None:
        return None
    return "no step was given: an adaptive method for equations that are not stiff"


def _auto_sra1(field: VectorField, step: float | None) -> str | None:
    if field.diffusion is None or sra1_limits(field) is not None:
        return None
    return "additive noise: it does not depend on the state"


def _auto_milstein(field: VectorField, step: float | None) -> str | None:
    if field.diffusion is None or sra1_limits(field) is None or mixed_noise(field) is not None:
        return None
    return "noise that depends on the state"


def _auto_euler_maruyama(field: VectorField, step: float | None) -> str | None:
    if field.diffusion is None or sra1_limits(field) is None:
        return None
    return mixed_noise(field)


def sra1_limits(field: VectorField) -> str | None:
    """Why ``"sra1"`` does not support the noise of a field, or None."""
    if not field.delays and additive(field):
        return None
    return (
        "is for noise that depends on time and parameters alone (additive), without delays; "
        "choose 'milstein' or 'euler-maruyama'"
    )


def small_ito_limits(field: VectorField) -> str | None:
    """Why methods that take the columns of the noise one by one do not support a field, or None."""
    if not _is_small(field):
        why = f"is for up to {_STIFF_VARIABLES} named variables without delays"
    elif field.interpretation != "ito":
        why = "is for noise in the sense of Ito"
    else:
        return None
    return f"{why}; choose 'euler-maruyama'"


def milstein_limits(field: VectorField) -> str | None:
    """Why ``"milstein"`` does not support the noise of a field, or None."""
    depends = None if _is_small(field) else mixed_noise(field)
    if depends is None:
        return None
    return (
        f"requires that the noise of a variable depends on this variable only, but {depends}; "
        "choose 'euler-maruyama', of order 1/2"
    )


def _is_small(field: VectorField) -> bool:
    return field.arrays is None and len(field.variables) <= _STIFF_VARIABLES and not field.delays


# ---- the table


def _explicit(name: str, summary: str, use: str, tableau: tableaus.Tableau, **more: Any) -> Method:
    bindings = {
        stepper.step: explicit.step,
        explicit.B: tableau.b,
        explicit.C: tableau.c,
        explicit.ERROR: tableau.error,
        stepper.DENSE: tableau.dense,
        # The estimate is that of an embedded method one order lower; its error per step is
        # O(step^order).
        stepper.ERROR_ORDER: float(tableau.order),
    }
    if len(tableau.a) > 1:
        bindings[explicit.A] = tableau.a
    if tableau.correction:
        bindings[explicit.CORRECTION] = tableau.correction
    if tableau.extra_c:
        bindings |= {
            stepper.completed: explicit.completed,
            explicit.EXTRA_A: tableau.extra_a,
            explicit.EXTRA_C: tableau.extra_c,
        }
    adapts = bool(tableau.error)
    return Method(name, summary, use, tableau.order, adapts, False, bindings, tableau, **more)


def _rosenbrock(
    name: str, summary: str, use: str, tableau: RosenbrockTableau, **more: Any
) -> Method:
    bindings = {
        stepper.step: rosenbrock.step,
        rosenbrock.GAMMA: tableau.gamma,
        rosenbrock.ALPHA: tableau.alpha,
        rosenbrock.GAMMAS: tableau.gammas,
        rosenbrock.A: tableau.a,
        rosenbrock.C: tableau.c,
        rosenbrock.M: tableau.m,
        rosenbrock.ERROR: tableau.error,
        stepper.DENSE: tableau.dense,
        stepper.ERROR_ORDER: float(tableau.error_order),
        stepper.PROBES: tableau.probes,
    }
    return Method(
        name, summary, use, tableau.order, True, True, bindings, needs_time_slopes=True, **more
    )


def _symplectic(name: str, summary: str, use: str, tableau: tableaus.Tableau) -> Method:
    bindings = {stepper.step: splitting.step, stepper.DENSE: tableau.dense}
    return Method(name, summary, use, tableau.order, False, False, bindings, tableau)


def _noisy(
    name: str, summary: str, use: str, order: float, scheme: int, adapts: bool = False, **more: Any
) -> Method:
    # Dense output of a stochastic step: a straight line.
    bindings = {
        stepper.DENSE: ((1.0,),), noise.SCHEME: scheme, stepper.ERROR_ORDER: max(order, 1.0)
    }  # fmt: skip
    stiff = name.startswith("implicit")
    tableau = tableaus.EULER
    return Method(name, summary, use, order, adapts, stiff, bindings, tableau, scheme, **more)


_RADAU5 = {
    stepper.step: radau.step, stepper.DENSE: radau.DENSE, stepper.ERROR_ORDER: 4.0,
    stepper.PROBES: radau.PROBES,
}  # fmt: skip

# A polynomial of a step, by the powers of its fraction.
_BDF = {
    stepper.DENSE: tuple(tuple(float(row == power) for power in range(1, 6)) for row in range(6)),
    stepper.ERROR_ORDER: 2.0,  # of the first step
}

METHODS = {
    one.name: one
    for one in (
        _explicit("euler", "Euler's method, of order 1", "comparison", tableaus.EULER),
        _explicit(
            "rk4", "the classical Runge-Kutta method, of order 4", "the fastest fixed steps",
            tableaus.RK4, why_automatic=_auto_rk4,
        ),
        _explicit(
            "tsit5", "Tsitouras' explicit pair, of order 5", "equations that are not stiff",
            tableaus.TSIT5, why_automatic=_auto_tsit5,
        ),
        _explicit(
            "dopri5", "Dormand and Prince's explicit pair, of order 5",
            "comparison with other codes", tableaus.DOPRI5,
        ),
        _explicit(
            "dop853", "Dormand and Prince's explicit method of order 8",
            "equations that are not stiff, to 8 digits and more", tableaus.DOP853,
        ),
        Method(
            "rkc2", "a Runge-Kutta-Chebyshev method of order 2, with as many stages as stability "
            "needs", "diffusion in arrays of many unknowns", 2, True, False, chebyshev.BINDINGS,
            stabilised=True,
        ),
        _rosenbrock(
            "rosenbrock23", "a Rosenbrock method of order 2", "stiff equations, to 2 or 3 digits",
            ROSENBROCK23,
        ),
        _rosenbrock(
            "rodas5p", "a Rosenbrock method of order 5, with one Jacobian per step",
            "stiff equations", RODAS5P,
        ),
        _rosenbrock(
            "rodas5p-krylov", "the same method of order 5 without a matrix: Krylov subspaces solve "
            "its linear systems", "stiff equations in arrays of two and three dimensions", RODAS5P,
            matrix_free=True,
        ),
        Method(
            "radau5", "the implicit Runge-Kutta method Radau IIA, of order 5, which solves its "
            "stages by Newton's method", "stiff and strongly nonlinear equations, also with a mass "
            "matrix", 5, True, True, _RADAU5,
        ),
        Method(
            "bdf", "backward differentiation formulas up to order 5, which keep the Jacobian "
            "and its factors over many steps", "stiff equations in arrays of one dimension",
            5, True, True, _BDF, multistep=True,
        ),
        _symplectic(
            "verlet", "the Stoermer-Verlet or leapfrog method, symplectic of order 2",
            "long times, with positions and momenta", tableaus.VERLET,
        ),
        _symplectic(
            "blanes-moan4", "Blanes and Moan's symplectic method of order 4",
            "long times, to 3 to 6 digits", tableaus.BLANES_MOAN4,
        ),
        _symplectic(
            "kahan-li6", "Kahan and Li's symplectic method of order 6",
            "long times, to 6 to 10 digits", tableaus.KAHAN_LI6,
        ),
        _symplectic(
            "suzuki-umeno8", "Suzuki and Umeno's symplectic method of order 8",
            "long times, to 10 digits and more", tableaus.SUZUKI_UMENO8,
        ),
        _noisy(
            "euler-maruyama", "Euler's method with noise, of strong order 1/2", "any noise", 0.5,
            1, why_automatic=_auto_euler_maruyama,
        ),
        _noisy(
            "implicit-euler-maruyama", "Euler's method with noise and an implicit drift, of strong "
            "order 1/2", "noise and a stiff drift", 0.5, 1, noise_limits=small_ito_limits,
        ),
        _noisy(
            "milstein", "Milstein's method, of strong order 1",
            "noise that depends on its own variable only, not on delayed values; for noise that "
            "mixes variables it has Levy areas from `noise_per_step`", 1.0,
            noise.MILSTEIN, adapts=True, noise_limits=milstein_limits,
            why_automatic=_auto_milstein,
        ),
        _noisy(
            "platen2", "Platen's method, of weak order 2", "expectations with any noise", 2.0,
            noise.PLATEN, noise_limits=small_ito_limits,
        ),
        _noisy(
            "sra1", "Roessler's method, of strong order 3/2",
            "additive noise, which does not depend on the state", 1.5, 3, adapts=True,
            noise_limits=sra1_limits, why_automatic=_auto_sra1,
        ),
    )
}  # fmt: skip

# The method that repeats trajectories which prove stiff.
_STIFF = "rodas5p"


# ---- the choice


@dataclass(frozen=True)
class Choice:
    """The chosen method of a run."""

    method: Method
    reason: str  # why this method was chosen, for the attributes of the result
    order: float  # order of the global error, limited by the interpolation of the history
    is_fixed: bool  # whether the run uses `fixed` (no events or observables), or `adaptive`
    is_wide: bool = False  # whether the method takes named variables as one array
    otherwise: Method | None = None  # the method for trajectories that prove stiff


def choose(
    field: VectorField, name: str, step: float | None, *, watched: bool, free: bool = False
) -> Choice:
    """Choose the method of a run.

    `watched`: the run has events or observables, or stores every step. `free`: there are breaking
    points that are not ends of fixed steps.

    Raises a PlanError if the method is unknown, or does not support the request.
    """
    choice("method", name, ("auto", *METHODS))
    otherwise = None
    apart = watched or free or field.state_dependent or field.is_neutral
    if name == "auto":
        method, reason = _automatic(field, step)
        stiff = METHODS[_STIFF]
        if step is None and stiff.why_unsupported(field, step, apart) is None:
            otherwise = stiff
    else:
        method, reason = METHODS[name], "asked for"
    method.refuse(method.why_unsupported(field, step, apart))
    order = min(method.order, _HISTORY_ORDER) if field.delays else method.order
    if method.scheme == noise.MILSTEIN and mixed_noise(field) is not None:
        order = 0.5  # of Levy areas that are known in part
    is_fixed = not (apart or method.stiff or (step is None and method.adapts))
    return Choice(
        method, reason, order, is_fixed, method.is_wide(field), None if is_fixed else otherwise
    )


def _automatic(field: VectorField, step: float | None) -> tuple[Method, str]:
    if field.mass is not None:
        return METHODS[_STIFF], "the equations have a mass matrix"
    reasons = ((method, method.why_automatic(field, step)) for method in METHODS.values())
    return next((method, reason) for method, reason in reasons if reason is not None)
