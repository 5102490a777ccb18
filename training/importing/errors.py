"""The error of models that cannot be imported."""

from __future__ import annotations


class ImportFault(ValueError):
    """A model cannot be imported; one line says why. `passes`: whether that may change without anybody's doing."""

    def __init__(self, text: str, passes: bool = False) -> None:
        super().__init__(text)
        self.passes = passes
