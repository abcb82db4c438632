"""Public function `probabilities`: the distribution itself, without realizations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, log, results
from ergode.core.arguments import integer, is_finite_number, time_grid
from ergode.core.calls import launch
from ergode.core.calls.launch import check_room
from ergode.core.calls.progress import track
from ergode.core.errors import ModelError, PerformanceWarning, PlanError
from ergode.core.inputs import recorded
from ergode.core.results import SWEPT, Variable
from ergode.core.stopwatch import Stopwatch
from ergode.models.expressions import Expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.sweep import POINT, Layout
from ergode.stochastic.master_equation.rates import Rates
from ergode.stochastic.simulate import condition_of, sweep_of

if TYPE_CHECKING:
    import xarray

    from ergode.stochastic.master_equation.uniformisation import Evolution

_TIME = (SWEPT, "time")
_MOMENT, _RULE = (*_TIME, "species"), (*_TIME, "rule")
results.register(
    "stochastic",
    "probabilities",
    [
        Variable(
            "probability", (*_MOMENT, "amount"), "float64", "1", "probability of an amount"
        ),
        Variable("joint_probability", (*_TIME, "state"), "float64", "1", "probability of a state"),
        Variable("state_amount", ("state", "species"), "int64", "1", "molecules in a state"),
        Variable("mean", _MOMENT, "float64", "1", "mean of the amount"),
        Variable("variance", _MOMENT, "float64", "1", "variance of the amount"),
        Variable(
            "truncation_error", _TIME, "float64", "1",
            "probability that was left out; no probability is too small by more",
        ),
        Variable("stopped", _TIME, "float64", "1", "probability that `stop` has held", True),
        Variable("value_mean", _RULE, "float64", "1", "mean of a rule's value", True),
        Variable("value_variance", _RULE, "float64", "1", "variance of a rule's value", True),
    ],
)  # fmt: skip

_TOLERANCES = 1e-12, 0.5
_PARTS = 100  # of progress
_FROM_ZERO = 100_000  # molecules; amounts that reach more are shown from the smallest on
# Products of a matrix with a vector, times states, that are worth a warning.
_MUCH_WORK = 1e12


@recorded(dict.fromkeys(("initial", "parameters"), POINT))
def probabilities(
    network: ReactionNetwork,
    *,
    times: ArrayLike,
    initial: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    stop: str | None = None,
    tolerance: float = 1e-6,
    max_states: int = 1_000_000,
    progress: bool = False,
) -> xarray.Dataset:
    """Solve the master equation: the probability of every state, without realizations.

    The states are those that can be reached from the initial state. Where there are infinitely
    many, or many with almost no probability, the least probable are left out. What is left out is
    known exactly: it is ``truncation_error``, one minus the sum of all probabilities. Every
    probability of the result is a lower bound, and is too small by at most that error.

    Parameters
    ----------
    network : ReactionNetwork
        Of few molecules or few species: the work grows with the number of states.
    times : array_like, shape [time_count]
        Ascending grid [time]; the initial amounts are those at the first time.
    initial, parameters : mapping of str to float, array_like or ergode.grid
        Values that replace initial amounts, parameters and compartments of the network. Arrays of
        one length are swept together, as points; those of a grid are crossed.
    stop : str, optional
        A condition on amounts, such as ``"X > 100"``. Nothing happens any more in states where it
        holds; ``stopped`` is the distribution function of the first time at which it does.
    tolerance : float
        Largest ``truncation_error`` at the last time, from 1e-12 to 0.5.
    max_states : int
        Largest number of states that are kept at one time.
    progress : bool
        Show progress on standard error.

    Returns
    -------
    xarray.Dataset
        ``probability`` (time, species, amount) of the amounts of each species, from 0 to the
        largest (above 100,000 from the smallest);
        ``joint_probability`` (time, state) with ``state_amount`` (state, species); ``mean`` and
        ``variance`` (time, species), and of rules (time, rule); ``truncation_error`` (time). Means
        and variances are those of the states kept, whose probabilities are divided by their sum.
        With a sweep, all but ``state_amount`` have its dims in front (``point``, or the names in a
        grid), and states are those of all points.

    Raises
    ------
    ModelError
        A name or a value is invalid; a rate is negative or not finite, or a reaction takes
        molecules that are not there, in a state that can be reached.
    PlanError
        The network has events or delays, or rates that depend on time otherwise than by comparing
        it with constants; or more than `max_states` states have a probability that matters. With a
        sweep, the message names the point.

    Warns
    -----
    PerformanceWarning
        Some rates are so fast, compared with the times, that the call takes long.

    References
    ----------
    B. Munsky, M. Khammash, "The finite state projection algorithm for the solution of the chemical
    master equation", J. Chem. Phys. 124 044104 (2006).

    Examples
    --------
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 0},
    ...     [
    ...         ergode.Reaction("0 -> X", rate_constant=10.0),
    ...         ergode.Reaction("X -> 0", rate_constant=0.5),
    ...     ],
    ... )
    >>> exact = ergode.stochastic.probabilities(network, times=[0, 5, 50])
    >>> exact["mean"].sel(species="X").values.round(3).tolist()
    [0.0, 18.358, 20.0]
    >>> bool(exact["truncation_error"][-1] <= 1e-6)
    True
    """
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
    stopwatch = Stopwatch()
    grid = time_grid(times)
    most = integer("max_states", max_states, 1, 2**31 - 2)
    if not is_finite_number(tolerance) or not _TOLERANCES[0] <= tolerance <= _TOLERANCES[1]:
        low, high = _TOLERANCES
        raise PlanError(f"tolerance is {tolerance!r}; expected a number from {low:g} to {high:g}")
    condition = condition_of(network, stop)
    layout = sweep_of(network, parameters, initial, results.names("stochastic", "probabilities"))
    points = [
        _point(network, layout, which, parameters, initial, condition)
        for which in range(layout.count)
    ]
    place, method = devices.resolve("cpu"), "finite-state-projection"
    reason = f"the only method; it keeps at most {most:,} states and bounds what it leaves out"
    log.tell_all(log.choice(method, reason, place))
    log.checked()
    log.computes()
    found, works = [], []
    with track("probabilities", _PARTS, unit="%", show=progress) as advanced:
        watch = _Watch(advanced, _PARTS / layout.count)
        for which, (rates, start) in enumerate(points):
            with _at_point(layout, which):
                one, evolution = _solve(rates, start, grid, float(tolerance), most, watch)
            found += one
            works.append((evolution.largest, evolution.products))
    attrs = results.provenance(
        stopwatch, engine="stochastic", method=method, method_reason=reason, exact=1,
        device=place.name, device_model=place.model, device_reason="the only one for probabilities",
        tolerance=float(tolerance), max_states=most, states=max(one for one, _ in works),
        products=sum(one for _, one in works), model_digest=network.digest,
    )  # fmt: skip
    return _dataset([rates for rates, _ in points], layout, grid, found, attrs)


@contextmanager
def _at_point(layout: Layout, which: int) -> Iterator[None]:
    """Within this block errors name the point of the sweep."""
    try:
        yield
    except (ModelError, PlanError) as error:
        if not layout.dims:
            raise
        here = ", ".join(f"{name} = {layout.rows[name][which]:g}" for name in layout.coords)
        raise type(error)(f"{error}; at the point {here}") from None


def _point(
    network: ReactionNetwork,
    layout: Layout,
    which: int,
    parameters: Mapping[str, Any] | None,
    initial: Mapping[str, Any] | None,
    stop: Expression | None,
) -> tuple[Rates, np.ndarray]:
    """Rates and initial amounts at a point of the sweep."""
    values, given = (
        {name: float(layout.rows[name][which]) for name in names or {}}
        for names in (parameters, initial)
    )
    with _at_point(layout, which):
        rates = Rates(network, values, stop)
        return rates, rates.start(given)


@dataclass
class _Watch:
    """Progress of a call, and a warning if it takes long."""

    advanced: Callable[[int], None]
    share: float  # of the whole, of one point
    shown: float = 0.0
    has_warned: bool = False

    def report(self, done: float, evolution: Evolution, span: float, many: bool) -> None:
        """`done` is the fraction of a point; `many`: products with the matrix are dear."""
        self.shown += self.share * done
        if self.shown >= 1:
            self.advanced(int(self.shown))
            self.shown -= int(self.shown)
        count = evolution.space.count
        work = evolution.fastest * span * count
        if many and work > _MUCH_WORK and not self.has_warned:
            self.has_warned = True
            launch.warn(
                f"the fastest state is left {evolution.fastest:.2g} times per unit of time, and"
                f" {count:,} states are followed over {span:g}: this takes {work * 1e-9 / 60:.0f} "
                "minutes or more, and longer if amounts grow without bound; "
                "ergode.stochastic.simulate may be faster",
                PerformanceWarning,
            )


def _solve(
    rates: Rates, start: np.ndarray, grid: np.ndarray, tolerance: float, most: int, watch: _Watch
) -> tuple[list[tuple[np.ndarray, np.ndarray]], Evolution]:
    """States and their probabilities at each time of the grid."""
    # These load SciPy, for which `simulate` should not wait.
    from ergode.stochastic.master_equation.states import StateSpace
    from ergode.stochastic.master_equation.uniformisation import FEW, Evolution

    inside = [time for time in rates.breaks if grid[0] < time < grid[-1]]
    edges = np.array([grid[0], *inside, grid[-1]])
    span = float(grid[-1] - grid[0])
    stops = np.unique(np.concatenate([edges, grid]))
    middle = 0.5 * (edges[:-1] + edges[1:]) if span else grid[:1]
    space = StateSpace(rates, start, float(middle[0]), most)
    evolution = Evolution(space, float(grid[0]), tolerance / max(span, 1e-300))
    found = [(space.states, evolution.p)]

    def report(step: float) -> None:
        watch.report(step / span, evolution, span, space.count > FEW)

    piece = 0
    for before, stop in pairwise(stops):
        while edges[piece + 1] <= before:
            piece += 1
            evolution.take_rates_of(float(middle[piece]))
        evolution.advance(float(stop), report)
        if stop in grid:
            found.append((space.states, evolution.p))
    return found, evolution


def _dataset(
    points: Sequence[Rates],
    layout: Layout,
    grid: np.ndarray,
    found: list[tuple[np.ndarray, np.ndarray]],
    attrs: Mapping[str, Any],
) -> xarray.Dataset:
    """The result, of states and their probabilities at each time of each point."""
    network, rows = points[0].network, len(points) * grid.size
    names = [member.name for member in network.species]
    # States in which no probability has arrived are not shown.
    found = [(states[p > 0], p[p > 0]) for states, p in found]
    states, place = np.unique(
        np.concatenate([states for states, _ in found]), axis=0, return_inverse=True
    )
    places = np.split(place.ravel(), np.cumsum([len(p) for _, p in found])[:-1])
    amounts = np.unique(np.concatenate([_range(column) for column in states.T]))
    check_room(
        8 * rows * (len(states) + len(names) * amounts.size),
        f"an array of the probabilities of {len(states):,} states at {rows:,} times",
        "use fewer times, or a larger tolerance",
    )
    joint = np.zeros((rows, len(states)))
    shape = (rows, len(names), amounts.size)
    marginals = np.zeros(shape)
    for k, ((here, p), index) in enumerate(zip(found, places, strict=True)):
        joint[k, index] = p
        for i in range(len(names)):
            column = np.searchsorted(amounts, here[:, i])
            marginals[k, i] = np.bincount(column, p, amounts.size)
    total = joint.sum(axis=1)
    weights = joint / total[:, None]
    values = {
        "probability": marginals,
        "joint_probability": joint,
        "state_amount": states,
        "truncation_error": np.maximum(1.0 - total, 0.0),
    }
    values["mean"], values["variance"] = _moments(weights, states.astype(np.float64))
    coords: dict[str, Any] = {"time": grid, "species": names, "amount": amounts}
    each = [(rates, float(time)) for rates in points for time in grid]
    if points[0].stop is not None:
        holds = [rates.stopped(states, float(grid[0])) for rates in points]
        values["stopped"] = (joint * np.repeat(holds, grid.size, axis=0)).sum(axis=1)
    if network.rules:
        coords["rule"] = list(network.rules)
        parts = []
        for (rates, time), weight in zip(each, weights, strict=True):
            held = weight > 0  # a rule may have no value in states of other points
            known = rates.known(states[held], time)
            ruled = [np.broadcast_to(known[name], held.sum()) for name in network.rules]
            parts.append(_moments(weight[None, held], np.array(ruled).T))
        values["value_mean"] = np.concatenate([mean for mean, _ in parts])
        values["value_variance"] = np.concatenate([variance for _, variance in parts])
    shaped = {
        name: value if name == "state_amount"
        else value.reshape((*layout.shape, grid.size, *value.shape[1:]))
        for name, value in values.items()
    }  # fmt: skip
    return results.dataset(
        "stochastic", "probabilities", shaped, coords=coords | layout.coords, attrs=attrs,
        swept=layout.dims,
    )  # fmt: skip


def _range(amounts: np.ndarray) -> np.ndarray:
    """Amounts of one species to show."""
    low, high = int(amounts.min()), int(amounts.max())
    return np.arange(0 if low < high < _FROM_ZERO else low, high + 1)


def _moments(weights: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances [time, number] of numbers [state, number] with weights [time, state]."""
    mean = weights @ numbers
    variance = [w @ (numbers - m) ** 2 for w, m in zip(weights, mean, strict=True)]
    return mean, np.array(variance)
