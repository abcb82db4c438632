"""What makes runs by the queue of events share one kernel, which is compiled once for all of them.

A kernel is made for the kinds of what there is, and not for numbers.
"""

import numpy as np

import ergode

# They trace nobody, and close nothing.
IDLE = (
    ergode.ContactTracing("I", detection=0.0, start=0.0),
    ergode.LayerClosure(start=ergode.Trigger("R", 10**6)),
)
NEVER_CHANGES = {"home": ergode.Calendar([0], [1.0])}


def with_layers(source, target, node_count, **attributes):
    """A network with one layer `home`, whose weights are one."""
    home = ergode.ContactNetwork.from_edges(
        source, target, node_count, weights=np.ones(len(source))
    )
    return ergode.ContactNetwork.from_layers({"home": home}).with_attributes(**attributes)
