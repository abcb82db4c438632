"""Twenty pollutants over an hour, in a thousand parcels of air that differ in ozone.

The reactions are those of the Dutch air-pollution model (J. G. Verwer, SIAM J. Sci. Comput. 15,
1243 (1994)); concentrations in ppm, times in minutes.
"""

import numpy as np

import ergode

RATES = {
    "NO2 -> NO + O3P": 0.35, "NO + O3 -> NO2": 26.6, "HO2 + NO -> NO2 + OH": 1.23e4,
    "HCHO -> 2 HO2 + CO": 8.6e-4, "HCHO -> CO": 8.2e-4, "HCHO + OH -> HO2 + CO": 1.5e4,
    "ALD -> MEO2 + HO2 + CO": 1.3e-4, "ALD + OH -> C2O3": 2.4e4,
    "C2O3 + NO -> NO2 + MEO2 + CO2": 1.65e4, "C2O3 + NO2 -> PAN": 9e3, "PAN -> C2O3 + NO2": 0.022,
    "MEO2 + NO -> CH3O + NO2": 1.2e4, "CH3O -> HCHO + HO2": 1.88, "NO2 + OH -> HNO3": 1.63e4,
    "O3P -> O3": 4.8e6, "O3 -> O1D": 3.5e-4, "O3 -> O3P": 0.0175, "O1D -> 2 OH": 1e8,
    "O1D -> O3P": 4.44e11, "SO2 + OH -> SO4 + HO2": 1.24e3, "NO3 -> NO": 2.1,
    "NO3 -> NO2 + O3P": 5.78, "NO2 + O3 -> NO3": 0.0474, "NO3 + NO2 -> N2O5": 1.78e3,
    "N2O5 -> NO3 + NO2": 3.12,
}  # fmt: skip

reactions = [ergode.Reaction(text, rate_constant=k) for text, k in RATES.items()]
species = dict.fromkeys(
    [name for one in reactions for name in (*one.reactants, *one.products)], 0.0
)
network = ergode.ReactionNetwork(species, reactions)

parcels = ergode.kinetics.integrate(
    network,
    times=np.concatenate([[0], np.geomspace(1e-3, 60, 60)]),
    initial={
        "NO": 0.2, "O3": np.linspace(0.02, 0.2, 1000), "HCHO": 0.1, "CO": 0.3, "ALD": 0.01,
        "SO2": 0.007,
    },
)  # fmt: skip
ozone = parcels["concentration"].sel(species="O3")[:, -1]
print(f"ozone after an hour: {float(ozone.min()):.4f} to {float(ozone.max()):.4f} ppm")
axes = ergode.plots.abundances(parcels, zone=500, time_unit="min")
axes.set_ylabel("concentration [ppm]")
axes.figure.savefig("air_pollution.png")
