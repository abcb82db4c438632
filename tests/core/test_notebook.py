"""What a notebook shows of models, networks and devices."""

from html.parser import HTMLParser

import numpy as np
import pytest
import xarray

import ergode
from ergode.core.results.accessor import TAKE_RESULTS


class Cells(HTMLParser):
    """The texts of an HTML fragment, whose elements must be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def shown(thing):
    return Cells(thing._repr_html_()).texts


def test_of_a_compartment_model(model):
    texts = shown(model)
    assert texts[0] == "CompartmentModel"
    assert "S, E, I, R" in texts
    assert "infection at rate 0.25 by I" in texts
    assert sum(text.startswith("after LogNormal(") for text in texts) == 2


def test_branches_have_their_probability():
    model = ergode.CompartmentModel(
        ["S", "I", "R", "D"],
        [ergode.Infection("S", "I", {"I": 0.1})],
        [ergode.Progression("I", {"R": 0.9, "D": 0.1}, ergode.Exponential(mean=5))],
    )
    texts = shown(model)
    assert "after Exponential(rate=0.2), with probability 0.9" in texts
    assert "after Exponential(rate=0.2), with probability 0.1" in texts


@pytest.mark.parametrize(
    ("source", "target", "weights", "expected"),
    [
        ([0, 1], [1, 2], [0.5, 2.0], {"3", "2 undirected", "0.5 to 2"}),
        ([], [], None, {"3", "0 undirected"}),
    ],
)
def test_of_a_contact_network(source, target, weights, expected):
    network = ergode.ContactNetwork.from_edges(source, target, weights=weights, node_count=3)
    assert expected <= set(shown(network))


def test_of_timed_contacts():
    contacts = ergode.TemporalContacts.from_meetings([0, 1], [1, 2], [0.0, 3.0], [1.0, 4.5])
    texts = shown(contacts)
    assert texts[0] == "TemporalContacts"
    assert {"meetings", "2", "4.5"} <= set(texts)


def test_names_of_a_network_are_text_and_not_markup():
    network = ergode.ReactionNetwork(
        {"A": 5, "B": 0},
        [ergode.Reaction("A -> B", rate_constant="k", name="<script>alert(1)</script>")],
        parameters={"k": 0.5},
    )
    assert "<script>" not in network._repr_html_()
    assert {"<script>alert(1)</script>", "A -> B", "rate_constant", "k"} <= set(shown(network))


def test_of_many_reactions_the_first_are_shown():
    network = ergode.ReactionNetwork(
        {"A": 1}, [ergode.Reaction("A -> 0", rate_constant=1.0, name=f"r{k}") for k in range(50)]
    )
    texts = shown(network)
    assert "r19" in texts
    assert "r20" not in texts
    assert "... and 30 more" in texts


def test_of_a_field():
    texts = shown(ergode.fields.lorenz63())
    assert {"x, y, z", "sigma, rho, beta"} <= set(texts)
    assert "noise" not in texts
    said = repr(ergode.fields.lorenz63())
    assert said == "<VectorField lorenz63: variables x, y, z; parameters sigma, rho, beta>"
    ring = ergode.field_from_equations({"x": "-x(t - tau)"}, diffusion={"x": 0.1})
    assert repr(ring).endswith("variables x; parameters tau; delays x by tau; noise yes>")


def test_of_a_device():
    texts = shown(ergode.Device("cpu"))
    assert texts[0] == "Device cpu"
    assert "asked for" in texts


def test_of_a_result():
    """A card: what was run, how it ended, a picture of each compartment, and what takes it."""
    values = np.arange(24.0).reshape(4, 3, 2)
    values[0, 2] = np.nan
    result = xarray.Dataset(
        {"count": (("replicate", "time", "compartment"), values),
         "status": ("replicate", [0, 0, 0, int(ergode.Status.NOT_FINITE)])},
        {"time": [0.0, 1.0, 2.0], "compartment": ["S", "<script>"]},
        {"engine": "epidemics", "method": "sellke", "time_unit": "days", "wall_seconds": 1.5},
    )  # fmt: skip
    page = result.ergode._repr_html_()
    assert page.count("<svg") == 2 and "<script>" not in page and "currentColor" in page
    texts = shown(result.ergode)
    for text in ("Result of epidemics", "sellke", "days", "1.5 s", "1 of 4 failed"):
        assert text in texts
    assert "ergode.compare(result, others)" in repr(result.ergode)
    draws = xarray.Dataset({"k": (("chain", "draw"), values[:, :, 0])}, attrs={"engine": "x"})
    assert draws.ergode._repr_html_().count("<svg") == 1
    assert "<svg" not in xarray.Dataset({"x": 1.0}).ergode._repr_html_()


def test_calls_that_take_a_result_exist():
    for call, *_ in TAKE_RESULTS:
        room, name = call.split(".")
        assert name in getattr(ergode, room).__all__
