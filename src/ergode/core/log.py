"""What a call is going to do: for the log, and for those who want to know before it does it.

The logger ``ergode`` says nothing unless a program asks for it:
``logging.basicConfig(level="INFO")``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ergode.core.context import held, running

if TYPE_CHECKING:
    from ergode.core.devices import Device

_logger = logging.getLogger("ergode")
_logger.addHandler(logging.NullHandler())


class Planned(BaseException):
    """The plan is told, and nothing is computed: the end of a call within `plan_only`."""


@dataclass
class _Plan:
    is_elsewhere: bool = False
    facts: dict[str, str] = field(default_factory=dict)
    is_checked: bool = False


_plan: ContextVar[_Plan | None] = ContextVar("ergode_plan", default=None)


@contextmanager
def plan_only(elsewhere: bool = False) -> Iterator[dict[str, str]]:
    """Within this block a call ends where it would begin to compute; yields what it told.

    `elsewhere` means that the run is for another machine.
    """
    plan = _Plan(elsewhere)
    with held(_plan, plan), suppress(Planned):
        yield plan.facts


def tell(name: str, text: str) -> None:
    """Tell a fact about a call: log it, and add it to the plan."""
    if running().warnings is not None:  # a part repeats what the whole has told
        return
    _logger.info("%s: %s", name, text)
    plan = _plan.get()
    if plan is not None:
        told = plan.facts.get(name)
        plan.facts[name] = text if told in (None, text) else f"{told}; {text}"


def tell_all(facts: Mapping[str, str]) -> None:
    """Tell several facts, by name."""
    for name, text in facts.items():
        tell(name, text)


def choice(method: str, reason: str, device: Device) -> dict[str, str]:
    """The facts which method a call uses, and where."""
    return {"method": f"{method}: {reason}", "device": f"{device.name} ({device.model})"}


def checked() -> None:
    """The arguments of a call are checked."""
    plan = _plan.get()
    if plan is not None:
        plan.is_checked = True


def is_plan_only() -> bool:
    """Whether the call ends before it computes."""
    return _plan.get() is not None


def is_elsewhere() -> bool:
    """Whether the call is only planned, for another machine."""
    plan = _plan.get()
    return plan is not None and plan.is_elsewhere


def computes() -> None:
    """End a call that is only planned, once its arguments are checked: from here on it computes."""
    plan = _plan.get()
    if plan is not None and plan.is_checked:
        raise Planned
