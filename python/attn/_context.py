# SPDX-License-Identifier: Apache-2.0
"""One context for each thread, so that any number of threads may call at once."""
import threading

from . import _attn


class _PerThread(threading.local):
    context = None
    threads = 0


_own = _PerThread()
_asked = {"threads": 0}


def context():
    """The context of this thread."""
    found = _own.context
    if found is None or _own.threads != _asked["threads"]:
        found = _own.context = _attn.Context(_asked["threads"])
        _own.threads = _asked["threads"]
    return found


def set_num_threads(n):
    """How many threads each call may use from now on; 0 = $ATTN_NUM_THREADS, else $OMP_NUM_THREADS, else the CPUs of this process.

    A result's bits do not depend on it.

    >>> attn.set_num_threads(1)
    >>> attn.get_num_threads()
    1
    >>> attn.set_num_threads(0)
    """
    if n < 0:
        raise ValueError(f"the number of threads is {n}; it must be 0 or more")
    _asked["threads"] = int(n)


def get_num_threads():
    """The threads that a call may use."""
    return _attn.Context(_asked["threads"]).info()["threads"]
