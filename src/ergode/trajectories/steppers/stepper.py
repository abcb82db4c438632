"""The interface of a method of integration: its step, and the stages for dense output.

    step(t, h, y, f, history, p, rtol, atol) -> y1, f1, k, error, correction
    completed(t, h, y, k, history, p) -> k

`f` and `f1` are the slopes at both ends.  `k` holds the stages for the dense output (see
`inside_step.between`).  `error` and `correction` are error estimates; `correction` may be empty.

A method with PROBES gives as `correction` the error of its dense output at these fractions of the
step, of each variable the larger.  Stages lie off the solution where equations are stiff, so that
the error at the end of a step says nothing about the states within.  With the slopes u' of the
dense output u, the error is

    (1 / (h gamma) - J)^-1 (u' - f(t, u)),

in a stiff variable the distance from the values that it follows.  Only steps that are looked into
are judged by it: those that pass a time to save, or all.
"""

from __future__ import annotations

from ergode.core.compiler.language import option


def whole(t, h, y, k, history, p):
    """The stages of a step: `completed` of a method without extra stages."""
    return k


step = option()
completed = option(whole)
DENSE = option(((1.0,), (0.0,)))  # for each stage, the coefficients of x, x^2, ... of its weight
ADAPTS = option(True)  # whether tolerances choose the steps; else all are of one size
TOLERANCES = option(False)  # whether every variable has an absolute tolerance of its own
STIFF = option(False)  # whether the method is implicit
PROBES = option(())  # fractions of a step at which the dense output is checked
SEARCHED = option(False)  # whether all steps are looked into, for events or observables
ERROR_ORDER = option(5.0)  # the estimated error falls as step to this power


def absolute(atol, i):
    """The absolute tolerance of a variable."""
    if TOLERANCES:
        return atol[i]
    else:  # TOLERANCES is an option: only one branch is compiled
        return atol
