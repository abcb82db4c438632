"""Where computations run: the devices of this machine, their arrays and their memory."""

from ergode.core.devices.choice import check_name, present, resolve, several
from ergode.core.devices.device import CPU, CUDA, Device, spans

__all__ = ["CPU", "CUDA", "Device", "check_name", "present", "resolve", "several", "spans"]
