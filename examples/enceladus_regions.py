"""An orbit about Enceladus is measured three times: its regions between measurements.

    python examples/enceladus_regions.py [FIGURE]

writes FIGURE (enceladus_regions.png if not given): regions of 68.3, 95 and 99.7 % at the beginning,
in the middle and at the end of each span, in kilometres from Enceladus and metres per second.
B. L. Hanson, T. A. Ely, T. R. Bewley, A. J. Rosengren, J. Guid. Control Dyn. 49, 240 (2026).
"""

import sys

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Patch

import ergode
from ergode.plots import density

LENGTH, TIME, RADIUS = 238_529.0, 18_913.0, 252.1  # km, s; radius of Enceladus, km
SPEED = 1e3 * LENGTH / TIME  # m/s
NAMES = ("from the prior", "from measurement 1", "from measurement 2", "from measurement 3")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")

field = ergode.fields.planar_three_body()
prior = ergode.Gaussian(
    [1.001471995170839, -1.7518099335e-5, 7.1987832396e-5, 0.013633926328993],
    [7.030360843777e-9] * 2 + [2.514771104455e-8] * 2,
)
parameters, span = {"mu": 1.901109735892602e-7}, 0.931792004789438
enceladus = 1.0 - parameters["mu"]
path = ergode.trajectories.integrate(
    field, times=span * np.linspace(0.0, 4.0, 401), parameters=parameters, rtol=1e-11, atol=1e-13,
    initial=dict(zip(field.variables, prior.mean, strict=True)),
)["state"].values  # fmt: skip
measurements = [
    ergode.Measurement(
        k * span, ergode.fields.planar_ranging,
        ergode.fields.planar_ranging(path[100 * k], k * span, tuple(parameters.values())),
        [7.03e-9, 3.0461733e-4, 2.5148e-8], angles=[1],
    )
    for k in (1, 2, 3)
]  # fmt: skip
parts = np.array([[k, k + 0.5, k + 0.999] for k in range(4)]) * span
result = ergode.density.propagate(
    field, prior, times=parts.ravel(), measurements=measurements, parameters=parameters,
    scheme="flow",
)  # fmt: skip
for time in parts.ravel():
    deviation = np.sqrt(np.diag(result["covariance"].sel(time=time)))
    print(
        f"{time * TIME / 3600:4.1f} hours: deviations {(deviation[:2] * LENGTH).round(1)} km, "
        f"{(deviation[2:] * SPEED).round(1)} m/s"
    )
print(f"{result.attrs['points']:,} points in {result.attrs['run_seconds']:.2f} s")

with rc_context({"font.size": 8}):
    figure = Figure(figsize=(7.2, 4.2), dpi=200, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.18, 1))
    for colour, own in zip(COLOURS, parts, strict=True):
        for time in own:
            density(result, time, variables=("x", "y"), color=colour, ax=left)
            density(result, time, variables=("vx", "vy"), color=colour, ax=right)
    left.plot(*path[:, :2].T, color="black", linewidth=0.6)
    right.plot(*path[:, 2:].T, color="black", linewidth=0.6)
    left.add_patch(Circle((enceladus, 0.0), RADIUS / LENGTH, color="0.75", zorder=0))
    left.annotate("Enceladus", (enceladus, 0.0), ha="center", va="center", fontsize=7)
    for ax, unit, centre, steps, labels in (
        (
            left,
            LENGTH,
            enceladus,
            np.arange(-1_000, 1_501, 500),
            ("x from Enceladus [km]", "y [km]"),
        ),
        (right, SPEED, 0.0, np.arange(-200, 201, 100), ("vx [m/s]", "vy [m/s]")),
    ):
        ax.set_xticks(centre + steps / unit, [f"{step:,}" for step in steps])
        ax.set_yticks(steps / unit, [f"{step:,}" for step in steps])
        ax.set(xlabel=labels[0], ylabel=labels[1], aspect="equal")
    left.set(
        xlim=enceladus + np.array([-1.1e3, 1.6e3]) / LENGTH, ylim=np.array([-1.3e3, 1.6e3]) / LENGTH
    )
    right.set(xlim=np.array([-2e2, 2e2]) / SPEED, ylim=np.array([-2.4e2, 2.7e2]) / SPEED)
    figure.legend(
        handles=[
            Patch(color=colour, alpha=0.7, label=name)
            for colour, name in zip(COLOURS, NAMES, strict=True)
        ],
        loc="outside lower center", ncols=4, frameon=False,
    )  # fmt: skip
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "enceladus_regions.png")
