"""The SIR tutorial of Starsim (its first), by both.

Starsim goes in steps of a year. At each step everybody meets random people anew, each contact
transmits with a probability, and who was infected at a step infects from the next one on, until
the time of recovery. Here these contacts are meetings at whole numbers (`TemporalContacts`), so
both are the same process; each run has contacts of its own. Nobody dies, since Starsim leaves out
the dead when people meet.

    python benchmarks/epidemics.py --case starsim
"""

from __future__ import annotations

import numpy as np

import ergode

NODES, CONTACTS, BETA, PREVALENCE, YEARS, RUNS = 10_000, 4, 0.1, 0.01, 30, 40
MEAN, DEVIATION = 6.0, 1.0
CHECKED = (5, 10, 15, 30)


def theirs(seed):
    """A simulation of Starsim, as its tutorial writes it."""
    import starsim

    return starsim.Sim(
        n_agents=NODES, dur=YEARS, dt=1.0, rand_seed=seed, verbose=0, copy_inputs=False,
        networks=starsim.RandomNet(n_contacts=CONTACTS),
        diseases=starsim.SIR(
            beta=starsim.peryear(BETA), init_prev=starsim.bernoulli(p=PREVALENCE),
            dur_inf=starsim.lognorm_ex(mean=starsim.years(MEAN), std=starsim.years(DEVIATION)),
            p_death=starsim.bernoulli(p=0.0),
        ),
    )  # fmt: skip


def ours(rng):
    """Meetings of all steps: contacts that people seek, of half the number, with random others."""
    seek = np.repeat(np.arange(NODES), CONTACTS // 2)
    source = np.tile(seek, YEARS + 1)
    target = rng.integers(0, NODES, source.size)
    when = np.repeat(np.arange(YEARS + 1.0), seek.size)
    apart = source != target
    return ergode.TemporalContacts.from_meetings(
        source[apart], target[apart], when[apart], node_count=NODES,
        contact_time=np.ones(int(apart.sum())),
    )  # fmt: skip


MODEL = ergode.CompartmentModel.sir(
    transmission_rate=BETA, infectious=ergode.LogNormal(mean=MEAN, sd=DEVIATION)
)


def epidemic(place, seed, begun):
    """A call of ergode, with contacts of its own, and as many infectious at the beginning."""
    contacts = ours(np.random.default_rng(seed))
    return lambda: ergode.epidemics.simulate(
        MODEL, contacts, initial={"I": int(begun)}, times=np.arange(YEARS + 1.0), seed=seed,
        device=place,
    )  # fmt: skip


def starsim(options, rows):
    """The curves of both, and their times."""
    from harness import Seconds, installed, timed

    def of_starsim():
        import starsim  # noqa: F401

        return lambda: run(1)

    def run(seed):
        sim = theirs(seed)
        sim.init()
        begun = sim.diseases.sir.infected.sum()
        (own,) = timed([sim.run], repeats=1, warm=False)
        return Seconds(own.processor), sim, begun

    if not installed(options, {"Starsim": of_starsim}):
        return
    count = 4 if options.quick else RUNS
    others = [run(seed) for seed in range(1, count + 1)]
    case = f"starsim N={NODES:,}"
    found = rows.measure(case, epidemic(options.place, 1, NODES * PREVALENCE))
    seconds = float(np.median([one for one, *_ in others]))
    rows.add(case, "time", found.seconds * 1e3, "ms", peers={"Starsim": seconds * 1e3})
    mine = [
        epidemic(options.place, seed, begun)()["count"].isel(replicate=0)
        for seed, (_, _, begun) in enumerate(others)
    ]
    keys = {"I": "n_infected", "R": "n_recovered"}
    for compartment, key in keys.items():
        for year in CHECKED:
            here = np.array([float(one.sel(compartment=compartment, time=year)) for one in mine])
            there = np.array([sim.results.sir[key].values[year] for _, sim, _ in others])
            error = (here - there).std(ddof=1) / np.sqrt(count)
            label = f"{compartment} in year {year}"
            rows.add(case, label, here.mean(), "1", peers={"Starsim": there.mean()})
            rows.add(case, "difference", (here.mean() - there.mean()) / error, "standard errors")
