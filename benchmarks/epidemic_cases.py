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
