"""The section on the engine ``epidemics``: SEIR in a town of three generations."""

from __future__ import annotations

import time as clock
from typing import Any

import numpy as np

from ergode import epidemics, plots
from ergode.epidemics.analysis import percolation
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.holding_times.families import LogNormal
from ergode.models.networks.contact_network import ContactNetwork
from ergode.report import Comparison, Picture, Stop

_GROUPS = ("children", "adults", "elders")
_SIZES = (20_000, 60_000, 20_000)
# Expected contacts of a node of the row's group with nodes of the column's group.
_CONTACTS = ((5.0, 3.0, 0.5), (1.0, 4.0, 1.0), (0.5, 3.0, 1.0))
_RATE = 0.1
_SEEDS = 10
_REPLICATES = 200
_LISTED = 20

_CODE = """\
import ergode

contacts = ergode.ContactNetwork.stochastic_block_model(
    [20_000, 60_000, 20_000], [[5, 3, 0.5], [1, 4, 1], [0.5, 3, 1]]
)
model = ergode.CompartmentModel.seir(
    transmission_rate=0.1,
    latent=ergode.LogNormal(mean=5, median=4),
    infectious=ergode.LogNormal(mean=7.5, median=5),
)
counts = ergode.epidemics.simulate(
    model, contacts, initial={"I": 10}, times=range(181), replicates=200, seed=1
)
ergode.plots.epidemic_curves(counts)"""

_ABOUT = (
    "A town of 100,000 children, adults and elders. The number of contacts depends on both "
    "generations. Ten people are infectious on day 0. Latent and infectious periods are "
    "log-normal, as observed in real outbreaks, instead of exponential.",
    "The method is exact: it has no time step. Each epidemic is one shortest-path problem on the "
    "network, and the daily counts follow from its solution. Theory gives the final size: the "
    "infected fraction of each generation is its fraction of the giant component of bond "
    "percolation.",
)


def visit() -> Stop:
    """Simulate, compare with theory, draw."""
    started = clock.perf_counter()
    contacts = ContactNetwork.stochastic_block_model(_SIZES, _CONTACTS)
    infectious = LogNormal(mean=7.5, median=5)
    model = CompartmentModel.seir(
        transmission_rate=_RATE, latent=LogNormal(mean=5, median=4), infectious=infectious
    )
    days = np.arange(181)
    common: dict[str, Any] = {"initial": {"I": _SEEDS}, "times": days, "seed": 1, "device": "cpu"}
    # The line lists run first: they compile (or load) the kernels that the counts use.
    cases = epidemics.simulate(model, contacts, replicates=_LISTED, output="line_list", **common)
    epidemics.simulate(model, contacts, replicates=1, **common)
    ready = clock.perf_counter()
    counts = epidemics.simulate(model, contacts, replicates=_REPLICATES, **common)
    finished = clock.perf_counter()

    attack = epidemics.summary(counts)["attack_rate"].values
    group = contacts.attributes["block"][cases["node"].values]
    replicate = cases["replicate"].values
    listed = np.array(
        [np.bincount(group[replicate == r], minlength=3) / _SIZES for r in range(_LISTED)]
    )
    transmissibility = percolation.transmissibility(_RATE, infectious)
    expected = percolation.final_size(_CONTACTS, transmissibility, _SEEDS / contacts.node_count)
    overall = float(np.average(expected, weights=_SIZES))
    rows = [Comparison.of_mean("everyone", attack, overall, "%")]
    rows += [
        Comparison.of_mean(name, listed[:, i], expected[i], "%") for i, name in enumerate(_GROUPS)
    ]
    return Stop(
        engine="epidemics",
        title="SEIR in a town of three generations",
        about=_ABOUT,
        code=_CODE,
        picture=Picture.of(
            lambda ax: plots.epidemic_curves(counts, ax=ax), "People in each compartment, by day."
        ),
        heading="Ever infected",
        comparisons=tuple(rows),
        remark=(
            f"Simulated: mean over {_REPLICATES} epidemics (by generation: {_LISTED}), with twice "
            "its standard error. Theory: percolation on an infinite network of the same kind, "
            f"transmissibility {transmissibility:.6f}; this network has {contacts.node_count:,} "
            f"nodes and {contacts.edge_count:,} contacts, so a difference of a few "
            "tenths of a per cent is expected."
        ),
        ready_seconds=ready - started,
        run_seconds=finished - ready,
        work=f"{_REPLICATES} epidemics among {contacts.node_count:,} nodes",
        dataset=counts,
    )
