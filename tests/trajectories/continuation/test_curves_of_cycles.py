"""Curves of folds, period doublings and tori of cycles in two parameters, against exact ones."""

import numpy as np
import pytest

import ergode
from ergode.trajectories import branch


def test_folds_of_cycles_from_a_bautin_point_through_a_cusp(special, names):
    """R = x^2 + y^2 of a cycle has 0 = mu + a R + 3 R^2 - R^3, and a fold where its slope is 0."""
    square = "(x**2 + y**2)"
    rate = f"(mu + {square} * (a + {square} * (3 - {square})))"
    field = ergode.field_from_equations(
        {"x": f"x * {rate} - 2 * y", "y": f"y * {rate} + 2 * x"}, ["mu", "a"]
    )
    rest = branch(
        field, start={"x": 0, "y": 0}, parameters={"mu": -0.5, "a": -2.5}, vary={"mu": (-1, 2)}
    )
    cycles = branch(field, start=rest, at="hopf-1", kind="cycles", vary={"mu": (-1, 2)})
    bounds = {"mu": (-3, 2), "a": (-4, 3)}
    found = branch(field, start=cycles, at="fold-1", kind="folds", vary=bounds, max_step=0.15)
    assert sorted(names(found)) == ["bautin-1", "bound-1", "cusp-1"]
    ends = {found.attrs["first_end"], found.attrs["last_end"]}
    assert "The cycles shrank to an equilibrium, at a Bautin point." in ends
    squares = found["highest"].sel(variable="x") ** 2
    exact = 3 * squares**2 - 6 * squares
    np.testing.assert_allclose(found["a"], exact, rtol=1e-7, atol=1e-9)
    a = found["a"]
    folds = [np.roots([-3, 6, float(one)]) for one in a]  # those of R at which the slope is 0
    nearest = np.array(
        [two[np.abs(two - float(r)).argmin()] for two, r in zip(folds, squares, strict=True)]
    )
    np.testing.assert_allclose(
        found["mu"], (nearest**3 - 3 * nearest**2 - a * nearest).real, atol=1e-6
    )
    cusp, bautin = special(found, "cusp-1"), special(found, "bautin-1")
    np.testing.assert_allclose([cusp["mu"], cusp["a"]], [1, -3], atol=1e-7)
    np.testing.assert_allclose([bautin["mu"], bautin["a"]], 0, atol=1e-9)
    with pytest.raises(ergode.PlanError, match=r"doublings of cycles start at a point such as"):
        branch(field, start=cycles, at="fold-1", kind="doublings", vary=bounds)
    with pytest.raises(ergode.PlanError, match="tori start at cycles"):
        branch(field, start=rest, at="hopf-1", kind="tori", vary=bounds)


def test_period_doublings_of_a_moebius_strip(special, names):
    """Beside the unit circle, s in a frame that makes half a turn in a period.

    s' = (l + w) s + b s^3 - s^5 and w' = n - w^2: the period doubles at w = -l, generalised at
    b = 0, and beside a fold at n = 0.
    """
    s_u, s_v = "((1 + x) * u + y * v) / 2", "(y * u + (1 - x) * v) / 2"
    square = "((1 + x) * u**2 + (1 - x) * v**2 + 2 * y * u * v) / 2"
    rate = f"(1 + l + w + {square} * (b - {square}))"
    field = ergode.field_from_equations({
        "x": "x - 3 * y - x * (x**2 + y**2)", "y": "3 * x + y - y * (x**2 + y**2)",
        "u": f"-u - 1.5 * v + {rate} * ({s_u})", "v": f"-v + 1.5 * u + {rate} * ({s_v})",
        "w": "n - w**2",
    }, ["l", "b", "n"])  # fmt: skip
    known = {"l": -1.3, "b": -0.5, "n": 1}
    run = ergode.trajectories.integrate(
        field, times=np.linspace(0, 4.6, 200), initial={"x": 1, "y": 0, "u": 0, "v": 0, "w": 1},
        rtol=1e-10, parameters=known, device="cpu",
    )  # fmt: skip
    cycles = branch(
        field, start=run, kind="cycles", parameters=known, vary={"l": (-1.5, -0.7)}, max_step=0.3
    )
    options = {"start": cycles, "at": "doubling-1", "kind": "doublings", "max_step": 0.3}
    found = branch(field, vary={"l": (-2, 1), "b": (-1, 1)}, **options)
    assert names(found) == ["bound-1", "generalised-doubling-1", "bound-2"]
    np.testing.assert_allclose(found["l"], -1, atol=1e-9)
    assert abs(float(special(found, "generalised-doubling-1")["b"])) < 1e-6
    bounds = {"l": (-2, 1), "n": (-1, 2)}
    found = branch(field, vary=bounds, **options)
    assert names(found) == ["bound-1", "fold-flip-1", "bound-2"]
    np.testing.assert_allclose(found["n"], found["l"] ** 2, atol=1e-9)
    assert abs(float(special(found, "fold-flip-1")["l"])) < 1e-7
    folds = branch(
        field, start=found, at="fold-flip-1", kind="folds", vary=bounds, max_step=0.3, max_points=3
    )
    np.testing.assert_allclose(folds["n"], 0, atol=1e-9)
    assert np.ptp(folds["l"].values) > 0.5
