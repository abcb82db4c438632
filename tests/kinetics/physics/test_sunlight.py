"""Coefficients that follow the sunlight."""

import numpy as np
import pytest
from both_devices import on_both
from grid_of_threads import Block
from kernel_cases import EXPLICIT, launch_of

import ergode
from ergode.kinetics import Trajectory, daylight, integrate
from ergode.kinetics.launch import empty_outcome

SPLITTING = ergode.ReactionNetwork(
    {"A": 1.0, "B": 0.0},
    [ergode.Reaction("A -> B", rate_constant=ergode.Photolysis(3.0, 2.0))],
)
FLASH = Trajectory([0.2, 0.3, 0.5, 0.5 + 1e-9], [0.0, 1.0, 0.4, 0.0])
# The integral of the square of the sunlight: of straight pieces (a^2 + a b + b^2) / 3 each.
DOSE = 0.1 * 1.0 / 3 + 0.2 * (1.0 + 0.4 + 0.16) / 3


def test_a_flash_is_a_dose():
    """By the text of the CUDA kernel: dark before, dark after, and not missed."""
    grid = np.array([0.0, 0.1, 0.3, 0.6, 1.0])
    _, zones, launch = launch_of(
        SPLITTING, None, 32, "rodas4", 1e-5, 500, sunlight=FLASH, grid=grid
    )  # fmt: skip
    found, scratch = empty_outcome(zones, grid), np.zeros((1, launch.scratch_count))
    block = Block(launch.kernel.source("cuda"), 32, launch.shared_bytes // 8)
    block.run(*launch.arguments(zones.history, grid, scratch, np.zeros(1, np.int32), found))
    exact = np.exp(-3.0 * np.array([0.0, 0.0, 0.1 / 3, DOSE, DOSE]))
    np.testing.assert_allclose(found.amounts[0, :, 0], exact, rtol=1e-5)


def test_radicals_are_known_at_all_times_of_the_result():
    """Oxygen atoms follow the sunlight within a second, and steps are hours: Chapman's ozone."""
    chapman = ergode.ReactionNetwork(
        {"O": 1e3, "O3": 5e11, "O2": 1.6e16, "M": 8e16},
        [
            ergode.Reaction("O2 -> 2 O", rate_constant=ergode.Photolysis(2.6e-10, exponent=3)),
            ergode.Reaction("O + O2 + M -> O3 + M", rate_constant=6.3e-34),
            ergode.Reaction("O3 -> O + O2", rate_constant=ergode.Photolysis(6.1e-4)),
            ergode.Reaction("O + O3 -> 2 O2", rate_constant=2.6e-15),
        ],
    )
    found, exact = (
        integrate(
            chapman, times=np.arange(0, 49, 2) * 3600.0, sunlight=daylight, device="cpu", **options
        )["concentration"].sel(species="O", zone=0).values
        for options in ({"rtol": 1e-6, "atol": 100.0}, {"rtol": 1e-8, "atol": 1e-4})
    )  # fmt: skip
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=100.0)


@pytest.mark.exhaustive
def test_a_day_is_a_dose_in_every_zone():
    """Functions of time, numbers for zones, and the night."""
    day = 86400.0
    slow = ergode.ReactionNetwork(
        {"A": 1.0}, [ergode.Reaction("A -> 0", rate_constant=ergode.Photolysis(2e-5))]
    )
    times = np.linspace(0.0, 2 * day, 49)
    found = integrate(slow, times=times, sunlight=daylight, rtol=1e-6, device="cpu")
    fine = np.linspace(0.0, 2 * day, 2 * 48 * 400 + 1)
    light = np.array([daylight(t) for t in fine])
    dose = np.concatenate([[0.0], np.cumsum(0.5 * (light[1:] + light[:-1])) * (fine[1] - fine[0])])
    exact = np.exp(-2e-5 * np.interp(times, fine, dose))
    np.testing.assert_allclose(found["concentration"][0, :, 0], exact, rtol=1e-5)
    night = (times % day < 4.5 * 3600) & (times > 0)
    assert night.sum() > 4
    steady = integrate(slow, times=[0, day], sunlight=[0.0, 0.5, 1.0], device="cpu")
    last = steady["concentration"][:, -1, 0]
    np.testing.assert_allclose(last, np.exp(-2e-5 * day * np.array([0, 0.5, 1])), rtol=1e-4)


PLAIN = ergode.ReactionNetwork({"A": 1.0}, [ergode.Reaction("A -> 0", rate_constant=1.0)])
REFUSED = [
    (lambda: integrate(SPLITTING, times=[0, 1]), "sunlight is not given"),
    (lambda: integrate(PLAIN, times=[0, 1], sunlight=1.0), "no coefficient depends on it"),
    (lambda: integrate(SPLITTING, times=[0, 1], sunlight=-1.0), "sunlight is -1 in zone 0"),
    (lambda: integrate(SPLITTING, times=[0, 1], sunlight="noon"), "sunlight is 'noon'"),
    (lambda: ergode.Photolysis(1.0, 0.0), "exponent of a Photolysis is 0"),
    (lambda: ergode.Photolysis(-1.0), "rate of a Photolysis is -1.0"),
    (
        lambda: ergode.Photolysis(ergode.DetailedBalance(ergode.Arrhenius(1.0))),
        "rate of a Photolysis is a DetailedBalance",
    ),
    (lambda: daylight(0.0, sunrise=20.0), "sunrise is 20.0 and sunset 19.5"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_is_refused(make, words):
    with pytest.raises(ergode.ModelError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize("method", EXPLICIT)
def test_explicit_methods_refuse_sunlight(method):
    with pytest.raises(ergode.PlanError, match=f"'{method}' cannot integrate coefficients that"):
        integrate(SPLITTING, times=[0, 1], sunlight=FLASH, method=method)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23"])
@pytest.mark.parametrize("sunlight", [FLASH, 0.7])
def test_sunlight_on_a_device(method, sunlight):
    one, other = on_both(integrate, SPLITTING, times=[0, 0.3, 1], sunlight=sunlight, method=method)
    np.testing.assert_array_equal(one["step_count"], other["step_count"])
    np.testing.assert_allclose(one["concentration"], other["concentration"], rtol=1e-8)
