"""Least-squares estimates of parameters and initial values from measured trajectories.

The residuals of all trajectories and their derivatives come from one run (see `trials`).
SciPy's trust-region method minimises the sum of their squares, from one or several starts.  The
searches advance together: their trajectories are one ensemble.

M. A. Branch, T. F. Coleman, Y. Li, SIAM J. Sci. Comput. 21, 1 (1999), for the method.
H. Niederreiter, Random Number Generation and Quasi-Monte Carlo Methods (1992), chapter 3, for the
sequence of starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.arguments import by_name, choice, integer, sequence, time_grid
from ergode.core.calls import launch
from ergode.core.compiler.source import PRECISIONS, Precision
from ergode.core.errors import AccuracyWarning, FailureWarning, ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.core.math.searches import latest, search_together
from ergode.core.results import SWEPT, Variable
from ergode.core.status import Status
from ergode.models.fields.vector_field import VectorField
from ergode.models.sweep import TRAJECTORY, lay_out
from ergode.trajectories.analysis.profiles import checked_profiles, profiles_of
from ergode.trajectories.analysis.sensitivities import checked_names
from ergode.trajectories.analysis.trials import Trial
from ergode.trajectories.events import ZeroCrossing, check_events
from ergode.trajectories.labels import derived
from ergode.trajectories.methods import MethodName
from ergode.trajectories.tolerances import check_tolerances

if TYPE_CHECKING:
    import xarray

Loss = Literal["linear", "soft_l1", "huber", "cauchy", "arctan"]

results.register(
    "trajectories",
    "fit",
    [
        Variable("estimate", ("parameter",), "float64", "1", "value that fits best"),
        Variable("standard_error", ("parameter",), "float64", "1", "of the estimate"),
        Variable(
            "covariance", ("parameter", "other_parameter"), "float64", "1", "of the estimates"
        ),
        Variable("state", (SWEPT, "time", "variable"), "floating", "1", "state at a time"),
        Variable(
            "measured", (SWEPT, "time", "variable"), "float64", "1",
            "measured value; missing where nothing is measured",
        ),
        Variable(
            "residual", (SWEPT, "time", "variable"), "float64", "1",
            "measured less fitted value, in standard deviations; missing where nothing is measured",
        ),
        Variable(
            "start_point", ("start", "parameter"), "float64", "1", "beginning of each search"
        ),
        Variable("start_cost", ("start",), "float64", "1", "cost at the end of each search"),
        Variable("start_estimate", ("start", "parameter"), "float64", "1", "end of each search"),
        Variable(
            "interval", ("profiled", "end"), "float64", "1",
            "ends of the interval by the profile likelihood", True,
        ),
        Variable(
            "profile_value", ("profiled", "profile_point"), "float64", "1",
            "a value of one quantity", True,
        ),
        Variable(
            "profile_cost", ("profiled", "profile_point"), "float64", "1",
            "least cost at this value", True,
        ),
    ],
)  # fmt: skip

_Answer = tuple[np.ndarray, np.ndarray]  # residuals and their derivatives

# Most searches at a time, and most numbers in the results of their trajectories.
_TOGETHER, _NUMBERS = 128, 2**26
# Singular values of the Jacobian below this part of the largest are zero but for rounding.
_RANK = 1e-12
# Where quantities as large as at the start move the curve by less than this part of the data, their
# size says nothing about how far to go.
_SMALL_EFFECT = 1e-2
# Starts without two finite bounds lie within this factor of the given value.
_FACTOR = 3.0
# A reduced chi square above this, and a correlation of successive residuals of more than so many
# standard errors, are warned of.  Residuals below this part of the data are errors of integration.
_MOST_REDUCED, _MOST_SIGMAS, _EXACT = 3.0, 4.0, 1e-4


@recorded(dict.fromkeys(("initial", "parameters"), TRAJECTORY))
def fit(
    field: VectorField,
    *,
    times: ArrayLike,
    data: Mapping[str, ArrayLike],
    initial: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    estimate: Sequence[str],
    bounds: Mapping[str, tuple[float, float]] | None = None,
    deviation: Mapping[str, ArrayLike] | None = None,
    loss: Loss = "linear",
    events: Sequence[ZeroCrossing] = (),
    method: MethodName = "auto",
    step: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    max_step: float | None = None,
    max_steps: int = 1_000_000,
    max_evaluations: int = 200,
    starts: int = 0,
    profile: Sequence[str] = (),
    level: float = 0.95,
    device: str | devices.Device = "auto",
    precision: Precision = "float64",
) -> xarray.Dataset:
    """Estimate parameters and initial values by least squares.

    Parameters
    ----------
    field, events, method, step, atol, max_step, max_steps, device, precision
        As for `integrate`. The history of a field with delays is constant and equals the initial
        values.
    times : array_like, shape [time_count]
        When the data were measured, ascending [time]. The first is that of `initial`.
    data : mapping of str to array_like, shape [<swept dims>, time_count]
        Measured values by name of the variable; NaN where nothing was measured. Variables that are
        not named are not measured.
    initial, parameters
        As for `integrate`. Several trajectories, such as experiments with other initial values,
        are fitted together. The values of names in `estimate` are where the search begins: one
        number each, equal in all trajectories. A parameter of its own for each trajectory is a sum
        over parameters that are 1 in one of them and 0 in the others: see the tutorial on dosing.
    estimate : sequence of str
        Names of parameters; the name of a variable stands for its initial value. They may be
        delays, times of events and thresholds. Derivatives are those of `sensitivities`. Where it
        has none, they are central differences: by a delay or the lag of an input with steps, with
        effects of events in a field with delays, with delays that depend on the state, and for
        functions with branches, which SymPy cannot derive. ``attrs["derivatives"]`` says which.
    bounds : mapping of str to (float, float), optional
        Least and largest value by name of what is estimated; ``inf`` is allowed.
    deviation : mapping of str to array_like, optional
        Standard deviation of the measurements of a variable: a number, or an array like its data.
        Without it all are one, and the covariance is scaled by the residuals' variance.
    loss : {"linear", "soft_l1", "huber", "cauchy", "arctan"}
        As of `scipy.optimize.least_squares`, for residuals in standard deviations. All but
        ``"linear"`` give outliers less weight.
    rtol : float, optional
        Relative error of a step; 1e-8 if neither `rtol` nor `step` is given.
    max_evaluations : int
        Largest number of runs of each search.
    starts : int
        Number of further starts. A search finds the minimum nearest to its start; the best of all
        searches is returned. The starts are a low-discrepancy sequence, equal in all calls. They
        lie between the bounds of a quantity if both are finite (evenly in the logarithm if both
        are positive), otherwise within a factor of 3 of the given value. All searches advance
        together, so that 20 take little longer than one.
    profile : sequence of str
        Names in `estimate` whose profile likelihoods to compute: the least cost at each of some
        values of the quantity, where all others are fitted. Its interval is right where that of
        the standard error is not: where the model is not nearly linear in the quantity, and where
        the data do not bound it.
    level : float
        Confidence level of the intervals of profiles.

    Returns
    -------
    xarray.Dataset
        estimate(parameter), standard_error(parameter), covariance(parameter, other_parameter), and
        at the estimate state(<swept dims>, time, variable) and residual(<swept dims>, time,
        variable), beside measured(<swept dims>, time, variable), the data: `ergode.plots.fitted`
        draws them. ``attrs`` have ``converged``, ``message``, ``evaluations`` (of all searches),
        ``derivatives``, ``cost`` (half the sum of the squares, after `loss`) and
        ``reduced_chi_square``.
        start_point(start, parameter) is where each search begins; start_cost(start) and
        start_estimate(start, parameter) are where it ends, NaN where trajectories cannot be
        integrated from a start. Start 0 has the given values.
        With `profile`, profile_cost(profiled, profile_point) at profile_value(profiled,
        profile_point), and interval(profiled, end). An end is a bound, or infinite, if the profile
        does not rise enough on that side: the data do not bound the quantity there.

    Raises
    ------
    ModelError
        A name is unknown; data have another shape, or are fewer than what is estimated; what is
        estimated begins outside of its bounds, or has several values.
    PlanError
        The field has noise or arrays; or the trajectories cannot be integrated where the search
        begins; or `starts` are asked for, and a quantity that begins at 0 has no finite bounds.

    Warns
    -----
    AccuracyWarning
        The data do not determine all estimates: the standard errors of some are infinite. Or one
        ends at a bound. Or the data are hardly larger than `atol`. Or the
        fitted curve misses the data: with `deviation` and a linear loss the reduced chi square is
        above 3, or successive residuals of a variable are correlated.
    FailureWarning
        The search did not converge; or a profile has a lower cost than the estimate.

    References
    ----------
    A. Raue et al., Bioinformatics 25, 1923 (2009), for profile likelihoods.

    Examples
    --------
    >>> import ergode
    >>> def decay(t, y, p):
    ...     return (-p[0] * y[0],)
    >>> field = ergode.VectorField(decay, ["x"], ["rate"])
    >>> found = ergode.trajectories.fit(
    ...     field, times=[0, 1, 2, 3], data={"x": [2.0, 1.0, 0.5, 0.25]}, initial={"x": 1.0},
    ...     parameters={"rate": 0.5}, estimate=["rate", "x"], device="cpu",
    ... )
    >>> found["estimate"].values.round(4).tolist()
    [0.6931, 2.0]
    """
    from scipy.optimize import least_squares
    from scipy.special import gammaincinv

    names = checked_names(field, "estimate", estimate)
    choice("loss", loss, get_args(Loss))
    most = integer("max_evaluations", max_evaluations, 1, 2**31)
    more = integer("starts", starts, 0, 100_000)
    profiled = checked_profiles(profile, names, level, loss)
    events = tuple(sequence("events", events, "ZeroCrossing"))
    events = check_events(events, field)
    parameters = {} if parameters is None else parameters
    layout = lay_out(
        {"initial": field.variables, "parameters": field.parameters},
        {"initial": initial, "parameters": parameters},
        reserved=results.names("trajectories", "fit"),
    )
    such = ", ".join(f"{name!r}: ..." for name in field.variables[:3])
    data = by_name("data", data, f"measured values, such as {{{such}}}")
    bounds = by_name("bounds", bounds, "least and largest values by name")
    deviation = by_name("deviation", deviation, "deviations by name of the variable")
    start = _start_of(field, names, initial, parameters)
    low, high = _bounds_of(field, names, bounds, start)
    places = _starts_of(names, start, low, high, more)
    shape = (*layout.shape, time_grid(times, may_descend=True).size, field.size)
    values, weights = _measured(field, shape, data, deviation)
    is_measured = np.isfinite(values)
    if is_measured.sum() < len(names):
        raise ModelError(
            f"data have {is_measured.sum()} values for {len(names)} estimates; expected at "
            f"least {len(names)}"
        )
    if step is None:
        choice("precision", precision, PRECISIONS)
        _check_sizes(field, values, check_tolerances(rtol, atol, None, precision, field)[1])
    # A search ends by numbers that must not depend on anybody's units: here, and by `unit` below.
    scale = 1.0 / (np.sqrt(np.mean((values * weights)[is_measured] ** 2)) or 1.0)
    given = {"initial": initial, "parameters": parameters}
    trial = Trial(field, names, events, layout, given, {
        "times": times, "method": method, "step": step,
        "rtol": 1e-8 if rtol is None and step is None else rtol, "atol": atol,
        "max_step": max_step, "max_steps": max_steps, "device": device, "precision": precision,
    }, _units_of(start, low, high), (low, high))  # fmt: skip
    if (trial.at(start)["status"] != Status.DONE).any():
        raise PlanError(
            "the trajectories cannot be integrated where the search begins; begin elsewhere, or "
            "look at them with integrate"
        )

    def evaluated(points: np.ndarray) -> list[_Answer]:
        """Residuals and Jacobians at `points` [point, quantity]."""
        states, slopes, fails = trial.together(points)
        gaps = (states - values) * weights
        # A point whose trajectories fail is no step of the search.
        gaps[fails] = np.inf
        slopes *= weights[..., None]
        return [(gap[is_measured], by[is_measured]) for gap, by in zip(gaps, slopes, strict=True)]

    def search(
        place: np.ndarray, ask: Callable[[np.ndarray], _Answer], free: Any = slice(None)
    ) -> Any:
        """The end of a search over the quantities that are free."""
        whole = place

        def asked_of(x: np.ndarray) -> _Answer:
            point = whole.copy()
            point[free] = x
            gaps, slopes = ask(point)
            return gaps, slopes[:, free]

        asked, place = latest(asked_of), place[free]
        least, largest = low[free], high[free]
        if not np.isfinite(asked(place)[0]).all():
            return None  # the trajectories cannot be integrated from here
        unit, origin = _units_of(place, least, largest), np.zeros(place.size)
        effects = scale * np.linalg.norm(asked(place)[1], axis=0)
        if np.linalg.norm(effects * place) < _SMALL_EFFECT:
            # The first step is as long as the place is far from the origin.
            unit = np.where(effects > 0, 1.0 / np.where(effects > 0, effects, 1.0), unit)
            origin = place - unit
        end = least_squares(
            lambda q: scale * asked(origin + q * unit)[0], (place - origin) / unit,
            lambda q: scale * asked(origin + q * unit)[1] * unit,
            ((least - origin) / unit, (largest - origin) / unit), "trf", x_scale="jac", loss=loss,
            f_scale=scale, max_nfev=most, ftol=1e-12, xtol=1e-10, gtol=1e-12,
        )  # fmt: skip
        end.x, end.jac = origin + end.x * unit, end.jac / scale / unit
        end.cost /= scale**2
        return end

    together = min(max(_NUMBERS // (values.size * trial.width), 1), _TOGETHER)
    ends = search_together(search, places, evaluated, together)
    costs = np.array([np.nan if one is None else one.cost for one in ends])
    stops = np.array([np.full(len(names), np.nan) if one is None else one.x for one in ends])
    found = ends[int(np.nanargmin(costs))]
    best = trial.at(found.x)
    gap = (values - best["state"].values) * weights
    free = int(is_measured.sum()) - len(names)
    square = float((gap[is_measured] ** 2).sum())
    reduced = square / free if free else np.nan
    covariance = _covariance(found.jac) * (1.0 if deviation else reduced)
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(np.diag(covariance))
    if not found.success:
        launch.warn(f"the search did not converge: {found.message}", FailureWarning)
    if len(bound := [name for name, at in zip(names, found.active_mask, strict=True) if at]):
        launch.warn(
            f"the search ended where {', '.join(bound)} meets its bound: standard errors are those "
            "of a search without bounds",
            AccuracyWarning,
        )
    if np.isinf(errors).any():
        unknown = [name for name, error in zip(names, errors, strict=True) if np.isinf(error)]
        launch.warn(
            f"the data do not determine {', '.join(unknown)}: fit fewer at a time, or measure more",
            AccuracyWarning,
        )
    if deviation and loss == "linear" and reduced > _MOST_REDUCED:
        launch.warn(
            f"the fitted curve misses the data: the reduced chi square is {reduced:.3g}, and about "
            f"1 is expected; {_CURES}",
            AccuracyWarning,
        )
    elif smooth := _correlated(field, gap, values * weights):
        launch.warn(
            f"successive residuals of {', '.join(smooth)} are correlated: the fitted curve misses "
            f"the data, and the standard errors are too small; {_CURES}",
            AccuracyWarning,
        )
    more_values: dict[str, np.ndarray] = {}
    if profiled:
        # Half the quantile of chi square with one degree of freedom.
        rise = float(gammaincinv(0.5, level)) * (1.0 if deviation else reduced)

        def fitted(at: int, points: np.ndarray) -> np.ndarray:
            free = np.arange(len(names)) != at
            if not free.any():
                square = [(gaps**2).sum() / 2 for gaps, _ in evaluated(points)]
                return np.where(np.isfinite(square), square, np.inf)
            ends = search_together(partial(search, free=free), points, evaluated, together)
            return np.array([np.inf if one is None else one.cost for one in ends])

        more_values = profiles_of(
            profiled, names, found.x, float(found.cost), rise, covariance, (low, high),
            _units_of(found.x, low, high), fitted,
        )  # fmt: skip
    best.attrs = {key: value for key, value in best.attrs.items() if not key.endswith("_seconds")}
    coords = {
        "time": best["time"], "variable": best["variable"], "parameter": names,
        "other_parameter": names,
    }  # fmt: skip
    if profiled:
        coords |= {"profiled": profiled, "end": ["low", "high"]}
    return derived(
        best, "fit",
        {
            "estimate": found.x, "standard_error": errors, "covariance": covariance,
            "state": best["state"].values, "residual": np.where(is_measured, gap, np.nan),
            "measured": values,
            "start_point": places, "start_cost": costs, "start_estimate": stops, **more_values,
        },
        coords,
        {
            "converged": int(found.success), "message": found.message, "evaluations": trial.count,
            "derivatives": trial.derivatives,
            "cost": float(found.cost), "reduced_chi_square": reduced,
        },
    )  # fmt: skip


_RESOLVED = 100.0  # times atol: what is smaller is told
_CURES = (
    "the search may have ended in a local minimum (give starts=20, bounds, or first fit a short "
    "span), or the model is wrong"
)


def _start_of(
    field: VectorField, names: Sequence[str], initial: Mapping[str, Any],
    parameters: Mapping[str, Any],
) -> np.ndarray:  # fmt: skip
    """Where the search begins."""
    start = []
    for name in names:
        given = initial if name in field.variables else parameters
        if name not in given:
            raise ModelError(f"estimate has {name!r}, which has no value to begin with")
        value = np.asarray(given[name])
        if value.ndim or not np.issubdtype(value.dtype, np.number) or not np.isfinite(value):
            raise ModelError(
                f"'{name}' is estimated and is {given[name]!r}; expected one number to begin with, "
                f"for all trajectories. For a value of its own in each write '{name}' as "
                f"in_0 * {name}_0 + in_1 * {name}_1 + ..., give in_0=[1, 0, ...], in_1=[0, 1, ...] "
                f"and estimate {name}_0, {name}_1, ..."
            )
        start.append(float(value))
    return np.array(start)


def _bounds_of(
    field: VectorField, names: Sequence[str], bounds: Mapping[str, tuple[float, float]],
    start: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Least and largest value of each; a delay is positive."""
    delays = {delay for _, delay in field.delays}
    for name in bounds:
        if name not in names:
            raise ModelError(f"bounds has {name!r}; estimated are {', '.join(names)}")
    try:
        low, high = np.array(
            [bounds.get(name, (0 if name in delays else -np.inf, np.inf)) for name in names],
            np.float64,
        ).reshape(-1, 2).T  # fmt: skip
    except (TypeError, ValueError):
        raise ModelError(f"bounds is {bounds!r}; expected a least and a largest value") from None
    for name, least, most, value in zip(names, low, high, start, strict=True):
        if not least < most:
            raise ModelError(f"bounds of '{name}' are {least:g} and {most:g}; expected ascending")
        if not least <= value <= most:
            raise ModelError(f"'{name}' begins at {value:g}, outside {least:g} to {most:g}")
    return low, high


def _starts_of(
    names: Sequence[str], start: np.ndarray, low: np.ndarray, high: np.ndarray, more: int
) -> np.ndarray:
    """Where the searches begin [start, quantity]: the given values, and `more` points."""
    places = np.tile(start, (more + 1, 1))
    if not more:
        return places
    # Multiples of the powers of 1 / root, where root^(d + 1) = root + 1.
    count, root = len(names), 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (count + 1))
    powers = root ** -np.arange(1.0, count + 1)
    even = (0.5 + np.arange(1, more + 1)[:, None] * powers) % 1.0
    for i, (name, value, least, most) in enumerate(zip(names, start, low, high, strict=True)):
        if np.isfinite(least) and np.isfinite(most):
            if least > 0:
                places[1:, i] = least * (most / least) ** even[:, i]
            else:
                places[1:, i] = least + (most - least) * even[:, i]
        elif value == 0:
            raise PlanError(f"'{name}' begins at 0; several starts need finite bounds of '{name}'")
        else:
            places[1:, i] = value * _FACTOR ** (2.0 * even[:, i] - 1.0)
    return np.asarray(np.clip(places, low, high))


def _correlated(field: VectorField, gap: np.ndarray, scaled: np.ndarray) -> list[str]:
    """Variables whose successive residuals are positively correlated.

    `gap` and `scaled` are residuals and data [<swept dims>, time, variable] in deviations.
    """
    found = []
    for i, name in enumerate(field.variables):
        one, data = gap[..., i], scaled[..., i]
        pairs = one[..., 1:] * one[..., :-1]
        count = int(np.isfinite(pairs).sum())
        square = float(np.nanmean(one**2)) if count else 0.0
        if count < 2 or square <= _EXACT**2 * float(np.nanmean(data**2)):
            continue
        if float(np.nansum(pairs)) / square > _MOST_SIGMAS * np.sqrt(count):
            found.append(name)
    return found


def _measured(
    field: VectorField, shape: tuple[int, ...], data: Mapping[str, Any],
    deviation: Mapping[str, Any],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Measured values like the states, NaN where there are none; reciprocal deviations."""
    values, weights = np.full(shape, np.nan), np.ones(shape)
    for what, given in (("data", data), ("deviation", deviation)):
        for name, array in given.items():
            if name not in (field.variables if what == "data" else data):
                known = ", ".join(map(str, field.variables if what == "data" else data))
                raise ModelError(f"{what} has {name!r}; expected names among {known}")
            at = field.variables.index(name)
            try:
                content = np.asarray(array, np.float64)
            except (TypeError, ValueError):
                raise ModelError(f"{what} of '{name}' are no numbers") from None
            allowed = [shape[:-1]] if what == "data" else [shape[:-1], ()]
            if content.shape not in allowed:
                raise ModelError(
                    f"{what} of '{name}' have shape {content.shape}; expected {shape[:-1]}"
                )
            if np.isinf(content).any():
                raise ModelError(f"{what} of '{name}' have an infinite value; expected NaN")
            if what == "data":
                values[..., at] = content
                continue
            if not (
                content[np.isfinite(values[..., at])] > 0 if content.ndim else content > 0
            ).all():
                raise ModelError(f"deviation of '{name}' has a value that is not positive")
            weights[..., at] = 1.0 / content
    if deviation and (others := [name for name in data if name not in deviation]):
        raise ModelError(f"deviation has no {others[0]!r}; expected all that data has, or none")
    return values, weights


def _check_sizes(field: VectorField, values: np.ndarray, atol: float | np.ndarray) -> None:
    """Warn of data that an integration does not resolve."""
    allowed = np.broadcast_to(atol, (field.size,))
    for name, least, column in zip(
        field.variables, allowed, np.moveaxis(values, -1, 0), strict=True
    ):
        known = np.abs(column[np.isfinite(column)])
        if known.size and 0 < known.max() < _RESOLVED * least:
            launch.warn(
                f"data of '{name}' are at most {known.max():.2g}, and atol is {least:g}; use a "
                "smaller atol",
                AccuracyWarning,
            )


def _units_of(start: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The size of each estimated quantity: where it begins, or the width of its bounds, or one."""
    width = np.where(np.isfinite(high - low) & (high > low), high - low, 1.0)
    return np.where(start != 0.0, np.abs(start), width)


def _covariance(jacobian: np.ndarray) -> np.ndarray:
    """Inverse of the normal matrix; infinite for quantities that the data do not determine."""
    scale = np.linalg.norm(jacobian, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    _, singular, turn = np.linalg.svd(jacobian / scale, full_matrices=False)
    is_seen = singular > _RANK * max(singular[0], 1e-300) * max(jacobian.shape)
    seen, unseen = turn[is_seen], turn[~is_seen]
    covariance = (seen.T / singular[is_seen] ** 2) @ seen / np.outer(scale, scale)
    lost = (np.abs(unseen) > 1e-6).any(axis=0)
    covariance[lost] = covariance[:, lost] = np.nan
    covariance[lost, lost] = np.inf
    return covariance
