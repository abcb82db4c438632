"""The calls that must not become slower: one for each engine, method and way of calling.

Each function takes a device and returns a warm public call.  `scripts/ratchet.py` runs them with
two trees in turn, so they use what both trees know, and need no peers and no files.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import calls
import density as densities
import epidemic_cases as epidemic
import numpy as np
import reaction_networks
import trajectories as fields

import ergode

Call = Callable[[], Any]
CASES: dict[str, Callable[[str], Call]] = {}
"""Maker of the call by name."""


def case(name: str) -> Callable[[Callable[[str], Call]], Callable[[str], Call]]:
    """Enter a maker under a name."""

    def enter(make: Callable[[str], Call]) -> Callable[[str], Call]:
        CASES[name] = make
        return make

    return enter


def known(function: Callable[..., Any], *arguments: Any, **options: Any) -> Call:
    """A call without the options that a tree does not have: it does what they ask for."""
    names = inspect.signature(function).parameters
    return partial(
        function, *arguments, **{name: value for name, value in options.items() if name in names}
    )


def sized(device: str, on_core: int, on_gpu: int) -> int:
    """A size for the device."""
    return on_gpu if device.startswith("cuda") else on_core


# ---- epidemics


def _epidemic(
    model: Any, method: str, on_core: int, on_gpu: int, named: str = "", **options: Any
) -> None:
    def make(device: str) -> Call:
        contacts = epidemic.erdos_renyi(sized(device, on_core, on_gpu))
        given = {"initial": {"I": 100}, "method": method} | options
        return epidemic.call(device, model, contacts, 4, **given)

    CASES[f"epidemics {method}{named}" + "".join(f", {one}" for one in options)] = make


_epidemic(epidemic.SEIR, "first-passage", 20_000, 1_000_000)
_epidemic(epidemic.SEIRS, "sellke", 10_000, 300_000)
_epidemic(epidemic.SIS, "sellke", 3_000, 300_000, ", SIS")  # all nodes have infectious neighbours
_epidemic(epidemic.SIS, "gillespie", 3_000, 30_000)
_epidemic(epidemic.SIS, "markov-leap", 3_000, 300_000, step=0.1)
_epidemic(epidemic.SEIR, "renewal-leap", 3_000, 300_000, step=0.1)
_ISOLATION = ergode.Isolation("I", fraction=0.8, delay=2, start=ergode.Trigger("I", 500))
_epidemic(epidemic.SEIR, "sellke", 10_000, 300_000, interventions=[_ISOLATION])


@case("epidemics sweep")
def epidemic_sweep(device: str) -> Call:
    """A rate for each of many small epidemics."""
    contacts = epidemic.erdos_renyi(1_000)
    rates = np.linspace(0.05, 0.5, sized(device, 200, 10_000))

    def model(rate: Any) -> ergode.CompartmentModel:
        return ergode.CompartmentModel.seir(
            transmission_rate=rate, latent=epidemic.LATENT, infectious=epidemic.INFECTIOUS
        )

    return partial(
        ergode.epidemics.simulate, model, contacts, parameters={"rate": rates}, initial={"I": 5},
        times=range(41), device=device,
    )  # fmt: skip


@case("epidemics meetings")
def epidemic_meetings(device: str) -> Call:
    """Temporal contacts."""
    rng = np.random.default_rng(1)
    people, count = 200, 20_000
    source = rng.integers(0, people, count)
    target = (source + rng.integers(1, people, count)) % people
    begin = rng.uniform(0, 30, count)
    contacts = ergode.TemporalContacts.from_meetings(source, target, begin, begin + 0.1)
    model = ergode.CompartmentModel.seir(
        transmission_rate=1.0, latent=epidemic.LATENT, infectious=epidemic.INFECTIOUS
    )
    return epidemic.call(
        device, model, contacts, sized(device, 100, 500), initial={"I": 3}, times=range(31)
    )


# ---- stochastic


def _reactions(
    method: str, network: Call, end: float, on_core: int, on_gpu: int, **how: Any
) -> None:
    def make(device: str) -> Call:
        return partial(
            ergode.stochastic.simulate, network(), times=np.linspace(0, end, 11), seed=1,
            replicates=sized(device, on_core, on_gpu), output="statistics", device=device,
            method=method, **how,
        )  # fmt: skip

    CASES[f"stochastic {method}"] = make


_BIRTH_DEATH = reaction_networks.birth_death
_CHAIN = partial(reaction_networks.cyclic_chain, 200)
_reactions("direct", _BIRTH_DEATH, 10.0, 1_000, 500_000)
_reactions("partial-propensity", _CHAIN, 0.2, 10, 2_000)
_reactions("composition-rejection", _CHAIN, 0.2, 10, 2_000)
_reactions("rejection-bounds", _CHAIN, 0.2, 10, 2_000)
_reactions("next-reaction", _CHAIN, 0.2, 10, 2_000)
_reactions("tau-leap", _BIRTH_DEATH, 10.0, 1_000, 500_000)
_reactions("langevin", _BIRTH_DEATH, 10.0, 1_000, 500_000)
_reactions("hybrid", reaction_networks.growing_cell, 10.0, 50, 20_000)


@case("stochastic warp-direct")
def thread_groups(device: str) -> Call:
    """A realization for each group of threads; on a core the clock of Vilar by `auto`."""
    network = _CHAIN() if device.startswith("cuda") else reaction_networks.vilar()
    return partial(
        ergode.stochastic.simulate, network, times=np.linspace(0, 1, 11), seed=1,
        replicates=sized(device, 10, 2_000), output="statistics", device=device,
        method="warp-direct" if device.startswith("cuda") else "auto",
    )  # fmt: skip


# ---- kinetics


def _robertson() -> ergode.ReactionNetwork:
    return ergode.ReactionNetwork(
        {"A": 1, "B": 0, "C": 0},
        [
            ergode.Reaction("A -> B", rate_constant=0.04),
            ergode.Reaction("2 B -> B + C", rate_constant=3e7),
            ergode.Reaction("B + C -> A + C", rate_constant=1e4),
        ],
    )


def _zones(method: str, end: float, on_core: int, on_gpu: int, **how: Any) -> None:
    def make(device: str) -> Call:
        zones = np.linspace(0.5, 1, sized(device, on_core, on_gpu))
        return known(
            ergode.kinetics.integrate, _robertson(), times=[0, end], initial={"A": zones},
            device=device, method=method, **how,
        )  # fmt: skip

    CASES[f"kinetics {method}"] = make


_zones("rodas4", 1e6, 1_000, 100_000)
_zones("bdf", 1e6, 500, 20_000)
_zones("rosenbrock23", 1e6, 1_000, 100_000)
_zones("asymptotic", 0.3, 10, 10_000, max_steps=10**6)


# ---- trajectories


def _fixed(name: str, precision: str = "float64") -> None:
    def make(device: str) -> Call:
        field, history, initial, given, (swept, low, high), span, step = fields.CASES[name]
        values = np.linspace(low, high, sized(device, 1_024, 262_144))
        return partial(
            fields.integrate, field, times=[0.0, span / 4], initial=initial, history=history,
            step=step, parameters={**given, swept: values}, method="rk4", precision=precision,
            device=device,
        )  # fmt: skip

    CASES[f"trajectories rk4, {name}, {precision}"] = make


for _name in ("lorenz", "mackey-glass", "logistic2", "delayed-lorenz"):
    _fixed(_name)
_fixed("lorenz", "float32")
_fixed("mackey-glass", "float32")


def _adaptive(
    name: str, field: Any, span: float, count: tuple[int, int], initial: Any, given: Any, **how: Any
) -> None:
    def make(device: str) -> Call:
        return partial(
            fields.integrate, field, times=[0.0, span], initial=initial,
            parameters=given(sized(device, *count)), device=device, **how,
        )  # fmt: skip

    CASES[f"trajectories {name}"] = make


def _rho(count: int) -> dict[str, Any]:
    return {"sigma": 10.0, "rho": np.linspace(0, 28, count), "beta": 8 / 3}


def _beta(count: int) -> dict[str, Any]:
    return {"beta": np.linspace(0.15, 0.25, count), "gamma": 0.1, "tau": 17.0}


def _stiffness(count: int) -> dict[str, Any]:
    return {"mu": np.linspace(100, 1_000, count)}


_ONES = {"x": 1.0, "y": 1.0, "z": 1.0}
_LORENZ = fields.CASES["lorenz"][0]
for _method, _tolerance in (("tsit5", 1e-8), ("dopri5", 1e-8), ("dop853", 1e-10)):
    _adaptive(
        f"{_method}, lorenz", _LORENZ, 10.0, (2_048, 2**19), _ONES, _rho, rtol=_tolerance,
        atol=_tolerance, method=_method,
    )  # fmt: skip
_adaptive(
    "tsit5, lorenz, float32", _LORENZ, 10.0, (4_096, 2**20), _ONES, _rho, rtol=1e-5, atol=1e-5,
    method="tsit5", precision="float32",
)  # fmt: skip
_adaptive(
    "tsit5, mackey-glass", fields.MACKEY_GLASS, 170.0, (4_096, 262_144), {"y": 1.2}, _beta,
    rtol=1e-5, atol=1e-5, method="tsit5",
)  # fmt: skip
_adaptive(
    "tsit5, mackey-glass, float32", fields.MACKEY_GLASS, 170.0, (4_096, 262_144), {"y": 1.2},
    _beta, rtol=1e-4, atol=1e-4, method="tsit5", precision="float32",
)  # fmt: skip
_VAN_DER_POL = ergode.field_from_equations({"x": "v", "v": "mu * (1 - x**2) * v - x"})
for _method in ("rodas5p", "radau5"):
    _adaptive(
        f"{_method}, van der pol", _VAN_DER_POL, 2_000.0, (100, 20_000), {"x": 2.0, "v": 0.0},
        _stiffness, method=_method,
    )  # fmt: skip
_adaptive("auto, van der pol", _VAN_DER_POL, 200.0, (100, 20_000), {"x": 2.0, "v": 0.0}, _stiffness)


def _height(t, y, p):
    return y[0]


def _rebound(t, y, p):
    return y[0], -0.9 * y[1]


def _far_below(t, y, p):
    return y[0] + 10


_FALLING = ergode.field_from_equations({"h": "v", "v": "-g"})
_SWINGING = ergode.field_from_equations({"x": "v", "v": "-k * x"})


@case("trajectories tsit5, an event")
def bouncing(device: str) -> Call:
    """A ball that loses a tenth of its speed."""
    ground = ergode.trajectories.ZeroCrossing(_height, -1, effect=_rebound)
    return partial(
        fields.integrate, _FALLING, times=[0.0, 5.0], initial={"h": 1.0, "v": 0.0}, method="tsit5",
        parameters={"g": np.linspace(5, 10, sized(device, 1_000, 100_000))}, events=[ground],
        device=device,
    )  # fmt: skip


@case("trajectories tsit5, a terminal event that does not occur")
def swinging(device: str) -> Call:
    """An oscillator that never reaches the level at which it would stop."""
    level = ergode.trajectories.ZeroCrossing(_far_below, -1, terminal=True)
    return partial(
        fields.integrate, _SWINGING, times=[0.0, 20.0], initial={"x": 1.0, "v": 0.0},
        method="tsit5", device=device, events=[level],
        parameters={"k": np.linspace(1, 4, sized(device, 4_000, 400_000))},
    )  # fmt: skip


_PRICE = ergode.field_from_equations({"x": "r * x"}, diffusion={"x": "s * x"})


@case("trajectories noise, adaptive steps")
def priced(device: str) -> Call:
    """Geometric Brownian motion to a tolerance."""
    return partial(
        fields.integrate, _PRICE, times=[0.0, 1.0], initial={"x": 1.0}, device=device, rtol=1e-3,
        parameters={"r": 0.5, "s": 0.8}, replicates=sized(device, 200, 200_000),
    )  # fmt: skip


def _weather(name: str, count: tuple[int, int], size: int = 40, **how: Any) -> None:
    def make(device: str) -> Call:
        field = ergode.VectorField(
            component=fields.lorenz_96, variables=("x", size), parameters=["F"]
        )
        first = 8.0 + np.random.default_rng(0).normal(size=(sized(device, *count), size))
        return partial(
            fields.integrate, field, times=[0.0, 5.0], initial={"x": first}, parameters={"F": 8.0},
            device=device, **how,
        )  # fmt: skip

    CASES[f"trajectories arrays, {name}"] = make


_weather("tsit5", (64, 50_000), method="tsit5", rtol=1e-6, atol=1e-6)
_weather("dop853", (64, 50_000), method="dop853", rtol=1e-9, atol=1e-9)
_weather("rk4", (64, 50_000), method="rk4", step=0.01)


def _heat(method: str, size: int, on_gpu: bool = True) -> None:
    def make(device: str) -> Call:
        if device.startswith("cuda") and not on_gpu:
            raise LookupError("not on a GPU")
        x = np.arange(1, size + 1) / (size + 1)
        field = ergode.VectorField(component=fields.warmth, variables=("x", size))
        return partial(
            fields.integrate, field, times=[0.0, 0.1], initial={"x": np.sin(np.pi * x)},
            method=method, rtol=1e-4, atol=1e-6, device=device,
        )  # fmt: skip

    CASES[f"trajectories arrays, {method}"] = make


_heat("rodas5p", 200, on_gpu=False)
_heat("rkc2", 200)


# ---- densities and particles


def _density(name: str, **how: Any) -> None:
    def make(device: str) -> Call:
        call = densities.call("lorenz63", device, **how)
        return known(call.func, *call.args, **call.keywords)

    CASES[f"density {name}"] = make


for _scheme in ("split", "corner-transport"):
    _density(_scheme, scheme=_scheme)
_density("split, float32", scheme="split", precision="float32")
_density("split, finer", scheme="split", width=0.3, threshold=5e-7)


@case("density bank")
def filters(device: str) -> Call:
    """Filters with a prior each."""
    priors = [
        ergode.Gaussian([-11.5 + 0.01 * i, -10, 9.5], [1, 1, 1])
        for i in range(sized(device, 4, 128))
    ]
    return known(
        ergode.density.propagate, ergode.fields.lorenz63(centred=True), priors, times=[0, 0.5, 1],
        parameters={"sigma": 4, "b": 1, "r": 48}, keep="none", width=1.0, threshold=5e-6,
        scheme="split", device=device, scale_threshold=False,
    )  # fmt: skip


@case("density noise")
def noisy_spring(device: str) -> Call:
    """A spring with noise on a grid."""
    return known(
        ergode.density.propagate, calls.SPRINGS[1], ergode.Gaussian([2, 0], [0.25, 0.25]),
        width=0.05, scheme="split", device=device, scale_threshold=False,
        **calls.SHAKEN,
    )  # fmt: skip


@case("density small")
def spring(device: str) -> Call:
    """A few steps of a spring without noise."""
    return known(
        ergode.density.propagate, calls.SPRINGS[1], ergode.Gaussian([1, 0], [0.25, 0.25]),
        times=[0, 0.5, 1], parameters={"k": 4}, width=0.2, scheme="split", device=device,
    )  # fmt: skip


@case("density flow")
def carried(device: str) -> Call:
    """Points that follow the flow, laid again after a measurement."""
    field, parameters, prior, measurements, *_ = densities.CASES["lorenz63"]
    return known(
        ergode.density.propagate, field, prior, times=[0, 1, 2], measurements=measurements,
        parameters=parameters, keep="none", scheme="flow", device=device,
    )  # fmt: skip


@case("density flow noise")
def carried_noisily(device: str) -> Call:
    """Gaussian cells of a spring with noise."""
    return known(
        ergode.density.propagate, calls.SPRINGS[1], ergode.Gaussian([2, 0], [0.25, 0.25]),
        keep="none", scheme="flow", device=device, **calls.SHAKEN,
    )  # fmt: skip


@case("particles")
def cloud(device: str) -> Call:
    """A filter of particles with a measurement."""
    field, parameters, prior, measurements, *_ = densities.CASES["lorenz63"]
    return partial(
        ergode.particles.propagate, field, prior, times=[0, 1, 2], measurements=measurements,
        count=sized(device, 20_000, 1_000_000), parameters=parameters, device=device,
    )  # fmt: skip


# ---- small calls, repeated, and whole ones


def _whole(engine: str, size: str) -> None:
    make = getattr(calls, engine)
    CASES[f"{size} call, {engine}"] = lambda device: make(calls.SIZES[size], device)


for _engine in calls.ENGINES:
    _whole(_engine, "tiny")
for _engine in ("epidemics", "stochastic", "kinetics", "trajectories"):
    _whole(_engine, "full size")


# ---- processes of their own: these are text that a new process runs

FIRST = {
    "first call": "{engine}(0, {device!r})",
    "new model": "{engine}(0, {device!r}, 2)",
}
"""A small call in a new process by kind; `new model` finds the kernels of two other models."""
