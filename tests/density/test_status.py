"""How densities end that do not reach the last time, through the public call."""

import numpy as np
import pytest
from density_cases import LINEAR, first

import ergode
from ergode.density import solve, views
from ergode.density.evolution import Evolution
from ergode.density.grid.lattice import Lattice

DEVICES = pytest.mark.parametrize("device", ["cpu:2", pytest.param("cuda", marks=pytest.mark.cuda)])
WIDTH = 1e-3
REACH = Lattice(np.zeros(2), np.ones(2), np.eye(2)).reach


def two_heaps(distance):
    """Half of the probability this many cells to either side of the middle of the lattice."""
    variance = [(2 * WIDTH) ** 2] * 2
    places = [-distance * WIDTH, 0.0], [distance * WIDTH, 0.0]
    return ergode.Mixture([1, 1], [ergode.Gaussian(place, variance) for place in places])


def moved(speeds, times, device, distance=REACH - 40, **options):
    return ergode.density.propagate(
        LINEAR, two_heaps(distance), times=times, width=WIDTH, threshold=1e-6, device=device,
        parameters=dict.fromkeys("abcdf", 0.0) | {"e": speeds}, **options,
    )  # fmt: skip


@DEVICES
def test_a_density_that_reaches_the_end_of_its_lattice_ends_there(device):
    """To either side; one that stays where it is goes on, and what is not reached is missing."""
    speeds = np.array([40.0, -40.0, 0.0]) * WIDTH
    times = [0.0, 0.25, 0.5, 2.0, 3.0]
    with pytest.warns(
        ergode.FailureWarning, match=f"the end of the lattice, {REACH} cells"
    ) as all_:
        found = moved(speeds, times, device)
    assert "2 of 3 densities ended at time" in str(all_[0].message)
    assert found["status"].values.tolist() == [ergode.Status.OUT_OF_LATTICE] * 2 + [0]
    with pytest.raises(ergode.ErgodeError, match="reached the end of its lattice"):
        found.ergode.raise_for_status()
    reached = found["time_reached"].values
    assert reached[2] == 3 and (reached[:2] > 0.5).all() and (reached[:2] < 1).all()
    # The same on either side, and until then what it is where there is room.
    near = moved(speeds, times, device, distance=100)
    assert (near["status"] == 0).all()
    for name in ("mean", "covariance", "mass_lost", "cell_count"):
        values = found[name].values
        assert np.isnan(values[:2, 3:]).all() and np.isfinite(values[:, :3]).all()
        assert np.isfinite(values[2]).all()
    assert np.allclose(found["mean"][:, :3], near["mean"][:, :3], atol=1e-6 * REACH * WIDTH)
    assert np.allclose(found["mass_kept"][:, :3], 1, atol=1e-4)
    assert abs(found["mean"].values[:2, 2, 0] - 0.5 * speeds[:2]).max() < 0.01 * WIDTH * 40


def test_one_density_that_reaches_the_end_of_its_lattice_is_returned_as_it_was():
    """No mass is lost over the edge: the last density is the one before the step that failed."""
    with pytest.warns(ergode.FailureWarning, match="use larger widths"):
        found = moved(40 * WIDTH, [0.0, 0.5, 2.0], "cpu:1")
    assert found["status"] == ergode.Status.OUT_OF_LATTICE
    assert "end of the lattice" in found.attrs["ended_early"]
    end = float(found["time"][-1])
    assert end == float(found["time_reached"]) and 0.5 < end < 1
    assert float(found["mean"][-1, 0]) == pytest.approx(40 * WIDTH * end, abs=0.01 * 40 * WIDTH)
    cells = views.cells_at(found)
    assert float(cells["mass"].sum()) == pytest.approx(1)
    assert float(found["mass_out"][-1]) < 1e-6
    assert np.abs(cells["point"].values[:, 0]).max() <= REACH * WIDTH * (1 + 1e-12)


def test_a_prior_beyond_the_lattice_is_refused():
    with pytest.raises(ergode.PlanError, match=f"room for {REACH} in 2 dimensions; use larger"):
        moved(0.0, [0.0, 1.0], "cpu:1", distance=REACH + 10)


@pytest.mark.parametrize("abandoned", [False, True])
def test_an_interrupted_batch_tells_who_ended_who_did_not_and_who_never_began(
    abandoned, monkeypatch
):
    """One at a time: the first is done, the second is interrupted, the third is not run."""
    monkeypatch.setattr(solve.Evolution, "count_that_fits", staticmethod(lambda *_: 1))
    right, calls = Evolution.advance, []

    def advance(self, target, *rest):
        calls.append(target)
        if len(calls) == 7:  # the third time of the second density
            raise (ergode.core.errors.Abandoned if abandoned else KeyboardInterrupt)
        right(self, target, *rest)

    monkeypatch.setattr(Evolution, "advance", advance)
    times = [0.0, 0.25, 0.5, 0.75]
    with pytest.warns(ergode.InterruptionWarning, match="ended at time 0.25: interrupted"):
        found = moved(np.array([1.0, 2.0, 3.0]) * WIDTH, times, "cpu:1", distance=100)
    status = ergode.Status
    assert found["status"].values.tolist() == [status.DONE, status.INTERRUPTED, status.NOT_RUN]
    assert found.attrs["ended_early"] == "interrupted"
    finite = np.isfinite(found["mean"].values[..., 0])
    assert finite[0].all() and not finite[2].any() and finite[1].tolist()[2:] == [False, False]
    assert finite[1, 0]
    with pytest.raises(ergode.ErgodeError, match="interrupted before its last time"):
        found.ergode.raise_for_status()


def test_densities_that_run_one_at_a_time_end_each_for_itself(monkeypatch):
    """What one does not reach is missing, as where they run side by side."""
    monkeypatch.setattr(solve.Evolution, "count_that_fits", staticmethod(lambda *_: 1))
    with pytest.warns(ergode.FailureWarning, match="end of the lattice"):
        found = moved(np.array([0.0, 40.0]) * WIDTH, [0.0, 0.5, 2.0], "cpu:1")
    assert found["status"].values.tolist() == [0, ergode.Status.OUT_OF_LATTICE]
    assert found.sizes["time"] == 3
    assert np.isfinite(found["mean"].values[..., 0]).tolist() == [[True] * 3, [True, True, False]]
    assert 0.5 < float(found["time_reached"][1]) < 1


def test_each_of_a_batch_has_the_code_of_its_own_end():
    """No room, an impossible measurement, and a density that is done, in one call."""
    measured = ergode.Measurement(0.4, first, np.array([[0.1], [1e200], [0.1]]), 1e-2)
    with pytest.warns(ergode.FailureWarning) as caught:
        found = ergode.density.propagate(
            LINEAR, ergode.Gaussian([0.0, 0.0], [0.1, 0.1]), times=[0.0, 0.4, 1.2], width=0.1,
            threshold=1e-7, measurements=measured, max_cells=2000, device="cpu:2",
            parameters=dict.fromkeys("bcdef", 0.0) | {"a": [-1.0, 0.0, 6.0]},
        )  # fmt: skip
    status = ergode.Status
    assert found["status"].values.tolist() == [status.DONE, status.IMPOSSIBLE, status.NO_ROOM]
    failed = [one for one in caught if one.category is ergode.FailureWarning]
    assert len(failed) == 1 and "2 of 3 densities" in str(failed[0].message)
    assert found["time_reached"].values[1] == 0.4 and found["time_reached"].values[2] < 0.4
    assert np.isneginf(found["log_evidence"].values[1, 0])
    assert np.isfinite(found["mean"].values[0]).all()
    assert np.isnan(found["mean"].values[[1, 2], 1:]).all()
