"""An infection spreads through cells on a plate: reactions and diffusion on a grid.

    python examples/waves_in_space.py

Healthy cells become infected by neighbours, and infected cells die. The front moves outwards, and
leaves few cells behind it. The deterministic front would have the speed 2 sqrt(D (k h - d)); where
the front has few cells chance makes it slower.
"""

import numpy as np

import ergode

INFECTION, DEATH, DIFFUSION, HEALTHY = 0.15, 1.0, 2.0, 20


def main() -> None:
    network = ergode.ReactionNetwork(
        {"healthy": HEALTHY, "infected": 0},
        [
            ergode.Reaction("healthy + infected -> 2 infected", rate_constant=INFECTION),
            ergode.Reaction("infected -> 0", rate_constant=DEATH),
        ],
    )
    start = np.zeros((100, 30))
    start[0] = HEALTHY
    space = ergode.ReactionDiffusion(
        network, start.shape, diffusion={"infected": DIFFUSION}, periodic=(False, True),
        initial={"infected": start},
    )  # fmt: skip
    times = np.linspace(0, 20, 6)
    result = ergode.stochastic.simulate_space(space, times=times, seed=1)
    amounts = result["amount"].isel(replicate=0)
    # Where half of the healthy cells are left, averaged across the plate.
    gone = 1 - amounts.sel(species="healthy").mean("y") / HEALTHY
    front = (gone > 0.5).sum("x").values
    speed = np.polyfit(times[1:], front[1:], 1)[0]
    theory = 2 * np.sqrt(DIFFUSION * (INFECTION * HEALTHY - DEATH))
    print(f"{result.attrs['firings']:,} firings in {result.attrs['run_seconds']:.2f} s")
    print(f"speed of the front {speed:.2f}, of the deterministic equation {theory:.2f}")
    axes = ergode.plots.field(result, species="infected", time=12)
    axes.figure.savefig("wave.png")
    print(ergode.plots.animate_field(result, "wave.gif", species="infected", frames_per_second=4))


if __name__ == "__main__":
    main()
