"""Python threads in place of those of a GPU."""

import threading

import numpy as np


def run_threads(places, work, barriers):
    """Call ``work(block, thread)`` for all places at once; raise the first error.

    A thread that fails breaks the `barriers` at which others wait for it.
    """
    failed = []

    def watched(block, thread):
        try:
            with np.errstate(all="ignore"):
                work(block, thread)
        except BaseException as error:
            failed.append(error)
            for one in barriers:
                one.abort()

    threads = [threading.Thread(target=watched, args=place) for place in places]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if failed:
        raise failed[0]
