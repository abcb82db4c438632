"""read_contacts: every format, every complaint with its line, and the two real files."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import ergode
from ergode.core.errors import ModelError, ReadError
from ergode.models.networks.contact_network import ContactNetwork
from ergode.readers.edges import read_contacts

DATA = Path(__file__).parents[3] / "shared" / "data" / "networks"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not there")
TIMED = ("time", "source", "target")


@pytest.fixture
def write(tmp_path):
    def write(text, name="edges.txt"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    "text",
    [
        "0 1 0.5\n1 2 2\n",
        "# 3 nodes\n0\t1\t0.5\n# halfway\n1\t2\t2\n",
        "0,1,0.5\n\n1,2,2",
        "  0   1 0.5  \n  1   2 2\n",
        "0; 1; 0.5\n1; 2; 2\n",
        "source,target,weight\n0,1,0.5\n1,2,2\n",
        "\ufeff\n# c\nweight;Target;Source;note\n0.5;0;1;x\n2;1;2;y\n",
        "0 1 0.25\r\n1 0 0.25\r\n2 1 2\r\n1 1 7\r\n",
    ],
)
def test_texts_of_one_network(write, text):
    expected = ContactNetwork.from_edges([0, 1], [1, 2], weights=[0.5, 2])
    assert read_contacts(write(text)) == expected
    directed = read_contacts(write(text), directed=True)
    assert directed.directed and directed.weights.sum() == 2.5


def test_ids_are_numbered_and_named(write):
    network = read_contacts(write("30 10\n10 20\n"))
    assert network.node_names.tolist() == [10, 20, 30] and network.edge_count == 2
    network = read_contacts(write("30 10\n10 NA\n007 7\n"))
    assert network.node_names.tolist() == ["007", "10", "30", "7", "NA"]
    network = read_contacts(write("3 1\n"), node_count=6)
    assert network.node_names is None and network.degrees().tolist() == [0, 1, 0, 1, 0, 0]


def test_columns_and_delimiter(write):
    path = write("x|0|1\ny|1|2\n")
    expected = ContactNetwork.from_edges([0, 1], [1, 2])
    assert read_contacts(path, columns=(None, "source", "target"), delimiter="|") == expected
    for columns, message in [
        (("source", "weight", None), "expected a source and a target"),
        (("source", "target", "wait"), "expected each of source, target"),
    ]:
        with pytest.raises(ModelError, match=message):
            read_contacts(path, columns=columns, delimiter="|")


def test_compressed(tmp_path):
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(gzip.compress(b"0,1\n1,2\n"))
    assert read_contacts(path) == ContactNetwork.from_edges([0, 1], [1, 2])
    path.write_bytes(b"0,1\n1,2\n")
    with pytest.raises(ReadError, match=r"edges\.csv\.gz: cannot be read as text"):
        read_contacts(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# c\n1 2 3 4 5\n", r"line 2: expected 2 or 3 columns, found 5: '1 2 3 4 5'"),
        ("0 1\n\n# c\n1 2 3\n", r"line 4: expected 2 columns, found 3: '1 2 3'"),
        ("0,1,1\n1,2\n", r"line 2: expected 3 columns, found 2: '1,2'"),
        ("0 1\n1\n", r"line 2: expected 2 columns, found 1: '1'"),
        ("0,1\n1,\n", r"line 2: column 2 is empty: '1,'"),
        ("source,target,weight\n0,1,x\n", r"line 2: weight 'x' is not a number"),
        ("0 1 1\n0 2 nan\n", r"line 2: weight nan is not a finite number"),
        ("0 1 1\n# c\n0 2 -1\n", r"line 3: weight -1 is not a finite number that is not negative"),
        ("# only this\n", "there are no edges in it"),
        ("source,target\n", "there are no edges in it"),
        ("", "there are no edges in it"),
    ],
)
def test_text_refused(write, text, message):
    with pytest.raises(ReadError, match=rf"edges\.txt: {message}"):
        read_contacts(write(text))


def test_refused(write, tmp_path):
    with pytest.raises(ReadError, match="there is no such file"):
        read_contacts(tmp_path / "missing.csv")
    with pytest.raises(ReadError, match=r"line 2: node id 9; expected 0 to node_count - 1 = 6"):
        read_contacts(write("1 2\n5 9\n"), node_count=7)
    with pytest.raises(ModelError, match="are not integers"):
        read_contacts(write("a b\n"), node_count=7)
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReadError, match="cannot be read as text"):
        read_contacts(tmp_path / "binary.txt")


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "edges.parquet"
    frame = pd.DataFrame({"a": [5, 6], "b": [6, 8], "w": [0.5, 2.0], "source": ["x", None]})
    frame.to_parquet(path)
    network = read_contacts(path, columns=("a", "b", "w"))
    assert network.node_names.tolist() == [5, 6, 8] and network.weights.tolist()[0] == 0.5
    assert read_contacts(path, columns=("a", "b")).weights is None
    with pytest.raises(ReadError, match=r"no column 'target'; found 'a', 'b', 'w', 'source'"):
        read_contacts(path)
    with pytest.raises(ReadError, match="row 1: column 'source' is empty"):
        read_contacts(path, columns=("source", "a"))
    frame.assign(source="x").to_parquet(path)
    with pytest.raises(ReadError, match=r"column 'source' holds .*; expected numbers"):
        read_contacts(path, columns=("a", "b", "source"))
    with pytest.raises(ModelError, match=r"expected source, target\[, weight\]"):
        read_contacts(path, columns=("a",))
    pd.DataFrame({"source": ["u", "v"], "target": ["v", "w"]}).to_parquet(path)
    assert read_contacts(path).node_names.tolist() == ["u", "v", "w"]
    path.write_text("not parquet")
    with pytest.raises(ReadError, match="not a parquet file"):
        read_contacts(path)


def test_matrix(tmp_path):
    network = ContactNetwork.from_edges([0, 1], [1, 2], 5, weights=[0.5, 2])
    path = tmp_path / "matrix.npz"
    scipy.sparse.save_npz(path, network.to_scipy())
    assert read_contacts(path) == network
    assert read_contacts(path, directed=True).directed
    np.savez(path, a=1)
    with pytest.raises(ReadError, match="expected a matrix of scipy"):
        read_contacts(path)
    path.write_text("no zip")
    with pytest.raises(ReadError, match="expected a matrix of scipy"):
        read_contacts(path)


def test_contact_times(write):
    # a meets b three times (once told twice), b meets c once; 20 s a row.
    path = write("100 a b\n120 b a\n120 a b\n200 b c\n43280 a b\n")
    options = {"columns": TIMED, "aggregate": "weight"}
    network = read_contacts(path, **options)
    assert network.node_names.tolist() == ["a", "b", "c"]
    assert network.weights.tolist() == [60, 60, 20, 20]
    assert read_contacts(path, **options, directed=True).weights.tolist() == [60, 20, 20]
    assert read_contacts(path, **options, resolution=10).weights.tolist() == [30, 30, 10, 10]
    daily = read_contacts(path, **options, normalize="hours_per_day")
    days = (43280 - 100 + 20) / 86400
    assert daily.weights[0] == pytest.approx(60 / 3600 / days)
    for options, message in [
        ({"columns": TIMED}, "pass aggregate='weight'"),
        ({"columns": (None, "source", "target"), "resolution": 2}, "need a time column"),
        ({"columns": TIMED, "aggregate": "weight", "resolution": 0}, "resolution is 0"),
        ({"columns": TIMED, "aggregate": "weight", "normalize": "x"}, "normalize is 'x'"),
    ]:
        with pytest.raises(ModelError, match=message):
            read_contacts(path, **options)
    with pytest.raises(ReadError, match="line 2: time 'soon' is not a number"):
        read_contacts(write("1 a b\nsoon a b\n"), columns=TIMED, aggregate="weight")
    with pytest.raises(ReadError, match="line 2: time inf is not finite"):
        read_contacts(write("1 a b\ninf a b\n"), columns=TIMED, aggregate="weight")
    with pytest.raises(ModelError, match=r"all times in .* are equal; pass resolution="):
        read_contacts(write("1 a b\n1 b c\n"), columns=TIMED, aggregate="weight")
    weighted = write("time,source,target,weight\n0,1,2,0.5\n20,1,2,1\n")
    assert read_contacts(weighted, aggregate="weight").weights.tolist() == [30, 30]


@needs_data
def test_collaboration_network():
    network = read_contacts(DATA / "ca-GrQc.txt")
    # The file's own count of edges, 13,428, has six self-loops in it.
    assert (network.node_count, network.edge_count) == (4158, 13_422)
    assert network.node_names is None and network.weights is None
    assert network.degrees().max() == 81


@needs_data
def test_conference_contacts():
    path = DATA / "ws16_contacts.tsv.gz"
    network = read_contacts(path, columns=TIMED, aggregate="weight")
    assert network.node_count == 138 and network.weights.min() == 20
    assert network.weights.sum(dtype=float) == 2 * 20 * 153_371
    daily = read_contacts(path, columns=TIMED, aggregate="weight", normalize="hours_per_day")
    ratio = daily.weights / network.weights
    assert ratio == pytest.approx(ratio[0]) and daily.weights.max() < 24


def test_three_unnamed_columns_that_look_timed_must_be_named(tmp_path):
    path = tmp_path / "contacts.tsv"
    path.write_text("1400\t1\t2\n1420\t2\t3\n1420\t3\t1\n")
    with pytest.raises(ergode.ReadError, match="say what they are"):
        ergode.read_contacts(path)
    weighted = ergode.read_contacts(path, columns=("source", "target", "weight"))
    assert weighted.weights is not None


def test_numbers_that_nobody_named_are_not_passed_over(write, tmp_path, refusal):
    path = write("source,target,strength\n0,1,0.5\n1,2,2\n")
    assert "the column 'strength' has numbers" in refusal(read_contacts, path)
    assert read_contacts(path, columns=("source", "target", None)).weights is None
    assert read_contacts(path, columns=("source", "target", "weight")).weights is not None
    assert read_contacts(write("source,target,note\n0,1,x\n1,2,y\n")).weights is None
    path = tmp_path / "edges.parquet"
    pd.DataFrame({"source": [0], "target": [1], "strength": [0.5]}).to_parquet(path)
    assert "the column 'strength' has numbers" in refusal(read_contacts, path)
    assert read_contacts(path, columns=("source", "target")).weights is None
