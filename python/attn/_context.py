# SPDX-License-Identifier: Apache-2.0
"""One context for each thread, so that any number of threads may call at once."""
import threading

from . import _attn


class _PerThread(threading.local):
    context = None


# Another object after each set_num_threads: then no thread has a context.
_asked, _own = 0, _PerThread()


def context():
    """The context of this thread."""
    return _own.context or _made()


def _made():
    own = _own
    own.context = _attn.Context(_asked)
    return own.context


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
    global _asked, _own
    _asked, _own = int(n), _PerThread()


def get_num_threads():
    """The threads that a call may use."""
    return _attn.Context(_asked).info()["threads"]
