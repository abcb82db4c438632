"""What the figures of kinetics show, of datasets small enough to be written down."""

import numpy as np
import pytest
import xarray
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

import ergode
from ergode import plots

NUCLEI = ["4He", "12C", "16O"]


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture
def burnt():
    """Two zones, three times, three nuclei."""
    fraction = np.array([[[1.0, 0, 0], [0.6, 0.4, 0], [0.2, 0.5, 0.3]]] * 2)
    fraction[1, 2] = [0.0, 0.1, 0.9]
    return xarray.Dataset(
        {"mass_fraction": (("zone", "time", "species"), fraction)},
        coords={
            "time": [0.0, 1e-3, 1e-2], "species": NUCLEI,
            "mass_number": ("species", [4, 12, 16]), "charge_number": ("species", [2, 6, 8]),
        },
    )  # fmt: skip


def test_abundances_are_drawn_from_the_first_step_on(burnt, ax):
    plots.abundances(burnt, zone=1, ax=ax)
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines) == ["$^{12}$C", "$^{16}$O", "$^{4}$He"]  # the most abundant is on top
    np.testing.assert_array_equal(lines["$^{16}$O"].get_xdata(), [1e-3, 1e-2])
    np.testing.assert_array_equal(lines["$^{16}$O"].get_ydata(), [0.0, 0.9])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_ylabel() == "mass fraction"
    only = plots.abundances(burnt, species=["12C"], ax=Figure().subplots())
    assert len(only.lines) == 1


def test_chart_of_nuclides_has_a_square_for_each(burnt, ax):
    plots.nuclide_chart(burnt, time=float(burnt["time"][-1]), ax=ax)
    corners = [patch.get_xy() for patch in ax.patches]
    assert corners == [(1.5, 1.5), (5.5, 5.5), (7.5, 7.5)]  # neutrons and protons less one half
    norm = LogNorm(1e-12, 1.0)
    faces = np.array([patch.get_facecolor() for patch in ax.patches])
    from matplotlib import colormaps

    np.testing.assert_allclose(faces, colormaps["viridis"](norm([0.2, 0.5, 0.3])))


def test_flow_graph_draws_what_is_left_of_forward_and_backward(ax):
    network = ergode.ReactionNetwork(
        {"A": 1, "B": 0, "C": 0},
        [
            ergode.Reaction("A -> B", rate_constant=1.0),
            ergode.Reaction("B -> A", rate_constant=1.0),
            ergode.Reaction("B -> C", rate_constant=1.0),
            ergode.Reaction("A -> C", rate_constant=1.0),
        ],
    )
    rates = xarray.Dataset({"rate": (("zone", "reaction"), [[5.0, 7.0, 1.0, 1e-9]])})
    plots.flux_graph(network, rates, ax=ax)
    arrows = [text for text in ax.texts if text.arrow_patch is not None]
    names = {text.get_text(): text.xy for text in ax.texts if text.get_text()}
    assert set(names) == {"A", "B", "C"}
    ends = [(arrow.xyann, arrow.xy) for arrow in arrows]
    # The strongest is drawn last; what is a billionth of it is not drawn.
    assert ends == [(names["B"], names["C"]), (names["B"], names["A"])]


def test_ignition_map_has_a_line_for_each_mixture(ax):
    delay = np.array([[[1e-3, 2e-3]], [[1e-4, 2e-4]]])
    delays = xarray.Dataset(
        {"ignition_delay": (("temperature", "pressure", "equivalence_ratio"), delay)},
        coords={"temperature": [1000.0, 1250.0], "equivalence_ratio": [0.5, 1.0]},
    )
    plots.ignition_map(delays, ax=ax)
    assert [line.get_label() for line in ax.lines] == ["0.5", "1"]
    np.testing.assert_allclose(ax.lines[1].get_xdata(), [1.0, 0.8])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [2e-3, 2e-4])
    assert ax.get_yscale() == "log"
    with pytest.raises(ergode.PlanError, match="no pressure 1; it has 1"):
        plots.ignition_map(delays, pressure=1)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda burnt: plots.abundances(burnt, zone=2), "no zone 2; it has 2"),
        (lambda burnt: plots.abundances(burnt, species=["56Ni"]), "no species '56Ni'"),
        (lambda burnt: plots.abundances(burnt.drop_vars("mass_fraction")), "no mass_fraction"),
        (lambda burnt: plots.nuclide_chart(burnt.drop_vars("charge_number")), "chart is one of"),
        (lambda burnt: plots.nuclide_chart(burnt, time=-1), "no time -1; the nearest is 0"),
        (lambda burnt: plots.ignition_map(burnt), "no ignition_delay"),
        (lambda burnt: plots.flux_graph(ergode.ReactionNetwork({"A": 1}, []), burnt), "no rate of"),
    ],
)
def test_bad_input_is_an_error(burnt, draw, message):
    with pytest.raises(ergode.PlanError, match=message):
        draw(burnt)
