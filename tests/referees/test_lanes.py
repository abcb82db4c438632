"""`bdf` in lanes: every zone has the bits that it has alone, and the solution of SciPy.

Conditions, sunlight and parameters change in time, as in air over a day.
"""

import copy
import warnings

import numpy as np
import pytest
from fresh import fresh_seeds
from kinetics_cases import conditions_of, network_of, random_case
from kinetics_reference import solve
from test_kinetics import amounts_of, claimed

import ergode
from ergode.core.status import Status
from ergode.kinetics import Trajectory, integrate
from ergode.kinetics.multistep import lane_formulas

KINDS = ("plain", "molecules", "heated", "powers", "sun", "mixture", "formulas", "tank")
COUNT = 11  # lanes take further zones, and some end without one
CPU = ergode.Device("cpu:1")


def cases_of(seed, kind):
    """A case in other states, one for each zone; nuclei are not for `bdf`."""
    case = random_case(seed, kind)
    while case["kind"] == "nuclei":
        seed += 1_000_003
        case = random_case(seed, kind)
    rng, found = np.random.default_rng([seed, 7]), []
    for _ in range(COUNT):
        one = copy.deepcopy(case)
        one["initial"] = {k: v * float(rng.uniform(0.3, 1.0)) for k, v in case["initial"].items()}
        for name in ("temperature", "sunlight"):
            if name in one:
                one[name] = _times(one[name], rng.uniform(0.9, 1.1))
        if "drives" in one:
            one["drives"]["drive"] = _times(one["drives"]["drive"], rng.uniform(0.5, 1.0))
        found.append(one)
    return found


def _times(value, factor):
    if np.isscalar(value):
        return float(value * factor)
    return value[0], [float(v * factor) for v in value[1]]


def together_of(cases):
    """Options of `integrate` for all zones in one call."""
    every = [conditions_of(one) for one in cases]
    found = dict(every[0])
    found["initial"] = {k: np.array([one["initial"][k] for one in every]) for k in found["initial"]}
    for name in ("temperature", "sunlight"):
        if name in found:
            found[name] = _stacked([one[name] for one in every])
    if "parameters" in found:
        drives = [one["parameters"]["drive"] for one in every]
        found["parameters"] = {"drive": _stacked(drives)}
    return found


def _stacked(values):
    if isinstance(values[0], Trajectory):
        return Trajectory(values[0].times, np.stack([np.ravel(one.values) for one in values]))
    return np.array(values)


def findings(seed, kind):
    """What is wrong with zones in lanes."""
    cases = cases_of(seed, kind)
    network, rtol = network_of(cases[0]), cases[0]["rtol"]
    amount = max(max(one["initial"].values()) for one in cases)
    if "pressure" in cases[0]:
        amount = cases[0]["pressure"] / (8.31e7 * 2500.0)
    options = {"method": "bdf", "rtol": rtol, "atol": 1e-14 * amount, "device": CPU}
    name, found = f"{kind}, seed {seed}", []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ergode.ErgodeWarning)
        every = integrate(network, **together_of(cases), **options)
        for k in (0, COUNT // 2, COUNT - 1):
            alone = integrate(network, **conditions_of(cases[k]), **options)
            for key in ("status", "step_count", "temperature", "concentration"):
                if not np.array_equal(
                    every[key].values[k], alone[key].values[0], equal_nan=key == "temperature"
                ):
                    found.append(f"{name}: {key} of zone {k} is not that of a zone alone")
    expected, _ = solve(cases[0])
    error = np.abs(amounts_of(every) - expected).max() / np.abs(expected).max()
    statuses = {Status(one).name for one in every["status"].values.tolist()}
    if statuses != {"DONE"} or error > claimed("bdf", rtol, every)[1]:
        found.append(f"{name}: {statuses}, error {error:.1e} at rtol {rtol:.1e}")
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_random_zones_in_lanes(kind):
    wrong = [text for seed in range(3) for text in findings(seed, kind)]
    assert not wrong, wrong


PUT_CONDITIONS = lane_formulas.put_conditions


def conditions_at_first(chemistry, zone, numbers, lane, conditions, below, last, since):
    """Conditions that do not change."""
    PUT_CONDITIONS(chemistry, zone, numbers, lane, conditions, 0, 0, 0.0)


@pytest.mark.exhaustive
def test_conditions_that_stay_are_noticed(nothing_compiled, monkeypatch):
    monkeypatch.setattr(lane_formulas, "put_conditions", conditions_at_first)
    assert findings(0, "formulas")


@pytest.mark.exhaustive
def test_random_zones_in_lanes_for_long():
    wrong = []
    for seed in fresh_seeds():
        wrong += findings(seed, KINDS[seed % len(KINDS)])
    assert not wrong, wrong
