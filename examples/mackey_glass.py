"""Mackey-Glass: blood cells that are made with a delay, from rest to chaos.

    python examples/mackey_glass.py [FIGURE]

writes FIGURE (mackey_glass.png if not given): the attractor for four delays.
M. C. Mackey, L. Glass, Science 197, 287 (1977), eq. (4b).
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import ergode
from ergode.plots import trajectories


def mackey_glass(t, y, yd, p):
    production = p[0] * yd[0] / (1 + yd[0] ** 10)
    return (production - p[1] * y[0],)


field = ergode.VectorField(
    mackey_glass,
    variables=["cells"],
    parameters=["production", "decay", "delay"],
    delays=[("cells", "delay")],
)
result = ergode.trajectories.integrate(
    field,
    times=np.arange(0.0, 600.5, 0.5),  # days
    initial={"cells": 1.2},
    parameters=ergode.grid(production=0.2, decay=0.1, delay=np.linspace(4.0, 22.0, 181)),
    step=0.25,
)

settled = result["state"].sel(variable="cells", time=slice(300, None))
spread = settled.max("time") - settled.min("time")
onset = float(spread["delay"][(spread > 0.01).argmax("delay")])
print(f"{result.attrs['trajectories']} delays in {result.attrs['run_seconds']:.2f} s")
print(f"the steady state gives way to a cycle at a delay of {onset:.1f} days")

figure = Figure(figsize=(7.2, 6), dpi=160, layout="constrained")
for ax, delay in zip(figure.subplots(2, 2).flat, (6.0, 10.0, 14.0, 17.0), strict=True):
    one = result.sel(delay=delay, method="nearest").sel(time=slice(300, None))
    trajectories(one, time_unit="days", ax=ax)
    ax.set_title(f"delay {delay:g} days", loc="left")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "mackey_glass.png")
