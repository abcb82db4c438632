"""The methods of integration: description, requirements and runner of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ergode.core import methods
from ergode.core.arguments import choice
from ergode.core.devices import Device
from ergode.core.math.rosenbrock import RODAS4, ROSENBROCK23
from ergode.kinetics.block.schedule import SMALL
from ergode.kinetics.conditions import Zones
from ergode.kinetics.explicit.flows import conserves
from ergode.kinetics.explicit.runner import ExplicitRunner
from ergode.kinetics.implicit.runner import ImplicitRunner
from ergode.kinetics.launch import Runner
from ergode.kinetics.multistep.runner import MultistepRunner
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.tables import CLOSED, FIXED

MethodName = Literal["auto", "rodas4", "rosenbrock23", "bdf", "asymptotic"]

_LARGEST_COUNT = 2**31 - 1


@dataclass(frozen=True)
class Method(methods.Method):
    """One method of integration."""

    runner: Runner  # integrates zones on the CPU and on CUDA devices
    # Whether the method is implicit: it follows `rtol` on stiff networks, and can heat zones.
    implicit: bool = False
    max_steps: int = _LARGEST_COUNT  # default of the largest number of steps of a zone
    # Whether the method keeps a history of steps: for chemistry.
    multistep: bool = False

    def why_unsupported(
        self,
        mechanism: Mechanism,
        heating: int,
        flow: int = CLOSED,
        *,
        by_zone: bool = False,
        connected: bool = False,
    ) -> str | None:
        """Why zones of this network, heating and flow cannot be integrated; None if they can.

        `by_zone` tells whether zones have tolerances of their own, `connected` whether they are
        connected tanks.
        """
        if not self.multistep and connected:
            return "cannot integrate connected tanks; use 'bdf'"
        if self.multistep and mechanism.nuclear:
            return "is for chemistry, and the network has nuclei; use 'rodas4'"
        if by_zone and not self.implicit:
            return "has no tolerances by zone; give rtol and atol for all zones, or use 'rodas4'"
        if flow != CLOSED and not self.implicit:
            return "cannot integrate a reactor with flow; use 'rodas4'"
        if mechanism.has_powers and not self.implicit:
            return (
                "cannot integrate more than three reactants, or orders that are no whole numbers; "
                "use 'rodas4'"
            )
        if mechanism.has_sunlight and not self.implicit:
            return "cannot integrate coefficients that depend on sunlight; use 'rodas4'"
        if heating != FIXED and not self.implicit:
            return "cannot integrate the temperature; use 'rodas4'"
        return None

    def why_uncontrolled(self, mechanism: Mechanism) -> str | None:
        """Why the error of steps is not controlled on this network; None if it is."""
        if not self.implicit and not conserves(mechanism):
            return (
                "step-size control needs a conserved sum of species, and the network has none; "
                "use 'rodas4', or compare with it"
            )
        return None


METHODS = {
    method.name: method
    for method in (
        Method(
            "rodas4", "a Rosenbrock method of order 4, which follows `rtol`", "every network",
            ImplicitRunner(RODAS4), implicit=True, max_steps=100_000,
        ),
        Method(
            "rosenbrock23", "a Rosenbrock method of order 2, which follows `rtol`",
            "two or three digits", ImplicitRunner(ROSENBROCK23), implicit=True, max_steps=100_000,
        ),
        Method(
            "bdf", "backward differentiation formulas of order 1 to 5, which follow `rtol`",
            "chemistry, and accurate solutions", MultistepRunner(),
            implicit=True, max_steps=100_000, multistep=True,
        ),
        Method(
            "asymptotic", "explicit, with the asymptotic formula for stiff species",
            "comparison with published codes", ExplicitRunner(),
        ),
    )
}  # fmt: skip
AUTO = "rodas4"
_AUTO_REASON = "implicit, of order 4: the fewest steps on stiff networks"
_CHEMISTRY = "bdf"
_CHEMISTRY_REASON = "molecules: one Jacobian serves many steps"


def choose(name: str, *, auto: bool = True) -> tuple[Method, str]:
    """The method of this name, and why it was chosen; `suited` chooses for ``"auto"``.

    Parameters
    ----------
    name : str
    auto : bool
        Whether ``"auto"`` is a name.

    Raises
    ------
    PlanError
        The name is unknown.
    """
    choice("method", name, (*(["auto"] if auto else []), *METHODS))
    if name == "auto":
        return METHODS[AUTO], _AUTO_REASON
    return METHODS[name], "asked for"


def suited(mechanism: Mechanism, zones: Zones, device: Device) -> tuple[Method, str]:
    """The method that ``"auto"`` is for these zones, and why."""
    one = METHODS[_CHEMISTRY]
    # A temperature or a sunlight over time begins the history anew wherever its slope jumps.
    hot = zones.history.temperature
    suits = not mechanism.has_sunlight and (hot == hot[:, :1]).all()
    suits = suits and not mechanism.has_formulas and not mechanism.has_composed
    # On a GPU few species at a given temperature take less time by a thread of each zone.
    large = zones.heating != FIXED or zones.amounts.shape[1] > SMALL
    refused = one.why_unsupported(mechanism, zones.heating, zones.flow)
    if zones.tank_count > 1:
        return one, "connected tanks"
    if mechanism.molecular and suits and (large or not device.is_cuda) and not refused:
        return one, _CHEMISTRY_REASON
    return choose("auto")
