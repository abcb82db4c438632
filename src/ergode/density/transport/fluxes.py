"""How a kernel finds the fluxes through the faces of cells, by either scheme of transport."""

from __future__ import annotations

from ergode.core.compiler.language import option

EAGER = option(True)
"""Whether a face looks at both sides rather than branches: vector code on a CPU prefers that."""

FLUXES_FIRST = option(True)
"""Whether fluxes are kept rather than found twice."""

find_fluxes = option()
"""Finds and keeps the fluxes: `find_fluxes_cpu` or `find_fluxes_cuda` of a scheme."""
