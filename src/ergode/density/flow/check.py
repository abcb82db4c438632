"""The error of a fixed grid, by points that follow the flow.

A step of a fixed grid smears the density a little, so that its width grows with the distance
travelled. About 150 points of the prior, carried by the field, have moments within a few per cent
of the exact ones, up to the first measurement. The difference of both halves of the points tells
how close. With noise, points that it moves at random take their place (see `drawn`).
"""

from __future__ import annotations

import numpy as np

from ergode.core.devices import resolve
from ergode.density.flow.carrier import Carrier
from ergode.density.flow.drawn import Drawn
from ergode.density.flow.points import DIMENSIONS_OF_LATTICE, Start, spacing_of, start_of
from ergode.density.flow.solve import scales_of
from ergode.density.noise import Noise
from ergode.density.record import Record
from ergode.models.estimation.estimation import Estimation
from ergode.models.estimation.priors import Gaussian, Mixture, Samples

MEAN_MOST = 0.2
"""Largest error of a reliable mean, in deviations."""

DEVIATION_MOST = 0.15
"""Largest relative error of a reliable deviation."""

_CERTAIN = 3.0  # times the difference of halves of the points
_CUT = 0.01
_POINTS = 150
_DRAWN = 2_500
_FINE = 1e-3
_DENSITIES_MOST = 16  # of a bank
_TIMES_MOST = 32
_WIDE = 100.0  # cells in a deviation of a density that no run smears


def check(
    asked: Estimation,
    records: list[Record],
    steps_to_smear: float,
    noise: Noise | None,
    before: int = 0,
) -> None:
    """Record the errors of the first densities, at times before any measurement.

    `steps_to_smear` are those that may smear a density one cell wide. Densities that are too wide
    for the steps that they took are left out; with `noise` or maneuvers with a
    covariance, so are those whose priors are neither Gaussians nor mixtures. In the whole call,
    `before` densities are before them.
    """
    size = len(asked.field.variables)
    is_random = noise is not None or any(one.covariance is not None for one in asked.maneuvers)
    if size > DIMENSIONS_OF_LATTICE and not is_random:
        return
    first = asked.measurements[0].time if asked.measurements else np.inf
    some = [
        which for which, record in enumerate(records[: max(_DENSITIES_MOST - before, 0)])
        if not isinstance(asked.priors[which], Samples)
        and record.steps / steps_to_smear
        > np.nanmin(record.values["cells_in_deviation"], initial=_WIDE) ** 4
    ]  # fmt: skip
    if is_random:
        for which in some:
            if isinstance(prior := asked.priors[which], Gaussian | Mixture):
                drawn = Drawn(
                    asked.field, prior, asked.values[[which]], scales_of([prior]), noise,
                    float(np.ptp(asked.times)), _DRAWN,
                )  # fmt: skip
                _check([which], drawn, asked, records, first)
        return
    spacing = spacing_of(size, None, _CUT, _POINTS, 0.0)
    alike: dict[int, list[tuple[int, Start]]] = {}
    for which in some:
        start = start_of(asked.priors[which], spacing, _CUT)
        alike.setdefault(len(start), []).append((which, start))
    for each in alike.values():
        these = [one for one, _ in each]
        carrier = Carrier(
            asked.field, [start for _, start in each], asked.values[these],
            scales_of([asked.priors[one] for one in these]), device=resolve("cpu:1"),
            precision="float64", fine=_FINE,
        )  # fmt: skip
        _check(these, carrier, asked, records, first)


def _check(
    which: list[int], carrier: Carrier, asked: Estimation, records: list[Record], first: float
) -> None:
    done = asked.times[: max(records[one].done for one in which)]
    stops = done[done <= first]
    stops = stops[np.unique(np.linspace(0, stops.size - 1, _TIMES_MOST).astype(int))]
    last = float(asked.times[0])
    is_measured = any(np.isfinite(records[one].values["prior_mean"][:1]).any() for one in which)
    ends = np.union1d(stops, [first] if is_measured else [])
    jumps = [one for one in asked.maneuvers if one.time <= first]
    for time in np.union1d(ends, [one.time for one in jumps]).tolist():
        carrier.follow(last, time)
        last = time
        for maneuver in jumps:
            if maneuver.time == time:
                carrier.jump(maneuver, asked.layout.beside[np.array(which)])
        if time not in ends:
            continue
        moments = carrier.moments()
        for place, one in enumerate(which):
            record = records[one]
            row = int(np.searchsorted(record.times, time))
            is_row = row < record.done and record.times[row] == time
            if time == first:
                mean, covariance = (
                    record.values[name][0] for name in ("prior_mean", "prior_covariance")
                )
            elif is_row:
                mean, covariance = record.values["mean"][row], record.values["covariance"][row]
            else:
                continue
            deviation = np.sqrt(np.diag(moments.covariance[place]))
            mean_error = np.abs((mean - moments.mean[place]) / deviation).max()
            deviation_error = np.abs(np.sqrt(np.diag(covariance)) / deviation - 1.0).max()
            # Where halves of the points disagree, the points do not tell.
            if _CERTAIN * moments.mean_error[place] > max(mean_error, MEAN_MOST) or (
                _CERTAIN * moments.deviation_error[place] > max(deviation_error, DEVIATION_MOST)
            ):
                continue
            if is_row and time < first:
                record.values["mean_error"][row] = mean_error
                record.values["deviation_error"][row] = deviation_error
            if mean_error > MEAN_MOST or deviation_error > DEVIATION_MOST:
                record.smeared.append((time, float(mean_error), float(deviation_error)))


def smearing_warning(records: list[Record], cure: str) -> str:
    """Warning text if transport has smeared densities; empty if it has not."""
    bad = [record.smeared for record in records if record.smeared]
    if not bad:
        return ""
    time = min(one[0][0] for one in bad)
    mean, deviation = (max(one[-1][k] for one in bad) for k in (1, 2))
    who = "the density" if len(records) == 1 else f"{len(bad)} of {len(records)} densities"
    return (
        f"transport on a fixed grid has smeared {who} from time {time:g} on, by the distance "
        f"travelled: at the end of what was compared, a mean is {mean:.2g} deviations and a "
        f"deviation {100 * deviation:.0f} % off, by points that follow the flow - use "
        f"{cure}"
    )
