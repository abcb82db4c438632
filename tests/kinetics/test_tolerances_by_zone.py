"""Tolerances of each zone: the bits of calls of its own."""

import numpy as np
import pytest
from both_devices import on_both
from kernel_cases import CARBON, EXPLICIT, ROBERTSON, burning

import ergode
from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.core.status import Status
from ergode.kinetics import burn, integrate
from ergode.kinetics.burn_on_device import _own_tolerances
from ergode.kinetics.network.to_tables import to_tables
from ergode.kinetics.tolerances import Tolerances, usual_of

RTOL = np.array([1e-3, 1e-6, 1e-4])
ATOL = np.array([[1e-6, 1e-10, 1e-6], [1e-9, 1e-13, 1e-9], [1e-8, 1e-8, 1e-8]])
TIMES = [0.0, 1e-3, 40.0]
ASKED = {
    "both": {"rtol": RTOL, "atol": ATOL},
    "rtol": {"rtol": RTOL, "atol": 1e-9},
    "one number of each zone": {"rtol": 1e-5, "atol": ATOL[:, :1]},
    "a species by name": {"rtol": RTOL, "atol": {"A": ATOL[:, 0], "B": 1e-9, "C": 1e-5}},
}


def own(asked, zone):
    """What a call of this zone alone is asked for."""
    rtol, atol = asked["rtol"], asked["atol"]
    if isinstance(atol, dict):
        atol = {name: np.broadcast_to(value, 3)[zone] for name, value in atol.items()}
    elif np.ndim(atol) == 2:
        atol = np.broadcast_to(atol[zone], 3)
    return {"rtol": float(np.broadcast_to(rtol, 3)[zone]), "atol": atol}


@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23", "bdf"])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_every_zone_is_a_call_of_its_own(asked, method):
    options = {"times": TIMES, "method": method, "device": "cpu"}
    found = integrate(ROBERTSON, **options, **asked)
    assert found.sizes["zone"] == 3 and len(set(found["step_count"].values)) == 3
    for zone in range(3):
        one = integrate(ROBERTSON, **options, **own(asked, zone))
        for name in ("concentration", "step_count", "repeated_count", "conservation_error"):
            np.testing.assert_array_equal(found[name][zone], one[name][0])
    np.testing.assert_array_equal(found["rtol"], np.broadcast_to(asked["rtol"], 3))
    expected = [np.broadcast_to(own(asked, zone)["atol"], 3) for zone in range(3)] if isinstance(
        asked["atol"], np.ndarray) else None  # fmt: skip
    if expected:
        np.testing.assert_allclose(found["atol"], expected, rtol=1e-15)
    assert found.attrs["rtol"] == found.attrs["atol"] == "one for each zone"


def test_parts_keep_them(tmp_path):
    options = {"times": TIMES, "device": "cpu"} | ASKED["a species by name"]
    whole = integrate(ROBERTSON, **options)
    parts = integrate(ROBERTSON, **options, store=tmp_path / "parts.zarr", chunk=2)
    np.testing.assert_array_equal(whole["concentration"], parts["concentration"])
    np.testing.assert_array_equal(whole["atol"], parts["atol"])
    usual = {"times": TIMES, "device": "cpu", "rtol": RTOL, "initial": {"A": [1.0, 1e-3, 10.0]}}
    whole, parts = integrate(ROBERTSON, **usual), integrate(
        ROBERTSON, **usual, store=tmp_path / "usual.zarr", chunk=2
    )  # fmt: skip
    np.testing.assert_array_equal(whole["concentration"], parts["concentration"])


@pytest.mark.exhaustive
def test_points_share_them():
    swept = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant="k")], parameters={"k": 3.0}
    )
    found = integrate(
        swept, times=[0, 1], rtol=RTOL, atol=1e-9, parameters={"k": [1.0, 3.0]}, device="cpu"
    )
    alone = integrate(swept, times=[0, 1], rtol=1e-6, atol=1e-9, parameters={"k": 3.0},
                      device="cpu")  # fmt: skip
    np.testing.assert_array_equal(found["concentration"][1, 1], alone["concentration"][0])


@pytest.mark.exhaustive
def test_parts_follow_one_table_of_a_function():
    """Which is as fine as the smallest tolerance of all asks for, in every part."""
    law = ergode.Arrhenius(1e3, 0.0, 2e3)
    network = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant=law)]
    )
    asked = {"times": [0.0, 5.0], "rtol": RTOL, "atol": 1e-9, "device": "cpu"}
    asked["temperature"] = lambda t: 300.0 + 30.0 * np.sin(t)
    whole, parts = integrate(network, **asked), integrate(network, **asked, chunk=1)
    np.testing.assert_array_equal(whole["concentration"], parts["concentration"])
    assert len(set(whole["step_count"].values)) == 3


BURNING = {
    "nuclei": (CARBON, 3e9, 1e7, [1.0, 0.0], 1e-6),
    "molecules": (burning(), 1500.0, 1e-4, [0.2, 0.3, 0.0, 0.5], 1e-6),
}


def cells(kind):
    """A grid of two times two cells of this kind."""
    network, hot, dense, fractions, duration = BURNING[kind]
    grid = np.full((2, 2), hot), np.full((2, 2), dense), np.tile(fractions, (2, 2, 1))
    return network, *grid, duration


@pytest.mark.parametrize(
    ("kind", "heating"),
    [
        ("nuclei", None),
        pytest.param("nuclei", "constant-volume", marks=pytest.mark.exhaustive),
        pytest.param("molecules", "constant-pressure", marks=pytest.mark.exhaustive),
    ],
)
def test_every_cell_is_a_call_of_its_own(kind, heating):
    network, hot, dense, fractions, duration = cells(kind)
    hot[1, 1] = np.nan  # a cell that is left out
    rtol = np.array([[1e-2, 1e-7], [1e-4, 1e-5]])
    atol = np.array([[1e-6, 1e-11], [1e-8, 1e-9]])[..., None]
    options = {"heating": heating, "device": "cpu"}
    with pytest.warns(ergode.FailureWarning, match=r"1 of 4 cells, first cell \(1, 1\)"):
        found = burn(network, hot, dense, fractions, duration, rtol=rtol, atol=atol, **options)
    energies = set()
    for cell in ((0, 0), (0, 1), (1, 0)):
        one = burn(
            network, hot[cell], dense[cell], fractions[cell], duration,
            rtol=rtol[cell], atol=atol[cell][0], **options,
        )  # fmt: skip
        np.testing.assert_array_equal(found.mass_fraction[cell], one.mass_fraction)
        np.testing.assert_allclose(found.energy[cell], one.energy, rtol=1e-13)
        energies.add(float(one.energy))
    assert len(energies) == 3


@pytest.mark.parametrize("kind", BURNING)
def test_rows_of_a_device_are_those_of_the_host(kind):
    """By the kernel of a device, run on the CPU."""
    mechanism = to_tables(BURNING[kind][0])
    count, width = len(mechanism.mass), len(mechanism.mass) + 1
    rtol, atol = np.geomspace(1e-7, 1e-2, 5), np.geomspace(1e-9, 1e-6, 5 * count).reshape(5, count)
    partly = np.where(np.arange(count) == 1, np.nan, atol)
    run = kernels.for_each(_own_tolerances)

    def rows(relative, absolute, complete=0):
        found, out = np.zeros((5, width + 1)), np.zeros((5, 2, width))
        checked = np.zeros(5, np.uint8)
        usual = usual_of(mechanism, 1e-4, 10.0)
        resolve("cpu").run(
            run,
            5,
            relative,
            absolute,
            mechanism.mass,
            usual,
            int(mechanism.molecular),
            complete,
            found,
            out,
            checked,
        )
        np.testing.assert_array_equal(np.isnan(out[:, 0, 0]), checked == Status.INVALID_INPUT)
        return found, checked

    one, nothing = np.array([1e-5]), np.full((1, count), np.nan)
    for relative, absolute in ((rtol, atol), (one, partly), (rtol, nothing), (rtol, atol[:1])):
        found, checked = rows(relative, absolute)
        expected = Tolerances(relative, absolute).rows(mechanism, 10.0, width)
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-15)
        assert not checked.any()
    np.testing.assert_array_equal(rows(rtol, atol[:, :1], 1)[0][:, -1], rtol)
    for place, wrong in enumerate((np.nan, 1e-14, 1.0, -1.0, np.inf)):
        assert rows(np.where(np.arange(5) == place, wrong, rtol), atol)[1].nonzero()[0] == [place]
    for place, wrong in enumerate((np.nan, 0.0, -1.0, np.inf)):
        bad = atol.copy()
        bad[place, 1] = wrong
        assert rows(rtol, bad, 1)[1].nonzero()[0] == [place]


ZONE = r" in zone 1; expected a positive"
REFUSED = [
    ({"rtol": [1e-3, 2.0]}, r"rtol is 2 in zone 1; expected at least 1e-13"),
    ({"rtol": [1e-3, -1.0]}, "rtol is -1" + ZONE),
    ({"rtol": [[1e-3]]}, r"rtol has shape \(1, 1\); expected a number, or one for each zone"),
    ({"rtol": []}, "rtol is"),
    ({"atol": [[1e-3] * 3, [1e-3, 0.0, 1.0]]}, "atol 'B' is 0.0" + ZONE),
    ({"atol": {"B": [1e-3, np.nan]}}, "atol 'B' is nan" + ZONE),
    (
        {"atol": {"A": [1.0] * 3, "B": [1.0] * 2}},
        "atol 'B' has 2 values, and another species has 3",
    ),
    ({"atol": np.ones((2, 2))}, r"atol has shape \(2, 2\); expected a number, one for each of 3"),
]


@pytest.mark.parametrize(("asked", "said"), REFUSED)
def test_what_is_refused(asked, said):
    with pytest.raises(ergode.PlanError, match=said) as caught:
        integrate(ROBERTSON, times=TIMES, device="cpu", **asked)
    assert "\n" not in str(caught.value)


def test_numbers_of_zones_fit():
    with pytest.raises(ergode.ModelError, match="rtol has 3 values and initial 'A' has 4"):
        integrate(ROBERTSON, times=TIMES, rtol=RTOL, initial={"A": [1.0] * 4}, device="cpu")
    network, *given = cells("nuclei")
    with pytest.raises(ergode.PlanError, match=r"rtol has shape \(3,\).* shape \(2, 2\)"):
        burn(network, *given, rtol=RTOL, device="cpu")


@pytest.mark.parametrize("method", EXPLICIT)
def test_explicit_methods_refuse_them(method):
    with pytest.raises(ergode.PlanError, match=f"'{method}' has no tolerances by zone"):
        integrate(ROBERTSON, times=TIMES, rtol=RTOL, method=method, device="cpu")


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23"])
@pytest.mark.parametrize("many", [False, True])
def test_tolerances_by_zone_on_a_device(method, many):
    """By blocks, and by a thread for every zone."""
    count = 20_000 if many else 5
    asked = {
        "rtol": np.geomspace(1e-7, 1e-3, count),
        "atol": np.geomspace(1e-9, 1e-12, count)[:, None],
    }
    one, other = on_both(integrate, ROBERTSON, times=TIMES, method=method, **asked)
    np.testing.assert_array_equal(one["step_count"], other["step_count"])
    np.testing.assert_allclose(one["concentration"], other["concentration"], rtol=1e-8, atol=1e-15)


@pytest.mark.cuda
def test_cells_on_a_device():
    cupy = pytest.importorskip("cupy")
    network, *given, duration = cells("nuclei")
    rtol = np.array([[1e-2, 1e-7], [1e-4, 1e-5]])
    here = burn(network, *given, duration, rtol=rtol, heating="constant-volume", device="cpu")
    given = [cupy.asarray(value) for value in given]
    options = {"heating": "constant-volume"}
    for asked in (rtol, cupy.asarray(rtol)):
        there = burn(network, *given, duration, rtol=asked, **options)
        off = np.abs(cupy.asnumpy(there.mass_fraction) / here.mass_fraction - 1.0)
        assert (off < np.maximum(0.01 * rtol, 1e-8)[..., None]).all()  # steps differ by rounding
    for atol in (np.full((2, 2, 1), 1e-9), np.tile([1e-9, 1e-10], (2, 2, 1))):
        one, other = (
            burn(network, *given, duration, rtol=move(rtol), atol=move(atol), **options)
            for move in (np.asarray, cupy.asarray)
        )
        cupy.testing.assert_array_equal(one.mass_fraction, other.mass_fraction)
    wrong = cupy.asarray(np.where(rtol == 1e-4, np.nan, rtol))
    found = burn(network, *given, duration, rtol=wrong, **options)
    assert cupy.asnumpy(found.status).tolist() == [[0, 0], [int(Status.INVALID_INPUT), 0]]
    with pytest.raises(
        ergode.ModelError, match=r"atol has shape \(2, 2, 3\); expected \(2, 2, 2\)"
    ):
        burn(network, *given, duration, atol=cupy.ones((2, 2, 3)), **options)
