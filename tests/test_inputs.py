"""Every result says what it was computed from, and parts with other inputs are not joined."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray
from small_calls import CONTACTS, NETWORK, same_bits, sir

import ergode


def decay(t, y, p):
    return (-p[0] * y[0],)


FIELD = ergode.VectorField(decay, ["x"], ["rate"])
SPRING = ergode.field_from_equations({"x": "v", "v": "-k * x"})
SPACE = ergode.ReactionDiffusion(NETWORK, (3,), diffusion={"A": 0.1}, spacing=1.0)


def epidemic(**options):
    given = {
        "initial": {"I": 3}, "times": [0, 1, 2], "seed": 4, "replicates": 3, "method": "sellke",
        "device": "cpu",
    }  # fmt: skip
    return ergode.epidemics.simulate(sir(options.pop("rate", 0.4)), CONTACTS, **given | options)


def swept_epidemic(**options):
    given = {
        "parameters": {"rate": [0.2, 0.5]}, "initial": {"I": 3}, "times": [0, 1, 2], "seed": 4,
        "method": "first-passage", "device": "cpu",
    }  # fmt: skip
    return ergode.epidemics.simulate(sir, CONTACTS, **given | options)


def reactions(**options):
    given = {
        "times": [0, 1, 2], "seed": 4, "replicates": 3, "method": "direct", "device": "cpu",
        "parameters": {"k": 0.5}, "initial": {"A": 30},
    }  # fmt: skip
    return ergode.stochastic.simulate(NETWORK, **given | options)


def space(**options):
    given = {"times": [0, 1], "seed": 4, "replicates": 3, "device": "cpu", "parameters": {"k": 0.5}}
    return ergode.stochastic.simulate_space(SPACE, **given | options)


ZONES = ergode.ReactionNetwork(
    {"A": 1.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant="k")], parameters={"k": 1.0}
)


def zones(**options):
    given = {"times": [0, 1], "initial": {"A": [1.0, 2.0]}, "atol": 1e-9, "device": "cpu"}
    return ergode.kinetics.integrate(ZONES, **given | options)


def trajectories(**options):
    given = {
        "times": [0, 1, 2], "initial": {"x": [1.0, 2.0]}, "parameters": {"rate": 0.5},
        "device": "cpu", "method": "rk4", "step": 0.1,
    }  # fmt: skip
    return ergode.trajectories.integrate(FIELD, **given | options)


def densities(**options):
    given = {
        "prior": [ergode.Gaussian([k, 0.0], [0.3, 0.3]) for k in (0, 1)], "times": [0, 0.1],
        "parameters": {"k": 1.0}, "width": 0.25, "device": "cpu",
    }  # fmt: skip
    return ergode.density.propagate(SPRING, **given | options)


def particles(**options):
    given = {
        "prior": ergode.Gaussian([1, 0.0], [0.3, 0.3]), "times": [0, 0.1], "parameters": {"k": 1.0},
        "count": 100, "seed": 2, "step": 0.05, "device": "cpu",
    }  # fmt: skip
    return ergode.particles.propagate(SPRING, **given | options)


CALLS = {
    "epidemics": epidemic, "swept epidemics": swept_epidemic, "reactions": reactions,
    "space": space, "kinetics": zones, "trajectories": trajectories, "density": densities,
    "particles": particles,
}  # fmt: skip


@pytest.mark.parametrize("engine", CALLS)
def test_a_result_says_what_it_was_computed_from_and_computes_it_again(engine, tmp_path):
    result = CALLS[engine]()
    inputs = ergode.inputs(result)
    assert inputs["times"][-1] == result["time"][-1]
    assert inputs.call.startswith("ergode.") and inputs.version == ergode.__version__
    assert "times" in repr(inputs) and inputs.digest[:12] in repr(inputs)
    assert ergode.inputs(CALLS[engine]()).digest == inputs.digest
    assert ergode.inputs(CALLS[engine](times=[0, 0.05])).digest != inputs.digest
    same_bits(inputs.again(device="cpu"), result)
    for name in ("a.nc", "a.zarr"):
        found = ergode.open_dataset(ergode.save(result, tmp_path / name))
        assert ergode.inputs(found).digest == inputs.digest
        assert found.attrs["inputs"] == result.attrs["inputs"]
    first = next(iter(result.sizes))
    kept = result.isel({first: slice(0, 1)})
    for found in (kept, copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert ergode.inputs(found).digest == inputs.digest


OTHER = {
    "epidemics": [{"rate": 0.5}, {"initial": {"I": 4}}, {"times": [0, 1, 3]}, {"seed": 5},
                  {"output": "line_list"}],
    "reactions": [{"parameters": {"k": 0.6}}, {"initial": {"A": 31}}, {"initial": None},
                  {"times": [0, 1, 3]}, {"seed": 5}, {"max_firings": 10**6}],
    "space": [{"parameters": {"k": 0.6}}, {"parameters": None}, {"times": [0, 2]}, {"seed": 5}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "other"), [(name, one) for name, some in OTHER.items() for one in some], ids=str
)
def test_replicates_of_other_inputs_are_not_joined(engine, other):
    call = CALLS[engine]
    one, two = call(replicates=range(2)), call(replicates=range(2, 4), **other)
    name = next(iter(other)).replace("rate", "model")
    with pytest.raises(ergode.PlanError, match=f"part 1 has {name}.* not parts of one ensemble"):
        ergode.concat([one, two])
    joined = ergode.concat([call(replicates=range(2, 4)), one])
    assert ergode.inputs(joined).digest == ergode.inputs(call(replicates=4)).digest
    assert ergode.inputs(joined)["replicates"] == 4


ROWS = {
    "swept epidemics": ("point", {"parameters": {"rate": [0.1]}}, [
        {"initial": {"I": 4}}, {"times": [0, 1, 3]}, {"seed": 5}]),
    "reactions": ("point", {"parameters": {"k": [0.1, 0.7]}}, [
        {"initial": {"A": 31}}, {"times": [0, 1, 3]}, {"seed": 5}]),
    "kinetics": ("zone", {"initial": {"A": [5.0]}}, [
        {"parameters": {"k": 2.0}}, {"initial": {"A": [5.0], "B": 1.0}}, {"times": [0, 3]},
        {"rtol": 1e-5}]),
    "trajectories": ("trajectory", {"initial": {"x": [5.0, 6.0]}}, [
        {"parameters": {"rate": 0.6}}, {"times": [0, 1, 3]}, {"step": 0.2}]),
    "density": ("trajectory", {"prior": [ergode.Gaussian([k, 0.0], [0.3, 0.3]) for k in (2, 3)]}, [
        {"parameters": {"k": 1.1}}, {"times": [0, 0.2]}, {"width": 0.3},
        {"measurements": [ergode.Measurement(0.05, lambda y, t, p: (y[0],), 0.1, 1.0)]}]),
}  # fmt: skip


@pytest.mark.parametrize("engine", ROWS)
def test_rows_are_joined_and_other_inputs_are_not(engine):
    dim, rows, others = ROWS[engine]
    first = {} if engine != "reactions" else {"parameters": {"k": [0.2, 0.3]}}
    call = CALLS[engine]
    one, two = call(**first), call(**rows)
    joined = ergode.concat([one, two], dim)
    assert joined.sizes[dim] == one.sizes[dim] + two.sizes[dim]
    same_bits(ergode.inputs(joined).again(device="cpu"), joined)
    for other in others:
        with pytest.raises(ergode.PlanError, match="part 1 has .* not parts of one ensemble"):
            ergode.concat([one, call(**rows | other)], dim)


def test_a_row_is_not_mistaken_for_an_option_of_the_same_length():
    field = ergode.VectorField(
        component=lambda i, t, y, p: -p[0] * y[i], variables=("x", 2), parameters=["rate"]
    )

    def call(start, rates, **options):
        return ergode.trajectories.integrate(
            field, times=[0, 1], initial={"x": start}, parameters={"rate": rates}, step=0.1,
            method="rk4", device="cpu", **options,
        )  # fmt: skip

    one = call(np.array([1.0, 2.0]), [0.1, 0.2])
    assert ergode.concat([one, call(np.array([1.0, 2.0]), [0.3, 0.4])], "trajectory")["x"].any()
    with pytest.raises(ergode.PlanError, match="part 1 has initial 'x'"):
        ergode.concat([one, call(np.array([1.0, 3.0]), [0.3, 0.4])], "trajectory")
    with pytest.raises(ergode.PlanError, match="part 1 has atol"):
        other = call(np.array([1.0, 2.0]), [0.3, 0.4], atol=None)
        text = other.attrs["inputs"].replace('"atol": null', '"atol": {"list": [1, 2]}')
        ergode.concat([one, other.assign_attrs(inputs=text)], "trajectory")


def test_large_arrays_and_grids():
    rates = np.linspace(0.1, 1.0, 20_000)
    one = trajectories(initial={"x": 1.0}, parameters={"rate": rates}, times=[0, 0.1])
    entry = json.loads(one.attrs["inputs"])["arguments"]["parameters"]["mapping"][0][1]
    assert entry["array"] is None and len(one.attrs["inputs"]) < 4_000
    same_bits(ergode.inputs(one).again(device="cpu"), one)  # it is still here
    other = rates.copy()
    other[777] = np.nextafter(other[777], 1)
    two = trajectories(initial={"x": 1.0}, parameters={"rate": other}, times=[0, 0.1])
    assert ergode.inputs(one).digest != ergode.inputs(two).digest
    joined = ergode.concat([one, two], "trajectory")
    assert joined.sizes["trajectory"] == 40_000
    rates[5] = 0.7  # no longer what was computed
    with pytest.raises(ergode.PlanError, match="parameters .* pass it, as in"):
        ergode.inputs(one)["parameters"]
    with pytest.raises(ergode.PlanError, match="parameters is not that of the result"):
        ergode.inputs(one, parameters={"rate": rates})
    rates[5] = np.linspace(0.1, 1.0, 20_000)[5]
    same_bits(ergode.inputs(one, parameters={"rate": rates}).again(device="cpu"), one)

    def swept(values, **options):
        return trajectories(initial={"x": 1.0}, parameters=ergode.grid(rate=values), **options)

    whole = ergode.concat([swept([0.1, 0.2]), swept([0.3])], "rate")
    same_bits(whole, swept([0.1, 0.2, 0.3]))
    assert ergode.inputs(whole).digest == ergode.inputs(swept([0.1, 0.2, 0.3])).digest


def test_what_was_changed_after_the_call_does_not_change_what_is_said():
    start = {"x": np.array([1.0, 2.0])}
    result = trajectories(initial=start)
    start["x"][0] = 9.0
    np.testing.assert_array_equal(ergode.inputs(result)["initial"]["x"], [1.0, 2.0])
    np.testing.assert_array_equal(
        ergode.inputs(trajectories(initial=start))["initial"]["x"], [9, 2]
    )


def test_equal_numbers_are_equal_however_they_are_given():
    digests = {
        ergode.inputs(trajectories(times=times)).digest
        for times in ([0, 1, 2], (0.0, 1.0, 2.0), range(3), np.arange(3), np.arange(3.0))
    }
    assert len(digests) == 1
    assert ergode.inputs(trajectories(max_steps=1_000_000)).digest in digests  # the default


def test_functions_count_by_their_text_and_values():
    def of(rate, text="-rate * y[0]"):
        def function(t, y, p):
            return (-rate * p[0] * y[0],)

        return ergode.VectorField(function, ["x"], ["rate"])

    def call(field):
        return ergode.trajectories.integrate(
            field, times=[0, 1], initial={"x": 1.0}, parameters={"rate": 1.0}, device="cpu",
            method="rk4", step=0.1,
        )  # fmt: skip

    one, other = (ergode.inputs(call(of(rate))) for rate in (1.0, 2.0))
    assert one.digest == ergode.inputs(call(of(1.0))).digest != other.digest
    assert "-rate * p[0] * y[0]" in repr(one)


def test_what_a_file_alone_cannot_make_is_asked_for_and_checked(monkeypatch):
    from ergode.core.inputs import rebuilding

    result = trajectories()
    monkeypatch.setattr(rebuilding, "KNOWN", {})  # as in another process
    inputs = ergode.inputs(result)
    with pytest.raises(ergode.PlanError, match=r"pass it, as in ergode.inputs\(dataset, field=..."):
        inputs.again()
    other = ergode.VectorField(lambda t, y, p: (-2 * p[0] * y[0],), ["x"], ["rate"])
    with pytest.raises(ergode.PlanError, match="field is not that of the result"):
        ergode.inputs(result, field=other)
    with pytest.raises(ergode.PlanError, match="no argument 'model'"):
        ergode.inputs(result, model=FIELD)
    same_bits(ergode.inputs(result, field=FIELD).again(device="cpu"), result)
    changed = inputs.again(field=other, device="cpu")
    assert changed["state"].shape == result["state"].shape
    for made in (densities, particles, reactions, zones, space, epidemic):
        same_bits(ergode.inputs(made()).again(device="cpu"), made())  # from the text alone


@pytest.mark.parametrize("changes", [{"initial": {"I": 4}}, {"seed": 9}])
def test_stores_name_what_differs(tmp_path, changes):
    store = tmp_path / "run.zarr"
    whole = epidemic(store=store, replicates=4, chunk=2)
    assert ergode.inputs(whole).digest == ergode.inputs(epidemic(replicates=4)).digest
    with pytest.raises(ergode.PlanError, match=f"another '{next(iter(changes))}'"):
        epidemic(store=store, replicates=4, chunk=2, **changes)


def test_a_store_names_the_parameter(tmp_path):
    store = tmp_path / "run.zarr"
    reactions(store=store)
    with pytest.raises(ergode.PlanError, match=r"another 'parameters' \('k'\); choose"):
        reactions(store=store, parameters={"k": 0.6})


def test_executors_devices_and_results_on_a_device_have_the_same_inputs():
    digest = ergode.inputs(reactions()).digest
    with ThreadPoolExecutor(2) as pool:
        assert ergode.inputs(reactions(executor=pool)).digest == digest
    assert ergode.inputs(reactions(device=["cpu", "cpu"])).digest == digest
    kept = reactions(keep_on_device=True)
    assert ergode.inputs(kept).digest == digest == ergode.inputs(kept.to_dataset()).digest


@pytest.mark.cuda
def test_inputs_of_results_of_a_gpu():
    import cupy

    digest = ergode.inputs(trajectories()).digest
    start = {"x": cupy.array([1.0, 2.0])}
    kept = trajectories(initial=start, device="cuda", keep_on_device=True)
    assert ergode.inputs(kept).digest == digest == ergode.inputs(kept.to_dataset()).digest
    same_bits(ergode.inputs(kept).again(device="cuda"), kept.to_dataset())


def test_datasets_without_inputs():
    with pytest.raises(ergode.PlanError, match="no attribute 'inputs'"):
        ergode.inputs(xarray.Dataset())
    with pytest.raises(ergode.ReadError, match="is damaged"):
        ergode.inputs(xarray.Dataset(attrs={"inputs": "{"}))
    one, two = reactions(replicates=2), reactions(replicates=range(2, 4))
    del two.attrs["inputs"]
    with pytest.raises(ergode.PlanError, match="part 1 has no attribute 'inputs'"):
        ergode.concat([one, two])


@pytest.mark.parametrize("call", ["os:system", "ergode.core.results:save", "ergode.models:x"])
def test_a_file_does_not_choose_what_is_called(call):
    text = json.dumps({"call": call, "version": "1", "arguments": {}})
    with pytest.raises(ergode.ReadError, match="is not a call of ergode"):
        ergode.inputs(xarray.Dataset(attrs={"inputs": text}))


@pytest.mark.parametrize("made", ["os:system", "ergode.core.files:SafeFile", "ergode:save"])
def test_a_file_does_not_choose_what_is_made(made):
    result = reactions()
    found = json.loads(result.attrs["inputs"])
    found["arguments"]["initial"] = {"object": made, "with": {"path": "x"}}
    with pytest.raises(ergode.PlanError, match="cannot be made again"):
        ergode.inputs(result.assign_attrs(inputs=json.dumps(found)))["initial"]


def test_a_swept_value_has_an_index_before_it_is_saved(tmp_path):
    result = reactions(parameters=ergode.grid(k=[0.5, 1.0]))
    saved = ergode.open_dataset(ergode.save(result, tmp_path / "a.nc"))
    assert set(result.indexes) == set(saved.indexes) and "k" in result.indexes
    xarray.testing.assert_equal(result.sel(k=1.0), saved.sel(k=1.0))
