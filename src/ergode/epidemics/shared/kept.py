"""Arrays made from the attributes of a network's nodes, kept with the network between calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ergode.models.epidemic.attributes import Network

_Made = TypeVar("_Made")


class _Kept(dict[str, Any]):
    """What is kept with a network; a pickled or deeply copied network begins without it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, ()


def kept(
    contacts: Network, what: str, key: Any, attributes: Iterable[str], make: Callable[[], _Made]
) -> _Made:
    """Return ``make()``, or what it returned before for the same key and the same attributes.

    A network keeps only the last of each `what`.  Arrays of a network are read-only.  An attribute
    that can be written to could change unseen, and nothing made from it is kept.

    Parameters
    ----------
    contacts : ContactNetwork or ComputedNetwork
    what : str
        What is made.
    key : hashable
        All that the result depends on, besides the network's rows and the attributes.
    attributes : iterable of str
        Names of the node attributes on which the result depends.
    make : callable
        Its result must not be changed afterwards.
    """
    arrays = [contacts.attributes.get(name) for name in attributes]
    if any(array is None or array.flags.writeable for array in arrays):
        return make()
    store = vars(contacts).setdefault("_kept", _Kept())
    if what in store:
        known, sources, made = store[what]
        if known == key and all(a is b for a, b in zip(sources, arrays, strict=True)):
            found: _Made = made
            return found
    fresh = make()
    store[what] = key, arrays, fresh
    return fresh
