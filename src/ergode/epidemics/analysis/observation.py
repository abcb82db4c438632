"""What is reported of an epidemic: some of its cases, some time later, with chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers, integer, is_finite_number
from ergode.core.errors import ModelError
from ergode.core.inputs import recorded
from ergode.epidemics.analysis.contact import discounted_survival
from ergode.epidemics.analysis.summary import incidence
from ergode.models.epidemic.calendars import Calendar
from ergode.models.holding_times.families import HoldingTime
from ergode.models.sweep import POINT

if TYPE_CHECKING:
    import xarray


@recorded({"counts": POINT})
def observe(
    counts: xarray.Dataset,
    *,
    probability: float | ArrayLike | Calendar = 1.0,
    delay: HoldingTime | None = None,
    dispersion: float | None = None,
    seed: int | None = None,
) -> xarray.DataArray:
    """Reported cases in each interval of the time grid: expected ones, or a sample.

    Each new infection is reported with a probability, after a delay. Seeds are not reported.

    Parameters
    ----------
    counts : xarray.Dataset
        From ``simulate(..., output="counts")``.
    probability : float, array_like or Calendar
        Probability that a case is reported: one number; one for each interval of the grid; or a
        `Calendar`, of times or dates, whose value at the middle of an interval counts. It is that
        of the interval of the report.
    delay : HoldingTime, optional
        Time from infection to report [time]; none if not given. Within an interval of the grid,
        infections are taken to be evenly spread. Reports after the last time are not counted.
    dispersion : float, optional
        Reports have the negative binomial distribution with the expected mean m and the variance
        m + m^2 / dispersion, independent of each other. Needs a seed.
    seed : int, optional
        Key of the randomness, 0 to 2^64 - 1. Each case is then reported or not, at one time.
        Replicate r does not depend on the number of replicates. If not given, the result is the
        mean over all chance of reporting.

    Returns
    -------
    xarray.DataArray
        ``reports`` with the dims of `ergode.epidemics.incidence`, such as (replicate, interval);
        integers if there is a seed.

    Raises
    ------
    ModelError
        A probability is not between 0 and 1 or their number is not that of the intervals; delay is
        not a holding time; dispersion is not above zero or has no seed.

    Examples
    --------
    >>> import ergode
    >>> model = ergode.CompartmentModel.sir(
    ...     transmission_rate=0.3, infectious=ergode.Exponential(mean=5)
    ... )
    >>> contacts = ergode.ContactNetwork.erdos_renyi(1000, mean_degree=8, seed=1)
    >>> counts = ergode.epidemics.simulate(
    ...     model, contacts, initial={"I": 10}, times=range(41), device="cpu"
    ... )
    >>> reports = ergode.epidemics.observe(
    ...     counts, probability=0.4, delay=ergode.Gamma(mean=3, sd=2), seed=1
    ... )
    >>> reports.dims, reports.sizes["interval"]
    (('replicate', 'interval'), 40)
    """
    if "cases" not in counts:
        raise ModelError("observe needs a Dataset from simulate(..., output='counts')")
    if "replicate" not in counts["cases"].dims:
        raise ModelError(
            "the counts have no dim 'replicate'; expected those of replicates, such as "
            "counts.isel(replicate=[0]) for one"
        )
    if delay is not None and not isinstance(delay, HoldingTime):
        raise ModelError(f"delay is {delay!r}; expected a distribution such as Gamma(mean=3, sd=2)")
    if dispersion is not None:
        if not is_finite_number(dispersion) or dispersion <= 0:
            raise ModelError(f"dispersion is {dispersion!r}; expected a finite number above zero")
        if seed is None:
            raise ModelError("dispersion is of sampled reports; give a seed")
    new = incidence(counts).transpose("replicate", ..., "interval")
    time = np.asarray(counts["time"].values, float)
    chance = _probabilities(probability, new)[None, :] * _delayed(delay, time)
    values = np.asarray(new.values)
    if seed is None:
        found = values @ chance
    else:
        key = integer("seed", seed, 0, 2**64 - 1)
        found = _sampled(values, chance, dispersion, key, new["replicate"].values)
    name = "expected reports in an interval" if seed is None else "reports in an interval"
    reports = new.copy(data=found).rename("reports").assign_attrs(units="1", long_name=name)
    return reports.transpose(*incidence(counts).dims)


def _probabilities(probability: Any, new: xarray.DataArray) -> np.ndarray:
    """Probability of a report in each interval."""
    count = new.sizes["interval"]
    if isinstance(probability, Calendar):
        if probability.has_dates and "date" not in new.coords:
            raise ModelError("probability is a Calendar of dates, but the counts have no dates")
        values = probability.at(new["date" if probability.has_dates else "interval"].values)
    else:
        numbers = as_numbers(probability)
        if numbers is None or numbers.shape not in ((), (count,)):
            raise ModelError(
                f"probability is {probability!r:.60}; expected a number, a Calendar, or one number "
                f"for each of the {count} intervals"
            )
        values = np.broadcast_to(numbers, count)
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if bad.size:
        raise ModelError(f"probability is {values[bad[0]]:g} in interval {bad[0]}; expected 0 to 1")
    return values


def _delayed(delay: HoldingTime | None, time: np.ndarray) -> np.ndarray:
    """Probability that a case of interval j has its report in interval i, shape [j, i]."""
    if delay is None:
        return np.eye(time.size - 1)
    # The mean of F(t - u) over an interval of u is a difference of the integral of F.
    ages, place = np.unique(np.round(time[None, :] - time[:, None], 12), return_inverse=True)
    positive, zero = np.maximum(ages, 0.0), np.zeros(1)
    survival = [float(discounted_survival(delay, zero, 0.0, age)[0]) for age in positive if age > 0]
    whole = positive.copy()
    whole[positive > 0] -= survival
    whole = whole[place].reshape(time.size, time.size)  # [u, t]
    width = np.diff(time)
    by_then = (whole[:-1] - whole[1:]) / width[:, None]
    return np.clip(np.diff(by_then, axis=1), 0.0, 1.0)


def _sampled(
    values: np.ndarray,
    chance: np.ndarray,
    dispersion: float | None,
    seed: int,
    replicates: np.ndarray,
) -> np.ndarray:
    """Reports of every replicate, each with random numbers of its own."""
    found = np.zeros(values.shape, np.int64)
    count = values.shape[-1]
    # A case is reported in one of the intervals or, in the last column, in none.
    none = np.maximum(1.0 - chance.sum(1, keepdims=True), 0.0)
    shares = np.hstack([chance, none])
    shares /= shares.sum(1, keepdims=True)
    for row, replicate in enumerate(replicates.tolist()):
        rng = np.random.Generator(np.random.Philox(key=[seed, int(replicate)]))
        cases = values[row].reshape(-1, count)
        reports = found[row].reshape(-1, count)
        for part, line in enumerate(cases):
            if dispersion is not None:
                mean = line @ chance
                reports[part] = rng.poisson(rng.gamma(dispersion, mean / dispersion))
                continue
            reports[part] = rng.multinomial(line.astype(np.int64), shares)[:, :count].sum(0)
    return found
