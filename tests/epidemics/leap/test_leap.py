"""Time steps: the chain they are, exactly; their bias, which vanishes; one result on every way."""

import numpy as np
import pytest
from leap_cases import aging, counts_of, measures, memoryless, weighted_network
from leap_chain import distribution
from scipy.stats import chi2

import ergode
from ergode.core import devices
from ergode.epidemics import simulate, summary
from ergode.epidemics.leap import cpu_runs
from ergode.epidemics.leap.runner import LeapEnsemble

# Directed and weighted; node 2 infects nobody.
CONTACTS = ergode.ContactNetwork.from_edges(
    [0, 1, 1, 3, 3], [1, 0, 2, 0, 1], weights=[1.0, 0.4, 2.0, 0.7, 1.3], directed=True
)


def assert_follows_chain(
    model, start, times, lengths, method, transition, expected=None, contacts=CONTACTS
):
    """Counts at the last time have the chain's distribution: one chi-square at 1e-7."""
    replicates = 200_000
    initial = {name: [k for k, s in enumerate(start) if s == name] for name in set(start) - {"S"}}
    counts = simulate(
        model, contacts, initial=initial, times=times, replicates=replicates, seed=7, device="cpu",
        method=method, step=0.5, transition=transition,
    )["count"].values[:, -1]  # fmt: skip
    joint = distribution(model, contacts, start, lengths, expected or transition)
    assert abs(sum(joint.values()) - 1) < 1e-9
    code = 10 ** np.arange(len(model.compartments))
    seen = dict(zip(*np.unique(counts @ code, return_counts=True), strict=True))
    statistic = freedom = rare = 0
    for state, probability in joint.items():
        found = seen.pop(int(np.dot(state, code)), 0)
        if probability * replicates < 20:
            rare += found
            continue
        statistic += (found - probability * replicates) ** 2 / (probability * replicates)
        freedom += 1
    assert not seen, "a state that the chain cannot reach"
    assert freedom > 8 and rare < 400
    assert statistic < chi2.isf(1e-7, freedom - 1)


def test_markov_leap_is_its_chain():
    assert_follows_chain(
        memoryless(), "IJSS", [0.0, 0.5, 2.5], [0.5] * 5, "markov-leap", "conditional"
    )


@pytest.mark.parametrize("transition", ["left-end", "conditional", "sampled"])
def test_renewal_leap_is_its_chain(transition):
    # A holding time drawn at entry ends in the step it falls into: the law of "conditional".
    expected = "conditional" if transition == "sampled" else transition
    assert_follows_chain(
        aging(), "ISSR", [0.0, 2.0], [0.5] * 4, "renewal-leap", transition, expected
    )


def test_thresholds_for_infection_have_the_same_law():
    contacts = ergode.ContactNetwork.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    arguments = (aging(), "ISSR", [0.0, 2.0], [0.5] * 4, "renewal-leap", "sampled", "conditional")
    assert_follows_chain(*arguments, contacts=contacts)


def test_steps_that_differ_are_their_chain():
    # Steps end at every time of the grid, so that an uneven one has uneven steps.
    lengths = [0.5, 0.5, 0.2, 0.5, 0.1]
    assert_follows_chain(
        aging(), "ISSR", [0.0, 1.0, 1.2, 1.8], lengths, "renewal-leap", "conditional"
    )


def test_the_largest_hazard_chooses_the_step():
    # Two hundred nodes that nobody infects: the largest hazard is 1 as long as one is infectious.
    alone = ergode.ContactNetwork.from_edges([], [], node_count=200)
    model = ergode.CompartmentModel.sir(
        transmission_rate=0.25, infectious=ergode.Exponential(rate=1.0)
    )
    counts = simulate(
        model, alone, initial={"I": 200}, times=[0.0, 1.0], method="renewal-leap", step=0.5,
        tolerance=0.05, device="cpu",
    )  # fmt: skip
    # Twenty, one of no length to see the hazards first, and one more for what rounding leaves.
    assert counts.attrs["steps"] in (21, 22)
    rare = simulate(
        model, alone, initial={"I": 0}, times=[0.0, 1.0], method="renewal-leap", step=0.5,
        tolerance=0.05, device="cpu",
    )  # fmt: skip
    assert rare.attrs["steps"] == 3


def peaks(model, networks, days, interval, **options):
    """Peaks as fractions of all nodes, looked for at every `interval`; and final sizes."""
    found, final = [], []
    times = np.arange(0, days + 1e-9, interval)
    for number, network in enumerate(networks):
        counts = simulate(
            model, network, initial={"I": 10}, times=times, seed=number, device="cpu", **options
        )
        each = summary(counts)
        found.append(each["peak_count"].values / network.node_count)
        final.append(each["attack_rate"].values)
    return np.concatenate(found), np.concatenate(final)


def test_bias_of_the_left_end_leap_vanishes_with_the_step(model):
    """The table of the design page: +4.0, +2.0, +1.0, +0.4 % at steps of 1, 1/2, 1/4, 1/10 days.

    Peaks differ from replicate to replicate and network to network by 0.018 of 0.385 (4.7 %). The
    networks are the same for all, and so are their part of the spread; 6 standard errors of what is
    left are under 1 %, within which both the page's figures and a line through zero must lie.
    """
    networks = [ergode.ContactNetwork.erdos_renyi(1000, mean_degree=8, seed=s) for s in range(12)]
    exact, final = peaks(model, networks, 60, 0.02, replicates=300)
    assert abs(exact.mean() - 0.3850) < 0.002  # networks differ by 0.0015
    assert abs(final.mean() - 0.9956) < 0.002
    page = {1.0: 4.0, 0.5: 2.0, 0.25: 1.0, 0.1: 0.4}
    for step, expected in page.items():
        found, _ = peaks(
            model, networks, 60, step, replicates=200 if step > 0.1 else 150,
            method="renewal-leap", step=step, transition="left-end",
        )  # fmt: skip
        bias = 100 * (found.mean() / exact.mean() - 1)
        error = 100 * np.hypot(
            found.std() / found.size**0.5, exact.std() / exact.size**0.5
        ) / exact.mean()  # fmt: skip
        assert error < 0.15
        assert abs(bias - expected) < 6 * error, (step, bias, error)


def test_endemic_level_of_sis():
    """0.9137 of a thousand nodes, once the first order of the step is extrapolated away."""
    sis = ergode.CompartmentModel.sis(
        transmission_rate=0.25, infectious=ergode.Exponential(rate=0.15)
    )
    levels = []
    for step in (0.2, 0.1):
        level = []
        for seed in range(6):
            network = ergode.ContactNetwork.erdos_renyi(1000, mean_degree=8, seed=seed)
            counts = simulate(
                sis, network, initial={"I": 0.9}, times=np.arange(151.0), replicates=10, seed=seed,
                method="markov-leap", step=step, device="cpu",
            )  # fmt: skip
            infectious = counts["count"].sel(compartment="I").isel(time=slice(50, None))
            level.append(float(infectious.mean()) / 1000)
        levels.append(np.mean(level))
    assert levels[0] < levels[1] < 0.9137
    # Networks differ by 0.0007, replicates by 0.0002: 6 standard errors of 2 x second - first.
    assert abs(2 * levels[1] - levels[0] - 0.9137) < 0.002


# ---- one result, whatever the way


@pytest.fixture(scope="module")
def weighted():
    return weighted_network()


def test_gathering_and_pushing_agree(model, contacts, weighted):
    for chosen, network in ((model, contacts), (aging(), weighted)):
        pushed, work = counts_of(chosen, network, pressure="push")
        gathered, other = counts_of(chosen, network, pressure="gather")
        np.testing.assert_array_equal(pushed, gathered)
        # Steps, changes and infectious node-steps; all but how many steps gathered.
        np.testing.assert_array_equal(np.delete(work, 1), np.delete(other, 1))
        assert work[1] == 0 and other[1] == other[0] == 6 * 48


def test_thresholds_are_the_same_gathering_and_pushing(contacts, monkeypatch):
    once = {"transition": "sampled", "times": np.arange(41.0)}
    pushed, work = counts_of(aging(), contacts, pressure="push", **once)
    gathered, other = counts_of(aging(), contacts, pressure="gather", **once)
    np.testing.assert_array_equal(pushed, gathered)
    np.testing.assert_array_equal(np.delete(work, 1), np.delete(other, 1))
    monkeypatch.setattr(cpu_runs, "_SHARED_FROM", 1)
    shared, _ = counts_of(aging(), contacts, count=1, device="cpu:3", **once)
    np.testing.assert_array_equal(shared, pushed[:1])


def test_modes_switch_at_run_time(contacts):
    sis = ergode.CompartmentModel.sis(
        transmission_rate=0.25, infectious=ergode.Exponential(rate=0.9)
    )
    options = {"step": 1.0, "times": np.arange(12.0)}
    both, work = counts_of(sis, contacts, **options)
    assert 0 < work[1] < work[0]
    np.testing.assert_array_equal(both, counts_of(sis, contacts, pressure="push", **options)[0])


def test_does_not_depend_on_threads_chunks_or_company(model, contacts):
    together, _ = counts_of(model, contacts, count=40, first=0, device="cpu:4")
    for first, count in ((0, 1), (17, 1), (3, 20), (39, 1)):
        alone, _ = counts_of(model, contacts, count=count, first=first, device="cpu:1")
        np.testing.assert_array_equal(alone, together[first : first + count])


def test_threads_may_share_a_replicate(weighted, monkeypatch):
    expected, work = counts_of(aging(), weighted, count=1, device="cpu:1")
    monkeypatch.setattr(cpu_runs, "_SHARED_FROM", 1)
    for pressure in ("push", "gather", "auto"):
        shared, other = counts_of(aging(), weighted, count=1, device="cpu:3", pressure=pressure)
        np.testing.assert_array_equal(shared, expected)
        np.testing.assert_array_equal(np.delete(work, 1), np.delete(other, 1))


@pytest.mark.parametrize("layered", [False, True], ids=["unnamed", "layers"])
def test_measures_act_on_whom_they_should(layered):
    """Sources that stay infectious: escape is exp(-pressure over time), whatever the step."""
    pairs = 40_000
    source = 2 * np.arange(pairs)
    layer = {
        name: ergode.ContactNetwork.from_edges(source, source + 1, node_count=2 * pairs)
        for name in ("home", "school")
    }
    contacts = ergode.ContactNetwork.from_layers(layer) if layered else layer["home"]
    contacts = contacts.with_attributes(half=(np.arange(2 * pairs) // 2) % 2)
    calendar, closed = ergode.Calendar([0, 5], [1.5, 0.2], 7), "school" if layered else None
    days = np.arange(0, 21.0)
    si = ergode.CompartmentModel.si(transmission_rate=0.05)
    counts = simulate(
        si, contacts, initial={"I": source}, times=days, method="markov-leap", step=0.4, seed=3,
        device="cpu", strata="half", layer_factors={"home": calendar} if layered else calendar,
        interventions=[
            ergode.LayerClosure(closed, reduction=0.75, start=4.3, stop=10.3),
            ergode.Vaccination(efficacy=[0.3, 0.6], interval=3, start=12, among="half"),
        ],
    )  # fmt: skip
    fine = np.linspace(0, 20, 20_001)
    home = np.where(fine % 7 < 5, 1.5, 0.2)
    school = np.where((fine >= 4.3) & (fine < 10.3), 0.25, 1.0)
    cases = counts["cases"].isel(replicate=0)
    found = 2 * (cases - cases.isel(time=0)).transpose("stratum", "time").values / pairs
    for half, left in ((0, 1.0), (1, np.select([fine >= 15, fine >= 12], [0.4, 0.7], 1.0))):
        both = home + school if layered else home * school
        integral = np.append(0, np.cumsum((left * both)[:-1]) * 0.001)[::1000]
        expected = -np.expm1(-0.05 * integral)
        error = np.sqrt(expected * (1 - expected) / (pairs / 2)) + 1e-9
        assert (abs(found[half] - expected) < 5.6 * error + 1e-4).all()


def test_measures_are_the_same_on_threads_that_share(monkeypatch):
    scenario = measures()
    once = {"seed": 5, "times": np.arange(13.0), "step": 0.25}

    def run(cores, **options):
        ensemble = LeapEnsemble(
            memoryless(), scenario, {"I": 30}, device=devices.resolve(cores), **once, **options
        )
        return ensemble.run(3, 1)[0][0]

    expected = run("cpu:1")
    assert expected[0, -1].reshape(5, 3)[4].min() > 100  # cases in every stratum
    monkeypatch.setattr(cpu_runs, "_SHARED_FROM", 1)
    np.testing.assert_array_equal(run("cpu:3"), expected)


def test_a_leap_says_what_it_leaves_out(model, contacts):
    options = {"initial": {"I": 5}, "times": range(31), "device": "cpu", "replicates": 40}
    errors = []
    for step in (0.5, 0.25):
        attrs = simulate(model, contacts, method="renewal-leap", step=step, **options).attrs
        assert attrs["method"] == "renewal-leap" and "approximate" in attrs["method_reason"]
        assert attrs["step"] == step and attrs["steps"] == 40 * 30 / step
        assert attrs["transition"] == "conditional" and attrs["pressure_rounding"] == 0.0
        errors.append(attrs["leap_error"])
    # First order in the step: by theory about step / mean infectious time once the end is seen.
    assert 0.4 < errors[1] / errors[0] < 0.6
    counts = simulate(model, contacts, method="renewal-leap", **options)
    left = contacts.node_count - counts["count"].sel(compartment="S")
    np.testing.assert_array_equal(counts["cases"], left.transpose(*counts["cases"].dims))
    assert simulate(model, contacts, method="renewal-leap", **options).attrs["step"] == 0.08


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": 0.0}, "step is 0.0; expected a number above zero"),
        ({"tolerance": -1}, "tolerance is -1; expected a number above zero"),
        ({"transition": "exact"}, "transition 'exact' is unknown; expected 'conditional'"),
        ({"pressure": "pull"}, "pressure 'pull' is unknown; expected 'gather', 'push' or 'auto'"),
        ({"method": "markov-leap"}, "holding time of 'E' is not exponential"),
        ({"method": "first-passage", "step": 0.1}, "step=0.1 is for methods with time steps"),
        ({"output": "line_list"}, "keeps no line lists"),
        ({"interventions": [ergode.Isolation("I")]}, "Isolation changes whom a node infects while"),
        (
            {"interventions": [ergode.Testing({"I": 1})]},
            "Testing changes whom a node infects while",
        ),
        (
            {"interventions": [ergode.LayerClosure(start=ergode.Trigger("I", 5))]},
            "a trigger fires at an exact time",
        ),
        (
            {"interventions": [ergode.LayerClosure(stop=ergode.Trigger("I", 5))]},
            "a trigger fires at an exact time",
        ),
        (
            {"interventions": [ergode.Vaccination(infectivity_reduction=0.3)]},
            "Vaccination with an infectivity_reduction changes whom",
        ),
        (
            {"importations": [ergode.Importation("I", rate=1.0)]},
            "importations happen at exact times",
        ),
        ({"step": 1e-9}, "more than 2\\^30"),
    ],
)
def test_errors_at_the_door(model, contacts, change, message):
    with pytest.raises(ergode.PlanError, match=message):
        simulate(
            model, contacts,
            **{"initial": {"I": 5}, "times": [0, 10], "method": "renewal-leap"} | change,
        )  # fmt: skip


def test_left_end_refuses_a_hazard_that_begins_infinite(contacts):
    sir = ergode.CompartmentModel.sir(
        transmission_rate=0.25, infectious=ergode.Weibull(shape=0.5, scale=3.0)
    )
    with pytest.raises(ergode.PlanError, match="infinite at age zero"):
        simulate(
            sir, contacts, initial={"I": 5}, times=[0, 1], method="renewal-leap",
            transition="left-end",
        )  # fmt: skip


def test_initial_compartment_that_infects_is_refused(contacts):
    odd = ergode.CompartmentModel(
        ["S", "I", "J"],
        [ergode.Infection("S", "I", {"I": 1.0}), ergode.Infection("I", "J", {"S": 1.0})],
    )
    with pytest.raises(ergode.PlanError, match="nodes start in 'S', which is infectious"):
        simulate(odd, contacts, initial={"I": 5}, times=[0, 1], method="renewal-leap")
