"""Public function `linear_noise`: means and covariances of large amounts, without realizations."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, log, results
from ergode.core.arguments import check_switch, is_finite_number, time_grid
from ergode.core.calls.launch import check_room
from ergode.core.errors import ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.core.results import SWEPT, Variable
from ergode.core.stopwatch import Stopwatch
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Law
from ergode.models.sweep import POINT
from ergode.stochastic.closure import Normal, ThirdOrder, slopes_of_moments
from ergode.stochastic.macroscopic import Macroscopic, gradients
from ergode.stochastic.simulate import sweep_of
from ergode.stochastic.to_tables import initial_amount

if TYPE_CHECKING:
    import xarray

_TIME = (SWEPT, "time")
_MOMENT, _RULE = (*_TIME, "species"), (*_TIME, "rule")
_PAIR = ("species", "other_species")
results.register(
    "stochastic",
    "linear-noise",
    [
        Variable("mean", _MOMENT, "float64", "1", "mean of the amount"),
        Variable("variance", _MOMENT, "float64", "1", "variance of the amount"),
        Variable("covariance", (*_TIME, *_PAIR), "float64", "1", "covariance of two amounts"),
        Variable("third_moment", _MOMENT, "float64", "1", "third moment about the mean", True),
        Variable("value_mean", _RULE, "float64", "1", "mean of a rule's value", True),
        Variable("value_variance", _RULE, "float64", "1", "variance of a rule's value", True),
        Variable(
            "stationary_mean", (SWEPT, "species"), "float64", "1", "mean in the stationary state",
            True,
        ),
        Variable(
            "stationary_covariance", (SWEPT, *_PAIR), "float64", "1",
            "covariance in the stationary state", True,
        ),
        Variable(
            "autocovariance", (SWEPT, "species", "lag"), "float64", "1",
            "covariance of amounts a lag apart, in the stationary state", True,
        ),
        Variable(
            "autocorrelation", (SWEPT, "species", "lag"), "float64", "1",
            "autocovariance over that of lag zero", True,
        ),
        Variable(
            "power_spectrum", (SWEPT, "species", "frequency"), "float64", "time",
            "two-sided power spectral density in the stationary state", True,
        ),
    ],
)  # fmt: skip

_TOLERANCES = 1e-11, 1e-2
# The stationary state is sought over times that double, at most so often, and at most so many
# evaluations of the drift are made.
_DOUBLINGS, _DRIFTS = 60, 20_000
_SMALL = 1e-8  # an amount beside the largest one
_NEWTON = 50


@recorded(dict.fromkeys(("initial", "parameters"), POINT))
def linear_noise(
    network: ReactionNetwork,
    *,
    times: ArrayLike,
    initial: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    stationary: bool = False,
    lags: ArrayLike | None = None,
    frequencies: ArrayLike | None = None,
    closure: Literal["normal", "third-order"] | None = None,
    tolerance: float = 1e-8,
) -> xarray.Dataset:
    """Means and covariances by the linear noise approximation, without realizations.

    The means m obey the macroscopic equations m' = S a(m), with the stoichiometry S and the
    propensities a. The covariances C obey C' = J C + C J^T + S diag(a) S^T, with the Jacobian J of
    the drift. Both are exact if every propensity is linear in the amounts. Otherwise the relative
    errors are of the order of one over the number of molecules, while the amounts stay near one
    stable state. With a `closure` the means feel the fluctuations, and the errors are of the next
    order: the moment equations of second order, whose third central moments are zero; or those of
    third order, which also follow asymmetry.

    Parameters
    ----------
    network : ReactionNetwork
        Mass action, and any other rates. Rates may depend on the time.
    times : array_like, shape [time_count]
        Ascending grid [time]; the amounts are known at the first time.
    initial, parameters : mapping of str to float, array_like or ergode.grid
        Values that replace initial amounts, parameters and compartments of the network. Arrays of
        one length are swept together, as points; those of a grid are crossed.
    stationary : bool
        Whether the result has the stationary state to which the means tend from the last time on.
    lags : array_like, shape [lag_count], optional
        Times between two amounts of the stationary state [time], 0 or more: for autocovariances.
    frequencies : array_like, shape [frequency_count], optional
        Frequencies [1 / time]: for power spectra in the stationary state.
    closure : {"normal", "third-order"}, optional
        Take the expectations of the propensities over a distribution of the amounts, not at their
        means: over the normal distribution; or over one that also has the third central moments,
        and whose cumulants of order 4 and 5 are zero. The latter needs propensities that are
        polynomials of degree 3 at most, such as mass action of up to three molecules. For `times`
        alone. Where amounts are few or have two likely values, a closure may fail; this is an
        error.
    tolerance : float
        Relative error of the means and covariances, from 1e-11 to 1e-2. Values below one molecule
        have this error absolutely.

    Returns
    -------
    xarray.Dataset
        ``mean`` and ``variance`` (time, species), ``covariance`` (time, species, other_species),
        and ``value_mean`` and ``value_variance`` (time, rule) of the network's rules, with a
        closure over the normal distribution. With ``closure="third-order"``: ``third_moment``
        (time, species), the third central moments. With `stationary`, `lags` or `frequencies`:
        ``stationary_mean`` (species) and ``stationary_covariance`` (species, other_species). With
        `lags`: ``autocovariance`` and
        ``autocorrelation`` (species, lag). With `frequencies`: ``power_spectrum`` (species,
        frequency), whose integral over all frequencies, positive and negative ones, is the
        variance. With a sweep, all have its dims in front. ``attrs["exact"]`` is 1 if all
        propensities are linear mass action.

    Raises
    ------
    ModelError
        A name or a value is invalid; a rate is not finite; a closure fails.
    PlanError
        The network has events, delays or rate rules; there is no stable stationary state; a
        stationary state is asked for with a closure; a rate is no polynomial of degree 3 or less,
        with ``closure="third-order"``.

    References
    ----------
    N. G. van Kampen, "Stochastic Processes in Physics and Chemistry", 3rd ed. (2007), chapter X.
    J. Elf, M. Ehrenberg, "Fast evaluation of fluctuations in biochemical networks with the linear
    noise approximation", Genome Research 13 (2003).
    D. Schnoerr, G. Sanguinetti, R. Grima, "Approximation and inference methods for stochastic
    biochemical kinetics - a tutorial review", Journal of Physics A 50 (2017), section 4.3, for the
    closures.

    Examples
    --------
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 0},
    ...     [
    ...         ergode.Reaction("0 -> X", rate_constant=100.0),
    ...         ergode.Reaction("X -> 0", rate_constant=0.5),
    ...     ],
    ... )
    >>> found = ergode.stochastic.linear_noise(network, times=[0, 5], lags=[0.0, 2.0])
    >>> found["mean"].sel(species="X").values.round(3).tolist()
    [0.0, 183.583]
    >>> found["autocorrelation"].sel(species="X").values.round(4).tolist()
    [1.0, 0.3679]
    """
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
    stopwatch = Stopwatch()
    grid = time_grid(times)
    check_switch("linear_noise", "stationary", stationary)
    low, high = _TOLERANCES
    if not is_finite_number(tolerance) or not low <= tolerance <= high:
        raise PlanError(f"tolerance is {tolerance!r}; expected a number from {low:g} to {high:g}")
    asked = {"lag": _axis("lags", lags, 0.0), "frequency": _axis("frequencies", frequencies)}
    stationary = stationary or any(axis is not None for axis in asked.values())
    if not isinstance(closure, str | None) or closure not in (None, "normal", "third-order"):
        raise PlanError(f"closure is {closure!r}; expected 'normal', 'third-order' or None")
    if closure and stationary:
        raise PlanError(
            "stationary states are those of the linear noise approximation: leave out the closure, "
            "or give a time at which the moments have settled"
        )
    layout = sweep_of(network, parameters, initial, results.names("stochastic", "linear-noise"))
    count, species = layout.count, [member.name for member in network.species]
    check_room(
        8 * count * grid.size * len(species) ** 2 + 16 * (len(species) + 1) ** 4,
        f"the covariances of {len(species):,} species at {count * grid.size:,} times",
        "use fewer species, times or points",
    )
    if closure == "third-order":
        check_room(
            8 * (8 * len(network.reactions) + 40) * len(species) ** 3,
            f"the third moments of {len(species):,} species", "use closure='normal'",
        )  # fmt: skip
    points = []
    for which in range(count):
        numbers, start = (
            {name: float(layout.rows[name][which]) for name in given or {}}
            for given in (parameters, initial)
        )
        equations = Macroscopic(network, numbers, counted=closure is not None)
        points.append((equations, start_of(equations, start)))
    place = devices.resolve("cpu")
    third = [ThirdOrder(equations) if closure == "third-order" else None for equations, _ in points]
    method = f"{closure}-closure" if closure else "linear-noise"
    reason = "asked for" if closure else "the default"
    log.tell_all(log.choice(method, reason, place))
    log.checked()
    log.computes()
    rows = []
    for (equations, amounts), moments in zip(points, third, strict=True):
        row = _course(equations, amounts, grid, float(tolerance), closure is not None, moments)
        if stationary:
            row |= _stationary(equations, row["mean"], grid, float(tolerance), **asked)
        rows.append(row)
    arrays = {
        name: np.reshape([row[name] for row in rows], (*layout.shape, *np.shape(rows[0][name])))
        for name in rows[0]
    }
    coords: dict[str, Any] = {"time": grid, "species": species, "other_species": species}
    coords |= layout.coords
    coords |= {"rule": list(network.rules)} if network.rules else {}
    coords |= {name: axis for name, axis in asked.items() if axis is not None}
    attrs = results.provenance(
        stopwatch, engine="stochastic", method=method, method_reason=reason,
        exact=int(_is_linear(network)), device=place.name, device_model=place.model,
        device_reason="the only one for the linear noise approximation",
        tolerance=float(tolerance), model_digest=network.digest,
    )  # fmt: skip
    return results.dataset(
        "stochastic", "linear-noise", arrays, coords=coords, attrs=attrs, swept=layout.dims
    )


def _axis(name: str, given: ArrayLike | None, least: float = -np.inf) -> np.ndarray | None:
    """Lags or frequencies, ascending."""
    if given is None:
        return None
    axis = time_grid(given, name=name)
    if axis[0] < least:
        raise ModelError(f"{name} begins at {axis[0]:g}; expected {least:g} or more")
    return axis


def start_of(equations: Macroscopic, given: Mapping[str, float]) -> np.ndarray:
    """Initial amounts, shape [species]; `given` replaces those of the network.

    Raises a ModelError if one is not finite, or negative.
    """
    network = equations.network
    start = np.array([
        initial_amount(member, given.get(member.name, member.initial), equations.parameters)
        for member in network.species
    ], np.float64)  # fmt: skip
    bad = np.flatnonzero(~(np.isfinite(start) & (network.is_continuous | (start >= 0))))
    if bad.size:
        name = network.species[bad[0]].name
        raise ModelError(
            f"the initial amount of '{name}' is {start[bad[0]]:g} molecules; expected 0 or more"
        )
    return start


def _is_linear(network: ReactionNetwork) -> bool:
    """Whether every propensity is mass action of at most one molecule."""
    table = network.reactions
    orders = np.zeros(len(table))
    rows = np.repeat(np.arange(len(table)), np.diff(table.reactant_starts))
    np.add.at(orders, rows, table.reactant_counts)
    return bool((orders <= 1).all() and (table.laws != Law.RATE).all())


# ---- in time


def _course(
    equations: Macroscopic, start: np.ndarray, grid: np.ndarray, tolerance: float, is_closed: bool,
    third: ThirdOrder | None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Means and covariances at the times of the grid, and third moments if they are followed."""
    count = start.size
    upper = np.triu_indices(count)
    last = count + upper[0].size
    size = last + (third.triples.shape[1] if third else 0)
    state = np.concatenate([start, np.zeros(size - count)])

    def slope(time: float, state: np.ndarray) -> np.ndarray:
        if third:
            return third.slope(state, time)
        covariance = _full(state[count:], upper)
        if is_closed:
            drift, change = slopes_of_moments(equations, state[:count], covariance, time)
            return np.concatenate([drift, change[upper]])
        drift, jacobian, diffusion = equations.parts(_real(equations, state[:count]), time)
        moved = jacobian @ covariance
        return np.concatenate([drift, (moved + moved.T + diffusion)[upper]])

    states = _solve(equations, slope, state, grid, tolerance)
    mean = states[:, :count]
    covariance = np.stack([_full(row, upper) for row in states[:, count:last]])
    found = {
        "mean": mean,
        "covariance": covariance,
        "variance": np.diagonal(covariance, axis1=1, axis2=2).copy(),
    }
    if third:
        alike = (third.triples == third.triples[0]).all(axis=0)
        found["third_moment"] = states[:, last:][:, alike]
    if equations.network.rules and is_closed:
        laws = [Normal(*one) for one in zip(mean, covariance, grid, strict=True)]
        values = [equations.rules(one.points, time) for one, time in zip(laws, grid, strict=True)]
        expected = [one.mean(value) for one, value in zip(laws, values, strict=True)]
        found["value_mean"] = np.stack(expected)
        found["value_variance"] = np.stack([
            one.mean((value - middle) ** 2)
            for one, value, middle in zip(laws, values, expected, strict=True)
        ])  # fmt: skip
    elif equations.network.rules:
        rules = equations.rules
        found["value_mean"] = np.stack(
            [rules(amounts, time) for amounts, time in zip(mean, grid, strict=True)]
        )
        slopes = np.stack([
            gradients(lambda n, time=time: rules(n, time), amounts)
            for amounts, time in zip(mean, grid, strict=True)
        ])  # fmt: skip
        found["value_variance"] = np.einsum("tir,tij,tjr->tr", slopes, covariance, slopes)
    return found


def _full(packed: np.ndarray, upper: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """A symmetric matrix of its upper triangle."""
    count = int(upper[0][-1]) + 1 if upper[0].size else 0
    full = np.zeros((count, count))
    full[upper] = packed
    return full + np.triu(full, 1).T


def _real(equations: Macroscopic, amounts: np.ndarray) -> np.ndarray:
    """Amounts without what the solver's error makes negative."""
    return np.where(equations.network.is_continuous, amounts, np.maximum(amounts, 0.0))


def _solve(
    equations: Macroscopic, slope: Any, state: np.ndarray, grid: np.ndarray, tolerance: float
) -> np.ndarray:
    """States [time, component] at the times of the grid; no step crosses a break of the rates."""
    from scipy.integrate import solve_ivp  # `simulate` should not wait for SciPy

    rows = [state]
    breaks = [time for time in equations.breaks if grid[0] < time < grid[-1]]
    for begin, end in pairwise(np.unique([grid[0], *breaks, grid[-1]])):
        first, last = np.nextafter(begin, end), np.nextafter(end, begin)
        wanted = grid[(grid > begin) & (grid <= end)]
        found = solve_ivp(
            lambda t, y, first=first, last=last: slope(min(max(t, first), last), y),
            (begin, end), state, method="LSODA", t_eval=np.union1d(wanted, [end]),
            rtol=0.1 * tolerance, atol=0.1 * tolerance * equations.floor,
        )  # fmt: skip
        if not found.success:
            raise ModelError(
                f"the macroscopic equations could not be solved beyond time "
                f"{found.t[-1] if found.t.size else begin:g}: {found.message}"
            )
        rows += list(found.y.T[: wanted.size])
        state = found.y[:, -1]
    return np.stack(rows)


# ---- the stationary state


def _stationary(
    equations: Macroscopic, mean: np.ndarray, grid: np.ndarray, tolerance: float,
    lag: np.ndarray | None, frequency: np.ndarray | None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Moments of the stationary state to which the means tend from the last time on."""
    from scipy import linalg

    time = float(grid[-1])
    mean, basis = steady_state(equations, mean[-1], grid, tolerance)
    _, jacobian, diffusion = equations.parts(mean, time)
    inner = basis.T @ jacobian @ basis
    rates = np.linalg.eigvals(inner).real
    if rates.size and not rates.max() < -1e-9 * max(np.abs(rates).max(), 1e-300):
        raise PlanError(
            f"the stationary state ({_listed(equations, mean)}) is not stable: a deviation grows "
            f"at the rate {rates.max():.3g}"
        )
    noise = basis.T @ diffusion @ basis
    within = linalg.solve_continuous_lyapunov(inner, -noise) if rates.size else inner
    covariance = basis @ within @ basis.T
    found = {"stationary_mean": mean, "stationary_covariance": covariance}
    if lag is not None:
        later = [linalg.expm(inner * one) @ within for one in lag]
        rows = [np.einsum("ia,ab,ib->i", basis, one, basis) for one in later]
        variance = np.diagonal(covariance)[:, None]
        found["autocovariance"] = np.stack(rows, axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            found["autocorrelation"] = np.where(
                variance > 0, found["autocovariance"] / variance, np.nan
            )
    if frequency is not None:
        unit = np.eye(len(inner))
        spectra = []
        for one in frequency:
            gain = basis @ np.linalg.inv(inner - 2j * np.pi * one * unit)
            spectra.append(np.einsum("ia,ab,ib->i", gain, noise, gain.conj()).real)
        found["power_spectrum"] = np.stack(spectra, axis=-1)
    return found


def steady_state(
    equations: Macroscopic, amounts: np.ndarray, grid: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Amounts at which nothing changes: forward in time, and by Newton's method.

    Also directions [species, direction] of all changes; what others combine is conserved.

    Raises a PlanError if there are none, or a rate depends on the time.
    """
    from scipy import linalg

    if equations.follows_time:
        raise PlanError("a rate depends on the time, so there is no stationary state")
    basis = linalg.orth(equations.changes)
    time = float(grid[-1])
    span = max(float(grid[-1] - grid[0]), 1e-6)

    left = _DRIFTS

    def slope(_: float, state: np.ndarray) -> np.ndarray:
        nonlocal left
        left -= 1
        if left < 0:
            raise PlanError(_no_state(equations, state))
        return equations.drift(_real(equations, state), time)

    relative = equations.floor == 0.0
    for _ in range(_DOUBLINGS):
        if relative:
            begun = 1e-6 * span * np.abs(equations.drift(amounts, time)).max(initial=0.0)
            largest = float(np.abs(amounts).max(initial=0.0)) or float(begun)
            equations.floor = max(equations.floor, _SMALL * largest) or 1.0
        is_known = not relative or amounts.any() or begun == 0.0  # how large amounts are
        found = _newton(equations, amounts, basis, time, tolerance) if is_known else None
        if found is not None:
            return found, basis
        amounts = _solve(equations, slope, amounts, np.array([time, time + span]), tolerance)[-1]
        if not np.isfinite(amounts).all() or np.abs(amounts).max() > 1e18 * equations.floor:
            break
        span *= 2.0
    raise PlanError(_no_state(equations, amounts))


def _no_state(equations: Macroscopic, amounts: np.ndarray) -> str:
    return (
        f"the means tend to no stationary state; later they are {_listed(equations, amounts)}. A "
        "species that is only made, or an oscillation, has none"
    )


def _newton(
    equations: Macroscopic, amounts: np.ndarray, basis: np.ndarray, time: float, tolerance: float
) -> np.ndarray | None:
    """The stationary state next to `amounts`; None if Newton's method leads away from it."""
    size = np.maximum(np.abs(amounts), equations.floor)
    begin = amounts
    for _ in range(_NEWTON):
        drift, jacobian, _ = equations.parts(_real(equations, amounts), time)
        try:
            move = basis @ np.linalg.solve(basis.T @ jacobian @ basis, -(basis.T @ drift))
        except np.linalg.LinAlgError:
            return None
        if not (np.abs(amounts + move - begin) <= 0.01 * size).all():
            return None
        amounts = amounts + move
        if (np.abs(move) <= 1e-3 * tolerance * size).all():
            return _real(equations, amounts)
    return None


def _listed(equations: Macroscopic, amounts: np.ndarray) -> str:
    """The first amounts, for a message."""
    names = [member.name for member in equations.network.species]
    listed = [f"{name} = {n:.4g}" for name, n in zip(names, amounts, strict=True)]
    return ", ".join(listed[:4]) + (", ..." if len(listed) > 4 else "")
