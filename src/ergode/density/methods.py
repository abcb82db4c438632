"""The transport schemes: one record of `METHODS` for each value of `scheme=`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from ergode.core import methods
from ergode.core.compiler.source import Target
from ergode.density import tail
from ergode.density.grid import cells
from ergode.density.transport import advance, corner, fluxes, split

SchemeName = Literal["auto", "split", "corner-transport", "flow"]


Scheme = methods.Method
"""A way to move probability."""


@dataclass(frozen=True)
class Method(Scheme):
    """A scheme that transports mass through the faces of cells."""

    # Module with its device functions `find_fluxes_cpu` and `find_fluxes_cuda`.
    transport: ModuleType
    # Whether all dimensions are advanced together. The sum of their rates then bounds the step, a
    # cell owns the faces above it, and the fluxes of all dimensions may be stored together.
    unsplit: bool
    # Whether the prior's cells fill a box, as in the published runs, or are above the threshold.
    boxed: bool
    # `shift(journey)`: shift of a posterior's mean because transport smeared the tail [standard
    # deviations of the posterior].
    shift: Callable[[tail.Journey], float]
    shift_order: int  # power of the width with which this shift falls, for a fixed density
    # Steps of a density one cell wide that may widen it by half of what is told. The number grows
    # with the fourth power of the width in cells (measured: drifts and rotations, 1 to 2 cells).
    steps_to_smear: float

    def bindings(self, target: Target, keeps_fluxes: bool) -> dict[Any, Any]:
        """Options of the kernels, for a target and for stored or recomputed fluxes."""
        found = {
            cells.OWN_FACES: self.unsplit,
            cells.SUM_OF_RATES: self.unsplit,
            advance.CORNER: self.unsplit,
            fluxes.FLUXES_FIRST: keeps_fluxes,
        }
        if keeps_fluxes:
            found[fluxes.find_fluxes] = getattr(self.transport, f"find_fluxes_{target}")
        return found


GRIDS = {
    method.name: method
    for method in (
        Method(
            name="split",
            summary="third-order sweeps, one dimension after the other",
            use="every density",
            transport=split,
            unsplit=False,
            boxed=False,
            shift=tail.shift_of_split,
            shift_order=3,
            steps_to_smear=4.0,
        ),
        Method(
            name="corner-transport",
            summary="the scheme of the published runs, with their box of three standard deviations "
            "as the prior",
            use="comparison with those runs",
            transport=corner,
            unsplit=True,
            boxed=True,
            shift=tail.shift_of_corner_transport,
            shift_order=2,
            steps_to_smear=0.8,
        ),
    )
}
"""The schemes on a fixed grid."""

METHODS: dict[str, Scheme] = GRIDS | {
    "flow": Scheme(
        name="flow",
        summary="cells of the prior keep their mass and move with the field",
        use="densities without walls or strong noise, above all those that travel far",
    )
}
