"""Cells of another code, on the host and on a device."""

import numpy as np
import pytest
from kernel_cases import CARBON, burning
from type_ia import TYPE_IA

import ergode
from ergode.core import kernels
from ergode.core.status import Status
from ergode.kinetics import burn
from ergode.kinetics.burn_on_device import _load, _own_tolerances, _store
from ergode.kinetics.cells import Burned
from ergode.kinetics.kernel_options import HEATING, NEUTRINOS
from ergode.kinetics.physics.equation_of_state import (
    DEGENERATE,
    HELMHOLTZ,
    STATE,
    _matter,
    response_at_pressure,
)
from ergode.kinetics.physics.neutrinos import _losses
from ergode.kinetics.tables import PRESSURE

CELLS = (2, 3)


@pytest.fixture(scope="module")
def cells(fern):
    """Temperatures, densities and compositions that differ."""
    names = [one.name for one in fern.species]
    x = np.zeros((*CELLS, len(names)))
    x[..., names.index("12C")] = np.linspace(0.3, 0.7, 6).reshape(CELLS)
    x[..., names.index("16O")] = 1.0 - x[..., names.index("12C")]
    return np.linspace(5e9, 7e9, 6).reshape(CELLS), np.full(CELLS, 1e8), x


def test_cells_are_zones(fern, cells):
    hot, dense, x = cells
    found = burn(fern, hot, dense, x, 1e-10, rtol=1e-3)
    zones = ergode.kinetics.integrate(
        fern, times=[0, 1e-10], temperature=hot.ravel(), density=1e8, rtol=1e-3, device="cpu",
        initial={"12C": x[..., x[0, 0] > 0].reshape(6, 2)[:, 0],
                 "16O": x[..., x[0, 0] > 0].reshape(6, 2)[:, 1]},
    )  # fmt: skip
    assert found.mass_fraction.shape == x.shape and found.energy.shape == CELLS
    np.testing.assert_array_equal(found.status, 0)
    np.testing.assert_allclose(
        found.mass_fraction.reshape(6, -1), zones["mass_fraction"].values[:, 1], rtol=1e-12
    )
    np.testing.assert_allclose(
        found.energy.ravel(), zones["energy_released"].values[:, 1], rtol=1e-9
    )


def test_what_cannot_burn(fern, cells):
    hot, dense, x = cells
    good = {"temperature": hot, "density": dense, "mass_fraction": x, "duration": 1e-10}

    def message(error=ergode.ModelError, network=fern, **changes):
        with pytest.raises(error) as caught:
            burn(network, **(good | changes))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "mass_fraction has shape (2, 3, 149)" in message(mass_fraction=x[..., 1:])
    assert "duration is -1" in message(duration=-1)
    masked = np.ma.masked_inside(hot, hot.min(), hot.min())
    assert "temperature has masked values" in message(temperature=masked)
    assert "'lsoda' is unknown" in message(ergode.PlanError, method="lsoda")
    assert "cannot integrate" in message(
        ergode.PlanError, method="asymptotic", heating="constant-volume"
    )
    plain = ergode.ReactionNetwork({"A": 1}, [ergode.Reaction("A -> 0", rate_constant=1.0)])
    assert "neither nuclei" in message(network=plain)


def _respond(place, table, temperature, found):
    found[place] = response_at_pressure(table, temperature[place], 1e7, 0.1, 0.5)[0]


def test_what_goes_between_layouts_compiles():
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    one, two, out = np.ones(3), np.ones((3, 2)), np.ones((3, 2, 3))
    code = np.ones(3, np.uint8)
    load = (0, 3, two, one, one, np.ones(2), 1, 1, 1.0, 1.0, np.ones((3, 1)), out, code)
    burned = Burned(two, one, code, one)
    tolerances = (0, 3, one, two, np.ones(2), 1.0, 1, 1, np.ones((3, 4)), out, code)
    store = (0, 3, out, one, two, np.ones(2), np.ones(2), 1, code, code, 1.0, one)
    store += (np.ones((9, 9)), np.ones(2), burned)
    matter = (0, 3, two, one, one, one, one, np.ones(3), np.ones(3))
    for body, arguments, bindings in (
        (_load, load, {}), (_store, store, {}), (_own_tolerances, tolerances, {}),
        (_store, store, {NEUTRINOS: True, HEATING: PRESSURE}),
        (_matter, matter, {STATE: DEGENERATE}),
        (_matter, matter, {STATE: HELMHOLTZ}),
        (_respond, (0, 3, two, one, one), {STATE: DEGENERATE}),
        (_losses, (0, 3, one, one, one, one, one), {}),
    ):  # fmt: skip
        kernel = kernels.for_each(body, bindings=bindings)
        assert ".entry" in cuda.ptx(kernel.compiled("cuda"), arguments, optimized=False)


def spoilt(cells):
    """Cells of which every other one is bad, each in its own way; and their statuses."""
    hot, dense, x = (np.repeat(a.reshape(6, *a.shape[2:]), 2, axis=0) for a in cells)
    x[1, 3], hot[3], dense[5], hot[7], x[11, 3] = -0.1, np.nan, 0.0, np.inf, np.nan
    x[9] *= 0.5
    codes = np.zeros(12, np.uint8)
    codes[1::2] = Status.INVALID_INPUT
    return (hot, dense, x), codes


def test_a_bad_cell_is_flagged_and_the_others_are_right(fern, cells):
    bad, codes = spoilt(cells)
    with pytest.warns(ergode.FailureWarning, match="6 of 12 cells, first cell 1: What was given"):
        found = burn(fern, *bad, 1e-10, rtol=1e-3)
    np.testing.assert_array_equal(found.status, codes)
    flat = [a.reshape(6, *a.shape[2:]) for a in cells]
    good = burn(fern, *flat, 1e-10, rtol=1e-3)
    np.testing.assert_array_equal(found.mass_fraction[::2], good.mass_fraction)
    np.testing.assert_array_equal(found.energy[::2], good.energy)
    # What failed is as it was.
    np.testing.assert_array_equal(found.mass_fraction[1::2], bad[2][1::2])
    np.testing.assert_array_equal(found.energy[1::2], 0.0)


def test_cells_that_fail_on_the_way_stay_unburnt(fern, cells):
    flat = [a.reshape(6, *a.shape[2:]) for a in cells]
    with pytest.warns(ergode.FailureWarning, match="6 of 6 cells"):
        found = burn(fern, *flat, 1e-10, rtol=1e-3, max_steps=2)
    assert (found.status == Status.TOO_MANY_STEPS).all()
    np.testing.assert_array_equal(found.mass_fraction, flat[2])
    np.testing.assert_array_equal(found.energy, 0.0)


def test_cells_below_the_limits_are_left_alone(fern, cells):
    hot, dense, x = (a.reshape(6, *a.shape[2:]) for a in cells)
    least = {"minimum_temperature": np.sort(hot)[2], "minimum_density": dense.min(), "rtol": 1e-3}
    found, all_ = (
        burn(fern, hot, dense, x, 1e-10, **least),
        burn(fern, hot, dense, x, 1e-10, rtol=1e-3),
    )
    cold = hot < least["minimum_temperature"]
    assert 0 < cold.sum() < 6 and not Status.SKIPPED.is_error  # and no warning
    np.testing.assert_array_equal(found.status, np.where(cold, Status.SKIPPED, Status.DONE))
    np.testing.assert_array_equal(found.mass_fraction[cold], x[cold])
    np.testing.assert_array_equal(found.energy[cold], 0.0)
    np.testing.assert_array_equal(found.mass_fraction[~cold], all_.mass_fraction[~cold])
    thin = burn(fern, hot, dense, x, 1e-10, minimum_density=2.0 * dense.max())
    assert (thin.status == Status.SKIPPED).all()
    # Bad cells are bad, however cold.
    spoiled = np.where(np.arange(6) == 1, -1.0, hot)
    with pytest.warns(ergode.FailureWarning, match="1 of 6 cells, first cell 1"):
        bad = burn(fern, spoiled, dense, x, 1e-10, minimum_temperature=1e12)
    assert bad.status.tolist() == [15, 10, 15, 15, 15, 15]
    for given in (-1.0, np.nan, "hot"):
        with pytest.raises(ergode.ErgodeError, match="minimum_temperature"):
            burn(fern, hot, dense, x, 1e-10, minimum_temperature=given)


def test_neutrinos_carry_energy_off():
    """At the temperature that is given, and at constant volume, where they cool the cell."""
    hot, dense, x = np.array([3e9, 8e9]), np.array([1e7, 1e6]), np.array([[0.0, 1.0]] * 2)
    state = {"equation_of_state": "helmholtz", "device": "cpu", "rtol": 1e-8}
    losses = ergode.kinetics.neutrino_losses(hot, dense, 24, 12).total
    fixed = burn(CARBON, hot, dense, x, 1e-3, neutrino_losses=True, **state)
    np.testing.assert_allclose(fixed.neutrino_energy, 1e-3 * losses, rtol=1e-12)
    np.testing.assert_array_equal(burn(CARBON, hot, dense, x, 1e-3, **state).neutrino_energy, 0.0)
    # In a short step a cell cools by what the losses take from its energy.
    short = 1e-2 * ergode.kinetics.equation_of_state(hot, dense, 24, 12).energy / losses
    for k in range(2):
        cell = hot[k : k + 1], dense[k : k + 1], x[k : k + 1]
        options = {"heating": "constant-volume", "neutrino_losses": True, **state}
        whole = burn(CARBON, *cell, short[k], **options).neutrino_energy[0]
        found = ergode.kinetics.integrate(
            CARBON, times=[0, short[k]], initial={"mg24": 1.0}, temperature=hot[k],
            density=dense[k], **options,
        )["neutrino_energy"].values[0, -1]  # fmt: skip
        assert whole == pytest.approx(found, rel=1e-3)
        assert whole < 0.99 * short[k] * losses[k]
    # Where pairs and light are nearly all energy, losses do not drown in its error.
    light = burn(
        CARBON, [9e9], [1e3], [[1.0, 0.0]], 1e-7, heating="constant-pressure",
        neutrino_losses=True, **state | {"rtol": 1e-4},
    )  # fmt: skip
    first = ergode.kinetics.neutrino_losses(9e9, 1e3, 12, 6).total
    assert light.neutrino_energy[0] == pytest.approx(1e-7 * first, rel=0.01)
    with pytest.raises(ergode.ModelError, match="neutrino_losses is for nuclei"):
        burn(burning(), [1e3], [1e-3], [[1.0, 0, 0, 0]], 1e-6, neutrino_losses=True)


def test_what_advection_leaves_is_taken(fern, cells):
    """Abundances a little below zero; no time; numbers of NumPy."""
    flat = [a.reshape(6, *a.shape[2:]) for a in cells]
    good = burn(fern, *flat, np.float32(2.0**-33), rtol=np.float64(1e-3))
    under = flat[2].copy()
    under[:, 3] = -1e-12
    found = burn(fern, flat[0], flat[1], under, np.array(2.0**-33), rtol=1e-3)
    np.testing.assert_array_equal(found.status, 0)
    np.testing.assert_allclose(found.mass_fraction, good.mass_fraction, rtol=1e-6, atol=1e-9)
    still = burn(fern, flat[0], flat[1], under, 0)
    np.testing.assert_array_equal(still.mass_fraction, under)
    np.testing.assert_array_equal(still.energy, 0.0)
    np.testing.assert_array_equal(still.status, 0)


@pytest.mark.cuda
def test_bad_cells_on_a_device_are_as_on_the_host(fern, cells):
    cupy = pytest.importorskip("cupy")
    bad, codes = spoilt(cells)
    for duration in (1e-10, 0.0):
        with pytest.warns(ergode.FailureWarning):
            host = burn(fern, *bad, duration, rtol=1e-3)
        found = burn(fern, *(cupy.asarray(a) for a in bad), duration, rtol=1e-3)
        np.testing.assert_array_equal(found.status.get(), codes)
        np.testing.assert_allclose(
            found.mass_fraction.get(), host.mass_fraction, rtol=1e-8, atol=1e-14
        )
        np.testing.assert_allclose(found.energy.get(), host.energy, rtol=1e-8)
    bad[2][:, 3] = -1e-12
    good = np.flatnonzero(codes == 0)
    with pytest.warns(ergode.FailureWarning):
        host = burn(fern, *bad, 1e-10, rtol=1e-3)
    found = burn(fern, *(cupy.asarray(a) for a in bad), 1e-10, rtol=1e-3)
    np.testing.assert_allclose(
        found.mass_fraction.get()[good], host.mass_fraction[good], rtol=1e-8, atol=1e-14
    )


@pytest.mark.cuda
def test_arrays_on_a_device_stay_there(fern, cells):
    cupy = pytest.importorskip("cupy")
    host = burn(fern, *cells, 1e-10, rtol=1e-3)
    hot, dense, x = (cupy.asarray(a) for a in cells)
    hot[1, 2] = cupy.nan
    found = burn(fern, hot, dense, x, 1e-10, rtol=1e-3)
    assert all(isinstance(a, cupy.ndarray) for a in found)
    assert found.status.get().tolist() == [[0, 0, 0], [0, 0, ergode.Status.INVALID_INPUT]]
    good = np.isfinite(hot.get())
    np.testing.assert_allclose(
        found.mass_fraction.get()[good], host.mass_fraction[good], rtol=1e-8, atol=1e-14
    )
    np.testing.assert_allclose(found.energy.get()[good], host.energy[good], rtol=1e-8)
    with pytest.raises(ergode.PlanError, match="is not; expected all on one"):
        burn(fern, hot, cells[1], x, 1e-10)
    with pytest.raises(ergode.PlanError, match="float32"):
        burn(fern, hot.astype("f4"), dense, x, 1e-10)


@pytest.mark.cuda
def test_heated_cells_on_a_device(fern):
    cupy = pytest.importorskip("cupy")
    x = np.zeros((4, len(fern.species)))
    x[:, [one.name for one in fern.species].index("12C")] = 1.0
    zones = np.linspace(4e9, 6e9, 4), np.full(4, TYPE_IA["density"]), x
    # As in `test_plasma`, so that one kernel is compiled.
    options = {
        "heating": "constant-volume", "equation_of_state": "degenerate", "screening": "chugunov",
    }  # fmt: skip
    host = burn(fern, *zones, 1e-9, **options)
    found = burn(fern, *(cupy.asarray(a) for a in zones), 1e-9, **options)
    np.testing.assert_allclose(found.energy.get(), host.energy, rtol=1e-6)


@pytest.mark.cuda
@pytest.mark.parametrize("heating", [None, "constant-volume", "constant-pressure"])
def test_neutrinos_and_limits_on_a_device(heating):
    cupy = pytest.importorskip("cupy")
    zones = np.linspace(2.5e9, 8e9, 5), np.full(5, 1e7), np.array([[1.0, 0.0]] * 5)
    options = {
        "heating": heating, "equation_of_state": "helmholtz", "rtol": 1e-6,
        "neutrino_losses": True, "minimum_temperature": 3e9, "minimum_density": 1e3,
    }  # fmt: skip
    host = burn(CARBON, *zones, 1e-2, device="cpu", **options)
    found = burn(CARBON, *(cupy.asarray(a) for a in zones), 1e-2, **options)
    assert host.status.tolist() == found.status.get().tolist() == [15, 0, 0, 0, 0]
    np.testing.assert_allclose(found.energy.get(), host.energy, rtol=1e-6)
    np.testing.assert_allclose(
        found.neutrino_energy.get(), host.neutrino_energy, rtol=1e-6, atol=1e-8 * host.energy.max()
    )


@pytest.mark.cuda
@pytest.mark.parametrize("case", ["nuclei", "molecules"])
def test_cells_at_constant_pressure_on_a_device(case):
    cupy = pytest.importorskip("cupy")
    if case == "nuclei":
        zones = np.linspace(2.5e9, 6e9, 5), np.full(5, 1e7), np.array([[1.0, 0.0]] * 5)
        network, time, options = CARBON, 1e-6, {"equation_of_state": "helmholtz"}
    else:
        network, time, options = burning(), 1e-6, {}
        x = np.zeros((5, len(network.species)))
        x[:, :3] = 1 / 3
        zones = np.linspace(1200.0, 2000.0, 5), np.full(5, 1e-4), x
    options |= {"heating": "constant-pressure", "rtol": 1e-6}
    host = burn(network, *zones, time, device="cpu", **options)
    found = burn(network, *(cupy.asarray(a) for a in zones), time, **options)
    assert (host.status == 0).all() and (found.status.get() == 0).all()
    np.testing.assert_allclose(found.mass_fraction.get(), host.mass_fraction, atol=1e-8)
    np.testing.assert_allclose(found.energy.get(), host.energy, rtol=1e-6)
