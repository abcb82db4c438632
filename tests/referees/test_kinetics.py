"""Kinetics against SciPy's Radau, on random networks under random conditions.

Every method is held to what it claims. The implicit ones follow their tolerance. The explicit ones
state their error: it is at most three times their estimate, and at least a thirtieth of it.
"""

import importlib
import warnings
from dataclasses import replace

import numpy as np
import pytest
from fresh import fresh_seeds
from kinetics_cases import conditions_of, network_of, random_case
from kinetics_reference import solve
from kinetics_sweeps import sweep_and_own_calls, swept_case

import ergode
from ergode.core.status import Status
from ergode.kinetics import integrate
from ergode.kinetics import sweep as sweeping
from ergode.kinetics.error_estimate import ACCEPTED
from ergode.kinetics.methods import METHODS
from ergode.kinetics.network import rate_tables, to_tables

integrating = importlib.import_module("ergode.kinetics.integrate")
KINDS = ("plain", "molecules", "nuclei", "heated", "powers", "tank", "tube", "sun", "mixture",
         "formulas")  # fmt: skip
IMPLICIT = tuple(name for name, method in METHODS.items() if method.implicit)
ROSENBROCK = tuple(name for name in IMPLICIT if not METHODS[name].multistep)
EXPLICIT = tuple(name for name in METHODS if name not in IMPLICIT)
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.cuda))


def claimed(method, rtol, result):
    """The least and the largest error, over the largest amount, that a method claims."""
    if method == "rodas4":
        return 0.0, 8.0 * rtol + 3e-6
    if method == "rosenbrock23":
        return 0.0, 400.0 * rtol + 3e-6
    if method == "bdf":  # an error of each of many small steps
        return 0.0, 50.0 * rtol + 3e-6
    estimate = result["error_estimate"].item()
    return estimate / 30.0 - error_of_estimate(rtol), 3.0 * estimate + error_of_estimate(rtol)


def error_of_estimate(rtol):
    """The estimate is the difference to rodas4 at a tenth of the tolerance."""
    return 8.0 * min(0.1 * rtol, 1e-5) + 3e-6


def unsaid(rtol):
    """The largest error of an explicit method that may come without a warning."""
    return 3.0 * ACCEPTED * rtol + error_of_estimate(rtol)


def amounts_of(result):
    return result["mass_fraction" if "mass_fraction" in result else "concentration"].values[0]


def held(case):
    """The case with the first values of its conditions, kept; None where a history of steps ends.

    Nuclei are not for multistep methods.
    """
    if case["kind"] == "nuclei" or "drives" in case:
        return None
    found = dict(case)
    for name in ("temperature", "density", "sunlight"):
        if name in case and not np.isscalar(case[name]):
            found[name] = float(case[name][1][0])
    return found


def findings(case, methods=IMPLICIT, device="cpu"):
    """What is wrong with the results of methods for a case; the refused are left out."""
    found = []
    if steady := [name for name in methods if METHODS[name].multistep]:
        methods = [name for name in methods if name not in steady]
        one = held(case) if device == "cpu" else None
        found = findings_of(one, steady, device) if one else []
    return found + findings_of(case, methods, device)


def findings_of(case, methods, device):
    """`findings` by methods that are for this case."""
    expected, hot = solve(case)
    network, scale, found = network_of(case), np.abs(expected).max(), []
    for method in methods:
        explicit = method in EXPLICIT
        others = {"heating", "tank", "velocity", "sunlight"} & set(case)
        if explicit and (others or any("orders" in one for one in case["reactions"])):
            continue
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = integrate(
                network, method=method, rtol=case["rtol"], device=device,
                max_steps=1_000_000 if explicit else None, **conditions_of(case),
            )  # fmt: skip
        error = np.abs(amounts_of(result) - expected).max() / scale
        if hot is not None:
            error = max(error, np.abs(result["temperature"].values[0] / hot - 1.0).max())
        status = Status(result["status"].item())
        texts = [str(one.message) for one in said]
        estimated = any("estimated error" in t or "error is not known" in t for t in texts)
        if explicit and status not in (Status.DONE, Status.INACCURATE):
            continue  # it says itself that it fails
        least, most = claimed(method, case["rtol"], result)
        if explicit and error > unsaid(case["rtol"]) and not estimated:
            found.append(f"seed {case['seed']} {case['kind']} {method}: error {error:.1e} unsaid")
        if not (explicit or status == Status.DONE) or not least <= error <= most:
            found.append(
                f"seed {case['seed']} {case['kind']} {method}: {status.name}, error {error:.1e} "
                f"at rtol {case['rtol']:.1e}"
            )
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [range(1), pytest.param(range(1, 4), marks=pytest.mark.exhaustive)],
    ids=["one", "three more"],
)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_implicit_methods_on_random_cases(kind, device, seeds):
    wrong = [text for seed in seeds for text in findings(random_case(seed, kind), device=device)]
    assert not wrong, wrong


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_explicit_methods_on_random_cases(device):
    wrong = [
        text
        for seed in range(6)
        for text in findings(random_case(seed, "nuclei"), EXPLICIT, device)
    ]
    assert not wrong, wrong


@pytest.mark.slow
def test_explicit_methods_state_their_error():
    """Pulses of temperature burn 5 to 10 % of all mass in a step."""
    nuclei = [random_case(seed, "nuclei") for seed in (21733038, 21733073, 50, 1020)]
    wrong = [text for one in nuclei for text in findings(one, EXPLICIT)]
    assert not wrong, wrong


def unlike(case, text, values, method, device):
    """Variables of which some point of a sweep differs from its own call by a bit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ergode.ErgodeWarning)
        swept, own = sweep_and_own_calls(
            case, text, values, method=method, rtol=case["rtol"], device=device, max_steps=3_000
        )
    return [
        f"seed {case['seed']} {case['kind']} {method}: '{name}' at {at}"
        for at, alone in own.items()
        for name in alone.data_vars
        if not np.array_equal(
            swept[name].values[at], alone[name].values,
            equal_nan=alone[name].dtype.kind == "f",
        )
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS[:4])
def test_each_point_of_a_sweep_is_its_own_call(kind, device):
    """Of heating and every kind of network; the own call has numbers for parameters.

    Explicit methods are compiled for nuclei alone in the tests above.
    """
    number = KINDS.index(kind)
    case, text, values = swept_case(number, kind)
    some = EXPLICIT if kind == "nuclei" else ()
    wrong = []
    if device == "cpu" and (one := held(case)):
        wrong += unlike(one, text, values, "bdf", device)
    for method in (ROSENBROCK if "heating" in case else ROSENBROCK[number % 2 :: 2]) + some:
        wrong += unlike(case, text, values, method, device)
    assert not wrong, wrong


@pytest.mark.slow
def test_a_point_with_the_rate_constants_of_another_is_noticed(monkeypatch):
    plain = sweeping.factors_of
    monkeypatch.setattr(sweeping, "factors_of", lambda *given: np.roll(plain(*given), 1, axis=0))
    case, text, values = swept_case(0, "plain")
    assert unlike(case, text, values, "rodas4", "cpu")


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_all_methods_on_random_cases_for_long(device):
    wrong = []
    for seed in fresh_seeds():
        for kind in KINDS:
            methods = IMPLICIT + (EXPLICIT if kind in ("plain", "nuclei") else ())
            wrong += findings(random_case(seed, kind), methods, device)
            if seed % 5 == 0 and kind in KINDS[:4]:
                case, text, values = swept_case(seed, kind)
                for method in methods:
                    if METHODS[method].multistep:
                        continue
                    wrong += unlike(case, text, values, method, device)
    assert not wrong, wrong


# --- broken engines are noticed -------------------------------------------------------------------


def faster_by_two_percent(patch):
    add = rate_tables._Slots.add

    def faster(self, slot, rate):
        add(self, slot, rate)
        self.items[slot] = [(1.02 * factor, one) for factor, one in self.items[slot]]

    patch.setattr(rate_tables._Slots, "add", faster)


def a_knot_decided_the_other_way(patch):
    """At a knot conditions have the value of the one before."""
    from ergode.kinetics import conditions

    plain = conditions._on_grid

    def late(course, times, count, default):
        values = plain(course, times, count, default)
        values[:, 1:] = values[:, :-1].copy()
        return values

    patch.setattr(conditions, "_on_grid", late)


def a_dropped_product(patch):
    """The last product of the last reaction is not made."""
    build = to_tables.structure_of

    def poorer(count, reactant, net):
        made = [i for i, v in net[-1].items() if v > 0]
        kept = {i: v for i, v in net[-1].items() if i not in made[-1:]}
        return build(count, reactant, [*net[:-1], kept])

    patch.setattr(to_tables, "structure_of", poorer)


def steeper_powers(patch):
    """Derivatives of powers that are off by a factor."""
    build = to_tables.structure_of

    def steeper(*given):
        found = build(*given)
        return replace(found, powers=found.powers._replace(order=1.02 * found.powers.order))

    patch.setattr(to_tables, "structure_of", steeper)


@pytest.mark.exhaustive
def test_orders_that_are_off_by_two_percent_are_noticed(monkeypatch):
    monkeypatch.setattr(to_tables, "_KEPT", {})
    steeper_powers(monkeypatch)
    cases = [random_case(seed, "powers") for seed in range(3)]
    assert any(findings(case, ("rodas4",)) for case in cases)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", [faster_by_two_percent, a_knot_decided_the_other_way, a_dropped_product]
)
def test_a_broken_engine_is_noticed(mutant, monkeypatch):
    monkeypatch.setattr(to_tables, "_KEPT", {})
    mutant(monkeypatch)
    cases = [random_case(seed, "nuclei") for seed in range(6)]
    assert any(findings(case, ("rodas4",)) for case in cases)


@pytest.mark.slow
def test_an_error_estimate_that_is_the_loss_of_mass_is_noticed(monkeypatch):
    monkeypatch.setattr(
        integrating, "estimated_errors", lambda *given: np.nan_to_num(given[-1].defect)
    )
    assert findings(random_case(50, "nuclei"), ("asymptotic",))
