"""A species that is used up within a step: both formulas of a pair would go on below zero."""

import numpy as np
import pytest

import ergode
from ergode.kinetics import integrate

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def titration(source, burette, amount, speed):
    """S -> B slowly; B takes A at once as long as there is any."""
    reactions = [
        ergode.Reaction("S -> B", rate_constant=source),
        ergode.Reaction("A + B -> C", rate_constant=speed),
    ]
    return ergode.ReactionNetwork({"S": burette, "A": amount, "B": 0.0, "C": 0.0}, reactions)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("method", "errors"), [("rodas4", 10.0), ("rosenbrock23", 400.0)])
def test_a_titration_turns_where_the_acid_ends(method, errors, device):
    """Against the limit of a reaction that takes no time, which is 1e-6 off at most."""
    rng = np.random.default_rng(1)
    for _ in range(25):
        source = 10 ** rng.uniform(-2, 2)
        amount = rng.uniform(0.02, 0.9)
        speed = source * 10 ** rng.uniform(12, 15)
        rtol = 10 ** rng.uniform(-6, -3)
        times = np.sort(rng.uniform(0, 6, 4)) / source
        found = integrate(
            titration(source, 1.0, amount, speed), times=np.array([0.0, *times]), method=method,
            rtol=rtol, device=device,
        )  # fmt: skip
        made = 1 - np.exp(-source * times)
        taken = np.minimum(made, amount)
        exact = np.stack([1 - made, amount - taken, made - taken, taken], -1)
        assert found["status"].item() == 0
        assert np.abs(found["concentration"][0, 1:] - exact).max() < errors * rtol + 3e-6


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23"])
def test_species_of_an_order_below_one_end(method, device):
    for order in (0.1, 0.5):
        law = ergode.PowerLaw(1.0, {"A": order})
        network = ergode.ReactionNetwork(
            {"A": 1.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant=law)]
        )
        found = integrate(network, times=[0, 0.5, 3], rtol=1e-6, method=method, device=device)
        half = (1 - 0.5 * (1 - order)) ** (1 / (1 - order))
        assert found["status"].item() == 0
        assert found["concentration"][0, 1, 0] == pytest.approx(half, abs=1e-4)
        assert found["concentration"][0, 2, 0] == 0.0


NUCLEI = [
    "p", "n", "he4", "c12", "o16", "ne20", "na23", "mg23", "mg24", "al27", "si28", "p31", "s32",
]  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("method", "errors"), [("rodas4", 0.1), ("rosenbrock23", 2.0)])
def test_carbon_burns_by_traces(method, errors, device):
    """Neutrons and Mg23 are far below `atol`, appear together, and destroy each other.

    From zero, where the Jacobian knows nothing of that, a step overshoots to below zero.
    """
    pytest.importorskip("pynucastro")
    rng = np.random.default_rng(5)
    zones = {
        "times": [0, 100.0], "temperature": rng.uniform(0.8e9, 2.5e9, 24), "device": device,
        "density": 10 ** rng.uniform(5, 9, 24), "initial": {"c12": 0.5, "o16": 0.5},
    }  # fmt: skip
    network = ergode.read_reaclib(NUCLEI)
    exact = integrate(network, rtol=1e-8, atol=1e-13, **zones)["mass_fraction"]
    found = integrate(network, method=method, max_steps=1_000, **zones)
    assert (found["status"] == 0).all()
    assert np.abs(found["mass_fraction"] - exact).max() < errors * 1e-4


@pytest.mark.parametrize("device", DEVICES)
def test_protons_that_end(device):
    """Na23 is burnt by protons as soon as Mg23 decays to it, until there are no protons."""
    pytest.importorskip("pynucastro")
    initial = {
        "p": 0.0012, "he4": 0.0384, "c12": 0.0013, "o16": 0.35, "mg23": 0.519, "mg24": 0.0003,
        "si28": 0.0898,
    }  # fmt: skip
    zone = {
        "times": [0, 1.0], "temperature": 1.326e9, "density": 1.72e7, "initial": initial,
        "device": device,
    }  # fmt: skip
    network = ergode.read_reaclib(NUCLEI)
    exact = integrate(network, rtol=1e-9, atol=1e-14, **zone)["mass_fraction"][0, -1]
    assert 0.001 < exact.sel(species="na23") < 0.01
    for rtol in (1e-3, 1e-5):
        found = integrate(network, rtol=rtol, **zone)
        assert np.abs(found["mass_fraction"][0, -1] - exact).max() < rtol
        assert found["conservation_error"].item() < 1e-6


def nuclide(name, mass, charge):
    return ergode.Species(name, mass_number=mass, charge_number=charge)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23"])
def test_traces_that_multiply_are_not_held_down(method, device):
    """Boron ends within 20 ns: each proton makes three He4, and each of these a proton.

    The traces grow as exp(2.2e9 t) from 1e-30, far below `atol`. A step beyond 1 / (gamma 2.2e9)
    would take the growth for a decay, to below zero.
    """
    network = ergode.ReactionNetwork(
        [
            nuclide("p", 1, 1), nuclide("he4", 4, 2), nuclide("b11", 11, 5), nuclide("c14", 14, 6),
            nuclide("s33", 33, 16), nuclide("cl34", 34, 17),
        ],
        [
            ergode.Reaction("p + b11 -> 3 he4", rate_constant=4.12e7),
            ergode.Reaction("he4 + b11 -> p + c14", rate_constant=450.0),
            ergode.Reaction("cl34 -> p + s33", rate_constant=8.3e-10),
        ],
    )  # fmt: skip
    zone = {
        "times": [0, 1e-9, 3e-9, 5e-9, 1e-7, 1e-2], "density": 1.58e8, "method": method,
        "initial": {"b11": 0.17, "cl34": 0.83}, "device": device, "max_steps": 500,
    }  # fmt: skip
    found = integrate(network, **zone)
    assert (found["status"] == 0).all() and found["step_count"].item() < 200
    amounts = found["mass_fraction"][0]
    boron = amounts.sel(species="b11")
    assert boron[3] > 0.169 and boron[4] < 1e-6
    # Of 1e-18: the restoring of sums, whose rounding is 1e-16, leaves them.
    made = 8.3e-10 * 0.83 * 33 / 34 * found["time"][1:4]
    np.testing.assert_allclose(amounts.sel(species="s33")[1:4], made, rtol=1e-6)
