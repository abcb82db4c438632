"""Public function `simulate_space`: reactions and diffusion on a grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.arguments import check_switch, choice, integer, replicate_numbers, time_grid
from ergode.core.calls.divide import Executor, StorePath, divisible, replicates_of
from ergode.core.calls.job import Job, Whole
from ergode.core.devices import Device
from ergode.core.errors import ModelError
from ergode.core.stopwatch import Stopwatch
from ergode.core.words import counted
from ergode.models.reactions.events import Rounding
from ergode.models.reactions.reaction_diffusion import ReactionDiffusion
from ergode.models.sweep import POINT, REPLICATES_MOST, replicates_apart
from ergode.stochastic.merge import merge_of_space
from ergode.stochastic.simulate import job_of, sweep_of
from ergode.stochastic.space.outputs import Collector, Output
from ergode.stochastic.space.runner import SpaceRunner
from ergode.stochastic.space.tables import build_space

METHOD = "next-subvolume"
# A GPU gives each realization a thread, which is slower than a core: it needs many of them.
_MANY = 4096


@divisible("stochastic", replicates_of, merge_of_space, {"parameters": POINT})
def simulate_space(
    whole: Whole,
    space: ReactionDiffusion,
    *,
    times: ArrayLike,
    replicates: int | range = 1,
    seed: int = 0,
    device: str | Device = "auto",
    keep_on_device: bool = False,
    output: Output = "trajectories",
    parameters: Mapping[str, Any] | None = None,
    rounding: Rounding | None = None,
    max_firings: int = 10**12,
    progress: bool = False,
    executor: Executor | None = None,
    store: StorePath | None = None,
    chunk: int | None = None,
    common_random_numbers: bool = True,
) -> Job:
    """Simulate realizations of a reaction-diffusion master equation, exactly.

    A firing is a reaction in a voxel, or a jump of a molecule to a neighbour. The method finds the
    voxel first, in a tree of the propensities of all voxels, and then what happens in it; a
    firing takes time in proportion to the logarithm of the number of voxels. Events are those of
    the network in every voxel (see `ergode.ReactionDiffusion`); after a firing, conditions are
    evaluated only in the voxels that it changed.

    Parameters
    ----------
    space : ReactionDiffusion
    times, replicates, seed, rounding, progress, executor, store, chunk, common_random_numbers
        As for `ergode.stochastic.simulate`. The grid of times never changes a realization.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`). A core simulates one
        realization at a time. On a GPU each thread does, slower than a core, so ``"auto"`` takes
        it only for 4,096 realizations and more.
    keep_on_device : bool
        As for `ergode.stochastic.simulate`; not for ``"statistics"``.
    output : {"trajectories", "statistics", "final"}
        Amounts in every voxel of every realization; means and variances over realizations; amounts
        at the last time.
    parameters : mapping of str to float or array_like
        Values that replace parameters of the network. Arrays of equal length are swept together
        along the dim ``point``; `ergode.grid` crosses all arrays, and each becomes a dim of its
        own.
    max_firings : int
        Limit on the firings of a realization. Beyond it, the realization ends with the status
        ``TOO_MANY_STEPS``.

    Returns
    -------
    xarray.Dataset
        ``amount`` with the dims replicate, time, species and the axes of the grid (x, y and z),
        whose coordinates are the centres of voxels [length]. For ``"statistics"``, ``mean`` and
        ``variance``. ``status`` and ``firing_count`` of every realization. Values that a
        realization did not reach are missing, and excluded from statistics. Rules are not reported.

    Raises
    ------
    ModelError
        A name or a value is invalid.
    PlanError
        The run is not possible as requested: rates that depend on the time otherwise than by
        comparisons, events that may assign a fraction, output, memory.

    Warns
    -----
    FailureWarning
        Realizations failed; `status` says how.
    InterruptionWarning
        The run was interrupted (Ctrl-C). Realizations that were not simulated have the status
        ``NOT_RUN``.

    References
    ----------
    J. Elf, M. Ehrenberg, "Spontaneous separation of bi-stable biochemical systems into spatial
    domains of opposite phases", Syst. Biol. 1 (2004).

    Examples
    --------
    >>> import ergode
    >>> import numpy as np
    >>> network = ergode.ReactionNetwork(
    ...     {"A": 0}, [ergode.Reaction("A -> 0", rate_constant=0.1)]
    ... )
    >>> drop = np.zeros((20, 30))
    >>> drop[10, 15] = 1000
    >>> space = ergode.ReactionDiffusion(
    ...     network, (20, 30), diffusion={"A": 0.5}, spacing=0.5, initial={"A": drop}
    ... )
    >>> result = ergode.stochastic.simulate_space(space, times=[0, 1, 2], seed=1, device="cpu")
    >>> dict(result["amount"].sizes)
    {'replicate': 1, 'time': 3, 'species': 1, 'x': 20, 'y': 30}
    """
    if not isinstance(space, ReactionDiffusion):
        raise ModelError(f"space is {type(space).__name__}; expected a ReactionDiffusion")
    stopwatch = Stopwatch()
    grid = time_grid(times)
    if grid.size < 2:
        raise ModelError("times has one time; expected at least a start and an end")
    numbers = replicate_numbers(replicates, REPLICATES_MOST)
    seed = integer("seed", seed, 0, 2**64 - 1)
    max_firings = integer("max_firings", max_firings, 1, 2**62)
    choice("output", output, get_args(Output))
    if rounding is not None:
        choice("rounding", rounding, get_args(Rounding))
    check_switch("simulate_space", "common_random_numbers", common_random_numbers)
    layout = _sweep_of(space, parameters, results.names("stochastic", f"space-{output}"))
    apart = replicates_apart(numbers, layout.count, common_random_numbers)
    place, reason = _device_for(device, layout.count * (whole.replicates or len(numbers)))
    tables = build_space(space, layout.rows, layout.count, rounding)
    times_of = grid[-1:] if output == "final" else grid
    runner = SpaceRunner(
        tables, grid=times_of, begin=float(grid[0]), seed=seed, replicates=numbers,
        apart=apart, max_firings=max_firings, device=place,
    )  # fmt: skip
    shape = (times_of.size, len(space.network.species), *space.shape)
    collect = Collector(output, layout, len(numbers), shape, space.axes)
    why = f"{counted(space.voxel_count, 'voxel')}: first the voxel, then what happens in it"
    coords = {
        "time": grid, "species": [one.name for one in space.network.species], **space.centres
    }  # fmt: skip
    return job_of(
        runner, collect, stopwatch, layout, numbers, apart, progress, coords, METHOD, why,
        device_reason=reason, seed=str(seed), model_digest=space.digest,
    )  # fmt: skip


def _sweep_of(space: ReactionDiffusion, parameters: Any, reserved: frozenset[str]) -> Any:
    """Points of the sweep.

    Raises a ModelError if a name is not a parameter, or its value differs between voxels.
    """
    layout = sweep_of(space.voxel, parameters, None, reserved)
    for name in parameters or {}:
        if name in space.parameters:
            raise ModelError(
                f"parameters has '{name}', which has a value for every voxel; it cannot be replaced"
            )
        if name not in space.network.parameters:
            raise ModelError(
                f"parameters has '{name}', whose size is the volume of a voxel; change the spacing"
            )
    return layout


def _device_for(asked: str | Device, total: int) -> tuple[Device, str]:
    """Device for so many realizations, and why."""
    device = devices.resolve(asked)
    if asked == "auto" and device.is_cuda and total < _MANY:
        return devices.resolve("cpu"), f"fewer than {_MANY:,} realizations"
    return device, device.reason
