"""A misspelt keyword of anything public is answered with the one that was meant."""

import inspect
import pickle
from types import FunctionType

import pytest

import ergode

MODULES = (ergode, *(getattr(ergode, name) for name in ergode._MODULES))


def public_calls():
    """Functions, constructors and methods, and what stands for `self`."""
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, FunctionType):
                yield f"{module.__name__}.{name}", value, ()
            elif isinstance(value, type) and not issubclass(value, Exception | int | tuple):
                yield name, value.__init__, (None,)
                for key, method in vars(value).items():
                    if key.startswith("_"):
                        continue
                    if isinstance(method, classmethod | staticmethod):
                        yield f"{name}.{key}", getattr(value, key), ()
                    elif isinstance(method, FunctionType):
                        yield f"{name}.{key}", method, (None,)


def test_a_misspelt_keyword_is_answered():
    asked = 0
    for name, call, given in public_calls():
        parameters = list(inspect.signature(call).parameters.values())[len(given) :]
        known = [one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY]
        if not known or any(one.kind is one.VAR_KEYWORD for one in parameters):
            continue
        longest, asked = max(known, key=len), asked + 1
        with pytest.raises(TypeError) as caught:
            call(*given, **{f"{longest}_": None})
        said = str(caught.value)
        expected = f"() has no argument '{longest}_'; did you mean '{longest}'?"
        assert said.endswith(expected) and "\n" not in said, name
    assert asked > 150


def test_a_keyword_like_no_other_is_answered_with_all():
    with pytest.raises(TypeError) as caught:
        ergode.LogNormal(mean=1.0, qqq=2.0)
    assert str(caught.value) == (
        "LogNormal() has no argument 'qqq'; expected mean, median, sd, mu, sigma"
    )


def test_the_name_is_the_public_one():
    with pytest.raises(
        TypeError, match=r"^Device\(\) has no argument 'devce'; did you mean 'device'"
    ):
        ergode.Device(devce="cpu")


def test_keywords_that_are_passed_on_are_answered_by_the_function_that_takes_them():
    section = ergode.trajectories.ZeroCrossing(lambda t, y, p: (y[0],), name="section")
    with pytest.raises(TypeError, match=r"^integrate\(\) has no argument 'metod'; did you mean"):
        ergode.trajectories.poincare_section(
            ergode.fields.pendulum(), section=section, initial=[[0.1, 0.0]], duration=1.0,
            metod="rk4",
        )  # fmt: skip


def test_errors_of_types_inside_a_call_are_left_as_they_are():
    def broken(y, t, p):
        raise TypeError("of the user")

    with pytest.raises(TypeError, match="positional argument"):
        ergode.read_sbml(1, 2, 3)
    with pytest.raises(TypeError, match="of the user"):
        ergode.grid(rate=[1.0], other=broken(0, 0, 0))


def test_public_functions_keep_their_signatures_and_can_be_pickled():
    for call in (ergode.read_sbml, ergode.stochastic.simulate, ergode.epidemics.summary):
        assert pickle.loads(pickle.dumps(call)) is call
        assert inspect.signature(call) == inspect.signature(inspect.unwrap(call))
        assert call.__doc__


@pytest.mark.parametrize(
    ("engine", "call", "argument"),
    [
        ("epidemics", "simulate", "initial"),
        ("trajectories", "integrate", "initial"),
        ("density", "propagate", "prior"),
        ("particles", "propagate", "prior"),
        ("kinetics", "burn", "mass_fraction"),
        ("stochastic", "simulate", "network"),
    ],
)
def test_a_missing_argument_is_named_with_what_it_is(engine, call, argument):
    with pytest.raises(ergode.ModelError, match=rf"{call}\(\) needs .*'{argument}' \(.+\)"):
        getattr(getattr(ergode, engine), call)()


def test_arguments_by_position_that_go_by_name():
    with pytest.raises(TypeError, match=r"^Exponential\(\) takes no positional .*: rate, mean$"):
        ergode.Exponential(5.0)
    with pytest.raises(TypeError, match=r"'dataset' by position and by name"):
        ergode.save(1, "x.nc", dataset=2)
