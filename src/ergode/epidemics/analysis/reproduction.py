"""Reproduction number, growth rate and generation time of a model on a network, without a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ergode.core.arguments import is_finite_number
from ergode.core.errors import ModelError
from ergode.core.notebook import Table, card
from ergode.epidemics.analysis.branching import Arcs, Branching, ByClass
from ergode.epidemics.analysis.contact import infected_of, stages_of, transform
from ergode.epidemics.shared.names import layer_index
from ergode.epidemics.shared.progression import classes_of
from ergode.epidemics.shared.tables import arc_weights
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.networks.computed import ComputedNetwork
from ergode.models.networks.contact_network import ContactNetwork

_ALL = "all contacts"
_NOTICED = 0.05  # overlap from which on it is a limit
_HUGE = 700.0  # logarithm of what is infinite
_DOUBLINGS = 80


@dataclass(frozen=True)
class Reproduction:
    """How an epidemic begins; made by `ergode.epidemics.reproduction`.

    Attributes
    ----------
    reproduction_number : float
        Mean number of nodes that a typical case of an early generation infects.
    growth_rate : float
        Rate of exponential growth, or of decline if below zero [1 / time]; NaN if there is none.
    doubling_time : float
        Time in which cases double [time]; below zero, the time in which they halve.
    generation_time : float
        Mean time from a case's infection to those that it causes [time]; NaN without any.
    transmissibility : mapping of str to float
        By layer, the mean probability that a contact of an infected node is infected; one entry
        for all contacts in a network without layers.
    overlap : float
        Fraction of second-generation infections that fall on a node that is infected anyway, by
        the first case or by another that it infected.
    limits : tuple of str
        Why the numbers are not exact here; empty if they are, in a large network.
    """

    reproduction_number: float
    growth_rate: float
    doubling_time: float
    generation_time: float
    transmissibility: Mapping[str, float]
    overlap: float
    limits: tuple[str, ...]

    def _repr_html_(self) -> str:
        facts = {
            "reproduction number": self.reproduction_number,
            "growth rate": self.growth_rate,
            "doubling time": self.doubling_time,
            "generation time": self.generation_time,
            "overlap": self.overlap,
            "limits": "; ".join(self.limits) or "none",
        }
        rows = [(name, float(value)) for name, value in self.transmissibility.items()]
        return card("Reproduction", facts, Table(("layer", "transmissibility"), rows, len(rows)))


def reproduction(
    model: CompartmentModel,
    contacts: ContactNetwork,
    *,
    infected: str | None = None,
    layer_factors: Mapping[str, float] | None = None,
) -> Reproduction:
    """Basic reproduction number, growth rate, doubling and generation time, without a simulation.

    They are those of the first generations, while nearly all nodes are susceptible and nothing
    intervenes: from the transmission of an infected node to each contact, by any holding times,
    branching, profiles, weights and node attributes, and from who is in contact with whom. Holding
    times and branching may differ between nodes (`ByAttribute`).

    On a large random network they are exact: with given degrees the reproduction number is the
    transmissibility times the mean excess degree, ``E[k (k - 1)] / E[k]``. In households, classes
    and other clusters several paths lead to one person. There the reproduction number and the
    growth rate are upper bounds: they hold for expected infections without reinfection, whatever
    the network. `overlap` measures this, and `limits` says it.

    Parameters
    ----------
    model : CompartmentModel
        All nodes begin in the susceptible compartment of the first infection.
    contacts : ContactNetwork
        Weights, layers, directions and the node attributes of the model count.
    infected : str, optional
        The compartment that newly infected nodes enter, which tells several strains apart.
    layer_factors : mapping of str to float, optional
        Factors on transmission in layers, such as ``{"school": 0.0}`` while schools are closed.

    Returns
    -------
    Reproduction
        A frozen record, shown as a card in notebooks. On a tree, or without contacts, the
        reproduction number is zero, because every chain of infections ends.

    Raises
    ------
    ModelError
        Nodes leave the susceptible compartment by themselves; several strains and none named, or
        a case of one causes cases of another; contacts that change with time; an attribute is
        missing.

    References
    ----------
    .. [1] B. Karrer, M. E. J. Newman, L. Zdeborova, Phys. Rev. Lett. 113, 208702 (2014).
    .. [2] J. Wallinga, M. Lipsitch, Proc. R. Soc. B 274, 599 (2007).

    Examples
    --------
    A case of SIR transmits along a contact with the probability 0.1 / (0.1 + 0.2), and has 9
    contacts besides the one that infected it:

    >>> import ergode
    >>> model = ergode.CompartmentModel.sir(
    ...     transmission_rate=0.1, infectious=ergode.Exponential(rate=0.2)
    ... )
    >>> contacts = ergode.ContactNetwork.random_regular(1000, degree=10, seed=1)
    >>> early = ergode.epidemics.reproduction(model, contacts)
    >>> round(early.reproduction_number, 6), round(early.growth_rate, 6)
    (3.0, 0.6)
    """
    branching, alone = _branching(model, contacts, infected, layer_factors or {})
    number = branching.radius()
    generation = branching.generation_time()
    growth = _growth(branching, number, generation)
    overlap = branching.arcs.overlap(np.minimum(branching.factors(0.0), 1.0))
    limits = []
    if overlap > _NOTICED:
        means = "" if model.recurrent else ", so that R and the growth rate are upper bounds"
        limits.append(
            f"{overlap:.0%} of second-generation infections fall on nodes that are infected "
            f"anyway{means}"
        )
    if model.recurrent:
        limits.append("nodes can be infected again, and only first infections count")
    if number > 0 and math.isnan(growth):
        limits.append("cases do not decline exponentially, because of long holding times")
    return Reproduction(
        reproduction_number=number,
        growth_rate=growth,
        doubling_time=math.log(2.0) / growth if growth else math.inf,
        generation_time=generation,
        transmissibility=_by_layer(alone(0.0), contacts),
        overlap=overlap,
        limits=tuple(limits),
    )


def scaled_to(
    model: CompartmentModel,
    contacts: ContactNetwork,
    *,
    reproduction_number: float | None = None,
    growth_rate: float | None = None,
    doubling_time: float | None = None,
) -> CompartmentModel:
    """The model with its transmission rates scaled to a reproduction number or a growth.

    Parameters
    ----------
    model : CompartmentModel
        All transmission rates are multiplied by one factor; nothing else changes.
    contacts : ContactNetwork
        As for `reproduction`.
    reproduction_number : float
        Wished reproduction number, above zero; or
    growth_rate : float
        Wished rate of exponential growth [1 / time]; or
    doubling_time : float
        Wished doubling time [time]; below zero, the time in which cases halve.

    Returns
    -------
    CompartmentModel
        Its rates are in ``infections[0].transmission_rate``.

    Raises
    ------
    ModelError
        Not exactly one wish; it cannot be had at any rate, because an infected node infects at most
        its contacts; the model has several strains or rates of zero; or as for `reproduction`.

    Examples
    --------
    >>> import ergode
    >>> model = ergode.CompartmentModel.sir(
    ...     transmission_rate=1.0, infectious=ergode.Exponential(rate=0.2)
    ... )
    >>> contacts = ergode.ContactNetwork.random_regular(1000, degree=10, seed=1)
    >>> model = ergode.epidemics.scaled_to(model, contacts, reproduction_number=3.0)
    >>> round(model.infections[0].transmission_rate["I"], 9)
    0.1
    """
    wishes = {
        "reproduction_number": reproduction_number,
        "growth_rate": growth_rate,
        "doubling_time": doubling_time,
    }
    given = {name: value for name, value in wishes.items() if value is not None}
    if len(given) != 1:
        raise ModelError(
            f"scaled_to was given {', '.join(given) or 'no target'}; expected one of "
            + ", ".join(wishes)
        )
    ((name, value),) = given.items()
    kind = {"reproduction_number": " above zero", "doubling_time": " that is not zero"}
    least = {"reproduction_number": 0.0}.get(name, -math.inf)
    if not is_finite_number(value) or value <= least or (name == "doubling_time" and value == 0):
        raise ModelError(f"{name} is {value!r}; expected a finite number{kind.get(name, '')}")
    branching, _ = _branching(model, contacts, None)
    if branching.radius() == 0:
        raise ModelError(
            "no rate gives this epidemic a reproduction number: the rates or all weights are zero, "
            "or the network is a tree, in which every chain of infections ends"
        )
    rate, wanted = 0.0, 0.0
    if name == "reproduction_number":
        wanted = math.log(value)
    else:
        rate = value if name == "growth_rate" else math.log(2.0) / value

    def excess(factor: float) -> float:
        found = branching.radius(float(rate), math.exp(factor))
        return min(_HUGE, math.log(found) - wanted) if found > 0 else -_HUGE

    factor = _root(excess, 1.0)
    if factor is None:
        raise ModelError(_out_of_reach(branching, name, float(value), float(rate)))
    scale = math.exp(factor)
    scaled = [
        replace(i, transmission_rate={n: r * scale for n, r in i.transmission_rate.items()})
        for i in model.infections
    ]
    return replace(model, infections=scaled)


def _branching(
    model: CompartmentModel,
    contacts: ContactNetwork,
    infected: str | None,
    layer_factors: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Branching, ByClass]:
    """The operator of early generations, and the transform along each arc of the network."""
    if not isinstance(model, CompartmentModel):
        raise ModelError(f"model is {type(model).__name__}; expected a CompartmentModel")
    if not isinstance(contacts, ContactNetwork):
        computed = isinstance(contacts, ComputedNetwork)
        raise ModelError(
            f"contacts is {type(contacts).__name__}; a reproduction number needs a ContactNetwork, "
            + ("such as contacts.stored(simple=True)" if computed else "whose contacts last")
        )
    entered, classes = infected_of(model, infected), classes_of(model, contacts)
    model = _with_factors_of(model, entered)
    transforms = [
        partial(
            transform, stages_of(model, entered, {d: int(e[k]) for d, e in classes.entry.items()})
        )
        for k in range(classes.class_count)
    ]
    weights = arc_weights(model, contacts)
    plain = np.ones(contacts.arc_count) if weights is None else np.asarray(weights, float)
    if layer_factors:
        plain = plain * _factors_of_arcs(contacts, layer_factors)
    arcs = Arcs(contacts.offsets, contacts.targets, plain, mirrored=not contacts.directed)
    of_arcs = classes.of_node
    if classes.class_count > 1:
        of_arcs = np.repeat(classes.of_node, contacts.degrees())
    return Branching(arcs, transforms, classes.of_node), ByClass(transforms, plain, of_arcs)


def _factors_of_arcs(contacts: ContactNetwork, factors: Mapping[str, float]) -> Any:
    """The factor of the layer of each arc, [arc_count] or one number."""
    found = np.ones(max(1, len(contacts.layers)))
    for name, factor in factors.items():
        if not (is_finite_number(factor) and factor >= 0):
            raise ModelError(
                f"the factor of layer '{name}' is {factor!r}; expected a finite number, "
                "zero or more"
            )
        found[layer_index(contacts, name, "layer_factors")] = factor
    return found[0] if contacts.layer is None else found[np.asarray(contacts.layer)]


def _with_factors_of(model: CompartmentModel, entered: str) -> CompartmentModel:
    """The model in which all infections have the factors of those that lead to a compartment."""
    if not model.has_own_factors:
        return model
    susceptible = model.infections[0].susceptible
    causes = [i for i in model.infections if (i.susceptible, i.infected) == (susceptible, entered)]
    given = {name: getattr(causes[0], name) for name in ("susceptibility", "infectivity")}
    if any(getattr(one, name) != given[name] for one in causes for name in given):
        raise ModelError(
            f"the infections that lead to '{entered}' differ in susceptibility or infectivity; a "
            "reproduction number needs equal ones, so that each arc has one weight"
        )
    return replace(model, infections=[replace(one, **given) for one in model.infections])


def _growth(branching: Branching, number: float, generation: float) -> float:
    """The growth rate at which the spectral radius is one; NaN without such a rate."""
    if number == 0 or not math.isfinite(generation):
        return math.nan
    if number == 1:
        return 0.0

    def excess(r: float) -> float:
        found = branching.radius(r / generation)
        return min(_HUGE, math.log(found)) if found > 0 else -_HUGE

    root = _root(lambda r: -excess(r), math.log(number))
    # The radius may jump from below one to infinity.
    if root is None or abs(excess(root)) > 1e-6:
        return math.nan
    return root / generation


def _root(function: Callable[[float], float], guess: float) -> float | None:
    """Where a function that does not decrease is zero, searched from zero towards `guess`."""
    from scipy.optimize import brentq

    at, value = 0.0, function(0.0)
    if value == 0:
        return 0.0
    width = max(abs(guess), 1e-3) * (-1.0 if value > 0 else 1.0)
    for _ in range(_DOUBLINGS):
        beyond = at + width
        if abs(beyond) > _HUGE / 2:
            return None
        other = function(beyond)
        if other == 0:
            return beyond
        if (other > 0) != (value > 0):
            low, high = sorted((at, beyond))
            return float(brentq(function, low, high, xtol=1e-9, rtol=1e-9))
        at, width = beyond, width * 1.5
    return None


def _out_of_reach(branching: Branching, name: str, value: float, rate: float) -> str:
    if name == "reproduction_number":
        return (
            f"reproduction_number is {value:g}; with these contacts it is at most "
            f"{branching.reach:.6g}, when every contact of an infectious node is infected"
        )
    if math.isinf(branching.radius(rate, math.exp(-_HUGE / 4))):
        return (
            f"{name} is {value:g}; no transmission rate gives that: a holding time has a longer "
            f"tail than exp({rate:g} t)"
        )
    return (
        f"{name} is {value:g}; no transmission rate gives that with these contacts and holding "
        f"times: a case infects at most {branching.reach:.6g} others"
    )


def _by_layer(by_arc: np.ndarray, contacts: ContactNetwork) -> dict[str, float]:
    """Mean transmissibility of the arcs of each layer, each by itself."""
    if contacts.layer is None:
        return {_ALL: float(by_arc.mean()) if by_arc.size else math.nan}
    layer: Any = contacts.layer
    count = np.bincount(layer, minlength=len(contacts.layers))
    means = np.bincount(layer, by_arc, len(contacts.layers)) / np.where(count, count, math.nan)
    return dict(zip(contacts.layers, means.tolist(), strict=True))
