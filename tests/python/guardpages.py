# SPDX-License-Identifier: Apache-2.0
"""Arrays beside a page that cannot be touched: reading or writing past them ends the process."""
import contextlib
import ctypes
import mmap
from ctypes import c_int, c_int64, c_size_t, c_void_p

import numpy as np

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype, LIBC.mmap.argtypes = c_void_p, [c_void_p, c_size_t, c_int, c_int, c_int, c_int64]
LIBC.mprotect.argtypes, LIBC.munmap.argtypes = [c_void_p, c_size_t, c_int], [c_void_p, c_size_t]
FAILED, PROT_NONE, PAGE = c_void_p(-1).value, 0, mmap.PAGESIZE


def _map(size):
    """(address, length) of whole pages for `size` bytes between two forbidden pages; the pages included."""
    length = (-(-size // PAGE) + 2) * PAGE
    address = LIBC.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if address == FAILED or LIBC.mprotect(address, PAGE, PROT_NONE) or LIBC.mprotect(address + length - PAGE, PAGE, PROT_NONE):
        raise OSError(ctypes.get_errno(), "guard pages")
    return address, length


@contextlib.contextmanager
def guarded(end):
    """Gives place(a): a packed copy of a that ends where a forbidden page begins, or (end false) begins where one ends.

    The copies must not be used after the with statement.
    """
    maps = []

    def place(a):
        if a.nbytes == 0:
            return a.copy()
        address, length = _map(a.nbytes)
        maps.append((address, length))
        begin = address + length - PAGE - a.nbytes if end else address + PAGE
        copy = np.ndarray(a.shape, a.dtype, (ctypes.c_char * a.nbytes).from_address(begin))
        copy[...] = a
        return copy

    try:
        yield place
    finally:
        for address, length in maps:
            LIBC.munmap(address, length)
