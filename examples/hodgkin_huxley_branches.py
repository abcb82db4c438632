"""Hodgkin and Huxley's axon under a current: rest, spikes, and what lies between.

    python examples/hodgkin_huxley_branches.py [FIGURE]

writes FIGURE (hodgkin_huxley_branches.png if not given): the branches of rest and of spikes.
A. L. Hodgkin, A. F. Huxley, J. Physiol. 117, 500 (1952); J. Rinzel, R. N. Miller, Math. Biosci. 49,
27 (1980).
"""

import sys

from matplotlib.figure import Figure

import ergode
from ergode.plots import branches

axon = ergode.field_from_equations(
    {
        "V": "I - 120 * m**3 * h * (V - 115) - 36 * n**4 * (V + 12) - 0.3 * (V - 10.599)",
        "m": "(25 - V) / 10 / (exp((25 - V) / 10) - 1) * (1 - m) - 4 * exp(-V / 18) * m",
        "h": "0.07 * exp(-V / 20) * (1 - h) - h / (exp((30 - V) / 10) + 1)",
        "n": "(10 - V) / 100 / (exp((10 - V) / 10) - 1) * (1 - n) - 0.125 * exp(-V / 80) * n",
    },
    parameters=["I"],  # uA/cm2; V in mV, time in ms
)
rest = ergode.trajectories.branch(
    axon, start={"V": 0, "m": 0.05, "h": 0.6, "n": 0.32}, parameters={"I": 0}, vary={"I": (0, 180)}
)
spikes = ergode.trajectories.branch(
    axon, start=rest, at="hopf-1", kind="cycles", vary={"I": (0, 180)}, max_step=0.015
)
for one in (rest, spikes):
    for name, current in zip(one["special"].values, one["I"].values, strict=True):
        if name:
            print(f"{one.attrs['kind']:10} {name:10} at {current:.6f} uA/cm2")

figure = Figure(figsize=(7.2, 6.4), dpi=160, layout="constrained")
whole, near = figure.subplots(2, 1)
branches([rest, spikes], variable="V", ax=whole)
branches([rest, spikes], variable="period", ax=near)
near.set_xlim(5, 12)
near.set_ylim(9, 27)
near.get_legend().remove()
whole.set(xlabel="current [µA/cm²]", ylabel="depolarization [mV]")
near.set(xlabel="current [µA/cm²]", ylabel="period [ms]")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "hodgkin_huxley_branches.png")
