"""Time to solution of exact epidemics, against EoN and FastGEMF on the CPU, by size on a GPU; and
what `epidemic_leaps` measures of time steps.

Every figure includes counts on a daily grid.  On a GPU times are those of the kernels; the rows
"whole call" also prepare the network and send it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import epidemic_covasim
import epidemic_earth
import epidemic_leaps
import epidemic_starsim
import numpy as np
from epidemic_cases import (
    DAYS,
    INFECTIOUS,
    LATENT,
    MEMORYLESS_SEIR,
    MEMORYLESS_SIR,
    SEIR,
    SEIRS,
    SIR,
    SIS,
    call,
    erdos_renyi,
    hospital,
    hubs,
    size_label,
    with_people,
)
from epidemic_peers import (
    eon_fast,
    eon_fast_nonmarkov_sir,
    eon_fast_simple_contagion,
    fastgemf,
)
from harness import Rows, arguments, copy_bandwidth, installed, timed

import ergode

CASES = (
    "sir", "seir", "markovian-sir", "markovian-seir", "threads",
    "batch", "small", "sweep", "hubs", "largest", "sis", "meetings", "equal-error", "leap",
    "leap-largest", "methods", "population", "attributes", "earth",
    "covasim", "starsim", "policies",
)  # fmt: skip
PEERS_UP_TO = 100_000  # nodes; beyond, EoN takes minutes
RECURRENT_PEERS_UP_TO = 10_000


# ---- on the CPU

ON_ONE_CORE = {
    "sir": (SIR, "EoN fast_nonMarkov_SIR", eon_fast_nonmarkov_sir),
    "seir": (SEIR, None, None),
    "markovian-sir": (MEMORYLESS_SIR, "EoN fast_SIR", partial(eon_fast, "SIR")),
    "markovian-seir": (
        MEMORYLESS_SEIR, "EoN fast_simple_contagion", eon_fast_simple_contagion,
    ),
}  # fmt: skip


def cpu(options, rows):
    """One core against EoN, then every core against one."""
    every = ergode.Device("cpu").core_count
    for size in (10_000,) if options.quick else (10_000, 100_000, 1_000_000):
        contacts = erdos_renyi(size)
        label = size_label(size)
        count = max(1, 1_000_000 // size)
        for case, (model, peer, theirs) in ON_ONE_CORE.items():
            if case not in options.case:
                continue
            makers = {peer: partial(theirs, contacts)} if peer and size <= PEERS_UP_TO else {}
            found = rows.measure(
                f"{case} {label}", call(options.place, model, contacts, count),
                installed(options, makers),
            )  # fmt: skip
            ours = found.seconds / count * 1e3
            theirs = {name: seconds * 1e3 for name, seconds in found.peers.items()}
            rows.add(f"{case} {label}", "time", ours, "ms", peers=theirs)
        if "threads" in options.case:
            one, many = timed(
                [call(place, SEIR, contacts, 8 * every) for place in ("cpu:1", "cpu")]
            )
            rows.add(f"threads {label}", f"speed-up on {every} cores", one.clock / many.clock, "x")
    if "sis" in options.case:
        recurrent(options, rows)
    if "meetings" in options.case:
        meetings(rows, every)
    if "attributes" in options.case:
        attributes(options, rows, (100_000,) if options.quick else (100_000, 1_000_000))
    if "population" in options.case:
        size = 100_000 if options.quick else 1_000_000
        rows.measure(
            f"population of {size:,}",
            partial(ergode.ContactNetwork.population, size, seed=1),
        )


def recurrent(options, rows):
    """SIS by every method and peer, on one core."""
    for size in (1_000,) if options.quick else (1_000, 10_000, 100_000):
        contacts, count, seeds = erdos_renyi(size), max(1, 10_000 // size), int(0.9 * size)
        makers = {
            "EoN fast_SIS": partial(eon_fast, "SIS", contacts, seeds, 50),
            "FastGEMF": partial(fastgemf, "SIS", contacts, seeds, 50),
        }
        works = installed(options, makers if size <= RECURRENT_PEERS_UP_TO else {})
        for method in ("sellke", "gillespie"):
            case = f"sis {size_label(size)} {method}"
            ours = call(
                options.place, SIS, contacts, count, method=method, times=DAYS[:51],
                initial={"I": 0.9},  # near the endemic level from the start
            )  # fmt: skip
            found = rows.measure(case, ours, works)
            theirs = {name: seconds * 1e3 for name, seconds in found.peers.items()}
            rows.add(case, "time", found.seconds / count * 1e3, "ms", peers=theirs)


def meetings(rows, core_count):
    """A conference of 138 people, 153,371 contacts of twenty seconds; isolation from case five."""
    file = Path(__file__).parents[2] / "shared" / "data" / "networks" / "ws16_contacts.tsv.gz"
    if not file.is_file():
        return
    model = ergode.CompartmentModel.seir(
        transmission_rate=6.0, latent=ergode.LogNormal(mean=8, median=7),
        infectious=ergode.LogNormal(mean=20, median=16),
    )  # fmt: skip
    measure = ergode.Isolation("I", fraction=0.8, delay=2, start=ergode.Trigger("cases", 5))
    ours = call(
        "cpu", model, ergode.read_meetings(file, unit=3600.0), 1000, initial={"I": 1},
        times=np.linspace(0, 33, 67), interventions=[measure],
    )  # fmt: skip
    case = f"meetings, trigger, {core_count} cores"
    rows.add(case, "time of 1,000 replicates", rows.measure(case, ours).clock, "s")


# ---- on a GPU


def cuda(options, rows):
    """One epidemic, batches, hubs and the largest network on a GPU."""
    rows.add("copy", "device bandwidth", copy_bandwidth("cuda") / 1e12, "TB/s")

    def measure(case, contacts, count=1, model=SEIR, **how):
        found = rows.measure(case, call(options.place, model, contacts, count), **how)
        if count > 1:
            rows.add(case, "kernels a replicate", found.seconds / count * 1e3, "ms")

    if "seir" in options.case:
        for size in (100_000, 1_000_000, 10_000_000)[: 2 if options.quick else 3]:
            measure(f"seir {size_label(size)}", erdos_renyi(size), repeats=9)
    if "sir" in options.case:
        measure("sir N=1e6 d=8", erdos_renyi(1_000_000), model=SIR, repeats=9)
    if "batch" in options.case:
        measure("batch 100 x N=1e6", erdos_renyi(1_000_000), 100)
    if "small" in options.case:
        measure("small 10,000 x N=1e4", erdos_renyi(10_000), 10_000)
    if "sweep" in options.case:
        sweep(options, rows)
    if "population" in options.case:
        people = ergode.ContactNetwork.population(1_000_000, seed=1).network
        measure("population N=1e6, four layers, 100 replicates", people, 100)
    if "hubs" in options.case:
        measure("hubs Barabasi-Albert N=1e6 m=4", hubs(), repeats=9)
    if "sis" in options.case:
        windows(options, rows)
    if "equal-error" in options.case and not options.quick:
        equal_error(options, rows)
    if "attributes" in options.case:
        attributes(options, rows, (100_000,) if options.quick else (1_000_000,))
    if "largest" in options.case and not options.quick:
        measure("largest N=1e8 d=8", erdos_renyi(100_000_000))


def attributes(options, rows, sizes):
    """Branches, stays and susceptibility by age and risk, against the same model without."""
    for size in sizes:
        contacts = with_people(erdos_renyi(size))
        seconds = []
        for name, by in (("without attributes", False), ("attributes", True)):
            case = f"{name} {size_label(size)}"
            found = rows.measure(case, call(options.place, hospital(by), contacts), repeats=9)
            rows.add(case, "time", found.seconds * 1e3, "ms")
            seconds.append(found.seconds)
        rows.add(case, "time by that without attributes", seconds[1] / seconds[0], "x")


def sweep(options, rows):
    """Many values of two parameters in one call, an epidemic each."""
    points = 1_000 if options.quick else 10_000

    def seir(rate, latent):
        return ergode.CompartmentModel.seir(
            transmission_rate=rate, latent=ergode.LogNormal(mean=latent, median=4),
            infectious=ergode.LogNormal(mean=7.5, median=5),
        )  # fmt: skip

    parameters = {"rate": np.linspace(0.1, 0.4, points), "latent": np.linspace(4.5, 6.0, points)}
    work = call(options.place, seir, erdos_renyi(10_000), parameters=parameters)
    found = rows.measure(f"sweep {points:,} points N=1e4", work)
    rows.add(f"sweep {points:,} points N=1e4", "time a point", found.seconds / points * 1e3, "ms")


def windows(options, rows):
    """Recurrent models and what is done about them, exactly, by windows of time."""
    traced = {"detection": 0.3, "tracing": 0.5, "quarantine": 10}
    trigger = ergode.Trigger("I", 300_000)
    measures = {
        "closure on a trigger": ergode.LayerClosure(reduction=0.5, duration=20, start=trigger),
        "tracing after days": ergode.ContactTracing(
            "I", detection_delay=1, tracing_delay=1, **traced
        ),
        "tracing at once": ergode.ContactTracing("I", **traced),
    }
    million = partial(erdos_renyi, 1_000_000)
    cases = {  # what to make, replicates, model, options
        "N=1e6 d=8": (million, 1, SIS, {}),
        "4,000 x N=1e3": (partial(erdos_renyi, 1_000), 4000, SIS, {}),
        "Barabasi-Albert N=1e6 m=4": (hubs, 1, SIS, {}),
        "N=1e6, SEIRS of log-normal stages": (million, 1, SEIRS, {}),
    }
    for name, measure in measures.items():
        cases[f"N=1e6, {name}"] = (million, 1, SIS, {"interventions": [measure]})
    cases["N=1e7 d=8"] = (partial(erdos_renyi, 10_000_000), 1, SIS, {})
    for case, (make, count, model, given) in list(cases.items())[: 2 if options.quick else None]:
        contacts = make()
        ours = call(
            options.place, model, contacts, count, method="sellke", initial={"I": 0.01}, **given
        )
        found = rows.measure(f"windows {case}", ours)
        rows.add(f"windows {case}", "time of 100 days", found.seconds * 1e3, "ms")
        work = found.result.attrs
        rows.add(f"windows {case}", "windows", work["windows"], "1")
        paths = work["paths"] / (count * contacts.node_count)
        rows.add(f"windows {case}", "paths a node", paths, "1")


def equal_error(options, rows):
    """Time to solution, head to head: SIS by windows, and in steps short enough to be as good.

    The error of a method is how far its mean curve of infectious nodes is from the exact one (root
    mean square over the days, of all nodes): by chance, and for steps by bias, which is of first
    order in the step.  Replicates average the former out and not the latter.  For the error that
    some exact replicates have, steps cost least - replicates times steps - when a third of the
    square is bias: half as many replicates more, each in steps that err by 1 / sqrt(3) of it.
    """
    contacts = erdos_renyi(1_000_000)

    def ours(count, **how):
        how = how or {"method": "sellke"}
        return call(options.place, SIS, contacts, count, initial={"I": 0.01}, **how)

    def leaps(count, step):
        return ours(count, method="markov-leap", step=step)

    def curves(simulate):
        return simulate()["count"].sel(compartment="I").values / contacts.node_count

    count, among = 40, 8
    reference = curves(ours(count))
    by_chance = float(np.sqrt(reference.var(axis=0, ddof=1).mean()))
    rows.add("equal error SIS N=1e6 sellke", "error of one replicate", by_chance, "1")
    (exact,) = timed([ours(1)])
    steps, found = (0.2, 0.1, 0.05), []
    for step in steps:
        case = f"equal error SIS N=1e6 markov-leap step {step:g}"
        away = curves(leaps(among, step)).mean(axis=0) - reference.mean(axis=0)
        chance = by_chance**2 * (1 / among + 1 / count)  # in the square of the difference, too
        found.append(float(np.sqrt(max(np.mean(away**2) - chance, 0.0))))
        taken = rows.measure(case, leaps(1, step), repeats=3).seconds
        rows.add(case, "time", taken * 1e3, "ms", peers={"sellke": exact.kernels * 1e3})
        rows.add(case, "bias", found[-1], "1")
    slope = sum(found) / sum(steps)
    for few, more in ((2, 3), (8, 12)):
        target = by_chance / few**0.5
        step = target / 3**0.5 / slope
        own, theirs = timed([ours(few), leaps(more, step)], 3)
        case = f"equal error SIS N=1e6, {few} of sellke, {more} of markov-leap"
        rows.add(case, "time", own.kernels * 1e3, "ms", peers={"markov-leap": theirs.kernels * 1e3})
        rows.add(case, "error", target, "1")
        rows.add(case, "step", step, "days")


def policy(coverage, start, tested):
    """Vaccines from a day on, and tests of some of those who fall ill, who are then isolated."""
    return [
        ergode.Vaccination(fraction=coverage, efficacy=0.8, start=start),
        ergode.Testing({"I": 0.8}, fraction=tested, delay=2, isolation=10, reduction=0.8),
    ]


def policies(options, rows):
    """A grid of such plans, with counts of what they do; and one, with these counts and without."""
    model = ergode.CompartmentModel.seir(
        transmission_rate=0.06, latent=LATENT, infectious=INFECTIOUS
    )
    share = options.device == "cuda" or not options.quick
    grid = ergode.grid(
        coverage=np.linspace(0, 0.9, 10), start=np.linspace(0, 45, 10 if share else 2),
        tested=np.linspace(0.05, 0.9, 10)[: 1 if options.device == "cuda" else None],
    )  # fmt: skip
    replicates = 20 if options.device == "cuda" else 1

    def run(plan, times, count, include=(), **sweep):
        return partial(
            ergode.epidemics.simulate, model, erdos_renyi(100_000), interventions=plan,
            include=include, initial={"I": 100}, times=times, replicates=count, seed=3,
            device=options.place, method="sellke", **sweep,
        )  # fmt: skip

    every_fifth, points = np.arange(0, 121, 5.0), np.prod([*map(len, grid.values())])
    sweep = {"parameters": grid, "output": "statistics"}
    rows.measure(
        f"policies, {points:,} x {replicates} of N=1e5",
        run(policy, every_fifth, replicates, "measures", **sweep), repeats=1,
    )  # fmt: skip
    plan, count = policy(0.4, 10.0, 0.3), 32 if options.device == "cuda" else 4
    without, counted = timed(
        [run(plan, np.arange(121.0), count, include) for include in ((), "measures")]
    )
    rows.add("policies, counts of one", "with counts", counted.clock / without.clock, "x")


def main():
    options = arguments("epidemics", CASES)
    rows = Rows("epidemics", options.device, options.json, gpu_seconds="kernels")
    run = "cuda" if options.device == "cuda" else "cpu"
    globals()[run](options, rows)
    getattr(epidemic_leaps, run)(options, rows)
    if "earth" in options.case:
        epidemic_earth.earth(options, rows)
    if "covasim" in options.case:
        epidemic_covasim.covasim(options, rows)
    if "starsim" in options.case:
        epidemic_starsim.starsim(options, rows)
    if "policies" in options.case:
        policies(options, rows)


if __name__ == "__main__":
    main()
