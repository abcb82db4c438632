"""Random networks of which one rate constant is a formula of two named parameters."""

import numpy as np
from kinetics_cases import conditions_of, network_of, random_case

import ergode

ADDED = {"plain": "s0 -> s1", "molecules": "H2 -> 2 H", "nuclei": "d -> p + n"}


def swept_case(seed, kind):
    """A description, the text of its reaction with parameters, and their values."""
    case = random_case(seed, kind)
    rng = np.random.default_rng([seed, 15])
    kind = case["kind"]
    span = case["times"][-1] - case["times"][0]
    speeds = 10 ** rng.uniform(-0.5, 1.0, 3) / span
    return case, ADDED[kind], {"speed": speeds.tolist(), "share": [0.3, float(rng.uniform(1, 2))]}


def network_with(case, text, rate_constant, parameters=None):
    """The network of a case, and one more reaction."""
    base = network_of(case)
    reactions = [base.reactions[k] for k in range(len(base.reactions))]
    more = ergode.Reaction(text, rate_constant=rate_constant, name="swept")
    return ergode.ReactionNetwork(base.species, [*reactions, more], parameters=parameters)


def sweep_and_own_calls(case, text, values, **options):
    """A crossed sweep, and for each of its points the result of a network of numbers alone."""
    options |= conditions_of(case)
    named = network_with(case, text, "speed * share", {"speed": 1.0, "share": 1.0})
    sweep = ergode.kinetics.integrate(named, parameters=ergode.grid(**values), **options)
    own = {}
    for i, speed in enumerate(values["speed"]):
        for j, share in enumerate(values["share"]):
            alone = network_with(case, text, speed * share)
            own[i, j] = ergode.kinetics.integrate(alone, **options)
    return sweep, own
