"""Text files of GBEES, read and written."""

import numpy as np
import pytest

import ergode
from ergode.core.errors import ModelError, PlanError, ReadError

# As the program writes them, digits and all.
PDF = """0.400000
1.0000000000e-01 -1.1500000000e+01 -1.0000000000e+01 9.5000000000e+00
3.0000000000e-01 -1.1000000000e+01 -1.0000000000e+01 9.5000000000e+00
6.0000000000e-01 -1.0000000000e+01 -9.7500000000e+00 9.5000000000e+00
"""
ESTIMATE = """x (LU)     y (LU)     vx (LU/TU)
1.02134000 0.00000000 9.76561000e-07

Covariance(x, y, vx)
6.58464706452225E-10 0.000000000000000000 1e-12
0.000000000000000000 6.58464706452225E-10 0.000000000000000000
1e-12 0.000000000000000000 9.65799462671385E-07

T (TU)
0.751047510475105"""


def test_density(tmp_path):
    path = tmp_path / "P0_pdf_4.txt"
    path.write_text(PDF)
    cells = ergode.read_gbees(path, ["x", "y", "z"])
    assert float(cells["time"]) == 0.4
    assert cells["mass"].values.tolist() == pytest.approx([0.1, 0.3, 0.6])
    assert cells.attrs["width"].tolist() == pytest.approx([0.5, 0.25, 1.0])
    assert cells["coordinate"].values.tolist() == [[0, 0, 0], [1, 0, 0], [3, 1, 0]]
    assert float(ergode.density.marginal(cells, "y").sum()) * 0.25 == pytest.approx(1)
    again = tmp_path / "again.txt"
    ergode.write_gbees(cells, again)
    assert ergode.read_gbees(again, ["x", "y", "z"]).equals(cells)


def test_digits_do_not_hide_the_grid(tmp_path):
    """Ten digits of centres a third of a unit apart, far from the origin."""
    path = tmp_path / "pdf.txt"
    k = np.array([-700, 0, 3, 4, 900])
    at = 12.3456 + k / 3.0
    path.write_text("1\n" + "".join(f"0.2 {x:.10e} {x * 1e-5:.10e}\n" for x in at))
    cells = ergode.read_gbees(path)
    assert (cells["coordinate"].values == (k - k[0])[:, None]).all()
    assert np.allclose(cells.attrs["width"], [1 / 3, 1e-5 / 3], rtol=1e-8)


def test_a_density_that_was_read_is_a_prior(tmp_path):
    field = ergode.fields.rotation()
    prior = ergode.Gaussian([1.0, 0.0], [0.04, 0.09])
    common = {"parameters": {"rate": 1.0}, "width": 0.1, "device": "cpu:1"}
    first = ergode.density.propagate(field, prior, times=[0, 0.5], **common)
    path = tmp_path / "pdf.txt"
    ergode.write_gbees(ergode.density.cells_at(first, 0.0), path)
    cells = ergode.read_gbees(path, field.variables)
    told = ergode.Samples(cells["point"].values, cells["mass"].values)
    second = ergode.density.propagate(field, told, times=[0, 0.5], **common)
    assert np.allclose(first["mean"], second["mean"], atol=0.01)
    assert np.allclose(first["covariance"], second["covariance"], atol=0.01)


def test_estimate(tmp_path):
    path = tmp_path / "measurement0.txt"
    path.write_text(ESTIMATE)
    found = ergode.read_gbees_estimate(path)
    assert found.names == ("x", "y", "vx")
    assert found.mean.tolist() == [1.02134, 0, 9.76561e-07]
    assert found.covariance[0, 2] == 1e-12 and found.covariance[2, 2] == 9.65799462671385e-07
    assert found.duration == 0.751047510475105
    assert np.array_equal(found.prior.covariance, found.covariance)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 has 0 numbers"),
        ("0.5\n", "no cell"),
        ("0.5\n0.1 1 2\n0.2 1\n", "line 3 has 2 numbers; expected 3"),
        ("0.5\n0.1 1 two\n", "line 2 is '0.1 1 two'"),
        ("0.5\n0.1 1 2\n-0.2 2 2\n", "line 3: the probability is -0.2"),
        ("0.5\n0.1 0 2\n0.2 1 2\n0.2 2.4 2\n", "line [345]: the cell is not on the grid"),
    ],
)
def test_bad_densities(tmp_path, text, message):
    path = tmp_path / "pdf.txt"
    path.write_text(text)
    with pytest.raises(ReadError, match=message):
        ergode.read_gbees(path)


def test_bad_files(tmp_path):
    with pytest.raises(ReadError, match="no such file"):
        ergode.read_gbees(tmp_path / "none.txt")
    path = tmp_path / "measurement0.txt"
    path.write_text("\n".join(ESTIMATE.splitlines()[:6]))
    with pytest.raises(ReadError, match="6 lines; expected 10 for 3 components"):
        ergode.read_gbees_estimate(path)
    path.write_text(PDF)
    with pytest.raises(ModelError, match="names 2"):
        ergode.read_gbees(path, ["x", "y"])
    with pytest.raises(PlanError, match="folder"):
        ergode.write_gbees(ergode.read_gbees(path), tmp_path / "none" / "pdf.txt")
    with pytest.raises(PlanError, match="cells of one time"):
        ergode.write_gbees(ergode.read_gbees(path).drop_vars("point"), path)


def test_nothing_comes_after_the_duration(tmp_path, refusal):
    path = tmp_path / "measurement0.txt"
    path.write_text(ESTIMATE + "\n0.5\n")
    assert "comes after the duration" in refusal(ergode.read_gbees_estimate, path)
