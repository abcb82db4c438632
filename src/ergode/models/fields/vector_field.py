"""Vector fields: the right-hand side of a differential equation, in plain scalar Python."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ergode.core.arguments import check_once, check_unit, choice, did_you_mean, sequence
from ergode.core.compiler import bundle
from ergode.core.compiler.portable import HoldsFunctions
from ergode.core.errors import ModelError, PlanError
from ergode.core.notebook import card
from ergode.models.fields.arrays import ArrayField, array_field, names_of_arrays
from ergode.models.fields.correlation import correlation_of
from ergode.models.fields.delay import Delay
from ergode.models.fields.inputs import Input, inputs_among, ready, with_inputs
from ergode.models.sweep import Implied


@dataclass(frozen=True)
class VectorField(HoldsFunctions):
    """A system of ordinary or delay differential equations, y' = f(t, y, y(t - delay), p).

    Parameters
    ----------
    function : function
        ``f(t, y, p)``, or with delays ``f(t, y, yd, p)``, returns a tuple with the derivative of
        each variable [variable / time]. ``y`` and ``p`` are indexed in the order of `variables` and
        `parameters`; ``yd[k]`` is the delayed variable of the k-th pair of `delays`. The function
        works on single numbers: arithmetic, comparisons, `math`, and other functions of this kind.
        Integers are real numbers, also those from `int`, except as indices, bounds of ranges and
        operands of bit operators. An index beyond the end of a table gives NaN. The function is
        compiled, and never called by Python. Its source must be in a file or a notebook cell;
        lambdas, closures over numbers and `functools.partial` are allowed, arguments with defaults
        are not. The field pickles with this source.
    variables : sequence of str, (str, int or tuple) or mapping of str to int or tuple
        Names of the state variables. With `component` or `rhs` they are arrays: a name and its
        length or shape, such as ``("x", 40)``, or several, ``{"u": (100, 100), "v": (100, 100)}``.
    parameters : sequence of str
        Names of the parameters.
    delays : sequence of (str, str or Delay)
        Pairs of a variable and the parameter that is its delay [time], or an `ergode.Delay` that
        depends on the state. ``("x'", "tau")`` is the delayed derivative of x, with a delay that is
        a parameter; the equation is then neutral. With `component` or `rhs` the variable is an
        array, the delay is a parameter, and the functions take ``yd`` after ``y``: ``yd[k]`` is the
        delayed array of the k-th pair, so that ``yd[0][i - 1]`` is a delayed neighbour.
    diffusion : function, float or mapping of str to function or float, optional
        Has the form of `function`, and makes the equation stochastic: dy_i = f_i dt + g_i dW_i,
        with a Wiener process for every variable. It returns the g_i [variable
        / time^(1/2)]. Where a g_i depends on another variable or on a delayed value, trajectories
        need ``method="euler-maruyama"``. With `component` or `rhs` every unknown has a Wiener
        process: ``amplitude(i, t, y, p)`` has the form of `component`, or is a number. If
        `variables` is a mapping, there is one for each name. It cannot be combined with delays.
    correlation : array_like, shape [variable_count, variable_count], optional
        Correlations of the Wiener processes; the default is independence. A correlation of 1 is one
        process in two variables.
    interpretation : {"ito", "stratonovich"}
        The sense of the noise. That of Stratonovich is the limit of noise with short memory, and
        obeys the usual rules of calculus. Where no g_i depends on the state both are equal.
    mass : array_like, shape [variable_count] or [variable_count, variable_count], optional
        Constant mass matrix M of M y' = f(t, y, p), or its diagonal. Where it is singular the
        equations are differential-algebraic, of index 1: a row of zeros is a condition f_i = 0.
        Without delays and noise.
    time_unit : str, optional
        Such as ``"s"``: what times and rates are in. It labels results and figures, and changes no
        number.
    component : function or mapping of str to function, optional
        Instead of `function`, for arrays of any size: ``rate(i, t, y, p)``, or with delays
        ``rate(i, t, y, yd, p)``, returns the derivative of ``y[i]``. It has an index for every
        dimension, and `y` is the array. If `variables` is a mapping, there is a function for each
        name, and `y` has the arrays by name: ``y.u[i, j]``. Periodic neighbours are ``y[i - 1]``
        and ``y[(i + 1) % n]``; clamped ones are ``y[max(i - 1, 0)]`` and
        ``y[min(i + 1, n - 1)]``. Indices must stay within the array; a trial call raises an error
        for those it finds.
    rhs : function, optional
        Instead of `function`: ``rhs(t, y, dy, p)``, or with delays ``rhs(t, y, yd, dy, p)``, sets
        every element of ``dy`` in its own loops.
        `y` and `dy` are as for `component`.
    constants : mapping of str to array_like or Interpolant, optional
        Data of the functions, which then take one more argument: ``c.drive(t)``. Named variables
        have interpolants as constants, such as measured inputs; functions that call none need not
        take ``c``. A list of interpolants has one for each trajectory. It is then also a parameter
        whose values are the numbers of the interpolants: without values of its own, all of them in
        turn. `component` and `rhs` also have arrays: ``c.A[i, j]``. Integers stay integers.
        ``c.A[i] @ y`` is a dot product.

    Raises
    ------
    ModelError
        A name is repeated or unknown, or the function does not have this form.

    Examples
    --------
    >>> import ergode
    >>> def decay(t, y, p):
    ...     return (-p[0] * y[0],)
    >>> ergode.VectorField(decay, variables=["y"], parameters=["rate"]).variables
    ('y',)
    """

    function: Any = None
    variables: Any = ()
    parameters: Sequence[str] = ()
    delays: Sequence[tuple[str, str | Delay]] = ()
    diffusion: Any = field(default=None, hash=False)
    component: Any = field(default=None, hash=False)
    rhs: Callable[..., None] | None = None
    constants: Any = field(default=None, hash=False, compare=False)
    correlation: Any = None
    interpretation: Literal["ito", "stratonovich"] = "ito"
    mass: Any = None
    time_unit: str | None = field(default=None, hash=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_unit("time_unit", self.time_unit)
        object.__setattr__(self, "parameters", _names("parameters", self.parameters))
        object.__setattr__(self, "delays", tuple(sequence("delays", self.delays, "pairs")))
        choice("interpretation", self.interpretation, ("ito", "stratonovich"))
        if self.component is not None or self.rhs is not None:
            self._check_arrays()
            return
        object.__setattr__(self, "variables", _names("variables", self.variables))
        if not self.variables:
            raise ModelError("variables is empty; a vector field has at least one variable")
        self._check_shared()
        known = with_inputs(self.constants, self.parameters, self.variables)
        object.__setattr__(self, "parameters", known)
        object.__setattr__(self, "delays", tuple(self._delay(one) for one in self.delays))
        tuples = {"y": self.variables, "yd": self.delays, "p": self.parameters}
        if not self.delays:
            del tuples["yd"]
        lengths = {"t": None, **{name: len(names) for name, names in tuples.items()}}
        function = ready(self.function, lengths, self.variables, "function", known)
        object.__setattr__(self, "function", function)
        if self.diffusion is not None:
            noise = ready(self.diffusion, lengths, self.variables, "diffusion", known)
            object.__setattr__(self, "diffusion", noise)
        if self.correlation is not None:
            if self.diffusion is None:
                raise ModelError("correlation is for a field with diffusion=")
            rows = correlation_of(self.correlation, len(self.variables))
            object.__setattr__(self, "correlation", rows)
        if self.mass is not None:
            object.__setattr__(self, "mass", self._checked_mass())

    def _checked_mass(self) -> tuple[tuple[float, ...], ...]:
        n = len(self.variables)
        given = np.array(self.mass, np.float64)
        mass = np.diag(given) if given.ndim == 1 else given
        if mass.shape != (n, n) or not np.isfinite(mass).all():
            raise ModelError(
                f"mass has shape {given.shape}; expected finite numbers, [{n}] or [{n}, {n}]"
            )
        if self.delays or self.diffusion is not None or self.inputs:
            raise ModelError("a field with a mass matrix has no delays, noise or inputs")
        return tuple(tuple(map(float, row)) for row in mass)

    def _check_shared(self) -> None:
        shared = set(self.variables) & set(self.parameters)
        if shared:
            raise ModelError(f"'{min(shared)}' is both a variable and a parameter")

    def _check_arrays(self) -> None:
        """Check a field whose variables are arrays."""
        others = {"function": self.function, "correlation": self.correlation, "mass": self.mass}
        for what, given in others.items():
            if given is not None:
                kind = "component" if self.component is not None else "rhs"
                raise ModelError(f"{what} and {kind} are both given; a field by {kind} has no "
                                 f"{what} yet")  # fmt: skip
        if self.delays and self.diffusion is not None:
            raise ModelError(
                "delays and diffusion are both given; variables that are arrays have no noise with "
                "delays yet"
            )
        object.__setattr__(self, "_given", self.variables)
        # With a parameter for each, before the functions are tried with them.
        known = names_of_arrays(self.variables)
        object.__setattr__(self, "delays", tuple(self._delay(one, known) for one in self.delays))
        arrays = self.arrays
        assert arrays is not None
        object.__setattr__(self, "variables", arrays.names)
        self._check_shared()

    @cached_property
    def arrays(self) -> ArrayField | None:
        """Description of array variables; None for single variables."""
        if self.component is None and self.rhs is None:
            return None
        given = vars(self)["_given"]
        return array_field(
            given, self.parameters, self.component, self.rhs, self.constants, self.diffusion,
            self.delays,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        for name in ("arrays", "_last", "_functions"):  # computed from the other attributes
            state.pop(name, None)
        return state

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return len(self.variables) if self.arrays is None else self.arrays.size

    def refuse_arrays(self, what: str) -> None:
        """Refuse variables that are arrays, and mass matrices.

        Raises
        ------
        ModelError
            There are some, and `what` is for neither; the message names the way out.
        """
        if self.mass is not None:
            raise ModelError(f"{what} takes fields without a mass matrix")
        if self.arrays is not None:
            raise ModelError(
                f"{what} takes fields of single variables, and '{self.variables[0]}' is an array; "
                "name every variable with field_from_equations (40 variables compile in about a "
                "minute)"
            )

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Parameters of the inputs; of named variables only."""
        return inputs_among(self.parameters)

    def refuse_inputs(self, what: str) -> None:
        """Refuse inputs of named variables, which `what` does not know.

        Raises a PlanError if the field has any.
        """
        if self.inputs:
            raise PlanError(
                f"{what} has no inputs, and the field has the constant '{self.inputs[0]}'; write "
                "it as a function of t"
            )

    def _delay(self, pair: Any, arrays: Sequence[str] | None = None) -> tuple[str, str | Delay]:
        """A checked delay; `arrays` are the names of variables that are arrays."""
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ModelError(
                f"delays has {pair!r}; expected pairs of a variable and the parameter that is its "
                "delay, such as ('y', 'tau')"
            )
        variable, delay = pair
        read = variable
        if arrays is None and _is_text(variable) and variable not in self.variables:
            read = variable.removesuffix(_SLOPE)
        if read != variable and isinstance(delay, Delay):
            raise ModelError(f"the delay of {variable!r}, a derivative, must be a parameter")
        named = [(read, self.variables if arrays is None else arrays, "variable")]
        if isinstance(delay, Delay) and arrays is not None:
            raise ModelError(
                f"delay of '{variable}' depends on the state; delays of variables that are arrays "
                "are parameters"
            )
        if isinstance(delay, Delay):
            lengths = {"t": None, "y": len(self.variables), "p": len(self.parameters)}
            what = f"delay of '{variable}'"
            function = ready(delay.function, lengths, None, what, self.parameters)
            delay = replace(delay, function=function)
            bounds = (delay.least, delay.most)
            named += [(name, self.parameters, "parameter") for name in bounds if _is_text(name)]
            numbers = [float(value) for value in bounds if not isinstance(value, str)]
            if not all(0 < value < math.inf for value in numbers) or (
                len(numbers) == 2 and numbers[0] >= numbers[1]
            ):
                raise ModelError(
                    f"delay of '{variable}' is between {delay.least!r} and {delay.most!r}; "
                    "expected positive numbers or parameters, the least first"
                )
        else:
            named.append((delay, self.parameters, "parameter"))
        for name, known, kind in named:
            if name not in known:
                raise ModelError(
                    f"delay {(variable, delay)!r} names the {kind} {name!r}, which is not "
                    f"among the {kind}s: {', '.join(known) or 'none'}{did_you_mean(name, known)}"
                )
        return variable, delay

    def _facts(self) -> dict[str, Any]:
        """What a notebook and a terminal show."""
        shapes = {} if self.arrays is None else dict(zip(self.variables, self.arrays.shapes,
                                                         strict=True))  # fmt: skip
        return {
            "variables": ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            or self.variables,
            "parameters": [one for one in self.parameters if not isinstance(one, Implied)] or None,
            "inputs": self.inputs or None,
            "time unit": self.time_unit,
            "delays": ", ".join(
                f"{name} by {'a function' if isinstance(by, Delay) else by}"
                for name, by in self.delays
            )
            or None,
            "noise": None
            if self.diffusion is None
            else "yes"
            if self.interpretation == "ito"
            else "Stratonovich",
        }

    @property
    def _title(self) -> str:
        name = "" if self.function is None else self.function.__name__.lstrip("_")
        return f"VectorField {name}".rstrip()

    def __repr__(self) -> str:
        facts = {name: value for name, value in self._facts().items() if value is not None}
        texts = {name: value if type(value) is str else ", ".join(value)
                 for name, value in facts.items()}  # fmt: skip
        return f"<{self._title}: {'; '.join(f'{name} {text}' for name, text in texts.items())}>"

    def _repr_html_(self) -> str:
        return card(self._title, self._facts())

    @property
    def numbers(self) -> dict[str, Any]:
        """Data of the equations, by their names in messages."""
        if self.arrays is None:
            return {}
        names = dict(self.constants or {})
        return {f"constant '{name}'": data for name, data in zip(names, self.arrays.constants,
                                                                 strict=True)}  # fmt: skip

    @property
    def title(self) -> str:
        """Name of the field in messages, from its functions."""
        own = (self.function,) if self.arrays is None else self.arrays.functions
        names = dict.fromkeys(getattr(one, "__name__", "function") for one in own)
        return f"the field of {', '.join(map(repr, names))}, or a function used with it,"

    @property
    def delayed(self) -> tuple[tuple[int, bool], ...]:
        """For each delay, the number of its variable, and whether its derivative is delayed."""
        numbers = {name: (i, False) for i, name in enumerate(self.variables)}
        slopes = {name + _SLOPE: (i, True) for i, name in enumerate(self.variables)}
        return tuple((slopes | numbers)[name] for name, _ in self.delays)

    @property
    def is_neutral(self) -> bool:
        """Whether a derivative is delayed."""
        return any(is_slope for _, is_slope in self.delayed)

    @property
    def state_dependent(self) -> bool:
        """Whether any delay depends on the state."""
        return any(isinstance(delay, Delay) for _, delay in self.delays)

    @property
    def digest(self) -> str:
        """Hexadecimal digest of the compiled code, in the attributes of every result."""
        if self.arrays is not None:
            text = json.dumps(self.parameters) + self.arrays.content
            text += self.interpretation if self.interpretation != "ito" else ""
            return hashlib.sha256(text.encode()).hexdigest()[:16]
        # Values of names in the functions may have changed since the last time.
        texts = [bundle.formula_text(one) for one in self._functions]
        if self._last["texts"] != texts:
            delays = [
                (name, [bundle.formula_text(delay.function), delay.least, delay.most])
                if isinstance(delay, Delay)
                else (name, delay)
                for name, delay in self.delays
            ]
            text = json.dumps([self.variables, self.parameters, delays])
            text += "".join(table.digest for one in self.inputs for table in one.tables)
            text += "".join(texts[: 1 if self.diffusion is None else 2])
            if self.correlation is not None:
                text += json.dumps(self.correlation)
            text += "" if self.mass is None else json.dumps(self.mass)
            text += self.interpretation if self.interpretation != "ito" else ""
            found = hashlib.sha256(text.encode()).hexdigest()[:16]
            self._last.update(texts=texts, digest=found)
        return str(self._last["digest"])

    @cached_property
    def _last(self) -> dict[str, Any]:
        """The digest that was computed last, and the texts that it is of."""
        return {"texts": None}

    @cached_property
    def _functions(self) -> list[Any]:
        own = [one for one in (self.function, self.diffusion) if one is not None]
        return own + [one.function for _, one in self.delays if isinstance(one, Delay)]


def check_field(field: Any) -> None:
    """Refuse anything but a vector field.

    Raises a ModelError if it is not a vector field.
    """
    if not isinstance(field, VectorField):
        raise ModelError(f"field is {type(field).__name__}; expected a VectorField")


_SLOPE = "'"  # after the name of a variable: its derivative


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _names(what: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ModelError(f"{what} is {names!r}; expected a sequence of names, such as [{names!r}]")
    if not isinstance(names, Iterable):
        raise ModelError(f"{what} is {names!r}; expected a sequence of names")
    result = tuple(names)
    for name in result:
        if not isinstance(name, str) or not name:
            raise ModelError(f"{what} has {name!r}; expected names")
    check_once(what, result)
    return result
