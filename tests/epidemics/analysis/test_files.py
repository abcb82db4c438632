"""Line lists and trees as files, and states of nodes: the content of the line list again."""

import re

import numpy as np
import pandas
import pytest

import ergode
from ergode.epidemics import (
    case_table,
    simulate,
    states,
    transmission_tree,
    write_line_list,
    write_transmission_tree,
)

SIS = ergode.CompartmentModel.sis(transmission_rate=0.1, infectious=ergode.Exponential(mean=4))


@pytest.fixture(scope="module")
def cases(model, contacts):
    return simulate(
        model, contacts, initial={"I": 5}, times=range(61), replicates=12, seed=1, device="cpu",
        output="line_list", origin="2026-03-01",
    )  # fmt: skip


@pytest.fixture(scope="module")
def again(contacts):
    return simulate(
        SIS, contacts, initial={"I": 5}, times=range(31), replicates=3, seed=1, device="cpu",
        output="line_list",
    )  # fmt: skip


def edges_of(text):
    """Parent, child and length of each branch of a Newick tree without quotes, by a stack."""
    found, open_levels, done = [], [[]], None
    for token in re.findall(r"[(),]|[^(),;]+", text):
        if token == "(":
            open_levels.append([])
        elif token == ")":
            done = open_levels.pop()
        elif token != ",":
            label, length = token.split(":")
            found += [(label, child, value) for child, value in done or []]
            open_levels[-1].append((label, float(length)))
            done = None
    return found, open_levels[0]


def test_a_line_list_as_csv(cases, tmp_path):
    path = write_line_list(cases, tmp_path / "cases.csv")
    assert path == tmp_path / "cases.csv"
    dates = ["infected_at_date", "entered_I_date"]
    read = pandas.read_csv(path, parse_dates=dates)
    table = case_table(cases)
    assert list(read) == list(table)
    np.testing.assert_allclose(read["infected_at"], table["infected_at"])
    apart = (read["infected_at_date"] - table["infected_at_date"]).abs().max()
    assert apart < pandas.Timedelta("1ms")
    with pytest.raises(ergode.PlanError, match="it exists; pass overwrite=True"):
        write_line_list(cases, path)
    write_line_list(cases, str(path), overwrite=True)
    assert [one.name for one in tmp_path.iterdir()] == ["cases.csv"]


@pytest.mark.parametrize("name", ["cases", "again"])
def test_a_tree_as_newick(name, tmp_path, request):
    cases = request.getfixturevalue(name)
    path = write_transmission_tree(cases, tmp_path / "tree.nwk", 2)
    lines = path.read_text().splitlines()
    assert len(lines) == 5 and all(line.endswith(";") for line in lines)
    tree = transmission_tree(cases, 2)
    seen, found, label = {}, [], {}
    for case, node in sorted(tree.nodes(data="node")):
        seen[node] = seen.get(node, 0) + 1
        label[case] = f"{node}.{seen[node]}" if seen[node] > 1 else str(node)
    for line in lines:
        branches, roots = edges_of(line)
        assert len(roots) == 1 and roots[0][1] == 0
        found += branches
    expected = {(label[a], label[b]): b for a, b in tree.edges}
    assert {(a, b) for a, b, _ in found} == set(expected) and len(found) == len(expected)
    for a, b, length in found:
        case = expected[a, b]
        (source,) = tree.predecessors(case)
        between = tree.nodes[case]["infected_at"] - tree.nodes[source]["infected_at"]
        assert length == pytest.approx(between, rel=1e-6)
    with pytest.raises(ergode.PlanError, match="it exists"):
        write_transmission_tree(cases, path, 2)
    with pytest.raises(ergode.ModelError, match="replicate is 99; the line list has 0 to"):
        write_transmission_tree(cases, tmp_path / "other.nwk", 99)
    assert not (tmp_path / "other.nwk").exists()


def test_names_and_long_chains(tmp_path):
    import networkx

    chain = networkx.relabel_nodes(networkx.path_graph(3000), lambda k: f"p {k}'s")
    network = ergode.ContactNetwork.from_networkx(chain)
    cases = simulate(
        ergode.CompartmentModel.si(transmission_rate=50.0), network, initial={"I": [0]},
        times=[0, 1000], device="cpu", output="line_list",
    )  # fmt: skip
    text = write_transmission_tree(cases, tmp_path / "chain.nwk").read_text()
    assert text.startswith("(" * 2999 + "'p 2999''s':") and text.endswith("'p 0''s':0;\n")


@pytest.mark.parametrize("name", ["cases", "again"])
def test_states_are_those_that_were_counted(name, model, contacts, request):
    cases = request.getfixturevalue(name)
    which, times = (model, range(61)) if name == "cases" else (SIS, range(31))
    counts = simulate(
        which, contacts, initial={"I": 5}, times=times, replicates=cases.attrs["replicates"],
        seed=1, device="cpu", method=cases.attrs["method"],
    )["count"]  # fmt: skip
    chosen = [0.0, 4.0, 17.0, 30.0]
    state = states(cases, chosen)
    assert state.dims == ("replicate", "time", "node")
    for number, compartment in enumerate(state.attrs["compartments"]):
        expected = counts.sel(compartment=compartment, time=chosen)
        np.testing.assert_array_equal((state == number).sum("node"), expected)


def test_states_and_trees_of_a_part(model, contacts):
    options = {"initial": {"I": 5}, "times": [0, 20.0], "output": "line_list", "device": "cpu"}
    whole = simulate(model, contacts, replicates=6, **options)
    part = simulate(model, contacts, replicates=range(4, 6), **options)
    found, expected = states(part, [5.0, 20.0]), states(whole, [5.0, 20.0])
    assert found["replicate"].values.tolist() == [4, 5]
    np.testing.assert_array_equal(found, expected[4:])
    count = (part["replicate"] == 5).sum().item()
    assert len(transmission_tree(part, replicate=5)) == count
    with pytest.raises(ergode.ModelError, match="replicate is 0; the line list has 4 to 5"):
        transmission_tree(part)


def test_states_of_dates_and_of_others(cases, contacts, model):
    state = states(cases, ["2026-03-02", "2026-03-31"])
    assert state["time"].values.tolist() == [1.0, 30.0]
    assert str(state["date"].values[1])[:10] == "2026-03-31"
    immune = np.arange(200, 260)
    part = simulate(
        model, contacts, initial={"I": 5, "R": immune}, times=[0, 20.0], seed=1, device="cpu",
        output="line_list",
    )  # fmt: skip
    found = states(part, [20.0], others={"R": immune})
    assert (found.isel(node=immune) == 3).all()
    for given in ({}, {"R": immune[1:]}):
        with pytest.raises(ergode.ModelError, match="the simulation began with 60"):
            states(part, [20.0], others=given)
    drawn = simulate(
        model, contacts, initial={"I": 5, "R": 0.1}, times=[0, 20.0], seed=1, device="cpu",
        output="line_list",
    )  # fmt: skip
    with pytest.raises(ergode.ModelError, match="began in 'R', but the simulation began with 50"):
        states(drawn, [20.0])


def test_states_that_a_list_does_not_have(cases, contacts):
    for options, message in (
        ({"times": [70.0]}, "times has 70; the simulation is from 0 to 60"),
        ({"times": [1.0], "others": {"Q": [1]}}, "others names 'Q'"),
        ({"times": [1.0], "others": {"R": [500]}}, "expected ids below 500"),
        ({"times": [1.0], "others": {"R": [0.5]}}, "expected ids below 500"),
        ({"times": [1.0], "others": {"E": [1]}}, "nodes leave 'E' without being cases"),
    ):
        with pytest.raises(ergode.ModelError, match=message):
            states(cases, **options)
