"""Regions, corner plots and surfaces of densities: a Gaussian in four variables, and its motion."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

import ergode
from ergode.core.errors import PlanError

MEAN, DEVIATION = np.array([1.0, -2.0, 0.5, 3.0]), np.array([0.5, 1.0, 0.25, 0.1])
NAMES = ("x", "y", "vx", "vy")


def drift(t, y, p):
    return y[2], y[3], 0.0 * y[0], 0.0 * y[1]


FIELD = ergode.VectorField(drift, NAMES)
PRIOR = ergode.Gaussian(MEAN, DEVIATION**2)


@pytest.fixture(scope="module")
def moving():
    return ergode.density.propagate(
        FIELD, PRIOR, times=[0.0, 1.0, 2.0], scheme="flow", device="cpu:1"
    )


def moments(time, names):
    """Exact mean and covariance of some variables."""
    flow = np.eye(4)
    flow[0, 2] = flow[1, 3] = time
    columns = [NAMES.index(name) for name in names]
    covariance = flow @ np.diag(DEVIATION**2) @ flow.T
    return (flow @ MEAN)[columns], covariance[np.ix_(columns, columns)]


def share(places, time, names):
    """Probability of the exact Gaussian within an outline of equal density."""
    mean, covariance = moments(time, names)
    away = places - mean
    square = np.einsum("ki,ij,kj->k", away, np.linalg.inv(covariance), away)
    return chi2.cdf(np.mean(square), len(names))


@pytest.fixture(scope="module")
def particles():
    """Of the last time: they need not be moved."""
    return ergode.particles.propagate(
        FIELD, ergode.Gaussian(*moments(2.0, NAMES)), times=[2.0], count=4_000, keep="all",
        device="cpu:1", seed=1,
    )  # fmt: skip


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("time", [0.0, 2.0])
def test_regions_hold_their_probability(moving, time):
    wanted = (0.95, 0.683)
    ax = ergode.plots.density(moving, time, variables=("x", "vx"), probabilities=wanted)
    lines = ax.collections[-1]
    outlines = [path.vertices for path in lines.get_paths()]
    assert [share(one, time, ("x", "vx")) for one in outlines] == pytest.approx(wanted, abs=0.01)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_legend()) == ("x", "vx", None)


def test_times_have_a_legend_and_colours_of_their_own(moving):
    ax = ergode.plots.density(moving, [0, 1, 2], units={"x": "km", "time": "s"})
    assert texts(ax.get_legend()) == ["0", "1", "2"]
    assert ax.get_legend().get_title().get_text() == "time [s]"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x [km]", "y")
    assert len({tuple(one.get_edgecolor()[0]) for one in ax.collections[3::4]}) == 3
    curve = ergode.plots.density(moving, [0, 2], variables="x")
    assert curve.get_ylabel() == "density"
    assert len(curve.lines) == 2


def test_a_corner_plot_has_all_pairs_and_curves_once(moving):
    figure = ergode.plots.density_marginals(moving, [0, 2], units={"x": "km"})
    shown = [ax for ax in figure.axes if ax.axison]
    assert len(shown) == 10  # four curves and six pairs
    assert [ax.get_xlabel() for ax in figure.axes[12:]] == ["x [km]", "y", "vx", "vy"]
    assert [ax.get_ylabel() for ax in figure.axes[::4]] == ["", "y", "vx", "vy"]
    assert texts(figure.legends[0]) == ["0", "2"]
    for row in range(4):  # curves of several times are scaled
        assert [max(line.get_ydata()) for line in figure.axes[5 * row].lines] == [1.0, 1.0]
    figure.draw_without_rendering()
    for ax in figure.axes[12:]:
        boxes = [tick.label1.get_window_extent() for tick in ax.xaxis.get_major_ticks()]
        inside = [box for box in boxes if box.width > 0]
        assert len(inside) >= 2
        assert all(a.x1 < b.x0 for a, b in zip(inside, inside[1:], strict=False))


def test_several_results_in_one_corner_plot(moving, particles):
    drawn = particles["particle"].values[-1]
    figure = ergode.plots.density_marginals(
        {"flow": moving, "particles": particles, "samples": drawn}, variables=["x", "vx"]
    )
    assert texts(figure.legends[0]) == ["flow", "particles", "samples"]
    for place, name in ((0, "x"), (3, "vx")):
        mean, covariance = moments(2.0, [name])
        height = 1 / math.sqrt(2 * math.pi * covariance[0, 0])
        peaks = [max(line.get_ydata()) for line in figure.axes[place].lines]
        assert peaks == pytest.approx([height] * 3, rel=0.08)


def test_surfaces_of_times_over_the_path_of_the_mean(moving):
    pytest.importorskip("skimage")
    wanted = (0.95, 0.683)
    ax = ergode.plots.density_surface(
        moving, [0, 2], variables=["x", "y", "vx"], probabilities=wanted, units={"x": "km"}
    )
    (drawn,) = ax.artists
    assert len(drawn.shells) == 4  # two regions at two times
    for shell, (time, probability) in zip(
        drawn.shells, [(t, p) for t in (0, 2) for p in wanted], strict=True
    ):
        found = share(shell.vertices, time, ("x", "y", "vx"))
        assert found == pytest.approx(probability, abs=0.01)
        # Closed: every edge belongs to two triangles.
        edges = np.sort(shell.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()
    assert drawn.shells[0].opacity < drawn.shells[1].opacity  # the inner one is denser
    assert texts(ax.get_legend()) == ["0", "2"]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_zlabel()) == ("x [km]", "y", "vx")
    (path,) = ax.lines
    x, y, _ = path.get_data_3d()
    assert np.allclose(x, [1, 1.5, 2], atol=1e-6)
    assert np.allclose(y, [-2, 1, 4], atol=1e-6)


def test_the_picture_of_a_surface_has_its_colour_where_it_is(moving):
    pytest.importorskip("skimage")
    ax = ergode.plots.density_surface(moving, 0, path=[], color="#0072B2")
    ax.set_axis_off()
    canvas = ax.figure.canvas
    canvas.draw()
    picture = np.asarray(canvas.buffer_rgba())[..., :3].astype(int)
    rows, columns = np.nonzero(picture.sum(axis=2) < 720)
    middle = picture[int(rows.mean()), int(columns.mean())]
    assert middle[2] > middle[1] > middle[0]  # blue
    assert len(rows) > 0.05 * picture[..., 0].size
    assert not ax.lines


def test_a_given_path_and_given_axes(moving):
    pytest.importorskip("skimage")
    from matplotlib.figure import Figure

    ax = Figure().add_subplot(projection="3d")
    states = np.zeros((2, 5, 4))
    assert ergode.plots.density_surface(moving, path=states, ax=ax) is ax
    ergode.plots.density_surface(moving, 0, path=[], ax=ax)
    assert len(ax.lines) == len(ax.artists) == 2
    with pytest.raises(PlanError, match=r"path has shape \(5, 3\); expected \[time_count, 4\]"):
        ergode.plots.density_surface(moving, path=states[0, :, :3], ax=ax)


def test_a_measurement_breaks_the_path_of_the_mean():
    pytest.importorskip("skimage")
    found = ergode.density.propagate(
        ergode.fields.lorenz63(centred=True), ergode.Gaussian([1, 1, 2], [1, 1, 1]),
        times=[0, 0.1, 0.2], parameters={"sigma": 4, "b": 1, "r": 48}, device="cpu:1",
        measurements=[ergode.Measurement(0.1, lambda y, t, p: (y[2],), 3.0, 0.1)],
    )  # fmt: skip
    ax = ergode.plots.density_surface(found, [0, 0.2])
    assert [line.get_linestyle() for line in ax.lines] == ["-", "-", ":"]
    _, _, z = ax.lines[2].get_data_3d()
    assert z.tolist() == [found["prior_mean"].values[0, 2], found["mean"].values[1, 2]]


def test_a_periodic_variable_is_drawn_around_its_mean():
    def rotor(t, y, p):
        return (p[0] + 0.0 * y[0],)

    found = ergode.density.propagate(
        ergode.VectorField(rotor, ["angle"], ["speed"]), ergode.Gaussian([3.0], [0.23]),
        times=[0], parameters={"speed": 1.0}, periodic={"angle": 2 * math.pi}, width=0.1,
        device="cpu:1",
    )  # fmt: skip
    (line,) = ergode.plots.density(found).lines
    places, heights = line.get_data()
    assert places[np.argmax(heights)] == pytest.approx(3.0, abs=0.05)
    assert max(heights[0], heights[-1]) < 1e-3 * max(heights)  # not cut at half a period


def test_a_variable_that_hardly_varies_is_drawn():
    found = ergode.density.propagate(
        FIELD, ergode.Gaussian(MEAN, [0.25, 1.0, 1e-14, 1e-14]), times=[0], device="cpu:1"
    )
    figure = ergode.plots.density_marginals(found, 0, variables=["x", "vx"])
    assert figure.axes[2].get_ylabel() == "vx − 0.5 [$10^{-7}$]"
    figure.draw_without_rendering()


def test_what_cannot_be_drawn_is_told(moving, particles):
    corner, surface = ergode.plots.density_marginals, ergode.plots.density_surface
    bank = moving.expand_dims(trajectory=2)
    for draw, given, message in (
        (corner, (moving, [0, 0.7]), "no time 0.7"),
        (corner, (moving, []), "time is empty"),
        (corner, ({"a": moving}, [0, 1]), "several of one only"),
        (corner, ({}, 0), "no results"),
        (corner, ({"a": moving, "b": np.zeros((9, 3))},), r"expected \[point_count, 4\]"),
        (corner, (particles, 1.0), "were not kept"),
        (corner, (3.0,), "expected a dataset"),
        (surface, (bank, 0), r"choose one, as by isel\(trajectory=0\)"),
    ):
        with pytest.raises(PlanError, match=message):
            draw(*given)
    for options, message in (
        ({"variables": []}, "variables is empty; expected some of x, y"),
        ({"units": "km"}, "units is 'km'; expected a mapping"),
        ({"units": {"q": "km"}}, "no unit 'q'"),
        ({"time": [[0.0, 1.0]]}, "expected a number or a list of numbers"),
    ):
        with pytest.raises(PlanError, match=message):
            corner(moving, **options)
    with pytest.raises(PlanError, match="no variable 'z'; it has x, y, vx, vy"):
        corner(moving, variables=["x", "z"])
    with pytest.raises(PlanError, match="three names"):
        surface(moving, variables=["x", "y"])
    with pytest.raises(PlanError, match="between 0 and 1"):
        corner(moving, probabilities=[0.5, 1.0])
    with pytest.raises(PlanError, match="color has 2 entries, and 3 densities"):
        corner(moving, [0, 1, 2], color=["red", "blue"])


def test_what_is_left_of_a_density_that_has_gone():
    def onward(t, y, p):
        return (1.0 + 0.0 * y[0],)

    found = ergode.density.propagate(
        ergode.VectorField(onward, ["x"], list("abcd")), ergode.Gaussian([0.0], [0.1]),
        times=[0, 8], parameters=dict.fromkeys("abcd", 1.0), device="cpu:1", width=0.05,
        region=lambda y, t, p: (2.0 - y[0],), boundary="absorbing",
    )  # fmt: skip
    with pytest.raises(PlanError, match="nothing of the density is left at time 8"):
        ergode.plots.density(found, [0, 8])


def test_more_than_eight_variables_are_chosen_from():
    names = [f"x{k}" for k in range(9)]
    samples = np.random.default_rng(1).normal(size=(500, 9))
    import xarray

    found = xarray.Dataset(
        {"particle": (("kept", "number", "variable"), samples[None]),
         "weight": (("kept", "number"), np.full((1, 500), 0.002))},
        coords={"variable": names, "kept": [0.0]},
    )  # fmt: skip
    figure = ergode.plots.density_marginals(found)
    assert sum(ax.axison for ax in figure.axes) == 36
    with pytest.raises(PlanError, match="9 variables are too many"):
        ergode.plots.density_marginals(found, variables=names)
