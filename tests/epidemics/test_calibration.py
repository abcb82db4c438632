"""Intervals of the calibration of a country hold the truth as often as they say."""

import functools

import numpy as np
import pytest
import xarray
from scipy.stats import binom

import ergode

PRIOR = {"rate": (0.02, 0.12), "severity": (0.3, 3.0), "tested": (0.05, 0.95)}
LEVELS = (0.5, 0.8, 0.9)
TRUTHS, PARTICLES, SIMULATIONS = 120, 100, 1_200
DAYS = np.arange(0, 71)


def disease(rate, severity):
    shares = [min(1.0, severity * share) for share in (0.02, 0.2)]
    hospital = {old: {"H": p, "R": 1 - p} for old, p in zip((False, True), shares, strict=True)}
    return ergode.CompartmentModel(
        ["S", "E", "I", "H", "R"],
        [ergode.Infection("S", "E", {"I": rate})],
        [
            ergode.Progression("E", "I", ergode.Gamma(mean=3, sd=1.5)),
            ergode.Progression(
                "I", ergode.ByAttribute("old", hospital), ergode.Gamma(mean=6, sd=3)
            ),
            ergode.Progression("H", "R", ergode.Gamma(mean=10, sd=5)),
        ],
    )


def measures(tested):
    return [
        ergode.Testing(
            {"I": 0.9}, fraction=tested, delay=2, isolation=10, reduction=0.8,
            tracing={"household": 0.8, "work": 0.3}, tracing_delay=1, quarantine=7,
        ),
        ergode.LayerClosure("school", start=14, duration=28),
    ]  # fmt: skip


def reports(found):
    """Positive tests, and admissions of both age groups, of each week."""
    weekly = found.isel(time=slice(None, None, 7))
    positive = weekly["measures"].sel(tally="interventions[0] positive").sum("stratum")
    admitted = weekly["entries"].sel(compartment="H")
    each = [positive, *(admitted.isel(stratum=k, drop=True) for k in range(2))]
    return xarray.concat([np.sqrt(one.diff("time")) for one in each], "report").transpose(
        ..., "report", "time"
    )


@pytest.mark.exhaustive
def test_intervals_hold_the_truth_as_often_as_they_say():
    """The page of a country's surveillance, with 400 people and truths from the prior."""
    people, _ = ergode.ContactNetwork.population(400, seed=1)
    people = people.with_attributes(old=people.attributes["age"] >= 50)
    country = functools.partial(
        ergode.epidemics.simulate, disease, people, interventions=measures, initial={"E": 8},
        times=DAYS, strata="old", include=("entries", "measures"), method="sellke", device="cpu",
    )  # fmt: skip
    rng = np.random.default_rng(11)
    low, high = np.array(list(PRIOR.values())).T
    truths = rng.uniform(low, high, (TRUTHS, low.size))
    reported = ergode.simulator(country, list(PRIOR), reports, seed=99)(truths)
    held = np.zeros((TRUTHS, len(LEVELS), low.size), bool)
    for number, truth in enumerate(truths):
        surveillance = ergode.simulator(country, list(PRIOR), reports, seed=1000 + number)
        posterior = ergode.abc_smc(
            surveillance, PRIOR, reported[number], particles=PARTICLES,
            max_simulations=SIMULATIONS, seed=number,
        )  # fmt: skip
        drawn = np.stack([posterior[name].values.ravel() for name in PRIOR], axis=1)
        for at, level in enumerate(LEVELS):
            ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
            held[number, at] = (ends[0] <= truth) & (truth <= ends[1])
        if number % 10 == 9:
            print(number + 1, held[: number + 1].mean(axis=0).round(3).tolist(), flush=True)
    for at, level in enumerate(LEVELS):
        # Of a tolerance above zero, intervals may be too wide, and must not be too narrow.
        assert (held[:, at].sum(axis=0) >= binom.ppf(1e-3, TRUTHS, level)).all()
