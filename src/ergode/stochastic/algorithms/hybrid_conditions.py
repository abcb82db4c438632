"""When a condition on continuous variables or on the time turns within a step.

Interval arithmetic over the step decides whether it does: the dense output is a cubic polynomial,
which lies between its Bernstein coefficients.  Only a part of a step in which the value cannot be
decided is divided, down to the fraction `SHORTEST` of it.
"""

from __future__ import annotations

from ergode.core.compiler.language import noinline_cpu, real
from ergode.stochastic.algorithms.hybrid_step import put_within, time_within, value_within
from ergode.stochastic.kernel.bytecode import evaluate, evaluate_bounds

# Parts of a step of this length are not divided further by intervals.
SHORTEST = 1e-6
HALVINGS = 60


@noinline_cpu
def surround(begin, end, w, state):
    """Intervals of the continuous variables over a part of the step: Bernstein coefficients."""
    third = (end - begin) / 3.0
    for k in range(state.variables.size):
        a, b = value_within(k, begin, w, state), value_within(k, end, w, state)
        slope_a = state.first[w, k] + begin * (
            2.0 * state.second[w, k] + begin * (3.0 * state.third[w, k])
        )
        slope_b = state.first[w, k] + end * (
            2.0 * state.second[w, k] + end * (3.0 * state.third[w, k])
        )
        c, d = a + third * slope_a, b - third * slope_b
        state.low[w, state.variables[k]] = min(min(a, b), min(c, d))
        state.high[w, state.variables[k]] = max(max(a, b), max(c, d))


@noinline_cpu
def _holds(program, t, length, share, w, point, net, work, state):
    """Whether a condition holds at a fraction of the step."""
    put_within(share, w, work, state)
    return evaluate(program, w, time_within(t, length, share, w, state), point, net, work) != 0.0


@noinline_cpu
def first_change(program, t, length, least, most, w, point, net, work, state):
    """The first fraction of the step at which a condition has changed since `least`; 2 if none."""
    before = _holds(program, t, length, least, w, point, net, work, state)
    at, width = least, most - least
    for variable in range(state.slots.size):
        state.low[w, variable] = work.x[w, variable]
        state.high[w, variable] = work.x[w, variable]
    while at < most:
        to = min(at + width, most)
        surround(at, to, w, state)
        low, high = evaluate_bounds(
            program, w, time_within(t, length, at, w, state),
            time_within(t, length, to, w, state), point, net, work, state,
        )  # fmt: skip
        never, always = high == 0.0 and low == 0.0, low > 0.5
        if (always and before) or (never and not before):
            at = to
            width *= 2.0
            continue
        if to - at > SHORTEST * (most - least):
            width = 0.5 * (to - at)
            continue
        if _holds(program, t, length, to, w, point, net, work, state) != before:
            low_share, high_share = at, to
            for _ in range(HALVINGS):
                middle = 0.5 * (low_share + high_share)
                if _holds(program, t, length, middle, w, point, net, work, state) != before:
                    high_share = middle
                else:
                    low_share = middle
            return high_share
        at = to
        width *= 2.0
    return real(2.0)
