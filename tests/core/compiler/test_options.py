"""Options: what a kernel is made for is declared once and bound by the object itself."""

import pytest

from ergode.core import kernels
from ergode.core.compiler.bundle import bundle
from ergode.core.compiler.language import option

RATE = option(2.0)
SWITCH = option(False)
FUNCTION = option()
UNUSED = option(1.0)


def scaled(x):
    return RATE * x if SWITCH else x


def applied(x):
    return FUNCTION(x) + 1.0


def doubled(x):
    return 2.0 * x


def call(body, x, bindings):
    source = bundle([body], target="cpu", bindings=bindings)
    lines = [line for line in source.text.splitlines() if not line.startswith("from ergode")]
    names = {"device_function": lambda f: f, "kernel": lambda f: f}
    exec("\n".join(lines), names)
    return names[source.entries[0]](x)


def test_an_option_is_its_default_or_what_is_bound_to_it():
    assert call(scaled, 3.0, {}) == 3.0
    assert call(scaled, 3.0, {SWITCH: True}) == 6.0
    assert call(scaled, 3.0, {SWITCH: True, RATE: 5.0}) == 15.0


def test_an_option_can_be_a_function():
    assert call(applied, 3.0, {FUNCTION: doubled}) == 7.0


def test_an_option_that_nothing_uses_is_an_error():
    with pytest.raises(TypeError, match=r"kernel scaled uses what is bound to .*\.UNUSED"):
        bundle([scaled], target="cpu", bindings={UNUSED: 4.0, SWITCH: True})


def outer(x):
    return scaled(x) if SWITCH else x


def test_an_option_may_be_bound_that_is_named_in_a_branch_that_is_dropped():
    assert call(scaled, 3.0, {RATE: 5.0}) == 3.0
    assert call(outer, 3.0, {RATE: 5.0}) == 3.0
    assert call(applied, 3.0, {FUNCTION: outer, RATE: 5.0}) == 4.0


def test_an_option_has_no_value_outside_of_kernels():
    for ask in (bool, lambda one: one(1.0)):
        with pytest.raises(TypeError, match=r"RATE.* has a value only inside"):
            ask(RATE)


@pytest.mark.parametrize("pair", [(1, True), (1, 1.0), (0.0, -0.0), ((1, 2), (1.0, 2.0))])
def test_equal_values_that_are_not_the_same_make_two_kernels(pair):
    one, other = (kernels.cpu_kernel(scaled, bindings={SWITCH: v}) for v in pair)
    assert one.compiled("cpu") is not other.compiled("cpu")
