"""SEIR with log-normal stages on a random contact network, drawn with its spread.

    python examples/seir_on_a_contact_network.py [FIGURE]

writes FIGURE (seir.png if not given).
"""

import sys

import ergode

model = ergode.CompartmentModel.seir(
    transmission_rate=0.25,  # per contact and day
    latent=ergode.LogNormal(mean=5, median=4),  # days
    infectious=ergode.LogNormal(mean=7.5, median=5),
    time_unit="days",
)
contacts = ergode.ContactNetwork.erdos_renyi(1_000, mean_degree=8, seed=1)
counts = ergode.epidemics.simulate(
    model, contacts, initial={"I": 10}, times=range(81), replicates=500, seed=1
)

summary = ergode.epidemics.summary(counts)
print(f"ever infected: {100 * float(summary['attack_rate'].mean()):.2f} %")
print(f"infectious at the peak: {float(summary['peak_count'].mean()):.0f} of 1,000")
print(f"{counts.attrs['replicates']} epidemics in {counts.attrs['run_seconds']:.2f} s")

figure = sys.argv[1] if len(sys.argv) > 1 else "seir.png"
ergode.plots.save_epidemic_curves(counts, figure)
