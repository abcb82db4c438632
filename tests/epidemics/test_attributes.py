"""Parts of a model by node attributes: what they change, and what is refused."""

import json
import pickle

import numpy as np
import pytest

import ergode
from ergode.core import devices, kernels
from ergode.core.group import COOPERATIVE, KIND
from ergode.epidemics import fatality_ratio, person_time, simulate, summary
from ergode.epidemics.first_passage.counts import count_on_grid_cuda
from ergode.epidemics.first_passage.cuda import search_cuda
from ergode.epidemics.first_passage.runner import FirstPassageEnsemble
from ergode.epidemics.methods import METHODS
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.shared.options import COUNTING_ENTRIES, HAS_STRATA

By = ergode.ByAttribute
DAY = ergode.Exponential(mean=1.0)
SPLIT = {"R": 0.5, "D": 0.5}
NODES = 300
RNG = np.random.default_rng(3)
AGE = RNG.choice([4, 17, 18, 64, 65, 90], NODES)
EDGES = ergode.ContactNetwork.erdos_renyi(NODES, mean_degree=8, seed=1).edges()
PEOPLE = ergode.ContactNetwork.from_edges(
    *EDGES, NODES, weights=RNG.gamma(4.0, 0.25, EDGES[0].size)
).with_attributes(
    age=AGE, group=np.digitize(AGE, [18, 65]), sex=RNG.choice(["f", "m"], NODES).astype(str)
)


def model(to=None, stay=DAY, **factors):
    """S -> A -> I -> R or D; the young recover, the old die, half of the others do."""
    ends = [{"R": 1.0}, {"R": 0.5, "D": 0.5}, {"D": 1.0}]
    return ergode.CompartmentModel(
        ["S", "A", "I", "R", "D"],
        [ergode.Infection("S", "A", {"A": 0.4, "I": 0.8}, **factors)],
        [
            ergode.Progression("A", "I", By("sex", {"f": DAY, "m": ergode.Exponential(mean=2.0)})),
            ergode.Progression("I", to or By("age", ends, groups=[0, 18, 65]), stay),
        ],
    )


def strains(women=1.0):
    """Two strains, of which men get one more easily, and women perhaps less easily the other."""
    by_sex = {"I": By("sex", {"f": women, "m": 1.0}), "J": By("sex", {"f": 0.5, "m": 2.0})}
    return ergode.CompartmentModel(
        ["S", "I", "J"],
        [ergode.Infection("S", x, {x: 0.4}, susceptibility=by_sex[x]) for x in ("I", "J")],
        [ergode.Progression(x, "S", DAY) for x in ("I", "J")],
    )


def two_ways():
    """A and B infect to A, and women get it less easily from B."""
    by_sex = {"A": None, "B": By("sex", {"f": 0.5, "m": 1.0})}
    return ergode.CompartmentModel(
        ["S", "A", "B"],
        [ergode.Infection("S", "A", {x: 0.4}, susceptibility=by_sex[x]) for x in ("A", "B")],
        [ergode.Progression("A", "B", DAY)],
    )


def run(chosen=None, contacts=PEOPLE, **options):
    settings = {
        "initial": {"I": 10}, "times": np.arange(0, 61.0), "replicates": 8, "seed": 4,
        "strata": "group", "device": "cpu", "precision": "float32",
    }  # fmt: skip
    return simulate(chosen or model(), contacts, **(settings | options))


@pytest.mark.parametrize("method", ["first-passage", "sellke", "gillespie", "renewal-leap"])
def test_every_node_goes_where_its_age_leads(method):
    found = run(method=method, **({"step": 0.25} if METHODS[method].steps else {}))
    final = found["count"].isel(time=-1)
    young, middle, old = (final.sel(stratum=k) for k in range(3))
    assert (young.sel(compartment="D") == 0).all() and (old.sel(compartment="R") == 0).all()
    assert (young.sel(compartment="R") > 50).all() and (old.sel(compartment="D") > 50).all()
    died = middle.sel(compartment="D").sum() / middle.sel(compartment=["R", "D"]).sum()
    assert abs(float(died) - 0.5) < 0.1  # of some 700: five standard deviations
    assert fatality_ratio(found, "D").mean("replicate").values[[0, 2]].tolist() == [0.0, 1.0]


def test_outcomes_are_of_the_counts():
    found = run(method="gillespie", initial={"I": 10, "D": np.arange(5)})
    final = found["count"].isel(time=-1).values
    begun = found["count"].isel(time=0).sel(compartment="D").values
    cases = found["cases"].isel(time=-1).values
    ratio = fatality_ratio(found, ["D", "R"])
    assert ratio.dims == ("replicate", "stratum")
    np.testing.assert_allclose(ratio, (final[:, 3:].sum(axis=1) - begun) / cases)
    sizes = np.bincount(PEOPLE.attributes["group"])
    np.testing.assert_allclose(summary(found)["attack_rate"], cases / sizes)
    time = person_time(found, "I")
    inside = found["count"].sel(compartment="I").values
    np.testing.assert_allclose(time, np.trapezoid(inside, axis=1))
    both = person_time(found, ["A", "I"])
    np.testing.assert_allclose(both, time + person_time(found, "A"))
    assert (person_time(run(method="gillespie", times=[3.0]), "I") == 0).all()
    nobody = run(method="gillespie", initial={"D": 3})
    assert fatality_ratio(nobody, "D").isnull().all()


@pytest.mark.parametrize(
    ("compartment", "said"),
    [("H", "unknown compartment 'H'"), ("I", "nodes leave the compartment 'I'"), ("S", "leave")],
)
def test_what_is_no_outcome_is_refused(compartment, said):
    with pytest.raises(ergode.ModelError, match=said):
        fatality_ratio(run(method="gillespie", replicates=1), compartment)


def test_equal_entries_change_nothing():
    """The same draws, by tables with rows of classes."""
    plain = ergode.CompartmentModel(
        ["S", "A", "I", "R", "D"],
        [ergode.Infection("S", "A", {"A": 0.4, "I": 0.8})],
        [ergode.Progression("A", "I", DAY), ergode.Progression("I", SPLIT, DAY)],
    )
    stays = [
        ergode.Progression(
            p.compartment,
            By("sex", {"f": p.branches, "m": p.branches}),
            By("age", [DAY, DAY], groups=[0, 18]),
        )
        for p in plain.progressions
    ]
    same = ergode.CompartmentModel(plain.compartments, plain.infections, stays)
    assert same.digest != plain.digest
    one, other = (run(each, method="gillespie")["count"] for each in (plain, same))
    np.testing.assert_array_equal(one, other)


def test_factors_are_attributes_by_another_name():
    """Factors by group are the same epidemics as a node attribute that holds them."""
    factor = np.array([0.5, 1.0, 1.5])[PEOPLE.attributes["group"]]
    own = run(
        model(susceptibility=By("age", [0.5, 1.0, 1.5], groups=[0, 18, 65])), method="gillespie"
    )
    other = run(
        model(susceptibility="factor"), PEOPLE.with_attributes(factor=factor), method="gillespie"
    )
    np.testing.assert_array_equal(own["count"], other["count"])
    assert (own["count"] != run(method="gillespie")["count"]).any()


def test_what_is_kept_with_a_network_is_never_stale():
    split = [{"R": 1.0}, {"R": 0.5, "D": 0.5}, {"D": 1.0}]

    def of(susceptibility, lowest, to):
        factor = By("age", susceptibility, groups=[0, lowest])
        return model(to=By("age", to, groups=[0, 18, 65]), susceptibility=factor)

    known = of([0.2, 1.0], 18, split)
    cases = [
        known,
        of([1.0, 0.2], 18, split),  # other factors
        of([0.2, 1.0], 65, split),  # other groups
        of([0.2, 1.0], 18, split[::-1]),  # other branching in the same classes
        model(
            to=By("age", split, groups=[0, 17, 65]),
            susceptibility=known.factors("susceptibility")[0],
        ),
        model(
            to=By("age", split, groups=[0, 18, 65]), infectivity=known.factors("susceptibility")[0]
        ),
    ]
    younger = PEOPLE.with_attributes(age=AGE // 2 + 8)

    def fresh(contacts):
        return contacts.with_attributes()

    results = []
    for contacts in (PEOPLE, younger):
        once = fresh(contacts)
        for case in [known, *cases, known]:
            found = run(case, once, method="gillespie")
            expected = run(case, fresh(contacts), method="gillespie")
            np.testing.assert_array_equal(found["count"], expected["count"])
            results.append(found["count"].values.tobytes())
        assert pickle.loads(pickle.dumps(once)) == once
    assert len(set(results)) == 2 * len(cases)
    # An attribute that can be written to may change unseen.
    writable, once = AGE.copy(), fresh(PEOPLE)
    once.attributes["age"] = writable
    before = run(known, once, method="gillespie")
    writable[:] = younger.attributes["age"]
    after = run(known, once, method="gillespie")
    for found, people in ((before, PEOPLE), (after, younger)):
        expected = run(known, fresh(people), method="gillespie")
        np.testing.assert_array_equal(found["count"], expected["count"])


def test_points_of_a_sweep_are_their_own_calls():
    def at(fatality, mean, factor):
        ends = [{"R": 1.0}, {"R": 1 - fatality, "D": fatality}, "D"]
        return model(
            By("age", ends, groups=[0, 18, 65]),
            By("sex", {"f": DAY, "m": ergode.Exponential(mean=mean)}),
            infectivity=By("sex", {"f": 1.0, "m": factor}),
        )

    values = {"fatality": [0.1, 0.9, 0.5], "mean": [1.0, 3.0, 0.5], "factor": [1.0, 1.0, 0.3]}
    found = run(at, parameters=values, method="gillespie", replicates=3)
    for number in range(3):
        chosen = at(*(each[number] for each in values.values()))
        own = run(chosen, method="gillespie", replicates=3)
        np.testing.assert_array_equal(found["count"][number], own["count"])
    digests = {run(at, parameters=values | {"factor": [1.0, 1.0, f]}, method="gillespie",
                   replicates=1).attrs["model_digest"] for f in (0.3, 0.4)}  # fmt: skip
    assert len(digests) == 2


def test_points_with_other_groups_are_refused():
    def at(edge):
        return model(By("age", ["R", "D"], groups=[0, edge]))

    with pytest.raises(ergode.ModelError, match="at the point edge=19: values and groups of att"):
        run(at, parameters={"edge": [18, 19]}, replicates=1)


def test_it_tells_what_it_is():
    chosen = model(susceptibility=By("sex", {"f": 1.0, "m": 0.5}))
    entry = chosen.to_dict()["progressions"][1]
    assert entry["to"] == {"R": 1.0, "D": 1.0}  # the largest of each, for the graph
    assert entry["by"]["values"][1] == [18.0, {"R": 0.5, "D": 0.5}]
    assert json.dumps(chosen.to_dict())
    text = chosen._repr_html_()
    assert "probability 1, 0.5, 0 by age" in text and "by sex" in text
    assert chosen == model(susceptibility=By("sex", {"f": 1.0, "m": 0.5}))
    assert not chosen.recurrent and chosen.infected == ("A", "I")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            lambda: model(By("age", [{"R": 0.5, "D": 0.4}, "R"], groups=[0, 18])),
            "branching probabilities out of 'I' sum to 0.9, not 1 for age 0-17",
        ),
        (
            lambda: model(By("sex", {"f": "R", "m": {"R": 1.5, "D": -0.5}})),
            "branching probability I -> R is 1.5 for sex m",
        ),
        (lambda: model(By("sex", {"f": 0.3, "m": "R"})), "leads to 0.3 for sex f"),
        (lambda: model(stay=By("sex", {"f": 3, "m": DAY})), "holding time of 'I' is 3 for sex f"),
        (
            lambda: model(susceptibility=By("age", [1.0, -2], groups=[0, 18])),
            "susceptibility of the infection S -> A is -2 for age 18+",
        ),
        (lambda: model(infectivity=0.5), "infectivity of the infection S -> A is 0.5; expected"),
        (lambda: By("age", ["R", "D"], groups=[18, 0]), "groups is .*; expected finite ascending"),
        (lambda: By("age", ["R", "D"], groups=[0]), "2 values for 1 group "),
        (lambda: By("age", ["R", "D"]), "expected one entry for each value of the attribute"),
        (lambda: By("age", {0: "R"}, groups=[0]), "with groups, expected a sequence"),
        (lambda: By("age", {}), "values is empty"),
        (lambda: By(3, {0: "R"}), "attribute"),
        (
            lambda: run(model(By("weight", {0: SPLIT}))),
            "no node attribute 'weight'; it has age, group, sex",
        ),
        (
            lambda: run(model(By("sex", {"f": SPLIT}))),
            r"node \d+ has the sex 'm', for which the model",
        ),
        (
            lambda: run(model(By("age", {"18": SPLIT, "4": SPLIT}))),
            r"node \d+ has the age \d+, for which the model has no value; it has '18', '4'",
        ),
        (
            lambda: run(model(By("age", [SPLIT, SPLIT], groups=[10, 18]))),
            r"attribute 'age' of node \d+ is 4, in no group; groups begin at 10",
        ),
        (lambda: run(model(By("sex", [SPLIT], groups=[0]))), "groups need numbers"),
        (
            lambda: ergode.epidemics.reproduction(two_ways(), PEOPLE),
            "lead to 'A' differ in susceptibility or infectivity; a reproduction number needs eq",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(wrong, said):
    with pytest.raises(ergode.ModelError, match=said) as error:
        wrong()
    assert "\n" not in str(error.value)


@pytest.mark.exhaustive
def test_factors_that_differ_by_infection_differ_by_point():
    options = {"initial": {"I": 10, "J": 10}, "method": "sellke"}
    swept = run(strains, parameters={"women": [0.5, 1.0, 0.0]}, **options)
    for point, women in enumerate([0.5, 1.0, 0.0]):
        alone = run(strains(women), **options)
        np.testing.assert_array_equal(swept["count"].isel(point=point), alone["count"])


@pytest.mark.parametrize("method", ["gillespie", "renewal-leap", "markov-leap"])
def test_methods_with_one_weight_an_arc_refuse_factors_that_differ_by_infection(method):
    with pytest.raises(ergode.PlanError, match="and its arcs have one weight; use method='sellke'"):
        run(strains(), method=method)


def test_what_is_not_memoryless_for_one_class_is_not_memoryless():
    chosen = model(stay=By("sex", {"f": DAY, "m": ergode.Gamma(mean=2, sd=1)}))
    for method in ("gillespie", "markov-leap"):
        with pytest.raises(ergode.PlanError, match="holding time of 'I' is not exponential"):
            run(chosen, method=method)


def test_first_passages_compile_to_ptx():
    precision = "float32"
    cuda = pytest.importorskip("ergode.core.devices.cuda")
    mixed = By("sex", {"f": DAY, "m": ergode.LogNormal(mean=2, median=1)})
    ensemble = FirstPassageEnsemble(
        model(stay=mixed), scenario_of(PEOPLE, strata="group"), {"I": 10},
        times=np.arange(5.0), seed=1, device=devices.resolve("cpu:1"), precision=precision,
    )  # fmt: skip
    word = ensemble.word_type
    words, zeros = np.zeros(1, word), np.zeros(3, np.int64)
    search = kernels.cuda_kernel(
        search_cuda, precision=precision, bindings={**ensemble._bindings, KIND: COOPERATIVE}
    )
    text = cuda.ptx(
        search.compiled("cuda"),
        (
            ensemble.search, ensemble.width, 128, words, np.zeros((1, 2), np.uint32),
            np.zeros(3, word), np.zeros(3, np.int32), zeros,
        ),
        optimized=False,
    )  # fmt: skip
    assert ".entry" in text
    bound = {
        key: value for key, value in ensemble._bindings.items() if "WEIGHTED" not in str(key)
    } | {HAS_STRATA: True, COUNTING_ENTRIES: True}
    count = kernels.cuda_kernel(count_on_grid_cuda, precision=precision, bindings=bound)
    moves = np.zeros((1, 5, 30), np.int32)
    text = cuda.ptx(
        count.compiled("cuda"), (words.reshape(1, 1), ensemble.search, ensemble.grid, moves),
        optimized=False,
    )  # fmt: skip
    assert ".entry" in text
