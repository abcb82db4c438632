"""The likelihood of a process that is observed in time, by a bootstrap filter.

References
----------
N. J. Gordon, D. J. Salmond, A. F. M. Smith, Novel approach to nonlinear/non-Gaussian Bayesian state
estimation, IEE Proc. F 140, 107 (1993).

P. Del Moral, Feynman-Kac Formulae (Springer, 2004), theorem 7.4.2: the estimate is unbiased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers, check_once, integer, sequence, time_grid
from ergode.core.devices.foreign import on_host
from ergode.core.errors import ModelError, PlanError
from ergode.core.inputs import remembered, unrecorded
from ergode.core.status import has_failed
from ergode.inference.simulator import arguments_of, theta_of

if TYPE_CHECKING:
    import xarray

States = Mapping[str, np.ndarray]


@remembered
def particle_likelihood(
    call: Callable[..., Any],
    parameters: Sequence[str],
    initial: Mapping[str, Any] | Callable[..., Mapping[str, Any]],
    times: ArrayLike,
    observed: ArrayLike,
    log_density: Callable[..., Any],
    *,
    start: float | None = None,
    particles: int = 200,
    seed: int = 0,
) -> ParticleLikelihood:
    """The log-likelihood of parameters of a process that is observed in time, with noise.

    Particles are states of the process. From one observation to the next all of them are simulated
    in one call, for all rows of theta at once. They are weighted by the density of the observation,
    and resampled by their weights. The product of the mean weights is an unbiased estimate of the
    likelihood (Del Moral 2004).

    Parameters
    ----------
    call : callable
        What simulates from `initial` over `times`: ``functools.partial(ergode.stochastic.simulate,
        network)``, of `ergode.trajectories.integrate` with noise, or a function of yours with the
        arguments ``parameters, initial, times, seed``. It gets arrays with a number for each
        particle, and two times. It returns a Dataset that has the states by name, or by a
        dimension that names them; or a mapping of names to the states at the last time.
    parameters : sequence of str
        What the d columns of theta are.
    initial : mapping of str to float, or callable
        The state at `start`: a number for each name; or a function ``(parameters, random)`` that
        draws it, with `parameters` a mapping to arrays of shape [n], and `random` a
        `numpy.random.Generator`. It returns arrays of shape [n].
    times : array_like, shape [k]
        When the process was observed [time], ascending.
    observed : array_like, shape [k] or [k, m]
        What was observed. A time whose values are all NaN has no observation.
    log_density : callable
        ``(observed, states, parameters) -> log-density``: `observed` is a number, or an array of
        shape [m]; `states` and `parameters` are mappings to arrays that broadcast to [n, particle].
        It returns an array of this shape. A constant factor of the density has no effect.
    start : float, optional
        When the process begins [time]; by default at the first of `times`.
    particles : int
        For each row of theta. The variance of the result falls as their number grows; one to two
        is best for `ergode.pseudo_marginal` (Doucet et al. 2015).
    seed : int
        Of the first call. Each call has a seed of its own, unless it is given one.

    Returns
    -------
    ParticleLikelihood
        A function ``theta[n, d] -> log-likelihood[n]``.

    Raises
    ------
    ModelError, PlanError
        A name, a time or a shape is wrong.

    Examples
    --------
    >>> import functools
    >>> import numpy as np
    >>> from scipy import stats
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 40}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0}
    ... )
    >>> likelihood = ergode.particle_likelihood(
    ...     functools.partial(ergode.stochastic.simulate, network, device="cpu"), ["k"], {"X": 40},
    ...     times=[1, 2], start=0, observed=[16, 5],
    ...     log_density=lambda seen, states, parameters: stats.norm.logpdf(seen, states["X"], 2),
    ... )
    >>> found = likelihood([[0.3], [1.0]])
    >>> bool(found[1] > found[0])
    True
    """
    return ParticleLikelihood(
        call, parameters, initial, times, observed, log_density, start, particles, seed
    )


class _Cloud(NamedTuple):
    states: dict[str, np.ndarray]  # [row, particle]
    log_likelihood: np.ndarray  # [row]


class ParticleLikelihood:
    """A batched function from parameters to a log-likelihood; made by `particle_likelihood`.

    Attributes
    ----------
    parameters : tuple of str
        Names of the columns of theta.
    """

    def __init__(
        self, call: Callable[..., Any], parameters: Sequence[str], initial: Any, times: ArrayLike,
        observed: ArrayLike, log_density: Callable[..., Any], start: float | None, particles: int,
        seed: int,
    ) -> None:  # fmt: skip
        names = [parameters] if isinstance(parameters, str) else parameters
        self.parameters = tuple(sequence("parameters", names, "names of parameters"))
        check_once("parameters", self.parameters)
        self._call, self._log_density, self._initial = call, log_density, initial
        self._takes, self._fixed = arguments_of(
            call, ("parameters", "initial", "times", "seed", "common_random_numbers")
        )
        for name in ("initial", "times"):
            if name not in self._takes:
                raise ModelError(f"call takes no argument '{name}', which it is given")
        for name in self._fixed.keys() & set(self.parameters):
            raise ModelError(f"parameter '{name}' is given in the call and in 'parameters'")
        if not callable(initial) and not (isinstance(initial, Mapping) and initial):
            raise ModelError(f"initial is {initial!r}; expected a number for each state")
        if not callable(log_density):
            raise ModelError(f"log_density is {log_density!r}; expected a function")
        self.times = time_grid(times)
        self._start = float(self.times[0] if start is None else start)
        if not self._start <= self.times[0]:
            raise ModelError(f"start is {self._start:g}, after times[0] = {self.times[0]:g}")
        values = as_numbers(observed)
        if values is None or values.ndim not in (1, 2) or len(values) != self.times.size:
            raise ModelError(
                f"observed is {observed!r}; expected a row for each of {self.times.size} times"
            )
        self._observed = values.astype(np.float64)
        self.particles = integer("particles", particles, 2, 10**8)
        self._seeds = np.random.SeedSequence(integer("seed", seed, 0, 2**64 - 1))

    def __repr__(self) -> str:
        return f"<ParticleLikelihood of {', '.join(self.parameters)}>"

    def __call__(self, theta: ArrayLike, seed: int | None = None) -> np.ndarray:
        """Estimate.

        Parameters
        ----------
        theta : array_like, shape [n, d] or [d]
        seed : int, optional
            Of this call; by default the next one.

        Returns
        -------
        ndarray, shape [n], or a number
            The log-likelihood; minus infinity where no particle can make an observation, and for
            rows that are not finite.
        """
        rows, is_one = theta_of(theta, self.parameters)
        found, known = np.full(len(rows), -np.inf), np.isfinite(rows).all(axis=1)
        if known.any():
            *_, last = self.filtered(rows[known], self._random(seed))
            found[known] = last.log_likelihood
        return found[0] if is_one else found

    def states(self, theta: ArrayLike, seed: int | None = None) -> xarray.Dataset:
        """The states at every time, given the observations up to then.

        Parameters
        ----------
        theta : array_like, shape [d]
            One row.
        seed : int, optional
            Of this call; by default the next one.

        Returns
        -------
        xarray.Dataset
            Each state ``[time, particle]``, equally weighted; ``log_likelihood``.
        """
        import xarray

        rows, _ = theta_of(theta, self.parameters)
        if len(rows) != 1:
            raise ModelError(f"theta has {len(rows)} rows; expected one")
        clouds = list(self.filtered(rows, self._random(seed)))
        found = {
            name: (("time", "particle"), np.stack([one.states[name][0] for one in clouds]))
            for name in clouds[0].states
        }
        last = float(clouds[-1].log_likelihood[0])
        return xarray.Dataset({**found, "log_likelihood": last}, {"time": self.times})

    def _random(self, seed: int | None) -> np.random.Generator:
        if seed is None:
            return np.random.default_rng(self._seeds.spawn(1)[0])
        return np.random.default_rng([integer("seed", seed, 0, 2**64 - 1), 0xF117])

    def filtered(
        self, rows: np.ndarray, random: np.random.Generator, walk: Any = None
    ) -> Iterator[_Cloud]:
        """The cloud at each time, after resampling; rows are [row, parameter].

        With `walk`, each particle has parameters of its own, which move before every interval and
        are resampled with the states: it is called with nothing, and with the chosen particles.
        """
        count, most = len(rows), self.particles
        every = np.repeat(rows[:, None], most, axis=1)  # [row, particle, parameter]
        states, now, total = None, self._start, np.zeros(count)
        alive = np.ones((count, most), bool)
        for time, seen in zip(self.times, self._observed, strict=True):
            if walk is not None:
                every = walk()
            named = {name: every[..., k] for k, name in enumerate(self.parameters)}
            if states is None:
                states = self._first(named, count, random)
            if time > now:
                moved, succeeded = self._moved(states, named, now, time, random)
                # Those that failed stay where they were, until an observation removes them.
                alive = alive & succeeded
                states = {name: np.where(alive, moved[name], one) for name, one in states.items()}
                now = time
            if not np.isnan(seen).all():
                weights = self._weights(seen, states, named, alive)
                top = weights.max(axis=1)
                possible = np.isfinite(top)
                shares = np.exp(weights - np.where(possible, top, 0.0)[:, None])
                shares[~possible] = 1.0
                with np.errstate(divide="ignore"):
                    total = total + np.where(possible, top + np.log(shares.mean(axis=1)), -np.inf)
                chosen = _systematic(shares, random)
                states = {name: _taken(one, chosen) for name, one in states.items()}
                alive = _taken(alive, chosen)
                if walk is not None:
                    walk(chosen)
            yield _Cloud(states, total)

    def _first(
        self, named: States, count: int, random: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """The states at the start, [row, particle]."""
        shape = (count, self.particles)
        if not callable(self._initial):
            return {name: np.full(shape, value) for name, value in self._initial.items()}
        flat = {name: one.ravel() for name, one in named.items()}
        return {
            name: np.broadcast_to(np.asarray(one), (count * self.particles,)).reshape(shape)
            for name, one in self._initial(flat, random).items()
        }

    def _moved(
        self, states: States, named: States, now: float, time: float, random: np.random.Generator
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The states at `time`, and which particles have one."""
        shape = next(iter(named.values())).shape
        given = {
            "parameters": {**self._fixed, **{name: one.ravel() for name, one in named.items()}},
            "initial": {name: one.ravel() for name, one in states.items()},
            "times": np.array([now, time]), "seed": int(random.integers(2**63)),
            "common_random_numbers": False,
        }  # fmt: skip
        with unrecorded():
            result = self._call(**{name: given[name] for name in self._takes})
        size = shape[0] * shape[1]
        found = {name: _last(result, name, size).reshape(shape) for name in states}
        alive = np.ones(size, bool)
        if "status" in result:
            status = np.asarray(result["status"]).reshape(size, -1)
            alive = np.logical_not(has_failed(status).any(axis=1))
        return found, alive.reshape(shape)

    def _weights(self, seen: Any, states: States, named: States, alive: np.ndarray) -> np.ndarray:
        found = on_host(self._log_density(seen, states, named))
        weights = np.asarray(found, np.float64)
        if weights.shape != alive.shape:
            raise PlanError(
                f"log_density returns the shape {weights.shape}; expected that of a state, "
                f"{alive.shape}"
            )
        if np.isposinf(weights).any():
            raise PlanError("log_density returns infinity; expected a finite log-density, or -inf")
        return np.where(alive & ~np.isnan(weights), weights, -np.inf)


def _systematic(shares: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Particles chosen by their weights, with one random number a row."""
    count, most = shares.shape
    sums = np.cumsum(shares, axis=1)
    ends = sums / sums[:, -1:] + np.arange(count)[:, None]
    places = (random.random((count, 1)) + np.arange(most)) / most + np.arange(count)[:, None]
    chosen = np.searchsorted(ends.ravel(), places.ravel(), side="right").reshape(count, most)
    return np.minimum(chosen - np.arange(count)[:, None] * most, most - 1)


def _taken(one: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return np.take_along_axis(one, chosen, axis=1)


def _last(result: Any, name: str, size: int) -> np.ndarray:
    """The values of a state at the last time, [particle]."""
    variables = getattr(result, "data_vars", result)  # the initial states are coordinates
    places: dict[Any, int] = {}
    if variables is result:
        array = result.get(name)
    else:  # by arrays: xarray's selections take longer than the steps of few particles
        array, places = _place(result.variables, tuple(variables), name)
    if array is None:
        raise PlanError(f"the result of the call has no state '{name}'")
    if "time" in getattr(array, "dims", ()):
        places["time"] = -1
    values = np.asarray(on_host(getattr(array, "values", array)))
    if places:
        values = values[tuple(places.get(dim, slice(None)) for dim in array.dims)]
    if values.size != size:
        raise PlanError(
            f"the call returns the shape {values.shape} of '{name}'; expected a number for each of "
            f"{size} particles"
        )
    return values.ravel()


def _place(
    variables: Mapping[Any, Any], names: Sequence[Any], name: str
) -> tuple[Any, dict[Any, int]]:
    """The variable that has a state, by its own name or a label of a dim, and the label's place."""
    if name in names:
        return variables[name], {}
    for one in (variables[key] for key in names):
        for dim in one.dims if "time" in one.dims else ():
            labels = variables[dim].values.tolist() if dim in variables else ()
            if name in labels:
                return one, {dim: labels.index(name)}
    return None, {}
