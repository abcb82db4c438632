"""The text that the kernel of `windows` compiles to for CUDA, on any machine."""

import numpy as np

from ergode.core import kernels
from ergode.epidemics.shared.importation import ImportedCases
from ergode.epidemics.shared.sweep import rows_from
from ergode.epidemics.windows.buffers import new_buffers
from ergode.epidemics.windows.kernel import windows_cuda
from ergode.epidemics.windows.path import HUBS
from ergode.epidemics.windows.state import Epidemic


def ptx_of(ensemble, precision, group=None):
    from ergode.core.devices import cuda

    bindings = ensemble.bindings | {HUBS: True}
    kernel = kernels.cuda_kernel(windows_cuda, precision=precision, bindings=bindings)
    none = ImportedCases(
        *(np.zeros(1, kind) for kind in (np.int64, np.int32, precision, np.int32, precision))
    )
    paths, triggers, tracing, lines, recent, queue, waiting, results, work = new_buffers(
        ensemble.node_count, 2, ensemble.tables, ensemble.bindings, precision,
        (ensemble.times.size, ensemble.column_count), 5, 4, 5, np.zeros,
    )  # fmt: skip
    epidemic = Epidemic(
        ensemble.contacts, ensemble.tables, none, paths, triggers, tracing, lines, recent,
        ensemble.seed,
    )  # fmt: skip
    arguments = epidemic, rows_from(0, group), 5, ensemble.width, queue, waiting, results, work
    return cuda.ptx(kernel.compiled("cuda"), arguments)  # as it is, it takes longer
