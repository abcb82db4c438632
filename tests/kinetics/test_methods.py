"""The table of methods is what the entry says, and what it refuses."""

import re
from typing import get_args, get_type_hints

import pytest

import ergode
from ergode.kinetics.integrate import integrate
from ergode.kinetics.methods import METHODS, choose
from ergode.kinetics.tables import FIXED, VOLUME


def test_the_docstring_and_the_hint_list_the_methods_of_the_table():
    listed = re.search(r"method : \{([^}]*)\}", integrate.__doc__)[1]
    assert re.findall(r'"([^"]+)"', listed) == ["auto", *METHODS]
    hint = get_type_hints(integrate, localns={"xarray": __import__("xarray")})["method"]
    assert list(get_args(hint)) == ["auto", *METHODS]


def test_an_unknown_method_is_refused_with_the_names_of_the_table():
    network = ergode.ReactionNetwork({"A": 1}, [ergode.Reaction("A -> 0", rate_constant=1.0)])
    with pytest.raises(ergode.PlanError, match="'euler' is unknown") as refused:
        integrate(network, times=[0, 1], method="euler")
    assert all(repr(name) in str(refused.value) for name in ("auto", *METHODS))


@pytest.mark.parametrize("name", METHODS)
def test_explicit_methods_alone_refuse_zones_that_heat_themselves(name):
    method, reason = choose(name)
    assert method.name == name and reason == "asked for"
    assert method.why_unsupported(FIXED) is None
    assert (method.why_unsupported(VOLUME) is None) == method.implicit


def test_auto_is_a_method_of_the_table():
    method, reason = choose("auto")
    assert METHODS[method.name] is method and "order 4" in reason
