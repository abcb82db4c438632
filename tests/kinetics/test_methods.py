"""Which zones a method of the table refuses."""

import pytest
from kernel_cases import ROBERTSON

from ergode.kinetics.methods import METHODS, choose
from ergode.kinetics.network.to_tables import to_tables
from ergode.kinetics.tables import FIXED, VOLUME


@pytest.mark.parametrize("name", METHODS)
def test_explicit_methods_alone_refuse_zones_that_heat_themselves(name):
    method, reason = choose(name)
    assert method.name == name and reason == "asked for"
    mechanism = to_tables(ROBERTSON)
    assert method.why_unsupported(mechanism, FIXED) is None
    assert (method.why_unsupported(mechanism, VOLUME) is None) == method.implicit


def test_auto_is_a_method_of_the_table():
    method, reason = choose("auto")
    assert METHODS[method.name] is method and "order 4" in reason
