"""Cycles that are hard to follow: canard explosions, relaxations, and unresolved ends."""

import numpy as np
import pytest

import ergode
from ergode.trajectories import branch


def test_folds_within_a_canard_explosion(special, names):
    """FitzHugh-Nagumo is symmetric about I = 0.875; so are its folds, near which the
    parameter hardly changes."""
    field = ergode.field_from_equations(
        {"v": "v - v**3 / 3 - w + I", "w": "0.08 * (v + 0.7 - 0.8 * w)"}, ["I"]
    )
    vary = {"I": (-1, 3)}
    rest = branch(field, start={"v": -1.2, "w": -0.6}, parameters={"I": 0}, vary=vary)
    options = {"start": rest, "kind": "cycles", "vary": vary, "max_step": 0.1, "max_points": 50}
    found = branch(field, at="hopf-2", **options)
    assert names(found) == ["hopf-1", "fold-1"]
    assert float(special(found, "fold-1")["I"]) == pytest.approx(1.4258214775, abs=2e-10)
    fold = list(found["special"].values).index("fold-1")
    assert not found["stable"].values[1:fold].any()
    assert found["stable"].values[fold + 1 :].all()


def test_cycles_that_cannot_be_resolved_end_with_a_warning(names):
    """Without crowding, e = 0, the cycles of Lotka and Volterra form one family."""
    field = ergode.field_from_equations({"x": "x - x * y - e * x**2", "y": "x * y - y"})
    vary = {"e": (-0.5, 0.5)}
    rest = branch(field, start={"x": 1, "y": 1}, parameters={"e": -0.3}, vary=vary)
    with pytest.warns(ergode.FailureWarning, match="too hard to resolve"):
        found = branch(field, start=rest, at="hopf-1", kind="cycles", vary=vary, max_step=0.1)
    assert found.attrs["last_end"].startswith("The cycles are too hard to resolve")
    assert names(found) == ["hopf-1"]
    np.testing.assert_allclose(found["e"], 0, atol=1e-6)
    assert float(found["period"][-1]) > 36


@pytest.mark.parametrize(
    ("equations", "parameters", "name", "exact", "span"),
    [
        # The period of the Mackey-Glass equation is that of the branch itself, on finer meshes.
        ({"x": "-x + p / (1 + x(t - tau)**8)"}, {"p": 2.0, "tau": 1.0}, "tau", 3.06877119, 3.07),
        # Van der Pol's relaxation: the period by time integration (LSODA, rtol 1e-12).
        ({"x": "y", "y": "mu * (1 - x**2) * y - x"}, {"mu": 20.0}, "mu", 34.68232331, 34.7),
    ],
)
def test_a_trajectory_may_end_at_any_phase(equations, parameters, name, exact, span):
    field = ergode.field_from_equations(equations)
    times = [0, *np.linspace(300 - 3.2 * span, 300, 640)]
    initial = {"x": 0.8, "y": 0} if "y" in equations else {"x": 0.8}
    run = ergode.trajectories.integrate(
        field, times=times, initial=initial, parameters=parameters, rtol=1e-9, atol=1e-9,
        device="cpu",
    )  # fmt: skip
    middle = parameters[name]
    for end in range(440, 640, 33):
        found = branch(
            field, start=run.isel(time=slice(end)), kind="cycles", parameters=parameters,
            vary={name: (0.9 * middle, 1.1 * middle)}, max_points=1,
        )  # fmt: skip
        start = found.isel(point=int(np.abs(found["arclength"].values).argmin()))
        assert float(start[name]) == pytest.approx(middle, rel=1e-12)
        assert float(start["period"]) == pytest.approx(exact, rel=1e-8)
        assert bool(start["stable"])


def test_doubled_cycles_end_where_they_meet_the_single_one(special):
    """The neuron of Hindmarsh and Rose: doubled cycles between two period doublings."""
    field = ergode.field_from_equations(
        {"x": "y - x**3 + 3 * x**2 + I - z", "y": "1 - 5 * x**2 - y",
         "z": "0.01 * (4 * (x + 1.6) - z)"}, ["I"],
    )  # fmt: skip
    vary = {"I": (5.28, 5.45)}
    rest = branch(field, start={"x": 0, "y": 1, "z": 6.4}, parameters={"I": 5.4}, vary=vary)
    options = {"kind": "cycles", "vary": vary, "max_step": 0.1}
    single = branch(field, start=rest, at="hopf-1", max_points=24, **options)
    double = branch(field, start=single, at="doubling-1", max_points=30, **options)
    assert double.attrs["last_end"].startswith("The cycles met the cycle of half their period")
    end, other = double.isel(point=-1), special(single, "doubling-2")
    assert str(end["special"].values) == "branch-1"
    assert float(end["I"]) == pytest.approx(float(other["I"]), abs=1e-7)
    assert float(end["period"]) == pytest.approx(2 * float(other["period"]), rel=1e-6)
