"""What the figures of amounts in space show, of datasets small enough to be written down."""

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import ergode
from ergode import PlanError, plots


def dataset(axes, times=3):
    shape = {"x": 4, "y": 3, "z": 2}
    shape = {axis: shape[axis] for axis in axes}
    dims = ("replicate", "time", "species", *axes)
    size = (2, times, 2, *shape.values())
    amount = np.arange(np.prod(size)).reshape(size)
    coords = {"time": np.arange(times) / 2, "species": ["A", "B"], "replicate": [5, 6]}
    coords |= {axis: (np.arange(n) + 0.5) * 0.1 for axis, n in shape.items()}
    return xarray.Dataset({"amount": (dims, amount)}, coords=coords)


def test_a_map_shows_a_realization_at_a_time():
    runs = dataset("xy")
    ax = plots.field(runs, species="B", time=0.5, replicate=6, ax=Figure().subplots())
    (image,) = ax.images
    assert (image.get_array() == runs["amount"].values[1, 1, 1].T).all()
    np.testing.assert_allclose(image.get_extent(), [0, 0.4, 0, 0.3])
    assert ax.get_title(loc="left") == "B, time 0.5"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x [length]", "y [length]")
    assert ax.child_axes[0].get_ylabel() == "molecules in a voxel"


def test_one_axis_is_a_line_and_three_are_summed_along_z():
    line = dataset("x")
    ax = plots.field(line, species="A", ax=Figure().subplots())
    assert ax.lines[0].get_ydata().tolist() == line["amount"].values[0, 2, 0].tolist()
    block = dataset("xyz")
    ax = plots.field(block, species="A", ax=Figure().subplots(), limits=(0, 9))
    assert (ax.images[0].get_array() == block["amount"].values[0, 2, 0].sum(axis=2).T).all()
    assert ax.images[0].get_clim() == (0, 9)
    assert ax.child_axes[0].get_ylabel() == "molecules in a column along z"


def test_an_animation_has_a_frame_for_each_time(tmp_path):
    from PIL import Image

    path = tmp_path / "a.gif"
    assert plots.animate_field(dataset("xy", times=2), path, species="A") == path
    with Image.open(path) as image:
        assert image.n_frames == 2
    with pytest.raises(PlanError, match="exists"):
        plots.animate_field(dataset("xy"), path, species="A")
    plots.animate_field(dataset("x", times=2), path, species="A", overwrite=True)
    other = tmp_path / "other.gif"
    other.write_bytes(b"GIF89a")
    with pytest.raises(PlanError, match="did not write"):
        plots.animate_field(dataset("x"), other, species="A", overwrite=True)
    assert sorted(tmp_path.iterdir()) == [path, other]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"species": "C"}, "no species 'C'; it has A, B"),
        ({"species": "A", "time": 7}, "no time 7"),
        ({"species": "A", "replicate": 0}, "no replicate 0; it has 5 to 6"),
        ({"species": "A", "limits": (2, 1)}, "limits are"),
    ],
)
def test_what_is_not_there_is_refused(options, message):
    with pytest.raises(PlanError, match=message):
        plots.field(dataset("xy"), **options)


def test_other_datasets_are_refused(tmp_path):
    with pytest.raises(PlanError, match="no amounts in space"):
        plots.field(dataset(""), species="A")
    with pytest.raises(PlanError, match="swept over rate"):
        plots.field(dataset("x").expand_dims(rate=[1, 2]), species="A")
    with pytest.raises(PlanError, match=r"\.gif or \.mp4"):
        plots.animate_field(dataset("x"), tmp_path / "a.avi", species="A")
    with pytest.raises(PlanError, match="only the last time"):
        plots.animate_field(dataset("x").isel(time=0), tmp_path / "a.gif", species="A")
    with pytest.raises(ergode.PlanError, match="frames_per_second"):
        plots.animate_field(dataset("x"), tmp_path / "a.gif", species="A", frames_per_second=0)
