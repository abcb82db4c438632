"""Public function `simulate_rules`: molecules and rules, without a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.arguments import check_switch, choice, integer, replicate_numbers, time_grid
from ergode.core.calls.divide import Executor, StorePath, divisible, replicates_of
from ergode.core.calls.job import Job, Whole
from ergode.core.devices import Device
from ergode.core.errors import ModelError, PlanError
from ergode.core.stopwatch import Stopwatch
from ergode.models.rules.model import RuleModel
from ergode.models.sweep import POINT, REPLICATES_MOST, replicates_apart
from ergode.stochastic.merge import merge_of_rules
from ergode.stochastic.rules.outputs import Collector, Output
from ergode.stochastic.rules.runner import RuleRunner
from ergode.stochastic.rules.tables import build_rules, network_of
from ergode.stochastic.simulate import job_of, sweep_of

METHOD = "network-free"
_WHY = "molecules are kept one by one, and rules choose among them"


@divisible("stochastic", replicates_of, merge_of_rules, {"parameters": POINT})
def simulate_rules(
    whole: Whole,
    model: RuleModel,
    *,
    times: ArrayLike,
    replicates: int | range = 1,
    seed: int = 0,
    device: str | Device = "auto",
    output: Output = "trajectories",
    parameters: Mapping[str, Any] | None = None,
    strict: bool = True,
    max_molecules: int = 100_000,
    max_firings: int = 10**9,
    progress: bool = False,
    executor: Executor | None = None,
    store: StorePath | None = None,
    chunk: int | None = None,
    common_random_numbers: bool = True,
) -> Job:
    """Simulate realizations of rules, exactly, without the network that they would generate.

    Every molecule is kept, with the states and bonds of its sites. A rule is chosen by its
    propensity, and then a place of each of its reactants; choices to which the rule does not apply
    are rejected. The law is that of the generated network: reactants with a ``+`` between them are
    in different species, those with a ``.`` in the same. A firing takes as long as there are
    molecules and rules nearby, however many species are possible. A rate that depends on what the
    rule takes (``f(x)`` of a tag) gives each place a weight of its own.

    Parameters
    ----------
    model : RuleModel
        From `ergode.read_rules`.
    times, replicates, seed, progress, executor, store, chunk, common_random_numbers
        As for `ergode.stochastic.simulate`. The grid of times never changes a realization.
    device : str or Device
        ``"auto"`` and ``"cpu"`` are the CPU: a core simulates one realization at a time. There is
        no simulation of rules on a GPU.
    output : {"trajectories", "statistics", "final"}
        Observables and functions of every realization; means and variances over realizations;
        values at the last time.
    parameters : mapping of str to float or array_like
        Values that replace parameters of the model. Arrays of equal length are swept together
        along the dim ``point``; `ergode.grid` crosses all arrays, and each becomes a dim of its
        own.
    strict : bool
        Whether products with a ``+`` between them must be different species, as in the generated
        network: a rule that would leave them joined does not apply. False: it does, as in NFsim,
        whose models may rely on it.
    max_molecules : int
        For each type of molecule that rules make: how many more there may be at a time than at the
        begin. Beyond it, the realization ends with the status ``OVERFLOW``.
    max_firings : int
        Limit on the firings of a realization, and on rejected choices in a row. Beyond it, the
        realization ends with the status ``TOO_MANY_STEPS``.

    Returns
    -------
    xarray.Dataset
        ``value`` with the dims replicate, time and rule: the observables and functions of the
        model. For ``"statistics"``, ``value_mean`` and ``value_variance``. ``status`` and
        ``firing_count`` of every realization. Values that a realization did not reach are missing,
        and excluded from statistics.

    Raises
    ------
    ModelError
        A name or a value is invalid.
    PlanError
        The run is not possible as requested: a GPU, the built-in rate laws, rates that depend on
        the time otherwise than by comparisons or on observables of species, sites with two bonds,
        patterns of more than two parts that are not bound, rates that depend on two reactants,
        memory.

    Warns
    -----
    InterruptionWarning
        The run was interrupted (Ctrl-C). Realizations that were not simulated have the status
        ``NOT_RUN``.

    References
    ----------
    V. Danos et al., "Scalable simulation of cellular signaling networks", APLAS, LNCS 4807 (2007).
    M. W. Sneddon, J. R. Faeder, T. Emonet, "Efficient modeling, simulation and coarse-graining of
    biological complexity with NFsim", Nat. Methods 8 (2011).

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "polymer.bngl")
    >>> _ = path.write_text(\"\"\"
    ... begin seed species
    ...     A(x,x) 1000
    ... end seed species
    ... begin observables
    ...     Species Chains A()
    ... end observables
    ... begin reaction rules
    ...     A(x) + A(x) <-> A(x!1).A(x!1) 0.001, 1
    ... end reaction rules\"\"\")
    >>> polymer = ergode.read_rules(path)
    >>> result = ergode.stochastic.simulate_rules(polymer, times=[0, 1, 2], replicates=3, seed=1)
    >>> dict(result["value"].sizes)
    {'replicate': 3, 'time': 3, 'rule': 1}
    """
    if not isinstance(model, RuleModel):
        raise ModelError(f"model is {type(model).__name__}; expected a RuleModel (read_rules)")
    stopwatch = Stopwatch()
    grid = time_grid(times)
    if grid.size < 2:
        raise ModelError("times has one time; expected at least a start and an end")
    numbers = replicate_numbers(replicates, REPLICATES_MOST)
    seed = integer("seed", seed, 0, 2**64 - 1)
    room = integer("max_molecules", max_molecules, 0, 2**30)
    max_firings = integer("max_firings", max_firings, 1, 2**62)
    choice("output", output, get_args(Output))
    check_switch("simulate_rules", "common_random_numbers", common_random_numbers)
    check_switch("simulate_rules", "strict", strict)
    place = _device_for(device)
    network = network_of(model)
    layout = sweep_of(network, parameters, None, results.names("stochastic", f"rules-{output}"))
    apart = replicates_apart(numbers, layout.count, common_random_numbers)
    rules = model if strict else replace(
        model, rules=tuple(replace(one, keeps_parts=False) for one in model.rules)
    )  # fmt: skip
    tables = build_rules(rules, network, layout.rows, layout.count, room)
    times_of = grid[-1:] if output == "final" else grid
    runner = RuleRunner(
        tables, grid=times_of, begin=float(grid[0]), seed=seed, replicates=numbers,
        apart=apart, max_firings=max_firings, device=place,
    )  # fmt: skip
    collect = Collector(output, tables, times_of, layout, len(numbers))
    return job_of(
        runner, collect, stopwatch, layout, numbers, apart, progress, {"time": grid}, METHOD, _WHY,
        device_reason=place.reason, seed=str(seed), model_digest=model.digest,
    )  # fmt: skip


def _device_for(asked: str | Device) -> Device:
    """The device.

    Raises a PlanError if it is a GPU that was asked for by name.
    """
    if asked == "auto":
        return replace(devices.resolve("cpu"), reason="rules are simulated on the CPU")
    named = asked.startswith("cuda") if isinstance(asked, str) else asked.is_cuda
    if named:
        raise PlanError(
            f"device={asked!r}: rules are simulated on the CPU only; use device='cpu', or the "
            "network that they generate (ergode.read_bionetgen)"
        )
    return devices.resolve(asked)
