"""Lorenz '63, the published case of GBEES, as surfaces before and after its measurement.

    python examples/lorenz_surfaces.py [FIGURE]

writes FIGURE (lorenz_surfaces.png if not given): regions of 68.3, 95 and 99.7 % at eight times. The
points follow the flow, so that the surfaces are those of the density and not of a grid's smearing.
T. R. Bewley, A. S. Sharma, Automatica 48, 1286 (2012); numbers as in the examples of GBEES.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import ergode
from ergode.plots import density_surface


def height(y, t, p):
    return (y[2],)


field = ergode.fields.lorenz63(centred=True)
prior = ergode.Gaussian({"x": -11.5, "y": -10.0, "z": 9.5}, {"x": 1.0, "y": 1.0, "z": 1.0})
parameters = {"sigma": 4.0, "b": 1.0, "r": 48.0}
before, after = [0.0, 0.25, 0.5, 0.75, 0.999], [1.0, 1.25, 1.5]
result = ergode.density.propagate(
    field, prior, times=before + after, parameters=parameters, scheme="flow", width=0.25,
    measurements=[ergode.Measurement(1.0, height, -8.0, 1.0)],
)  # fmt: skip
attractor = ergode.trajectories.integrate(
    field, times=np.linspace(0.0, 20.0, 8001), parameters=parameters,
    initial=dict(zip(field.variables, prior.mean, strict=True)),
)["state"].values  # fmt: skip
for time in (before[-1], *after):
    at = result.sel(time=time)
    deviation = np.sqrt(np.diag(at["covariance"]))
    print(
        f"time {time:5.3f}: mean {np.round(at['mean'].values, 2)}, deviation {deviation.round(2)}"
    )
print(f"{result.attrs['points']:,} points in {result.attrs['run_seconds']:.2f} s")

figure = Figure(figsize=(7.2, 3.2), dpi=200)
panels = ("a  from the prior to time 1", before, attractor[:401]), (
    "b  after z was measured at time 1", after, attractor[400:601],
)  # fmt: skip
for number, (title, times, path) in enumerate(panels):
    ax = figure.add_axes((0.5 * number, 0.02, 0.47, 0.93), projection="3d")
    ax.set_box_aspect((4, 4, 3), zoom=1.07)
    ax.plot(*attractor.T, color="0.8", linewidth=0.25, zorder=0)
    density_surface(result, times, path=path, ax=ax)
    ax.set(xlim=(-20, 20), ylim=(-36, 36), zlim=(-30, 30))
    ax.view_init(elev=16, azim=-60)
    ax.set_title(title, loc="left", fontsize=8, y=1.0, pad=0)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "lorenz_surfaces.png")
