"""Who infected whom: consistent with the counts, the network and the model."""

import inspect

import numpy as np
import pytest

import ergode
from ergode.epidemics import (
    case_table,
    fatality_ratio,
    generation_interval,
    incidence,
    observe,
    person_time,
    reproduction_number,
    serial_interval,
    simulate,
    summary,
    transmission_tree,
)


@pytest.fixture(scope="module")
def cases(model, contacts):
    return simulate(
        model, contacts, initial={"I": 5}, times=range(61), replicates=12, seed=1, device="cpu",
        output="line_list",
    )  # fmt: skip


def test_counts_follow_from_the_list(cases, counts):
    for replicate in (0, 7):
        entered = cases["entered"].values[cases["replicate"].values == replicate]
        for at in (0, 10, 25, 60):
            inside = [
                ((entered[:, k] <= at) & ~(entered[:, k + 1 :] <= at).any(axis=1)).sum()
                for k in (1, 2, 3)
            ]
            np.testing.assert_array_equal(
                inside, counts["count"].sel(replicate=replicate, time=at).values[1:]
            )


def test_infectors_are_infectious_neighbours_at_the_time(cases, contacts):
    table = case_table(cases)
    of_case = table.set_index(["replicate", "node"])
    infected = table[table["infector"] >= 0]
    infector = of_case.loc[list(zip(infected["replicate"], infected["infector"], strict=True))]
    moment = infected["infected_at"].values
    assert (infector["entered_I"].values <= moment).all()
    assert not (infector["entered_R"].values < moment - 1e-4).any()
    for node, source in zip(infected["node"], infected["infector"], strict=True):
        row = contacts.targets[contacts.offsets[source] : contacts.offsets[source + 1]]
        assert node in row


def test_every_tree_grows_from_its_seeds(cases):
    import networkx

    for replicate in range(12):
        tree = transmission_tree(cases, replicate)
        roots = [node for node, degree in tree.in_degree() if degree == 0]
        assert len(roots) == 5
        assert networkx.is_forest(tree.to_undirected())
        assert all(degree <= 1 for _, degree in tree.in_degree())


def test_secondary_cases_add_up(cases):
    numbers = reproduction_number(cases)
    infected = int((cases["infector"] >= 0).sum())
    assert int(numbers["secondary_cases"].sum()) == infected
    tree = transmission_tree(cases, 3)
    secondary = numbers["secondary_cases"].values
    assert all(secondary[case] == degree for case, degree in tree.out_degree())


def test_intervals_and_transmissibility_of_isolated_pairs(model):
    """Pairs i -> j: every transmission is seen, and nobody competes for anyone.

    The page's values: transmissibility 0.680798, mean generation time 7.467 d. With 2e5 pairs,
    5 standard errors (two-sided error 6e-7 each) are 0.5 % of either.
    """
    pairs = 200_000
    contacts = ergode.ContactNetwork.from_edges(
        np.arange(pairs), np.arange(pairs, 2 * pairs), directed=True
    )
    cases = simulate(
        model, contacts, initial={"E": np.arange(pairs)}, times=[0, 2000.0], seed=4, device="cpu",
        output="line_list",
    )  # fmt: skip
    interval = generation_interval(cases).values
    interval = interval[np.isfinite(interval)]
    run = np.sqrt(0.680798 * (1 - 0.680798) / pairs)
    assert abs(interval.size / pairs - 0.680798) < 5 * run
    assert abs(interval.mean() - 7.467) < 5 * interval.std() / np.sqrt(interval.size) + 5e-4
    # Onset to onset: latent times of both are alike, so only the mean is that of generations.
    serial = serial_interval(cases).values
    serial = serial[np.isfinite(serial)]
    assert abs(serial.mean() - 7.467) < 5 * serial.std() / np.sqrt(serial.size) + 5e-4


def test_instantaneous_reproduction_number_of_a_steady_chain():
    # A directed ring, infectious for all but exactly one unit, transmitting almost at once: one
    # case follows from each.
    node_count = 400
    ring = ergode.ContactNetwork.from_edges(
        np.arange(node_count), (np.arange(node_count) + 1) % node_count, directed=True
    )
    model = ergode.CompartmentModel.sir(
        transmission_rate=20.0, infectious=ergode.LogNormal(mean=1.0, sd=1e-3)
    )
    cases = simulate(
        model, ring, initial={"I": [0]}, times=np.arange(0, 11.0), replicates=50, seed=2,
        device="cpu", output="line_list",
    )  # fmt: skip
    numbers = reproduction_number(cases)
    np.testing.assert_allclose(numbers["case_reproduction_number"][:8], 1.0, atol=0.05)
    np.testing.assert_allclose(numbers["instantaneous_reproduction_number"][1:8], 1.0, atol=0.05)


def test_an_epidemic_of_seeds_alone(model):
    contacts = ergode.ContactNetwork.from_edges([], [], node_count=4)
    cases = simulate(
        model, contacts, initial={"I": [2]}, times=[0, 10], device="cpu", output="line_list"
    )
    assert cases["node"].values.tolist() == [2] and cases["infector"].values.tolist() == [-1]
    assert np.isnan(generation_interval(cases)).all()
    assert len(case_table(cases)) == 1
    nobody = simulate(model, contacts, initial={}, times=[0, 10], device="cpu", output="line_list")
    assert nobody.sizes["case"] == 0
    assert reproduction_number(nobody)["secondary_cases"].size == 0


def test_a_swept_parameter_with_the_name_of_a_column_is_refused(contacts):
    def model(entered_I):
        return ergode.CompartmentModel(
            ["S", "I", "R"],
            [ergode.Infection("S", "I", {"I": entered_I})],
            [ergode.Progression("I", "R", ergode.Exponential(mean=5.0))],
        )

    swept = simulate(
        model, contacts, initial={"I": 5}, times=[0, 5], parameters={"entered_I": [0.1, 0.2]},
        device="cpu", output="line_list",
    )  # fmt: skip
    first = swept.isel(case=swept["point"].values == 0)
    with pytest.raises(ergode.PlanError, match="'entered_I' is a column"):
        case_table(first)
    assert set(case_table(first.rename(entered_I="rate"))["rate"]) == {0.1}
    table = case_table(swept.rename(entered_I="rate"))  # of all points
    assert dict(table.groupby("rate").size()) == {
        rate: (swept["point"].values == k).sum() for k, rate in enumerate((0.1, 0.2))
    }
    parts = [swept.isel(case=swept["point"].values == k) for k in (0, 1)]
    with pytest.raises(ergode.PlanError, match="parts have no dim 'point'"):
        ergode.concat(parts, "point")


def test_an_unknown_onset_is_named(cases):
    with pytest.raises(ergode.ModelError, match="unknown compartment 'X'"):
        serial_interval(cases, onset="X")


def test_next_generation_matrix_of_two_groups():
    """Blocks of a large network, early: entry (a, b) is the transmissibility times the degree.

    Of 8,000 seeds, about half in each group, each infects two on average: a smallest entry of 2,200
    cases, whose variance is a few times Poisson's, within 12 % at 5 standard errors.
    """
    sizes, degrees = [20_000, 20_000], [[6.0, 2.0], [2.0, 4.0]]
    network = ergode.ContactNetwork.stochastic_block_model(sizes, degrees, seed=3)
    model = ergode.CompartmentModel.seir(
        transmission_rate=0.05, latent=ergode.LogNormal(mean=5, median=4),
        infectious=ergode.LogNormal(mean=7.5, median=5),
    )  # fmt: skip
    cases = simulate(
        model, network, initial={"I": 20}, times=[0, 60.0], replicates=400, seed=2, device="cpu",
        output="line_list",
    )  # fmt: skip
    found = ergode.epidemics.next_generation(cases, network.attributes["block"], until=0.0)
    expected = 0.271630 * np.array(degrees)
    np.testing.assert_allclose(found["matrix"].values, expected, rtol=0.12)
    largest = np.linalg.eigvals(found["matrix"].values).max()
    assert float(found["reproduction_number"]) == pytest.approx(largest)
    with pytest.raises(ergode.ModelError, match="one value for each node"):
        ergode.epidemics.next_generation(cases, [0, 1])


OF_LINE_LISTS = [
    function
    for function in map(vars(ergode.epidemics).get, ergode.epidemics.__all__)
    if inspect.isfunction(function) and "cases" in inspect.signature(function).parameters
]


@pytest.mark.parametrize("function", OF_LINE_LISTS)
def test_counts_are_no_line_list(function, counts, tmp_path):
    more = {
        "next_generation": [np.zeros(5)],
        "states": [[0.0]],
        "write_line_list": [tmp_path / "cases.csv"],
        "write_transmission_tree": [tmp_path / "tree.nwk"],
    }.get(function.__name__, [])
    with pytest.raises(ergode.ModelError, match=r"expected .*output='line_list'"):
        function(counts, *more)


def test_line_lists_are_no_counts(cases):
    for function in (summary, incidence, observe):
        with pytest.raises(ergode.ModelError, match=r"output='counts'"):
            function(cases)
    for function in (fatality_ratio, person_time):
        with pytest.raises(ergode.ModelError, match=r"output='counts'"):
            function(cases, "R")
