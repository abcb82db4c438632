"""Which method runs a model under a scenario, where, and why."""

from __future__ import annotations

from dataclasses import dataclass

from ergode.core import devices
from ergode.core.devices import Device
from ergode.core.errors import PlanError
from ergode.epidemics.scenario import Scenario
from ergode.models.compartments import CompartmentModel
from ergode.models.distributions import Exponential
from ergode.models.interventions import ContactTracing, Trigger

LEAPS = ("renewal-leap", "markov-leap")
METHODS = ("auto", "first-passage", "sellke", "gillespie", "sellke-capped", *LEAPS)


@dataclass(frozen=True)
class Plan:
    """A method and a device, each with the reason it was chosen."""

    method: str
    reason: str
    device: Device
    device_reason: str


def plan_of(
    method: str,
    model: CompartmentModel,
    scenario: Scenario,
    device: str | Device,
    listing: bool = False,
) -> Plan:
    """Choose what was left to choose, and check what was not.

    Raises
    ------
    PlanError
        The method is unknown, or cannot run this model under this scenario on this device.
    """
    if method not in METHODS:
        raise PlanError(f"method {method!r} is unknown; expected " + ", ".join(map(repr, METHODS)))
    hindrance = _beyond_first_passage(model, scenario)
    if method == "auto":
        if scenario.planned is not None:
            method = "sellke"
            reason = "exact, and runs that differ in interventions share their randomness"
        elif hindrance is None:
            method = "first-passage"
            reason = "exact, and the cheapest method for a model without re-susceptibility"
        else:
            method = "sellke"
            reason = f"exact, and the cheapest method that every device has: {hindrance}"
    else:
        reason = "asked for"
        if method == "first-passage" and hindrance is not None:
            raise PlanError(
                f"{hindrance}, and the method 'first-passage' is exact only where there is nothing "
                "of the kind; use method='sellke'"
            )
        if method == "gillespie":
            _check_memoryless(model, scenario)
        if method in LEAPS:
            reason = "asked for; approximate, with an error of first order in the step"
            _check_leap(method, model, scenario)
    beyond = _beyond_windows(scenario, listing)
    if method == "sellke-capped" and beyond:
        raise PlanError(
            f"there are {beyond}, which the method 'sellke-capped' does not take; use "
            "method='sellke'"
        )
    place = devices.resolve(device)
    on_cpu_alone = None
    if method == "gillespie":
        on_cpu_alone = "the method 'gillespie' runs on the CPU"
    elif method == "sellke" and beyond:
        on_cpu_alone = f"the method 'sellke' runs with {beyond} on the CPU"
    if place.is_cuda and on_cpu_alone:
        if device != "auto":
            raise PlanError(f"{on_cpu_alone}; use device='cpu'")
        return Plan(method, reason, devices.resolve("cpu"), on_cpu_alone)
    return Plan(method, reason, place, place.reason)


def _beyond_windows(scenario: Scenario, listing: bool) -> str | None:
    """What takes the order of events, which windows of time do not go through, if anything."""
    if any(isinstance(one.start, Trigger) for one in scenario.interventions):
        return "triggers"
    if any(isinstance(one, ContactTracing) for one in scenario.interventions):
        return "contact tracing"
    if scenario.importations:
        return "importations"
    return "line lists" if listing else None


def _beyond_first_passage(model: CompartmentModel, scenario: Scenario) -> str | None:
    """What in a model or scenario first passage does not cover, if anything."""
    if model.recurrent:
        return "nodes of this model can become susceptible again"
    susceptible = model.infections[0].susceptible
    if any(p.compartment == susceptible for p in model.progressions):
        return f"nodes of this model leave '{susceptible}' without being infected"
    if len(model.infections) > 1:
        return f"this model has {len(model.infections)} infections"
    if model.profiles:
        return "infectivity changes within a compartment"
    if not scenario.plain:
        return f"there are {scenario.describe()}"
    return None


def _check_memoryless(model: CompartmentModel, scenario: Scenario) -> None:
    lasting = [
        p.compartment for p in model.progressions if not isinstance(p.holding_time, Exponential)
    ]
    if lasting:
        raise PlanError(
            f"the holding time of '{lasting[0]}' is not exponential, and the method 'gillespie' is "
            "for memoryless models; use method='sellke'"
        )
    if model.profiles or not scenario.plain:
        raise PlanError(
            "the method 'gillespie' is for constant rates on a static network; use method='sellke'"
        )


def _check_leap(method: str, model: CompartmentModel, scenario: Scenario) -> None:
    lasting = [
        p.compartment for p in model.progressions if not isinstance(p.holding_time, Exponential)
    ]
    if method == "markov-leap" and lasting:
        raise PlanError(
            f"the holding time of '{lasting[0]}' is not exponential, and the method 'markov-leap' "
            "keeps no ages; use method='renewal-leap'"
        )
    if model.profiles or not scenario.plain:
        raise PlanError(
            f"the method '{method}' is for static networks, without interventions and infectivity "
            "profiles; use method='sellke'"
        )
