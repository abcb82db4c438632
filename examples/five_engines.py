"""Five engines, five small problems, one figure: five_engines.png."""

import numpy as np
from matplotlib.figure import Figure

import ergode


def epidemic():
    """200 realizations of an epidemic among 10,000 people."""
    model = ergode.CompartmentModel.seir(
        transmission_rate=0.25,  # per contact and day
        latent=ergode.LogNormal(mean=5, median=4),  # days
        infectious=ergode.LogNormal(mean=7.5, median=5),
        time_unit="days",
    )
    contacts = ergode.ContactNetwork.erdos_renyi(10_000, mean_degree=8, seed=1)
    return ergode.epidemics.simulate(
        model, contacts, initial={"I": 10}, times=range(81), replicates=200, seed=1
    )


def switch():
    """Schlögl's reactions: noise switches between two states, with few molecules and with many."""
    network = ergode.ReactionNetwork(
        {"X": 250},
        [
            ergode.Reaction("2 X -> 3 X", stochastic_rate_constant=0.03),
            ergode.Reaction("3 X -> 2 X", stochastic_rate_constant=1e-4),
            ergode.Reaction("0 -> X", rate_constant=200.0),
            ergode.Reaction("X -> 0", rate_constant=3.5),
        ],
    )
    return ergode.stochastic.simulate(network, times=np.linspace(0, 10, 401), replicates=20, seed=1)


def stiff():
    """Robertson's reactions: stiff, with rate constants that span nine orders of magnitude."""
    network = ergode.ReactionNetwork(
        {"A": 1, "B": 0, "C": 0},
        [
            ergode.Reaction("A -> B", rate_constant=0.04),
            ergode.Reaction("2 B -> B + C", rate_constant=3e7),
            ergode.Reaction("B + C -> A + C", rate_constant=1e4),
        ],
        time_unit="s",
    )
    return ergode.kinetics.integrate(
        network, times=[0, *np.geomspace(1e-5, 1e6, 111)], initial={"A": 1.0}
    )


def delayed():
    """Blood cells, whose production depends on their number some days ago: Mackey and Glass."""
    field = ergode.field_from_equations(
        {"cells": "production * cells(t - delay) / (1 + cells(t - delay) ** 10) - decay * cells"},
        time_unit="days",
    )
    return ergode.trajectories.integrate(
        field,
        times=np.arange(0, 301, 0.5),
        initial={"cells": 1.2},
        parameters={"production": 0.2, "decay": 0.1, "delay": [5.0, 10.0, 17.0]},
        method="tsit5",
        step=0.25,
    )


def uncertain():
    """The probability density of a noisy oscillator with three measurements of its position."""

    def position(y, t, p):
        return (y[0],)

    return ergode.density.propagate(
        ergode.field_from_equations(
            {"x": "v", "v": "-stiffness * x - friction * v"}, time_unit="s"
        ),
        ergode.Gaussian([2, 0], [0.25, 0.25]),
        times=np.linspace(0, 6, 121),
        measurements=[
            ergode.Measurement(t, position, x, 0.04)
            for t, x in [(1.5, -1.4), (3.0, 1.2), (4.5, -0.6)]
        ],
        parameters={"stiffness": 4, "friction": 0.3},
        process_noise=[0, 0.5],
        width=[0.06, 0.12],
    )


figure = Figure(figsize=(15, 6.4), dpi=110, layout="constrained")
axes = figure.subplot_mosaic([[*"aabbcc"], [*".ddee."]])
panels = [
    ("a", "epidemics", epidemic, ergode.plots.epidemic_curves),
    ("b", "stochastic", switch, ergode.plots.realizations),
    ("c", "kinetics", stiff, ergode.plots.abundances),
    ("d", "trajectories", delayed, ergode.plots.trajectories),
    ("e", "density", uncertain, ergode.plots.density_strip),
]
for place, engine, compute, draw in panels:
    result = compute()
    draw(result, ax=axes[place])
    if place == "d":  # above the curves
        axes[place].legend(ncols=3, frameon=False, loc="lower left", bbox_to_anchor=(0, 0.98))
    axes[place].set_title(engine, loc="left", fontweight="bold", pad=38 if place == "a" else 22)
    print(f"{engine}: {compute.__doc__}")
figure.savefig("five_engines.png")
