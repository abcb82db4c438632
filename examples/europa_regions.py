"""A spacecraft leaves Europa: regions of its position and velocity at four times.

    python examples/europa_regions.py [FIGURE]

writes FIGURE (europa_regions.png if not given): regions of 68.3, 95 and 99.7 % at four times, in
kilometres from Europa and metres per second.
T. R. Bewley, A. S. Sharma, Automatica 48, 1286 (2012); numbers as in the examples of GBEES.
"""

import sys

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Circle

import ergode
from ergode.plots import density

LENGTH, TIME, RADIUS = 668_519.0, 48_562.0, 1_560.8  # km, s; Europa's radius, km
SPEED = 1e3 * LENGTH / TIME  # m/s

field = ergode.fields.planar_three_body()
prior = ergode.Gaussian(
    {"x": 1.0169962521469986, "y": 0.0, "vx": 0.0, "vy": 0.012575912545456968},
    {"x": 2.2375e-8, "y": 2.2375e-8, "vx": 5.2767e-7, "vy": 5.2767e-7},
)
parameters, times = {"mu": 2.52801752854e-5}, np.linspace(0.0, 0.889584448745932, 4)
europa = 1.0 - parameters["mu"]
result = ergode.density.propagate(field, prior, times=times, parameters=parameters, scheme="flow")
path = ergode.trajectories.integrate(
    field, times=np.linspace(times[0], times[-1], 301), parameters=parameters, rtol=1e-10,
    initial=dict(zip(field.variables, prior.mean, strict=True)),
)["state"].values  # fmt: skip
for time in times:
    deviation = np.sqrt(np.diag(result["covariance"].sel(time=time)))
    print(
        f"{time * TIME / 3600:4.1f} hours: deviations {(deviation[:2] * LENGTH).round()} km, "
        f"{(deviation[2:] * SPEED).round()} m/s"
    )
print(f"{result.attrs['points']:,} points in {result.attrs['run_seconds']:.2f} s")

with rc_context({"font.size": 8}):
    figure = Figure(figsize=(7.2, 2.9), dpi=200, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2.05, 1))
    density(result, times, variables=("x", "y"), ax=left)
    density(result, times, variables=("vx", "vy"), ax=right)
    left.plot(*path[:, :2].T, color="black", linewidth=0.8)
    right.plot(*path[:, 2:].T, color="black", linewidth=0.8)
    left.add_patch(Circle((europa, 0.0), RADIUS / LENGTH, color="0.75", zorder=0))
    left.annotate("Europa", (europa, 0.0), ha="center", va="center", fontsize=7)
    for ax, unit, centre, across, along, labels in (
        (left, LENGTH, europa, np.arange(-4_000, 13_000, 4_000), np.arange(0, 7_000, 2_000),
         ("x from Europa [km]", "y [km]")),
        (right, SPEED, 0.0, np.arange(-1_200, 401, 400), np.arange(-1_200, 401, 400),
         ("vx [m/s]", "vy [m/s]")),
    ):  # fmt: skip
        ax.set_xticks(centre + across / unit, [f"{step:,}" for step in across])
        ax.set_yticks(along / unit, [f"{step:,}" for step in along])
        ax.set(xlabel=labels[0], ylabel=labels[1], aspect="equal")
    left.set(xlim=europa + np.array([-4e3, 13.2e3]) / LENGTH, ylim=np.array([-2e3, 7e3]) / LENGTH)
    right.set(xlim=np.array([-1.2e3, 0.2e3]) / SPEED, ylim=np.array([-1.2e3, 0.3e3]) / SPEED)
    right.get_legend().remove()
    legend = left.get_legend()
    legend.set(title="time [hours]", loc="upper left")
    for text, time in zip(legend.get_texts(), times, strict=True):
        text.set_text(f"{time * TIME / 3600:.0f}")
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "europa_regions.png")
