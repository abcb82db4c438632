"""Small networks, and how probable counts of them are."""

import numpy as np
from scipy import stats

from ergode import Event, Reaction, ReactionNetwork, Species

IMMIGRATION_DEATH = ReactionNetwork(
    {"X": 3},
    [
        Reaction("0 -> X", rate_constant="alpha", name="immigration"),
        Reaction("X -> 0", rate_constant="mu", name="death"),
    ],
    parameters={"alpha": 10.0, "mu": 0.5},
)
DIMERISATION = ReactionNetwork(
    [Species("P", 30, compartment="cell"), Species("P2", compartment="cell")],
    [Reaction("2 P -> P2", rate_constant=0.02), Reaction("P2 -> 2 P", rate_constant=0.1)],
    compartments={"cell": 2.0},
)
SCHLOEGL = ReactionNetwork(
    {"X": 60},
    [
        Reaction("2 X -> 3 X", stochastic_rate_constant=0.06),
        Reaction("3 X -> 2 X", stochastic_rate_constant=0.001),
        Reaction("0 -> X", rate_constant=20.0),
        Reaction("X -> 0", rate_constant=1.6),
    ],
)
SATURATED = ReactionNetwork(
    {"S": 25, "P": 0},
    [
        Reaction("S -> P", rate="vmax * S / (K + S)"),
        Reaction("P -> S", rate="back * P * (1 if P > 5 else 2)"),
    ],
    parameters={"vmax": 6.0, "K": 8.0, "back": 0.2},
)
BURSTS = ReactionNetwork(
    {"X": 0},
    [Reaction([], {"X": 5}, rate_constant=1.0), Reaction("X -> 0", rate="0.4 * X")],
    events=[Event("time >= 1.25", {"X": 12}, name="reset")],
)
# So few molecules that pairs come and go: what is left of a propensity is often nothing.
PAIRS = ReactionNetwork(
    {"X": 0, "Y": 1},
    [
        Reaction("0 -> X", rate_constant=2.0),
        Reaction("2 X -> Y", stochastic_rate_constant=1.5),
        Reaction("X + Y -> X", rate_constant=0.3),
        Reaction("Y -> 0", rate_constant=0.2),
    ],
)
NETWORKS = {
    "immigration-death": (IMMIGRATION_DEATH, 3.0),
    "dimerisation": (DIMERISATION, 4.0),
    "schloegl": (SCHLOEGL, 2.0),
    "saturated": (SATURATED, 5.0),
    "pairs": (PAIRS, 4.0),
}
"""Networks, and the time until which they are simulated."""


def chi_square(counts, probabilities, least=8.0):
    """P-value of counts of values 0, 1, ... against their probabilities; rare ones together."""
    total = counts.sum()
    expected = np.zeros(max(len(counts), len(probabilities)))
    expected[: len(probabilities)] = probabilities * total
    found = np.zeros(expected.size)
    found[: len(counts)] = counts
    groups, e, f = [], 0.0, 0.0
    for a, b in zip(expected, found, strict=True):
        e, f = e + a, f + b
        if e >= least:
            groups.append((e, f))
            e = f = 0.0
    rest = max(total - sum(group[0] for group in groups), 0.0)
    if groups:
        groups[-1] = (groups[-1][0] + rest, groups[-1][1] + f)
    e, f = np.array(groups).T
    return stats.chi2.sf(((f - e) ** 2 / e).sum(), len(e) - 1)
