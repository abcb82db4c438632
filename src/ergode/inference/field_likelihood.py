"""The likelihood of a measured trajectory with its gradient, for samplers that need one.

Gradients follow from the sensitivities of the field, which are integrated beside the states.

References
----------
M. Girolami, B. Calderhead, Riemann manifold Langevin and Hamiltonian Monte Carlo methods, J. R.
Stat. Soc. B 73, 123 (2011), section 8: gradients from sensitivities of differential equations.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers, by_name, check_once, choice, sequence, time_grid
from ergode.core.errors import FailureWarning, ModelError
from ergode.core.inputs import remembered, unrecorded
from ergode.core.status import has_failed
from ergode.inference.gradients import as_jax, as_pytensor
from ergode.inference.simulator import theta_of
from ergode.models.fields.vector_field import VectorField

Errors = Literal["normal", "log-normal"]
_OPTIONS = ("method", "step", "rtol", "atol", "max_step", "max_steps", "device", "precision")


@remembered
def field_likelihood(
    field: VectorField,
    *,
    times: ArrayLike,
    data: Mapping[str, ArrayLike],
    initial: Mapping[str, float],
    parameters: Mapping[str, float] | None = None,
    estimate: Sequence[str],
    deviation: float | str | Mapping[str, Any],
    errors: Errors = "normal",
    **options: Any,
) -> FieldLikelihood:
    """The log-likelihood of measurements of a differential equation, with its gradient.

    The words are those of `ergode.trajectories.fit`, which finds the best parameters; this is for
    the posterior.

    Parameters
    ----------
    field : VectorField
        The equations, without noise.
    times : array_like, shape [time_count]
        When the data were measured, ascending [time]. The first is that of `initial`.
    data : mapping of str to array_like, shape [time_count]
        Measured values by name of the variable; NaN where nothing was measured.
    initial, parameters : mapping of str to float
        As for `ergode.trajectories.integrate`, one number each. Values of names in `estimate` are
        not used, and need not be given.
    estimate : sequence of str
        What the d columns of theta are: names of parameters; the name of a variable stands for its
        initial value.
    deviation : float, str, or mapping of str to these
        Standard deviation of a measurement, for all variables or by name. A str is a further name
        in `estimate`: then the deviation is estimated, too.
    errors : {"normal", "log-normal"}
        With ``"log-normal"`` the logarithm of a measurement is normal about the logarithm of the
        state, and `deviation` is that of the logarithm.
    **options
        Of `ergode.trajectories.integrate`: ``method``, ``step``, ``rtol``, ``atol``, ``max_step``,
        ``max_steps``, ``device`` and ``precision``.

    Returns
    -------
    FieldLikelihood
        A function ``theta[n, d] -> log-likelihood[n]``, which `ergode.pseudo_marginal` takes. Its
        methods make functions with gradients for JAX (BlackJAX, NumPyro) and PyMC.

    Raises
    ------
    ModelError, PlanError
        A name or a shape is wrong, or the field has no sensitivities.

    Examples
    --------
    >>> import numpy as np
    >>> import ergode
    >>> field = ergode.field_from_equations({"x": "-k * x"}, ["k"])
    >>> likelihood = ergode.field_likelihood(
    ...     field, times=[0, 1, 2], data={"x": [np.nan, 3.6, 1.4]}, initial={"x": 10.0},
    ...     estimate=["k"], deviation=0.1, device="cpu",
    ... )
    >>> value, gradient = likelihood.value_and_gradient([[1.0], [2.0]])
    >>> gradient.shape, bool(value[0] > value[1])
    ((2, 1), True)
    """
    return FieldLikelihood(
        field, times, data, initial, parameters, estimate, deviation, errors, options
    )


class FieldLikelihood:
    """A log-likelihood with its gradient; made by `field_likelihood`.

    Attributes
    ----------
    parameters : tuple of str
        Names of the columns of theta.
    """

    def __init__(
        self, field: VectorField, times: ArrayLike, data: Mapping[str, ArrayLike],
        initial: Mapping[str, float], parameters: Mapping[str, float] | None,
        estimate: Sequence[str], deviation: Any, errors: Errors, options: dict[str, Any],
    ) -> None:  # fmt: skip
        if not isinstance(field, VectorField):
            raise ModelError(f"field is {field!r}; expected a VectorField")
        field.refuse_arrays("field_likelihood")
        if field.diffusion is not None:
            raise ModelError("the field has noise; expected none: see ergode.particle_likelihood")
        choice("errors", errors, get_args(Errors))
        for name in options:
            choice("option", name, _OPTIONS, error=ModelError)
        self.parameters = tuple(sequence("estimate", estimate, "names"))
        check_once("estimate", self.parameters)
        self._field, self._options = field, options
        self._is_log = errors == "log-normal"
        self._times = time_grid(times)
        measured = by_name("data", data, "measured values")
        self._seen = np.full((self._times.size, len(field.variables)), np.nan)
        for name, given in measured.items():
            if name not in field.variables:
                raise ModelError(f"data has '{name}', which is no variable of the field")
            values = as_numbers(given)
            if values is None or values.shape != self._times.shape:
                raise ModelError(
                    f"data of '{name}' is {given!r}; expected a number for each of "
                    f"{self._times.size} times, of one trajectory (with several, add the "
                    "log-likelihoods of one call for each)"
                )
            if self._is_log and (values <= 0).any():
                raise ModelError(
                    f"data of '{name}' has values <= 0, whose errors are not log-normal"
                )
            self._seen[:, field.variables.index(name)] = np.log(values) if self._is_log else values
        self._known = np.isfinite(self._seen)
        if not self._known.any():
            raise ModelError("data has no measured value")
        given = deviation if isinstance(deviation, Mapping) else dict.fromkeys(measured, deviation)
        for name in measured:
            if name not in given:
                raise ModelError(f"deviation has no '{name}', which was measured")
        self._deviations = {name: self._checked_deviation(name, given[name]) for name in measured}
        unknown = {one for one in self._deviations.values() if isinstance(one, str)}
        self._names = [name for name in self.parameters if name not in unknown]
        if not self._names:
            raise ModelError("estimate has no parameter or variable of the field")
        self._fixed = [
            {k: v for k, v in by_name(what, values, "values").items() if k not in self._names}
            for what, values in (("initial", initial), ("parameters", parameters))
        ]
        for name in self._names:
            if name not in (*field.variables, *field.parameters):
                raise ModelError(
                    f"estimate has '{name}'; expected a parameter or a variable of the field, or a "
                    "name that deviation has"
                )

    def _checked_deviation(self, name: str, given: Any) -> float | str:
        if isinstance(given, str):
            if given not in self.parameters:
                raise ModelError(
                    f"deviation of '{name}' is '{given}', which estimate does not have"
                )
            if given in (*self._field.variables, *self._field.parameters):
                raise ModelError(f"deviation of '{name}' is '{given}', a name of the field")
            return given
        value = as_numbers(given)
        if value is None or value.ndim or not 0 < value < math.inf:
            raise ModelError(
                f"deviation of '{name}' is {given!r}; expected a positive number, or a name in "
                "estimate"
            )
        return float(value)

    def __repr__(self) -> str:
        return f"<FieldLikelihood of {', '.join(self.parameters)}>"

    def __call__(self, theta: ArrayLike, seed: int | None = None) -> np.ndarray:
        """The log-likelihood.

        Parameters
        ----------
        theta : array_like, shape [n, d] or [d]
        seed : int, optional
            Has no effect: nothing is random.

        Returns
        -------
        ndarray, shape [n], or a number
            Minus infinity where the equations cannot be integrated, a deviation is not positive, or
            a state is not positive whose errors are log-normal.
        """
        return self._of(theta, False)[0]

    def value_and_gradient(self, theta: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The log-likelihood, and its derivatives by the columns of theta.

        Parameters
        ----------
        theta : array_like, shape [n, d] or [d]

        Returns
        -------
        ndarray, shape [n], and ndarray, shape [n, d]
            Without the first dim for one row. Derivatives are 0 where the value is minus infinity.
        """
        return self._of(theta, True)

    def jax(self) -> Callable[..., Any]:
        """The log-likelihood as a function of JAX: theta, shape [d], to a number.

        ``jax.grad``, ``jax.jit`` and ``jax.vmap`` take it; all rows of a `vmap` are one call of the
        engine. So samplers of BlackJAX and NumPyro take it. It has first derivatives only.

        Raises a PlanError if JAX is not installed.
        """
        return as_jax(self)

    def pytensor(self) -> Callable[..., Any]:
        """The log-likelihood as an operation of PyTensor: theta, shape [d], to a scalar.

        In a model of PyMC: ``pymc.Potential("data", likelihood.pytensor()(pymc.math.stack(...)))``.

        Raises a PlanError if PyTensor is not installed.
        """
        return as_pytensor(self)

    @cached_property
    def _variational(self) -> Any:
        from ergode.trajectories.analysis.sensitivities import Variational

        return Variational(self._field, self._names, ())

    def _of(self, theta: ArrayLike, with_gradient: bool) -> tuple[np.ndarray, np.ndarray]:
        rows, is_one = theta_of(theta, self.parameters)
        columns = dict(zip(self.parameters, rows.T, strict=True))
        positive = [columns[one] > 0 for one in self._deviations.values() if isinstance(one, str)]
        good = np.isfinite(rows).all(axis=1) & np.all(positive or [True], axis=0)
        value, gradient = np.full(len(rows), -np.inf), np.zeros(rows.shape)
        if good.any():
            value[good], gradient[good] = self._of_good(rows[good], with_gradient)
            gradient[~np.isfinite(value)] = 0.0
        return (value[0], gradient[0]) if is_one else (value, gradient)

    def _of_good(self, rows: np.ndarray, with_gradient: bool) -> tuple[np.ndarray, np.ndarray]:
        columns = dict(zip(self.parameters, rows.T, strict=True))
        states, slopes, failed = self._integrated(columns, with_gradient)
        names = self._field.variables
        spread = np.ones((len(rows), len(names)))
        for name, one in self._deviations.items():
            spread[:, names.index(name)] = columns[one] if isinstance(one, str) else one
        with np.errstate(invalid="ignore", divide="ignore"):
            expected = np.log(np.where(states > 0, states, np.nan)) if self._is_log else states
            off = np.where(self._known, (self._seen - expected) / spread[:, None], 0.0)
            each = -(off**2) / 2 - np.log(spread[:, None]) - math.log(2 * math.pi) / 2
            if self._is_log:
                each = each - np.where(self._known, self._seen, 0.0)  # density of the value itself
            value = np.where(self._known, each, 0.0).sum(axis=(1, 2))
            pull = off / spread[:, None]
            if self._is_log:
                pull = np.where(self._known, pull / states, 0.0)
        value = np.where(failed | np.isnan(value), -np.inf, value)
        gradient = np.zeros(rows.shape)
        if with_gradient:
            with np.errstate(invalid="ignore"):
                by_name = np.einsum("ntv,ntvk->nk", pull, slopes)
            for k, name in enumerate(self._names):
                gradient[:, self.parameters.index(name)] = by_name[:, k]
            for name, one in self._deviations.items():
                if isinstance(one, str):
                    v = names.index(name)
                    more = np.where(self._known[:, v], off[:, :, v] ** 2 - 1, 0.0).sum(axis=1)
                    gradient[:, self.parameters.index(one)] += more / columns[one]
        return value, gradient

    def _integrated(
        self, columns: Mapping[str, np.ndarray], with_gradient: bool
    ) -> tuple[np.ndarray, Any, np.ndarray]:
        """States [row, time, variable], sensitivities [row, time, variable, name], and failures."""
        from ergode.trajectories import integrate

        initial, parameters = (
            fixed | {name: columns[name] for name in self._names if name in known}
            for fixed, known in zip(
                self._fixed, (self._field.variables, self._field.parameters), strict=True
            )
        )
        given: dict[str, Any] = {"times": self._times, "initial": initial, "parameters": parameters}
        with unrecorded(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FailureWarning)  # they have no likelihood
            if with_gradient:
                options = {"step": None, "rtol": None, "atol": None, "precision": "float64"}
                found = self._variational.integrate(**given, **{**options, **self._options})
            else:
                found = integrate(self._field, **given, **self._options)
        order = ("trajectory", "time", "variable")
        states = found["state"].transpose(*order).values
        slopes = None
        if with_gradient:
            slopes = found["sensitivity"].transpose(*order, "with_respect_to").values
        return states, slopes, has_failed(found["status"].values)
