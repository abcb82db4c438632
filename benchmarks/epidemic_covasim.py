"""The epidemic of Covasim on Covasim's own people, by both, and the infection fatality by age.

Kerr et al. 2021, PLOS Computational Biology 17, e1009149: people in households, schools,
workplaces and a community; symptoms, hospital, intensive care and death by age; and a vaccine that
60 % get on day 20.  The people, their contacts and all tables are read from a simulation of
Covasim; its viral load is made constant, and all people alike infectious.

Covasim goes in steps of a day.  Whoever is infectious from day a to day b transmits at a, a + 1,
..., b - 1, on average half a day before the middle of continuous time from a to b.  So the latent
period is half a day shorter here, and what Covasim counts on day t is counted at t + 1/2.

    python benchmarks/epidemics.py --case covasim       (Covasim needs numpy 1.26)
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from scipy.stats import lognorm

import ergode

NODES, SEEDS, DAYS, VACCINATED_ON, RUNS = 100_000, 500, 120, 20, 20
VACCINE = {"prob": 0.6, "rel_sus": 0.4, "rel_symp": 0.3}
CHECKED = (20, 40, 60, 120)
# Infection fatality by age: Covasim's `prognoses`, from Verity et al. 2020 and Brazeau et al. 2020.
PUBLISHED = (2e-5, 2e-5, 1e-4, 3.2e-4, 9.8e-4, 2.65e-3, 7.66e-3, 2.439e-2, 8.292e-2, 0.1619)


def simulation(seed):
    """A simulation of Covasim, with people, before it has run."""
    import covasim

    vaccine = covasim.simple_vaccine(days=VACCINATED_ON, **VACCINE)
    found = covasim.Sim(
        pop_size=NODES, pop_type="hybrid", pop_infected=SEEDS, n_days=DAYS, rand_seed=seed,
        verbose=0, use_waning=False, interventions=vaccine,
        viral_dist={"frac_time": 0.3, "load_ratio": 1, "high_cap": 4},
        beta_dist={"dist": "uniform", "par1": 1.0, "par2": 1.0},
    )  # fmt: skip
    found.initialize()
    return found


@cache
def people():
    """The simulation whose people both take."""
    return simulation(1)


def contacts_of(sim):
    """Covasim's layers.  A day's probability p of transmission is the rate -log(1 - p)."""
    layers = {
        {"h": "household", "s": "school", "w": "work", "c": "community"}[name]:
            ergode.ContactNetwork.from_edges(
                layer["p1"], layer["p2"], NODES, weights=np.asarray(layer["beta"], float)
            )
        for name, layer in sim.people.contacts.items()
    }  # fmt: skip
    rates = dict(zip(layers, sim["beta_layer"].values(), strict=True))
    factors = {name: -np.log1p(-sim["beta"] * one) / sim["beta"] for name, one in rates.items()}
    return ergode.ContactNetwork.from_layers(layers, factors).with_attributes(
        age=np.asarray(sim.people.age, float)
    )


def whole_days(law, earlier=0.0):
    """A log-normal number of days, rounded, and so much earlier."""
    mean, deviation = law["par1"], law["par2"]
    spread = np.sqrt(np.log1p((deviation / mean) ** 2))
    days = np.arange(int(lognorm.ppf(1 - 1e-9, spread, scale=mean)) + 2)
    cdf = lognorm.cdf(days + 0.5, spread, scale=mean / np.exp(spread**2 / 2))
    cdf[-1] = 1.0
    times = np.maximum(np.repeat(days - earlier, 2), 0.0)
    return ergode.Empirical(times, np.append(0.0, np.repeat(cdf, 2))[:-1])


def model_of(sim):
    """Covasim's course of disease.  Those who die have compartments of their own."""
    dur, tables = sim["dur"], sim["prognoses"]
    edges = [float(one) for one in tables["age_cutoffs"]]

    def by_age(yes, no, probabilities):
        rows = [{yes: float(p), no: 1.0 - float(p)} for p in probabilities]
        return ergode.ByAttribute("age", rows, groups=edges)

    infectious = ("asymptomatic", "presymptomatic", "mild", "worsening", "severe", "severer",
                  "critical", "dying")  # fmt: skip
    steps = {
        "exposed": (by_age("presymptomatic", "asymptomatic", tables["symp_probs"]), "exp2inf"),
        "presymptomatic": (by_age("worsening", "mild", tables["severe_probs"]), "inf2sym"),
        "worsening": (by_age("severer", "severe", tables["crit_probs"]), "sym2sev"),
        "severer": (by_age("dying", "critical", tables["death_probs"]), "sev2crit"),
        "asymptomatic": ("recovered", "asym2rec"), "mild": ("recovered", "mild2rec"),
        "severe": ("recovered", "sev2rec"), "critical": ("recovered", "crit2rec"),
        "dying": ("dead", "crit2die"),
    }  # fmt: skip
    susceptibility = ergode.ByAttribute("age", tables["sus_ORs"].tolist(), groups=edges)
    return ergode.CompartmentModel(
        ["susceptible", "exposed", *infectious, "recovered", "dead"],
        [
            ergode.Infection(
                "susceptible", "exposed", dict.fromkeys(infectious, float(sim["beta"])),
                susceptibility=susceptibility,
            )
        ],
        [
            ergode.Progression(name, to, whole_days(dur[stay], 0.5 * (stay == "exp2inf")))
            for name, (to, stay) in steps.items()
        ],
    )  # fmt: skip


def epidemic(place, replicates=1):
    """A call of ergode on these people."""
    sim = people()
    model, contacts = model_of(sim), contacts_of(sim)
    vaccine = ergode.Vaccination(
        VACCINE["prob"], 1 - VACCINE["rel_sus"], start=VACCINATED_ON - 0.5,
        severity={"presymptomatic": 1 - VACCINE["rel_symp"]},
    )  # fmt: skip
    times = np.append(0.0, np.arange(DAYS + 1) + 0.5)
    return lambda: ergode.epidemics.simulate(
        model, contacts, initial={"exposed": SEEDS}, times=times,
        replicates=replicates, interventions=[vaccine], seed=1, device=place,
    )  # fmt: skip


def covasim(options, rows):
    """The same people, the same course of disease: the curves of both, and their times."""
    from harness import Seconds, installed, timed

    def of_covasim():
        import covasim

        if int(covasim.__version__.partition(".")[0]) > 3:
            raise ImportError("people of Covasim 4 cannot be given contacts; use covasim<4")
        people()
        return lambda: simulation_of(1)

    def simulation_of(seed):
        sim = simulation(seed)
        sim.people.contacts = people().people.contacts
        for name in ("age", "symp_prob", "severe_prob", "crit_prob", "death_prob", "rel_sus"):
            sim.people[name][:] = people().people[name]
        (own,) = timed([sim.run], repeats=1, warm=False)
        return Seconds(own.processor), sim

    makers = {"Covasim": of_covasim}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not installed(options, makers):
            return
        theirs = [simulation_of(seed) for seed in range(2 if options.quick else RUNS)]
    seconds = float(np.median([one for one, _ in theirs]))
    case = f"covasim N={NODES:,}"
    found = rows.measure(case, epidemic(options.place))
    rows.add(case, "time", found.seconds * 1e3, "ms", peers={"Covasim": seconds * 1e3})
    ours = epidemic(options.place, 8 * len(theirs))()
    for name, counts, key in (
        ("infections", NODES - ours["count"].sel(compartment="susceptible"), "cum_infections"),
        ("deaths", ours["count"].sel(compartment="dead"), "cum_deaths"),
    ):
        for day in CHECKED:
            mine = counts.sel(time=day + 0.5).values.astype(float)
            others = np.array([sim.results[key].values[day] for _, sim in theirs])
            error = np.sqrt(mine.var(ddof=1) / mine.size + others.var(ddof=1) / others.size)
            rows.add(
                case, f"{name} by day {day}", mine.mean(), "1", peers={"Covasim": others.mean()}
            )
            rows.add(case, "difference", (mine.mean() - others.mean()) / error, "standard errors")
    fatality(options, rows, case)


def fatality(options, rows, case):
    """The infected who die, by age and without a vaccine, beside the published table."""
    sim = people()
    lines = ergode.epidemics.simulate(
        model_of(sim), contacts_of(sim), initial={"exposed": SEEDS}, times=[0.0, 400.0],
        replicates=20, seed=2, device=options.place, output="line_list",
    )  # fmt: skip
    age = np.asarray(sim.people.age)[lines["node"].values]
    group = np.digitize(age, sim["prognoses"]["age_cutoffs"]) - 1
    died = np.isfinite(lines["entered"].sel(compartment="dead").values)
    for k, expected in enumerate(PUBLISHED):
        mine = died[group == k]
        label = f"fatality from {10 * k} years [%]"
        rows.add(case, label, 100 * mine.mean(), "1", peers={"published": 100 * expected})
        error = np.sqrt(expected * (1 - expected) / mine.size)
        rows.add(case, "difference", (mine.mean() - expected) / error, "standard errors")
