"""Options shared by kernels of several methods.

A kernel omits the code for features that its network, model and scenario do not have.
"""

from ergode.core.compiler.language import option

WEIGHTED = option(True)
"""Whether arcs have weights."""
HAS_STRATA = option(True)
"""Whether nodes are counted by stratum."""
HAS_AGES = option(False)
"""Whether some seeds have ages in their compartment."""
LAYERED = option(True)
"""Whether arcs are in layers."""
TEMPORAL = option(True)
"""Whether contacts are temporal."""
HAS_CALENDARS = option(True)
"""Whether rates vary: those of layers with time, or those of infectious nodes with age."""
HAS_INTERVENTIONS = option(True)
"""Whether there are interventions of any kind."""
HAS_TRACING = option(True)
"""Whether one of them is testing or contact tracing."""
HAS_SCREENING = option(False)
"""Whether nodes are tested at a rate."""
HAS_RELEASE = option(False)
"""Whether a negative test ends an isolation."""
HAS_FINDS = option(False)
"""Whether a test for the release of a contact finds a case."""
TESTS_TRACED = option(False)
"""Whether contacts are tested when they are traced."""
HAS_COMPLIANCE = option(False)
"""Whether some nodes take part in a measure with a probability."""
HAS_SEVERITY = option(False)
"""Whether a vaccination makes branches less likely."""
HAS_WANING = option(False)
"""Whether the effects of a vaccination wane."""
OWN_FACTORS = option(False)
"""Whether infections differ in how susceptible or infectious a node is."""
HAS_CAPACITIES = option(False)
"""Whether compartments have a number of places."""
HAS_LINES = option(False)
"""Whether nodes wait in lines: for the tests of each period, or for places."""
HAS_QUEUES = option(False)
"""Whether nodes wait in lines for places."""
HAS_LEAVERS = option(False)
"""Whether nodes may end their wait for a place without one."""
HAS_DOSES = option(False)
"""Whether a vaccination has several doses, or a number of doses a day."""
HAS_LIVES = option(False)
"""Whether nodes are born or die, and measures must know."""
HAS_TRIGGERS = option(True)
"""Whether a trigger starts one of them."""
HAS_COUNTERS = option(False)
"""Whether a trigger counts in a window of time, or some of the nodes."""
HAS_IMPORTATIONS = option(True)
"""Whether there are importations."""
HAS_BIRTHS = option(False)
"""Whether people have children at a rate."""
THINNED = option(True)
"""Whether an effective contact may fail to transmit."""
HAS_MOMENTS = option(True)
"""Whether events may be simultaneous (`shared.clock`)."""
MULTIGRAPH = option(False)
"""Whether two nodes may have several arcs in a layer, and nodes idle arcs to themselves."""
COMPUTED = option(False)
"""Whether arcs are computed, not stored (`shared.arcs`)."""
WIDE = option(False)
"""Whether numbers of nodes, or counts of them, may exceed 31 bits."""
LISTING = option(True)
"""Whether line lists are kept."""
COUNTING = option(False)
"""Whether what measures do is counted (`shared.tallies`)."""
AVOIDING = option(False)
"""Whether contacts that measures avoid are counted."""
COUNTING_ENTRIES = option(False)
"""Whether entries into compartments are counted."""
