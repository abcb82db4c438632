"""Sweeps with and without common random numbers: each point is what its own call returns.

Family-wise error of the tests of independence: 1e-6.
"""

import importlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from small_calls import CONTACTS, NETWORK, sir

import ergode
from ergode.stochastic import methods

MOST = 2**32 - 1  # numbers of replicates
LEVEL = 5.5  # deviations of a normal distribution, of which there are fewer than 30 in this file
RATES = [0.4, 0.4, 0.6]
OUTPUTS = ("trajectories", "statistics", "histogram", "final", "first-passage", "events")


def epidemics(rates=RATES, *, replicates=5, **options):
    return ergode.epidemics.simulate(
        sir, CONTACTS, parameters={"rate": rates}, times=[0, 1, 2, 5], seed=4,
        **{"device": "cpu", "replicates": replicates, "initial": {"I": 3}, **options},
    )  # fmt: skip


def stochastic(rates=RATES, *, replicates=5, **options):
    if options.get("output") == "first-passage":
        options["stop"] = "B < 9"
    if options.get("output") == "histogram":
        options["bins"] = range(60)
    return ergode.stochastic.simulate(
        NETWORK, times=[0, 1, 3], seed=2, parameters={"k": rates},
        **{"device": "cpu", "replicates": replicates, **options},
    )  # fmt: skip


def drift(t, y, p):
    return (-p[0] * y[0],)


def noise(t, y, p):
    return (1.0,)


def trajectories(rates=RATES, *, replicates=5, step=0.25, **options):
    field = ergode.VectorField(drift, variables=["y"], parameters=["rate"], diffusion=noise)
    return ergode.trajectories.integrate(
        field, times=[0, 1, 2], initial={"y": 0.5}, parameters={"rate": rates}, seed=3,
        step=step, replicates=replicates, **{"device": "cpu", **options},
    )  # fmt: skip


CALLS = {call.__name__: call for call in (epidemics, stochastic, trajectories)}
each_engine = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def independent(call, *given, **options):
    return call(*given, common_random_numbers=False, **options)


def values_at(found, point):
    """The values of a point, without the labels that its own call has otherwise."""
    if "realization" in found:  # firings: of point and replicate
        replicates = found.sizes["replicate"]
        rows = found["realization"].values // replicates == point
        values = {
            name: found[name].values[rows] for name in ("firing_time", "reaction", "realization")
        }
        values["realization"] = values["realization"] % replicates
        return values
    if "case" in found.dims:
        rows = found["point"].values == point if "point" in found else slice(None)
        names = ("node", "infector", "infected_at", "entered", "replicate")
        values = {name: found[name].values[rows] for name in names}
        values["replicate"] = values["replicate"] - values["replicate"].min()
        return values
    one = found.isel(point=point) if "point" in found.dims else found
    return {str(name): one[name].values for name in one.data_vars}


def check_own_calls(call, replicates=range(2, 6), **options):
    """Replicate r of point j is replicate j * (MOST // points) + r of the call for that point."""
    swept = independent(call, replicates=replicates, **options)
    assert swept.attrs["common_random_numbers"] == 0
    apart = MOST // len(RATES)
    for point, rate in enumerate(RATES):
        start = point * apart + replicates.start
        own = call(rate, replicates=range(start, start + len(replicates)), **options)
        assert "common_random_numbers" not in own.attrs
        expected = values_at(own, 0)
        found = values_at(swept, point)
        assert found.keys() == expected.keys()
        for name in found:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{name} {point}")


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_of_reaction_networks(output):
    check_own_calls(stochastic, output=output)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::ergode.ErgodeWarning")  # few molecules
@pytest.mark.parametrize("method", methods.METHODS)
def test_every_method_of_reaction_networks(method):
    check_own_calls(stochastic, method=method)


@pytest.mark.parametrize("output", ["counts", "line_list"])
def test_seeds_drawn_by_weight(output):
    """They are listed for each point."""
    weights = np.linspace(0.0, 1.0, CONTACTS.node_count)
    contacts = replace(CONTACTS, attributes={"w": weights})

    def call(rate, **options):
        return ergode.epidemics.simulate(
            sir, contacts, parameters={"rate": rate}, times=[0, 1, 2, 5], seed=4, device="cpu",
            initial={"I": ergode.Seeds(3, weight="w")}, output=output, **options,
        )  # fmt: skip

    check_own_calls(lambda rates=RATES, **options: call(rates, **options))


@pytest.mark.parametrize("call", [epidemics, stochastic])
def test_a_wrong_distance_is_noticed(call, monkeypatch):
    engine = importlib.import_module(f"ergode.{call.__name__}.simulate")
    right = engine.replicates_apart
    monkeypatch.setattr(engine, "replicates_apart", lambda *given: right(*given) - 1)
    with pytest.raises(AssertionError):
        check_own_calls(call)


@pytest.mark.parametrize("common", [False, True])
def test_points_of_noisy_equations(common):
    """A path belongs to a trajectory of a replicate, or to a replicate."""
    swept = trajectories(common_random_numbers=common)["state"].values
    whole = trajectories(0.4, replicates=len(RATES) * 5)["state"].values
    for point in range(2):  # with equal rates
        paths = range(5) if common else range(point, len(RATES) * 5, len(RATES))
        np.testing.assert_array_equal(swept[point], whole[list(paths)])
    if common:
        own = trajectories(RATES[2], replicates=5)["state"].values
        np.testing.assert_array_equal(swept[2], own)


@each_engine
@pytest.mark.parametrize("common", [False, True])
def test_parts_are_the_whole(call, common, tmp_path):
    options = {"common_random_numbers": common}
    whole = call(**options)
    found = {"chunk": call(**options, chunk=2)}
    with ThreadPoolExecutor(2) as pool:
        found["executor"] = call(**options, chunk=2, executor=pool)
    found["devices"] = call(**options, device=["cpu:1", "cpu:1"], chunk=3)
    store = {"store": tmp_path / "run.zarr", "chunk": 2}
    call(**options, replicates=3, **store)
    found["store"] = call(**options, **store)
    found["concat"] = ergode.concat(
        [call(**options, replicates=some) for some in (range(3), range(3, 5))]
    )
    for name, one in found.items():
        assert one.attrs["common_random_numbers"] == common, name
        for variable in whole.variables:
            np.testing.assert_array_equal(
                one[variable].values, whole[variable].values, err_msg=f"{name} {variable}"
            )
    with pytest.raises(ergode.PlanError, match="common_random_numbers"):
        call(common_random_numbers=not common, **store)
    with pytest.raises(ergode.PlanError, match="common_random_numbers"):
        other = call(common_random_numbers=not common, replicates=range(5, 7))
        ergode.concat([whole, other])


def test_trajectories_divided_by_rows():
    for common in (False, True):
        options = {"replicates": None, "common_random_numbers": common}
        whole = trajectories(**options)["state"].values
        np.testing.assert_array_equal(trajectories(**options, chunk=1)["state"].values, whole)
        assert (whole[0] == whole[1]).all() == common


def outcome(call, found):
    """A number of each replicate at each point, shape [point, replicate]."""
    if call is epidemics:
        return found["count"].values[:, :, 2, 0].astype(float)
    if call is stochastic:
        return found["amount"].values[:, :, -1, 2].astype(float)
    return found["state"].values[:, :, -1, 0]


@each_engine
def test_points_are_independent(call):
    """Equal points: the difference has twice the variance, and all correlations vanish."""
    count = 4_000
    options = {"replicates": count, "rates": [0.4] * 4}
    values = outcome(call, independent(call, **options))
    deviations = values - values.mean(axis=1, keepdims=True)
    correlations = np.corrcoef(values)[np.triu_indices(4, 1)]
    assert (abs(correlations) < LEVEL / np.sqrt(count)).all()
    # Neighbouring replicates of other points, and points by their distance in replicates.
    shifted = [np.corrcoef(values[0, 1:], row[:-1])[0, 1] for row in values[1:]]
    assert (np.abs(shifted) < LEVEL / np.sqrt(count)).all()
    difference = values[0] - values[1]
    variance = 0.5 * (deviations[0] ** 2 + deviations[1] ** 2).mean()
    error = np.std((difference - difference.mean()) ** 2 - deviations[0] ** 2 - deviations[1] ** 2)
    assert abs(difference.var() - 2.0 * variance) < LEVEL * error / np.sqrt(count)
    common = outcome(call, call(**options, common_random_numbers=True))
    np.testing.assert_array_equal(common[0], common[3])
    assert 0.9 < common.var() / values.var() < 1.1


def test_what_cannot_be_is_said():
    for call in CALLS.values():
        with pytest.raises(ergode.ModelError, match="common_random_numbers is 'no'; expected True"):
            call(common_random_numbers="no")
    with pytest.raises(ergode.PlanError, match="each of 3 points has the numbers 0 to 1,431,655,7"):
        independent(stochastic, replicates=range(2**31, 2**31 + 2))
    # One point has all numbers, and equations without noise no choice.
    assert "common_random_numbers" not in epidemics(0.4, common_random_numbers=False).attrs
    plain = ergode.VectorField(drift, variables=["y"], parameters=["rate"])
    for common in (False, True):
        found = ergode.trajectories.integrate(
            plain, times=[0, 1], initial={"y": 1.0}, parameters={"rate": RATES}, device="cpu",
            common_random_numbers=common,
        )  # fmt: skip
        assert "common_random_numbers" not in found.attrs
        np.testing.assert_allclose(found["state"][:, -1, 0], np.exp(-np.array(RATES)), rtol=1e-5)


@pytest.mark.cuda
@each_engine
@pytest.mark.parametrize("common", [False, True])
def test_cuda_has_the_same_numbers(call, common):
    options = {"replicates": 40, "common_random_numbers": common}
    cpu, cuda = (call(**options, device=device) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(outcome(call, cuda), outcome(call, cpu), rtol=1e-9)
