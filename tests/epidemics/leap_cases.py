"""Models, networks and scenarios for tests of time steps."""

import numpy as np

import ergode
from ergode.core import devices
from ergode.epidemics.leap.runner import LeapEnsemble
from ergode.epidemics.scenario import scenario_of


def memoryless():
    """Two strains with partial cross-immunity, branches, vaccination competing with infection."""
    return ergode.CompartmentModel(
        ["S", "I", "J", "R"],
        [
            ergode.Infection("S", "I", {"I": 0.9}),
            ergode.Infection("S", "J", {"J": 0.6, "I": 0.1}),
            ergode.Infection("R", "J", {"J": 0.3}),
        ],
        [
            ergode.Progression("S", "R", ergode.Exponential(rate=0.2)),
            ergode.Progression("I", {"R": 0.7, "S": 0.3}, ergode.Exponential(rate=0.5)),
            ergode.Progression("J", "R", ergode.Exponential(rate=0.8)),
            ergode.Progression("R", "S", ergode.Exponential(rate=0.3)),
        ],
    )


def aging():
    """SIRS whose hazards rise and fall with age."""
    return ergode.CompartmentModel.sirs(
        transmission_rate=0.8,
        infectious=ergode.Weibull(shape=2.0, scale=1.5),
        immune=ergode.LogNormal(mean=2.0, median=1.2),
    )


def by_group():
    """`aging`, by the group of a node: hazards, laws and branches."""
    return ergode.CompartmentModel(
        ["S", "I", "R"],
        [ergode.Infection("S", "I", {"I": 0.8})],
        [
            ergode.Progression(
                "I",
                ergode.ByAttribute("group", {0: "R", 1: {"R": 0.4, "S": 0.6}, 2: "S"}),
                ergode.ByAttribute(
                    "group",
                    [ergode.Weibull(shape=2.0, scale=1.5), ergode.LogNormal(mean=2.0, median=1.2)],
                    groups=[0, 2],
                ),
            ),
            ergode.Progression("R", "S", ergode.LogNormal(mean=2.0, median=1.2)),
        ],
    )


def measures():
    """Two layers, of which one has weekends and the other is closed for a while; a vaccine."""
    rng = np.random.default_rng(4)
    layers = {
        name: ergode.ContactNetwork.from_edges(*rng.integers(0, 600, (2, 1800)), node_count=600)
        for name in ("home", "school")
    }
    contacts = ergode.ContactNetwork.from_layers(layers).with_attributes(
        group=rng.integers(0, 3, 600)
    )
    return scenario_of(
        contacts,
        [
            ergode.LayerClosure("school", reduction=0.9, start=2.1, duration=6.2),
            ergode.Vaccination(fraction=0.5, efficacy=0.6, start=3, rollout=4, among="group"),
            ergode.Vaccination(
                fraction=0.5,
                efficacy=[0.4, 0.8],
                leaky=False,
                start=3.3,
                dose_rate=60.0,
                interval=2,
                priority="group",
            ),
        ],
        layer_factors={"home": ergode.Calendar([0, 5], [1.2, 0.1], period=7)},
        strata="group",
    )


def weighted_network():
    """Directed and weighted, with nodes that have no contacts."""
    rng = np.random.default_rng(3)
    return ergode.ContactNetwork.from_edges(
        rng.integers(0, 700, 4000), rng.integers(0, 700, 4000), node_count=720, directed=True,
        weights=rng.gamma(2.0, 0.5, 4000),
    )  # fmt: skip


def counts_of(model, contacts, count=6, first=3, **options):
    settings = {"times": np.arange(0.0, 13.0), "seed": 5, "step": 0.25, "device": "cpu"} | options
    settings["times"] = np.asarray(settings["times"])
    device = devices.resolve(settings.pop("device"))
    ensemble = LeapEnsemble(model, scenario_of(contacts), {"I": 30}, device=device, **settings)
    (counts,), work = ensemble.run(first, count)
    return counts, work
