"""Names of other packages stand for ours that exist."""

import inspect
from contextlib import suppress
from typing import get_args

import pytest

import ergode
from ergode.core.arguments import did_you_mean
from ergode.core.synonyms import OTHERS, plain
from ergode.kinetics.network.to_tables import SCREENING


def names_of(annotation):
    """The texts in a type, which may be written as text."""
    for one in get_args(annotation):
        if isinstance(one, str):
            yield one
        yield from names_of(one)


def arguments_and_values():
    """Names of all arguments of public functions, and the names that these take."""
    modules = (ergode, *(getattr(ergode, name) for name in ergode._MODULES))
    public = [getattr(module, name) for module in modules for name in module.__all__]
    for kind in filter(inspect.isclass, public):
        calls = (kind, *(one for _, one in inspect.getmembers(kind, inspect.ismethod)))
        for call in calls:
            with suppress(ValueError):  # a class of C
                yield from inspect.signature(call).parameters
    for value in public:
        if inspect.isfunction(value):
            names = vars(inspect.getmodule(inspect.unwrap(value)))
            for name, one in inspect.signature(value).parameters.items():
                yield name
                with suppress(NameError, TypeError):  # types that only mypy imports
                    yield from names_of(eval(str(one.annotation), names))


def test_ours_exist_and_others_are_plain():
    known = {"cuda", "cpu", "auto", *SCREENING, *arguments_and_values()}
    assert not set(OTHERS) - known
    for ours, others in OTHERS.items():
        assert all(plain(one) == one for one in others)
        assert plain(ours) not in others


def test_a_name_of_the_same_letters_comes_first():
    assert did_you_mean("GILLESPIE", ["direct", "gillespie"]) == "; did you mean 'gillespie'?"
    assert did_you_mean("SSA", ["direct", "gillespie"]) == "; did you mean 'direct'?"
    assert did_you_mean("time_grid", ["beta", "time-grid"]) == "; did you mean 'time-grid'?"
    assert did_you_mean("-", ["alpha", "+"]) == ""


@pytest.mark.parametrize(
    ("given", "ours"), [("dt", "step"), ("y0", "initial"), ("random_state", "seed")]
)
def test_arguments_of_functions_have_other_names(given, ours):
    with pytest.raises(TypeError, match=f"did you mean '{ours}'"):
        ergode.trajectories.integrate(None, **{given: 1})


@pytest.mark.parametrize(
    ("call", "given", "ours"),
    [
        (ergode.CompartmentModel.sir, "recovery_rate", "infectious"),
        (ergode.CompartmentModel.seir, "beta", "transmission_rate"),
        (ergode.Reaction, "k", "rate_constant"),
        (ergode.kinetics.ignition_delay, "phi", "equivalence_ratio"),
    ],
)
def test_arguments_of_models_have_other_names(call, given, ours):
    with pytest.raises(TypeError, match=f"did you mean '{ours}'"):
        call(**{given: 1})
