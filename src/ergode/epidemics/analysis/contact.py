"""When an infected node infects one contact: the Laplace transform of the moment, by the weight.

A node is infected at time 0 and enters a compartment.  In compartment c, at the age a since entry,
it infects a contact of weight w at the rate w h(a), where h is the transmission rate times the
profile.  It leaves after its holding time D, with survival S.  The moment of transmission after
entry, tau, has the transform

    L_c = E[exp(-r tau), tau finite] = a_c + k_c * sum over targets of the branching * L_target,
    a_c = int w h(t) exp(-r t - w H(t)) S(t) dt,    k_c = E[exp(-r D - w H(D))]

with H the integral of h.  At r = 0 this is the transmissibility, the probability that a contact is
infected at all.  Where h is constant, both parts follow from A(s) = int exp(-s t) S(t) dt at
s = r + w h: a_c = w h A(s), k_c = 1 - s A(s).  So it is in each piece of a profile.

References
----------
E. Kenah and J. M. Robins, "Network-based analysis of stochastic SIR epidemic models with random and
proportionate mixing", J. Theor. Biol. 249, 706 (2007).
J. Wallinga and M. Lipsitch, "How generation intervals shape the relationship between growth rates
and reproductive numbers", Proc. R. Soc. B 274, 599 (2007).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.errors import ModelError
from ergode.models.epidemic.attributes import ByAttribute
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.transitions import Infection
from ergode.models.holding_times.families import (
    Deterministic,
    Empirical,
    Exponential,
    Gamma,
    HoldingTime,
    LogNormal,
    Weibull,
)

_POINTS, _SHARES = np.polynomial.legendre.leggauss(16)
_RATIO = 1.6  # of panels that follow each other
_TAIL = 1e-17  # of the integral, beyond the last panel
_ROWS_MOST = 1000  # of a table whose rows are panels of their own
_QUANTILES = np.concatenate(
    [[1e-15, 1e-12, 1e-9, 1e-6, 1e-4], np.arange(0.005, 1, 0.045), 1 - 10.0 ** -np.arange(3, 16)]
)


@dataclass(frozen=True)
class Stage:
    """A compartment of infected nodes."""

    holding_time: HoldingTime | None  # None for ever
    # [piece_count]: from each age on, the rate of transmission across a contact of weight one [1 /
    # time].
    changes: np.ndarray
    rates: np.ndarray
    branches: np.ndarray  # [stage_count]: probability of each stage after this one


def infected_of(model: CompartmentModel, infected: str | None) -> str:
    """The compartment that a contact enters: the one the model has, or the one that is named.

    Raises a ModelError if the model has several and none is named, or the named one is not among
    them; nodes leave the susceptible compartment by themselves.
    """
    susceptible = model.infections[0].susceptible
    entered = list(
        dict.fromkeys(i.infected for i in model.infections if i.susceptible == susceptible)
    )
    if any(p.compartment == susceptible for p in model.progressions):
        raise ModelError(
            f"nodes of this model leave '{susceptible}' without being infected; a reproduction "
            "number needs nodes that stay susceptible until they are infected"
        )
    if infected is not None and infected not in entered:
        raise ModelError(
            f"infected is {infected!r}; expected a compartment that nodes in '{susceptible}' enter "
            f"by infection: {', '.join(entered)}"
        )
    if infected is None and len(entered) > 1:
        raise ModelError(
            f"infections lead from '{susceptible}' to {' and '.join(entered)}, each with a "
            f"reproduction number of its own; name one, such as infected='{entered[0]}'"
        )
    return infected or entered[0]


def stages_of(
    model: CompartmentModel, infected: str, entry: Mapping[Any, int] | None = None
) -> tuple[Stage, ...]:
    """Stages of a node that enters the compartment `infected`, that one first.

    `entry` tells, by `ByAttribute.division`, which entries of the model are the node's.

    Raises a ModelError if such nodes also cause infections that lead elsewhere.
    """

    def own(given: Any) -> Any:
        if isinstance(given, ByAttribute):
            return given.entries[(entry or {})[given.division]]
        return given

    susceptible = model.infections[0].susceptible
    if model.has_exits:
        raise ModelError(
            "nodes of this model leave a compartment at a rate before a holding time is over; a "
            "reproduction number needs models without such exits, or exponential holding times"
        )
    after = {p.compartment: p for p in model.progressions}
    ends = {i.susceptible for i in model.infections}
    names = [infected]
    for name in names:
        if name in after and name not in ends:
            split = own(after[name].to)
            names += [one for one in split if split[one] > 0 and one not in names]
    from_susceptible = [i for i in model.infections if i.susceptible == susceptible]
    for one in from_susceptible:
        if one.infected != infected and any(one.transmission_rate.get(n, 0.0) > 0 for n in names):
            raise ModelError(
                f"nodes infected to '{infected}' infect others to '{one.infected}' as well; a "
                f"reproduction number needs infections that all lead to '{infected}'"
            )
    causes = [i for i in from_susceptible if i.infected == infected]
    found = []
    for name in names:
        progression = after.get(name) if name not in ends else None
        branches = np.zeros(len(names))
        holding_time = None
        if progression is not None:
            holding_time = own(progression.holding_time)
            for target, probability in own(progression.to).items():
                if probability > 0:
                    branches[names.index(target)] = probability
        changes, rates = _rates(causes, name)
        found.append(Stage(holding_time, changes, rates, branches))
    return tuple(found)


def _rates(causes: list[Infection], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Ages at which the rate of a compartment changes, from 0 on, and the rate from each on."""
    profiles: Mapping[str, Any] = {n: p for i in causes for n, p in i.profile.items()}
    rate = sum(i.transmission_rate.get(name, 0.0) for i in causes)
    if name not in profiles or rate == 0:
        return np.zeros(1), np.array([float(rate)])
    ages = np.asarray(profiles[name].changes, float)
    changes = np.concatenate([[0.0], ages[ages > 0]])
    return changes, rate * profiles[name].at(changes)


def transform(stages: tuple[Stage, ...], r: complex, weights: np.ndarray) -> np.ndarray:
    """E[exp(-r tau), tau finite] for contacts of some weights, shape [weight_count].

    Parameters
    ----------
    stages : tuple of Stage
        From `stages_of`.
    r : float or complex
        Rate [1 / time]; where it is below zero, the result may be infinite.
    weights : ndarray of float, shape [weight_count]
        Zero or more.
    """
    count, size = len(weights), len(stages)
    kind = complex if isinstance(r, complex) else float
    direct = np.zeros((count, size), kind)
    onward = np.zeros((count, size), kind)
    with np.errstate(over="ignore", invalid="ignore"):
        for number, stage in enumerate(stages):
            direct[:, number], onward[:, number] = _parts(stage, r, weights)
        branches = np.array([stage.branches for stage in stages])
        system = np.eye(size) - onward[:, :, None] * branches
    unbounded = ~(np.isfinite(direct).all(1) & np.isfinite(system).all((1, 2)))
    system[unbounded], direct[unbounded] = np.eye(size), 0.0
    found = np.linalg.solve(system, direct[:, :, None])[:, 0, 0]
    # A negative solution is a sum that diverges, over stages that return to themselves.
    found[unbounded | (found.real < -1e-9)] = np.inf
    found[weights == 0] = 0.0
    return found


def _parts(stage: Stage, r: complex, weights: np.ndarray) -> tuple[Any, Any]:
    """The terms a and k of a stage for each weight."""
    direct: Any = 0.0
    lost: Any = 0.0
    pressure = np.zeros(len(weights))  # w H at the beginning of a piece
    ends = np.append(stage.changes[1:], math.inf)
    for start, end, rate in zip(stage.changes, ends, stage.rates, strict=True):
        if rate == 0 and stage.holding_time is None:
            continue
        s = r + weights * rate
        left = np.exp(-pressure - r * start)
        stay = left * discounted_survival(stage.holding_time, s, float(start), float(end))
        direct = direct + np.where(weights * rate > 0, weights * rate * stay, 0.0)
        lost = lost + np.where(s == 0, 0.0, s * stay)
        if end < math.inf:
            pressure = pressure + weights * rate * (end - start)
    return direct, 0.0 if stage.holding_time is None else 1.0 - lost


def discounted_survival(
    holding_time: HoldingTime | None, s: np.ndarray, start: float = 0.0, end: float = math.inf
) -> Any:
    """The integral of exp(-s (t - start)) S(t) from start to end, for each s."""
    if holding_time is None:
        return _exponential(s, end - start)
    if isinstance(holding_time, Exponential):
        rate = holding_time.rate
        return math.exp(-rate * start) * _exponential(s + rate, end - start)
    if isinstance(holding_time, Gamma) and start == 0 and end == math.inf:
        inside = s * holding_time.scale
        known = np.where(inside.real > -1, inside, 1.0)
        small = np.abs(known) < 1e-150
        safe = np.where(small, 1.0, known)
        value = -np.expm1(-holding_time.shape * np.log1p(safe)) / safe * holding_time.scale
        return np.where(inside.real > -1, np.where(small, holding_time.mean, value), np.inf)
    value = _quadrature(holding_time, s, start, end)
    if end == math.inf:
        value = np.where(s.real < -_decay(holding_time), np.inf, value)
    return value


def _exponential(s: np.ndarray, width: float) -> Any:
    """The integral of exp(-s t) from 0 to `width`."""
    if width == math.inf:
        return np.where(s.real > 0, 1.0 / np.where(s == 0, 1.0, s), np.inf)
    small = np.abs(s * width) < 1e-150
    safe = np.where(small, 1.0, s)
    return np.where(small, width, -np.expm1(-safe * width) / safe)


def _decay(holding_time: HoldingTime) -> float:
    """The largest rate at which exp(rate x holding time) may have a finite mean."""
    if isinstance(holding_time, LogNormal):
        return 0.0
    if isinstance(holding_time, Weibull) and holding_time.shape <= 1:
        return 0.0 if holding_time.shape < 1 else 1.0 / holding_time.scale
    return 1.0 / holding_time.scale if isinstance(holding_time, Gamma) else math.inf


def _quadrature(holding_time: HoldingTime, s: np.ndarray, start: float, end: float) -> np.ndarray:
    """Gauss and Legendre's rule on panels that follow the survival and the exponential."""
    edges = _panels(holding_time, s, start, end)
    half = 0.5 * np.diff(edges)
    after = (edges[:-1] + half)[:, None] + half[:, None] * _POINTS
    weight = (half[:, None] * _SHARES * holding_time.survival(start + after)).ravel()
    kept = weight != 0
    return np.exp(-s[:, None] * after.ravel()[kept]) @ weight[kept]


def _panels(holding_time: HoldingTime, s: np.ndarray, start: float, end: float) -> np.ndarray:
    """Edges of panels, in time after `start`, whose digits large s need."""
    steepest = float(np.abs(s).max(initial=0.0))
    growth = max(0.0, -float(s.real.min(initial=0.0)))
    quantiles = np.asarray(holding_time.quantile(_QUANTILES), float)
    last = float(quantiles[-1])
    if not isinstance(holding_time, Deterministic | Empirical):
        while last < end:
            left = float(holding_time.survival(last))
            if left == 0.0 or math.log(left) + growth * last < math.log(_TAIL) + min(
                0.0, math.log(holding_time.mean / last)
            ):
                break
            last *= _RATIO
    else:
        last = float(holding_time.quantile(1.0))
    last = min(last, end)
    if last <= start:
        return np.zeros(2)
    first = 1e-9 * min(float(holding_time.median) or last, 1.0 / max(steepest, 1e-300), last)
    count = max(2, math.ceil(math.log(last / first) / math.log(_RATIO)))
    grid = np.geomspace(first, last, count)
    parts = [quantiles - start, grid - start, grid]
    if isinstance(holding_time, Empirical) and holding_time.times.size <= _ROWS_MOST:
        parts.append(holding_time.times - start)
    edges = np.unique(np.concatenate(parts))
    inside = edges[(edges > 0) & (edges < last - start)]
    return np.concatenate([[0.0], inside, [last - start]])
