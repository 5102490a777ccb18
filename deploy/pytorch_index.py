"""Prints the option with which pip finds PyTorch's build for this machine, or nothing for the default build.

    python -m pip install $(python deploy/pytorch_index.py) .

Without an NVIDIA device the CPU build serves as well, without CUDA's libraries: 0.2 GB to download instead of 2.7, and
0.7 GB on disk instead of 4.8 (PyTorch 2.13). TORCH_INDEX_URL names another index; empty, it asks for the default build.
Imports only the standard library, since nothing is installed yet.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
TIMEOUT_S = 10
NVIDIA_DEVICES = (Path("/dev/nvidiactl"), Path("/usr/lib/wsl/lib/nvidia-smi"))
"""Of the driver on Linux, and in Windows' subsystem for Linux."""


def index_url(environ: Mapping[str, str]) -> str:
    """The index to add, or ''. Says on standard error if PyTorch's own cannot be reached."""
    default = "" if sys.platform != "linux" or any(map(Path.exists, NVIDIA_DEVICES)) else CPU_INDEX
    url = environ.get("TORCH_INDEX_URL", default)
    # pip itself reports what is wrong with another index. Nobody may know that this one is asked for.
    if url == CPU_INDEX and (fault := _fault(f"{url}/torch/")):
        print(f"{url} cannot be reached ({fault}): pip takes PyTorch's default build, 2.7 GB", file=sys.stderr)
        return ""
    return url


def _fault(url: str) -> str | None:
    """What is wrong with `url`, or None if it answers."""
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=TIMEOUT_S).close()
    except urllib.error.HTTPError as error:
        return str(error)
    except OSError as error:
        return str(getattr(error, "reason", error))
    return None


if __name__ == "__main__":
    if url := index_url(os.environ):
        print("--extra-index-url", url)
