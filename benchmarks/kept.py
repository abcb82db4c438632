"""Whole calls whose results stay on the device, in turn with calls that bring them to the host.

    whole call, kept        `keep_on_device=True`: the arrays are on the device
    whole call, fetched     the usual Dataset in host memory

On a CPU both are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from harness import Rows, arguments, timed

import ergode


def epidemics(small: bool) -> Callable[..., Any]:
    """Counts of SEIR epidemics with parameters and random numbers of their own."""
    count = 1_000 if small else 100_000
    contacts = ergode.ContactNetwork.erdos_renyi(1_000, mean_degree=8, seed=1)
    rng = np.random.default_rng(1)
    theta = {"rate": np.exp(rng.uniform(-3.0, -0.7, count)), "period": rng.uniform(2, 10, count)}

    def model(rate: float, period: float) -> ergode.CompartmentModel:
        return ergode.CompartmentModel.seir(
            transmission_rate=rate, latent=ergode.LogNormal(mean=3, median=2.5),
            infectious=ergode.LogNormal(mean=period, median=0.8 * period),
        )  # fmt: skip

    return lambda **options: ergode.epidemics.simulate(
        model, contacts, parameters=theta, initial={"I": 5}, times=range(41),
        common_random_numbers=False, **options,
    )  # fmt: skip


_REACTIONS = [
    ergode.Reaction("0 -> X", rate_constant=10.0), ergode.Reaction("X -> 0", rate_constant=0.1)
]  # fmt: skip
BIRTH_DEATH = ergode.ReactionNetwork({"X": 0}, _REACTIONS)


def stochastic(small: bool, output: str = "trajectories") -> Callable[..., Any]:
    """Amounts of birth and death at 101 times."""
    return lambda **options: ergode.stochastic.simulate(
        BIRTH_DEATH, times=range(101), replicates=1_000 if small else 1_000_000, seed=1,
        output=output, **options,
    )  # fmt: skip


def histogram(small: bool) -> Callable[..., Any]:
    """Histograms of them, which the device computes if they stay there."""
    return stochastic(small, "histogram")


def trajectories(small: bool) -> Callable[..., Any]:
    """States of the Lorenz system at 101 times, in float32."""
    field = ergode.field_from_equations(
        {"x": "10 * (y - x)", "y": "x * (r - z) - y", "z": "x * y - 8 / 3 * z"}
    )
    return lambda **options: ergode.trajectories.integrate(
        field, times=np.linspace(0, 10, 101), initial={"x": 1.0, "y": 1.0, "z": 20.0},
        parameters={"r": np.linspace(20, 30, 1_000 if small else 1_000_000)}, method="tsit5",
        precision="float32", rtol=1e-5, **options,
    )  # fmt: skip


def density(small: bool) -> Callable[..., Any]:
    """Cells of densities of the Lorenz system at nine times."""
    priors = [ergode.Gaussian([-11.5 + 0.1 * i, -10, 9.5], [1, 1, 1]) for i in range(16)]
    return lambda **options: ergode.density.propagate(
        ergode.fields.lorenz63(centred=True), priors[:1] if small else priors,
        times=np.linspace(0, 2, 9), parameters={"sigma": 4, "b": 1, "r": 48}, keep="all",
        width=1.0 if small else 0.5, threshold=5e-6, **options,
    )  # fmt: skip


CASES = {
    one.__name__: one for one in (epidemics, stochastic, histogram, trajectories, density)
}  # fmt: skip


def main() -> None:
    """Entry point."""
    options = arguments("kept", list(CASES))
    rows = Rows("kept", options.device, options.json)
    for name in options.case:
        call = CASES[name](options.quick)
        call = partial(call, device=options.place)
        kept, fetched = timed([partial(call, keep_on_device=True), call], repeats=3)
        rows.add(name, "whole call, kept", kept.clock, "s")
        rows.add(name, "whole call, fetched", fetched.clock, "s")


if __name__ == "__main__":
    main()
