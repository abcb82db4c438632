"""The xarray accessor ``dataset.ergode``. Importing this module registers it."""

from __future__ import annotations

import xarray

from ergode.core.errors import ErgodeError
from ergode.core.status import failures


@xarray.register_dataset_accessor("ergode")
class Accessor:
    """``dataset.ergode`` of a Dataset that an engine returned."""

    def __init__(self, dataset: xarray.Dataset) -> None:
        self._dataset = dataset

    def raise_for_status(self) -> xarray.Dataset:
        """Return the Dataset if no replicate failed.

        Raises
        ------
        ErgodeError
            Some replicates failed (the message says how many, and why), or there is no `status`.
        """
        if "status" not in self._dataset:
            raise ErgodeError("this Dataset has no variable 'status' to tell how replicates ended")
        status = self._dataset["status"]
        failed = failures(status.values, [str(dim) for dim in status.dims])
        if failed:
            raise ErgodeError(" ".join(failed.values()))
        return self._dataset
