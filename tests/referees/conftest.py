import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest

from ergode.core import kernels


@pytest.fixture
def nothing_compiled(monkeypatch):
    """No kernel is served that was compiled before the engine was broken on purpose."""
    monkeypatch.setattr(kernels, "_COMPILED", {})
    monkeypatch.setattr(kernels, "_SOURCES", {})
