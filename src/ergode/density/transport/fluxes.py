"""How a kernel computes the fluxes through faces, for both schemes of transport."""

from __future__ import annotations

from ergode.core.compiler.language import option

EAGER = option(True)
"""Whether a face reads both sides instead of branching, for vector code on a CPU."""

FLUXES_FIRST = option(True)
"""Whether fluxes are stored, not computed twice."""

find_fluxes = option()
"""Computes and stores the fluxes: `find_fluxes_cpu` or `find_fluxes_cuda` of a scheme."""
