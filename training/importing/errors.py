"""The error of models that cannot be imported."""

from __future__ import annotations


class ImportFault(ValueError):
    """A model cannot be imported; one line says why."""
