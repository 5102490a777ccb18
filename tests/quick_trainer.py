"""The trainer's command line, as a process that trains for seconds: `python tests/quick_trainer.py run ...`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shared_fixtures import export_quickly
from tuned import tune_quickly

from training.__main__ import main

COMMAND = [sys.executable, str(Path(__file__).resolve())]
"""How a service of the tests starts it."""

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        tune_quickly(patch)
        export_quickly(patch)
        main()
