"""Seeds of an epidemic: random nodes, or nodes of a group, with their ages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.devices.foreign import is_on_cuda, on_host
from ergode.core.errors import ModelError


@dataclass(frozen=True)
class Seeds:
    """Nodes that start in a compartment: their number or ids, how they are drawn, and their age.

    Parameters
    ----------
    nodes : int, float or array_like
        A number of nodes, a fraction of all nodes, or names or positions of nodes, as in `initial`.
    weight : str, optional
        Name of a node attribute, zero or more: nodes are drawn without replacement, one after
        another in proportion to it. An attribute of zeros and ones draws within a group.
    age : float or array_like
        Time already spent in the compartment at the first time [time]; one number, or one for each
        node id. The remaining holding time is drawn conditional on it.
    by : {"name", "position"}, optional
        What `nodes` lists. It is needed if names of the network are integers that differ from the
        positions of the nodes.

    Examples
    --------
    Ten children, infectious for two days:

    >>> import numpy as np
    >>> import ergode
    >>> model = ergode.CompartmentModel.sir(
    ...     transmission_rate=0.1, infectious=ergode.LogNormal(mean=7.5, median=5)
    ... )
    >>> contacts = ergode.ContactNetwork.erdos_renyi(1000, mean_degree=8, seed=1)
    >>> contacts = contacts.with_attributes(child=np.arange(1000) < 200)
    >>> counts = ergode.epidemics.simulate(
    ...     model, contacts, initial={"I": ergode.Seeds(10, weight="child", age=2.0)},
    ...     times=range(31), method="renewal-leap", device="cpu",
    ... )
    >>> int(counts["cases"][0, 0])
    10
    """

    nodes: Any
    weight: str | None = None
    age: ArrayLike = 0.0
    by: str | None = None

    def __post_init__(self) -> None:
        if is_on_cuda(self.nodes):
            object.__setattr__(self, "nodes", on_host(self.nodes))
        if self.weight is not None and np.ndim(self.nodes):
            raise ModelError("Seeds: weight selects random nodes, but nodes has node ids")
        if self.by is not None:
            if self.by not in ("name", "position"):
                raise ModelError(f"Seeds: by is {self.by!r}; expected 'name' or 'position'")
            if not np.ndim(self.nodes):
                raise ModelError("Seeds: by goes with a list of nodes, but nodes is a number")
        age = on_host(self.age)
        if age.dtype.kind not in "iuf" or not (np.isfinite(age) & (age >= 0)).all():
            raise ModelError(f"Seeds: age is {self.age!r}; expected a time of zero or more")
        if age.ndim > 1 or (age.ndim == 1 and age.shape != np.shape(self.nodes)):
            raise ModelError(
                f"Seeds: {age.size} ages for nodes of shape {np.shape(self.nodes)}; expected one "
                "age, or one for each node id"
            )
        object.__setattr__(self, "age", age.astype(float))
