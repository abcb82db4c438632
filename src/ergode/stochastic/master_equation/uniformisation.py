r"""Probabilities over time, by uniformisation on states that grow where probability leaks.

Let Q be the matrix of the rates between the states J that are followed, L at least the rate out of
any of them, and P = I + Q / L.  Then

    exp(Q t) p = sum over k of  exp(-L t) (L t)^k / k!  P^k p

All terms are non-negative.  Three things are left out: later terms, changes that lead out of J, and
states that are given up.  Each makes probabilities smaller, and none makes one larger (Munsky &
Khammash 2006, theorem 2.2).  So every probability found is a lower bound, and one minus their sum
is the whole error.

A step that would lose more than its share is not taken: the states to which probability leaked are
added, with those that can be reached from them in one step, and the step is tried again.

References
----------
B. Munsky, M. Khammash, "The finite state projection algorithm for the solution of the chemical
master equation", J. Chem. Phys. 124 044104 (2006).  A. Jensen, "Markoff chains as an aid in the
study of Markoff processes", Skand. Aktuarietidskr. 36 (1953).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse
import scipy.special
from scipy.linalg.blas import daxpy

from ergode.stochastic.master_equation.states import StateSpace

# Mean number of jumps in a step: at first and where states are added, and at most.
_JUMPS, _JUMPS_MOST = 48.0, 2000.0
# Matrices of up to FEW states are squared if there are more than _MANY jumps, and more than _WORTH
# times the cube of the number of states: then squaring is less work.
FEW, _MANY, _WORTH = 1500, 1e4, 1e-3
# Steps without new states before that: squares of a matrix that is too small are work in vain.
_CALM = 8
# Shares of a step's error.
_LEAK, _TAIL, _GIVEN_UP = 0.6, 0.1, 0.3
# Part of the allowed leak that growing leaves for later.
_LEFT = 1e-3
# Terms between two looks at the leak.
_LOOK = 12


class Evolution:
    """Probabilities `p` [state] of states from time to time; at first, of the first state alone.

    `loss_rate` is the probability that may be lost per unit of time. `products` counts products of
    the matrix with a vector, and `largest` is the largest number of states.
    """

    def __init__(self, space: StateSpace, begin: float, loss_rate: float) -> None:
        self.space, self.time, self.loss_rate = space, begin, loss_rate
        self.p = np.ones(1)
        self.products, self.largest = 0, 1
        self._jumps, self._kept, self._calm = _JUMPS, 1000, 0
        self._refresh()

    def _refresh(self) -> None:
        """Make the matrix P and the ways out anew."""
        space = self.space
        matrix, total = space.generator()
        self.fastest = float(total.max(initial=0.0))
        scale = max(self.fastest, 1e-300)
        stay = scipy.sparse.diags(1.0 - total / scale)
        self._jump = scipy.sparse.csr_matrix(matrix / scale + stay)
        self._change, self._source = space.ways_out()
        self._out = space.rates[self._change, self._source]
        self.p = np.concatenate([self.p, np.zeros(space.count - self.p.size)])
        self.largest = max(self.largest, space.count)

    def take_rates_of(self, time: float) -> None:
        """Go on with the rates of another time."""
        self.space.set_time(time)
        self._refresh()

    def advance(self, end: float, report: Callable[[float], None] = lambda _: None) -> None:
        """Go on to a time between which and now no rate changes."""
        left = end - self.time  # counted down, which does not round as late times do
        while left > 0 and self.fastest > 0:
            count = self.space.count
            is_worth = count <= FEW and self.fastest * left > _MANY + _WORTH * count**3
            is_stiff = is_worth and (self._calm >= _CALM or not self._source.size)
            step = left if is_stiff else min(left, self._jumps / self.fastest)
            allowed = self.loss_rate * step
            found, leak = self._square(step) if is_stiff else self._try(step, allowed)
            if leak.sum() > _LEAK * allowed:
                self._grow(leak, step, allowed)
                self._jumps = max(_JUMPS, 0.5 * self._jumps)
                self._calm = 0
                continue
            self.p = found
            left -= step
            self._calm += 1
            self._jumps = min(_JUMPS_MOST, 1.5 * self._jumps)
            self._give_up(_GIVEN_UP * allowed)
            report(step)
        self.time = end

    def _try(self, step: float, allowed: float) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities after a step, and what was lost by each way out; or the losses so far."""
        weights, beyond = _poisson(self.fastest * step, _TAIL * allowed)
        seen = np.zeros(self._source.size)
        v = self.p
        found = weights[0] * v
        seen += beyond[0] * v[self._source]
        for k in range(1, weights.size):
            v = self._jump @ v
            daxpy(v, found, a=weights[k])
            if seen.size:
                seen += beyond[k] * v[self._source]
                if k % _LOOK == 0 and (self._out @ seen) > _LEAK * allowed * self.fastest:
                    break
        self.products += weights.size
        return found, self._out * seen / self.fastest

    def _square(self, step: float) -> tuple[np.ndarray, np.ndarray]:
        """As `_try`, for few states and many jumps: by squaring the matrix of a short step.

        With M(h) = exp(Q h) and S(h) its integral from 0 to h: M(2 h) = M(h)^2 and
        S(2 h) = S(h) + S(h) M(h).  What stays and what leaves add up to one, which holds rounding
        errors back that squaring would double.
        """
        jumps = self.fastest * step
        doublings = max(0, int(np.ceil(np.log2(jumps))))
        jump = self._jump.toarray()
        leaves = np.bincount(self._source, self._out, self.space.count)
        weights, beyond = _poisson(jumps / 2**doublings, 0.0)
        power = np.eye(self.space.count)
        inside, seen = weights[0] * power, beyond[0] * power
        for weight, more in zip(weights[1:], beyond[1:], strict=True):
            power = jump @ power
            inside += weight * power
            seen += more * power
        seen /= self.fastest
        for k in range(doublings + 1):
            if k:
                seen += seen @ inside
                inside = inside @ inside
            stays = np.maximum(1.0 - leaves @ seen, 0.0)
            inside *= stays / np.maximum(inside.sum(axis=0), 1e-300)
        self.products += (2 * doublings + weights.size) * self.space.count
        return inside @ self.p, self._out * (seen @ self.p)[self._source]

    def _grow(self, leak: np.ndarray, step: float, allowed: float) -> None:
        """Add where probability leaked to, and what may be reached from there in a step."""
        space = self.space
        step = min(step, 4 * _JUMPS / self.fastest)
        states = space.states[self._source] + space.law.changes[self._change]
        weights = leak
        jumps = self.fastest * step
        most = int(jumps + 6 * np.sqrt(jumps) + 10)
        # Of at least 1, 2, ... jumps.
        arrives = scipy.special.gammainc(np.arange(1, most + 1), jumps)
        for arrival in arrives:
            states, weights = space.distinct(states, weights)
            order = np.argsort(weights)
            few = np.cumsum(weights[order]) * arrival <= _LEFT * allowed
            chosen = order[~few]
            if not chosen.size:
                break
            states, weights = states[chosen], weights[chosen]
            rates = space.add(states)
            weights = weights * rates / np.maximum(rates.sum(axis=0), 1e-300)
            change, source = np.nonzero(weights)
            weights = weights[change, source]
            states = states[source] + space.law.changes[change]
            new = space.find(states) < 0
            states, weights = states[new], weights[new]
            if not new.any():
                break
        space.link()
        self._refresh()

    def _give_up(self, allowed: float) -> None:
        """Forget the least probable states, where there are many of them."""
        if self.space.count < 1.3 * self._kept:
            return
        order = np.argsort(self.p)
        few = order[np.cumsum(self.p[order]) <= allowed]
        if few.size > 0.3 * self.space.count:
            chosen = np.ones(self.space.count, bool)
            chosen[few] = False
            self.space.keep(chosen)
            self.p = self.p[chosen]
            self._refresh()
        self._kept = max(1000, self.space.count)


def _poisson(mean: float, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of 0, 1, ... up to a tail that is left out, and of more than each of them."""
    most = int(mean + 10 * np.sqrt(mean) + 40)
    mode = int(mean)
    up = np.cumprod(mean / np.arange(mode + 1, most + 1))
    down = np.cumprod(np.arange(mode, 0, -1) / mean)
    weights = np.concatenate([down[::-1], [1.0], up])
    weights /= weights.sum()
    beyond = np.concatenate([np.cumsum(weights[:0:-1])[::-1], [0.0]])
    last = int(np.argmax(beyond <= tail))
    return weights[: last + 1], beyond[: last + 1]
