"""Limits of memory, of control groups written into a folder."""

import math

import psutil
import pytest

from ergode.core import devices
from ergode.core.devices import machine
from ergode.core.devices.container import memory_limit

GIB = 1 << 30


def written(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    return root


def test_the_least_of_a_group_and_its_parents(tmp_path):
    groups = "sys/fs/cgroup/jobs"
    root = written(tmp_path, {
        "proc/self/cgroup": "0::/jobs/one\n",
        f"{groups}/memory.max": 8 * GIB, f"{groups}/memory.current": 7 * GIB,
        f"{groups}/memory.stat": f"file 9\ninactive_file {2 * GIB}\n",
        f"{groups}/one/memory.max": 4 * GIB, f"{groups}/one/memory.current": GIB // 2,
    })  # fmt: skip
    assert memory_limit(root) == (4 * GIB, 3 * GIB)
    written(root, {f"{groups}/one/memory.max": "max"})
    assert memory_limit(root) == (8 * GIB, 3 * GIB)


def test_the_first_version_and_a_group_named_as_the_host_names_it(tmp_path):
    group = "sys/fs/cgroup/memory"
    root = written(tmp_path, {
        "proc/self/cgroup": "5:devices:/docker/f00\n4:memory:/docker/f00\n0::/\n",
        f"{group}/memory.limit_in_bytes": 2 * GIB, f"{group}/memory.usage_in_bytes": 3 * GIB,
    })  # fmt: skip
    assert memory_limit(root) == (2 * GIB, 0)


def test_without_groups_there_is_no_limit(tmp_path):
    assert memory_limit(tmp_path) == (math.inf, math.inf)


@pytest.mark.parametrize("room", [GIB // 4, math.inf])
def test_a_plan_takes_no_more_than_the_group_has_room_for(monkeypatch, room):
    monkeypatch.setattr(machine, "memory_limit", lambda: (room, room))
    machine.free_memory.cache_clear()
    found = devices.resolve("cpu").available_bytes()
    machine.free_memory.cache_clear()
    assert found == int(0.8 * room) if room < math.inf else found > 0
    assert found <= psutil.virtual_memory().total
