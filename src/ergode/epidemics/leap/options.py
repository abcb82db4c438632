"""Options of the kernels that take time steps, beside those of `shared.options`.

A kernel without an option does not contain the code for it.  Each option is tested by itself, in an
`if` of its own, so that a branch is dropped before its content is compiled.
"""

from __future__ import annotations

from ergode.core.compiler.language import option

# ---- both targets

TABULATED = option(True)
"""Steps are equal: probabilities of leaving a compartment come from a table."""
COUNTED = option(False)
"""Forces of infection are counts of neighbours: probabilities of infection come from a table."""
SAMPLED = option(False)
"""Holding times are drawn when a node enters a compartment."""
THRESHOLDS = option(False)
"""A threshold for infection is drawn when a node enters the susceptible compartment.

Forces of infection are counts of neighbours, and the model has one infection.
"""
LEFT_END = option(False)
"""The hazard is frozen within a step."""
ADAPTIVE = option(False)
"""The length of a step follows the largest hazard."""
MODULATED = option(False)
"""Forces of infection are weighed by factors that change in time (see `leap.factors`)."""
LAYERS = option(1)
"""Layers of contacts with a factor of their own."""
HAS_VACCINES = option(True)
"""Vaccines change what nodes take of the force of infection."""
AGED = option(True)
"""Ages matter: some holding time is not exponential."""

# ---- CUDA: how forces of infection are kept

GATHERS = option(True)
"""Nodes sum over their neighbours, at least in some steps."""
PUSHES = option(True)
"""Nodes add to their neighbours' force of infection, at least in some steps."""
SKIPS = option(False)
"""Tiles in which nothing happens are skipped."""
LOCAL_BITS = option(False)
"""The bits that say who is infectious fit in shared memory."""
CUTS_HUBS = option(False)
"""Rows of hubs are cut into segments."""
GATHERED = option(4096)
"""Words of shared memory for gathered forces of infection: four a thread."""

# ---- CUDA: the structure of the model (see `step.Rules`)

SOURCE_MASK = option((2,))
"""Of each source, a bit for each of its compartments."""
SOURCE_INFECTION = option((0,))
"""Of each source, its infection."""
SUSCEPTIBLE = option((0,))
"""The compartment before each infection."""
INFECTED = option((1,))
"""The compartment after each infection."""
CHANNELS = option(1)
"""Forces of infection that are kept for a node: one for each infection and layer."""
CHANNEL_SUSCEPTIBLE = option((0,))
"""The compartment before the infection of each channel."""
CHANNEL_LAYER = option((0,))
"""The layer of each channel."""
SUSCEPTIBLE_MASK = option(1)
"""A bit for each compartment that an infection leads out of."""
LEAVING_MASK = option(2)
"""A bit for each compartment that a node leaves by itself."""
KEEPING_MASK = option(3)
"""A bit for each compartment in which a node may yet be susceptible."""
