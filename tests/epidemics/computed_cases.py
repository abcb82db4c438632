"""Models, computed networks and measures for tests of computed networks."""

import ergode
from ergode import ComputedNetwork


def superinfection():
    """Both kinds of the infected infect, and one of them is infected again."""
    return ergode.CompartmentModel(
        ["S", "L", "I"],
        [ergode.Infection("S", "L", {"L": 0.2, "I": 0.4}), ergode.Infection("L", "I", {"I": 0.3})],
        [
            ergode.Progression("L", {"I": 0.5, "S": 0.5}, ergode.Exponential(mean=3.0)),
            ergode.Progression("I", "S", ergode.Exponential(mean=2.0)),
        ],
    )


def layered(node_count, seed=5, factor=0.5):
    """Groups of uneven sizes, of which some are of one, and two communities."""
    return ComputedNetwork.from_layers(
        {
            "household": ComputedNetwork.groups(node_count, [1, 2, 5, 3], seed=seed),
            "work": ComputedNetwork.random_regular(node_count, 4, seed=seed),
            "class": ComputedNetwork.groups(node_count, 4, seed=seed + 1),
        },
        {"work": factor, "class": 1.5},
    )


def measures(layer="work"):
    """Measures of every kind that needs no attribute, in time or triggered."""
    many = ergode.Trigger("cases", 30)
    return {
        "interventions": [
            ergode.LayerClosure(layer, reduction=0.6, start=2.0, duration=4.0),
            ergode.Vaccination(fraction=0.3, efficacy=0.6, start=1.0, rollout=5.0,
                               infectivity_reduction=0.2),
            ergode.Isolation("I", fraction=0.4, delay=0.5, reduction=0.8, start=many),
            ergode.ContactTracing("I", detection=0.7, detection_delay=0.3, tracing=0.6,
                                  tracing_delay=0.4, quarantine=2.0, reduction=0.7),
        ],
        "importations": [ergode.Importation("I", rate=0.8)],
        "layer_factors": {layer: ergode.Calendar([0, 5], [1.0, 0.4], period=7)},
    }  # fmt: skip


def schedule(layer="work"):
    """What tau-leaping takes of `measures`."""
    some = measures(layer)
    return {"interventions": some["interventions"][:1], "layer_factors": some["layer_factors"]}
