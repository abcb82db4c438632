"""Labels of time: the unit of the model, or of the call; and movies of states."""

import imageio_ffmpeg
import numpy as np
import pytest
import xarray
from PIL import Image

import ergode
from ergode import ModelError, PlanError, plots

TIME = {"time": [0.0, 1.0, 2.0]}


def counts(**attrs):
    values = np.arange(30).reshape(5, 3, 2)
    return xarray.Dataset(
        {"count": (("replicate", "time", "compartment"), values)},
        {**TIME, "compartment": ["S", "I"]}, attrs,
    )  # fmt: skip


def amounts(**attrs):
    return xarray.Dataset(
        {
            "amount": (("replicate", "time", "species"), np.ones((2, 3, 1))),
            "status": ("replicate", np.zeros(2, int)),
            "concentration": (("zone", "time", "species"), np.ones((1, 3, 1))),
        },
        {**TIME, "species": ["X"]}, attrs,
    )  # fmt: skip


def states(**attrs):
    return xarray.Dataset(
        {"state": (("time", "variable"), np.ones((3, 1))), "status": ((), 0)},
        {**TIME, "variable": ["x"]}, attrs,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("draw", "make", "what"),
    [
        (plots.epidemic_curves, counts, "time"), (plots.realizations, amounts, "time"),
        (plots.trajectories, states, "time"), (plots.abundances, amounts, "time since the start"),
    ],
)  # fmt: skip
def test_an_axis_has_the_unit_of_the_model_or_of_the_call(draw, make, what):
    assert draw(make()).get_xlabel() == what
    assert draw(make(time_unit="days")).get_xlabel() == f"{what} [days]"
    assert draw(make(time_unit="days"), time_unit="h").get_xlabel() == f"{what} [h]"
    with pytest.raises(ModelError, match="time_unit is 3"):
        draw(make(), time_unit=3)


def test_a_comparison_has_the_unit_of_its_results():
    found = ergode.compare(counts(time_unit="weeks"), {"half": counts(time_unit="weeks") / 2})
    figure = plots.scenario_differences(found, "count", compartment="I")
    assert figure.axes[-1].get_xlabel() == "time [weeks]"


def test_models_hand_their_unit_to_results_and_are_equal_without_it():
    stay = ergode.Exponential(mean=5)
    plain, named = (
        ergode.CompartmentModel.sir(transmission_rate=1, infectious=stay, time_unit=unit)
        for unit in (None, "days")
    )
    assert plain == named and plain.digest == named.digest
    chain = ergode.ContactNetwork.from_edges([0, 1], [1, 2])
    common = {"initial": {"I": [0]}, "times": [0, 1, 2], "device": "cpu:1"}
    found = ergode.epidemics.simulate(named, chain, **common)
    assert found.attrs["time_unit"] == "days"
    assert plots.epidemic_curves(ergode.epidemics.incidence(found)).get_xlabel() == "time [days]"
    assert "time_unit" not in ergode.epidemics.simulate(plain, chain, **common).attrs
    assert ergode.inputs(found)["model"].time_unit == "days"
    xarray.testing.assert_equal(
        ergode.epidemics.simulate(plain, chain, **common), found.drop_attrs(deep=False)
    )


def test_every_model_takes_a_unit():
    network = ergode.ReactionNetwork(
        {"X": 1}, [ergode.Reaction("X -> 0", rate_constant=1)], time_unit="min"
    )
    field = ergode.field_from_equations({"x": "-x"}, time_unit="s")
    for model, unit in ((network, "min"), (field, "s")):
        assert model.time_unit == unit and unit in model._repr_html_()
    for wrong in ("", 3, "a\nb"):
        with pytest.raises(ModelError, match="time_unit is"):
            ergode.field_from_equations({"x": "-x"}, time_unit=wrong)


def test_a_movie_of_an_epidemic(tmp_path):
    found = xarray.DataArray(
        np.array([[[0, 0, 1], [0, 1, 1], [1, 1, 2]]], np.uint8), dims=("replicate", "time", "node"),
        coords={"replicate": [4], **TIME}, attrs={"compartments": ["S", "I", "R"]},
    )  # fmt: skip
    chain = ergode.ContactNetwork.from_edges([0, 1], [1, 2])
    places = [[0, 0], [1, 0], [2, 1]]
    path = plots.animate_epidemic(found, tmp_path / "x.gif", positions=places, contacts=chain)
    with Image.open(path) as image:
        assert image.n_frames == 3
    film = plots.animate_epidemic(found, tmp_path / "x.mp4", positions=places, frames_per_second=2)
    count, seconds = imageio_ffmpeg.count_frames_and_secs(film)
    assert (count, seconds) == (3, 1.5)
    plots.animate_epidemic(found, film, positions=places, overwrite=True)
    for changes, message in (
        ({"path": tmp_path / "y.avi"}, "expected .gif or .mp4"),
        ({"positions": places[:2]}, r"shape \[3, 2\]"), ({"replicate": 0}, "no replicate 0"),
        ({"contacts": ergode.ContactNetwork.from_edges([0], [1])}, "contacts has 2 nodes"),
    ):  # fmt: skip
        with pytest.raises(PlanError, match=message):
            plots.animate_epidemic(
                found, **{"path": tmp_path / "y.gif", "positions": places} | changes
            )
    assert sorted(tmp_path.iterdir()) == [path, film]
