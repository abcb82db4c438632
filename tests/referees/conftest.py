import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest

from ergode.core import kernels


def _forget():
    """Engines forget the kernels that they keep."""
    for name, module in [*sys.modules.items()]:
        kept = vars(module).get("kernel_of") if name.startswith("ergode.") else None
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()


@pytest.fixture
def nothing_compiled(monkeypatch):
    """No kernel is served that was compiled before the engine was broken on purpose, or after."""
    monkeypatch.setattr(kernels, "_COMPILED", {})
    monkeypatch.setattr(kernels, "_SOURCES", {})
    _forget()
    yield
    _forget()
