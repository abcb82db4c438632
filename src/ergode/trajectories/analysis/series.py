"""What a recorded trajectory says: the 0-1 test for chaos, winding numbers, recurrences.

The 0-1 test drives a walk in the plane by the series, p(n + 1) - p(n) = phi(n) (cos cn, sin cn).
The walk is bounded if the motion is regular, and diffuses if it is chaotic. K is the correlation of
its mean square displacement with time, the median over angles c: near 0 or near 1.

G. A. Gottwald, I. Melbourne, SIAM J. Appl. Dyn. Syst. 8, 129 (2009), for the test; N. Marwan,
M. C. Romano, M. Thiel, J. Kurths, Phys. Rep. 438, 237 (2007), for recurrences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import integer, names_in, number
from ergode.core.calls import launch
from ergode.core.errors import AccuracyWarning, ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.models.sweep import POINT

if TYPE_CHECKING:
    import xarray

_LEAST = 100  # values of a series; fewer say nothing
_TIMES = ("time", "hit")
_FAR = 2.6  # a turn between two samples [rad] above which its sense is doubtful
_MOST = 20_000  # states whose distances fit in memory


def zero_one_test(series: ArrayLike | xarray.DataArray, *, angles: int = 100) -> Any:
    """The 0-1 test for chaos: near 0 for regular motion, near 1 for chaos.

    Parameters
    ----------
    series : array_like or xarray.DataArray, shape [..., time_count]
        An observable at equal intervals, or at the crossings of a section; of a DataArray along
        its dim ``time`` or ``hit``. Intervals should be about a fourth of a mean period: with
        finer ones chaotic motion looks regular. Give 1,000 values or more, without the transient.
    angles : int
        Number of angles of which the median is taken.

    Returns
    -------
    numpy.ndarray or xarray.DataArray
        K of each series; NaN where a series has values that are not finite.

    Raises
    ------
    ModelError
        A DataArray has no dim ``time`` or ``hit``.
    PlanError
        There are fewer than 100 values.

    References
    ----------
    G. A. Gottwald, I. Melbourne, SIAM J. Appl. Dyn. Syst. 8, 129 (2009).

    Examples
    --------
    >>> import numpy as np
    >>> from ergode.trajectories import zero_one_test
    >>> x = np.full(2000, 0.3)
    >>> for n in range(1999):
    ...     x[n + 1] = 4 * x[n] * (1 - x[n])
    >>> bool(zero_one_test(x) > 0.95)
    True
    >>> bool(abs(zero_one_test(np.sin(1.3 * np.arange(2000)))) < 0.05)
    True
    """
    values, like = _along_time(series)
    count = values.shape[-1]
    if count < _LEAST:
        raise PlanError(f"the series has {count} values; expected {_LEAST} or more")
    many = integer("angles", angles, 1, 100_000)
    lags = np.arange(1, count // 10 + 1)
    # A low-discrepancy sequence, away from the resonances at 0 and pi.
    each = np.pi * (0.2 + 0.6 * ((0.5 + np.arange(many) * 0.6180339887498949) % 1.0))
    found = np.full(values.shape[:-1], np.nan)
    for place in np.ndindex(found.shape):
        row = values[place]
        if np.isfinite(row).all():
            found[place] = np.median([_growth(row - row.mean(), c, lags) for c in each])
    return _like(found, like)


def _growth(row: np.ndarray, c: float, lags: np.ndarray) -> float:
    """Correlation of the mean square displacement with time; without a mean none oscillates."""
    kept = row.size - lags[-1]
    walk = np.cumsum(row * np.exp(1j * c * np.arange(1, row.size + 1)))
    square = np.array([np.mean(np.abs(walk[n : n + kept] - walk[:kept]) ** 2) for n in lags])
    if square.std() == 0:  # a constant
        return 0.0
    return float(np.corrcoef(lags, square)[0, 1])


@recorded({"result": POINT})
def winding_number(
    result: xarray.Dataset,
    variables: Sequence[str],
    *,
    centre: Sequence[float] = (0.0, 0.0),
    period: float = 1.0,
) -> xarray.DataArray:
    """Turns of a trajectory about a point of a plane, a period of a drive.

    Parameters
    ----------
    result : xarray.Dataset
        From `integrate`, at times so close that no trajectory makes half a turn between them.
    variables : sequence of str
        The two variables of the plane; turns from the first to the second one are positive.
    centre : sequence of float
        The point about which trajectories turn.
    period : float
        Period of the drive [time]; with 1, turns a unit of time. A value p / q that does not change
        with a parameter is a locked motion of q periods.

    Returns
    -------
    xarray.DataArray
        Turns, with the swept dims; NaN where a trajectory has values that are not finite.

    Raises
    ------
    ModelError
        The result has no such variables, or there are not two.
    PlanError
        There are fewer than two times, or a period is not positive.

    Warns
    -----
    AccuracyWarning
        A trajectory turns by nearly half a turn between two times: its sense is doubtful.

    Examples
    --------
    >>> import numpy as np
    >>> import ergode
    >>> field = ergode.field_from_equations({"x": "-3 * y", "y": "3 * x"})
    >>> run = ergode.trajectories.integrate(
    ...     field, times=np.linspace(0, 20, 201), initial={"x": 1, "y": 0}, device="cpu"
    ... )
    >>> turns = ergode.trajectories.winding_number(run, ["x", "y"], period=2 * np.pi)
    >>> round(float(turns), 4)
    3.0
    """
    if "state" not in result or "time" not in result["state"].dims:
        raise ModelError("the result has no state over time; expected one of integrate")
    pair = names_in("variables", variables, [str(one) for one in result["variable"].values])
    if len(pair) != 2:
        raise ModelError(f"variables has {len(pair)} names; expected two")
    span = number("period", period, above=0)
    middle = np.asarray(centre, float)
    if middle.shape != (2,) or not np.isfinite(middle).all():
        raise ModelError(f"centre is {centre!r}; expected two numbers")
    state = result["state"].sel(variable=pair).transpose(..., "time", "variable")
    times = np.asarray(result["time"].values, float)
    if times.size < 2:
        raise PlanError("the result has one time; expected two or more")
    x, y = np.moveaxis(state.values - middle, -1, 0)
    turns = np.diff(np.unwrap(np.arctan2(y, x), axis=-1), axis=-1)
    if (np.abs(turns) > _FAR).any():
        launch.warn(
            f"a trajectory turns by {np.nanmax(np.abs(turns)):.2f} rad between two times, nearly "
            "half a turn: its sense is doubtful; give more times",
            AccuracyWarning,
        )
    total = turns.sum(axis=-1) / (2 * np.pi) * span / (times[-1] - times[0])
    return state.isel(time=0, variable=0, drop=True).copy(data=total).rename("winding_number")


def recurrence(
    states: ArrayLike | xarray.DataArray,
    *,
    threshold: float,
    shortest: int = 2,
    exclude: int = 1,
) -> dict[str, float]:
    """How often, and how predictably, a trajectory returns to where it was.

    Parameters
    ----------
    states : array_like or xarray.DataArray, shape [time_count, variable_count]
        States at equal intervals, up to 20,000; of a single observable give delayed copies.
    threshold : float
        States whose distance is at most this recur.
    shortest : int
        Length of the shortest diagonal that counts.
    exclude : int
        Pairs of states that are nearer in time do not count.

    Returns
    -------
    dict of str to float
        ``rate``, the fraction of pairs that recur; ``determinism``, the fraction of those in
        diagonals, where two stretches of the trajectory stay close; ``mean_diagonal`` and
        ``longest_diagonal``, their lengths.

    Raises
    ------
    PlanError
        There are fewer than two states, or more than 20,000, or they are not finite.

    References
    ----------
    N. Marwan, M. C. Romano, M. Thiel, J. Kurths, Phys. Rep. 438, 237 (2007).

    Examples
    --------
    >>> import numpy as np
    >>> from ergode.trajectories import recurrence
    >>> angle = 2 * np.pi * np.arange(200) / 20
    >>> found = recurrence(np.column_stack([np.cos(angle), np.sin(angle)]), threshold=0.1)
    >>> found["determinism"], found["longest_diagonal"]
    (1.0, 180.0)
    """
    values = np.asarray(states, float)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not 2 <= len(values) <= _MOST or not np.isfinite(values).all():
        raise PlanError(
            f"states have the shape {values.shape}; expected 2 to {_MOST:,} finite states "
            "[time, variable]"
        )
    limit = number("threshold", threshold, above=0) ** 2
    least = integer("shortest", shortest, 1, _MOST)
    first = integer("exclude", exclude, 1, len(values) - 1)
    total, lengths = 0, []
    for lag in range(first, len(values)):
        close = ((values[lag:] - values[:-lag]) ** 2).sum(axis=1) <= limit
        total += close.size
        edges = np.flatnonzero(np.diff(np.concatenate([[False], close, [False]]).astype(np.int8)))
        lengths.append(edges[1::2] - edges[::2])
    runs = np.concatenate(lengths)
    long = runs[runs >= least]
    recurring = int(runs.sum())
    return {
        "rate": recurring / total,
        "determinism": float(long.sum() / recurring) if recurring else float("nan"),
        "mean_diagonal": float(long.mean()) if long.size else float("nan"),
        "longest_diagonal": float(long.max()) if long.size else 0.0,
    }


def _along_time(series: Any) -> tuple[np.ndarray, Any]:
    """Values with time as their last dim, and what the result is like."""
    import xarray

    if not isinstance(series, xarray.DataArray):
        return np.atleast_1d(np.asarray(series, float)), None
    dims = [dim for dim in _TIMES if dim in series.dims]
    if not dims:
        raise ModelError(f"the series has the dims {', '.join(map(str, series.dims))}; expected "
                         "one of time or hit")  # fmt: skip
    turned = series.transpose(..., dims[0])
    return np.asarray(turned.values, float), turned.isel({dims[0]: 0}, drop=True)


def _like(values: np.ndarray, like: Any) -> Any:
    if like is None:
        return values if values.ndim else float(values)
    return like.copy(data=values).rename("K")
