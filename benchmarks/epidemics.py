"""Time to solution of exact epidemics, against EoN on the CPU and against size on a GPU; and what
`epidemic_leaps` measures of time steps.

Every figure includes counts on a daily grid.  On the CPU a figure is processor time of one core
for one replicate, and so is the peer's; on a GPU it is time from the call to the counts in host
memory, once the network is on the device.
"""

from __future__ import annotations

import itertools
import os
import random

import epidemic_leaps
import numpy as np
from harness import Rows, arguments, medians

import ergode
from ergode.core import devices
from ergode.epidemics.ensemble import Ensemble

SEIR = ergode.CompartmentModel.seir(
    transmission_rate=0.25,
    latent=ergode.LogNormal(mean=5, median=4),
    infectious=ergode.LogNormal(mean=7.5, median=5),
)
SIR = ergode.CompartmentModel.sir(
    transmission_rate=0.25, infectious=ergode.LogNormal(mean=7.5, median=5)
)
DAYS = np.arange(101.0)
CASES = (
    "sir", "seir", "markovian-sir", "markovian-seir", "threads",
    "batch", "small", "hubs", "largest", "leap", "leap-largest", "methods",
)  # fmt: skip


def ensemble(model, contacts, device, seeds=100):
    """Replicates of `model` on a device, ready to run."""
    return Ensemble(model, contacts, {"I": seeds}, times=DAYS, seed=1, device=device)


def run(replicates, count):
    """A function that runs the next `count` replicates to their counts each time it is called."""
    first = itertools.count(0, count)

    def work():
        start = next(first)
        words, _ = replicates.spread(start, count)
        return replicates.count(words, start)

    return work


def eon_fast_nonmarkov_sir(contacts, seeds=100):
    """The same SIR epidemic with log-normal infectious times."""
    import EoN

    graph = contacts.to_networkx()
    nodes = list(graph)
    mu, sigma = np.log(5.0), np.sqrt(2 * np.log(7.5 / 5.0))

    def infectious_time(_):
        return random.lognormvariate(mu, sigma)

    def transmission_time(*_):
        return random.expovariate(0.25)

    def work():
        return EoN.fast_nonMarkov_SIR(
            graph,
            trans_time_fxn=transmission_time,
            rec_time_fxn=infectious_time,
            initial_infecteds=random.sample(nodes, seeds),
            tmax=100,
        )

    return work


def eon_fast_sir(contacts, seeds=100):
    """The same memoryless SIR epidemic."""
    import EoN

    graph = contacts.to_networkx()
    nodes = list(graph)
    return lambda: EoN.fast_SIR(
        graph, 0.25, 0.15, initial_infecteds=random.sample(nodes, seeds), tmax=100
    )


def eon_fast_simple_contagion(contacts, seeds=100):
    """The same memoryless SEIR epidemic."""
    import EoN
    import networkx

    graph = contacts.to_networkx()
    nodes = list(graph)
    alone, along = networkx.DiGraph(), networkx.DiGraph()
    alone.add_edge("E", "I", rate=0.2)
    alone.add_edge("I", "R", rate=0.15)
    along.add_edge(("I", "S"), ("I", "E"), rate=0.25)

    def work():
        start = dict.fromkeys(nodes, "S") | dict.fromkeys(random.sample(nodes, seeds), "I")
        return EoN.fast_simple_contagion(
            graph, alone, along, start, return_statuses=("S", "E", "I", "R"), tmax=100
        )

    return work


MARKOVIAN = {"infectious": ergode.Exponential(rate=0.15), "transmission_rate": 0.25}
ON_ONE_CORE = {
    "sir": (SIR, "fast_nonMarkov_SIR", eon_fast_nonmarkov_sir),
    "seir": (SEIR, None, None),
    "markovian-sir": (ergode.CompartmentModel.sir(**MARKOVIAN), "fast_SIR", eon_fast_sir),
    "markovian-seir": (
        ergode.CompartmentModel.seir(latent=ergode.Exponential(rate=0.2), **MARKOVIAN),
        "fast_simple_contagion",
        eon_fast_simple_contagion,
    ),
}
PEERS_UP_TO = 100_000  # nodes; beyond, EoN takes minutes


def cpu(options, rows):
    """One core against EoN, then every core against one."""
    core, every = devices.resolve("cpu:1"), devices.resolve("cpu")
    for size in (10_000,) if options.quick else (10_000, 100_000, 1_000_000):
        contacts = ergode.ContactNetwork.erdos_renyi(size, mean_degree=8, seed=1)
        label = f"N=1e{len(str(size)) - 1} d=8"
        count = max(1, 1_000_000 // size)
        for case, (model, peer, theirs) in ON_ONE_CORE.items():
            if case not in options.case:
                continue
            works = [run(ensemble(model, contacts, core), count)]
            if theirs is not None and not options.no_peers and size <= PEERS_UP_TO:
                works.append(theirs(contacts))
            ours, *other = medians(works, cpu=True)
            rows.add(
                f"{case} {label}", "time", ours / count * 1e3, "ms",
                peer=f"EoN {peer}" if other else None,
                peer_value=other[0] * 1e3 if other else None,
            )  # fmt: skip
        if "threads" in options.case:
            count = 8 * every.core_count
            one, many = medians(
                [run(ensemble(SEIR, contacts, device), count) for device in (core, every)]
            )
            rows.add(f"threads {label}", f"speed-up on {every.core_count} cores", one / many, "x")


def cuda(options, rows):
    """One epidemic, batches, hubs and the largest network on a GPU."""
    from ergode.core import cuda as door

    gpu = devices.resolve("cuda")
    ceiling = door.copy_bandwidth()
    rows.add("copy", "device bandwidth", ceiling / 1e12, "TB/s")

    def measure(case, contacts, count, repeats=9, model=SEIR):
        held = ensemble(model, contacts, gpu)
        (seconds,) = medians([run(held, count)], repeats)
        device = float(np.median(door.elapsed(lambda: held.spread(0, count), 5)))
        rows.add(case, "time a replicate", seconds / count * 1e3, "ms")
        rows.add(case, "search alone", device / count * 1e3, "ms")
        nodes = count * contacts.node_count
        rows.add(case, "search a million nodes", device / nodes * 1e9, "ms")
        return held

    if "seir" in options.case:
        for size in (100_000, 1_000_000, 10_000_000):
            contacts = ergode.ContactNetwork.erdos_renyi(size, mean_degree=8, seed=1)
            measure(f"seir N=1e{len(str(size)) - 1} d=8", contacts, 1)
    if "sir" in options.case:
        contacts = ergode.ContactNetwork.erdos_renyi(1_000_000, mean_degree=8, seed=1)
        measure("sir N=1e6 d=8", contacts, 1, model=SIR)
    if "batch" in options.case:
        contacts = ergode.ContactNetwork.erdos_renyi(1_000_000, mean_degree=8, seed=1)
        held = measure("batch 100 x N=1e6", contacts, 100)
        for name, value in held.resources().items():
            rows.add("batch 100 x N=1e6", name, value, "1")
    if "small" in options.case:
        contacts = ergode.ContactNetwork.erdos_renyi(10_000, mean_degree=8, seed=1)
        held = ensemble(SEIR, contacts, gpu)
        (seconds,) = medians([run(held, 10_000)])
        rows.add("small 10,000 x N=1e4", "time of all", seconds * 1e3, "ms")
    if "hubs" in options.case:
        contacts = ergode.ContactNetwork.barabasi_albert(1_000_000, m=4, seed=1)
        measure("hubs Barabasi-Albert N=1e6 m=4", contacts, 1)
    if "largest" in options.case and not options.quick:
        contacts = ergode.ContactNetwork.erdos_renyi(100_000_000, mean_degree=8, seed=1)
        held = measure("largest N=1e8 d=8", contacts, 1, repeats=5)
        bytes_in_all = contacts.memory_bytes + held.bytes_per_replicate
        rows.add("largest N=1e8 d=8", "memory with network", bytes_in_all / 1e9, "GB")
        per_node = held.bytes_per_replicate / contacts.node_count
        rows.add("largest N=1e8 d=8", "memory beside network", per_node, "bytes a node")


def main():
    options = arguments("epidemics", CASES)
    rows = Rows("epidemics", options.device)
    if options.device == "cpu":
        # One core means one: NumPy's own threads would be counted as ours.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        cpu(options, rows)
        epidemic_leaps.cpu(options, rows)
    else:
        cuda(options, rows)
        epidemic_leaps.cuda(options, rows)
    rows.write(options.json)


if __name__ == "__main__":
    main()
