"""From data to parameters."""

from ergode.core.keywords import suggest_all
from ergode.inference.abc import abc_smc
from ergode.inference.petab_files import read_petab
from ergode.inference.simulator import simulator

__all__ = ["abc_smc", "read_petab", "simulator"]

suggest_all(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
