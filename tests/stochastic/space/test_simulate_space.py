"""What `simulate_space` returns; whether it is right is for `tests/referees/test_space.py`."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray
from both_devices import on_both
from cuda_cases import OPTIONS, ptx
from scipy import stats

import ergode
from ergode import Event, ModelError, PlanError, Reaction, ReactionDiffusion, ReactionNetwork
from ergode.core.status import Status
from ergode.stochastic.space.runner import SpaceRunner
from ergode.stochastic.space.tables import build_space

NETWORK = ReactionNetwork(
    {"A": 3, "B": "b"},
    [
        Reaction("0 -> A", rate_constant="birth"),
        Reaction("A + B -> 2 B", rate_constant=0.3),
        Reaction("B -> 0", rate="B / (1 + B)"),
    ],
    parameters={"birth": 2.0, "b": 1.0, "D": 0.5},
)
SPACE = ReactionDiffusion(
    NETWORK, (3, 4, 5), diffusion={"A": "D", "B": 0.2}, spacing=(1.0, 0.5, 0.8),
    periodic=(True, False, False),
)  # fmt: skip
TIMES = [0, 0.5, 1.0]
EVENTFUL = ReactionDiffusion(
    ReactionNetwork(
        {"A": 3, "B": 1},
        [
            Reaction("0 -> A", rate_constant="birth"),
            Reaction("A -> B", rate_constant=1.0, delay="lag"),
            Reaction("B -> 0", rate="2 * B if time < 0.8 else B"),
        ],
        parameters={"birth": 8.0, "lag": 0.2, "next": 0.1, "D": 0.5},
        events=[
            Event("time >= next", {"next": "next + 0.3", "A": "A + poisson(2)"}),
            Event("A > 8", {"A": "binomial(A, 0.5)", "birth": "0.9 * birth"}, delay=0.1,
                  persistent=False),
            Event("B > 3", {"B": "B / 2"}, initially_true=False, priority=2.0),
        ],
    ),
    (3, 4, 5), diffusion={"A": "D"}, periodic=(True, False, False),
)  # fmt: skip


def run(space=SPACE, **options):
    given = {"times": TIMES, "replicates": 6, "seed": 1, "device": "cpu"} | options
    return ergode.stochastic.simulate_space(space, **given)


def test_parts_have_the_bits_of_the_whole(tmp_path):
    whole = run(parameters={"D": [0.1, 1.0]})
    assert whole["amount"].dims == ("point", "replicate", "time", "species", "x", "y", "z")
    parts = [
        run(parameters={"D": [0.1, 1.0]}, replicates=numbers) for numbers in (range(2), range(2, 6))
    ]
    joined = ergode.concat(parts)
    xarray.testing.assert_equal(joined, whole)
    with ThreadPoolExecutor(1) as executor:
        divided = run(parameters={"D": [0.1, 1.0]}, executor=executor, chunk=4)
    xarray.testing.assert_equal(divided, whole)
    stored = run(parameters={"D": [0.1, 1.0]}, store=tmp_path / "run.zarr", chunk=3)
    xarray.testing.assert_equal(stored, whole)
    several = run(parameters={"D": [0.1, 1.0]}, device="cpu:2")
    xarray.testing.assert_equal(several, whole)


def test_points_have_random_numbers_of_their_own_if_asked(tmp_path):
    sweep = {"parameters": {"D": [0.5, 0.5]}, "common_random_numbers": False}
    found, shared = run(**sweep), run(parameters={"D": [0.5, 0.5]})
    assert found.attrs["common_random_numbers"] == 0 and shared.attrs["common_random_numbers"] == 1
    np.testing.assert_array_equal(shared["amount"][0], shared["amount"][1])
    assert (found["amount"][0] != found["amount"][1]).any()
    begin = (2**32 - 1) // 2
    for point in range(2):
        numbers = range(point * begin, point * begin + found.sizes["replicate"])
        alone = run(parameters={"D": 0.5}, replicates=numbers)
        np.testing.assert_array_equal(found["amount"][point], alone["amount"])
    divided = run(**sweep, store=tmp_path / "run.zarr", chunk=4)
    np.testing.assert_array_equal(divided["amount"], found["amount"])
    with pytest.raises(ergode.ModelError, match="common_random_numbers is 'no'"):
        run(common_random_numbers="no")


def test_statistics_and_final_amounts_are_those_of_trajectories():
    whole = run(parameters=ergode.grid(b=[0.0, 2.0]))
    found = run(parameters=ergode.grid(b=[0.0, 2.0]), output="statistics")
    np.testing.assert_allclose(found["mean"], whole["amount"].mean("replicate"))
    np.testing.assert_allclose(found["variance"], whole["amount"].var("replicate", ddof=1))
    assert (found["count"] == 6).all()
    divided = run(parameters=ergode.grid(b=[0.0, 2.0]), output="statistics", chunk=2)
    xarray.testing.assert_equal(divided, found)
    final = run(parameters=ergode.grid(b=[0.0, 2.0]), output="final")
    assert (final["amount"].values == whole["amount"].isel(time=-1).values).all()
    assert final["amount"].dims == ("b", "replicate", "species", "x", "y", "z")


def test_the_grid_of_times_does_not_change_a_realization():
    many = run(times=np.linspace(0, 1, 11))
    assert (many["amount"].values[:, [0, 5, 10]] == run()["amount"].values).all()


def test_events_do_not_depend_on_parts_and_times():
    sweep = {"parameters": {"lag": [0.1, 0.4]}, "rounding": "stochastic"}
    whole = run(EVENTFUL, **sweep)
    assert (whole["status"] == Status.DONE).all()
    parts = [run(EVENTFUL, replicates=one, **sweep) for one in (range(2), range(2, 6))]
    xarray.testing.assert_equal(ergode.concat(parts), whole)
    many = run(EVENTFUL, times=np.linspace(0, 1, 11), **sweep)
    assert (many["amount"].values[:, :, [0, 5, 10]] == whole["amount"].values).all()
    # Voxels that share nothing but a value of a parameter are the same as without fields.
    network, births = EVENTFUL.network, np.full(EVENTFUL.shape, 8.0)
    births[0, 0, 0] = 0.0
    given = {"diffusion": {"A": "D"}, "periodic": EVENTFUL.periodic}
    field = ReactionDiffusion(network, EVENTFUL.shape, parameters={"birth": births}, **given)
    found = run(field, **sweep)
    assert (found["amount"][:, :, 0] == whole["amount"][:, :, 0]).all()
    assert (found["amount"] != whole["amount"]).any()


def test_how_eventful_realizations_end():
    still = [Reaction("A -> A", rate_constant=0.0)]
    for event, status in (
        (Event("time >= 0.7", {"A": "A - 9"}), Status.NEGATIVE_RATE),
        (Event("time >= 0.7", {"A": "1e9 * A"}), Status.OVERFLOW),
        (Event("time >= 0.7", {"A": "A + 1"}), Status.EXTINCT),
        (Event("A >= 5", {"A": "A + 1"}, initially_true=False), Status.EXTINCT),
    ):
        space = ReactionDiffusion(
            ReactionNetwork({"A": 5}, still, events=[event]), (9,), diffusion={}
        )
        if status == Status.EXTINCT:
            found = run(space)
            assert (found["amount"][:, -1] == 6).all()
        else:
            with pytest.warns(ergode.FailureWarning):
                found = run(space)
            assert np.isnan(found["amount"][:, -1]).all()
            assert (found["amount"][:, 1] == 5).all()
        assert (found["status"] == status).all()


def test_initial_amounts_and_parameters_by_voxel():
    """What is born where, and nothing moves."""
    birth = np.zeros((2, 3))
    birth[0, 1], birth[1, 2] = 50.0, 20.0
    start = np.arange(6).reshape(2, 3)
    space = ReactionDiffusion(
        NETWORK, (2, 3), diffusion={}, initial={"B": start}, parameters={"birth": birth}
    )
    found = run(space, times=[0, 1e-3, 2.0], parameters={"b": 9.0})
    amounts = found["amount"].values
    assert (amounts[:, 0, 1] == start).all()
    assert (amounts[:, 0, 0] == 3).all()
    total = amounts[:, 2].sum(axis=1)
    assert (total[:, birth > 0] > 15).all()
    assert (total[:, birth == 0] <= (3 + start)[birth == 0]).all()


def test_a_million_voxels_take_the_memory_of_their_amounts():
    space = ReactionDiffusion(NETWORK, (1000, 1000), diffusion={"A": 0.1})
    found = run(space, times=[0, 1e-7], replicates=1)
    assert found["amount"].shape == (1, 2, 2, 1000, 1000)
    assert found["amount"].dtype == np.int32
    assert 0 < found["firing_count"].item() < 100


def test_how_realizations_end():
    walk = ReactionNetwork({"A": 0}, [Reaction("A -> 0", rate_constant=1.0)])
    empty = ReactionDiffusion(walk, (10,), diffusion={"A": 1.0})
    assert run(empty, replicates=1)["status"].item() == Status.EXTINCT
    with pytest.warns(ergode.FailureWarning, match="limit on the number of steps"):
        cut = run(max_firings=20)
    assert (cut["firing_count"] == 20).all()
    assert np.isnan(cut["amount"][:, -1]).all()
    assert not np.isnan(cut["amount"][:, 0]).any()
    with pytest.warns(ergode.FailureWarning):
        assert run(max_firings=20, output="statistics")["count"].values.tolist() == [6, 0, 0]
    for rate, status in (("1 - A", Status.NEGATIVE_RATE), ("1 / (A - 5)", Status.NOT_FINITE)):
        network = ReactionNetwork({"A": 5}, [Reaction("A -> 0", rate=rate)])
        with pytest.warns(ergode.FailureWarning):
            found = run(ReactionDiffusion(network, (3,), diffusion={}), replicates=1)
        assert found["status"].item() == status


@pytest.mark.parametrize(
    ("space", "options", "error", "message"),
    [
        (NETWORK, {}, ModelError, "expected a ReactionDiffusion"),
        (SPACE, {"times": [0]}, ModelError, "one time"),
        (SPACE, {"output": "events"}, PlanError, "'events'"),
        (SPACE, {"parameters": {"k": 1.0}}, ModelError, "'k' is neither a parameter"),
        (SPACE, {"parameters": {"voxel": 1.0}}, ModelError, "'voxel', whose size is the volume"),
        (SPACE, {"parameters": {"D": -1.0}}, PlanError, "diffusion coefficient of 'A' is negative"),
        (
            ReactionDiffusion(NETWORK, (2,), diffusion={}, parameters={"birth": [1, 2]}),
            {"parameters": {"birth": 1.0}}, ModelError, "'birth', which has a value for every",
        ),
        (
            ReactionDiffusion(
                ReactionNetwork({"A": 1}, [Reaction("A -> 0", rate="A * time")]), (2,), diffusion={}
            ),
            {}, PlanError, "a rate depends on the time",
        ),
        (EVENTFUL, {}, PlanError, "event '2' assigns 'B / 2' to 'B', which may not be a whole"),
        (EVENTFUL, {"rounding": "up"}, PlanError, "rounding 'up' is unknown"),
        (
            ReactionDiffusion(
                ReactionNetwork({"A": 1}, [], events=[Event("sin(time) > 0.5", {"A": 0})]), (2,),
                diffusion={},
            ),
            {}, PlanError, "cannot meet a condition exactly: trigger of event '0'",
        ),
        (
            ReactionDiffusion(
                ReactionNetwork({"A": 0.5}, [Reaction("A -> 0", rate_constant=1.0)]), (2,),
                diffusion={},
            ),
            {}, ModelError, "0.5",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_simulated_is_refused(space, options, error, message):
    with pytest.raises(error, match=message):
        run(space, **options)


@pytest.mark.parametrize("space", [SPACE, EVENTFUL], ids=["plain", "eventful"])
def test_the_kernel_compiles_for_cuda(space):
    runner = SpaceRunner(build_space(space, {}, 1, "stochastic"), **OPTIONS)
    assert ".entry" in ptx(runner, optimized=False)


@pytest.mark.cuda
@pytest.mark.parametrize("output", ["trajectories", "statistics", "final"])
def test_a_gpu_has_the_realizations_of_a_cpu(output):
    options = {
        "replicates": 300, "output": output, "parameters": {"D": [0.1, 1.0]},
        "rounding": "stochastic",
    }  # fmt: skip
    birth = np.random.default_rng(1).random(SPACE.shape)
    for space in (
        SPACE,
        ReactionDiffusion(NETWORK, SPACE.shape, diffusion={"B": 1.0}, parameters={"birth": birth}),
        EVENTFUL,
    ):
        cpu, gpu = on_both(run, space, **options)
        xarray.testing.assert_equal(gpu, cpu)


def test_events_of_equal_priority_run_in_random_order_in_every_voxel():
    """As SBML asks; X tells the order of three events, and voxels do not follow each other."""
    events = [
        Event("time >= 1", {"X": f"4 * X + {k}"}, priority=1.0, values_from_trigger=False)
        for k in (1, 2, 3)
    ]
    network = ReactionNetwork(
        {"X": 0}, [Reaction("X -> 0", rate_constant=0.0)],
        events=[Event("time >= 1", {"X": 0}, priority=2.0), *events],
    )  # fmt: skip
    result = ergode.stochastic.simulate_space(
        ergode.ReactionDiffusion(network, (2, 2), diffusion={}), times=[0, 2], replicates=1500,
        seed=5, device="cpu",
    )  # fmt: skip
    x = result["amount"].isel(time=-1).values.reshape(1500, 4)
    for one in x.T:
        orders, counts = np.unique(one, return_counts=True)
        assert orders.tolist() == [27, 30, 39, 45, 54, 57]
        assert stats.chisquare(counts).pvalue > 1e-8
    # Each pair of voxels agrees in a sixth of the realizations.
    for u, v in ((0, 1), (1, 2), (0, 3)):
        assert abs((x[:, u] == x[:, v]).mean() - 1 / 6) < 5.5 * np.sqrt(5 / 36 / 1500)
