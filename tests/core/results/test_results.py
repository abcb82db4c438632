"""Datasets are what was registered, and files are complete or not there."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray

import ergode
from ergode.core import results
from ergode.core.errors import PlanError
from ergode.core.results import Variable, labelled


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(labelled, "_REGISTRY", {})
    results.register(
        "engine",
        "counts",
        [
            Variable("count", ("replicate", "time"), "int32", "1", "how many"),
            Variable("share", ("time",), "floating", "1", "what part"),
        ],
    )


GOOD = {"count": np.zeros((2, 3), np.int32), "share": np.zeros(3, np.float32)}


def build(**changes):
    values = {k: v for k, v in {**GOOD, **changes}.items() if v is not None}
    return results.dataset(
        "engine", "counts", values, coords={"time": [0.0, 1.0, 2.0]}, attrs={"seed": 1}
    )


def test_a_dataset_says_what_its_variables_are(registered):
    found = build()
    assert found["count"].dims == ("replicate", "time")
    assert found["count"].attrs == {"units": "1", "long_name": "how many"}
    assert found.attrs == {"seed": 1}
    assert found.ergode is not None
    assert [v.name for v in results.registered()["engine", "counts"]] == ["count", "share"]


def test_results_of_one_grid_do_not_know_each_other(registered):
    first, second = build(), build()
    first["time"].attrs["units"] = "days"
    first["time"].encoding["dtype"] = "float32"
    with pytest.raises(ValueError, match="read-only"):
        first["time"].values[0] = 9.0
    first = first.assign_coords(time=first["time"] + 1.0)
    for found in (second, build()):
        assert found["time"].values.tolist() == [0.0, 1.0, 2.0]
        assert not found["time"].attrs and not found["time"].encoding


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": None}, "declares"),
        ({"extra": np.zeros(1)}, "declares"),
        ({"count": np.zeros((2, 3), np.int64)}, r"'count' is int64\(2, 3\), declared int32"),
        ({"count": np.zeros(3, np.int32)}, r"'count' is int32\(3,\)"),
        ({"share": np.zeros(3, np.int32)}, "'share' is int32"),
        ({"share": np.zeros((1, 3))}, "'share' is float64"),
    ],
)
def test_what_was_not_declared_is_an_error(registered, changes, message):
    with pytest.raises(TypeError, match=message):
        build(**changes)


def test_a_declared_type_must_exist(registered):
    results.register("engine", "counts", [Variable("x", ("time",), "flaot64", "1", "a typo")])
    with pytest.raises(AttributeError, match="flaot64"):
        results.dataset("engine", "counts", {"x": np.zeros(3)}, coords={}, attrs={})


def test_what_was_not_computed_is_missing(registered):
    full = build()
    assert full["count"].dtype == np.int32
    values = {**GOOD, "count": np.full((2, 3), 7, np.int32)}
    found = results.dataset(
        "engine", "counts", values, coords={"time": [0.0, 1.0, 2.0]}, attrs={},
        computed_rows=np.array([3, 1]),
    )  # fmt: skip
    assert found["count"].values[0].tolist() == [7, 7, 7]
    np.testing.assert_array_equal(found["count"].values[1], [7, np.nan, np.nan])
    assert found["count"].mean("replicate").values.tolist() == [7, 7, 7]
    assert found["share"].dtype == np.float32


def test_provenance_holds_plain_values():
    found = results.provenance(steps=np.int64(3), wall=np.float32(0.5), name="x", n=1)
    assert found == {"version": ergode.__version__, "steps": 3, "wall": 0.5, "name": "x", "n": 1}
    assert type(found["steps"]) is int
    assert type(found["wall"]) is float


def example(value=0):
    return xarray.Dataset(
        {
            "count": (("replicate", "time"), np.full((2, 3), value, np.int32), {"units": "1"}),
            "large": (("big",), np.arange(400_000.0)),
            "status": (("replicate",), np.zeros(2, np.uint8)),
        },
        coords={"compartment": ["S", "I"], "time": [0.0, 0.1, 1 / 3]},
        attrs=results.provenance(
            seed=str(2**64 - 1), device="cpu", wall_seconds=0.1, steps=2**40, empty="",
            times=np.array([0.0, 1 / 3]), name="Poincar\u00e9",
        ),
    )  # fmt: skip


SUFFIXES = [".nc", ".zarr"]


def writes(suffix):
    if suffix == ".zarr":
        pytest.importorskip("zarr")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_gives_back_what_was_saved(tmp_path, suffix):
    writes(suffix)
    path = tmp_path / f"result{suffix}"
    dataset = example()
    assert results.save(dataset, str(path)) == path
    assert os.listdir(tmp_path) == [path.name]
    back = results.open_dataset(path)
    xarray.testing.assert_equal(back, dataset)
    for name in dataset.variables:
        assert back[name].dtype.kind == dataset[name].dtype.kind
    assert back["count"].dtype == np.int32
    assert back["count"].attrs["units"] == "1"
    assert set(back.attrs) == set(dataset.attrs)
    for name, value in dataset.attrs.items():
        assert np.array_equal(back.attrs[name], value), name
    assert back.ergode.raise_for_status() is back
    # It is in memory: the file may go.
    results.save(example(7), path, overwrite=True)
    assert int(back["count"].max()) == 0
    assert int(results.open_dataset(path)["count"].min()) == 7
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("old", [True, False])
def test_a_failure_midway_leaves_what_was_there(tmp_path, monkeypatch, suffix, old):
    writes(suffix)
    path = tmp_path / f"result{suffix}"
    if old:
        results.save(example(7), path)
    method = "to_netcdf" if suffix == ".nc" else "to_zarr"
    original = getattr(xarray.Dataset, method)

    def breaks(self, target, **options):
        original(self, target, **options)
        raise OSError("disk full")

    monkeypatch.setattr(xarray.Dataset, method, breaks)
    with pytest.raises(ergode.WriteError, match=r"cannot write '.*result\..*': disk full$"):
        results.save(example(1), path, overwrite=True)
    assert os.listdir(tmp_path) == ([path.name] if old else [])
    if old:
        assert int(results.open_dataset(path)["count"].min()) == 7


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failure_at_the_last_step_leaves_what_was_there(tmp_path, monkeypatch, suffix):
    writes(suffix)
    path = tmp_path / f"result{suffix}"
    results.save(example(7), path)
    original = os.replace

    def replace(source, target):
        if str(target) == str(path) and "replaced" not in str(source):
            raise PermissionError("not now")
        original(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(ergode.WriteError, match="not now"):
        results.save(example(1), path, overwrite=True)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == [path.name]
    assert int(results.open_dataset(path)["count"].min()) == 7


def test_a_name_or_a_folder_that_cannot_be_is_an_error(tmp_path):
    for name in ("x.csv", "x", ".nc.gz"):
        with pytest.raises(PlanError, match=r"expected a name that ends in \.nc or \.zarr"):
            results.save(example(), tmp_path / name)
    with pytest.raises(PlanError, match=r"the folder '.*missing' does not exist"):
        results.save(example(), tmp_path / "missing" / "x.nc")
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match=r"the folder '.*file' does not exist"):
        results.save(example(), tmp_path / "file" / "x.nc")
    assert os.listdir(tmp_path) == ["file"]


def everything_in(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def notes(path):
    path.mkdir()
    (path / "notes.txt").write_text("mine")


def foreign_store(path):
    pytest.importorskip("zarr")
    example().to_zarr(path, consolidated=False)


def store_with_notes(path):
    results.save(example(), path)
    (path / "count" / "notes.txt").write_text("mine")


def store_with_a_folder(path):
    results.save(example(), path)
    (path / "c" / "thesis").mkdir(parents=True)


def store_with_a_link(path):
    results.save(example(), path)
    chunk = path / "large" / "c"
    (chunk if chunk.exists() else path / "large").joinpath("77").symlink_to(path.parent)


def link_to_a_store(path):
    results.save(example(), path.with_name("other.zarr"))
    path.symlink_to(path.with_name("other.zarr"))


FOREIGN = {
    "x.nc": [
        Path.mkdir, notes, lambda path: path.write_text("mine"), lambda path: path.touch(),
        lambda path: example().to_netcdf(path, engine="h5netcdf"),
        lambda path: path.symlink_to("nowhere"),
    ],
    "x.zarr": [
        Path.mkdir, notes, lambda path: path.write_text("mine"), foreign_store, store_with_notes,
        store_with_a_folder, store_with_a_link, link_to_a_store,
    ],
}  # fmt: skip


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("name", "make"), [(name, make) for name, several in FOREIGN.items() for make in several]
)
def test_what_is_no_result_is_not_replaced(tmp_path, name, make, overwrite):
    writes(Path(name).suffix)
    make(tmp_path / name)
    before = everything_in(tmp_path)
    with pytest.raises(PlanError, match=r"a (file|folder) of that name is in the way, which ergod"):
        results.save(example(7), tmp_path / name, overwrite=overwrite)
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_result_is_replaced_only_when_asked(tmp_path, suffix):
    writes(suffix)
    path = tmp_path / f"x{suffix}"
    results.save(example(1), path)
    before = everything_in(tmp_path)
    with pytest.raises(PlanError, match="it exists; pass overwrite=True to replace it"):
        results.save(example(7), path)
    assert everything_in(tmp_path) == before
    results.save(example(7), path, overwrite=True)
    assert int(results.open_dataset(path)["count"].min()) == 7


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_comes_while_a_result_is_written_stays(tmp_path, monkeypatch, suffix):
    writes(suffix)
    path = tmp_path / f"x{suffix}"
    method = "to_netcdf" if suffix == ".nc" else "to_zarr"
    original = getattr(xarray.Dataset, method)

    def slowly(self, target, **options):
        original(self, target, **options)
        path.write_text("mine")

    monkeypatch.setattr(xarray.Dataset, method, slowly)
    with pytest.raises(PlanError, match="in the way"):
        results.save(example(), path, overwrite=True)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_text() == "mine"


FILLING = """
import resource, sys
import numpy, xarray
import ergode
path, room = sys.argv[1], int(sys.argv[2])
numbers = numpy.random.default_rng(0).random(300_000)
many = {f"v{k}": (f"d{k}", numbers[:2_000]) for k in range(40)}
dataset = xarray.Dataset({"large": ("x", numbers)} | many)
resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
try:
    ergode.save(dataset, path, overwrite=True)
except ergode.WriteError as error:
    print(error)
    raise SystemExit(3)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no limit on the size of files there")
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("room", [0, 1_000, 5_000, 100_000])
def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path, suffix, room):
    writes(suffix)
    path = tmp_path / f"x{suffix}"
    results.save(example(7), path)
    command = [sys.executable, "-c", FILLING, str(path), str(room)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "File too large" in done.stdout
    assert done.stdout.count("\n") == 1
    assert os.listdir(tmp_path) == [path.name]
    assert int(results.open_dataset(path)["count"].min()) == 7


def test_a_large_variable_is_compressed(tmp_path):
    path = results.save(example(), tmp_path / "x.nc")
    assert path.stat().st_size < 0.7 * example()["large"].nbytes


def test_a_missing_or_broken_file_is_a_read_error(tmp_path):
    with pytest.raises(ergode.ReadError, match="does not exist"):
        ergode.open_dataset(tmp_path / "absent.nc")
    broken = tmp_path / "broken.nc"
    broken.write_bytes(b"not a dataset")
    with pytest.raises(ergode.ReadError, match=r"broken\.nc.*cannot be read"):
        ergode.open_dataset(broken)


def test_a_variable_is_no_result(tmp_path):
    with pytest.raises(ergode.PlanError, match=r"is a DataArray; expected an xarray.Dataset"):
        ergode.save(xarray.DataArray([1.0]), tmp_path / "x.nc")
