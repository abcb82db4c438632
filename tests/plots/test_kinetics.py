"""What the figures of kinetics show, of datasets small enough to be written down."""

import re

import numpy as np
import pytest
import xarray
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

import ergode
from ergode import plots
from ergode.plots.kinetics import _atom_flows

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


def test_zones_and_times_may_be_selected_before(burnt):
    def lines(dataset, **options):
        ax = plots.abundances(dataset, ax=Figure().subplots(), **options)
        return [line.get_ydata().tolist() for line in ax.lines]

    assert lines(burnt.isel(zone=1)) == lines(burnt, zone=1)
    assert lines(burnt.isel(zone=[1])) == lines(burnt, zone=1)

    def faces(dataset, **options):
        ax = plots.nuclide_chart(dataset, ax=Figure().subplots(), **options)
        return [patch.get_facecolor() for patch in ax.patches]

    assert faces(burnt.isel(zone=1)) == faces(burnt, zone=1)
    assert faces(burnt.isel(zone=1, time=1)) == faces(burnt, zone=1, time=1e-3)
    for draw, dataset, message in (
        (plots.abundances, burnt.isel(zone=0), "no zone 1; it has 1"),
        (plots.abundances, burnt.isel(time=0), "over time, and the dataset has one time"),
        (plots.abundances, burnt.isel(species=0), "mass_fraction has no species"),
        (plots.nuclide_chart, burnt.expand_dims(point=2), "swept over point; select one point"),
    ):
        with pytest.raises(ergode.PlanError, match=message):
            draw(dataset, zone=1, ax=Figure().subplots())


def test_ignition_maps_of_what_was_selected():
    delays = xarray.Dataset(
        {
            "ignition_delay": (
                ("temperature", "pressure", "equivalence_ratio"),
                np.arange(1.0, 13.0).reshape(2, 3, 2),
            )
        },
        coords={
            "temperature": [1e3, 2e3], "pressure": [1.0, 2.0, 3.0], "equivalence_ratio": [0.5, 1.0]
        },
    )  # fmt: skip

    def lines(dataset, **options):
        ax = plots.ignition_map(dataset, ax=Figure().subplots(), **options)
        return [line.get_ydata().tolist() for line in ax.lines]

    assert lines(delays, pressure=2) == lines(delays.isel(pressure=2)) == [[5.0, 11.0], [6.0, 12.0]]
    assert lines(delays.isel(equivalence_ratio=1), pressure=0) == [[2.0, 8.0]]
    assert lines(delays.isel(temperature=0), pressure=0) == [[1.0], [2.0]]


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


def test_atoms_flow_from_reactants_to_products_by_their_shares():
    """CH4 -> CH3 + H, and 2 CH3 -> C2H6 back; what leaves a molecule is what its reactions use."""
    row = (2.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    made = {
        "CH4": {"C": 1, "H": 4},
        "CH3": {"C": 1, "H": 3},
        "H": {"H": 1},
        "C2H6": {"C": 2, "H": 6},
    }
    network = ergode.ReactionNetwork(
        [
            ergode.Species(k, thermochemistry=ergode.NasaPolynomials(row, row, 1e3, atoms))
            for k, atoms in made.items()
        ],
        [
            ergode.Reaction("CH4 -> CH3 + H", rate_constant=1.0),
            ergode.Reaction("2 CH3 -> C2H6", rate_constant=1.0),
            ergode.Reaction("C2H6 -> 2 CH3", rate_constant=1.0),
        ],
    )
    values = np.array([4.0, 1.0, 3.0])
    rates = xarray.Dataset({"rate": (("zone", "reaction"), [values])})

    def arrows(element):
        ax = plots.flux_graph(network, rates, element=element, ax=Figure().subplots())
        where = {text.xy: text.get_text() for text in ax.texts if text.get_text()}
        drawn = [text for text in ax.texts if text.arrow_patch is not None]
        return [(where[one.xyann], where[one.xy]) for one in drawn]

    assert set(arrows("C")) == {("CH4", "CH3"), ("C2H6", "CH3")}
    assert set(arrows("H")) == {("CH4", "CH3"), ("CH4", "H"), ("C2H6", "CH3")}
    flows = _atom_flows(network, values, "H")
    assert flows == pytest.approx({("CH4", "CH3"): 12, ("CH4", "H"): 4, ("C2H6", "CH3"): 12})
    with pytest.raises(
        ergode.PlanError, match="no species has the element 'N'; the network has C, H"
    ):
        plots.flux_graph(network, rates, element="N")


def test_days_have_an_even_axis_of_hours_or_days():
    hours = np.arange(0.0, 73.0)
    dataset = xarray.Dataset(
        {"concentration": (("zone", "time", "species"), np.ones((1, 73, 1)))},
        coords={"time": 3600.0 * hours, "species": ["O3"]},
        attrs={"time_unit": "s"},
    )

    def drawn(**options):
        ax = plots.abundances(dataset, ax=Figure().subplots(), **options)
        return ax.get_xscale(), ax.get_yscale(), ax.get_xlabel(), ax.lines[0].get_xdata()[-1]

    assert drawn() == ("linear", "log", "time [h]", 72.0)
    assert drawn(time_unit="days", yscale="linear") == ("linear", "linear", "time [days]", 3.0)
    assert drawn(xscale="log") == ("log", "log", "time since the start [s]", 72 * 3600.0)


SYMBOLS = re.findall(
    "[A-Z]?[a-z]?(?=[A-Z]|$)", "nHHeLiBeBCNOFNeNaMgAlSiPSClArKCaScTiVCrMnFeCoNiCuZnGaGeAsSeBrKrRbSr"
)[:39]


@pytest.fixture(scope="module")
def many():
    """A band of 365 nuclei; neighbours and alpha captures have fluxes of four decades."""
    rng = np.random.default_rng(1)
    places = [(1, 0), (0, 1), (1, 1), (1, 2), (2, 2)]
    for z in range(3, 39):
        middle = int(z + 0.0035 * z**2)
        places += [(n, z) for n in range(max(1, middle - 2 - z // 8), middle + 4 + z // 8)]
    names = {place: f"{SYMBOLS[place[1]].lower()}{sum(place)}" for place in places[:365]}
    species = [
        ergode.Species(name, mass_number=n + z, charge_number=z, thermochemistry=ergode.Nucleus(0))
        for (n, z), name in names.items()
    ]
    reactions, rates = [], []
    for (n, z), name in names.items():
        for more, taken in (((1, 0), "n1"), ((0, 1), "h1"), ((2, 2), "he4")):
            made = names.get((n + more[0], z + more[1]))
            if z > 2 and made:
                reactions.append(ergode.Reaction(f"{name} + {taken} -> {made}", rate_constant=1.0))
                rates.append(10.0 ** rng.uniform(-4, 0))
    fractions = 10.0 ** rng.uniform(-8, 0, (1, 1, len(species)))
    dataset = xarray.Dataset(
        {"mass_fraction": (("zone", "time", "species"), fractions)},
        coords={
            "time": [1.0], "species": [one.name for one in species],
            "mass_number": ("species", [one.mass_number for one in species]),
            "charge_number": ("species", [one.charge_number for one in species]),
        },
    )  # fmt: skip
    rates = xarray.Dataset({"rate": (("zone", "reaction"), [rates])})
    return ergode.ReactionNetwork(species, reactions), dataset, rates


@pytest.mark.parametrize("own_figure", [False, True])
@pytest.mark.parametrize("kind", ["chart", "fluxes"])
def test_365_nuclei_can_be_read(many, kind, own_figure):
    """Letters are large enough, none lies on another one, and arrows are thinner than nuclei."""
    network, dataset, rates = many
    assert len(network.species) == 365
    ax = None if own_figure else Figure(figsize=(7.2, 4.2), dpi=160).subplots()
    if kind == "chart":
        ax = plots.nuclide_chart(dataset, ax=ax)
    else:
        ax = plots.flux_graph(network, rates, ax=ax)
    ax.figure.draw_without_rendering()
    labels = [text for text in ax.texts if text.get_text()]
    named = {text.get_text() for text in labels}
    assert len(named & set(SYMBOLS)) > 30 and min(text.get_fontsize() for text in labels) >= 4.5
    boxes = [text.get_window_extent() for text in labels]
    inside = ax.get_window_extent()
    for i, box in enumerate(boxes):
        assert inside.x0 <= box.x0 and box.y1 <= inside.y1 + 2
        assert not any(box.overlaps(other) for other in boxes[:i])
    square = ax.transData.transform([[0, 0], [1, 1]]) * 72 / ax.figure.dpi
    width, height = square[1] - square[0]
    assert width == pytest.approx(height)
    arrows = [text.arrow_patch for text in ax.texts if text.arrow_patch is not None]
    assert all(arrow.get_linewidth() < 0.25 * width for arrow in arrows)
    assert all(arrow.get_mutation_scale() < width for arrow in arrows)
    assert (len(arrows) > 300) == (kind == "fluxes")


def test_axes_and_colours_have_units(burnt, many):
    network, dataset, rates = many
    bars = {
        "chart": plots.nuclide_chart(dataset, ax=Figure().subplots()),
        "nuclei": plots.flux_graph(network, rates, ax=Figure().subplots()),
    }
    labels = {name: ax.figure.axes[1].get_ylabel() for name, ax in bars.items()}
    assert labels == {"chart": "mass fraction", "nuclei": "net flux [mol/(g s)]"}
    for ax in bars.values():
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("neutron number", "proton number")
    assert (
        plots.abundances(burnt, ax=Figure().subplots()).get_xlabel() == "time since the start [s]"
    )
    gas = xarray.Dataset(
        {
            "concentration": (("zone", "time", "species"), np.ones((1, 3, 1)),
                              {"units": "amount/volume"}),
            "pressure": (("zone", "time"), np.ones((1, 3))),
        },
        coords={"time": [0.0, 1.0, 2.0], "species": ["H2"]},
    )  # fmt: skip
    ax = plots.abundances(gas, ax=Figure().subplots())
    assert (ax.get_xlabel(), ax.get_ylabel()) == (
        "time since the start [s]", "concentration [mol/cm³]"
    )  # fmt: skip
    tube = plots.abundances(gas.assign_attrs(reactor="plug flow"), ax=Figure().subplots())
    assert tube.get_xlabel() == "distance from the inlet [cm]"


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
