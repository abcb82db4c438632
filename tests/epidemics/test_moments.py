"""What happens at one moment, and in which order.

Where an assertion is statistical its error is below 1e-7, and that of all of them below 1e-6.
"""

import numpy as np
import pytest

import ergode
from ergode.epidemics import simulate

SIGMAS = 5.4
ALWAYS = 1e3  # contact time of a meeting that is sure to transmit
SEIR = ergode.CompartmentModel.seir(
    transmission_rate=1.0, latent=ergode.Deterministic(1.0), infectious=ergode.Deterministic(2.0)
)
# With precision="float64", what has both shares a kernel with the file of stops.
NEVER = [ergode.LayerClosure(start=ergode.Trigger("S", 10**6))]
# By events, and on a device by windows.
BOTH = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])


def infected_of(meetings, initial, device, start=0.0, stop=6.0, **options):
    """The number of cases in the end, of those who meet: (who, whom, when)."""
    one, other, when = (np.array(x) for x in zip(*meetings, strict=True))
    contacts = ergode.TemporalContacts.from_meetings(
        one, other, when, contact_time=ALWAYS, node_count=4
    )
    counts = simulate(
        SEIR, contacts, initial=initial, times=[start, stop], method="sellke", device=device,
        interventions=NEVER, **options,
    )  # fmt: skip
    return int(counts["cases"][0, -1])


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("start", [0.0, 3.0])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_stay_holds_from_its_first_moment_to_before_its_last(device, start, precision):
    def found(meetings, initial):
        later = [(a, b, start + when) for a, b, when in meetings]
        options = {"start": start, "stop": start + 6, "precision": precision}
        return infected_of(later, initial, device, **options)

    # At the first time, which is the first moment of those who begin infectious.
    assert found([(0, 1, 0.0)], {"I": [0]}) == 2
    # Who was exposed at 0 is infectious from 1 on, and no longer at 3.
    assert found([(0, 1, 1.0)], {"E": [0]}) == 2
    assert found([(0, 1, 1.0 - 2**-10)], {"E": [0]}) == 1
    assert found([(0, 1, 3.0 - 2**-10)], {"E": [0]}) == 2
    assert found([(0, 1, 3.0)], {"E": [0]}) == 1
    # Infected at 0 by a meeting, infectious from 1 on.
    assert found([(0, 1, 0.0), (1, 2, 1.0)], {"I": [0]}) == 3


@pytest.mark.slow
@BOTH
def test_nobody_passes_on_at_the_moment_of_infection(device):
    si = ergode.CompartmentModel.si(transmission_rate=1.0)
    contacts = ergode.TemporalContacts.from_meetings(
        [0, 1, 2], [1, 2, 3], [1.0, 1.0, 2.0], contact_time=ALWAYS
    )
    counts = simulate(
        si, contacts, initial={"I": [0]}, times=[0, 1, 2, 3], method="sellke", device=device
    )
    assert counts["cases"].values.tolist() == [[1, 2, 2, 2]]


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("unit", [1.0, 2.0**-20, 2.0**20])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_meeting_before_the_start_infects_nobody(device, unit, precision):
    """Also within a unit of time before it; and of one in progress the rest counts."""
    count = 20_000
    ids = 2 * np.arange(count)
    lasting = ergode.CompartmentModel.sir(
        transmission_rate=1.0 / unit, infectious=ergode.Deterministic(100.0 * unit)
    )

    def infected(begin, end=None):
        given = {"contact_time": unit} if end is None else {"end": np.full(count, end * unit)}
        contacts = ergode.TemporalContacts.from_meetings(
            ids, ids + 1, np.full(count, begin * unit), node_count=2 * count, **given
        )
        found = simulate(
            lasting, contacts, initial={"I": ids}, times=np.array([5.0, 9.0]) * unit,
            method="sellke", device=device, precision=precision,
            interventions=[*NEVER, ergode.LayerClosure(reduction=0.0, start=8.0 * unit)],
        )  # fmt: skip
        return int(found["cases"][0, -1]) - count

    for before in ((4.5,), (4.999,), (4.0, 5.0)):
        assert infected(*before) == 0
    for meeting, amount in (((5.0,), 1.0), ((4.5, 5.5), 0.5), ((3.0, 5.25), 0.25)):
        chance = -np.expm1(-amount)
        error = np.sqrt(count * chance * (1 - chance))
        assert abs(infected(*meeting) - count * chance) < SIGMAS * error


# ---- sums of times that round: 1.1 + 2.2 is a little more than 3.3

ROUND = ergode.CompartmentModel.seir(
    transmission_rate=1.0, latent=ergode.Deterministic(1.1), infectious=ergode.Deterministic(2.2)
)
WAYS = [
    {"method": "first-passage"},
    {"method": "sellke"},
    {"method": "renewal-leap"},
    {"method": "renewal-leap", "transition": "sampled"},
    {"method": "renewal-leap", "tolerance": 0.1, "step": 0.1},
]


@pytest.mark.parametrize("start", [0.0, 2020.1])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
def test_what_ends_at_a_time_of_the_grid_counts_there(way, precision, start):
    contacts = ergode.ContactNetwork.from_edges([0], [1], node_count=3)
    if precision == "float64" and way["method"] == "renewal-leap":
        pytest.skip("its table and its ticks are no finer")
    options = {"initial": {"E": [2]}, "device": "cpu", "precision": precision} | way
    for ends in ([1.1, 2.2, 3.3], [1.1, 3.3, 5.0], [1.1, 3.3]):
        times = start + np.array([0.0, *ends])
        counts = simulate(ROUND, contacts, times=times, **options)["count"].isel(replicate=0)
        expected = [1 if t < 1.1 else 2 if t < 3.3 else 3 for t in [0.0, *ends]]
        assert counts.values[:, 1:].argmax(axis=1).tolist() == [k - 1 for k in expected]


@pytest.mark.parametrize("start", [0.0, 2020.1])
def test_a_line_list_has_the_times_of_the_grid(start):
    contacts = ergode.ContactNetwork.from_edges([0], [1], node_count=3)
    times = start + np.array([0.0, 1.1, 3.3])
    cases = simulate(
        ROUND, contacts, initial={"E": [2]}, times=times, method="first-passage",
        device="cpu", output="line_list",
    )  # fmt: skip
    entered = cases["entered"].sel(compartment=["E", "I", "R"]).values[0]
    assert (entered <= times).all()
    np.testing.assert_allclose(entered, times, rtol=1e-6)


# Infectious from 1.1 to 3.3, or infected at 2.2 and infectious from then on.
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_stay_that_ends_with_a_meeting_has_ended_before(precision):
    def found(meetings, initial, **options):
        one, other, when = (np.array(x) for x in zip(*meetings, strict=True))
        contacts = ergode.TemporalContacts.from_meetings(
            one, other, when, contact_time=ALWAYS, node_count=4
        )
        counts = simulate(
            ROUND, contacts, initial=initial, times=[0.0, 6.0], method="sellke", device="cpu",
            precision=precision, **options,
        )  # fmt: skip
        return int(counts["cases"].isel(time=-1, replicate=0))

    assert found([(0, 1, 3.3)], {"E": [0]}) == 1
    assert found([(0, 1, 2.2), (1, 2, 3.3)], {"E": [0]}) == 3
    # A closure from 1.1 to 3.3, and one from 2.2 after what happens at 1.1.
    meetings = [(0, 1, 2.2), (1, 2, 3.3)]
    closed = ergode.LayerClosure(None, start=1.2, duration=2.1, reduction=1.0)
    assert found(meetings[1:], {"I": [1]}, interventions=[closed]) == 1
    assert 1.1 + 2.2 > 3.3
    late = ergode.LayerClosure(
        None, start=ergode.Trigger("I", 1, delay=2.2), duration=1.0, reduction=1.0
    )
    assert found(meetings, {"E": [0]}, interventions=[late]) == 2


def strains(rates):
    infections = [
        ergode.Infection("S", name, {name: rate})
        for name, rate in zip(("I1", "I2"), rates, strict=True)
    ]
    return ergode.CompartmentModel(["S", "I1", "I2"], infections)


@pytest.mark.slow
@BOTH
def test_all_contacts_of_a_meeting_count(device):
    """A meeting of contact time 1 with each strain, at rates 2 and 0.5, and at one moment."""
    count = 30_000
    centre = 3 * np.arange(count)
    contacts = ergode.TemporalContacts.from_meetings(
        np.repeat(centre, 2), np.repeat(centre, 2) + np.tile([1, 2], count),
        np.ones(2 * count), contact_time=np.tile([0.5, 1.0], count), node_count=3 * count,
    )  # fmt: skip
    counts = simulate(
        strains((2.0, 0.5)), contacts, initial={"I1": centre + 2, "I2": centre + 1},
        times=[0, 2.0], method="sellke", device=device, seed=4,
    )["count"].isel(time=-1, replicate=0)  # fmt: skip
    hazards = {"I1": 2.0, "I2": 0.25}
    total = sum(hazards.values())
    for name, hazard in hazards.items():
        chance = hazard / total * -np.expm1(-total)
        error = np.sqrt(count * chance * (1 - chance))
        assert abs(float(counts.sel(compartment=name)) - count - count * chance) < SIGMAS * error


def test_a_calendar_acts_on_all_contacts():
    model = ergode.CompartmentModel.si(transmission_rate=50.0)
    plain = ergode.ContactNetwork.from_edges([0, 1], [1, 2])
    layered = ergode.ContactNetwork.from_layers({"home": plain, "work": plain})
    for contacts in (plain, layered):
        counts = simulate(
            model, contacts, initial={"I": [0]}, times=[0, 2, 4], device="cpu",
            layer_factors=ergode.Calendar([0, 2], [0.0, 1.0]),
        )  # fmt: skip
        assert counts["cases"].values.tolist() == [[1, 1, 3]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ergode.Importation("I", rate=1.0, start=float("nan")), "start is nan"),
        (lambda: ergode.Importation("I", rate=1.0, start=5, stop=2), "stops at 2, before"),
        (lambda: ergode.Importation("I", times=[1.0], start=0.5), "go with a rate"),
        (lambda: ergode.Trigger([], 5), "count is \\[\\]; expected a compartment"),
        (lambda: refused(interventions=[ergode.Isolation("S")]), "in 'S', which is not infectious"),
        (lambda: refused(times=10), "times is 10, a number"),
        (lambda: refused(layer_factors={"home": ergode.Calendar([0], [1])}), "has none"),
    ],
)  # fmt: skip
def test_what_was_accepted_silently_is_refused(call, message):
    with pytest.raises(ergode.ModelError, match=message):
        call()


def refused(**options):
    contacts = ergode.ContactNetwork.from_edges([0], [1])
    options = {"initial": {"I": 1}, "times": [0, 1], "device": "cpu"} | options
    return simulate(SEIR, contacts, **options)
