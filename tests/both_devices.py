"""One call on both devices."""


def on_both(call, *arguments, **options):
    """What a call gives on a CPU and on a GPU."""
    return [call(*arguments, device=device, **options) for device in ("cpu", "cuda")]
