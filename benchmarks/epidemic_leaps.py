"""Epidemics in time steps: node updates a second, and every method on one epidemic.

An update is one node taken through one step, counts on the grid included: a run of N nodes and K
steps is N K updates.  1 GNUPS is 10^9 updates a second.
"""

from __future__ import annotations

import random

import numpy as np
from harness import Rows, medians

import ergode
from ergode.core import devices
from ergode.epidemics.leap import step as leap
from ergode.epidemics.leap.runner import LeapEnsemble
from ergode.epidemics.scenario import scenario_of

DAYS = np.arange(101.0)
SEIR = ergode.CompartmentModel.seir(
    transmission_rate=0.25,
    latent=ergode.LogNormal(mean=5, median=4),
    infectious=ergode.LogNormal(mean=7.5, median=5),
)
SIR = ergode.CompartmentModel.sir(transmission_rate=0.25, infectious=ergode.Exponential(rate=0.15))
SIS = ergode.CompartmentModel.sis(transmission_rate=0.25, infectious=ergode.Exponential(rate=0.15))


def leaps(model, contacts, device, *, step=0.1, times=DAYS, seeds=100, **options):
    """Replicates of a model in steps, ready to run."""
    return LeapEnsemble(
        model, scenario_of(contacts), {"I": seeds}, times=times, seed=1, device=device, step=step,
        **options,
    )  # fmt: skip


def run(ensemble, count=1):
    """A function that runs `count` replicates to their counts."""
    return lambda: ensemble.run(0, count)


def updates(ensemble, count=1):
    """Node updates of `count` replicates."""
    _, work = ensemble.run(0, count)
    return float(work[0]) * ensemble.node_count


# ---- peers


def ndlib_steps(contacts, kind, steps, seeds=100):
    """The same epidemic in NDlib, whose steps are of length one."""
    import ndlib.models.epidemics as epidemics
    from ndlib.models import ModelConfig

    graph = contacts.to_networkx()

    def work():
        model = getattr(epidemics, f"{kind}Model")(graph)
        chosen = ModelConfig.Configuration()
        chosen.add_model_parameter("beta", 1 - np.exp(-0.25))
        chosen.add_model_parameter("gamma" if kind == "SIR" else "lambda", 1 - np.exp(-0.15))
        infected = random.sample(list(graph), seeds)
        chosen.add_model_initial_configuration("Infected", infected)
        model.set_initial_status(chosen)
        return model.iteration_bunch(steps, node_status=False)

    return work


def fastgemf_sir(contacts, days, seeds=100):
    """The same memoryless SIR epidemic in FastGEMF."""
    import fastgemf

    schema = (
        fastgemf.ModelSchema("SIR")
        .define_compartment(["S", "I", "R"])
        .add_network_layer("layer")
        .add_node_transition(name="recovery", from_state="I", to_state="R", rate="gamma")
        .add_edge_interaction(
            name="infection", from_state="S", to_state="I", inducer="I", network_layer="layer",
            rate="beta",
        )
    )  # fmt: skip
    matrix = contacts.to_scipy().tocsr()
    model = fastgemf.ModelConfiguration(schema).add_parameter(beta=0.25, gamma=0.15)
    model.get_networks(layer=matrix)
    rng = np.random.default_rng(1)

    def work():
        state = np.zeros(contacts.node_count, int)
        state[rng.choice(contacts.node_count, seeds, replace=False)] = 1
        simulation = fastgemf.Simulation(
            model, initial_condition={"exact": state}, stop_condition={"time": days}, nsim=1
        )
        simulation.run()
        return simulation.get_results()

    return work


def eon_sir(contacts, days, seeds=100):
    """The same memoryless SIR epidemic in EoN."""
    import EoN

    graph = contacts.to_networkx()
    nodes = list(graph)
    return lambda: EoN.fast_SIR(
        graph, 0.25, 0.15, initial_infecteds=random.sample(nodes, seeds), tmax=days
    )


# ---- on the CPU


def copy_bandwidth_of_a_core() -> float:
    """Bytes read and written a second by a large copy on one core."""
    source = np.zeros(2**27, np.uint8)
    target = np.ones_like(source)
    (seconds,) = medians([lambda: np.copyto(target, source)], cpu=True)
    return 2 * source.nbytes / seconds


def cpu(options, rows: Rows) -> None:
    """One core: updates a second, and time to solution against peers."""
    core = devices.resolve("cpu:1")
    ceiling = copy_bandwidth_of_a_core()
    rows.add("copy", "bandwidth of a core", ceiling / 1e9, "GB/s")

    def traffic(case, held, model, contacts, rate):
        per_update = bytes_of_update(held, model, contacts)
        rows.add(case, "bytes an update", per_update, "bytes")
        rows.add(case, "of copy bandwidth", rate * per_update / ceiling, "1")

    if "leap" in options.case:
        for size in (10_000,) if options.quick else (10_000, 100_000, 1_000_000):
            contacts = ergode.ContactNetwork.erdos_renyi(size, mean_degree=8, seed=1)
            label = f"N=1e{len(str(size)) - 1} d=8"
            for pressure in ("push", "gather"):
                held = leaps(SEIR, contacts, core, pressure=pressure)
                (seconds,) = medians([run(held)], 3, cpu=True)
                case, rate = f"renewal-leap {pressure} {label}", updates(held) / seconds
                rows.add(case, "updates", rate / 1e9, "GNUPS")
                traffic(case, held, SEIR, contacts, rate)
            works = [run(held := leaps(SIS, contacts, core, step=1.0))]
            if not options.no_peers and size <= 10_000:
                works.append(ndlib_steps(contacts, "SIS", 100))
            ours, *other = medians(works, 3, cpu=True)
            done = updates(held)
            rows.add(
                f"markov-leap SIS step 1 {label}", "updates", done / ours / 1e9, "GNUPS",
                peer="NDlib" if other else None,
                peer_value=done / other[0] / 1e9 if other else None,
                smaller_is_better=False,
            )  # fmt: skip
            traffic(f"markov-leap SIS step 1 {label}", held, SIS, contacts, done / ours)
    if "methods" in options.case:
        _methods(options, rows, core)


def _methods(options, rows: Rows, core) -> None:
    """Every method on one memoryless SIR epidemic: time a replicate and error of the peak."""
    contacts = ergode.ContactNetwork.erdos_renyi(10_000, mean_degree=8, seed=1)
    times = np.arange(0.0, 40.5, 0.5)
    common = {"initial": {"I": 100}, "times": times, "seed": 1, "device": core}

    def simulate(count, **chosen):
        return ergode.epidemics.simulate(SIR, contacts, replicates=count, **common, **chosen)

    def peak(count, **chosen):
        found = ergode.epidemics.summary(simulate(count, **chosen))["peak_count"].values
        return found.mean(), found.std() / np.sqrt(found.size)

    exact, error = peak(400, method="first-passage")
    ways = {
        "first-passage": {"method": "first-passage"},
        "sellke": {"method": "sellke"},
        "gillespie": {"method": "gillespie"},
        "renewal-leap step 0.1": {"method": "renewal-leap", "step": 0.1},
        "markov-leap step 0.5": {"method": "markov-leap", "step": 0.5},
        "markov-leap step 0.1": {"method": "markov-leap", "step": 0.1},
        "markov-leap step 0.02": {"method": "markov-leap", "step": 0.02},
    }
    peers = {}
    if not options.no_peers:
        peers = {"EoN fast_SIR": eon_sir(contacts, 40), "FastGEMF": fastgemf_sir(contacts, 40)}
        peers["NDlib step 1"] = ndlib_steps(contacts, "SIR", 40)
    count = 10
    works = [lambda c=chosen: simulate(count, **c) for chosen in ways.values()]
    seconds = medians([*works, *peers.values()], 3, cpu=True)
    theirs = dict(zip(peers, seconds[len(ways) :], strict=True))
    best = min(theirs, key=theirs.get) if theirs else None
    for (name, chosen), taken in zip(ways.items(), seconds, strict=False):
        rows.add(
            f"methods SIR N=1e4 {name}", "time a replicate", taken / count * 1e3, "ms",
            peer=best, peer_value=theirs[best] * 1e3 if best else None,
        )  # fmt: skip
        if "leap" in name:
            found, own = peak(200, **chosen)
            rows.add(
                f"methods SIR N=1e4 {name}", "error of the peak", 100 * (found / exact - 1), "%"
            )
            rows.add(
                f"methods SIR N=1e4 {name}", "its standard error",
                100 * np.hypot(own, error) / exact, "%",
            )  # fmt: skip
    for name, taken in theirs.items():
        rows.add(f"methods SIR N=1e4 {name}", "time a replicate", taken * 1e3, "ms")


# ---- on a GPU


def cuda(options, rows: Rows) -> None:
    """Updates a second, bytes an update and what part of a copy's bandwidth that is."""
    from ergode.core import cuda as door

    gpu = devices.resolve("cuda")
    ceiling = door.copy_bandwidth()

    def measure(case, model, contacts, count=1, **chosen):
        held = leaps(model, contacts, gpu, **chosen)
        (seconds,) = medians([run(held, count)], 5)
        rate = updates(held, count) / seconds
        per_update = bytes_of_update(held, model, contacts)
        rows.add(case, "updates", rate / 1e9, "GNUPS")
        rows.add(case, "bytes an update", per_update, "bytes")
        rows.add(case, "of copy bandwidth", rate * per_update / ceiling, "1")

    if "leap" in options.case:
        contacts = ergode.ContactNetwork.erdos_renyi(1_000_000, mean_degree=8, seed=1)
        for pressure in ("gather", "push"):
            measure(f"leap {pressure} N=1e6 d=8", SEIR, contacts, pressure=pressure)
            measure(f"markov-leap {pressure} SIS N=1e6", SIS, contacts, pressure=pressure)
        measure("leap push sampled N=1e6 d=8", SEIR, contacts, transition="sampled")
        measure("markov-leap SIS step 1 N=1e6", SIS, contacts, step=1.0)
        hubs = ergode.ContactNetwork.barabasi_albert(1_000_000, m=4, seed=1)
        for pressure in ("gather", "push"):
            measure(f"leap {pressure} Barabasi-Albert", SEIR, hubs, pressure=pressure)
        small = ergode.ContactNetwork.erdos_renyi(10_000, mean_degree=8, seed=1)
        measure("leap push 1,000 x N=1e4", SEIR, small, count=1000)
    if "leap-largest" in options.case and not options.quick:
        contacts = ergode.ContactNetwork.erdos_renyi(100_000_000, mean_degree=8, seed=1)
        measure("leap gather N=1e8 d=8", SEIR, contacts, pressure="gather", seeds=10_000)
        measure("leap push N=1e8 d=8", SEIR, contacts, pressure="push", seeds=10_000)


def bytes_of_update(held, model, contacts) -> float:
    """Bytes that one update asks for, once each, averaged over a run; caches are not counted."""
    (counts,), _ = held.run(0, 1)
    mean = counts[0].mean(axis=0) / contacts.node_count
    susceptible = sum(mean[model.index[i.susceptible]] for i in model.infections)
    leaving = sum(mean[model.index[p.compartment]] for p in model.progressions)
    aged = 4 * leaving if held.bindings["AGED"] else 0.0
    if held.bindings.get("PUSHES", held.mode != leap.GATHER):
        keeping = sum(
            share for place, share in enumerate(mean[:-1]) if held.rules.keeping_mask >> place & 1
        )
        return 1 + 8 * keeping + aged  # compartment; pressure and what was pushed; age
    return 1 + 4 + 4 * contacts.mean_degree * susceptible + aged + 0.25  # offsets, arcs, bits
