"""The methods: a record of each, its limits, and the choice of one for a model and scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args

from ergode.core import devices, methods
from ergode.core.arguments import choice
from ergode.core.devices import Device
from ergode.core.errors import PlanError
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.first_passage.runner import FirstPassageEnsemble
from ergode.epidemics.gillespie import JumpEnsemble
from ergode.epidemics.leap.runner import LeapEnsemble
from ergode.epidemics.points import Points
from ergode.epidemics.scenario import AVOIDED, ENTRIES, LAYERS, MEASURES, Include, Scenario
from ergode.epidemics.seeding import Initial, has_ages
from ergode.epidemics.shared.ensemble import Ensemble
from ergode.epidemics.windows.runner import WindowEnsemble
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import (
    Capacity,
    ContactTracing,
    Isolation,
    Trigger,
)
from ergode.models.epidemic.testing import Testing
from ergode.models.epidemic.vaccination import Vaccination
from ergode.models.holding_times.families import Exponential

MethodName = Literal["auto", "first-passage", "sellke", "gillespie", "renewal-leap", "markov-leap"]

_EVERY_DEVICE = ("cpu", "cuda")
_COUNTED = {
    ENTRIES: "entries into compartments", MEASURES: "what measures do",
    AVOIDED: "contacts that measures avoid", LAYERS: "contacts by layer",
}  # fmt: skip


@dataclass(frozen=True)
class Method(methods.Method):
    """One way to run an epidemic."""

    reason: str  # reason of the choice: by "auto" if exact, otherwise by name
    exact: bool
    why_unsupported: Callable[[CompartmentModel, Scenario, bool], str | None]
    """Why it cannot run a model under a scenario, with or without ages of seeds; or None."""
    alternatives: tuple[str, ...]  # methods to suggest instead; the first that can run is named
    runner: Callable[..., Ensemble]  # (model, scenario, initial, listing, **options)
    devices: tuple[str, ...] = _EVERY_DEVICE
    line_lists: bool = True
    comparable: bool = True  # runs that differ in interventions share their randomness
    steps: bool = False  # it takes time steps and their options
    resumes: tuple[str, ...] = ()  # devices on which a checkpoint keeps a replicate
    wide: bool = False  # it has no limit of nodes
    includes: tuple[Include, ...] = ()  # what it can count besides nodes and cases
    sweeps: tuple[str, ...] = ()
    """Devices on which several points run in one launch.

    On other devices points run one after another.  So does tau-leaping, because the sizes of its
    tables differ between points.
    """


def _sellke(
    model: CompartmentModel, scenario: Scenario, initial: Initial, listing: bool, **options: Any
) -> Ensemble:
    runners: dict[str, Callable[..., Ensemble]] = {"cpu": EventEnsemble, "cuda": WindowEnsemble}
    runner = runners[options["device"].target]
    return runner(model, scenario, initial, listing=listing, **options)


def _without_listing(kind: Callable[..., Ensemble]) -> Callable[..., Ensemble]:
    """A runner that ignores whether a line list is requested."""

    def runner(
        model: CompartmentModel, scenario: Scenario, initial: Initial, listing: bool, **options: Any
    ) -> Ensemble:
        return kind(model, scenario, initial, **options)

    return runner


_leap = _without_listing(LeapEnsemble)


def _beyond_first_passage(model: CompartmentModel, scenario: Scenario, aged: bool) -> str | None:
    if model.unborn:
        return _BIRTHS
    if model.recurrent:
        return "nodes of this model can become susceptible again"
    susceptible = model.infections[0].susceptible
    if any(p.compartment == susceptible for p in model.progressions):
        return f"nodes of this model leave '{susceptible}' without being infected"
    if any(susceptible in p.branches for p in model.progressions):
        return f"nodes of this model enter '{susceptible}', as newborns do"
    if len(model.infections) > 1:
        return f"this model has {len(model.infections)} infections"
    if model.profiles:
        return "infectivity changes within a compartment"
    if not scenario.plain:
        return f"there are {scenario.describe()}"
    return "there are seeds with ages" if aged else None


_BIRTHS = "people have children at a rate, and births depend on the number of mothers"


def _beyond_sellke(model: CompartmentModel, scenario: Scenario, aged: bool) -> str | None:
    return None


_EXITS = "nodes leave a compartment at a rate before a holding time is over"


def _beyond_memoryless(model: CompartmentModel) -> str | None:
    if model.has_exits:
        return _EXITS
    for progression in model.progressions:
        memoryless = all(isinstance(one, Exponential) for one in progression.holding_times)
        if not memoryless and progression.compartment != model.unborn:
            return f"the holding time of '{progression.compartment}' is not exponential"
    return None


_OWN_FACTORS = "infections differ in susceptibility or infectivity, and its arcs have one weight"


def _beyond_gillespie(model: CompartmentModel, scenario: Scenario, aged: bool) -> str | None:
    beyond = _beyond_memoryless(model)
    if beyond is None and model.profiles:
        return "infectivity changes within a compartment"
    if beyond is None and model.has_own_factors:
        return _OWN_FACTORS
    if beyond is None and not scenario.plain:
        return f"there are {scenario.describe()}"
    return beyond


def _beyond_leap(model: CompartmentModel, scenario: Scenario, aged: bool) -> str | None:
    if model.unborn:
        return _BIRTHS
    if model.has_exits:
        return _EXITS
    one_sum = "and a leap keeps one sum for all neighbours of a node"
    if model.profiles:
        return f"infectivity changes within a compartment, {one_sum}"
    if model.has_own_factors:
        return _OWN_FACTORS
    if scenario.meetings:
        return f"contacts are temporal, {one_sum}"
    if scenario.importations:
        return "importations happen at exact times, within steps"
    for one in scenario.interventions:
        if isinstance(one, Capacity):
            return "a Capacity is reached at an exact time, within a step"
        if isinstance(one.start, Trigger) or isinstance(one.stop, Trigger):
            return "a trigger fires at an exact time, within a step"
        if isinstance(one, Isolation | ContactTracing | Testing):
            return (
                f"{one.title} changes whom a node infects while it is in a compartment, {one_sum}"
            )
        if isinstance(one, Vaccination) and any(one.by_dose(one.infectivity_reduction)):
            return (
                f"{one.title} with an infectivity_reduction changes whom a node infects, {one_sum}"
            )
        if isinstance(one, Vaccination) and any(map(any, map(one.by_dose, one.severity.values()))):
            return f"{one.title} with a severity acts at the exact time of a move, within a step"
    return None


def _beyond_markov_leap(model: CompartmentModel, scenario: Scenario, aged: bool) -> str | None:
    return _beyond_memoryless(model) or _beyond_leap(model, scenario, aged)


_APPROXIMATE = "approximate, with an error of first order in the step"

# In the order in which "auto" tries them.
METHODS = {
    method.name: method
    for method in (
        Method(
            "first-passage",
            "exact, by shortest paths from the seeds",
            "models without re-susceptibility on a static network, of any number of nodes",
            "exact, and the cheapest method for a model without re-susceptibility",
            True, _beyond_first_passage, ("sellke",), _without_listing(FirstPassageEnsemble),
            comparable=False, resumes=("cpu",), wide=True, includes=(ENTRIES,),
            sweeps=_EVERY_DEVICE,
        ),
        Method(
            "sellke",
            "exact, by effective contacts of every arc, which transmit or not",
            "any model and scenario",
            "exact, and the cheapest method that every device has",
            True, _beyond_sellke, (), _sellke, includes=get_args(Include), sweeps=_EVERY_DEVICE,
        ),
        Method(
            "gillespie",
            "exact, by one jump after another, on the CPU",
            "memoryless models and constant rates on a static network",
            "exact, for a memoryless model",
            True, _beyond_gillespie, ("sellke",), _without_listing(JumpEnsemble), devices=("cpu",),
            line_lists=False, includes=(ENTRIES,), sweeps=("cpu",),
        ),
        Method(
            "renewal-leap",
            "an approximation of first order in the time step, in which all nodes move at once, by "
            "their age and the force of infection",
            "static networks, with calendars, scheduled closures and scheduled vaccination",
            _APPROXIMATE,
            False, _beyond_leap, ("sellke",), _leap, line_lists=False, steps=True,
            includes=(ENTRIES,), resumes=_EVERY_DEVICE,
        ),
        Method(
            "markov-leap",
            'the approximation of "renewal-leap", without ages',
            'memoryless models within the limits of "renewal-leap"',
            _APPROXIMATE,
            False, _beyond_markov_leap, ("renewal-leap", "sellke"), _leap,
            line_lists=False, steps=True, includes=(ENTRIES,), resumes=_EVERY_DEVICE,
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """A method and a device, each with the reason it was chosen."""

    method: Method
    reason: str
    device: Device
    device_reason: str


def plan_of(
    name: str,
    model: CompartmentModel,
    scenario: Scenario,
    device: str | Device,
    aged: bool = False,
    listing: bool = False,
) -> Plan:
    """Choose the method and device if they are "auto", and check them otherwise.

    `aged` says whether seeds have ages in their compartment, `listing` whether a line list is
    requested.

    Raises a PlanError if the method is unknown, or cannot run this model under this scenario on
    this device.
    """
    choice("method", name, ("auto", *METHODS))
    if name == "auto":
        method, reason = _cheapest(model, scenario, aged)
    else:
        method = METHODS[name]
        reason = "asked for" if method.exact else f"asked for; {method.reason}"
        _check(method, model, scenario, aged)
    if listing and not method.line_lists:
        method.refuse(
            "keeps no line lists: it tracks the force of infection on a node, not its source; use "
            "method='sellke'"
        )
    chosen = devices.resolve(device)
    if chosen.target not in method.devices:
        why = f"method '{method.name}' runs on the CPU"
        if device != "auto":
            raise PlanError(f"{why}; use device='cpu'")
        return Plan(method, reason, devices.resolve("cpu"), why)
    return Plan(method, reason, chosen, chosen.reason)


def plan_of_points(
    name: str, points: Points, scenarios: Sequence[Scenario], device: str | Device,
    listing: bool = False,
) -> Plan:  # fmt: skip
    """The plan of a method that runs all points of a call.

    Raises
    ------
    PlanError
        See `plan_of`; for any point.
    """
    initials = {id(one): one for one in points.initials}.values()
    aged = any(isinstance(one, Mapping) and has_ages(one) for one in initials)
    plans = []
    first = {id(scenario): k for k, scenario in reversed(list(enumerate(scenarios)))}
    for number in sorted({*points.kinds, *first.values()}):
        model, scenario = points.models[number], scenarios[number]
        with points.named_in_errors(number):
            plans.append(plan_of(name, model, scenario, device, aged, listing))
    order = list(METHODS)
    return max(plans, key=lambda plan: order.index(plan.method.name))


def _cheapest(model: CompartmentModel, scenario: Scenario, aged: bool) -> tuple[Method, str]:
    """The first exact method of all devices that can run a model, and the reason."""
    paired = scenario.planned is not None
    passed_over = ""
    for method in METHODS.values():
        if not (method.exact and method.devices == _EVERY_DEVICE):
            continue
        if paired and not method.comparable:
            continue
        why = _beyond(method, model, scenario, aged)
        if why is None:
            if paired:
                return method, "exact, and runs that differ in interventions share their randomness"
            return method, method.reason + passed_over
        passed_over = f": {why}"
    first = METHODS["first-passage"]
    why = first.why_unsupported(model, scenario, aged)
    if why is None:  # it was passed over because of planned interventions
        why = "runs with and without interventions, to be compared, need method='sellke'"
    _refuse_network(first, why, scenario)


def _beyond(method: Method, model: CompartmentModel, scenario: Scenario, aged: bool) -> str | None:
    """Why a method cannot run a model under a scenario; None if it can."""
    for one in scenario.include:
        if one not in method.includes:
            return f"it does not count {_COUNTED[one]}"
    count = scenario.contacts.node_count
    if count >= 2**31 and not method.wide:
        return f"the network has {count:,} nodes, more than 2^31 - 1"
    return method.why_unsupported(model, scenario, aged)


def _check(method: Method, model: CompartmentModel, scenario: Scenario, aged: bool) -> None:
    why = _beyond(method, model, scenario, aged)
    if why is None:
        return
    names = [*method.alternatives, *(name for name, one in METHODS.items() if one.wide)]
    instead = next(
        (name for name in names if _beyond(METHODS[name], model, scenario, aged) is None), None
    )
    if instead is None:
        _refuse_network(method, why, scenario)
    method.refuse(f"is for {method.use}, but {why}; use method='{instead}'")


def _refuse_network(method: Method, why: str, scenario: Scenario) -> NoReturn:
    """Refuse a network that is too large for all methods that can run the model."""
    raise PlanError(
        f"method '{method.name}' is for {method.use}, but {why}; and no other method takes this "
        f"network of {scenario.contacts.node_count:,} nodes: use fewer nodes"
    )


def options_of(method: Method, **options: Any) -> dict[str, Any]:
    """The options of a tau-leaping method; none for the others.

    Raises a PlanError if an option of tau-leaping is given to an exact method.
    """
    if method.steps:
        return options
    usual = {"transition": "conditional", "pressure": "auto"}
    for name, value in options.items():
        if not isinstance(value, str | None) or value != usual.get(name):
            raise PlanError(
                f"{name}={value!r} is for methods with time steps (method='renewal-leap'), "
                f"but the method '{method.name}' takes no steps"
            )
    return {}
