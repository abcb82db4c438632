"""The same epidemics with and without a measure: what isolation from the 20th case on prevents.

    python examples/isolation_when_noticed.py

Both runs share all randomness, so that each replicate tells what the measure did to it.
"""

import numpy as np

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
