"""Cases of ``ergode warm``: small public calls that compile kernels and store them on disk.

A record names an engine and the kernels that it compiles.  Records are derived from the engines'
tables of methods, so a new method needs no record here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ergode
from ergode.density.methods import SchemeName
from ergode.epidemics import methods as epidemic_methods
from ergode.epidemics.scenario import Scenario
from ergode.kinetics import methods as kinetic_methods
from ergode.stochastic import methods as stochastic_methods


@dataclass(frozen=True)
class Case:
    """A set of kernels to compile."""

    engine: str
    name: str  # name of a method and of a kind of model
    run: Callable[[str], None]  # ``run(device)`` makes the calls
    targets: tuple[str, ...] = ("cpu", "cuda")  # targets on which it runs


# ---- epidemics: kernels with all families of holding times, which any model can use

_HOLDING_TIMES: dict[str, list[ergode.HoldingTime]] = {
    "all holding times": [
        ergode.Exponential(mean=5), ergode.Gamma(mean=5, sd=3), ergode.LogNormal(mean=5, median=4),
        ergode.Weibull(mean=5, sd=3), ergode.Deterministic(5), ergode.Empirical([4, 6], [0, 1]),
    ],
    "exponential": [ergode.Exponential(mean=5), ergode.Exponential(mean=7)],
}  # fmt: skip


def _epidemics() -> Iterator[Case]:
    scenario = Scenario(_contacts(False))
    for method in epidemic_methods.METHODS.values():
        family = next(
            name for name in _HOLDING_TIMES
            if method.why_unsupported(_stages(name), scenario, False) is None
        )  # fmt: skip
        run = partial(_run_epidemic, method.name, family, method.line_lists)
        yield Case("epidemics", f"{method.name}, {family}", run, method.devices)


def _stages(family: str) -> ergode.CompartmentModel:
    """A chain of infectious stages, one for each holding time."""
    stays = _HOLDING_TIMES[family]
    names = [f"I{number}" for number in range(len(stays))]
    return ergode.CompartmentModel(
        ["S", *names, "R"],
        [ergode.Infection("S", "I0", dict.fromkeys(names, 0.1))],
        [
            ergode.Progression(name, after, stay)
            for name, after, stay in zip(names, [*names[1:], "R"], stays, strict=True)
        ],
    )


def _contacts(weighted: bool) -> ergode.ContactNetwork:
    pairs = [(i, (i + hop) % 20) for i in range(20) for hop in (1, 3)]
    source, target = zip(*pairs, strict=True)
    weights = [0.5] * len(pairs) if weighted else None
    return ergode.ContactNetwork.from_edges(source, target, 20, weights=weights)


def _run_epidemic(method: Any, family: str, lists: bool, device: str) -> None:
    outputs: list[Any] = ["counts", *(["line_list"] if lists else [])]
    for weighted in (False, True):
        for output in outputs:
            ergode.epidemics.simulate(
                _stages(family), _contacts(weighted), initial={"I0": 2}, times=range(3),
                replicates=2, method=method, output=output, device=device,
            )  # fmt: skip


# ---- stochastic: kernels that work on tables, which any network can use


def _stochastic() -> Iterator[Case]:
    by_algorithm: dict[int, list[str]] = {}
    for method in stochastic_methods.METHODS.values():
        by_algorithm.setdefault(id(method.algorithm), []).append(method.name)
    for names in by_algorithm.values():
        yield Case("stochastic", ", ".join(names), partial(_run_reactions, names, 70))
    yield Case("stochastic", "direct, small networks", _run_small_networks, ("cpu",))
    yield Case("stochastic", "next-subvolume", _run_space)


def _run_small_networks(device: str) -> None:
    for count in (2, 3):  # the first network has its own kernel; later networks share one
        _run_reactions(["direct"], count, device)


def _run_space(device: str) -> None:
    for events in ([], [ergode.Event(ergode.Expression("time > 1"), {"A": 0})]):
        decay = ergode.ReactionNetwork(
            {"A": 1}, [ergode.Reaction("A -> 0", rate_constant=1.0)], events=events
        )
        space = ergode.ReactionDiffusion(decay, (2,), diffusion={"A": 1.0})
        ergode.stochastic.simulate_space(space, times=[0, 0.1], device=device)


def _run_reactions(methods: Sequence[Any], count: int, device: str) -> None:
    names = [f"S{i}" for i in range(count)]
    chain = [
        ergode.Reaction(f"{one} -> {other}", rate_constant=1.0)
        for one, other in zip(names, [*names[1:], names[0]], strict=True)
    ]
    network = ergode.ReactionNetwork(dict.fromkeys(names, 5), chain)
    for method in methods:
        ergode.stochastic.simulate(
            network, times=[0, 0.1], replicates=2, method=method, device=device
        )


# ---- kinetics: a kernel per kind of network and of heating; implicit methods share them


def _kinetics() -> Iterator[Case]:
    methods = kinetic_methods.METHODS.values()
    implicit = [method.name for method in methods if method.implicit]
    explicit = [method.name for method in methods if not method.implicit]
    volume, pressure = {"heating": "constant-volume"}, {"heating": "constant-pressure"}
    for kind, make, options in (
        ("rate constants", _constants, {}),
        ("molecules", _molecules, {}),
        ("molecules at constant volume", _molecules, volume),
        ("molecules at constant pressure", _molecules, pressure),
        ("nuclei with screening", _nuclei, {"screening": "chugunov"}),
        ("nuclei at constant volume", _nuclei, volume),
    ):
        for names in (implicit, *([name] for name in explicit if "heating" not in options)):
            run = partial(_run_kinetics, names, make, options)
            yield Case("kinetics", f"{kind}, {', '.join(names)}", run)


def _run_kinetics(
    methods: Sequence[Any], make: Callable[[], Any], options: dict[str, Any], device: str
) -> None:
    network, conditions = make()
    for method in methods:
        ergode.kinetics.integrate(
            network, times=[0, 1e-9], method=method, device=device, **conditions, **options
        )


def _constants() -> tuple[ergode.ReactionNetwork, dict[str, Any]]:
    network = ergode.ReactionNetwork(
        {"A": 1, "B": 0},
        [ergode.Reaction("A -> B", rate_constant=2), ergode.Reaction("B -> A", rate_constant=1)],
    )
    return network, {}


def _molecules() -> tuple[ergode.ReactionNetwork, dict[str, Any]]:
    row = (2.5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    species = [
        ergode.Species(name, thermochemistry=ergode.NasaPolynomials(row, row, 1e3, {"H": atoms}))
        for name, atoms in (("H", 1), ("H2", 2))
    ]
    law = ergode.ThreeBody(ergode.Arrhenius(1e18, -1.0, 0.0), (("H2", 2.0),))
    reactions = [
        ergode.Reaction("2 H -> H2", rate_constant=law),
        ergode.Reaction("H2 -> 2 H", rate_constant=ergode.DetailedBalance(law)),
    ]
    conditions = {"temperature": 1500.0, "pressure": 1e6, "initial": {"H": 0.5, "H2": 0.5}}
    return ergode.ReactionNetwork(species, reactions), conditions


def _nuclei() -> tuple[ergode.ReactionNetwork, dict[str, Any]]:
    nuclei = (("c12", 12, 6, 0.0), ("mg24", 24, 12, -13.933))
    species = [
        ergode.Species(
            name, mass_number=mass, charge_number=charge, thermochemistry=ergode.Nucleus(excess)
        )
        for name, mass, charge, excess in nuclei
    ]
    law = ergode.Reaclib(((60.9649, 0, -84.165, -1.56627, -0.0736084, -0.072797, -2 / 3),), 0.5)
    network = ergode.ReactionNetwork(species, [ergode.Reaction("2 c12 -> mg24", rate_constant=law)])
    conditions = {"temperature": 2e9, "density": 1e7, "initial": {"c12": 1.0}}
    return network, conditions


# ---- vector fields: on a GPU a kernel contains its field, so the library's are compiled

_FIELDS: dict[str, Callable[[], ergode.VectorField]] = {
    name: getattr(ergode.fields, name)
    for name in (
        "duffing", "lorenz63", "ornstein_uhlenbeck", "pendulum", "planar_three_body", "rotation",
        "three_body", "two_body", "van_der_pol",
    )
}  # fmt: skip
_FIELDS["lorenz63, centred"] = partial(ergode.fields.lorenz63, centred=True)


def _trajectories() -> Iterator[Case]:
    for name, make in _FIELDS.items():
        yield Case("trajectories", name, partial(_run_trajectories, make))


def _run_trajectories(make: Callable[[], ergode.VectorField], device: str) -> None:
    field = make()
    for step in (None, 1e-3):
        ergode.trajectories.integrate(
            field, times=[0, 1e-3], step=step, device=device,
            initial=dict(zip(field.variables, _state(field), strict=True)),
            parameters=dict.fromkeys(field.parameters, 0.5),
        )  # fmt: skip


def _density() -> Iterator[Case]:
    for name, make in _FIELDS.items():
        yield Case("density", name, partial(_run_density, make))


def _run_density(make: Callable[[], ergode.VectorField], device: str) -> None:
    field = make()
    prior = ergode.Gaussian(_state(field), [1e-4] * len(field.variables))
    schemes: tuple[SchemeName, ...] = ("split", "flow")
    for scheme in schemes:
        ergode.density.propagate(
            field, prior, times=[0, 1e-6], width=0.01, device=device, scheme=scheme,
            parameters=dict.fromkeys(field.parameters, 0.5),
        )  # fmt: skip


def _state(field: ergode.VectorField) -> list[float]:
    """A point away from the singularities of a field."""
    return [1.0 + math.sqrt(k + 2.0) for k in range(len(field.variables))]


ENGINES: dict[str, Callable[[], Iterator[Case]]] = {
    "epidemics": _epidemics,
    "stochastic": _stochastic,
    "kinetics": _kinetics,
    "trajectories": _trajectories,
    "density": _density,
}
