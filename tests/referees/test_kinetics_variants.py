"""Kinetics where random cases seldom are: dilute, from zero, in other units, strongly coupled."""

import warnings

import numpy as np
import pytest
from fresh import fresh_seeds
from kinetics_cases import conditions_of, network_of, random_case
from kinetics_reference import solve
from kinetics_variants import diluted, from_zero, in_another_unit, reordered
from test_kinetics import IMPLICIT, ROSENBROCK, amounts_of, claimed, held

import ergode
from ergode.core.status import Status
from ergode.kinetics import integrate

VARIANTS = {
    ("diluted", "molecules"): diluted,
    ("diluted", "heated molecules"): diluted,
    ("from zero", "plain"): from_zero,
    ("from zero", "molecules"): from_zero,
    ("from zero", "heated molecules"): from_zero,
    ("from zero", "nuclei"): from_zero,
    ("reordered", "plain"): reordered,
    ("reordered", "molecules"): reordered,
    ("reordered", "nuclei"): reordered,
}


def case_of(seed, kind):
    if kind != "heated molecules":
        return random_case(seed, kind)
    case = random_case(seed, "heated")
    while case["kind"] != "molecules":
        seed += 1_000_003
        case = random_case(seed, "heated")
    return case


def findings(variant, kind, seed, methods=IMPLICIT):
    """What is wrong with a variant of a case.

    Errors of mixtures are relative to the largest amount that changes, not to that of argon.
    """
    case = VARIANTS[variant, kind](case_of(seed, kind))
    name, steady = f"{variant} {kind}, seed {seed}", held(case)
    found = _findings_of(case, name, [one for one in methods if one in ROSENBROCK])
    multistep = [one for one in methods if one not in ROSENBROCK]
    return found + (_findings_of(steady, name, multistep) if steady else [])


def _findings_of(case, name, methods):
    expected, hot = solve(case, 1e-9)
    moving = np.ptp(expected, axis=0) > 1e-9 * np.abs(expected).max()
    scale = np.abs(expected[:, moving]).max() if moving.any() else np.abs(expected).max()
    found = []
    for method in methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ergode.ErgodeWarning)
            result = integrate(
                network_of(case), method=method, rtol=case["rtol"], device="cpu",
                **conditions_of(case),
            )  # fmt: skip
        error = np.abs(amounts_of(result) - expected)[:, moving].max(initial=0.0) / scale
        if hot is not None:
            error = max(error, np.abs(result["temperature"].values[0] / hot - 1.0).max())
        status = Status(result["status"].item())
        if status != Status.DONE or error > claimed(method, case["rtol"], result)[1]:
            found.append(
                f"{name}, {method}: {status.name}, error {error:.1e} at rtol {case['rtol']:.1e}"
            )
    return found


def differences_of_units(seed, exponent):
    """Of a case in two units, over what rounding may do to it; the tolerance has the unit too.

    Solving stiff equations multiplies rounding by their stiffness, of which the tolerance allows
    more. Where rounding decides that a step is taken, the results differ by the error of a step.
    """
    case, found, steps = random_case(seed, "plain"), [], []
    largest = max(case["initial"].values())
    for shift in (0, exponent):
        one, unit = in_another_unit(case, shift), 2.0**shift
        result = integrate(
            network_of(one), rtol=case["rtol"], atol=1e-12 * largest * unit, device="cpu",
            **conditions_of(one),
        )  # fmt: skip
        found.append(amounts_of(result) / unit)
        steps.append((result["step_count"].item(), result["repeated_count"].item()))
    off = np.abs(found[0] - found[1]).max() / np.abs(found[0]).max()
    return off / (1e-9 + (1e-5 if steps[0] == steps[1] else 1e-2) * case["rtol"])


def uncoupled(seed):
    """Coefficients that weak screening makes much too large without a word."""
    case = random_case(seed, "nuclei")
    rng = np.random.default_rng([seed, 3])
    where = {
        "temperature": float(10 ** rng.uniform(7.5, 9.9)), "initial": case["initial"],
        "density": float(10 ** rng.uniform(2, 10)),
    }  # fmt: skip
    rates = {}
    for screening in ("weak", "chugunov"):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = ergode.kinetics.reaction_rates(network_of(case), screening=screening, **where)
        told = any("chugunov" in str(one.message) for one in said)
        rates[screening] = found["coefficient"].values[0], told
    x = np.array(list(case["initial"].values()))
    much = {name for name, one in zip(case["initial"], x / x.sum(), strict=True) if one > 0.05}
    there = [much >= set(one["left"]) for one in case["reactions"]]
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.nanmax((rates["weak"][0] / rates["chugunov"][0])[there], initial=1.0)
    assert not rates["chugunov"][1]
    return [f"seed {seed}: {ratio:.1e} at {where}"] * bool(ratio > 1.5 and not rates["weak"][1])


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "kind"), VARIANTS)
def test_variants_of_random_cases(variant, kind):
    wrong = [text for seed in range(4) for text in findings(variant, kind, seed)]
    assert not wrong, wrong


@pytest.mark.slow
def test_results_do_not_depend_on_the_unit_of_amounts():
    off = {seed: differences_of_units(seed, 60 - 40 * (seed % 4)) for seed in range(8)}
    assert max(off.values()) < 1.0, off


@pytest.mark.slow
def test_weak_screening_of_strong_coupling_is_told():
    wrong = [text for seed in range(25) for text in uncoupled(seed)]
    assert not wrong, wrong


@pytest.mark.exhaustive
def test_variants_for_long():
    wrong = []
    for seed in fresh_seeds():
        for variant, kind in VARIANTS:
            wrong += findings(variant, kind, seed)
        off = differences_of_units(seed, int(seed % 121) - 60)
        wrong += [f"seed {seed}: {off:.1f} roundings off in another unit"] * bool(off > 1)
        wrong += uncoupled(seed)
    assert not wrong, wrong
