"""Lorenz '63: a density that spreads over both wings, until one measurement.

    python examples/lorenz_with_a_measurement.py [FIGURE]

writes FIGURE (lorenz_density.png if not given): the density at four times, beside an ensemble.
T. R. Bewley, A. S. Sharma, Automatica 48 (2012).
"""

import sys
import warnings

import numpy as np
from matplotlib.figure import Figure

import ergode
from ergode.plots import density


def height(y, t, p):
    return (y[2],)


field = ergode.fields.lorenz63(centred=True)
prior = ergode.Gaussian({"x": -11.5, "y": -10.0, "z": 9.5}, {"x": 1.0, "y": 1.0, "z": 1.0})
parameters = {"sigma": 4.0, "b": 1.0, "r": 48.0}
times = [0.0, 0.5, 0.999, 1.0, 1.5]
with warnings.catch_warnings():
    warnings.simplefilter("ignore", RuntimeWarning)  # the filaments are thinner than its cells
    result = ergode.density.propagate(
        field, prior, times=times, parameters=parameters, width=0.4, threshold=1e-6,
        measurements=[ergode.Measurement(1.0, height, -8.0, 1.0)],
    )  # fmt: skip

# The same field carries an ensemble, of which the density is the limit.
rng = np.random.default_rng(1)
points = rng.multivariate_normal(prior.mean, prior.covariance, 2_000)
ensemble = ergode.trajectories.integrate(
    field, times=times, step=2e-3, parameters=parameters,
    initial=dict(zip(field.variables, points.T, strict=True)),
)["state"]  # fmt: skip
for name in field.variables:
    k = list(field.variables).index(name)
    mean, deviation = result["mean"][2, k], np.sqrt(result["covariance"][2, k, k])
    cloud = ensemble.isel(time=2).sel(variable=name)
    print(
        f"{name} before the measurement: {float(mean):6.2f} ± {float(deviation):5.2f}, "
        f"ensemble {float(cloud.mean()):6.2f} ± {float(cloud.std()):5.2f}"
    )
print(f"{result.attrs['cell_steps']:,} cell-steps in {result.attrs['run_seconds']:.2f} s")

figure = Figure(figsize=(9, 7.2), dpi=160, layout="constrained")
for ax, time in zip(figure.subplots(2, 2).flat, (0.0, 0.5, 0.999, 1.0), strict=True):
    density(result, time, variables=("x", "z"), ax=ax)
    if time < 1:
        at = ensemble.sel(time=time)
        ax.plot(at.sel(variable="x"), at.sel(variable="z"), ",", color="#D55E00", alpha=0.6)
    ax.set_title(f"time {time:g}" + (", measured" if time == 1 else ""), loc="left")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "lorenz_density.png")
