"""Positions of compartments and layers, and attributes, by the names that a scenario gives."""

from __future__ import annotations

import numpy as np

from ergode.core.arguments import did_you_mean
from ergode.core.errors import ModelError
from ergode.models.epidemic.attributes import Network
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import ALL_CONTACTS


def layer_index(contacts: Network, name: str, where: str) -> int:
    """Position of a layer by name."""
    if name == ALL_CONTACTS and not contacts.layers:
        return 0
    if name not in contacts.layers:
        known = ", ".join(contacts.layers) or "none"
        raise ModelError(f"{where} names the layer '{name}', but the network has {known}")
    return contacts.layers.index(name)


def compartment_index(model: CompartmentModel, name: str, where: str) -> int:
    """Position of a compartment by name."""
    if name not in model.index:
        raise ModelError(
            f"{where} names the unknown compartment '{name}'; the model has "
            + ", ".join(model.compartments)
            + did_you_mean(name, model.compartments)
        )
    return model.index[name]


def attribute(contacts: Network, name: str, where: str) -> np.ndarray:
    """A node attribute by name."""
    if name not in contacts.attributes:
        known = ", ".join(contacts.attributes) or "none"
        raise ModelError(f"{where} needs the node attribute '{name}'; the network has {known}")
    return np.asarray(contacts.attributes[name])


def members_of(contacts: Network, name: str, where: str) -> np.ndarray:
    """Which nodes have a nonzero value of a node attribute, uint8 [node_count].

    Raises a ModelError if the network has no such attribute, or its values are neither truth values
    nor numbers of zero or more.
    """
    given = attribute(contacts, name, where)
    if given.dtype.kind not in "biuf" or not np.isfinite(given).all():
        raise ModelError(
            f"{where} is for nodes with a nonzero value of '{name}', whose values are no finite "
            "numbers; expected numbers or truth values"
        )
    if (given < 0).any():
        raise ModelError(
            f"{where} is for nodes with a nonzero value of '{name}', which has {given.min():g}; "
            "expected 0 for the others"
        )
    return (given != 0).astype(np.uint8)
