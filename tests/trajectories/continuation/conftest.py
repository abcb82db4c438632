import numpy as np
import pytest

import ergode


def _special(branch, name):
    """A single point of a branch, by the name of its special point."""
    return branch.isel(point=[str(one) for one in branch["special"].values].index(name))


@pytest.fixture(scope="session")
def special():
    return _special


def _names(branch):
    return [str(name) for name in branch["special"].values if name]


@pytest.fixture(scope="session")
def names():
    return _names


@pytest.fixture(scope="session")
def hodgkin_huxley():
    """The squid axon with the constants of 1952: depolarization V [mV], current I [uA/cm2]."""
    return ergode.field_from_equations({
        "V": "I - 120 * m**3 * h * (V - 115) - 36 * n**4 * (V + 12) - 0.3 * (V - 10.599)",
        "m": "(25 - V) / 10 / (exp((25 - V) / 10) - 1) * (1 - m) - 4 * exp(-V / 18) * m",
        "h": "0.07 * exp(-V / 20) * (1 - h) - h / (exp((30 - V) / 10) + 1)",
        "n": "(10 - V) / 100 / (exp((10 - V) / 10) - 1) * (1 - n) - 0.125 * exp(-V / 80) * n",
    }, ["I"])  # fmt: skip


@pytest.fixture(scope="session")
def rest_of_the_axon(hodgkin_huxley):
    return ergode.trajectories.branch(
        hodgkin_huxley, start={"V": 0, "m": 0.05, "h": 0.6, "n": 0.32}, parameters={"I": 0},
        vary={"I": (0, 180)},
    )  # fmt: skip


@pytest.fixture(scope="session")
def oscillator():
    """Equations of the normal form of a Hopf bifurcation, in variables of any size."""

    def make(size=1.0, cubic=-1.5):
        square = f"{cubic / size**2!r} * (x**2 + y**2)"
        return ergode.field_from_equations(
            {"x": f"mu*x - 2*y + x * {square}", "y": f"2*x + mu*y + y * {square}"}
        )

    return make


@pytest.fixture(scope="session")
def cycle_of():
    """The cycle to which a simulation leads, with its last two periods."""

    def simulate(field, initial, parameters, period, transient=300.0):
        times = np.concatenate([[0.0], np.linspace(transient, transient + 2.2 * period, 400)])
        return ergode.trajectories.integrate(
            field, times=times, initial=initial, parameters=parameters, rtol=1e-10, atol=1e-10,
            device="cpu",
        )  # fmt: skip

    return simulate
