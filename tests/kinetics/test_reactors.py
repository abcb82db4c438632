"""Reactors with flow: theory, and what is refused.

The kernels of tanks and tubes that heat themselves run as text. `tests/referees/test_kinetics.py`
has random tanks and tubes, and `tests/referees/test_reactors.py` those of Cantera.
"""

from dataclasses import replace

import numpy as np
import pytest
from both_devices import on_both
from grid_of_threads import Block
from kernel_cases import CARBON, EXPLICIT, ROBERTSON, burning, launch_of

import ergode
from ergode.core.devices import resolve
from ergode.core.math.rosenbrock import RODAS4
from ergode.kinetics import PlugFlow, StirredTank, integrate
from ergode.kinetics.compositions import molar_masses
from ergode.kinetics.implicit.runner import thread_launch
from ergode.kinetics.implicit.system import system_of
from ergode.kinetics.launch import bindings_of, empty_outcome
from ergode.kinetics.physics.energy import enthalpies, polynomials_of
from ergode.kinetics.tolerances import absolute_tolerances

R = 8.31446261815324e7
GAS = burning()
FEED = {"H": 0.2, "OH": 0.3, "H2": 0.5}
START = {"H2O": 1.0, "H2": 0.1, "H": 0.01}
HOT = {"temperature": 1500.0, "pressure": 1e6}
TAU = 1e-6
GRID = np.concatenate([[0.0], np.geomspace(1e-9, 3e-6, 161)])
CHAIN = ergode.ReactionNetwork(
    {"A": 1.0, "B": 0.5, "C": 0.0},
    [ergode.Reaction("A -> B", rate_constant=3.0), ergode.Reaction("B -> C", rate_constant=1e4)],
)


def chain_in_a_tank(times, tau, inflow):
    """Amounts of A, B and C: the solution of the linear system."""
    matrix = np.array([[-3.0, 0, 0], [3.0, -1e4, 0], [0, 1e4, 0]]) - np.eye(3) / tau
    steady = np.linalg.solve(matrix, [-inflow / tau, 0, 0])
    values, vectors = np.linalg.eig(matrix)
    weights = np.linalg.solve(vectors, [1.0, 0.5, 0.0] - steady)
    return steady + np.array([vectors @ (weights * np.exp(values * t)) for t in times])


def by_a_block(grid, initial, change=lambda text: text, **conditions):
    """Amounts, and steps, by the text of the CUDA kernel."""
    _, zones, launch = launch_of(GAS, initial, 32, "rodas4", 1e-3, 2_000, **HOT, **conditions)
    found, scratch = empty_outcome(zones, grid), np.zeros((1, launch.scratch_count))
    source = launch.kernel.source("cuda")
    block = Block(replace(source, text=change(source.text)), 32, launch.shared_bytes // 8)
    block.run(*launch.arguments(zones.history, grid, scratch, np.zeros(1, np.int32), found))
    assert found.status.item() == 0
    return found.amounts[0], found.taken.item()


def heat(amounts, hot):
    """Enthalpy of a mixture at each time [erg]."""
    each = enthalpies(polynomials_of([one.thermochemistry for one in GAS.species]), hot)
    return (amounts[..., : each.shape[-1]] * each).sum(-1)


def balance(heating, change=lambda text: text):
    """Energy of a tank less what it should be, over what was exchanged, and the same of hydrogen.

    At constant pressure H' = (H_in - H) / tau, so it relaxes exponentially; at constant volume the
    energy U = H - p V changes by the integral of (H_in - H) / tau.
    """
    tank = StirredTank(FEED, TAU, 900.0)
    y, steps = by_a_block(GRID, START, change, heating=heating, reactor=tank)
    mass = molar_masses(GAS)
    names = [one.name for one in GAS.species]
    flowing = np.array([FEED.get(name, 0.0) for name in names])
    flowing *= (y[0, :4] @ mass) / (flowing @ mass)
    hydrogen = np.array([one.thermochemistry.composition.get("H", 0) for one in GAS.species])
    kept = np.exp(-GRID / TAU)
    exact = flowing @ hydrogen + (y[0, :4] - flowing) @ hydrogen * kept
    off = np.abs(y[:, :4] @ hydrogen / exact - 1.0).max()
    found, into = heat(y, y[:, 4]), heat(flowing, np.array(900.0))
    scale = np.abs(into - found).max()
    if heating == "constant-pressure":
        return np.abs(found - into - (found[0] - into) * kept).max() / scale, off, steps
    energy = found - R * y[:, 4] * y[:, :4].sum(axis=1)
    # The integral over the logarithm of time, in which the result is smooth.
    speed = (into - found[1:]) / TAU * GRID[1:]
    step = np.log(GRID[2] / GRID[1])
    gained = (speed[0] + 4 * speed[1:-1:2].sum() + 2 * speed[2:-1:2].sum() + speed[-1]) * step / 3
    return abs(energy[-1] - energy[1] - gained) / scale, off, steps


@pytest.mark.parametrize(
    "heating",
    ["constant-volume", pytest.param("constant-pressure", marks=pytest.mark.exhaustive)],
)
def test_a_tank_keeps_its_balance_of_energy_and_of_atoms(heating):
    energy, hydrogen, steps = balance(heating)
    assert energy < 3e-4 and hydrogen < 1e-4
    assert steps < 50  # a wrong Jacobian costs steps


def cooler_inflow(text):
    return text.replace("rate = renewal * (enters -", "rate = renewal * (0.99 * enters -")


def nothing_pushed_out(text):
    return text.replace("logarithm, i) + GAS_CONSTANT * t)", "logarithm, i))")


def no_outflow_in_the_jacobian(text):
    return text.replace("system.pivot[i]] += renewal", "system.pivot[i]] += 0.0")


@pytest.mark.exhaustive
@pytest.mark.parametrize("broken", [cooler_inflow, nothing_pushed_out, no_outflow_in_the_jacobian])
def test_a_broken_tank_is_noticed(broken):
    def changed(text):
        assert broken(text) != text
        return broken(text)

    energy, _, steps = balance("constant-volume", changed)
    assert energy > 1e-3 or steps > 50


@pytest.mark.exhaustive
def test_the_oldest_in_a_tube_is_what_a_closed_zone_becomes():
    """In the time since the inlet, and so is the heat; the flow of mass is constant."""
    grid = np.array([0.0, 0.05, 0.2])
    y, steps = by_a_block(grid, FEED, heating="constant-pressure", reactor=PlugFlow(1e5))
    ages = y[:, 5]
    closed, others = by_a_block(ages, FEED, heating="constant-pressure")
    np.testing.assert_allclose(y[:, :5], closed, rtol=3e-3, atol=1e-3 * y[0, :4].max())
    np.testing.assert_allclose(heat(y, y[:, 4]), heat(y, y[:, 4])[0], rtol=1e-4)
    assert abs(y[-1, 4] - 1500.0) > 50.0 and steps < 1.3 * others + 5


@pytest.mark.parametrize("threads", [0, 1])
def test_a_chain_in_a_tank_is_exact(threads):
    """By the compiled CPU kernel, and by the text of the kernel with a thread for every zone."""
    times, tau = np.array([0.0, 1e-4, 0.01, 0.3, 2.0]), np.array([0.02, 0.5])
    tank = StirredTank({"A": 4.0}, tau)
    if threads:
        mechanism, zones, _ = launch_of(CHAIN, None, 32, "rodas4", 1e-6, 5_000, reactor=tank)
        absolute = absolute_tolerances(mechanism, zones, None, 1e-6)
        system = system_of(mechanism, absolute, heating=0, flow=1)
        bindings = bindings_of(mechanism, zones)
        launch = thread_launch(resolve("cpu:1"), bindings, system, RODAS4, (1e-6, 5_000))
        outcome = empty_outcome(zones, times)
        Block(launch.kernel.source("cuda"), 1, 0).run(
            *launch.arguments(zones.history, times, np.zeros(1, np.int32), outcome)
        )
        found = outcome.amounts
    else:
        found = integrate(
            CHAIN, times=times, reactor=tank, rtol=1e-6, device="cpu"
        )["concentration"].values  # fmt: skip
    for one, own in zip(found, tau, strict=True):
        np.testing.assert_allclose(one, chain_in_a_tank(times, own, 4.0), rtol=1e-5, atol=1e-9)


def test_parts_of_the_zones_are_those_of_one_call(tmp_path):
    """Residence times, feeds and amounts by zone."""
    tank = StirredTank({"A": [1.0, 2.0, 4.0]}, [0.1, 1.0, 10.0])
    options = {"times": [0, 1], "initial": {"A": [1.0, 0.0, 2.0]}, "reactor": tank, "device": "cpu"}
    one = integrate(CHAIN, **options)
    parts = integrate(CHAIN, **options, store=tmp_path / "parts.zarr", chunk=2)
    np.testing.assert_array_equal(one["concentration"], parts["concentration"])
    np.testing.assert_array_equal(parts["residence_time"], [0.1, 1.0, 10.0])
    assert one.attrs["reactor"] == "stirred tank"
    assert one.attrs["inflow"] == "A=one for each zone"


@pytest.mark.exhaustive
def test_points_of_a_sweep_share_the_tanks():
    swept = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.5}, [ergode.Reaction("A -> B", rate_constant="k")], parameters={"k": 3.0}
    )
    found = integrate(
        swept, times=[0, 50], reactor=StirredTank({"A": 4.0}, [0.1, 1.0]), device="cpu",
        parameters={"k": [1.0, 3.0]},
    )  # fmt: skip
    steady = 4.0 / (1.0 + np.array([[1.0], [3.0]]) * [0.1, 1.0])
    np.testing.assert_allclose(found["concentration"][:, :, -1, 0], steady, rtol=1e-3)


def test_what_washes_out_of_a_tank_is_no_failure():
    """After thirty residence times the error of a step is larger than what is left of B and C."""
    tank = StirredTank({"A": 0.0}, 0.01)
    found = integrate(CHAIN, times=[0, 0.3], reactor=tank, rtol=3e-3, device="cpu")
    assert found["status"].item() == 0
    assert found["conservation_error"].item() < 1e-3
    assert found["concentration"][0, -1].max() < 1e-4


def test_boundary_species_do_not_flow():
    network = ergode.ReactionNetwork(
        [ergode.Species("A", 1.0), ergode.Species("M", 3.0, boundary=True)],
        [ergode.Reaction("A + M -> M", rate_constant=1.0)],
    )
    found = integrate(network, times=[0, 50], reactor=StirredTank({"A": 4.0}, 1.0), device="cpu")
    np.testing.assert_allclose(found["concentration"][0, -1], [1.0, 3.0], rtol=1e-3)
    with pytest.raises(ergode.ModelError, match="inflow has the species 'M', whose amount"):
        integrate(network, times=[0, 50], reactor=StirredTank({"M": 4.0}, 1.0), device="cpu")


FIT = {"network": GAS, "heating": "constant-volume", "initial": START, **HOT}
REFUSED = [
    (lambda: StirredTank({}, 1.0), "inflow is {}"),
    (lambda: StirredTank({"A": 1}, 0.0), "residence_time is 0 in zone 0"),
    (lambda: StirredTank({"A": 1}, [1.0, np.inf]), "residence_time is inf in zone 1"),
    (lambda: StirredTank({"A": 1}, "long"), "residence_time is 'long'"),
    (lambda: StirredTank({"A": 1}, 1.0, [[300.0]]), "temperature of the inflow has shape"),
    (lambda: PlugFlow(-1.0), "velocity is -1 in zone 0"),
    (lambda: asked(reactor="tank"), "reactor is 'tank'; expected a kinetics.StirredTank"),
    (lambda: asked(reactor=StirredTank({"H3": 1}, 1.0, 300.0)), "inflow has the species 'H3'"),
    (lambda: asked(reactor=StirredTank({"H2": -1}, 1.0, 300.0)), "inflow 'H2' is -1 in zone 0"),
    (lambda: asked(reactor=StirredTank({"H2": 0}, 1.0, 300.0)), "inflow is empty in zone 0"),
    (lambda: asked(reactor=StirredTank(FEED, 1.0)), "inflow has no temperature"),
    (lambda: asked(reactor=StirredTank(FEED, 1.0, 300.0), heating=None), "has no effect"),
    (lambda: asked(reactor=StirredTank(FEED, [1.0, 2.0, 3.0], [300.0, 400.0])), "has 2 values"),
    (lambda: asked(reactor=PlugFlow(1.0)), "plug flow is for molecules at constant pressure"),
    (lambda: asked(heating="isobaric"), "'isothermal-constant-pressure'"),
    (
        lambda: asked(
            network=CARBON, heating=None, pressure=None, density=1e7, initial={"c12": 1.0},
            reactor=StirredTank({"c12": 1.0}, 1.0), temperature=1e9,
        ),
        "the network has nuclei",
    ),
    (
        lambda: asked(
            network=ROBERTSON, initial=None, pressure=None, heating="isothermal-constant-pressure"
        ),
        "neither nuclei nor molecules",
    ),
    (
        lambda: ergode.kinetics.burn(
            GAS, np.ones(1), np.ones(1), np.ones((1, 4)), 1.0,
            heating="isothermal-constant-pressure",
        ),
        "expected None, 'constant-volume' or 'constant-pressure'",
    ),
]  # fmt: skip


def asked(**changes):
    return integrate(**{"times": [0, 1e-6], "device": "cpu"} | FIT | changes)


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_is_refused(make, words):
    with pytest.raises(ergode.ModelError) as caught:
        make()
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("method", EXPLICIT)
def test_explicit_methods_refuse_reactors(method):
    with pytest.raises(ergode.PlanError, match=f"'{method}' cannot integrate a reactor with flow"):
        integrate(CHAIN, times=[0, 1], reactor=StirredTank({"A": 1.0}, 1.0), method=method)


@pytest.mark.cuda
def test_many_small_tanks_on_a_device():
    """So many that every thread has a zone."""
    tank = StirredTank({"A": 4.0}, np.geomspace(1e-3, 1e3, 200_000))
    one, other = on_both(integrate, CHAIN, times=[0, 0.1, 1.0], reactor=tank)
    np.testing.assert_array_equal(one["step_count"], other["step_count"])
    np.testing.assert_allclose(one["concentration"], other["concentration"], rtol=1e-8)
