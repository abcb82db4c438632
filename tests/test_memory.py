"""What a call would take more memory for than there is, it refuses: by name, and at once."""

import numpy as np
import pytest

import ergode
from ergode.core import devices
from ergode.epidemics import simulate
from ergode.trajectories import ZeroCrossing, integrate

CONTACTS = ergode.ContactNetwork.from_edges([0], [1])
NETWORK = ergode.ReactionNetwork(
    {"A": 3}, [ergode.Reaction("A -> 0", rate_constant="a * b")], parameters={"a": 1.0, "b": 1.0}
)
MANY = np.arange(1.0, 20_001.0)
CROSSED = ergode.grid(a=MANY, b=MANY)
COMMON = {"times": [0.0, 1.0], "device": "cpu:1"}


def decay(t, y, p):
    return (-p[0] * p[1] * y[0],)


def level(t, y, p):
    return y[0] - 0.8


FIELD = ergode.VectorField(decay, ["x"], ["a", "b"])


def model(a, b):
    return ergode.CompartmentModel.si(transmission_rate=a * b)


def trajectories(analysis=integrate, parameters=None, **options):
    parameters = {"a": 1.0, "b": 1.0} if parameters is None else parameters
    common = COMMON if analysis is integrate else {"device": "cpu:1"}
    analysis(FIELD, initial={"x": 1.0}, parameters=parameters, **common | options)


def stochastic(**options):
    ergode.stochastic.simulate(NETWORK, **COMMON | options)


def kinetics(**options):
    ergode.kinetics.integrate(NETWORK, **COMMON | options)


def epidemics(**options):
    parameters = {"a": 1.0, "b": 1.0}
    simulate(model, CONTACTS, initial={"I": 1}, **COMMON | {"parameters": parameters} | options)


def density(**options):
    prior = ergode.Gaussian([1.0], [0.04])
    parameters = {"a": 1.0, "b": 1.0}
    ergode.density.propagate(FIELD, prior, **COMMON | {"parameters": parameters} | options)


EVENTS = {"events": [ZeroCrossing(level, name="low")]}
SECTION = {"section": ZeroCrossing(level), "duration": 1.0}
LONG = np.arange(1.0, 1e7)
PULSE = ergode.kinetics.Trajectory(MANY / 20_000, MANY)
EVERYWHERE = "a sweep of 20,000 of 'a' x 20,000 of 'b'"


@pytest.mark.parametrize(
    ("call", "options", "said"),
    [
        (trajectories, {"record": 10**9, **EVENTS}, "a record of 1,000,000,000 hits"),
        (trajectories,
         {"analysis": ergode.trajectories.poincare_section, "record": 10**8, **SECTION},
         "a record of 100,000,000 hits"),
        (trajectories, {"replicates": 2**31 - 1}, "2,147,483,647 of 'replicate'"),
        (trajectories, {"parameters": {"a": LONG[:10**5], "b": 1.0}, "times": MANY},
         "20,000 times"),
        (trajectories, {"parameters": {"a": LONG[:10**5], "b": 1.0}, "times": MANY, "step": 0.5},
         "20,000 times, for 100,000 traj"),
        (stochastic, {"replicates": 2**32 - 1}, "4,294,967,295 realizations (replicates"),
        (stochastic, {"replicates": 10**6, "times": MANY}, "20,000 times"),
        (stochastic, {"parameters": {"a": LONG[:10**5]}, "times": MANY, "output": "statistics"},
         "statistics of 100,000 points at 20,000 times"),
        (kinetics, {"temperature": LONG[:10**5], "times": MANY}, "100,000 zones at 20,000 times"),
        (kinetics, {"initial": {"A": LONG}, "temperature": PULSE},
         "conditions of 9,999,999 zones at 20,001 knots"),
        (epidemics, {"replicates": 2**32 - 1}, "4,294,967,295 epidemics at 2 times"),
        (epidemics, {"replicates": 2**32 - 1, "output": "statistics"}, "4,294,967,295 epidemics"),
        (epidemics, {"replicates": 2**32 - 1, "output": "line_list"}, "4,294,967,295 epidemics"),
        (epidemics, {"parameters": {"a": LONG, "b": 1.0}}, "models of 9,999,999 points"),
        (density, {"parameters": {"a": LONG[:10**5], "b": 1.0}, "times": MANY},
         "100,000 densities at 20,000 times"),
        (density, {"times": np.broadcast_to(0.0, 10**8)}, "1 densities at 100,000,000 times"),
        *((call, {"parameters": CROSSED}, EVERYWHERE)
          for call in (trajectories, stochastic, kinetics, epidemics, density)),
        (ergode.ContactNetwork.erdos_renyi, {"node_count": 10**9, "mean_degree": 2}, "10**9 nodes"),
        (ergode.ContactNetwork.erdos_renyi, {"node_count": 10**6, "mean_degree": 10**5},
         " contacts needs"),
        (ergode.ContactNetwork.stochastic_block_model,
         {"block_sizes": [10**9, 10**9], "mean_degrees": [[1, 1], [1, 1]]},
         "a network of 2,000,000,000 nodes"),
    ],
)  # fmt: skip
def test_it_is_refused_before_it_is_allocated(monkeypatch, call, options, said):
    monkeypatch.setattr(devices.CPU, "available_bytes", lambda self: 1 << 30)
    said = said.replace("10**9", f"{10**9:,}")
    with pytest.raises(ergode.PlanError, match="GB, but cpu.* has 1.07 GB free") as caught:
        call(**options)
    assert said in str(caught.value)
