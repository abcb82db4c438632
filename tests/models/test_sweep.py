"""Values for many runs: side by side, crossed, and what cannot be."""

import numpy as np
import pytest

import ergode
from ergode.core.errors import ModelError
from ergode.models.sweep import POINT, lay_out, replicated

EXPECTED = {"parameters": ("a", "b", "c")}


def laid_out(values, *, beside=(), **options):
    return lay_out(EXPECTED, {"parameters": values}, beside, reserved=(), **options)


def test_numbers_are_one_run():
    layout = laid_out({"a": 1, "b": np.float32(2), "c": np.array(3.0)})
    assert (layout.dims, layout.shape, layout.count) == ((), (), 1)
    assert {name: row.tolist() for name, row in layout.rows.items()} == {
        "a": [1.0], "b": [2.0], "c": [3.0]
    }  # fmt: skip


def test_arrays_run_side_by_side():
    layout = laid_out({"a": [1, 2, 3], "b": 5, "c": [7, 8, 9]}, along=POINT)
    assert (layout.dims, layout.shape) == (("point",), (3,))
    assert layout.rows["b"].tolist() == [5, 5, 5]
    assert layout.coords["c"][0] == "point"
    assert layout.beside.tolist() == [0, 0, 0] or layout.dims == ("point",)


def test_a_grid_is_crossed_in_the_order_given():
    layout = laid_out(ergode.grid(b=[1, 2], a=[3, 4, 5], c=0))
    assert (layout.dims, layout.shape, layout.count) == (("b", "a"), (2, 3), 6)
    found = {(b, a) for b, a in zip(layout.rows["b"], layout.rows["a"], strict=True)}
    assert found == {(b, a) for b in (1, 2) for a in (3, 4, 5)}
    assert layout.rows["b"].reshape(2, 3)[:, 0].tolist() == [1, 2]


def test_side_by_side_with_something_else():
    layout = laid_out({"a": [1, 2], "b": 0, "c": 0}, beside=[("prior", 2)])
    assert layout.beside.tolist() == [0, 1]
    with pytest.raises(ModelError, match="'a' has 2 values and 'prior' has 3"):
        laid_out({"a": [1, 2], "b": 0, "c": 0}, beside=[("prior", 3)])


def test_replicates_are_the_first_dimension():
    layout = replicated(laid_out({"a": [1, 2], "b": 0, "c": 0}), range(4, 7))
    assert (layout.dims, layout.shape) == (("replicate", "trajectory"), (3, 2))
    assert layout.rows["a"].tolist() == [1, 2, 1, 2, 1, 2]
    assert layout.coords["replicate"][1].tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"a": 1, "b": 2}, "no value for 'c'"),
        ({"a": 1, "b": 2, "c": 3, "ab": 4}, "has 'ab', which the network does not"),
        ({"a": 1, "b": [1, 2], "c": [1, 2, 3]}, "'c' has 3 values and 'b' has 2"),
        ({"a": 1, "b": [], "c": 3}, "shape"), ({"a": 1, "b": [[1]], "c": 3}, "shape"),
        ({"a": 1, "b": "x", "c": 3}, "expected a number"),
        ({"a": 1, "b": True, "c": 3}, "'b' is True; expected a number"),
        ({"a": 1, "b": [1, np.nan], "c": 3}, r"'b'\[1\] is nan"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(values, message):
    with pytest.raises(ModelError, match=message):
        laid_out(values, owner="the network")
