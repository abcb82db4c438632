"""The three things that can be wrong: a model, a plan, a file."""


class ErgodeError(Exception):
    """Base of every error this library raises on purpose."""


class ModelError(ErgodeError, ValueError):
    """What the user described cannot be: an unknown name, a negative rate, a NaN weight."""


class PlanError(ErgodeError, RuntimeError):
    """The model is sound but cannot be run as asked: memory, device, method or option."""


class ReadError(ErgodeError, ValueError):
    """A file could not be understood; the message names the file and the line or element."""
