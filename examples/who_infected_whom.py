"""Line lists: who was infected when and by whom, and what follows from it.

    python examples/who_infected_whom.py [FIGURE]

prints how the cases of twenty epidemics followed from each other, and writes FIGURE (intervals.png
if not given): the times between a case and its infector.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import ergode

model = ergode.CompartmentModel.seir(
    transmission_rate=0.25,
    latent=ergode.LogNormal(mean=5, median=4),
    infectious=ergode.LogNormal(mean=7.5, median=5),
)
contacts = ergode.ContactNetwork.erdos_renyi(1_000, mean_degree=8, seed=1)
cases = ergode.epidemics.simulate(
    model, contacts, initial={"I": 10}, times=[0, 200], replicates=20, output="line_list", seed=1
)
print(f"{cases.sizes['case']} cases in {cases.attrs['replicates']} epidemics")

seeds = cases["infector"] == -1
early = cases["infected_at"] < 10
print(
    f"{int(seeds.sum())} were there at the start, {int((early & ~seeds).sum())} followed in 10 days"
)
when = cases["infected_at"].where(~seeds)
print(f"half of all others were infected by day {float(np.nanmedian(when)):.1f}")
interval = ergode.epidemics.generation_interval(cases)
print(f"mean generation interval: {float(interval.mean()):.2f} days")

figure = Figure(figsize=(7.2, 4), dpi=160, layout="constrained")
ax = figure.subplots()
ax.hist(interval.values[np.isfinite(interval.values)], bins=60, color="#0072B2")
ax.set(xlabel="generation interval [days]", ylabel="cases", xlim=(0, 40))
ax.spines[["top", "right"]].set_visible(False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "intervals.png")
