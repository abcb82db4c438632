"""The table of methods: orders, refusals, and what ``"auto"`` takes."""

import re
from fractions import Fraction

import pytest

import ergode
from ergode.trajectories import integrate
from ergode.trajectories.methods import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_the_summary_has_the_order(name):
    said = re.search(r"order ([\d/]+)", METHODS[name].summary)[1]
    assert float(Fraction(said)) == METHODS[name].order


def rotation(t, y, p):
    return y[1], -y[0]


def loud(t, y, p):
    return 0.1 * y[1], 0.1


PLAIN = ergode.VectorField(rotation, ["x", "v"])
NOISY = ergode.VectorField(rotation, ["x", "v"], diffusion=loud)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_refuses_the_other_kind_of_field(name):
    """Methods for noise refuse a field without a diffusion; the others refuse one with it."""
    field = PLAIN if METHODS[name].scheme else NOISY
    with pytest.raises(ergode.PlanError, match="diffusion"):
        integrate(
            field, times=[0.0, 1.0], initial={"x": 1.0, "v": 0.0}, step=0.1, method=name,
            device="cpu",
        )  # fmt: skip


def test_auto_takes_the_method_that_the_table_says():
    for field, step, name in ((PLAIN, 0.1, "rk4"), (PLAIN, None, "tsit5"), (NOISY, 0.1, None)):
        reasons = {
            one.name: why
            for one in METHODS.values()
            if (why := one.why_automatic(field, step)) is not None
        }
        assert len(reasons) == 1
        result = integrate(
            field, times=[0.0, 1.0], initial={"x": 1.0, "v": 0.0}, step=step, device="cpu:1"
        )
        (expected,) = reasons
        assert result.attrs["method"] == expected == (name or "euler-maruyama")
        assert result.attrs["method_reason"] == reasons[expected]
