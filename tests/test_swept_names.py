"""What is swept labels the result, and cannot be called like something else in it."""

from functools import partial

import numpy as np
import pytest

import ergode
from ergode.core import results
from ergode.core.compiler.syntax import function_from_text

TIMES = [0.0, 1.0]
CONTACTS = ergode.ContactNetwork.from_edges([0], [1])


def epidemics(output, parameters):
    (name,) = parameters
    model = function_from_text(
        f"def model({name}):\n    return si(transmission_rate={name})\n",
        {"si": ergode.CompartmentModel.si},
    )
    return ergode.epidemics.simulate(
        model, CONTACTS, initial={"I": 1}, times=TIMES, parameters=parameters, output=output,
        device="cpu:1",
    )  # fmt: skip


def stochastic(output, parameters):
    (name,) = parameters
    network = ergode.ReactionNetwork(
        {"A": 3}, [ergode.Reaction("A -> 0", rate_constant=1.0)], parameters={name: 1.0}
    )
    stop = {"stop": "A < 2"} if output == "first-passage" else {}
    return ergode.stochastic.simulate(
        network, times=TIMES, parameters=parameters, output=output, device="cpu:1", **stop
    )


def concentrations(output, parameters):
    (name,) = parameters
    network = ergode.ReactionNetwork(
        {"A": 1}, [ergode.Reaction("A -> 0", rate_constant=name)], parameters={name: 1.0}
    )
    return ergode.kinetics.integrate(network, times=TIMES, parameters=parameters, device="cpu:1")


def nuclei(output, parameters):
    """Amounts are swept in a grid alone; an array of them is that of zones."""
    (name,) = parameters
    network = ergode.ReactionNetwork(
        [ergode.Species(name, mass_number=4, charge_number=2)],
        [ergode.Reaction({name: 2}, {}, rate_constant=ergode.Reaclib([(0.0,) * 7], 0.5))],
    )
    return ergode.kinetics.integrate(
        network, times=TIMES, initial=ergode.grid(**parameters), temperature=1e9, density=1e8,
        device="cpu:1",
    )  # fmt: skip


def field_of(parameters):
    return ergode.VectorField(decay, ["x"], list(parameters))


def decay(t, y, p):
    return (-p[0] * y[0],)


def of_field(analysis, output, parameters, **options):
    return getattr(ergode.trajectories, analysis)(
        field_of(parameters), initial={"x": 1.0}, parameters=parameters, device="cpu:1", **options
    )


def a_branch(output, parameters):
    return ergode.trajectories.branch(
        field_of(parameters), start={"x": 1.0}, parameters=parameters,
        vary=dict.fromkeys(parameters, (0.1, 2.0)),
    )  # fmt: skip


def density(output, parameters):
    return ergode.density.propagate(
        field_of(parameters), ergode.Gaussian([1.0], [0.04]), times=TIMES, parameters=parameters,
        device="cpu:1",
    )  # fmt: skip


def initial_states(output, initial):
    return ergode.trajectories.integrate(
        ergode.VectorField(decay, list(initial), ["k"]), times=TIMES, initial=initial,
        parameters={"k": 1.0}, dense_output=True, device="cpu:1",
    )  # fmt: skip


integrate = partial(of_field, "integrate", times=TIMES, dense_output=True)
CALLS = [
    *(("epidemics", one, epidemics) for one in ("counts", "statistics", "line_list")),
    *(
        ("stochastic", one, stochastic)
        for one in ("trajectories", "statistics", "histogram", "final", "first-passage", "events")
    ),
    ("kinetics", "concentrations", concentrations),
    ("kinetics", "nuclei", nuclei),
    ("trajectories", "states", integrate),
    ("trajectories", "states", initial_states),
    ("trajectories", "sections", partial(of_field, "poincare_section", section="x", duration=1)),
    ("trajectories", "basins", partial(of_field, "basins", duration=1, tolerance=0.1)),
    ("trajectories", "branches", a_branch),
    ("trajectories", "exponents", partial(of_field, "lyapunov_spectrum", duration=1)),
    (
        "trajectories",
        "sensitivities",
        partial(of_field, "sensitivities", with_respect_to=["x"], times=TIMES),
    ),
    (
        "trajectories",
        "fit",
        partial(of_field, "fit", estimate=["x"], data={"x": [1, 1]}, times=TIMES),
    ),
    ("density", "moments", density),
]
OWN = {
    "counts": {
        "count",
        "status",
        "time",
        "compartment",
        "stratum",
        "replicate",
        "interval",
        "incidence",
        "attack_rate",
        "peak_count",
        "peak_time",
        "final_count",
        "cases",
    },
    "line_list": {"case", "node_name", "point"},
    "trajectories": {"amount", "species", "rule", "time", "status"},
    "events": {"realization", "firing"},
    "concentrations": {"concentration", "zone", "time", "density", "status"},
    "nuclei": {"mass_fraction", "mass_number", "near_equilibrium"},
    "states": {"state", "variable", "time", "step", "hit", "replicate"},
    "moments": {"mean", "variable_", "measurement", "mass"},
}


@pytest.mark.parametrize(("engine", "output", "call"), CALLS)
def test_every_name_of_a_result_is_refused(engine, output, call):
    assert getattr(ergode, engine)  # what it returns is declared when it is imported
    reserved = results.names(engine, output)
    assert OWN.get(output, set()) <= reserved | {"replicate"}
    beside = "trajectory" if engine in ("trajectories", "density") else "point"
    for name in sorted({*reserved, beside} | OWN.get(output, set())):
        for parameters in ({name: [0.5, 1.0]}, ergode.grid(**{name: [0.5, 1.0]})):
            # (Networks have no parameter called `time`.)
            with pytest.raises(ergode.ModelError, match=f"'{name}' (cannot label|is the name)"):
                call(output, parameters)


def test_one_value_labels_nothing():
    assert integrate("", {"state": 0.5})["state"].dims == ("time", "variable")


def test_a_power_is_a_label_where_no_polynomials_are_returned():
    found = of_field("integrate", "", ergode.grid(power=[0.5, 1.0]), times=TIMES)
    assert found["state"].dims == ("power", "time", "variable")


def test_a_parameter_of_an_epidemic_is_a_label_with_one_value_too():
    with pytest.raises(ergode.ModelError, match="'count' cannot label.*rename it"):
        epidemics("counts", {"count": 0.5})
    assert epidemics("statistics", {"count": 0.5})["count"] == 0.5


def test_a_coordinate_that_is_not_declared_is_an_engines_mistake():
    assert ergode.trajectories.basins  # and with it what it returns is known
    status = np.zeros(1, np.uint8)
    values = {"basin": [0], "centre": [[1.0]], "share": [1.0], "status": status}
    coords = {"k": ("trajectory", [1.0]), "attractor": [0], "feature": ["x"]}
    found = partial(results.dataset, "trajectories", "basins", swept=["trajectory"], attrs={})
    assert found(values, coords=coords)["k"].dims == ("trajectory",)
    with pytest.raises(TypeError, match="'other' is not declared"):
        found(values, coords=coords | {"other": ("feature", [1.0])})
