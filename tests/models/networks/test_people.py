"""Networks from tables of people, and contact matrices of surveys."""

import numpy as np
import pandas as pd
import pytest

import ergode

TABLE = pd.DataFrame(
    {
        "id": ["p", "q", "r", "s", "t"],
        "age": [41, 39, 9, 6, 70],
        "home": ["a", "a", "a", "b", None],
        "school": [np.nan, np.nan, 1.0, 1.0, np.nan],
    }
)


def pairs(network, layer):
    source = np.repeat(np.arange(network.node_count), network.degrees())
    here = (network.layer == network.layers.index(layer)) & (source < network.targets)
    return set(zip(source[here].tolist(), network.targets[here].tolist(), strict=True))


def test_a_table_of_people():
    network = ergode.ContactNetwork.from_people(
        TABLE, {"household": "home", "school": "school"}, weights={"household": 3.0}, names="id"
    )
    assert network.layers == ("household", "school")
    assert pairs(network, "household") == {(0, 1), (0, 2), (1, 2)}
    assert pairs(network, "school") == {(2, 3)}
    assert set(network.weights[network.layer == 0].tolist()) == {3.0}
    assert network.attributes["age"].tolist() == TABLE["age"].tolist()
    assert "home" not in network.attributes and "school" not in network.attributes
    assert network.nodes_named(["r", "t"]).tolist() == [2, 4]


def test_large_groups_are_rings():
    count, most = 1000, 6
    people = {"work": np.arange(count) % 4}
    network = ergode.ContactNetwork.from_people(people, ["work"], most={"work": most}, seed=3)
    assert (network.degrees() == most).all()
    source, target = network.edges()
    assert (people["work"][source] == people["work"][target]).all()
    assert np.abs(source - target).max() > 500  # in random order
    again = ergode.ContactNetwork.from_people(people, ["work"], most={"work": most}, seed=3)
    other = ergode.ContactNetwork.from_people(people, ["work"], most={"work": most}, seed=4)
    assert network == again and network != other


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layers": ["hous"]}, "no column 'hous'"),
        ({"layers": []}, "layers is empty"),
        ({"layers": ["home"], "most": {"work": 4}}, "'work' is no layer"),
        ({"layers": ["home"], "most": {"home": 3}}, "expected an even number"),
        ({"layers": ["home"], "names": "home"}, "does not name each person"),
    ],
)
def test_refused_tables(given, message):
    with pytest.raises(ergode.ModelError, match=message):
        ergode.ContactNetwork.from_people(TABLE, **given)


def test_a_survey_is_checked():
    labels = ["[0,5)", "[5,18)", "18+"]
    matrix = pd.DataFrame([[2, 1, 4], [2, 9, 6], [1, 2, 8.0]], index=labels, columns=labels)
    people = dict(zip(labels, [100, 200, 400], strict=True))
    survey = ergode.contact_survey(matrix, people)
    assert survey["group"].values.tolist() == ["0-4", "5-17", "18+"]
    number = survey["people"].values
    total = number[:, None] * survey["reciprocal"].values
    np.testing.assert_allclose(total, total.T)
    np.testing.assert_allclose(total[0, 1], (100 * 1 + 200 * 2) / 2)
    assert survey["imbalance"].values[0, 1] == 0.25
    assert survey.attrs["largest_imbalance"] == 4.0
    by_name = dict(zip(survey["group"].values.tolist(), [100, 200, 400], strict=True))
    assert ergode.contact_survey(matrix.to_numpy(), by_name, [0, 5, 18]).equals(survey)


def test_a_population_takes_the_groups_of_a_survey(tmp_path):
    path = tmp_path / "matrix.csv"
    path.write_text("[0,5);[5,18);18+\n2;1;4\n1;9;6\n1;2;8\n")
    matrix = ergode.read_contact_matrix(path)
    assert matrix.sel(group="18+", contact_group="[5,18)") == 2.0
    _, contacts = ergode.ContactNetwork.population(2000, mixing=matrix, seed=1)
    assert contacts["group"].values.tolist() == ["0-4", "5-17", "18+"]
    survey = ergode.contact_survey(matrix, contacts["people"].values)
    np.testing.assert_allclose(survey["reciprocal"], contacts["reciprocal"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-4,5+\n1,2\n3,4\n5,6\n", "line 2"),
        ("0-4,5+\n1,2\n3,x\n", "line 3"),
        ("0-4,5+\n1,2\n3,-1\n", "negative"),
        ("a,0-4,5+\n0-4,1,2\n6+,3,1\n", "but the columns"),
        ("0-4,5+\n", "expected a line of age groups"),
    ],
)
def test_refused_files(tmp_path, text, message):
    path = tmp_path / "matrix.csv"
    path.write_text(text)
    with pytest.raises(ergode.ReadError, match=message):
        ergode.read_contact_matrix(path)
    with pytest.raises(ergode.ReadError, match="there is no such file"):
        ergode.read_contact_matrix(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([[1, 2]], [1]), "square"),
        (([[1, 2], [3, 4]], [1, 2]), "no labels"),
        (([[1, 2], [3, 4]], [1], [0, 5]), "a number for each"),
        (([[1, 2], [3, 4]], {"0-4": 3}, [0, 5]), "no number for '5\\+'"),
        (([[1, 2], [3, 4]], [1, 2], [0]), "2 rows for 1 age groups"),
    ],
)
def test_refused_surveys(given, message):
    with pytest.raises(ergode.ModelError, match=message):
        ergode.contact_survey(*given)


@pytest.mark.parametrize("bad", [3, [1, 2], "x", [[1, 2], [3, 4]]])
def test_what_is_no_table_is_refused(bad):
    with pytest.raises(ergode.ModelError, match="expected a table"):
        ergode.ContactNetwork.from_people(bad, ["home"])
