"""The models and networks that `epidemics.py` and `epidemic_leaps.py` measure."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

import ergode

DAYS = np.arange(101.0)
LATENT = ergode.LogNormal(mean=5, median=4)
INFECTIOUS = ergode.LogNormal(mean=7.5, median=5)
MEMORYLESS = {"infectious": ergode.Exponential(rate=0.15), "transmission_rate": 0.25}
SIR = ergode.CompartmentModel.sir(transmission_rate=0.25, infectious=INFECTIOUS)
SEIR = ergode.CompartmentModel.seir(
    transmission_rate=0.25, latent=LATENT, infectious=INFECTIOUS,
)  # fmt: skip
SEIRS = ergode.CompartmentModel.seirs(
    transmission_rate=0.25, latent=LATENT, infectious=INFECTIOUS,
    immune=ergode.LogNormal(mean=60, median=50),
)  # fmt: skip
MEMORYLESS_SIR = ergode.CompartmentModel.sir(**MEMORYLESS)
MEMORYLESS_SEIR = ergode.CompartmentModel.seir(latent=ergode.Exponential(rate=0.2), **MEMORYLESS)
SIS = ergode.CompartmentModel.sis(**MEMORYLESS)


def hospital(by_attributes):
    """SEIR with a hospital; by attributes, or with means over a population of their like."""
    branches, stay = {"H": 0.06, "R": 0.94}, INFECTIOUS
    factors = {}
    if by_attributes:
        by_age = partial(ergode.ByAttribute, "age", groups=[0, 18, 65])
        branches = by_age([{"H": h, "R": 1 - h} for h in (0.001, 0.02, 0.2)])
        longer = ergode.LogNormal(mean=8.5, median=6)
        stay = ergode.ByAttribute("risk", {False: INFECTIOUS, True: longer})
        factors["susceptibility"] = by_age([0.6, 1.0, 1.2])
    return ergode.CompartmentModel(
        ["S", "E", "I", "H", "R"],
        [ergode.Infection("S", "E", {"I": 0.25}, **factors)],
        [
            ergode.Progression("E", "I", LATENT),
            ergode.Progression("I", branches, stay),
            ergode.Progression("H", "R", ergode.LogNormal(mean=10, median=8)),
        ],
    )


def with_people(contacts):
    """A network whose nodes have an age and a risk."""
    rng = np.random.default_rng(1)
    nodes = contacts.node_count
    return contacts.with_attributes(age=rng.integers(0, 90, nodes), risk=rng.random(nodes) < 0.3)


@cache
def erdos_renyi(nodes):
    """A random network with eight contacts a node."""
    return ergode.ContactNetwork.erdos_renyi(nodes, mean_degree=8, seed=1)


@cache
def hubs():
    """A million nodes, some with thousands of contacts."""
    return ergode.ContactNetwork.barabasi_albert(1_000_000, m=4, seed=1)


def size_label(nodes):
    return f"N=1e{len(str(nodes)) - 1} d=8"


def call(place, model, contacts, count=1, **options):
    """A public call that simulates `count` replicates of an epidemic, and counts every day."""
    given = {"initial": {"I": 100}, "times": DAYS, "seed": 1, "device": place} | options
    return partial(ergode.epidemics.simulate, model, contacts, replicates=count, **given)
