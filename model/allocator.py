"""Keeps freed memory in the process, or gives it back. Knows the C library's allocator; nothing of tensors."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # <malloc.h>
_LARGEST_MMAP_THRESHOLD = 32 << 20  # bytes; glibc refuses more


def keep_freed_memory() -> bool:
    """Tells glibc to reuse large buffers instead of giving them back to the system; True if it did.

    PyTorch on a CPU allocates the same large buffers at every step. By default glibc maps and unmaps each, and the
    page faults cost about as much as the arithmetic. What is free by now is given back first: what loading needed
    would stay for ever. Does nothing on other C libraries.
    """
    if not give_freed_memory_back():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = {_M_MMAP_THRESHOLD: _LARGEST_MMAP_THRESHOLD, _M_TRIM_THRESHOLD: 2**31 - 1, _M_TOP_PAD: 64 << 20}
    accepted = [mallopt(name, value) == 1 for name, value in settings.items()]
    return all(accepted)


def give_freed_memory_back() -> bool:
    """Tells glibc to give free pages between those in use back to the system, which it never does by itself.

    True if it was told; does nothing on other C libraries. Takes about 0.1 s for 100 MB.
    """
    if not sys.platform.startswith("linux"):
        return False
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is None:
        return False
    malloc_trim(0)
    return True
