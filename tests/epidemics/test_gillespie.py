"""Jump by jump: pairs of nodes against what can be worked out by hand.

The statistical assertions together fail by chance once in a million runs.
"""

import numpy as np
import pytest

import ergode
from ergode.epidemics import simulate

PAIR_COUNT = 200
PAIRS = ergode.ContactNetwork.from_edges(
    np.arange(0, 2 * PAIR_COUNT, 2), np.arange(1, 2 * PAIR_COUNT, 2)
)
SIGMAS = 5.1


def run(replicates, **options):
    sir = ergode.CompartmentModel.sir(transmission_rate=0.5, infectious=ergode.Exponential(mean=4))
    return simulate(
        sir, PAIRS, initial={"I": np.arange(0, 2 * PAIR_COUNT, 2)}, times=[0.0, 2.0, 1e3],
        replicates=replicates, seed=3, method="gillespie", device="cpu", **options,
    )  # fmt: skip


def test_a_pair_follows_its_master_equation():
    """Who begins infected recovers at 1/4 and infects the other at 1/2."""
    counts = run(2_000)
    samples = counts.sizes["replicate"] * PAIR_COUNT
    infected = {2.0: 2 / 3 * -np.expm1(-0.75 * 2.0), 1e3: 2 / 3}
    for time, expected in infected.items():
        found = 1 - float(counts["count"].sel(compartment="S", time=time).sum()) / samples
        error = np.sqrt(expected * (1 - expected) / samples)
        assert abs(found - expected) < SIGMAS * error < 0.01 * expected


def test_every_move_is_a_jump():
    counts = run(20)
    recovered = int(counts["count"].sel(compartment="R").isel(time=-1).sum())
    infections = int(counts["cases"].isel(time=-1).sum())
    assert counts.attrs["infections"] == infections == recovered
    assert counts.attrs["jumps"] == recovered + infections - 20 * PAIR_COUNT


@pytest.mark.parametrize("weighted", [False, True])
def test_the_unit_of_time_changes_nothing(weighted):
    """Neither do small weights: no force of infection is too small, and none is left behind."""
    weights = np.random.default_rng(1).uniform(0.5, 1.5, PAIR_COUNT) if weighted else None
    expected = None
    for unit, scale in ((1.0, 1.0), (2.0**60, 1.0), (2.0**-60, 1.0), (1.0, 2.0**-40)):
        scale = scale if weighted else 1.0
        network = PAIRS
        if weighted:
            network = ergode.ContactNetwork.from_edges(*PAIRS.edges(), weights=weights * scale)
        sir = ergode.CompartmentModel.sir(
            transmission_rate=0.5 / unit / scale, infectious=ergode.Exponential(mean=4 * unit)
        )
        counts = simulate(
            sir, network, initial={"I": np.arange(0, 2 * PAIR_COUNT, 2)},
            times=np.array([0.0, 2.0, 1e3]) * unit, seed=3, replicates=3, method="gillespie",
            device="cpu",
        )  # fmt: skip
        expected = counts if expected is None else expected
        np.testing.assert_array_equal(counts["count"], expected["count"])
    assert int(expected["cases"].isel(time=1).min()) > 240


@pytest.mark.parametrize("threads", [1, 3])
def test_a_replicate_is_the_same_alone_and_on_threads(threads):
    some = run(20)["count"].values
    options = {"replicates": 5, "seed": 3, "method": "gillespie", "device": f"cpu:{threads}"}
    sir = ergode.CompartmentModel.sir(transmission_rate=0.5, infectious=ergode.Exponential(mean=4))
    alone = simulate(
        sir, PAIRS, initial={"I": np.arange(0, 2 * PAIR_COUNT, 2)}, times=[0.0, 2.0, 1e3], **options
    )
    np.testing.assert_array_equal(alone["count"], some[:5])
