"""Windows of time against the queue of events: one history, bit for bit."""

import dataclasses

import numpy as np
import pytest
from computed_cases import layered
from windows_ptx import ptx_of

import ergode
from ergode.core import devices
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.shared.sweep import PointGroup
from ergode.epidemics.windows.runner import WindowEnsemble

GRID = np.arange(0, 41.0)
SIS = ergode.CompartmentModel.sis(transmission_rate=0.25, infectious=ergode.Exponential(rate=0.15))
_EDGES = ergode.ContactNetwork.erdos_renyi(400, mean_degree=8, seed=1).edges()
NETWORK = ergode.ContactNetwork.from_edges(
    *_EDGES, 400, weights=np.random.default_rng(1).gamma(4.0, 0.25, _EDGES[0].size)
)


def everything(age=0.0):
    """Two strains whose immunity wanes, directed weighted layers, calendars, strata, importations.

    Measures begin and end at times and on triggers; contacts are traced at once, and after a delay.
    The first strain takes its time by the group of a node, and the second has an infectivity by it.
    """
    strains = ergode.CompartmentModel.two_strains(
        transmission_rate=[0.25, 0.35],
        infectious=[ergode.Exponential(mean=5.0), ergode.Exponential(mean=4.0)],
        cross_susceptibility=[[0.1, 0.6], [0.5, 0.0]],
    )
    by_group = ergode.ByAttribute("group", {0: 1.0, 1: 0.4, 2: 1.3})
    infections = [
        dataclasses.replace(one, infectivity=by_group if one.infected == "I2" else None)
        for one in strains.infections
    ]
    first, *others = strains.progressions
    stays = {group: ergode.Exponential(mean=4.0 + group) for group in range(3)}
    first = ergode.Progression(first.compartment, first.to, ergode.ByAttribute("group", stays))
    model = ergode.CompartmentModel(
        strains.compartments,
        infections,
        [
            first,
            *others,
            ergode.Progression("R12", {"S": 0.7, "R1": 0.3}, ergode.Exponential(mean=15.0)),
        ],
        susceptibility="susceptibility",
    )
    rng = np.random.default_rng(0)
    layers = {
        name: ergode.ContactNetwork.from_edges(
            rng.integers(0, 300, 900), rng.integers(0, 300, 900), node_count=300, directed=True,
            weights=rng.gamma(2.0, 0.5, 900),
        )
        for name in ("home", "school")
    }  # fmt: skip
    contacts = ergode.ContactNetwork.from_layers(layers).with_attributes(
        susceptibility=rng.random(300), group=rng.integers(0, 3, 300)
    )
    scenario = scenario_of(
        contacts,
        [
            ergode.LayerClosure("school", reduction=0.8, start=8, duration=10),
            ergode.Vaccination(
                fraction=0.6,
                efficacy=[0.5, 0.8],
                severity={"R1": [0.3, 0.6]},
                dose_rate=ergode.Calendar([4, 10], [8, 16]),
                interval=5,
                priority="susceptibility",
                start=4,
                waning=ergode.Exponential(mean=20),
                among="group",
            ),
            ergode.Isolation("I2", fraction=0.5, delay=1.0, start=12),
            ergode.ContactTracing(
                "I1",
                detection=0.7,
                detection_delay=0.5,
                tracing=0.6,
                tracing_delay=1.0,
                quarantine=6,
                reduction=0.9,
                start=ergode.Trigger("cases", 40),
                stop=ergode.Trigger("S", 200, delay=2.0),
            ),
            ergode.Testing(
                {"I2": 0.9},
                rate=0.3,
                delay=1.5,
                isolation=5,
                reduction=0.7,
                among="group",
                start=ergode.Trigger("I2", 8),
                stop=ergode.Trigger("I2", 6, below=True),
            ),
            ergode.Capacity("S", 60, instead="R1"),
            ergode.Capacity("R1", 40, wait=True, priority="group"),
            ergode.Testing({"I2": 0.5}, fraction=0.7, isolation=4, delay=0.5),
            ergode.Testing(
                {"I1": 0.8, "I2": 0.4},
                fraction=0.9,
                isolation=6,
                capacity=ergode.Calendar([0, 15], [6, 12]),
                priority="group",
                stop=30,
            ),
            ergode.ContactTracing("I2", detection=0.5, tracing=0.6, quarantine=3, reduction=0.5),
            ergode.LayerClosure(
                "home", reduction=0.7, duration=6, start=ergode.Trigger(["I1", "I2"], 30, delay=1.0)
            ),
            ergode.LayerClosure("school", reduction=0.3, start=ergode.Trigger("I2", 12)),
            ergode.LayerClosure(
                "school",
                reduction=0.6,
                start=ergode.Trigger("cases", 14, window=2.5),
                stop=ergode.Trigger("cases", 9, window=2.5, below=True),
            ),
            ergode.LayerClosure(
                reduction=0.4,
                start=ergode.Trigger(["I1", "I2"], fraction=0.08, among={"group": [1, 2]}),
                stop=ergode.Trigger("R2", 3, window=0.5, delay=0.5, among="group"),
            ),
            ergode.LayerClosure(
                reduction=0.6,
                start=ergode.Trigger("I1", 25),
                stop=ergode.Trigger("I1", 18, below=True),
            ),
        ],
        [
            ergode.Importation("I2", rate=0.7, start=3),
            ergode.Importation("I1", times=[0.0, 5.0, 5.0, 17.25]),
        ],
        layer_factors={"school": ergode.Calendar([0, 5], [1.2, 0.1], period=7)},
        strata="group",
    )
    return (
        model,
        scenario,
        {
            "I1": ergode.Seeds(5, weight="group", age=1.5),
            "I2": ergode.Seeds([3, 4, 5], age=[0.0, 2.0, 9.0]),
        },
    )


def both(
    model, scenario, initial, count=6, device="cpu:1", rooms=None, precision="float32",
    listing=True, group=None, **options,
):  # fmt: skip
    """Counts and line lists by events and by windows."""
    common = {
        "times": GRID, "seed": 5, "listing": listing, "precision": precision, "group": group
    }  # fmt: skip
    events = EventEnsemble(model, scenario, initial, device=devices.resolve("cpu:1"), **common)
    windows = WindowEnsemble(
        model, scenario, initial, device=devices.resolve(device), **common, **options
    )
    if rooms is not None:
        windows._record_room = windows._detection_room = rooms
    (expected, cases), _ = events.run(2, count)
    (found, *records), _ = windows.run(2, count)
    if not listing:
        return (expected, {}), (found, {})
    return (expected, events.cases((expected, cases), 2)), (
        found,
        windows.cases((found, *records), 2),
    )


def check_equal(expected, found):
    np.testing.assert_array_equal(expected[0], found[0])
    for name, values in expected[1].items():
        np.testing.assert_array_equal(values, found[1][name], err_msg=name)


def test_windows_find_the_history_of_the_events():
    a, b = both(SIS, scenario_of(NETWORK), {"I": 20})
    check_equal(a, b)
    assert (a[0][:, -1, 1] > 300).all() and (a[0][:, -1, 2] > 1000).all()
    assert a[1]["node"].size == a[0][:, -1, 2].sum()


@pytest.mark.parametrize("width", [0.05, 3.0, 1e9])
def test_the_width_of_a_window_does_not_matter(width):
    check_equal(*both(SIS, scenario_of(NETWORK), {"I": 20}, width=width))


def test_windows_find_it_with_everything_there_is():
    a, b = both(*everything(), count=10, listing=False)
    check_equal(a, b)
    assert a[0][:, -1, 24:].sum() > 500
    _, c = both(*everything(), count=10, width=2.0, rooms=1, listing=False)
    check_equal(a, c)


def points(model, initial):
    """A group of three points, of three replicates each, that differ in rates and seeds."""
    models = [
        ergode.CompartmentModel(
            model.compartments,
            [
                dataclasses.replace(
                    i, transmission_rate={n: r * factor for n, r in i.transmission_rate.items()}
                )
                for i in model.infections
            ],
            model.progressions,
            susceptibility=model.susceptibility,
        )
        for factor in (1.0, 0.5, 1.5)
    ]  # fmt: skip
    return PointGroup(
        models,
        [initial, initial | {"I1": ergode.Seeds(9, age=1.0)}, initial],
        np.zeros(3, np.int64),
        3,
    )


def test_points_of_a_sweep_share_a_launch():
    model, scenario, initial = everything()
    initial["I1"] = ergode.Seeds(5, age=1.5)
    group = points(model, initial)
    a, b = both(model, scenario, initial, count=7, group=group, listing=False)
    check_equal(a, b)
    # Rows 2 to 8 of the group: each is the row of the call of its point.
    for number in range(3):
        alone = WindowEnsemble(
            group.models[number], scenario, group.initials[number], times=GRID, seed=5,
            device=devices.resolve("cpu:1"),
        )  # fmt: skip
        (own, _), _ = alone.run(0, 3)
        first = max(2, 3 * number)
        np.testing.assert_array_equal(b[0][first - 2 : 3 * number + 1], own[first - 3 * number :])


@pytest.mark.parametrize(
    ("precision", "case"),
    [
        ("float32", "sis"),
        ("float32", "points"),
        pytest.param("float64", "everything", marks=pytest.mark.exhaustive),
        ("float64", "computed"),
    ],
)
def test_the_kernel_compiles_to_ptx(precision, case):
    pytest.importorskip("numba.cuda")
    model, scenario, initial = everything(1.5)
    group = None
    if case in ("sis", "computed"):
        network = NETWORK if case == "sis" else layered(400)
        model, scenario, initial = SIS, scenario_of(network), {"I": 5}
    if case == "points":
        initial["I1"] = ergode.Seeds(5, age=1.5)
        group = points(model, initial)
    ensemble = WindowEnsemble(
        model, scenario, initial, times=GRID, seed=1, device=devices.resolve("cpu:1"),
        precision=precision, listing=True, group=group,
    )  # fmt: skip
    text = ptx_of(ensemble, precision, group)
    assert ".entry" in text
    assert (".f64" in text) == (precision == "float64")


@pytest.mark.cuda
@pytest.mark.parametrize("case", ["sis", "everything", "points", "temporal", "hubs"])
def test_cuda_finds_the_same_history(case):
    model, scenario, initial = SIS, scenario_of(NETWORK), {"I": 20}
    group = None
    if case in ("everything", "points"):
        model, scenario, initial = everything(1.5)
    if case == "points":
        initial["I1"] = ergode.Seeds(5, age=1.5)
        group = points(model, initial)
    elif case == "hubs":
        scenario = scenario_of(ergode.ContactNetwork.barabasi_albert(20_000, m=4, seed=1))
    elif case == "temporal":
        rng = np.random.default_rng(3)
        pairs, begin = rng.integers(0, 300, (2, 6000)), rng.uniform(0, 40, 6000)
        scenario = scenario_of(
            ergode.TemporalContacts.from_meetings(
                *pairs, begin, begin + rng.exponential(2.0, 6000), node_count=300
            )
        )
    # Among a million moments some are equal in float32, and who was first is then not defined.
    precision = "float64" if case == "hubs" else "float32"
    check_equal(
        *both(
            model, scenario, initial, count=7 if group else 8, device="cuda", precision=precision,
            group=group,
        )
    )  # fmt: skip
