"""From data to parameters."""

from ergode.core.keywords import suggest_all
from ergode.inference.abc import abc_smc
from ergode.inference.ensemble_kalman import ensemble_kalman
from ergode.inference.field_likelihood import field_likelihood
from ergode.inference.history_matching import history_matching
from ergode.inference.iterated_filtering import iterated_filtering
from ergode.inference.particle_likelihood import particle_likelihood
from ergode.inference.petab_files import read_petab
from ergode.inference.petab_writer import write_petab
from ergode.inference.pseudo_marginal import pseudo_marginal
from ergode.inference.sedml import read_sedml
from ergode.inference.simulator import simulator
from ergode.inference.synthetic_likelihood import synthetic_likelihood

__all__ = [
    "abc_smc", "ensemble_kalman", "field_likelihood", "history_matching", "iterated_filtering",
    "particle_likelihood", "pseudo_marginal", "read_petab", "read_sedml", "simulator",
    "synthetic_likelihood", "write_petab",
]  # fmt: skip

suggest_all(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
