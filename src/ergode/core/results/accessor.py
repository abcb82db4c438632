"""The xarray accessor ``dataset.ergode``. Importing this module registers it."""

from __future__ import annotations

import xarray
from numpy.typing import ArrayLike

from ergode.core.errors import ErgodeError
from ergode.core.results.dense_output import solution
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
        first = int(self._dataset.attrs.get("first_replicate", 0))
        failed = failures(status.values, [str(dim) for dim in status.dims], first)
        if failed:
            raise ErgodeError(" ".join(failed.values()))
        return self._dataset

    def solution(self, t: ArrayLike) -> xarray.DataArray | xarray.Dataset:
        """States at any times, of a result of ``trajectories.integrate(..., dense_output=True)``.

        Parameters
        ----------
        t : float or array_like, shape [time_count]
            Times of the run, in any order [time].

        Returns
        -------
        xarray.DataArray or xarray.Dataset
            state(<swept dims>, time, variable), without the dim time of a single time; of arrays a
            Dataset of all variables by name. At the moment of an event it is the state before it;
            after the last step it is NaN.

        Raises
        ------
        ErgodeError
            The Dataset has no dense output, or a time is outside of the run.

        Examples
        --------
        >>> import ergode
        >>> def decay(t, y, p):
        ...     return (-y[0],)
        >>> result = ergode.trajectories.integrate(
        ...     ergode.VectorField(decay, ["y"]), times=[0, 1], initial={"y": 1.0},
        ...     dense_output=True, device="cpu",
        ... )
        >>> result.ergode.solution([0.25, 0.5]).dims
        ('time', 'variable')
        """
        return solution(self._dataset, t)
