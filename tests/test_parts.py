"""Parts of an ensemble equal those rows of the whole, bit for bit, in every engine."""

from importlib import import_module

import numpy as np
import pytest
import xarray
from small_calls import CONTACTS, NETWORK, same_bits

import ergode

epidemic_methods = import_module("ergode.epidemics.methods")
stochastic_methods = import_module("ergode.stochastic.methods")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
WHOLE, PARTS = 11, (range(7, 11), range(4), range(4, 7))


def check(call, **options):
    """All parts of a call joined are the call, and each part is its rows."""
    whole = call(replicates=WHOLE, **options)
    parts = [call(replicates=part, **options) for part in PARTS]
    joined = ergode.concat(parts)
    same_bits(joined, whole)
    for part, numbers in zip(parts, PARTS, strict=True):
        if "replicate" in whole.dims:
            # Dims of indices of other variables, such as those of firings, differ.
            same_bits(part, whole.isel(replicate=list(numbers)))
    assert joined.attrs["replicates"] == WHOLE and "first_replicate" not in joined.attrs


# ---- epidemics

MODEL = ergode.CompartmentModel.sir(transmission_rate=0.4, infectious=ergode.Exponential(mean=2.0))


def epidemic(**options):
    return ergode.epidemics.simulate(
        MODEL, CONTACTS, initial={"I": 3}, times=[0, 1, 2, 5], seed=4, **options
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("output", ["counts", "line_list"])
@pytest.mark.parametrize("method", epidemic_methods.METHODS)
def test_epidemics(method, output, device):
    record = epidemic_methods.METHODS[method]
    if device not in record.devices or (output == "line_list" and not record.line_lists):
        with pytest.raises(ergode.PlanError):
            epidemic(method=method, output=output, device=device, replicates=WHOLE)
        return
    check(epidemic, method=method, output=output, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("output", ["counts", "line_list"])
@pytest.mark.parametrize("method", ["first-passage", "sellke"])
def test_sweeps_of_epidemics(method, output, device):
    def call(**options):
        return ergode.epidemics.simulate(
            lambda rate: ergode.CompartmentModel.sir(
                transmission_rate=rate, infectious=ergode.Exponential(mean=2.0)
            ),
            CONTACTS, parameters={"rate": [0.2, 0.5, 0.0]}, initial={"I": 3},
            times=[0, 1, 2, 5], seed=4, **options,
        )  # fmt: skip

    check(call, method=method, output=output, device=device)


# ---- reaction networks


def realizations(**options):
    return ergode.stochastic.simulate(NETWORK, times=[0, 1, 3], seed=2, **options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", stochastic_methods.METHODS)
@pytest.mark.filterwarnings("ignore::ergode.ErgodeWarning")
def test_reaction_networks(method, device):
    try:
        realizations(method=method, device=device)
    except ergode.PlanError:
        pytest.skip("the method does not treat this network on this device")
    check(realizations, method=method, device=device)
    check(realizations, method=method, device=device, parameters={"k": [0.5, 2.0]})


def test_final_amounts():
    check(realizations, output="final", device="cpu")


@pytest.mark.exhaustive
def test_first_passages():
    check(realizations, output="first-passage", device="cpu", stop="C > 5")


def test_lists_of_firings():
    whole = realizations(output="events", device="cpu", replicates=WHOLE)
    for numbers in PARTS:
        part = realizations(output="events", device="cpu", replicates=numbers)
        own = whole["realization"].isin(list(numbers)).values
        np.testing.assert_array_equal(part["firing_time"], whole["firing_time"][own])
        which = part["replicate"].values[part["realization"].values]
        np.testing.assert_array_equal(which, whole["realization"].values[own])


def test_a_failure_names_its_replicate():
    network = ergode.ReactionNetwork({"X": 1}, [ergode.Reaction("X -> 2 X", rate_constant=30.0)])
    options = {"times": [0, 2], "replicates": range(40, 42), "device": "cpu", "max_firings": 99}
    with pytest.warns(ergode.FailureWarning) as caught:
        result = ergode.stochastic.simulate(network, **options)
    said = [str(one.message) for one in caught]
    assert any("replicate 40 failed" in text for text in said), said
    assert any("2 of 2 replicates, first replicate 40" in text for text in said), said
    with pytest.raises(ergode.ErgodeError, match="first replicate 40"):
        result.ergode.raise_for_status()


# ---- vector fields


def decay(t, y, p):
    return (-p[0] * y[0],)


NOISY = ergode.VectorField(
    decay, variables=["x"], parameters=["rate"], diffusion=lambda t, y, p: (0.3,)
)
ARRAY = ergode.VectorField(
    component=lambda i, t, y, p: -p[0] * y[i], variables=("x", 3), parameters=["rate"],
    diffusion=0.3,
)  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rate", [0.5, [0.5, 1.0, 2.0]])
@pytest.mark.parametrize(
    ("field", "start", "options"),
    [
        (NOISY, 1.0, {"method": "euler-maruyama", "step": 1 / 16}),
        (NOISY, 1.0, {"method": "sra1", "step": 1 / 16, "every_step": True}),
        (ARRAY, np.ones(3), {"method": "sra1", "step": 1 / 16}),
    ],
)
def test_vector_fields(field, start, options, rate, device):
    def call(**more):
        return ergode.trajectories.integrate(
            field, times=[0, 1, 2], initial={"x": start}, parameters={"rate": rate}, seed=3,
            device=device, **options, **more,
        )  # fmt: skip

    check(call)
    assert call(replicates=2).dims != ()


def test_each_replicate_of_each_point_has_noise_of_its_own():
    found = ergode.trajectories.integrate(
        NOISY, times=[0, 1], initial={"x": 1.0}, parameters={"rate": np.zeros(4)}, seed=3,
        method="euler-maruyama", step=1 / 16, replicates=5, device="cpu",
    )["state"]  # fmt: skip
    assert found.dims[:2] == ("trajectory", "replicate")
    assert np.unique(found[:, :, -1].values).size == 20


# ---- rows without randomness: zones, points, trajectories, filters


def test_zones():
    network = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0},
        [ergode.Reaction("A -> B", rate_constant=ergode.Arrhenius(1e5, 0.0, 6e3))],
    )
    hot = np.linspace(300.0, 900.0, 7)

    def call(which):
        return ergode.kinetics.integrate(
            network, times=[0, 1], temperature=hot[which], device="cpu"
        )

    whole, cut = call(slice(None)), [call(slice(0, 3)), call(slice(3, 7))]
    same_bits(ergode.concat(cut, dim="zone"), whole)
    assert ergode.concat(cut, dim="zone").attrs["zones"] == 7


def test_zones_of_a_sweep():
    network = ergode.ReactionNetwork(
        {"A": 1.0}, [ergode.Reaction("A -> 0", rate_constant="k")], parameters={"k": 1.0}
    )

    def call(amounts, rates):
        return ergode.kinetics.integrate(
            network, times=[0, 1], initial={"A": amounts}, parameters=ergode.grid(k=rates),
            atol=1e-12, device="cpu",
        )  # fmt: skip

    whole = call([1.0, 2.0], [0.1, 1.0, 10.0])
    for dim, cut in (
        ("zone", [call([one], [0.1, 1.0, 10.0]) for one in (1.0, 2.0)]),
        ("k", [call([1.0, 2.0], rates) for rates in ([0.1], [1.0, 10.0])]),
    ):
        joined = ergode.concat(cut, dim=dim)
        same_bits(joined, whole)
        for name in ("points", "zones", "steps_taken"):
            assert joined.attrs[name] == whole.attrs[name]


def test_points():
    rates = np.array([0.2, 1.0, 3.0, 4.0])
    whole = realizations(parameters={"k": rates}, replicates=3, device="cpu")
    cut = [
        realizations(parameters={"k": part}, replicates=3, device="cpu")
        for part in (rates[:1], rates[1:])
    ]
    same_bits(ergode.concat(cut, dim="point"), whole)
    assert ergode.concat(cut, dim="point").attrs["replicates"] == 3


# ---- joining


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (range(0), r"range\(0, 0\); expected a count"),
        (range(0, 9, 2), "expected a count, or a range of successive"),
        (range(-2, 3), "expected a count"),
        (range(2**32 - 1, 2**32 + 1), "expected a count"),
        ([3, 4], "expected an integer"),
        (0, "replicates is 0"),
    ],
)
def test_wrong_ranges(numbers, message):
    for call in (realizations, epidemic):
        with pytest.raises(ergode.PlanError, match=message):
            call(replicates=numbers, device="cpu")
    with pytest.raises(ergode.PlanError, match=message):
        ergode.trajectories.integrate(
            NOISY, times=[0, 1], initial={"x": 1.0}, parameters={"rate": 1.0}, replicates=numbers,
            step=0.1,
        )  # fmt: skip


def test_what_cannot_be_joined():
    first, second, third = (
        realizations(replicates=part, device="cpu") for part in (range(2), range(2, 4), range(4, 6))
    )
    with pytest.raises(ergode.PlanError, match="replicates 2 to 3 are missing"):
        ergode.concat([first, third])
    with pytest.raises(ergode.PlanError, match="replicates 0 to 1 are in two parts"):
        ergode.concat([first, second, first])
    with pytest.raises(ergode.PlanError, match="expected one or more results"):
        ergode.concat([])
    with pytest.raises(ergode.PlanError, match="expected one or more results"):
        ergode.concat(first)
    with pytest.raises(ergode.PlanError, match="no dim 'zone'"):
        ergode.concat([first, second], dim="zone")
    with pytest.raises(ergode.PlanError, match="part 1 has engine 'epidemics'"):
        ergode.concat([first, epidemic(device="cpu")])
    with pytest.raises(ergode.PlanError, match="part 1 has seed '2' and part 0 has '7'"):
        ergode.concat([second.assign_attrs(seed="7"), first])
    with pytest.raises(ergode.PlanError, match="only one of part 0 and part 1 has 'status'"):
        ergode.concat([first, second.drop_vars("status")])
    statistics = [
        realizations(output="statistics", replicates=part, device="cpu")
        for part in (range(2), range(2, 4))
    ]
    with pytest.raises(ergode.PlanError, match="'mean' has no dim 'replicate'"):
        ergode.concat(statistics)
    with pytest.raises(ergode.PlanError, match="a part has no replicates"):
        ergode.concat([xarray.Dataset({"x": 1.0})])


def test_members_with_random_numbers_of_their_own_are_not_joined():
    network = ergode.ReactionNetwork(
        {"X": 0}, [ergode.Reaction("0 -> X", rate_constant="a")], parameters={"a": 10.0}
    )

    def part(values, **options):
        return ergode.stochastic.simulate(
            network, times=[0, 2.0], replicates=4, parameters={"a": values}, device="cpu", **options
        )

    own = [part(values, common_random_numbers=False) for values in ([10.0], [20.0, 30.0])]
    with pytest.raises(ergode.PlanError, match="members of different parts have equal random"):
        ergode.concat(own, dim="point")
    counted = [part(values, output="histogram") for values in ([1.0], [300.0])]
    with pytest.raises(ergode.PlanError, match="part 1 has other values of 'bin' than part 0"):
        ergode.concat(counted, dim="point")


def test_attributes_of_the_whole():
    parts = [realizations(replicates=part, device="cpu") for part in PARTS]
    joined = ergode.concat(parts)
    assert joined.attrs["firings"] == sum(part.attrs["firings"] for part in parts)
    assert joined.attrs["run_seconds"] == sum(part.attrs["run_seconds"] for part in parts)
    assert joined["amount"].attrs == parts[0]["amount"].attrs
    # Counts that are equal in all parts are added as well, and errors are not added.
    same = [part.assign_attrs(firings=5, step_error=0.1 * k) for k, part in enumerate(parts)]
    assert ergode.concat(same).attrs["firings"] == 15
    assert ergode.concat(same).attrs["step_error"] == 0.2
    later = [realizations(replicates=part, device="cpu") for part in (range(2, 4), range(4, 6))]
    assert ergode.concat(later).attrs["first_replicate"] == 2
    alone = ergode.concat(parts[:1])
    same_bits(alone, parts[0])
    assert alone.attrs["first_replicate"] == 7


def test_run_files(tmp_path):
    from ergode.runfile.read import read

    text = """
    engine = "stochastic"
    [network]
    species = { X = 9 }
    reactions = [{ reaction = "X -> 0", rate_constant = 1.0 }]
    [simulate]
    times = [0, 1]
    seed = 5
    replicates = """
    found = []
    for number, replicates in enumerate(("5", "{ start = 2, stop = 5 }")):
        path = tmp_path / f"{number}.toml"
        path.write_text(text + replicates)
        run = read(path)
        run.request.describe()
        found.append(run.execute(progress=False))
    same_bits(found[1], found[0].isel(replicate=slice(2, 5)))


def first_of_two(y, t, p):
    return (y[0],)


def second_of_two(y, t, p):
    return (y[1],)


@pytest.mark.parametrize(
    "other",
    [
        {"width": 0.3}, {"threshold": 1e-7}, {"process_noise": [0.1, 0.3]}, {"keep": "last"},
        {"parameters": {"c": 0.3}}, {"scale_threshold": False},
        {"measurements": [ergode.Measurement(0.5, second_of_two, 0.1, 1.0)]},
        {"maneuvers": [ergode.Maneuver(0.5, [0.2, 0.0])]},
    ],
    ids=lambda other: next(iter(other)),
)  # fmt: skip
def test_densities_of_other_settings_are_not_joined(other):
    field = ergode.field_from_equations({"x": "y", "y": "-x - c * y"})
    given = {
        "width": 0.25, "parameters": {"c": 0.1}, "keep": "none",
        "measurements": [ergode.Measurement(0.5, first_of_two, 0.1, 1.0)],
    }  # fmt: skip
    one, two = (
        ergode.density.propagate(
            field, [ergode.Gaussian([k, 0.0], [0.3, 0.3])], times=[0.0, 0.5],
            device="cpu", **given | changes,
        )
        for k, changes in enumerate(({}, other))
    )  # fmt: skip
    with pytest.raises(ergode.PlanError, match="not parts of one ensemble"):
        ergode.concat([one, two], "trajectory")
