"""Makes Python three to five times slower, and so stands in for a slow machine.

    PYTHONPATH=tests/slow_python python -m pytest tests/app/formats/test_pdf.py

Python calls a function that does nothing at each line of each process.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any


def trace(frame: FrameType, event: str, argument: Any) -> Any:
    return trace


threading.settrace(trace)
sys.settrace(trace)
