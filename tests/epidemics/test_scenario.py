"""What changes in time, what is done, what comes in: against exact answers on pairs of nodes.

A pair of nodes, one infectious for ever, has an answer that can be written down: the other is
susceptible with probability exp(-integral of the rate).  `one_kernel` has the measures without
effect that are beside those of every run, so that all share a kernel.
"""

import numpy as np
import pytest
from one_kernel import IDLE, NEVER_CHANGES, with_layers

import ergode
from ergode.epidemics import simulate, summary

SIGMAS = 5.6  # 40 comparisons in two files at a family-wise 1e-6
PAIRS = 40_000
GRID = np.arange(0, 21.0)
RATE = 0.1


def model(rate=RATE, profile=None):
    infection = ergode.Infection("S", "I", {"I": rate}, profile or {})
    recovery = ergode.Progression("I", "R", ergode.Exponential(mean=1e6))
    return ergode.CompartmentModel(["S", "I", "R"], [infection], [recovery])


def pairs():
    source = 2 * np.arange(PAIRS)
    half = (np.arange(2 * PAIRS) // 2) % 2
    return with_layers(source, source + 1, 2 * PAIRS, half=half)


CONTACTS = pairs()


def infected(*interventions, contacts=CONTACTS, calendar=None, strata="half", **options):
    """Fraction of the susceptible halves of pairs that were infected by each time of the grid."""
    options.setdefault("model", model())
    counts = simulate(
        options.pop("model"), contacts, initial={"I": 2 * np.arange(PAIRS)}, times=GRID, seed=3,
        device="cpu", interventions=[*interventions, *IDLE], strata=strata,
        layer_factors={"home": calendar} if calendar else NEVER_CHANGES, **options,
    )  # fmt: skip
    cases = counts["cases"].isel(replicate=0) - counts["cases"].isel(replicate=0, time=0)
    return cases.sum("stratum").values / PAIRS, cases.values.T * 2 / PAIRS


def check(found, pressure, pairs=PAIRS):
    """Fraction infected against 1 - exp(-pressure), at every time."""
    expected = -np.expm1(-np.asarray(pressure))
    error = np.sqrt(expected * (1 - expected) / pairs) + 1e-9
    assert (abs(found - expected) < SIGMAS * error + 1e-6).all(), (found, expected)


def test_no_measure():
    found, by_half = infected()
    check(found, RATE * GRID)
    for half in by_half:
        check(half, RATE * GRID, PAIRS / 2)


def test_calendar_that_repeats():
    found, _ = infected(calendar=ergode.Calendar([0, 5], [1.5, 0.2], period=7))
    fine = np.linspace(0, 20, 20_001)
    factor = np.where(fine % 7 < 5, 1.5, 0.2)
    integral = np.append(0, np.cumsum(factor[:-1]) * 0.001)
    check(found, RATE * integral[::1000])


def test_closure_for_a_while():
    found, _ = infected(ergode.LayerClosure("home", reduction=0.75, start=4, duration=6))
    check(found, RATE * (GRID - 0.75 * np.clip(GRID - 4, 0, 6)))


def test_leaky_vaccination_of_a_group():
    _, (others, group) = infected(ergode.Vaccination(efficacy=0.6, start=5, delay=2, among="half"))
    check(others, RATE * GRID, PAIRS / 2)
    check(group, RATE * (GRID - 0.6 * np.clip(GRID - 7, 0, None)), PAIRS / 2)


def test_all_or_nothing_vaccination_of_a_fraction():
    found, _ = infected(ergode.Vaccination(fraction=0.5, efficacy=0.8, leaky=False, start=5))
    escape = np.exp(-RATE * GRID)
    escape = np.where(GRID > 5, 0.6 * escape + 0.4 * np.exp(-RATE * 5), escape)
    check(found, -np.log(escape))


def test_vaccination_rolled_out():
    found, _ = infected(ergode.Vaccination(rollout=10))
    # Escape to time t: exp(-rate x min(t, own time)), own time uniform on (0, 10).
    early = np.minimum(GRID, 10.0)
    escape = (1 - np.exp(-RATE * early)) / (10 * RATE) + (1 - early / 10) * np.exp(-RATE * GRID)
    check(found, -np.log(escape))


def test_isolation_of_some_after_a_delay():
    found, _ = infected(ergode.Isolation("I", fraction=0.7, delay=3))
    escape = 0.3 * np.exp(-RATE * GRID) + 0.7 * np.exp(-RATE * np.minimum(GRID, 3))
    check(found, -np.log(escape))


def test_isolation_after_a_positive_test():
    """Tests at entry, which is at time zero: the isolation ends, and the test is not repeated."""
    found, (_, half) = infected(
        ergode.Testing(
            {"I": 0.8, "R": 1.0}, fraction=0.5, delay=3, isolation=6, reduction=0.75
        )
    )  # fmt: skip
    isolated = np.exp(-RATE * (GRID - 0.75 * np.clip(GRID - 3, 0, 6)))
    check(found, -np.log(0.6 * np.exp(-RATE * GRID) + 0.4 * isolated))
    _, (others, half) = infected(ergode.Testing({"I": 1.0}, delay=3, among="half", duration=1))
    check(others, RATE * GRID, PAIRS / 2)
    check(half, RATE * np.minimum(GRID, 3), PAIRS / 2)
    late, _ = infected(ergode.Testing({"I": 1.0}, start=1.0))
    check(late, RATE * GRID)


@pytest.mark.slow
def test_tests_at_a_rate():
    """Positive tests at 0.15 a day until day 8; isolation two days after each, for good."""
    found, _ = infected(ergode.Testing({"I": 0.5}, rate=0.3, delay=2, stop=8))
    last = np.clip(GRID - 2, 0, 8)  # of the tests that matter
    total = 0.15 + RATE
    early = np.exp(-RATE * np.minimum(GRID, 2)) * 0.15 / total * -np.expm1(-total * last)
    check(found, -np.log(early + np.exp(-RATE * GRID - 0.15 * last)))
    # An isolation of three days, which every later test prolongs: a renewal equation in its place.
    found, _ = infected(ergode.Testing({"I": 0.5}, rate=0.6, isolation=3))
    rng = np.random.default_rng(1)
    free = _free_time(rng, 0.3, 3.0, GRID, 100_000)
    escape = np.exp(-RATE * free)
    expected = 1 - escape.mean(axis=0)
    error = np.sqrt(expected * (1 - expected) / PAIRS + escape.var(axis=0) / len(free)) + 1e-9
    assert (abs(found - expected) < SIGMAS * error + 1e-6).all()


def _free_time(rng, rate, lasts, grid, count):
    """Time outside isolation up to each time of a grid, if each test isolates for a time."""
    tests = np.cumsum(rng.exponential(1 / rate, (count, 40)), axis=1)
    begins = np.hstack([np.zeros((count, 1)), tests + lasts])  # the next free time is from here on
    ends = np.hstack([tests, np.full((count, 1), np.inf)])
    free = np.zeros((count, grid.size))
    for k in range(41):
        for at, time in enumerate(grid):
            free[:, at] += np.clip(np.minimum(ends[:, k], time) - begins[:, k], 0, None)
    return free


def test_infectivity_by_age_of_infection():
    profile = {"I": ergode.Calendar([0, 2, 6], [0.0, 2.0, 0.5])}
    found, _ = infected(model=model(profile=profile))
    check(found, RATE * (2.0 * np.clip(GRID - 2, 0, 4) + 0.5 * np.clip(GRID - 6, 0, None)))


def test_trigger_starts_at_the_level_and_not_before():
    """A closure that comes with the 10,000th new case leaves exactly those."""
    trigger = ergode.Trigger("cases", PAIRS + 10_000)
    found, _ = infected(ergode.LayerClosure(start=trigger))
    assert round(found[-1] * PAIRS) == 10_000
    before, _ = infected()
    open_still = before < 10_000 / PAIRS
    np.testing.assert_array_equal(found[open_still], before[open_still])
    later, _ = infected(ergode.LayerClosure(start=ergode.Trigger("cases", PAIRS + 10_000, delay=2)))
    assert found[-1] < later[-1] < before[-1]


def test_scenarios_share_their_randomness():
    """A measure prevents infections, and causes and moves none: replicate by replicate."""
    rng = np.random.default_rng(0)
    edges = ergode.ContactNetwork.erdos_renyi(600, mean_degree=6, seed=2).edges()
    network = with_layers(*edges, 600, half=rng.integers(0, 2, 600))

    def cases(*interventions):
        counts = simulate(
            model(0.05), network, initial={"I": 3}, times=GRID, replicates=20, seed=3,
            device="cpu", interventions=[*interventions, *IDLE], strata="half",
            layer_factors=NEVER_CHANGES,
        )  # fmt: skip
        return counts["cases"].values

    plain = cases()
    for measure in (
        ergode.LayerClosure(reduction=0.5, start=5),
        ergode.Vaccination(fraction=0.5, efficacy=0.7),
        ergode.Isolation("I", fraction=0.5, delay=2),
        ergode.ContactTracing("I", detection=0.6, tracing=0.5, quarantine=5),
    ):
        with_it = cases(measure)
        assert (with_it <= plain).all() and (with_it[:, -1] < plain[:, -1]).any(), measure


def test_tracing_quarantines_the_other_of_a_pair():
    """Detected at 3, traced with probability 0.8 at 5 for 4 days; the case itself is not held."""
    held = ergode.ContactTracing(
        "I", detection_delay=3, tracing=0.8, tracing_delay=2, quarantine=4, duration=3.5
    )
    found, _ = infected(held)
    # The case is in quarantine from 3 to 7, the traced contact from 5 to 9; those infected later
    # are detected after the measure is over.
    case_alone = np.clip(GRID - 3, 0, 4)
    both = np.clip(GRID - 3, 0, 6)
    escape = 0.2 * np.exp(-RATE * (GRID - case_alone)) + 0.8 * np.exp(-RATE * (GRID - both))
    check(found, -np.log(escape))


def test_importations():
    network = CONTACTS
    counts = simulate(
        model(0.0 + 1e-9), network, initial={}, times=GRID, replicates=400, seed=5, device="cpu",
        interventions=IDLE, strata="half", layer_factors=NEVER_CHANGES,
        importations=[
            ergode.Importation("I", rate=2.0, start=5.0, stop=15.0),
            ergode.Importation("I", times=[2.5, 2.5, 18.0]),
        ],
    )  # fmt: skip
    cases = counts["cases"].sum("stratum").values
    expected = 2.0 * np.clip(GRID - 5, 0, 10)
    certain = 2.0 * (GRID >= 2.5) + (GRID >= 18)
    error = np.sqrt(np.maximum(expected, 1e-12) / 400)
    assert (abs(cases.mean(axis=0) - expected - certain) < SIGMAS * error + 0.01).all()
    variance = cases[:, -1].var(ddof=1)
    assert abs(variance - 20) < SIGMAS * 20 * np.sqrt(2 / 400)


# ---- contacts that come and go


def test_meetings_that_last_and_meetings_of_a_moment():
    rng = np.random.default_rng(1)
    count = 20_000
    source = 2 * np.arange(count)
    begins = np.array([1.0, 4.0, 4.5, 12.0])
    ends = np.array([2.0, 5.0, 7.0, 13.0])
    order = rng.permutation(4 * count)
    lasting = ergode.TemporalContacts.from_meetings(
        np.repeat(source, 4)[order], np.repeat(source + 1, 4)[order],
        np.tile(begins, count)[order], np.tile(ends, count)[order],
    )  # fmt: skip
    assert lasting.meeting_count == 3 * count
    moments = ergode.TemporalContacts.from_meetings(
        source.repeat(2), source.repeat(2) + 1, np.tile([3.0, 8.0], count), contact_time=2.5
    )
    lessons = ergode.TemporalContacts.from_meetings(source, source + 1, source * 0, source * 0 + 6)
    breaks = {"breaks": lasting, "lessons": lessons}
    layered = ergode.TemporalContacts.from_layers(breaks)
    assert layered.meeting_count == 4 * count
    closed = ergode.LayerClosure("breaks", start=4.25, duration=2.5)
    clip = lambda a, b: np.clip(GRID, a, b) - a  # noqa: E731
    for contacts, exposed, measures in (
        (lasting, clip(1, 2) + clip(4, 7) + clip(12, 13), []),
        (moments, 2.5 * (GRID >= 3) + 2.5 * (GRID >= 8), []),
        (
            layered,
            clip(0, 6) + clip(1, 2) + clip(4, 4.25) + clip(6.75, 7) + clip(12, 13),
            [closed],
        ),
    ):
        counts = simulate(
            model(0.3), contacts, initial={"I": source}, times=GRID, seed=3, device="cpu",
            interventions=[*measures, *IDLE],
        )  # fmt: skip
        found = counts["cases"].values[0] / count - 1
        check(found, 0.3 * exposed, count)


def test_the_conference_as_it_is(shared_data):
    contacts = ergode.read_meetings(shared_data / "networks" / "ws16_contacts.tsv.gz", unit=3600.0)
    # Every row is 20 seconds of contact; rows that follow one another are one meeting.
    assert abs(contacts.amount.sum() / 2 - 153_371 * 20 / 3600) < 1e-6
    seir = ergode.CompartmentModel.seir(
        transmission_rate=6.0, latent=ergode.Exponential(mean=8),
        infectious=ergode.Exponential(mean=24),
    )  # fmt: skip
    counts = simulate(
        seir, contacts, initial={"I": 1}, times=np.linspace(0, 33, 34), replicates=50, seed=1,
        device="cpu", interventions=IDLE,
    )  # fmt: skip
    assert (counts["count"].sum("compartment") == contacts.node_count).all()
    assert 20 < float(summary(counts)["cases"].mean()) < 138
    # At night nobody meets.
    meeting = np.array([((contacts.begin < t + 1) & (contacts.end > t)).any() for t in range(33)])
    new = np.diff(counts["cases"].values, axis=1)
    assert (~meeting).any() and new[:, ~meeting].sum() == 0


# ---- line lists of the recurrent


def test_line_list_of_a_recurrent_model():
    sis = ergode.CompartmentModel.sis(
        transmission_rate=0.3, infectious=ergode.Exponential(mean=5.0)
    )
    source, target = ergode.ContactNetwork.erdos_renyi(100, mean_degree=6, seed=1).edges()
    # With weights, and a seed that is no new case: the kernel is that of the test of windows.
    network = ergode.ContactNetwork.from_edges(source, target, 100, weights=np.ones(source.size))
    initial = {"I": ergode.Seeds(4, age=1e-3)}
    options = {"initial": initial, "times": np.arange(0, 200.0), "replicates": 5, "seed": 2}
    cases = simulate(sis, network, device="cpu", output="line_list", **options)
    counts = simulate(sis, network, device="cpu", **options)
    assert cases.sizes["case"] == counts["cases"].values[:, -1].sum() > 5 * 400
    entered = cases["entered"].values
    np.testing.assert_array_equal(entered[:, 1], cases["infected_at"].values)
    infectious = [
        ((entered[:, 1] <= t) & ~(entered[:, 0] <= t)).sum() for t in (10.0, 100.0, 199.0)
    ]
    total = counts["count"].sel(compartment="I", time=[10, 100, 199]).sum("replicate").values
    np.testing.assert_array_equal(infectious, total)
    # An infector is infectious when it infects.
    node, infector = cases["node"].values, cases["infector"].values
    replicate, time = cases["replicate"].values, cases["infected_at"].values
    for k in np.flatnonzero(infector >= 0)[::97]:
        mine = (node == infector[k]) & (replicate == replicate[k]) & (time < time[k])
        last = np.flatnonzero(mine)[time[mine].argmax()]
        assert not entered[last, 0] < time[k]
    # So its interval to the next generation is shorter than its stay.
    interval = ergode.epidemics.generation_interval(cases).values[infector >= 0]
    assert (interval > 0).all() and interval.max() < np.nanmax(entered[:, 0] - entered[:, 1])
    tree = ergode.epidemics.reproduction_number(cases)
    assert int(tree["secondary_cases"].sum()) == (infector >= 0).sum()


# ---- errors at the door


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ergode.Vaccination(fraction=1.5), "fraction is 1.5; expected a number, between"),
        (lambda: ergode.Trigger("I", 0), "level is 0"),
        (lambda: ergode.Testing({}), "sensitivity is {}; expected compartments"),
        (lambda: ergode.Testing(0.9), "sensitivity is 0.9; expected compartments"),
        (lambda: ergode.Testing({"I": 1.1}), "sensitivity of 'I' is 1.1; expected a number, betw"),
        (lambda: ergode.Testing({"I": 1}, rate=0), "rate is 0.0; expected a finite number above"),
        (lambda: ergode.Testing({"I": 1}, rate=1, fraction=0.5), "a fraction and a rate"),
        (lambda: ergode.Testing({"I": 1}, delay=-1), "delay is -1"),
        (lambda: infected(ergode.Testing({"X": 1})), "unknown compartment 'X'"),
        (lambda: infected(ergode.Testing({"S": 0.1})), "'S', from which an infection leads"),
        (lambda: ergode.Calendar([0, 5], [1.0]), "2 changes and 1 factors"),
        (lambda: ergode.Calendar([0, 9], [1.0, 2.0], period=7), "less than the period, 7"),
        (lambda: ergode.Importation("I"), "either a rate or times"),
        (lambda: ergode.Isolation("I", start="monday"), "start is 'monday'"),
        (lambda: infected("school closed"), "interventions\\[0\\] is 'school closed'"),
        (lambda: infected(ergode.LayerClosure("school")), "layer 'school'.*has home"),
        (lambda: infected(ergode.Isolation("X")), "unknown compartment 'X'"),
        (lambda: infected(ergode.Vaccination(among="old")), "attribute 'old'.*has half"),
        (lambda: infected(strata="age"), "strata is 'age'.*half"),
        (lambda: infected(calendar=0.5), "expected a Calendar"),
        (lambda: infected(method="first-passage"), "interventions.*use method='sellke'"),
        (
            lambda: ergode.TemporalContacts.from_meetings([0], [1], [2.0], [1.0]),
            "end\\[0\\] is 1.0; a meeting must end after it begins",
        ),
        (lambda: ergode.TemporalContacts.from_meetings([0], [1], [2.0]), "give either `end`"),
        (
            lambda: ergode.TemporalContacts.from_layers({"home": CONTACTS}),
            "layer 'home' is Contact",
        ),
    ],
)
def test_bad_input_is_an_error_that_names_it(make, message):
    with pytest.raises(ergode.ErgodeError, match=message):
        make()


@pytest.mark.parametrize("value", ["no", "", None, np.nan])
@pytest.mark.parametrize(
    "measure",
    [
        ergode.Isolation("I", among="chosen"),
        ergode.Vaccination(among="chosen", dose_rate=1.0),
        ergode.Isolation("I", start=ergode.Trigger("I", 5, among="chosen")),
    ],
)
def test_what_is_neither_true_nor_a_number_chooses_nobody(value, measure):
    network = CONTACTS.with_attributes(chosen=np.array([value] * CONTACTS.node_count))
    with pytest.raises(ergode.ModelError, match="nonzero value of 'chosen', whose values are no"):
        infected(measure, contacts=network)
