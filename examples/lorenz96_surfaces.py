"""Lorenz '96 in six variables: surfaces of its marginals in three, without a grid in six.

    python examples/lorenz96_surfaces.py [FIGURE]

writes FIGURE (lorenz96_surfaces.png if not given): the same two marginals, regions of 68.3, 95 and
99.7 %, at five times.
B. L. Hanson, C. Rubio, A. Garcia-Gutierrez, T. R. Bewley, GBEES-GPU (2025).
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import ergode
from ergode.plots import density_surface

field = ergode.fields.lorenz96(6)
prior = ergode.Gaussian([4.5, 4.0, 4.0, 4.0, 4.0, 4.0], [0.04] * 6)
parameters, times = {"force": 4.0}, [0.0, 0.3, 0.6, 0.9, 1.3]
result = ergode.density.propagate(field, prior, times=times, parameters=parameters, scheme="flow")
for time in times:
    at = result.sel(time=time)
    print(
        f"time {time:3.1f}: mean {np.round(at['mean'].values, 2)}, "
        f"deviation {np.sqrt(np.diag(at['covariance'])).round(2)}"
    )
print(f"{result.attrs['points']:,} points in {result.attrs['run_seconds']:.2f} s")
path = ergode.trajectories.integrate(
    field, times=np.linspace(0.0, 1.3, 261), parameters=parameters,
    initial=dict(zip(field.variables, prior.mean, strict=True)),
)["state"].values  # fmt: skip

figure = Figure(figsize=(7.2, 3.2), dpi=200)
for number, variables in enumerate((field.variables[:3], field.variables[3:])):
    ax = figure.add_axes((0.5 * number, 0.02, 0.47, 0.93), projection="3d")
    ax.set_box_aspect((4, 4, 3), zoom=1.07)
    density_surface(result, times, variables=variables, path=path, ax=ax)
    ax.view_init(elev=22, azim=-60)
    ax.set_title("ab"[number] + "  " + ", ".join(variables), loc="left", fontsize=8, pad=0)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "lorenz96_surfaces.png")
