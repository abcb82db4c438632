import numpy as np
import pytest
import xarray
from small_networks import IMMIGRATION_DEATH

import ergode


def test_sensitivities_are_those_of_theory_and_sharper_than_independent_ones():
    times = np.array([0.0, 1.0, 4.0])
    found = ergode.stochastic.sensitivities(
        IMMIGRATION_DEATH, times=times, replicates=4000, seed=1, device="cpu"
    )
    decay = np.exp(-0.5 * times)
    by_alpha = (1 - decay) / 0.5
    by_mu = -10 / 0.25 * (1 - decay) + 10 / 0.5 * times * decay - 3 * times * decay
    for name, expected in (("alpha", by_alpha), ("mu", by_mu)):
        row = found.sel(parameter=name, species="X")
        error = np.maximum(row["standard_error"], 1e-12)
        # The bias of a central difference of five percent is below one percent.
        assert (np.abs(row["sensitivity"] - expected) < 5 * error + 0.01 * np.abs(expected)).all()
    independent = np.sqrt(2 * 20 / 4000) / (2 * 0.05 * 0.5)
    assert found.sel(parameter="mu")["standard_error"][2, 0] < 0.5 * independent
    with pytest.raises(ergode.ModelError, match="neither a parameter"):
        ergode.stochastic.sensitivities(IMMIGRATION_DEATH, times=times, parameters=["beta"])
    with pytest.raises(ergode.ModelError, match="parameters has 'mu' twice; expected it once"):
        ergode.stochastic.sensitivities(IMMIGRATION_DEATH, times=times, parameters=["mu", "mu"])


def sensitivities(**options):
    options = {"times": [0.0, 1.0, 4.0], "replicates": 4000, "seed": 1, "device": "cpu", **options}
    return ergode.stochastic.sensitivities(IMMIGRATION_DEATH, **options)


def test_a_functional_of_each_realization_has_the_error_of_pairs():
    """The second moment: by Poisson's and by what is left of the initial three."""
    found = sensitivities(functional=lambda result: result["amount"].astype(float) ** 2)
    assert found["sensitivity"].dims == ("parameter", "time", "species")
    time = found["time"].values
    left = np.exp(-0.5 * time)
    # d/d alpha of the variance and of the square of the mean; both are (1 - left) / mu and more.
    mean, slope = 20 + (3 - 20) * left, (1 - left) / 0.5
    expected = slope + 2 * mean * slope
    row = found.sel(parameter="alpha", species="X")
    error = row["standard_error"].values[1:]
    assert (np.abs(row["sensitivity"] - expected)[1:] < 5.5 * error + 0.003 * expected[1:]).all()
    assert (error < 0.05 * expected[1:]).all()


def test_a_functional_of_the_ensemble_has_the_error_of_its_parts():
    """The variance at the end has the derivative of Poisson's; nothing else is labelled."""

    def variance(result):
        return result["amount"].sel(species="X").isel(time=-1).var("replicate", ddof=1)

    found = sensitivities(functional=variance, parameters=["alpha"], replicates=20_000)
    expected = (1 - np.exp(-2.0)) / 0.5
    error = float(found["standard_error"][0])
    assert found["sensitivity"].dims == ("parameter",)
    assert abs(float(found["sensitivity"][0]) - expected) < 6 * error
    assert 0.005 * expected < error < 0.3 * expected
    one = sensitivities(functional=variance, parameters=["alpha"], replicates=3)
    assert one["standard_error"].isnull().all()


def test_initial_amounts_are_not_swept():
    with pytest.raises(ergode.PlanError, match="initial of 'X' is .* not a sweep"):
        sensitivities(initial={"X": [1, 2]})


def test_first_passage():
    """From 3 to 4 molecules or more, until which most of the time alpha acts alone."""
    found = sensitivities(
        times=[0.0, 100.0], output="first-passage", stop="X >= 4", parameters=["alpha"],
        functional=lambda result: result["passage_time"],
    )  # fmt: skip
    waits = [1 / 10.0]  # from n to n + 1: (1 + mu n h(n - 1)) / alpha, as polynomials of 1 / alpha
    slopes = [-1 / 100.0]
    for n in range(1, 4):
        value = 1 + 0.5 * n * waits[-1]
        slopes.append(-value / 100.0 + 0.5 * n * slopes[-1] / 10.0)
        waits.append(value / 10.0)
    error = float(found["standard_error"][0])
    assert abs(float(found["sensitivity"][0]) - slopes[-1]) < 5.5 * error + 0.005 * abs(slopes[-1])
    assert error < 0.1 * abs(slopes[-1])
    with pytest.warns(ergode.AccuracyWarning, match=r"NaN in [\d,]+ of 4,000 pairs .*'alpha' = 10"):
        sensitivities(
            times=[0.0, 0.1], output="first-passage", stop="X >= 4", parameters=["alpha"],
            functional=lambda result: result["passage_time"],
        )  # fmt: skip


@pytest.mark.parametrize(
    ("functional", "message"),
    [
        (lambda result: "much", "expected a number or a DataArray"),
        (lambda result: result["amount"].values, "expected a number or a DataArray"),
        (lambda result: xarray.DataArray(np.zeros(int(result["amount"].max())), dims="n"),
         "at two values of a parameter"),
    ],
)  # fmt: skip
def test_a_functional_that_returns_something_else(functional, message):
    with pytest.raises(ergode.ModelError, match=message):
        sensitivities(functional=functional, parameters=["alpha"])


@pytest.mark.parametrize("member", [
    ergode.Species("X", "n0"),
    ergode.Species("X", 2.0, compartment="cell", quantity="concentration"),
])  # fmt: skip
def test_a_step_that_makes_a_fraction_of_a_molecule_is_refused_by_name(member):
    decay = ergode.Reaction("X -> 0", rate_constant="mu")
    sizes = {"cell": 10.0} if member.compartment else {}
    network = ergode.ReactionNetwork(
        [member], [decay], parameters={"n0": 10.0, "mu": 0.5}, compartments=sizes
    )
    name = "cell" if sizes else "n0"
    options = {"times": [0, 1], "replicates": 20, "device": "cpu"}
    step = r"'X', which is 9\.5 and 10\.5" if name == "n0" else "'X', which is 19.8 and 20.2"
    with pytest.raises(ergode.ModelError, match=f"'{name}' sets the initial amount of {step}"):
        ergode.stochastic.sensitivities(
            network, parameters=[name], relative_step=0.05 if name == "n0" else 0.01, **options
        )
    found = ergode.stochastic.sensitivities(
        network, parameters=[name], relative_step=0.1, **options
    )
    assert float(found["sensitivity"].sel(time=0, species="X")[0]) == (1.0 if name == "n0" else 2.0)
    ergode.stochastic.sensitivities(network, parameters=["mu"], **options)
