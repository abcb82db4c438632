"""Time to solution of exact epidemics, against EoN and FastGEMF on the CPU, by size on a GPU; and
what `epidemic_leaps` measures of time steps.

Every figure includes counts on a daily grid.  On the CPU a figure is processor time of one core
for one replicate, and so is the peer's; on a GPU it is time from the call to the counts in host
memory, once the network is on the device.
"""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import epidemic_leaps
import numpy as np
from harness import Rows, arguments, medians

import ergode
from ergode.core import devices
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.first_passage.runner import FirstPassageEnsemble
from ergode.epidemics.gillespie import JumpEnsemble
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.windows.runner import WindowEnsemble

SEIR = ergode.CompartmentModel.seir(
    transmission_rate=0.25,
    latent=ergode.LogNormal(mean=5, median=4),
    infectious=ergode.LogNormal(mean=7.5, median=5),
)
SEIRS = ergode.CompartmentModel.seirs(
    transmission_rate=0.25,
    latent=ergode.LogNormal(mean=5, median=4),
    infectious=ergode.LogNormal(mean=7.5, median=5),
    immune=ergode.LogNormal(mean=60, median=50),
)
SIR = ergode.CompartmentModel.sir(
    transmission_rate=0.25, infectious=ergode.LogNormal(mean=7.5, median=5)
)
DAYS = np.arange(101.0)
CASES = (
    "sir", "seir", "markovian-sir", "markovian-seir", "threads",
    "batch", "small", "hubs", "largest", "sis", "meetings", "equal-error", "leap", "leap-largest",
    "methods",
)  # fmt: skip


def ensemble(model, contacts, device, seeds=100):
    """Replicates of `model` on a device, ready to run."""
    return FirstPassageEnsemble(model, contacts, {"I": seeds}, times=DAYS, seed=1, device=device)


def run(replicates, count):
    """A function that runs the next `count` replicates to their counts each time it is called."""
    first = itertools.count(0, count)

    def work():
        start = next(first)
        words, _ = replicates.run(start, count)
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


SIS = ergode.CompartmentModel.sis(transmission_rate=0.25, infectious=ergode.Exponential(rate=0.15))
NINE_TENTHS = {"I": 0.9}  # near the endemic level from the start


def every_method(contacts, device):
    """The exact methods that can, on a memoryless SIS over fifty days."""
    options = {"times": DAYS[:51], "seed": 1, "device": device}
    events = EventEnsemble(SIS, scenario_of(contacts), NINE_TENTHS, **options)
    jumps = JumpEnsemble(SIS, scenario_of(contacts), NINE_TENTHS, **options)
    return {"sellke": events, "gillespie": jumps}


def eon_fast_sis(contacts):
    """The same SIS epidemic, event by event."""
    import EoN

    graph = contacts.to_networkx()
    nodes = list(graph)
    return lambda: EoN.fast_SIS(
        graph, 0.25, 0.15, initial_infecteds=random.sample(nodes, int(0.9 * len(nodes))), tmax=50
    )


def fastgemf_sis(contacts):
    """The same by FastGEMF, one event after another."""
    import contextlib
    import io

    import fastgemf
    import scipy.sparse

    schema = fastgemf.ModelSchema("SIS").define_compartment(["S", "I"])
    schema.add_network_layer("contact")
    schema.add_node_transition(name="recovery", from_state="I", to_state="S", rate="delta")
    schema.add_edge_interaction(
        name="infection", from_state="S", to_state="I", inducer="I", network_layer="contact",
        rate="beta",
    )  # fmt: skip
    model = fastgemf.ModelConfiguration(schema).add_parameter(beta=0.25, delta=0.15)
    model.get_networks(contact=scipy.sparse.csr_matrix(contacts.to_scipy()))

    def work():
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            fastgemf.Simulation(
                model, initial_condition={"percentage": {"I": 90, "S": 10}},
                stop_condition={"time": 50}, nsim=1,
            ).run()  # fmt: skip

    return work


def recurrent(options, rows, core):
    """SIS by every method and peer, on one core."""
    for size in (1_000,) if options.quick else (1_000, 10_000, 100_000):
        contacts = ergode.ContactNetwork.erdos_renyi(size, mean_degree=8, seed=1)
        label = f"sis N=1e{len(str(size)) - 1} d=8"
        count = max(1, 10_000 // size)
        peers = {"EoN fast_SIS": eon_fast_sis, "FastGEMF": fastgemf_sis}
        works = [run(one, count) for one in every_method(contacts, core).values()]
        if not options.no_peers and size <= RECURRENT_PEERS_UP_TO:
            works += [make(contacts) for make in peers.values()]
        sellke, gillespie, *others = medians(works, cpu=True)
        for name, seconds in (("sellke", sellke), ("gillespie", gillespie)):
            if not others:
                rows.add(f"{label} {name}", "time", seconds / count * 1e3, "ms")
            for peer, theirs in zip(peers, others, strict=False):
                rows.add(
                    f"{label} {name}", "time", seconds / count * 1e3, "ms", peer=peer,
                    peer_value=theirs * 1e3,
                )  # fmt: skip


RECURRENT_PEERS_UP_TO = 10_000


def meetings(options, rows, every):
    """A conference of 138 people, 153,371 contacts of twenty seconds; isolation from case five."""
    file = Path(__file__).parents[2] / "shared" / "data" / "networks" / "ws16_contacts.tsv.gz"
    if not file.is_file():
        return
    contacts = ergode.read_meetings(file, unit=3600.0)
    model = ergode.CompartmentModel.seir(
        transmission_rate=6.0, latent=ergode.LogNormal(mean=8, median=7),
        infectious=ergode.LogNormal(mean=20, median=16),
    )  # fmt: skip
    measure = ergode.Isolation("I", fraction=0.8, delay=2, start=ergode.Trigger("cases", 5))
    held = EventEnsemble(
        model, scenario_of(contacts, [measure]), {"I": 1}, times=np.linspace(0, 33, 67), seed=1,
        device=every,
    )  # fmt: skip
    (seconds,) = medians([run(held, 1000)])
    case = f"meetings, trigger, {every.core_count} cores"
    rows.add(case, "time of 1,000 replicates", seconds, "s")


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
    if "sis" in options.case:
        recurrent(options, rows, core)
    if "meetings" in options.case:
        meetings(options, rows, every)


def windows(options, rows, gpu):
    """Recurrent models and what is done about them, exactly, by windows of time."""
    random_network = ergode.ContactNetwork.erdos_renyi(1_000_000, mean_degree=8, seed=1)
    small = ergode.ContactNetwork.erdos_renyi(1_000, mean_degree=8, seed=1)
    hubs = ergode.ContactNetwork.barabasi_albert(1_000_000, m=4, seed=1)
    traced = {"detection": 0.3, "tracing": 0.5, "quarantine": 10}
    trigger = ergode.Trigger("I", 300_000)
    cases = {
        "N=1e6 d=8": (random_network, 1, {}),
        "Barabasi-Albert N=1e6 m=4": (hubs, 1, {}),
        "4,000 x N=1e3": (small, 4000, {}),
        "N=1e6, closure on a trigger": (
            random_network, 1,
            {"measure": ergode.LayerClosure(reduction=0.5, duration=20, start=trigger)},
        ),
        "N=1e6, tracing after days": (
            random_network, 1,
            {"measure": ergode.ContactTracing("I", detection_delay=1, tracing_delay=1, **traced)},
        ),
        "N=1e6, tracing at once": (
            random_network, 1, {"measure": ergode.ContactTracing("I", **traced)}
        ),
        "N=1e6, SEIRS of log-normal stages": (random_network, 1, {"model": SEIRS}),
    }  # fmt: skip
    if not options.quick:
        largest = ergode.ContactNetwork.erdos_renyi(10_000_000, mean_degree=8, seed=1)
        cases["N=1e7 d=8"] = (largest, 1, {})
    for case, (contacts, count, given) in cases.items():
        measures = [given["measure"]] if "measure" in given else []
        held = WindowEnsemble(
            given.get("model", SIS), scenario_of(contacts, measures), {"I": 0.01}, times=DAYS,
            seed=1, device=gpu,
        )  # fmt: skip
        (seconds,) = medians([run(held, count)])
        rows.add(f"windows {case}", "time of 100 days", seconds * 1e3, "ms")
        _, work = held.run(0, count)
        rows.add(f"windows {case}", "windows", float(work[1]), "1")
        rows.add(f"windows {case}", "paths a node", work[0] / (count * contacts.node_count), "1")


def equal_error(options, rows, gpu):
    """Time to solution, head to head: SIS by windows, and in steps short enough to be as good.

    The error of a method is how far its mean curve of infectious nodes is from the exact one (root
    mean square over the days, of all nodes): by chance, and for steps by bias, which is of first
    order in the step.  Replicates average the former out and not the latter.  For the error that
    some exact replicates have, steps cost least - replicates times steps - when a third of the
    square is bias: half as many replicates more, each in steps that err by 1 / sqrt(3) of it.
    """
    contacts = ergode.ContactNetwork.erdos_renyi(1_000_000, mean_degree=8, seed=1)
    common = {"initial": {"I": 0.01}, "times": DAYS, "seed": 1, "device": gpu}
    exact = WindowEnsemble(SIS, scenario_of(contacts), **common)

    def curve(held, count):
        found = [held.count(held.run(k, 1)[0], k)[0, :, 1] for k in range(count)]
        return np.array(found) / contacts.node_count

    def leaps(step):
        return epidemic_leaps.LeapEnsemble(SIS, scenario_of(contacts), step=step, **common)

    count = 10 if options.quick else 40
    reference = curve(exact, count)
    by_chance = float(np.sqrt(reference.var(axis=0, ddof=1).mean()))
    rows.add("equal error SIS N=1e6 sellke", "error of one replicate", by_chance, "1")

    def bias(step, among=8):
        away = curve(leaps(step), among).mean(axis=0) - reference.mean(axis=0)
        chance = by_chance**2 * (1 / among + 1 / count)  # in the square of the difference, too
        return float(np.sqrt(max(np.mean(away**2) - chance, 0.0)))

    (seconds,) = medians([run(exact, 1)])
    steps = (0.2, 0.1, 0.05)
    found = [bias(step) for step in steps]
    for step, error in zip(steps, found, strict=True):
        (taken,) = medians([run(leaps(step), 1)], 3)
        case = f"equal error SIS N=1e6 markov-leap step {step:g}"
        rows.add(case, "time", taken * 1e3, "ms", peer="sellke", peer_value=seconds * 1e3)
        rows.add(case, "bias", error, "1")
    slope = sum(found) / sum(steps)
    for few, more in ((2, 3), (8, 12)):
        target = by_chance / few**0.5
        step = target / 3**0.5 / slope
        ours, theirs = medians([run(exact, few), run(leaps(step), more)], 3)
        case = f"equal error SIS N=1e6, {few} of sellke, {more} of markov-leap"
        rows.add(case, "time", ours * 1e3, "ms", peer="markov-leap", peer_value=theirs * 1e3)
        rows.add(case, "error", target, "1")
        rows.add(case, "step", step, "days")


def cuda(options, rows):
    """One epidemic, batches, hubs and the largest network on a GPU."""
    from ergode.core import cuda as door

    gpu = devices.resolve("cuda")
    ceiling = door.copy_bandwidth()
    rows.add("copy", "device bandwidth", ceiling / 1e12, "TB/s")

    def measure(case, contacts, count, repeats=9, model=SEIR):
        held = ensemble(model, contacts, gpu)
        (seconds,) = medians([run(held, count)], repeats)
        device = float(np.median(door.elapsed(lambda: held.run(0, count), 5)))
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
    if "sis" in options.case:
        windows(options, rows, gpu)
    if "equal-error" in options.case:
        equal_error(options, rows, gpu)
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
