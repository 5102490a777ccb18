"""The trainer's command line, as a process that trains for seconds: `python -m quick_trainer run ...`."""

from __future__ import annotations

import sys

import pytest
import warm
from shared_fixtures import export_quickly
from tuned import tune_quickly

from training.__main__ import main

COMMAND = [sys.executable, "-I", "-S", warm.__file__, "-m", "quick_trainer"]
"""How a service of the tests starts it, where `warm.VARIABLE` is set."""

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        tune_quickly(patch)
        export_quickly(patch)
        main()
