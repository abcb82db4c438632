"""Results that are arguments of a call: their inputs, and a digest of their values."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ergode.core.digests import digest_of

_COUNTED = 1 << 20  # bytes of a variable whose values are part of the digest
INPUTS = "inputs"


def is_result(value: Any) -> bool:
    """Whether a value is a Dataset, or a DataArray with inputs."""
    attrs = getattr(value, "attrs", None)
    return isinstance(attrs, dict) and (hasattr(value, "data_vars") or INPUTS in attrs)


def digest_of_result(value: Any) -> str:
    """Digest of the inputs, the sizes, and the values of variables of up to 1 MB."""
    variables = dict(value.variables if hasattr(value, "data_vars") else value.coords)
    if not hasattr(value, "data_vars"):
        variables[""] = value.variable
    parts = {
        str(name): [
            list(map(str, one.dims)), list(one.shape), str(one.dtype),
            np.asarray(one.values) if one.nbytes <= _COUNTED else None,
        ]
        for name, one in variables.items()
    }  # fmt: skip
    return digest_of([value.attrs.get(INPUTS), parts])


def text_of_result(value: Any, digest: str) -> str:
    """The entry of a result."""
    kind, own = type(value), value.attrs.get(INPUTS)
    sizes = json.dumps({str(dim): int(size) for dim, size in value.sizes.items()})
    inputs = own if isinstance(own, str) else "null"
    return (
        f'{{"object": "xarray:{kind.__name__}", "digest": "{digest}", "sizes": {sizes}, '
        f'"inputs": {inputs}}}'
    )
