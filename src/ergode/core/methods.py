"""Base record of a method, shared by all engines."""

from __future__ import annotations

from dataclasses import dataclass

from ergode.core.errors import PlanError


@dataclass(frozen=True)
class Method:
    """User-facing description of a method.

    An engine adds how to run the method and what the method does not support.
    """

    name: str  # value of ``method=``
    summary: str  # one-line description
    use: str  # purpose: completes a sentence that begins "The method is for"

    def refuse(self, why: str | None) -> None:
        """Raise an error if `why` is given; in the message, `why` follows the method's name.

        Raises a PlanError if `why` is not None.
        """
        if why is not None:
            raise PlanError(f"method '{self.name}' {why}")
