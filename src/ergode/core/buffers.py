"""Arrays on a device that are kept from call to call."""

from __future__ import annotations

from typing import Any

from ergode.core.devices import Device


class Scratch:
    """Arrays by name, each as large as it was asked for last.

    Parameters
    ----------
    device : Device
        Where they are.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._held: dict[str, Any] = {}

    def array(self, name: str, shape: int | tuple[int, ...], dtype: Any, zero: bool = False) -> Any:
        """The array of a name, as the last call left it, unless its shape is another; or zeros."""
        held = self._held.get(name)
        if held is None or held.shape != (shape if isinstance(shape, tuple) else (shape,)):
            self._held.pop(name, None)  # first free the one of another size
            self._held[name] = held = self._device.empty(shape, dtype)
        if zero:
            self._device.fill_zero(held)
        return held
