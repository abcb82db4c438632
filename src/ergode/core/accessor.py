"""What ergode adds to an xarray Dataset: ``dataset.ergode``. Importing this registers it."""

from __future__ import annotations

import numpy as np
import xarray

from ergode.core.errors import ErgodeError
from ergode.core.status import Status


@xarray.register_dataset_accessor("ergode")
class Accessor:
    """``dataset.ergode`` of a Dataset that an engine returned."""

    def __init__(self, dataset: xarray.Dataset) -> None:
        self._dataset = dataset

    def raise_for_status(self) -> xarray.Dataset:
        """The Dataset, if every replicate ended well.

        Raises
        ------
        ErgodeError
            Some did not; the message says how many, and why. Or the Dataset has no status.
        """
        if "status" not in self._dataset:
            raise ErgodeError("this Dataset has no variable 'status' to tell how replicates ended")
        codes, counts = np.unique(self._dataset["status"], return_counts=True)
        failed = [
            f"{count} of {self._dataset['status'].size} replicates: {Status(code).sentence}"
            for code, count in zip(codes.tolist(), counts.tolist(), strict=True)
            if Status(code).is_error
        ]
        if failed:
            raise ErgodeError("; ".join(failed))
        return self._dataset
