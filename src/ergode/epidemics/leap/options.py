"""Options of the tau-leaping kernels, in addition to those of `shared.options`.

A kernel without an option does not contain the code for it.  Each option has an `if` of its own, so
that its branch is dropped before it is compiled.
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
"""Steps are adaptive: their length depends on the largest hazard."""
MODULATED = option(False)
"""Forces of infection are multiplied by time-dependent factors (see `leap.factors`)."""
LAYERS = option(1)
"""Number of layers of contacts with a factor of their own."""
HAS_VACCINES = option(True)
"""Vaccines reduce the susceptibility of nodes."""
AGED = option(True)
"""Ages are stored: some holding time is not exponential."""

# ---- CUDA: how forces of infection are kept

ARCS_AT_ONCE = option(4)
"""Arcs of a node whose reads overlap."""

GATHERS = option(True)
"""Nodes sum over their neighbours, at least in some steps."""
PUSHES = option(True)
"""Nodes add to their neighbours' force of infection, at least in some steps."""
SKIPS = option(False)
"""Tiles in which nothing happens are skipped."""
LOCAL_BITS = option(False)
"""The bits of infectious nodes fit in shared memory."""
CUTS_HUBS = option(False)
"""Rows of hubs are cut into segments."""
RESUMES = option(False)
"""A launch takes some of the steps, and leaves the state for the next one."""
GATHERED = option(4096)
"""Words of shared memory for gathered forces of infection: four per thread."""

# ---- CUDA: the structure of the model (see `step.Rules`)

SOURCE_MASK = option((2,))
"""Bit mask of the compartments of each source."""
SOURCE_INFECTION = option((0,))
"""Infection of each source."""
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
"""A bit for each compartment with a progression."""
KEEPING_MASK = option(3)
"""A bit for each compartment from which a node may become susceptible again."""
