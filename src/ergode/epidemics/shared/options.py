"""Options that kernels of several methods have.

A kernel leaves out the code for what its network, its model and its scenario do not have.
"""

from ergode.core.compiler.language import option

WEIGHTED = option(True)
"""Whether arcs have weights."""
HAS_STRATA = option(True)
"""Whether nodes are counted by stratum."""
HAS_AGES = option(False)
"""Whether some seeds have been in their compartment for a while already."""
LAYERED = option(True)
"""Whether arcs are in layers."""
TEMPORAL = option(True)
"""Whether contacts come and go; a static network has them always."""
HAS_CALENDARS = option(True)
"""Whether rates change over time: those of layers, or of infectious nodes with their age."""
HAS_INTERVENTIONS = option(True)
"""Whether there are interventions of any kind."""
HAS_TRACING = option(True)
"""Whether one of them is contact tracing."""
HAS_TRIGGERS = option(True)
"""Whether a count starts one of them."""
HAS_IMPORTATIONS = option(True)
"""Whether cases come from outside."""
THINNED = option(True)
"""Whether an effective contact may fail to transmit."""
HAS_MOMENTS = option(True)
"""Whether there are moments at which more than one thing may happen (`shared.clock`)."""
LISTING = option(True)
"""Whether line lists are kept."""
