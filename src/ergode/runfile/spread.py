"""One number that varies over replicates, zones or parameters, in a report."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def spread(values: npt.ArrayLike) -> float | dict[str, float]:
    """A number as it is; of several the median and the middle 95 %, without those not known."""
    found = np.asarray(values, float)
    if found.size == 1:
        return found.item()
    known = found[~np.isnan(found)]
    low, median, high = np.quantile(known, (0.025, 0.5, 0.975)) if known.size else [np.nan] * 3
    return {"median": float(median), "low": float(low), "high": float(high)}
