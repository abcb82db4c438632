"""Which method runs a model under a scenario, where, and why."""

from __future__ import annotations

from dataclasses import dataclass

from ergode.core import devices
from ergode.core.devices import Device
from ergode.core.errors import PlanError
from ergode.epidemics.scenario import Scenario
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import ContactTracing, Isolation, Trigger, Vaccination
from ergode.models.holding_times.families import Exponential

LEAPS = ("renewal-leap", "markov-leap")
METHODS = ("auto", "first-passage", "sellke", "gillespie", *LEAPS)


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
    aged: bool = False,
) -> Plan:
    """Choose what was left to choose, and check what was not.

    `aged` says whether seeds are where they start for a while already.

    Raises
    ------
    PlanError
        The method is unknown, or cannot run this model under this scenario on this device.
    """
    if method not in METHODS:
        raise PlanError(f"method {method!r} is unknown; expected " + ", ".join(map(repr, METHODS)))
    hindrance = _beyond_first_passage(model, scenario, aged)
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
    place = devices.resolve(device)
    if place.is_cuda and method == "gillespie":
        why = "the method 'gillespie' runs on the CPU"
        if device != "auto":
            raise PlanError(f"{why}; use device='cpu'")
        return Plan(method, reason, devices.resolve("cpu"), why)
    return Plan(method, reason, place, place.reason)


def _beyond_first_passage(model: CompartmentModel, scenario: Scenario, aged: bool) -> str | None:
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
    return "there are seeds with ages" if aged else None


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
    beyond = _beyond_leap(model, scenario)
    if beyond is not None:
        raise PlanError(f"{beyond}; use method='sellke'")


def _beyond_leap(model: CompartmentModel, scenario: Scenario) -> str | None:
    """What in a model or scenario a leap cannot take, and why, if anything."""
    one_sum = "which a leap, that keeps one sum for all neighbours of a node, cannot follow"
    if model.profiles:
        return f"infectivity changes within a compartment, {one_sum}"
    if scenario.meetings:
        return f"contacts come and go, {one_sum}"
    if scenario.importations:
        return "importations have moments of their own, which steps do not have"
    for one in scenario.interventions:
        if isinstance(one.start, Trigger):
            return "a trigger has a moment of its own, which steps do not have"
        if isinstance(one, Isolation | ContactTracing):
            name = type(one).__name__
            return f"{name} changes whom a node infects while it is in a compartment, {one_sum}"
        if isinstance(one, Vaccination) and one.infectivity_reduction > 0:
            return (
                f"Vaccination with an infectivity_reduction changes whom a node infects, {one_sum}"
            )
    return None
