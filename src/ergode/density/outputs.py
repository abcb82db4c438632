"""Variables of a density's result."""

from __future__ import annotations

from ergode.core import results
from ergode.core.results import SWEPT, Variable
from ergode.models.estimation.estimation import of_measurements

_TIME = (SWEPT, "time")

results.register(
    "density",
    "moments",
    [
        Variable("mean", (*_TIME, "variable"), "floating", "1", "mean of the density"),
        Variable(
            "covariance", (*_TIME, "variable", "variable_"), "floating", "1",
            "covariance of the density",
        ),
        Variable(
            "mass_lost", _TIME, "floating", "1",
            "probability dropped so far: of the prior, by pruning and at missing neighbours",
        ),
        Variable(
            "mass_kept", _TIME, "floating", "1",
            "sum over cells before it is made one, since the latest measurement",
        ),
        Variable(
            "mass_pruned", _TIME, "floating", "1",
            "probability dropped by pruning since the latest measurement",
        ),
        Variable(
            "mass_out", _TIME, "floating", "1",
            "probability lost at missing neighbours, less what clipping at zero made, since the "
            "latest measurement",
        ),
        Variable(
            "survival", _TIME, "floating", "1",
            "with absorbing walls or a killing rate: probability that is left, that is the sum "
            "over cells; one less mass_absorbed, mass_killed, mass_pruned and mass_out",
            optional=True,
        ),
        Variable(
            "mass_absorbed", _TIME, "floating", "1",
            "probability that walls have absorbed: the distribution of the time of first passage",
            optional=True,
        ),
        Variable(
            "mass_killed", _TIME, "floating", "1",
            "probability that the killing rate has taken", optional=True,
        ),
        Variable("cell_count", _TIME, "number", "1", "number of cells"),
        Variable(
            "time_reached", (SWEPT,), "floating", "time", "time up to which the density was found"
        ),
        Variable(
            "cells_in_deviation", (*_TIME, "axis"), "floating", "1",
            "standard deviation of the density's features along each axis, in cells: below about 2 "
            "they are not resolved",
        ),
        Variable(
            "mean_error", _TIME, "floating", "1",
            "how far the mean is from that of points that follow the flow, in deviations: the "
            "largest of all variables; missing with walls, after a measurement, and if the density "
            "moved too little to be smeared",
        ),
        Variable(
            "deviation_error", _TIME, "floating", "1",
            "relative error of the deviations by points that follow the flow: the largest of all "
            "variables; missing with walls, after a measurement, and if the density moved too "
            "little to be smeared",
        ),
        Variable(
            "approach_probability", (SWEPT, "radius"), "floating", "1",
            "with a closest approach: probability of coming as near as a radius", optional=True,
        ),
        Variable(
            "approach_error", (SWEPT, "radius"), "floating", "1",
            "with a closest approach: error of its probability; NaN where it is not known",
            optional=True,
        ),
        Variable("status", (SWEPT,), "uint8", "1", "how the density ended (see Status)"),
        *of_measurements(SWEPT),
        Variable(
            "posterior_cut", (SWEPT, "measurement"), "floating", "1",
            "estimated probability after a measurement that is missing because the density had "
            "been cut before it: above 0.005 the posterior and the evidence are not to be trusted",
        ),
        Variable(
            "posterior_shift", (SWEPT, "measurement"), "floating", "1",
            "how far the mean after a measurement could be off, in its deviations, because "
            "transport smears tails; a cautious estimate, in many cases several times too large: "
            "above 0.1 the posterior and the evidence may be wrong",
        ),
        Variable(
            "evidence_shift", (SWEPT, "measurement"), "floating", "1",
            "what the log evidence of a measurement could be off by, because transport smears "
            "tails: above 0.25 it may be wrong",
        ),
        Variable(
            "posterior_cells_in_deviation", (SWEPT, "measurement", "axis"), "floating", "1",
            "standard deviation of the density's features just after a measurement, in cells: "
            "below 0.85 the posterior and the evidence are not to be trusted",
        ),
        Variable(
            "unreliable_from", (SWEPT,), "floating", "time",
            "time from which the density is unreliable, by a measurement or numerical diffusion; "
            "missing if it is reliable throughout",
        ),
        Variable(
            "cell_start", _TIME, "integer", "1", "first cell of each time along dim cell"
        ),
        Variable(
            "coordinate", ("cell", "variable"), "integer", "1", "coordinates of cells, by time"
        ),
        Variable("mass", ("cell",), "floating", "1", "probability of cells, by time"),
        Variable("cells_stored", _TIME, "integer", "1", "cells of each time along dim cell"),
        Variable("centre", (SWEPT, "variable"), "floating", "1", "centre of the first grid"),
        Variable(
            "grid_shift", (*_TIME, "variable"), "floating", "1",
            "how far maneuvers have moved the grid's centre",
        ),
        Variable("width", (SWEPT, "axis"), "floating", "1", "width of cells along each axis"),
        Variable(
            "axes", (SWEPT, "variable", "axis"), "floating", "1", "directions of the grid's axes"
        ),
        Variable(
            "threshold", (SWEPT,), "floating", "1",
            "probability below which cells were dropped; its initial value, if mass is retained",
        ),
    ],
)  # fmt: skip
