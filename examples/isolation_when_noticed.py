"""The same epidemics with and without a measure: what isolation from the 20th case on prevents.

    python examples/isolation_when_noticed.py [FIGURE]

writes FIGURE (isolation.png if not given): the cases that each replicate was spared.  Both runs
share all randomness, so that each replicate tells what the measure did to it.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import ergode

contacts = ergode.ContactNetwork.from_layers(
    {
        "household": ergode.ContactNetwork.watts_strogatz(
            2_000, k=4, rewiring_probability=0.0, seed=1
        ),
        "work": ergode.ContactNetwork.erdos_renyi(2_000, mean_degree=5, seed=2),
    }
)
weekdays = ergode.Calendar([0, 5], [1.0, 0.1], period=7)  # days; the first is a Monday
model = ergode.CompartmentModel.seirs(
    transmission_rate=0.08,
    latent=ergode.LogNormal(mean=3, median=2.5),
    infectious=ergode.LogNormal(mean=7, median=6),
    immune=ergode.LogNormal(mean=90, median=80),
)
isolation = ergode.Isolation(
    "I", fraction=0.6, delay=1.5, reduction=0.9, start=ergode.Trigger("cases", 20)
)


def cases(*measures):
    """Cases of each replicate within 200 days."""
    counts = ergode.epidemics.simulate(
        model, contacts, initial={"E": 5}, times=range(201), replicates=100, seed=1,
        interventions=measures, layer_factors={"work": weekdays},
    )  # fmt: skip
    return counts["cases"].isel(time=-1).values


without, with_it = cases(), cases(isolation)
prevented = without - with_it
error = prevented.std(ddof=1) / np.sqrt(prevented.size)
print(f"cases without: {without.mean():.0f}, with isolation: {with_it.mean():.0f}")
print(f"prevented in a replicate: {prevented.mean():.0f} +- {error:.0f}")

figure = Figure(figsize=(7.2, 4), dpi=160, layout="constrained")
ax = figure.subplots()
ax.hist(prevented, bins=30, color="#0072B2")
ax.set(xlabel="cases prevented in a replicate", ylabel="replicates")
ax.spines[["top", "right"]].set_visible(False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "isolation.png")
