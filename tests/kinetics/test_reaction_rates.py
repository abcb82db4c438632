import pytest

import ergode
from ergode.kinetics import reaction_rates

LAW = ergode.Reaclib([(60.9649, 0, -84.165, -1.56627, -0.0736084, -0.072797, -2 / 3)], 0.5)
CARBON = ergode.ReactionNetwork(
    [
        ergode.Species("c12", mass_number=12, charge_number=6, thermochemistry=ergode.Nucleus(0.0)),
        ergode.Species(
            "mg24", mass_number=24, charge_number=12, thermochemistry=ergode.Nucleus(-13.933)
        ),
    ],
    [ergode.Reaction("2 c12 -> mg24", rate_constant=LAW)],
)


@pytest.mark.parametrize("screening", [None, "weak", "chugunov"])
def test_rates_record_the_screening_that_raised_them(screening):
    conditions = {"temperature": 1e9, "density": 1e8, "initial": {"c12": 1.0}}
    bare = reaction_rates(CARBON, **conditions)
    found = reaction_rates(CARBON, screening=screening, **conditions)
    assert found.attrs["screening"] == (screening or "none")
    assert (found["rate"].item() > 1.1 * bare["rate"].item()) == (screening is not None)
