"""Tolerances that are kept: tight ones, one for each species, and the usual ones."""

import numpy as np
import pytest
from kernel_cases import ROBERTSON

import ergode
from ergode.core.status import Status
from ergode.kinetics import integrate

E5 = ergode.ReactionNetwork(
    {"y1": 1.76e-3, "y2": 0, "y3": 0, "y4": 0},
    [
        ergode.Reaction("y1 -> y2 + y3", rate_constant=7.89e-10),
        ergode.Reaction("y1 + y3 -> y4", rate_constant=1.1e7),
        ergode.Reaction("y2 + y3 -> 0", rate_constant=1.13e9),
        ergode.Reaction("y4 -> y3", rate_constant=1.13e3),
    ],
)


@pytest.mark.parametrize("atol", [1e-14, 1e-20, 1e-30])
@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23"])
def test_the_tightest_absolute_tolerances_are_kept(method, atol):
    """They ended in NaN after no step: the first step vanished beside the end."""
    rtol = 1e-6 if method == "rodas4" else 1e-4
    late = integrate(
        ROBERTSON, times=[0, 4e1, 1e11], method=method, rtol=rtol, atol=atol, device="cpu"
    )
    assert late["status"].item() == Status.DONE
    # E. Hairer, G. Wanner (1996), IV.10, to 1e11.
    np.testing.assert_allclose(
        late["concentration"].values[0, 1:],
        [[0.715827069, 9.18553476e-6, 0.284163746], [2.083340149e-8, 8.333360770e-14, 1.0]],
        rtol=100 * rtol, atol=1e-9 if atol > 1e-20 else 0,
    )  # fmt: skip
    e5 = integrate(E5, times=[0, 1e13], method=method, rtol=rtol, atol=1e-10 * atol, device="cpu")
    assert e5["status"].item() == Status.DONE
    # F. Mazzia, C. Magherini, test set for initial value problems, release 2.4: E5.
    np.testing.assert_allclose(
        e5["concentration"].values[0, -1],
        [0.0, 8.867655517642120e-23, 8.854814626268838e-23, 0.0],
        rtol=3e-2, atol=1e-26,
    )  # fmt: skip


def test_every_species_may_have_its_own():
    options = {"times": [0, 40], "rtol": 1e-3, "device": "cpu"}
    loose = integrate(ROBERTSON, atol=1e-2, **options)
    named = integrate(ROBERTSON, atol={"B": 1e-12, "A": 1e-2}, **options)
    listed = integrate(ROBERTSON, atol=[1e-2, 1e-12, 1e-12], **options)
    exact = 9.18553476e-6
    errors = [abs(r["concentration"].values[0, -1, 1] / exact - 1) for r in (loose, named, listed)]
    assert errors[0] > 10 * errors[1] and errors[1] < 1e-3
    assert errors[2] < 1e-3
    assert named.attrs["atol"][:2] == [1e-2, 1e-12] and loose.attrs["atol"] == 1e-2
    for bad, said in (
        ({"D": 1.0}, "'D'"), ([1.0, 1.0], r"shape \(2,\)"), ([1.0, -1.0, 1.0], "'B' is -1"),
        (0.0, "atol is 0.0"), ("a", "atol is 'a'"), ({"A": np.nan}, "'A' is nan"),
    ):  # fmt: skip
        with pytest.raises(ergode.PlanError, match=said):
            integrate(ROBERTSON, atol=bad, **options)


def test_the_usual_one_follows_rtol_and_is_told():
    """With 1e-8 whatever the rtol, errors stayed where they were."""
    usual = {
        rtol: integrate(ROBERTSON, times=[0, 1], rtol=rtol, device="cpu").attrs["atol"]
        for rtol in (1e-2, np.float32(1e-4), 1e-6, 1e-10)
    }
    np.testing.assert_allclose(list(usual.values()), [1e-12, 1e-12, 1e-14, 1e-18], rtol=1e-6)


@pytest.mark.slow
def test_nuclei_follow_rtol(fern):
    from type_ia import TYPE_IA

    found = [
        integrate(fern, times=[0, 1e-9], rtol=rtol, device="cpu", **TYPE_IA)["mass_fraction"]
        for rtol in (1e-4, 1e-6, 1e-9)
    ]
    errors = [np.abs(one - found[2])[0, -1].sum().item() for one in found[:2]]
    assert errors[1] < 0.05 * errors[0]
