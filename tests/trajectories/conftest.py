import math
from types import SimpleNamespace

import numpy as np
import pytest
from kernel_text import module_of

from ergode.trajectories.adaptive.arguments import Out, Run, Storage


def _arguments(precision):
    one, rows = np.ones(1, precision), np.ones((2, 1), precision)
    cube, ring = np.ones((2, 2, 1), precision), np.ones((4, 1, 2, 1), precision)
    counts, number = np.ones(1, np.int64), np.int64(1)
    real = one[0]
    run = Run(
        one, rows, rows, one, rows, counts, np.ones(1, np.uint8), ring, rows, real,
        real, real, real, real, number, (np.uint64(0), number), number, real, real, number,
    )  # fmt: skip
    out = Out(
        cube, np.ones((1, 1), np.int64), ring, rows, np.ones(1, np.uint8), counts, counts, one,
        cube,
    )  # fmt: skip
    return run, out, Storage(ring, cube, np.ones((2, 1), np.int64), rows)


@pytest.fixture(scope="session")
def cuda_arguments():
    """What a CUDA kernel of `adaptive` takes: `cuda_arguments(precision)`."""
    return _arguments


@pytest.fixture(scope="session")
def compiles_to_registers():
    """Check that a CUDA kernel of `adaptive` stays in registers, of its precision."""
    pytest.importorskip("numba_cuda")
    from ergode.core import kernels
    from ergode.core.devices import cuda
    from ergode.trajectories.adaptive.kernel import integrate_cuda

    def check(bindings, precision, arguments=None):
        kernel = kernels.cuda_kernel(integrate_cuda, precision=precision, bindings=bindings)
        single = precision == "float32"  # what needs memory does so in both: it is sought in one
        given = arguments or _arguments(precision)
        text = cuda.ptx(kernel.compiled("cuda"), given, optimized=single)
        assert not (single and ("__local_depot" in text or ".f64" in text))
        assert ("fma.rn.f64" in text) == (precision == "float64")

    return check


class Linear:
    """u' = rate u + first u(t - long) + second u(t - short), by variation of constants.

    J. K. Hale, S. M. Verduyn Lunel, "Introduction to Functional Differential Equations" (1993),
    chapter 1 (eqs. 6.1 and 6.2): a sum over its fundamental solution, which is a sum of powers.
    """

    def __init__(self, rate, first, second, long, short):
        self.rate, self.terms = rate, [(first, long), (second, short)]

    def fundamental(self, t):
        """The solution that jumps from 0 to 1 at t = 0."""
        (first, long), (second, short) = self.terms
        total = np.zeros_like(t)
        for i in range(int(t.max() / long) + 1):
            for j in range(int(max(t.max() - i * long, 0.0) / short) + 1):
                since = t - i * long - j * short
                share = math.comb(i + j, i) * first**i * second**j / math.factorial(i + j)
                grown = share * np.maximum(since, 0.0) ** (i + j) * np.exp(self.rate * since)
                total += np.where(since >= 0, grown, 0.0)
        return total

    def solution(self, t, begin, past, jumps=()):
        """From `begin` at 0, with `past` before it, which may jump."""
        found = begin * self.fundamental(np.array([t]))[0]
        nodes, weights = np.polynomial.legendre.leggauss(20)
        (_, long), (_, short) = self.terms
        sums = [i * long + j * short for i in range(60) for j in range(60)]
        for weight, delay in self.terms:
            kinks = [t - delay - total for total in sums]
            ends = [s for s in (*kinks, *jumps) if -delay < s < 0]
            ends = np.unique([-delay, *ends, 0.0])
            half = np.diff(ends)[:, None] / 2
            s = (ends[:-1, None] + half) + half * nodes
            there = self.fundamental((t - delay - s).ravel()).reshape(s.shape)
            found += weight * float((half * weights * there * past(s)).sum())
        return found


@pytest.fixture(scope="session")
def linear():
    """Exact solutions of a linear equation with two delays."""
    return Linear


class _Grid:
    """What a kernel asks of CUDA, for threads that are each a block of one."""

    shared = SimpleNamespace(array=lambda shape, kind: np.full(shape, np.nan, kind))
    threadIdx = SimpleNamespace(x=0)

    def grid(self, _):
        return self.thread


def _run_as_python(kernel, threads, *arguments):
    machine = _Grid()
    module = module_of(kernel.source("cuda").text, machine)
    with np.errstate(all="ignore"):
        for machine.thread in range(threads):
            module["integrate_cuda"](*arguments)


@pytest.fixture(scope="session")
def run_as_python():
    """Run the text of a CUDA kernel, a thread after the other."""
    return _run_as_python
