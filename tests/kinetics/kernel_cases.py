"""Networks and kernels that several tests run."""

import ergode
from ergode.core.devices import resolve
from ergode.kinetics.block.schedule import block_system_of
from ergode.kinetics.conditions import zones_of
from ergode.kinetics.explicit import asymptotic
from ergode.kinetics.explicit import runner as explicit
from ergode.kinetics.explicit.flows import explicit_system_of
from ergode.kinetics.implicit import runner as implicit
from ergode.kinetics.implicit.system import coupled, system_of
from ergode.kinetics.launch import bindings_of, matter_bindings
from ergode.kinetics.methods import METHODS
from ergode.kinetics.network.to_tables import to_tables
from ergode.kinetics.tolerances import absolute_tolerances

EXPLICIT = tuple(name for name, method in METHODS.items() if not method.implicit)


def chain(count):
    """A network that is too large to be all tail, with a species that all others make."""
    names = [f"s{i}" for i in range(count)]
    reactions = [
        ergode.Reaction(f"{a} + {names[0]} -> {b}", rate_constant=1.0 + 0.1 * i)
        for i, (a, b) in enumerate(zip(names[1:], names[2:], strict=False))
    ]
    reactions += [
        ergode.Reaction(f"{b} -> {a} + {names[0]}", rate_constant=30.0 / (i + 1))
        for i, (a, b) in enumerate(zip(names[1:], names[2:], strict=False))
    ]
    return ergode.ReactionNetwork(dict.fromkeys(names, 0.0), reactions)


ROBERTSON = ergode.ReactionNetwork(
    {"A": 1, "B": 0, "C": 0},
    [
        ergode.Reaction("A -> B", rate_constant=0.04),
        ergode.Reaction("2 B -> B + C", rate_constant=3e7),
        ergode.Reaction("B + C -> A + C", rate_constant=1e4),
    ],
)


CHAIN = chain(56)


CARBON = ergode.ReactionNetwork(
    [
        ergode.Species(name, mass_number=a, charge_number=z, thermochemistry=ergode.Nucleus(excess))
        for name, a, z, excess in (("c12", 12, 6, 0.0), ("mg24", 24, 12, -13.933))
    ],
    [
        ergode.Reaction(
            "2 c12 -> mg24",
            rate_constant=ergode.Reaclib(
                [(60.9649, 0, -84.165, -1.56627, -0.0736084, -0.072797, -2 / 3)], 0.5
            ),
        )
    ],
)
"""Carbon that burns to magnesium."""


_ROW = (2.5, 0.0, 0.0, 0.0, 0.0, -745.0, 4.37)
ARGON = ergode.ReactionNetwork(
    [ergode.Species("AR", thermochemistry=ergode.NasaPolynomials(_ROW, _ROW, 1e3, {"Ar": 1}))], []
)


FORMULAS = ergode.ReactionNetwork(
    {"A": 1, "B": 0, "C": 0},
    [
        ergode.Reaction("A -> B", rate_constant=ergode.RateExpression("k * (A + 2 * B) / (1 + C)")),
        ergode.Reaction(
            "B -> C", rate_constant=ergode.RateExpression("0.5 * exp(-A) + sqrt(B + 0.01)")
        ),
        ergode.Reaction("C -> A", rate_constant=0.3),
    ],
    parameters={"k": 2.0},
)


LAW = ergode.Reaclib([(1.0, -0.5, 0, 0, 0, 0, 0.3)])
TABLE = ergode.TemperatureTable([1e8, 8e8, 2e9, 1e10], [-1.0, 0.5, 1.0, 1.5])
CURVE = ergode.TemperatureTable([5e8, 1.5e9, 2e9], [0.1, 0.3, 0.2], [1e-10] * 3, logarithmic=False)
WITH_TABLES = ergode.ReactionNetwork(
    {"A": 1, "B": 0, "C": 0},
    [
        ergode.Reaction("2 A -> B", rate_constant=ergode.Tabulated([TABLE, CURVE], LAW)),
        ergode.Reaction(
            "A + B -> C",
            rate_constant=ergode.Branching(
                ergode.Tabulated(TABLE, LAW), [LAW, ergode.Tabulated(CURVE), 0.5], 0.2
            ),
        ),
        ergode.Reaction("C -> 3 A", rate_constant=0.3),
    ],
)
"""Factors on tables of temperature, and a sequence that is left out."""


CASES = {
    "formulas": (FORMULAS, {"A": 1.0, "B": 0.2}, 1.0, 32),
    "robertson": (ROBERTSON, {"A": 1.0}, 1e-2, 32),
    "chain": (CHAIN, {"s0": 1.0, "s1": 0.7}, 1.0, 64),
}


def burning():
    """A few molecules, with third bodies, a mixture and reverse reactions."""
    kinds = {"H": (2.5, -700.0), "OH": (3.0, 3e3), "H2O": (4.0, -3e4), "H2": (3.5, -1e3)}
    made = {"H": {"H": 1}, "OH": {"O": 1, "H": 1}, "H2O": {"O": 1, "H": 2}, "H2": {"H": 2}}
    species = []
    for name, (heat, energy) in kinds.items():
        row = (heat, 1e-4, 0.0, 0.0, 0.0, energy, 1.0)
        gas = ergode.NasaPolynomials(row, row, 1000.0, made[name])
        species.append(ergode.Species(name, thermochemistry=gas))
    weak = ergode.ThreeBody(ergode.Arrhenius(1e18, -1.0, 0.0), {"H2O": 6.0, "H2": 0.0})
    fall = ergode.Falloff(
        ergode.Arrhenius(1e22, -2.0, 0.0), ergode.Arrhenius(1e14, 0.0, 0.0), {"H2": 2.0},
        troe=(0.6, 100.0, 1e4),
    )  # fmt: skip
    mixed = ergode.LinearBurke(
        ergode.Falloff(ergode.Arrhenius(1e22, -2.0), ergode.Arrhenius(1e14), troe=(0.6, 1e2, 1e4)),
        {"H2": ergode.Arrhenius(0.2, 0.4, -50.0), "H2O": 6.0},
        {"H2O": ergode.PressureLog([(1e4, ergode.Arrhenius(1e9)), (1e7, ergode.Arrhenius(1e12))])},
    )
    reactions = []
    for text, law in (
        ("2 H -> H2", weak), ("H + OH -> H2O", fall), ("H + OH -> H2O", mixed),
        ("H2 + OH -> H2O + H", ergode.Arrhenius(1e10, 1.0, 2e3)),
    ):  # fmt: skip
        left, right = text.split(" -> ")
        reactions += [
            ergode.Reaction(text, rate_constant=law),
            ergode.Reaction(f"{right} -> {left}", rate_constant=ergode.DetailedBalance(law)),
        ]
    return ergode.ReactionNetwork(species, reactions)


def launch_of(network, initial, threads, method, rtol=1e-2, limit=60, **conditions):
    """A kernel for a block of so many threads, with tables on the host."""
    mechanism = to_tables(network)
    zones = zones_of(
        network, mechanism, initial=initial, rtol=rtol,
        **dict.fromkeys(("temperature", "density", "pressure", "heating")) | conditions,
    )  # fmt: skip
    bindings = bindings_of(mechanism, zones)
    absolute = absolute_tolerances(mechanism, zones, None, rtol)
    device, run_by = resolve("cpu:1"), METHODS[method].runner
    if method in EXPLICIT:
        how = asymptotic.Control(0.01, 1e-7, True, False)
        system = explicit_system_of(mechanism, blocks=True)
        launch = explicit.block_launch(device, bindings, system, how, limit, threads=threads)
    else:
        case = zones.heating, zones.flow, zones.moving
        pattern, _ = coupled(mechanism, *case)
        alone = system_of(mechanism, absolute, heating=case[0], flow=case[1], moving=case[2])
        system = block_system_of(alone, pattern, threads)
        launch = implicit.block_launch(
            device,
            bindings | matter_bindings(mechanism, zones),
            system,
            run_by.tableau,
            (rtol, limit),
            threads=threads,
        )
    return mechanism, zones, launch
