import numpy as np
import pytest

import ergode
from ergode.plots import branches
from ergode.trajectories import branch


@pytest.fixture(scope="module")
def field():
    return ergode.field_from_equations({
        "x": "mu * x - 2 * y + a * x * (x**2 + y**2) - x * (x**2 + y**2)**2",
        "y": "2 * x + mu * y + a * y * (x**2 + y**2) - y * (x**2 + y**2)**2",
    })  # fmt: skip


@pytest.fixture(scope="module")
def rest(field):
    return branch(
        field, start={"x": 0, "y": 0}, parameters={"mu": -1, "a": 1}, vary={"mu": (-1, 1)}
    )


@pytest.fixture(scope="module")
def cycles(field, rest):
    return branch(field, start=rest, at="hopf-1", kind="cycles", vary={"mu": (-1, 1)})


def _labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_stable_is_solid_unstable_dashed_and_special_points_are_marked(rest, cycles):
    ax = branches([rest, cycles], variable="y")
    assert ax.get_xlabel() == "mu"
    assert ax.get_ylabel() == "y"
    assert sorted(_labels(ax)) == sorted([
        "stable equilibria", "unstable equilibria", "stable cycles", "unstable cycles",
        "Hopf point", "fold",
    ])  # fmt: skip
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["stable equilibria"].get_linestyle() == "-"
    assert lines["unstable cycles"].get_linestyle() == "--"
    assert lines["stable equilibria"].get_xdata().max() == pytest.approx(0, abs=1e-9)
    assert lines["unstable equilibria"].get_xdata().min() == pytest.approx(0, abs=1e-9)
    # The cycles are unstable up to the fold at -a^2 / 4, and stable from there on.
    assert lines["unstable cycles"].get_xdata().min() == pytest.approx(-0.25)
    assert lines["stable cycles"].get_xdata().min() == pytest.approx(-0.25)
    fold = lines["fold"]
    np.testing.assert_allclose(fold.get_xdata(), -0.25)
    np.testing.assert_allclose(np.sort(fold.get_ydata()), [-(0.5**0.5), 0.5**0.5], rtol=1e-6)


def test_periods(rest, cycles):
    ax = branches([rest, cycles], variable="period")
    assert ax.get_ylabel() == "period"
    np.testing.assert_allclose(np.concatenate([line.get_ydata() for line in ax.lines]), np.pi)


def test_curves_in_two_parameters(field, rest):
    curve = branch(field, start=rest, at="hopf-1", kind="hopf", vary={"mu": (-1, 1), "a": (-1, 2)})
    ax = branches(curve)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("mu", "a")
    assert _labels(ax) == ["Hopf points", "Bautin point"]
    with pytest.raises(ergode.PlanError, match="variable has no effect"):
        branches(curve, variable="x")
    with pytest.raises(ergode.PlanError, match="a branch varies mu and the first one mu, a"):
        branches([curve, rest])


def test_what_is_no_branch_is_refused(rest, cycles):
    with pytest.raises(ergode.PlanError, match="there are no branches"):
        branches([])
    with pytest.raises(ergode.PlanError, match="has no branch; expected one from"):
        branches(rest.isel(point=0))
    with pytest.raises(ergode.PlanError, match="has no variable 'z'"):
        branches(rest, variable="z")
    with pytest.raises(ergode.PlanError, match="no branch has a period"):
        branches(rest, variable="period")
    with pytest.raises(ergode.PlanError, match="dataset is NoneType; expected a branch"):
        branches(None)
    with pytest.raises(ergode.PlanError, match="one variable of a branch only"):
        branches(cycles.sel(variable="y"))
    with pytest.raises(ergode.PlanError, match="ax is 3; expected axes"):
        branches(rest, ax=3)
