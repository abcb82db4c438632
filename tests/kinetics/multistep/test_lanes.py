"""Eight zones in vector lanes: bitwise those that are integrated alone; and closed forms."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import ergode
from ergode.kinetics import integrate
from ergode.kinetics.multistep.lanes import LANES

CPU = ergode.Device("cpu:1")
COUNT = 2 * LANES + 3  # lanes take further zones, and some end without one


def integrated(network, **given):
    """All zones in one call, and each zone in a call of its own."""
    together = integrate(network, method="bdf", device=CPU, **given)
    alone = []
    for k in range(COUNT):
        own = {name: value[k] if isinstance(value, np.ndarray) else value
               for name, value in given.items() if name != "times"}  # fmt: skip
        alone.append(integrate(network, times=given["times"], method="bdf", device=CPU, **own))
    return together, alone


@pytest.mark.slow
@pytest.mark.parametrize("heating", ["constant-volume", "constant-pressure", None])
def test_zones_are_those_that_are_integrated_alone(heating):
    """Falloff and third bodies; zones ignite at other times, some of them never."""
    ct = pytest.importorskip("cantera")
    network = ergode.read_cantera(Path(ct.__file__).parent / "data" / "h2o2.yaml")
    rng = np.random.default_rng(11)
    together, alone = integrated(
        network, times=np.linspace(0.0, 4e-4, 4), heating=heating, rtol=1e-7, atol=1e-18,
        initial={"H2": 2.0, "O2": 1.0, "AR": 4.0}, temperature=rng.uniform(800.0, 1500.0, COUNT),
        pressure=1e6 * rng.uniform(0.5, 5.0, COUNT),
    )  # fmt: skip
    assert (together["status"] == 0).all()
    assert together["step_count"].min() < 0.8 * together["step_count"].max()
    for k, own in enumerate(alone):
        for name in set(together) - {"density", "pressure"}:
            np.testing.assert_array_equal(together[name].values[k], own[name].values[0], name)


@pytest.mark.slow
def test_a_zone_that_fails_leaves_its_neighbours_alone():
    """The solution of 2 x -> 3 x with rate x^2 is 1 / (1 / x_0 - t): some zones reach infinity."""
    network = ergode.ReactionNetwork({"x": 1.0}, [ergode.Reaction("2 x -> 3 x", rate_constant=1.0)])
    start = np.where(np.arange(COUNT) % 3 == 1, 1.0, np.linspace(0.05, 0.3, COUNT))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ergode.ErgodeWarning)
        found = integrate(
            network, times=[0.0, 0.5, 2.0], initial={"x": start}, method="bdf", rtol=1e-8,
            device=CPU,
        )  # fmt: skip
        few = integrate(
            network, times=[0.0, 0.5, 2.0], initial={"x": start}, method="bdf", rtol=1e-8,
            device=CPU, max_steps=5,
        )  # fmt: skip
    values, fails = found["concentration"].values[:, :, 0], start == 1.0
    np.testing.assert_array_equal(found["status"].values != 0, fails)
    np.testing.assert_allclose(values[:, 1], 1 / (1 / start - 0.5), rtol=1e-6)
    np.testing.assert_allclose(values[~fails, 2], 1 / (1 / start[~fails] - 2.0), rtol=1e-6)
    assert np.isnan(values[fails, 2]).all()
    assert (few["status"] == int(ergode.Status.TOO_MANY_STEPS)).all()
