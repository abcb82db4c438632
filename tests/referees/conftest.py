import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest

from ergode.core import kernels


@pytest.fixture
def nothing_compiled(monkeypatch):
    """No kernel is served that was compiled before the engine was broken on purpose."""
    monkeypatch.setattr(kernels, "_COMPILED", {})


# Of families that are tested in several forms, an ordinary run takes the cheaper ones, so that it
# fits its time. Fresh seeds (`-m exhaustive`) take all.
LEFT_TO_EXHAUSTIVE_RUNS = (
    "test_each_point_is_its_own_call[plain]",
    "test_each_point_is_its_own_call[measures]",
    "test_windows_and_line_lists_tell_the_same_history[measures]",
    "test_each_point_of_a_sweep_is_its_own_call[nuclei-cpu]",
    "test_implicit_methods_on_random_cases[heated-cpu]",
    "test_trajectories_of_other_runs_are_the_same[observables-float64]",
    "test_delay_equations_are_the_same[{'rtol': 1e-05, 'atol': 1e-07}]",
    "test_linear_systems[1 diagonal split float32-cpu]",
    "test_random_fields[rk4-cpu]",
    "test_random_networks[small-1]",
    "test_random_networks[mass_action-0]",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in LEFT_TO_EXHAUSTIVE_RUNS:
            item.add_marker(pytest.mark.exhaustive)
