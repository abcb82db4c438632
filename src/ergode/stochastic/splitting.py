"""Public function `passages`: which of several sets is reached first, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import devices, results
from ergode.core.arguments import by_name, integer, is_finite_number
from ergode.core.errors import ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.core.results import SWEPT, Variable
from ergode.core.stopwatch import Stopwatch
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.sweep import POINT
from ergode.stochastic.master_equation.rates import Rates
from ergode.stochastic.methods import MethodName
from ergode.stochastic.simulate import condition_of, simulate, sweep_of

if TYPE_CHECKING:
    import xarray

_BY_END = (SWEPT, "end")
_PATHS = (SWEPT, "replicate")
results.register(
    "stochastic",
    "passages",
    [
        Variable("probability", _BY_END, "float64", "1", "probability to reach an end first"),
        Variable("mean_time", (SWEPT,), "float64", "time", "mean time until an end is reached"),
        Variable("time_variance", (SWEPT,), "float64", "time^2", "variance of that time"),
        Variable(
            "mean_time_to", _BY_END, "float64", "time", "mean time of the paths that reach an end"
        ),
        Variable(
            "truncation_error", (SWEPT,), "float64", "1",
            "probability to leave the states that were followed before an end", True,
        ),
        Variable(
            "standard_error", _BY_END, "float64", "1", "of the probability, by chance", True
        ),
        Variable(
            "passage_time", _PATHS, "float64", "time",
            "time until an end is reached; NaN if none was", True,
        ),
        Variable("end_reached", _PATHS, "int64", "1", "index of that end; -1 if none", True),
    ],
)  # fmt: skip

_WITHOUT_LIMIT = 1e300  # a time that no path reaches
_FIRST_STATES = 2000  # states after which the truncation error is first computed
_SINGULAR = 1e-6  # largest error of the sum of all probabilities
_NEVER = 1e-9  # probability to reach no end that counts as zero


@recorded(dict.fromkeys(("initial", "parameters"), POINT))
def passages(
    network: ReactionNetwork,
    *,
    ends: Mapping[str, str],
    parameters: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
    replicates: int | None = None,
    seed: int = 0,
    method: MethodName = "auto",
    device: str | devices.Device = "auto",
    tolerance: float = 1e-9,
    max_states: int = 200_000,
    max_firings: int = 10**9,
) -> xarray.Dataset:
    """Which of several sets a network reaches first, and when: splitting and dwell times.

    With two ends, such as ``{"low": "X < 5", "high": "X > 40"}``, ``probability`` is the splitting
    probability, or committor. With one, such as ``{"left": "X > 40"}``, ``mean_time`` and
    ``time_variance`` are those of the dwell time in the rest of the states.

    Parameters
    ----------
    network : ReactionNetwork
        Without events, delays, continuous variables, and rates that depend on time.
    ends : mapping of str to str
        A condition on amounts for each end. Where several hold, the first of them counts.
    parameters, initial : mapping of str to float, array_like or ergode.grid
        Values that replace parameters, compartments and initial amounts of the network. Arrays of
        one length are swept together, as points; those of a grid are crossed. Starts that differ
        in amounts alone share one solution.
    replicates : int, optional
        Number of paths that are simulated from each start. By default none: the master equation is
        solved.
    seed : int
        Key of all random numbers, 0 to 2^64 - 1.
    method, device, max_firings
        Of `simulate`, with `replicates`.
    tolerance : float
        Largest ``truncation_error`` of the master equation, from 1e-15 to 0.5.
    max_states : int
        Largest number of states of the master equation.

    Returns
    -------
    xarray.Dataset
        ``probability`` (end), ``mean_time``, ``time_variance`` and ``mean_time_to`` (end), with the
        dims of a sweep in front. The time is infinite if a path may never reach an end;
        ``mean_time_to`` is that of the paths that do. By the master equation also
        ``truncation_error``: probabilities are too small by at most that much, and times are those
        of paths that stay within the states. With `replicates` also ``standard_error``, and the
        ``passage_time`` and ``end_reached`` of each path. `probabilities` with ``stop=`` has the
        exact distribution of a dwell time.

    Raises
    ------
    ModelError
        The network, a name or a value is invalid.
    PlanError
        The network does not suit, or the states do not fit into `max_states`.

    References
    ----------
    N. G. van Kampen, "Stochastic Processes in Physics and Chemistry", 3rd ed. (2007), chapter XII.

    Examples
    --------
    A gambler with 3 of 10 coins:

    >>> import ergode
    >>> game = ergode.ReactionNetwork(
    ...     {"coins": 3},
    ...     [ergode.Reaction("0 -> coins", rate="1"), ergode.Reaction("coins -> 0", rate="1")],
    ... )
    >>> found = ergode.stochastic.passages(game, ends={"ruin": "coins == 0", "win": "coins == 10"})
    >>> found["probability"].values.round(6).tolist(), float(found["mean_time"].round(6))
    ([0.7, 0.3], 10.5)
    """
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
    stopwatch = Stopwatch()
    by_name("ends", ends, "conditions")
    if not ends:
        raise ModelError("ends is empty; expected a condition for each end")
    conditions = [condition_of(network, text) for text in ends.values()]
    stop = condition_of(network, " or ".join(f"({text})" for text in ends.values()))
    most = integer("max_states", max_states, 1, 2**31 - 2)
    if not is_finite_number(tolerance) or not 1e-15 <= tolerance <= 0.5:
        raise PlanError(f"tolerance is {tolerance!r}; expected a number from 1e-15 to 0.5")
    layout = sweep_of(network, parameters, initial, results.names("stochastic", "passages"))
    values = np.array([layout.rows[name] for name in parameters or {}]).reshape(-1, layout.count)
    _, first, groups = np.unique(values, axis=1, return_index=True, return_inverse=True)
    laws = [
        Rates(network, {name: layout.rows[name][which] for name in parameters or {}}, stop)
        for which in first
    ]
    if any(law.breaks for law in laws):
        raise PlanError("a rate depends on time; use ergode.stochastic.simulate with stop=")
    law_of = [laws[group] for group in groups.ravel()]
    starts = np.array(
        [
            law.start({name: layout.rows[name][which] for name in initial or {}})
            for which, law in enumerate(law_of)
        ]
    )
    coords: dict[str, Any] = {"end": list(ends), **layout.coords}
    if replicates is None:
        parts = np.empty((layout.count, 3 * len(ends) + 1))
        states = 0
        for group, law in enumerate(laws):
            rows = np.flatnonzero(groups.ravel() == group)
            parts[rows], count = _solve(law, conditions, starts[rows], float(tolerance), most)
            states = max(states, count)
        found = _moments(*np.split(parts, [len(ends), 2 * len(ends), 3 * len(ends)], axis=1))
        said = {
            "method": "master-equation", "states": states, "tolerance": float(tolerance),
            "device": "cpu",
        }  # fmt: skip
    else:
        paths = simulate(
            network, times=[0.0, _WITHOUT_LIMIT], stop=" or ".join(f"({c})" for c in ends.values()),
            output="final", replicates=replicates, common_random_numbers=False, seed=seed,
            method=method, device=device, parameters=parameters, initial=initial,
            max_firings=max_firings,
        )  # fmt: skip
        times = paths["passage_time"].values.reshape(layout.count, -1)
        amounts = paths["amount"].values.reshape(*times.shape, -1)
        found = _estimates(law_of, conditions, amounts, np.where(times < np.inf, times, np.nan))
        coords["replicate"] = np.arange(times.shape[1])
        kept = "method", "method_reason", "device", "device_model", "device_reason"
        said = {name: paths.attrs[name] for name in kept if name in paths.attrs}
        said |= {"seed": str(seed), "firings": paths.attrs["firings"]}
    attrs = results.provenance(
        stopwatch, engine="stochastic", exact=1, **said, model_digest=network.digest
    )
    shaped = {n: value.reshape((*layout.shape, *value.shape[1:])) for n, value in found.items()}
    return results.dataset(
        "stochastic", "passages", shaped, coords=coords, attrs=attrs, swept=layout.dims
    )


def _ends_of(law: Rates, conditions: list[Any], states: np.ndarray) -> np.ndarray:
    """Index of the first end that holds in each state [state, species]; -1 if none does."""
    known, reached = law.known(states, 0.0), np.full(len(states), -1)
    for k, condition in reversed(list(enumerate(conditions))):
        reached[np.broadcast_to(np.asarray(condition.evaluate(known), bool), len(states))] = k
    return reached


# ---- by the master equation


def _solve(
    law: Rates, conditions: list[Any], starts: np.ndarray, tolerance: float, most: int
) -> tuple[np.ndarray, int]:
    """What `_backward` returns for each start, and the number of states."""
    from ergode.stochastic.master_equation.states import StateSpace

    space = StateSpace(law, starts[0], 0.0, 2**31 - 2)
    others = np.unique(starts, axis=0)
    space.add(others[space.find(others) < 0])
    space.link()
    due = min(_FIRST_STATES, most)
    while True:
        change, source = space.ways_out()
        if not change.size or space.count >= due:
            values = _backward(law, conditions, space)[space.find(starts)]
            error = values[:, -1].max()
            if error <= tolerance:
                return values, space.count
            if due == most:
                raise PlanError(
                    f"within {space.count:,} states, a path leaves them before an end with a "
                    f"probability of {error:.2g}; give a larger max_states or tolerance, or "
                    "replicates= to simulate paths"
                )
            due = min(2 * due, most)
            continue
        reached = space.states[source] + law.changes[change]
        space.add(space.distinct(reached, np.ones(len(reached)))[0])
        space.link()


def _backward(law: Rates, conditions: list[Any], space: Any) -> np.ndarray:
    """Solve the backward equations (van Kampen, XII.2): [state, 3 * end + 1].

    Probability of each end; integrals of the time and of its square over the paths that reach it;
    and the probability to leave the states.
    """
    import scipy.sparse
    from scipy.sparse.csgraph import breadth_first_order
    from scipy.sparse.linalg import splu

    count = len(conditions)
    ended = _ends_of(law, conditions, space.states)
    matrix, out = space.generator()
    matrix = matrix.T.tocsr()  # [from, to]
    within = np.asarray(matrix.sum(axis=1)).ravel()
    values = np.zeros((space.count, 3 * count + 1))
    there = ended >= 0
    values[np.flatnonzero(there), ended[there]] = 1.0
    goals = np.column_stack([matrix @ values[:, :count], np.maximum(out - within, 0.0)])
    goals[:, -1][goals[:, -1] <= 1e-12 * out] = 0.0
    # States from which no end is reached are left out: their equations are singular.
    links = scipy.sparse.bmat(
        [[matrix.T, None], [scipy.sparse.csr_matrix(goals.sum(axis=1)), np.zeros((1, 1))]]
    ).tocsr()
    some = breadth_first_order(links, space.count, return_predecessors=False)[1:]
    some = np.sort(some[~there[some]])
    if some.size:
        rates = scipy.sparse.diags(out[some]) - matrix[some][:, some]
        factors = splu(rates.tocsc())
        chance = factors.solve(goals[some])
        time = factors.solve(np.ascontiguousarray(chance[:, :count]))
        square = factors.solve(2.0 * time)
        values[some] = np.column_stack([chance[:, :count], time, square, chance[:, count]])
        off = np.abs(chance.sum(axis=1) - 1.0).max()
        if some.size + np.count_nonzero(there) == space.count and not off < _SINGULAR:
            raise PlanError(
                "an end is reached so rarely that the equations are singular in double precision: "
                f"probabilities add up to 1 only within {off:.2g}; see ergode.stochastic.rare_event"
            )
    return values


def _moments(
    chance: np.ndarray, time: np.ndarray, square: np.ndarray, left: np.ndarray
) -> dict[str, np.ndarray]:
    """The variables of the result; [point, end]."""
    never = 1.0 - chance.sum(axis=1) - left[:, 0] > _NEVER
    mean = time.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "probability": chance,
            "mean_time": np.where(never, np.inf, mean),
            "time_variance": np.where(never, np.nan, square.sum(axis=1) - mean**2),
            "mean_time_to": time / np.where(chance > 0, chance, np.nan),
            "truncation_error": np.maximum(left[:, 0], 0.0),
        }


# ---- by simulation


def _estimates(
    laws: list[Rates], conditions: list[Any], amounts: np.ndarray, times: np.ndarray
) -> dict[str, np.ndarray]:
    """The variables of the result, from paths: amounts [point, path, species], times."""
    reached = np.array(
        [_ends_of(law, conditions, one) for law, one in zip(laws, amounts, strict=True)]
    )
    reached[np.isnan(times)] = -1
    hits = reached[..., None] == np.arange(len(conditions))
    chance = hits.mean(axis=1)
    whole = not np.isnan(times).any()
    mean = times.mean(axis=1) if whole else np.where(np.isnan(times), np.inf, times).mean(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "probability": chance,
            "standard_error": np.sqrt(chance * (1 - chance) / max(times.shape[1] - 1, 1)),
            "mean_time": mean,
            "time_variance": times.var(axis=1),
            "mean_time_to": np.where(hits, times[..., None], 0.0).sum(axis=1) / hits.sum(axis=1),
            "passage_time": times,
            "end_reached": reached,
        }
