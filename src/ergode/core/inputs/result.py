"""The inputs of a result, as the user has them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ergode.core.errors import PlanError, ReadError
from ergode.core.inputs.comparing import comparable, digest_of_entry, digests, leaves
from ergode.core.inputs.rebuilding import AbsentError, call_of, value_of
from ergode.core.inputs.record import ATTRIBUTE, usual_of
from ergode.core.inputs.text import shown

if TYPE_CHECKING:
    import xarray


class Inputs(Mapping[str, Any]):
    """The arguments of the call that made a result, by name; see `ergode.inputs`.

    Reading one that a file does not contain raises a PlanError.

    Attributes
    ----------
    call : str
        Name of the call, such as ``"ergode.stochastic.simulate"``.
    version : str
        Version of ergode that made it.
    digest : str
        Equal for equal calls. Devices, executors and files do not count.
    """

    def __init__(self, text: str, given: Mapping[str, Any]) -> None:
        try:
            found = json.loads(text)
            call: str = found["call"]
            self._entries: dict[str, Any] = found["arguments"]
            self.version: str = found["version"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ReadError(f"the attribute '{ATTRIBUTE}' is damaged: {text!r:.80}") from None
        self._call = call_of(call)
        module, _, name = call.partition(":")
        self.call = ".".join([*module.split(".")[:2], name])
        self.digest = digest_of_entry([call, self.version, self._entries])
        self._given = dict(given)
        for name, value in given.items():
            if name not in self._entries:
                known = ", ".join(self._entries)
                raise PlanError(f"{self.call} has no argument '{name}'; it has {known}")
            if not self._agrees(name, value):
                raise PlanError(
                    f"{name} is not that of the result, which was computed with "
                    f"{shown(self._entries[name])}; to change it, pass it to again()"
                )

    def _agrees(self, name: str, value: Any) -> bool:
        return digests({name: value}) == {
            key: digest_of_entry(leaf) for key, leaf in leaves(name, self._entries[name])
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, name: str) -> Any:
        entry = self._entries[name]
        if name in self._given:
            return self._given[name]
        try:
            found = value_of(entry)
        except AbsentError as error:
            raise PlanError(
                f"{name} cannot be made again from the result alone: of {error} it has the digest; "
                f"pass it, as in ergode.inputs(dataset, {name}=...)"
            ) from None
        if not self._agrees(name, found):
            raise PlanError(
                f"{name} as made from the result has another digest; pass it, as in "
                f"ergode.inputs(dataset, {name}=...)"
            )
        return found

    def of(self, name: str) -> Inputs:
        """The inputs of a Dataset that was an argument, such as the run that an analysis read.

        Parameters
        ----------
        name : str
            Name of the argument.

        Raises
        ------
        PlanError
            The argument is not a Dataset that has inputs.
        """
        entry = self._entries[name]
        own = entry.get("inputs") if isinstance(entry, dict) and "sizes" in entry else None
        if own is None:
            raise PlanError(f"{name} is {shown(entry)}; expected a Dataset with inputs")
        return Inputs(json.dumps(own), {})

    def again(self, **changes: Any) -> xarray.Dataset:
        """Make the call again.

        Parameters
        ----------
        **changes
            Arguments that differ, and arguments that do not change a result, such as `device`.

        Returns
        -------
        xarray.Dataset
            The result of this version of ergode.

        Raises
        ------
        PlanError
            An argument cannot be made again from the result alone.
        """
        arguments = {name: self[name] for name in self if name not in changes}
        return self._call(**arguments | changes)

    def __repr__(self) -> str:
        lines = [f"<inputs of {self.call}, ergode {self.version}, digest {self.digest[:12]}>"]
        usual = usual_of(inspect.unwrap(self._call))
        others = []
        for name, entry in self._entries.items():
            if name in usual and comparable(json.loads(usual[name])) == comparable(entry):
                others.append(f"{name}={shown(entry)}")
            else:
                lines.append(f"    {name}: {shown(entry, 1_000)}")
        return "\n".join([*lines, f"    defaults: {', '.join(others)}"])


def inputs(dataset: xarray.Dataset | xarray.DataArray, /, **given: Any) -> Inputs:
    """What a result was computed from: the arguments of its call.

    Every result has them in its attribute ``inputs``, and so has a file of it. ``again()`` makes
    the call again. From a file, numbers, arrays of up to 16 kB, and models of numbers, names and
    equations are made again; so are random networks of contacts, and fields of `ergode.fields`. Of
    larger arrays, of functions and of Datasets there is the digest; `of` shows the inputs of a
    Dataset. The digest of a Dataset counts its inputs, its sizes, and the values of variables of up
    to 1 MB. Functions and Datasets are found in the process that made the
    call, as long as they are in use; elsewhere pass them.

    Parameters
    ----------
    dataset : xarray.Dataset, xarray.DataArray or DeviceResult
        A result.
    **given
        Arguments that the file does not contain. Their digests are compared with those of the
        result.

    Returns
    -------
    Inputs
        A mapping of names to arguments. It prints as a table.

    Raises
    ------
    PlanError
        The dataset has no inputs, or a given argument is not that of the result.

    Examples
    --------
    >>> import ergode
    >>> network = ergode.ReactionNetwork({"X": 9}, [ergode.Reaction("X -> 0", rate_constant=1.0)])
    >>> result = ergode.stochastic.simulate(network, times=[0, 1], seed=3, device="cpu")
    >>> inputs = ergode.inputs(result)
    >>> inputs["seed"], inputs.call
    (3, 'ergode.stochastic.simulate')
    >>> bool((inputs.again()["amount"] == result["amount"]).all())
    True
    """
    text = getattr(dataset, "attrs", {}).get(ATTRIBUTE)
    if not isinstance(text, str):
        raise PlanError(
            f"it has no attribute '{ATTRIBUTE}'; expected the result of a call of ergode (a "
            "variable that was taken from a Dataset does not have it)"
        )
    return Inputs(text, given)
