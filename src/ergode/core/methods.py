"""What the records of methods have in common, in every engine."""

from __future__ import annotations

from dataclasses import dataclass

from ergode.core.errors import PlanError


@dataclass(frozen=True)
class Method:
    """A method, as users read of it.

    An engine adds what it needs to run the method, and what the method cannot do.

    Attributes
    ----------
    name : str
        Value of ``method=``.
    summary : str
        What it is.
    use : str
        What it is for: the rest of a sentence that begins "The method is for".
    """

    name: str
    summary: str
    use: str

    def refuse(self, why: str | None) -> None:
        """Refuse what the method cannot do; `why` follows its name, or is None if it can.

        Raises
        ------
        PlanError
            There is a reason.
        """
        if why is not None:
            raise PlanError(f"method '{self.name}' {why}")
