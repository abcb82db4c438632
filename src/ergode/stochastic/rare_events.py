"""Public function `rare_event`: probabilities far too small to be met by chance, by splitting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count as count_from
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.arguments import (
    as_numbers,
    by_name,
    choice,
    integer,
    is_finite_number,
    number,
    time_grid,
)
from ergode.core.calls import launch
from ergode.core.errors import AccuracyWarning, ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.core.results import Variable
from ergode.core.status import Status
from ergode.core.stopwatch import Stopwatch
from ergode.core.words import counted
from ergode.models.expressions import TIME, Expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.stochastic.master_equation.rates import Rates
from ergode.stochastic.methods import EXACT, MethodName
from ergode.stochastic.simulate import condition_of, simulate

if TYPE_CHECKING:
    import xarray

_PATHS = ("repetition", "path")
results.register(
    "stochastic",
    "rare-event",
    [
        Variable("probability", (), "float64", "1", "probability that a path reaches the target"),
        Variable("standard_error", (), "float64", "1", "of the probability, by chance"),
        Variable("estimate", ("repetition",), "float64", "1", "probability of one repetition"),
        Variable(
            "reached_probability", ("threshold",), "float64", "1",
            "probability that a path reaches a threshold",
        ),
        Variable(
            "reached_error", ("threshold",), "float64", "1", "its standard error, by chance"
        ),
        Variable(
            "passage_time", _PATHS, "float64", "time",
            "time at which a path of the last stage reached the target; NaN if it did not",
        ),
        Variable("amount", (*_PATHS, "species"), "float64", "1", "molecules where it ended"),
    ],
)  # fmt: skip

_WITHOUT_LIMIT, _SHORTEST = 1e300, 1e-300  # times that no path reaches, or can fail to
_SHARES = 0.1, 0.5  # of paths that reach the next threshold, at least and at most
_PILOT = 2000  # paths that try a threshold, at most
_TRIES, _THRESHOLDS = 40, 500  # for one threshold; in all
_UNSURE = 0.3  # relative error that is told
_RACE, _DRAW, _TRY, _DRAW_OF_TRIES = range(4)  # what random numbers are for


@recorded({})
def rare_event(
    network: ReactionNetwork,
    *,
    level: str,
    target: float,
    times: ArrayLike | None = None,
    avoid: str | None = None,
    thresholds: ArrayLike | None = None,
    paths: int = 1000,
    repetitions: int = 20,
    parameters: Mapping[str, float] | None = None,
    initial: Mapping[str, float] | None = None,
    seed: int = 0,
    method: MethodName = "auto",
    device: str | devices.Device = "auto",
    max_firings: int = 10**9,
) -> xarray.Dataset:
    """Probability that a path reaches a level that hardly any path reaches, by splitting.

    Thresholds lie between the initial state and the target. From the initial state `paths` paths
    start. From where some of them first reached a threshold, `paths` paths start towards the next
    one. The product of the fractions that arrived is an unbiased estimate of the probability, for
    any thresholds; they decide about its error. Where every fraction is about 0.2, a probability of
    1e-12 costs some 17 times as much as one of 0.2.

    Parameters
    ----------
    network : ReactionNetwork
        Without events, delays, continuous variables, and rates that depend on time: the amounts
        alone decide how a path goes on.
    level : str
        A formula of amounts and parameters that grows towards the target, such as ``"X"`` or
        ``"-X"``. It need not always grow.
    target : float
        The level to be reached.
    times : array_like, shape [2], optional
        Paths begin at the first time and must reach the target by the second [time]. None:
        without a limit, and `avoid` ends the others.
    avoid : str, optional
        A condition, such as ``"X < 3"``; a path that meets it before the target has failed. With
        `times` None, the result is a splitting probability.
    thresholds : array_like, shape [threshold_count], optional
        Ascending levels between the initial state and the target. The default places them by paths
        of its own, such that about a fifth of the paths reaches the next one.
    paths : int
        Paths that start at each threshold, in each repetition.
    repetitions : int
        Independent estimates, at least 2; the standard error is theirs.
    parameters, initial : mapping of str to float
        Values that replace parameters, compartments and initial amounts of the network.
    seed : int
        Key of all random numbers, 0 to 2^64 - 1.
    method : str
        ``"auto"``, or one of the exact methods of `simulate`.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    max_firings : int
        Limit on the firings of a path between two thresholds.

    Returns
    -------
    xarray.Dataset
        ``probability`` and ``standard_error``; the ``estimate`` of each repetition;
        ``reached_probability`` and ``reached_error`` of each threshold; the last threshold is the
        target. ``passage_time`` and ``amount`` are those of the paths of the last stage. In a mean
        over them, weight each repetition by its estimate.

        Over times that are long for the network to forget its start, and short for the event, the
        probability grows by the rate of the event: its slope between two limits is the rate.

    Raises
    ------
    ModelError
        The network, a name or a value is invalid, or the start has reached the target, or what is
        to be avoided.
    PlanError
        The network or the method does not suit, paths failed, or no path comes closer to the
        target while thresholds are placed.

    Warns
    -----
    AccuracyWarning
        The relative standard error exceeds 0.3, or most repetitions reached nothing.

    References
    ----------
    H. Kahn, T. E. Harris, "Estimation of particle transmission by random sampling", Nat. Bur.
    Stand. Appl. Math. Ser. 12 (1951). R. J. Allen, P. B. Warren, P. R. ten Wolde, "Sampling rare
    switching events in biochemical networks", Phys. Rev. Lett. 94 (2005). M. J. J. Garvels, "The
    splitting method in rare event simulation" (2000), for fixed effort.

    Examples
    --------
    Thirty-five molecules, where there are ten on average:

    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 10},
    ...     [
    ...         ergode.Reaction("0 -> X", rate_constant=10.0),
    ...         ergode.Reaction("X -> 0", rate_constant=1.0),
    ...     ],
    ... )
    >>> found = ergode.stochastic.rare_event(
    ...     network, level="X", target=35, times=[0, 4], paths=200, seed=1, device="cpu"
    ... )
    >>> exact = ergode.stochastic.probabilities(
    ...     network, times=[0, 4], stop="X >= 35", tolerance=1e-12
    ... )["stopped"][-1]
    >>> f"{float(exact):.1e}"
    '2.3e-08'
    >>> bool(abs(found["probability"] - exact) < 5 * found["standard_error"])
    True
    """
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
    stopwatch = Stopwatch()
    begin, longest = _span(times, avoid)
    paths = integer("paths", paths, 1, 2**24)
    repetitions = integer("repetitions", repetitions, 2, 2**20)
    seed = integer("seed", seed, 0, 2**64 - 1)
    choice("method", method, ("auto", *EXACT))
    options = {"method": method, "device": device, "max_firings": max_firings}
    race = _Race(
        network, _numbers("parameters", parameters), _numbers("initial", initial), level, avoid,
        longest, options,
    )  # fmt: skip
    first = race.check_start(number("target", target))
    if thresholds is None:
        levels = _placed(race, first, float(target), min(paths, _PILOT), seed)
    else:
        levels = _given(thresholds, first, float(target))
    fractions = np.zeros((repetitions, levels.size))
    passage = np.full((repetitions, paths), np.nan)
    amounts = np.full((repetitions, paths, len(network.species)), np.nan)
    alive = np.arange(repetitions)  # repetitions in which a path has come so far
    starts = None
    for stage, threshold in enumerate(levels.tolist()):
        found = race.run(starts, alive.size * paths, threshold, (seed, _RACE, stage))
        arrived = found.times.reshape(alive.size, paths)
        hits = np.isfinite(arrived)
        fractions[alive, stage] = hits.mean(axis=1)
        if stage == levels.size - 1:
            passage[alive] = begin + arrived
            amounts[alive] = found.amounts.reshape(*arrived.shape, -1)
        goes_on = hits.any(axis=1)
        alive = alive[goes_on]
        if not alive.size:
            break
        key = (seed, _DRAW, stage)
        starts = found.rows(_multiplied(hits[goes_on], np.flatnonzero(goes_on), paths, key))
    reached = np.cumprod(fractions, axis=1)
    means, error = reached.mean(axis=0), reached.std(axis=0, ddof=1) / np.sqrt(repetitions)
    probability = means[-1]
    missed = repetitions - alive.size
    if not error[-1] <= _UNSURE * probability or 2 * missed > repetitions:
        launch.warn(
            f"the probability is {probability:.2g} with a standard error of {error[-1]:.2g}, and "
            f"{missed} of {repetitions} repetitions reached nothing; use more paths, or more "
            "thresholds",
            AccuracyWarning,
        )
    values = {
        "probability": probability, "standard_error": error[-1], "estimate": reached[:, -1],
        "reached_probability": means, "reached_error": error,
        "passage_time": passage, "amount": amounts,
    }  # fmt: skip
    attrs = results.provenance(
        stopwatch, engine="stochastic", **race.said, exact=1, seed=str(seed), paths=paths,
        firings=race.firings, model_digest=network.digest,
    )  # fmt: skip
    coords = {"threshold": levels, "species": [member.name for member in network.species]}
    return results.dataset("stochastic", "rare-event", values, coords=coords, attrs=attrs)


class _Paths(NamedTuple):
    """Where paths ended, or start."""

    amounts: np.ndarray  # [path, species]
    times: np.ndarray  # [path], since the beginning; NaN if a path failed

    def rows(self, which: np.ndarray) -> _Paths:
        return _Paths(self.amounts[which], self.times[which])


@dataclass
class _Race:
    """Paths towards a threshold."""

    network: ReactionNetwork
    parameters: dict[str, float]
    initial: dict[str, float]
    level: str
    avoid: str | None
    longest: float  # time of a path
    options: dict[str, Any]  # of `simulate`
    firings: int = 0
    said: dict[str, Any] = field(default_factory=dict)  # attributes of a result

    def __post_init__(self) -> None:
        self._rates = Rates(self.network, self.parameters, condition_of(self.network, self.avoid))
        if self._rates.breaks:
            raise PlanError(
                "a rate depends on time, and a path goes on from its amounts alone; rare_event "
                "cannot start paths there: use ergode.stochastic.simulate"
            )
        if not isinstance(self.level, str):
            raise ModelError(f"level is {self.level!r}; expected a formula such as 'X'")
        self._level = Expression(self.level)
        self.network.check_formula(self._level, "level")
        if TIME in self._level.names:
            raise ModelError(f"level, {self.level!r}, depends on time; expected amounts only")

    def level_of(self, amounts: np.ndarray) -> np.ndarray:
        """The level of amounts [..., species]."""
        rows = amounts.reshape(-1, amounts.shape[-1])
        levels = np.asarray(self._level.evaluate(self._rates.known(rows, 0.0)), np.float64)
        return np.broadcast_to(levels, len(rows)).reshape(amounts.shape[:-1])

    def check_start(self, target: float) -> float:
        """The level of the initial state.

        Raises a ModelError if it has reached the target, or what is to be avoided, or has no level.
        """
        start = self._rates.start(self.initial)[None]
        level = float(self.level_of(start)[0])
        if not level < target:
            raise ModelError(
                f"level, {self.level!r}, is {level:g} in the initial state, and the target is "
                f"{target:g}; expected a start below the target"
            )
        if self.avoid is not None and self._rates.stopped(start, 0.0)[0]:
            raise ModelError(
                f"avoid, {self.avoid!r}, holds in the initial state; expected a start outside of it"
            )
        return level

    def run(
        self, starts: _Paths | None, count: int, threshold: float, key: tuple[int, ...]
    ) -> _Paths:
        """Paths from `starts`, or `count` from the initial state, up to a threshold."""
        found = self._simulate(starts, count, threshold, key)
        amounts = found["amount"].values.reshape(count, -1)
        begun = np.zeros(count) if starts is None else starts.times
        times = begun + found["passage_time"].values.ravel()
        arrived = (times <= self.longest) & (self.level_of(amounts) >= threshold)
        if self.avoid is not None:
            arrived &= ~self._rates.stopped(amounts, 0.0)
        return _Paths(amounts, np.where(arrived, times, np.nan))

    def _simulate(
        self, starts: _Paths | None, count: int, threshold: float, key: tuple[int, ...]
    ) -> xarray.Dataset:
        stop = f"({self.level}) >= {threshold!r}"
        initial: dict[str, Any] = dict(self.initial)
        longest = self.longest
        if starts is not None:
            longest = max(longest - starts.times.min(), _SHORTEST)
            initial = {
                member.name: starts.amounts[:, i] / self._rates.size_of(i)
                for i, member in enumerate(self.network.species)
            }
        found = simulate(
            self.network, times=[0.0, longest], replicates=count if starts is None else 1,
            stop=stop if self.avoid is None else f"{stop} or ({self.avoid})", output="final",
            initial=initial, parameters=self.parameters, common_random_numbers=False,
            seed=int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]), **self.options,
        )  # fmt: skip
        status = found["status"].values
        failed = (status >= Status.NOT_RUN) & (status != Status.STOPPED)
        if failed.any():
            name = Status(int(status[failed][0])).name
            raise PlanError(f"{int(failed.sum()):,} of {count:,} paths failed: {name}")
        self.firings += int(found["firing_count"].sum())
        kept = "method", "method_reason", "device", "device_model", "device_reason"
        self.said = {name: found.attrs[name] for name in kept if name in found.attrs}
        return found


def _span(times: ArrayLike | None, avoid: str | None) -> tuple[float, float]:
    """When paths begin, and how long they may be."""
    if times is None:
        if avoid is None:
            raise PlanError("neither times nor avoid is given; expected what ends a path")
        return 0.0, _WITHOUT_LIMIT
    grid = time_grid(times)
    if grid.size != 2:
        raise ModelError(f"times has {counted(grid.size, 'time')}; expected a start and an end")
    return float(grid[0]), float(grid[1] - grid[0])


def _numbers(name: str, given: Mapping[str, float] | None) -> dict[str, float]:
    values = by_name(name, given, "numbers")
    for key, value in values.items():
        if not is_finite_number(value):
            raise ModelError(f"{name} has {key} = {value!r}; expected one finite number")
    return {key: float(value) for key, value in values.items()}


def _given(thresholds: ArrayLike, first: float, target: float) -> np.ndarray:
    levels = as_numbers(thresholds)
    if levels is None or levels.ndim != 1:
        raise ModelError(f"thresholds is {thresholds!r}; expected a list of numbers that ascend")
    bad = np.flatnonzero(~(np.diff([first, *levels, target]) > 0))
    if bad.size:
        raise ModelError(
            f"thresholds are {levels.tolist()}, the initial level is {first:g} and the target "
            f"{target:g}; expected numbers that ascend between them"
        )
    return np.append(levels, target)


def _placed(race: _Race, first: float, target: float, count: int, seed: int) -> np.ndarray:
    """Thresholds that lie so far apart that a share of paths within `_SHARES` reaches the next one.

    These paths only place thresholds; the estimate has paths of its own.
    """
    levels: list[float] = []
    here, step, starts, tried = first, target - first, None, count_from(0)
    while here < target:
        near, far, threshold = here, np.inf, min(here + 2.0 * step, target)
        easy: tuple[float, _Paths] | None = None  # the farthest that enough paths reach
        hard: tuple[float, _Paths] | None = None  # the nearest that some paths reach
        for _ in range(_TRIES):
            found = race.run(starts, count, threshold, (seed, _TRY, next(tried)))
            arrived = found.rows(np.flatnonzero(np.isfinite(found.times)))
            share = len(arrived.times) / count
            is_closed = share > 0 and race.level_of(arrived.amounts).min() >= far > threshold
            if share >= _SHARES[0]:
                easy, near = (threshold, arrived), threshold
            else:
                hard, far = (threshold, arrived) if share > 0 else hard, threshold
            if is_closed or (_SHARES[0] <= share and (share <= _SHARES[1] or threshold == target)):
                break
            threshold = 0.5 * (near + min(far, target))
            if threshold <= near:
                break
        chosen = easy or hard
        if chosen is None or len(levels) == _THRESHOLDS:
            raise PlanError(
                f"no path of {count:,} comes closer to the target than the level {here:g}, after "
                f"{counted(len(levels), 'threshold')}; expected another level or more paths"
            )
        step, here, arrived = chosen[0] - here, *chosen
        levels.append(here)
        key = (seed, _DRAW_OF_TRIES, len(levels))
        starts = arrived.rows(_multiplied(np.ones((1, len(arrived.times)), bool), [0], count, key))
    return np.array(levels)


def _multiplied(
    hits: np.ndarray, rows: Sequence[int] | np.ndarray, count: int, key: tuple[int, ...]
) -> np.ndarray:
    """Indices of `count` paths that go on in each repetition, of those that arrived.

    All of a repetition that arrived go on equally often, but for the rest, which is drawn.

    Parameters
    ----------
    hits : ndarray, shape [repetition, path]
        Which arrived; `rows` are the numbers of these repetitions.
    """
    draws = np.random.default_rng(key)
    chosen = [
        row * hits.shape[1] + np.resize(draws.permutation(np.flatnonzero(one)), count)
        for one, row in zip(hits, rows, strict=True)
    ]
    return np.concatenate(chosen)
