"""Kinetics against SciPy's Radau, on random networks under random conditions.

Every method is held to what it claims.  The implicit ones follow their tolerance.
Quasi-steady-state follows it too, apart from the mass that it says was lost.  The asymptotic one
has steps of 1 % and says how far its conserved sum is off; without such a sum it warns.
"""

import os
import secrets
import time
import warnings

import numpy as np
import pytest
from kinetics_cases import conditions_of, network_of, random_case
from kinetics_reference import solve

import ergode
from ergode.core.status import Status
from ergode.kinetics import integrate
from ergode.kinetics.network import rate_tables, to_tables

KINDS = ("plain", "molecules", "nuclei", "heated")
IMPLICIT = ("rodas4", "rosenbrock23")
EXPLICIT = (
    "asymptotic", "quasi-steady-state", "partial-equilibrium",
    "partial-equilibrium-quasi-steady-state",
)  # fmt: skip
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.cuda))


def allowed(method, rtol, result):
    """Error of the largest amount, relative, that a method claims not to pass."""
    if method == "rodas4":
        return 8.0 * rtol + 3e-6
    if method == "rosenbrock23":
        return 400.0 * rtol + 3e-6
    lost = result["conservation_error"].item()
    if method == "quasi-steady-state":
        return 100.0 * rtol + 10.0 * lost + 1e-5
    return 0.04 + 10.0 * lost


def amounts_of(result):
    return result["mass_fraction" if "mass_fraction" in result else "concentration"].values[0]


def findings(case, methods=IMPLICIT, device="cpu"):
    """What is wrong with the results of methods for a case; the refused are left out."""
    expected, hot = solve(case)
    network, scale, found = network_of(case), np.abs(expected).max(), []
    for method in methods:
        explicit = method in EXPLICIT
        if explicit and "heating" in case:
            continue
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = integrate(
                network, method=method, rtol=case["rtol"], device=device,
                step_limit=1_000_000 if explicit else None, **conditions_of(case),
            )  # fmt: skip
        error = np.abs(amounts_of(result) - expected).max() / scale
        if hot is not None:
            error = max(error, np.abs(result["temperature"].values[0] / hot - 1.0).max())
        status = Status(result["status"].item())
        warned = any(issubclass(one.category, ergode.AccuracyWarning) for one in said)
        if explicit and (warned or status != Status.DONE):
            continue  # it says itself that it fails
        if status != Status.DONE or not error <= allowed(method, case["rtol"], result):
            found.append(
                f"seed {case['seed']} {case['kind']} {method}: {status.name}, error {error:.1e} "
                f"at rtol {case['rtol']:.1e}"
            )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_implicit_methods_on_random_cases(kind, device):
    wrong = [
        text for seed in range(12) for text in findings(random_case(seed, kind), device=device)
    ]
    assert not wrong, wrong


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_explicit_methods_on_random_cases(device):
    wrong = [
        text
        for seed in range(12)
        for text in findings(random_case(seed, "nuclei"), EXPLICIT, device)
    ]
    assert not wrong, wrong


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", DEVICES)
def test_all_methods_on_random_cases_for_long(device):
    first = int(os.environ.get("ERGODE_REFEREE_SEED", secrets.randbelow(2**31)))
    print(f"kinetics referee: first seed {first}")
    until = time.monotonic() + float(os.environ.get("ERGODE_REFEREE_SECONDS", "600"))
    seed, wrong = first, []
    while time.monotonic() < until:
        for kind in KINDS:
            methods = IMPLICIT + (EXPLICIT if kind in ("plain", "nuclei") else ())
            wrong += findings(random_case(seed, kind), methods, device)
        seed += 1
    print(f"kinetics referee: {seed - first} seeds of each kind")
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", [faster_by_two_percent, a_knot_decided_the_other_way, a_dropped_product]
)
def test_a_broken_engine_is_noticed(mutant, monkeypatch):
    monkeypatch.setattr(to_tables, "_KEPT", {})
    mutant(monkeypatch)
    cases = [random_case(seed, "nuclei") for seed in range(6)]
    assert any(findings(case, ("rodas4",)) for case in cases)
