# SPDX-License-Identifier: Apache-2.0
"""What runs here."""
import os
import platform
import sys

import numpy as np

from . import _attn
from ._command import command


def show_config(mode="stdout"):
    """Prints the version, the instruction sets built in and which one runs, the threads, and where things are; mode="dicts" returns them.

    >>> attn.show_config("dicts")["version"]
    '0.1.0'
    """
    if mode not in ("stdout", "dicts"):
        raise ValueError(f"mode is {mode!r}; it must be 'stdout' or 'dicts'")
    info = _attn.Context().info()
    found = {"version": _attn.VERSION, "isa": info["isa"], "threads": info["threads"],
             "isa levels": {name: bool(usable) for name, usable in _attn.isa_levels()},
             "module": _attn.__file__, "command": command(required=False),
             "python": platform.python_version(), "numpy": np.__version__,
             "torch": getattr(sys.modules.get("torch"), "__version__", None),
             "environment": {name: value for name, value in os.environ.items() if name.startswith("ATTN_") or name == "OMP_NUM_THREADS"}}
    if mode == "dicts":
        return found
    for name, value in found.items():
        print(f"{name:12} {value}")
    return None
