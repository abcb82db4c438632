"""Regions, files and figures of a Gaussian in three variables, which is known."""

import numpy as np
import pytest
from density_cases import on_plane
from scipy.stats import chi2, norm

import ergode
from ergode.core.errors import PlanError
from ergode.density import views

DEVIATION = np.array([0.5, 1.0, 0.25])
MEAN = np.array([1.0, -2.0, 0.5])
WIDTH = DEVIATION / 5


@pytest.fixture(scope="module")
def ball():
    field = ergode.fields.lorenz63(centred=True)
    return ergode.density.propagate(
        field, ergode.Gaussian(MEAN, DEVIATION**2), times=[0.0], width=WIDTH, threshold=1e-9,
        parameters={"sigma": 4, "b": 1, "r": 48}, device="cpu:1",
    )  # fmt: skip


def test_quantiles(ball):
    wanted = np.array([0.025, 0.1, 0.5, 0.9])
    found = ergode.density.quantiles(ball, wanted)
    assert found.dims == ("time", "variable", "probability")
    exact = MEAN[:, None] + DEVIATION[:, None] * norm.ppf(wanted)
    assert np.allclose(found[0], exact, atol=0.03 * DEVIATION[:, None])
    with pytest.raises(PlanError, match="between 0 and 1"):
        ergode.density.quantiles(ball, [0.5, 1.0])


def test_probability_of_a_region_is_of_second_order_by_its_level():
    """Half-planes and a disc of a Gaussian, wherever their edges lie between cells."""
    edges = np.linspace(0.3, 0.9, 7)
    exact = {"plane": norm.sf(edges), "disc": 1 - np.exp(-0.5 * (2 * edges) ** 2)}
    tilt = np.array([0.6, 0.8])
    errors = {"plane": [], "disc": [], "boolean": []}

    def found(cells, how, make):
        return [views.region_probability(cells, **{how: make(edge)}) for edge in edges]

    for width in (0.5, 0.25, 0.125):
        cells = views.cells_at(
            on_plane(
                [[0, -1], [1, 0]], [0, 0], ergode.Gaussian([0, 0], [1, 1]), [0],
                width=width, threshold=1e-12,
            )
        )  # fmt: skip
        plane = found(cells, "level", lambda e: lambda x: x @ tilt - e)
        disc = found(cells, "level", lambda e: lambda x: (2 * e) ** 2 - (x**2).sum(1))
        boolean = found(cells, "contains", lambda e: lambda x: x @ tilt > e)
        errors["plane"].append(np.abs(plane - exact["plane"]).max())
        errors["disc"].append(np.abs(disc - exact["disc"]).max())
        errors["boolean"].append(np.abs(boolean - exact["plane"]).max())
    for name in ("plane", "disc"):
        assert errors[name][0] / errors[name][2] > 10  # 16 of second order
        assert errors[name][2] < 2e-3
    assert errors["boolean"][2] > 3 * errors["plane"][2]


@pytest.mark.parametrize("side", [1, -1])  # the region, or what it leaves out
def test_a_region_thinner_than_a_cell_is_told(ball, side):
    cells = views.cells_at(ball)
    width = float(cells.attrs["width"][0])

    def strip(half, middle):
        return lambda x: side * (half**2 - (x[:, 0] - middle) ** 2)

    for middle in MEAN[0] + np.linspace(-0.5, 0.5, 11) * width:
        with pytest.warns(ergode.AccuracyWarning, match="is thinner than the cells that hold"):
            ergode.density.region_probability(cells, level=strip(0.2 * width, middle))
        ergode.density.region_probability(cells, level=strip(1.1 * width, middle))


def test_a_region_is_one_function(ball):
    cells = views.cells_at(ball)
    for given, message in (
        ({}, "either contains or level"),
        ({"contains": lambda x: x[:, 0], "level": lambda x: x[:, 0]}, "either contains or level"),
        ({"contains": lambda x: x[:, 1]}, "positive inside is level="),
        ({"level": lambda x: x}, "level returned shape"),
    ):
        with pytest.raises(PlanError, match=message):
            ergode.density.region_probability(cells, **given)


def test_credible_region(ball):
    cells = views.cells_at(ball)
    for probability in (0.5, 0.95):
        region = ergode.density.credible_region(cells, probability)
        assert float(region["mass"].sum()) == pytest.approx(probability, abs=0.005)
        radius = np.sqrt(chi2.ppf(probability, 3))
        volume = 4 / 3 * np.pi * (radius * DEVIATION).prod()
        assert region.attrs["volume"] == pytest.approx(volume, rel=0.03)
        level = np.exp(-0.5 * radius**2) / ((2 * np.pi) ** 1.5 * DEVIATION.prod())
        assert region.attrs["level"] == pytest.approx(level, rel=0.05)


def test_surface_is_the_ellipsoid(ball):
    pytest.importorskip("skimage")
    names = ["z", "x", "y"]
    vertices, faces = ergode.density.surface(views.cells_at(ball), names, 0.9)
    order = [2, 0, 1]
    radius = np.sqrt((((vertices - MEAN[order]) / DEVIATION[order]) ** 2).sum(1))
    assert np.allclose(radius, np.sqrt(chi2.ppf(0.9, 3)), atol=0.03)
    # Closed: every edge belongs to two triangles.
    edges = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()
    with pytest.raises(PlanError, match="three names"):
        ergode.density.surface(views.cells_at(ball), ["x", "y"], 0.9)


def test_table_of_cells(ball, tmp_path):
    pandas = pytest.importorskip("pandas")
    path = ergode.density.write_cells(ball, tmp_path / "cells.parquet")
    table = pandas.read_parquet(path)
    assert list(table.columns) == ["time", "mass", "x", "y", "z"]
    cells = views.cells_at(ball)
    assert np.array_equal(table["mass"], cells["mass"])
    assert np.array_equal(table[["x", "y", "z"]], cells["point"])


def test_voxels(ball, tmp_path):
    meshio = pytest.importorskip("meshio")
    path = ergode.density.write_cells(ball, tmp_path / "cells.vtu", variables=["x", "y", "z"])
    mesh = meshio.read(path)
    (block,) = mesh.cells
    corners = mesh.points[block.data]
    assert block.type == "hexahedron" and len(corners) == int(ball["cell_count"][0])
    assert np.allclose(np.ptp(corners, axis=1), WIDTH)
    held = mesh.cell_data["density"][0] * WIDTH.prod()
    assert held.sum() == pytest.approx(1)
    assert np.allclose(held @ corners.mean(1), MEAN, atol=1e-3)
    # Corners of neighbours are shared.
    assert len(mesh.points) < 2 * len(corners)


def test_files_that_cannot_be(ball, tmp_path):
    with pytest.raises(PlanError, match=r"\.parquet or \.vtu"):
        ergode.density.write_cells(ball, tmp_path / "cells.csv")
    with pytest.raises(PlanError, match="folder"):
        ergode.density.write_cells(ball, tmp_path / "none" / "cells.vtu")
    pytest.importorskip("meshio")
    with pytest.raises(PlanError, match="three variables"):
        ergode.density.write_cells(ball, tmp_path / "cells.vtu", variables=["x"])


def test_marginals_of_a_turned_grid_have_the_widths_of_their_variables():
    """Axes come by the size of their deviations: the first is that of the thin variable."""
    prior = ergode.Gaussian([0.0, 0.0], [1.0, 1e-6])
    start = on_plane(  # with noise, and so with the kernel of the test of units
        [[0, -1], [1, 0]], (0, 0), prior, [0], axes="principal", process_noise=[1e-6, 1e-6]
    )
    assert start["width"].values.tolist() == pytest.approx([5e-4, 0.5])
    curve = views.marginal(views.cells_at(start), "x")
    assert (curve > 0).all() and curve.sizes["x"] < 40
    assert float((curve * curve["x"] ** 2).sum() * 0.5) == pytest.approx(1.0, rel=1e-3)
