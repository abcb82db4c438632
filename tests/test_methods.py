"""In every engine the table of methods is what users read, and what is refused by name."""

import re
import runpy
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

import ergode

DOCS = Path(__file__).parents[1] / "docs"
DECAY = ergode.ReactionNetwork({"A": 1}, [ergode.Reaction("A -> 0", rate_constant=1.0)])
FIELD = ergode.field_from_equations({"x": "-x"})


class Entry(NamedTuple):
    """What takes a method's name, under which argument, and the least it can be called with."""

    function: object
    options: tuple
    keywords: dict
    argument: str = "method"


ENTRIES = {
    "epidemics": Entry(
        ergode.epidemics.simulate,
        (
            ergode.CompartmentModel.si(transmission_rate=1.0),
            ergode.ContactNetwork.from_edges([0], [1]),
        ),
        {"initial": {"I": 1}},
    ),
    "stochastic": Entry(ergode.stochastic.simulate, (DECAY,), {}),
    "kinetics": Entry(ergode.kinetics.integrate, (DECAY,), {}),
    "trajectories": Entry(ergode.trajectories.integrate, (FIELD,), {"initial": {"x": 1.0}}),
    "density": Entry(
        ergode.density.propagate, (FIELD, ergode.Gaussian([1.0], [1.0])), {}, "scheme"
    ),
}
ENGINES = pytest.mark.parametrize("engine", ENTRIES)


def table(engine):
    """The records of an engine, and all names that users may give."""
    methods = import_module(f"ergode.{engine}.methods")
    literal = getattr(methods, "MethodName", None) or methods.SchemeName
    return methods.METHODS, get_args(literal)


@ENGINES
def test_the_type_lists_the_names_of_the_table(engine):
    methods, names = table(engine)
    assert [name for name in names if name != "auto"] == list(methods)
    assert all(name == method.name for name, method in methods.items())


@ENGINES
def test_the_docstring_has_a_line_for_each_record(engine):
    entry, (methods, _) = ENTRIES[engine], table(engine)
    part = re.search(
        rf"^    {entry.argument} : str\n(.*?)^    \w", entry.function.__doc__, re.M | re.S
    )[1]
    listed = re.findall(r"^        - (.*?)(?=^        - |\Z)", part, re.M | re.S)
    expected = [f'``"{one.name}"``: {one.summary}; for {one.use}' for one in methods.values()]
    assert [" ".join(line.split()) for line in listed] == expected, "expected:\n" + "\n".join(
        f"- {line}" for line in expected
    )


@ENGINES
def test_a_page_has_the_table(engine):
    tables = runpy.run_path(str(DOCS / "conf.py"))["myst_substitutions"]
    made, features = tables[f"{engine}_methods"], tables.get(f"{engine}_features")
    assert all(f'| `"{one.name}"` | {one.summary} |' in made for one in table(engine)[0].values())
    assert features is None or all(f'| `"{one}"` |' in features for one in table(engine)[0])
    pages = " ".join(page.read_text() for page in DOCS.rglob("*.md"))
    assert pages.count(f"{{{{ {engine}_methods }}}}") == 1
    assert pages.count(f"{{{{ {engine}_features }}}}") == (features is not None)


@ENGINES
def test_an_unknown_name_is_refused_with_the_names_of_the_table(engine):
    entry, (_, names) = ENTRIES[engine], table(engine)
    with pytest.raises(ergode.PlanError, match=f"{entry.argument} 'none' is unknown") as refused:
        entry.function(
            *entry.options, times=[0.0, 1.0], **entry.keywords, **{entry.argument: "none"}
        )
    assert all(repr(name) in str(refused.value) for name in names)


CALLED = {
    "epidemics": {
        "method": {"SSA": "gillespie", "tau_leaping": "markov-leap", "fast_SIR": "first-passage",
                   "selke": "sellke"},
        "output": {"line-list": "line_list", "summary": "statistics"},
        "precision": {"double": "float64"}, "device": {"gpu": "cuda", "CPU:2": "cpu"},
    },
    "stochastic": {
        "method": {"Gillespie": "direct", "nrm": "next-reaction", "TauLeaping": "tau-leap",
                   "CLE": "langevin", "lagnevin": "langevin"},
        "output": {"timeseries": "trajectories", "moments": "statistics", "last": "final"},
        "device": {"cdua": "cuda"},
    },
    "kinetics": {
        "method": {"BDF": "bdf", "Radau": "rodas4", "QSSA": "asymptotic"},
        "heating": {"isochoric": "constant-volume", "constant_pressure": "constant-pressure"},
        "screening": {"Chugunov": "chugunov"}, "equation_of_state": {"timmes": "helmholtz"},
    },
    "trajectories": {
        "method": {"RK45": "dopri5", "ode45": "dopri5", "LSODA": "bdf", "Tsit_5": "tsit5",
                   "DOP853": "dop853", "leapfrog": "verlet", "rk5": "rk4"},
        "precision": {"fp32": "float32"},
    },
    "density": {
        "scheme": {"strang": "split", "GBEES": "corner-transport"}, "keep": {"final": "last"},
        "axes": {"principle": "principal"}, "device": {"host": "cpu"},
    },
}  # fmt: skip
NAMES = [
    (engine, argument, given, ours)
    for engine, arguments in CALLED.items()
    for argument, names in arguments.items()
    for given, ours in names.items()
]


@pytest.mark.parametrize(("engine", "argument", "given", "ours"), NAMES)
def test_what_is_called_otherwise_or_misspelt_is_suggested(engine, argument, given, ours):
    entry = ENTRIES[engine]
    options = {"times": [0.0, 1.0], **entry.keywords, argument: given}
    with pytest.raises(ergode.ErgodeError, match=rf"; did you mean '{ours}'\?$") as refused:
        entry.function(*entry.options, **options)
    assert "\n" not in str(refused.value)


def test_far_from_every_name_nothing_is_suggested():
    with pytest.raises(ergode.PlanError) as refused:
        ergode.trajectories.integrate(FIELD, times=[0, 1], initial={"x": 1.0}, method="qqq")
    assert "did you mean" not in str(refused.value)


@ENGINES
def test_who_is_not_exact_says_so(engine):
    for method in table(engine)[0].values():
        assert ("approximation" in method.summary) != getattr(method, "exact", True)
