"""The table of methods, what the docstring of `integrate` says of them, and their refusals."""

import re
import typing
from fractions import Fraction

import pytest

import ergode
from ergode.trajectories import integrate
from ergode.trajectories.methods import METHODS, MethodName


def paragraph():
    """What the docstring says of `method`."""
    found = re.search(r"    method : str\n(.*?)\n    step : float", integrate.__doc__, re.S)
    return re.sub(r"\s+", " ", found[1])


def test_the_docstring_lists_the_methods_of_the_table():
    text = paragraph()
    assert set(re.findall(r'``"([a-z0-9-]+)"``', text)) == {"auto", *METHODS}
    assert set(typing.get_args(MethodName)) == {"auto", *METHODS}


def test_the_docstring_has_the_orders_of_the_table():
    text = paragraph()
    for kind, names in {
        "Explicit": ("tsit5", "dopri5", "dop853", "rk4", "euler"),
        "stiff": ("rosenbrock23", "rodas5p", "kvaerno5"),
    }.items():
        *most, last = (f"{METHODS[name].order:g}" for name in names)
        assert f"of order {', '.join(most)} and {last}" in text, kind
    said = dict(re.findall(r'``"([a-z0-9-]+)"`` \((?:strong )?order ([\d/]+)\)', text))
    noisy = {name: method.order for name, method in METHODS.items() if method.scheme > 0}
    assert {name: float(Fraction(order)) for name, order in said.items()} == noisy


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
