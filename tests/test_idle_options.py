"""Options that change nothing are refused by name, before anything is compiled."""

import numpy as np
import pytest

import ergode
from ergode.trajectories import basins, integrate

FALLING = ergode.field_from_equations({"x": "-x"})
ARRAY = ergode.VectorField(component=lambda i, t, y, p: -y[i], variables=("x", 4))
DECAY = ergode.ReactionNetwork({"X": 20}, [ergode.Reaction("X -> 0", rate_constant=0.1)])
PRIOR = {"field": FALLING, "prior": ergode.Gaussian([1.0], [0.1]), "times": [0.0, 1.0]}
AT_ONCE = {"times": [0.0, 1.0], "device": "cpu"}


def orbit(field=FALLING, **options):
    initial = {"x": np.ones(4) if field is ARRAY else 1.0}
    return integrate(field, initial=initial, **AT_ONCE, **options)


def epidemic(**options):
    model = ergode.CompartmentModel.si(transmission_rate=1.0)
    contacts = ergode.ContactNetwork.from_edges([0], [1])
    return ergode.epidemics.simulate(model, contacts, initial={"I": 1}, **AT_ONCE, **options)


def basin(**options):
    return basins(FALLING, initial={"x": [1.0, 2.0]}, duration=1.0, device="cpu", **options)


def reactions(**options):
    return ergode.stochastic.simulate(DECAY, **AT_ONCE, **options)


def zones(**options):
    return ergode.kinetics.integrate(DECAY, **AT_ONCE, **options)


def cloud(**options):
    return ergode.particles.propagate(**PRIOR, device="cpu", **options)


def kalman(**options):
    return ergode.particles.unscented_kalman(**PRIOR, device="cpu", **options)


EQUAL = {"method": "rk4", "step": 0.1}
IDLE = [
    # Call, option and value, other options, and why it has no effect.
    (orbit, "record", 3, {}, "no events"),
    (orbit, "observe_from", 0.5, {}, "no events and no observables"),
    (orbit, "noise_per_step", 2, {}, "no noise"),
    (orbit, "max_steps", 3, EQUAL, "steps of one size"),
    (orbit, "max_steps", 3, {"method": "rk4"}, "steps of one size"),
    (orbit, "max_step", 0.1, {"method": "rk4"}, "steps of one size"),
    (orbit, "max_steps", 3, {"field": ARRAY, **EQUAL}, "steps of one size"),
    (orbit, "max_steps", 3, {"field": ARRAY, **EQUAL, "method": "rodas5p"}, "of one size"),
    (basin, "transient", 0.5, {}, "no observables"),
    (epidemic, "quantiles", [0.5], {}, "output='counts' has none"),
    (epidemic, "quantiles", [0.5], {"output": "line_list"}, "output='line_list' has none"),
    (reactions, "rounding", "down", {}, "no events"),
    (zones, "reference_control", True, {"method": "rodas4"}, "method 'rodas4' is implicit"),
    (cloud, "regularise", True, {}, "no measurements"),
    (cloud, "resample_below", 0.5, {}, "no measurements"),
    (kalman, "step", 0.1, {}, "no noise"),
]


@pytest.mark.parametrize(
    ("call", "name", "value", "others", "why"), IDLE,
    ids=[f"{call.__name__}-{name}-{number}" for number, (call, name, *_) in enumerate(IDLE)],
)  # fmt: skip
def test_it_is_refused(call, name, value, others, why):
    with pytest.raises(ergode.PlanError, match=f"^{name} has no effect: .*{why}.*; leave it out"):
        call(**{name: value}, **others)
