"""Synchronous steps: Reed-Frost, independent cascades, thresholds, voters and majorities.

Time is a whole number of steps, and all nodes change at once, as they were at the step before.
These models are exact by definition; they are no approximations of a process in continuous time.

References
----------
H. Abbey, "An examination of the Reed-Frost theory of epidemics", Hum. Biol. 24 (1952).
M. Granovetter, "Threshold models of collective behavior", Am. J. Sociol. 83 (1978).
D. Kempe, J. Kleinberg, E. Tardos, "Maximizing the spread of influence through a social network",
KDD (2003): independent cascades and linear thresholds.
C. Castellano, M. A. Munoz, R. Pastor-Satorras, "Nonlinear q-voter model", Phys. Rev. E 80 (2009).
M. J. de Oliveira, "Isotropic majority-vote model on a square lattice", J. Stat. Phys. 66 (1992).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ergode.core import devices, kernels, results
from ergode.core.arguments import check_switch, integer, is_finite_number
from ergode.core.calls.launch import check_room, count_that_fits
from ergode.core.compiler.language import option, real
from ergode.core.devices import Device
from ergode.core.errors import ModelError
from ergode.core.inputs import recorded
from ergode.core.math.random import SYNCHRONOUS, draw_words, uniform
from ergode.core.results import Variable
from ergode.core.stopwatch import Stopwatch
from ergode.models.epidemic.attributes import attribute_values
from ergode.models.networks.contact_network import ContactNetwork
from ergode.models.networks.node_names import positions_of

if TYPE_CHECKING:
    import xarray

THRESHOLDS = option(False)
"""Whether nodes become active by a threshold, and not by transmission along arcs."""
OPINIONS = option(False)
"""Whether nodes have opinions, which they take from neighbours."""

Opinion = Literal["voter", "majority"]

STATES = ("S", "I", "R")
results.register(
    "epidemics",
    "synchronous",
    [
        Variable(
            "count", ("replicate", "step", "state"), "int64", "1", "nodes in a state after a step"
        )
    ],
)
_BLOCK = 32  # nodes that one thread works on
_NEVER = -1
_PER_CHUNK = 2**24


@recorded({})
def synchronous(
    contacts: ContactNetwork,
    *,
    initial: Any,
    steps: int,
    probability: float | None = None,
    threshold: float | str | None = None,
    opinion: Opinion | None = None,
    asked: int = 1,
    noise: float = 0.0,
    infectious_steps: int | None = 1,
    recurrent: bool = False,
    replicates: int = 1,
    seed: int = 0,
    device: str | Device = "auto",
) -> xarray.Dataset:
    """Contagion in synchronous steps: all nodes change at once.

    With a `probability`, each infectious node infects each susceptible neighbour with it, at every
    step at which it is infectious: the chain of Reed and Frost, `discrete_SIR` of EoN and, with one
    infectious step, the independent cascade of Kempe and others. With a `threshold`, a node
    becomes active when the share of its neighbours that are active is above zero and at least that
    (Granovetter). With an `opinion`, nodes have one of two, S or I, at every step: a voter takes
    that of a random neighbour; by majority a node takes that of most neighbours, and keeps its own
    in a tie.

    Parameters
    ----------
    contacts : ContactNetwork
        Weights of arcs multiply the probability; otherwise they weight the neighbours.
    initial : int or array_like
        Number of nodes that are infectious (active) at step 0, drawn anew in each replicate; or
        their positions or names.
    steps : int
        Number of steps.
    probability : float, optional
        Probability of transmission along an arc of weight one at a step, 0 to 1.
    threshold : float or str, optional
        Threshold of all nodes, 0 to 1; or the name of a node attribute; or ``"uniform"``: each node
        of a replicate has a uniformly random one, as in the linear threshold model.
    opinion : {"voter", "majority"}, optional
        How nodes take opinions. Nodes without neighbours keep theirs.
    asked : int
        Neighbours that a voter asks, drawn with replacement: it takes their opinion if they agree
        (the q-voter model).
    noise : float
        With an opinion: probability that a node takes a random one instead, either with one half.
        The noise of the majority-vote model, with which a node takes the minority's, is one half of
        this.
    infectious_steps : int, optional
        Steps at which a node is infectious, from the step after its infection on; then it is
        removed. None: for ever. With a threshold, nodes stay active. Opinions do not have it.
    recurrent : bool
        Whether nodes become susceptible again instead of being removed: a discrete SIS model.
    replicates, seed, device
        As for `simulate`. Results of all devices are equal.

    Returns
    -------
    xarray.Dataset
        ``count(replicate, step, state)``, nodes that are susceptible (S), infectious or active (I)
        and removed (R) after a step.

    Raises
    ------
    ModelError
        An argument is out of range, not one of `probability`, `threshold` and `opinion` is given,
        or a weight makes a probability above 1.

    Notes
    -----
    NDlib's voters and majorities change one node, or one group, at each of its iterations; here a
    step changes all nodes. Both keep the share of an opinion of voters on average, weighted by
    degree.

    Examples
    --------
    >>> import ergode
    >>> contacts = ergode.ContactNetwork.erdos_renyi(1000, mean_degree=8, seed=1)
    >>> found = ergode.epidemics.synchronous(
    ...     contacts, initial=5, steps=30, probability=0.2, replicates=10, device="cpu"
    ... )
    >>> dict(found["count"].sizes)
    {'replicate': 10, 'step': 31, 'state': 3}
    >>> int(found["count"].sel(state="I").isel(step=-1).max())
    0
    """
    if not isinstance(contacts, ContactNetwork):
        raise ModelError(
            f"contacts is {type(contacts).__name__}; expected a ContactNetwork, such as "
            "ComputedNetwork.stored(simple=True)"
        )
    stopwatch = Stopwatch()
    if sum(one is not None for one in (probability, threshold, opinion)) != 1:
        raise ModelError("synchronous: expected one of a probability, a threshold and an opinion")
    asks = _asks(opinion, asked, noise)
    check_switch("synchronous", "recurrent", recurrent)
    step_count = integer("steps", steps, 0, 2**31 - 2)
    row_count = integer("replicates", replicates, 1, 2**31 - 1)
    seed_word = np.uint64(integer("seed", seed, 0, 2**64 - 1))
    lasting = math.inf if infectious_steps is None else infectious_steps
    if lasting != math.inf:
        lasting = integer("infectious_steps", infectious_steps, 1, 2**31 - 1)
    if probability is None:
        if recurrent or infectious_steps not in (1, None):
            raise ModelError(
                "synchronous: recurrent and infectious_steps are for a probability; with a "
                "threshold, active nodes stay active, and opinions last until they change"
            )
        lasting = math.inf
    if recurrent and lasting == math.inf:
        raise ModelError("synchronous: recurrent is for nodes that are infectious for some steps")
    incoming = contacts.reversed() if contacts.directed else contacts
    weights, level = _tables(incoming, probability, threshold)
    count = contacts.node_count
    begun = _seeds(contacts, initial)
    chosen = devices.resolve(device)
    fits = count_that_fits(
        chosen, 8 * count, f"a replicate of {count:,} nodes", "use fewer nodes, or another device"
    )
    size = max(1, min(row_count, fits, _PER_CHUNK // count))
    kernel = kernels.for_each(_advance, bindings=_bindings(threshold, opinion))
    arrays = [chosen.put(one) for one in (incoming.offsets, incoming.targets, weights, level)]
    blocks = -(-count // _BLOCK)
    shape = row_count, step_count + 1, len(STATES)
    check_room(
        8 * math.prod(shape), f"counts of {row_count:,} replicates after {step_count:,} steps",
        "use fewer replicates or steps",
    )  # fmt: skip
    found = np.zeros(shape, np.int64)
    span = np.int32(min(lasting, 2**31 - 1))
    for first in range(0, row_count, size):
        rows = min(size, row_count - first)
        since = np.full((2, rows, count), _NEVER, np.int32)
        for row in range(rows):
            since[0, row, _drawn(begun, count, seed_word, first + row)] = 0
        state = chosen.empty(since.shape, since.dtype)
        chosen.copy(since, state)
        sums = chosen.empty((rows, blocks, 2), np.int32)
        found[first : first + rows, 0, 1] = (since[0] == 0).sum(axis=1)
        for step in range(1, step_count + 1):
            chosen.run(
                kernel, rows * blocks, *arrays, state, np.int32(step), span,
                np.int32(recurrent), np.int32(asks), float(noise), seed_word, np.int64(first), sums,
            )  # fmt: skip
            found[first : first + rows, step, 1:] = chosen.get(sums).sum(axis=1)
            if noise == 0.0 and not found[first : first + rows, step, 1].any():
                found[first : first + rows, step + 1 :, 2] = found[
                    first : first + rows, step : step + 1, 2
                ]
                break
    found[..., 0] = count - found[..., 1:].sum(axis=2)
    attrs = results.provenance(
        stopwatch, engine="epidemics", method="synchronous", seed=str(seed), device=chosen.name,
        device_model=chosen.model, device_reason=chosen.reason, replicates=row_count,
        network_digest=contacts.digest,
    )  # fmt: skip
    coords = {
        "replicate": np.arange(row_count), "step": np.arange(step_count + 1),
        "state": list(STATES),
    }  # fmt: skip
    return results.dataset("epidemics", "synchronous", {"count": found}, coords=coords, attrs=attrs)


def _asks(opinion: Opinion | None, asked: int, noise: float) -> int:
    """Checked number of neighbours that a voter asks; 0 for a majority."""
    if opinion is not None and opinion not in get_args(Opinion):
        raise ModelError(f"opinion is {opinion!r}; expected 'voter' or 'majority'")
    if opinion is None and noise != 0.0:
        raise ModelError("synchronous: noise is for opinions")
    if not is_finite_number(noise) or not 0 <= noise <= 1:
        raise ModelError(f"noise is {noise!r}; expected a number between 0 and 1")
    number = integer("asked", asked, 1, 2**15)
    if opinion != "voter" and number != 1:
        raise ModelError("synchronous: asked is for opinion='voter'")
    return number if opinion == "voter" else 0


def _bindings(threshold: Any, opinion: Any) -> dict[Any, bool]:
    return {OPINIONS: True} if opinion else {THRESHOLDS: threshold is not None}


def _tables(
    incoming: ContactNetwork, probability: float | None, threshold: float | str | None
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities or weights of the `incoming` arcs of nodes, and thresholds of nodes."""
    weights = np.ones(incoming.arc_count) if incoming.weights is None else incoming.weights
    weights = weights.astype(np.float64)
    if probability is not None:
        if not is_finite_number(probability) or not 0 <= probability <= 1:
            raise ModelError(f"probability is {probability!r}; expected a number between 0 and 1")
        weights = weights * probability
        if weights.max(initial=0.0) > 1.0:
            raise ModelError(
                f"probability times the largest weight is {weights.max():g}; expected at most 1"
            )
        return weights, np.zeros(1)
    if threshold is None:
        return weights, np.zeros(1)
    if threshold == "uniform":
        return weights, np.full(1, -1.0)
    if isinstance(threshold, str):
        level = np.asarray(attribute_values(incoming, threshold))
        if level.dtype.kind not in "biuf" or not ((level >= 0) & (level <= 1)).all():
            raise ModelError(f"the thresholds '{threshold}' are not all numbers between 0 and 1")
        return weights, level.astype(np.float64)
    if not is_finite_number(threshold) or not 0 <= threshold <= 1:  # type: ignore[operator]
        raise ModelError(f"threshold is {threshold!r}; expected a number between 0 and 1")
    return weights, np.full(incoming.node_count, float(threshold))  # type: ignore[arg-type]


def _seeds(contacts: ContactNetwork, initial: Any) -> int | np.ndarray:
    """A number of nodes, or their positions."""
    count = contacts.node_count
    if isinstance(initial, int | np.integer) and not isinstance(initial, bool):
        return integer("initial", initial, 0, count)
    ids = np.asarray(positions_of(initial, contacts.node_names, "initial"))
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or ((ids < 0) | (ids >= count)).any():
        raise ModelError(
            f"initial is {initial!r:.60}; expected a number of nodes, or their positions or names"
        )
    return ids


def _drawn(begun: int | np.ndarray, count: int, seed: np.uint64, replicate: int) -> np.ndarray:
    """Positions of the nodes that are infectious at step 0 of a replicate."""
    if isinstance(begun, np.ndarray):
        return begun
    rng = np.random.Generator(np.random.Philox(key=[int(seed), replicate]))
    return rng.choice(count, begun, replace=False, shuffle=False)


# ---- device functions


def _advance(
    index, offsets, targets, weights, level, state, step, span, recurrent, asks, noise, seed, first,
    sums,
):  # fmt: skip
    """Nodes of a block of a replicate after a step; `sums` has those infectious and removed.

    `state` [2, replicate, node] is the step of the infection of each node, at the step before and
    after; odd steps are in the second.
    """
    blocks = sums.shape[1]
    row = index // blocks
    block = index - row * blocks
    count = state.shape[2]
    here, there = 1 - (step & 1), step & 1
    infectious, removed = np.int32(0), np.int32(0)
    for node in range(block * _BLOCK, min((block + 1) * _BLOCK, count)):
        since = state[here, row, node]
        if OPINIONS:
            agrees = _takes(
                offsets, targets, weights, state, here, row, node, step, asks, noise, seed, first
            )
            since = np.int32(0) if agrees else np.int32(-1)
        elif since < 0 and _catches(
            offsets, targets, weights, level, state, here, row, node, step, span, seed, first
        ):
            since = np.int32(step)
        elif since >= 0 and recurrent != 0 and step - since >= span:
            since = np.int32(-1)
        state[there, row, node] = since
        if since >= 0:
            if step - since < span:
                infectious += np.int32(1)
            else:
                removed += np.int32(1)
    sums[row, block, 0] = infectious
    sums[row, block, 1] = removed


def _catches(offsets, targets, weights, level, state, here, row, node, step, span, seed, first):
    """Whether a susceptible node is infected, or activated, at a step."""
    reached, total = real(0.0), real(0.0)
    for arc in range(offsets[node], offsets[node + 1]):
        since = state[here, row, targets[arc]]
        active = since >= 0 and step - 1 - since < span
        if THRESHOLDS:
            total += weights[arc]
            if active:
                reached += weights[arc]
        elif active:
            w0, w1, w2, w3 = draw_words(seed, first + row, arc, SYNCHRONOUS, np.uint32(step))
            if uniform(w0, w1) <= weights[arc]:
                return True
    if THRESHOLDS:
        least = level[node] if level.size > 1 else level[0]
        if least < 0.0:
            w0, w1, w2, w3 = draw_words(seed, first + row, node, SYNCHRONOUS, np.uint32(0))
            least = uniform(w0, w1)
        # A quotient is rounded as a threshold is written: 7 of 100 are 0.07.
        return reached > 0.0 and reached / total >= least
    return False


def _takes(offsets, targets, weights, state, here, row, node, step, asks, noise, seed, first):
    """Whether a node has the opinion I after a step."""
    own = state[here, row, node] >= 0
    total, reached = real(0.0), real(0.0)
    for arc in range(offsets[node], offsets[node + 1]):
        total += weights[arc]
        if state[here, row, targets[arc]] >= 0:
            reached += weights[arc]
    index = np.uint32(step)
    w0, w1, w2, w3 = draw_words(seed, first + row, np.int64(node), SYNCHRONOUS, index)
    if uniform(w0, w1) <= noise:
        return uniform(w2, w3) <= 0.5
    if not total > 0.0:
        return own
    if asks == 0:
        return own if 2.0 * reached == total else 2.0 * reached > total
    # Who is asked has the opinion with the share of its neighbours that have it.
    agreeing = 0
    for k in range(asks):
        entity = np.int64(node) | (np.int64(k + 1) << np.int64(40))
        w0, w1, w2, w3 = draw_words(seed, first + row, entity, SYNCHRONOUS, index)
        agreeing += np.int64(uniform(w0, w1) * total <= reached)
    if agreeing == 0 or agreeing == asks:
        return agreeing > 0
    return own
